//! Counts and times operations of many threads without slowing them down.
//!
//! Each thread gathers samples in a buffer of its own and hands them over when the buffer is full or
//! 10 ms have passed, so that a lock is taken once in hundreds of operations. The reporter takes
//! what was handed over since its last look, and everything at the end.
//!
//! With a [`Rate`] the loop is open: calls have intended start times, and latency counts from those,
//! whether or not the thread was free. Otherwise one slow call would hide all that waited behind it.

use super::histogram::Histogram;
use super::pace::{Clock, Machine, Pace, Rate};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SAMPLES: usize = 512;
const HAND_OVER: Duration = Duration::from_millis(10);

/// Describes what a thread did.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Latencies of calls, in nanoseconds; from the intended start if the loop is open.
    pub latency: Histogram,
    /// Latencies from the actual start; empty if the loop is closed.
    pub service: Histogram,
    /// Latencies by kind of operation, where a benchmark has several; kept in totals only.
    pub parts: BTreeMap<&'static str, Histogram>,
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
        self.service.merge(&other.service);
        for (part, latency) in &other.parts {
            self.parts.entry(part).or_default().merge(latency);
        }
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
        self.service.clear();
        self.parts.clear();
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
    /// Asked of all threads together; `None` for a closed loop.
    rate: Option<Rate>,
}

impl Board {
    /// A board for `threads` threads that do `budget` operations together.
    pub fn new(threads: usize, budget: u64) -> Self {
        Self {
            slots: (0..threads).map(|_| Mutex::default()).collect(),
            budget: AtomicU64::new(budget),
            stop: AtomicBool::new(false),
            rate: None,
        }
    }

    /// Calls start at intended times from now on.
    pub fn at_rate(mut self, rate: Option<Rate>) -> Self {
        self.rate = rate;
        self
    }

    /// Tells all threads to stop. Publishes nothing else.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The meter of thread `index`.
    pub fn meter(&self, index: usize) -> Meter<'_> {
        self.meter_with(index, Machine)
    }

    /// The same with a clock of its own.
    fn meter_with<C: Clock>(&self, index: usize, clock: C) -> Meter<'_, C> {
        let now = clock.now();
        Meter {
            clock,
            board: self,
            slot: &self.slots[index],
            samples: Vec::with_capacity(SAMPLES),
            part: "",
            tally: Tally::default(),
            last: now,
            begun: now,
            handed: now,
            grant: 0,
            pace: self.rate.map(|r| Pace::new(r, index, self.slots.len())),
        }
    }

    fn gather(&self, mut f: impl FnMut(&mut Slot)) {
        for slot in &self.slots {
            f(&mut slot
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner));
        }
    }

    /// Returns what was handed over since the last call.
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
pub struct Meter<'a, C: Clock = Machine> {
    clock: C,
    board: &'a Board,
    slot: &'a Mutex<Slot>,
    samples: Vec<Sample>,
    /// Says what the next sample is of.
    part: &'static str,
    tally: Tally,
    /// End of the last call, begin of the next; its intended begin if the loop is open.
    last: Instant,
    /// Actual begin of the next call if the loop is open.
    begun: Instant,
    handed: Instant,
    /// Operations granted and not done.
    grant: u64,
    pace: Option<Pace>,
}

/// One call.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Nanoseconds from its begin, intended or not.
    latency: u64,
    /// Nanoseconds from its actual begin.
    service: u64,
    part: &'static str,
}

