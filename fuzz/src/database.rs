//! A database of which one file is the input.

use super::assemble::mend_footer;
use super::log::mend_log;
use spanlith::options::{BlockBasedTableOptions, CfOptions, CompressionType};
use spanlith::{Db, Result};
use spanlith_env::{Env, FileSystem, MemFs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

const DIR: &str = "/db";

fn builder(fs: &Arc<MemFs>) -> spanlith::OpenBuilder {
    let (env, ..) = Env::test(fs.clone(), 9);
    let mut cf = CfOptions::default();
    cf.disable_auto_compactions = true;
    cf.compression = CompressionType::Lz4;
    let mut table = BlockBasedTableOptions::default();
    table.filter_policy = "bloomfilter:10:false".to_string();
    table.block_size = 128;
    Db::builder(DIR)
        .create_if_missing(true)
        .cf_options(cf)
        .table_options(table)
        .env(env)
        .no_info_log()
}

fn make() -> Result<MemFs> {
    let fs = Arc::new(MemFs::new());
    let db = builder(&fs).open()?;
    let cf = db.default_cf();
    for i in 0..12 {
        cf.put(format!("key{i:02}"), format!("value {i}"))?;
    }
    db.flush(true)?;
    cf.delete("key03")?;
    cf.put("key04", "new")?;
    db.sync()?;
    Ok(fs.process_crash_clone())
}

/// The sound database.
fn image() -> &'static MemFs {
    static IMAGE: OnceLock<MemFs> = OnceLock::new();
    IMAGE.get_or_init(|| make().unwrap_or_else(|e| panic!("the sound database: {e}")))
}

/// Returns what bits 1..4 of byte 0 choose.
fn kind_of(name: &str) -> u8 {
    match name {
        "CURRENT" => 0,
        "IDENTITY" => 1,
        n if n.starts_with("MANIFEST-") => 2,
        n if n.starts_with("OPTIONS-") => 3,
        n if n.ends_with(".log") => 4,
        n if n.ends_with(".sst") => 5,
        _ => 6,
    }
}

fn files() -> Vec<(u8, PathBuf)> {
    let names = image().list(Path::new(DIR)).unwrap_or_default();
    let named = names.iter().map(|n| (kind_of(n), Path::new(DIR).join(n)));
    named.collect()
}

/// An input for each file of the sound database.
pub fn seeds() -> Vec<(u8, Vec<u8>)> {
    let mut out = Vec::new();
    for (kind, path) in files() {
        if kind < 6
            && let Ok(bytes) = image().read_file(&path)
        {
            out.push((kind, [vec![kind << 1], bytes].concat()));
        }
    }
    out
}

/// Opens the database with one file replaced. Byte 0: bit 0 leaves checksums alone, bits 1..4 choose
/// the file; its bytes follow. What opens is read, written, closed and opened again.
pub fn database(data: &[u8]) {
    let Some((&flags, bytes)) = data.split_first() else {
        return;
    };
    let kind = flags >> 1 & 7;
    let Some((_, path)) = files().into_iter().find(|(k, _)| *k == kind && kind < 6) else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if flags & 1 == 0 {
        match kind {
            2 | 4 => mend_log(&mut bytes),
            5 => {
                if let Some(at) = bytes.len().checked_sub(53) {
                    mend_footer(&mut bytes, at as u64);
                }
            }
            _ => {}
        }
    }
    let fs = image().process_crash_clone();
    if fs.write_file(&path, &bytes).is_err() {
        return;
    }
    let fs = Arc::new(fs);
    if let Ok(db) = builder(&fs).open_read_only() {
        read(&db);
    }
    let Ok(db) = builder(&fs).open() else {
        return;
    };
    let sound = read(&db);
    let cf = db.default_cf();
    let wrote = sound && cf.put("key99", "written").and_then(|()| db.sync()).is_ok();
    drop(cf);
    drop(db);
    // A MANIFEST or table that lies under a right checksum may hide what is written later.
    if wrote && (flags & 1 != 0 || !matches!(kind, 2 | 5)) {
        let db = builder(&fs).open();
        let db = db.unwrap_or_else(|e| panic!("O1: opened once, but not again: {e}"));
        let value = db.default_cf().get("key99");
        assert_eq!(
            value.ok().flatten().as_deref(),
            Some(&b"written"[..]),
            "WAL1"
        );
    }
}

/// Returns whether everything could be read.
fn read(db: &Db) -> bool {
    let cf = db.default_cf();
    let mut sound = true;
    for entry in cf.iter().take(10_000) {
        match entry {
            Ok((key, _)) => {
                let _ = cf.get(&key);
            }
            Err(_) => {
                sound = false;
                break;
            }
        }
    }
    sound & cf.get("key04").is_ok()
}
