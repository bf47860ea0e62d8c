//! Everything that recovery does not replay, or cannot explain, is kept and told.

use super::*;
use spanlith::Comparator;
use spanlith::EventListener;
use spanlith::listener::DroppedTail;
use spanlith::options::OrphanFiles;
use std::sync::Mutex;

/// A database that was not closed, with a tail that was torn.
fn torn() -> (MemFs, u64) {
    let fs = Arc::new(MemFs::new());
    let db = Setup::dense().open(&fs).unwrap();
    let cf = db.default_cf();
    for n in 0..5 {
        cf.put_opt(format!("k{n}"), "synced", &synced()).unwrap();
    }
    let safe = fs.read_file(&log_path(&fs)).unwrap().len();
    for n in 5..8 {
        cf.put(format!("k{n}"), "not synced").unwrap();
    }
    let image = fs.process_crash_clone();
    let path = log_path(&image);
    let mut bytes = image.read_file(&path).unwrap();
    bytes[safe + 10] ^= 1;
    image.write_file(&path, &bytes).unwrap();
    (image, safe as u64)
}

#[derive(Default)]
struct Told(Mutex<Vec<DroppedTail>>);

impl EventListener for Told {
    fn on_recovery_dropped_tail(&self, info: &DroppedTail) {
        self.0.lock().unwrap().push(info.clone());
    }
}

#[test]
fn a_dropped_tail_is_told_counted_and_copied() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let (image, safe) = torn();
    let bytes = image.read_file(&log_path(&image)).unwrap();
    let fs = Arc::new(image);
    let told = Arc::new(Told::default());
    let db = Setup::default()
        .builder(&fs)
        .listener(told.clone())
        .open()
        .unwrap();
    assert_eq!(rows(&db).len(), 5);
    let tails = told.0.lock().unwrap();
    let [tail] = &tails[..] else {
        panic!("{tails:?}");
    };
    let dropped = bytes.len() as u64 - safe;
    // The damaged record is the witness that stands in front of them.
    assert_eq!((tail.offset, tail.bytes, tail.records), (safe, dropped, 3));
    let copy = tail.copy.as_ref().unwrap();
    assert!(copy.starts_with("/db/lost"), "{copy:?}");
    assert_eq!(fs.read_file(copy).unwrap(), bytes[safe as usize..]);
    let property = |name: &str| db.int_property(&format!("rocksdb.recovery-dropped-{name}"));
    assert_eq!(property("bytes"), Some(dropped));
    assert_eq!(property("records"), Some(3));
}

#[test]
fn copies_are_limited_and_an_open_for_reading_makes_none() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let (image, _) = torn();
    let mut setup = Setup::default();
    setup.look(image.process_crash_clone()).unwrap();
    setup.evidence.lost_files_max_bytes = 1;
    let fs = Arc::new(image);
    setup.open(&fs).unwrap();
    assert_eq!(paths(&fs, "/db/lost", ""), [] as [PathBuf; 0]);
}

#[test]
fn a_tail_that_was_dropped_stays_dropped_where_logs_stay() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let (image, safe) = torn();
    let fs = Arc::new(image);
    let path = log_path(&fs);
    let damaged = fs.read_file(&path).unwrap();
    let mut setup = Setup::default();
    setup.options.avoid_flush_during_recovery = true;
    let db = setup.open(&fs).unwrap();
    let dropped = "rocksdb.recovery-dropped-bytes";
    assert_eq!(db.int_property(dropped), Some(damaged.len() as u64 - safe));
    db.default_cf().put("new", "value").unwrap();
    let all = rows(&db);
    drop(db);
    assert_eq!(fs.read_file(&path).unwrap(), damaged, "logs are not cut");
    for mode in WalRecoveryMode::ALL {
        let again = Arc::new(fs.process_crash_clone());
        let db = setup.clone().mode(*mode).open(&again);
        let db = db.unwrap_or_else(|e| panic!("{mode}: {e}"));
        assert_eq!(
            (rows(&db), db.int_property(dropped)),
            (all.clone(), Some(0)),
            "{mode}"
        );
    }
}

