//! Reads beyond plain gets and scans: entities, TimedPuts, timestamps, prefixes, tailing cursors,
//! several families at once, tiers.

use spanlith::options::{BlockBasedTableOptions, CfOptions, CompressionType};
use spanlith::{
    Cf, Db, FamilyOptions, MergeOperator, ReadOptions, ReadTier, SizeOf, WriteBatch, WriteOptions,
};
use spanlith_testkit::TempDir;
use std::sync::Arc;

fn open(dir: &TempDir, options: CfOptions) -> Db {
    Db::builder(dir.path())
        .create_if_missing(true)
        .cf_options(options)
        .open()
        .unwrap()
}

fn columns(e: &spanlith::Entity) -> Vec<(Vec<u8>, Vec<u8>)> {
    let columns = e.columns().unwrap();
    let pairs = columns.iter().map(|c| (c.name.to_vec(), c.value.to_vec()));
    pairs.collect()
}

#[test]
fn entities_are_read_as_columns_and_as_their_default_column_wherever_they_lie() {
    let dir = TempDir::new("entities");
    let db = open(&dir, CfOptions::default().merge_operator("stringappend"));
    let cf = db.default_cf();
    cf.put_entity("e", &[(b"b", b"2"), (b"", b"default"), (b"a", b"1")])
        .unwrap();
    cf.put("v", "plain").unwrap();
    cf.put_entity("x", &[(b"only", b"other")]).unwrap();
    cf.put_entity("m", &[(b"", b"base"), (b"k", b"kept")])
        .unwrap();
    cf.merge("m", "more").unwrap();
    let all = vec![
        (b"".to_vec(), b"default".to_vec()),
        (b"a".to_vec(), b"1".to_vec()),
        (b"b".to_vec(), b"2".to_vec()),
    ];
    for round in ["memtable", "table", "compacted"] {
        assert_eq!(&*cf.get("e").unwrap().unwrap(), b"default", "{round}");
        assert_eq!(&*cf.get("x").unwrap().unwrap(), b"", "{round}");
        assert_eq!(&*cf.get("m").unwrap().unwrap(), b"base,more", "{round}");
        assert_eq!(
            columns(&cf.get_entity("e").unwrap().unwrap()),
            all,
            "{round}"
        );
        let merged = columns(&cf.get_entity("m").unwrap().unwrap());
        assert_eq!(merged[1], (b"k".to_vec(), b"kept".to_vec()), "{round}");
        let plain = columns(&cf.get_entity("v").unwrap().unwrap());
        assert_eq!(plain, [(b"".to_vec(), b"plain".to_vec())], "{round}");
        assert!(cf.get_entity("none").unwrap().is_none());
        let mut cursor = cf.cursor(ReadOptions::default());
        assert!(cursor.seek_to_first().unwrap());
        assert_eq!(cursor.value(), b"default");
        assert_eq!(columns(&cursor.entity().unwrap()), all, "{round}");
        assert!(cursor.next().unwrap());
        assert_eq!(
            (cursor.key(), cursor.value()),
            (&b"m"[..], &b"base,more"[..])
        );
        assert!(cursor.prev().unwrap());
        assert_eq!(columns(&cursor.entity().unwrap()), all, "{round} backward");
        drop(cursor);
        if round == "memtable" {
            cf.flush(true).unwrap();
        } else {
            cf.compact_range(None, None).unwrap();
        }
    }
    db.close().unwrap();
    let db = open(&dir, CfOptions::default().merge_operator("stringappend"));
    let again = db.default_cf().get_entity("e").unwrap().unwrap();
    assert_eq!(columns(&again), all);
}

#[test]
fn a_timed_put_reads_as_its_value_before_and_after_flush_and_reopen() {
    let dir = TempDir::new("timed-put");
    let db = open(&dir, CfOptions::default());
    let mut batch = WriteBatch::new();
    batch.timed_put_cf(spanlith::FamilyRef::by_id(0), "k", "value", 1000);
    db.write(&batch).unwrap();
    let cf = db.default_cf();
    let scan = |db: &Db| -> Vec<Vec<u8>> {
        let rows = db.default_cf().iter().map(|e| e.unwrap().1.into_vec());
        rows.collect()
    };
    assert_eq!(&*cf.get("k").unwrap().unwrap(), b"value");
    assert_eq!(scan(&db), [b"value".to_vec()]);
    drop(cf);
    db.close().unwrap();
    let db = open(&dir, CfOptions::default());
    assert_eq!(scan(&db), [b"value".to_vec()]);
    db.flush(true).unwrap();
    assert_eq!(scan(&db), [b"value".to_vec()]);
}

