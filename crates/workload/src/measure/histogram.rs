//! Latencies in buckets of at most 3 % width, from 1 ns to centuries.
//!
//! 32 buckets per power of two: the error of a percentile is half a bucket. The maximum is exact.

use spanlith_base::histogram::Distribution;

const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB;

/// Counts of values by size.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max: u64,
    sum: u128,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: vec![0; BUCKETS],
            count: 0,
            max: 0,
            sum: 0,
        }
    }
}

fn bucket(value: u64) -> usize {
    let shift = (64 - SUB_BITS - 1).saturating_sub(value.leading_zeros());
    // Below 64 the value is its own bucket; above, the top six bits choose.
    (shift as usize) * SUB + (value >> shift) as usize
}

/// Middle of a bucket.
fn value(bucket: usize) -> u64 {
    if bucket < 2 * SUB {
        return bucket as u64;
    }
    let shift = bucket / SUB - 1;
    let low = ((bucket - shift * SUB) as u64) << shift;
    low + (1u64 << shift) / 2
}

impl Histogram {
    /// Counts a value.
    #[inline]
    pub fn add(&mut self, v: u64) {
        self.buckets[bucket(v)] += 1;
        self.count += 1;
        self.max = self.max.max(v);
        self.sum += u128::from(v);
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Self) {
        for (a, b) in self.buckets.iter_mut().zip(&other.buckets) {
            *a += b;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Largest value.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Mean of the values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum as f64 / self.count as f64
        }
    }

    /// The value below which `percent` of all are; 0 if there are none.
    pub fn percentile(&self, percent: f64) -> u64 {
        if percent >= 100.0 {
            return self.max;
        }
        let rank = (self.count as f64 * percent / 100.0).ceil() as u64;
        let mut seen = 0;
        for (n, &c) in self.buckets.iter().enumerate() {
            seen += c;
            if seen >= rank.max(1) {
                return value(n).min(self.max);
            }
        }
        self.max
    }

    /// RocksDB's text of the values divided by `unit`; each counts as the middle of its bucket.
    pub fn reference_text(&self, unit: u64) -> String {
        let out = Distribution::default();
        for (n, &count) in self.buckets.iter().enumerate() {
            (0..count).for_each(|_| out.record(value(n).min(self.max) / unit));
        }
        out.text()
    }

    /// Forgets all values.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        self.count = 0;
        self.max = 0;
        self.sum = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_in_order() {
        let mut last = 0;
        for v in (0..100_000).chain([u64::MAX / 2, u64::MAX]) {
            let b = bucket(v);
            assert!(b >= last && b < BUCKETS, "{v}");
            last = b;
            let mid = value(b);
            assert!(
                mid.abs_diff(v) as f64 <= v as f64 * 0.017 + 0.5,
                "{v} is shown as {mid}"
            );
        }
    }

    #[test]
    fn percentiles_of_a_line_are_on_it() {
        let mut h = Histogram::default();
        assert_eq!(h.percentile(99.0), 0);
        (1..=100_000).for_each(|v| h.add(v));
        for (percent, exact) in [(50.0, 50_000.0), (99.0, 99_000.0), (99.9, 99_900.0)] {
            let shown = h.percentile(percent) as f64;
            assert!((shown - exact).abs() < exact * 0.02, "p{percent}: {shown}");
        }
        assert_eq!((h.max(), h.count()), (100_000, 100_000));
        assert_eq!((h.percentile(0.0), h.percentile(100.0)), (1, 100_000));
        let mut twice = h.clone();
        twice.merge(&h);
        assert_eq!(twice.percentile(50.0), h.percentile(50.0));
        assert!((twice.mean() - 50_000.5).abs() < 0.01);
        let text = h.reference_text(1000);
        assert!(text.starts_with("Count: 100000 Average: 49."), "{text}");
        twice.clear();
        assert_eq!((twice.count(), twice.max()), (0, 0));
    }
}
