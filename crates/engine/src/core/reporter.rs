//! The one part that says what happens: to the info log, to listeners and to statistics.
//!
//! It owns nothing that a write or a read changes. What listeners are to hear of changes under the state mutex is noted
//! in it, and told once the locks are released ([`Reporter::tell_stalls`]). Threads: any. Its lock is a leaf.

use super::purge::Obsolete;
use super::state::{FamilyState, rank};
use super::{Family, StatsHistory, SuperVersion};
use crate::filter::TableCreation;
use crate::info_log::InfoLog;
use crate::info_log::events::TableFileDeletion;
use crate::listener::{
    BlobFileDeletionInfo, Listeners, TableFileDeletionInfo, WriteStall, WriteStallInfo,
};
use crate::version::filenames;
use spanlith_base::perf;
use spanlith_base::stats::{Histogram, Statistics, Ticker};
use spanlith_base::sync::{Mutex, MutexGuard};
use spanlith_base::{Error, ErrorKind, Severity};
use spanlith_env::Clock;
use spanlith_pace::StallCondition;
use spanlith_table::WriteCounters;
use std::cell::RefCell;
use std::path::Path;
use std::sync::{Arc, Weak};

/// Superversions that a thread remembers; old ones of many families are counted again.
const TAKEN_MAX: usize = 64;

/// See the head of the module.
pub(crate) struct Reporter {
    log: Arc<InfoLog>,
    listeners: Arc<Listeners>,
    /// Counters that somebody asked for.
    statistics: Option<Arc<Statistics>>,
    /// Counters at regular times.
    history: Mutex<StatsHistory>,
    clock: Arc<dyn Clock>,
    /// Families whose writes are treated differently, which listeners have not heard of yet. Empty without listeners.
    stalls: Mutex<Vec<WriteStallInfo>>,
}

fn public(condition: StallCondition) -> WriteStall {
    match condition {
        StallCondition::Normal => WriteStall::Normal,
        StallCondition::Delayed(_) => WriteStall::Delayed,
        StallCondition::Stopped(_) => WriteStall::Stopped,
    }
}

