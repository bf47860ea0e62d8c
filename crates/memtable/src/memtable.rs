//! The memtable: an ordered set of entries, its counters, and the rule that says when it is full.
//!
//! Threads: any number of readers and writers. Whether a reader may see an entry is decided by the
//! sequence number it reads at, not here.

use crate::arena::ArenaUsage;
use crate::bloom::{Bloom, BloomOptions};
use crate::dead_runs::{DeadRunEntry, DeadRunReader, DeadRunWatch, DeadRuns, Found};
use crate::protection::Protection;
use crate::range_dels::RangeDels;
use crate::tree::{EntryRef, MemTableIter, Tree};
use spanlith_base::range_del::FragmentedTombstones;
use spanlith_base::sync::Mutex;
use spanlith_base::{Comparator, Result, SequenceNumber, ValueType};
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Rank of the lock under which redundant range tombstones are added: below that of the list of all.
const CONVERTIBLE_RANK: u8 = 89;

/// Looks at the range tombstones before one more is given up, if there are new ones each time.
const CONVERSION_TRIES: usize = 3;

/// In-memory entries of one column family, newest first for each key, and its range tombstones.
pub struct MemTable {
    tree: Tree,
    arena_block_size: usize,
    bloom: Option<Bloom>,
    /// Made by the first range tombstone, so that memtables without one pay a single load. The cell
    /// publishes it; a reader that may see a tombstone came after its write was published.
    range_dels: OnceLock<Box<RangeDels>>,
    range_dels_max: u64,
    /// Ranges in which readers found nothing.
    dead_runs: DeadRuns,
    /// Number of the state of the family over which readers may add redundant range tombstones; 0 for none.
    /// Held while one is added.
    convertible: Mutex<u64>,
    /// Tables that came below this memtable since its first entry hold entries up to that number; stored under
    /// `convertible`.
    barrier: AtomicU64,
    /// Unix seconds of the first entry; 0 until somebody says.
    first_write: AtomicU64,
    /// Number of the oldest log that prepared entries of it stand in; `u64::MAX` without.
    needed_log: AtomicU64,
    /// A reader wants it flushed. Relaxed: it is a hint for the next write.
    is_marked: AtomicBool,
    /// Neither a filter nor checksums or checks of order.
    is_ordinary: bool,
    /// Lives as long as the memtable.
    companion: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// Describes what a memtable is made of.
#[derive(Clone, Debug)]
pub struct MemTableOptions {
    /// Memory comes in blocks that grow to about this many bytes (2 MiB if this is 1 MiB or more).
    pub arena_block_size: usize,
    /// A filter of keys or prefixes (`memtable_prefix_bloom_size_ratio`).
    pub bloom: Option<BloomOptions>,
    /// How entries are guarded.
    pub protection: Protection,
    /// From this number of range tombstones on the memtable is full; 0 for no limit.
    pub max_range_deletions: u32,
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
        Self::with_options(
            comparator,
            &MemTableOptions {
                arena_block_size,
                bloom: None,
                protection: Protection::default(),
                max_range_deletions: 0,
            },
        )
    }

    /// An empty memtable.
    pub fn with_options(comparator: Comparator, options: &MemTableOptions) -> Self {
        let bloom = options
            .bloom
            .as_ref()
            .and_then(|o| Bloom::new(o, &comparator));
        Self {
            is_ordinary: bloom.is_none() && !options.protection.is_on(),
            bloom,
            tree: Tree::new(comparator, options.arena_block_size, options.protection),
            arena_block_size: options.arena_block_size,
            range_dels: OnceLock::new(),
            range_dels_max: match options.max_range_deletions {
                0 => u64::MAX,
                n => u64::from(n),
            },
            companion: OnceLock::new(),
            is_marked: AtomicBool::new(false),
            dead_runs: DeadRuns::new(),
            convertible: Mutex::new(CONVERTIBLE_RANK, 0),
            barrier: AtomicU64::new(0),
            first_write: AtomicU64::new(0),
            needed_log: AtomicU64::new(u64::MAX),
        }
    }

