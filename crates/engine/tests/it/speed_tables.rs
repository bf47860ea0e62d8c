//! Databases with tables in a directory of a speed disk.

use spanlith::options::{DbOptions, SdPlacement};
use spanlith::version::{FilePaths, VersionEdit, filenames};
use spanlith::{
    BackupEngine, BackupOptions, BottommostCompaction, CompactRangeOptions, CreateBackupOptions,
    Db, DbPath, ErrorKind, FamilyOptions, MovedTables, OpenBuilder, RestoreOptions, SubCode,
    TablesAt, migrate_tables_to_files, migrate_to_speed_disk,
};
use spanlith_env::{Env, FaultFs, FaultRule, FileSystem, MemFs, OpClass};
use spanlith_speed::Policy;
use spanlith_testkit::TempDir;
use spanlith_wal::{LogReader, ReadEvent};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const FAST: &str = "/fast";
const DB: &str = "/db";

fn world() -> (Arc<MemFs>, Env) {
    let mem = Arc::new(MemFs::new());
    let env = env_of(&mem);
    (mem, env)
}

fn env_of(mem: &Arc<MemFs>) -> Env {
    Env::test(mem.clone(), 7).0
}

fn plain(env: &Env) -> OpenBuilder {
    at(env, DB)
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
    let text = format!("sd_tables_path={FAST};{set}");
    plain(env).set(text).unwrap()
}

/// Tables of a directory.
fn tables(fs: &dyn FileSystem, dir: &str) -> Vec<String> {
    let names = fs.list(Path::new(dir)).unwrap_or_default().into_iter();
    names.filter(|n| n.ends_with(".sst")).collect()
}

