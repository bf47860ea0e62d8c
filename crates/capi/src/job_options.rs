//! Options of flushes, log flushes, manual compactions and waiting for compactions.

use crate::ffi::{boxed, optional_bytes};
use libc::c_char;
use spanlith::{
    BlobGcChoice, BlobGcPolicy, BottommostCompaction, CompactRangeOptions, FlushOptions,
};
use spanlith_base::{Error, Result};

/// Options of a flush.
pub struct rocksdb_flushoptions_t {
    pub(crate) options: FlushOptions,
    /// Refused where it would matter: with several families.
    pub(crate) force_atomic_flush: bool,
    /// A flush waits for listeners in any case.
    listener_wait: bool,
}

/// Options of a log flush.
pub struct rocksdb_flushwaloptions_t {
    pub(crate) sync: bool,
    /// A hint: writes of the log do not ask the rate limiter.
    rate_limiter_priority: i32,
}

/// Options of a manual compaction.
pub struct rocksdb_compactoptions_t {
    pub(crate) options: CompactRangeOptions,
    /// As it was set; numbers beyond RocksDB's are refused.
    bottommost: u8,
    target_level: i32,
    /// As it was set; numbers beyond RocksDB's are refused.
    blob_policy: i32,
    blob_age_cutoff: f64,
}

/// RocksDB's numbers for whether the deepest level is rewritten.
fn bottommost_of(number: u8) -> Option<BottommostCompaction> {
    Some(match number {
        0 => BottommostCompaction::Skip,
        1 => BottommostCompaction::IfHaveCompactionFilter,
        2 => BottommostCompaction::Force,
        3 => BottommostCompaction::ForceOptimized,
        _ => return None,
    })
}

/// The policy that follows the family's options.
const USE_DEFAULT: i32 = 2;

impl rocksdb_compactoptions_t {
    /// The engine's options, if all of them are understood.
    pub(crate) fn checked(&self) -> Result<CompactRangeOptions> {
        let mut options = self.options.clone();
        options.bottommost = bottommost_of(self.bottommost).ok_or_else(|| {
            Error::invalid_argument("bottommost_level_compaction has no such value")
        })?;
        options.target_level = usize::try_from(self.target_level).ok();
        options.blob_gc = BlobGcChoice {
            policy: match self.blob_policy {
                0 => BlobGcPolicy::Force,
                1 => BlobGcPolicy::Disable,
                USE_DEFAULT => BlobGcPolicy::UseDefault,
                _ => {
                    let text = "blob_garbage_collection_policy has no such value";
                    return Err(Error::invalid_argument(text));
                }
            },
            age_cutoff: Some(self.blob_age_cutoff),
        };
        Ok(options)
    }
}

