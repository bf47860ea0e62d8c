//! Families with timestamps whose tables hold none, and history that is given up.

use spanlith::options::{CfOptions, DbOptions};
use spanlith::{
    BottommostCompaction, Cf, CompactRangeOptions, Db, ErrorKind, FamilyOptions, ReadOptions,
    SizeOf, StringAppend, WriteBatch, WriteOptions,
};
use spanlith_testkit::{TempDir, test_name};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    // The entries of the log are in a table now.
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

/// A family with timestamps and few memtables of 64 KB, which nobody compacts by himself.
fn open_small(dir: &Path, persist: bool, memtables: i32) -> Db {
    let mut db = DbOptions::default();
    db.create_if_missing = true;
    db.allow_concurrent_memtable_write = false;
    let mut cf = CfOptions::default();
    cf.comparator = TIMED.to_string();
    cf.persist_user_defined_timestamps = persist;
    cf.write_buffer_size = 64 << 10;
    cf.max_write_buffer_number = memtables;
    cf.num_levels = 3;
    let family = FamilyOptions::new("default")
        .options(cf)
        .merge_operator(Arc::new(StringAppend::new(b",")));
    let builder = Db::builder(dir).options(db).no_info_log();
    builder.family(family).open().unwrap()
}

fn force() -> CompactRangeOptions {
    CompactRangeOptions {
        bottommost: BottommostCompaction::Force,
        ..CompactRangeOptions::default()
    }
}

/// Writes until one more memtable is sealed; returns the next timestamp.
fn seal_one(cf: &Cf, mut next: u64) -> u64 {
    let w = WriteOptions::default();
    let entries = || cf.int_property("rocksdb.num-entries-active-mem-table");
    let mut before = entries();
    loop {
        cf.put_at(format!("{next:08}"), &at(next), [0; 100], &w)
            .unwrap();
        next += 1;
        let now = entries();
        if now < before {
            return next;
        }
        before = now;
    }
}

/// Sealed memtables and tables.
fn places(cf: &Cf) -> (u64, usize) {
    let sealed = cf.int_property("rocksdb.num-immutable-mem-table");
    (sealed.unwrap(), cf.live_files().len())
}

#[test]
fn a_flush_that_nobody_asked_for_waits_until_history_is_given_up() {
    let temp = TempDir::new(test_name!());
    let db = open_small(temp.path(), false, 6);
    let cf = db.default_cf();
    cf.increase_full_history_ts_low(&at(5)).unwrap();
    let next = seal_one(&cf, 10);
    db.wait_idle(None).unwrap();
    assert_eq!(places(&cf), (1, 0));
    assert_eq!(cf.full_history_ts_low(), at(5));
    let key = format!("{:08}", 10);
    let early = |n| cf.get_opt(&key, &ReadOptions::default().timestamp(at(n)));
    assert!(early(10).unwrap().is_some());

    // The timestamps of the mutable memtable do not matter.
    cf.increase_full_history_ts_low(&at(next - 1)).unwrap();
    db.wait_idle(None).unwrap();
    assert_eq!(places(&cf), (0, 1));
    assert_eq!(cf.full_history_ts_low(), at(next - 1));
    assert!(early(10).is_err(), "history is gone");

    let next = seal_one(&cf, next);
    db.wait_idle(None).unwrap();
    assert_eq!(places(&cf), (1, 1));
    // A flush on demand waits for nothing, and raises the bound.
    cf.flush(true).unwrap();
    assert_eq!(places(&cf), (0, 2));
    assert_eq!(cf.full_history_ts_low(), at(next));
    db.close().unwrap();
}

#[test]
fn a_flush_that_would_hold_up_writers_does_not_wait_for_history() {
    let temp = TempDir::new(test_name!());
    let db = open_small(temp.path(), false, 4);
    let cf = db.default_cf();
    cf.increase_full_history_ts_low(&at(5)).unwrap();
    let next = seal_one(&cf, 10);
    db.wait_idle(None).unwrap();
    assert_eq!(places(&cf), (1, 0));
    let next = seal_one(&cf, next);
    cf.put_at("z", &at(next), "one more", &WriteOptions::default())
        .unwrap();
    // Three memtables of four delay writers. Nobody tells the flush of the write.
    let deadline = Instant::now() + Duration::from_secs(60);
    while places(&cf) != (0, 1) {
        assert!(Instant::now() < deadline, "{:?}", places(&cf));
        std::thread::yield_now();
    }
    db.close().unwrap();
}

#[test]
fn a_bound_of_history_that_was_never_set_holds_back_no_flush() {
    let temp = TempDir::new(test_name!());
    let db = open_small(temp.path(), false, 6);
    let cf = db.default_cf();
    let next = seal_one(&cf, 10);
    db.wait_idle(None).unwrap();
    assert_eq!(places(&cf), (0, 1));
    assert!(cf.full_history_ts_low() > at(10).to_vec() && next > 11);
    db.close().unwrap();
}

