//! `rocksdb_perfcontext_t`: what reads and writes of the calling thread did.

use crate::ffi::{boxed, malloc_copy};
use crate::generation;
use libc::c_char;
use spanlith_base::perf::{self, PerfCounter};

/// The counters of the thread that uses it; all such handles of a thread show the same.
pub struct rocksdb_perfcontext_t(());

c_api! {
    /// How much the calling thread counts from now on.
    fn rocksdb_set_perf_level(level: i32) {
        perf::set_level(generation::perf_level(level));
    }

    /// A view of the calling thread's counters, which counts from now on unless its level was set before.
    fn rocksdb_perfcontext_create() -> *mut rocksdb_perfcontext_t {
        perf::count_unless_told();
        boxed(rocksdb_perfcontext_t(()))
    }

    /// Sets all counters of the calling thread to zero.
    fn rocksdb_perfcontext_reset(_context: *mut rocksdb_perfcontext_t) {
        perf::reset();
    }

    /// All counters as text, from `malloc`.
    fn rocksdb_perfcontext_report(
        _context: *mut rocksdb_perfcontext_t,
        exclude_zero_counters: u8,
    ) -> *mut c_char {
        malloc_copy(perf::report(exclude_zero_counters != 0).as_bytes())
    }

    /// A counter by its number in the header; 0 for unknown ones.
    fn rocksdb_perfcontext_metric(_context: *mut rocksdb_perfcontext_t, metric: i32) -> u64 {
        PerfCounter::from_c_number(metric).map_or(0, perf::value)
    }
}

destroyers! {
    rocksdb_perfcontext_destroy(rocksdb_perfcontext_t);
}
