//! `rocksdb_readoptions_t`.
//!
//! The engine's options stand ready; bounds are the caller's pointers until an iterator is made,
//! which copies them. Settings without effect here are kept.

use crate::ffi::{boxed, optional_bytes};
use crate::read_components::Labels;
use crate::snapshot::rocksdb_snapshot_t;
use libc::c_char;
use spanlith::{ReadOptions, ReadPurpose, ReadTier, wrong_purpose};
use spanlith_base::{Error, Result};
use std::borrow::Cow;
use std::ptr;

/// RocksDB's number of an activity that nobody said.
const UNSAID: u8 = 255;

/// Options of reads.
pub struct rocksdb_readoptions_t {
    pub(crate) options: ReadOptions,
    lower: (*const c_char, usize),
    upper: (*const c_char, usize),
    read_tier: i32,
    io_timeout: u64,
    rate_limiter_priority: i32,
    /// RocksDB's number of what the read is for; 255 is unsaid.
    io_activity: u8,
    /// Switches without effect here: hints, and parts of features that do not exist.
    hints: Hints,
    pub(crate) labels: Labels,
}

/// Switches that change no result.
struct Hints {
    async_io: bool,
    optimize_multiget_for_io: bool,
    adaptive_readahead: bool,
    background_purge_on_iterator_cleanup: bool,
    auto_readahead_size: bool,
    allow_unprepared_value: bool,
    auto_refresh_iterator_with_snapshot: bool,
}

impl rocksdb_readoptions_t {
    fn new() -> Self {
        Self {
            options: ReadOptions::new(),
            lower: (ptr::null(), 0),
            upper: (ptr::null(), 0),
            read_tier: 0,
            io_timeout: 0,
            rate_limiter_priority: 4,
            io_activity: UNSAID,
            hints: Hints {
                async_io: false,
                optimize_multiget_for_io: true,
                adaptive_readahead: false,
                background_purge_on_iterator_cleanup: false,
                auto_readahead_size: true,
                allow_unprepared_value: false,
                auto_refresh_iterator_with_snapshot: false,
            },
            labels: Labels::default(),
        }
    }

    /// Returns whether a call is what the options say, for calls that the engine does not know by that name.
    ///
    /// # Errors
    /// `InvalidArgument` with RocksDB's text.
    pub(crate) fn check_activity(&self, call: &str, (number, name): (u8, &str)) -> Result<()> {
        if self.io_activity == UNSAID || self.io_activity == number {
            return Ok(());
        }
        Err(wrong_purpose(call, name))
    }

    /// As [`Self::check_activity`], for calls that have no number.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn check_no_activity(&self, call: &str) -> Result<()> {
        if self.io_activity == UNSAID {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "Cannot call {call} with `ReadOptions::io_activity` != `Env::IOActivity::kUnknown`"
        )))
    }

    /// The engine's options, for a read that may be for anything.
    pub(crate) fn for_anything(&self) -> Cow<'_, ReadOptions> {
        if self.io_activity == UNSAID {
            return Cow::Borrowed(&self.options);
        }
        let mut options = self.options.clone();
        options.purpose = ReadPurpose::Unsaid;
        Cow::Owned(options)
    }

    /// The engine's options for an iterator, with copies of the bounds.
    ///
    /// # Safety
    /// The bounds that were set are still valid.
    pub(crate) unsafe fn for_scan(&self) -> ReadOptions {
        let mut options = self.options.clone();
        // SAFETY: The caller says so.
        unsafe {
            options.lower = optional_bytes(self.lower.0, self.lower.1).map(<[u8]>::to_vec);
            options.upper = optional_bytes(self.upper.0, self.upper.1).map(<[u8]>::to_vec);
        }
        options
    }
}

