//! The memtable against an ordered map, and under many threads.
#![cfg(not(loom))]

use spanlith_base::keys::{internal_key, pack_tag, seek_tag, tag, tag_sequence, user_key};
use spanlith_base::{Comparator, UserComparator, ValueType};
use spanlith_memtable::{Entry, MemTable, MemTableIter};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Seed of a random test: `SEED` or a fixed one; printed, so that a failure can be repeated.
fn seed() -> u64 {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(0x5eed);
    println!("SEED={seed}");
    seed
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    /// Short alphabets, so that prefixes collide; zero bytes, empty keys and long keys among them.
    fn key(&mut self) -> Vec<u8> {
        let len = match self.below(10) {
            0 => 0,
            1 => 100 + self.below(300),
            2..=5 => 6 + self.below(5),
            _ => self.below(5),
        };
        let mut key: Vec<u8> = (0..len).map(|_| b"\0ab\xff"[self.below(4)]).collect();
        if self.below(3) == 0 {
            key.splice(0..0, *b"sameprefix");
        }
        key
    }
}

/// Compares by length, then bytes: an order that has no prefix words.
struct ByLength;

impl UserComparator for ByLength {
    fn name(&self) -> &str {
        "by-length"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

/// An internal key that sorts as its comparator says.
#[derive(Clone)]
struct Key(Comparator, Vec<u8>);

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.compare_internal(&self.1, &other.1)
    }
}
impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Key {}

type Model = BTreeMap<Key, Vec<u8>>;

fn at(iter: &MemTableIter) -> Option<(Vec<u8>, Vec<u8>)> {
    iter.valid()
        .then(|| (iter.key().to_vec(), iter.value().to_vec()))
}

fn owned(entry: Option<(&Key, &Vec<u8>)>) -> Option<(Vec<u8>, Vec<u8>)> {
    entry.map(|(k, v)| (k.1.clone(), v.clone()))
}

fn check_reads(table: &Arc<MemTable>, model: &Model, comparator: &Comparator, r: &mut Random) {
    let mut iter = table.iter();
    iter.seek_to_first();
    for entry in model.iter() {
        assert_eq!(at(&iter), owned(Some(entry)));
        iter.next();
    }
    assert!(!iter.valid());
    iter.seek_to_last();
    for entry in model.iter().rev() {
        assert_eq!(at(&iter), owned(Some(entry)));
        iter.prev();
    }
    assert!(!iter.valid());

    let keys: Vec<Vec<u8>> = model.keys().map(|k| user_key(&k.1).to_vec()).collect();
    for _ in 0..300 {
        let user = if keys.is_empty() || r.below(3) == 0 {
            r.key()
        } else {
            keys[r.below(keys.len())].clone()
        };
        let snapshot = r.below(3_000) as u64;
        let target = Key(comparator.clone(), internal_key(&user, seek_tag(snapshot)));
        iter.seek(&target.1);
        assert_eq!(at(&iter), owned(model.range(target.clone()..).next()));
        iter.seek_for_prev(&target.1);
        assert_eq!(at(&iter), owned(model.range(..=target.clone()).next_back()));

        let mut want: Vec<_> = model
            .range(target.clone()..)
            .take_while(|(k, _)| comparator.equal(user_key(&k.1), &user))
            .collect();
        want.reverse();
        let mut found = table.find(&user, snapshot);
        while let Some(entry) = found {
            let (k, v) = want.pop().expect("no more entries than the model has");
            assert_eq!((entry.internal_key(), entry.value()), (&k.1[..], &v[..]));
            assert_eq!((entry.user_key(), entry.tag()), (user_key(&k.1), tag(&k.1)));
            found = entry.next_older();
        }
        assert!(want.is_empty());
    }
}

