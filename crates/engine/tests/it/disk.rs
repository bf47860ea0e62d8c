//! A disk that is nearly full, and one that does not answer; and the file with the options that say
//! what is done about it.

use crate::world::World;
use spanlith::listener::DiskStallInfo;
use spanlith::options::{CfOptions, DbOptions, OptionsFile, OwnDbOptions, Sidecar};
use spanlith::{Db, DbPath, EventListener, OpenBuilder, WriteOptions};
use spanlith_env::{FaultRule, FsOp, OpClass};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

impl World {
    fn builder(&self, evidence: OwnDbOptions) -> OpenBuilder {
        let mut cf = CfOptions::default();
        cf.write_buffer_size = 64 << 10;
        cf.level0_file_num_compaction_trigger = 2;
        Db::builder("/db")
            .create_if_missing(true)
            .own(evidence)
            .cf_options(cf)
            .env(self.env.clone())
            .no_info_log()
    }

    fn size(&self, name: &str) -> Option<u64> {
        self.env.fs.size(&Path::new("/db").join(name)).ok()
    }
}

fn property(db: &Db, name: &str) -> String {
    db.property(name).unwrap()
}

/// Overlapping tables, so that they are rewritten and not moved.
fn flush_rounds(db: &Db, rounds: u32) {
    for round in 0..rounds {
        for key in ["a", "m", "z"] {
            db.default_cf().put(key, format!("{round}")).unwrap();
        }
        db.flush(true).unwrap();
    }
}

#[test]
fn below_the_bound_of_free_space_compactions_wait_and_flushes_do_not() {
    let world = World::new(5);
    let bound = 10u64 << 20;
    let db = world
        .builder(OwnDbOptions::new().min_free_bytes(bound))
        .open()
        .unwrap();
    world.fs.set_budget(Some(bound - 1));
    flush_rounds(&db, 3);
    world.executor.jobs.run_until_idle();
    assert_eq!(property(&db, "rocksdb.num-files-at-level0"), "3");
    let said = property(&db, "spanlith.background-errors");
    assert!(said.contains("a compaction is held back"), "{said}");
    assert!(said.contains("resume when-there-is-space"), "{said}");
    let e = db.wait_idle(None).unwrap_err();
    assert_eq!(
        e.subcode(),
        Some(spanlith::SubCode::NoSpace),
        "who waits learns why: {e}"
    );
    // Tried again and again, and nothing else is in the way.
    for _ in 0..4 {
        world.pass(Duration::from_secs(40));
        assert_eq!(property(&db, "rocksdb.num-files-at-level0"), "3");
    }
    db.default_cf().put("b", "still written").unwrap();
    world.fs.set_budget(Some(bound + (1 << 20)));
    world.pass(Duration::from_secs(40));
    assert_eq!(property(&db, "rocksdb.num-files-at-level0"), "0");
    assert_eq!(property(&db, "spanlith.background-errors"), "");
    db.wait_idle(None).unwrap();
}

#[test]
fn a_writer_that_waits_for_a_compaction_that_is_held_back_is_told() {
    let world = World::new(5);
    let bound = 10u64 << 20;
    let mut cf = CfOptions::default();
    cf.level0_file_num_compaction_trigger = 2;
    cf.level0_slowdown_writes_trigger = 3;
    cf.level0_stop_writes_trigger = 4;
    let db = world.builder(OwnDbOptions::new().min_free_bytes(bound));
    let db = db.cf_options(cf).open().unwrap();
    world.fs.set_budget(Some(bound - 1));
    let mut failed = None;
    for round in 0..8 {
        let puts = ["a", "m", "z"].iter();
        let put = puts.map(|key| db.default_cf().put(key, format!("{round}")));
        if let Err(e) = put
            .collect::<spanlith::Result<()>>()
            .and_then(|()| db.flush(true))
        {
            failed = Some(e);
            break;
        }
    }
    let e = failed.unwrap_or_else(|| {
        let files = property(&db, "rocksdb.num-files-at-level0");
        let errors = property(&db, "spanlith.background-errors");
        panic!("it does not wait for ever: {files} files, {errors}")
    });
    assert_eq!(e.subcode(), Some(spanlith::SubCode::NoSpace), "{e}");
    assert!(e.to_string().contains("held back"), "{e}");
    world.fs.set_budget(None);
    world.pass(Duration::from_secs(40));
    db.default_cf().put("a", "again").unwrap();
    db.wait_idle(None).unwrap();
}