    /// Notes when the first entry came, unless that is known. `now` is asked only then.
    #[inline]
    pub fn note_first_write(&self, now: impl FnOnce() -> u64) {
        // Two threads may both say it: they came within the same moment. Nothing is published.
        if self.first_write.load(Ordering::Relaxed) == 0 {
            self.first_write.store(now(), Ordering::Relaxed);
        }
    }

    /// Unix seconds of the first entry, 0 if unknown.
    pub fn first_write_seconds(&self) -> u64 {
        self.first_write.load(Ordering::Relaxed)
    }

    /// Notes that entries of it stand in the log of that number, which is older than the one that was current when they
    /// came: those of a transaction that was prepared.
    pub fn need_log(&self, number: u64) {
        // Relaxed: whoever looks holds the lock that whoever notes holds.
        self.needed_log.fetch_min(number, Ordering::Relaxed);
    }

    /// Number of the oldest log of which [`Self::need_log`] was told; the largest number if there is none.
    pub fn needed_log(&self) -> u64 {
        self.needed_log.load(Ordering::Relaxed)
    }

    /// Keeps `companion` until the memtable is dropped. The first one stays.
    pub fn attach(&self, companion: Box<dyn Any + Send + Sync>) {
        // A second one is dropped at once, as documented.
        let _ = self.companion.set(companion);
    }

    /// Adds an entry; false, with nothing changed, if `key` has an entry with that sequence number
    /// already, of whatever kind (M2). Any number of threads may add at once.
    ///
    /// # Panics
    /// If key or value have 4 GiB or more.
    // Always: whether a lone writer pays for the call shall not depend on who else adds.
    #[inline(always)]
    pub fn add(&self, seqno: SequenceNumber, kind: ValueType, key: &[u8], value: &[u8]) -> bool {
        debug_assert!(seqno <= spanlith_base::MAX_SEQUENCE, "B2: {seqno}");
        let added = self.tree_for(key).insert(seqno, kind, key, value);
        if self.dead_runs.is_watched() && !kind.is_point_deletion() {
            self.dead_runs.note(self.comparator(), key);
        }
        added
    }

    /// The tree, for an entry of `key`, which the filter is told of.
    #[inline]
    pub(crate) fn tree_for(&self, key: &[u8]) -> &Tree {
        if let Some(bloom) = &self.bloom {
            bloom.add(key);
        }
        &self.tree
    }

