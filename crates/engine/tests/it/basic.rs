//! Put, get, iterate, flush, compact, reopen.

use spanlith::options::{CfOptions, DbOptions};
use spanlith::{Db, ReadOptions, WriteBatch, WriteOptions};
use spanlith_env::{Env, MemFs};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

fn small() -> CfOptions {
    let mut cf = CfOptions::default();
    cf.write_buffer_size = 64 << 10;
    cf.target_file_size_base = 32 << 10;
    cf.max_bytes_for_level_base = 128 << 10;
    cf
}

fn open(dir: &Path) -> Db {
    Db::builder(dir)
        .create_if_missing(true)
        .cf_options(small())
        .open()
        .unwrap()
}

fn contents(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    let rows = db.default_cf().iter();
    rows.map(|e| e.map(|(k, v)| (k.into_vec(), v.into_vec())).unwrap())
        .collect()
}

#[test]
fn what_was_put_is_read_back_before_and_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let cf = db.default_cf();
    cf.put("a", "1").unwrap();
    cf.put("b", "2").unwrap();
    cf.delete("a").unwrap();
    let mut batch = WriteBatch::new();
    batch.put("c", "3").put("d", "4").delete("c");
    db.write(&batch).unwrap();
    let want = vec![
        (b"b".to_vec(), b"2".to_vec()),
        (b"d".to_vec(), b"4".to_vec()),
    ];
    assert_eq!(contents(&db), want);
    db.clone().close().unwrap();
    drop((db, cf));
    let db = open(dir.path());
    assert_eq!(contents(&db), want);
    assert_eq!(db.latest_sequence_number(), 6);
    db.flush(true).unwrap();
    assert_eq!(contents(&db), want);
}

#[test]
fn random_writes_survive_flushes_compactions_and_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let mut model = BTreeMap::new();
    let mut rng = spanlith_testkit::Rng::new(spanlith_testkit::seed("random_writes_survive"));
    for round in 0..4 {
        let db = open(dir.path());
        let cf = db.default_cf();
        for _ in 0..20_000 {
            let key = format!("{:06}", rng.below(5_000)).into_bytes();
            if rng.below(4) == 0 {
                cf.delete(&key).unwrap();
                model.remove(&key);
            } else {
                let value = format!("{}-{}", round, rng.next_u64()).into_bytes();
                cf.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        }
        let snapshot = db.snapshot();
        let before: Vec<_> = model.clone().into_iter().collect();
        assert!(contents(&db) == before);
        for i in 0..100 {
            cf.put(format!("{i:06}"), "later").unwrap();
            model.insert(format!("{i:06}").into_bytes(), b"later".to_vec());
        }
        if round % 2 == 1 {
            cf.compact_range(None, None).unwrap();
        }
        let old: Vec<_> = cf
            .iter_opt(ReadOptions::new().snapshot(&snapshot))
            .map(|e| e.map(|(k, v)| (k.into_vec(), v.into_vec())).unwrap())
            .collect();
        assert!(old == before, "the snapshot sees what it saw");
        drop(snapshot);
        // Backwards.
        let mut cursor = cf.cursor(ReadOptions::default());
        let mut on = cursor.seek_to_last().unwrap();
        let mut rows = model.iter().rev();
        while on {
            let (k, v) = rows.next().unwrap();
            assert_eq!(cursor.entry(), Some((&k[..], &v[..])));
            on = cursor.prev().unwrap();
        }
        assert!(rows.next().is_none());
        for i in 0..5_000 {
            let key = format!("{i:06}").into_bytes();
            assert_eq!(
                cf.get(&key).unwrap().as_deref(),
                model.get(&key).map(|v| &v[..])
            );
        }
        db.close().unwrap();
    }
}

#[test]
fn merge_operands_fold_in_reads_flushes_and_compactions() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        Db::builder(dir.path())
            .create_if_missing(true)
            .merge_operator(std::sync::Arc::new(spanlith::UInt64Add))
            .open()
            .unwrap()
    };
    let db = open();
    let cf = db.default_cf();
    for i in 0..10u64 {
        cf.merge("n", i.to_le_bytes()).unwrap();
        if i % 3 == 0 {
            db.flush(true).unwrap();
        }
    }
    let sum = |cf: &spanlith::Cf| {
        u64::from_le_bytes((*cf.get("n").unwrap().unwrap()).try_into().unwrap())
    };
    assert_eq!(sum(&cf), 45);
    cf.compact_range(None, None).unwrap();
    assert_eq!(sum(&cf), 45);
    drop((cf, db));
    let db = open();
    assert_eq!(sum(&db.default_cf()), 45);
}

