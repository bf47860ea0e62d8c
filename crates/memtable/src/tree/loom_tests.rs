//! Models, for loom and for shuttle: the interleavings of two threads on nodes of two slots, so that three entries split a
//! leaf and five an inner node. Preemptions are bounded to keep the models within seconds.

use crate::memtable::{Entry, MemTable};
#[cfg(loom)]
use loom::{sync::Arc, thread};
#[cfg(shuttle)]
use shuttle::thread;
use spanlith_base::sync::atomic::{AtomicU64, Ordering};
use spanlith_base::{Comparator, ValueType};
#[cfg(shuttle)]
use std::sync::Arc;

const ANY: u64 = u64::MAX >> 8;

#[cfg(loom)]
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 20_000;
    builder.check(run);
}

#[cfg(shuttle)]
fn model(run: impl Fn() + Sync + Send + 'static) {
    let name = format!(
        "memtable: {}",
        std::thread::current().name().unwrap_or("a model")
    );
    spanlith_base::sync::explore(&name, run);
}

fn add(table: &MemTable, seqno: u64, key: &str) -> bool {
    table.add(seqno, ValueType::Value, key.as_bytes(), key.as_bytes())
}

fn table(keys: &[&str]) -> Arc<MemTable> {
    let table = MemTable::new(Comparator::Bytewise, 1 << 10);
    for (seqno, key) in (1..).zip(keys) {
        assert!(add(&table, seqno, key));
    }
    Arc::new(table)
}

/// All keys in order, read from leaf to leaf.
fn keys(table: &MemTable) -> String {
    let tree = table.tree();
    let mut found = String::new();
    let mut position = tree.first();
    while let Some(p) = position {
        found += std::str::from_utf8(p.record.user_key()).unwrap();
        position = tree.after(&p);
    }
    found
}

fn finds(table: &MemTable, key: &str) -> bool {
    table.find(key.as_bytes(), ANY).is_some_and(|e| {
        assert_eq!((e.user_key(), e.value()), (key.as_bytes(), key.as_bytes()));
        true
    })
}

#[test]
fn two_inserts_that_both_need_a_split_are_both_there_loom() {
    model(|| {
        let table = table(&["b", "d"]);
        let other = table.clone();
        let t = thread::spawn(move || assert!(add(&other, 8, "a")));
        assert!(add(&table, 9, "c"));
        t.join().unwrap();
        assert_eq!(keys(&table), "abcd");
        assert_eq!(
            (table.len(), table.first_seqno(), table.largest_seqno()),
            (4, 1, 9)
        );
    });
}

#[test]
fn an_append_beside_an_insert_loses_nothing_loom() {
    model(|| {
        let table = table(&["a", "b", "c"]);
        let other = table.clone();
        let t = thread::spawn(move || assert!(add(&other, 8, "d")));
        assert!(add(&table, 9, "ca"));
        t.join().unwrap();
        assert_eq!(keys(&table), "abccad");
    });
}

#[test]
fn of_two_equal_inserts_one_succeeds_loom() {
    model(|| {
        let table = table(&["a", "z"]);
        let other = table.clone();
        let t = thread::spawn(move || other.add(7, ValueType::Deletion, b"k", b""));
        let here = add(&table, 7, "k");
        let there = t.join().unwrap();
        assert!(here != there, "M2: {here} {there}");
        assert_eq!(keys(&table), "akz");
    });
}

#[test]
fn a_reader_beside_a_split_finds_what_was_there_loom() {
    model(|| {
        let table = table(&["b", "d"]);
        let other = table.clone();
        let t = thread::spawn(move || assert!(add(&other, 8, "c")));
        finds(&table, "c");
        assert!(finds(&table, "d"));
        let last = table.tree().last().unwrap();
        assert_eq!(last.record.user_key(), b"d");
        assert!(table.tree().before(&last).is_some());
        t.join().unwrap();
        assert!(finds(&table, "c"));
    });
}

#[test]
fn an_older_version_beside_a_split_is_found_loom() {
    model(|| {
        let table = table(&["d", "d"]);
        let other = table.clone();
        let t = thread::spawn(move || assert!(add(&other, 8, "c")));
        let newest = table.find(b"d", ANY).unwrap();
        // Without it loom lets this thread go on to the end, in every schedule.
        thread::yield_now();
        let older = newest.next_older().map(|e| e.tag() >> 8);
        assert_eq!((newest.tag() >> 8, older), (2, Some(1)));
        t.join().unwrap();
    });
}

