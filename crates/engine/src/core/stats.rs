//! Describes what the database and its families have done so far, for properties and the info log.
//!
//! Numbers of writes are kept by the leader alone, so that counting a group costs plain additions. The
//! numbers of jobs are added once per job. Everything may be read at any time; numbers read together
//! need not belong together.

use super::state::rank;
use crate::version::Version;
use spanlith_base::sync::Mutex;
use spanlith_pace::{StallCause, StallCondition};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// A number that rises.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds; the caller is the only one who does (write leadership).
    #[inline]
    pub(crate) fn add_alone(&self, n: u64) {
        // Relaxed: a statistic, nothing is published through it.
        let v = self.0.load(Ordering::Relaxed);
        self.0.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// Adds.
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The number.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Numbers of writes at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriteNumbers {
    /// Nanoseconds of the monotonic clock.
    pub at_nanos: u64,
    pub writes: u64,
    pub keys: u64,
    pub groups: u64,
    pub bytes: u64,
    pub wal_writes: u64,
    pub wal_syncs: u64,
    pub wal_bytes: u64,
    pub stall_micros: u64,
}

/// Describes what the database has done.
pub(crate) struct DbCounters {
    /// When it was opened, in nanoseconds of the monotonic clock.
    pub opened_nanos: u64,
    /// Write calls.
    pub writes: Counter,
    /// Entries written.
    pub keys: Counter,
    /// Write calls that another one led. Here and below the rarer case is counted, so that a write
    /// that is alone, logged and not synced touches three counters.
    pub led: Counter,
    /// Bytes of batches.
    pub bytes: Counter,
    /// Write calls that were not logged.
    pub unlogged_writes: Counter,
    /// Syncs of the log.
    pub wal_syncs: Counter,
    /// Bytes of batches that did not go to the log: unlogged ones, and headers left out of groups.
    pub unlogged_bytes: Counter,
    /// Microseconds that writers were made to wait.
    pub stall_micros: Counter,
    /// Numbers at the last report, from which its interval counts.
    last: Mutex<WriteNumbers>,
}

impl DbCounters {
    pub(crate) fn new(now_nanos: u64) -> Self {
        Self {
            opened_nanos: now_nanos,
            writes: Counter::default(),
            keys: Counter::default(),
            led: Counter::default(),
            bytes: Counter::default(),
            unlogged_writes: Counter::default(),
            wal_syncs: Counter::default(),
            unlogged_bytes: Counter::default(),
            stall_micros: Counter::default(),
            last: Mutex::new(
                rank::LEAF,
                WriteNumbers {
                    at_nanos: now_nanos,
                    ..WriteNumbers::default()
                },
            ),
        }
    }

    /// The numbers of now.
    pub(crate) fn numbers(&self, now_nanos: u64) -> WriteNumbers {
        // Counters of one group may be read in between; a part is never more than the whole.
        let (writes, bytes) = (self.writes.get(), self.bytes.get());
        WriteNumbers {
            at_nanos: now_nanos,
            writes,
            keys: self.keys.get(),
            groups: writes.saturating_sub(self.led.get()),
            bytes,
            wal_writes: writes.saturating_sub(self.unlogged_writes.get()),
            wal_syncs: self.wal_syncs.get(),
            wal_bytes: bytes.saturating_sub(self.unlogged_bytes.get()),
            stall_micros: self.stall_micros.get(),
        }
    }

    /// Begins another interval with `numbers`; returns those with which the last one began.
    pub(crate) fn next_interval(&self, numbers: WriteNumbers) -> WriteNumbers {
        std::mem::replace(&mut *self.last.lock(), numbers)
    }
}

/// Describes what jobs did that wrote to one level, or one job of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JobNumbers {
    /// Time, in microseconds.
    pub micros: u64,
    /// Time of processors, in microseconds.
    pub cpu_micros: u64,
    /// Bytes of inputs above the output level.
    pub read_upper_bytes: u64,
    /// Bytes of inputs in the output level.
    pub read_output_bytes: u64,
    /// Bytes of outputs.
    pub written_bytes: u64,
    /// Bytes of outputs before they were compressed.
    pub uncompressed_bytes: u64,
    /// Bytes of tables that changed their level as they are.
    pub moved_bytes: u64,
    /// Tables written.
    pub files_written: u64,
    /// Entries read.
    pub entries_read: u64,
    /// Entries that were not written again.
    pub entries_dropped: u64,
    /// Bytes read from blob files.
    pub blob_read_bytes: u64,
    /// Bytes written to blob files.
    pub blob_written_bytes: u64,
    /// Of these, bytes that came from other blob files, to empty them.
    pub collected_bytes: u64,
    /// Jobs.
    pub jobs: u64,
}

