//! Models, for loom and for shuttle: a reader learns or uses a run while a value is added within it. A reader that sees the
//! value must not be sent past it.
//!
//! Loom takes `SeqCst` accesses for `AcqRel` ones, and orders `SeqCst` fences. The argument in the header of [`super`]
//! needs the one order of all of them, so that [`DeadRuns::is_watched`] has a fence in models, between the exchange of the
//! leaf's version and the load of the flag.

use super::*;
use crate::memtable::MemTable;
#[cfg(loom)]
use loom::{sync::Arc, thread};
#[cfg(shuttle)]
use shuttle::thread;
use spanlith_base::ValueType;
use spanlith_base::sync::atomic::AtomicU64;
#[cfg(shuttle)]
use std::sync::Arc;

/// Number of the value that is added, and the largest before.
const ADDED: u64 = 9;
const BEFORE: u64 = 5;

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
        "dead runs: {}",
        std::thread::current().name().unwrap_or("a model")
    );
    spanlith_base::sync::explore(&name, run);
}

struct Shared {
    table: MemTable,
    /// Largest number that readers see.
    published: AtomicU64,
}

impl Shared {
    /// Keys "b" and "d" are deleted, "f" has a value.
    fn new() -> Arc<Self> {
        let table = MemTable::new(Comparator::Bytewise, 1 << 10);
        assert!(table.add(1, ValueType::Deletion, b"b", b""));
        assert!(table.add(2, ValueType::Deletion, b"d", b""));
        assert!(table.add(3, ValueType::Value, b"f", b""));
        Arc::new(Self {
            table,
            published: AtomicU64::new(BEFORE),
        })
    }

    /// Adds a value and lets readers see it.
    fn put(&self, key: &[u8]) {
        assert!(self.table.add(ADDED, ValueType::Value, key, b""));
        self.published.store(ADDED, Ordering::Release);
    }

    fn reader(&self) -> DeadRunReader {
        DeadRunReader {
            view: 7,
            snapshot: self.published.load(Ordering::Acquire),
        }
    }

    /// Looks at each of `keys`, and ends the watch as an iterator does that found nothing in front of `to`.
    fn look(&self, reader: DeadRunReader, watch: &DeadRunWatch, keys: &[&str], to: &str) {
        for key in keys {
            let newest = self.table.find(key.as_bytes(), u64::MAX >> 8);
            if newest.is_some_and(|e| e.tag() >> 8 > BEFORE) {
                // It is newer than what the reader sees, or where the iterator ends.
                return self.table.abandon_dead_run(watch);
            }
        }
        let found = Found {
            to: Some(to.as_bytes()),
            skipped: DEAD_RUN_KEYS_MIN.into(),
        };
        self.table.finish_dead_run(reader, watch, found);
    }

    /// Where a reader that stands on `key` is sent, if it is.
    fn sent(&self, reader: DeadRunReader, key: &[u8]) -> Option<Vec<u8>> {
        match self.table.enter_dead_run(reader, key) {
            DeadRunEntry::Jump(to, watch) => {
                watch.iter().for_each(|w| self.table.abandon_dead_run(w));
                Some(to)
            }
            DeadRunEntry::Watch(watch) => {
                self.table.abandon_dead_run(&watch);
                None
            }
            other => panic!("watches are left over, or the end was found: {other:?}"),
        }
    }

    /// Fails if a reader that sees `value`, which comes after "b", is sent past it.
    fn shows(&self, reader: DeadRunReader, value: &[u8]) {
        if let Some(to) = self.sent(reader, b"b") {
            let is_seen = reader.snapshot >= ADDED;
            assert!(!is_seen || &to[..] <= value, "sent to {to:?}");
        }
    }

    /// Has a reader learn that there is nothing from "b" to `to`.
    fn learn(&self, to: &str) {
        let reader = self.reader();
        let DeadRunEntry::Watch(watch) = self.table.enter_dead_run(reader, b"b") else {
            panic!("nothing is known");
        };
        self.look(reader, &watch, &["b"], to);
    }
}

#[test]
fn a_value_added_while_a_run_is_learned_ends_it_loom() {
    model(|| {
        let shared = Shared::new();
        let other = shared.clone();
        let writer = thread::spawn(move || other.put(b"c"));
        let reader = DeadRunReader {
            view: 7,
            snapshot: BEFORE,
        };
        match shared.table.enter_dead_run(reader, b"b") {
            DeadRunEntry::Watch(watch) => shared.look(reader, &watch, &["b", "c", "d"], "f"),
            entry => panic!("nothing is known: {entry:?}"),
        }
        writer.join().unwrap();
        shared.shows(shared.reader(), b"c");
    });
}

#[test]
fn a_value_added_within_a_run_is_not_jumped_over_loom() {
    model(|| {
        let shared = Shared::new();
        shared.learn("f");
        let other = shared.clone();
        let writer = thread::spawn(move || other.put(b"c"));
        shared.shows(shared.reader(), b"c");
        writer.join().unwrap();
        shared.shows(shared.reader(), b"c");
    });
}

#[test]
fn a_run_does_not_grow_past_a_value_added_behind_it_loom() {
    model(|| {
        let shared = Shared::new();
        shared.learn("d");
        let other = shared.clone();
        let writer = thread::spawn(move || other.put(b"e"));
        let reader = shared.reader();
        match shared.table.enter_dead_run(reader, b"b") {
            DeadRunEntry::Jump(to, Some(watch)) => {
                assert_eq!(to, b"d");
                shared.look(reader, &watch, &["d", "e"], "f");
            }
            entry => panic!("the run is known: {entry:?}"),
        }
        writer.join().unwrap();
        shared.shows(shared.reader(), b"e");
    });
}
