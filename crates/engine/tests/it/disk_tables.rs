//! Databases with logs and tables on a speed disk without a file system (R-SPAN-36, R-SPAN-40).

use spanlith::options::{DbOptions, SdPlacement};
use spanlith::version::FilePaths;
use spanlith::{
    BackupEngine, BackupOptions, CompactRangeOptions, CreateBackupOptions, Db, FamilyOptions,
    MovedTables, OpenBuilder, RestoreOptions, TablesAt, migrate_tables_to_files, migrate_to_files,
    migrate_to_speed_disk,
};
use spanlith_env::{Env, FileSystem, MemFs, Rng, SeededRng};
use spanlith_speed::{
    FormatOptions, Policy, SpeedDisk, SpeedOptions, Target, TopUsage, format_disk,
};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const DISK: &str = "/fast/disk";
const THERE: &str = "/fast/disk/tables";
const DB: &str = "/db";
const BYTES: u64 = 4 << 20;

/// A world in memory with a speed disk of which `tables` bytes are for tables.
fn world(tables: u64) -> (Arc<MemFs>, Env) {
    let mem = Arc::new(MemFs::new());
    mem.make_device(Path::new(DISK), BYTES).unwrap();
    let device = Target::parse(DISK).unwrap().open(&*mem, false).unwrap();
    let options = FormatOptions {
        group_bytes: 64 << 10,
        tables,
        ..FormatOptions::default()
    };
    format_disk(&*device, &options, *b"0123456789abcdef").unwrap();
    let env = env_of(&mem);
    (mem, env)
}

fn env_of(mem: &Arc<MemFs>) -> Env {
    Env::test(mem.clone(), 7).0
}

fn at(env: &Env, dir: &str) -> OpenBuilder {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    Db::builder(dir)
        .env(env.clone())
        .options(options)
        .family(FamilyOptions::new("two"))
        .no_info_log()
}

fn builder(env: &Env, set: &str) -> OpenBuilder {
    at(env, DB).set(format!("sd_path={DISK};{set}")).unwrap()
}

fn here(fs: &dyn FileSystem) -> usize {
    let names = fs.list(Path::new(DB)).unwrap().into_iter();
    names.filter(|n| n.ends_with(".sst")).count()
}

/// Tables of the database on the disk and beside it.
fn counts(db: &Db) -> (usize, usize) {
    let files = db.live_files();
    let there = files.iter().filter(|f| f.path.starts_with(THERE)).count();
    (there, files.len() - there)
}

/// The tables on a disk that nobody writes.
fn stored(fs: &dyn FileSystem) -> (Vec<String>, TopUsage) {
    let device = Target::parse(DISK).unwrap().open(fs, true).unwrap();
    let options = SpeedOptions {
        read_only: true,
        ..SpeedOptions::default()
    };
    let disk = SpeedDisk::open(device, &options).unwrap();
    let names = disk.stored_tables().into_iter().map(|(name, _)| name);
    let names = names.filter(|n| n.ends_with(".sst")).collect();
    (names, disk.tables_usage().unwrap())
}

/// Keys of a round, in both families, and a flush.
fn fill(db: &Db, round: u32) {
    for cf in [db.default_cf(), db.cf("two").unwrap()] {
        for i in 0..50 {
            cf.put(format!("k{i:03}"), format!("{round}-{i}")).unwrap();
        }
        cf.put(format!("r{round:03}"), "x").unwrap();
    }
    db.flush(true).unwrap();
}

fn check(db: &Db, rounds: u32) {
    for cf in [db.default_cf(), db.cf("two").unwrap()] {
        for i in 0..50 {
            let found = cf.get(format!("k{i:03}")).unwrap().unwrap();
            assert_eq!(found.as_ref(), format!("{}-{i}", rounds - 1).as_bytes());
        }
        assert_eq!(cf.iter().count(), 50 + rounds as usize);
    }
}

fn compact(db: &Db) {
    for cf in [db.default_cf(), db.cf("two").unwrap()] {
        cf.compact_range_opt(None, None, &CompactRangeOptions::default())
            .unwrap();
    }
}

fn current(fs: &MemFs) -> String {
    String::from_utf8(fs.read_file(Path::new("/db/CURRENT")).unwrap()).unwrap()
}

