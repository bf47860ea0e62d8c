//! Column families: created, written together, dropped, recovered.

use crate::world::World;
use spanlith::options::CfOptions;
use spanlith::{
    Cf, Db, ErrorKind, FamilyOptions, FamilyRef, FlushOptions, WriteBatch, WriteOptions,
};
use spanlith_env::{Env, Executor, FaultFs, FsOp, JobClass, MemFs, OpClass};
use std::path::Path;
use std::sync::{Arc, Mutex};

const DIR: &str = "/db";

fn world() -> (Env, MemFs) {
    let fs = MemFs::new();
    (on(&fs), fs)
}

/// A world of threads on a file system in memory.
fn on(fs: &MemFs) -> Env {
    let mut env = Env::system();
    env.fs = Arc::new(fs.clone());
    env
}

/// Returns what a power loss leaves.
fn crash(fs: &MemFs, seed: u64) -> MemFs {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    fs.crash_clone(&mut |n| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if n == 0 { 0 } else { random % n }
    })
}

fn open(env: &Env, names: &[&str]) -> spanlith::Result<Db> {
    let mut builder = Db::builder(Path::new(DIR))
        .create_if_missing(true)
        .env(env.clone())
        .no_info_log();
    for name in names {
        builder = builder.family(FamilyOptions::new(*name));
    }
    builder.open()
}

fn cf(db: &Db, name: &str) -> Cf {
    db.cf(name).expect("opened")
}

fn text(value: Option<spanlith::Pinned>) -> String {
    value.map_or("-".to_string(), |v| {
        String::from_utf8_lossy(&v).into_owned()
    })
}

#[test]
fn families_keep_their_keys_apart_over_flush_and_reopen() {
    let (env, _) = world();
    let db = open(&env, &[]).unwrap();
    let one = db.create_cf(FamilyOptions::new("one")).unwrap();
    let two = db.create_cf(FamilyOptions::new("two")).unwrap();
    let mut batch = WriteBatch::new();
    batch.put("k", "default");
    batch.put_cf(&one, "k", "of one");
    batch.put_cf(&two, "k", "of two");
    batch.delete_cf(&two, "k");
    db.write(&batch).unwrap();
    one.put("only", "in one").unwrap();
    for round in 0..3 {
        let db = if round == 0 {
            db.clone()
        } else {
            open(&env, &["one", "two"]).unwrap()
        };
        let names: Vec<_> = db.cfs().iter().map(|c| c.name().to_string()).collect();
        assert_eq!(names, ["default", "one", "two"]);
        assert_eq!(text(db.default_cf().get("k").unwrap()), "default");
        assert_eq!(text(cf(&db, "one").get("k").unwrap()), "of one");
        assert_eq!(text(cf(&db, "two").get("k").unwrap()), "-");
        assert_eq!(text(cf(&db, "one").get("only").unwrap()), "in one");
        assert_eq!(text(db.default_cf().get("only").unwrap()), "-");
        assert_eq!(cf(&db, "one").iter().count(), 2);
        if round == 1 {
            cf(&db, "one").flush(true).unwrap();
        }
        db.close().unwrap();
    }
}

#[test]
fn all_families_must_be_named_to_write_but_not_to_read() {
    let (env, _) = world();
    let db = open(&env, &[]).unwrap();
    db.create_cf(FamilyOptions::new("a")).unwrap();
    db.create_cf(FamilyOptions::new("b")).unwrap();
    let twice = db.create_cf(FamilyOptions::new("a")).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::InvalidArgument);
    db.close().unwrap();
    let e = open(&env, &[]).unwrap_err();
    assert_eq!(
        e.to_string(),
        "Invalid argument: Column families not opened: b, a"
    );
    let e = open(&env, &["a", "b", "c"]).unwrap_err();
    assert_eq!(
        e.to_string(),
        "Invalid argument: Column family not found: c"
    );
    let db = Db::builder(Path::new(DIR)).env(env.clone());
    assert_eq!(db.open_read_only().unwrap().cfs().len(), 1);
    let db = Db::builder(Path::new(DIR)).env(env.clone()).all_families();
    assert_eq!(db.open().unwrap().cfs().len(), 3);
}