#[test]
fn a_writer_that_waits_for_a_flush_gets_its_error_though_nothing_is_tried_while_the_disk_is_full() {
    crate::suite_disk::needs_table_files(
        "the file system of the tables is full here, not the disk",
    );
    let world = World::new(5);
    let db = world.builder(OwnDbOptions::default()).open().unwrap();
    let cf = db.default_cf();
    let unlogged = WriteOptions::new().disable_wal(true);
    cf.put_opt("k", "v", &unlogged).unwrap();
    world.fs.set_budget(Some(300));
    db.flush(false).unwrap();
    world.executor.jobs.run_until_idle();
    let said = property(&db, "spanlith.background-errors");
    assert!(said.contains("retries 0"), "{said}");
    let created = world.fs.calls(OpClass::Create);
    for _ in 0..20 {
        world.pass(Duration::from_millis(100));
    }
    let said = property(&db, "spanlith.background-errors");
    assert!(said.contains("soft: a flush failed"), "{said}");
    assert!(said.contains("retries 1"), "{said}");
    let e = loop {
        if let Err(e) = cf.put_opt("k", [b'v'; 1000], &unlogged) {
            break e;
        }
    };
    assert_eq!(e.subcode(), Some(spanlith::SubCode::NoSpace), "{e}");
    world.pass(Duration::from_millis(100));
    assert_eq!(world.fs.calls(OpClass::Create), created, "not one file");
    world.fs.set_budget(None);
    world.pass(Duration::from_millis(100));
    cf.put("k", "w").unwrap();
    db.wait_idle(None).unwrap();
}

/// Each disk is asked for itself: that of the tables decides when they are tried again.
#[test]
fn space_is_looked_for_where_it_was_missing() {
    let world = World::new(5);
    let (own, tables) = (Path::new("/db"), Path::new("/tables"));
    let db = world.builder(OwnDbOptions::default());
    let db = db.db_paths(vec![DbPath::new(tables, 1 << 40)]);
    let db = db.open().unwrap();
    let no_space = FaultRule::fail(OpClass::Append, 1, 28).named(".sst");
    world.fs.add(no_space.forever());
    world.fs.set_free_space(own, 100);
    world.fs.set_free_space(tables, 100);
    db.default_cf().put("k", "v").unwrap();
    db.flush(false).unwrap();
    world.executor.jobs.run_until_idle();
    let created = world.fs.calls(OpClass::Create);
    for _ in 0..20 {
        world.pass(Duration::from_secs(40));
    }
    assert_eq!(world.fs.calls(OpClass::Create), created);
    world.fs.clear();
    world.fs.set_free_space(tables, 1 << 20);
    world.pass(Duration::from_secs(40));
    db.wait_idle(None).unwrap();
    assert_eq!(property(&db, "rocksdb.num-files-at-level0"), "1");
}