#[test]
fn the_disk_of_the_logs_takes_tables_and_every_loss_of_power_leaves_them() {
    let (mem, env) = world(2 << 20);
    let db = builder(&env, "sd_placement=lad:1").open().unwrap();
    fill(&db, 0);
    assert_eq!(counts(&db), (2, 0));
    compact(&db);
    assert_eq!(counts(&db), (0, 2), "a level below the pointer leaves");
    fill(&db, 1);
    assert_eq!(counts(&db), (2, 2));
    assert!(
        current(&mem).contains("\nspeed-disk 1 ")
            && current(&mem).ends_with("stays /fast/disk/tables\n"),
        "{}",
        current(&mem)
    );
    let text = db.property("spanlith.speed-tables").unwrap();
    assert!(text.contains("refused=0\n"), "{text}");
    let lost = Arc::new(mem.strict_clone());
    let killed = Arc::new(mem.process_crash_clone());
    db.close().unwrap();
    for fs in [lost, killed, mem] {
        // CURRENT knows the disk.
        let env = env_of(&fs);
        let read = at(&env, DB).open_read_only().unwrap();
        check(&read, 2);
        drop(read);
        let db = at(&env, DB).open().unwrap();
        check(&db, 2);
        assert_eq!(counts(&db), (2, 2));
        fill(&db, 2);
        check(&db, 3);
        db.close().unwrap();
        let (names, _) = stored(&*fs);
        assert!(names.len() >= 2, "{names:?}");
        let db = at(&env, DB).open().unwrap();
        check(&db, 3);
        db.close().unwrap();
    }
}

#[test]
fn pages_of_a_deleted_table_are_free_when_its_last_reader_is_gone() {
    let (mem, env) = world(2 << 20);
    let db = builder(&env, "sd_placement=lad:9").open().unwrap();
    fill(&db, 0);
    let snapshot = db.snapshot();
    let mut old = db.default_cf().iter();
    // It has the tables from its first step on.
    let first = old.next().unwrap().unwrap();
    assert_eq!(&*first.1, b"0-0");
    fill(&db, 1);
    compact(&db);
    // As much as there is room for, so that pages of deleted tables would be written again.
    for round in 2..40 {
        fill(&db, round);
        if round % 4 == 0 {
            compact(&db);
        }
    }
    let mut seen = 1;
    for entry in &mut old {
        let (key, value) = entry.unwrap();
        assert!(
            !key.starts_with(b"k") || value.starts_with(b"0-"),
            "{key:?}"
        );
        seen += 1;
    }
    assert_eq!(seen, 51);
    drop((old, snapshot));
    compact(&db);
    check(&db, 40);
    let live = db.live_files().len();
    db.close().unwrap();
    let db = at(&env, DB).open().unwrap();
    check(&db, 40);
    db.close().unwrap();
    let (names, usage) = stored(&*mem);
    assert_eq!(names.len(), live, "{names:?}");
    // Every table of this size takes a page or two.
    assert!(usage.capacity - usage.free < 30 * 4096, "{usage:?}");
}

#[test]
fn a_full_disk_goes_on_in_files() {
    // 64 pages for tables beside their metadata log.
    let (mem, env) = world(384 << 10);
    let db = builder(&env, "sd_placement=lad:9").open().unwrap();
    let rng = SeededRng::new(7);
    let value = || -> Vec<u8> { (0..3000).map(|_| rng.next_u64() as u8).collect() };
    let mut rounds = 0;
    while here(&*mem) == 0 {
        for i in 0..40 {
            let key = format!("{rounds:03}-{i:03}");
            db.default_cf().put(key, value()).unwrap();
        }
        db.flush(true).unwrap();
        env.clock.sleep(std::time::Duration::from_secs(2));
        rounds += 1;
        assert!(rounds < 40, "the disk is never full");
    }
    assert!(counts(&db).0 > 0);
    let count = |db: &Db| db.default_cf().iter().count();
    assert_eq!(count(&db), rounds * 40);
    db.close().unwrap();
    let db = at(&env, DB).open().unwrap();
    assert_eq!(count(&db), rounds * 40);
    db.close().unwrap();
}

