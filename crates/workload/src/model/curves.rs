//! The curves that come closest to what was observed, for people and for RocksDB's `mixgraph`.

use super::observe::FamilyObservation;
use super::shape::Sizes;
use super::table::RangeModel;
use crate::analyze::Operation;
use crate::fit::{Family, Fit, best};
use std::collections::BTreeMap;

/// A curve, and the one that came next.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The closest.
    pub fit: Fit,
    /// The next.
    pub next: Option<Fit>,
}

/// Points of a curve at most.
const POINTS: usize = 400;

const OF_SIZES: [Family; 4] = [
    Family::Pareto,
    Family::Weibull,
    Family::Power,
    Family::Polynomial(5),
];
const OF_RANKS: [Family; 6] = [
    Family::Power,
    Family::PowerOffset,
    Family::TwoPowers,
    Family::Exponential,
    Family::TwoExponentials,
    Family::Polynomial(5),
];
const OF_RATES: [Family; 3] = [Family::Sine, Family::Polynomial(1), Family::Polynomial(5)];

fn closest(families: &[Family], xs: &[f64], ys: &[f64]) -> Option<Curve> {
    let step = xs.len().div_ceil(POINTS).max(1);
    let thin = |all: &[f64]| all.iter().copied().step_by(step).collect::<Vec<_>>();
    let (fit, next) = best(families, &thin(xs), &thin(ys))?;
    Some(Curve { fit, next })
}

fn sizes(all: &Sizes) -> Option<Curve> {
    let (xs, ys) = all.distribution();
    closest(&OF_SIZES, &xs, &ys)
}

/// Through requests per second.
pub(super) fn rate(slots: &[u64], seconds: f64) -> Option<Curve> {
    // The last part is not whole.
    let whole = slots.split_last()?.1;
    let width = seconds / slots.len() as f64;
    let xs: Vec<f64> = (0..whole.len()).map(|i| (i as f64 + 0.5) * width).collect();
    let ys: Vec<f64> = whole.iter().map(|&n| n as f64 / width.max(1e-9)).collect();
    closest(&OF_RATES, &xs, &ys)
}

/// Through what a family shows.
pub(super) fn of_family(f: &FamilyObservation, ranges: &[RangeModel]) -> BTreeMap<String, Curve> {
    let mut all = BTreeMap::new();
    let mut note = |name: String, curve: Option<Curve>| {
        if let Some(curve) = curve {
            all.insert(name, curve);
        }
    };
    note("key size".into(), sizes(&f.key_sizes));
    note("value size".into(), sizes(&f.value_sizes));
    note("scan length".into(), sizes(&f.scan_lengths));
    for operation in Operation::ALL {
        if f.accesses[operation.id()] == 0 {
            continue;
        }
        let name = operation.name();
        let mut counts: Vec<u64> = f
            .keys
            .values()
            .map(|k| u64::from(k.counts[operation.id()]))
            .filter(|&n| n > 0)
            .collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let total: u64 = counts.iter().sum();
        let mut sum = 0;
        let ys: Vec<f64> = counts
            .iter()
            .map(|n| {
                sum += n;
                sum as f64 / total as f64
            })
            .collect();
        let xs: Vec<f64> = (1..=ys.len()).map(|rank| rank as f64).collect();
        note(
            format!("{name}: share of accesses by rank of the key"),
            closest(&OF_RANKS, &xs, &ys),
        );
        let mut hot: Vec<f64> = ranges
            .iter()
            .filter_map(|r| r.accessed.get(&operation.id()).map(|a| (a.1, r.keys)))
            .map(|(n, keys)| n as f64 / keys.max(1) as f64)
            .collect();
        hot.sort_by(|a, b| b.total_cmp(a));
        let total: f64 = hot.iter().sum();
        hot.iter_mut().for_each(|h| *h /= total.max(1e-300));
        let xs: Vec<f64> = (1..=hot.len()).map(|rank| rank as f64).collect();
        note(
            format!("{name}: share of accesses by rank of the range"),
            closest(&OF_RANKS, &xs, &hot),
        );
    }
    all
}