#[test]
fn a_dropped_family_still_reads_but_takes_no_writes_and_leaves_no_files() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let (env, _) = world();
    let db = open(&env, &[]).unwrap();
    let gone = db.create_cf(FamilyOptions::new("gone")).unwrap();
    gone.put("k", "v").unwrap();
    gone.flush(true).unwrap();
    gone.put("later", "v").unwrap();
    db.default_cf().put("stay", "here").unwrap();
    let tables = |env: &Env| {
        let names = env.fs.list(Path::new(DIR)).unwrap();
        names.iter().filter(|n| n.ends_with(".sst")).count()
    };
    assert_eq!(tables(&env), 1);
    let mut cursor = gone.cursor(spanlith::ReadOptions::new());
    db.drop_cf(&gone).unwrap();
    assert!(gone.is_dropped());
    assert_eq!(text(gone.get("k").unwrap()), "v");
    assert!(cursor.seek_to_first().unwrap());
    let number = |name: &str| gone.int_property(&format!("rocksdb.{name}"));
    assert_eq!(number("num-entries-active-mem-table"), Some(1));
    assert_eq!(number("estimate-num-keys"), Some(2));
    assert_eq!(
        gone.property("rocksdb.num-files-at-level0").as_deref(),
        Some("1")
    );
    assert!(gone.property("rocksdb.cfstats").is_some());
    let e = gone.put("k", "w").unwrap_err();
    assert_eq!(
        e.to_string(),
        "Invalid argument: Invalid column family specified in write batch"
    );
    let mut batch = WriteBatch::new();
    batch.put("a", "1");
    batch.put_cf(&gone, "k", "w");
    assert_eq!(
        db.write(&batch).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(text(db.default_cf().get("a").unwrap()), "-");
    let e = gone.flush(true).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ColumnFamilyDropped);
    assert!(db.drop_cf(&gone).is_err());
    assert!(db.drop_cf(&db.default_cf()).is_err());
    drop((cursor, gone));
    db.default_cf().put("x", "y").unwrap();
    db.flush(true).unwrap();
    // The job deletes files after it has told who waits for the flush and for its end.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while tables(&env) != 1 && std::time::Instant::now() < deadline {
        db.wait_idle(None).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(tables(&env), 1);
    // The name is free again, the id is not.
    let again = db.create_cf(FamilyOptions::new("gone")).unwrap();
    assert_eq!(again.id(), 2);
    assert_eq!(text(again.get("k").unwrap()), "-");
    db.close().unwrap();
    let db = open(&env, &["gone"]).unwrap();
    assert_eq!(cf(&db, "gone").id(), 2);
    assert_eq!(db.create_cf(FamilyOptions::new("next")).unwrap().id(), 3);
}

