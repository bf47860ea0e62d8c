//! Memory outside the block cache that is charged to it.

use spanlith::options::{BlockBasedTableOptions, CfOptions};
use spanlith::{Db, ErrorKind};
use spanlith_cache::{Policy, STEP_BYTES};
use spanlith_table::{BlockCache, CacheRole, CacheUsageOptions, Charged};
use spanlith_testkit::TempDir;
use std::time::{Duration, Instant};

const CHARGED: [CacheRole; 3] = [
    CacheRole::FilterConstruction,
    CacheRole::BlockBasedTableReader,
    CacheRole::FileMetadata,
];

fn open(dir: &TempDir, cache: &BlockCache, usage: CacheUsageOptions) -> spanlith::Result<Db> {
    Db::builder(dir.path())
        .create_if_missing(true)
        .cf_options(CfOptions::default())
        .table_options(BlockBasedTableOptions::default().filter_policy("bloomfilter:10:false"))
        .block_cache(cache.clone())
        .cache_usage(usage)
        .open()
}

/// Entries of a role, and whether they are whole steps.
fn entries(cache: &BlockCache, role: CacheRole) -> usize {
    let sums: [(usize, usize); CacheRole::ALL.len()] = cache.tally(|b| b.role() as usize);
    let (count, bytes) = sums[role as usize];
    assert_eq!(bytes, count * STEP_BYTES, "{role:?}");
    count
}

#[test]
fn open_tables_and_descriptions_of_files_take_room_in_the_cache_while_they_exist() {
    let dir = TempDir::new("usage-roles");
    let cache = BlockCache::with_shards(8 << 20, Policy::Lru, 0, false);
    let mut usage = CacheUsageOptions::default();
    for role in CHARGED {
        usage.set(role, Charged::Enabled);
    }
    let db = open(&dir, &cache, usage).unwrap();
    let cf = db.default_cf();
    let held = || CHARGED.map(|role| entries(&cache, role));
    assert_eq!(held(), [0, 0, 0]);
    cf.put("a", "1").unwrap();
    cf.flush(true).unwrap();
    assert_eq!(held(), [0, 1, 1]);
    let map = cf.map_property("rocksdb.block-cache-entry-stats").unwrap();
    assert_eq!(map["count.block-based-table-reader"], "1");
    assert_eq!(map["bytes.file-metadata"], STEP_BYTES.to_string());
    assert_eq!(map["count.write-buffer"], "0");
    let text = cf.property("rocksdb.block-cache-entry-stats").unwrap();
    assert!(
        text.contains("BlockBasedTableReader(1,256.00 KB,3.125000%)"),
        "{text}"
    );
    drop(cf);
    db.close().unwrap();
    // A background job lets go of the database a moment after it is done.
    let deadline = Instant::now() + Duration::from_secs(60);
    while held() != [0, 0, 0] {
        assert!(Instant::now() < deadline, "{:?}", held());
        std::thread::yield_now();
    }
    // Opened again, what is there is charged again.
    let db = open(&dir, &cache, usage).unwrap();
    assert_eq!(
        db.default_cf().get("a").unwrap().as_deref(),
        Some(&b"1"[..])
    );
    assert_eq!(held(), [0, 1, 1]);
}

#[test]
fn a_strict_cache_without_room_refuses_a_table_in_rocksdbs_words() {
    let dir = TempDir::new("usage-strict");
    let roomy = BlockCache::with_shards(8 << 20, Policy::Lru, 0, false);
    let db = open(&dir, &roomy, CacheUsageOptions::default()).unwrap();
    db.default_cf().put("a", "1").unwrap();
    db.default_cf().flush(true).unwrap();
    db.close().unwrap();
    let tight = BlockCache::with_shards(STEP_BYTES / 2, Policy::Lru, 0, true);
    let mut usage = CacheUsageOptions::default();
    usage.set(CacheRole::BlockBasedTableReader, Charged::Enabled);
    let refused = open(&dir, &tight, usage).map(|db| db.default_cf().get("a").map(drop));
    let e = match refused {
        Err(e) | Ok(Err(e)) => e,
        Ok(Ok(())) => panic!("the table was opened"),
    };
    assert_eq!(e.kind(), ErrorKind::Aborted);
    assert!(
        e.to_string().contains(
            "Can't allocate BlockBasedTableReader due to memory limit based on cache capacity for \
             memory allocation"
        ),
        "{e}"
    );
}

