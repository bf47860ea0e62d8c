//! The order of writes, syncs and renames of each action (reliability, section 2.6), as golden traces:
//! a missing sync is a changed line. Rewrite with `BLESS=1`, review the diff.

use spanlith::options::{CfOptions, DbOptions};
use spanlith::{Db, FamilyOptions, WriteOptions};
use spanlith_env::{Env, FileSystem, MemFs, TraceFs};
use std::path::Path;
use std::sync::Arc;

/// One scripted life of a database; each step's calls under its name.
fn trace() -> Vec<(&'static str, String)> {
    let fs = Arc::new(TraceFs::new(Arc::new(MemFs::new()), Path::new("/db")));
    fs.create_dir_if_missing(Path::new("/")).unwrap();
    let (env, _, _) = Env::test(fs.clone(), 7);
    let open = || {
        let mut cf = CfOptions::default();
        cf.disable_auto_compactions = true;
        Db::builder("/db")
            .create_if_missing(true)
            .cf_options(cf)
            .env(env.clone())
            .no_info_log()
            .open()
            .unwrap()
    };
    let mut out = Vec::new();
    fs.take();
    let db = open();
    out.push(("create", fs.take_order()));
    let cf = db.default_cf();
    let synced = WriteOptions::new().sync(true);
    cf.put("a", "1").unwrap();
    out.push(("put", fs.take_order()));
    cf.put_opt("b", "2", &synced).unwrap();
    out.push(("first synced put of a log", fs.take_order()));
    cf.put_opt("c", "3", &synced).unwrap();
    out.push(("next synced put", fs.take_order()));
    db.flush(true).unwrap();
    out.push(("flush", fs.take_order()));
    cf.put("d", "4").unwrap();
    db.flush(false).unwrap();
    fs.take();
    cf.put_opt("e", "5", &synced).unwrap();
    out.push(("synced put behind an unsynced log", fs.take_order()));
    db.flush(true).unwrap();
    cf.put("b", "6").unwrap();
    db.flush(true).unwrap();
    fs.take();
    cf.compact_range(None, None).unwrap();
    out.push(("compaction", fs.take_order()));
    cf.put("f", "7").unwrap();
    fs.take();
    db.close().unwrap();
    out.push(("close", fs.take_order()));
    let db = open();
    out.push(("open with something in the log", fs.take_order()));
    drop((cf, db));
    fs.take();
    drop(open());
    out.push(("open after a clean close, and close", fs.take_order()));
    out
}

/// The same for logs in a folder of their own that the MANIFEST tracks, with two families.
fn trace_tracked() -> Vec<(&'static str, String)> {
    let fs = Arc::new(TraceFs::new(Arc::new(MemFs::new()), Path::new("/db")));
    fs.create_dir_if_missing(Path::new("/")).unwrap();
    let (env, _, _) = Env::test(fs.clone(), 7);
    let mut options = DbOptions::default();
    options.track_and_verify_wals_in_manifest = true;
    options.wal_dir = "/db/logs".into();
    let db = Db::builder("/db")
        .options(options)
        .create_if_missing(true)
        .env(env)
        .no_info_log()
        .open()
        .unwrap();
    let other = db.create_cf(FamilyOptions::new("other")).unwrap();
    let cf = db.default_cf();
    let mut out = Vec::new();
    cf.put("a", "1").unwrap();
    other.put("a", "1").unwrap();
    fs.take();
    other.flush(true).unwrap();
    out.push(("flush of one family of two", fs.take_order()));
    cf.put("b", "2").unwrap();
    other.put("b", "2").unwrap();
    other.flush(false).unwrap();
    fs.take();
    cf.put_opt("c", "3", &WriteOptions::new().sync(true))
        .unwrap();
    out.push(("synced put behind a tracked log", fs.take_order()));
    out
}

/// Holds E3 and V3.
#[test]
fn each_action_writes_and_syncs_in_its_order() {
    crate::suite_disk::needs_log_files("the test compares every call for a file");
    let mut steps = trace();
    steps.extend(trace_tracked());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/order_of_calls.txt");
    spanlith_testkit::run_golden(path, |directive, _| {
        let found = steps.iter().find(|s| s.0 == directive);
        found.map_or_else(|| "no such step".to_string(), |s| s.1.clone())
    });
}