const TIMED: &str = "leveldb.BytewiseComparator.u64ts";

fn at(n: u64) -> [u8; 8] {
    n.to_le_bytes()
}

#[test]
fn a_read_at_a_timestamp_sees_the_newest_version_not_later() {
    let dir = TempDir::new("timestamps");
    let options = || CfOptions::default().comparator(TIMED);
    let db = open(&dir, options());
    let cf = db.default_cf();
    let w = WriteOptions::default();
    cf.put_at("a", &at(10), "a10", &w).unwrap();
    cf.put_at("a", &at(20), "a20", &w).unwrap();
    cf.put_at("b", &at(10), "b10", &w).unwrap();
    cf.delete_at("b", &at(20), &w).unwrap();
    cf.put_at("b", &at(30), "b30", &w).unwrap();
    let get = |key: &str, n: u64| {
        let found = cf.get_with_timestamp(key, &ReadOptions::default().timestamp(at(n)));
        found.unwrap().map(|(v, ts)| (v.into_vec(), ts))
    };
    let found = |v: &str, n: u64| Some((v.as_bytes().to_vec(), at(n).to_vec()));
    for round in ["memtable", "table", "compacted"] {
        assert_eq!(get("a", 9), None, "{round}");
        assert_eq!(get("a", 10), found("a10", 10), "{round}");
        assert_eq!(get("a", 25), found("a20", 20), "{round}");
        assert_eq!(get("b", 19), found("b10", 10), "{round}");
        assert_eq!(get("b", 20), None, "{round}");
        assert_eq!(get("b", u64::MAX), found("b30", 30), "{round}");
        let scan = |n: u64, forward: bool| {
            let mut c = cf.cursor(ReadOptions::default().timestamp(at(n)));
            let mut rows = Vec::new();
            let mut more = if forward {
                c.seek_to_first()
            } else {
                c.seek_to_last()
            };
            while more.unwrap() {
                let (key, value) = (c.key().to_vec(), c.value().to_vec());
                rows.push((key, value, c.timestamp().to_vec()));
                more = if forward { c.next() } else { c.prev() };
            }
            if !forward {
                rows.reverse();
            }
            rows
        };
        let row = |k: &str, v: &str, n: u64| (k.into(), v.into(), at(n).to_vec());
        for forward in [true, false] {
            assert_eq!(
                scan(15, forward),
                [row("a", "a10", 10), row("b", "b10", 10)]
            );
            assert_eq!(scan(20, forward), [row("a", "a20", 20)], "{round}");
            assert_eq!(
                scan(30, forward),
                [row("a", "a20", 20), row("b", "b30", 30)]
            );
        }
        let mut all = ReadOptions::default().timestamp(at(30));
        all.start_timestamp = Some(at(15).to_vec());
        let mut c = cf.cursor(all);
        let mut versions = Vec::new();
        let mut more = c.seek_to_first().unwrap();
        while more {
            versions.push(u64::from_le_bytes(c.timestamp().try_into().unwrap()));
            more = c.next().unwrap();
        }
        assert_eq!(versions, [20, 30, 20], "{round}");
        drop(c);
        if round == "memtable" {
            cf.flush(true).unwrap();
        } else {
            cf.compact_range(None, None).unwrap();
        }
    }
    cf.put_at("c", &at(5), "in the log", &w).unwrap();
    let text = |e: spanlith::Error| e.to_string();
    assert_eq!(
        text(cf.put("a", "v").unwrap_err()),
        "Invalid argument: cannot call this method on column family default that enables timestamp"
    );
    assert_eq!(
        text(cf.get("a").unwrap_err()),
        text(cf.put("a", "v").unwrap_err())
    );
    assert_eq!(
        text(cf.put_at("a", b"1234", "v", &w).unwrap_err()),
        "Invalid argument: Timestamp sizes mismatch: expect 8, 4 given"
    );
    drop(cf);
    db.close().unwrap();
    let db = open(&dir, options());
    let cf = db.default_cf();
    let now = ReadOptions::default().timestamp(at(u64::MAX));
    assert_eq!(&*cf.get_opt("c", &now).unwrap().unwrap(), b"in the log");
    assert_eq!(&*cf.get_opt("b", &now).unwrap().unwrap(), b"b30");
}

