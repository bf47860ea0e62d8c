//! Limits of what files and options may say, each looked at below, at and above it: beyond it there is
//! an error, never a panic, and nothing is changed.

use spanlith::options::CfOptions;
use spanlith::version::filenames::FILE_NUMBER_MAX;
use spanlith::version::{FileKind, VersionEdit, parse_file_name};
use spanlith::{Db, ErrorKind, Result};
use spanlith_base::MAX_SEQUENCE;
use spanlith_base::keys::ENTRY_MAX;
use spanlith_env::{Env, FileSystem, IoActivity, MemFs};
use spanlith_wal::LogWriter;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

/// Says what an open leaves free for files to come.
const NUMBERS_LEFT: u64 = 1 << 40;

/// A directory whose MANIFEST has these records.
fn directory(edits: &[VersionEdit]) -> Arc<MemFs> {
    let fs = Arc::new(MemFs::new());
    let put = |name: &str, bytes: &[u8]| {
        fs.write_file(&Path::new(DIR).join(name), bytes).unwrap();
    };
    put("IDENTITY", b"some-database\n");
    put("CURRENT", b"MANIFEST-000005\n");
    let path = Path::new(DIR).join("MANIFEST-000005");
    let mut log = LogWriter::new(fs.create(&path, IoActivity::Manifest).unwrap(), 0);
    for edit in edits {
        log.add_record(&edit.encode()).unwrap();
    }
    log.sync().unwrap();
    fs
}

fn open(fs: &Arc<MemFs>) -> Result<Db> {
    let (env, ..) = Env::test(fs.clone(), 3);
    Db::builder(DIR).env(env).no_info_log().open()
}

/// The records of an empty database.
fn base() -> VersionEdit {
    VersionEdit {
        comparator: Some("leveldb.BytewiseComparator".into()),
        log_number: Some(0),
        next_file_number: Some(6),
        last_sequence: Some(0),
        ..VersionEdit::default()
    }
}

/// Opens what the base with a change says; a database that opens takes a write.
fn outcome(change: impl FnOnce(&mut VersionEdit)) -> Result<()> {
    let mut edit = base();
    change(&mut edit);
    let fs = directory(&[edit]);
    let before = fs.list(Path::new(DIR)).unwrap();
    let db = open(&fs).inspect_err(|_| {
        let mut after = fs.list(Path::new(DIR)).unwrap();
        after.retain(|name| name != "LOCK");
        assert_eq!(after, before, "a refused open changes nothing");
    })?;
    db.flush(true)?;
    db.close()
}

fn assert_corrupt(what: &str, outcome: Result<()>) {
    let e = outcome.expect_err(what);
    assert_eq!(e.kind(), ErrorKind::Corruption, "{what}: {e}");
}

#[test]
fn file_numbers_of_a_manifest_have_a_limit() {
    let most = FILE_NUMBER_MAX - NUMBERS_LEFT - 1;
    for (n, fits) in [(most - 1, true), (most, true), (most + 1, false)] {
        let next = n - 1;
        let said = outcome(|e| e.next_file_number = Some(next));
        assert_eq!(said.is_ok(), fits, "next file {next}: {said:?}");
        let said = outcome(|e| e.log_number = Some(n));
        assert_eq!(said.is_ok(), fits, "log {n}: {said:?}");
    }
    for n in [FILE_NUMBER_MAX, FILE_NUMBER_MAX + 1, u64::MAX - 1, u64::MAX] {
        assert_corrupt("next file", outcome(|e| e.next_file_number = Some(n)));
        assert_corrupt("log", outcome(|e| e.log_number = Some(n)));
        assert_corrupt("kept log", outcome(|e| e.min_log_number_to_keep = Some(n)));
    }
}

#[test]
fn sequence_numbers_of_a_manifest_have_a_limit() {
    for n in [MAX_SEQUENCE - 1, MAX_SEQUENCE] {
        outcome(|e| e.last_sequence = Some(n)).unwrap();
    }
    for n in [MAX_SEQUENCE + 1, u64::MAX] {
        assert_corrupt("sequence", outcome(|e| e.last_sequence = Some(n)));
    }
}

