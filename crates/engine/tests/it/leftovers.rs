//! Tables that no record of the MANIFEST can name do not stay on the disk.

use crate::world::World;
use spanlith::options::DbOptions;
use spanlith::{Db, FamilyOptions};
use spanlith_env::{FaultRule, OpClass, SstFileManager, SstFileManagerOptions};
use std::path::Path;
use std::sync::Arc;

const EIO: i32 = 5;
const EMFILE: i32 = 24;

fn open(world: &World, atomic: bool) -> (Db, Arc<SstFileManager>) {
    let manager = SstFileManager::new(&world.env, SstFileManagerOptions::default());
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.atomic_flush = atomic;
    let db = Db::builder("/db")
        .options(options)
        .sst_file_manager(manager.clone())
        .env(world.env.clone())
        .no_info_log()
        .open();
    (db.unwrap(), manager)
}

fn tables(world: &World) -> usize {
    let names = world.env.fs.list(Path::new("/db")).unwrap();
    names.iter().filter(|n| n.ends_with(".sst")).count()
}

/// Eight tries left eight tables.
#[test]
fn a_flush_that_fails_before_its_edit_is_written_leaves_no_table() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let rules = [
        FaultRule::fail(OpClass::Open, 1, EMFILE).named(".sst"),
        FaultRule::fail(OpClass::Open, 1, EIO).named(".sst"),
        // The first of two tables can be opened.
        FaultRule::fail(OpClass::Open, 2, EMFILE).named(".sst"),
        FaultRule::fail(OpClass::SyncDir, 1, EIO),
    ];
    for (at, rule) in rules.into_iter().enumerate() {
        let world = World::new(3);
        let (db, manager) = open(&world, true);
        let other = db.create_cf(FamilyOptions::new("other")).unwrap();
        db.default_cf().put("a", "1").unwrap();
        other.put("a", "1").unwrap();
        let id = world.fs.add(rule.forever());
        for _ in 0..4 {
            db.flush(true).unwrap_err();
            world.executor.jobs.run_until_idle();
            assert_eq!((tables(&world), manager.total_bytes()), (0, 0), "rule {at}");
        }
        world.fs.remove(id);
        db.flush(true).unwrap();
        assert_eq!(tables(&world), 2);
        assert!(manager.total_bytes() > 0);
        db.close().unwrap();
    }
}

/// Holds C3.
#[test]
fn a_compaction_that_fails_before_its_edit_is_written_leaves_no_table() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let world = World::new(3);
    let (db, manager) = open(&world, false);
    for value in ["1", "2"] {
        db.default_cf().put("a", value).unwrap();
        db.default_cf().put("b", value).unwrap();
        db.flush(true).unwrap();
    }
    let bytes = manager.total_bytes();
    let rule = FaultRule::fail(OpClass::Open, 1, EMFILE).named(".sst");
    let id = world.fs.add(rule.forever());
    for _ in 0..4 {
        let cf = db.default_cf();
        cf.compact_range(None, None).unwrap_err();
        assert_eq!((tables(&world), manager.total_bytes()), (2, bytes));
    }
    world.fs.remove(id);
    db.default_cf().compact_range(None, None).unwrap();
    world.executor.jobs.run_until_idle();
    assert_eq!(tables(&world), 1);
}

/// The rest of the record may be read by the next open.
/// Holds V4.
#[test]
fn a_flush_whose_edit_may_be_written_keeps_its_table() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let world = World::new(3);
    let (db, _) = open(&world, false);
    db.default_cf().put("a", "1").unwrap();
    let rule = FaultRule::fail(OpClass::Sync, 1, EIO).named("MANIFEST");
    world.fs.add(rule);
    db.flush(true).unwrap_err();
    assert_eq!(tables(&world), 1);
}
