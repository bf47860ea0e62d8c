//! Repairs of directories in which an entry could get lost, or come back.

use crate::repair::{
    DIR, builder, contents, filled, lose_manifest, lost, names, on, path, places, quiet, rows,
};
use crate::world::World;
use spanlith::options::{CfOptions, DbOptions};
use spanlith::{
    Cf, CompactRangeOptions, Db, DbPath, ErrorKind, FamilyOptions, ImportOptions, OpenBuilder,
    RepairReport, TxnOptions, WriteOptions,
};
use spanlith_base::checksum::ChecksumKind;
use spanlith_env::{Env, FileSystem, MemFs};
use std::collections::BTreeSet;
use std::path::Path;

/// Bytes of the footer of a table.
const FOOTER_LEN: usize = 53;

fn plain(env: &Env) -> OpenBuilder {
    let builder = Db::builder(DIR).env(env.clone()).no_info_log();
    builder.cf_options(quiet())
}

fn new(env: &Env) -> Db {
    plain(env).create_if_missing(true).open().unwrap()
}

fn fill(cf: &Cf, keys: &str) {
    for key in keys.chars() {
        cf.put(key.to_string(), format!("value of {key}")).unwrap();
    }
}

/// Keys of the default family.
fn keys(env: &Env) -> String {
    let db = plain(env).open().unwrap();
    let keys = rows(&db.default_cf()).into_iter().map(|(key, _)| key);
    let keys = keys.collect();
    db.close().unwrap();
    keys
}

fn is_told(report: &RepairReport, name: &str) -> bool {
    let mut losses = report.lost.iter().filter(|f| f.is_loss);
    losses.any(|f| f.path.ends_with(name))
}

/// Name and bytes of the newest table.
fn newest_table(db: &Db, mem: &MemFs) -> (String, Vec<u8>) {
    let files = db.default_cf().live_files();
    let file = files.iter().max_by_key(|f| f.number).unwrap();
    let name = format!("{:06}.sst", file.number);
    (name, mem.read_file(&file.path).unwrap())
}

/// Their properties name the family that they were exported from.
#[test]
fn tables_of_an_imported_family_stay_with_it() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    let World { env, .. } = World::new(7);
    let from = Db::builder("/from").env(env.clone()).no_info_log();
    let from = from.create_if_missing(true).open().unwrap();
    fill(&from.default_cf(), "abc");
    let exported = from.default_cf().export("/out").unwrap();
    let db = new(&env);
    fill(&db.default_cf(), "xyz");
    db.flush(true).unwrap();
    let imported = || FamilyOptions::new("imported").options(quiet());
    let cf = db
        .import_cf(imported(), &exported, ImportOptions::new())
        .unwrap();
    assert_eq!(rows(&cf).len(), 3);
    drop(cf);
    let (all, before) = (contents(&db), places(&db));
    db.close().unwrap();
    let report = plain(&env).family(imported()).repair().unwrap();
    assert!(report.lost.iter().all(|f| !f.is_loss), "{report:?}");
    assert!(report.missing.is_empty() && report.doubted.is_empty());
    let db = plain(&env).family(imported()).open().unwrap();
    assert_eq!(contents(&db), all);
    assert!(before.is_subset(&places(&db)));
    db.close().unwrap();
}

/// A table of which the flush did not end, and a log whose first record, of another family, is damaged: a replay drops the
/// rest of its block, too.
#[test]
fn a_damaged_log_is_no_reason_to_put_a_table_aside() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    let world = World::new(7);
    let db = new(&world.env);
    let other = || FamilyOptions::new("other").options(quiet());
    fill(&db.create_cf(other()).unwrap(), "x");
    fill(&db.default_cf(), "abcde");
    let mem = MemFs::clone(&world.mem).process_crash_clone();
    db.default_cf().flush(true).unwrap();
    let (name, bytes) = newest_table(&db, &world.mem);
    mem.write_file(&path(&name), &bytes).unwrap();
    let holds = |name: &String| {
        let bytes = mem.read_file(&path(name)).unwrap();
        let at = bytes.windows(10).position(|w| w == b"value of x");
        at.filter(|_| name.ends_with(".log"))
            .map(|at| (name.clone(), at as u64))
    };
    let (log, at) = names(&mem).iter().find_map(holds).unwrap();
    mem.flip_bit(&path(&log), at, 0).unwrap();
    let env = on(&mem);
    plain(&env).family(other()).repair().unwrap();
    let db = plain(&env).family(other()).open().unwrap();
    assert_eq!(rows(&db.default_cf()).len(), 5);
    assert!(rows(&db.cf("other").unwrap()).is_empty());
    db.close().unwrap();
}

