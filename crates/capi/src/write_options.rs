//! `rocksdb_writeoptions_t`.

use crate::ffi::boxed;
use spanlith::WriteOptions;
use spanlith_env::IoPriority;

/// RocksDB's number of no priority at the rate limiter: it is not asked.
const NO_PRIORITY: i32 = 4;

/// Options of writes.
pub struct rocksdb_writeoptions_t {
    pub(crate) options: WriteOptions,
    /// RocksDB's number of a priority, or any other.
    rate_limiter_priority: i32,
    /// A label that changes nothing, in RocksDB neither.
    io_activity: u8,
    /// A hint: yields to compactions that are behind.
    low_pri: bool,
    /// A hint: remembers where the last key of a batch went.
    memtable_insert_hint_per_batch: bool,
}

c_api! {
    /// RocksDB's defaults: logged, not synced.
    fn rocksdb_writeoptions_create() -> *mut rocksdb_writeoptions_t {
        boxed(rocksdb_writeoptions_t {
            options: WriteOptions::default(),
            rate_limiter_priority: NO_PRIORITY,
            io_activity: u8::MAX,
            low_pri: false,
            memtable_insert_hint_per_batch: false,
        })
    }

    /// Says whether the log is left out.
    fn rocksdb_writeoptions_disable_WAL(options: *mut rocksdb_writeoptions_t, value: i32) {
        (*options).options.disable_wal = value != 0;
    }

    /// Returns whether the log is left out.
    fn rocksdb_writeoptions_get_disable_WAL(options: *mut rocksdb_writeoptions_t) -> u8 {
        (*options).options.disable_wal.into()
    }
}

c_api! {
    /// Bytes of checksum for each update between the call and the memtable: 0 or 8.
    fn rocksdb_writeoptions_set_protection_bytes_per_key(
        options: *mut rocksdb_writeoptions_t,
        value: usize,
    ) {
        (*options).options.protection_bytes_per_key = value;
    }

    /// Bytes of checksum for each update.
    fn rocksdb_writeoptions_get_protection_bytes_per_key(
        options: *mut rocksdb_writeoptions_t,
    ) -> usize {
        (*options).options.protection_bytes_per_key
    }
}

c_api! {
    /// Priority with which the log's bytes are asked of the rate limiter: 3 that of users, 4 none; a write
    /// with any other is refused.
    fn rocksdb_writeoptions_set_rate_limiter_priority(
        options: *mut rocksdb_writeoptions_t,
        value: i32,
    ) {
        let o = &mut *options;
        o.rate_limiter_priority = value;
        o.options.rate_limiter_priority = match value {
            NO_PRIORITY => None,
            3 => Some(IoPriority::User),
            // Refused, whatever it is, as RocksDB does.
            _ => Some(IoPriority::Low),
        };
    }

    /// Priority at the rate limiter.
    fn rocksdb_writeoptions_get_rate_limiter_priority(options: *mut rocksdb_writeoptions_t) -> i32 {
        (*options).rate_limiter_priority
    }

    /// Sets what the write is for, RocksDB's number; a label.
    fn rocksdb_writeoptions_set_io_activity(options: *mut rocksdb_writeoptions_t, value: i32) {
        // RocksDB keeps it in a byte, too.
        (*options).io_activity = value as u8;
    }

    /// Returns what the write is for.
    fn rocksdb_writeoptions_get_io_activity(options: *mut rocksdb_writeoptions_t) -> i32 {
        (*options).io_activity.into()
    }
}

macro_rules! switches {
    ($($(#[$meta:meta])* $($field:ident).+: $set:ident, $get:ident;)*) => {
        c_api! {$(
            $(#[$meta])*
            fn $set(options: *mut rocksdb_writeoptions_t, value: u8) {
                (*options).$($field).+ = value != 0;
            }

            $(#[$meta])*
            fn $get(options: *mut rocksdb_writeoptions_t) -> u8 {
                (*options).$($field).+.into()
            }
        )*}
    };
}

switches! {
    /// Says whether the write survives a power cut when the call returns.
    options.sync: rocksdb_writeoptions_set_sync, rocksdb_writeoptions_get_sync;
    /// Says whether the write fails rather than waits.
    options.no_slowdown: rocksdb_writeoptions_set_no_slowdown, rocksdb_writeoptions_get_no_slowdown;
    /// Says whether updates of families that do not exist are left out.
    options.ignore_missing_column_families:
        rocksdb_writeoptions_set_ignore_missing_column_families,
        rocksdb_writeoptions_get_ignore_missing_column_families;
    /// Says whether the write yields to compactions; a hint.
    low_pri: rocksdb_writeoptions_set_low_pri, rocksdb_writeoptions_get_low_pri;
    /// Says whether keys of a batch are close together; a hint.
    memtable_insert_hint_per_batch:
        rocksdb_writeoptions_set_memtable_insert_hint_per_batch,
        rocksdb_writeoptions_get_memtable_insert_hint_per_batch;
}

destroyers! {
    rocksdb_writeoptions_destroy(rocksdb_writeoptions_t);
}
