//! Directories without CURRENT, MANIFEST or tables, put together again.

use crate::world::World;
use spanlith::options::{CfOptions, DbOptions};
use spanlith::{
    Cf, Comparator, Db, ErrorKind, FamilyOptions, OpenBuilder, ReadOptions, RepairReport,
    StringAppend, WriteOptions,
};
use spanlith_env::{Env, FileSystem, FsOp, MemFs};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

pub(crate) const DIR: &str = "/db";

pub(crate) type Rows = Vec<(String, String)>;

pub(crate) fn quiet() -> CfOptions {
    let mut o = CfOptions::default();
    o.disable_auto_compactions = true;
    o
}

fn families() -> [FamilyOptions; 3] {
    let plain = |name: &str| FamilyOptions::new(name).options(quiet());
    let mut separated = quiet();
    separated.enable_blob_files = true;
    separated.min_blob_size = 8;
    [
        plain("default").merge_operator(Arc::new(StringAppend::new(b","))),
        plain("back").comparator(Comparator::ReverseBytewise),
        FamilyOptions::new("large").options(separated),
    ]
}

pub(crate) fn builder(env: &Env) -> OpenBuilder {
    let builder = Db::builder(DIR).env(env.clone()).no_info_log();
    families().into_iter().fold(builder, OpenBuilder::family)
}

pub(crate) fn rows(cf: &Cf) -> Rows {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let entries = cf.iter().map(|e| e.map(|(k, v)| (text(&k), text(&v))));
    entries.collect::<spanlith::Result<_>>().unwrap()
}

pub(crate) fn contents(db: &Db) -> BTreeMap<String, Rows> {
    let all = db.cfs().into_iter();
    all.map(|cf| (cf.name().to_string(), rows(&cf))).collect()
}

/// Tables of each family by level and number.
pub(crate) fn places(db: &Db) -> BTreeSet<(String, usize, u64)> {
    let all = db.cfs().into_iter().flat_map(|cf| {
        let files = cf.live_files().into_iter();
        let name = cf.name().to_string();
        files
            .map(move |f| (name.clone(), f.level, f.number))
            .collect::<Vec<_>>()
    });
    all.collect()
}

/// A database with all kinds of entries: tables in two levels, blob files, and updates in the log only.
fn fill(env: &Env) -> BTreeMap<String, Rows> {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    let db = builder(env).options(options).open().unwrap();
    let [default, back, large] = ["default", "back", "large"].map(|name| db.cf(name).unwrap());
    for n in 0..40 {
        default
            .put(format!("k{n:02}"), format!("first {n}"))
            .unwrap();
        back.put(format!("k{n:02}"), format!("back {n}")).unwrap();
        large
            .put(format!("k{n:02}"), format!("a large value {n}"))
            .unwrap();
    }
    default.merge("m", "one").unwrap();
    db.flush(true).unwrap();
    for cf in [&default, &back, &large] {
        cf.compact_all().unwrap();
    }
    default.delete("k03").unwrap();
    default.delete_range("k10", "k15").unwrap();
    default.put("k12", "again").unwrap();
    default.merge("m", "two").unwrap();
    back.put("k01", "newer").unwrap();
    db.flush(true).unwrap();
    default.merge("m", "three").unwrap();
    default.delete("k05").unwrap();
    back.delete("k02").unwrap();
    large.put("k07", "another large value").unwrap();
    let all = contents(&db);
    db.close().unwrap();
    all
}

/// A world with that database, all of it durable.
pub(crate) fn filled() -> (MemFs, Env, BTreeMap<String, Rows>) {
    let world = World::new(7);
    let all = fill(&world.env);
    let mem = MemFs::clone(&world.mem).process_crash_clone();
    let env = on(&mem);
    (mem, env, all)
}