#[test]
fn a_timestamp_in_a_family_without_them_is_refused() {
    let dir = TempDir::new("no-timestamps");
    let db = open(&dir, CfOptions::default());
    let e = db
        .default_cf()
        .get_opt("k", &ReadOptions::default().timestamp(at(1)));
    assert_eq!(
        e.unwrap_err().to_string(),
        "Invalid argument: cannot call this method on column family default that does not enable timestamp"
    );
}

#[test]
fn an_iterator_within_a_prefix_ends_with_it_and_finds_all_of_it() {
    for hash_index in [false, true] {
        let dir = TempDir::new("prefix-scan");
        let mut table = BlockBasedTableOptions::default().filter_policy("bloomfilter:10:false");
        if hash_index {
            table = table.index_type(spanlith::options::IndexType::HashSearch);
        }
        let options = CfOptions::default()
            .prefix_extractor("fixed:2")
            .memtable_prefix_bloom_size_ratio(0.1);
        let db = Db::builder(dir.path())
            .create_if_missing(true)
            .cf_options(options)
            .table_options(table)
            .open()
            .unwrap();
        let cf = db.default_cf();
        for p in 0..20u8 {
            for n in 0..30u8 {
                // Prefixes with an odd number do not exist.
                cf.put([b'p', p * 2, n], [n]).unwrap();
            }
            if p % 7 == 0 {
                cf.flush(true).unwrap();
            }
        }
        let mut c = cf.cursor(ReadOptions::default().prefix_same_as_start(true));
        for p in 0..41u8 {
            let mut found = 0;
            let mut more = c.seek(&[b'p', p]).unwrap();
            while more {
                assert_eq!(c.key(), [b'p', p, found]);
                found += 1;
                more = c.next().unwrap();
            }
            let expected = if p % 2 == 0 && p < 40 { 30 } else { 0 };
            assert_eq!(found, expected, "prefix {p}");
        }
        // Without it the scan goes on.
        let mut c = cf.cursor(ReadOptions::default());
        assert!(c.seek(&[b'p', 1]).unwrap());
        assert_eq!(c.key(), [b'p', 2, 0]);
        assert_eq!(cf.prefix([b'p', 4]).count(), 30);
        assert_eq!(cf.range([b'p', 2]..[b'p', 5]).count(), 60);
    }
}

/// In total order as well; and a bound that replaces the target, or names an end, leaves the prefix of what was
/// asked for.
#[test]
fn an_iterator_within_a_prefix_stays_in_that_of_its_target() {
    let dir = TempDir::new("same-prefix");
    let db = open(&dir, CfOptions::default().prefix_extractor("fixed:1"));
    let cf = db.default_cf();
    for key in ["a1", "b1", "b2", "c1"] {
        cf.put(key, "v").unwrap();
    }
    let options = || ReadOptions::default().prefix_same_as_start(true);
    for total_order in [false, true] {
        let mut o = options();
        o.total_order = total_order;
        let mut c = cf.cursor(o);
        assert!(c.seek(b"b2").unwrap());
        assert!(!c.next().unwrap());
        assert!(!c.seek(b"a2").unwrap());
        assert!(c.seek_for_prev(b"b9").unwrap());
        assert!(c.prev().unwrap());
        assert!(!c.prev().unwrap());
    }
    let mut c = cf.cursor(options().lower("a2"));
    assert!(!c.seek_to_first().unwrap(), "the bound's prefix is empty");
    assert!(c.seek(b"b").unwrap());
    let mut c = cf.cursor(options().upper("c0"));
    assert!(!c.seek_to_last().unwrap(), "the bound's prefix is empty");
    let mut c = cf.cursor(options().lower("b1"));
    assert!(!c.seek(b"a1").unwrap(), "the target's prefix lies before");
}

