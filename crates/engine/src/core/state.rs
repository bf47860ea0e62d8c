//! What the state mutex, the write leadership and the manifest token guard.

use crate::picker::RunningCompaction;
use crate::version::Version;
use spanlith_base::{Error, FileNumber, SequenceNumber};
use spanlith_memtable::MemTable;
use spanlith_wal::LogWriter;
use std::collections::VecDeque;
use std::sync::Arc;

/// Places in the lock order (architecture, section 9).
pub(crate) mod rank {
    /// Write leadership: group formation, sequence assignment, the current log.
    pub const LEADER: u8 = 10;
    /// Manifest writer: order of version edits. Held across I/O, like leadership.
    pub const MANIFEST: u8 = 20;
    /// `DbState`.
    pub const STATE: u8 = 30;
    /// Leaves.
    pub const LEAF: u8 = 90;
}

/// A sealed memtable waiting to become a table.
#[derive(Clone)]
pub(crate) struct Immutable {
    pub mem: Arc<MemTable>,
    /// Number of the log that was opened when this memtable was sealed: once it is flushed, older
    /// logs hold nothing for the family.
    pub next_log: FileNumber,
    /// Sequence number of the newest write when it was sealed.
    pub last_sequence: SequenceNumber,
}

/// Guarded by the state mutex, which is held for bookkeeping only.
pub(crate) struct DbState {
    /// Sealed memtables, oldest first.
    pub imm: Vec<Immutable>,
    /// The installed version.
    pub version: Arc<Version>,
    /// Counts superversions.
    pub superversion_number: u64,
    /// Logs with a smaller number hold nothing unflushed.
    pub log_number: FileNumber,
    /// No log is needed for writes up to this sequence number; recorded in the MANIFEST.
    pub table_sequence: SequenceNumber,
    /// Logs on disk, oldest first; the last is being written.
    pub logs: VecDeque<FileNumber>,
    /// A flush job is queued or running.
    pub flush_scheduled: bool,
    /// The flush job is running.
    pub flush_running: bool,
    /// Someone waits for all sealed memtables, however few.
    pub flush_requested: bool,
    /// Compaction jobs queued, not yet started.
    pub compactions_queued: usize,
    /// Compaction jobs that found work.
    pub compactions_running: usize,
    /// Output ranges of running compactions.
    pub running: Vec<RunningCompaction>,
    /// Manual compactions in progress; automatic ones stay away from their levels meanwhile.
    pub manual: usize,
    /// The first fatal background error. Writes are refused while it is set.
    pub error: Option<Error>,
    /// Number of background errors so far.
    pub error_count: u64,
    /// Recovery is over: background jobs may run. Before that, an output of theirs would look like
    /// a left-over of a crash.
    pub started: bool,
    /// No new work is accepted.
    pub closing: bool,
    /// Nothing is left to do; the lock file is released.
    pub closed: bool,
    /// Identity for running compactions.
    pub next_job: u64,
    /// Bytes the tree is behind, for stalls.
    pub pending_compaction_bytes: u64,
    /// The tree asks for a compaction that is not yet running.
    pub compaction_due: bool,
}

/// Guarded by write leadership.
pub(crate) struct LeaderState {
    /// The log being written; `None` after close or a failed creation.
    pub log: Option<LogWriter>,
    /// Earlier logs with bytes that were not synced, oldest first. A descriptor that wrote is the one
    /// that syncs.
    pub older: Vec<LogWriter>,
    /// Whether the directory entry of the current log is durable.
    pub log_in_dir: bool,
    /// The mutable memtable.
    pub mem: Arc<MemTable>,
    /// Bytes of batches appended to the current log.
    pub log_bytes: u64,
    /// Writers in the last group that synced.
    pub sync_group: usize,
    /// Duration of a sync, smoothed, in nanoseconds.
    pub sync_nanos: u64,
}