/// Options of waiting for compactions.
#[derive(Default)]
pub struct rocksdb_wait_for_compact_options_t {
    /// Fails while background work is paused.
    pub(crate) abort_on_pause: bool,
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
            options: FlushOptions::default(),
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
            options: CompactRangeOptions { exclusive: false, ..CompactRangeOptions::default() },
            bottommost: 1,
            target_level: -1,
            blob_policy: USE_DEFAULT,
            blob_age_cutoff: -1.0,
        })
    }

    /// RocksDB's defaults: no flush, no limit.
    fn rocksdb_wait_for_compact_options_create() -> *mut rocksdb_wait_for_compact_options_t {
        boxed(rocksdb_wait_for_compact_options_t::default())
    }

    /// Parts a compaction may be split into; 0 means as the database says.
    fn rocksdb_compactoptions_set_max_subcompactions(
        options: *mut rocksdb_compactoptions_t,
        value: i32,
    ) {
        (*options).options.max_subcompactions = value as u32;
    }

    /// Parts a compaction may be split into.
    fn rocksdb_compactoptions_get_max_subcompactions(
        options: *mut rocksdb_compactoptions_t,
    ) -> i32 {
        (*options).options.max_subcompactions as i32
    }

    /// Says whether the deepest level is rewritten: 0 no, 1 if there is a compaction filter, 2 yes, 3 yes
    /// but not what the compaction itself made.
    fn rocksdb_compactoptions_set_bottommost_level_compaction(
        options: *mut rocksdb_compactoptions_t,
        value: u8,
    ) {
        (*options).bottommost = value;
    }

    /// Returns whether the deepest level is rewritten.
    fn rocksdb_compactoptions_get_bottommost_level_compaction(
        options: *mut rocksdb_compactoptions_t,
    ) -> u8 {
        (*options).bottommost
    }

    /// Level the tables are listed in afterwards; -1 for the highest one they fit into.
    fn rocksdb_compactoptions_set_target_level(options: *mut rocksdb_compactoptions_t, n: i32) {
        (*options).target_level = n;
    }

    /// Level the tables are listed in afterwards.
    fn rocksdb_compactoptions_get_target_level(options: *mut rocksdb_compactoptions_t) -> i32 {
        (*options).target_level
    }

    /// Index of the directory for the new tables.
    fn rocksdb_compactoptions_set_target_path_id(options: *mut rocksdb_compactoptions_t, n: i32) {
        (*options).options.target_path_id = n as u32;
    }

    /// Index of the directory for the new tables.
    fn rocksdb_compactoptions_get_target_path_id(options: *mut rocksdb_compactoptions_t) -> i32 {
        (*options).options.target_path_id as i32
    }

    /// Timestamps below this are given up; copied.
    fn rocksdb_compactoptions_set_full_history_ts_low(
        options: *mut rocksdb_compactoptions_t,
        ts: *mut c_char,
        tslen: usize,
    ) {
        (*options).options.full_history_ts_low =
            optional_bytes(ts, tslen).map(<[u8]>::to_vec);
    }

    /// Says whether values move out of old blob files: 0 yes, 1 no, 2 as the family says. Other numbers are
    /// refused by the compaction.
    fn rocksdb_compactoptions_set_blob_garbage_collection_policy(
        options: *mut rocksdb_compactoptions_t,
        value: i32,
    ) {
        (*options).blob_policy = value;
    }

    /// Returns whether values move out of old blob files.
    fn rocksdb_compactoptions_get_blob_garbage_collection_policy(
        options: *mut rocksdb_compactoptions_t,
    ) -> i32 {
        (*options).blob_policy
    }

    /// Part of the blob files that count as old where the policy asks for that.
    fn rocksdb_compactoptions_set_blob_garbage_collection_age_cutoff(
        options: *mut rocksdb_compactoptions_t,
        value: f64,
    ) {
        (*options).blob_age_cutoff = value;
    }

    /// Part of the blob files that count as old.
    fn rocksdb_compactoptions_get_blob_garbage_collection_age_cutoff(
        options: *mut rocksdb_compactoptions_t,
    ) -> f64 {
        (*options).blob_age_cutoff
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
    ($($handle:ident.$($field:ident).+: $set:ident, $get:ident;)*) => {
        c_api! {$(
            #[doc = concat!("Sets `", stringify!($($field).+), "`.")]
            fn $set(options: *mut $handle, value: u8) {
                (*options).$($field).+ = value != 0;
            }

            #[doc = concat!("Value of `", stringify!($($field).+), "`.")]
            fn $get(options: *mut $handle) -> u8 {
                (*options).$($field).+.into()
            }
        )*}
    };
}

switches! {
    rocksdb_flushoptions_t.options.wait: rocksdb_flushoptions_set_wait, rocksdb_flushoptions_get_wait;
    rocksdb_flushoptions_t.options.allow_write_stall:
        rocksdb_flushoptions_set_allow_write_stall, rocksdb_flushoptions_get_allow_write_stall;
    rocksdb_flushoptions_t.force_atomic_flush:
        rocksdb_flushoptions_set_force_atomic_flush, rocksdb_flushoptions_get_force_atomic_flush;
    rocksdb_flushoptions_t.listener_wait:
        rocksdb_flushoptions_set_listener_wait, rocksdb_flushoptions_get_listener_wait;
    rocksdb_flushwaloptions_t.sync:
        rocksdb_flushwaloptions_set_sync, rocksdb_flushwaloptions_get_sync;
    rocksdb_compactoptions_t.options.exclusive:
        rocksdb_compactoptions_set_exclusive_manual_compaction,
        rocksdb_compactoptions_get_exclusive_manual_compaction;
    rocksdb_compactoptions_t.options.allow_write_stall:
        rocksdb_compactoptions_set_allow_write_stall, rocksdb_compactoptions_get_allow_write_stall;
    rocksdb_compactoptions_t.options.change_level:
        rocksdb_compactoptions_set_change_level, rocksdb_compactoptions_get_change_level;
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
