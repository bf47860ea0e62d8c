//! Describes what stands beside the tree: range tombstones, the filter, lookups of several keys, timestamps.
#![cfg(not(loom))]

use spanlith_base::slice_transform::SliceTransform;
use spanlith_base::timestamp::{U64Timestamps, encode_u64_timestamp};
use spanlith_base::{Comparator, MAX_SEQUENCE, ValueType};
use spanlith_memtable::{BloomOptions, MemTable, MemTableOptions};
use std::sync::Arc;

fn table() -> MemTable {
    MemTable::new(Comparator::Bytewise, 64 << 10)
}

#[test]
fn range_tombstones_stand_apart_from_entries() {
    let t = table();
    assert!(t.range_tombstones().is_none() && t.is_empty());
    t.add_range_tombstone(7, b"b", b"d");
    assert_eq!((t.len(), t.range_deletes(), t.deletes()), (0, 1, 0));
    assert!(!t.is_empty(), "there is something to flush");
    assert_eq!((t.first_seqno(), t.largest_seqno()), (7, 7));
    assert_eq!(t.data_bytes(), 1 + 8 + 1);
    assert!(t.find(b"b", MAX_SEQUENCE).is_none());
    t.add(3, ValueType::Value, b"a", b"1");
    t.add(9, ValueType::Value, b"c", b"2");
    assert_eq!((t.first_seqno(), t.largest_seqno()), (3, 9));
    let list = t.range_tombstones().unwrap();
    assert_eq!(list.max_covering(b"c", MAX_SEQUENCE), 7);
    assert!(Arc::ptr_eq(&list, &t.range_tombstones().unwrap()));
    t.add_range_tombstone(10, b"c", b"e");
    let newer = t.range_tombstones().unwrap();
    assert_eq!(newer.max_covering(b"c", MAX_SEQUENCE), 10);
    assert_eq!(newer.max_covering(b"c", 9), 7);
    assert_eq!(
        list.max_covering(b"c", MAX_SEQUENCE),
        7,
        "readers keep theirs"
    );
}

#[test]
fn a_limit_of_range_tombstones_makes_the_memtable_full() {
    let options = MemTableOptions {
        arena_block_size: 64 << 10,
        bloom: None,
        protection: spanlith_memtable::Protection::default(),
        max_range_deletions: 2,
    };
    let t = MemTable::with_options(Comparator::Bytewise, &options);
    t.add_range_tombstone(1, b"a", b"b");
    assert!(!t.should_flush(1 << 30));
    t.add_range_tombstone(2, b"a", b"b");
    assert!(t.should_flush(1 << 30));
}

#[test]
fn every_thread_sees_the_range_tombstones_it_knows_of() {
    let t = table();
    std::thread::scope(|s| {
        for thread in 0..4u64 {
            let t = &t;
            s.spawn(move || {
                for i in 0..100u64 {
                    let seqno = 1 + thread + 4 * i;
                    let start = [thread as u8, i as u8];
                    t.add_range_tombstone(seqno, &start, &[thread as u8, i as u8 + 1]);
                    let list = t.range_tombstones().unwrap();
                    assert_eq!(list.max_covering(&start, MAX_SEQUENCE), seqno);
                }
            });
        }
    });
    assert_eq!(t.range_tombstones().unwrap().len(), 400);
}

#[test]
fn a_filter_hides_nothing_that_was_added() {
    for (whole_keys, prefixes) in [
        (true, None),
        (false, Some(SliceTransform::FixedPrefix(4))),
        (true, Some(SliceTransform::FixedPrefix(4))),
    ] {
        let options = MemTableOptions {
            arena_block_size: 64 << 10,
            bloom: Some(BloomOptions {
                size_bytes: 4096,
                whole_keys,
                prefixes,
            }),
            protection: spanlith_memtable::Protection::default(),
            max_range_deletions: 0,
        };
        let t = MemTable::with_options(Comparator::Bytewise, &options);
        for n in (0..2000u32).step_by(2) {
            t.add(1 + u64::from(n), ValueType::Value, &n.to_be_bytes(), b"v");
        }
        for n in 0..2000u32 {
            let key = n.to_be_bytes();
            assert_eq!(t.find(&key, MAX_SEQUENCE).is_some(), n % 2 == 0);
            assert!(n % 2 == 1 || t.may_hold_prefix_of(&key));
        }
        let misses = (1 << 20..(1 << 20) + 1000u32)
            .filter(|n| !t.may_hold_prefix_of(&n.to_be_bytes()))
            .count();
        assert_eq!(misses > 900, options.bloom.unwrap().prefixes.is_some());
    }
}