impl Reporter {
    /// Reports to these from now on.
    pub(crate) fn new(
        log: Arc<InfoLog>,
        listeners: Arc<Listeners>,
        statistics: Option<Arc<Statistics>>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            log,
            listeners,
            statistics,
            history: Mutex::new(rank::LEAF, StatsHistory::default()),
            clock,
            stalls: Mutex::new(rank::LEAF, Vec::new()),
        }
    }

    /// The file `LOG`.
    pub(crate) fn log(&self) -> &Arc<InfoLog> {
        &self.log
    }

    /// Those who are told what happens.
    pub(crate) fn listeners(&self) -> &Listeners {
        &self.listeners
    }

    /// Counters, if somebody asked for them.
    #[inline]
    pub(crate) fn statistics(&self) -> Option<&Statistics> {
        self.statistics.as_deref()
    }

    /// As [`Self::statistics`], for parts that outlive a call.
    pub(crate) fn shared_statistics(&self) -> Option<Arc<Statistics>> {
        self.statistics.clone()
    }

    /// Counters that are kept at regular times. A leaf lock.
    pub(crate) fn history(&self) -> MutexGuard<'_, StatsHistory> {
        self.history.lock()
    }

    /// Says in the info log which options a family has; `before` families were described.
    pub(crate) fn describe_family(&self, family: &Family, before: usize) {
        let s = family.settings();
        let cache = family.cache.readers.cache.as_ref();
        let tables = (&s.table_options, cache);
        self.log()
            .dump_cf_options(&family.name, before, &s.options, tables);
    }

    /// Adds one to a counter, if there are any.
    pub(crate) fn tick(&self, ticker: Ticker) {
        if let Some(s) = &self.statistics {
            s.add(ticker, 1);
        }
    }

    /// Counts an error of background work of that class.
    pub(super) fn count_error(&self, error: &Error, class: Severity) {
        self.tick(Ticker::ErrorHandlerBgErrorCount);
        if error.kind() == ErrorKind::Io {
            self.tick(Ticker::ErrorHandlerBgIoErrorCount);
            if class < Severity::Fatal {
                self.tick(Ticker::ErrorHandlerBgRetryableIoErrorCount);
            }
        }
    }

    /// Takes note of a family's stall condition after it was computed anew; `rate` tells that of
    /// delayed writes, in bytes per second.
    pub(super) fn note_stall(
        &self,
        f: &FamilyState,
        previous: StallCondition,
        rate: impl FnOnce() -> u64,
    ) {
        if f.stall != StallCondition::Normal {
            let compacting = f
                .compaction
                .running()
                .iter()
                .any(|r| r.input_levels.contains(&0));
            f.family.counters.add_stall(f.stall, compacting);
        }
        let (current, previous) = (public(f.stall), public(previous));
        if current == previous {
            return;
        }
        let name = &f.family.name;
        match current {
            WriteStall::Normal => self.log.info(format_args!("[{name}] Writes go on")),
            WriteStall::Delayed => self.log.warn(format_args!(
                "[{name}] Stalling writes: {:?}, {} immutable memtables, {} level-0 files, rate {}",
                f.stall,
                f.imm.len(),
                f.version.num_files(0),
                rate(),
            )),
            WriteStall::Stopped => self.log.warn(format_args!(
                "[{name}] Stopping writes: {:?}, {} immutable memtables, {} level-0 files",
                f.stall,
                f.imm.len(),
                f.version.num_files(0),
            )),
        }
        if !self.listeners.is_empty() {
            self.stalls.lock().push(WriteStallInfo {
                cf_name: name.clone(),
                current,
                previous,
            });
        }
    }

    /// Tells listeners which families' writes are treated differently. The caller holds neither the state mutex nor the
    /// manifest token.
    pub(crate) fn tell_stalls(&self) {
        if self.listeners.is_empty() {
            return;
        }
        let stalls = std::mem::take(&mut *self.stalls.lock());
        for info in stalls {
            self.listeners.on_stall_conditions_changed(|| info);
        }
    }

    /// Says that a file of the database in `dir` was deleted.
    pub(crate) fn note_deleted(&self, file: &Obsolete, dir: &Path) {
        let (job, number) = (0, file.number);
        if file.is_blob_file {
            self.log.blob_file_deletion(job, number);
            self.listeners
                .on_blob_file_deleted(|| BlobFileDeletionInfo {
                    path: file.path().to_path_buf(),
                    number,
                });
            return;
        }
        self.log.table_file_deletion(&TableFileDeletion {
            job,
            file_number: number,
            result: &Ok(()),
        });
        self.tick(Ticker::FilesDeletedImmediately);
        self.listeners
            .on_table_file_deleted(|| TableFileDeletionInfo {
                path: dir.join(filenames::table_file_name(number)),
                job,
                result: Ok(()),
            });
    }

    /// Returns whether the calling thread's operations are measured for anyone.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.statistics().is_some() || perf::is_on()
    }

    /// Nanoseconds of the monotonic clock if statistics want times.
    pub(crate) fn timed(&self) -> Option<(&Statistics, u64)> {
        let s = self.statistics().filter(|s| s.wants_times())?;
        Some((s, self.clock.monotonic_nanos()))
    }

    /// Records how long something took that began with [`Self::timed`].
    pub(crate) fn record_since(&self, began: Option<(&Statistics, u64)>, histogram: Histogram) {
        if let Some((s, at)) = began {
            let took = self.clock.monotonic_nanos().saturating_sub(at);
            s.record_time(histogram, took / 1000);
        }
    }

    /// Returns who counts what writing a table costs, if anybody does.
    pub(crate) fn write_counters(&self, creation: TableCreation) -> Option<WriteCounters> {
        use Histogram::{
            CompactionOutfileSyncMicros, FileWriteCompactionMicros, FileWriteDbOpenMicros,
            FileWriteFlushMicros, TableSyncMicros,
        };
        let (writes, syncs) = match creation {
            TableCreation::Flush => (FileWriteFlushMicros, TableSyncMicros),
            TableCreation::Recovery => (FileWriteDbOpenMicros, TableSyncMicros),
            TableCreation::Compaction => (FileWriteCompactionMicros, CompactionOutfileSyncMicros),
        };
        Some(WriteCounters {
            statistics: self.statistics.clone()?,
            clock: self.clock.clone(),
            writes,
            syncs,
        })
    }

    /// Counts that the calling thread takes a superversion for the first time.
    pub(crate) fn count_superversion(&self, superversion: &Arc<SuperVersion>) {
        if let Some(s) = self.statistics()
            && is_new_here(superversion)
        {
            s.add(Ticker::NumberSuperversionAcquires, 1);
        }
    }
}

thread_local! {
    /// The superversions that the calling thread has taken, one of each family, the latest first.
    static TAKEN: RefCell<Vec<Weak<SuperVersion>>> = const { RefCell::new(Vec::new()) };
}

/// Returns whether the calling thread takes the superversion for the first time.
fn is_new_here(superversion: &Arc<SuperVersion>) -> bool {
    // A thread that is being torn down has no locals any more.
    let is_new = TAKEN.try_with(|taken| {
        let mut taken = taken.borrow_mut();
        let is_same = |w: &Weak<SuperVersion>| std::ptr::eq(w.as_ptr(), Arc::as_ptr(superversion));
        if taken.iter().any(is_same) {
            return false;
        }
        taken.retain(|w| w.strong_count() > 0);
        taken.insert(0, Arc::downgrade(superversion));
        taken.truncate(TAKEN_MAX);
        true
    });
    is_new.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_env::{Env, MemFs};

    #[test]
    fn an_error_of_the_disk_that_may_go_away_counts_three_times() {
        let clock = Env::test(Arc::new(MemFs::new()), 1).0.clock;
        let counted = |error: &Error, class| {
            let statistics = Arc::new(Statistics::default());
            let counters = Some(statistics.clone());
            let reporter = Reporter::new(InfoLog::none(), Arc::default(), counters, clock.clone());
            reporter.count_error(error, class);
            [
                Ticker::ErrorHandlerBgErrorCount,
                Ticker::ErrorHandlerBgIoErrorCount,
                Ticker::ErrorHandlerBgRetryableIoErrorCount,
            ]
            .map(|t| statistics.ticker(t))
        };
        assert_eq!(counted(&Error::io("x"), Severity::Hard), [1, 1, 1]);
        assert_eq!(counted(&Error::io("x"), Severity::Fatal), [1, 1, 0]);
        assert_eq!(counted(&Error::corruption("x"), Severity::Hard), [1, 0, 0]);
    }
}
