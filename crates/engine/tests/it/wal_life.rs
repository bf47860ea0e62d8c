//! The life of logs: bounded together, written again, archived, read back as changes, kept by
//! recovery.

use spanlith::options::{CfOptions, CompressionType, DbOptions, WalRecoveryMode};
use spanlith::{Change, Db, ErrorKind, FamilyOptions, WriteBatch, WriteOptions};
use spanlith_testkit::TempDir;
use std::path::Path;

fn with(change: impl FnOnce(&mut DbOptions)) -> DbOptions {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    change(&mut options);
    options
}

fn open(dir: &Path, options: DbOptions) -> spanlith::Result<Db> {
    Db::builder(dir).options(options).no_info_log().open()
}

fn logs(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|n| n.ends_with(".log")).collect();
    names.sort();
    names
}

fn get(db: &Db, key: &str) -> Option<String> {
    let value = db.default_cf().get(key).unwrap();
    value.map(|v| String::from_utf8(v.to_vec()).unwrap())
}

#[test]
fn a_family_that_holds_back_old_logs_is_flushed_when_they_are_too_large() {
    crate::suite_disk::needs_log_files("the test looks for files of logs by name");
    let temp = TempDir::new("wal-life");
    let options = with(|o| o.max_total_wal_size = 200_000);
    let mut small = CfOptions::default();
    small.write_buffer_size = 64 << 10;
    let db = Db::builder(temp.path())
        .options(options)
        .cf_options(small)
        .family(FamilyOptions::new("idle"))
        .no_info_log()
        .open()
        .unwrap();
    let idle = db.cf("idle").unwrap();
    idle.put("k", "v").unwrap();
    let first = logs(temp.path())[0].clone();
    for n in 0..400 {
        db.default_cf()
            .put(format!("key{n:04}"), vec![b'x'; 2000])
            .unwrap();
        // Writers are not held back by this limit, so without a pause the writes could outrun the
        // flushes and the last measure would tell the speed of the machine.
        db.wait_idle(None).unwrap();
    }
    assert!(
        !logs(temp.path()).contains(&first),
        "{:?}",
        logs(temp.path())
    );
    let bytes: u64 = logs(temp.path())
        .iter()
        .map(|n| temp.path().join(n).metadata().unwrap().len())
        .sum();
    assert!(bytes < 350_000, "{bytes}");
    assert_eq!(&*idle.get("k").unwrap().unwrap(), b"v");
}

#[test]
fn an_obsolete_log_is_written_again_and_its_old_records_never_come_back() {
    crate::suite_disk::needs_log_files("logs on a speed disk are not recycled as files are");
    let temp = TempDir::new("wal-life");
    let options = || with(|o| o.recycle_log_file_num = 2);
    let db = open(temp.path(), options()).unwrap();
    let mut reused = 0;
    for round in 0..6 {
        for n in 0..20 {
            db.default_cf()
                .put(format!("r{round}n{n}"), vec![b'v'; 3000])
                .unwrap();
        }
        let before = logs(temp.path());
        flush(&db);
        // The new log has the size of the old one before anything was written to it.
        let newest = logs(temp.path()).pop().unwrap();
        let size = temp.path().join(&newest).metadata().unwrap().len();
        reused += usize::from(!before.contains(&newest) && size > 50_000);
        db.default_cf().delete(format!("r{round}n0")).unwrap();
    }
    assert!(reused >= 3, "{reused}");
    let expected: Vec<_> = db.default_cf().iter().map(|e| e.unwrap().0).collect();
    let no_log = WriteOptions::default().disable_wal(true);
    let refused = db.default_cf().put_opt("x", "y", &no_log).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Invalid argument: WriteOptions::disableWAL option is not supported if \
         DBOptions::recycle_log_file_num > 0"
    );
    drop(db);
    for _ in 0..2 {
        let db = open(temp.path(), options()).unwrap();
        let found: Vec<_> = db.default_cf().iter().map(|e| e.unwrap().0).collect();
        assert!(found == expected, "{} of {}", found.len(), expected.len());
        assert_eq!(get(&db, "r5n0"), None);
        assert!(get(&db, "r5n1").is_some());
    }
}

