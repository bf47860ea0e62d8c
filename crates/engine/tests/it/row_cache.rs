//! A cache of rows changes what reads cost, never what they say.

use spanlith::options::{BlockBasedTableOptions, CfOptions};
use spanlith::{Db, ErrorKind, ReadOptions, Snapshot};
use spanlith_base::stats::{Statistics, Ticker};
use spanlith_cache::Policy;
use spanlith_table::BlockCache;
use spanlith_testkit::{Rng, TempDir, seed, test_name};
use std::collections::BTreeMap;
use std::sync::Arc;

fn open(dir: &TempDir, rows: &BlockCache, statistics: &Arc<Statistics>) -> Db {
    let mut cf = CfOptions::default().merge_operator("stringappend");
    cf.level0_file_num_compaction_trigger = 4;
    cf.target_file_size_base = 4 << 10;
    let table = BlockBasedTableOptions::default().filter_policy("bloomfilter:10:false");
    Db::builder(dir.path())
        .create_if_missing(true)
        .cf_options(cf)
        .table_options(table)
        .block_cache(rows.clone())
        .row_cache(rows.clone())
        .statistics(statistics.clone())
        .open()
        .unwrap()
}

#[test]
fn reads_through_a_cache_of_rows_say_what_was_written_at_every_snapshot() {
    type Model = BTreeMap<String, String>;
    let seed = seed(test_name!());
    let mut rng = Rng::new(seed);
    let dir = TempDir::new("rows-model");
    // Small enough that rows and blocks push each other out.
    let rows = BlockCache::with_shards(24 << 10, Policy::Lru, 0, false);
    let statistics = Arc::new(Statistics::new());
    let db = open(&dir, &rows, &statistics);
    let cf = db.default_cf();
    let mut model = Model::new();
    let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
    for _ in 0..700 {
        let key = format!("k{:02}", rng.below(60));
        match rng.below(20) {
            0..8 => {
                let value = format!("{:0>20}", rng.below(1000));
                cf.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            8..11 => {
                cf.delete(&key).unwrap();
                model.remove(&key);
            }
            11..15 => {
                cf.merge(&key, "m").unwrap();
                let value = model.entry(key).or_default();
                *value += if value.is_empty() { "m" } else { ",m" };
            }
            15 => cf.flush(true).unwrap(),
            16 if rng.one_in(4) => cf.compact_range(None, None).unwrap(),
            17 => snapshots.push((db.snapshot(), model.clone())),
            18 if snapshots.len() > 3 => drop(snapshots.remove(0)),
            _ => {}
        }
        let now = (None, &model);
        let then = snapshots.iter().map(|(s, m)| (Some(s), m));
        for (snapshot, model) in then.chain([now]) {
            let mut options = ReadOptions::new();
            if let Some(snapshot) = snapshot {
                options = options.snapshot(snapshot);
            }
            let keys: Vec<String> = (0..4).map(|_| format!("k{:02}", rng.below(60))).collect();
            let bytes: Vec<&[u8]> = keys.iter().map(|k| k.as_bytes()).collect();
            let many = cf.multi_get_opt(&bytes, &options);
            for (key, found) in keys.iter().zip(many) {
                let want = model.get(key).map(String::as_bytes);
                assert_eq!(found.unwrap().as_deref(), want, "multi-get {key}");
                let one = cf.get_opt(key, &options).unwrap();
                assert_eq!(one.as_deref(), want, "get {key}");
            }
        }
    }
    assert!(statistics.ticker(Ticker::RowCacheHit) > 100);
    assert!(statistics.ticker(Ticker::RowCacheMiss) > 100);
}

#[test]
fn a_row_found_in_the_cache_asks_neither_filter_nor_block() {
    let dir = TempDir::new("rows-hit");
    let rows = BlockCache::new(1 << 20, Policy::Lru);
    let s = Arc::new(Statistics::new());
    let db = open(&dir, &rows, &s);
    let cf = db.default_cf();
    cf.put("a", "1").unwrap();
    cf.put("b", "2").unwrap();
    let before = db.snapshot();
    cf.put("a", "3").unwrap();
    cf.flush(true).unwrap();
    let asked = |key: &str, options: &ReadOptions| {
        let tickers = [
            Ticker::RowCacheHit,
            Ticker::RowCacheMiss,
            Ticker::BloomFilterFullPositive,
            Ticker::BlockCacheDataHit,
            Ticker::BlockCacheDataMiss,
        ];
        let old = tickers.map(|t| s.ticker(t));
        let value = cf.get_opt(key, options).unwrap();
        let mut risen = tickers.map(|t| s.ticker(t));
        risen.iter_mut().zip(old).for_each(|(new, old)| *new -= old);
        (value.map(|v| v.to_vec()), risen)
    };
    let (now, then) = (ReadOptions::new(), ReadOptions::new().snapshot(&before));
    let three = Some(b"3".to_vec());
    assert_eq!(asked("a", &now), (three.clone(), [0, 1, 1, 0, 1]));
    assert_eq!(asked("a", &now), (three, [1, 0, 0, 0, 0]));
    // A snapshot that does not see all of the table has rows of its own.
    let one = Some(b"1".to_vec());
    assert_eq!(asked("a", &then), (one.clone(), [0, 1, 1, 1, 0]));
    assert_eq!(asked("a", &then), (one, [1, 0, 0, 0, 0]));
    // A key that a table does not hold is no row.
    assert_eq!(asked("aa", &now), (None, [0, 1, 0, 0, 0]));
    assert_eq!(asked("aa", &now), (None, [0, 1, 0, 0, 0]));
}

#[test]
fn rows_of_several_keys_that_are_not_there_are_read_together_and_kept() {
    let dir = TempDir::new("rows-batch");
    let rows = BlockCache::new(1 << 20, Policy::Lru);
    let s = Arc::new(Statistics::new());
    let db = open(&dir, &rows, &s);
    let cf = db.default_cf();
    let keys: Vec<String> = (0..64).map(|n| format!("k{n:05}")).collect();
    for key in &keys {
        cf.put(key, key).unwrap();
    }
    cf.flush(true).unwrap();
    let asked = |wanted: &[&[u8]]| {
        let tickers = [
            Ticker::RowCacheHit,
            Ticker::RowCacheMiss,
            Ticker::BlockCacheDataHit,
            Ticker::BlockCacheDataMiss,
        ];
        let old = tickers.map(|t| s.ticker(t));
        let found = cf.multi_get_opt(wanted, &ReadOptions::new());
        for (key, found) in wanted.iter().zip(found) {
            assert_eq!(found.unwrap().as_deref(), Some(*key));
        }
        let mut risen = tickers.map(|t| s.ticker(t));
        risen.iter_mut().zip(old).for_each(|(new, old)| *new -= old);
        risen
    };
    let all: Vec<&[u8]> = keys.iter().map(|k| k.as_bytes()).collect();
    // One look at the block for each batch of 32 keys; for all of one batch if some rows are there.
    let some: Vec<&[u8]> = all.iter().step_by(2).copied().collect();
    assert_eq!(asked(&some), [0, 32, 0, 1]);
    assert_eq!(asked(&all), [32, 32, 2, 0]);
    assert_eq!(asked(&all), [64, 0, 0, 0]);
}

#[test]
fn range_deletions_are_refused_beside_a_cache_of_rows() {
    let dir = TempDir::new("rows-ranges");
    let rows = BlockCache::new(1 << 20, Policy::Lru);
    let db = open(&dir, &rows, &Arc::new(Statistics::new()));
    let e = db.default_cf().delete_range("a", "b").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotSupported);
    assert!(
        e.to_string()
            .ends_with("DeleteRange is not compatible with row cache."),
        "{e}"
    );
}

#[test]
fn no_row_hides_a_range_tombstone_of_before() {
    let dir = TempDir::new("rows-tombstone");
    let keys = ["k1", "k2", "k3"];
    {
        let db = Db::builder(dir.path()).create_if_missing(true);
        let db = db.open().unwrap();
        let cf = db.default_cf();
        keys.iter().for_each(|key| cf.put(key, "old").unwrap());
        cf.flush(true).unwrap();
        cf.delete_range("k", "k3").unwrap();
        cf.put("a", "v").unwrap();
        cf.put("z", "v").unwrap();
        cf.flush(true).unwrap();
        db.close().unwrap();
    }
    let rows = BlockCache::new(1 << 20, Policy::Lru);
    let db = open(&dir, &rows, &Arc::new(Statistics::new()));
    let cf = db.default_cf();
    for _ in 0..3 {
        let wanted = keys.map(str::as_bytes);
        let found = cf.multi_get_opt(&wanted, &ReadOptions::new());
        let found = found.into_iter().map(|v| v.unwrap().is_some());
        assert_eq!(found.collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(
            keys.map(|k| cf.get(k).unwrap().is_some()),
            [false, false, true]
        );
    }
}