/// The log is still there, since another family needs it.
#[test]
fn entries_of_a_table_that_is_gone_come_from_the_logs() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    let world = World::new(7);
    let db = new(&world.env);
    let other = || FamilyOptions::new("other").options(quiet());
    let kept = db.create_cf(other()).unwrap();
    let cf = db.default_cf();
    fill(&cf, "abc");
    cf.flush(true).unwrap();
    fill(&kept, "k");
    fill(&cf, "xyz");
    cf.delete("b").unwrap();
    cf.flush(true).unwrap();
    let (name, _) = newest_table(&db, &world.mem);
    let mem = MemFs::clone(&world.mem).process_crash_clone();
    mem.flip_bit(&path(&name), 20, 3).unwrap();
    let env = on(&mem);
    let report = plain(&env).family(other()).repair().unwrap();
    assert!(is_told(&report, &name), "{report:?}");
    let db = plain(&env).family(other()).open().unwrap();
    let keys = rows(&db.default_cf()).into_iter().map(|(key, _)| key);
    assert_eq!(keys.collect::<String>(), "acxyz");
    assert_eq!(rows(&db.cf("other").unwrap()).len(), 1);
    db.close().unwrap();
}

/// The section stands in a log before everything that is in tables, the commit after it.
#[test]
fn a_committed_transaction_is_found_without_a_manifest() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    let world = World::new(7);
    let options = DbOptions::new().allow_2pc(true).create_if_missing(true);
    let db = plain(&world.env).options(options).open().unwrap();
    let cf = db.default_cf();
    let mut t = db.transaction_opt(TxnOptions::pessimistic(), WriteOptions::new());
    t.set_name(b"t").unwrap();
    t.put(&cf, "t", "committed").unwrap();
    t.prepare().unwrap();
    fill(&cf, "abcdefgh");
    db.flush(true).unwrap();
    t.commit().unwrap();
    let mem = MemFs::clone(&world.mem).process_crash_clone();
    lose_manifest(&mem);
    let env = on(&mem);
    plain(&env).repair().unwrap();
    assert_eq!(keys(&env), "abcdefght");
}

/// The bottom level as compactions make it: all its sequence numbers are 0.
fn compact_to_zeros(cf: &Cf, range: Option<(&str, &str)>) {
    let (begin, end) = (range.map(|r| r.0.as_bytes()), range.map(|r| r.1.as_bytes()));
    let options = CompactRangeOptions {
        bottommost: spanlith::BottommostCompaction::Force,
        ..CompactRangeOptions::default()
    };
    cf.compact_range_opt(begin, end, &options).unwrap();
    let files = cf.live_files();
    let newest = files.iter().max_by_key(|f| f.number).unwrap();
    assert_eq!(newest.largest_seqno, 0, "{files:?}");
}

/// A MANIFEST that was begun anew says nothing of tables that were replaced before.
#[test]
fn deleted_keys_do_not_come_back_from_a_table_that_was_to_be_deleted() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    let world = World::new(7);
    let db = new(&world.env);
    let cf = db.default_cf();
    fill(&cf, "abcde");
    db.flush(true).unwrap();
    let (name, bytes) = newest_table(&db, &world.mem);
    for key in ["a", "b", "c", "d"] {
        cf.delete(key).unwrap();
    }
    db.flush(true).unwrap();
    compact_to_zeros(&cf, None);
    drop(cf);
    db.close().unwrap();
    plain(&world.env).open().unwrap().close().unwrap();
    world.mem.write_file(&path(&name), &bytes).unwrap();
    let report = plain(&world.env).repair().unwrap();
    assert!(is_told(&report, &name), "{report:?}");
    assert_eq!(keys(&world.env), "e");
}

/// The MANIFEST has lost its end, and nothing but the table tells: it may be an output that nobody needs.
#[test]
fn a_table_without_numbers_that_the_manifest_has_lost_is_told() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    let world = World::new(7);
    let db = plain(&world.env).create_if_missing(true);
    let db = db.set("evidence=false").unwrap().open().unwrap();
    let cf = db.default_cf();
    fill(&cf, "abc");
    db.flush(true).unwrap();
    let manifest = names(&world.mem).into_iter();
    let manifest = manifest
        .filter(|n| n.starts_with("MANIFEST"))
        .max()
        .unwrap();
    let early = world.mem.read_file(&path(&manifest)).unwrap();
    fill(&cf, "xyz");
    db.flush(true).unwrap();
    compact_to_zeros(&cf, Some(("x", "z")));
    let (name, bytes) = newest_table(&db, &world.mem);
    let mem = MemFs::clone(&world.mem).process_crash_clone();
    mem.write_file(&path(&manifest), &early).unwrap();
    let env = on(&mem);
    let report = plain(&env).repair().unwrap();
    assert!(is_told(&report, &name), "{report:?}");
    let kept = Path::new(DIR).join("lost").join(&name);
    assert_eq!(mem.read_file(&kept).unwrap(), bytes);
    assert_eq!(keys(&env), "abc");
}

