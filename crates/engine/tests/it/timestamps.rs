//! Families with timestamps whose tables hold none, and history that is given up.

use spanlith::options::{CfOptions, DbOptions};
use spanlith::{Cf, Db, ErrorKind, FamilyOptions, ReadOptions, WriteOptions};
use spanlith_testkit::{TempDir, test_name};
use std::path::Path;

const TIMED: &str = "leveldb.BytewiseComparator.u64ts";
const PLAIN: &str = "leveldb.BytewiseComparator";

fn at(n: u64) -> [u8; 8] {
    n.to_le_bytes()
}

fn open(dir: &Path, comparator: &str, persist: bool) -> spanlith::Result<Db> {
    let mut db = DbOptions::default();
    db.create_if_missing = true;
    db.allow_concurrent_memtable_write = false;
    let mut cf = CfOptions::default();
    cf.comparator = comparator.to_string();
    cf.persist_user_defined_timestamps = persist;
    let builder = Db::builder(dir).options(db);
    builder
        .family(FamilyOptions::new("default").options(cf))
        .open()
}

/// Keys, values and timestamps as of `n`.
fn rows(cf: &Cf, n: u64) -> Vec<(String, String, u64)> {
    let mut c = cf.cursor(ReadOptions::default().timestamp(at(n)));
    let mut rows = Vec::new();
    let mut more = c.seek_to_first().unwrap();
    let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
    while more {
        let timestamp = u64::from_le_bytes(c.timestamp().try_into().unwrap());
        rows.push((text(c.key()), text(c.value()), timestamp));
        more = c.next().unwrap();
    }
    rows
}

fn row(key: &str, value: &str, timestamp: u64) -> (String, String, u64) {
    (key.to_string(), value.to_string(), timestamp)
}

#[test]
fn a_family_that_persists_no_timestamps_keeps_the_newest_version_in_its_tables() {
    let temp = TempDir::new(test_name!());
    let w = WriteOptions::default();
    let db = open(temp.path(), TIMED, false).unwrap();
    let cf = db.default_cf();
    for n in 1..=3 {
        cf.put_at("a", &at(n * 10), format!("a{n}"), &w).unwrap();
        cf.put_at("b", &at(n * 10), format!("b{n}"), &w).unwrap();
    }
    cf.delete_at("b", &at(40), &w).unwrap();
    assert_eq!(rows(&cf, 25), [row("a", "a2", 20), row("b", "b2", 20)]);
    cf.flush(true).unwrap();
    assert_eq!(rows(&cf, u64::MAX), [row("a", "a3", 0)]);
    let low = |cf: &Cf| cf.full_history_ts_low();
    assert_eq!(low(&cf), at(41));
    cf.put_at("a", &at(50), "a5", &w).unwrap();
    cf.put_at("c", &at(51), "c5", &w).unwrap();
    cf.flush(true).unwrap();
    assert_eq!(low(&cf), at(52));
    cf.compact_range(None, None).unwrap();
    cf.put_at("c", &at(60), "in the log", &w).unwrap();
    let want = [row("a", "a5", 0), row("c", "in the log", 60)];
    assert_eq!(rows(&cf, 60), want);
    drop(cf);
    db.close().unwrap();

    let e = open(temp.path(), TIMED, true).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    assert!(e.message().starts_with("Cannot toggle the persist"), "{e}");
    let db = open(temp.path(), TIMED, false).unwrap();
    let cf = db.default_cf();
    // What the log held is a table now.
    assert_eq!(
        rows(&cf, u64::MAX),
        [row("a", "a5", 0), row("c", "in the log", 0)]
    );
    assert_eq!(low(&cf), at(61));
    assert_eq!(
        &*cf.get_opt("c", &ReadOptions::default().timestamp(at(61)))
            .unwrap()
            .unwrap(),
        b"in the log"
    );
    drop(cf);
    db.close().unwrap();

    // The tables serve a family without timestamps, and again one with them.
    let db = open(temp.path(), PLAIN, true).unwrap();
    db.default_cf().put("d", "plain").unwrap();
    db.flush(true).unwrap();
    let all: Vec<_> = db
        .default_cf()
        .iter()
        .map(|e| e.unwrap().0.into_vec())
        .collect();
    assert_eq!(all, [b"a", b"c", b"d"]);
    db.close().unwrap();
    let e = open(temp.path(), TIMED, true).unwrap_err();
    assert!(
        e.message()
            .starts_with("Cannot open a column family and enable"),
        "{e}"
    );
    let db = open(temp.path(), TIMED, false).unwrap();
    let cf = db.default_cf();
    cf.put_at("e", &at(70), "timed", &w).unwrap();
    cf.compact_range(None, None).unwrap();
    let keys: Vec<String> = rows(&cf, 100).into_iter().map(|r| r.0).collect();
    assert_eq!(keys, ["a", "c", "d", "e"]);
    drop(cf);
    db.close().unwrap();
}

