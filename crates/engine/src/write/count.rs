//! Counts writes: always for properties, and for statistics and the perf context if somebody asked.

use super::WriteOptions;
use crate::core::{Engine, Payload};
use spanlith_base::perf::{self, PerfCounter, PerfTime};
use spanlith_base::stats::{Histogram, Statistics, Ticker};
use spanlith_base::{Result, SequenceNumber};
use std::sync::Arc;

/// What is known of a group that was written.
pub(super) struct GroupFacts {
    /// Calls that succeeded.
    pub writes: u64,
    /// Entries.
    pub keys: u64,
    /// Bytes of their batches.
    pub bytes: u64,
    pub is_logged: bool,
    pub is_synced: bool,
}

/// Bytes of a batch's header; a group has one in the log.
const HEADER: u64 = 12;

impl Engine {
    /// Whether the calling thread's operations are measured for anyone.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.c.statistics.is_some() || perf::level() > 1
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

    /// A write that is measured.
    #[cold]
    pub(super) fn submit_timed(
        self: &Arc<Self>,
        payload: Payload<'_>,
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        let began = self.timed();
        let bytes = payload.bytes() as u64;
        let result = self.submit_now(payload, options);
        self.record_since(began, Histogram::DbWriteMicros);
        if let Some(s) = &self.c.statistics {
            s.record(Histogram::BytesPerWrite, bytes);
        }
        result
    }

    /// Counts a group. Requires: leadership.
    #[inline]
    pub(super) fn count_group(&self, g: &GroupFacts) {
        let c = &self.counters;
        c.writes.add_alone(g.writes);
        c.keys.add_alone(g.keys);
        c.groups.add_alone(1);
        c.bytes.add_alone(g.bytes);
        if g.is_logged {
            c.wal_writes.add_alone(g.writes);
            c.wal_bytes.add_alone(log_bytes(g));
            c.wal_syncs.add_alone(u64::from(g.is_synced));
        }
        if let Some(s) = &self.c.statistics {
            count(s, g);
        }
    }

    /// Counts time that a writer was made to wait.
    pub(super) fn count_stall(&self, nanos: u64) {
        self.counters.stall_micros.add(nanos / 1000);
        if perf::is_timed(PerfTime::Wait) {
            perf::add(PerfCounter::WriteDelayTime, nanos);
        }
        if let Some(s) = &self.c.statistics {
            s.add(Ticker::StallMicros, nanos / 1000);
            s.record_time(Histogram::DbWriteStall, nanos / 1000);
        }
    }
}

fn log_bytes(g: &GroupFacts) -> u64 {
    g.bytes - HEADER * (g.writes - 1).min(g.bytes / HEADER)
}

#[cold]
fn count(s: &Statistics, g: &GroupFacts) {
    s.add(Ticker::NumberKeysWritten, g.keys);
    s.add(Ticker::BytesWritten, g.bytes);
    s.add(Ticker::WriteSelf, 1);
    s.add(Ticker::WriteOther, g.writes - 1);
    if g.is_logged {
        s.add(Ticker::WriteWal, g.writes);
        s.add(Ticker::WalBytes, log_bytes(g));
    }
}
