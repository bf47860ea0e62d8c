//! `rocksdb_ingestexternalfileoptions_t`, and taking in tables written outside of the database.

use crate::convert::{Deferred, first_complaint};
use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{array, boxed, path, report};
use libc::c_char;
use spanlith::{Cf, IngestOptions};
use spanlith_base::{Error, Result};

/// How files are taken in.
pub struct rocksdb_ingestexternalfileoptions_t {
    options: IngestOptions,
    /// A hint: readers ask the MANIFEST for the number, and files stay as they are.
    write_global_seqno: bool,
    /// Without effect in RocksDB's C API, too, which gives no checksums to compare with.
    verify_file_checksum: bool,
    /// A hint.
    prefetch_lmax_index_and_filter_blocks: bool,
    /// A hint.
    file_opening_threads: i32,
    /// Values that did not fit their option.
    deferred: Deferred,
}

impl Default for rocksdb_ingestexternalfileoptions_t {
    fn default() -> Self {
        Self {
            options: IngestOptions::default(),
            write_global_seqno: false,
            verify_file_checksum: true,
            prefetch_lmax_index_and_filter_blocks: true,
            file_opening_threads: 1,
            deferred: Deferred::default(),
        }
    }
}

impl rocksdb_ingestexternalfileoptions_t {
    fn checked(&self) -> Result<IngestOptions> {
        first_complaint(&self.deferred)?;
        if self.write_global_seqno && self.options.allow_db_generated_files {
            return Err(Error::not_supported(
                "write_global_seqno is deprecated and does not work with allow_db_generated_files.",
            ));
        }
        Ok(self.options)
    }
}

accessors! {
    rocksdb_ingestexternalfileoptions_t {
        options.move_files:
            rocksdb_ingestexternalfileoptions_set_move_files(u8),
            rocksdb_ingestexternalfileoptions_get_move_files -> u8;
        options.link_files:
            rocksdb_ingestexternalfileoptions_set_link_files(u8),
            rocksdb_ingestexternalfileoptions_get_link_files -> u8;
        options.failed_move_fall_back_to_copy:
            rocksdb_ingestexternalfileoptions_set_failed_move_fall_back_to_copy(u8),
            rocksdb_ingestexternalfileoptions_get_failed_move_fall_back_to_copy -> u8;
        options.snapshot_consistency:
            rocksdb_ingestexternalfileoptions_set_snapshot_consistency(u8),
            rocksdb_ingestexternalfileoptions_get_snapshot_consistency -> u8;
        options.allow_global_seqno:
            rocksdb_ingestexternalfileoptions_set_allow_global_seqno(u8),
            rocksdb_ingestexternalfileoptions_get_allow_global_seqno -> u8;
        options.allow_blocking_flush:
            rocksdb_ingestexternalfileoptions_set_allow_blocking_flush(u8),
            rocksdb_ingestexternalfileoptions_get_allow_blocking_flush -> u8;
        options.ingest_behind:
            rocksdb_ingestexternalfileoptions_set_ingest_behind(u8),
            rocksdb_ingestexternalfileoptions_get_ingest_behind -> u8;
        options.fail_if_not_bottommost_level:
            rocksdb_ingestexternalfileoptions_set_fail_if_not_bottommost_level(u8),
            rocksdb_ingestexternalfileoptions_get_fail_if_not_bottommost_level -> u8;
        options.verify_checksums:
            rocksdb_ingestexternalfileoptions_set_verify_checksums_before_ingest(u8),
            rocksdb_ingestexternalfileoptions_get_verify_checksums_before_ingest -> u8;
        options.readahead:
            rocksdb_ingestexternalfileoptions_set_verify_checksums_readahead_size(usize),
            rocksdb_ingestexternalfileoptions_get_verify_checksums_readahead_size -> usize;
        options.allow_db_generated_files:
            rocksdb_ingestexternalfileoptions_set_allow_db_generated_files(u8),
            rocksdb_ingestexternalfileoptions_get_allow_db_generated_files -> u8;
        options.fill_cache:
            rocksdb_ingestexternalfileoptions_set_fill_cache(u8),
            rocksdb_ingestexternalfileoptions_get_fill_cache -> u8;
        write_global_seqno:
            rocksdb_ingestexternalfileoptions_set_write_global_seqno(u8),
            rocksdb_ingestexternalfileoptions_get_write_global_seqno -> u8;
        verify_file_checksum:
            rocksdb_ingestexternalfileoptions_set_verify_file_checksum(u8),
            rocksdb_ingestexternalfileoptions_get_verify_file_checksum -> u8;
        prefetch_lmax_index_and_filter_blocks:
            rocksdb_ingestexternalfileoptions_set_prefetch_lmax_index_and_filter_blocks(u8),
            rocksdb_ingestexternalfileoptions_get_prefetch_lmax_index_and_filter_blocks -> u8;
        file_opening_threads:
            rocksdb_ingestexternalfileoptions_set_file_opening_threads(i32),
            rocksdb_ingestexternalfileoptions_get_file_opening_threads -> i32;
    }
}

/// Takes files into a family.
///
/// # Safety
/// `list` has `count` names.
unsafe fn ingest(
    cf: &Cf,
    (list, count): (*const *const c_char, usize),
    options: &rocksdb_ingestexternalfileoptions_t,
) -> Result<()> {
    // SAFETY: The caller's promise.
    let files = unsafe { array(list, count) }.iter();
    // SAFETY: As above; names are NUL-terminated.
    let files = files.map(|&name| unsafe { path(name) });
    cf.ingest(files, &options.checked()?)
}

c_api! {
    /// RocksDB's defaults.
    fn rocksdb_ingestexternalfileoptions_create() -> *mut rocksdb_ingestexternalfileoptions_t {
        boxed(rocksdb_ingestexternalfileoptions_t::default())
    }

    /// Takes files into the default family: all or none.
    fn rocksdb_ingest_external_file(
        db: *mut rocksdb_t,
        file_list: *const *const c_char,
        list_len: usize,
        options: *const rocksdb_ingestexternalfileoptions_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || ingest(&(*db).cf, (file_list, list_len), &*options));
    }

    /// Takes files into a family: all or none.
    fn rocksdb_ingest_external_file_cf(
        db: *mut rocksdb_t,
        handle: *mut rocksdb_column_family_handle_t,
        file_list: *const *const c_char,
        list_len: usize,
        options: *const rocksdb_ingestexternalfileoptions_t,
        errptr: *mut *mut c_char,
    ) {
        let _ = db;
        report(errptr, (), || ingest(&(*handle).cf, (file_list, list_len), &*options));
    }
}

destroyers! {
    rocksdb_ingestexternalfileoptions_destroy(rocksdb_ingestexternalfileoptions_t);
}