#[test]
fn a_tailing_cursor_sees_what_is_written_behind_it_and_goes_forward_only() {
    let dir = TempDir::new("tailing");
    let db = open(&dir, CfOptions::default());
    let cf = db.default_cf();
    cf.put("a", "1").unwrap();
    cf.flush(true).unwrap();
    let mut options = ReadOptions::default();
    options.tailing = true;
    let mut c = cf.cursor(options);
    assert!(c.seek_to_first().unwrap());
    cf.put("b", "2").unwrap();
    assert!(c.next().unwrap());
    assert_eq!(c.entry(), Some((&b"b"[..], &b"2"[..])));
    assert_eq!(
        c.prev().unwrap_err().to_string(),
        "Not implemented: ForwardIterator::Prev"
    );
    assert!(!c.valid());
    assert!(c.seek(b"a").unwrap());
}

#[test]
fn a_tailing_cursor_meets_what_is_written_where_rocksdbs_does() {
    // Puts by key, deletions after `!`, moves by name, seeks after `>`; what RocksDB 11.8.1 shows after each move.
    let cases = [
        ("a flush iter first b next", "a b"),
        ("a c flush iter first b next next", "a c -"),
        ("a flush A iter first next b next", "A a b"),
        ("a c flush A iter first next b next next", "A a c -"),
        ("a flush z iter first b next next", "a b z"),
        ("a iter first b next", "a b"),
        ("a z iter first b next next", "a b z"),
        ("a flush A iter first next c >b next", "A a c -"),
        ("a b flush iter first next c next", "a b c"),
        ("b !d flush iter >b c next", "b -"),
        ("b !d flush iter >b e next", "b e"),
        ("a c !d flush z iter >c d next next", "c z -"),
    ];
    for (script, expected) in cases {
        let dir = TempDir::new("tailing-steps");
        let db = open(&dir, CfOptions::default().disable_auto_compactions(true));
        let cf = db.default_cf();
        let mut options = ReadOptions::default();
        options.tailing = true;
        let mut cursor = cf.cursor(options.clone());
        let mut shown = Vec::new();
        for word in script.split(' ') {
            let is_there = match word {
                "flush" => {
                    cf.flush(true).unwrap();
                    continue;
                }
                "iter" => {
                    cursor = cf.cursor(options.clone());
                    continue;
                }
                "first" => cursor.seek_to_first().unwrap(),
                "next" => cursor.next().unwrap(),
                _ => match word.strip_prefix('>') {
                    Some(key) => cursor.seek(key.as_bytes()).unwrap(),
                    None => {
                        match word.strip_prefix('!') {
                            Some(key) => cf.delete(key).unwrap(),
                            None => cf.put(word, "1").unwrap(),
                        }
                        continue;
                    }
                },
            };
            shown.push(match is_there {
                true => String::from_utf8_lossy(cursor.key()).into_owned(),
                false => "-".into(),
            });
        }
        assert_eq!(shown.join(" "), expected, "{script}");
    }
}

#[test]
fn a_tailing_cursor_follows_overwrites_deletions_of_ranges_and_flushes() {
    let dir = TempDir::new("tailing-changes");
    let db = open(&dir, CfOptions::default());
    let cf = db.default_cf();
    for key in ["a", "b", "c", "d", "e"] {
        cf.put(key, "1").unwrap();
    }
    let mut options = ReadOptions::default();
    options.tailing = true;
    let mut c = cf.cursor(options);
    assert!(c.seek(b"a").unwrap());
    cf.put("b", "2").unwrap();
    assert!(c.next().unwrap());
    assert_eq!(c.entry(), Some((&b"b"[..], &b"2"[..])));
    cf.delete_range("c", "e").unwrap();
    assert!(c.next().unwrap());
    assert_eq!(c.key(), b"e");
    cf.flush(true).unwrap();
    cf.put("f", "3").unwrap();
    assert!(c.next().unwrap());
    assert_eq!(c.entry(), Some((&b"f"[..], &b"3"[..])));
    assert!(!c.next().unwrap());
    cf.put("c", "4").unwrap();
    assert!(c.seek(b"b\0").unwrap());
    assert_eq!(c.entry(), Some((&b"c"[..], &b"4"[..])));
}

