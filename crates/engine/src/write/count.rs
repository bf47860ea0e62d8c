//! Counts writes: always for properties, and for statistics and the perf context if somebody asked; and the time of those
//! that wait or are measured.

use super::measured::Measured;
use crate::commit::Entries;
use crate::core::{DbCounters, Lsm, Part, Parts, Payload, Reporter, StallCondition, WaitCause};
use spanlith_base::perf::{self, PerfCounter, PerfTime};
use spanlith_base::stats::{Histogram, Statistics, Ticker};
use spanlith_env::Clock;
use spanlith_pace::Stage;
use std::fmt::Write as _;
use std::sync::Arc;

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

/// Bytes of a batch's header; a group has one in the log.
const HEADER: u64 = 12;

impl Reporter {
    /// Begins a write that is measured; `None` if nobody wants times or sizes of it.
    #[cold]
    pub(super) fn begin_measured(&self, payload: &Payload<'_>) -> Option<Measured<'_>> {
        let statistics = self.statistics()?;
        Some(Measured {
            statistics,
            began: self.timed(),
            bytes: payload.bytes() as u64,
            parts: Parts::default(),
        })
    }
}

/// Counts what writers wait for, and says in the info log when one was slow.
pub(crate) struct WriteWaits<'a> {
    lsm: &'a Lsm,
}

impl<'a> WriteWaits<'a> {
    /// Of writes to these trees.
    pub(crate) fn new(lsm: &'a Lsm) -> Self {
        Self { lsm }
    }

    /// Ends a write that is measured.
    #[cold]
    pub(super) fn end(&self, m: Measured<'_>) {
        self.lsm
            .reporter
            .record_since(m.began, Histogram::DbWriteMicros);
        m.statistics.record(Histogram::BytesPerWrite, m.bytes);
        if let Some((_, began)) = m.began {
            let now = self.lsm.c.env.clock.monotonic_nanos();
            let total = now.saturating_sub(began);
            let mut parts = m.parts;
            parts.close(total);
            if self.lsm.throttle.times().measured(now, &parts) {
                self.tell_slow_write(total, Some(&parts));
            }
        }
    }

    /// Counts time that a writer was made to wait.
    pub(super) fn count(&self, nanos: u64, cause: WaitCause) {
        self.lsm.counters.stall_micros.add(nanos / 1000);
        if perf::is_timed(PerfTime::Wait) {
            perf::add(PerfCounter::WriteDelayTime, nanos);
        }
        if let Some(s) = self.lsm.reporter.statistics() {
            s.add(Ticker::StallMicros, nanos / 1000);
            s.record_time(Histogram::DbWriteStall, nanos / 1000);
        }
        let (times, now) = (
            self.lsm.throttle.times(),
            self.lsm.c.env.clock.monotonic_nanos(),
        );
        times.waited(now, cause, nanos, self.lsm.counters.bytes.get());
        // A write that is measured is judged at its end, with its parts.
        let is_measured = (self.lsm.reporter.statistics()).is_some_and(Statistics::wants_times);
        if !is_measured && times.is_slow(now, nanos) {
            self.tell_slow_write(nanos, None);
        }
    }

    /// Why the gate holds writers back now.
    pub(super) fn cause(&self) -> WaitCause {
        let state = self.lsm.state.lock();
        let all = state.families.values().map(|f| f.stall);
        match all.max_by_key(|s| s.severity()) {
            Some(StallCondition::Delayed(cause) | StallCondition::Stopped(cause)) => {
                WaitCause::Rule(cause)
            }
            _ => WaitCause::Other,
        }
    }

