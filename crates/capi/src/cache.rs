//! `rocksdb_cache_t`: block caches, shared by databases and handles.

use crate::ffi::boxed;
use spanlith_cache::Policy;
use spanlith_table::BlockCache;

/// A block cache; a counted reference.
pub struct rocksdb_cache_t(pub(crate) BlockCache);

/// Options of an LRU cache.
pub struct rocksdb_lru_cache_options_t {
    capacity: usize,
    shard_bits: i32,
}

/// Options of a clock cache.
pub struct rocksdb_hyper_clock_cache_options_t {
    capacity: usize,
    /// Only a hint for the size of RocksDB's fixed table; ours grows.
    estimated_entry_charge: usize,
    shard_bits: i32,
}

/// A cache; `None` lets it choose its number of shards.
pub(crate) fn new_cache(
    capacity: usize,
    policy: Policy,
    shard_bits: Option<u32>,
    strict: bool,
) -> BlockCache {
    match shard_bits {
        None if !strict => BlockCache::new(capacity, policy),
        // RocksDB's choice: shards of at least 512 KiB, at most 64.
        None => {
            let bits = (capacity >> 19).max(1).ilog2().min(6);
            BlockCache::with_shards(capacity, policy, bits, strict)
        }
        Some(bits) => BlockCache::with_shards(capacity, policy, bits, strict),
    }
}

fn handle(capacity: usize, policy: Policy, shard_bits: i32, strict: bool) -> *mut rocksdb_cache_t {
    let shard_bits = u32::try_from(shard_bits).ok();
    boxed(rocksdb_cache_t(new_cache(
        capacity, policy, shard_bits, strict,
    )))
}

c_api! {
    /// A cache that evicts what was not used for longest.
    fn rocksdb_cache_create_lru(capacity: usize) -> *mut rocksdb_cache_t {
        handle(capacity, Policy::Lru, -1, false)
    }

    /// As `rocksdb_cache_create_lru`; refuses entries rather than exceed its capacity.
    fn rocksdb_cache_create_lru_with_strict_capacity_limit(
        capacity: usize,
    ) -> *mut rocksdb_cache_t {
        handle(capacity, Policy::Lru, -1, true)
    }

    /// An LRU cache by its options.
    fn rocksdb_cache_create_lru_opts(
        options: *const rocksdb_lru_cache_options_t,
    ) -> *mut rocksdb_cache_t {
        handle((*options).capacity, Policy::Lru, (*options).shard_bits, false)
    }

    /// A cache that evicts what the hand of a clock finds unused.
    fn rocksdb_cache_create_hyper_clock(
        capacity: usize,
        _estimated_entry_charge: usize,
    ) -> *mut rocksdb_cache_t {
        handle(capacity, Policy::Clock, -1, false)
    }

    /// A clock cache by its options.
    fn rocksdb_cache_create_hyper_clock_opts(
        options: *const rocksdb_hyper_clock_cache_options_t,
    ) -> *mut rocksdb_cache_t {
        handle((*options).capacity, Policy::Clock, (*options).shard_bits, false)
    }

    /// RocksDB's defaults: 32 MiB.
    fn rocksdb_lru_cache_options_create() -> *mut rocksdb_lru_cache_options_t {
        boxed(rocksdb_lru_cache_options_t { capacity: 32 << 20, shard_bits: -1 })
    }

    /// Sets the capacity in bytes.
    fn rocksdb_lru_cache_options_set_capacity(
        options: *mut rocksdb_lru_cache_options_t,
        capacity: usize,
    ) {
        (*options).capacity = capacity;
    }

    /// Sets the number of shards, as a power of two; -1 lets the cache choose.
    fn rocksdb_lru_cache_options_set_num_shard_bits(
        options: *mut rocksdb_lru_cache_options_t,
        bits: i32,
    ) {
        (*options).shard_bits = bits;
    }

    /// Options of a clock cache.
    fn rocksdb_hyper_clock_cache_options_create(
        capacity: usize,
        estimated_entry_charge: usize,
    ) -> *mut rocksdb_hyper_clock_cache_options_t {
        boxed(rocksdb_hyper_clock_cache_options_t {
            capacity,
            estimated_entry_charge,
            shard_bits: -1,
        })
    }

    /// Sets the capacity in bytes.
    fn rocksdb_hyper_clock_cache_options_set_capacity(
        options: *mut rocksdb_hyper_clock_cache_options_t,
        capacity: usize,
    ) {
        (*options).capacity = capacity;
    }

    /// Sets the expected size of an entry, a hint.
    fn rocksdb_hyper_clock_cache_options_set_estimated_entry_charge(
        options: *mut rocksdb_hyper_clock_cache_options_t,
        charge: usize,
    ) {
        (*options).estimated_entry_charge = charge;
    }

    /// Sets the number of shards, as a power of two; -1 lets the cache choose.
    fn rocksdb_hyper_clock_cache_options_set_num_shard_bits(
        options: *mut rocksdb_hyper_clock_cache_options_t,
        bits: i32,
    ) {
        (*options).shard_bits = bits;
    }

    /// Leaves the content to the end of the process: databases that use the cache need not free it.
    /// The handle itself must still be destroyed.
    fn rocksdb_cache_disown_data(cache: *mut rocksdb_cache_t) {
        std::mem::forget((*cache).0.clone());
    }

    /// Changes the capacity, evicting at once.
    fn rocksdb_cache_set_capacity(cache: *mut rocksdb_cache_t, capacity: usize) {
        (*cache).0.set_capacity(capacity);
    }

    /// Capacity in bytes.
    fn rocksdb_cache_get_capacity(cache: *const rocksdb_cache_t) -> usize {
        (*cache).0.capacity()
    }

    /// Bytes of entries.
    fn rocksdb_cache_get_usage(cache: *const rocksdb_cache_t) -> usize {
        (*cache).0.usage()
    }

    /// Bytes of entries in use.
    fn rocksdb_cache_get_pinned_usage(cache: *const rocksdb_cache_t) -> usize {
        (*cache).0.pinned_usage()
    }

    /// Number of slots in the tables of all shards, those in use and those that are free.
    fn rocksdb_cache_get_table_address_count(cache: *const rocksdb_cache_t) -> usize {
        (*cache).0.slots()
    }

    /// Number of entries.
    fn rocksdb_cache_get_occupancy_count(cache: *const rocksdb_cache_t) -> usize {
        (*cache).0.len()
    }
}

destroyers! {
    rocksdb_cache_destroy(rocksdb_cache_t);
    rocksdb_lru_cache_options_destroy(rocksdb_lru_cache_options_t);
    rocksdb_hyper_clock_cache_options_destroy(rocksdb_hyper_clock_cache_options_t);
}