fn counts(fs: &dyn FileSystem) -> (usize, usize) {
    (tables(fs, FAST).len(), tables(fs, DB).len())
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
        let count = cf.iter().count();
        assert_eq!(count, 50 + rounds as usize);
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
fn flushes_and_upper_levels_go_to_the_speed_disk_and_lower_ones_do_not() {
    let (mem, env) = world();
    let db = builder(&env, "sd_placement=lad:1").open().unwrap();
    fill(&db, 0);
    assert_eq!(counts(&*mem), (2, 0), "R-SPAN-32");
    let files = db.live_files();
    assert!(files.iter().all(|f| f.path.starts_with(FAST)), "{files:?}");
    compact(&db);
    assert_eq!(counts(&*mem), (0, 2), "a level below the pointer leaves");
    fill(&db, 1);
    assert_eq!(counts(&*mem), (2, 2));
    let text = db.property("spanlith.speed-tables").unwrap();
    assert!(text.starts_with("levels=1\n"), "{text}");
    // The pointer moves new tables only (R-SPAN-33).
    db.set_options(&[("sd_placement", "pl")]).unwrap();
    assert_eq!(counts(&*mem), (2, 2));
    fill(&db, 2);
    assert_eq!(counts(&*mem), (2, 4), "the log alone");
    db.set_options(&[("sd_placement", "lad:2")]).unwrap();
    compact(&db);
    assert_eq!(counts(&*mem), (2, 0), "the second level goes there, too");
    check(&db, 3);
    db.close().unwrap();
    // Nothing has to name the directory any more, for reading and for writing.
    assert!(
        current(&mem).ends_with("stays /fast\n"),
        "{}",
        current(&mem)
    );
    let read = plain(&env).open_read_only().unwrap();
    check(&read, 3);
    drop(read);
    let second = plain(&env).open_secondary("/second").unwrap();
    check(&second, 3);
    drop(second);
    let db = plain(&env).open().unwrap();
    check(&db, 3);
    fill(&db, 3);
    check(&db, 4);
    db.close().unwrap();
    assert_eq!(counts(&*mem), (4, 0));
}

#[test]
fn tables_that_come_to_a_level_which_is_not_there_leave_the_disk() {
    let (mem, env) = world();
    let db = builder(&env, "sd_placement=lad:2").open().unwrap();
    fill(&db, 0);
    compact(&db);
    assert_eq!(
        counts(&*mem),
        (2, 0),
        "moved, or written anew at their level"
    );
    db.set_options(&[("sd_placement", "lad:1")]).unwrap();
    // No table moves for its own sake.
    fill(&db, 1);
    assert_eq!(counts(&*mem), (4, 0));
    compact(&db);
    assert_eq!(counts(&*mem), (0, 2));
    check(&db, 2);
    db.close().unwrap();
}

#[test]
fn what_finds_no_room_goes_to_the_other_disk() {
    let (mem, env) = world();
    let small = "sd_placement=lad:9;sd_tables_size=1";
    let db = builder(&env, small).open().unwrap();
    fill(&db, 0);
    assert_eq!(counts(&*mem), (0, 2));
    let text = db.property("spanlith.speed-tables").unwrap();
    assert!(text.contains("refused=2\n"), "{text}");
    db.set_options(&[("sd_tables_size", "1000000000")]).unwrap();
    env.clock.sleep(std::time::Duration::from_secs(2));
    fill(&db, 1);
    assert_eq!(counts(&*mem), (2, 2));
    db.close().unwrap();
}

#[test]
fn levels_leave_a_disk_whose_bandwidth_is_taken() {
    let (mem, env) = world();
    let db = builder(&env, "sd_placement=auto").open().unwrap();
    let levels = |db: &Db| {
        let text = db.property("spanlith.speed-tables").unwrap();
        let first = text.lines().next().unwrap();
        first
            .strip_prefix("levels=")
            .unwrap()
            .parse::<f64>()
            .unwrap()
    };
    let mut rounds = 0;
    let mut pass = |db: &Db, seconds| {
        env.clock.sleep(std::time::Duration::from_secs(seconds));
        fill(db, rounds);
        rounds += 1;
    };
    pass(&db, 1);
    let begin = levels(&db);
    assert!(begin >= 6.0, "an empty database fits: {begin}");
    // A disk of one byte per second is always busy.
    db.set_options(&[("sd_tables_bandwidth", "1")]).unwrap();
    for _ in 0..40 {
        pass(&db, 4);
    }
    assert!((levels(&db) + 1.0).abs() < 1e-9, "{}", levels(&db));
    let (there, _) = counts(&*mem);
    pass(&db, 4);
    assert_eq!(counts(&*mem).0, there, "the log alone");
    // With a disk that has time levels come back, not before thirty seconds have passed.
    db.set_options(&[("sd_tables_bandwidth", "1000000000000")])
        .unwrap();
    pass(&db, 4);
    assert!((levels(&db) + 1.0).abs() < 1e-9);
    pass(&db, 31);
    assert!(levels(&db) > -1.0);
    db.close().unwrap();
}

#[test]
fn a_full_speed_disk_stops_nobody() {
    let (mem, _) = world();
    let faults = Arc::new(FaultFs::new(mem.clone()));
    let env = Env::test(faults.clone(), 7).0;
    let db = builder(&env, "sd_placement=lad:9").open().unwrap();
    fill(&db, 0);
    assert_eq!(counts(&*mem), (2, 0));
    // Before the table is begun: the file system says how much it has.
    faults.set_free_space(Path::new(FAST), 100);
    fill(&db, 1);
    assert_eq!(counts(&*mem), (2, 2));
    check(&db, 2);
    // While it is written: the flush fails, and the next try goes elsewhere.
    faults.set_free_space(Path::new(FAST), u64::MAX);
    let full = FaultRule::fail(OpClass::Append, 1, 28);
    let id = faults.add(full.when(|path| path.starts_with(FAST)).forever());
    for cf in [db.default_cf(), db.cf("two").unwrap()] {
        cf.put("more", "x").unwrap();
    }
    assert!(db.flush(true).is_err());
    faults.set_free_space(Path::new(FAST), 100);
    db.resume().unwrap();
    db.flush(true).unwrap();
    faults.remove(id);
    assert_eq!(tables(&*mem, FAST).len(), 2);
    assert_eq!(db.default_cf().get("more").unwrap().unwrap().as_ref(), b"x");
    db.close().unwrap();
}

#[test]
fn copies_have_all_tables_in_one_directory_and_may_get_a_disk_of_their_own() {
    let (mem, env) = world();
    let db = builder(&env, "sd_placement=lad:1").open().unwrap();
    fill(&db, 0);
    compact(&db);
    fill(&db, 1);
    assert_eq!(counts(&*mem), (2, 2));
    db.checkpoint_opt("/copy", u64::MAX).unwrap();
    let backups = BackupEngine::open(BackupOptions::new("/backups"), &env).unwrap();
    backups
        .create(&db, &CreateBackupOptions::default())
        .unwrap();
    db.close().unwrap();
    backups
        .restore(None, "/restored", "/restored", &RestoreOptions::default())
        .unwrap();
    let fs: &dyn FileSystem = &*mem;
    for name in tables(fs, FAST) {
        fs.delete(&Path::new(FAST).join(name)).unwrap();
    }
    for dir in ["/copy", "/restored"] {
        let text = mem.read_file(&Path::new(dir).join("CURRENT")).unwrap();
        assert_eq!(text.iter().filter(|&&b| b == b'\n').count(), 1, "{dir}");
        // RocksDB looks up the directory of each path id.
        assert!(path_ids(&mem, dir).iter().all(|id| *id == 0), "{dir}");
        let db = at(&env, dir).open().unwrap();
        check(&db, 2);
        db.close().unwrap();
        let own = format!("sd_tables_path={dir}-fast;sd_placement=lad:1");
        let db = at(&env, dir).set(own).unwrap().open().unwrap();
        check(&db, 2);
        fill(&db, 2);
        assert_eq!(tables(fs, &format!("{dir}-fast")).len(), 2);
        check(&db, 3);
        db.close().unwrap();
    }
}

/// Path ids of tables in the current MANIFEST.
fn path_ids(mem: &MemFs, dir: &str) -> Vec<u32> {
    let content = mem.read_file(&Path::new(dir).join("CURRENT")).unwrap();
    let (number, _) = filenames::parse_marked_current(&content).unwrap();
    let path = Path::new(dir).join(filenames::manifest_file_name(number));
    let mut reader = LogReader::new(mem.open_sequential(&path).unwrap(), 0);
    let mut ids = Vec::new();
    while let ReadEvent::Record { .. } = reader.next_event().unwrap() {
        let edit = VersionEdit::decode(reader.record()).unwrap();
        ids.extend(edit.new_files.iter().map(|f| f.path_id));
    }
    assert!(!ids.is_empty());
    ids
}

/// A database with four directories gives its copies the largest path id, which means something else once there is a
/// speed disk.
#[test]
fn a_copy_with_the_largest_path_id_takes_a_speed_disk() {
    let (mem, env) = world();
    let paths: Vec<DbPath> = (0..4).map(|n| DbPath::new(format!("/p{n}"), 1)).collect();
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    let open = |dir: &str| Db::builder(dir).env(env.clone()).options(options.clone());
    let db = open(DB).db_paths(paths).open().unwrap();
    db.default_cf().put("k", "v").unwrap();
    db.flush(true).unwrap();
    let far = CompactRangeOptions {
        target_path_id: 3,
        bottommost: BottommostCompaction::Force,
        ..CompactRangeOptions::default()
    };
    let cf = db.default_cf();
    cf.compact_range_opt(None, None, &far).unwrap();
    db.checkpoint("/copy").unwrap();
    db.close().unwrap();
    assert_eq!(tables(&*mem, "/p3").len(), 1);
    assert!(path_ids(&mem, "/copy").contains(&3));
    // A copy gets its IDENTITY when it is opened first; without one no speed disk can be its own.
    open("/copy").open().unwrap().close().unwrap();
    let own = format!("sd_tables_path={FAST};sd_placement=lad:1");
    let db = open("/copy").set(own).unwrap().open().unwrap();
    assert_eq!(db.default_cf().get("k").unwrap().unwrap().as_ref(), b"v");
    db.default_cf().put("l", "w").unwrap();
    db.flush(true).unwrap();
    db.close().unwrap();
    let db = open("/copy").open().unwrap();
    assert_eq!(db.default_cf().iter().count(), 2);
    db.close().unwrap();
    assert_eq!(tables(&*mem, FAST).len(), 1);
}

#[test]
fn directories_that_are_missing_foreign_old_or_in_use_are_refused_by_name() {
    let (mem, env) = world();
    let db = builder(&env, "sd_placement=lad:1").open().unwrap();
    fill(&db, 0);
    compact(&db);
    fill(&db, 1);
    // In use: by a copy that was made while the database is open.
    copy_of(&mem, "/hot");
    let e = at(&env, "/hot").open().unwrap_err();
    assert_eq!(e.subcode(), Some(SubCode::LockHeld), "{e}");
    db.close().unwrap();
    // Another database.
    let other = at(&env, "/other").set(format!("sd_tables_path={FAST}"));
    let e = other.unwrap().open().unwrap_err();
    assert!(
        e.to_string()
            .contains("belongs to the database with identity"),
        "{e}"
    );
    // A copy that stayed behind.
    copy_of(&mem, "/old");
    let db = plain(&env).open().unwrap();
    db.close().unwrap();
    let e = at(&env, "/old").open().unwrap_err();
    assert!(e.to_string().contains("the older one"), "{e}");
    assert_eq!(e.kind(), ErrorKind::Corruption);
    // One with tables that belong to nobody.
    let path = Path::new("/left");
    mem.create_dir_if_missing(path).unwrap();
    mem.write_file(Path::new("/left/000009.sst"), b"x").unwrap();
    let e = at(&env, "/third").set("sd_tables_path=/left").unwrap();
    let e = e.open().unwrap_err();
    assert!(e.to_string().contains("holds 000009.sst"), "{e}");
    // Those that mean nothing.
    let e = at(&env, "/db").set("sd_tables_path=/db").unwrap();
    let e = e.open().unwrap_err();
    assert!(
        e.to_string().contains("the directory of the database"),
        "{e}"
    );
    let four: Vec<DbPath> = (0..4).map(|n| DbPath::new(format!("/p{n}"), 1)).collect();
    let e = builder(&env, "").db_paths(four).open().unwrap_err();
    assert!(e.to_string().contains("with four directories"), "{e}");
    // Elsewhere, and back.
    mem.rename(Path::new(FAST), Path::new("/moved")).unwrap();
    let e = plain(&env).open().unwrap_err();
    assert_eq!(e.subcode(), Some(SubCode::PathNotFound));
    let text = e.to_string();
    for part in [
        "directory /fast on the speed disk is missing, and with it 2 tables (",
        "of level 0); 2 other tables and the logs are whole",
        "sd_tables_path",
        "--lose-tables",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let e = plain(&env).open_read_only().unwrap_err();
    assert!(e.to_string().contains("is missing, and with it 2"), "{e}");
    assert!(mem.entry(Path::new(FAST)).unwrap().is_none());
    let db = plain(&env).set("sd_tables_path=/moved").unwrap();
    let db = db.open().unwrap();
    check(&db, 2);
    db.close().unwrap();
    let db = plain(&env).open().unwrap();
    check(&db, 2);
    db.close().unwrap();
}

/// A path that is the database's own would be source and target at once: its tables would be cut to nothing.
#[test]
fn a_directory_of_the_database_is_no_directory_on_a_speed_disk() {
    let (mem, env) = world();
    let two = || vec![DbPath::new("/p0", 1 << 30), DbPath::new(FAST, 1 << 30)];
    let refused = |e: spanlith::Error| {
        assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
        assert!(
            e.to_string().contains("one of the database's directories"),
            "{e}"
        );
    };
    refused(builder(&env, "").db_paths(two()).open().unwrap_err());
    let of_family = FamilyOptions::new("two").paths(two());
    refused(builder(&env, "").family(of_family).open().unwrap_err());
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    options.wal_dir = format!("{FAST}/");
    let elsewhere = plain(&env).options(options);
    let elsewhere = elsewhere.set(format!("sd_tables_path={FAST}")).unwrap();
    refused(elsewhere.open().unwrap_err());
    // In and out, with paths that were given too late.
    let db = builder(&env, "sd_placement=lad:1").open().unwrap();
    fill(&db, 0);
    db.close().unwrap();
    let paths = |_: &str| FilePaths::new(two());
    let bytes = |name: &String| mem.read_file(&Path::new(FAST).join(name)).unwrap();
    let before: Vec<_> = tables(&*mem, FAST).iter().map(bytes).collect();
    for lose in [false, true] {
        let out = migrate_tables_to_files(&env, Path::new(DB), &paths, &TablesAt::default(), lose);
        refused(out.unwrap_err());
    }
    let placement = SdPlacement(Policy::Auto);
    let fast = Path::new(FAST);
    let into = migrate_to_speed_disk(&env, Path::new(DB), &paths, fast, placement, 0);
    refused(into.unwrap_err());
    let after: Vec<_> = tables(&*mem, FAST).iter().map(bytes).collect();
    assert_eq!((before.len(), &before), (2, &after));
    let db = plain(&env).open().unwrap();
    check(&db, 1);
    db.close().unwrap();
}

#[test]
fn another_name_of_a_directory_of_the_database_is_found_out() {
    let temp = TempDir::new("alias");
    let (own, fast) = (temp.join("own"), temp.join("fast"));
    std::fs::create_dir(&own).unwrap();
    std::os::unix::fs::symlink(&own, &fast).unwrap();
    let open = |set: &str| {
        let db = Db::builder(temp.join("db")).create_if_missing(true);
        let db = db.db_paths(vec![DbPath::new(&own, 1 << 30)]);
        db.no_info_log().set(set).unwrap().open()
    };
    let set = format!("sd_tables_path={};sd_placement=lad:1", fast.display());
    let e = open(&set).unwrap_err();
    assert!(
        e.to_string().contains("one of the database's directories"),
        "{e}"
    );
    assert!(!own.join("SPANLITH.tables").exists());
    let db = open("").unwrap();
    db.default_cf().put("k", "v").unwrap();
    db.flush(true).unwrap();
    db.close().unwrap();
    assert!(open(&set).is_err(), "there are tables by now");
    assert_eq!(open("").unwrap().default_cf().iter().count(), 1);
}

/// The MANIFEST was written again as if these tables were in the only directory that was named.
#[test]
fn directories_that_were_not_named_leave_the_manifest_as_it_is() {
    let (mem, env) = world();
    let four = || (0..4).map(|n| DbPath::new(format!("/p{n}"), 1)).collect();
    let db = plain(&env).db_paths(four()).open().unwrap();
    fill(&db, 0);
    let far = CompactRangeOptions {
        target_path_id: 3,
        bottommost: BottommostCompaction::Force,
        ..CompactRangeOptions::default()
    };
    let cf = db.default_cf();
    cf.compact_range_opt(None, None, &far).unwrap();
    db.close().unwrap();
    let before = (current(&mem), path_ids(&mem, DB));
    assert!(before.1.contains(&3), "{before:?}");
    let refused = |e: spanlith::Error| {
        assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
        assert!(
            e.to_string().contains("column family default is not in"),
            "{e}"
        );
        assert_eq!((current(&mem), path_ids(&mem, DB)), before);
        assert!(mem.entry(Path::new(FAST)).unwrap().is_none());
    };
    refused(builder(&env, "").open().unwrap_err());
    let three = four().into_iter().take(3).collect();
    refused(builder(&env, "").db_paths(three).open().unwrap_err());
    refused(to_disk(&mem, Policy::Auto).unwrap_err());
    let unnamed = Db::builder(DB).env(env.clone()).no_info_log();
    let unnamed = unnamed.family(FamilyOptions::new("three"));
    let e = unnamed.set(format!("sd_tables_path={FAST}")).unwrap();
    refused(e.open().unwrap_err());
    let db = plain(&env).db_paths(four()).open().unwrap();
    check(&db, 1);
    db.close().unwrap();
}

#[test]
fn tables_leave_the_disk_only_to_the_directories_that_the_database_has() {
    let (mem, env) = world();
    let two = || vec![DbPath::new("/p0", 1 << 30), DbPath::new("/p1", 1 << 30)];
    let db = builder(&env, "sd_placement=lad:1").db_paths(two());
    let db = db.open().unwrap();
    fill(&db, 0);
    compact(&db);
    fill(&db, 1);
    db.close().unwrap();
    let before = current(&mem);
    let e = to_files(&mem, false).unwrap_err();
    assert!(e.to_string().contains("name all those of"), "{e}");
    assert_eq!((current(&mem), counts(&*mem)), (before, (2, 0)));
    let paths = |_: &str| FilePaths::new(two());
    let done = migrate_tables_to_files(&env, Path::new(DB), &paths, &TablesAt::default(), false);
    assert_eq!(done.unwrap().tables, 2);
    let db = plain(&env).db_paths(two()).open().unwrap();
    check(&db, 2);
    db.close().unwrap();
}

#[test]
fn tables_without_the_file_that_says_whose_they_are_are_not_called_missing() {
    let (mem, env) = world();
    let db = builder(&env, "sd_placement=lad:1").open().unwrap();
    fill(&db, 0);
    fill(&db, 1);
    db.close().unwrap();
    let file = Path::new("/fast/SPANLITH.tables");
    let bytes = mem.read_file(file).unwrap();
    mem.delete(file).unwrap();
    for e in [
        plain(&env).open().unwrap_err(),
        plain(&env).open_read_only().unwrap_err(),
        to_files(&mem, false).unwrap_err(),
    ] {
        let text = e.to_string();
        assert!(text.contains("has 4 of the 4 tables"), "{text}");
        assert!(text.contains("SPANLITH.tables"), "{text}");
        assert!(!text.contains("is missing"), "{text}");
    }
    // With the file back all is well; without it the tables can be brought back all the same.
    let whole = Arc::new(mem.process_crash_clone());
    whole.write_file(file, &bytes).unwrap();
    check(&plain(&env_of(&whole)).open().unwrap(), 2);
    mem.delete(&Path::new(FAST).join(&tables(&*mem, FAST)[0]))
        .unwrap();
    let done = to_files(&mem, true).unwrap();
    assert_eq!((done.tables, done.lost), (3, 1));
    assert_eq!(counts(&*mem), (3, 3));
    plain(&env).open().unwrap().close().unwrap();
}

/// Tables take their room from the moment they begin, and once.
#[test]
fn what_is_used_is_what_is_there() {
    let (mem, env) = world();
    let db = builder(&env, "sd_placement=lad:9").open().unwrap();
    for round in 0..4 {
        fill(&db, round);
        env.clock.sleep(std::time::Duration::from_secs(2));
    }
    // New ones go elsewhere, so that nothing is begun there.
    db.set_options(&[("sd_placement", "pl")]).unwrap();
    fill(&db, 4);
    let names = tables(&*mem, FAST).into_iter();
    let sizes = names.map(|n| mem.size(&Path::new(FAST).join(n)).unwrap());
    let text = db.property("spanlith.speed-tables").unwrap();
    let expected = format!("\nused={}\n", sizes.sum::<u64>());
    assert!(text.contains(&expected), "{text}: {expected}");
    db.close().unwrap();
}

/// The database's directory, as a copying program makes it.
fn copy_of(mem: &MemFs, to: &str) {
    mem.create_dir_if_missing(Path::new(to)).unwrap();
    let names = mem.list(Path::new(DB)).unwrap();
    let names: Vec<_> = names.iter().filter(|n| *n != "LOCK").collect();
    for name in &names {
        let bytes = mem.read_file(&Path::new(DB).join(name)).unwrap();
        mem.write_file(&Path::new(to).join(name), &bytes).unwrap();
    }
}

#[test]
fn tables_that_are_gone_can_be_given_up() {
    let (mem, env) = world();
    let db = builder(&env, "sd_placement=lad:1").open().unwrap();
    fill(&db, 0);
    compact(&db);
    fill(&db, 1);
    db.close().unwrap();
    // One of them.
    let part = Arc::new(mem.process_crash_clone());
    let first = tables(&*part, FAST).remove(0);
    part.delete(&Path::new(FAST).join(first)).unwrap();
    assert!(to_files(&part, false).is_err());
    let done = to_files(&part, true).unwrap();
    assert_eq!((done.tables, done.lost, counts(&*part).1), (1, 1, 3));
    plain(&env_of(&part)).open().unwrap().close().unwrap();
    // All, with their directory.
    let names = mem.list(Path::new(FAST)).unwrap();
    for name in names {
        mem.delete(&Path::new(FAST).join(name)).unwrap();
    }
    assert!(plain(&env).open().is_err());
    let e = to_files(&mem, false).unwrap_err();
    assert!(e.to_string().contains("--lose-tables"), "{e}");
    assert_eq!(to_files(&mem, true).unwrap().lost, 2);
    let db = plain(&env).open().unwrap();
    check(&db, 1);
    fill(&db, 1);
    check(&db, 2);
    db.close().unwrap();
}

#[test]
fn destroying_a_database_empties_its_directory() {
    let (mem, env) = world();
    let db = builder(&env, "sd_placement=lad:3").open().unwrap();
    fill(&db, 0);
    db.close().unwrap();
    Db::destroy_with(DB, &env, &DbOptions::default(), &[]).unwrap();
    assert!(mem.entry(Path::new(DB)).unwrap().is_none());
    assert!(mem.entry(Path::new(FAST)).unwrap().is_none());
}

fn one(_: &str) -> FilePaths {
    FilePaths::one(Path::new(DB))
}

fn to_disk(fs: &Arc<MemFs>, policy: Policy) -> spanlith::Result<MovedTables> {
    let placement = SdPlacement(policy);
    migrate_to_speed_disk(
        &env_of(fs),
        Path::new(DB),
        &one,
        Path::new(FAST),
        placement,
        0,
    )
}

fn to_files(fs: &Arc<MemFs>, lose: bool) -> spanlith::Result<MovedTables> {
    migrate_tables_to_files(&env_of(fs), Path::new(DB), &one, &TablesAt::default(), lose)
}

/// A database without a speed disk and with tables in two levels.
fn two_levels() -> Arc<MemFs> {
    let (mem, env) = world();
    let db = plain(&env).open().unwrap();
    fill(&db, 0);
    compact(&db);
    fill(&db, 1);
    fill(&db, 2);
    db.default_cf().put("r099", "in the log").unwrap();
    db.cf("two").unwrap().put("r099", "in the log").unwrap();
    db.close().unwrap();
    mem
}

/// Carries `step` out, and again with the power lost after each change of a file; `after` gets what is left.
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
        let left = Arc::new(left.lock().unwrap().take().unwrap());
        after(cut, &left);
    }
}

