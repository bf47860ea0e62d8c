//! Says whether operations are measured, for statistics or for the calling thread's perf context.

use super::{Engine, SuperVersion};
use crate::filter::TableCreation;
use spanlith_base::perf;
use spanlith_base::stats::{Histogram, Statistics, Ticker};
use spanlith_table::WriteCounters;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

/// Superversions that a thread remembers; old ones of many families are counted again.
const TAKEN_MAX: usize = 64;

impl Engine {
    /// Returns whether the calling thread's operations are measured for anyone.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.c.statistics.is_some() || perf::is_on()
    }

    /// Nanoseconds of the monotonic clock if statistics want times.
    pub(crate) fn timed(&self) -> Option<(&Statistics, u64)> {
        let s = self.c.statistics.as_deref().filter(|s| s.wants_times())?;
        Some((s, self.c.env.clock.monotonic_nanos()))
    }

    /// Records how long something took that began with [`Self::timed`].
    pub(crate) fn record_since(&self, began: Option<(&Statistics, u64)>, histogram: Histogram) {
        if let Some((s, at)) = began {
            let took = self.c.env.clock.monotonic_nanos().saturating_sub(at);
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
            statistics: self.c.statistics.clone()?,
            clock: self.c.env.clock.clone(),
            writes,
            syncs,
        })
    }

    /// Counts that the calling thread takes a superversion for the first time.
    pub(crate) fn count_superversion(&self, superversion: &Arc<SuperVersion>) {
        if let Some(s) = &self.c.statistics
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