/// Checks what RocksDB 11.8.1 answers: nothing is found wrong until a table would have to go.
#[test]
fn suggestions_and_deletions_of_files_in_a_dropped_family_fail_only_where_a_table_would_go() {
    let (env, _) = world();
    let db = open(&env, &[]).unwrap();
    let shallow = db.create_cf(FamilyOptions::new("shallow")).unwrap();
    let deep = db.create_cf(FamilyOptions::new("deep")).unwrap();
    for cf in [&shallow, &deep] {
        cf.put("k1", "v").unwrap();
        cf.put("k2", "v").unwrap();
        cf.flush(true).unwrap();
    }
    deep.compact_range(None, None).unwrap();
    let manifest = || {
        let current = env.fs.list(Path::new(DIR)).unwrap();
        let name = current.into_iter().find(|n| n.starts_with("MANIFEST"));
        let path = Path::new(DIR).join(name.unwrap());
        env.fs.size(&path).unwrap()
    };
    for cf in [&shallow, &deep] {
        db.drop_cf(cf).unwrap();
    }
    let before = manifest();
    let outside: [spanlith::KeyRange<'_>; 3] = [
        (Some(b"a"), Some(b"b")),
        (Some(b"z"), Some(b"a")),
        (Some(b"k1"), Some(b"k1")),
    ];
    for cf in [&shallow, &deep] {
        cf.suggest_compact_range(None, None).unwrap();
        cf.suggest_compact_range(Some(b"a"), Some(b"b")).unwrap();
        cf.delete_files_in_ranges(&outside, true).unwrap();
    }
    shallow
        .delete_files_in_ranges(&[(None, None)], true)
        .unwrap();
    for _ in 0..2 {
        let e = deep
            .delete_files_in_ranges(&[(None, None)], true)
            .unwrap_err();
        assert_eq!(e.rocksdb_text(), "Column family dropped: ");
    }
    assert_eq!(manifest(), before, "nothing is written for them");
    for cf in [&shallow, &deep] {
        assert_eq!(text(cf.get("k1").unwrap()), "v");
    }
    drop((shallow, deep));
    db.close().unwrap();
    assert_eq!(open(&env, &[]).unwrap().cfs().len(), 1);
}

/// The differential programs, seeds 43 and 47: RocksDB flushes the families before a dropped one.
#[test]
fn a_flush_of_several_families_goes_as_far_as_the_first_dropped_one() {
    let (env, _) = world();
    let db = open(&env, &[]).unwrap();
    let gone = db.create_cf(FamilyOptions::new("gone")).unwrap();
    let kept = db.create_cf(FamilyOptions::new("kept")).unwrap();
    db.drop_cf(&gone).unwrap();
    let first = db.default_cf();
    first.put("k", "v").unwrap();
    kept.put("k", "v").unwrap();
    let e = db.flush_cfs(&[&first, &gone, &kept], true).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ColumnFamilyDropped);
    assert_eq!((first.tables().len(), kept.tables().len()), (1, 0));
}

/// Holds WAL3.
#[test]
fn a_log_stays_as_long_as_one_family_needs_it() {
    crate::suite_disk::needs_log_files("the test looks for files of logs by name");
    let (env, fs) = world();
    let db = open(&env, &[]).unwrap();
    let slow = db.create_cf(FamilyOptions::new("slow")).unwrap();
    slow.put("old", "only in the log").unwrap();
    for i in 0..5 {
        db.default_cf().put(format!("k{i}"), "v").unwrap();
        db.default_cf().flush(true).unwrap();
    }
    db.sync().unwrap();
    let after = crash(&fs, 1);
    let env = on(&after);
    let db = open(&env, &["slow"]).unwrap();
    assert_eq!(text(cf(&db, "slow").get("old").unwrap()), "only in the log");
    assert_eq!(db.default_cf().iter().count(), 5);
    // Idle families do not hold logs back.
    for i in 0..5 {
        db.default_cf().put(format!("k{i}"), "w").unwrap();
        db.default_cf().flush(true).unwrap();
    }
    // The job that flushed deletes the log after the flush is over.
    db.wait_idle(None).unwrap();
    let names = env.fs.list(Path::new(DIR)).unwrap();
    let logs = names.iter().filter(|n| n.ends_with(".log")).count();
    assert_eq!(logs, 1, "{names:?}");
}

/// A flush makes writes of one family durable; what was written before to another must be, too.
/// Holds F2.
#[test]
fn a_power_loss_never_leaves_a_later_write_without_an_earlier_one_of_another_family() {
    for seed in 0..20 {
        let (env, fs) = world();
        let db = open(&env, &[]).unwrap();
        let other = db.create_cf(FamilyOptions::new("other")).unwrap();
        other.put("first", "1").unwrap();
        db.default_cf().put("second", "2").unwrap();
        db.default_cf().flush(true).unwrap();
        let after = crash(&fs, seed);
        let db = open(&on(&after), &["other"]).unwrap();
        assert_eq!(text(db.default_cf().get("second").unwrap()), "2");
        assert_eq!(text(cf(&db, "other").get("first").unwrap()), "1");
    }
}

