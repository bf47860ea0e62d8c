//! `rocksdb_sstfilewriter_t` and `rocksdb_envoptions_t`: tables written outside of a database.

use crate::comparator::rocksdb_comparator_t;
use crate::convert::{Deferred, first_complaint};
use crate::db::{Mode, family_options};
use crate::ffi::{boxed, bytes, path, report};
use crate::options::rocksdb_options_t;
use crate::rate_limiter::rocksdb_ratelimiter_t;
use libc::c_char;
use spanlith::SstWriter;
use spanlith_base::{Error, Result};
use spanlith_env::RateLimiter;
use std::sync::Arc;

/// How files are read and written. What says how they are written counts for tables outside of a database.
pub struct rocksdb_envoptions_t {
    use_mmap_reads: bool,
    use_mmap_writes: bool,
    use_direct_reads: bool,
    use_direct_writes: bool,
    allow_fallocate: bool,
    set_fd_cloexec: bool,
    bytes_per_sync: u64,
    strict_bytes_per_sync: bool,
    fallocate_with_keep_size: bool,
    compaction_readahead_size: u64,
    writable_file_max_buffer_size: u64,
    rate_limiter: Option<Arc<RateLimiter>>,
    /// Values that did not fit their option.
    deferred: Deferred,
}

impl Default for rocksdb_envoptions_t {
    fn default() -> Self {
        Self {
            use_mmap_reads: false,
            use_mmap_writes: false,
            use_direct_reads: false,
            use_direct_writes: false,
            allow_fallocate: true,
            set_fd_cloexec: true,
            bytes_per_sync: 0,
            strict_bytes_per_sync: false,
            fallocate_with_keep_size: true,
            compaction_readahead_size: 2 << 20,
            writable_file_max_buffer_size: 1 << 20,
            rate_limiter: None,
            deferred: Deferred::default(),
        }
    }
}

accessors! {
    rocksdb_envoptions_t {
        use_mmap_reads:
            rocksdb_envoptions_set_use_mmap_reads(u8),
            rocksdb_envoptions_get_use_mmap_reads -> u8;
        use_mmap_writes:
            rocksdb_envoptions_set_use_mmap_writes(u8),
            rocksdb_envoptions_get_use_mmap_writes -> u8;
        use_direct_reads:
            rocksdb_envoptions_set_use_direct_reads(u8),
            rocksdb_envoptions_get_use_direct_reads -> u8;
        use_direct_writes:
            rocksdb_envoptions_set_use_direct_writes(u8),
            rocksdb_envoptions_get_use_direct_writes -> u8;
        allow_fallocate:
            rocksdb_envoptions_set_allow_fallocate(u8),
            rocksdb_envoptions_get_allow_fallocate -> u8;
        set_fd_cloexec:
            rocksdb_envoptions_set_fd_cloexec(u8),
            rocksdb_envoptions_get_fd_cloexec -> u8;
        bytes_per_sync:
            rocksdb_envoptions_set_bytes_per_sync(u64),
            rocksdb_envoptions_get_bytes_per_sync -> u64;
        strict_bytes_per_sync:
            rocksdb_envoptions_set_strict_bytes_per_sync(u8),
            rocksdb_envoptions_get_strict_bytes_per_sync -> u8;
        fallocate_with_keep_size:
            rocksdb_envoptions_set_fallocate_with_keep_size(u8),
            rocksdb_envoptions_get_fallocate_with_keep_size -> u8;
        compaction_readahead_size:
            rocksdb_envoptions_set_compaction_readahead_size(usize),
            rocksdb_envoptions_get_compaction_readahead_size -> usize;
        writable_file_max_buffer_size:
            rocksdb_envoptions_set_writable_file_max_buffer_size(usize),
            rocksdb_envoptions_get_writable_file_max_buffer_size -> usize;
    }
}

/// Writes tables, one after the other.
pub struct rocksdb_sstfilewriter_t(Result<SstWriter>);

impl rocksdb_sstfilewriter_t {
    fn of(env: &rocksdb_envoptions_t, options: &rocksdb_options_t) -> Self {
        Self(Self::make(env, options))
    }

    fn make(env: &rocksdb_envoptions_t, options: &rocksdb_options_t) -> Result<SstWriter> {
        first_complaint(&env.deferred)?;
        // A table has no family yet.
        let family = family_options("", options, Mode::ReadWrite)?;
        let mut db = options.db.clone();
        db.use_direct_io_for_flush_and_compaction = env.use_direct_writes;
        db.bytes_per_sync = env.bytes_per_sync;
        db.strict_bytes_per_sync = env.strict_bytes_per_sync;
        SstWriter::new(family, &db, &options.env(), env.rate_limiter.clone())
    }

    /// The writer, if its options are good: `open` has said otherwise.
    fn writer(&mut self) -> Result<&mut SstWriter> {
        let not_open = |_| Error::invalid_argument("File is not opened");
        self.0.as_mut().map_err(not_open)
    }
}