#[test]
fn merge_operands_are_folded_below_the_history_that_was_given_up_and_not_across_its_bound() {
    // Kind, timestamp, operand; what reads see at 10, 12 and 25; entries left.
    type Case<'a> = (&'a [(char, u64, &'a str)], [&'a str; 3], u64);
    let cases: [Case<'_>; 6] = [
        (&[('m', 5, "a"), ('m', 6, "b")], ["a,b", "a,b", "a,b"], 1),
        (
            &[('p', 4, "p"), ('m', 5, "a"), ('m', 20, "b")],
            ["p,a", "p,a", "p,a,b"],
            2,
        ),
        (
            &[('p', 4, "p"), ('m', 5, "a"), ('p', 7, "q"), ('m', 9, "b")],
            ["q,b", "q,b", "q,b"],
            1,
        ),
        (
            &[('d', 3, ""), ('m', 5, "a"), ('m', 20, "b"), ('m', 21, "c")],
            ["a", "a", "a,b,c"],
            3,
        ),
        (
            &[('m', 5, "a"), ('m', 5, "b"), ('m', 12, "c"), ('m', 12, "d")],
            ["a,b", "a,b,c,d", "a,b,c,d"],
            2,
        ),
        (
            &[('p', 4, "p"), ('d', 5, ""), ('m', 6, "a")],
            ["a", "a", "a"],
            1,
        ),
    ];
    for (i, (steps, want, entries)) in cases.iter().enumerate() {
        for with_older in [false, true] {
            let temp = TempDir::new(test_name!());
            let w = WriteOptions::default();
            let db = open_small(temp.path(), true, 2);
            let cf = db.default_cf();
            let mut want: Vec<String> = want.iter().map(|w| w.to_string()).collect();
            if with_older {
                // Below the files that are compacted, so that they never hold all of the key.
                cf.put_at("k", &at(1), "old", &w).unwrap();
                cf.compact_range_opt(None, None, &force()).unwrap();
                if steps[0].0 == 'm' {
                    want.iter_mut().for_each(|w| w.insert_str(0, "old,"));
                }
            }
            for &(kind, timestamp, text) in *steps {
                match kind {
                    'p' => cf.put_at("k", &at(timestamp), text, &w).unwrap(),
                    'd' => cf.delete_at("k", &at(timestamp), &w).unwrap(),
                    _ => {
                        let mut batch = WriteBatch::new();
                        batch.merge([b"k", &at(timestamp)[..]].concat(), text);
                        db.write_opt(&batch, &w).unwrap();
                    }
                }
            }
            cf.increase_full_history_ts_low(&at(10)).unwrap();
            for round in ["in memory", "flushed", "compacted"] {
                for (n, want) in [10, 12, 25].into_iter().zip(&want) {
                    let found = cf.get_opt("k", &ReadOptions::default().timestamp(at(n)));
                    let found = found
                        .unwrap()
                        .map(|v| String::from_utf8(v.into_vec()).unwrap());
                    assert_eq!(found.as_ref(), Some(want), "case {i} at {n}, {round}");
                    let shown = rows(&cf, n);
                    assert_eq!(&shown[0].1, want, "case {i} at {n}, cursor, {round}");
                }
                match round {
                    "in memory" => cf.flush(true).unwrap(),
                    _ => cf.compact_range_opt(None, None, &force()).unwrap(),
                }
            }
            let files = cf.live_files();
            let left: u64 = files.iter().map(|f| f.entries).sum();
            assert_eq!(left, *entries, "case {i}");
            // Entries before the bound have lost their timestamps.
            if *entries == 1 {
                assert_eq!(rows(&cf, 100)[0].2, 0, "case {i}");
            }
            db.close().unwrap();
        }
    }
}