#[test]
fn an_atomic_flush_takes_unlogged_writes_of_all_families_or_of_none() {
    for seed in 0..20 {
        let (env, fs) = world();
        let mut options = spanlith::options::DbOptions::default();
        (options.create_if_missing, options.atomic_flush) = (true, true);
        let builder = Db::builder(Path::new(DIR))
            .options(options)
            .env(env.clone())
            .no_info_log();
        let db = builder.open().unwrap();
        let mut small = CfOptions::default();
        small.write_buffer_size = 64 << 10;
        let a = db
            .create_cf(FamilyOptions::new("a").options(small))
            .unwrap();
        let b = db.create_cf(FamilyOptions::new("b")).unwrap();
        let unlogged = spanlith::WriteOptions::new().disable_wal(true);
        let mut last = 0;
        for i in 0..400u32 {
            let mut batch = WriteBatch::new();
            batch.put_cf(&a, format!("{i:05}"), vec![b'x'; 1000]);
            batch.put_cf(&b, format!("{i:05}"), "y");
            db.write_opt(&batch, &unlogged).unwrap();
            last = i;
        }
        db.flush_cfs(&[&a, &b], true).unwrap();
        let after = crash(&fs, seed);
        let db = open(&on(&after), &["a", "b"]).unwrap();
        let (in_a, in_b) = (cf(&db, "a").iter().count(), cf(&db, "b").iter().count());
        assert_eq!((in_a, in_b), (last as usize + 1, last as usize + 1));
    }
}

/// A power loss before any change of a flush finds both families as they were before it, or as they were after it.
/// All families were flushed; RocksDB 11.8.1 takes those that the caller names, and all after a manual compaction.
#[test]
fn with_atomic_flushes_a_caller_flushes_the_families_that_he_names() {
    let (env, _) = world();
    let mut options = spanlith::options::DbOptions::default();
    (options.create_if_missing, options.atomic_flush) = (true, true);
    let db = Db::builder(Path::new(DIR)).options(options).env(env);
    let db = db.no_info_log().open().unwrap();
    let [a, b] = ["a", "b"].map(|n| db.create_cf(FamilyOptions::new(n)).unwrap());
    let shape = || {
        [&a, &b].map(|cf| {
            let number = |p| cf.int_property(p).unwrap();
            let active = number("rocksdb.num-entries-active-mem-table");
            (
                active,
                number("rocksdb.num-immutable-mem-table"),
                cf.live_files().len(),
            )
        })
    };
    let put = || [&a, &b].map(|cf| cf.put("k", "v").unwrap());
    put();
    a.flush(true).unwrap();
    assert_eq!(shape(), [(0, 0, 1), (1, 0, 0)]);
    put();
    a.compact_range(None, None).unwrap();
    assert_eq!(shape().map(|s| (s.0, s.1)), [(0, 0), (0, 0)]);
    put();
    db.flush_cfs(&[&a, &b], true).unwrap();
    assert_eq!(shape().map(|s| (s.0, s.1)), [(0, 0), (0, 0)]);
    put();
    db.flush(true).unwrap();
    assert_eq!(shape().map(|s| (s.0, s.1)), [(0, 0), (0, 0)]);
}