#[test]
fn roles_that_cannot_be_charged_are_refused_when_the_database_is_opened() {
    let dir = TempDir::new("usage-refused");
    let cache = BlockCache::new(8 << 20, Policy::Lru);
    let mut usage = CacheUsageOptions::default();
    usage.set(CacheRole::IndexBlock, Charged::Disabled);
    let e = open(&dir, &cache, usage).map(drop).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotSupported);
}

/// Pinned blocks are held by the reader of their table, wherever the cache stands.
#[test]
fn index_and_filter_of_level_zero_and_top_levels_stay_with_their_table_if_asked_for() {
    // Bytes that readers hold: with a table in level 0, and with one in the last level.
    let held = |of_level_zero: bool, partitioned: bool, top_level: bool| {
        let dir = TempDir::new("usage-pinned");
        let mut table = BlockBasedTableOptions::default().filter_policy("bloomfilter:10:false");
        table.cache_index_and_filter_blocks = true;
        table.pin_l0_filter_and_index_blocks_in_cache = of_level_zero;
        table.pin_top_level_index_and_filter = top_level;
        table.metadata_block_size = 64;
        table.block_size = 256;
        if partitioned {
            table.partition_filters = true;
            table.index_type = spanlith::options::IndexType::TwoLevelIndexSearch;
        }
        let db = Db::builder(dir.path())
            .create_if_missing(true)
            .cf_options(CfOptions::default().disable_auto_compactions(true))
            .table_options(table)
            .open()
            .unwrap();
        let cf = db.default_cf();
        let mut bytes = [0; 2];
        for (round, bytes) in bytes.iter_mut().enumerate() {
            for n in 0..2000 {
                cf.put(format!("{n:04}"), format!("{round}")).unwrap();
            }
            cf.flush(true).unwrap();
            if round == 1 {
                cf.compact_range(None, None).unwrap();
                db.wait_idle(None).unwrap();
            }
            assert!(cf.get("0100").unwrap().is_some());
            *bytes = cf
                .int_property("rocksdb.estimate-table-readers-mem")
                .unwrap();
        }
        bytes
    };
    let (cached, pinned) = (held(false, false, false), held(true, false, false));
    // Ten bits a key, and the index.
    assert!(pinned[0] > cached[0] + 2500, "{pinned:?} {cached:?}");
    assert_eq!(pinned[1], cached[1], "the last level is not pinned");
    let (cached, pinned) = (held(false, true, false), held(false, true, true));
    for level in 0..2 {
        assert!(pinned[level] > cached[level], "{pinned:?} {cached:?}");
    }
}

/// Keys of blocks were made anew by every open: what an earlier one had read was missed, and stayed.
#[test]
fn a_cache_that_outlives_its_database_is_warm_and_holds_one_copy() {
    let dir = TempDir::new("usage-warm");
    let cache = BlockCache::with_shards(32 << 20, Policy::Lru, 0, false);
    let mut held = Vec::new();
    for round in 0..6 {
        let db = open(&dir, &cache, CacheUsageOptions::default()).unwrap();
        let cf = db.default_cf();
        if round == 0 {
            for i in 0..2000u32 {
                cf.put(i.to_be_bytes(), vec![b'x'; 500]).unwrap();
            }
            cf.flush(true).unwrap();
        }
        let before = cache.len();
        assert_eq!(cf.iter().count(), 2000);
        if round > 0 {
            assert_eq!(cache.len(), before, "nothing was read that had been read");
        }
        drop(cf);
        db.close().unwrap();
        held.push(cache.len());
    }
    assert!(held[0] > 100, "{held:?}");
    assert!(held.iter().all(|&n| n <= held[0]), "{held:?}");
}

/// Two databases whose files have the same numbers share a cache, and one of them is made anew in the same place.
#[test]
fn tables_of_the_same_number_are_told_apart_in_a_shared_cache() {
    let cache = BlockCache::with_shards(32 << 20, Policy::Lru, 0, false);
    let dirs = ["usage-one", "usage-two"].map(TempDir::new);
    for round in 0..3 {
        for (at, dir) in dirs.iter().enumerate() {
            let _ = std::fs::remove_dir_all(dir.path());
            let db = open(dir, &cache, CacheUsageOptions::default()).unwrap();
            let cf = db.default_cf();
            for i in 0..100u32 {
                cf.put(i.to_be_bytes(), format!("{round} {at}")).unwrap();
            }
            cf.flush(true).unwrap();
            let values = || cf.iter().map(|e| e.unwrap().1);
            assert!(values().all(|v| *v == *format!("{round} {at}").as_bytes()));
            drop(cf);
            db.close().unwrap();
        }
    }
}
