//! Databases that are opened without their newest writes.

use crate::world::World;
use spanlith::options::{CfOptions, CompactionStyle, DbOptions};
use spanlith::{
    Cf, Comparator, Db, ErrorKind, FamilyOptions, OpenBuilder, ReadOptions, WriteOptions,
};
use std::collections::BTreeMap;

fn at(timestamp: u64) -> Vec<u8> {
    timestamp.to_le_bytes().to_vec()
}

fn order() -> Comparator {
    Comparator::from_name("leveldb.BytewiseComparator.u64ts").unwrap()
}

fn builder(world: &World, style: CompactionStyle) -> OpenBuilder {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    let mut cf = CfOptions::default();
    cf.compaction_style = style;
    cf.enable_blob_files = true;
    cf.min_blob_size = 8;
    let timed = FamilyOptions::new("timed").comparator(order());
    let builder = Db::builder("/db").env(world.env.clone()).no_info_log();
    builder.options(options).family(timed.options(cf))
}

fn get(cf: &Cf, key: &str, timestamp: u64) -> Option<String> {
    let mut options = ReadOptions::default();
    options.timestamp = Some(at(timestamp));
    let found = cf.get_opt(key, &options).unwrap();
    found.map(|v| String::from_utf8(v.into_vec()).unwrap())
}

/// RocksDB's `DBBasicTestWithTimestamp.OpenAndTrimHistoryTest`, and the same with what is not in tables yet.
#[test]
fn what_was_written_behind_a_timestamp_is_gone_and_what_it_hid_is_back() {
    for style in [CompactionStyle::Level, CompactionStyle::Universal] {
        for flushes in [true, false] {
            let world = World::new(4);
            let plain = WriteOptions::default();
            let db = builder(&world, style).open().unwrap();
            let (cf, untimed) = (db.cf("timed").unwrap(), db.default_cf());
            cf.put_at("k1", &at(2), "a value 1", &plain).unwrap();
            cf.put_at("k1", &at(4), "a value 2", &plain).unwrap();
            cf.delete_at("k1", &at(5), &plain).unwrap();
            cf.put_at("k1", &at(6), "a value 3", &plain).unwrap();
            cf.put_at("k2", &at(7), "late", &plain).unwrap();
            untimed.put("k1", "stays").unwrap();
            if flushes {
                db.flush(true).unwrap();
                cf.compact_all().unwrap();
            }
            drop((cf, untimed));
            db.close().unwrap();
            let trimmed = |timestamp| {
                builder(&world, style)
                    .open_and_trim_history(&at(timestamp))
                    .unwrap()
            };
            let db = trimmed(5);
            let cf = db.cf("timed").unwrap();
            assert_eq!(get(&cf, "k1", 9), None);
            assert_eq!(get(&cf, "k1", 4).as_deref(), Some("a value 2"));
            assert_eq!(get(&cf, "k2", 9), None);
            assert_eq!(
                db.default_cf().get("k1").unwrap().as_deref(),
                Some(&b"stays"[..])
            );
            drop(cf);
            db.close().unwrap();
            let db = trimmed(4);
            let cf = db.cf("timed").unwrap();
            assert_eq!(get(&cf, "k1", 9).as_deref(), Some("a value 2"));
            cf.delete_range_at("k1", "k3", &at(7), &plain).unwrap();
            assert_eq!(get(&cf, "k1", 9), None);
            drop(cf);
            db.close().unwrap();
            let db = trimmed(6);
            let cf = db.cf("timed").unwrap();
            assert_eq!(get(&cf, "k1", 9).as_deref(), Some("a value 2"));
            // A range that was deleted in time stays deleted.
            cf.delete_range_at("k1", "k3", &at(7), &plain).unwrap();
            drop(cf);
            db.close().unwrap();
            let db = trimmed(7);
            let cf = db.cf("timed").unwrap();
            assert_eq!(get(&cf, "k1", 9), None);
            assert_eq!(get(&cf, "k1", 6).as_deref(), Some("a value 2"));
            drop(cf);
            db.close().unwrap();
        }
    }
}

/// Many tables in several levels, files that would only be moved, and parts that run side by side.
#[test]
fn all_tables_are_trimmed_whatever_level_they_are_in() {
    let world = World::new(6);
    let open = || {
        let mut cf = CfOptions::default();
        cf.target_file_size_base = 1000;
        cf.max_bytes_for_level_base = 4000;
        cf.disable_auto_compactions = true;
        let mut db = DbOptions::default();
        db.create_if_missing = true;
        db.max_subcompactions = 4;
        let builder = Db::builder("/db").env(world.env.clone()).no_info_log();
        builder.options(db).cf_options(cf).comparator(order())
    };
    let db = open().open().unwrap();
    let cf = db.default_cf();
    let mut model: BTreeMap<String, u64> = BTreeMap::new();
    for round in 0..6u64 {
        for n in 0..60u64 {
            let (key, timestamp) = (
                format!("k{:03}", (n * 7 + round * 11) % 200),
                round * 60 + n + 1,
            );
            let value = format!("{timestamp}");
            cf.put_at(&key, &at(timestamp), value, &WriteOptions::default())
                .unwrap();
            if timestamp <= 250 {
                model.insert(key, timestamp);
            }
        }
        db.flush(true).unwrap();
        if round < 4 {
            cf.compact_all().unwrap();
        }
    }
    drop(cf);
    db.close().unwrap();
    let db = open().open_and_trim_history(&at(250)).unwrap();
    let cf = db.default_cf();
    for n in 0..200 {
        let key = format!("k{n:03}");
        let expected = model.get(&key).map(u64::to_string);
        assert_eq!(get(&cf, &key, 1000), expected, "{key}");
    }
    drop(cf);
    db.close().unwrap();
}

#[test]
fn what_cannot_be_trimmed_is_refused() {
    let world = World::new(8);
    let refuse = |builder: OpenBuilder, timestamp: &[u8]| {
        builder.open_and_trim_history(timestamp).unwrap_err()
    };
    let e = refuse(builder(&world, CompactionStyle::Level), &[1, 2]);
    assert_eq!(
        e.to_string(),
        "Invalid argument: trim_ts has 2 bytes, timestamps of column family 'timed' have 8"
    );
    let e = refuse(builder(&world, CompactionStyle::Fifo), &at(3));
    assert_eq!(e.kind(), ErrorKind::NotSupported);
    let mut options = DbOptions::default();
    options.avoid_flush_during_recovery = true;
    let e = refuse(
        builder(&world, CompactionStyle::Level).options(options),
        &at(3),
    );
    assert_eq!(
        e.to_string(),
        "Invalid argument: avoid_flush_during_recovery incompatible with OpenAndTrimHistory"
    );
    // Nobody has it open any more.
    let db = builder(&world, CompactionStyle::Level).open().unwrap();
    db.close().unwrap();
}
