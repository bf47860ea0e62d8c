//! The memtable: an ordered set of entries, its counters, and the rule that says when it is full.
//!
//! Threads: any number of readers and writers. Whether a reader may see an entry is decided by the
//! sequence number it reads at, not here.

use crate::arena::ArenaUsage;
use crate::tree::{EntryRef, MemTableIter, Tree};
use spanlith_base::{Comparator, SequenceNumber, ValueType};
use std::sync::Arc;

/// In-memory entries of one column family, newest first for each key.
pub struct MemTable {
    tree: Tree,
    arena_block_size: usize,
}

/// An entry to be added.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Position in the history; at most [`spanlith_base::MAX_SEQUENCE`].
    pub seqno: SequenceNumber,
    /// Kind of update.
    pub kind: ValueType,
    /// User key.
    pub key: &'a [u8],
    /// Value; empty for tombstones.
    pub value: &'a [u8],
}

impl MemTable {
    /// An empty memtable. Memory comes in blocks that grow to about `arena_block_size` bytes (2 MiB
    /// if that is 1 MiB or more).
    pub fn new(comparator: Comparator, arena_block_size: usize) -> Self {
        Self {
            tree: Tree::new(comparator, arena_block_size),
            arena_block_size,
        }
    }

    /// Adds an entry; false, with nothing changed, if `key` has an entry with that sequence number
    /// already, of whatever kind (M2). Any number of threads may add at once.
    ///
    /// # Panics
    /// If key or value have 4 GiB or more.
    #[inline]
    pub fn add(&self, seqno: SequenceNumber, kind: ValueType, key: &[u8], value: &[u8]) -> bool {
        self.tree.insert(seqno, kind, key, value)
    }

    /// Adds several entries, as [`Self::add`] does one by one but faster. An entry whose key and
    /// sequence number are taken is skipped.
    pub fn add_many(&self, entries: &[Entry<'_>]) {
        self.tree.insert_many(entries);
    }

    /// Newest entry of `key` with a sequence number of at most `snapshot`.
    #[inline]
    pub fn find(&self, key: &[u8], snapshot: SequenceNumber) -> Option<EntryRef<'_>> {
        self.tree.find(key, snapshot)
    }

    /// An iterator over all entries; not positioned.
    pub fn iter(self: &Arc<Self>) -> MemTableIter {
        MemTableIter::new(self.clone())
    }

    /// Number of entries.
    pub fn len(&self) -> u64 {
        self.tree.counts().entries
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of point tombstones among the entries.
    pub fn deletes(&self) -> u64 {
        self.tree.counts().deletes
    }

    /// Bytes of internal keys and values.
    pub fn data_bytes(&self) -> u64 {
        self.tree.counts().data_bytes
    }

    /// All memory held, used or not.
    pub fn memory_usage(&self) -> usize {
        self.tree.memory_usage()
    }

    /// Smallest sequence number added; `u64::MAX` while empty.
    pub fn first_seqno(&self) -> SequenceNumber {
        self.tree.counts().smallest
    }

    /// Largest sequence number added; 0 while empty.
    pub fn largest_seqno(&self) -> SequenceNumber {
        self.tree.counts().largest
    }

    /// Order of its keys.
    pub fn comparator(&self) -> &Comparator {
        self.tree.comparator()
    }

    /// Whether it is time to seal and flush, by RocksDB's rule: memory is allowed to pass
    /// `write_buffer_size` by less than 0.6 blocks, and a last block that is within that limit is
    /// filled to three quarters first.
    pub fn should_flush(&self, write_buffer_size: usize) -> bool {
        let arena = self.tree.arena_usage();
        is_full(&arena, self.arena_block_size, write_buffer_size) && !self.is_empty()
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }
}

/// The rule of [`MemTable::should_flush`], in bytes.
fn is_full(arena: &ArenaUsage, block: usize, write_buffer_size: usize) -> bool {
    let limit = write_buffer_size.saturating_add(block / 5 * 3);
    if arena.allocated.saturating_add(block) < limit {
        return false;
    }
    // The first blocks are smaller than the nominal size.
    arena.allocated > limit || arena.unused < block.min(arena.last_block) / 4
}