#[test]
fn several_lookups_at_once_find_what_each_would() {
    for comparator in [
        Comparator::Bytewise,
        Comparator::ReverseBytewise,
        Comparator::from(U64Timestamps::Bytewise),
    ] {
        let t = MemTable::new(comparator, 64 << 10);
        // Several versions per key, so that equal words fill whole leaves.
        let key = |n: u64| (n * 7919 % 3001 / 3).to_be_bytes();
        for n in 0..9000u64 {
            t.add(n + 1, ValueType::Value, &key(n), &n.to_le_bytes());
        }
        for snapshot in [0, 1, 500, 4321, MAX_SEQUENCE] {
            let keys: Vec<_> = (0..1103u64).map(|n| n.to_be_bytes()).collect();
            let slices: Vec<&[u8]> = keys.iter().map(|k| &k[..]).collect();
            let mut found = vec![None; keys.len()];
            t.find_many(&slices, snapshot, &mut found);
            for (key, found) in slices.iter().zip(found) {
                let alone = t.find(key, snapshot);
                assert_eq!(
                    found.map(|e| (e.tag(), e.value())),
                    alone.map(|e| (e.tag(), e.value()))
                );
            }
        }
    }
}

#[test]
fn lookups_at_once_survive_concurrent_inserts() {
    let t = table();
    let key = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes();
    (0..1000).for_each(|n| {
        t.add(1 + n, ValueType::Value, &key(n), b"old");
    });
    std::thread::scope(|s| {
        s.spawn(|| {
            (1000..20_000).for_each(|n| {
                t.add(1 + n, ValueType::Value, &key(n), b"new");
            });
        });
        for first in (0..990u64).cycle().step_by(10).take(2000) {
            let keys: Vec<_> = (first..first + 10).map(key).collect();
            let slices: Vec<&[u8]> = keys.iter().map(|k| &k[..]).collect();
            let mut found = [None; 10];
            t.find_many(&slices, MAX_SEQUENCE, &mut found);
            assert!(found.iter().all(|e| e.unwrap().value() == b"old"));
        }
    });
}

#[test]
fn versions_are_found_by_timestamp_and_by_sequence_number() {
    let t = MemTable::new(Comparator::from(U64Timestamps::Bytewise), 64 << 10);
    let key = |k: &str, ts: u64| [k.as_bytes(), &encode_u64_timestamp(ts)].concat();
    t.add(1, ValueType::Value, &key("a", 10), b"a10");
    t.add(2, ValueType::Value, &key("a", 20), b"a20");
    t.add(3, ValueType::Value, &key("b", 30), b"b30");
    // Written last, with an older timestamp.
    t.add(4, ValueType::Value, &key("a", 15), b"a15");
    let at = |k: &str, ts, snapshot| t.find_version(&key(k, ts), snapshot).map(|e| e.value());
    assert_eq!(at("a", 25, 9), Some(&b"a20"[..]));
    assert_eq!(at("a", 19, 9), Some(&b"a15"[..]));
    assert_eq!(at("a", 19, 3), Some(&b"a10"[..]));
    assert_eq!(at("a", 9, 9), None);
    assert_eq!(at("a", 25, 0), None);
    assert_eq!(at("aa", 99, 9), None);
    let newest = t.find_version(&key("a", 99), 9).unwrap();
    let older = newest.next_version().unwrap();
    assert_eq!(older.value(), b"a15");
    assert_eq!(older.next_version().unwrap().value(), b"a10");
    assert!(older.next_version().unwrap().next_version().is_none());
}
