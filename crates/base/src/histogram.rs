//! Distributions of values, with RocksDB's buckets, percentiles and text.
//!
//! A value is counted in one of 109 buckets whose limits grow by half, so a percentile is known to
//! about a quarter of its size; it is interpolated inside its bucket and never leaves the range of what
//! was recorded.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets of a histogram: limits grow by half up to 2^64.
const BUCKETS: usize = 109;

/// Upper limits of the buckets: 1, 2, then each half as much again, cut to two digits.
static LIMITS: [u64; BUCKETS] = bucket_limits();

const fn bucket_limits() -> [u64; BUCKETS] {
    let mut limits = [0u64; BUCKETS];
    limits[0] = 1;
    limits[1] = 2;
    let mut exact = 2.0f64;
    let mut at = 2;
    while at < BUCKETS {
        exact *= 1.5;
        let (mut limit, mut scale) = (exact as u64, 1);
        while limit / 10 > 10 {
            limit /= 10;
            scale *= 10;
        }
        limits[at] = limit * scale;
        at += 1;
    }
    limits
}

/// A distribution that many threads record into.
pub struct Distribution {
    min: AtomicU64,
    max: AtomicU64,
    count: AtomicU64,
    sum: AtomicU64,
    sum_squares: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Distribution {
    fn default() -> Self {
        Self {
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
            count: AtomicU64::new(0),
            sum: AtomicU64::new(0),
            sum_squares: AtomicU64::new(0),
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }
}

impl Distribution {
    /// Adds a value.
    pub fn record(&self, value: u64) {
        let bucket = LIMITS
            .partition_point(|&limit| limit < value)
            .min(BUCKETS - 1);
        // Relaxed: independent counters, nothing is published through them.
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        if value < self.min.load(Ordering::Relaxed) {
            self.min.fetch_min(value, Ordering::Relaxed);
        }
        if value > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(value, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
        self.sum_squares
            .fetch_add(value.wrapping_mul(value), Ordering::Relaxed);
    }

    /// Adds the values of another.
    pub fn add(&self, other: &Self) {
        for (to, from) in self.buckets.iter().zip(&other.buckets) {
            to.fetch_add(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.min
            .fetch_min(other.min.load(Ordering::Relaxed), Ordering::Relaxed);
        self.max
            .fetch_max(other.max.load(Ordering::Relaxed), Ordering::Relaxed);
        for (to, from) in [
            (&self.count, &other.count),
            (&self.sum, &other.sum),
            (&self.sum_squares, &other.sum_squares),
        ] {
            to.fetch_add(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Forgets all values.
    pub fn reset(&self) {
        self.min.store(u64::MAX, Ordering::Relaxed);
        for counter in [&self.max, &self.count, &self.sum, &self.sum_squares] {
            counter.store(0, Ordering::Relaxed);
        }
        for bucket in &self.buckets {
            bucket.store(0, Ordering::Relaxed);
        }
    }

    /// RocksDB's text: count, mean, extremes, percentiles, then a line per bucket in use with its share,
    /// the share up to it, and a bar.
    pub fn text(&self) -> String {
        let d = self.summary();
        let held: Vec<u64> = self
            .buckets
            .iter()
            .map(|b| b.load(Ordering::Relaxed))
            .collect();
        let at = |p| match d.count {
            0 => 0.0,
            count => percentile(&held, count, (d.min as u64, d.max as u64), p),
        };
        let mut out = format!(
            "Count: {} Average: {:.4}  StdDev: {:.2}\nMin: {}  Median: {:.4}  Max: {}\n\
             Percentiles: P50: {:.2} P75: {:.2} P99: {:.2} P99.9: {:.2} P99.99: {:.2}\n\
             ------------------------------------------------------\n",
            d.count,
            d.average,
            d.std_dev,
            d.min,
            d.median,
            d.max,
            d.median,
            at(75.0),
            d.p99,
            at(99.9),
            at(99.99),
        );
        let per_cent = 100.0 / d.count.max(1) as f64;
        let mut upto = 0u64;
        for (index, &held) in held.iter().enumerate().filter(|(_, held)| **held > 0) {
            upto += held;
            let (open, left) = match index {
                0 => ('[', 0),
                _ => ('(', LIMITS[index - 1]),
            };
            let share = per_cent * held as f64;
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "{open} {left:>7}, {:>7} ] {held:>8} {share:>7.3}% {:>7.3}% {}",
                LIMITS[index],
                per_cent * upto as f64,
                "#".repeat((share / 5.0 + 0.5) as usize),
            );
        }
        out
    }

    /// Returns what is known about the values; zeros if there are none.
    pub fn summary(&self) -> HistogramData {
        let buckets: Vec<u64> = self
            .buckets
            .iter()
            .map(|b| b.load(Ordering::Relaxed))
            .collect();
        let count: u64 = buckets.iter().sum();
        if count == 0 {
            return HistogramData::default();
        }
        let min = self.min.load(Ordering::Relaxed);
        let max = self.max.load(Ordering::Relaxed);
        let sum = self.sum.load(Ordering::Relaxed);
        let percentile = |p| percentile(&buckets, count, (min, max), p);
        let (n, s) = (count as f64, sum as f64);
        let squares = self.sum_squares.load(Ordering::Relaxed) as f64;
        let variance = (squares * n - s * s) / (n * n);
        HistogramData {
            median: percentile(50.0),
            p95: percentile(95.0),
            p99: percentile(99.0),
            average: s / n,
            std_dev: variance.max(0.0).sqrt(),
            max: max as f64,
            count,
            sum,
            min: min as f64,
        }
    }
}

/// The value below which `p` per cent lie, interpolated inside its bucket.
fn percentile(buckets: &[u64], count: u64, (min, max): (u64, u64), p: f64) -> f64 {
    let threshold = count as f64 * (p / 100.0);
    let mut below = 0u64;
    for (at, &held) in buckets.iter().enumerate() {
        let upto = below + held;
        if upto as f64 >= threshold {
            let left = if at == 0 { 0 } else { LIMITS[at - 1] };
            let width = (LIMITS[at] - left) as f64;
            let share = if held == 0 {
                0.0
            } else {
                (threshold - below as f64) / held as f64
            };
            return (left as f64 + width * share).clamp(min as f64, max as f64);
        }
        below = upto;
    }
    max as f64
}

/// Describes what a histogram says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HistogramData {
    /// Half of the values are not larger; interpolated, as all percentiles.
    pub median: f64,
    /// 95 per cent of the values are not larger.
    pub p95: f64,
    /// 99 per cent of the values are not larger.
    pub p99: f64,
    /// Mean.
    pub average: f64,
    /// Standard deviation.
    pub std_dev: f64,
    /// Largest value.
    pub max: f64,
    /// Number of values.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// Smallest value.
    pub min: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_limits_keep_two_digits() {
        let first = [
            1, 2, 3, 4, 6, 10, 15, 22, 34, 51, 76, 110, 170, 250, 380, 580,
        ];
        assert_eq!(LIMITS[..first.len()], first);
        assert!(LIMITS.windows(2).all(|w| w[0] < w[1]));
        assert_eq!(LIMITS[BUCKETS - 1], 13_000_000_000_000_000_000);
    }

    /// Of the values 1 to 4 each is in a bucket of its own.
    #[test]
    fn the_text_has_a_line_per_bucket_in_use() {
        let d = Distribution::default();
        for value in 1..=4 {
            d.record(value);
        }
        let text = d.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Count: 4 Average: 2.5000  StdDev: 1.12");
        assert_eq!(lines[1], "Min: 1  Median: 2.0000  Max: 4");
        assert_eq!(
            lines[2],
            "Percentiles: P50: 2.00 P75: 3.00 P99: 3.96 P99.9: 4.00 P99.99: 4.00"
        );
        assert_eq!(
            lines[4],
            "[       0,       1 ]        1  25.000%  25.000% #####"
        );
        assert_eq!(
            lines[7],
            "(       3,       4 ]        1  25.000% 100.000% #####"
        );
        d.reset();
        assert_eq!(d.summary(), HistogramData::default());
        assert!(
            d.text()
                .starts_with("Count: 0 Average: 0.0000  StdDev: 0.00\nMin: 0  ")
        );
    }
}