#[test]
fn bottommost_files_are_rewritten_once_all_their_timestamps_are_given_up() {
    let temp = TempDir::new(test_name!());
    let w = WriteOptions::default();
    let db = open_small(temp.path(), true, 2);
    let cf = db.default_cf();
    for n in 0..20 {
        cf.put_at(format!("{n:03}"), &at(10 + n), "old", &w)
            .unwrap();
        cf.put_at(format!("{n:03}"), &at(100 + n), "new", &w)
            .unwrap();
    }
    cf.compact_range_opt(None, None, &force()).unwrap();
    let entries = || {
        db.wait_idle(None).unwrap();
        let files = cf.live_files();
        assert!(files.iter().all(|f| f.level == 2));
        files.iter().map(|f| f.entries).sum::<u64>()
    };
    // A snapshot's end is what first lets bottommost files be looked at.
    let release = || {
        let snapshot = db.snapshot();
        cf.put_at("zzz", &at(5000), "in memory", &w).unwrap();
        drop(snapshot);
    };
    release();
    assert_eq!(entries(), 40, "no history was given up");
    cf.increase_full_history_ts_low(&at(119)).unwrap();
    release();
    assert_eq!(
        entries(),
        40,
        "the newest version may still be read at its time"
    );
    cf.increase_full_history_ts_low(&at(120)).unwrap();
    assert_eq!(entries(), 20);
    assert_eq!(rows(&cf, 120).len(), 20);
    assert!(rows(&cf, 120).iter().all(|r| r.1 == "new" && r.2 == 0));
    assert!(cf.live_files().iter().all(|f| f.largest_seqno == 0));
    db.close().unwrap();
}

#[test]
fn calls_without_timestamps_are_refused_whatever_the_key_ends_with() {
    let dir = TempDir::new(test_name!());
    let db = open(dir.path(), TIMED, true).unwrap();
    let cf = db.default_cf();
    // Its last bytes could pass for a timestamp.
    let key = b"a long enough key";
    let refused = |r: spanlith::Result<()>| {
        let text = r.unwrap_err().to_string();
        let want = "cannot call this method on column family default that enables timestamp";
        assert!(text.contains(want), "{text}");
    };
    let mut protected = WriteOptions::default();
    protected.protection_bytes_per_key = 8;
    refused(cf.put(key, b"v"));
    refused(cf.put_opt(key, b"v", &protected));
    refused(cf.delete(key));
    refused(cf.delete_range(key, b"b long enough key"));
    refused(cf.put_entity(key, &[(&b""[..], &b"v"[..])]));
    assert_eq!(rows(&cf, u64::MAX), []);
}

#[test]
fn a_single_delete_cancels_its_put_in_history_alone() {
    let dir = TempDir::new(test_name!());
    let db = open(dir.path(), TIMED, true).unwrap();
    let cf = db.default_cf();
    let w = WriteOptions::default();
    for (key, put, deleted) in [("old", 5, 6), ("one", 10, 10), ("two", 9, 11)] {
        cf.put_at(key, &at(put), "v", &w).unwrap();
        cf.single_delete_at(key, &at(deleted), &w).unwrap();
    }
    cf.increase_full_history_ts_low(&at(10)).unwrap();
    cf.compact_range_opt(None, None, &force()).unwrap();
    let left: Vec<_> = versions(&cf, 0, u64::MAX, true)
        .into_iter()
        .map(|v| v.1)
        .collect();
    // Of `one` the put was hidden at its own time already; of `two` a reader at 10 sees it.
    // That is history, and the newest version of it, so it loses its timestamp.
    assert_eq!(left, [10, 11, 0]);
    assert_eq!(rows(&cf, 10), [row("two", "v", 0)]);
}

#[test]
fn sizes_and_whole_tables_are_told_by_keys_without_timestamps() {
    let dir = TempDir::new(test_name!());
    let db = open(dir.path(), TIMED, true).unwrap();
    let cf = db.default_cf();
    let w = WriteOptions::default();
    for key in ["a", "b", "c"] {
        for n in 1..4 {
            cf.put_at(key, &at(n), [b'v'; 5000], &w).unwrap();
        }
        cf.flush(true).unwrap();
    }
    let size = |begin: &str, end: &str| {
        let (begin, end) = (begin.as_bytes(), end.as_bytes());
        cf.approximate_size(begin, end, SizeOf::default()).unwrap()
    };
    let one = size("b", "c");
    assert!(one > 0);
    assert!(size("a", "b").abs_diff(one) < one / 10 && size("a", "c").abs_diff(2 * one) < one / 10);
    assert_eq!((size("c", "b"), size("b", "b")), (0, 0));
    let options = CompactRangeOptions {
        target_level: Some(2),
        ..CompactRangeOptions::default()
    };
    for key in ["a", "b", "c"] {
        let key = Some(key.as_bytes());
        cf.compact_range_opt(key, key, &options).unwrap();
    }
    assert_eq!(cf.live_files().len(), 3);
    cf.delete_files_in_ranges(&[(Some(b"b"), Some(b"c"))], false)
        .unwrap();
    let keys = || -> Vec<String> { rows(&cf, 9).into_iter().map(|r| r.0).collect() };
    assert_eq!(keys(), ["a", "c"]);
    cf.delete_files_in_ranges(&[(Some(b"b"), Some(b"c"))], true)
        .unwrap();
    assert_eq!(keys(), ["a"]);
}