#[test]
fn an_option_without_its_feature_makes_open_fail_and_creates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.allow_ingest_behind = true;
    let path = dir.path().join("db");
    let e = Db::builder(&path).options(options).open().unwrap_err();
    assert_eq!(e.to_string(), "Not implemented: allow_ingest_behind");
    assert!(!path.exists());
}

#[test]
fn a_second_open_names_the_holder_of_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let e = Db::builder(dir.path())
        .cf_options(small())
        .open()
        .unwrap_err();
    assert!(
        e.to_string()
            .starts_with("IO error: lock hold by current process"),
        "{e}"
    );
    drop(db);
    open(dir.path());
}

#[test]
fn writes_with_sync_and_without_log_are_kept_over_a_clean_close() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let cf = db.default_cf();
    cf.put_opt("synced", "1", &WriteOptions::new().sync(true))
        .unwrap();
    cf.put_opt("unlogged", "2", &WriteOptions::new().disable_wal(true))
        .unwrap();
    let both = WriteOptions::new().sync(true).disable_wal(true);
    let e = cf.put_opt("x", "y", &both).unwrap_err();
    assert_eq!(
        e.to_string(),
        "Invalid argument: Sync writes has to enable WAL."
    );
    db.clone().close().unwrap();
    assert!(cf.put("after", "close").is_err());
    drop((db, cf));
    assert_eq!(contents(&open(dir.path())).len(), 2);
}

#[test]
fn opening_what_is_not_there_names_current_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let e = Db::builder(dir.path()).open().unwrap_err();
    let want = format!(
        "Invalid argument: {}/CURRENT: does not exist (create_if_missing is false)",
        dir.path().display()
    );
    assert_eq!(e.to_string(), want);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let e = Db::builder(dir.path().join("a/b"))
        .create_if_missing(true)
        .open()
        .unwrap_err();
    assert!(
        e.to_string()
            .starts_with("IO error: No such file or directory: While mkdir if missing: ")
    );
    let db = open(dir.path());
    drop(db);
    let e = Db::builder(dir.path()).must_be_new().open().unwrap_err();
    let want = format!(
        "Invalid argument: {}: exists (error_if_exists is true)",
        dir.path().display()
    );
    assert_eq!(e.to_string(), want);
    let e = Db::builder(dir.path())
        .comparator(spanlith::Comparator::ReverseBytewise)
        .open();
    assert_eq!(
        e.unwrap_err().to_string(),
        "Invalid argument: rocksdb.ReverseBytewiseComparator: does not match existing comparator \
         leveldb.BytewiseComparator"
    );
}

/// As RocksDB 11.8.1 says to the same bytes.
#[test]
fn a_no_op_is_passed_over_and_damage_counts_before_what_is_not_there() {
    let fs = MemFs::new();
    let mut env = Env::system();
    env.fs = Arc::new(fs.clone());
    let open = || {
        let builder = Db::builder("/db").create_if_missing(true);
        builder.env(env.clone()).open().unwrap()
    };
    let db = open();
    let write = |count: u8, records: &[u8]| {
        let mut rep = vec![0; 12];
        rep[8] = count;
        rep.extend_from_slice(records);
        let batch = spanlith_wal::WriteBatch::from_rep(rep);
        let written = db.write_raw(&batch, &WriteOptions::default());
        written.map_or_else(|e| e.to_string(), |_| "OK".into())
    };
    const PUT: &[u8] = b"\x01\x01k\x01v";
    const BEGIN: &[u8] = b"\x09";
    const NO_OP: &[u8] = b"\x0d";
    let unknown = "Corruption: unknown WriteBatch tag: 4294967295";
    assert_eq!(write(1, &[NO_OP, PUT, b"\xff"].concat()), unknown);
    assert_eq!(write(1, &[BEGIN, PUT, b"\xff"].concat()), unknown);
    assert_eq!(
        write(2, &[BEGIN, PUT, b"\x01\x05k"].concat()),
        "Corruption: bad WriteBatch Put"
    );
    let count = "Corruption: WriteBatch has wrong count";
    let prepared = [BEGIN, PUT, b"\x0a\x01x"].concat();
    assert!(write(4, &prepared).starts_with(count));
    assert!(write(3, &[NO_OP, PUT].concat()).starts_with(count));
    assert_eq!(write(1, &prepared), "Not implemented: two-phase commit");
    assert_eq!(db.default_cf().get("k").unwrap(), None);
    assert_eq!(write(0, NO_OP), "OK");
    assert_eq!(write(1, &[PUT, NO_OP].concat()), "OK");
    assert_eq!(db.latest_sequence_number(), 1);
    db.close().unwrap();
    let value = open().default_cf().get("k").unwrap();
    assert_eq!(value.as_deref(), Some(&b"v"[..]));
}
