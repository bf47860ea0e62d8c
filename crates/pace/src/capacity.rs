//! How fast a stage is, measured: bytes that it retired by the time it was busy.

/// Bytes a stage has to retire before it counts as measured.
const BYTES_MIN: f64 = 256.0 * 1024.0;
/// Time it has to have been busy.
const SECONDS_MIN: f64 = 0.005;

/// The speed of one stage: the quotient of two sums in which older parts count less and less.
///
/// A stage that has not been measured does not limit anyone.
#[derive(Clone, Debug, PartialEq)]
pub struct Meter {
    /// Busy seconds after which a measurement has lost two thirds of its weight.
    memory_seconds: f64,
    bytes: f64,
    seconds: f64,
}

impl Meter {
    /// One that has measured nothing, and forgets over `memory_seconds` of busy time.
    pub fn new(memory_seconds: f64) -> Self {
        Self {
            memory_seconds: memory_seconds.max(0.001),
            bytes: 0.0,
            seconds: 0.0,
        }
    }

    /// Takes in that the stage retired `bytes` in `seconds` in which it had work.
    pub fn add(&mut self, bytes: u64, seconds: f64) {
        if seconds <= 0.0 || !seconds.is_finite() {
            return;
        }
        let keep = (-seconds / self.memory_seconds).exp();
        self.bytes = self.bytes * keep + bytes as f64;
        self.seconds = self.seconds * keep + seconds;
    }

    /// Bytes per second; `None` before it was measured.
    pub fn rate(&self) -> Option<f64> {
        let known = self.bytes >= BYTES_MIN && self.seconds >= SECONDS_MIN;
        known.then(|| self.bytes / self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_measures_once_it_has_seen_enough_and_follows() {
        let mut m = Meter::new(2.0);
        assert_eq!(m.rate(), None);
        m.add(1000, 1.0);
        assert_eq!(m.rate(), None);
        for _ in 0..1000 {
            m.add(1_000_000, 0.01);
        }
        let rate = m.rate().unwrap();
        assert!((99e6..101e6).contains(&rate), "{rate}");
        // Half as fast: after one memory two thirds of the way.
        for _ in 0..200 {
            m.add(500_000, 0.01);
        }
        let rate = m.rate().unwrap();
        assert!((66e6..71e6).contains(&rate), "{rate}");
        m.add(5, 0.0);
        m.add(5, f64::NAN);
        m.add(5, -1.0);
        assert_eq!(m.rate(), Some(rate));
    }

    /// Steps of jobs that report seldom weigh as much as the same work in small steps.
    #[test]
    fn lumps_weigh_as_much_as_drops() {
        let (mut lumps, mut drops) = (Meter::new(10.0), Meter::new(10.0));
        for i in 0..3000 {
            drops.add(100_000, 0.01);
            lumps.add(if i % 50 == 49 { 5_000_000 } else { 0 }, 0.01);
        }
        let (a, b) = (lumps.rate().unwrap(), drops.rate().unwrap());
        assert!((a / b - 1.0).abs() < 0.06, "{a} {b}");
    }
}
