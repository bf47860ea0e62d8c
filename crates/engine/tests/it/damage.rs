//! Every byte of every file kind flipped, set, and cut: an error with RocksDB's kind that names the
//! file, or the right contents. Never a panic, a hang, or something nobody wrote.
//!
//! Silent loss is allowed only where nothing proves that the bytes had been durable, as in RocksDB:
//! after damage in a log without witness (point-in-time recovery drops the rest).

use spanlith::options::{BlockBasedTableOptions, CfOptions, CompressionType};
use spanlith::{Db, Error, ErrorKind, Result};
use spanlith_env::{Env, FileSystem, MemFs};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(fs: &Arc<MemFs>) -> Result<Db> {
    let (env, ..) = Env::test(fs.clone(), 9);
    let mut cf = CfOptions::default();
    cf.disable_auto_compactions = true;
    cf.compression = CompressionType::Lz4;
    let mut table = BlockBasedTableOptions::default();
    table.filter_policy = "bloomfilter:10:false".to_string();
    table.block_size = 256;
    Db::builder("/db")
        .create_if_missing(true)
        .cf_options(cf)
        .table_options(table)
        .env(env)
        .no_info_log()
        .open()
}

/// A database with a table in the last level, one in level 0, and records in the log.
fn image() -> (MemFs, Rows) {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs).unwrap();
    let cf = db.default_cf();
    let mut rows = Rows::new();
    let mut put = |i: u32, tag: &str| {
        let (k, v) = (format!("key{i:03}"), format!("{tag}{}", "value ".repeat(4)));
        cf.put(&k, &v).unwrap();
        rows.insert(k.into_bytes(), v.into_bytes());
    };
    for i in 0..40 {
        put(i, "old");
    }
    db.flush(true).unwrap();
    cf.compact_range(None, None).unwrap();
    for i in 10..20 {
        put(i, "new");
    }
    db.flush(true).unwrap();
    for i in 15..25 {
        put(i, "log");
    }
    db.sync().unwrap();
    let image = fs.process_crash_clone();
    drop(cf);
    (image, rows)
}

fn contents(fs: MemFs) -> Result<Rows> {
    let fs = Arc::new(fs);
    let db = open(&fs)?;
    let cf = db.default_cf();
    let rows: Rows = cf
        .iter()
        .map(|e| e.map(|(k, v)| (k.into_vec(), v.into_vec())))
        .collect::<Result<_>>()?;
    for (k, v) in &rows {
        assert_eq!(cf.get(k)?.as_deref(), Some(&v[..]), "get and scan disagree");
    }
    Ok(rows)
}

/// Returns what the database holds without the log.
fn tables_only(rows: &Rows) -> Rows {
    let mut out = rows.clone();
    for i in 15..25u32 {
        let tag = if i < 20 { "new" } else { "old" };
        out.insert(
            format!("key{i:03}").into_bytes(),
            format!("{tag}{}", "value ".repeat(4)).into_bytes(),
        );
    }
    out
}

/// Judges what was read from a damaged image. `silent` counts losses without an error.
fn judge(
    name: &str,
    what: &str,
    got: Result<Rows>,
    rows: &Rows,
    silent: &mut BTreeMap<String, u32>,
) {
    let kind = name.trim_start_matches(|c: char| c.is_ascii_digit());
    match got {
        Ok(found) if found == *rows => {}
        Ok(found) => {
            let floor = tables_only(rows);
            let is_log = kind == ".log";
            let is_manifest = kind.starts_with("MANIFEST");
            assert!(is_log || is_manifest, "{what}: opened with other contents");
            *silent
                .entry(kind.split('-').next().unwrap_or(kind).to_string())
                .or_default() += 1;
            if is_log {
                // A prefix of the log over the tables.
                let mut ended = false;
                for i in 15..25u32 {
                    let k = format!("key{i:03}").into_bytes();
                    let new = found.get(&k) == rows.get(&k);
                    assert!(new || found.get(&k) == floor.get(&k), "{what}: invented");
                    assert!(!(ended && new), "{what}: a hole in the log");
                    ended |= !new;
                }
            }
        }
        Err(e) => fair(name, what, &e),
    }
}

fn fair(name: &str, what: &str, e: &Error) {
    let text = e.to_string();
    assert!(
        matches!(
            e.kind(),
            ErrorKind::Corruption
                | ErrorKind::NotSupported
                | ErrorKind::InvalidArgument
                | ErrorKind::Io
        ),
        "{what}: {text}"
    );
    let named = text.contains(name)
        || text.contains("CURRENT")
        || text.contains("MANIFEST")
        || e.path().is_some_and(|p| p.ends_with(name));
    assert!(named, "{what}: does not name the file: {text}");
}

fn files(fs: &MemFs) -> Vec<(String, PathBuf)> {
    let dir = Path::new("/db");
    fs.list(dir)
        .unwrap()
        .into_iter()
        .map(|n| (n.clone(), dir.join(n)))
        .collect()
}

#[test]
fn every_changed_byte_is_an_error_or_harmless() {
    crate::suite_disk::needs_table_files("an error over tables that CURRENT lost names a table");
    let (image, rows) = image();
    assert_eq!(contents(image.process_crash_clone()).unwrap(), rows);
    let mut silent = BTreeMap::new();
    let mut cases = 0;
    for (name, path) in files(&image) {
        let bytes = image.read_file(&path).unwrap();
        // The OPTIONS file is advisory and long: a stride is enough.
        let stride = if name.starts_with("OPTIONS") { 97 } else { 1 };
        for at in (0..bytes.len()).step_by(stride) {
            for change in [0x01u8, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = if change == 0xff {
                    0xff
                } else {
                    damaged[at] ^ change
                };
                if damaged == bytes {
                    continue;
                }
                let fs = image.process_crash_clone();
                fs.write_file(&path, &damaged).unwrap();
                cases += 1;
                let what = format!("{name} offset {at} change {change:#x}");
                judge(&name, &what, contents(fs), &rows, &mut silent);
            }
        }
    }
    assert!(cases > 10_000, "{cases}");
    // In the log only the changes of the first nine records and their headers lose something.
    if crate::suite_disk::has_log_files() {
        assert!(silent.get(".log").is_some_and(|n| *n > 1_000), "{silent:?}");
    }
    assert_eq!(silent.get("MANIFEST"), None, "{silent:?}");
}

#[test]
fn every_truncation_is_an_error_or_a_shorter_log() {
    crate::suite_disk::needs_table_files("an error over tables that CURRENT lost names a table");
    let (image, rows) = image();
    let mut silent = BTreeMap::new();
    for (name, path) in files(&image) {
        let bytes = image.read_file(&path).unwrap();
        let stride = if name.starts_with("OPTIONS") { 211 } else { 1 };
        for len in (0..bytes.len()).step_by(stride) {
            let fs = image.process_crash_clone();
            fs.write_file(&path, &bytes[..len]).unwrap();
            let what = format!("{name} cut to {len}");
            judge(&name, &what, contents(fs), &rows, &mut silent);
        }
        let fs = image.process_crash_clone();
        fs.delete(&path).unwrap();
        let got = contents(fs);
        if name == "CURRENT" {
            // Without CURRENT this is no database: creating one beside an old log is refused.
            assert!(got.is_err(), "CURRENT deleted");
        } else {
            judge(&name, &format!("{name} deleted"), got, &rows, &mut silent);
        }
    }
    assert_eq!(silent.get("MANIFEST"), None, "{silent:?}");
}
