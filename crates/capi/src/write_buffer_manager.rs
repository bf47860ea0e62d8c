//! `rocksdb_write_buffer_manager_t`: one budget for the memtables of several databases.

use crate::cache::rocksdb_cache_t;
use crate::ffi::boxed;
use crate::options::rocksdb_options_t;
use libc::c_int;
use spanlith_base::WriteBufferManager;
use spanlith_base::write_buffer_manager::{CHARGE_BYTES, CacheEntry, ChargeCache, FlushPolicy};
use spanlith_cache::{CacheKey, Priority};
use spanlith_table::{Block, BlockCache, CacheRole};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A budget; a counted reference.
pub struct rocksdb_write_buffer_manager_t(Arc<WriteBufferManager>);

/// An entry without contents that stands for memtables; leaves the cache when it is dropped.
struct Charged {
    cache: BlockCache,
    key: CacheKey,
    /// Keeps the entry from being evicted.
    _pin: Arc<Block>,
}

impl Drop for Charged {
    fn drop(&mut self) {
        self.cache.erase(&self.key);
    }
}

/// Charges memtables to a cache.
fn charge_to(cache: &BlockCache) -> ChargeCache {
    let (cache, file) = (cache.clone(), cache.new_id());
    let next = AtomicU64::new(0);
    Box::new(move || {
        let block = next.fetch_add(1, Ordering::Relaxed);
        let (key, pin) = (
            CacheKey { file, block },
            Arc::new(Block::empty(CacheRole::WriteBuffer)),
        );
        let charge = CHARGE_BYTES as usize;
        cache
            .insert(key, pin.clone(), charge, Priority::High)
            .ok()?;
        let cache = cache.clone();
        Some(Box::new(Charged {
            cache,
            key,
            _pin: pin,
        }) as CacheEntry)
    })
}

/// A budget with that policy; NULL for a policy that there is not.
fn with_policy(manager: WriteBufferManager, policy: c_int) -> *mut rocksdb_write_buffer_manager_t {
    let Some(policy) = FlushPolicy::from_number(policy) else {
        return ptr::null_mut();
    };
    manager.set_policy(policy);
    boxed(rocksdb_write_buffer_manager_t(Arc::new(manager)))
}

c_api! {
    /// A budget in bytes, 0 for none, with what is flushed when it is used up: the oldest memtable (0), the largest of
    /// the database (1), or the largest of all databases that share it (2). NULL for another number.
    fn rocksdb_write_buffer_manager_create_with_policy(
        buffer_size: usize,
        allow_stall: bool,
        flush_policy: c_int,
    ) -> *mut rocksdb_write_buffer_manager_t {
        let manager = WriteBufferManager::new(buffer_size as u64, None, allow_stall);
        with_policy(manager, flush_policy)
    }

    /// As `rocksdb_write_buffer_manager_create_with_policy`, counting as used space of a cache.
    fn rocksdb_write_buffer_manager_create_with_cache_and_policy(
        buffer_size: usize,
        cache: *const rocksdb_cache_t,
        allow_stall: bool,
        flush_policy: c_int,
    ) -> *mut rocksdb_write_buffer_manager_t {
        let charge = cache.as_ref().map(|c| charge_to(&c.0));
        let manager = WriteBufferManager::new(buffer_size as u64, charge, allow_stall);
        with_policy(manager, flush_policy)
    }

    /// Number of the policy.
    fn rocksdb_write_buffer_manager_flush_policy(
        wbm: *mut rocksdb_write_buffer_manager_t,
    ) -> c_int {
        (*wbm).0.policy().number()
    }

    /// Changes the policy; another number than 0, 1 or 2 changes nothing.
    fn rocksdb_write_buffer_manager_set_flush_policy(
        wbm: *mut rocksdb_write_buffer_manager_t,
        flush_policy: c_int,
    ) {
        if let Some(policy) = FlushPolicy::from_number(flush_policy) {
            (*wbm).0.set_policy(policy);
        }
    }

    /// A budget in bytes, 0 for none. With `allow_stall` writers wait while it is exceeded.
    fn rocksdb_write_buffer_manager_create(
        buffer_size: usize,
        allow_stall: bool,
    ) -> *mut rocksdb_write_buffer_manager_t {
        let manager = WriteBufferManager::new(buffer_size as u64, None, allow_stall);
        boxed(rocksdb_write_buffer_manager_t(Arc::new(manager)))
    }

    /// A budget that also counts as used space of a cache.
    fn rocksdb_write_buffer_manager_create_with_cache(
        buffer_size: usize,
        cache: *const rocksdb_cache_t,
        allow_stall: bool,
    ) -> *mut rocksdb_write_buffer_manager_t {
        let charge = cache.as_ref().map(|c| charge_to(&c.0));
        let manager = WriteBufferManager::new(buffer_size as u64, charge, allow_stall);
        boxed(rocksdb_write_buffer_manager_t(Arc::new(manager)))
    }

    /// Returns whether there is a limit.
    fn rocksdb_write_buffer_manager_enabled(wbm: *mut rocksdb_write_buffer_manager_t) -> bool {
        (*wbm).0.is_enabled()
    }

    /// Returns whether it counts in a cache.
    fn rocksdb_write_buffer_manager_cost_to_cache(
        wbm: *mut rocksdb_write_buffer_manager_t,
    ) -> bool {
        (*wbm).0.is_charged()
    }

    /// Bytes of all memtables.
    fn rocksdb_write_buffer_manager_memory_usage(
        wbm: *mut rocksdb_write_buffer_manager_t,
    ) -> usize {
        (*wbm).0.used() as usize
    }

    /// Bytes of memtables that still take writes.
    fn rocksdb_write_buffer_manager_mutable_memtable_memory_usage(
        wbm: *mut rocksdb_write_buffer_manager_t,
    ) -> usize {
        (*wbm).0.mutable() as usize
    }

    /// Bytes that it holds in the cache.
    fn rocksdb_write_buffer_manager_dummy_entries_in_cache_usage(
        wbm: *mut rocksdb_write_buffer_manager_t,
    ) -> usize {
        (*wbm).0.charged() as usize
    }

    /// The budget in bytes.
    fn rocksdb_write_buffer_manager_buffer_size(
        wbm: *mut rocksdb_write_buffer_manager_t,
    ) -> usize {
        (*wbm).0.limit() as usize
    }

    /// Changes the budget.
    fn rocksdb_write_buffer_manager_set_buffer_size(
        wbm: *mut rocksdb_write_buffer_manager_t,
        new_size: usize,
    ) {
        (*wbm).0.set_limit(new_size as u64);
    }

    /// Changes whether writers wait while it is exceeded.
    fn rocksdb_write_buffer_manager_set_allow_stall(
        wbm: *mut rocksdb_write_buffer_manager_t,
        new_allow_stall: bool,
    ) {
        (*wbm).0.set_allow_stall(new_allow_stall);
    }

    /// Shares a budget; NULL is ignored.
    fn rocksdb_options_set_write_buffer_manager(
        options: *mut rocksdb_options_t,
        wbm: *mut rocksdb_write_buffer_manager_t,
    ) {
        if let Some(wbm) = wbm.as_ref() {
            (*options).parts.write_buffers = Some(wbm.0.clone());
        }
    }
}

destroyers! {
    rocksdb_write_buffer_manager_destroy(rocksdb_write_buffer_manager_t);
}