#[test]
fn tables_come_to_the_disk_by_level_and_every_step_can_be_repeated() {
    let start = two_levels();
    assert_eq!(counts(&*start), (0, 6));
    // R-SPAN-07.
    let done = {
        let fs = Arc::new(start.process_crash_clone());
        let done = to_disk(&fs, Policy::Lad(1)).unwrap();
        assert_eq!(counts(&*fs), (4, 2));
        let again = to_disk(&fs, Policy::Lad(1)).unwrap();
        assert_eq!((again.tables, done.tables), (0, 4));
        assert_eq!(to_disk(&fs, Policy::Auto).unwrap().tables, 2);
        assert_eq!(counts(&*fs), (6, 0));
        done
    };
    assert!(done.bytes > 0 && !done.was_on_files);
    let step = |fs: &Arc<MemFs>| to_disk(fs, Policy::Lad(1));
    cut_everywhere(&start, &step, &|cut, left| {
        if cut % 3 == 0 {
            to_disk(left, Policy::Lad(1)).unwrap();
            assert_eq!(counts(&**left), (4, 2), "cut {cut}");
        }
        let db = plain(&env_of(left)).open().unwrap();
        check_with_log(&db, cut);
        let live = db.live_files().len();
        db.close().unwrap();
        let (there, here) = counts(&**left);
        if current(left).contains("speed-tables") {
            assert_eq!(there + here, live, "cut {cut}: nothing is left over");
        }
        // And back.
        to_files(left, false).unwrap();
        let db = plain(&env_of(left)).open().unwrap();
        check_with_log(&db, cut);
        db.close().unwrap();
    });
}

