//! When calls are meant to start: an arrival rate that does not depend on how fast answers come.

use crate::generate::Rng;
use std::time::{Duration, Instant};

/// Arrivals per second of all threads together.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Operations per second.
    per_second: f64,
    /// Seed of exponential gaps; `None` for equal gaps.
    poisson: Option<u64>,
    /// Time of the first arrival.
    start: Instant,
    /// Amplitude as a share of the rate, and period in seconds.
    sine: Option<(f64, f64)>,
}

impl Rate {
    /// Equal gaps.
    pub fn regular(per_second: f64, start: Instant) -> Self {
        Self {
            per_second,
            poisson: None,
            start,
            sine: None,
        }
    }

    /// The same with a rate that goes up and down around its mean: by `amplitude` of it, 0 to 1, in periods of so
    /// many seconds.
    #[must_use]
    pub fn with_sine(self, amplitude: f64, period: f64) -> Self {
        Self {
            sine: Some((amplitude.clamp(0.0, 1.0), period)),
            ..self
        }
    }

    /// Exponential gaps: arrivals that know nothing of each other.
    pub fn poisson(per_second: f64, start: Instant, seed: u64) -> Self {
        Self {
            poisson: Some(seed),
            ..Self::regular(per_second, start)
        }
    }
}

/// The intended start times of one thread.
#[derive(Clone, Debug)]
pub struct Pace {
    start: Instant,
    /// Seconds between two operations of this thread.
    gap: f64,
    /// Seconds from `start` to the next call.
    next: f64,
    rng: Option<Rng>,
    sine: Option<(f64, f64)>,
}

impl Pace {
    /// Of thread `index` of `threads`, which take turns.
    pub fn new(rate: Rate, index: usize, threads: usize) -> Self {
        let per_second = rate.per_second.max(1e-6);
        let stream = |seed: u64| Rng::new(seed ^ (index as u64).wrapping_mul(0x9e37_79b9));
        Self {
            start: rate.start,
            gap: threads as f64 / per_second,
            next: index as f64 / per_second,
            rng: rate.poisson.map(stream),
            sine: rate.sine,
        }
    }

    /// The intended start of a call of `ops` operations, each of which takes a gap.
    pub fn next(&mut self, ops: u64) -> Instant {
        // Centuries at most, so that no clock overflows.
        let due = self.start + Duration::from_secs_f64(self.next.min(1e10));
        let gap = match &mut self.rng {
            None => self.gap,
            Some(rng) => -(1.0 - rng.unit()).ln() * self.gap,
        };
        // At the bottom of a sine of full amplitude the rate would be none at all.
        let factor = self.sine.map_or(1.0, |(amplitude, period)| {
            (1.0 + amplitude * (std::f64::consts::TAU * self.next / period).sin()).max(0.02)
        });
        self.next += gap / factor * ops as f64;
        due
    }
}

/// The time, and how to wait for it.
pub trait Clock {
    /// Now.
    fn now(&self) -> Instant;

    /// Waits; false if `stopped` before.
    fn wait_until(&self, due: Instant, stopped: impl Fn() -> bool) -> bool;
}

/// The time of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine;

impl Clock for Machine {
    #[inline]
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wait_until(&self, due: Instant, stopped: impl Fn() -> bool) -> bool {
        wait_until(due, stopped)
    }
}

/// The kernel wakes sleepers late by about so much; the rest of a wait is spun.
const LATE: Duration = Duration::from_micros(80);
/// Longest sleep without a look at whether to stop.
const NAP: Duration = Duration::from_millis(20);

/// Waits; false if `stopped` before.
fn wait_until(due: Instant, stopped: impl Fn() -> bool) -> bool {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        if stopped() {
            return false;
        }
        if left > LATE {
            std::thread::sleep((left - LATE).min(NAP));
        } else {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns_at_equal_gaps() {
        let start = Instant::now();
        let rate = Rate::regular(1000.0, start);
        let mut all = Vec::new();
        for thread in 0..4 {
            let mut pace = Pace::new(rate, thread, 4);
            all.extend((0..25).map(|_| (pace.next(1) - start).as_micros()));
        }
        all.sort_unstable();
        for (n, micros) in (0..).zip(all) {
            assert!(micros.abs_diff(n * 1000) <= 1, "{n}: {micros}");
        }
    }

    #[test]
    fn a_call_of_many_operations_takes_as_many_gaps() {
        let start = Instant::now();
        let mut pace = Pace::new(Rate::regular(100.0, start), 0, 1);
        pace.next(32);
        let second = pace.next(32) - start;
        assert!((second.as_secs_f64() - 0.32).abs() < 1e-6);
    }

    #[test]
    fn exponential_gaps_keep_the_rate_and_vary() {
        let start = Instant::now();
        let mut pace = Pace::new(Rate::poisson(1000.0, start, 7), 0, 1);
        let times: Vec<f64> = (0..20_000)
            .map(|_| (pace.next(1) - start).as_secs_f64())
            .collect();
        let gaps: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 0.001).abs() < 0.000_03, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05);
    }

    #[test]
    fn a_sine_moves_arrivals_and_keeps_their_mean() {
        let start = Instant::now();
        let rate = Rate::regular(1000.0, start).with_sine(0.5, 4.0);
        let mut pace = Pace::new(rate, 0, 1);
        let mut quarters = [0; 4];
        for _ in 0..40_000 {
            let at = (pace.next(1) - start).as_secs_f64();
            if at < 40.0 {
                quarters[(at % 4.0) as usize] += 1;
            }
        }
        // The mean of 1 + 0.5 sin over a quarter of the period is 1 ± 1/π.
        for (quarter, want) in [(0, 13_183.0), (1, 13_183.0), (2, 6817.0), (3, 6817.0)] {
            let got = f64::from(quarters[quarter]);
            assert!((got / want - 1.0).abs() < 0.02, "{quarter}: {got} {want}");
        }
    }

    #[test]
    fn a_wait_ends_when_told_to_stop() {
        assert!(!wait_until(
            Instant::now() + Duration::from_secs(3600),
            || true
        ));
        assert!(wait_until(Instant::now(), || true));
    }
}
