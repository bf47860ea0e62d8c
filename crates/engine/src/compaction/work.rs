//! Describes what a compaction did, by part and in sum, for statistics and listeners.

use super::balance::Dropped;
use super::giving_way::Paused;
use super::iterator::ReadCounts;
use crate::core::NewTable;
use crate::listener::CompactionStats;
use crate::picker::CompactionPlan;
use crate::version::IoNanos;
use crate::version::edit::{BlobFileAddition, BlobFileGarbage};
use spanlith_base::{Error, Result};

/// Describes what a part of a job, or all of it, did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Entries read; `None` if a filter skipped some unseen.
    pub entries_in: Option<u64>,
    pub entries_out: u64,
    /// Says what was read and not written.
    pub dropped: Dropped,
    /// Range tombstones that hide nothing any more and were not written.
    pub dropped_ranges: u64,
    /// Processor time; 0 if nobody wants to know.
    pub cpu_micros: u64,
    /// Says what was read, in detail; zeros if nobody wants to know.
    pub counts: ReadCounts,
    /// How long writing took; zeros if nobody wants to know.
    pub io: IoNanos,
    /// Bytes of the records of blob files whose values moved.
    pub relocated: u64,
    /// How long more urgent work went first.
    pub paused: Paused,
}

impl Default for Work {
    /// Nothing yet.
    fn default() -> Self {
        Self {
            entries_in: Some(0),
            entries_out: 0,
            dropped: Dropped::default(),
            dropped_ranges: 0,
            cpu_micros: 0,
            counts: ReadCounts::default(),
            io: IoNanos::default(),
            relocated: 0,
            paused: Paused::default(),
        }
    }
}

impl Work {
    /// Takes in another part.
    pub(super) fn add(&mut self, other: &Self) {
        let entries = self.entries_in.zip(other.entries_in);
        self.entries_in = entries.map(|(a, b)| a + b);
        self.entries_out += other.entries_out;
        self.dropped.add(&other.dropped);
        self.dropped_ranges += other.dropped_ranges;
        self.cpu_micros += other.cpu_micros;
        self.counts.add(&other.counts);
        self.io.add(&other.io);
        self.relocated += other.relocated;
        self.paused.add(other.paused);
    }

    /// Deletions that were not needed any more, as RocksDB counts them.
    pub(super) fn expired(&self, plan: &CompactionPlan) -> u64 {
        self.dropped.expired(plan.bottommost) + self.dropped_ranges
    }

    /// As listeners are told. What it took, and which tables, is left open.
    pub(super) fn stats(&self, plan: &CompactionPlan) -> CompactionStats {
        CompactionStats {
            cpu_micros: self.cpu_micros,
            has_accurate_input_records: self.entries_in.is_some(),
            input_records: self.entries_in.unwrap_or(0),
            input_key_bytes: self.counts.key_bytes,
            input_value_bytes: self.counts.value_bytes,
            input_deletions: self.counts.deletions,
            blobs_read: self.counts.blobs,
            blob_bytes_read: self.counts.blob_bytes,
            output_records: self.entries_out,
            replaced_records: self.dropped.replaced(),
            expired_deletions: self.expired(plan),
            single_deletes_of_nothing: self.dropped.single_fallthru,
            single_deletes_mismatched: self.dropped.mismatched,
            file_write_nanos: self.io.write,
            file_range_sync_nanos: self.io.range_sync,
            file_sync_nanos: self.io.sync,
            file_prepare_nanos: self.io.prepare,
            ..CompactionStats::default()
        }
    }
}

/// Describes what a job that rewrites tables did.
pub(super) struct Rewritten {
    /// How it went.
    pub result: Result<()>,
    /// Says what it wrote; nothing if it failed.
    pub tables: Vec<NewTable>,
    /// Blob files that it wrote; none if it failed.
    pub blobs: Vec<BlobFileAddition>,
    /// Blobs nobody refers to any more.
    pub garbage: Vec<BlobFileGarbage>,
    /// Entries that the properties of the inputs count, without range tombstones.
    pub expected: u64,
    pub work: Work,
    /// Of the entries written, those written to the proximal level.
    pub entries_above: u64,
    /// Ranges that were worked on side by side.
    pub parts: u64,
}

impl Rewritten {
    /// A job that failed before it did anything.
    pub(super) fn failed(error: Error) -> Self {
        Self {
            result: Err(error),
            tables: Vec::new(),
            blobs: Vec::new(),
            garbage: Vec::new(),
            expected: 0,
            work: Work::default(),
            entries_above: 0,
            parts: 0,
        }
    }

    /// Entries read. Where nobody knows, and of a job that failed, what was to be read, as in RocksDB.
    pub(super) fn entries_in(&self) -> u64 {
        let counted = self.work.entries_in.filter(|_| self.result.is_ok());
        counted.unwrap_or(self.expected)
    }
}