/// The same, with tables whose deletion was held up: one that a compaction replaced, and one of a family that was dropped.
fn filled_with_leftovers() -> (MemFs, Env, BTreeMap<String, Rows>) {
    let (mem, env, _) = filled();
    let db = builder(&env).open().unwrap();
    let gone = db
        .create_cf(FamilyOptions::new("gone").options(quiet()))
        .unwrap();
    gone.put("k", "dropped").unwrap();
    gone.flush(true).unwrap();
    let tables = db.default_cf().live_files().into_iter();
    let tables = tables.chain(gone.live_files()).map(|f| f.path);
    let tables: Vec<_> = tables
        .map(|path| (path.clone(), mem.read_file(&path).unwrap()))
        .collect();
    db.default_cf().delete("k20").unwrap();
    db.default_cf().compact_all().unwrap();
    db.drop_cf(&gone).unwrap();
    drop(gone);
    let all = contents(&db);
    db.close().unwrap();
    for (path, bytes) in tables {
        assert!(mem.entry(&path).unwrap().is_none());
        mem.write_file(&path, &bytes).unwrap();
    }
    (mem, env, all)
}

/// A world on a file system.
pub(crate) fn on(mem: &MemFs) -> Env {
    let (env, ..) = Env::test(Arc::new(mem.clone()), 11);
    env
}

pub(crate) fn names(mem: &MemFs) -> Vec<String> {
    mem.list(Path::new(DIR)).unwrap()
}

pub(crate) fn path(name: &str) -> std::path::PathBuf {
    Path::new(DIR).join(name)
}

pub(crate) fn lose_manifest(mem: &MemFs) {
    for name in names(mem) {
        if name == "CURRENT" || name.starts_with("MANIFEST") {
            mem.delete(&path(&name)).unwrap();
        }
    }
}

/// Contents of the tables, blob files, logs and MANIFESTs of the directory and of `lost/`.
fn data(mem: &MemFs) -> BTreeSet<Vec<u8>> {
    let is_data = |name: &String| {
        let mut endings = [".sst", ".blob", ".log"].iter();
        endings.any(|e| name.ends_with(e)) || name.starts_with("MANIFEST")
    };
    let mut out = BTreeSet::new();
    for dir in [DIR, "/db/lost"].map(Path::new) {
        if mem.entry(dir).unwrap().is_some() {
            let all = mem.list(dir).unwrap();
            out.extend(
                all.iter()
                    .filter(|n| is_data(n))
                    .map(|n| mem.read_file(&dir.join(n)).unwrap()),
            );
        }
    }
    out
}

fn repaired(env: &Env) -> RepairReport {
    builder(env).repair().unwrap()
}

pub(crate) fn lost(report: &RepairReport) -> Vec<String> {
    let files = report.lost.iter();
    let mut names: Vec<String> = files
        .map(|f| f.path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn without_current_and_manifest_everything_is_found_that_tables_and_logs_hold() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    let (mem, env, all) = filled();
    lose_manifest(&mem);
    let before = data(&mem);
    let report = repaired(&env);
    assert!(report.is_without_manifest);
    assert_eq!(report.families, ["default", "back", "large"]);
    assert!(report.logs > 0 && report.missing.is_empty(), "{report:?}");
    let db = builder(&env).open().unwrap();
    assert_eq!(contents(&db), all);
    // Tables have other places, and nothing is gone.
    assert!(before.is_subset(&data(&mem)));
    let tables = places(&db).len();
    assert_eq!(tables, report.tables);
    // Later writes are newer than all that was found.
    db.default_cf().put("k00", "last").unwrap();
    db.flush(true).unwrap();
    db.default_cf().compact_all().unwrap();
    assert_eq!(
        db.default_cf().get("k00").unwrap().as_deref(),
        Some(&b"last"[..])
    );
    db.close().unwrap();
}

#[test]
fn a_repair_of_a_whole_database_changes_no_place_and_no_content() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    let (mem, env, all) = filled();
    let db = builder(&env).open_read_only().unwrap();
    let before = places(&db);
    drop(db);
    let bytes = data(&mem);
    let report = repaired(&env);
    assert!(!report.is_without_manifest && report.missing.is_empty());
    assert!(report.lost.iter().all(|f| !f.is_loss), "{report:?}");
    let db = builder(&env).open().unwrap();
    assert_eq!(contents(&db), all);
    assert!(before.is_subset(&places(&db)));
    assert!(bytes.is_subset(&data(&mem)));
    db.close().unwrap();
    // And once more.
    repaired(&env);
    let db = builder(&env).open().unwrap();
    assert_eq!(contents(&db), all);
    db.close().unwrap();
}

