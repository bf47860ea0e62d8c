//! Lets bytes pass at a rate: an arrival clock that counts bytes instead of time.
//!
//! Every byte that arrives gets a place; a place may pass once as many bytes have been released. What is released grows with
//! time and rate, so that a change of the rate holds for those who wait already. It does not run ahead of the last place by
//! more than a burst, whose length covers twice the time by which sleepers wake up too late: over any long time as many
//! bytes pass as the rate says, although every single sleep is too long.

use std::time::Duration;

/// Least and longest burst, in seconds.
const BURST_MIN: f64 = 0.001;
const BURST_MAX: f64 = 0.016;
/// A wait that is shorter is not worth a sleep; its bytes are owed.
const WAIT_MIN_NANOS: f64 = 50_000.0;

/// A place among the bytes that arrived.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Ticket(f64);

/// Describes who passes when.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    /// When `released` was right.
    at_nanos: u64,
    /// Bytes per second; `None` lets everything pass.
    rate: Option<f64>,
    /// Places that may pass.
    released: f64,
    /// Places given away.
    taken: f64,
    /// Smoothed time by which sleepers wake up late, in seconds.
    oversleep: f64,
}

impl Bucket {
    /// One that lets everything pass.
    pub fn new() -> Self {
        Self {
            at_nanos: 0,
            rate: None,
            released: 0.0,
            taken: 0.0,
            oversleep: 0.0,
        }
    }

    /// Lets `rate` bytes per second pass from now on; everything with `None`. Rates below one byte per second count as
    /// that: nobody waits for ever.
    pub fn set_rate(&mut self, now_nanos: u64, rate: Option<f64>) {
        self.advance(now_nanos);
        self.rate = rate.map(|r| if r.is_finite() { r.max(1.0) } else { f64::MAX });
    }

    /// The rate, `None` if everything passes.
    pub fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// Seconds of the rate that may pass at once.
    pub fn burst_seconds(&self) -> f64 {
        (2.0 * self.oversleep).clamp(BURST_MIN, BURST_MAX)
    }

    fn advance(&mut self, now_nanos: u64) {
        // A clock that goes back stands still.
        let passed = now_nanos.saturating_sub(self.at_nanos) as f64 / 1e9;
        self.at_nanos = self.at_nanos.max(now_nanos);
        match self.rate {
            None => self.released = self.taken,
            Some(rate) => {
                let burst = rate * self.burst_seconds();
                self.released = (self.released + rate * passed).min(self.taken + burst);
            }
        }
    }

    /// Takes the next place for `bytes`.
    pub fn take(&mut self, now_nanos: u64, bytes: u64) -> Ticket {
        self.advance(now_nanos);
        self.taken += bytes as f64;
        if self.rate.is_none() {
            self.released = self.taken;
        }
        Ticket(self.taken)
    }

    /// How long `bytes` would have to wait now.
    pub fn wait_for(&mut self, now_nanos: u64, bytes: u64) -> Duration {
        self.advance(now_nanos);
        Duration::from_nanos(self.wait_of(self.taken + bytes as f64) as u64)
    }

    /// Returns whether `bytes` would have to wait now.
    pub fn would_wait(&mut self, now_nanos: u64, bytes: u64) -> bool {
        !self.wait_for(now_nanos, bytes).is_zero()
    }

    /// How long the bytes of a place have to wait from now on; zero if they may pass.
    pub fn wait(&mut self, now_nanos: u64, ticket: Ticket) -> Duration {
        self.advance(now_nanos);
        Duration::from_nanos(self.wait_of(ticket.0) as u64)
    }

    fn wait_of(&self, place: f64) -> f64 {
        let Some(rate) = self.rate else { return 0.0 };
        let nanos = (place - self.released) / rate * 1e9;
        if nanos < WAIT_MIN_NANOS { 0.0 } else { nanos }
    }

    /// Takes in that a sleeper woke up `late` after the time it had asked for.
    pub fn overslept(&mut self, late: Duration) {
        self.oversleep += (late.as_secs_f64().min(BURST_MAX) - self.oversleep) / 8.0;
    }
}