fn check_with_log(db: &Db, cut: u64) {
    for cf in [db.default_cf(), db.cf("two").unwrap()] {
        let found = cf.get("k007").unwrap().unwrap();
        assert_eq!(found.as_ref(), b"2-7", "cut {cut}");
        assert_eq!(cf.iter().count(), 54, "cut {cut}");
    }
}

#[test]
fn tables_leave_the_disk_and_every_step_can_be_repeated() {
    let start = two_levels();
    to_disk(&start, Policy::Lad(1)).unwrap();
    let start = Arc::new(start.process_crash_clone());
    let step = |fs: &Arc<MemFs>| to_files(fs, false);
    cut_everywhere(&start, &step, &|cut, left| {
        let finishes = cut % 3 == 0;
        if finishes {
            to_files(left, false).unwrap();
            assert_eq!(counts(&**left), (0, 6), "cut {cut}");
            assert!(!current(left).contains("speed"), "cut {cut}");
        }
        let db = plain(&env_of(left)).open().unwrap();
        check_with_log(&db, cut);
        let live = db.live_files().len();
        db.close().unwrap();
        if finishes || current(left).contains("stays") {
            let (there, here) = counts(&**left);
            assert_eq!(there + here, live, "cut {cut}: nothing is left over");
        }
    });
    let fs = Arc::new(start.process_crash_clone());
    assert_eq!(to_files(&fs, false).unwrap().tables, 4);
    assert!(fs.entry(Path::new(FAST)).unwrap().is_none());
    assert!(to_files(&fs, false).unwrap().was_on_files);
}
