//! The cache: a handle on shards that are chosen by hash.
//!
//! A lookup that hits takes the shard's lock, reads one slot, and counts one reference. Values are
//! dropped after the lock is released, because their destructors may be long.
//!
//! Threads: any number. Shard locks have rank 90; nothing is called under them.

use crate::shard::{Gone, Shard};
use spanlith_base::Result;
use spanlith_base::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Describes what is cached: a file, by the id that [`Cache::new_id`] gave it, and a position inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey {
    /// Id of the file.
    pub file: u64,
    /// Position in the file.
    pub block: u64,
}

/// Describes what leaves first when the cache is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The least recently used; half the capacity is kept for entries of high priority and those
    /// used twice. A hit reorders a list.
    Lru,
    /// Says what was not used since the hand last passed. A hit sets a mark.
    #[default]
    Clock,
}

/// How long an entry stays without being used, relative to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Longest: index and filter blocks.
    High,
    /// Data blocks.
    #[default]
    Low,
    /// Shortest.
    Bottom,
}

/// A smallest shard has about this many bytes, unless asked otherwise.
const SHARD_BYTES_MIN: usize = 512 << 10;
const SHARD_BITS_MAX: u32 = 6;
const SHARD_BITS_LIMIT: u32 = 19;
/// Architecture, section 9: a leaf.
const RANK: u8 = 90;

struct Inner<V> {
    shards: Box<[Mutex<Shard<V>>]>,
    /// Right shift that leaves the shard's number of a hash.
    shift: u32,
    capacity: AtomicUsize,
    next_id: AtomicU64,
}

/// A memory cache of shared values with a limit on the sum of their charges.
///
/// A clone is another handle on the same cache. An entry whose `Arc` is held by anyone else is
/// *pinned*: it is not evicted and stays in the usage. Pins are noticed when the shard is used next,
/// so usage falls back to the capacity with the first operation after they go. `Weak` references to
/// values must not be upgraded while they are cached.
pub struct Cache<V: Send + Sync + 'static> {
    inner: Arc<Inner<V>>,
}

impl<V: Send + Sync + 'static> Clone for Cache<V> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<V: Send + Sync + 'static> std::fmt::Debug for Cache<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache")
            .field("capacity", &self.capacity())
            .field("shards", &self.inner.shards.len())
            .finish()
    }
}

/// Hash of a key: upper bits choose the shard, lower ones the slot.
#[inline]
fn hash(key: &CacheKey) -> u64 {
    let a = u128::from(key.file ^ 0x9e37_79b9_7f4a_7c15);
    let b = u128::from(key.block ^ 0xd6e8_feb8_6659_fd93);
    let product = a * b;
    let folded = (product as u64) ^ ((product >> 64) as u64);
    folded.wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(32)
}

