//! Whether operations are measured, for statistics or for the calling thread's perf context.

use super::Engine;
use crate::filter::TableCreation;
use spanlith_base::perf;
use spanlith_base::stats::{Histogram, Statistics};
use spanlith_table::WriteCounters;

impl Engine {
    /// Whether the calling thread's operations are measured for anyone.
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

    /// Who counts what writing a table costs, if anybody does.
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
}