#[test]
fn multi_gets_at_a_timestamp_that_one_family_does_not_take_read_nothing() {
    let dir = TempDir::new(test_name!());
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    let timed = |name: &str| {
        let mut cf = CfOptions::default();
        cf.comparator = TIMED.to_string();
        FamilyOptions::new(name).options(cf)
    };
    let builder = Db::builder(dir.path()).options(options);
    let builder = builder.family(FamilyOptions::new("default"));
    let db = builder
        .family(timed("x"))
        .family(timed("y"))
        .open()
        .unwrap();
    let (plain, x, y) = (db.default_cf(), db.cf("x").unwrap(), db.cf("y").unwrap());
    let w = WriteOptions::default();
    plain.put("a", "p").unwrap();
    x.put_at("a", &at(5), "x", &w).unwrap();
    y.put_at("a", &at(5), "y", &w).unwrap();
    let options = ReadOptions::default().timestamp(at(7));
    let get = |cfs: &[&Cf]| {
        let keys: Vec<(&Cf, &[u8])> = cfs.iter().map(|cf| (*cf, &b"a"[..])).collect();
        let text = |e: spanlith_base::Error| e.to_string();
        let values = db.multi_get_opt(&keys, &options).into_iter();
        let values: Vec<_> = values
            .map(|r| r.map(|v| v.map(|v| v.to_vec())).map_err(text))
            .collect();
        let timed = db.multi_get_with_timestamps(&keys, &options).into_iter();
        let timed: Vec<_> = timed
            .map(|r| r.map(|v| v.map(|v| v.0.to_vec())).map_err(text))
            .collect();
        assert_eq!(values, timed);
        values
    };
    let found = |v: &str| Ok(Some(v.as_bytes().to_vec()));
    assert_eq!(get(&[&x, &y]), [found("x"), found("y")]);
    let not_queried =
        "Result incomplete: DB not queried due to invalid argument(s) in the same MultiGet";
    let not_timed = "Invalid argument: cannot call this method on column family default that does not \
                     enable timestamp";
    let want = [Err(not_queried.to_string()), Err(not_timed.to_string())];
    assert_eq!(get(&[&x, &plain]), want);
    for (cf, low) in [(&y, 9), (&x, 8)] {
        cf.increase_full_history_ts_low(&at(low)).unwrap();
        cf.flush(true).unwrap();
        let text = format!(
            "Invalid argument: Read timestamp: 7 is smaller than full_history_ts_low: {low}\n"
        );
        // That of the family that was made first.
        assert_eq!(get(&[&y, &x]), [Err(text.clone()), Err(text)]);
    }
}

#[test]
fn a_read_of_many_keys_starts_no_compaction() {
    let dir = TempDir::new(test_name!());
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    let mut quiet = CfOptions::default();
    quiet.disable_auto_compactions = true;
    let mut timed = CfOptions::default();
    timed.comparator = TIMED.to_string();
    let builder = Db::builder(dir.path()).options(options);
    let builder = builder.family(FamilyOptions::new("default").options(quiet));
    let db = builder
        .family(FamilyOptions::new("x").options(timed))
        .open()
        .unwrap();
    let (plain, x) = (db.default_cf(), db.cf("x").unwrap());
    plain.put("a", "p").unwrap();
    plain.flush(true).unwrap();
    x.put_at("a", &at(5), "x", &WriteOptions::default())
        .unwrap();
    let pending = || plain.int_property("rocksdb.compaction-pending").unwrap();
    let options = ReadOptions::default().timestamp(at(7));
    let keys: [(&Cf, &[u8]); 2] = [(&x, b"a"), (&x, b"b")];
    assert!(
        db.multi_get_opt(&keys, &options)[0]
            .as_ref()
            .is_ok_and(Option::is_some)
    );
    db.multi_get_with_timestamps(&keys, &options);
    assert_eq!(pending(), 0);
    drop(db.snapshot());
    assert_eq!(
        pending(),
        1,
        "the table is worth rewriting without its number"
    );
}

#[test]
fn a_limit_of_bytes_holds_at_a_timestamp_too() {
    let dir = TempDir::new(test_name!());
    let db = open(dir.path(), TIMED, true).unwrap();
    let cf = db.default_cf();
    for key in ["a", "b", "c"] {
        cf.put_at(key, &at(5), [0; 100], &WriteOptions::default())
            .unwrap();
    }
    let mut options = ReadOptions::default().timestamp(at(7));
    options.value_size_soft_limit = 150;
    let got = cf.multi_get_opt(&[b"c", b"a", b"b", b"a"], &options);
    let left_out =
        |r: &spanlith::Result<_>| r.as_ref().is_err_and(|e| e.kind() == ErrorKind::Aborted);
    let left_out: Vec<bool> = got.iter().map(left_out).collect();
    assert_eq!(left_out, [true, false, true, false]);
}
