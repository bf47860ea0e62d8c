//! Garbage in blob files that no compaction has met yet, and how far writers are slowed down for the space
//! that it takes (`kvsep_gc=budget`).
//!
//! A value that is overwritten stays until a compaction meets both entries. How many entries of upper levels
//! hide an older value depends on the load: none while new keys are inserted, nearly all while old ones are
//! overwritten. Compactions measure it: bytes that became garbage by each byte that their upper inputs
//! refer to. The mean of the last compactions is what is expected of those to come.
//!
//! From halfway between `kvsep_space_target` and `kvsep_space_max` on, and not before one and a half times the
//! former, writers are delayed as by debt between RocksDB's soft and hard limits, ever more but never stopped: collection itself may fail.

use crate::picker::BlobSpace;
use crate::version::{BlobBudget, Version};
use spanlith_pace::SpaceFacts;
use std::sync::atomic::{AtomicU64, Ordering};

/// Parts that the share is counted in.
const PARTS: f64 = 1e6;

/// Share of the debt between the soft and the hard limit that waste comes to at most.
const DEBT_MAX: f64 = 0.95;

/// The share of bytes referred to by upper levels that hide as many of older values.
#[derive(Default)]
pub(crate) struct Hiding {
    /// Relaxed: a figure of its own.
    parts: AtomicU64,
}

impl Hiding {
    /// A compaction merged upper levels that referred to so many bytes, and so many became garbage.
    pub(crate) fn note(&self, referred: u64, garbage: u64) {
        if referred == 0 {
            return;
        }
        let now = (garbage as f64 / referred as f64).min(1.0);
        let mean = (self.share() + now) / 2.0;
        self.parts.store((mean * PARTS) as u64, Ordering::Relaxed);
    }

    /// From 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        self.parts.load(Ordering::Relaxed) as f64 / PARTS
    }
}

/// The debt, between the two limits, that the wasted space of blob files comes to; 0 if it is within bounds or if the
/// limits are off.
pub(super) fn debt_of_space(
    version: &Version,
    budget: BlobBudget,
    hiding: &Hiding,
    (soft, hard): (u64, u64),
) -> u64 {
    if soft == 0 || hard <= soft {
        return 0;
    }
    let wasted = BlobSpace::of(version).wasted(hiding.share());
    let excess = excess(wasted, budget);
    match excess > 0.0 {
        true => soft + ((hard - soft) as f64 * excess.min(DEBT_MAX)) as u64,
        false => 0,
    }
}

/// Garbage of blob files, known and expected, and the budget of it, for the policy `smooth`.
pub(super) fn garbage(version: &Version, budget: BlobBudget, hiding: &Hiding) -> SpaceFacts {
    let wasted = BlobSpace::of(version).wasted(hiding.share());
    let in_parts = |share: f64| (share * PARTS) as u64;
    SpaceFacts {
        used: in_parts(wasted),
        target: in_parts(begin(budget)),
        max: in_parts(budget.max),
        drains: true,
    }
}

/// How far a share is beyond that from which on writers are delayed; 1 at the limit.
fn excess(wasted: f64, budget: BlobBudget) -> f64 {
    let from = begin(budget);
    (wasted - from) / (budget.max - from).max(0.01)
}

/// The share from which on writers are delayed.
fn begin(budget: BlobBudget) -> f64 {
    // Compactions at rest leave the target's share and half of it in upper levels, whatever the limit is: nothing
    // would end the delay.
    f64::midpoint(budget.target, budget.max).max(1.5 * budget.target + 0.02)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_are_delayed_by_what_compactions_will_end_only() {
        let budget = |target, max| BlobBudget { target, max };
        let usual = budget(0.10, 0.22);
        // The cases are: as much as is left at rest, more than that, and the limit.
        assert!(excess(0.169, usual) < 0.0);
        assert!(excess(0.171, usual) > 0.0);
        assert!((excess(0.22, usual) - 1.0).abs() < 1e-6);
        // A limit at the target itself: what is left at rest delays nobody.
        assert!(excess(0.15, budget(0.10, 0.10)) <= 0.0);
        assert!(excess(0.20, budget(0.10, 0.10)) > 1.0);
    }

    #[test]
    fn the_share_follows_the_last_compactions() {
        let hiding = Hiding::default();
        assert_eq!(hiding.share(), 0.0);
        // Nothing was merged.
        hiding.note(0, 10);
        assert_eq!(hiding.share(), 0.0);
        for _ in 0..8 {
            hiding.note(1000, 900);
        }
        assert!((hiding.share() - 0.9).abs() < 0.01, "{}", hiding.share());
        // More garbage than was referred to above came of other levels.
        hiding.note(10, 1000);
        assert!(hiding.share() <= 1.0);
        for _ in 0..8 {
            hiding.note(1000, 0);
        }
        assert!(hiding.share() < 0.01, "{}", hiding.share());
    }
}