/// Takes no operand.
struct Refusing;

impl MergeOperator for Refusing {
    fn name(&self) -> &str {
        "refusing"
    }

    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }
}

#[test]
fn a_key_whose_operands_come_to_nothing_does_not_exist() {
    let dir = TempDir::new("refusing");
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .merge_operator(Arc::new(Refusing))
        .open()
        .unwrap();
    let (cf, o) = (db.default_cf(), ReadOptions::default());
    cf.put("k", "base").unwrap();
    assert!(cf.key_may_exist("k", &o).is_some());
    cf.merge("k", "operand").unwrap();
    assert_eq!(cf.key_may_exist("k", &o), None);
}

/// Each number is what RocksDB 11.8.1 says of the same entries, which are too few for it to extrapolate.
#[test]
fn the_size_of_memtables_is_estimated_as_rocksdb_does() {
    let sizes = |cf: &Cf, ranges: &[(&str, &str)]| -> Vec<u64> {
        let of = SizeOf {
            files: false,
            memtables: true,
            ..SizeOf::default()
        };
        let size =
            |&(a, b): &(&str, &str)| cf.approximate_size(a.as_bytes(), b.as_bytes(), of).unwrap();
        ranges.iter().map(size).collect()
    };
    let key = |n: usize| format!("key{n:05}");
    for (value_len, each) in [(0, 18), (100, 118), (127, 145), (128, 147), (1000, 1019)] {
        let dir = TempDir::new("memtable-size");
        let cf = Db::open(dir.path()).unwrap().default_cf();
        assert_eq!(sizes(&cf, &[("a", "z")]), [0]);
        for n in 0..10 {
            cf.put(key(n), vec![b'v'; value_len]).unwrap();
        }
        let ranges = [("a", "z"), ("a", "key00005"), ("x", "z")];
        assert_eq!(sizes(&cf, &ranges), [10 * each, 5 * each, 0]);
    }
    let dir = TempDir::new("memtable-size");
    let cf = Db::open(dir.path()).unwrap().default_cf();
    for n in 0..10 {
        cf.put(key(n), "0123456789").unwrap();
    }
    cf.delete_range("b", "c").unwrap();
    let ranges = [("a", "z"), ("b", "c"), ("bb", "c"), ("d", "z")];
    assert_eq!(sizes(&cf, &ranges), [286, 26, 0, 260]);
    let dir = TempDir::new("memtable-size");
    let options = CfOptions::default().memtable_protection_bytes_per_key(8u32);
    let cf = open(&dir, options).default_cf();
    for n in 0..10 {
        cf.put(key(n), "0123456789").unwrap();
    }
    assert_eq!(sizes(&cf, &[("a", "z")]), [360]);
}

/// As 11.8.1: what may be off by a part of what is sure is not looked into.
#[test]
fn tables_at_the_ends_of_a_range_count_half_within_the_margin() {
    let dir = TempDir::new("size-margin");
    let options = CfOptions::default()
        .target_file_size_base(10_000u64)
        .compression(CompressionType::None)
        .disable_auto_compactions(true);
    let cf = open(&dir, options).default_cf();
    let key = |n: usize| format!("key{n:05}");
    // Two of them, so that the compaction does not move the first.
    for step in [1, 500] {
        for n in (0..1000).step_by(step) {
            cf.put(key(n), n.to_string().repeat(60)).unwrap();
        }
        cf.flush(true).unwrap();
    }
    cf.compact_range(None, None).unwrap();
    let files = cf.live_files();
    let (first, last) = (2, files.len() - 3);
    assert!(last > 10 && files.iter().all(|f| f.level > 0));
    let begin = [&*files[first].smallest, b"+"].concat();
    let end = files[last].largest.clone();
    let size = |margin: f64| {
        let of = SizeOf {
            margin,
            ..SizeOf::default()
        };
        cf.approximate_size(&begin, &end, of).unwrap()
    };
    let within: u64 = files[first + 1..last].iter().map(|f| f.size).sum();
    let half = within + (files[first].size + files[last].size) / 2;
    let exact = size(-1.0);
    assert!(exact != half, "almost all of both");
    assert_eq!([0.0, 0.01, f64::NAN].map(size), [exact; 3]);
    assert_eq!([0.9, 1.0].map(size), [half; 2]);
}