/// The moment that cursors over two families share counted as a snapshot: its release had the bottommost files rewritten.
#[test]
fn cursors_of_one_moment_mark_no_files_and_are_no_snapshots() {
    let (env, _) = world();
    let db = open(&env, &[]).unwrap();
    let [a, b] = ["a", "b"].map(|n| db.create_cf(FamilyOptions::new(n)).unwrap());
    for cf in [&a, &b] {
        cf.put("k", "1").unwrap();
        cf.flush(true).unwrap();
        let snapshot = db.snapshot();
        cf.put("k", "2").unwrap();
        cf.flush(true).unwrap();
        cf.compact_range(None, None).unwrap();
        // It is let go of while a moment holds it back: the file is marked when that has gone, and not before.
        let moment = db.cursors(&[&a, &b], spanlith::ReadOptions::default());
        drop(moment);
        assert_eq!(db.int_property("rocksdb.num-snapshots"), Some(1));
        assert_eq!(cf.int_property("rocksdb.compaction-pending"), Some(0));
        drop(snapshot);
        // The work that the release of a snapshot causes is done before the next family is looked at.
        db.wait_idle(None).unwrap();
    }
    db.wait_idle(None).unwrap();
    for cf in [&a, &b] {
        cf.put("k", "3").unwrap();
        cf.flush(true).unwrap();
        cf.compact_range(None, None).unwrap();
        assert_eq!(cf.int_property("rocksdb.compaction-pending"), Some(0));
    }
    let mut cursors = db.cursors(&[&a, &b], spanlith::ReadOptions::default());
    assert_eq!(db.int_property("rocksdb.num-snapshots"), Some(0));
    a.put("k", "later").unwrap();
    for cursor in &mut cursors {
        assert!(cursor.seek(b"k").unwrap());
        assert_eq!(cursor.value(), b"3");
    }
    drop(cursors);
    for cf in [&a, &b] {
        assert_eq!(cf.int_property("rocksdb.compaction-pending"), Some(0));
    }
}

#[test]
fn a_flush_can_be_atomic_over_the_families_it_names() {
    let w = World::new(1);
    let db = open(&w.env, &[]).unwrap();
    let [a, b, other] = ["a", "b", "other"].map(|n| db.create_cf(FamilyOptions::new(n)).unwrap());
    let unlogged = WriteOptions::new().disable_wal(true);
    let write = |key: &str| {
        let mut batch = WriteBatch::new();
        for family in [&a, &b, &other] {
            batch.put_cf(family, key, "v");
        }
        db.write_opt(&batch, &unlogged).unwrap();
    };
    let images = Arc::new(Mutex::new(Vec::new()));
    let (seen, of) = (images.clone(), w.mem.clone());
    let together = FlushOptions {
        atomic: true,
        ..FlushOptions::default()
    };
    let flushed = |names: &[&Cf]| {
        w.mem.set_observer(Some(Arc::new({
            let (seen, of) = (seen.clone(), of.clone());
            move |_: &FsOp| seen.lock().unwrap().push(crash(&of, 0))
        })));
        db.flush_cfs_opt(names, together).unwrap();
        w.mem.set_observer(None);
    };
    write("1");
    // One of them has its part sealed already, and its flush is due.
    let soon = FlushOptions {
        wait: false,
        ..FlushOptions::default()
    };
    a.flush_opt(soon).unwrap();
    write("2");
    flushed(&[&a, &b]);
    write("3");
    flushed(&[&a, &b]);
    assert_eq!(other.live_files().len(), 0);
    let images = std::mem::take(&mut *images.lock().unwrap());
    let mut counts: Vec<(usize, usize)> = Vec::new();
    for image in images {
        let db = open(&on(&image), &["a", "b", "other"]).unwrap();
        counts.push((cf(&db, "a").iter().count(), cf(&db, "b").iter().count()));
    }
    counts.dedup();
    // The flush of the first by itself was asked for before.
    assert_eq!(counts, [(0, 0), (1, 0), (2, 2), (3, 3)]);
    let last = open(&on(&crash(&w.mem, 0)), &["a", "b", "other"]).unwrap();
    assert_eq!(
        ["a", "b", "other"].map(|n| cf(&last, n).iter().count()),
        [3, 3, 0]
    );
}

