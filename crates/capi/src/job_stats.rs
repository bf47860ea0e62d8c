//! `rocksdb_compaction_job_stats_t`: what a compaction did; lent by what the listener is told.

use crate::ffi::lend_if;
use libc::c_char;
use spanlith::listener::CompactionStats;

/// Describes what a compaction, or a part of one, did.
pub struct rocksdb_compaction_job_stats_t {
    stats: CompactionStats,
}

impl rocksdb_compaction_job_stats_t {
    /// Of a whole compaction.
    pub(crate) fn of_job(stats: &CompactionStats) -> Self {
        Self {
            stats: stats.clone(),
        }
    }

    /// Of a part: as in RocksDB what the part read and dropped, and its processor time, but not what it wrote,
    /// which only the whole tells.
    pub(crate) fn of_part(stats: &CompactionStats) -> Self {
        Self {
            stats: CompactionStats {
                elapsed_micros: 0,
                output_records: 0,
                output_files: 0,
                output_bytes: 0,
                ..stats.clone()
            },
        }
    }
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $getter:ident -> $ty:ty: |$s:ident| $value:expr;)*) => {
        c_api! {$(
            $(#[$doc])*
            fn $getter(stats: *const rocksdb_compaction_job_stats_t) -> $ty {
                let $s = &(*stats).stats;
                $value
            }
        )*}
    };
}

numbers! {
    /// Microseconds it took.
    rocksdb_compaction_job_stats_elapsed_micros -> u64: |s| s.elapsed_micros;
    /// Microseconds of processor time.
    rocksdb_compaction_job_stats_cpu_micros -> u64: |s| s.cpu_micros;
    /// Says whether the entries read were counted.
    rocksdb_compaction_job_stats_has_accurate_num_input_records -> u8:
        |s| s.has_accurate_input_records.into();
    /// Entries read, without range tombstones.
    rocksdb_compaction_job_stats_num_input_records -> u64: |s| s.input_records;
    /// Values read from blob files.
    rocksdb_compaction_job_stats_num_blobs_read -> u64: |s| s.blobs_read;
    /// Tables read.
    rocksdb_compaction_job_stats_num_input_files -> usize: |s| s.input_files;
    /// Tables that changed their level as they are.
    rocksdb_compaction_job_stats_num_input_files_trivially_moved -> usize: |s| s.moved_files;
    /// Tables read of the level of the outputs.
    rocksdb_compaction_job_stats_num_input_files_at_output_level -> usize:
        |s| s.input_files_at_output_level;
    /// Entries written.
    rocksdb_compaction_job_stats_num_output_records -> u64: |s| s.output_records;
    /// Tables written.
    rocksdb_compaction_job_stats_num_output_files -> usize: |s| s.output_files;
    /// Says whether it took in all tables of the family.
    rocksdb_compaction_job_stats_is_full_compaction -> u8: |s| s.is_full.into();
    /// Says whether a caller asked for it.
    rocksdb_compaction_job_stats_is_manual_compaction -> u8: |s| s.is_manual.into();
    /// Bytes of the tables read.
    rocksdb_compaction_job_stats_total_input_bytes -> u64: |s| s.input_bytes;
    /// Bytes of the records of blob files that were read.
    rocksdb_compaction_job_stats_total_blob_bytes_read -> u64: |s| s.blob_bytes_read;
    /// Blob files written.
    rocksdb_compaction_job_stats_num_output_files_blob -> usize: |s| s.output_blob_files;
    /// Bytes of blob files written.
    rocksdb_compaction_job_stats_total_output_bytes_blob -> u64: |s| s.output_blob_bytes;
    /// Bytes of the tables written.
    rocksdb_compaction_job_stats_total_output_bytes -> u64: |s| s.output_bytes;
    /// Entries that newer ones or ranges replaced.
    rocksdb_compaction_job_stats_num_records_replaced -> u64: |s| s.replaced_records;
    /// Bytes of the internal keys of entries that were looked at for themselves.
    rocksdb_compaction_job_stats_total_input_raw_key_bytes -> u64: |s| s.input_key_bytes;
    /// Bytes of the values of entries that were looked at for themselves.
    rocksdb_compaction_job_stats_total_input_raw_value_bytes -> u64: |s| s.input_value_bytes;
    /// Deletions of single keys among the entries looked at.
    rocksdb_compaction_job_stats_num_input_deletion_records -> u64: |s| s.input_deletions;
    /// Deletions that were not needed any more.
    rocksdb_compaction_job_stats_num_expired_deletion_records -> u64: |s| s.expired_deletions;
    /// Keys that could not be understood.
    rocksdb_compaction_job_stats_num_corrupt_keys -> u64: |s| s.corrupt_keys;
    /// Nanoseconds that appends took, with `report_bg_io_stats`.
    rocksdb_compaction_job_stats_file_write_nanos -> u64: |s| s.file_write_nanos;
    /// Nanoseconds that requests for write-back took, with `report_bg_io_stats`.
    rocksdb_compaction_job_stats_file_range_sync_nanos -> u64: |s| s.file_range_sync_nanos;
    /// Nanoseconds that syncs took, with `report_bg_io_stats`.
    rocksdb_compaction_job_stats_file_fsync_nanos -> u64: |s| s.file_sync_nanos;
    /// Nanoseconds that it took to reserve room, with `report_bg_io_stats`.
    rocksdb_compaction_job_stats_file_prepare_write_nanos -> u64: |s| s.file_prepare_nanos;
    /// Single deletes that were dropped and had met nothing.
    rocksdb_compaction_job_stats_num_single_del_fallthru -> u64: |s| s.single_deletes_of_nothing;
    /// Single deletes that met something else than a value.
    rocksdb_compaction_job_stats_num_single_del_mismatch -> u64: |s| s.single_deletes_mismatched;
}

/// Says what the engine never does, so that there is nothing to count.
macro_rules! never {
    ($($(#[$doc:meta])* $getter:ident -> $ty:ty;)*) => {
        c_api! {$(
            $(#[$doc])*
            fn $getter(_stats: *const rocksdb_compaction_job_stats_t) -> $ty {
                0
            }
        )*}
    };
}

never! {
    /// Tables that are not read because a range tombstone covers all of them: none, such tables are read.
    rocksdb_compaction_job_stats_num_filtered_input_files -> usize;
    /// As `num_filtered_input_files`, of the level of the outputs.
    rocksdb_compaction_job_stats_num_filtered_input_files_at_output_level -> usize;
    /// Bytes of tables that are not read: none, see `num_filtered_input_files`.
    rocksdb_compaction_job_stats_total_skipped_input_bytes -> u64;
    /// Says whether another process ran it: never, there is no compaction service.
    rocksdb_compaction_job_stats_is_remote_compaction -> u8;
}

c_api! {
    /// First bytes of the smallest user key that was written.
    fn rocksdb_compaction_job_stats_smallest_output_key_prefix(
        stats: *const rocksdb_compaction_job_stats_t,
        size: *mut usize,
    ) -> *const c_char {
        lend_if(Some(&(&*stats).stats.smallest_output_prefix), size)
    }

    /// First bytes of the largest user key that was written.
    fn rocksdb_compaction_job_stats_largest_output_key_prefix(
        stats: *const rocksdb_compaction_job_stats_t,
        size: *mut usize,
    ) -> *const c_char {
        lend_if(Some(&(&*stats).stats.largest_output_prefix), size)
    }
}
