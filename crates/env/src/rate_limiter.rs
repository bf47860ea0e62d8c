//! A limit on bytes per second, shared by files, databases and threads: RocksDB's generic rate limiter.
//!
//! Every refill period (100 ms unless told otherwise) the bucket is filled up to `rate × period`; unused
//! bytes do not pile up beyond one period. Who does not find enough bytes queues by priority. Of the
//! waiting, one sleeps until the next refill and then hands out bytes, in this order: user requests
//! first; then high, middle, low, except that each lower one goes before its betters once in `fairness`
//! times, so that none starves. A request may be granted in parts.
//!
//! Tuning by itself: every 100 periods the share of periods in which somebody had to wait is looked at;
//! below 50 % the rate falls by 5 %, above 90 % it rises by 5 %, and without any waiting it falls to
//! the least. It starts at half of the limit and stays between one twentieth of it and all of it.
//!
//! Threads: any. The lock is a leaf; nobody sleeps under it.

use crate::process::Process;
use crate::rng::SeededRng;
use crate::traits::{Clock, Rng};
use spanlith_base::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Above the engine's locks, below those of file systems.
const RANK: u8 = 94;
/// Refill periods between adjustments of a rate that tunes itself.
const TUNE_PERIODS: u64 = 100;
/// The tuned rate is at least the limit divided by this.
const TUNE_RANGE: u64 = 20;

/// How urgent an I/O is; RocksDB's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IoPriority {
    /// Compactions.
    Low = 0,
    /// Between the two.
    Mid = 1,
    /// Flushes.
    High = 2,
    /// Says what a user waits for.
    User = 3,
}

impl IoPriority {
    /// All, by number.
    pub const ALL: [Self; 4] = [Self::Low, Self::Mid, Self::High, Self::User];
}

/// Direction of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoDirection {
    /// From the disk.
    Read,
    /// To the disk.
    Write,
}

/// Which I/O is limited; RocksDB's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RateLimiterMode {
    /// Reads only.
    Reads = 0,
    /// Writes only.
    #[default]
    Writes = 1,
    /// Both, from one bucket.
    All = 2,
}

impl RateLimiterMode {
    /// By RocksDB's number.
    pub fn from_number(number: i32) -> Option<Self> {
        match number {
            0 => Some(Self::Reads),
            1 => Some(Self::Writes),
            2 => Some(Self::All),
            _ => None,
        }
    }
}

/// How a [`RateLimiter`] behaves.
#[derive(Clone, Copy, Debug)]
pub struct RateLimiterOptions {
    /// Bytes per second; with `auto_tuned` the most it may become. At least 1.
    pub bytes_per_second: u64,
    /// Microseconds between refills. Shorter is smoother and wakes threads more often.
    pub refill_period_micros: u64,
    /// A lower priority goes first once in so many refills; larger favours the higher ones more.
    pub fairness: u32,
    /// Which I/O is limited.
    pub mode: RateLimiterMode,
    /// Adjusts the rate to the demand.
    pub auto_tuned: bool,
    /// Largest single grant in bytes; 0 means what one period allows.
    pub single_burst_bytes: u64,
}

impl RateLimiterOptions {
    /// RocksDB's defaults around a rate.
    pub fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second,
            refill_period_micros: 100_000,
            fairness: 10,
            mode: RateLimiterMode::Writes,
            auto_tuned: false,
            single_burst_bytes: 0,
        }
    }
}

/// Describes what waits for bytes.
struct Waiting {
    ticket: u64,
    bytes_left: u64,
}

struct State {
    /// Whose threads wait.
    process: Process,
    /// Bytes that may be handed out before the next refill.
    available: u64,
    refill_bytes: u64,
    next_refill_micros: u64,
    queues: [VecDeque<Waiting>; 4],
    next_ticket: u64,
    /// Says whether somebody sleeps until the next refill.
    is_refill_awaited: bool,
    /// Refills that somebody had to wait for since the last adjustment.
    drains: u64,
    tuned_at_micros: u64,
    total_bytes: [u64; 4],
    total_requests: [u64; 4],
}

impl State {
    /// In a child made by `fork`: whoever waited, or slept until the next refill, is not here.
    #[cold]
    fn forget_parent(&mut self) {
        self.process = Process::current();
        self.queues = Default::default();
        self.is_refill_awaited = false;
    }
}