#[test]
fn room_that_is_reserved_is_given_up_when_the_disk_is_full_and_taken_again() {
    crate::suite_disk::needs_table_files(
        "the file system of the tables is full here, not the disk",
    );
    let world = World::new(5);
    let reserve = 300u64 << 10;
    let evidence = OwnDbOptions::new().reserve_file_bytes(reserve);
    let db = world.builder(evidence.clone()).open().unwrap();
    assert_eq!(world.size("SPANLITH.reserve"), Some(reserve));
    db.default_cf().put("k", "v").unwrap();
    // Enough to begin a log, not for a table. The flush fails, and its next try finds what the reserve
    // held.
    world.fs.set_budget(Some(300));
    db.flush(false).unwrap();
    world.executor.jobs.run_until_idle();
    assert_eq!(world.size("SPANLITH.reserve"), None);
    world.fs.set_budget(Some(reserve));
    world.pass(Duration::from_millis(1));
    db.wait_idle(None).unwrap();
    assert_eq!(property(&db, "rocksdb.num-files-at-level0"), "1");
    // Too little for another one.
    assert_eq!(world.size("SPANLITH.reserve"), None);
    world.fs.set_budget(None);
    db.default_cf().put("k", "w").unwrap();
    db.flush(true).unwrap();
    assert_eq!(world.size("SPANLITH.reserve"), Some(reserve));
    db.close().unwrap();
    // An open that wants none takes it away, and so does the end of the database.
    let db = world.builder(OwnDbOptions::default()).open().unwrap();
    assert_eq!(world.size("SPANLITH.reserve"), None);
    db.close().unwrap();
    drop(world.builder(evidence).open().unwrap());
    assert!(world.size("SPANLITH.reserve").is_some() && world.size("SPANLITH").is_some());
    Db::destroy_with(
        "/db",
        &world.env,
        &spanlith::options::DbOptions::default(),
        &[],
    )
    .unwrap();
    assert!(world.env.fs.entry(Path::new("/db")).unwrap().is_none());
}

#[derive(Default)]
struct Stalls(Mutex<Vec<DiskStallInfo>>);

impl EventListener for Stalls {
    fn on_disk_stalled(&self, info: &DiskStallInfo) {
        self.0.lock().unwrap().push(info.clone());
    }
}

#[test]
fn a_call_that_does_not_come_back_is_told_while_it_lasts() {
    crate::suite_disk::needs_log_files("a call for a file of a log is slow here");
    let world = World::new(5);
    let stalls = Arc::new(Stalls::default());
    let db = world.builder(OwnDbOptions::default());
    let db = Arc::new(db.listener(stalls.clone()).open().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let hang = {
        let (clock, executor) = (world.clock.clone(), world.executor.clone());
        let (db, seen) = (Arc::downgrade(&db), seen.clone());
        move |op: &FsOp| {
            let FsOp::Sync { path } = op else { return };
            if path.extension().is_some_and(|e| e == "log") {
                // The sync takes a minute.
                for _ in 0..60 {
                    executor.tick("disk");
                    clock.advance(Duration::from_secs(1));
                }
                let db = db.upgrade().unwrap();
                seen.lock()
                    .unwrap()
                    .push(property(&db, "spanlith.disk-stalls"));
            }
        }
    };
    world.mem.set_observer(Some(Arc::new(hang)));
    let sync = WriteOptions::new().sync(true);
    db.default_cf().put_opt("k", "v", &sync).unwrap();
    world.mem.set_observer(None);
    let told = std::mem::take(&mut *stalls.0.lock().unwrap());
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0].call, told[0].lasting.as_secs()), ("sync", 10));
    assert!(told[0].path.extension().is_some_and(|e| e == "log"));
    let seen = seen.lock().unwrap();
    assert!(seen[0].starts_with("sync /db/"), "{seen:?}");
    assert!(seen[0].ends_with("seconds 59\n"), "{seen:?}");
    world.executor.tick("disk");
    assert_eq!(property(&db, "spanlith.disk-stalls"), "");
    assert!(stalls.0.lock().unwrap().is_empty());
}