#[test]
fn atomic_flushes_and_others_of_the_same_families_do_not_wait_for_each_other_for_ever() {
    let (env, _) = world();
    let db = open(&env, &[]).unwrap();
    let mut small = CfOptions::default();
    small.write_buffer_size = 64 << 10;
    let families = ["a", "b", "c"].map(|n| {
        db.create_cf(FamilyOptions::new(n).options(small.clone()))
            .unwrap()
    });
    let together = FlushOptions {
        atomic: true,
        ..FlushOptions::default()
    };
    std::thread::scope(|scope| {
        for at in 0..3 {
            let (db, families) = (&db, &families);
            scope.spawn(move || {
                for n in 0..200 {
                    let key = format!("{at}{n:04}");
                    families[at].put(key, vec![b'x'; 4000]).unwrap();
                    if n % 20 == at * 5 {
                        let two = [&families[at], &families[(at + 1) % 3]];
                        db.flush_cfs_opt(&two, together).unwrap();
                        families[at].flush(true).unwrap();
                    }
                }
            });
        }
    });
    db.wait_idle(None).unwrap();
    assert!(families.iter().all(|f| f.iter().count() == 200));
}

#[test]
fn a_snapshot_of_the_manifest_holds_all_families_and_the_highest_id() {
    let (env, _) = world();
    let db = open(&env, &[]).unwrap();
    for name in ["a", "b", "c"] {
        let f = db.create_cf(FamilyOptions::new(name)).unwrap();
        f.put(name, name).unwrap();
    }
    let c = cf(&db, "c");
    db.drop_cf(&c).unwrap();
    db.close().unwrap();
    // Every open starts a MANIFEST with a snapshot.
    for _ in 0..3 {
        let db = open(&env, &["a", "b"]).unwrap();
        assert_eq!(text(cf(&db, "a").get("a").unwrap()), "a");
        db.close().unwrap();
    }
    let db = open(&env, &["a", "b"]).unwrap();
    assert_eq!(db.create_cf(FamilyOptions::new("d")).unwrap().id(), 4);
}

/// The log of an undecided transaction went when a family was dropped: what the other families need
/// was asked, what the transaction needs was not.
#[test]
fn dropping_a_family_leaves_the_logs_of_prepared_transactions() {
    let temp = spanlith_testkit::TempDir::new("prepared");
    let case = spanlith_testkit::golden_case("golden-11.8", "txn-prepared");
    let dir = case.copy_to(temp.path());
    let mut options = spanlith::options::DbOptions::default();
    options.allow_2pc = true;
    let db = Db::builder(&dir).options(options).open().unwrap();
    let brief = db.create_cf(FamilyOptions::new("brief")).unwrap();
    for i in 0..3 {
        db.default_cf().put(format!("later{i}"), "v").unwrap();
        db.flush(true).unwrap();
    }
    let held = dir.join("000004.log");
    assert!(held.exists(), "the flushes took it");
    db.drop_cf(&brief).unwrap();
    assert!(held.exists(), "dropping a family took it");
    // The flush after it writes down which logs nobody needs.
    db.default_cf().put("more", "v").unwrap();
    db.flush(true).unwrap();
    db.wait_idle(None).unwrap();
    assert!(held.exists(), "the flush after it took it");
}