/// Replay gives a range deletion of nothing no number, writers do: with such a batch last in a log that is
/// written again, the log after it was dropped whole, as by RocksDB 11.8.1.
#[test]
fn a_log_behind_one_that_ends_with_a_range_deletion_of_nothing_is_replayed() {
    crate::suite_disk::needs_log_files(
        "the test copies the files of a database that is open, and a disk has one database",
    );
    let temp = TempDir::new("wal-life");
    let (home, copy) = (temp.join("db"), temp.join("copy"));
    let options = CfOptions::default()
        .write_buffer_size(128u64 << 10)
        .max_write_buffer_number(8)
        .min_write_buffer_number_to_merge(3);
    let open = |dir: &Path| {
        Db::builder(dir)
            .options(with(|o| o.recycle_log_file_num = 2))
            .cf_options(options.clone())
            .no_info_log()
            .open()
            .unwrap()
    };
    let db = open(&home);
    let cf = db.default_cf();
    for n in 0..4 {
        cf.put(format!("old{n}"), vec![b'v'; 300_000]).unwrap();
        flush(&db);
    }
    let first = db.current_log_file().unwrap();
    let mut batch = WriteBatch::new();
    for n in 0..4 {
        batch.put(format!("full{n}"), vec![b'v'; 40_000]);
    }
    batch.delete_range("a", "a");
    db.write(&batch).unwrap();
    cf.put("after", "1").unwrap();
    cf.put("last", "2").unwrap();
    assert_ne!(db.current_log_file().unwrap().number, first.number);
    // These are the files that the end of the process leaves.
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&home).unwrap() {
        let from = entry.unwrap().path();
        std::fs::copy(&from, copy.join(from.file_name().unwrap())).unwrap();
    }
    for _ in 0..2 {
        let db = open(&copy);
        for key in ["full0", "full3", "after", "last"] {
            assert!(get(&db, key).is_some(), "{key}");
        }
        db.close().unwrap();
    }
}

#[test]
fn logs_are_not_written_again_in_modes_that_could_not_read_them() {
    crate::suite_disk::needs_log_files("logs on a speed disk are not recycled as files are");
    for mode in [
        WalRecoveryMode::TolerateCorruptedTailRecords,
        WalRecoveryMode::AbsoluteConsistency,
    ] {
        let temp = TempDir::new("wal-life");
        let options = with(|o| {
            o.recycle_log_file_num = 2;
            o.wal_recovery_mode = mode;
        });
        let db = open(temp.path(), options).unwrap();
        db.default_cf().put("a", "1").unwrap();
        flush(&db);
        assert_eq!(logs(temp.path()).len(), 1);
        let no_log = WriteOptions::default().disable_wal(true);
        db.default_cf().put_opt("x", "y", &no_log).unwrap();
    }
}

#[test]
fn flushes_of_writes_that_skip_the_log_begin_no_log() {
    crate::suite_disk::needs_log_files("the test looks for files of logs by name");
    for compression in [CompressionType::None, CompressionType::Zstd] {
        let temp = TempDir::new("wal-life");
        let db = open(temp.path(), with(|o| o.wal_compression = compression)).unwrap();
        let no_log = WriteOptions::default().disable_wal(true);
        db.default_cf().put("logged", "v").unwrap();
        flush(&db);
        // It begins with a note about the log before it, and serves on.
        let log = logs(temp.path());
        for n in 0..3 {
            db.default_cf()
                .put_opt("k", format!("{n}"), &no_log)
                .unwrap();
            flush(&db);
            assert_eq!(logs(temp.path()), log);
        }
        db.default_cf().put("logged", "w").unwrap();
        flush(&db);
        assert_ne!(logs(temp.path()), log);
    }
}

/// Flushes, and waits for the job that puts logs away.
fn flush(db: &Db) {
    db.flush(true).unwrap();
    db.wait_idle(None).unwrap();
}

fn keys_of(changes: &[Change]) -> Vec<(u64, usize)> {
    let facts = changes
        .iter()
        .map(|c| (c.sequence, c.batch.operations().unwrap().count()));
    facts.collect()
}

#[test]
fn changes_are_read_from_the_archive_and_from_logs_in_use() {
    let temp = TempDir::new("wal-life");
    let options = || with(|o| o.wal_ttl_seconds = 3600);
    let db = open(temp.path(), options()).unwrap();
    assert!(db.changes(0).unwrap().next().is_none());
    let none = db.changes(1).err().unwrap();
    assert_eq!(
        none.to_string(),
        "NotFound: Requested sequence not yet written in the db"
    );
    for n in 1..=3 {
        db.default_cf().put(format!("k{n}"), "v").unwrap();
        flush(&db);
    }
    drop(db);
    let db = open(temp.path(), options()).unwrap();
    let mut batch = spanlith::WriteBatch::new();
    batch.put("k4", "v").delete("k1");
    db.write(&batch).unwrap();
    // Three, and the one that the first close left with nothing but our note.
    assert_eq!(logs(&temp.path().join("archive")).len(), 4);
    let mut changes = db.changes(2).unwrap();
    let found: Vec<Change> = changes.by_ref().map(Result::unwrap).collect();
    assert_eq!(keys_of(&found), [(2, 1), (3, 1), (4, 2)]);
    // A batch that holds the wanted number in its middle is given whole.
    let found: Vec<Change> = db.changes(5).unwrap().map(Result::unwrap).collect();
    assert_eq!(keys_of(&found), [(4, 2)]);
    assert_eq!(found[0].batch.as_bytes()[12..], batch.as_bytes()[12..]);
    // The end is not final.
    assert!(changes.next().is_none());
    db.default_cf().put("k6", "v").unwrap();
    flush(&db);
    db.default_cf().put("k7", "v").unwrap();
    let found: Vec<Change> = changes.by_ref().map(Result::unwrap).collect();
    assert_eq!(keys_of(&found), [(6, 1), (7, 1)]);
    let files = db.log_files().unwrap();
    assert!(files[0].is_archived && files[0].path_name().starts_with("/archive/"));
    assert_eq!(files[0].start_sequence, 1);
    let current = db.current_log_file().unwrap();
    assert_eq!(files.last(), Some(&current));
    assert!(!current.is_archived);
    assert_eq!(db.changes(8).err().unwrap().kind(), ErrorKind::NotFound);
}