/// The process is killed, or power is lost, in front of each change; the repair is begun again.
#[test]
fn a_repair_that_is_cut_off_anywhere_may_be_begun_again() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    for has_manifest in [false, true] {
        let (mem, env, all) = match has_manifest {
            true => filled_with_leftovers(),
            false => filled(),
        };
        if !has_manifest {
            lose_manifest(&mem);
        }
        // Durable, as the loss of files that were there is.
        let mem = mem.crash_clone(&mut |n| n - 1);
        let before = data(&mem);
        drop(env);
        let states: Arc<Mutex<Vec<MemFs>>> = Arc::default();
        let (seen, of) = (states.clone(), mem.clone());
        mem.set_observer(Some(Arc::new(move |_: &FsOp| {
            let states = [of.strict_clone(), of.process_crash_clone()];
            seen.lock().unwrap().extend(states);
        })));
        repaired(&on(&mem));
        mem.set_observer(None);
        let states = std::mem::take(&mut *states.lock().unwrap());
        assert!(states.len() > 40, "{}", states.len());
        for (at, state) in states.iter().enumerate() {
            let env = on(state);
            builder(&env)
                .repair()
                .unwrap_or_else(|e| panic!("{has_manifest} {at}: {e}"));
            let db = builder(&env).open().unwrap();
            assert_eq!(contents(&db), all, "{has_manifest} {at}");
            db.close().unwrap();
            assert!(before.is_subset(&data(state)), "{has_manifest} {at}");
        }
    }
}

#[test]
fn a_table_that_cannot_be_read_is_put_aside_and_named() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    for has_manifest in [false, true] {
        let (mem, env, _) = filled();
        if !has_manifest {
            lose_manifest(&mem);
        }
        let of_back = {
            let (_, env, _) = filled();
            let db = builder(&env).open_read_only().unwrap();
            let files = db.cf("back").unwrap().live_files();
            files.iter().map(|f| (f.level, f.number)).max().unwrap().1
        };
        let name = format!("{of_back:06}.sst");
        mem.flip_bit(&path(&name), 20, 3).unwrap();
        let report = repaired(&env);
        let bad: Vec<_> = report.lost.iter().filter(|f| f.is_loss).collect();
        assert_eq!(bad.len(), 1, "{report:?}");
        assert_eq!(bad[0].path, Path::new("/db/lost").join(&name));
        assert!(bad[0].why.starts_with("Corruption: "), "{}", bad[0].why);
        let db = builder(&env).open().unwrap();
        let back = rows(&db.cf("back").unwrap());
        assert_eq!(back, [("k01".to_string(), "newer".to_string())]);
        db.close().unwrap();
    }
}

/// RocksDB's `RepairTest.IncompleteManifest`.
#[test]
fn a_manifest_of_an_earlier_time_hides_no_table() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    let world = World::new(3);
    let open = || Db::builder(DIR).env(world.env.clone()).no_info_log();
    let db = open().create_if_missing(true).open().unwrap();
    db.default_cf().put("key", "val").unwrap();
    db.flush(true).unwrap();
    db.close().unwrap();
    let manifest = |mem: &MemFs| {
        let mut all = names(mem).into_iter();
        all.find(|n| n.starts_with("MANIFEST")).unwrap()
    };
    let name = manifest(&world.mem);
    let early = world.mem.read_file(&path(&name)).unwrap();
    let db = open().open().unwrap();
    db.default_cf().put("key2", "val2").unwrap();
    db.flush(true).unwrap();
    db.close().unwrap();
    let late = manifest(&world.mem);
    world.mem.write_file(&path(&late), &early).unwrap();
    let log = names(&world.mem)
        .into_iter()
        .filter(|n| n.ends_with(".log"));
    log.for_each(|name| world.mem.delete(&path(&name)).unwrap());
    let report = open().repair().unwrap();
    assert_eq!(report.tables, 2, "{report:?}");
    let db = open().open().unwrap();
    for (key, value) in [("key", "val"), ("key2", "val2")] {
        let found = db.default_cf().get(key).unwrap();
        assert_eq!(found.as_deref(), Some(value.as_bytes()));
    }
}

