//! Databases whose tables have no blocks.

use spanlith::options::{CfOptions, DbOptions};
use spanlith::{Cf, Db, OpenBuilder, ReadOptions, Result, VerifyLevel};
use spanlith_env::{Env, MemFs};
use std::sync::Arc;

fn open(env: &Env, factory: &str, more: &[(&str, &str)]) -> Result<Db> {
    builder(env, factory, more, true).open()
}

fn builder(env: &Env, factory: &str, more: &[(&str, &str)], maps: bool) -> OpenBuilder {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.allow_mmap_reads = maps;
    let mut cf = CfOptions::default();
    for (name, value) in [("table_factory", factory)].iter().chain(more) {
        spanlith::options::text::set_cf_option(&mut cf, &mut Default::default(), name, value)
            .unwrap();
    }
    Db::builder("/db")
        .options(options)
        .cf_options(cf)
        .env(env.clone())
        .no_info_log()
}

fn memory() -> Env {
    Env {
        fs: Arc::new(MemFs::new()),
        ..Env::system()
    }
}

fn key(n: u32) -> String {
    format!("prefix{:02}-{n:06}", n / 50)
}

fn put(cf: &Cf, numbers: impl Iterator<Item = u32>, value: &str) {
    for n in numbers {
        cf.put(key(n), format!("{value}{n:04}")).unwrap();
    }
}

/// All entries, forwards, and the same backwards.
fn rows(cf: &Cf) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut iter = cf.cursor(ReadOptions::default());
    let mut out = Vec::new();
    iter.seek_to_first().unwrap();
    while iter.valid() {
        out.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next().unwrap();
    }
    iter.status().unwrap();
    let mut back = Vec::new();
    iter.seek_to_last().unwrap();
    while iter.valid() {
        back.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.prev().unwrap();
    }
    back.reverse();
    assert_eq!(out, back);
    out
}

fn check(cf: &Cf, deleted: u32, changed: u32, last: u32) {
    let expected: Vec<(Vec<u8>, Vec<u8>)> = (deleted..last)
        .map(|n| {
            let value = if n < changed { "new" } else { "old" };
            (key(n).into_bytes(), format!("{value}{n:04}").into_bytes())
        })
        .collect();
    assert!(rows(cf) == expected);
    for n in 0..last + 20 {
        let found = cf.get(key(n)).unwrap().map(|v| v.to_vec());
        let at = n.checked_sub(deleted).map(|at| at as usize);
        let want = at.and_then(|at| expected.get(at)).map(|row| row.1.clone());
        assert_eq!(found, want, "{n}");
    }
    let keys: Vec<String> = (0..last + 20).rev().step_by(7).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    for (key, found) in keys.iter().zip(cf.multi_get(&keys)) {
        let want = expected.iter().find(|row| row.0 == *key).map(|r| &r.1);
        assert_eq!(found.unwrap().map(|v| v.to_vec()).as_ref(), want);
    }
}

/// Overwrites and deletes some of 400 keys that were flushed, in a second table, verifies both and compacts them.
fn overwrite_and_compact(db: &Db) {
    let cf = db.default_cf();
    put(&cf, 0..100, "new");
    for n in 0..30 {
        cf.delete(key(n)).unwrap();
    }
    cf.flush(true).unwrap();
    check(&cf, 30, 100, 400);
    db.verify_checksums().unwrap();
    for level in [VerifyLevel::Checksums, VerifyLevel::Full] {
        assert!(db.verify(level).unwrap().is_clean());
    }
    cf.compact_all().unwrap();
    check(&cf, 30, 100, 400);
}

const CUCKOO: &str = "{id=CuckooTable;hash_table_ratio=0.8;cuckoo_block_size=3}";

#[test]
fn cuckoo_tables_are_flushed_compacted_verified_and_opened_again() {
    let env = memory();
    let db = open(&env, CUCKOO, &[("disable_auto_compactions", "true")]).unwrap();
    let cf = db.default_cf();
    put(&cf, 0..400, "old");
    cf.flush(true).unwrap();
    overwrite_and_compact(&db);
    db.close().unwrap();
    let db = open(&env, CUCKOO, &[]).unwrap();
    check(&db.default_cf(), 30, 100, 400);
    let text = db.default_cf().options().table_factory.clone();
    assert_eq!(
        text,
        "{id=CuckooTable;cuckoo_block_size=3;hash_table_ratio=0.800000;}"
    );
    db.close().unwrap();
    // Block-based ones from now on: what is there stays readable, and a compaction rewrites it.
    let db = open(&env, "BlockBasedTable", &[]).unwrap();
    let cf = db.default_cf();
    cf.put(key(400), "old0400").unwrap();
    cf.flush(true).unwrap();
    check(&cf, 30, 100, 401);
    db.close().unwrap();
}

#[test]
fn plain_tables_are_flushed_compacted_verified_and_opened_again() {
    let prefixes = &[("prefix_extractor", "rocksdb.FixedPrefix.9")][..];
    for (factory, more) in [
        ("PlainTable", prefixes),
        (
            "{id=PlainTable;encoding_type=kPrefix;index_sparseness=5;store_index_in_file=true}",
            prefixes,
        ),
        (
            "{id=PlainTable;user_key_len=15;bloom_bits_per_key=0;hash_table_ratio=0}",
            &[],
        ),
    ] {
        let env = memory();
        let db = open(&env, factory, more).unwrap();
        let cf = db.default_cf();
        put(&cf, 0..400, "old");
        cf.flush(true).unwrap();
        let before = db.snapshot();
        overwrite_and_compact(&db);
        drop(before);
        put(&cf, 400..410, "old");
        cf.flush(true).unwrap();
        cf.compact_all().unwrap();
        drop(cf);
        db.close().unwrap();
        let db = open(&env, factory, more).unwrap();
        check(&db.default_cf(), 30, 100, 410);
        db.close().unwrap();
        let db = open(&env, "BlockBasedTable", &[]).unwrap();
        check(&db.default_cf(), 30, 100, 410);
        db.close().unwrap();
    }
}

#[test]
fn what_a_cuckoo_table_cannot_hold_fails_its_flush_and_is_not_lost() {
    let env = memory();
    let db = open(&env, "CuckooTable", &[]).unwrap();
    let cf = db.default_cf();
    put(&cf, 0..10, "old");
    cf.put("longer than the others", "x").unwrap();
    let e = cf.flush(true).unwrap_err().to_string();
    assert!(e.contains("all keys have to be the same size"), "{e}");
    drop(cf);
    let _ = db.close();
    let db = open(&env, "BlockBasedTable", &[]).unwrap();
    assert_eq!(rows(&db.default_cf()).len(), 11);
}

#[test]
fn cuckoo_tables_want_mapped_files_as_in_rocksdb() {
    let env = memory();
    let refusal = "Invalid argument: File is not mmaped";
    let db = builder(&env, "CuckooTable", &[], false).open().unwrap();
    put(&db.default_cf(), 0..10, "old");
    let e = db.default_cf().flush(true).unwrap_err().to_string();
    assert!(e.starts_with(refusal), "{e}");
    let _ = db.close();
    let db = open(&env, "CuckooTable", &[]).unwrap();
    assert_eq!(rows(&db.default_cf()).len(), 10);
    db.default_cf().flush(true).unwrap();
    db.close().unwrap();
    let e = builder(&env, "CuckooTable", &[], false).open();
    let e = e.and_then(|db| db.default_cf().get(key(1)).map(drop));
    let e = e.unwrap_err().to_string();
    assert!(e.starts_with(refusal), "{e}");
}