#[test]
fn ids_of_families_have_a_limit() {
    for (max, fits) in [
        (u32::MAX - 2, true),
        (u32::MAX - 1, true),
        (u32::MAX, false),
    ] {
        let mut edit = base();
        edit.max_column_family = Some(max);
        let db = open(&directory(&[edit])).unwrap();
        let made = db.create_cf(spanlith::FamilyOptions::new("one more"));
        assert_eq!(made.is_ok(), fits, "{max}: {made:?}");
        db.default_cf().put("k", "still there").unwrap();
    }
}

#[test]
fn atomic_groups_of_any_announced_length_are_judged() {
    let part = |left| VersionEdit {
        remaining_in_atomic_group: Some(left),
        ..VersionEdit::default()
    };
    open(&directory(&[base(), part(1), part(0)])).unwrap();
    // A group that does not end is left out, as after a crash.
    open(&directory(&[base(), part(u32::MAX), part(u32::MAX - 1)])).unwrap();
    for wrong in [[0, u32::MAX], [u32::MAX, u32::MAX], [3, 1], [1, 2]] {
        let edits = [base(), part(wrong[0]), part(wrong[1])];
        let said = open(&directory(&edits)).map(drop);
        if wrong[0] == 0 {
            // The first one is a group of its own, the second one begins another.
            said.unwrap();
        } else {
            assert_corrupt("group", said);
        }
    }
}

#[test]
fn names_of_files_beyond_the_largest_number_are_nobodys() {
    let name = |n: u64| format!("{n}.sst");
    let table = |n| parse_file_name(&name(n));
    assert_eq!(
        table(FILE_NUMBER_MAX - 1),
        Some(FileKind::Table(FILE_NUMBER_MAX - 1))
    );
    assert_eq!(
        table(FILE_NUMBER_MAX),
        Some(FileKind::Table(FILE_NUMBER_MAX))
    );
    for n in [FILE_NUMBER_MAX + 1, u64::MAX] {
        assert_eq!(table(n), None);
        assert_eq!(parse_file_name(&format!("{n}.log")), None);
        assert_eq!(parse_file_name(&format!("MANIFEST-{n}")), None);
        // Such a file stands in nobody's way, and stays.
        let fs = directory(&[base()]);
        let path = Path::new(DIR).join(name(n));
        fs.write_file(&path, b"planted").unwrap();
        let log = Path::new(DIR).join(format!("{n}.log"));
        fs.write_file(&log, b"planted").unwrap();
        open(&fs).unwrap().close().unwrap();
        assert_eq!(fs.read_file(&path).unwrap(), b"planted");
        assert_eq!(fs.read_file(&log).unwrap(), b"planted");
    }
}

#[test]
fn the_number_of_levels_has_a_limit() {
    for (levels, fits) in [(62, true), (63, true), (64, false), (i32::MAX, false)] {
        let (env, ..) = Env::test(Arc::new(MemFs::new()), 3);
        let mut cf = CfOptions::default();
        cf.num_levels = levels;
        let db = Db::builder(DIR).create_if_missing(true).cf_options(cf);
        let db = db.env(env).no_info_log().open();
        match db {
            Ok(db) => {
                assert!(fits, "{levels}");
                db.default_cf().put("k", "v").unwrap();
                db.default_cf().compact_range(None, None).unwrap();
                assert_eq!(
                    db.default_cf().get("k").unwrap().as_deref(),
                    Some(&b"v"[..])
                );
            }
            Err(e) => {
                assert!(!fits, "{levels}: {e}");
                assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
            }
        }
    }
}

/// With the MANIFEST of `killed` cut to each shorter length, `open` reports damage.
fn assert_no_cut_of_the_manifest_opens(
    killed: &MemFs,
    open: impl Fn(&Arc<MemFs>) -> spanlith::Result<Db>,
) {
    let names = killed.list(Path::new(DIR)).unwrap();
    let manifest = names.iter().find(|n| n.starts_with("MANIFEST-")).unwrap();
    let path = Path::new(DIR).join(manifest);
    let bytes = killed.read_file(&path).unwrap();
    for len in 0..bytes.len() {
        let cut = Arc::new(killed.process_crash_clone());
        cut.write_file(&path, &bytes[..len]).unwrap();
        assert_corrupt(&format!("cut to {len} bytes"), open(&cut).map(drop));
    }
}