#[test]
fn a_table_that_a_compaction_had_replaced_does_not_come_back_where_the_manifest_says_so() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    let (mem, env, _) = filled();
    let open = || builder(&env);
    let db = open().open().unwrap();
    let old: Vec<u64> = db
        .default_cf()
        .live_files()
        .iter()
        .map(|f| f.number)
        .collect();
    let old = old.into_iter().map(|n| format!("{n:06}.sst"));
    let old: Vec<(String, Vec<u8>)> = old
        .map(|name| (name.clone(), mem.read_file(&path(&name)).unwrap()))
        .collect();
    db.default_cf().delete("k20").unwrap();
    db.default_cf().compact_all().unwrap();
    let all = contents(&db);
    db.close().unwrap();
    for (name, bytes) in &old {
        if mem.entry(&path(name)).unwrap().is_none() {
            mem.write_file(&path(name), bytes).unwrap();
        }
    }
    let report = repaired(&env);
    let names = lost(&report);
    assert!(
        old.iter().all(|(name, _)| names.contains(name)),
        "{report:?}"
    );
    let db = open().open().unwrap();
    assert_eq!(contents(&db), all);
    db.close().unwrap();
}

/// In level 0 a get is answered by the first table that has the key, and no order of these is right.
#[test]
fn tables_that_overlap_in_keys_and_numbers_are_brought_in_order() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    let make = |keys: &[(&str, &str)]| {
        let world = World::new(5);
        let builder = Db::builder(DIR).env(world.env.clone()).no_info_log();
        let db = builder
            .cf_options(quiet())
            .create_if_missing(true)
            .open()
            .unwrap();
        for (key, value) in keys {
            db.default_cf().put(key, value).unwrap();
        }
        db.flush(true).unwrap();
        db.close().unwrap();
        world
    };
    let table = |mem: &MemFs| {
        let name = names(mem).into_iter().find(|n| n.ends_with(".sst"));
        mem.read_file(&path(&name.unwrap())).unwrap()
    };
    // As compactions leave them: the second has a newer `a`, the first the newest number.
    let world = make(&[("a", "1"), ("m", "2"), ("z", "3")]);
    let other = make(&[("q", "1"), ("a", "newer")]);
    world
        .mem
        .write_file(&path("000099.sst"), &table(&other.mem))
        .unwrap();
    lose_manifest(&world.mem);
    let open = || {
        let builder = Db::builder(DIR).env(world.env.clone()).no_info_log();
        builder.cf_options(quiet())
    };
    open().repair().unwrap();
    let db = open().open().unwrap();
    let expected = [("a", "newer"), ("m", "2"), ("q", "1"), ("z", "3")];
    let expected = expected.map(|(k, v)| (k.to_string(), v.to_string()));
    assert_eq!(rows(&db.default_cf()), expected);
    assert_eq!(
        db.default_cf().get("a").unwrap().as_deref(),
        Some(&b"newer"[..])
    );
}

#[test]
fn the_logs_of_another_directory_are_found_and_kept() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    let world = World::new(9);
    let open = || {
        let mut options = DbOptions::default();
        options.wal_dir = "/wal".to_string();
        options.create_if_missing = true;
        let builder = Db::builder(DIR).env(world.env.clone()).no_info_log();
        builder.options(options)
    };
    let db = open().open().unwrap();
    db.default_cf().put("a", "1").unwrap();
    db.close().unwrap();
    lose_manifest(&world.mem);
    let report = open().repair().unwrap();
    assert_eq!((report.tables, report.logs), (1, 1), "{report:?}");
    let kept = report.lost.iter().find(|f| f.path.starts_with("/wal/lost"));
    assert!(kept.is_some(), "{report:?}");
    let db = open().open().unwrap();
    assert_eq!(
        db.default_cf().get("a").unwrap().as_deref(),
        Some(&b"1"[..])
    );
}

