//! Counts writes: always for properties, and for statistics and the perf context if somebody asked.

use crate::core::{Engine, Payload};
use spanlith_base::perf::{self, PerfCounter, PerfTime};
use spanlith_base::stats::{Histogram, Statistics, Ticker};

/// Describes what is known of a group that was written.
pub(super) struct GroupFacts {
    /// Calls that succeeded; at least one.
    pub writes: u64,
    /// Entries.
    pub keys: u64,
    /// Bytes of their batches.
    pub bytes: u64,
    pub is_logged: bool,
    pub is_synced: bool,
}

/// A write that is measured.
pub(super) struct Measured<'a> {
    statistics: &'a Statistics,
    began: Option<(&'a Statistics, u64)>,
    bytes: u64,
}

/// Bytes of a batch's header; a group has one in the log.
const HEADER: u64 = 12;

impl Engine {
    /// Begins a write that is measured; `None` if nobody wants times or sizes of it.
    #[cold]
    pub(super) fn begin_measured(&self, payload: &Payload<'_>) -> Option<Measured<'_>> {
        let statistics = self.c.statistics.as_deref()?;
        Some(Measured {
            statistics,
            began: self.timed(),
            bytes: payload.bytes() as u64,
        })
    }

    /// Ends a write that is measured.
    #[cold]
    pub(super) fn end_measured(&self, m: &Measured<'_>) {
        self.record_since(m.began, Histogram::DbWriteMicros);
        m.statistics.record(Histogram::BytesPerWrite, m.bytes);
    }

    /// Measures a part of a write until the result is dropped, if the perf context wants times.
    #[inline]
    pub(super) fn perf_time(&self, counter: PerfCounter) -> Option<impl Drop + use<>> {
        perf::is_timed(PerfTime::Work).then(|| {
            let clock = self.c.env.clock.clone();
            perf::timer(counter, PerfTime::Work, move || clock.monotonic_nanos())
        })
    }

    /// Counts a group. Requires: leadership.
    #[inline]
    pub(super) fn count_group(&self, g: &GroupFacts) {
        let c = &self.counters;
        c.writes.add_alone(g.writes);
        c.keys.add_alone(g.keys);
        c.bytes.add_alone(g.bytes);
        if g.writes != 1 {
            c.led.add_alone(g.writes - 1);
        }
        if !g.is_logged {
            c.unlogged_writes.add_alone(g.writes);
            c.unlogged_bytes.add_alone(g.bytes);
        } else if g.writes != 1 {
            c.unlogged_bytes.add_alone(g.bytes - log_bytes(g));
        }
        if g.is_synced {
            c.wal_syncs.add_alone(1);
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

#[inline]
fn log_bytes(g: &GroupFacts) -> u64 {
    g.bytes - HEADER * (g.writes - 1).min(g.bytes / HEADER)
}

#[cold]
fn count(s: &Statistics, g: &GroupFacts) {
    s.add(Ticker::NumberKeysWritten, g.keys);
    s.add(Ticker::BytesWritten, g.bytes);
    s.add(Ticker::WriteSelf, 1);
    s.add(Ticker::WriteOther, g.writes - 1);
    if g.is_synced {
        s.add(Ticker::WalSynced, 1);
    }
    if g.is_logged {
        s.add(Ticker::WriteWal, g.writes);
        s.add(Ticker::WalBytes, log_bytes(g));
    }
}
