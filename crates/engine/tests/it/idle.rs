//! Describes what a database has and takes without anybody writing to it.

use spanlith::options::BlockBasedTableOptions;
use spanlith::{Db, FamilyOptions, OpenBuilder};
use spanlith_testkit::TempDir;
use std::path::Path;

fn builder(dir: impl AsRef<Path>) -> OpenBuilder {
    Db::builder(dir).create_if_missing(true).no_info_log()
}

/// As RocksDB, where there is no cache there are no numbers of one.
#[test]
fn without_a_block_cache_its_properties_are_unknown() {
    let temp = TempDir::new("no cache");
    let names = ["capacity", "usage", "pinned-usage"].map(|n| format!("rocksdb.block-cache-{n}"));
    for no_block_cache in [false, true] {
        let mut table = BlockBasedTableOptions::default();
        table.no_block_cache = no_block_cache;
        let family = FamilyOptions::new("default").table_options(table);
        let db = builder(temp.join("db")).family(family).open().unwrap();
        for name in &names {
            assert_eq!(db.int_property(name).is_none(), no_block_cache, "{name}");
            assert_eq!(db.property(name).is_none(), no_block_cache, "{name}");
        }
        let stats = db.property("rocksdb.block-cache-entry-stats");
        assert_eq!(stats.is_none(), no_block_cache);
        db.close().unwrap();
    }
}

/// An idle database has no more than the beginning of its log on disk.
#[test]
fn an_idle_database_takes_little_room() {
    use std::os::unix::fs::MetadataExt;
    let temp = TempDir::new("idle");
    let db = builder(temp.join("db")).open().unwrap();
    let blocks = || -> u64 {
        let entries = std::fs::read_dir(temp.join("db")).unwrap();
        entries
            .map(|e| e.unwrap().metadata().unwrap().blocks() * 512)
            .sum()
    };
    assert!(blocks() < 1 << 20, "{}", blocks());
    for n in 0..2000 {
        db.default_cf()
            .put(format!("{n}"), vec![b'x'; 1000])
            .unwrap();
    }
    assert!(blocks() < 16 << 20, "{}", blocks());
    db.default_cf().flush(true).unwrap();
    db.close().unwrap();
}