c_api! {
    /// RocksDB's defaults.
    fn rocksdb_envoptions_create() -> *mut rocksdb_envoptions_t {
        boxed(rocksdb_envoptions_t::default())
    }

    /// Limits how fast tables are written; NULL does not.
    fn rocksdb_envoptions_set_rate_limiter(
        options: *mut rocksdb_envoptions_t,
        limiter: *mut rocksdb_ratelimiter_t,
    ) {
        (*options).rate_limiter = limiter.as_ref().map(|l| l.0.clone());
    }

    /// Writes tables for families with these options. What is wrong with them is said when a file is opened.
    fn rocksdb_sstfilewriter_create(
        env: *const rocksdb_envoptions_t,
        io_options: *const rocksdb_options_t,
    ) -> *mut rocksdb_sstfilewriter_t {
        boxed(rocksdb_sstfilewriter_t::of(&*env, &*io_options))
    }

    /// As `rocksdb_sstfilewriter_create`. The order of keys is that of the options: as in RocksDB the third
    /// argument is not looked at.
    fn rocksdb_sstfilewriter_create_with_comparator(
        env: *const rocksdb_envoptions_t,
        io_options: *const rocksdb_options_t,
        _comparator: *const rocksdb_comparator_t,
    ) -> *mut rocksdb_sstfilewriter_t {
        boxed(rocksdb_sstfilewriter_t::of(&*env, &*io_options))
    }

    /// Begins a table, replacing what is there.
    fn rocksdb_sstfilewriter_open(
        writer: *mut rocksdb_sstfilewriter_t,
        name: *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let name = path(name);
            (*writer).0.as_mut().map_err(|e| e.clone())?.open(name)
        });
    }

    /// Adds a key; an older name of `put`.
    fn rocksdb_sstfilewriter_add(
        writer: *mut rocksdb_sstfilewriter_t,
        key: *const c_char,
        keylen: usize,
        val: *const c_char,
        vallen: usize,
        errptr: *mut *mut c_char,
    ) {
        rocksdb_sstfilewriter_put(writer, key, keylen, val, vallen, errptr);
    }

    /// Adds a key, which stands after those before.
    fn rocksdb_sstfilewriter_put(
        writer: *mut rocksdb_sstfilewriter_t,
        key: *const c_char,
        keylen: usize,
        val: *const c_char,
        vallen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let writer = (*writer).writer()?;
            writer.put(bytes(key, keylen), bytes(val, vallen))
        });
    }

    /// Adds a key as of a timestamp.
    fn rocksdb_sstfilewriter_put_with_ts(
        writer: *mut rocksdb_sstfilewriter_t,
        key: *const c_char,
        keylen: usize,
        ts: *const c_char,
        tslen: usize,
        val: *const c_char,
        vallen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let writer = (*writer).writer()?;
            writer.put_at(bytes(key, keylen), bytes(ts, tslen), bytes(val, vallen))
        });
    }

    /// Adds a merge operand.
    fn rocksdb_sstfilewriter_merge(
        writer: *mut rocksdb_sstfilewriter_t,
        key: *const c_char,
        keylen: usize,
        val: *const c_char,
        vallen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let writer = (*writer).writer()?;
            writer.merge(bytes(key, keylen), bytes(val, vallen))
        });
    }

    /// Adds the deletion of a key.
    fn rocksdb_sstfilewriter_delete(
        writer: *mut rocksdb_sstfilewriter_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*writer).writer()?.delete(bytes(key, keylen)));
    }

    /// Adds the deletion of a key as of a timestamp.
    fn rocksdb_sstfilewriter_delete_with_ts(
        writer: *mut rocksdb_sstfilewriter_t,
        key: *const c_char,
        keylen: usize,
        ts: *const c_char,
        tslen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let writer = (*writer).writer()?;
            writer.delete_at(bytes(key, keylen), bytes(ts, tslen))
        });
    }

    /// Adds the deletion of the keys from the first on and before the second.
    fn rocksdb_sstfilewriter_delete_range(
        writer: *mut rocksdb_sstfilewriter_t,
        begin_key: *const c_char,
        begin_keylen: usize,
        end_key: *const c_char,
        end_keylen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let writer = (*writer).writer()?;
            writer.delete_range(bytes(begin_key, begin_keylen), bytes(end_key, end_keylen))
        });
    }

    /// Ends the table, which is synced then.
    fn rocksdb_sstfilewriter_finish(
        writer: *mut rocksdb_sstfilewriter_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*writer).writer()?.finish().map(drop));
    }

    /// Bytes of the table, so far or as a whole.
    fn rocksdb_sstfilewriter_file_size(
        writer: *mut rocksdb_sstfilewriter_t,
        file_size: *mut u64,
    ) {
        *file_size = (*writer).0.as_ref().map_or(0, SstWriter::file_size);
    }
}

destroyers! {
    rocksdb_envoptions_destroy(rocksdb_envoptions_t);
    rocksdb_sstfilewriter_destroy(rocksdb_sstfilewriter_t);
}