fn run_model(comparator: &Comparator, batched: bool, r: &mut Random) {
    let table = Arc::new(MemTable::new(comparator.clone(), 16 << 10));
    let mut model = Model::new();
    let (mut data_bytes, mut deletes, mut largest) = (0, 0, 0);
    for _ in 0..120 {
        let batch: Vec<_> = (0..1 + r.below(20))
            .map(|_| {
                let kind = [ValueType::Value, ValueType::Deletion, ValueType::Merge][r.below(3)];
                let value = vec![b'v'; if r.below(20) == 0 { 9_000 } else { r.below(30) }];
                (1 + r.below(2_500) as u64, kind, r.key(), value)
            })
            .collect();
        let mut fresh = Vec::new();
        for (seqno, kind, key, value) in &batch {
            let taken = table
                .find(key, *seqno)
                .is_some_and(|e| tag_sequence(e.tag()) == *seqno);
            let internal = internal_key(key, pack_tag(*seqno, *kind as u8));
            let in_model = model.keys().any(|k| {
                comparator.equal(user_key(&k.1), key) && tag_sequence(tag(&k.1)) == *seqno
            });
            if !batched {
                assert_eq!(taken, in_model);
                assert_eq!(table.add(*seqno, *kind, key, value), !taken);
            }
            if !in_model {
                model.insert(Key(comparator.clone(), internal.clone()), value.clone());
                data_bytes += (internal.len() + value.len()) as u64;
                deletes += u64::from(*kind == ValueType::Deletion);
                largest = largest.max(*seqno);
            }
            fresh.push(Entry {
                seqno: *seqno,
                kind: *kind,
                key,
                value,
            });
        }
        if batched {
            table.add_many(&fresh);
        }
    }
    assert_eq!(table.len(), model.len() as u64);
    assert_eq!((table.data_bytes(), table.deletes()), (data_bytes, deletes));
    assert_eq!(table.largest_seqno(), largest);
    let smallest = model.keys().map(|k| tag_sequence(tag(&k.1))).min();
    assert_eq!(Some(table.first_seqno()), smallest);
    assert!(table.memory_usage() as u64 > data_bytes);
    check_reads(&table, &model, comparator, r);
}

#[test]
fn reads_agree_with_an_ordered_map_in_every_order_of_keys() {
    let mut r = Random(seed());
    for round in 0..6 {
        for comparator in [
            Comparator::Bytewise,
            Comparator::ReverseBytewise,
            Comparator::User(Arc::new(ByLength)),
        ] {
            run_model(&comparator, round % 2 == 1, &mut r);
        }
    }
}

#[test]
fn an_empty_memtable_has_nothing_and_is_cheap() {
    let table = Arc::new(MemTable::new(Comparator::Bytewise, 1 << 20));
    assert!(table.is_empty());
    assert!(table.find(b"", u64::MAX >> 8).is_none());
    assert_eq!((table.first_seqno(), table.largest_seqno()), (u64::MAX, 0));
    assert!(table.memory_usage() < 10 << 10);
    let mut iter = table.iter();
    assert!(!iter.valid());
    iter.seek_to_first();
    assert!(!iter.valid());
    iter.seek_to_last();
    assert!(!iter.valid());
    iter.seek_for_prev(&internal_key(b"x", 0));
    assert!(!iter.valid());
    assert!(!table.should_flush(1));
}

/// Holds M2.
#[test]
fn a_second_entry_with_the_same_key_and_sequence_is_refused_whatever_its_type() {
    let table = MemTable::new(Comparator::Bytewise, 1 << 16);
    assert!(table.add(5, ValueType::Merge, b"k", b"first"));
    for kind in [
        ValueType::Deletion,
        ValueType::Value,
        ValueType::Merge,
        ValueType::BlobIndex,
    ] {
        assert!(!table.add(5, kind, b"k", b"second"));
        table.add_many(&[Entry {
            seqno: 5,
            kind,
            key: b"k",
            value: b"third",
        }]);
    }
    assert!(table.add(5, ValueType::Value, b"k2", b""));
    assert!(table.add(6, ValueType::Value, b"k", b""));
    assert_eq!(table.len(), 3);
    assert_eq!(table.find(b"k", 5).map(|e| e.value()), Some(&b"first"[..]));
}

#[test]
fn the_full_rule_is_met_close_to_the_write_buffer_size() {
    for (write_buffer_size, block) in [
        (64 << 10, 8 << 10),
        (1 << 20, 128 << 10),
        (16 << 20, 1 << 20),
        (5 << 20, 640 << 10),
    ] {
        let table = MemTable::new(Comparator::Bytewise, block);
        let mut seqno = 0;
        while !table.should_flush(write_buffer_size) {
            seqno += 1;
            table.add(seqno, ValueType::Value, &seqno.to_be_bytes(), &[0; 100]);
        }
        let used = table.memory_usage();
        let bounds = write_buffer_size / 10 * 8..write_buffer_size / 10 * 12;
        assert!(
            bounds.contains(&used),
            "{write_buffer_size} {block}: {used}"
        );
    }
}