c_api! {
    /// RocksDB's defaults.
    fn rocksdb_readoptions_create() -> *mut rocksdb_readoptions_t {
        boxed(rocksdb_readoptions_t::new())
    }

    /// Reads at a snapshot; NULL means at the latest state.
    fn rocksdb_readoptions_set_snapshot(
        options: *mut rocksdb_readoptions_t,
        snapshot: *const rocksdb_snapshot_t,
    ) {
        (*options).options.snapshot = snapshot.as_ref().and_then(|s| s.get().cloned());
    }

    /// First key that iterators do not return any more; NULL means none.
    fn rocksdb_readoptions_set_iterate_upper_bound(
        options: *mut rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
    ) {
        (*options).upper = (key, keylen);
    }

    /// First key that iterators return; NULL means none.
    fn rocksdb_readoptions_set_iterate_lower_bound(
        options: *mut rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
    ) {
        (*options).lower = (key, keylen);
    }

    /// Where answers may come from: 0 everywhere, 1 memory only, 2 what survives a crash of the
    /// process, 3 memtables only.
    fn rocksdb_readoptions_set_read_tier(options: *mut rocksdb_readoptions_t, value: i32) {
        let o = &mut *options;
        o.read_tier = value;
        o.options.read_tier = match value {
            1 => ReadTier::Cached,
            2 => ReadTier::Persisted,
            3 => ReadTier::Memtables,
            _ => ReadTier::All,
        };
    }

    /// Where answers may come from.
    fn rocksdb_readoptions_get_read_tier(options: *mut rocksdb_readoptions_t) -> i32 {
        (*options).read_tier
    }

    /// Time, in microseconds since 1970, after which what reads from files fails; 0 is none.
    fn rocksdb_readoptions_set_deadline(options: *mut rocksdb_readoptions_t, microseconds: u64) {
        (*options).options.deadline_micros = microseconds;
    }

    /// Time after which a read fails.
    fn rocksdb_readoptions_get_deadline(options: *mut rocksdb_readoptions_t) -> u64 {
        (*options).options.deadline_micros
    }

    /// Time one file read may take: a wish that ordinary file systems, as RocksDB's, cannot follow.
    fn rocksdb_readoptions_set_io_timeout(options: *mut rocksdb_readoptions_t, microseconds: u64) {
        (*options).io_timeout = microseconds;
    }

    /// Time one file read may take.
    fn rocksdb_readoptions_get_io_timeout(options: *mut rocksdb_readoptions_t) -> u64 {
        (*options).io_timeout
    }

    /// Bytes of values after which a multi-get gives up.
    fn rocksdb_readoptions_set_value_size_soft_limit(
        options: *mut rocksdb_readoptions_t,
        value: u64,
    ) {
        (*options).options.value_size_soft_limit = value;
    }

    /// Bytes of values after which a multi-get gives up.
    fn rocksdb_readoptions_get_value_size_soft_limit(options: *mut rocksdb_readoptions_t) -> u64 {
        (*options).options.value_size_soft_limit
    }

    /// Priority at the rate limiter. A hint: reads do not ask it.
    fn rocksdb_readoptions_set_rate_limiter_priority(
        options: *mut rocksdb_readoptions_t,
        value: i32,
    ) {
        (*options).rate_limiter_priority = value;
    }

    /// Priority at the rate limiter.
    fn rocksdb_readoptions_get_rate_limiter_priority(options: *mut rocksdb_readoptions_t) -> i32 {
        (*options).rate_limiter_priority
    }

    /// Sets what the read is for, RocksDB's number: 3 a get, 4 a multi-get, 5 an iterator, 6 and 7 verifications,
    /// 255 unsaid. A call that is something else is refused.
    fn rocksdb_readoptions_set_io_activity(options: *mut rocksdb_readoptions_t, value: i32) {
        let o = &mut *options;
        // RocksDB keeps it in a byte, too.
        o.io_activity = value as u8;
        o.options.purpose = match o.io_activity {
            3 => ReadPurpose::Get,
            4 => ReadPurpose::MultiGet,
            5 => ReadPurpose::Iterator,
            UNSAID => ReadPurpose::Unsaid,
            _ => ReadPurpose::Other,
        };
    }

    /// Returns what the read is for.
    fn rocksdb_readoptions_get_io_activity(options: *mut rocksdb_readoptions_t) -> i32 {
        (*options).io_activity.into()
    }

    /// Bytes that iterators read ahead; 0 lets them decide.
    fn rocksdb_readoptions_set_readahead_size(options: *mut rocksdb_readoptions_t, value: usize) {
        (*options).options.readahead = value;
    }

    /// Bytes that iterators read ahead.
    fn rocksdb_readoptions_get_readahead_size(options: *mut rocksdb_readoptions_t) -> usize {
        (*options).options.readahead
    }

    /// Hidden entries an iterator steps over in one move before it gives up; 0 is no limit.
    fn rocksdb_readoptions_set_max_skippable_internal_keys(
        options: *mut rocksdb_readoptions_t,
        value: u64,
    ) {
        (*options).options.max_skipped = value;
    }

    /// Hidden entries an iterator steps over in one move before it gives up.
    fn rocksdb_readoptions_get_max_skippable_internal_keys(
        options: *mut rocksdb_readoptions_t,
    ) -> u64 {
        (*options).options.max_skipped
    }
}

