//! Policies of the write controller on a database: chosen at open, changed at run time, and what they stop.

use spanlith::options::CfOptions;
use spanlith::{Db, WriteOptions};
use spanlith_env::{Env, MemFs};
use std::sync::Arc;

fn open(policy: &str) -> Db {
    let mut env = Env::system();
    env.fs = Arc::new(MemFs::new());
    let cf = CfOptions::new()
        .level0_file_num_compaction_trigger(2)
        .level0_slowdown_writes_trigger(3)
        .level0_stop_writes_trigger(4);
    let db = Db::builder("/db").create_if_missing(true).env(env);
    let db = db.no_info_log().cf_options(cf);
    let db = db.set(format!("write_throttle_policy={policy}"));
    db.unwrap().open().unwrap()
}

fn hurried() -> WriteOptions {
    let mut options = WriteOptions::new();
    options.no_slowdown = true;
    options
}

/// Level 0 above its stop trigger, and nobody compacts it.
fn crowded(policy: &str) -> Db {
    let db = open(policy);
    db.abort_compactions();
    let cf = db.default_cf();
    for round in 0..4u32 {
        cf.put(round.to_be_bytes(), "v").unwrap();
        db.flush(true).unwrap();
    }
    assert_eq!(cf.property("rocksdb.num-files-at-level0").unwrap(), "4");
    db
}

#[test]
fn level_0_stops_writes_under_every_policy_but_smooth() {
    for policy in ["rocksdb_517", "rocksdb", "two_stage", "smooth"] {
        let db = crowded(policy);
        let cf = db.default_cf();
        let refused = cf.put_opt("k", "v", &hurried()).err();
        let refused = refused.map(|e| e.to_string());
        let stopped = (policy != "smooth").then(|| "Result incomplete: Write stall".to_string());
        assert_eq!(refused, stopped, "{policy}");
        db.resume_compactions();
        db.wait_idle(None).unwrap();
        cf.put_opt("k", "v", &hurried()).unwrap();
    }
}

#[test]
fn the_policy_is_changed_while_writes_are_stopped() {
    let db = crowded("rocksdb");
    let cf = db.default_cf();
    let text = || db.default_cf().property("spanlith.write-pace").unwrap();
    assert!(text().starts_with("policy: rocksdb\n"), "{}", text());
    assert!(cf.put_opt("k", "v", &hurried()).is_err());
    db.set_options(&[("write_throttle_policy", "smooth")])
        .unwrap();
    let said = text();
    assert!(
        said.starts_with("policy: smooth\n[default] rate: 0"),
        "{said}"
    );
    assert!(
        said.contains("[default] level0: pressure 0.000"),
        "{said}: nobody compacts"
    );
    cf.put_opt("k", "v", &hurried()).unwrap();
    assert_eq!(db.metrics().pace.len(), 4);
    let mut exported = String::new();
    db.metrics().write_prometheus(&mut exported).unwrap();
    let line = "spanlith_write_pressure{cf=\"default\",stage=\"memory\"} 0\n";
    assert!(exported.contains(line), "{exported}");
    db.set_options(&[("write_throttle_policy", "two_stage")])
        .unwrap();
    assert!(text().starts_with("policy: two_stage\n"));
    assert!(db.metrics().pace.is_empty());
    assert!(cf.put_opt("k", "v", &hurried()).is_err());
    let e = db
        .set_options(&[("write_throttle_policy", "fast")])
        .unwrap_err();
    assert!(e.to_string().contains("write_throttle_policy"), "{e}");
    assert!(text().starts_with("policy: two_stage\n"));
    db.resume_compactions();
}

#[test]
fn waits_for_syncs_and_for_sealed_memtables_are_counted_without_statistics() {
    let db = open("rocksdb");
    let cf = db.default_cf();
    let waited = |cause| {
        let waited = db.metrics().writes.waited;
        waited.iter().find(|w| w.0 == cause).unwrap().1
    };
    let mut durable = WriteOptions::new();
    durable.sync = true;
    cf.put("k", "v").unwrap();
    assert!(waited("log-sync").is_zero() && waited("memtable-switch").is_zero());
    cf.put_opt("k", "v", &durable).unwrap();
    assert!(!waited("log-sync").is_zero());
    cf.set_options(&[("write_buffer_size", "65536")]).unwrap();
    for n in 0..100u32 {
        cf.put(n.to_be_bytes(), vec![0; 4000]).unwrap();
    }
    assert!(!waited("memtable-switch").is_zero());
    assert_eq!(db.metrics().writes.timed, 0);
}