#[test]
fn own_options_are_kept_in_a_file_of_their_own() {
    let world = World::new(5);
    let load = || Sidecar::load(&world.env, Path::new("/db")).unwrap();
    drop(world.builder(OwnDbOptions::default()).open().unwrap());
    assert_eq!(load(), None, "defaults need no file");
    let evidence = OwnDbOptions::new()
        .evidence(false)
        .lost_files_max_age(60u64);
    let db = world.builder(evidence.clone()).open().unwrap();
    let kept = load().unwrap();
    assert_eq!(kept.db, evidence);
    assert!(world.size(&kept.options_file).is_some(), "{kept:?}");
    assert_eq!(
        kept.db_id,
        String::from_utf8(world.mem.read_file(Path::new("/db/IDENTITY")).unwrap())
            .unwrap()
            .trim_end()
    );
    db.set_options(&[("max_open_files", "77")]).unwrap();
    let newer = load().unwrap();
    assert_ne!(newer.options_file, kept.options_file);
    assert_eq!(newer.db, evidence);
    db.close().unwrap();
    // The open says the options; a temporary file that a crash left is deleted.
    let temp = Path::new("/db/SPANLITH.tmp");
    world.mem.write_file(temp, b"torn").unwrap();
    drop(world.builder(OwnDbOptions::default()).open().unwrap());
    assert_eq!(load().unwrap().db, OwnDbOptions::default());
    assert_eq!(world.size("SPANLITH.tmp"), None);
    // A file that cannot be read is replaced.
    let path = Path::new("/db/SPANLITH");
    world.mem.write_file(path, b"[Version]\n").unwrap();
    drop(world.builder(evidence.clone()).open().unwrap());
    assert_eq!(load().unwrap().db, evidence);
}

/// R-COMPAT: options that RocksDB does not have are set by name, refused by name, and changed at run time.
#[test]
fn own_options_are_set_by_name_whatever_the_order_of_calls() {
    crate::suite_disk::needs_log_files("the test compares all own options, sd_path among them");
    let world = World::new(5);
    let load = || Sidecar::load(&world.env, Path::new("/db")).unwrap();
    let refused = |text: &str| match world.builder(OwnDbOptions::default()).set(text) {
        Ok(_) => panic!("{text} was accepted"),
        Err(e) => e.to_string(),
    };
    assert_eq!(
        refused("lost_file_max_age=1"),
        "Invalid argument: Could not find option: lost_file_max_age; the nearest name is lost_files_max_age"
    );
    let e = refused("witness_spacing=many");
    assert!(e.contains("witness_spacing") && e.contains("many"), "{e}");
    let builder = world.builder(OwnDbOptions::default());
    let builder = builder
        .set("witness_spacing=4k; min_free_bytes=77")
        .unwrap();
    let db = builder
        .options(DbOptions::new().create_if_missing(true))
        .open()
        .unwrap();
    let own = || db.options().db.own;
    assert_eq!((own().witness_spacing, own().min_free_bytes), (4096, 77));
    assert_eq!(load().unwrap().db, own());
    let options = OptionsFile::load(&world.env, Path::new("/db")).unwrap();
    assert!(
        !options.to_text().contains("witness_spacing"),
        "RocksDB would refuse the file"
    );

    db.set_options(&[("min_free_bytes", "78")]).unwrap();
    assert_eq!(
        (own().min_free_bytes, load().unwrap().db.min_free_bytes),
        (78, 78)
    );
    assert_eq!(
        db.set_options(&[("witness_spacing", "1")])
            .unwrap_err()
            .rocksdb_text(),
        "NotFound: Unrecognized option: witness_spacing"
    );
    assert_eq!(own().witness_spacing, 4096);
}

#[test]
fn a_lower_bound_of_free_space_lets_compactions_go_on() {
    let world = World::new(5);
    let bound = 10u64 << 20;
    let db = world.builder(OwnDbOptions::new().min_free_bytes(bound));
    let db = db.open().unwrap();
    world.fs.set_budget(Some(bound - 1));
    flush_rounds(&db, 3);
    world.executor.jobs.run_until_idle();
    assert_eq!(property(&db, "rocksdb.num-files-at-level0"), "3");
    db.set_options(&[("min_free_bytes", "1")]).unwrap();
    world.pass(Duration::from_secs(40));
    assert_eq!(property(&db, "rocksdb.num-files-at-level0"), "0");
}
