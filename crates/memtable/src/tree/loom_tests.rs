//! Models: every interleaving of few threads on a list of at most two levels.

use crate::memtable::MemTable;
use loom::sync::Arc;
use spanlith_base::{Comparator, ValueType::Value};

fn keys(list: &MemTable) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut node = list.list().first();
    while let Some(n) = node {
        found.push(n.user_key().to_vec());
        node = n.following();
    }
    found
}

fn table() -> Arc<MemTable> {
    Arc::new(MemTable::new(Comparator::Bytewise, 1 << 10))
}

/// Two inserts at the same place: both end up in the list, in order.
#[test]
fn two_inserts_between_the_same_neighbours_loom() {
    loom::model(|| {
        let table = table();
        let other = table.clone();
        let t = loom::thread::spawn(move || assert!(other.add(1, Value, b"b", b"")));
        assert!(table.add(2, Value, b"a", b""));
        t.join().unwrap();
        assert_eq!(keys(&table), [b"a", b"b"]);
        assert_eq!(table.len(), 2);
    });
}

/// Two inserts of the same key and sequence number: exactly one succeeds (M2).
#[test]
fn of_two_equal_inserts_one_succeeds_loom() {
    loom::model(|| {
        let table = table();
        let other = table.clone();
        let t = loom::thread::spawn(move || other.add(7, Value, b"k", b"1"));
        let here = table.add(7, spanlith_base::ValueType::Deletion, b"k", b"");
        let there = t.join().unwrap();
        assert!(here != there, "M2: {here} {there}");
        assert_eq!(keys(&table).len(), 1);
    });
}

/// A reader beside an insert finds the old entry and reads whole nodes only.
#[test]
fn a_reader_sees_whole_entries_loom() {
    loom::model(|| {
        let table = table();
        table.add(1, Value, b"b", b"old");
        let other = table.clone();
        let t = loom::thread::spawn(move || other.add(2, Value, b"a", b"new"));
        if let Some(entry) = table.find(b"a", 9) {
            assert_eq!(entry.value(), b"new");
        }
        assert_eq!(table.find(b"b", 9).unwrap().value(), b"old");
        t.join().unwrap();
        assert!(table.find(b"a", 9).is_some());
    });
}