/// All versions from `first` to `n`, in either direction: key, timestamp and value.
fn versions(cf: &Cf, first: u64, n: u64, forward: bool) -> Vec<(String, u64, String)> {
    let mut options = ReadOptions::default().timestamp(at(n));
    options.start_timestamp = Some(at(first).to_vec());
    let mut c = cf.cursor(options);
    let mut rows = Vec::new();
    let mut more = if forward {
        c.seek_to_first()
    } else {
        c.seek_to_last()
    };
    let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
    while more.unwrap() {
        // The key is the internal key.
        let key = &c.key()[..c.key().len() - 16];
        let timestamp = u64::from_le_bytes(c.timestamp().try_into().unwrap());
        rows.push((text(key), timestamp, text(c.value())));
        more = if forward { c.next() } else { c.prev() };
    }
    if !forward {
        rows.reverse();
    }
    rows
}

#[test]
fn compactions_keep_the_newest_version_of_history_that_was_given_up() {
    let temp = TempDir::new(test_name!());
    let w = WriteOptions::default();
    let db = open(temp.path(), TIMED, true).unwrap();
    let cf = db.default_cf();
    for n in 1..=4 {
        cf.put_at("a", &at(n * 10), format!("a{n}"), &w).unwrap();
    }
    cf.put_at("b", &at(10), "b1", &w).unwrap();
    cf.delete_at("b", &at(20), &w).unwrap();
    cf.put_at("c", &at(10), "c1", &w).unwrap();
    cf.put_at("d", &at(10), "d1", &w).unwrap();
    cf.delete_range_at("c", "e", &at(25), &w).unwrap();
    cf.put_at("d", &at(50), "d5", &w).unwrap();
    let get = |key: &str, n: u64| {
        let found = cf.get_opt(key, &ReadOptions::default().timestamp(at(n)));
        found
            .unwrap()
            .map(|v| String::from_utf8(v.into_vec()).unwrap())
    };
    for round in 0..2 {
        assert_eq!(get("c", 24).as_deref(), Some("c1"), "{round}");
        assert_eq!(get("c", 25), None, "{round}");
        assert_eq!(get("d", 49), None, "{round}");
        assert_eq!(get("d", 50).as_deref(), Some("d5"), "{round}");
        assert_eq!(rows(&cf, 30), [row("a", "a3", 30)], "{round}");
        let forward = versions(&cf, 20, 50, true);
        assert_eq!(forward, versions(&cf, 20, 50, false), "{round}");
        let shown: Vec<(&str, u64)> = forward.iter().map(|r| (&r.0[..], r.1)).collect();
        assert_eq!(
            shown,
            [("a", 40), ("a", 30), ("a", 20), ("b", 20), ("d", 50)],
            "{round}"
        );
        cf.compact_range(None, None).unwrap();
    }
    // Nothing was given up.
    assert_eq!(versions(&cf, 0, 15, true).len(), 4);
    cf.increase_full_history_ts_low(&at(35)).unwrap();
    let e = cf.increase_full_history_ts_low(&at(34)).unwrap_err();
    assert_eq!(
        e.to_string(),
        "Invalid argument: Current full_history_ts_low: 35 is higher than provided ts: 34\n"
    );
    // Nothing is lost until files change.
    assert_eq!(get("a", 34).as_deref(), Some("a3"));
    let how = spanlith::CompactRangeOptions {
        bottommost: spanlith::BottommostCompaction::Force,
        ..Default::default()
    };
    cf.compact_range_opt(None, None, &how).unwrap();
    let e = cf
        .get_opt("a", &ReadOptions::default().timestamp(at(34)))
        .unwrap_err();
    assert_eq!(
        e.to_string(),
        "Invalid argument: Read timestamp: 34 is smaller than full_history_ts_low: 35\n"
    );
    assert_eq!(get("a", 35).as_deref(), Some("a3"));
    assert_eq!(get("a", 40).as_deref(), Some("a4"));
    assert_eq!(get("c", 35), None);
    // The newest version before the bound has no timestamp any more.
    let left = versions(&cf, 0, 50, true);
    let left: Vec<(&str, u64)> = left.iter().map(|r| (&r.0[..], r.1)).collect();
    assert_eq!(left, [("a", 40), ("a", 0), ("d", 50)]);
    drop(cf);
    db.close().unwrap();
    let db = open(temp.path(), TIMED, true).unwrap();
    assert_eq!(db.default_cf().full_history_ts_low(), at(35));
}