/// Hands out bytes at a limited rate.
pub struct RateLimiter {
    clock: Arc<dyn Clock>,
    rng: SeededRng,
    mode: RateLimiterMode,
    refill_period_micros: u64,
    fairness: u64,
    auto_tuned: bool,
    /// The limit as set. Relaxed, as the next two: numbers that stand for themselves.
    limit: AtomicU64,
    /// The rate in force.
    rate: AtomicU64,
    /// Largest single grant; 0 means one refill.
    single_burst: AtomicU64,
    state: Mutex<State>,
    granted: Condvar,
}

impl std::fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimiter")
            .field("bytes_per_second", &self.bytes_per_second())
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl RateLimiter {
    /// A full bucket.
    pub fn new(options: &RateLimiterOptions, clock: Arc<dyn Clock>) -> Self {
        let limit = options.bytes_per_second.max(1);
        let rate = if options.auto_tuned {
            (limit / 2).max(1)
        } else {
            limit
        };
        let period = options.refill_period_micros.max(1);
        let now = now_micros(&*clock);
        Self {
            rng: SeededRng::new(now),
            mode: options.mode,
            refill_period_micros: period,
            fairness: u64::from(options.fairness.clamp(1, 100)),
            auto_tuned: options.auto_tuned,
            limit: AtomicU64::new(limit),
            rate: AtomicU64::new(rate),
            single_burst: AtomicU64::new(options.single_burst_bytes),
            state: Mutex::new(
                RANK,
                State {
                    process: Process::current(),
                    available: 0,
                    refill_bytes: refill_bytes(rate, period),
                    next_refill_micros: now,
                    queues: Default::default(),
                    next_ticket: 0,
                    is_refill_awaited: false,
                    drains: 0,
                    tuned_at_micros: now,
                    total_bytes: [0; 4],
                    total_requests: [0; 4],
                },
            ),
            granted: Condvar::new(),
            clock,
        }
    }

    /// Returns whether I/O of this direction is limited at all.
    pub fn limits(&self, direction: IoDirection) -> bool {
        match self.mode {
            RateLimiterMode::All => true,
            RateLimiterMode::Reads => direction == IoDirection::Read,
            RateLimiterMode::Writes => direction == IoDirection::Write,
        }
    }

    /// The rate in force, in bytes per second.
    pub fn bytes_per_second(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    /// Changes the limit; with tuning, the range in which the rate moves. Takes effect with the next
    /// refill.
    pub fn set_bytes_per_second(&self, bytes_per_second: u64) {
        let limit = bytes_per_second.max(1);
        self.limit.store(limit, Ordering::Relaxed);
        let rate = if self.auto_tuned {
            (limit / 2).max(1)
        } else {
            limit
        };
        self.set_rate(&mut self.state.lock(), rate);
    }

    fn set_rate(&self, state: &mut State, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
        state.refill_bytes = refill_bytes(rate, self.refill_period_micros);
    }

    /// Largest number of bytes granted at once.
    pub fn single_burst_bytes(&self) -> u64 {
        match self.single_burst.load(Ordering::Relaxed) {
            0 => refill_bytes(self.bytes_per_second(), self.refill_period_micros),
            set => set,
        }
    }

    /// Changes the largest single grant; 0 means what one period allows.
    pub fn set_single_burst_bytes(&self, bytes: u64) {
        self.single_burst.store(bytes, Ordering::Relaxed);
    }

    /// Bytes granted so far, of one priority or of all.
    pub fn total_bytes(&self, priority: Option<IoPriority>) -> u64 {
        sum(&self.state.lock().total_bytes, priority)
    }

    /// Requests so far, of one priority or of all.
    pub fn total_requests(&self, priority: Option<IoPriority>) -> u64 {
        sum(&self.state.lock().total_requests, priority)
    }

    /// Requests that wait now, of one priority or of all.
    pub fn pending_requests(&self, priority: Option<IoPriority>) -> u64 {
        let state = self.state.lock();
        let mut lengths = [0; 4];
        for (length, queue) in lengths.iter_mut().zip(&state.queues) {
            *length = queue.len() as u64;
        }
        sum(&lengths, priority)
    }

    /// Waits until `bytes` more may pass; returns the microseconds waited. Large requests are split,
    /// so that others come between. Does nothing for I/O that is not limited.
    pub fn request(&self, bytes: u64, priority: IoPriority, direction: IoDirection) -> u64 {
        if !self.limits(direction) {
            return 0;
        }
        let mut left = bytes;
        let mut waited = 0;
        while left > 0 {
            let part = left.min(self.single_burst_bytes().max(1));
            waited += self.request_part(part, priority);
            left -= part;
        }
        waited
    }

    fn request_part(&self, bytes: u64, priority: IoPriority) -> u64 {
        let class = priority as usize;
        let mut state = self.state.lock();
        if !state.process.is_current() {
            state.forget_parent();
        }
        if self.auto_tuned {
            self.tune(&mut state);
        }
        state.total_requests[class] += 1;
        if state.available > 0 {
            let now_granted = bytes.min(state.available);
            state.available -= now_granted;
            state.total_bytes[class] += now_granted;
            if now_granted == bytes {
                return 0;
            }
            return self.wait(state, bytes - now_granted, class);
        }
        self.wait(state, bytes, class)
    }

    /// Queues for `bytes` and sleeps, or refills for all, until they were handed out.
    fn wait<'a>(
        &'a self,
        mut state: spanlith_base::sync::MutexGuard<'a, State>,
        bytes: u64,
        class: usize,
    ) -> u64 {
        let start = now_micros(&*self.clock);
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.queues[class].push_back(Waiting {
            ticket,
            bytes_left: bytes,
        });
        loop {
            let now = now_micros(&*self.clock);
            if now >= state.next_refill_micros {
                self.refill(&mut state, now);
                self.granted.notify_all();
            } else if state.is_refill_awaited {
                state = self.granted.wait(state);
            } else {
                state.is_refill_awaited = true;
                state.drains += 1;
                let pause = Duration::from_micros(state.next_refill_micros - now);
                drop(state);
                self.clock.sleep(pause);
                state = self.state.lock();
                state.is_refill_awaited = false;
                // A waiter that is left when this request is served takes over.
                self.granted.notify_all();
            }
            // Requests leave their queue when they are served.
            if !state.queues[class].iter().any(|w| w.ticket == ticket) {
                return now_micros(&*self.clock).saturating_sub(start);
            }
        }
    }

    /// Fills the bucket and serves the queues.
    fn refill(&self, state: &mut State, now: u64) {
        state.next_refill_micros = now + self.refill_period_micros;
        state.available = state.available.max(state.refill_bytes);
        for class in self.order() {
            while let Some(first) = state.queues[class].front_mut() {
                let granted = first.bytes_left.min(state.available);
                first.bytes_left -= granted;
                state.available -= granted;
                state.total_bytes[class] += granted;
                if first.bytes_left > 0 {
                    return;
                }
                state.queues[class].pop_front();
            }
        }
    }

    /// The queues in the order in which they are served this time.
    fn order(&self) -> [usize; 4] {
        let once_in_fairness = || self.rng.next_u64().is_multiple_of(self.fairness);
        let [low, mid, high, user] = IoPriority::ALL.map(|p| p as usize);
        let (high_last, mid_last) = (once_in_fairness(), once_in_fairness());
        let (a, b) = if mid_last { (low, mid) } else { (mid, low) };
        if high_last {
            [user, a, b, high]
        } else {
            [user, high, a, b]
        }
    }

    /// Adjusts the rate to how many refills were waited for.
    fn tune(&self, state: &mut State) {
        let now = now_micros(&*self.clock);
        let elapsed = now.saturating_sub(state.tuned_at_micros);
        if elapsed < TUNE_PERIODS.saturating_mul(self.refill_period_micros) {
            return;
        }
        let periods = elapsed.div_ceil(self.refill_period_micros).max(1);
        let drained_pct = state.drains.saturating_mul(100) / periods;
        let limit = self.limit.load(Ordering::Relaxed);
        let least = (limit / TUNE_RANGE).max(1);
        let rate = self.bytes_per_second();
        let new = match drained_pct {
            0 => least,
            1..50 => (u128::from(rate) * 100 / 105) as u64,
            50..=90 => rate,
            _ => (u128::from(rate) * 105)
                .div_ceil(100)
                .min(u128::from(limit)) as u64,
        };
        let new = new.clamp(least, limit);
        if new != rate {
            self.set_rate(state, new);
        }
        state.drains = 0;
        state.tuned_at_micros = now;
    }
}

fn now_micros(clock: &dyn Clock) -> u64 {
    clock.monotonic_nanos() / 1000
}

/// Bytes of one period, at least 1.
fn refill_bytes(rate: u64, period_micros: u64) -> u64 {
    let bytes = u128::from(rate) * u128::from(period_micros) / 1_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
}

fn sum(numbers: &[u64; 4], priority: Option<IoPriority>) -> u64 {
    match priority {
        Some(priority) => numbers[priority as usize],
        None => numbers.iter().sum(),
    }
}

#[cfg(test)]
mod tests;
