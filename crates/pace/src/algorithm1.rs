//! The policy `rocksdb_517`: "Algorithm 1" of the study of RocksDB on 3D XPoint (R-XP-05), which describes RocksDB 5.17.
//!
//! The rate is adapted by every delayed write: by 0.8 when the estimated debt did not fall since the last one, by 1.25
//! when it fell. Credit in bytes refills in intervals of 1024 us. A write without credit waits one interval at least,
//! which is what brings a fast device to a near-stop: a write of 15 us is followed by 1024 us of sleep (R-XP-06).
//!
//! The rate keeps between its maximum and a sixteenth of that. The printed form names no lower bound; at this one, with the
//! default of 16 MiB/s, a write of a kilobyte still gets what it needs in one interval, as the study's Equation 1
//! assumes.

use crate::condition::{StallCondition, StallInput};
use crate::rocksdb::{MIN_RATE, max_rate, scale};
use std::time::Duration;

/// Interval of refills, and least wait of a write without credit, in nanoseconds.
pub const REFILL_NANOS: u64 = 1024 * 1000;

const SLOWER: f64 = 0.8;
const FASTER: f64 = 1.25;

/// The study's Equation 1: writes per second that are left of `rate` when each takes `write_nanos` and then sleeps one
/// refill interval.
pub fn near_stop_rate(write_nanos: u64, rate: f64) -> f64 {
    write_nanos as f64 / (write_nanos + REFILL_NANOS) as f64 * rate
}

/// The rate of delayed writes, and the credit that is left of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Algorithm1 {
    max_rate: u64,
    rate: u64,
    delayed: bool,
    /// Estimate of the debt now, and at the last delayed write.
    debt: u64,
    previous_debt: u64,
    credit_bytes: u64,
    /// 0: no write has been delayed since the delay began.
    last_refill_nanos: u64,
}

impl Algorithm1 {
    /// A controller whose rate begins at `delayed_write_rate` bytes per second and never exceeds it; 0 means 16 MiB per
    /// second.
    pub fn new(delayed_write_rate: u64) -> Self {
        let max_rate = max_rate(delayed_write_rate);
        Self {
            max_rate,
            rate: max_rate,
            delayed: false,
            debt: 0,
            previous_debt: 0,
            credit_bytes: 0,
            last_refill_nanos: 0,
        }
    }

    /// Goes on with another `delayed_write_rate`: the rate begins there again.
    pub fn set_max_rate(&mut self, delayed_write_rate: u64) {
        self.max_rate = max_rate(delayed_write_rate);
        self.rate = self.max_rate;
    }

    /// Takes in the condition of the family after a change, and the state it follows from.
    pub fn update(&mut self, condition: &StallCondition, input: &StallInput) {
        self.debt = input.pending_compaction_bytes;
        let delayed = matches!(condition, StallCondition::Delayed(_));
        if delayed && !self.delayed {
            self.credit_bytes = 0;
            self.last_refill_nanos = 0;
        }
        self.delayed = delayed;
    }

    /// Time a write of `bytes` has to wait. Adapts the rate and takes the bytes off the credit: call once per write
    /// group. Zero unless writes are delayed.
    pub fn delay_for(&mut self, now_nanos: u64, bytes: u64) -> Duration {
        if !self.delayed {
            return Duration::ZERO;
        }
        self.adapt();
        let delay = self.delay_at_rate(now_nanos, bytes, self.rate);
        Duration::from_nanos(delay)
    }

    fn adapt(&mut self) {
        let factor = if self.debt < self.previous_debt {
            FASTER
        } else {
            SLOWER
        };
        self.previous_debt = self.debt;
        let least = (self.max_rate / 16).max(MIN_RATE).min(self.max_rate);
        self.rate = scale(self.rate, factor).clamp(least.max(1), self.max_rate.max(1));
    }

