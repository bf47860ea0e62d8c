//! `rocksdb_start_trace` and its kin: traces of an open database, of what callers ask, of lookups in the block cache, and of
//! calls of the file system.

use crate::db::rocksdb_t;
use crate::env::rocksdb_env_t;
use crate::ffi::{boxed, path, report};
use crate::sst_file_writer::rocksdb_envoptions_t;
use libc::c_char;
use spanlith::trace::{BlockTraceOptions, TraceOptions};
use spanlith_env::Env;

/// Describes what is traced, and how much of it.
#[derive(Default)]
pub struct rocksdb_trace_options_t(TraceOptions);

/// Says of how many blocks a trace of lookups records one: `sampling_frequency`.
#[derive(Default)]
pub struct rocksdb_block_cache_trace_options_t(BlockTraceOptions);

/// Says how large a trace of lookups may become: `max_trace_file_size`.
#[derive(Default)]
pub struct rocksdb_block_cache_trace_writer_options_t(BlockTraceOptions);

/// The environment of the caller; NULL is that of the database.
///
/// # Safety
/// Both are handles, or the first is NULL.
pub(crate) unsafe fn env_of(env: *const rocksdb_env_t, db: *const rocksdb_t) -> Env {
    // SAFETY: The caller says so.
    match unsafe { env.as_ref() } {
        Some(env) => env.env.clone(),
        // SAFETY: The caller says so.
        None => unsafe { &*db }.cf.db().env().clone(),
    }
}

/// The options; NULL are the defaults.
///
/// # Safety
/// It is a handle or NULL.
unsafe fn options_of(options: *const rocksdb_trace_options_t) -> TraceOptions {
    // SAFETY: The caller says so.
    unsafe { options.as_ref() }.map_or_else(TraceOptions::default, |o| o.0)
}

/// Begins a trace of lookups.
///
/// # Safety
/// The handles are valid, that of the environment or NULL; the path ends with NUL.
unsafe fn start_lookups(
    db: *mut rocksdb_t,
    env: *const rocksdb_env_t,
    trace_path: *const c_char,
    options: &BlockTraceOptions,
) -> spanlith::Result<()> {
    // SAFETY: The caller says so.
    unsafe {
        (*db)
            .cf
            .db()
            .start_block_cache_trace_in(&env_of(env, db), &path(trace_path), options)
    }
}