impl<V: Send + Sync + 'static> Cache<V> {
    /// A cache of `capacity` bytes with a number of shards that suits it: one per 512 KiB, at most
    /// 64.
    pub fn new(capacity: usize, policy: Policy) -> Self {
        let shards = (capacity / SHARD_BYTES_MIN).max(1);
        Self::with_shards(capacity, policy, shards.ilog2().min(SHARD_BITS_MAX), false)
    }

    /// A cache with `1 << shard_bits` shards (at most 2^19). If `strict`, an insert that finds its
    /// shard full of pinned entries fails; otherwise the cache grows past its capacity.
    pub fn with_shards(capacity: usize, policy: Policy, shard_bits: u32, strict: bool) -> Self {
        let bits = shard_bits.min(SHARD_BITS_LIMIT);
        let each = capacity.div_ceil(1 << bits);
        let shards = (0..1 << bits)
            .map(|_| Mutex::new(RANK, Shard::new(each, policy, strict)))
            .collect();
        let inner = Inner {
            shards,
            shift: 64 - bits,
            capacity: AtomicUsize::new(capacity),
            next_id: AtomicU64::new(1),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Returns whether both are handles on one cache.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// A number that all handles on this cache share, and no other cache that lives at the same time.
    pub fn identity(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }

    /// The shard of a key, and the part of its hash that the shard uses.
    #[inline]
    fn shard(&self, key: &CacheKey) -> (&Mutex<Shard<V>>, u32) {
        let hash = hash(key);
        // A shift by 64 would be undefined; with one shard there is nothing to choose.
        let number = hash.checked_shr(self.inner.shift).unwrap_or(0);
        (&self.inner.shards[number as usize], hash as u32)
    }

    /// The value of `key`, if cached.
    #[inline]
    pub fn lookup(&self, key: &CacheKey) -> Option<Arc<V>> {
        let (shard, hash) = self.shard(key);
        let mut shard = shard.lock();
        let value = shard.lookup(hash, key);
        if shard.is_over() {
            let mut gone = Gone::new();
            shard.trim(&mut gone);
            drop(shard);
        }
        value
    }

    /// Adds `value`, or replaces the value of `key`. Evicts what is needed; if pinned entries leave
    /// too little room, a value that the caller still holds is added nevertheless, and one that it
    /// does not hold is dropped as if evicted at once.
    ///
    /// # Errors
    /// `Aborted` with `MemoryLimit`, only if the cache is strict and entries in use leave no room
    /// for `charge`. An older value of `key` is gone then, too.
    pub fn insert(
        &self,
        key: CacheKey,
        value: Arc<V>,
        charge: usize,
        priority: Priority,
    ) -> Result<()> {
        let first_read = Arc::as_ptr(&value).cast();
        self.insert_read_at(key, value, charge, priority, first_read)
    }

    /// [`Self::insert`] of a value whose readers go to `first_read` first, memory that the value owns
    /// elsewhere: lookups ask for the line there while they still fetch the value itself. Never read.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_read_at(
        &self,
        key: CacheKey,
        value: Arc<V>,
        charge: usize,
        priority: Priority,
        first_read: *const u8,
    ) -> Result<()> {
        let (shard, hash) = self.shard(&key);
        let mut gone = Gone::new();
        // The guard is a temporary of this statement, so `gone` is dropped after it.
        let result = shard.lock().insert(
            (hash, key),
            value,
            (charge, priority),
            first_read,
            &mut gone,
        );
        drop(gone);
        result
    }

    /// Adds a value that nobody holds where it costs nobody else anything: in room that is free, or that other values have
    /// which came in this way and were not used since. Without such room, or if the key has a value, it is dropped.
    pub fn insert_spare(&self, key: CacheKey, value: Arc<V>, charge: usize) {
        let (shard, hash) = self.shard(&key);
        let mut gone = Gone::new();
        // The guard is a temporary of this statement, so `gone` is dropped after it.
        (shard.lock()).insert_spare((hash, key), value, charge, &mut gone);
        drop(gone);
    }

    /// Removes the entry of `key`, if any. Holders of the value keep it.
    pub fn erase(&self, key: &CacheKey) {
        let (shard, hash) = self.shard(key);
        let mut gone = Gone::new();
        shard.lock().erase(hash, key, &mut gone);
    }

    /// A number that this cache never gave out: an id for a file's keys.
    pub fn new_id(&self) -> u64 {
        self.inner.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn sum(&self, of: impl Fn(&Shard<V>) -> usize) -> usize {
        self.inner.shards.iter().map(|s| of(&s.lock())).sum()
    }

    /// Sum of charges, pinned entries included. Visits every shard.
    pub fn usage(&self) -> usize {
        self.sum(Shard::usage)
    }

    /// Sum of charges of pinned entries. Visits every entry.
    pub fn pinned_usage(&self) -> usize {
        self.sum(Shard::pinned_usage)
    }

    /// Number and charges of the entries of each class, by the number that `class` gives to a value;
    /// entries of other numbers are left out. Visits every entry; `class` is called under a lock and must
    /// only look.
    pub fn tally<const N: usize>(&self, class: impl Fn(&V) -> usize) -> [(usize, usize); N] {
        let mut sums = [(0, 0); N];
        for shard in &self.inner.shards {
            shard.lock().for_each(|_, value, charge| {
                if let Some((count, bytes)) = sums.get_mut(class(value)) {
                    *count += 1;
                    *bytes += charge;
                }
            });
        }
        sums
    }

    /// Shows every entry's key, value and charge, shard by shard. `see` is called under a lock and must only look.
    pub fn visit(&self, mut see: impl FnMut(&CacheKey, &V, usize)) {
        for shard in &self.inner.shards {
            shard.lock().for_each(&mut see);
        }
    }

    /// Number of entries. Visits every shard.
    pub fn len(&self) -> usize {
        self.sum(Shard::len)
    }

    /// Places in the tables of all shards, free ones included. Visits every shard.
    pub fn slots(&self) -> usize {
        self.sum(Shard::slots)
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most bytes that entries not pinned may be charged for.
    pub fn capacity(&self) -> usize {
        self.inner.capacity.load(Ordering::Relaxed)
    }

    /// How it chooses what goes.
    pub fn policy(&self) -> Policy {
        self.inner.shards[0].lock().policy()
    }

    /// It has two to the power of so many shards.
    pub fn shard_bits(&self) -> u32 {
        64 - self.inner.shift
    }

    /// Returns whether an insert fails that finds its shard full of pinned entries.
    pub fn is_strict(&self) -> bool {
        self.inner.shards[0].lock().is_strict()
    }

    /// Changes the capacity and evicts what does not fit any more. The number of shards stays.
    pub fn set_capacity(&self, capacity: usize) {
        self.inner.capacity.store(capacity, Ordering::Relaxed);
        let each = capacity.div_ceil(self.inner.shards.len());
        for shard in &self.inner.shards {
            let mut gone = Gone::new();
            shard.lock().set_capacity(each, &mut gone);
        }
    }

    /// Removes all entries that are not pinned.
    pub fn clear_unpinned(&self) {
        for shard in &self.inner.shards {
            let mut gone = Gone::new();
            shard.lock().clear_unpinned(&mut gone);
        }
    }

    /// Lookups that found their entry. Visits every shard.
    pub fn hits(&self) -> u64 {
        self.inner.shards.iter().map(|s| s.lock().hits).sum()
    }

    /// Lookups that did not. Visits every shard.
    pub fn misses(&self) -> u64 {
        self.inner.shards.iter().map(|s| s.lock().misses).sum()
    }
}