impl JobNumbers {
    /// Adds another's.
    pub(crate) fn add(&mut self, o: &Self) {
        self.micros += o.micros;
        self.cpu_micros += o.cpu_micros;
        self.read_upper_bytes += o.read_upper_bytes;
        self.read_output_bytes += o.read_output_bytes;
        self.written_bytes += o.written_bytes;
        self.uncompressed_bytes += o.uncompressed_bytes;
        self.moved_bytes += o.moved_bytes;
        self.files_written += o.files_written;
        self.entries_read += o.entries_read;
        self.entries_dropped += o.entries_dropped;
        self.blob_read_bytes += o.blob_read_bytes;
        self.blob_written_bytes += o.blob_written_bytes;
        self.collected_bytes += o.collected_bytes;
        self.jobs += o.jobs;
    }

    /// Returns what was added since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            micros: self.micros - before.micros,
            cpu_micros: self.cpu_micros - before.cpu_micros,
            read_upper_bytes: self.read_upper_bytes - before.read_upper_bytes,
            read_output_bytes: self.read_output_bytes - before.read_output_bytes,
            written_bytes: self.written_bytes - before.written_bytes,
            uncompressed_bytes: self.uncompressed_bytes - before.uncompressed_bytes,
            moved_bytes: self.moved_bytes - before.moved_bytes,
            files_written: self.files_written - before.files_written,
            entries_read: self.entries_read - before.entries_read,
            entries_dropped: self.entries_dropped - before.entries_dropped,
            blob_read_bytes: self.blob_read_bytes - before.blob_read_bytes,
            blob_written_bytes: self.blob_written_bytes - before.blob_written_bytes,
            collected_bytes: self.collected_bytes - before.collected_bytes,
            jobs: self.jobs - before.jobs,
        }
    }

    /// Bytes of all tables read.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_upper_bytes + self.read_output_bytes
    }
}

/// How often writes were slowed down or stopped, and why.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StallCounts {
    pub l0_delays: u64,
    pub l0_stops: u64,
    pub l0_delays_with_compaction: u64,
    pub l0_stops_with_compaction: u64,
    pub memtable_delays: u64,
    pub memtable_stops: u64,
    pub debt_delays: u64,
    pub debt_stops: u64,
}

impl StallCounts {
    /// Counts one change to `condition`.
    fn count(&mut self, condition: StallCondition, compacting_l0: bool) {
        let compacting = u64::from(compacting_l0);
        match condition {
            StallCondition::Normal => {}
            StallCondition::Delayed(cause) => match cause {
                StallCause::MemtableLimit => self.memtable_delays += 1,
                StallCause::PendingCompactionBytes => self.debt_delays += 1,
                StallCause::L0FileCountLimit => {
                    self.l0_delays += 1;
                    self.l0_delays_with_compaction += compacting;
                }
            },
            StallCondition::Stopped(cause) => match cause {
                StallCause::MemtableLimit => self.memtable_stops += 1,
                StallCause::PendingCompactionBytes => self.debt_stops += 1,
                StallCause::L0FileCountLimit => {
                    self.l0_stops += 1;
                    self.l0_stops_with_compaction += compacting;
                }
            },
        }
    }

    /// Delays of every cause.
    pub(crate) fn delays(&self) -> u64 {
        self.l0_delays + self.memtable_delays + self.debt_delays
    }

    /// Stops of every cause.
    pub(crate) fn stops(&self) -> u64 {
        self.l0_stops + self.memtable_stops + self.debt_stops
    }
}

/// Files that were taken in from outside.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IngestedNumbers {
    pub bytes: u64,
    pub files: u64,
    /// Of these, files in level 0.
    pub level0_files: u64,
    /// Entries.
    pub keys: u64,
}

/// Describes what was done for a family.
#[derive(Clone, Debug, Default)]
pub(crate) struct FamilyNumbers {
    /// By output level; flushes count for level 0.
    pub levels: Vec<JobNumbers>,
    /// Jobs of low priority: compactions.
    pub low: JobNumbers,
    /// Jobs of high priority: flushes.
    pub high: JobNumbers,
    /// Bytes of tables and of values in blob files written by flushes.
    pub flushed_bytes: u64,
    pub ingested: IngestedNumbers,
    /// Stalls.
    pub stalls: StallCounts,
}

