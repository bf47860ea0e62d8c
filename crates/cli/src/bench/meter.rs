//! Counts and times operations of many threads without slowing them down.
//!
//! Each thread gathers samples in a buffer of its own and hands them over when the buffer is full or
//! 50 ms have passed, so that a lock is taken once in hundreds of operations. The reporter takes
//! what was handed over since its last look, and everything at the end.

use super::histogram::Histogram;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SAMPLES: usize = 512;
const HAND_OVER: Duration = Duration::from_millis(50);

/// What a thread did.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Latencies of calls, in nanoseconds.
    pub latency: Histogram,
    /// Operations; a call may be several.
    pub ops: u64,
    /// Bytes of keys and values written or read.
    pub bytes: u64,
    /// Keys that were looked up.
    pub looked_up: u64,
    /// Those of them that were there.
    pub found: u64,
    /// Time spent, summed over threads.
    pub busy: Duration,
}

impl Tally {
    /// Adds another.
    pub fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.merge_counts(other);
    }

    /// Adds the counts, not the latencies, of another.
    fn merge_counts(&mut self, other: &Self) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.looked_up += other.looked_up;
        self.found += other.found;
        self.busy += other.busy;
    }

    fn clear_counts(&mut self) {
        (self.ops, self.bytes, self.looked_up, self.found) = (0, 0, 0, 0);
        self.busy = Duration::ZERO;
    }

    fn clear(&mut self) {
        self.latency.clear();
        self.clear_counts();
    }
}

/// Where one thread hands over.
#[derive(Debug, Default)]
struct Slot {
    total: Tally,
    /// Since the last look.
    recent: Tally,
}

/// The slots of all threads, and when to stop.
#[derive(Debug)]
pub struct Board {
    slots: Vec<Mutex<Slot>>,
    /// Operations still to be handed out.
    budget: AtomicU64,
    stop: AtomicBool,
}

impl Board {
    /// A board for `threads` threads that do `budget` operations together.
    pub fn new(threads: usize, budget: u64) -> Self {
        Self {
            slots: (0..threads).map(|_| Mutex::default()).collect(),
            budget: AtomicU64::new(budget),
            stop: AtomicBool::new(false),
        }
    }

    /// Tells all threads to stop. Publishes nothing else.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The meter of thread `index`.
    pub fn meter(&self, index: usize) -> Meter<'_> {
        let now = Instant::now();
        Meter {
            board: self,
            slot: &self.slots[index],
            samples: Vec::with_capacity(SAMPLES),
            tally: Tally::default(),
            last: now,
            handed: now,
            grant: 0,
        }
    }

    fn gather(&self, mut f: impl FnMut(&mut Slot)) {
        for slot in &self.slots {
            f(&mut slot
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner));
        }
    }

    /// What was handed over since the last call.
    pub fn recent(&self) -> Tally {
        let mut out = Tally::default();
        self.gather(|slot| {
            out.merge(&slot.recent);
            slot.recent.clear();
        });
        out
    }

    /// Operations handed over so far.
    pub fn done(&self) -> u64 {
        let mut ops = 0;
        self.gather(|slot| ops += slot.total.ops);
        ops
    }

    /// Everything, once the threads are done.
    pub fn total(&self) -> Tally {
        let mut out = Tally::default();
        self.gather(|slot| out.merge(&slot.total));
        out
    }
}

/// One thread's stopwatch.
#[derive(Debug)]
pub struct Meter<'a> {
    board: &'a Board,
    slot: &'a Mutex<Slot>,
    samples: Vec<u64>,
    tally: Tally,
    /// End of the last call, begin of the next.
    last: Instant,
    handed: Instant,
    /// Operations granted and not done.
    grant: u64,
}

impl Meter<'_> {
    /// Starts the clock of the next call again, after preparations that do not count.
    pub fn restart(&mut self) {
        self.last = Instant::now();
    }

    /// Whether another call of `ops` operations may be made.
    #[inline]
    pub fn go_on(&mut self, ops: u64) -> bool {
        if self.board.stop.load(Ordering::Relaxed) {
            return false;
        }
        if self.grant >= ops {
            self.grant -= ops;
            return true;
        }
        self.refill(ops)
    }

    /// Takes a share of the budget, in whole calls.
    #[cold]
    fn refill(&mut self, ops: u64) -> bool {
        let want = ops * (256 / ops).max(1);
        let take = |left: u64| (left > 0).then(|| left.saturating_sub(want));
        let budget = &self.board.budget;
        match budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(left) => {
                self.grant += left.min(want).next_multiple_of(ops) - ops;
                true
            }
            Err(_) => false,
        }
    }

    /// Notes that a call that looked for `keys` keys is over.
    #[inline]
    pub fn looked_up(&mut self, keys: u64, found: u64, bytes: u64) {
        self.tally.looked_up += keys;
        self.tally.found += found;
        self.done(keys, bytes);
    }

    /// Notes that a call of `ops` operations is over.
    #[inline]
    pub fn done(&mut self, ops: u64, bytes: u64) {
        let now = Instant::now();
        let took = now - self.last;
        self.last = now;
        self.samples
            .push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        self.tally.ops += ops;
        self.tally.bytes += bytes;
        self.tally.busy += took;
        if self.samples.len() == SAMPLES || now - self.handed > HAND_OVER {
            self.hand_over(now);
        }
    }

    #[cold]
    fn hand_over(&mut self, now: Instant) {
        self.handed = now;
        let mut slot = self
            .slot
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let Slot { total, recent } = &mut *slot;
        for tally in [total, recent] {
            self.samples.iter().for_each(|&ns| tally.latency.add(ns));
            tally.merge_counts(&self.tally);
        }
        drop(slot);
        self.samples.clear();
        self.tally.clear_counts();
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        self.hand_over(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_operations_are_counted_once_and_the_budget_holds() {
        let board = Board::new(3, 10_000);
        std::thread::scope(|scope| {
            for n in 0..3 {
                let board = &board;
                scope.spawn(move || {
                    let mut meter = board.meter(n);
                    while meter.go_on(1) {
                        meter.looked_up(1, 1, 10);
                    }
                });
            }
        });
        let total = board.total();
        assert_eq!(
            (total.ops, total.bytes, total.found),
            (10_000, 100_000, 10_000)
        );
        assert_eq!(total.latency.count(), 10_000);
        assert_eq!(board.recent().ops, 10_000);
        assert_eq!(board.recent().ops, 0);
    }

    #[test]
    fn the_last_call_is_made_whole() {
        let board = Board::new(1, 2000);
        let mut meter = board.meter(0);
        let mut calls = 0;
        while meter.go_on(32) {
            calls += 1;
        }
        assert_eq!(calls, 63);
    }

    #[test]
    fn a_stopped_board_grants_nothing() {
        let board = Board::new(1, 10);
        board.stop();
        assert!(!board.meter(0).go_on(1));
    }
}