/// Its last block of 2 MiB is not counted before it is used: the memtable holds what the write buffer says.
#[test]
fn a_memtable_of_ordinary_size_is_filled_to_the_write_buffer_size() {
    const WRITE_BUFFER: usize = 64 << 20;
    const BLOCK: usize = 1 << 20;
    let table = MemTable::new(Comparator::Bytewise, BLOCK);
    let mut entries = 0u64;
    while !table.should_flush(WRITE_BUFFER) {
        entries += 1;
        let key = entries.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        table.add(entries, ValueType::Value, &key, &[0; 100]);
    }
    let used = table.used_bytes();
    let bounds = WRITE_BUFFER..WRITE_BUFFER + BLOCK;
    assert!(bounds.contains(&used), "{entries} entries, {used} bytes");
}

/// Holds M1.
#[test]
fn many_threads_insert_while_others_read() {
    let seed = seed();
    let table = Arc::new(MemTable::new(Comparator::Bytewise, 256 << 10));
    const WRITERS: u64 = 4;
    const EACH: u64 = 5_000;
    std::thread::scope(|s| {
        for writer in 0..WRITERS {
            let table = &table;
            s.spawn(move || {
                let mut r = Random(seed + writer);
                let mut batch = Vec::new();
                for i in 0..EACH {
                    // Half in order, half anywhere; a third through batches.
                    let n = if i % 2 == 0 { i } else { r.next() >> 40 };
                    let key = format!("{n:012}").into_bytes();
                    let seqno = 1 + i * WRITERS + writer;
                    if i % 3 == 0 {
                        batch.push((seqno, key));
                    } else {
                        assert!(table.add(seqno, ValueType::Value, &key, &seqno.to_le_bytes()));
                    }
                    if batch.len() == 13 || i + 1 == EACH {
                        let values: Vec<_> = batch.iter().map(|b| b.0.to_le_bytes()).collect();
                        let entries: Vec<_> = batch
                            .iter()
                            .zip(&values)
                            .map(|((seqno, key), value)| Entry {
                                seqno: *seqno,
                                kind: ValueType::Value,
                                key,
                                value,
                            })
                            .collect();
                        table.add_many(&entries);
                        batch.clear();
                    }
                }
            });
        }
        for _ in 0..2 {
            s.spawn(|| {
                let comparator = Comparator::Bytewise;
                for round in 0..20 {
                    let mut iter = table.iter();
                    let mut previous: Option<Vec<u8>> = None;
                    iter.seek_to_first();
                    while iter.valid() {
                        let key = iter.key().to_vec();
                        assert_eq!(iter.value(), tag_sequence(tag(&key)).to_le_bytes());
                        let ordered =
                            previous.is_none_or(|p| comparator.compare_internal(&p, &key).is_lt());
                        assert!(ordered, "B1: round {round}");
                        assert!(table.find(user_key(&key), u64::MAX >> 8).is_some());
                        previous = Some(key);
                        iter.next();
                    }
                }
            });
        }
    });
    assert_eq!(table.len(), WRITERS * EACH);
    assert_eq!(
        (table.first_seqno(), table.largest_seqno()),
        (1, WRITERS * EACH)
    );
    let mut iter = table.iter();
    let mut seen = vec![false; (WRITERS * EACH) as usize + 1];
    iter.seek_to_last();
    while iter.valid() {
        seen[tag_sequence(tag(iter.key())) as usize] = true;
        iter.prev();
    }
    assert!(seen[1..].iter().all(|&s| s));
}

#[test]
fn of_many_threads_that_add_the_same_pairs_one_wins_each() {
    let table = MemTable::new(Comparator::ReverseBytewise, 64 << 10);
    let wins: u64 = std::thread::scope(|s| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                s.spawn(|| {
                    let add =
                        |i: &u64| table.add(i % 7, ValueType::Value, &(i / 7).to_be_bytes(), &[]);
                    (0..7_000).filter(add).count() as u64
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!((wins, table.len()), (7_000, 7_000));
}