/// A database with one table, and the same with a table that nobody named.
fn with_orphan() -> (Arc<MemFs>, PathBuf) {
    let fs = Arc::new(MemFs::new());
    let db = Setup::default().open(&fs).unwrap();
    db.default_cf().put("a", "1").unwrap();
    db.flush(true).unwrap();
    let table = paths(&fs, "/db", ".sst")[0].clone();
    for n in 0..100 {
        db.default_cf().put(format!("b{n}"), "1").unwrap();
    }
    db.flush(true).unwrap();
    let other = paths(&fs, "/db", ".sst").into_iter().find(|p| *p != table);
    let orphan = fs.read_file(&other.unwrap()).unwrap();
    drop(db);
    let fs = Arc::new(MemFs::new());
    let db = Setup::default().open(&fs).unwrap();
    db.default_cf().put("a", "1").unwrap();
    drop(db);
    let path = PathBuf::from("/db/000900.sst");
    fs.write_file(&path, &orphan).unwrap();
    (fs, path)
}

#[test]
fn a_table_that_nothing_explains_is_kept_for_a_while() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let (fs, path) = with_orphan();
    let mut setup = Setup {
        micros: 1_700_000_000_000_000,
        ..Setup::default()
    };
    let db = setup.open(&fs).unwrap();
    assert_eq!(rows(&db).len(), 1);
    drop(db);
    assert!(fs.read_file(&path).is_err());
    let kept = Path::new("/db/lost/000900.sst.at-1700000000");
    assert!(fs.read_file(kept).is_ok());
    let stranger = Path::new("/db/lost/000901.sst");
    fs.write_file(stranger, b"put there by somebody").unwrap();
    let week = 7 * 24 * 60 * 60 * 1_000_000;
    for (later, is_there) in [(week, true), (week + 1_000_001, false)] {
        setup.micros = 1_700_000_000_000_000 + later;
        setup.open(&fs).unwrap();
        assert_eq!(fs.read_file(kept).is_ok(), is_there, "{later}");
    }
    assert!(fs.read_file(stranger).is_ok());
}

#[test]
fn a_table_in_another_order_or_damaged_that_nothing_explains_is_kept_and_refuses_no_open() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let write = |fs: &Arc<MemFs>, keys: u32, flushed: bool| {
        let builder = Setup::default().builder(fs);
        let db = builder
            .comparator(Comparator::ReverseBytewise)
            .open()
            .unwrap();
        for n in 0..keys {
            db.default_cf().put(format!("b{n}"), "1").unwrap();
        }
        if flushed {
            db.flush(true).unwrap();
        }
    };
    let fs = Arc::new(MemFs::new());
    write(&fs, 100, true);
    let orphan = fs.read_file(&paths(&fs, "/db", ".sst")[0]).unwrap();
    let mut damaged = orphan.clone();
    damaged[10] ^= 1;
    for table in [orphan, damaged] {
        let fs = Arc::new(MemFs::new());
        write(&fs, 1, false);
        fs.write_file(Path::new("/db/000900.sst"), &table).unwrap();
        write(&fs, 0, false);
        assert_eq!(paths(&fs, "/db", "900.sst"), [] as [PathBuf; 0]);
        assert_eq!(paths(&fs, "/db/lost", "").len(), 1);
    }
}

#[test]
fn too_much_in_lost_goes_the_oldest_first() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let (fs, _) = with_orphan();
    for n in 0..4 {
        let path = format!("/db/lost/00000{n}.sst.at-170000000{n}");
        fs.write_file(Path::new(&path), &[n; 1000]).unwrap();
    }
    let mut setup = Setup::default();
    setup.evidence.lost_files_max_bytes = 2500;
    setup.evidence.orphan_files = OrphanFiles::Delete;
    setup.open(&fs).unwrap();
    let left = paths(&fs, "/db/lost", "");
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left[0].ends_with("000002.sst.at-1700000002"));
    assert_eq!(paths(&fs, "/db", "900.sst"), [] as [PathBuf; 0], "deleted");
}

#[test]
fn tables_without_their_log_and_their_record_are_reported() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let (fs, _) = with_orphan();
    // The log, too, is younger than the last record of the MANIFEST.
    let log = log_path(&fs);
    let bytes = fs.read_file(&log).unwrap();
    fs.delete(&log).unwrap();
    let before = fs.list(Path::new("/db")).unwrap();
    let mut setup = Setup::default();
    // The end of the log is known; here something else is looked at.
    setup.evidence.synced_log_damage = spanlith::options::SyncedLogDamage::Truncate;
    let e = setup.open(&fs).unwrap_err();
    assert!(
        e.to_string().contains("MANIFEST has lost its last records"),
        "{e}"
    );
    assert_eq!(
        fs.list(Path::new("/db")).unwrap(),
        before,
        "nothing is changed"
    );
    fs.write_file(&log, &bytes).unwrap();
    setup.open(&fs).unwrap();
}