c_api! {
    /// Options of traces: everything, up to 64 GiB.
    fn rocksdb_trace_options_create() -> *mut rocksdb_trace_options_t {
        boxed(rocksdb_trace_options_t::default())
    }

    /// Begins to record what callers ask in a file of that environment; NULL options are the defaults. A trace that
    /// is being written ends.
    fn rocksdb_start_trace(
        db: *mut rocksdb_t,
        env: *mut rocksdb_env_t,
        _env_options: *const rocksdb_envoptions_t,
        options: *const rocksdb_trace_options_t,
        trace_path: *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let options = options_of(options);
            (*db).cf.db().start_trace_in(&env_of(env, db), &path(trace_path), &options)
        });
    }

    /// Ends the trace.
    fn rocksdb_end_trace(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, (), || (*db).cf.db().end_trace().map(drop));
    }

    /// Options of traces of lookups: all blocks.
    fn rocksdb_block_cache_trace_options_create() -> *mut rocksdb_block_cache_trace_options_t {
        boxed(rocksdb_block_cache_trace_options_t::default())
    }

    /// Options of the files of such traces: up to 64 GiB.
    fn rocksdb_block_cache_trace_writer_options_create()
        -> *mut rocksdb_block_cache_trace_writer_options_t
    {
        boxed(rocksdb_block_cache_trace_writer_options_t::default())
    }

    /// Begins to record which blocks are looked up in the block cache; NULL options are the defaults. Busy while such a
    /// trace is being written.
    fn rocksdb_start_block_cache_trace(
        db: *mut rocksdb_t,
        env: *mut rocksdb_env_t,
        _env_options: *const rocksdb_envoptions_t,
        options: *const rocksdb_trace_options_t,
        trace_path: *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let options = options_of(options);
            let options = BlockTraceOptions {
                max_trace_file_size: options.max_trace_file_size,
                sampling_frequency: options.sampling_frequency,
            };
            start_lookups(db, env, trace_path, &options)
        });
    }

    /// As `rocksdb_start_block_cache_trace`, with options of its own.
    fn rocksdb_start_block_cache_trace_with_options(
        db: *mut rocksdb_t,
        env: *mut rocksdb_env_t,
        _env_options: *const rocksdb_envoptions_t,
        options: *const rocksdb_block_cache_trace_options_t,
        writer_options: *const rocksdb_block_cache_trace_writer_options_t,
        trace_path: *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let which = options.as_ref().map_or_else(BlockTraceOptions::default, |o| o.0);
            let how = writer_options.as_ref().map_or_else(BlockTraceOptions::default, |o| o.0);
            let options = BlockTraceOptions {
                max_trace_file_size: how.max_trace_file_size,
                sampling_frequency: which.sampling_frequency,
            };
            start_lookups(db, env, trace_path, &options)
        });
    }

    /// Ends the trace of lookups; fine if there is none.
    fn rocksdb_end_block_cache_trace(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, (), || (*db).cf.db().end_block_cache_trace().map(drop));
    }

    /// Begins to record the calls that the file system gets; NULL options are the defaults. Busy while such a trace is
    /// being written.
    fn rocksdb_start_io_trace(
        db: *mut rocksdb_t,
        env: *mut rocksdb_env_t,
        _env_options: *const rocksdb_envoptions_t,
        options: *const rocksdb_trace_options_t,
        trace_path: *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let options = options_of(options);
            (*db).cf.db().start_io_trace_in(&env_of(env, db), &path(trace_path), &options)
        });
    }

    /// Ends the trace of calls; fine if there is none.
    fn rocksdb_end_io_trace(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, (), || (*db).cf.db().end_io_trace().map(drop));
    }

    /// Sets `preserve_write_order`.
    fn rocksdb_trace_options_set_preserve_write_order(opt: *mut rocksdb_trace_options_t, v: u8) {
        (*opt).0.preserve_write_order = v != 0;
    }

    /// Value of `preserve_write_order`.
    fn rocksdb_trace_options_get_preserve_write_order(opt: *mut rocksdb_trace_options_t) -> u8 {
        (*opt).0.preserve_write_order.into()
    }
}

macro_rules! numbers {
    ($($handle:ident.$field:ident: $set:ident, $get:ident;)*) => {
        c_api! {$(
            #[doc = concat!("Sets `", stringify!($field), "`.")]
            fn $set(opt: *mut $handle, v: u64) {
                (*opt).0.$field = v;
            }

            #[doc = concat!("Value of `", stringify!($field), "`.")]
            fn $get(opt: *mut $handle) -> u64 {
                (*opt).0.$field
            }
        )*}
    };
}

numbers! {
    rocksdb_trace_options_t.max_trace_file_size:
        rocksdb_trace_options_set_max_trace_file_size,
        rocksdb_trace_options_get_max_trace_file_size;
    rocksdb_trace_options_t.sampling_frequency:
        rocksdb_trace_options_set_sampling_frequency, rocksdb_trace_options_get_sampling_frequency;
    rocksdb_block_cache_trace_options_t.sampling_frequency:
        rocksdb_block_cache_trace_options_set_sampling_frequency,
        rocksdb_block_cache_trace_options_get_sampling_frequency;
    rocksdb_block_cache_trace_writer_options_t.max_trace_file_size:
        rocksdb_block_cache_trace_writer_options_set_max_trace_file_size,
        rocksdb_block_cache_trace_writer_options_get_max_trace_file_size;
    rocksdb_trace_options_t.filter:
        rocksdb_trace_options_set_filter, rocksdb_trace_options_get_filter;
}

destroyers! {
    rocksdb_trace_options_destroy(rocksdb_trace_options_t);
    rocksdb_block_cache_trace_options_destroy(rocksdb_block_cache_trace_options_t);
    rocksdb_block_cache_trace_writer_options_destroy(rocksdb_block_cache_trace_writer_options_t);
}
