//! How much memory databases and caches use.

use crate::cache::rocksdb_cache_t;
use crate::db::rocksdb_t;
use crate::ffi::{boxed, report};
use libc::c_char;
use spanlith::Db;
use spanlith_base::Result;
use spanlith_table::BlockCache;
use std::ptr;

/// Whom to ask.
#[derive(Default)]
pub struct rocksdb_memory_consumers_t {
    dbs: Vec<Db>,
    caches: Vec<BlockCache>,
}

/// Describes what they said.
#[derive(Default)]
pub struct rocksdb_memory_usage_t {
    memtables: u64,
    unflushed: u64,
    readers: u64,
    caches: u64,
}

fn measure(consumers: &rocksdb_memory_consumers_t) -> Result<rocksdb_memory_usage_t> {
    let mut usage = rocksdb_memory_usage_t::default();
    for db in &consumers.dbs {
        let sum = |name| {
            db.cfs()
                .iter()
                .filter_map(|cf| cf.int_property(name))
                .sum::<u64>()
        };
        usage.memtables += sum("rocksdb.size-all-mem-tables");
        usage.unflushed += sum("rocksdb.cur-size-all-mem-tables");
        usage.readers += sum("rocksdb.estimate-table-readers-mem");
    }
    usage.caches = consumers.caches.iter().map(|c| c.usage() as u64).sum();
    Ok(usage)
}

c_api! {
    /// Nobody yet.
    fn rocksdb_memory_consumers_create() -> *mut rocksdb_memory_consumers_t {
        boxed(rocksdb_memory_consumers_t::default())
    }

    /// Asks a database, too.
    fn rocksdb_memory_consumers_add_db(
        consumers: *mut rocksdb_memory_consumers_t,
        db: *mut rocksdb_t,
    ) {
        (*consumers).dbs.push((*db).cf.db().clone());
    }

    /// Asks a cache, too. A cache that is added twice counts once.
    fn rocksdb_memory_consumers_add_cache(
        consumers: *mut rocksdb_memory_consumers_t,
        cache: *mut rocksdb_cache_t,
    ) {
        let (caches, cache) = (&mut (*consumers).caches, &(*cache).0);
        if !caches.iter().any(|c| c.is_same(cache)) {
            caches.push(cache.clone());
        }
    }

    /// Asks.
    fn rocksdb_approximate_memory_usage_create(
        consumers: *mut rocksdb_memory_consumers_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_memory_usage_t {
        report(errptr, ptr::null_mut(), || measure(&*consumers).map(boxed))
    }

    /// Bytes of all memtables, those that iterators still hold included.
    fn rocksdb_approximate_memory_usage_get_mem_table_total(
        usage: *mut rocksdb_memory_usage_t,
    ) -> u64 {
        (*usage).memtables
    }

    /// Bytes of memtables that are in no table yet.
    fn rocksdb_approximate_memory_usage_get_mem_table_unflushed(
        usage: *mut rocksdb_memory_usage_t,
    ) -> u64 {
        (*usage).unflushed
    }

    /// Bytes of indexes and filters outside caches.
    fn rocksdb_approximate_memory_usage_get_mem_table_readers_total(
        usage: *mut rocksdb_memory_usage_t,
    ) -> u64 {
        (*usage).readers
    }

    /// Bytes in caches.
    fn rocksdb_approximate_memory_usage_get_cache_total(
        usage: *mut rocksdb_memory_usage_t,
    ) -> u64 {
        (*usage).caches
    }
}

destroyers! {
    rocksdb_memory_consumers_destroy(rocksdb_memory_consumers_t);
    rocksdb_approximate_memory_usage_destroy(rocksdb_memory_usage_t);
}
