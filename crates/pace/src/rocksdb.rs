//! The rate of delayed writes and its credit: the policy `rocksdb`, as RocksDB 11.8 has it.
//!
//! The rate falls while things get worse and rises when they get better, and hands out credit in bytes that refills
//! every millisecond. Pure computation; time comes in as an argument. The caller keeps the controller under a lock.

use crate::condition::{StallCause, StallCondition, StallInput, signed};
use std::time::Duration;

/// Slowest rate the policy goes down to, in bytes per second.
pub(crate) const MIN_RATE: u64 = 16 << 10;

/// Rate factors: near a stop, debt not shrinking, debt shrinking, back to normal.
const NEAR_STOP: f64 = 0.6;
const SLOWER: f64 = 0.8;
const FASTER: f64 = 1.25;
const RECOVERED: f64 = 1.4;

/// Credit refills at least this often, and a delayed write waits at least as long.
const REFILL_MICROS: u64 = 1000;

/// The rate of delayed writes and the credit that is left of it.
#[derive(Clone, Debug, PartialEq)]
pub struct DelayController {
    max_rate: u64,
    rate: u64,
    delayed: bool,
    stopped: bool,
    previous_debt: u64,
    credit_bytes: u64,
    /// 0: the delay has just begun.
    next_refill_micros: u64,
}

impl DelayController {
    /// A controller whose rate begins at `delayed_write_rate` bytes per second and never exceeds it;
    /// 0 means 16 MiB per second.
    pub fn new(delayed_write_rate: u64) -> Self {
        let max_rate = max_rate(delayed_write_rate);
        Self {
            max_rate,
            rate: max_rate,
            delayed: false,
            stopped: false,
            previous_debt: 0,
            credit_bytes: 0,
            next_refill_micros: 0,
        }
    }

    /// Goes on with another `delayed_write_rate`: the rate begins there again.
    pub fn set_max_rate(&mut self, delayed_write_rate: u64) {
        self.max_rate = max_rate(delayed_write_rate);
        self.rate = self.max_rate;
    }

    /// Takes in the condition of the family after a change, and the state it follows from.
    pub fn update(&mut self, condition: &StallCondition, input: &StallInput) {
        let debt = input.pending_compaction_bytes;
        match *condition {
            StallCondition::Stopped(_) => {
                self.stopped = true;
                self.delayed = false;
            }
            StallCondition::Delayed(cause) => {
                let penalise = self.stopped || is_near_stop(cause, input);
                self.set_delay(penalise, debt, input.disable_auto_compactions);
                self.stopped = false;
            }
            StallCondition::Normal => {
                if self.delayed {
                    self.set_rate(scale(self.rate, RECOVERED));
                }
                self.stopped = false;
                self.delayed = false;
            }
        }
        self.previous_debt = debt;
    }

    fn set_delay(&mut self, penalise: bool, debt: u64, compactions_are_off: bool) {
        let mut rate = self.rate;
        if compactions_are_off {
            rate = self.max_rate;
        } else if self.delayed && self.max_rate > MIN_RATE {
            if penalise {
                rate = scale(rate, NEAR_STOP).max(MIN_RATE);
            } else if self.previous_debt > 0 && self.previous_debt <= debt {
                rate = scale(rate, SLOWER).max(MIN_RATE);
            } else if self.previous_debt > debt {
                rate = scale(rate, FASTER).min(self.max_rate);
            }
        }
        if !self.delayed {
            self.delayed = true;
            self.next_refill_micros = 0;
            self.credit_bytes = 0;
        }
        self.set_rate(rate);
    }

    fn set_rate(&mut self, rate: u64) {
        self.rate = rate.clamp(1, self.max_rate.max(1));
    }

    /// Time a write of `bytes` has to wait, beginning at `now_nanos` of a monotonic clock. Takes the
    /// bytes off the credit: call once per write group. Zero unless writes are delayed.
    pub fn delay_for(&mut self, now_nanos: u64, bytes: u64) -> Duration {
        if self.stopped || !self.delayed {
            return Duration::ZERO;
        }
        if self.credit_bytes >= bytes {
            self.credit_bytes -= bytes;
            return Duration::ZERO;
        }
        let now = now_nanos / 1000;
        let per_second = self.rate as f64;
        if self.next_refill_micros == 0 {
            self.next_refill_micros = now;
        }
        if self.next_refill_micros <= now {
            let elapsed = now - self.next_refill_micros + REFILL_MICROS;
            let refill = elapsed as f64 / 1e6 * per_second + 0.999_999;
            self.credit_bytes = self.credit_bytes.saturating_add(refill as u64);
            self.next_refill_micros = now + REFILL_MICROS;
            if self.credit_bytes >= bytes {
                self.credit_bytes -= bytes;
                return Duration::ZERO;
            }
        }
        let missing = bytes - self.credit_bytes;
        let needed = (missing as f64 / per_second * 1e6) as u64;
        self.credit_bytes = 0;
        self.next_refill_micros = self.next_refill_micros.saturating_add(needed);
        Duration::from_micros((self.next_refill_micros - now).max(REFILL_MICROS))
    }

    /// Bytes per second writes are delayed to now; 0 if they are not.
    pub fn current_rate(&self) -> u64 {
        if self.delayed { self.rate } else { 0 }
    }
}

pub(crate) fn max_rate(delayed_write_rate: u64) -> u64 {
    match delayed_write_rate {
        0 => 16 << 20,
        rate => rate,
    }
}

fn is_near_stop(cause: StallCause, input: &StallInput) -> bool {
    match cause {
        StallCause::MemtableLimit => false,
        StallCause::L0FileCountLimit => {
            signed(input.l0_files) >= i64::from(input.level0_stop_writes_trigger) - 2
        }
        StallCause::PendingCompactionBytes => {
            let soft = input.soft_pending_compaction_bytes_limit;
            let hard = input.hard_pending_compaction_bytes_limit;
            let room = hard.saturating_sub(soft);
            let used = input.pending_compaction_bytes.saturating_sub(soft);
            hard > 0 && used > room / 4 * 3 + room % 4 * 3 / 4
        }
    }
}

pub(crate) fn scale(rate: u64, factor: f64) -> u64 {
    (rate as f64 * factor) as u64
}

#[cfg(test)]
#[path = "rocksdb_tests.rs"]
mod tests;