#[test]
fn operands_existence_and_tiers_are_answered() {
    let dir = TempDir::new("operands");
    let db = open(&dir, CfOptions::default().merge_operator("stringappend"));
    let cf = db.default_cf();
    let o = ReadOptions::default();
    cf.put("k", "base").unwrap();
    cf.merge("k", "one").unwrap();
    cf.flush(true).unwrap();
    cf.merge("k", "two").unwrap();
    let operands = cf.get_merge_operands("k", 9, &o).unwrap();
    // The flush folded what it had.
    let texts: Vec<&[u8]> = operands.iter().map(|p| &**p).collect();
    assert_eq!(texts, [&b"base,one"[..], &b"two"[..]]);
    let e = cf.get_merge_operands("k", 1, &o).unwrap_err();
    assert_eq!(e.kind(), spanlith::ErrorKind::Incomplete);
    assert!(cf.get_merge_operands("none", 1, &o).unwrap().is_empty());
    assert!(cf.contains_key("k").unwrap());
    assert_eq!(cf.key_may_exist("none", &o), None);
    assert!(cf.key_may_exist("k", &o).is_some());
    let memtables = o.clone().read_tier(ReadTier::Memtables);
    // A tier of iterators only.
    assert_eq!(
        &*cf.get_opt("k", &memtables).unwrap().unwrap(),
        b"base,one,two"
    );
    let persisted = o.clone().read_tier(ReadTier::Persisted);
    assert_eq!(
        &*cf.get_opt("k", &persisted).unwrap().unwrap(),
        b"base,one,two"
    );
    cf.put_opt("u", "lost", &WriteOptions::new().disable_wal(true))
        .unwrap();
    assert!(cf.get_opt("u", &persisted).unwrap().is_none());
    // Of a deadline that has passed only reads of files take notice.
    let mut late = o.clone();
    late.deadline_micros = 1;
    assert_eq!(&*cf.get_opt("u", &late).unwrap().unwrap(), b"lost");
    cf.flush(true).unwrap();
    let e = cf.get_opt("u", &late).unwrap_err();
    assert_eq!(e.kind(), spanlith::ErrorKind::TimedOut);
    assert_eq!(e.to_string(), "Operation timed out: Deadline exceeded");
    assert!(cf.get("u").unwrap().is_some());
    assert!(cf.get_opt("u", &late).unwrap().is_some(), "cached by now");
}

#[test]
fn tables_that_a_filter_does_not_take_are_passed_over_by_iterators_only() {
    let dir = TempDir::new("table-filter");
    let db = open(&dir, CfOptions::default().disable_auto_compactions(true));
    let cf = db.default_cf();
    for (round, keys) in [["a", "d"], ["b", "e"], ["c", "f"]].iter().enumerate() {
        for key in keys {
            cf.put(key, "v").unwrap();
        }
        if round == 1 {
            cf.put("more", "v").unwrap();
        }
        cf.flush(true).unwrap();
        if round == 0 {
            cf.compact_range(None, None).unwrap();
        }
    }
    cf.put("mem", "v").unwrap();
    let keys_of = |entries: fn(u64) -> bool| -> Vec<String> {
        let mut options = ReadOptions::default();
        let takes = move |p: &spanlith::TableProperties| entries(p.num_entries);
        options.table_filter = Some(spanlith::TableFilter::new(takes));
        let text = |k: &[u8]| String::from_utf8(k.to_vec()).unwrap();
        let mut cursor = cf.cursor(options);
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        let mut more = cursor.seek_to_first().unwrap();
        while more {
            forward.push(text(cursor.key()));
            more = cursor.next().unwrap();
        }
        more = cursor.seek_to_last().unwrap();
        while more {
            backward.push(text(cursor.key()));
            more = cursor.prev().unwrap();
        }
        backward.reverse();
        assert_eq!(forward, backward);
        forward
    };
    assert_eq!(keys_of(|_| false), ["mem"]);
    assert_eq!(keys_of(|n| n == 3), ["b", "e", "mem", "more"]);
    assert_eq!(keys_of(|n| n == 2), ["a", "c", "d", "f", "mem"]);
    assert!(cf.get("a").unwrap().is_some());
}