#[test]
fn copies_have_all_tables_as_files() {
    let (mem, env) = world(2 << 20);
    let db = builder(&env, "sd_placement=lad:1").open().unwrap();
    fill(&db, 0);
    compact(&db);
    fill(&db, 1);
    assert_eq!(counts(&db), (2, 2));
    db.checkpoint_opt("/copy", u64::MAX).unwrap();
    let backups = BackupEngine::open(BackupOptions::new("/backups"), &env).unwrap();
    backups
        .create(&db, &CreateBackupOptions::default())
        .unwrap();
    let verified = backups.verify(1, true);
    verified.unwrap();
    db.close().unwrap();
    backups
        .restore(None, "/restored", "/restored", &RestoreOptions::default())
        .unwrap();
    // Copies do not depend on the disk.
    mem.delete(Path::new(DISK)).unwrap();
    for dir in ["/copy", "/restored"] {
        let text = mem.read_file(&Path::new(dir).join("CURRENT")).unwrap();
        assert_eq!(text.iter().filter(|&&b| b == b'\n').count(), 1, "{dir}");
        let db = at(&env, dir).open().unwrap();
        check(&db, 2);
        db.close().unwrap();
    }
    let e = at(&env, DB).open().unwrap_err();
    assert!(
        e.to_string().contains("and the tables that were on it")
            && e.to_string().contains("--lose-logs --lose-tables"),
        "{e}"
    );
}

#[test]
fn a_disk_belongs_to_one_database_and_is_free_again_when_that_is_destroyed() {
    let (mem, env) = world(2 << 20);
    let db = builder(&env, "sd_placement=lad:9").open().unwrap();
    fill(&db, 0);
    db.close().unwrap();
    let other = at(&env, "/other").set(format!("sd_path={DISK}")).unwrap();
    let e = other.open().unwrap_err();
    assert!(e.to_string().contains("belongs to the database"), "{e}");
    Db::destroy_with(DB, &env, &DbOptions::default(), &[]).unwrap();
    assert_eq!(stored(&*mem).0, [""; 0]);
    let other = at(&env, "/other").set(format!("sd_path={DISK}")).unwrap();
    let db = other.open().unwrap();
    fill(&db, 0);
    check(&db, 1);
    assert_eq!(counts(&db).0, 2);
    db.close().unwrap();
}

fn one(_: &str) -> FilePaths {
    FilePaths::one(Path::new(DB))
}

fn to_disk(fs: &Arc<MemFs>) -> spanlith::Result<MovedTables> {
    let placement = SdPlacement(Policy::Lad(1));
    migrate_to_speed_disk(
        &env_of(fs),
        Path::new(DB),
        &one,
        Path::new(DISK),
        placement,
        0,
    )
}

fn to_files(fs: &Arc<MemFs>) -> spanlith::Result<MovedTables> {
    let env = env_of(fs);
    let tables = migrate_tables_to_files(&env, Path::new(DB), &one, &TablesAt::default(), false)?;
    migrate_to_files(&env, Path::new(DB), &DbOptions::default(), None, false)?;
    Ok(tables)
}

/// A database without a speed disk, tables in two levels, and a log; and a disk that is nobody's.
fn two_levels() -> Arc<MemFs> {
    let (mem, env) = world(2 << 20);
    let db = at(&env, DB).open().unwrap();
    fill(&db, 0);
    compact(&db);
    fill(&db, 1);
    fill(&db, 2);
    db.default_cf().put("r099", "in the log").unwrap();
    db.cf("two").unwrap().put("r099", "in the log").unwrap();
    db.close().unwrap();
    mem
}

fn check_with_log(db: &Db, cut: u64) {
    for cf in [db.default_cf(), db.cf("two").unwrap()] {
        let found = cf.get("k007").unwrap().unwrap();
        assert_eq!(found.as_ref(), b"2-7", "cut {cut}");
        assert_eq!(cf.iter().count(), 54, "cut {cut}");
    }
}

/// Carries `step` out, and again with the power lost after each change of a file or the disk; `after` gets what is left.
fn cut_everywhere(
    start: &Arc<MemFs>,
    step: &dyn Fn(&Arc<MemFs>) -> spanlith::Result<MovedTables>,
    after: &dyn Fn(u64, &Arc<MemFs>),
) {
    let changes = {
        let fs = Arc::new(start.process_crash_clone());
        step(&fs).unwrap();
        fs.op_count()
    };
    assert!(changes > 10, "{changes}");
    for cut in 0..changes {
        let fs = Arc::new(start.process_crash_clone());
        let left = Arc::new(Mutex::new(None));
        let (count, taken) = (AtomicU64::new(0), left.clone());
        let camera = Arc::downgrade(&fs);
        fs.set_observer(Some(Arc::new(move |_| {
            if count.fetch_add(1, Ordering::Relaxed) == cut
                && let Some(fs) = camera.upgrade()
            {
                let clone = match cut % 2 {
                    0 => fs.strict_clone(),
                    _ => fs.process_crash_clone(),
                };
                *taken.lock().unwrap() = Some(clone);
            }
        })));
        step(&fs).unwrap();
        fs.set_observer(None);
        let left = left.lock().unwrap().take();
        if let Some(left) = left {
            after(cut, &Arc::new(left));
        }
    }
}

