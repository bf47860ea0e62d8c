//! Background writes give way to the log.
//!
//! A speed disk counts the writes of logs that are under way and, once somebody asks, how long durable ones take: a cached
//! write costs next to nothing, and what a flush costs depends on what is in front of it. Who writes a
//! table to the same disk does so in pieces of [`PIECE_BYTES`] and waits before each one while a write of a log is
//! under way: for as long as four durable ones take on average, and a millisecond at most, so that it always goes on.

use spanlith_env::Clock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Largest write of a table between two looks at the log.
pub const PIECE_BYTES: usize = 64 << 10;

/// Longest wait before a piece, in nanoseconds.
const WAIT_MAX: u64 = 1_000_000;
/// Time between two looks, in nanoseconds.
const STEP: u64 = 50_000;
/// Nanoseconds after a durable write for which the next is expected.
const JUST_NOW: u64 = 10_000_000;
/// A new duration moves the average by one part of these.
const WEIGHT: u64 = 16;
/// Nanoseconds after the last durable write for which the average says something of the load.
const RECENT: u64 = 10_000_000_000;

/// Knows whether a log is written. All atomics are Relaxed: they order nothing.
#[derive(Default)]
pub struct LogGate {
    under_way: AtomicU32,
    /// Average of nanoseconds; 0: nothing measured.
    average: AtomicU64,
    /// When the last measured write ended.
    measured: AtomicU64,
    /// Measures the writes, once tables share the disk.
    clock: OnceLock<Arc<dyn Clock>>,
}

impl std::fmt::Debug for LogGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogGate")
            .field("under_way", &self.under_way)
            .field("average", &self.average)
            .finish_non_exhaustive()
    }
}

/// A write of a log that is under way.
pub(crate) struct UnderWay<'a> {
    gate: &'a LogGate,
    began: Option<u64>,
}

impl LogGate {
    /// Measures from now on how long durable writes of logs take.
    pub fn measure(&self, clock: &Arc<dyn Clock>) {
        // The first clock is as good as another.
        let _ = self.clock.set(clock.clone());
    }

    /// Returns whether a write of a log is under way.
    pub fn is_busy(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0
    }

    /// Nanoseconds that a durable write of a log takes on average; 0 before the first one.
    fn average_nanos(&self) -> u64 {
        self.average.load(Ordering::Relaxed)
    }

    /// The same, if there was such a write in the last ten seconds: without any, nothing is known of the load.
    pub fn recent_nanos(&self, now: u64) -> Option<u64> {
        let passed = now.saturating_sub(self.measured.load(Ordering::Relaxed));
        let average = self.average_nanos();
        (average > 0 && passed <= RECENT).then_some(average)
    }

    /// Returns whether a durable write of a log is under way, or has ended just now: others follow it.
    pub(crate) fn is_active(&self, now: u64) -> bool {
        let ended = self.measured.load(Ordering::Relaxed);
        self.is_busy() || now.saturating_sub(ended) <= JUST_NOW && ended != 0
    }

    /// Waits as long as a piece took that went to the storage of a log which is written, and not for long: the other half of
    /// the time is the log's.
    pub(crate) fn share(&self, clock: &dyn Clock, took: u64, now: u64) {
        if self.is_active(now) {
            clock.sleep(Duration::from_nanos(took.min(WAIT_MAX)));
        }
    }

    /// A write of a log begins; it ends when the answer is dropped. A durable one is measured.
    pub(crate) fn enter(&self, is_durable: bool) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let clock = self.clock.get().filter(|_| is_durable);
        UnderWay {
            gate: self,
            began: clock.map(|clock| clock.monotonic_nanos()),
        }
    }

    /// Waits while a log is written, and not for long. Returns the nanoseconds that it waited.
    pub fn give_way(&self, clock: &dyn Clock) -> u64 {
        if !self.is_busy() {
            return 0;
        }
        let most = (4 * self.average_nanos()).clamp(STEP, WAIT_MAX);
        let began = clock.monotonic_nanos();
        loop {
            clock.sleep(Duration::from_nanos(STEP));
            let waited = clock.monotonic_nanos().saturating_sub(began);
            if !self.is_busy() || waited >= most {
                return waited;
            }
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.gate.under_way.fetch_sub(1, Ordering::Relaxed);
        let clock = self.gate.clock.get();
        if let Some((clock, began)) = clock.zip(self.began) {
            let now = clock.monotonic_nanos();
            let took = now.saturating_sub(began).max(1);
            self.gate.measured.store(now, Ordering::Relaxed);
            let average = self.gate.average.load(Ordering::Relaxed);
            // A duration that another thread stored meanwhile may be lost.
            let new = match average {
                0 => took,
                _ => (average * (WEIGHT - 1) + took) / WEIGHT,
            };
            self.gate.average.store(new.max(1), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_env::{Env, MemFs};

    #[test]
    fn a_free_log_costs_nothing_and_a_busy_one_a_bounded_wait() {
        let clock = Env::test(Arc::new(MemFs::new()), 1).0.clock;
        let gate = LogGate::default();
        assert_eq!(gate.give_way(&*clock), 0);
        // Nothing was measured: one step.
        let under_way = gate.enter(true);
        assert_eq!(gate.give_way(&*clock), STEP);
        drop(under_way);
        assert_eq!((gate.give_way(&*clock), gate.average_nanos()), (0, 0));
        gate.measure(&clock);
        let under_way = gate.enter(true);
        clock.sleep(Duration::from_micros(100));
        drop(under_way);
        assert_eq!(gate.average_nanos(), 100_000);
        let under_way = gate.enter(true);
        assert_eq!(gate.give_way(&*clock), 400_000);
        clock.sleep(Duration::from_millis(50));
        drop(under_way);
        // However slow the log is, a piece waits a millisecond.
        let _under_way = gate.enter(true);
        assert_eq!(gate.give_way(&*clock), WAIT_MAX);
    }

    #[test]
    fn durable_writes_alone_are_measured_and_count_for_a_while() {
        let clock = Env::test(Arc::new(MemFs::new()), 1).0.clock;
        let gate = LogGate::default();
        gate.measure(&clock);
        let write = |is_durable, micros| {
            let under_way = gate.enter(is_durable);
            assert!(gate.is_busy());
            clock.sleep(Duration::from_micros(micros));
            drop(under_way);
            gate.recent_nanos(clock.monotonic_nanos())
        };
        assert_eq!(write(false, 1), None);
        assert_eq!(write(true, 100), Some(100_000));
        assert_eq!(write(false, 1), Some(100_000));
        assert_eq!(write(false, 9_000_000), Some(100_000));
        assert_eq!(write(false, 2_000_000), None, "nobody knows any more");
        assert_eq!(write(true, 100), Some(100_000));
    }
}