#[test]
fn updates_of_missing_families_can_be_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .open()
        .unwrap();
    let gone = db.create_cf(FamilyOptions::new("gone")).unwrap();
    db.drop_cf(&gone).unwrap();
    let default = db.default_cf();
    let strict = WriteOptions::new();
    let lenient = WriteOptions::new().ignore_missing_column_families(true);
    let mut batch = WriteBatch::new();
    batch.put("k1", "v");
    for cf in [(&gone).into(), FamilyRef::by_id(77)] {
        batch.put_cf(cf, "k2", "v").merge_cf(cf, "k2", "v");
        batch.delete_range_cf(cf, "a", "b");
        batch.delete_range_cf(cf, "b", "a");
    }
    batch.put("k3", "v");
    for e in [
        db.write_opt(&batch, &strict).unwrap_err(),
        gone.put_opt("k", "v", &strict).unwrap_err(),
    ] {
        let text = "Invalid argument: Invalid column family specified in write batch";
        assert_eq!(e.to_string(), text);
    }
    assert_eq!(default.get("k1").unwrap(), None);
    // Each entry that is left out takes a number, as in RocksDB.
    db.write_opt(&batch, &lenient).unwrap();
    assert_eq!(db.latest_sequence_number(), 10);
    gone.put_opt("k", "v", &lenient).unwrap();
    gone.delete_opt("k", &lenient).unwrap();
    gone.delete_range_opt("k", "a", &lenient).unwrap();
    assert_eq!(db.latest_sequence_number(), 13);
    default.put_opt("k4", "v", &lenient).unwrap();
    // An entry of a family that exists is checked as ever.
    let mut wrong = WriteBatch::new();
    wrong.delete_range("b", "a");
    assert!(db.write_opt(&wrong, &lenient).is_err());
    let check = |db: &Db| {
        let all = db.default_cf().iter().map(|e| e.unwrap().0.into_vec());
        assert_eq!(all.collect::<Vec<_>>(), [b"k1", b"k3", b"k4"]);
        assert_eq!(db.latest_sequence_number(), 14);
    };
    check(&db);
    db.close().unwrap();
    // The log has them; recovery leaves them out.
    let db = Db::open(dir.path()).unwrap();
    check(&db);
    db.close().unwrap();
}

/// The cost of an idle family for an open is its part of the snapshot in the new MANIFEST, however many there are.
#[test]
fn an_idle_family_costs_an_open_its_records_in_the_manifest_and_no_other_call() {
    const OTHERS: [OpClass; 5] = [
        OpClass::Create,
        OpClass::Sync,
        OpClass::SyncDir,
        OpClass::Open,
        OpClass::Rename,
    ];
    let calls_of_an_open = |families: u64| {
        let (env, fs) = world();
        let names: Vec<String> = (0..families).map(|n| format!("idle{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let db = open(&env, &[]).unwrap();
        for name in &names {
            db.create_cf(FamilyOptions::new(*name)).unwrap();
        }
        db.close().unwrap();
        let faults = Arc::new(FaultFs::new(Arc::new(fs)));
        let mut env = Env::system();
        env.fs = faults.clone();
        let db = open(&env, &names).unwrap();
        assert_eq!(db.cfs().len(), names.len() + 1);
        let appends = faults.calls(OpClass::Append);
        (appends, OTHERS.map(|class| faults.calls(class)))
    };
    let (few, many) = (calls_of_an_open(10), calls_of_an_open(200));
    assert_eq!(few.1, many.1);
    // Each takes the same three appends.
    assert_eq!(many.0 - few.0, 3 * 190);
}

/// The hundredth family is made and dropped with the calls of the tenth, and with the same bytes but for the OPTIONS file,
/// which describes all families.
#[test]
fn a_family_is_made_and_dropped_with_as_many_calls_however_many_there_are() {
    let (mut env, fs) = world();
    let faults = Arc::new(FaultFs::new(Arc::new(fs)));
    env.fs = faults.clone();
    let db = open(&env, &[]).unwrap();
    let classes = [
        OpClass::Append,
        OpClass::Create,
        OpClass::Sync,
        OpClass::SyncDir,
        OpClass::Open,
        OpClass::Read,
        OpClass::Rename,
        OpClass::Delete,
        OpClass::List,
        OpClass::Stat,
    ];
    let counted = |work: &dyn Fn()| {
        let before = classes.map(|class| faults.calls(class));
        work();
        let after = classes.map(|class| faults.calls(class));
        std::array::from_fn::<u64, 10, _>(|at| after[at] - before[at])
    };
    let mut seen = Vec::new();
    for n in 0..100 {
        let name = format!("family{n:03}");
        let made = counted(&|| drop(db.create_cf(FamilyOptions::new(&name)).unwrap()));
        if n == 9 || n == 99 {
            let again = format!("{name}-again");
            let cf = db.create_cf(FamilyOptions::new(again)).unwrap();
            seen.push((made, counted(&|| db.drop_cf(&cf).unwrap())));
        }
    }
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].0[0] > 0 && seen[0].1[0] > 0, "{seen:?}");
    db.close().unwrap();
}