/// A table that a MANIFEST names is gone, and another one is there that it does not: it does not fit.
#[test]
fn a_manifest_that_is_put_aside_is_told() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    let world = World::new(7);
    let db = new(&world.env);
    let cf = db.default_cf();
    fill(&cf, "abc");
    db.flush(true).unwrap();
    let (old, bytes) = newest_table(&db, &world.mem);
    compact_to_zeros(&cf, None);
    let (named, _) = newest_table(&db, &world.mem);
    drop(cf);
    db.close().unwrap();
    assert_ne!(old, named);
    let mem = &world.mem;
    mem.delete(&path(&named)).unwrap();
    mem.write_file(&path(&old), &bytes).unwrap();
    let report = plain(&world.env).repair().unwrap();
    assert_eq!(report.doubted, ["default"], "{report:?}");
    assert_eq!(report.missing.len(), 1, "{report:?}");
    assert_eq!(keys(&world.env), "abc");
    let report = plain(&world.env).repair().unwrap();
    assert!(report.doubted.is_empty() && report.missing.is_empty());
}

/// Sets a byte that RocksDB keeps for features to come, in the footer of a table of version 6 or later.
fn reserve(footer: &mut [u8], offset: u32) {
    footer[33] = 1;
    let word = |at: usize| u32::from_le_bytes(footer[at..at + 4].try_into().unwrap());
    let kind = ChecksumKind::from_byte(footer[0]).unwrap();
    let base = word(9);
    footer[5..9].fill(0);
    let (last, rest) = footer.split_last().unwrap();
    let sum = kind.compute(rest, *last).wrapping_add(base ^ offset);
    footer[5..9].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn a_table_of_a_format_that_this_build_does_not_read_ends_the_repair() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    let (mem, env, all) = filled();
    let before = names(&mem);
    let table = before.iter().find(|n| n.ends_with(".sst")).unwrap();
    let whole = mem.read_file(&path(table)).unwrap();
    let mut other = whole.clone();
    let offset = other.len() - FOOTER_LEN;
    reserve(&mut other[offset..], offset as u32);
    mem.write_file(&path(table), &other).unwrap();
    let e = builder(&env).repair().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotSupported, "{e}");
    assert!(e.to_string().contains(table.as_str()), "{e}");
    assert_eq!(names(&mem), before);
    mem.write_file(&path(table), &whole).unwrap();
    builder(&env).repair().unwrap();
    let db = builder(&env).open().unwrap();
    assert_eq!(contents(&db), all);
    db.close().unwrap();
}

/// CURRENT alone says where parts of a database are on a speed disk.
#[test]
fn tables_on_a_speed_disk_are_not_given_up() {
    let world = World::new(7);
    let (mem, env) = (&world.mem, &world.env);
    let set = "sd_tables_path=/fast;sd_placement=lad:9";
    let db = plain(env).create_if_missing(true);
    let db = db.set(set).unwrap().open().unwrap();
    fill(&db.default_cf(), "abc");
    db.flush(true).unwrap();
    let (table, bytes) = newest_table(&db, mem);
    db.close().unwrap();
    let e = plain(env).repair().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotSupported, "{e}");
    mem.delete(&path("CURRENT")).unwrap();
    for set in [set, "sd_path=/disk"] {
        let e = plain(env).set(set).unwrap().repair().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotSupported, "{e}");
    }
    let before = names(mem);
    let e = plain(env).repair().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    assert!(e.to_string().contains("or on a speed disk"), "{e}");
    assert_eq!(names(mem), before);
    // With four directories it is a table that is gone.
    let four = (0..4).map(|n| DbPath::new(format!("/p{n}"), 1)).collect();
    let copy = on(&mem.process_crash_clone());
    let report = plain(&copy).db_paths(four).repair().unwrap();
    assert_eq!(report.missing.len(), 1, "{report:?}");
    // And back where it can be found.
    mem.write_file(&path(&table), &bytes).unwrap();
    plain(env).repair().unwrap();
    assert_eq!(keys(env), "abc");
}

/// A MANIFEST that was begun anew does not say that a family was dropped, but that its id was given out.
#[test]
fn a_family_that_was_dropped_does_not_come_back() {
    crate::suite_disk::needs_log_files(
        "a repair of a database with a part on a speed disk is refused",
    );
    let world = World::new(7);
    let db = new(&world.env);
    fill(&db.default_cf(), "abc");
    let other = |name: &str| FamilyOptions::new(name).options(CfOptions::default());
    let gone = db.create_cf(other("gone")).unwrap();
    fill(&gone, "xyz");
    db.flush(true).unwrap();
    let file = gone.live_files().remove(0);
    let bytes = world.mem.read_file(&file.path).unwrap();
    db.drop_cf(&gone).unwrap();
    drop(gone);
    db.close().unwrap();
    plain(&world.env).open().unwrap().close().unwrap();
    world.mem.write_file(&file.path, &bytes).unwrap();
    let report = plain(&world.env).repair().unwrap();
    assert_eq!(report.families, ["default"]);
    let name = format!("{:06}.sst", file.number);
    assert!(lost(&report).contains(&name), "{report:?}");
    assert_eq!(keys(&world.env), "abc");
    let left: BTreeSet<String> = names(&world.mem).into_iter().collect();
    assert!(!left.contains(&name));
}