    /// Adds several entries, as [`Self::add`] does one by one but faster. An entry whose key and
    /// sequence number are taken is skipped; returns the sequence number of the first such.
    pub fn add_many(&self, entries: &[Entry<'_>]) -> Option<SequenceNumber> {
        if let Some(bloom) = &self.bloom {
            entries.iter().for_each(|e| bloom.add(e.key));
        }
        let refused = self.tree.insert_many(entries);
        if self.dead_runs.is_watched() {
            let values = entries.iter().filter(|e| !e.kind.is_point_deletion());
            values.for_each(|e| self.dead_runs.note(self.comparator(), e.key));
        }
        refused
    }

    /// Adds a range tombstone: entries of keys from `start` up to, but excluding, `end` with smaller
    /// sequence numbers are deleted. Keys carry timestamps where the family has them. Any number of
    /// threads may add at once.
    #[cold]
    pub fn add_range_tombstone(&self, seqno: SequenceNumber, start: &[u8], end: &[u8]) {
        self.range_dels
            .get_or_init(|| {
                Box::new(RangeDels::new(
                    self.comparator().clone(),
                    self.tree.protection.bytes_per_key,
                ))
            })
            .add(seqno, start, end);
    }

    /// Readers of the state of that number may add redundant range tombstones from now on, others may not; with 0
    /// nobody may.
    pub fn convert_for(&self, view: u64) {
        *self.convertible.lock() = view;
    }

    /// Readers that see less than `seqno` add no redundant range tombstones to this memtable from now on, whatever
    /// [`Self::convert_for`] says later: tables came below it with entries up to that number, which such a reader does
    /// not see.
    pub fn refuse_conversions_below(&self, seqno: SequenceNumber) {
        let convertible = self.convertible.lock();
        // Relaxed: it is loaded under the same lock.
        self.barrier.fetch_max(seqno, Ordering::Relaxed);
        drop(convertible);
    }

    /// Adds a range tombstone that changes no answer: `reader` has seen that no key from `start` up to, but
    /// excluding, `end` is visible to it. Later readers pass over the range at once. False, with nothing added, if
    /// older places may hold what the reader does not see (then it would change answers), if a range tombstone covers
    /// the range already, or if others add range tombstones all the time.
    ///
    /// It has the reader's number, so that it counts as a write of that number to every key of the range where
    /// conflicts are looked for, as in RocksDB: a transaction that has seen less finds one.
    #[cold]
    pub fn add_redundant_range_tombstone(
        &self,
        reader: DeadRunReader,
        start: &[u8],
        end: &[u8],
    ) -> bool {
        for _ in 0..CONVERSION_TRIES {
            // Fragments are made without the lock, for which the installation of states waits.
            let seen = self.range_deletes();
            let covers =
                |list: Arc<FragmentedTombstones>| list.covers_range(start, end, reader.snapshot);
            if self.range_tombstones().is_some_and(covers) {
                return false;
            }
            let convertible = self.convertible.lock();
            // Entries older than the first one here are in other places, and all of them are below that number; files
            // that were taken in since are below the barrier.
            let is_current = reader.view != 0 && *convertible == reader.view;
            let oldest = self.first_seqno().max(self.barrier.load(Ordering::Relaxed));
            let entries = self.len();
            if !is_current || entries == 0 || reader.snapshot < oldest {
                return false;
            }
            if self.range_deletes() == seen {
                self.add_range_tombstone(reader.snapshot, start, end);
                return true;
            }
        }
        false
    }

    /// Says how a reader that stands on a deleted key goes on. Not for comparators of users, nor with timestamps.
    pub fn enter_dead_run(&self, reader: DeadRunReader, key: &[u8]) -> DeadRunEntry {
        debug_assert!(!matches!(self.comparator(), Comparator::User(_)));
        self.dead_runs.enter(self.comparator(), reader, key)
    }

    /// Forgets what readers of other states than the one of that number found, and remembers none of it from now on:
    /// nobody else begins to read those.
    pub fn forget_dead_runs(&self, view: u64) {
        self.dead_runs.forget(view);
    }

    /// Ends a watch: from where it begins `reader` saw nothing but what was `found`.
    pub fn finish_dead_run(&self, reader: DeadRunReader, watch: &DeadRunWatch, found: Found<'_>) {
        let c = self.comparator();
        self.dead_runs.finish(c, reader, watch, found);
    }

    /// Ends a watch under which a reader met an error, or entries newer than what it sees.
    pub fn abandon_dead_run(&self, watch: &DeadRunWatch) {
        self.dead_runs.abandon(watch);
    }

    /// The range tombstones, as fragments; `None` without any. Shared until one more is added.
    #[inline]
    pub fn range_tombstones(&self) -> Option<Arc<FragmentedTombstones>> {
        self.range_dels.get().map(|r| r.list())
    }

    /// Newest entry of `key` with a sequence number of at most `snapshot`.
    #[inline]
    pub fn find(&self, key: &[u8], snapshot: SequenceNumber) -> Option<EntryRef<'_>> {
        if let Some(bloom) = &self.bloom
            && !bloom.may_hold_key(key)
        {
            return None;
        }
        self.tree.find(key, snapshot)
    }

    /// Returns whether [`Self::find_simple`] says all that there is to say of a key: there are no range
    /// tombstones, and no option asks for more.
    #[inline]
    pub fn is_simple(&self) -> bool {
        self.is_ordinary && self.range_dels.get().is_none()
    }

