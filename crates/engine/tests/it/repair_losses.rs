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
use spanlith_env::{Env, FileSystem, MemFs};
use std::collections::BTreeSet;
use std::path::Path;

/// Last bytes of a table in the plain format.
const PLAIN_MAGIC: u64 = 0x8242_2296_63bf_9564;

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

/// A table of which the flush did not end, and a log whose first record, of another family, is damaged: a replay drops the
/// rest of its block, too.
#[test]
fn a_damaged_log_is_no_reason_to_put_a_table_aside() {
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

/// The section stands in a log in front of everything that is in tables, the commit behind.
#[test]
fn a_committed_transaction_is_found_without_a_manifest() {
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