/// A batch is checked against the families there are, then one of them is dropped, then the batch is led: it is
/// refused. It was logged, and the database took no more writes.
#[test]
fn a_family_that_is_dropped_while_a_batch_for_it_is_checked_refuses_that_batch_only() {
    use spanlith::{Comparator, UserComparator};
    use std::sync::Mutex;
    /// Calls what it was given, once, in the comparison of a check.
    struct Dropping(Mutex<Option<Box<dyn FnOnce() + Send>>>);
    impl UserComparator for Dropping {
        fn name(&self) -> &'static str {
            "test.Dropping"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            let call = self.0.lock().unwrap().take();
            if let Some(call) = call {
                call();
            }
            a.cmp(b)
        }
    }
    let temp = spanlith_testkit::TempDir::new("dropped-while-checked");
    let db = Db::open(temp.path()).unwrap();
    let order = std::sync::Arc::new(Dropping(Mutex::new(None)));
    let family = FamilyOptions::new("x").comparator(Comparator::User(order.clone()));
    let x = db.create_cf(family).unwrap();
    let mut batch = WriteBatch::new();
    batch.put_cf(&x, "k", "v");
    batch.delete_range_cf(&x, "a", "b");
    let (of_drop, dropped) = (db.clone(), x.clone());
    *order.0.lock().unwrap() = Some(Box::new(move || of_drop.drop_cf(&dropped).unwrap()));
    let refused = db.write(&batch).unwrap_err().to_string();
    assert!(
        refused.starts_with("Invalid argument: Invalid column family"),
        "{refused}"
    );
    db.default_cf().put("k", "v").unwrap();
    db.close().unwrap();
}

/// The job went on in a directory that was another database's by then, and at its end deleted a table there.
#[test]
fn whoever_waits_for_jobs_waits_for_the_flush_of_a_dropped_family() {
    type Wait = fn(&Db);
    let waits: [Wait; 3] = [
        |db| db.clone().close().unwrap(),
        |db| db.pause_background_work().unwrap(),
        |db| db.wait_idle(None).unwrap(),
    ];
    for wait in waits {
        let world = World::new(3);
        let db = open(&world.env, &[]).unwrap();
        let gone = db.create_cf(FamilyOptions::new("gone")).unwrap();
        gone.put("k", "v").unwrap();
        gone.flush(false).unwrap();
        db.drop_cf(&gone).unwrap();
        assert_eq!(world.executor.jobs.pending_of(JobClass::High), 1);
        wait(&db);
        assert_eq!(world.executor.jobs.pending(), 0);
        db.close().unwrap();
    }
}

/// It failed with `Column family dropped`, of a family that nobody had named.
#[test]
fn an_atomic_flush_goes_on_without_a_family_that_is_dropped_while_it_waits() {
    let world = World::new(3);
    let mut options = spanlith::options::DbOptions::default();
    (options.create_if_missing, options.atomic_flush) = (true, true);
    let db = Db::builder(Path::new(DIR))
        .options(options)
        .env(world.env.clone())
        .no_info_log()
        .open()
        .unwrap();
    let gone = db.create_cf(FamilyOptions::new("gone")).unwrap();
    gone.put("k", "v").unwrap();
    let default = db.default_cf();
    default.put("k", "1").unwrap();
    let drops = db.clone();
    let job = Box::new(move || drops.drop_cf(&gone).unwrap());
    world.executor.spawn(JobClass::High, job);
    let at_once = FlushOptions {
        wait: false,
        allow_write_stall: true,
        ..FlushOptions::default()
    };
    db.flush_cfs_opt(&[&default], at_once).unwrap();
    default.put("k", "2").unwrap();
    // A sealed memtable more would stop writers: it waits, and the jobs run.
    db.flush_cfs(&[&default], true).unwrap();
    assert_eq!(db.cfs().len(), 1);
    assert_eq!(default.tables().len(), 2);
}
