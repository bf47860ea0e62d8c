//! Options of flushes, log flushes, manual compactions and waiting for compactions.

use crate::ffi::boxed;

/// Options of a flush.
pub struct rocksdb_flushoptions_t {
    pub(crate) wait: bool,
    /// A hint: RocksDB waits for a calm moment without it.
    allow_write_stall: bool,
    /// With one column family every flush is atomic.
    force_atomic_flush: bool,
    /// There are no listeners to wait for.
    listener_wait: bool,
}

/// Options of a log flush.
pub struct rocksdb_flushwaloptions_t {
    pub(crate) sync: bool,
    /// There is no rate limiter.
    rate_limiter_priority: i32,
}

/// Options of a manual compaction; only hints so far.
pub struct rocksdb_compactoptions_t {
    exclusive_manual_compaction: bool,
    allow_write_stall: bool,
    max_subcompactions: i32,
}

/// Options of waiting for compactions.
#[derive(Default)]
pub struct rocksdb_wait_for_compact_options_t {
    /// Background work cannot be paused.
    abort_on_pause: bool,
    pub(crate) flush: bool,
    pub(crate) close_db: bool,
    /// Microseconds; 0 is no limit.
    pub(crate) timeout: u64,
    /// Obsolete files are deleted by the job that made them so.
    wait_for_purge: bool,
}

c_api! {
    /// RocksDB's defaults: waits.
    fn rocksdb_flushoptions_create() -> *mut rocksdb_flushoptions_t {
        boxed(rocksdb_flushoptions_t {
            wait: true,
            allow_write_stall: false,
            force_atomic_flush: false,
            listener_wait: false,
        })
    }

    /// RocksDB's defaults: no sync.
    fn rocksdb_flushwaloptions_create() -> *mut rocksdb_flushwaloptions_t {
        boxed(rocksdb_flushwaloptions_t { sync: false, rate_limiter_priority: 4 })
    }

    /// RocksDB's defaults.
    fn rocksdb_compactoptions_create() -> *mut rocksdb_compactoptions_t {
        boxed(rocksdb_compactoptions_t {
            exclusive_manual_compaction: false,
            allow_write_stall: false,
            max_subcompactions: 0,
        })
    }

    /// RocksDB's defaults: no flush, no limit.
    fn rocksdb_wait_for_compact_options_create() -> *mut rocksdb_wait_for_compact_options_t {
        boxed(rocksdb_wait_for_compact_options_t::default())
    }

    /// Parts a compaction may be split into; a hint.
    fn rocksdb_compactoptions_set_max_subcompactions(
        options: *mut rocksdb_compactoptions_t,
        value: i32,
    ) {
        (*options).max_subcompactions = value;
    }

    /// Parts a compaction may be split into.
    fn rocksdb_compactoptions_get_max_subcompactions(
        options: *mut rocksdb_compactoptions_t,
    ) -> i32 {
        (*options).max_subcompactions
    }

    /// Priority at the rate limiter; there is none.
    fn rocksdb_flushwaloptions_set_rate_limiter_priority(
        options: *mut rocksdb_flushwaloptions_t,
        value: i32,
    ) {
        (*options).rate_limiter_priority = value;
    }

    /// Priority at the rate limiter.
    fn rocksdb_flushwaloptions_get_rate_limiter_priority(
        options: *mut rocksdb_flushwaloptions_t,
    ) -> i32 {
        (*options).rate_limiter_priority
    }

    /// Microseconds to wait at most; 0 is no limit.
    fn rocksdb_wait_for_compact_options_set_timeout(
        options: *mut rocksdb_wait_for_compact_options_t,
        microseconds: u64,
    ) {
        (*options).timeout = microseconds;
    }

    /// Microseconds to wait at most.
    fn rocksdb_wait_for_compact_options_get_timeout(
        options: *mut rocksdb_wait_for_compact_options_t,
    ) -> u64 {
        (*options).timeout
    }
}

macro_rules! switches {
    ($($handle:ident.$field:ident: $set:ident, $get:ident;)*) => {
        c_api! {$(
            #[doc = concat!("Sets `", stringify!($field), "`.")]
            fn $set(options: *mut $handle, value: u8) {
                (*options).$field = value != 0;
            }

            #[doc = concat!("Value of `", stringify!($field), "`.")]
            fn $get(options: *mut $handle) -> u8 {
                (*options).$field.into()
            }
        )*}
    };
}

switches! {
    rocksdb_flushoptions_t.wait: rocksdb_flushoptions_set_wait, rocksdb_flushoptions_get_wait;
    rocksdb_flushoptions_t.allow_write_stall:
        rocksdb_flushoptions_set_allow_write_stall, rocksdb_flushoptions_get_allow_write_stall;
    rocksdb_flushoptions_t.force_atomic_flush:
        rocksdb_flushoptions_set_force_atomic_flush, rocksdb_flushoptions_get_force_atomic_flush;
    rocksdb_flushoptions_t.listener_wait:
        rocksdb_flushoptions_set_listener_wait, rocksdb_flushoptions_get_listener_wait;
    rocksdb_flushwaloptions_t.sync:
        rocksdb_flushwaloptions_set_sync, rocksdb_flushwaloptions_get_sync;
    rocksdb_compactoptions_t.exclusive_manual_compaction:
        rocksdb_compactoptions_set_exclusive_manual_compaction,
        rocksdb_compactoptions_get_exclusive_manual_compaction;
    rocksdb_compactoptions_t.allow_write_stall:
        rocksdb_compactoptions_set_allow_write_stall, rocksdb_compactoptions_get_allow_write_stall;
    rocksdb_wait_for_compact_options_t.abort_on_pause:
        rocksdb_wait_for_compact_options_set_abort_on_pause,
        rocksdb_wait_for_compact_options_get_abort_on_pause;
    rocksdb_wait_for_compact_options_t.flush:
        rocksdb_wait_for_compact_options_set_flush, rocksdb_wait_for_compact_options_get_flush;
    rocksdb_wait_for_compact_options_t.close_db:
        rocksdb_wait_for_compact_options_set_close_db,
        rocksdb_wait_for_compact_options_get_close_db;
    rocksdb_wait_for_compact_options_t.wait_for_purge:
        rocksdb_wait_for_compact_options_set_wait_for_purge,
        rocksdb_wait_for_compact_options_get_wait_for_purge;
}

destroyers! {
    rocksdb_flushoptions_destroy(rocksdb_flushoptions_t);
    rocksdb_flushwaloptions_destroy(rocksdb_flushwaloptions_t);
    rocksdb_compactoptions_destroy(rocksdb_compactoptions_t);
    rocksdb_wait_for_compact_options_destroy(rocksdb_wait_for_compact_options_t);
}
