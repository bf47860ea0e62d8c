//! `rocksdb_memory_allocator_t`: where a cache would take its memory from. There is none to choose, as in a RocksDB that
//! was built without jemalloc: making one reports that, and the handle that comes with it changes nothing.

use crate::cache::{rocksdb_hyper_clock_cache_options_t, rocksdb_lru_cache_options_t};
use crate::ffi::{boxed, report};
use libc::c_char;
use spanlith_base::Error;

/// An allocator that was not to be had.
pub struct rocksdb_memory_allocator_t;

c_api! {
    /// Reports that there is none. The handle has to be destroyed all the same, and stands for the default allocator.
    fn rocksdb_jemalloc_nodump_allocator_create(
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_memory_allocator_t {
        report(errptr, (), || {
            Err(Error::not_supported(
                "JemallocNodumpAllocator only available with jemalloc version >= 5 and MADV_DONTDUMP is available.",
            ))
        });
        boxed(rocksdb_memory_allocator_t)
    }

    /// The default allocator, which every handle stands for.
    fn rocksdb_lru_cache_options_set_memory_allocator(
        _options: *mut rocksdb_lru_cache_options_t,
        _allocator: *mut rocksdb_memory_allocator_t,
    ) {
    }

    /// The default allocator, which every handle stands for.
    fn rocksdb_hyper_clock_cache_options_set_memory_allocator(
        _options: *mut rocksdb_hyper_clock_cache_options_t,
        _allocator: *mut rocksdb_memory_allocator_t,
    ) {
    }
}

destroyers! {
    rocksdb_memory_allocator_destroy(rocksdb_memory_allocator_t);
}
