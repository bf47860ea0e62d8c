//! Describes what listeners are told of compactions.

use super::blobs::BlobFileRecords;
use spanlith_base::{Result, SubCode};
use spanlith_table::TableProperties;
use std::path::PathBuf;
use std::sync::Arc;

/// A table that takes part in a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionFile {
    /// Where it lies, or will.
    pub level: usize,
    /// Its number.
    pub number: u64,
    /// Number of the oldest blob file that it refers to; 0 for none.
    pub oldest_blob_file: u64,
}

/// A compaction, or a part of one.
#[derive(Clone, Debug)]
pub struct CompactionInfo {
    /// Number of its family.
    pub cf_id: u32,
    /// Name of its family.
    pub cf_name: String,
    /// How it went; `Ok` before it ran.
    pub result: Result<()>,
    /// Number of the job.
    pub job: u64,
    /// The thread that the job, or the part, runs on and the listener is called on: what `pthread_self`
    /// returns there.
    pub thread_id: u64,
    /// Number of the part; 0 for the whole.
    pub subcompaction: u64,
    /// Shallowest level of the inputs.
    pub base_input_level: usize,
    /// Level of the outputs.
    pub output_level: usize,
    /// Tables that are read.
    pub input_files: Vec<PathBuf>,
    /// The same, in the same order, by level and number.
    pub input_file_infos: Vec<CompactionFile>,
    /// How many of them lie in the output level.
    pub input_files_at_output_level: usize,
    /// Tables that were written.
    pub output_files: Vec<PathBuf>,
    /// The same, in the same order, by level and number.
    pub output_file_infos: Vec<CompactionFile>,
    /// Properties of the tables that were written and of those that are read, by path; of a part there are
    /// none, and a table that cannot be opened has none.
    pub table_properties: Vec<(PathBuf, Arc<TableProperties>)>,
    /// Tables in level 0 at the moment.
    pub level0_files: usize,
    /// RocksDB's number of the codec of the tables that are written.
    pub compression: u8,
    /// RocksDB's number of the codec of blob files.
    pub blob_compression: u8,
    /// Blob files that were written, once the compaction is installed.
    pub blob_files: Vec<BlobFileRecords>,
    /// Says what became garbage in older blob files, by number, once the compaction is installed.
    pub blob_garbage: Vec<BlobFileRecords>,
    /// Why, in RocksDB's words, and its number.
    pub reason: (&'static str, u32),
    /// Says what it did; before it ran what is known of its inputs.
    pub stats: CompactionStats,
}

impl CompactionInfo {
    /// Returns whether it was given up because all compactions were (`Db::abort_compactions`).
    pub fn is_aborted(&self) -> bool {
        (self.result.as_ref()).is_err_and(|e| e.subcode() == Some(SubCode::CompactionAborted))
    }
}

impl Default for CompactionInfo {
    /// Of no compaction.
    fn default() -> Self {
        Self {
            cf_id: 0,
            cf_name: String::new(),
            result: Ok(()),
            job: 0,
            thread_id: 0,
            subcompaction: 0,
            base_input_level: 0,
            output_level: 0,
            input_files: Vec::new(),
            input_file_infos: Vec::new(),
            input_files_at_output_level: 0,
            output_files: Vec::new(),
            output_file_infos: Vec::new(),
            table_properties: Vec::new(),
            level0_files: 0,
            compression: 0,
            blob_compression: 0,
            blob_files: Vec::new(),
            blob_garbage: Vec::new(),
            reason: ("Unknown", 0),
            stats: CompactionStats::default(),
        }
    }
}

/// Describes what a compaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionStats {
    /// Microseconds it took.
    pub elapsed_micros: u64,
    /// Microseconds of processor time of all its parts.
    pub cpu_micros: u64,
    /// Keys that could not be understood: none, since such a key fails the compaction.
    pub corrupt_keys: u64,
    /// Says whether `input_records` of a part was counted; false once a filter has skipped some unseen.
    pub has_accurate_input_records: bool,
    /// Entries read, without range tombstones.
    pub input_records: u64,
    /// Tables that are read.
    pub input_files: usize,
    /// How many of them lie in the output level; known at the end.
    pub input_files_at_output_level: usize,
    /// Tables that change their level as they are.
    pub moved_files: usize,
    /// Bytes of the inputs.
    pub input_bytes: u64,
    /// Bytes of the internal keys, and of the values, of entries that were looked at for themselves, not as
    /// part of another.
    pub input_key_bytes: u64,
    /// As `input_key_bytes`.
    pub input_value_bytes: u64,
    /// Deletions of single keys among the entries looked at.
    pub input_deletions: u64,
    /// Values read from blob files.
    pub blobs_read: u64,
    /// Bytes of their records.
    pub blob_bytes_read: u64,
    /// Entries written.
    pub output_records: u64,
    /// Tables written.
    pub output_files: usize,
    /// Bytes of the tables written.
    pub output_bytes: u64,
    /// Blob files written.
    pub output_blob_files: usize,
    /// Bytes of the blob files written.
    pub output_blob_bytes: u64,
    /// Says whether it takes in all tables of the family.
    pub is_full: bool,
    /// Says whether a caller asked for it.
    pub is_manual: bool,
    /// Entries that newer ones or ranges replaced.
    pub replaced_records: u64,
    /// Deletions that were not needed any more, range tombstones included.
    pub expired_deletions: u64,
    /// Single deletes that were dropped and had met nothing to delete.
    pub single_deletes_of_nothing: u64,
    /// Single deletes that met something else than a value.
    pub single_deletes_mismatched: u64,
    /// Nanoseconds that appends to tables took; with `report_bg_io_stats`, as the next three.
    pub file_write_nanos: u64,
    /// Nanoseconds that requests for write-back took.
    pub file_range_sync_nanos: u64,
    /// Nanoseconds that syncs of tables took.
    pub file_sync_nanos: u64,
    /// Nanoseconds that it took to reserve room on disk.
    pub file_prepare_nanos: u64,
    /// First eight bytes of the smallest user key that was written.
    pub smallest_output_prefix: Vec<u8>,
    /// First eight bytes of the largest user key that was written.
    pub largest_output_prefix: Vec<u8>,
}

impl Default for CompactionStats {
    /// Of a compaction that has not begun: nothing is wrong with its numbers yet.
    fn default() -> Self {
        Self {
            has_accurate_input_records: true,
            elapsed_micros: 0,
            cpu_micros: 0,
            corrupt_keys: 0,
            input_records: 0,
            input_files: 0,
            input_files_at_output_level: 0,
            moved_files: 0,
            input_bytes: 0,
            input_key_bytes: 0,
            input_value_bytes: 0,
            input_deletions: 0,
            blobs_read: 0,
            blob_bytes_read: 0,
            output_records: 0,
            output_files: 0,
            output_bytes: 0,
            output_blob_files: 0,
            output_blob_bytes: 0,
            is_full: false,
            is_manual: false,
            replaced_records: 0,
            expired_deletions: 0,
            single_deletes_of_nothing: 0,
            single_deletes_mismatched: 0,
            file_write_nanos: 0,
            file_range_sync_nanos: 0,
            file_sync_nanos: 0,
            file_prepare_nanos: 0,
            smallest_output_prefix: Vec::new(),
            largest_output_prefix: Vec::new(),
        }
    }
}