/// R-SPAN-07: in and out, restartable at every step.
#[test]
fn tables_come_to_the_disk_and_leave_it_and_every_step_can_be_repeated() {
    let start = two_levels();
    let step = |fs: &Arc<MemFs>| to_disk(fs);
    {
        let fs = Arc::new(start.process_crash_clone());
        assert_eq!(to_disk(&fs).unwrap().tables, 4);
        assert_eq!((here(&*fs), stored(&*fs).0.len()), (2, 4));
        assert_eq!(to_disk(&fs).unwrap().tables, 0);
        let db = at(&env_of(&fs), DB).open().unwrap();
        check_with_log(&db, 0);
        db.close().unwrap();
        // Logs do not leave a disk that has the tables still.
        let options = DbOptions::default();
        let e = migrate_to_files(&env_of(&fs), Path::new(DB), &options, None, false);
        let e = e.unwrap_err();
        assert!(e.to_string().contains("the tables go first"), "{e}");
    }
    cut_everywhere(&start, &step, &|cut, left| {
        if cut % 3 == 0 {
            to_disk(left).unwrap();
            assert_eq!(
                (here(&**left), stored(&**left).0.len()),
                (2, 4),
                "cut {cut}"
            );
        }
        let db = at(&env_of(left), DB).open().unwrap();
        check_with_log(&db, cut);
        db.close().unwrap();
    });
    let there = Arc::new(start.process_crash_clone());
    to_disk(&there).unwrap();
    let db = at(&env_of(&there), DB).open().unwrap();
    db.default_cf().put("r098", "on the disk").unwrap();
    db.default_cf().delete("r098").unwrap();
    db.close().unwrap();
    let there = Arc::new(there.process_crash_clone());
    cut_everywhere(&there, &|fs| to_files(fs), &|cut, left| {
        if cut % 3 == 0 {
            to_files(left).unwrap();
            assert!(!current(left).contains("speed"), "cut {cut}");
            assert!(stored(&**left).0.is_empty(), "cut {cut}");
        }
        let db = at(&env_of(left), DB).open().unwrap();
        check_with_log(&db, cut);
        db.close().unwrap();
    });
}

/// A disk that somebody else copied in place of the newer one has older tables.
#[test]
fn an_older_copy_of_the_disk_is_told() {
    let (mem, env) = world(2 << 20);
    let db = builder(&env, "sd_placement=lad:9").open().unwrap();
    fill(&db, 0);
    db.close().unwrap();
    let older = mem.process_crash_clone();
    let db = at(&env, DB).open().unwrap();
    fill(&db, 1);
    db.close().unwrap();
    let content = mem.read_file(Path::new("/db/CURRENT")).unwrap();
    older
        .write_file(Path::new("/db/CURRENT"), &content)
        .unwrap();
    let e = at(&env_of(&Arc::new(older)), DB).open().unwrap_err();
    assert!(e.to_string().contains("is older than the database"), "{e}");
}

#[test]
fn a_manager_of_table_files_counts_tables_on_the_disk_and_leaves_their_deletion_to_it() {
    use spanlith_env::{SstFileManager, SstFileManagerOptions};
    let (mem, env) = world(2 << 20);
    let options = SstFileManagerOptions {
        delete_bytes_per_second: 1,
        ..SstFileManagerOptions::default()
    };
    let manager = SstFileManager::new(&env, options);
    let open = || {
        let builder = builder(&env, "sd_placement=lad:1");
        builder.sst_file_manager(manager.clone()).open().unwrap()
    };
    let db = open();
    fill(&db, 0);
    assert_eq!(counts(&db), (2, 0));
    let sizes = |db: &Db| db.live_files().iter().map(|f| f.size).sum::<u64>();
    assert_eq!(manager.total_bytes(), sizes(&db));
    db.close().unwrap();
    let db = open();
    fill(&db, 1);
    compact(&db);
    assert_eq!(manager.total_bytes(), sizes(&db));
    let there = counts(&db).0;
    db.close().unwrap();
    assert_eq!(stored(&*mem).0.len(), there);
    assert_eq!(manager.trash_bytes(), 0);
}