/// A database that was killed after a flush, when nothing was written any more: its MANIFEST is all that
/// names the table, and the log that it was made from is gone.
#[test]
fn a_manifest_that_is_cut_behind_an_idle_flush_is_reported() {
    let fs = Arc::new(MemFs::new());
    let (env, ..) = Env::test(fs.clone(), 4);
    let db = Db::builder(DIR).create_if_missing(true).env(env);
    let db = db.no_info_log().open().unwrap();
    for round in 0..3 {
        db.default_cf().put("k", format!("{round}")).unwrap();
        db.flush(true).unwrap();
    }
    let killed = fs.process_crash_clone();
    let (env, ..) = Env::test(Arc::new(killed.process_crash_clone()), 5);
    let whole = Db::builder(DIR).env(env).no_info_log().open().unwrap();
    assert_eq!(
        whole.default_cf().get("k").unwrap().as_deref(),
        Some(&b"2"[..])
    );
    assert_no_cut_of_the_manifest_opens(&killed, open);
}

/// The same of a process that was killed after an open that continued the MANIFEST: what it recovered
/// from a log is in a table that nothing else names.
#[test]
fn a_continued_manifest_that_is_cut_behind_an_idle_open_is_reported() {
    let fs = Arc::new(MemFs::new());
    let open_continued = |fs: &Arc<MemFs>| {
        let (env, ..) = Env::test(fs.clone(), 6);
        let mut options = spanlith::options::DbOptions::default();
        options.reuse_manifest_on_open = true;
        options.create_if_missing = true;
        let db = Db::builder(DIR).options(options).env(env);
        db.no_info_log().open()
    };
    let db = open_continued(&fs).unwrap();
    db.default_cf().put("k", "v").unwrap();
    // Killed, opened, killed again.
    let fs = Arc::new(fs.process_crash_clone());
    let db_again = open_continued(&fs).unwrap();
    let killed = fs.process_crash_clone();
    drop((db, db_again));
    assert_no_cut_of_the_manifest_opens(&killed, open_continued);
    assert_eq!(
        open_continued(&Arc::new(killed))
            .unwrap()
            .default_cf()
            .get("k")
            .unwrap()
            .as_deref(),
        Some(&b"v"[..])
    );
}

/// A table holds `ENTRY_MAX` bytes of an entry at most; beyond it a write is refused at once: no flush could take it
/// later, and the database would refuse writes for ever.
#[test]
fn keys_and_values_that_no_table_could_hold_are_refused_before_they_are_written() {
    let fs = Arc::new(MemFs::new());
    let (env, ..) = Env::test(fs, 3);
    let mut options = spanlith::options::DbOptions::default();
    options.create_if_missing = true;
    let db = Db::builder(DIR)
        .options(options)
        .env(env)
        .no_info_log()
        .open()
        .unwrap();
    // Zeroed pages that nobody touches.
    let large = vec![0u8; u32::MAX as usize + 1];
    let cf = db.default_cf();
    let before = db.latest_sequence_number();
    for (key, value, text) in [
        (1, ENTRY_MAX, "value is too large"),
        (2, ENTRY_MAX - 1, "value is too large"),
        (1, u32::MAX as usize + 1, "value is too large"),
        (ENTRY_MAX + 1, 0, "key is too large"),
        (u32::MAX as usize - 7, 0, "key is too large"),
        (u32::MAX as usize + 1, 0, "key is too large"),
    ] {
        let e = cf.put(&large[..key], &large[..value]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{key} {value}");
        assert!(e.to_string().contains(text), "{key} {value}: {e}");
    }
    assert_eq!(db.latest_sequence_number(), before);
    cf.put("k", "v").unwrap();
    db.flush(true).unwrap();
}