    /// The wait in nanoseconds at `rate` bytes per second.
    fn delay_at_rate(&mut self, now: u64, bytes: u64, rate: u64) -> u64 {
        if self.credit_bytes >= bytes {
            self.credit_bytes -= bytes;
            return 0;
        }
        let mut behind = 0;
        if self.last_refill_nanos != 0 {
            match self.last_refill_nanos.checked_sub(now) {
                Some(ahead) if ahead > 0 => behind = ahead,
                _ => {
                    let passed = now - self.last_refill_nanos;
                    let refill = passed as f64 / 1e9 * rate as f64;
                    self.credit_bytes = self.credit_bytes.saturating_add(refill as u64);
                    if passed >= REFILL_NANOS && self.credit_bytes > bytes {
                        self.last_refill_nanos = now;
                        self.credit_bytes -= bytes;
                        return 0;
                    }
                }
            }
        }
        let interval = (REFILL_NANOS as f64 / 1e9 * rate as f64) as u64;
        let with_one = self.credit_bytes.saturating_add(interval);
        let sleep = match with_one.checked_sub(bytes) {
            Some(left) => {
                self.credit_bytes = left;
                REFILL_NANOS
            }
            // The stock in hand is not taken off, as printed.
            None => (bytes as f64 / rate.max(1) as f64 * 1e9) as u64,
        };
        let sleep = sleep.saturating_add(behind);
        self.last_refill_nanos = now.saturating_add(sleep).max(1);
        sleep
    }

    /// Bytes per second writes are delayed to now; 0 if they are not.
    pub fn current_rate(&self) -> u64 {
        if self.delayed { self.rate } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::stall_condition;

    const MS: u64 = 1_000_000;

    fn with(l0_files: usize, debt: u64) -> StallInput {
        StallInput {
            max_write_buffer_number: 2,
            min_write_buffer_number_to_merge: 1,
            l0_files,
            level0_slowdown_writes_trigger: 20,
            level0_stop_writes_trigger: 36,
            pending_compaction_bytes: debt,
            ..StallInput::default()
        }
    }

    fn feed(c: &mut Algorithm1, l0_files: usize, debt: u64) {
        let input = with(l0_files, debt);
        c.update(&stall_condition(&input), &input);
    }

    /// R-XP-05: the exact trace of rates and delays.
    #[test]
    fn every_delayed_write_adapts_the_rate_and_waits_an_interval() {
        let mut c = Algorithm1::new(16 << 20);
        feed(&mut c, 19, 500);
        assert_eq!(
            (c.delay_for(MS, 1000), c.current_rate()),
            (Duration::ZERO, 0)
        );
        feed(&mut c, 20, 500);
        let mut now = 10 * MS;
        let mut trace = Vec::new();
        for (debt, bytes) in [
            (500, 1000),
            (500, 1000),
            (500, 40_000),
            (400, 1000),
            (300, 1000),
            (300, 1000),
        ] {
            feed(&mut c, 20, debt);
            let wait = c.delay_for(now, bytes).as_nanos() as u64;
            trace.push((c.current_rate(), wait / 1000));
            now += wait + 15_000;
        }
        assert_eq!(
            trace,
            [
                (13_421_772, 1024),
                // Credit of the first interval is left for it.
                (10_737_417, 0),
                // More than an interval: bytes by rate, credit in hand not taken off.
                (8_589_933, 4656),
                (10_737_416, 0),
                (13_421_770, 0),
                (10_737_416, 0),
            ]
        );
        // Down to a sixteenth, and no further.
        for _ in 0..40 {
            c.delay_for(now, 1);
        }
        assert_eq!(c.current_rate(), 1 << 20);
        for debt in (0..40).rev() {
            feed(&mut c, 20, debt);
            c.delay_for(now, 1);
        }
        assert_eq!(c.current_rate(), 16 << 20);
    }

    /// R-XP-06: the figures of the study, and what the policy comes to.
    #[test]
    fn the_near_stop_is_that_of_equation_1() {
        assert_eq!(near_stop_rate(15_000, 190_000.0).round(), 2743.0);
        assert_eq!(near_stop_rate(15_000, 130_000.0).round(), 1877.0);
        for write_nanos in [5_000, 15_000, 50_000] {
            let mut c = Algorithm1::new(16 << 20);
            feed(&mut c, 20, 1);
            let (mut now, mut writes) = (MS, 0);
            while now < 10_000 * MS {
                now += c.delay_for(now, 1040).as_nanos() as u64 + write_nanos;
                writes += 1;
            }
            let measured = f64::from(writes) / 10.0;
            let model = near_stop_rate(write_nanos, 1e9 / write_nanos as f64);
            assert!(
                measured > model / 2.0 && measured < model * 2.0,
                "{write_nanos}: {measured} against {model}"
            );
        }
    }

    #[test]
    fn odd_clocks_and_rates_are_defined() {
        let mut c = Algorithm1::new(1);
        feed(&mut c, 20, 1);
        assert!(c.delay_for(u64::MAX, u64::MAX) > Duration::ZERO);
        assert!(c.delay_for(0, 1) > Duration::ZERO);
        assert_eq!(c.current_rate(), 1);
    }
}