    /// [`Self::find`] in a memtable that [`Self::is_simple`].
    #[inline]
    pub fn find_simple(&self, key: &[u8], snapshot: SequenceNumber) -> Option<EntryRef<'_>> {
        self.tree.find(key, snapshot)
    }

    /// About how many keys are compared by each search, beside those that a user's comparator counts.
    pub fn search_steps(&self) -> u64 {
        self.tree.search_steps()
    }

    /// Returns whether readers must verify what they find: entries by [`EntryRef::verify`], searches by
    /// [`Self::check_search`].
    #[inline]
    pub fn is_guarded(&self) -> bool {
        self.tree.protection.is_on()
    }

    /// Verifies the entries that a search for `key` at `snapshot` ends among, as far as the options
    /// say.
    ///
    /// # Errors
    /// `Corruption`, in RocksDB's words.
    #[cold]
    pub fn check_search(&self, key: &[u8], snapshot: SequenceNumber) -> Result<()> {
        self.check_fragments()?;
        self.tree.check_search(key, snapshot)
    }

    /// Fails if a range tombstone was not what was added when the last [`Self::range_tombstones`] were
    /// made.
    ///
    /// # Errors
    /// `Corruption`, in RocksDB's words.
    pub fn check_fragments(&self) -> Result<()> {
        self.range_dels.get().map_or(Ok(()), |r| r.status())
    }

    /// Verifies all range tombstones, as far as the options say.
    ///
    /// # Errors
    /// `Corruption`, in RocksDB's words.
    pub fn check_range_tombstones(&self) -> Result<()> {
        self.range_dels.get().map_or(Ok(()), |r| r.check())
    }

    /// Returns whether a filter is asked before a key is searched for.
    pub fn has_key_filter(&self) -> bool {
        self.bloom.is_some()
    }

    /// False if the filter says that the key was not added.
    pub fn may_hold_key(&self, key: &[u8]) -> bool {
        self.bloom.as_ref().is_none_or(|b| b.may_hold_key(key))
    }

    /// Finds several keys as [`Self::find`] does one by one, but faster, because the searches wait
    /// for memory together. `found` gets one result per key; the keys need no order.
    ///
    /// # Panics
    /// If `found` is shorter than `keys`.
    pub fn find_many<'a>(
        &'a self,
        keys: &[&[u8]],
        snapshot: SequenceNumber,
        found: &mut [Option<EntryRef<'a>>],
    ) {
        if self.bloom.is_some() {
            for (found, key) in found[..keys.len()].iter_mut().zip(keys) {
                *found = self.find(key, snapshot);
            }
            return;
        }
        self.tree.find_many(keys, snapshot, found);
    }

    /// With timestamps: newest entry of a key, by timestamp and then sequence number, that is at most
    /// as new as the timestamp at the end of `key` and has a sequence number of at most `snapshot`.
    pub fn find_version(&self, key: &[u8], snapshot: SequenceNumber) -> Option<EntryRef<'_>> {
        if let Some(bloom) = &self.bloom
            && !bloom.may_hold_key(key)
        {
            return None;
        }
        self.tree.find_version(key, snapshot)
    }

    /// False if no key with the prefix of `key` was added, as far as a filter of prefixes tells.
    pub fn may_hold_prefix_of(&self, key: &[u8]) -> bool {
        self.bloom
            .as_ref()
            .is_none_or(|b| b.may_hold_prefix_of(key))
    }

    /// An iterator over all entries; not positioned.
    pub fn iter(self: &Arc<Self>) -> MemTableIter {
        MemTableIter::new(self.clone())
    }

    /// Number of entries, without range tombstones.
    pub fn len(&self) -> u64 {
        self.tree.counts().entries
    }

    /// Returns whether nothing was added, no range tombstone either.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.range_deletes() == 0
    }

    /// Number of range tombstones.
    pub fn range_deletes(&self) -> u64 {
        self.range_dels.get().map_or(0, |r| r.len())
    }

    /// Number of range tombstones that begin at `start` or after it, and before `end`.
    pub fn range_deletes_within(&self, start: &[u8], end: &[u8]) -> u64 {
        let dels = self.range_dels.get();
        dels.map_or(0, |r| r.count_within(start, end))
    }

    /// Bytes of the checksum that each entry has.
    pub fn checksum_bytes(&self) -> u8 {
        self.tree.protection.bytes_per_key.min(8)
    }

    /// Number of point tombstones among the entries.
    pub fn deletes(&self) -> u64 {
        self.tree.counts().deletes
    }

    /// Bytes of internal keys and values, those of range tombstones included.
    pub fn data_bytes(&self) -> u64 {
        let of_ranges = self.range_dels.get().map_or(0, |r| r.data_bytes());
        self.tree.counts().data_bytes + of_ranges
    }

    /// All memory held, used or not.
    pub fn memory_usage(&self) -> usize {
        self.tree.memory_usage() + self.memory_beside_the_tree()
    }

    /// Memory that entries take, without what is left of the block in use: what [`Self::should_flush`] comes to.
    pub fn used_bytes(&self) -> usize {
        let arena = self.tree.arena_usage();
        arena.allocated.saturating_sub(arena.unused) + self.memory_beside_the_tree()
    }

    fn memory_beside_the_tree(&self) -> usize {
        self.range_dels.get().map_or(0, |r| r.memory_usage())
            + self.bloom.as_ref().map_or(0, Bloom::memory_usage)
    }

    /// Smallest sequence number added; `u64::MAX` while empty.
    pub fn first_seqno(&self) -> SequenceNumber {
        let of_ranges = self.range_dels.get().map_or(u64::MAX, |r| r.smallest());
        self.tree.counts().smallest.min(of_ranges)
    }

    /// Largest sequence number added; 0 while empty.
    pub fn largest_seqno(&self) -> SequenceNumber {
        let of_ranges = self.range_dels.get().map_or(0, |r| r.largest());
        self.tree.counts().largest.max(of_ranges)
    }

    /// Order of its keys.
    pub fn comparator(&self) -> &Comparator {
        self.tree.comparator()
    }

    /// Returns whether it is time to seal and flush, by RocksDB's rule: memory is allowed to pass
    /// `write_buffer_size` by less than 0.6 blocks, and a last block that is within that limit is
    /// filled to three quarters first. Blocks of 2 MiB that stand for smaller ones count as far as they are used
    /// if there are many. Also with as many range tombstones as are allowed, and if a reader has
    /// marked it.
    #[inline]
    pub fn should_flush(&self, write_buffer_size: usize) -> bool {
        // Below the lowest memory at which the rule can say yes: one look at two counters.
        let most = self.tree.memory_usage() + self.arena_block_size;
        let is_simple = self.range_dels.get().is_none()
            && self.bloom.is_none()
            && !self.is_marked.load(Ordering::Relaxed);
        if is_simple && most < write_buffer_size {
            return false;
        }
        self.is_due(write_buffer_size)
    }

    /// Makes [`Self::should_flush`] say yes from now on, unless it is empty.
    pub fn mark_for_flush(&self) {
        self.is_marked.store(true, Ordering::Relaxed);
    }

    #[inline(never)]
    fn is_due(&self, write_buffer_size: usize) -> bool {
        if self.range_deletes() >= self.range_dels_max {
            return true;
        }
        if self.is_marked.load(Ordering::Relaxed) && !self.is_empty() {
            return true;
        }
        let mut arena = self.tree.arena_usage();
        arena.allocated += self.memory_beside_the_tree();
        is_full(&arena, self.arena_block_size, write_buffer_size) && !self.is_empty()
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }
}

/// A write buffer of so many blocks of 2 MiB is filled to its end: what is not used of the last blocks is little beside it.
const LARGE_BLOCKS: usize = 32;

/// The rule of [`MemTable::should_flush`], in bytes.
fn is_full(arena: &ArenaUsage, block: usize, write_buffer_size: usize) -> bool {
    let limit = write_buffer_size.saturating_add(block / 5 * 3);
    if arena.last_block > block && write_buffer_size / LARGE_BLOCKS >= arena.last_block {
        return arena.allocated.saturating_sub(arena.unused) > limit;
    }
    if arena.allocated.saturating_add(block) < limit {
        return false;
    }
    // The first blocks are smaller than the nominal size.
    arena.allocated > limit || arena.unused < block.min(arena.last_block) / 4
}