    /// Returns policy and pace in a line, and under `smooth` the pressures of the family that is worst off.
    fn pace_text(&self) -> String {
        let policy = self.lsm.options().own.write_throttle_policy;
        let mut text = format!(
            "policy {}, pace {} bytes/s",
            policy.name(),
            self.lsm.throttle.pace(&self.lsm.families.load())
        );
        let set = self.lsm.families.load_full();
        let decisions = set.iter().map(|f| (f, f.pacer.decision().0));
        let worst =
            decisions.max_by(|a, b| a.1.pressure.worst().1.total_cmp(&b.1.pressure.worst().1));
        if let Some((family, decision)) = worst.filter(|_| self.lsm.throttle.is_smooth()) {
            let _ = write!(text, " [{}]", family.name);
            for stage in Stage::ALL {
                let pressure = decision.pressure.get(stage);
                let _ = write!(text, " {} {pressure:.2}", stage.name());
            }
        }
        text
    }

    /// Returns how fast writers may go now, and where their time went, for the dump of statistics.
    pub(crate) fn text(&self) -> String {
        let n = self.lsm.throttle.times().numbers();
        let mut text = format!("\nWrite pace: {}\nWrite waits:", self.pace_text());
        for (cause, nanos) in WaitCause::ALL.iter().zip(n.waited) {
            // The first one is always there, so that the line says something.
            if nanos > 0 || *cause == WaitCause::Pace {
                let _ = write!(text, " {} {:.3} s,", cause.name(), nanos as f64 / 1e9);
            }
        }
        let longest = n.longest_nanos as f64 / 1e9;
        let _ = write!(
            text,
            " longest on purpose {longest:.3} s; {} slow writes",
            n.slow
        );
        if n.timed > 0 {
            let _ = write!(text, "\nWrite parts, mean of {}:", n.timed);
            for (part, nanos) in Part::ALL.iter().zip(n.parts) {
                let mean = nanos as f64 / n.timed as f64 / 1e3;
                let _ = write!(text, " {} {mean:.1} us", part.name());
            }
        }
        text
    }

    /// Says in the info log what went on while a write was slow. Not to be called with a lock.
    #[cold]
    fn tell_slow_write(&self, nanos: u64, parts: Option<&Parts>) {
        let mut text = String::new();
        let us = |nanos: u64| nanos / 1000;
        // Writing to a string does not fail, here and below.
        if let Some(parts) = parts {
            let shares = Part::ALL.map(|p| format!("{} {}", p.name(), us(parts.get(p))));
            let _ = write!(text, " ({})", shares.join(", "));
        }
        let n = self.lsm.throttle.times().numbers();
        let usual = us(n.usual_nanos);
        if usual > 0 {
            let _ = write!(text, ", usual {usual} us");
        }
        let _ = write!(text, "; {}", self.pace_text());
        let (flushes, compactions) = {
            let state = self.lsm.state.lock();
            (state.jobs.flushes(), state.jobs.compactions_running())
        };
        let _ = write!(
            text,
            "; {flushes} flushes, {compactions} compactions; waited"
        );
        for (cause, nanos) in WaitCause::ALL.iter().zip(n.waited) {
            if nanos > 0 {
                let _ = write!(text, " {} {:.3} s", cause.name(), nanos as f64 / 1e9);
            }
        }
        let e = &n.even;
        self.lsm.reporter.log().warn(format_args!(
            "Slow write: {} us{text}, longest {:.3} s, {} slow; windows {}, below half {}, below a tenth {}, longest gap {}",
            us(nanos),
            n.longest_nanos as f64 / 1e9,
            n.slow,
            e.windows,
            e.below_half,
            e.below_tenth,
            e.longest_gap
        ));
    }
}

/// Measures a part of a write until the result is dropped, if the perf context wants times.
#[inline]
pub(super) fn perf_time(clock: &Arc<dyn Clock>, counter: PerfCounter) -> Option<impl Drop + use<>> {
    perf::is_timed(PerfTime::Work).then(|| {
        let clock = clock.clone();
        perf::timer(counter, PerfTime::Work, move || clock.monotonic_nanos())
    })
}

impl DbCounters {
    /// Counts a group. Requires: leadership.
    #[inline]
    pub(super) fn count_group(&self, reporter: &Reporter, g: &GroupFacts) {
        let c = self;
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
        if let Some(s) = reporter.statistics() {
            count(s, g);
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