#[test]
fn a_reader_beside_a_split_of_an_inner_node_finds_what_was_there_loom() {
    model(|| {
        // Leaves of one, one, one and two records under a root with two separators and a full leaf.
        let table = table(&["a", "c", "e", "g", "i", "k"]);
        let other = table.clone();
        let t = thread::spawn(move || assert!(add(&other, 8, "d")));
        for key in ["c", "k"] {
            assert!(finds(&table, key));
        }
        assert!(!finds(&table, "f"));
        t.join().unwrap();
        assert_eq!(keys(&table), "acdegik");
    });
}

#[test]
fn a_scan_beside_inserts_sees_every_old_entry_in_order_loom() {
    model(|| {
        let table = table(&["b", "d", "f"]);
        let other = table.clone();
        let t = thread::spawn(move || {
            let entry = |seqno, key| Entry {
                seqno,
                kind: ValueType::Value,
                key,
                value: key,
            };
            other.add_many(&[entry(8, b"c"), entry(9, b"e")]);
        });
        let seen = keys(&table);
        let old: String = seen.chars().filter(|c| "bdf".contains(*c)).collect();
        assert_eq!(old, "bdf");
        assert!(seen.as_bytes().is_sorted(), "B1: {seen}");
        t.join().unwrap();
        assert_eq!(keys(&table), "bcdef");
    });
}

/// The engine publishes a write by storing its sequence number with Release after the insert; a
/// reader loads it with Acquire and reads at it (W3, R1). Two entries of one batch are seen both or
/// neither.
#[test]
fn what_is_published_is_found_and_a_batch_is_seen_as_a_whole_loom() {
    model(|| {
        let table = table(&["b"]);
        let visible = Arc::new(AtomicU64::new(1));
        let (other, published) = (table.clone(), visible.clone());
        let t = thread::spawn(move || {
            assert!(add(&other, 2, "a"));
            assert!(add(&other, 3, "c"));
            published.store(3, Ordering::Release);
        });
        let at = visible.load(Ordering::Acquire);
        let seen = |key: &str| table.find(key.as_bytes(), at).is_some();
        assert_eq!((seen("a"), seen("b"), seen("c")), (at == 3, true, at == 3));
        t.join().unwrap();
    });
}

/// Too many schedules for loom: three writers, one with a batch of its own, and a reader that walks
/// backward and forward while leaves and inner nodes split.
#[cfg(shuttle)]
#[test]
fn three_writers_and_a_reader_agree() {
    model(|| {
        let table = table(&["d", "h", "m"]);
        let entry = |seqno, key| Entry {
            seqno,
            kind: ValueType::Value,
            key,
            value: key,
        };
        let visible = Arc::new(AtomicU64::new(3));
        let batches: [&[(u64, &[u8])]; 3] = [
            &[(10, b"a"), (11, b"e"), (12, b"z")],
            &[(20, b"b"), (21, b"i")],
            &[(30, b"n"), (31, b"c")],
        ];
        let writers: Vec<_> = batches
            .into_iter()
            .map(|batch| {
                let table = table.clone();
                thread::spawn(move || {
                    let all: Vec<Entry<'_>> = batch.iter().map(|(n, k)| entry(*n, *k)).collect();
                    table.add_many(&all);
                })
            })
            .collect();
        let (reading, at) = (table.clone(), visible.clone());
        let reader = thread::spawn(move || {
            let seen = keys(&reading);
            assert!(
                seen.as_bytes().windows(2).all(|w| w[0] < w[1]),
                "B1: {seen}"
            );
            assert_eq!(
                seen.chars().filter(|c| "dhm".contains(*c)).count(),
                3,
                "{seen}"
            );
            let mut back = String::new();
            let tree = reading.tree();
            let mut position = tree.last();
            while let Some(p) = position {
                back += std::str::from_utf8(p.record.user_key()).unwrap();
                position = tree.before(&p);
            }
            assert!(
                back.as_bytes().windows(2).all(|w| w[0] > w[1]),
                "B1: {back}"
            );
            assert!(
                seen.chars().all(|c| back.contains(c)),
                "M1: {seen} then {back}"
            );
            assert!(reading.find(b"d", at.load(Ordering::Acquire)).is_some());
        });
        for writer in writers {
            writer.join().unwrap();
        }
        reader.join().unwrap();
        visible.store(31, Ordering::Release);
        assert_eq!(keys(&table), "abcdehimnz");
    });
}