#[test]
fn batches_without_updates_are_shown_between_others() {
    let temp = TempDir::new("wal-life");
    let db = open(temp.path(), with(|_| ())).unwrap();
    let empty = || db.write(&spanlith::WriteBatch::new()).unwrap();
    empty();
    db.default_cf().put("a", "1").unwrap();
    empty();
    empty();
    db.default_cf().put("b", "2").unwrap();
    empty();
    let all = [(1, 0), (1, 1), (2, 0), (2, 0), (2, 1)];
    let mut from_all = db.changes(0).unwrap();
    let found: Vec<Change> = from_all.by_ref().map(Result::unwrap).collect();
    assert_eq!(keys_of(&found), all);
    for (since, skipped) in [(1, 1), (2, 4)] {
        let found: Vec<Change> = db.changes(since).unwrap().map(Result::unwrap).collect();
        assert_eq!(keys_of(&found), all[skipped..], "since {since}");
    }
    db.default_cf().put("c", "3").unwrap();
    let found: Vec<Change> = from_all.map(Result::unwrap).collect();
    assert_eq!(keys_of(&found), [(3, 0), (3, 1)]);
}

#[test]
fn a_part_of_the_changes_that_is_gone_is_told_once() {
    let temp = TempDir::new("wal-life");
    let db = open(temp.path(), with(|_| ())).unwrap();
    db.default_cf().put("a", "1").unwrap();
    db.default_cf().put("b", "2").unwrap();
    flush(&db);
    db.default_cf().put("c", "3").unwrap();
    let mut changes = db.changes(1).unwrap();
    let gap = changes.next().unwrap().unwrap_err();
    assert_eq!(gap.kind(), ErrorKind::NotFound);
    assert!(gap.to_string().contains("Gap in sequence number"), "{gap}");
    assert_eq!(changes.next().unwrap().unwrap().sequence, 3);
    let no_log = WriteOptions::default().disable_wal(true);
    db.default_cf().put_opt("d", "4", &no_log).unwrap();
    assert!(changes.next().is_none());
    db.default_cf().put("e", "5").unwrap();
    let gap = changes.next().unwrap().unwrap_err();
    assert_eq!(gap.kind(), ErrorKind::NotFound);
    assert_eq!(changes.next().unwrap().unwrap().sequence, 5);
    assert!(changes.next().is_none());
}

#[test]
fn a_walk_reads_what_it_can_still_reach_in_a_log_that_is_gone() {
    crate::suite_disk::needs_log_files("the test looks for files of logs by name");
    let forms: [fn(&mut DbOptions); 3] = [
        |_| (),
        |o| o.wal_compression = CompressionType::Zstd,
        |o| o.manual_wal_flush = true,
    ];
    for form in forms {
        let temp = TempDir::new("wal-life");
        let db = open(temp.path(), with(form)).unwrap();
        let put = |key: &str| db.default_cf().put(key, "v").unwrap();
        put("a");
        let mut changes = db.changes(1).unwrap();
        let mut bounded = db.changes(1).unwrap().within_logs().unwrap();
        for walk in [&mut changes, &mut bounded] {
            assert_eq!(walk.next().unwrap().unwrap().sequence, 1);
        }
        // Neither has read this yet: one finds it in its first look after the end of what it read.
        put("b");
        assert_eq!(changes.next().unwrap().unwrap().sequence, 2);
        assert!(changes.next().is_none());
        put("c");
        let log = logs(temp.path());
        flush(&db);
        assert_ne!(logs(temp.path()), log);
        for sequence in [2, 3] {
            assert_eq!(bounded.next().unwrap().unwrap().sequence, sequence);
        }
        assert!(bounded.next().is_none());
        put("d");
        for sequence in [3, 4] {
            assert_eq!(changes.next().unwrap().unwrap().sequence, sequence);
        }
        for _ in 0..2 {
            let tail = bounded.next().unwrap().unwrap_err();
            assert_eq!(
                tail.to_string(),
                "Operation failed. Try again.: Create a new iterator to fetch the new tail."
            );
        }
    }
}

