//! Entries that one thread adds by the thousand, as the replay of a log does.
//!
//! Their records are written at once, into memory that lies one after the other, and put into the tree
//! in groups: a search waits for memory, and eight of them wait together ([`super::batch`]).

use super::batch::Arriving;
use super::insert::Pending;
use super::record::{Record, RecordRef};
use super::search::Tree;
use crate::memtable::MemTable;
use spanlith_base::keys::tag_sequence;
use spanlith_base::{SequenceNumber, ValueType};
use std::sync::Arc;

/// Records that wait for each other.
const MANY: usize = 32;

/// Adds entries to a memtable. Those that wait are not in it until [`Loader::finish`], or as many others
/// came; what waits when it is dropped is not added.
pub struct Loader {
    mem: Arc<MemTable>,
    waiting: Vec<Written>,
}

/// A record of the loader's memtable that is in no leaf yet.
struct Written {
    record: *mut Record,
    kind: ValueType,
}

// SAFETY: The records are this loader's alone until they are in the tree, and then never change.
unsafe impl Send for Written {}

impl Loader {
    /// Adds to `mem`.
    pub fn new(mem: Arc<MemTable>) -> Self {
        Self {
            mem,
            waiting: Vec::with_capacity(MANY),
        }
    }

    /// The memtable that entries are added to.
    pub fn memtable(&self) -> &Arc<MemTable> {
        &self.mem
    }

    /// The memtable, without what waits.
    pub fn into_memtable(self) -> Arc<MemTable> {
        self.mem
    }

    /// Adds an entry, as [`MemTable::add`], now or with those that follow. Returns a sequence number that
    /// was taken, of this or an entry before it; that entry is not added.
    ///
    /// # Panics
    /// If key or value have 4 GiB or more.
    #[inline]
    pub fn add(
        &mut self,
        seqno: SequenceNumber,
        kind: ValueType,
        key: &[u8],
        value: &[u8],
    ) -> Option<SequenceNumber> {
        let tree = self.mem.tree_for(key);
        let pending = Pending::new(tree.protection, seqno, kind, key, value);
        let record = tree.write(&pending.content);
        record.prefetch_next(RecordRef::size(&pending.content));
        self.waiting.push(Written {
            record: record.raw(),
            kind,
        });
        if self.waiting.len() == MANY {
            return self.finish();
        }
        None
    }

    /// Adds what waits. Returns a sequence number that was taken, if one was.
    pub fn finish(&mut self) -> Option<SequenceNumber> {
        let refused = self.mem.tree().insert_all(&self.waiting);
        self.waiting.clear();
        refused
    }
}

impl Written {
    #[inline]
    fn record(&self) -> RecordRef<'_> {
        // SAFETY: Written by the loader into its memtable's arena, which it keeps alive.
        unsafe { RecordRef::from_raw(self.record).unwrap_unchecked() }
    }
}

impl Arriving for Written {
    #[inline]
    fn seqno(&self) -> SequenceNumber {
        tag_sequence(self.record().tag())
    }

    #[inline]
    fn kind(&self) -> ValueType {
        self.kind
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.record().user_key()
    }

    #[inline]
    fn pending<'s>(&'s self, _tree: &'s Tree) -> Pending<'s, 's> {
        Pending::written(self.record())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::memtable::MemTableOptions;
    use crate::{BloomOptions, Protection};
    use spanlith_base::Comparator;

    fn loader() -> Loader {
        Loader::new(Arc::new(MemTable::new(Comparator::Bytewise, 1 << 20)))
    }

    #[test]
    fn all_that_waits_is_added_once_and_a_number_twice_is_told() {
        let mut loader = loader();
        let large = vec![7; 5000];
        for i in 0..203u64 {
            let value = if i % 50 == 49 { &large[..] } else { b"v" };
            let key = (i * 37 % 203).to_be_bytes();
            assert_eq!(loader.add(i + 1, ValueType::Value, &key, value), None);
        }
        let mem = loader.memtable().clone();
        assert!(mem.len() < 203, "some of them wait");
        assert_eq!(loader.finish(), None);
        assert_eq!(mem.len(), 203);
        assert_eq!(loader.finish(), None);
        assert_eq!(mem.len(), 203, "nothing is added twice");
        for i in 0..203u64 {
            let key = (i * 37 % 203).to_be_bytes();
            let found = mem.find(&key, u64::MAX >> 8).unwrap();
            assert_eq!(
                (tag_sequence(found.tag()), found.value().len()),
                match i % 50 {
                    49 => (i + 1, 5000),
                    _ => (i + 1, 1),
                }
            );
        }
        // One that is there, and one that waits itself.
        let key = (3 * 37u64).to_be_bytes();
        assert_eq!(loader.add(4, ValueType::Value, &key, b"other"), None);
        assert_eq!(loader.finish(), Some(4));
        assert_eq!(loader.add(900, ValueType::Value, b"k", b"1"), None);
        assert_eq!(loader.add(900, ValueType::Deletion, b"k", b""), None);
        assert_eq!(loader.finish(), Some(900));
        assert_eq!(mem.len(), 204);
    }

    #[test]
    fn what_waits_is_protected_and_known_to_the_filter() {
        let mem = MemTable::with_options(
            Comparator::Bytewise,
            &MemTableOptions {
                arena_block_size: 1 << 16,
                bloom: Some(BloomOptions {
                    size_bytes: 4096,
                    whole_keys: true,
                    prefixes: None,
                }),
                protection: Protection {
                    bytes_per_key: 8,
                    ..Protection::default()
                },
                max_range_deletions: 0,
            },
        );
        let mut loader = Loader::new(Arc::new(mem));
        for i in 0..100u64 {
            loader.add(i + 1, ValueType::Value, &(i * 7 % 100).to_be_bytes(), b"v");
        }
        loader.finish();
        let mem = loader.into_memtable();
        for i in 0..100u64 {
            let found = mem.find(&i.to_be_bytes(), u64::MAX >> 8).unwrap();
            found.verify().unwrap();
        }
    }
}