macro_rules! switches {
    ($($(#[$meta:meta])* $($field:ident).+: $set:ident, $get:ident;)*) => {
        c_api! {$(
            $(#[$meta])*
            fn $set(options: *mut rocksdb_readoptions_t, value: u8) {
                (*options).$($field).+ = value != 0;
            }

            $(#[$meta])*
            fn $get(options: *mut rocksdb_readoptions_t) -> u8 {
                (*options).$($field).+.into()
            }
        )*}
    };
}

switches! {
    /// Says whether checksums of blocks read from files are verified.
    options.verify_checksums:
        rocksdb_readoptions_set_verify_checksums, rocksdb_readoptions_get_verify_checksums;
    /// Says whether blocks read from files enter the block cache.
    options.fill_cache: rocksdb_readoptions_set_fill_cache, rocksdb_readoptions_get_fill_cache;
    /// Says whether to read as if no range of keys had ever been deleted.
    options.ignore_range_deletions:
        rocksdb_readoptions_set_ignore_range_deletions,
        rocksdb_readoptions_get_ignore_range_deletions;
    /// Says whether to read in the background; a hint.
    hints.async_io: rocksdb_readoptions_set_async_io, rocksdb_readoptions_get_async_io;
    /// Says whether multi-gets read levels at once; a hint.
    hints.optimize_multiget_for_io:
        rocksdb_readoptions_set_optimize_multiget_for_io,
        rocksdb_readoptions_get_optimize_multiget_for_io;
    /// Says whether prefixes are left alone.
    options.total_order:
        rocksdb_readoptions_set_total_order_seek, rocksdb_readoptions_get_total_order_seek;
    /// Says whether to use prefixes where that changes nothing.
    options.auto_prefix:
        rocksdb_readoptions_set_auto_prefix_mode, rocksdb_readoptions_get_auto_prefix_mode;
    /// Says whether iterators end with the prefix they were sent to; means nothing without a prefix
    /// extractor.
    options.prefix_same_as_start:
        rocksdb_readoptions_set_prefix_same_as_start, rocksdb_readoptions_get_prefix_same_as_start;
    /// Says whether iterators see what is written after their creation, and only go forward.
    options.tailing: rocksdb_readoptions_set_tailing, rocksdb_readoptions_get_tailing;
    /// Says whether keys and values stay where they are as long as the iterator lives.
    options.pin_data: rocksdb_readoptions_set_pin_data, rocksdb_readoptions_get_pin_data;
    /// Says whether read-ahead adapts; a hint.
    hints.adaptive_readahead:
        rocksdb_readoptions_set_adaptive_readahead, rocksdb_readoptions_get_adaptive_readahead;
    /// Says whether files are deleted in the background; a hint.
    hints.background_purge_on_iterator_cleanup:
        rocksdb_readoptions_set_background_purge_on_iterator_cleanup,
        rocksdb_readoptions_get_background_purge_on_iterator_cleanup;
    /// Says whether read-ahead stops at the upper bound; a hint.
    hints.auto_readahead_size:
        rocksdb_readoptions_set_auto_readahead_size, rocksdb_readoptions_get_auto_readahead_size;
    /// Says whether values may be prepared later; they are always prepared.
    hints.allow_unprepared_value:
        rocksdb_readoptions_set_allow_unprepared_value,
        rocksdb_readoptions_get_allow_unprepared_value;
    /// Says whether iterators at a snapshot let go of obsolete files; a hint.
    hints.auto_refresh_iterator_with_snapshot:
        rocksdb_readoptions_set_auto_refresh_iterator_with_snapshot,
        rocksdb_readoptions_get_auto_refresh_iterator_with_snapshot;
}

destroyers! {
    rocksdb_readoptions_destroy(rocksdb_readoptions_t);
}