impl Default for Bucket {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Bytes that pass in `seconds` if one writer sends `size` at a time, each sleep ending `late` nanoseconds late.
    fn run(b: &mut Bucket, size: u64, late: u64, seconds: u64) -> f64 {
        let (mut now, mut passed) = (MS, 0u64);
        while now < MS + seconds * 1_000 * MS {
            let ticket = b.take(now, size);
            loop {
                let wait = b.wait(now, ticket).as_nanos() as u64;
                if wait == 0 {
                    break;
                }
                now += wait + late;
                b.overslept(Duration::from_nanos(late));
            }
            now += 2_000;
            passed += size;
        }
        passed as f64 / seconds as f64
    }

    #[test]
    fn the_long_run_keeps_to_the_rate_however_late_sleepers_wake() {
        for rate in [1e6, 50e6] {
            for late in [0, 60_000, 1_000_000, 4_000_000, 7_000_000] {
                let mut b = Bucket::new();
                b.set_rate(MS, Some(rate));
                let got = run(&mut b, 1040, late, 20);
                assert!(
                    (0.98 * rate..1.02 * rate).contains(&got),
                    "rate {rate}, late {late}: {got}"
                );
            }
        }
    }

    #[test]
    fn idleness_saves_no_more_than_a_burst() {
        let mut b = Bucket::new();
        b.set_rate(0, Some(1e6));
        let ticket = b.take(60_000 * MS, 1000);
        assert_eq!(b.wait(60_000 * MS, ticket), Duration::ZERO);
        let ticket = b.take(60_000 * MS, 10_000);
        assert_eq!(b.wait(60_000 * MS, ticket), Duration::from_millis(10));
    }

    #[test]
    fn the_sum_of_waits_does_not_depend_on_the_order() {
        let last = |sizes: &[u64]| {
            let mut b = Bucket::new();
            b.set_rate(0, Some(1e6));
            let tickets: Vec<_> = sizes.iter().map(|&s| b.take(0, s)).collect();
            b.wait(0, *tickets.last().unwrap())
        };
        assert_eq!(last(&[1000, 50_000, 7]), last(&[7, 1000, 50_000]));
    }

    #[test]
    fn a_change_of_the_rate_holds_for_those_who_wait() {
        let mut b = Bucket::new();
        b.set_rate(0, Some(1e6));
        let ticket = b.take(0, 1_000_000);
        assert_eq!(b.wait(0, ticket), Duration::from_secs(1));
        b.set_rate(500 * MS, Some(5e6));
        assert_eq!(b.wait(500 * MS, ticket), Duration::from_millis(100));
        b.set_rate(500 * MS, Some(0.0));
        assert!(b.wait(500 * MS, ticket) > Duration::from_secs(100_000));
        b.set_rate(501 * MS, None);
        assert_eq!(b.wait(501 * MS, ticket), Duration::ZERO);
    }

    #[test]
    fn clocks_that_jump_and_odd_rates_are_defined() {
        let mut b = Bucket::new();
        b.set_rate(10_000 * MS, Some(f64::NAN));
        let ticket = b.take(5 * MS, 1 << 40);
        assert_eq!(b.wait(0, ticket), Duration::ZERO);
        b.set_rate(0, Some(1e6));
        let ticket = b.take(u64::MAX, 500_000);
        // A leap releases what it would have released, and no more than a burst ahead.
        assert!(b.wait(u64::MAX, ticket) <= Duration::from_millis(500));
        assert!(b.would_wait(u64::MAX, 500_000));
    }

    /// Small writes do not wait for all of a large batch that is charged in slices.
    #[test]
    fn slices_let_small_writes_in_between() {
        let mut b = Bucket::new();
        b.set_rate(0, Some(1e6));
        let slice = b.take(0, 256 << 10);
        let small = b.take(0, 100);
        let waits = (b.wait(0, slice), b.wait(0, small));
        assert!(waits.1 - waits.0 < Duration::from_millis(1), "{waits:?}");
    }
}