#[test]
fn a_walk_within_the_logs_asks_for_another_where_a_write_has_no_log() {
    let temp = TempDir::new("wal-life");
    let db = open(temp.path(), with(|_| ())).unwrap();
    db.default_cf().put("a", "1").unwrap();
    let mut changes = db.changes(1).unwrap().within_logs().unwrap();
    assert_eq!(changes.next().unwrap().unwrap().sequence, 1);
    assert!(changes.next().is_none());
    let no_log = WriteOptions::default().disable_wal(true);
    db.default_cf().put_opt("b", "2", &no_log).unwrap();
    let tail = changes.next().unwrap().unwrap_err();
    assert_eq!(tail.kind(), ErrorKind::TryAgain);
}

#[test]
fn the_archive_is_kept_below_its_size() {
    let temp = TempDir::new("wal-life");
    let mut large = CfOptions::default();
    large.write_buffer_size = 4 << 20;
    let options = with(|o| o.wal_size_limit_mb = 1);
    let builder = || {
        Db::builder(temp.path())
            .options(options.clone())
            .cf_options(large.clone())
            .no_info_log()
    };
    let db = builder().open().unwrap();
    for round in 0..4 {
        for n in 0..6 {
            db.default_cf()
                .put(format!("r{round}n{n}"), vec![b'v'; 100_000])
                .unwrap();
        }
        flush(&db);
    }
    // Looked at every ten minutes only, and at open.
    assert_eq!(logs(&temp.path().join("archive")).len(), 4);
    drop(db);
    let db = builder().open().unwrap();
    let left = logs(&temp.path().join("archive"));
    let size = |n: &String| {
        temp.path()
            .join("archive")
            .join(n)
            .metadata()
            .unwrap()
            .len()
    };
    let bytes: u64 = left.iter().map(size).sum();
    assert!((500_000..=1 << 20).contains(&bytes), "{bytes}");
    assert!(get(&db, "r0n0").is_some());
}

#[test]
fn recovered_entries_stay_in_memory_and_in_their_logs_if_asked_for() {
    crate::suite_disk::needs_log_files("the test looks for files of logs by name");
    let temp = TempDir::new("wal-life");
    let options = || {
        with(|o| {
            o.avoid_flush_during_recovery = true;
            o.avoid_flush_during_shutdown = true;
        })
    };
    for round in 0..5 {
        let db = open(temp.path(), options()).unwrap();
        for before in 0..round {
            assert!(get(&db, &format!("k{before}")).is_some(), "{round}");
        }
        let tables = db.property("rocksdb.num-files-at-level0").unwrap();
        assert_eq!(tables, "0", "{round}");
        db.default_cf().put(format!("k{round}"), "v").unwrap();
    }
    assert_eq!(logs(temp.path()).len(), 5);
    let db = open(temp.path(), options()).unwrap();
    let found: Vec<u64> = db
        .changes(1)
        .unwrap()
        .map(|c| c.unwrap().sequence)
        .collect();
    assert_eq!(found, [1, 2, 3, 4, 5]);
    flush(&db);
    assert_eq!(logs(temp.path()).len(), 1);
    drop(db);
    let db = open(temp.path(), with(|_| ())).unwrap();
    assert_eq!(db.default_cf().iter().count(), 5);
}

#[test]
fn damage_that_stopped_recovery_does_not_hide_what_was_written_afterwards() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let temp = TempDir::new("wal-life");
    let options = || with(|o| o.avoid_flush_during_recovery = true);
    let db = open(temp.path(), options()).unwrap();
    for n in 0..10 {
        db.default_cf().put(format!("a{n}"), "v").unwrap();
    }
    // Without the close, nothing says that the log was synced.
    let crashed = TempDir::new("wal-life");
    spanlith_testkit::copy_dir(temp.path(), crashed.path());
    drop(db);
    let temp = crashed;
    let path = temp.path().join(&logs(temp.path())[0]);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let mut kept = 0;
    for round in 0..3 {
        let db = open(temp.path(), options()).unwrap();
        let found = db.default_cf().iter().count();
        if round == 0 {
            kept = found;
            assert!((1..10).contains(&kept), "{kept}");
        }
        assert_eq!(found, kept + round, "{round}");
        db.default_cf().put(format!("b{round}"), "v").unwrap();
    }
}