impl FamilyNumbers {
    /// Bytes that came from memtables or from outside.
    pub(crate) fn taken_in_bytes(&self) -> u64 {
        self.flushed_bytes + self.ingested.bytes
    }
}

/// Describes what the last report of a family said, from which its interval counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FamilyReport {
    /// Nanoseconds of the monotonic clock; 0 before the first.
    pub at_nanos: u64,
    pub sum: JobNumbers,
    pub flushed_bytes: u64,
    pub ingested: IngestedNumbers,
}

/// Describes what was done for a family, and what was said about it.
pub(crate) struct FamilyCounters {
    numbers: Mutex<FamilyNumbers>,
    last: Mutex<FamilyReport>,
    /// Versions that were installed, as long as somebody holds them.
    versions: Mutex<Vec<Weak<Version>>>,
}

impl FamilyCounters {
    pub(crate) fn new(levels: usize) -> Self {
        Self {
            numbers: Mutex::new(
                rank::LEAF,
                FamilyNumbers {
                    levels: vec![JobNumbers::default(); levels],
                    ..FamilyNumbers::default()
                },
            ),
            last: Mutex::new(rank::LEAF, FamilyReport::default()),
            versions: Mutex::new(rank::LEAF, Vec::new()),
        }
    }

    /// Adds a flush.
    pub(crate) fn add_flush(&self, job: &JobNumbers) {
        let mut n = self.numbers.lock();
        if let Some(level) = n.levels.first_mut() {
            level.add(job);
        }
        n.high.add(job);
        n.flushed_bytes += job.written_bytes + job.blob_written_bytes;
    }

    /// Adds a compaction into `level`.
    pub(crate) fn add_compaction(&self, level: usize, job: &JobNumbers) {
        let mut n = self.numbers.lock();
        if let Some(level) = n.levels.get_mut(level) {
            level.add(job);
        }
        n.low.add(job);
    }

    /// Adds tables that were moved to `level` as they are.
    pub(crate) fn add_move(&self, level: usize, bytes: u64) {
        let mut n = self.numbers.lock();
        if let Some(level) = n.levels.get_mut(level) {
            level.moved_bytes += bytes;
        }
    }

    /// Adds a file that was taken in from outside, copied or linked.
    pub(crate) fn add_ingested(&self, level: usize, (bytes, keys): (u64, u64), is_linked: bool) {
        let mut n = self.numbers.lock();
        if let Some(level) = n.levels.get_mut(level) {
            level.jobs += 1;
            level.files_written += 1;
            match is_linked {
                true => level.moved_bytes += bytes,
                false => level.written_bytes += bytes,
            }
        }
        n.ingested.bytes += bytes;
        n.ingested.files += 1;
        n.ingested.level0_files += u64::from(level == 0);
        n.ingested.keys += keys;
    }

    /// Counts a look at the conditions of writes, if they are not normal.
    pub(crate) fn add_stall(&self, condition: StallCondition, compacting_l0: bool) {
        if condition != StallCondition::Normal {
            let mut n = self.numbers.lock();
            n.stalls.count(condition, compacting_l0);
        }
    }

    /// The numbers of now.
    pub(crate) fn numbers(&self) -> FamilyNumbers {
        self.numbers.lock().clone()
    }

    /// Takes note of the version that is installed.
    pub(crate) fn note_version(&self, version: &Arc<Version>) {
        let mut versions = self.versions.lock();
        let is_last = |last: &Weak<Version>| std::ptr::eq(last.as_ptr(), Arc::as_ptr(version));
        if !versions.last().is_some_and(is_last) {
            versions.retain(|v| v.strong_count() > 0);
            versions.push(Arc::downgrade(version));
        }
    }

    /// The installed version and those before it that somebody still holds. The caller drops them
    /// outside of locks that files are purged under.
    pub(crate) fn live_versions(&self) -> Vec<Arc<Version>> {
        self.versions
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Returns what was last reported.
    pub(crate) fn last_report(&self) -> FamilyReport {
        *self.last.lock()
    }

    /// Begins another interval with `report`; returns that with which the last one began.
    pub(crate) fn next_interval(&self, report: FamilyReport) -> FamilyReport {
        std::mem::replace(&mut *self.last.lock(), report)
    }
}
