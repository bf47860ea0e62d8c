//! `rocksdb_writeoptions_t`.

use crate::ffi::boxed;
use spanlith::WriteOptions;

/// Options of writes.
#[derive(Default)]
pub struct rocksdb_writeoptions_t {
    pub(crate) options: WriteOptions,
    /// A hint: yields to compactions that are behind.
    low_pri: bool,
    /// A hint: remembers where the last key of a batch went.
    memtable_insert_hint_per_batch: bool,
}

c_api! {
    /// RocksDB's defaults: logged, not synced.
    fn rocksdb_writeoptions_create() -> *mut rocksdb_writeoptions_t {
        boxed(rocksdb_writeoptions_t::default())
    }

    /// Whether the log is left out.
    fn rocksdb_writeoptions_disable_WAL(options: *mut rocksdb_writeoptions_t, value: i32) {
        (*options).options.disable_wal = value != 0;
    }

    /// Whether the log is left out.
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
    /// Whether the write survives a power cut when the call returns.
    options.sync: rocksdb_writeoptions_set_sync, rocksdb_writeoptions_get_sync;
    /// Whether the write fails rather than waits.
    options.no_slowdown: rocksdb_writeoptions_set_no_slowdown, rocksdb_writeoptions_get_no_slowdown;
    /// Whether updates of families that do not exist are left out.
    options.ignore_missing_column_families:
        rocksdb_writeoptions_set_ignore_missing_column_families,
        rocksdb_writeoptions_get_ignore_missing_column_families;
    /// Whether the write yields to compactions; a hint.
    low_pri: rocksdb_writeoptions_set_low_pri, rocksdb_writeoptions_get_low_pri;
    /// Whether keys of a batch are close together; a hint.
    memtable_insert_hint_per_batch:
        rocksdb_writeoptions_set_memtable_insert_hint_per_batch,
        rocksdb_writeoptions_get_memtable_insert_hint_per_batch;
}

destroyers! {
    rocksdb_writeoptions_destroy(rocksdb_writeoptions_t);
}