impl<C: Clock> Meter<'_, C> {
    /// Starts the clock of the next call again, after preparations that do not count.
    pub fn restart(&mut self) {
        self.last = self.clock.now();
    }

    /// Names the kind of the call that is about to end.
    #[inline]
    pub fn part(&mut self, name: &'static str) {
        self.part = name;
    }

    /// Returns whether another call of `ops` operations may be made.
    #[inline]
    pub fn go_on(&mut self, ops: u64) -> bool {
        if self.board.stop.load(Ordering::Relaxed) {
            return false;
        }
        if self.grant >= ops {
            self.grant -= ops;
        } else if !self.refill(ops) {
            return false;
        }
        self.pace.is_none() || self.wait(ops)
    }

    /// Waits for the intended start of the next call; false if told to stop meanwhile.
    fn wait(&mut self, ops: u64) -> bool {
        let Some(pace) = &mut self.pace else {
            return true;
        };
        let intended = pace.next(ops);
        let stop = &self.board.stop;
        let stopped = || stop.load(Ordering::Relaxed);
        if !self.clock.wait_until(intended, stopped) {
            return false;
        }
        self.last = intended;
        self.begun = self.clock.now();
        true
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

    /// The begin of a call that is issued now and ends later, beside others: for [`Self::resume`].
    #[inline]
    pub fn issue(&self) -> Instant {
        match self.pace {
            None => self.clock.now(),
            Some(_) => self.last,
        }
    }

    /// The call that is about to end is the one that began at `begun`.
    #[inline]
    pub fn resume(&mut self, begun: Instant) {
        self.last = begun;
        self.begun = begun;
    }

    /// Notes that a call that looked for `keys` keys is over.
    #[inline]
    pub fn looked_up(&mut self, keys: u64, found: u64, bytes: u64) {
        self.tally.looked_up += keys;
        self.tally.found += found;
        self.done(keys, bytes);
    }

    /// Notes that a call is over that looked for keys and counts for `ops` operations.
    #[inline]
    pub fn called(&mut self, ops: u64, looked_up: u64, found: u64, bytes: u64) {
        self.tally.looked_up += looked_up;
        self.tally.found += found;
        self.done(ops, bytes);
    }

    /// Notes that a call of `ops` operations is over.
    #[inline]
    pub fn done(&mut self, ops: u64, bytes: u64) {
        let now = self.clock.now();
        let latency = now.saturating_duration_since(self.last);
        let service = match self.pace {
            None => latency,
            Some(_) => now - self.begun,
        };
        self.last = now;
        let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        self.samples.push(Sample {
            latency: nanos(latency),
            service: nanos(service),
            part: self.part,
        });
        self.tally.ops += ops;
        self.tally.bytes += bytes;
        self.tally.busy += service;
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
        for sample in &self.samples {
            total.latency.add(sample.latency);
            recent.latency.add(sample.latency);
            if self.pace.is_some() {
                total.service.add(sample.service);
            }
            if !sample.part.is_empty() {
                let part = total.parts.entry(sample.part).or_default();
                part.add(sample.latency);
            }
        }
        total.merge_counts(&self.tally);
        recent.merge_counts(&self.tally);
        drop(slot);
        self.samples.clear();
        self.tally.clear_counts();
    }
}

impl<C: Clock> Drop for Meter<'_, C> {
    fn drop(&mut self) {
        self.hand_over(self.clock.now());
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

    /// A clock that goes on only when told to, and to the end of a wait at once.
    struct Hand {
        zero: Instant,
        passed: std::cell::Cell<Duration>,
    }

    impl Clock for &Hand {
        fn now(&self) -> Instant {
            self.zero + self.passed.get()
        }

        fn wait_until(&self, due: Instant, _stopped: impl Fn() -> bool) -> bool {
            self.passed.set(self.passed.get().max(due - self.zero));
            true
        }
    }

    #[test]
    fn an_open_loop_counts_the_time_that_calls_waited_behind_a_slow_one() {
        const CALLS: u64 = 100;
        let hand = Hand {
            zero: Instant::now(),
            passed: std::cell::Cell::default(),
        };
        // A call is due each millisecond and takes a tenth of one, but for the eleventh, which stalls.
        let takes = |call| Duration::from_micros(if call == 10 { 60_000 } else { 100 });
        let board = Board::new(1, CALLS).at_rate(Some(Rate::regular(1000.0, hand.zero)));
        let mut meter = board.meter_with(0, &hand);
        let (mut free, mut latencies) = (Duration::ZERO, Vec::new());
        for call in 0..CALLS {
            assert!(meter.go_on(1));
            hand.passed.set(hand.passed.get() + takes(call));
            meter.part("get");
            meter.done(1, 0);
            let due = Duration::from_millis(call);
            free = free.max(due) + takes(call);
            latencies.push((free - due).as_nanos());
        }
        assert!(!meter.go_on(1));
        drop(meter);
        let total = board.total();
        let close = |shown: f64, exact: f64| (shown - exact).abs() <= exact * 0.02;
        let mean = latencies.iter().sum::<u128>() as f64 / CALLS as f64;
        assert!(
            close(total.latency.mean(), mean),
            "{}",
            total.latency.mean()
        );
        latencies.sort_unstable();
        for percent in [50, 75, 90, 99] {
            let exact = latencies[percent - 1] as f64;
            let shown = total.latency.percentile(percent as f64) as f64;
            assert!(close(shown, exact), "p{percent}: {shown} for {exact}");
        }
        // The calls that were due during the stall and its aftermath all waited; one alone was slow.
        let waited = latencies.iter().filter(|l| **l > 1_000_000).count();
        assert!((60..70).contains(&waited), "{waited}");
        let slow = total.service.percentile(99.0);
        assert!(close(slow as f64, 100_000.0), "{slow}");
        assert_eq!(total.service.max(), 60_000_000);
        assert_eq!(total.latency.max(), 60_000_000);
        assert_eq!(
            (total.service.count(), total.parts["get"].count()),
            (CALLS, CALLS)
        );
    }

    #[test]
    fn a_stopped_board_grants_nothing() {
        let board = Board::new(1, 10);
        board.stop();
        assert!(!board.meter(0).go_on(1));
    }
}
