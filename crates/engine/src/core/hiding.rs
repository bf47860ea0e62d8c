//! Garbage in blob files that no compaction has met yet, and how far writers are slowed down for the space
//! that it takes (`kvsep_gc=budget`).
//!
//! A value that is overwritten stays until a compaction meets both entries. How many entries of upper levels
//! hide an older value depends on the load: none while new keys are inserted, nearly all while old ones are
//! overwritten. Compactions measure it: bytes that became garbage by each byte that their upper inputs
//! refer to. What the last of them found, or the mean of the last ones if that is more, is what a compaction expects of its own
//! inputs, for which it empties files beforehand.
//!
//! For the pace of writers each newer entry counts as one that hides an older value: a load of new keys may turn into one of
//! overwrites at any moment, and a writer is several memtables further before a compaction shows it. Memtables count as upper
//! levels do: their tables will stand beside what they replace. They are taken as full, since a
//! writer is not asked again before one is, but as no more than the target's share: smaller memtables would have to bound the rest.
//!
//! From halfway between `kvsep_space_target` and `kvsep_space_max` on, and not before one and a half times the
//! former, writers are delayed as by debt between RocksDB's soft and hard limits, ever more, and above `kvsep_space_max` they wait,
//! as long as a flush or a compaction is to come that changes it, and not otherwise.

use super::state::FamilyState;
use crate::picker::BlobSpace;
use crate::version::{BlobBudget, Version};
use spanlith_pace::SpaceFacts;
use std::sync::atomic::{AtomicU64, Ordering};

/// Parts that the share is counted in.
const PARTS: f64 = 1e6;

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
        // Upwards at once: after a load of new keys the first overwrites would else go unseen for several compactions.
        let mean = f64::midpoint(self.share(), now).max(now);
        self.parts.store((mean * PARTS) as u64, Ordering::Relaxed);
    }

    /// From 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        self.parts.load(Ordering::Relaxed) as f64 / PARTS
    }
}

/// The load on the space of blob files beside the garbage of a version, and whether anything is to come that relieves it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pressure {
    /// Bytes of memtables whose values go to blob files, about.
    memtables: u64,
    /// A flush or a compaction is to come.
    is_moving: bool,
}

impl Pressure {
    /// Of a family, as it is.
    pub(super) fn of(f: &FamilyState, budget: BlobBudget) -> Self {
        let sealed: u64 = f.imm.iter().map(|i| i.mem.data_bytes()).sum();
        let (blobs, tables) = (f.version.blob_bytes(), f.version.total_size());
        // Values that stay in tables hide nothing that is in blob files.
        let apart = blobs as f64 / (blobs + tables).max(1) as f64;
        let memtables = (sealed + f.settings.options.write_buffer_size) as f64 * apart;
        Self {
            memtables: memtables.min(budget.target * blobs as f64) as u64,
            // A sealed memtable may wait for others to be merged with, and a flush may have come to nothing.
            is_moving: f.compaction.is_coming()
                || !f.imm.is_empty() && (f.flush.is_coming() || f.flush_is_due()),
        }
    }
}

/// The debt, up to the second of the two limits, that the wasted space of blob files comes to; 0 if it is within bounds, if
/// nothing is to come that changes it, or if the limits are off.
pub(super) fn debt_of_space(
    version: &Version,
    budget: BlobBudget,
    pressure: Pressure,
    (soft, hard): (u64, u64),
) -> u64 {
    if soft == 0 || hard <= soft {
        return 0;
    }
    let excess = excess(BlobSpace::of(version).wasted(pressure.memtables), budget);
    match excess > 0.0 && pressure.is_moving {
        true => soft + ((hard - soft) as f64 * excess.min(1.0)) as u64,
        false => 0,
    }
}

/// Garbage of blob files, known and expected, and the budget of it, for the policy `smooth`.
pub(super) fn garbage(version: &Version, budget: BlobBudget, pressure: Pressure) -> SpaceFacts {
    let wasted = BlobSpace::of(version).wasted(pressure.memtables);
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
    use super::super::double::Double;
    use super::*;
    use crate::options::{CfOptions, DbOptions};

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

    /// Writers waited for ever for a flush that waited for a second memtable, which no writer filled.
    #[test]
    fn a_sealed_memtable_that_waits_for_another_relieves_nothing() {
        let cf = CfOptions {
            min_write_buffer_number_to_merge: 2,
            ..CfOptions::default()
        };
        let double = Double::new(&DbOptions::new(), &["default"], &cf);
        let budget = BlobBudget {
            target: 0.10,
            max: 0.22,
        };
        let moves = || Pressure::of(double.state().family(0).unwrap(), budget).is_moving;
        double.seal(0);
        assert!(!moves());
        double.seal(0);
        assert!(moves());
    }

    /// After an injected failure a flush was still announced, with nothing left to flush, and writers waited for it.
    #[test]
    fn a_flush_of_nothing_relieves_nothing() {
        let double = Double::new(&DbOptions::new(), &["default"], &CfOptions::default());
        let budget = BlobBudget {
            target: 0.10,
            max: 0.22,
        };
        let mut state = double.state();
        let family = state.family_mut(0).unwrap();
        family.flush.queue();
        assert!(!Pressure::of(family, budget).is_moving);
    }

    #[test]
    fn the_share_follows_the_last_compactions() {
        let hiding = Hiding::default();
        assert_eq!(hiding.share(), 0.0);
        // Nothing was merged.
        hiding.note(0, 10);
        assert_eq!(hiding.share(), 0.0);
        hiding.note(1000, 900);
        assert!((hiding.share() - 0.9).abs() < 0.01, "{}", hiding.share());
        hiding.note(1000, 500);
        assert!((hiding.share() - 0.7).abs() < 0.01, "{}", hiding.share());
        // More garbage than was referred to above came of other levels.
        hiding.note(10, 1000);
        assert!(hiding.share() <= 1.0);
        for _ in 0..8 {
            hiding.note(1000, 0);
        }
        assert!(hiding.share() < 0.01, "{}", hiding.share());
    }
}
