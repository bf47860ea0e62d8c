//! Distributions as tables: counts of values while observing ([`Sizes`]), quantiles and frequent values afterwards
//! ([`Shape`]).

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Values below are counted one by one; above, a sixty-fourth of the value is the width of a class.
const EXACT: u64 = 4096;
/// A value with at least this share of all is kept by itself.
const SPIKE: f64 = 0.01;
/// Powers of a half of which quantiles of the tail are kept.
const TAIL: i32 = 24;

/// Counts of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sizes {
    /// Of the values that are counted one by one, up to the largest that occurred.
    small: Vec<u64>,
    /// Of the others, by class.
    large: BTreeMap<u64, u64>,
    total: u64,
}

fn class(value: u64) -> u64 {
    if value < EXACT {
        return value;
    }
    let shift = 63 - value.leading_zeros() - 6;
    (value >> shift) << shift
}

impl Sizes {
    /// Counts a value `n` times.
    pub fn add(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        self.total += n;
        if value >= EXACT {
            *self.large.entry(class(value)).or_default() += n;
            return;
        }
        let at = value as usize;
        if self.small.len() <= at {
            self.small.resize(at + 1, 0);
        }
        self.small[at] += n;
    }

    /// How many were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Values and their counts, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let small = (0..).zip(&self.small).filter(|(_, n)| **n > 0);
        let large = self.large.iter().map(|(v, n)| (*v, n));
        small.chain(large).map(|(v, n)| (v, *n))
    }

    /// Mean; 0 without values.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.iter().map(|(v, n)| v as f64 * n as f64).sum();
        sum / (self.total as f64).max(1.0)
    }

    /// Standard deviation.
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let square = self
            .iter()
            .map(|(v, n)| (v as f64 - mean).powi(2) * n as f64);
        (square.sum::<f64>() / (self.total as f64).max(1.0)).sqrt()
    }

    /// The value that a share of all do not pass.
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = (share * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (value, n) in self.iter() {
            seen += n;
            if seen >= rank {
                return value;
            }
        }
        self.iter().last().map_or(0, |(v, _)| v)
    }

    /// Points of the distribution function.
    pub fn distribution(&self) -> (Vec<f64>, Vec<f64>) {
        let mut seen = 0;
        self.iter()
            .map(|(value, n)| {
                seen += n;
                (value as f64, seen as f64 / self.total as f64)
            })
            .unzip()
    }

    /// Largest distance of the distribution functions of two counts (Kolmogorov and Smirnov); 1 if one is empty.
    pub fn distance(&self, other: &Self) -> f64 {
        if self.total == 0 || other.total == 0 {
            return f64::from(u8::from(self.total != other.total));
        }
        let mut all: Vec<(u64, f64)> = self.shares(1.0).chain(other.shares(-1.0)).collect();
        all.sort_by_key(|(value, _)| *value);
        let (mut apart, mut most) = (0.0_f64, 0.0_f64);
        for same in all.chunk_by(|a, b| a.0 == b.0) {
            apart += same.iter().map(|(_, share)| share).sum::<f64>();
            most = most.max(apart.abs());
        }
        most
    }
}

impl Sizes {
    /// Values with their shares of all, times a factor.
    fn shares(&self, factor: f64) -> impl Iterator<Item = (u64, f64)> {
        let total = self.total as f64;
        self.iter()
            .map(move |(v, n)| (v, factor * n as f64 / total))
    }
}

/// Shares at which quantiles are kept.
static GRID: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let mut grid: Vec<f64> = (0..64).map(|i| f64::from(i) / 64.0).collect();
    grid.extend((7..=TAIL).map(|k| 1.0 - 0.5f64.powi(k)));
    grid.push(1.0);
    grid
});

/// A distribution that values can be drawn from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// Frequent values with their shares of all.
    pub spikes: Vec<(u64, f64)>,
    /// Quantiles of the others at [`Shape::grid`].
    pub quantiles: Vec<u64>,
}

impl Shape {
    /// Shares at which quantiles are kept: sixty-fourths, then ever finer towards 1.
    pub fn grid() -> &'static [f64] {
        &GRID
    }

    /// The shape of what was counted.
    pub fn of(sizes: &Sizes) -> Self {
        let total = sizes.total.max(1) as f64;
        let is_spike = |n: u64| n as f64 / total >= SPIKE;
        let spikes: Vec<(u64, f64)> = sizes
            .iter()
            .filter(|&(_, n)| is_spike(n))
            .map(|(value, n)| (value, n as f64 / total))
            .collect();
        let mut rest = Sizes::default();
        for (value, n) in sizes.iter().filter(|&(_, n)| !is_spike(n)) {
            rest.add(value, n);
        }
        let quantiles = match rest.total {
            0 => Vec::new(),
            _ => Self::grid().iter().map(|&p| rest.quantile(p)).collect(),
        };
        Self { spikes, quantiles }
    }

    /// The shape of values that ascend, each kept as it is and none by itself; that of no value is empty.
    pub(super) fn of_sorted(values: &[u64]) -> Self {
        debug_assert!(values.is_sorted(), "they ascend");
        let last = values.len().saturating_sub(1);
        let at = |&share: &f64| (share * last as f64).round() as usize;
        let quantile = |share| values.get(at(share)).copied();
        Self {
            spikes: Vec::new(),
            quantiles: Self::grid().iter().filter_map(quantile).collect(),
        }
    }

    /// Returns whether nothing can be drawn.
    pub fn is_empty(&self) -> bool {
        self.spikes.is_empty() && self.quantiles.is_empty()
    }

    /// The value of which a share `u` of all are not larger, frequent ones first. Drawn with `u` uniform this is the
    /// distribution.
    pub fn draw(&self, u: f64) -> u64 {
        let mut left = u;
        for &(value, share) in &self.spikes {
            if left < share {
                return value;
            }
            left -= share;
        }
        let rest: f64 = 1.0 - self.spikes.iter().map(|s| s.1).sum::<f64>();
        if self.quantiles.is_empty() || rest <= 0.0 {
            return self.spikes.last().map_or(0, |s| s.0);
        }
        let p = (left / rest).clamp(0.0, 1.0);
        let grid = Self::grid();
        let at = grid.partition_point(|&g| g <= p).clamp(1, grid.len() - 1);
        let q = |i: usize| self.quantiles.get(i).copied().unwrap_or(0);
        let (low, high) = (q(at - 1), q(at));
        let width = grid[at] - grid[at - 1];
        let part = if width > 0.0 {
            (p - grid[at - 1]) / width
        } else {
            0.0
        };
        // By ratio in the tail, where values spread over powers.
        let value = match low > 0 && high > 4 * low {
            true => low as f64 * (high as f64 / low as f64).powf(part),
            false => low as f64 + (high - low) as f64 * part,
        };
        value.round() as u64
    }

    /// Mean of what is drawn.
    pub fn mean(&self) -> f64 {
        let n = 4096;
        let sum: f64 = (0..n)
            .map(|i| self.draw((f64::from(i) + 0.5) / f64::from(n)) as f64)
            .sum();
        sum / f64::from(n)
    }
}