#[test]
fn keys_of_several_families_are_read_at_one_point() {
    let dir = TempDir::new("multi-families");
    let db = open(&dir, CfOptions::default());
    let other = db.create_cf(FamilyOptions::new("other")).unwrap();
    let cf = db.default_cf();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0..300u32 {
                let mut batch = WriteBatch::new();
                batch.put_cf(&cf, "n", n.to_le_bytes());
                batch.put_cf(&other, "n", n.to_le_bytes());
                db.write(&batch).unwrap();
                if n % 100 == 50 {
                    cf.flush(true).unwrap();
                }
            }
        });
        while !writer.is_finished() {
            let keys: [(&spanlith::Cf, &[u8]); 3] = [(&cf, b"n"), (&other, b"n"), (&cf, b"none")];
            let found = db.multi_get(&keys);
            let value = |i: usize| found[i].as_ref().unwrap().as_deref().map(<[u8]>::to_vec);
            assert_eq!(value(0), value(1), "a batch is seen whole");
            assert_eq!(value(2), None);
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_refreshed_cursor_shows_what_there_is_now_or_at_the_snapshot() {
    let dir = TempDir::new("refresh");
    let db = open(&dir, CfOptions::default());
    let cf = db.default_cf();
    let keys = |cursor: &mut spanlith::Cursor| {
        let mut keys = Vec::new();
        let mut more = cursor.seek_to_first().unwrap();
        while more {
            keys.push(String::from_utf8(cursor.key().to_vec()).unwrap());
            more = cursor.next().unwrap();
        }
        keys.join(" ")
    };
    cf.put("a", "1").unwrap();
    let mut cursor = cf.cursor(ReadOptions::default());
    let snapshot = db.snapshot();
    cf.put("b", "2").unwrap();
    cf.flush(true).unwrap();
    assert_eq!(keys(&mut cursor), "a", "as it was made");
    assert!(cursor.seek_to_first().unwrap());
    cursor.refresh(None).unwrap();
    assert!(!cursor.valid(), "the position is lost");
    assert_eq!(keys(&mut cursor), "a b");
    cf.delete("a").unwrap();
    cursor.refresh(Some(snapshot)).unwrap();
    assert_eq!(keys(&mut cursor), "a");
    cursor.refresh(None).unwrap();
    assert_eq!(keys(&mut cursor), "b");
}

#[test]
fn keys_and_values_of_a_pinning_cursor_stay_where_they_are() {
    let dir = TempDir::new("pin-data");
    let table = BlockBasedTableOptions::default().block_size(200u64);
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .table_options(table)
        .block_cache(spanlith_table::BlockCache::new(
            1,
            spanlith_cache::Policy::Lru,
        ))
        .open()
        .unwrap();
    let cf = db.default_cf();
    for n in 0..300 {
        cf.put(format!("key{n:03}"), format!("value{n:03}"))
            .unwrap();
        if n == 200 {
            cf.flush(true).unwrap();
        }
    }
    let mut options = ReadOptions::default();
    options.pin_data = true;
    let mut cursor = cf.cursor(options);
    let mut seen: Vec<(*const u8, *const u8)> = Vec::new();
    let mut more = cursor.seek_to_first().unwrap();
    while more {
        seen.push((cursor.key().as_ptr(), cursor.value().as_ptr()));
        more = cursor.next().unwrap();
    }
    // Tables and blocks go; what the cursor has shown does not.
    cf.compact_range(None, None).unwrap();
    assert_eq!(seen.len(), 300);
    for (n, (key, value)) in seen.into_iter().enumerate() {
        // SAFETY: The cursor lives, so that what it has shown is where it was, as `pin_data` promises.
        let (key, value) = unsafe {
            let bytes = |at, len| std::slice::from_raw_parts(at, len);
            (bytes(key, 6), bytes(value, 8))
        };
        assert_eq!(key, format!("key{n:03}").as_bytes());
        assert_eq!(value, format!("value{n:03}").as_bytes());
    }
    drop(cursor);
}