#[test]
fn what_a_repair_refuses_it_refuses_before_it_changes_anything() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    let (mem, env, _) = filled();
    let before = mem.op_count();
    let db = builder(&env).open().unwrap();
    let refused = builder(&env).repair().unwrap_err();
    assert!(refused.to_string().starts_with("IO error: "), "{refused}");
    db.close().unwrap();
    assert!(mem.op_count() > before);
    lose_manifest(&mem);
    let files = |mem: &MemFs| {
        let all = names(mem)
            .into_iter()
            .filter(|n| n != "LOCK" && n != "lost");
        let pairs = all.map(|n| (n.clone(), mem.read_file(&path(&n)).unwrap()));
        pairs.collect::<BTreeMap<_, _>>()
    };
    let before = files(&mem);
    let back = FamilyOptions::new("back").comparator(Comparator::Bytewise);
    let refused = builder(&env).family(back).repair().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(
        refused
            .to_string()
            .contains("rocksdb.ReverseBytewiseComparator"),
        "{refused}"
    );
    assert!(files(&mem) == before);
    // Of families that nobody names, the tables name the order.
    let others = |name: &str| FamilyOptions::new(name).options(quiet());
    let [default, ..] = families();
    let builder = Db::builder(DIR)
        .env(env.clone())
        .no_info_log()
        .family(default);
    builder.repair_with(&others).unwrap();
}

#[test]
fn a_missing_directory_becomes_an_empty_database() {
    let world = World::new(1);
    let open = || Db::builder(DIR).env(world.env.clone()).no_info_log();
    let report = open().repair().unwrap();
    assert_eq!(report.families, ["default"]);
    assert_eq!((report.tables, report.logs), (0, 0));
    let db = open().open().unwrap();
    assert!(rows(&db.default_cf()).is_empty());
}

#[test]
fn a_repair_keeps_timestamps_that_tables_have_and_those_they_have_not() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    for persisted in [true, false] {
        let world = World::new(2);
        let open = || {
            let mut options = quiet();
            options.persist_user_defined_timestamps = persisted;
            let mut db = DbOptions::default();
            db.create_if_missing = true;
            db.allow_concurrent_memtable_write = false;
            let order = Comparator::from_name("leveldb.BytewiseComparator.u64ts").unwrap();
            let builder = Db::builder(DIR).env(world.env.clone()).no_info_log();
            builder.options(db).cf_options(options).comparator(order)
        };
        let at = |n: u64| n.to_le_bytes();
        let read = |db: &Db, key: &str| {
            let mut options = ReadOptions::default();
            options.timestamp = Some(at(9).to_vec());
            db.default_cf()
                .get_opt(key, &options)
                .unwrap()
                .map(spanlith::Pinned::into_vec)
        };
        let db = open().open().unwrap();
        let cf = db.default_cf();
        for (key, timestamp, value) in [("a", 1, "one"), ("b", 2, "two"), ("a", 3, "three")] {
            cf.put_at(key, &at(timestamp), value, &WriteOptions::default())
                .unwrap();
        }
        if !persisted {
            cf.increase_full_history_ts_low(&at(4)).unwrap();
        }
        db.flush(true).unwrap();
        db.close().unwrap();
        lose_manifest(&world.mem);
        open().repair().unwrap();
        let db = open().open().unwrap();
        assert_eq!(
            read(&db, "a").as_deref(),
            Some(&b"three"[..]),
            "{persisted}"
        );
        assert_eq!(read(&db, "b").as_deref(), Some(&b"two"[..]), "{persisted}");
        db.default_cf().compact_all().unwrap();
        assert_eq!(
            read(&db, "a").as_deref(),
            Some(&b"three"[..]),
            "{persisted}"
        );
        db.close().unwrap();
    }
}
