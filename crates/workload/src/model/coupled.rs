//! Which operations concern a key that is accessed often, and how often each does.
//!
//! Where keys of any number of accesses lie beside each other, the most accessed one of a range may be any of its keys. A key that
//! is read a thousand times is written, too, if keys are written as they are read, and about as much more often than others. So
//! the numbers of the operation of most keys go to keys whose other operations fit them, and the numbers of these follow: in proportion,
//! as far as chance allows, which leaves a few accesses less in common than many.

use super::Dice;
use super::observe::{Counted, OPS};
use super::places;
use super::ranges::{Mask, mask_of};
use std::collections::BTreeMap;

/// Classes of keys by powers of two of the accesses of the operation of most keys.
pub(super) const CLASSES: usize = 16;
/// Accesses from which on chance says little about a proportion.
const MANY: u32 = 32;
/// Keys with so many from which on proportions spread at all.
const KEYS_MIN: usize = 8;

/// How often an operation concerns a key beside the operation of most keys.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Ratio {
    /// Its accesses over those of the other.
    pub ratio: f64,
    /// How much the logarithm of that spreads, without what chance does.
    pub spread: f64,
    /// Accesses of a key that the other does not concern.
    pub alone: f64,
}

/// How the operations on a key depend on each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Coupled {
    /// Of keys of each class, those with exactly these operations: as a multiple of their share of all.
    pub masks: BTreeMap<Mask, [f64; CLASSES]>,
    /// Of each other operation.
    pub ratios: BTreeMap<usize, Ratio>,
}

fn class_of(accesses: u32) -> usize {
    (accesses.max(1).ilog2() as usize).min(CLASSES - 1)
}

fn ratio(keys: &[&Counted], op: usize, main: usize) -> Ratio {
    let both = || {
        keys.iter()
            .filter(|k| k.counts[op] > 0 && k.counts[main] > 0)
    };
    let sum = |of: usize| both().map(|k| f64::from(k.counts[of])).sum::<f64>();
    let ratio = sum(op) / sum(main).max(1.0);
    let squares = both().filter(|k| k.counts[op] >= MANY).map(|k| {
        let expected = ratio * f64::from(k.counts[main]);
        let off = (f64::from(k.counts[op]) / expected).ln();
        off * off - 1.0 / expected
    });
    let squares: Vec<f64> = squares.collect();
    let spread = match squares.len() >= KEYS_MIN {
        true => (squares.iter().sum::<f64>() / squares.len() as f64)
            .max(0.0)
            .sqrt(),
        false => 0.0,
    };
    let alone = keys
        .iter()
        .filter(|k| k.counts[op] > 0 && k.counts[main] == 0);
    let (keys, accesses) = alone.fold((0.0, 0.0), |(keys, all), k| {
        (keys + 1.0, all + f64::from(k.counts[op]))
    });
    let alone = accesses / f64::max(keys, 1.0);
    Ratio {
        ratio,
        spread,
        alone,
    }
}

impl Coupled {
    /// Learns from keys, of which `main` concerns most.
    pub(super) fn of(keys: &[&Counted], main: usize) -> Self {
        let mut masks: BTreeMap<Mask, [f64; CLASSES]> = BTreeMap::new();
        let mut all = [0.0; CLASSES];
        for key in keys.iter().filter(|k| k.counts[main] > 0) {
            let class = class_of(key.counts[main]);
            masks.entry(mask_of(key)).or_default()[class] += 1.0;
            all[class] += 1.0;
        }
        let total: f64 = all.iter().sum();
        for of_class in masks.values_mut() {
            let share = of_class.iter().sum::<f64>() / total;
            for (n, all) in of_class.iter_mut().zip(all) {
                *n /= f64::max(all * share, 1e-9);
            }
        }
        let others = (0..OPS).filter(|&op| op != main && keys.iter().any(|k| k.counts[op] > 0));
        let ratios = others.map(|op| (op, ratio(keys, op, main)));
        Self {
            masks,
            ratios: ratios.collect(),
        }
    }

    /// Gives the numbers of `main`, which ascend, to keys with these masks.
    pub(super) fn main(
        &self,
        places: &[(u64, Mask)],
        counts: &[u32],
        dice: &mut Dice,
    ) -> places::Counted {
        let mut left: BTreeMap<Mask, Vec<u64>> = BTreeMap::new();
        for &(place, mask) in places {
            left.entry(mask).or_default().push(place);
        }
        let mut found: places::Counted = Vec::with_capacity(places.len());
        for &count in counts.iter().rev() {
            let class = class_of(count);
            let weight = |mask: &Mask, places: &Vec<u64>| {
                let factor = self.masks.get(mask).map_or(1.0, |of_class| of_class[class]);
                // Never none: a range may have no other key left.
                places.len() as f64 * (factor + 1e-6)
            };
            let all: f64 = left.iter().map(|(mask, places)| weight(mask, places)).sum();
            let mut at = dice.unit() * all;
            let mut chosen = None;
            for (mask, places) in left.iter_mut().filter(|of| !of.1.is_empty()) {
                at -= weight(mask, places);
                chosen = Some(places);
                if at < 0.0 {
                    break;
                }
            }
            if let Some(places) = chosen {
                let any = dice.below(places.len());
                found.push((places.swap_remove(any), count));
            }
        }
        found.sort_unstable();
        found
    }

    /// Gives the numbers of another operation, which ascend, to its keys, beside what `main` has.
    pub(super) fn other(
        &self,
        op: usize,
        places: &[(u64, Mask)],
        counts: &[u32],
        main: &places::Counted,
        dice: &mut Dice,
    ) -> places::Counted {
        let ratio = self.ratios.get(&op).copied().unwrap_or_default();
        let score = |&(place, _): &(u64, Mask)| {
            let with = main.binary_search_by_key(&place, |of| of.0);
            let expected = match with {
                Ok(at) => ratio.ratio * f64::from(main[at].1),
                Err(_) => ratio.alone,
            };
            let spread = (ratio.spread * places::normal(dice.unit())).exp();
            // Ties in any order.
            (by_chance(expected * spread, dice) + dice.unit(), place)
        };
        let mut order: Vec<(f64, u64)> = places.iter().map(score).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut found: places::Counted = order
            .iter()
            .map(|o| o.1)
            .zip(counts.iter().copied())
            .collect();
        found.sort_unstable();
        found
    }
}

/// How often something happens that is expected so often, as Poisson has it.
fn by_chance(expected: f64, dice: &mut Dice) -> f64 {
    if expected > 30.0 {
        return (expected + expected.sqrt() * places::normal(dice.unit())).round();
    }
    let (none, mut chance, mut n) = ((-expected).exp(), 1.0, 0.0);
    loop {
        chance *= dice.unit();
        if chance <= none {
            return n;
        }
        n += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys that are got often are put as well, in proportion; those that are got once seldom are.
    #[test]
    fn hot_keys_get_the_operations_that_hot_keys_have() {
        let mut dice = Dice::new(1);
        let key = |at: u32| {
            let mut key = Counted::default();
            key.counts[0] = 20_000 / (at + 1) + 1;
            key.counts[1] = by_chance(0.2 * f64::from(key.counts[0]), &mut dice) as u32;
            key
        };
        let keys: Vec<Counted> = (0..2000).map(key).collect();
        let refs: Vec<&Counted> = keys.iter().collect();
        let coupled = Coupled::of(&refs, 0);
        let ratio = coupled.ratios[&1];
        assert!(
            (ratio.ratio / 0.2 - 1.0).abs() < 0.1 && ratio.spread < 0.1,
            "{ratio:?}"
        );
        // Given out again, wherever they lie.
        let places: Vec<(u64, Mask)> = (0..).zip(keys.iter().rev().map(mask_of)).collect();
        let counts = |op: usize| {
            let mut all: Vec<u32> = keys
                .iter()
                .map(|k| k.counts[op])
                .filter(|n| *n > 0)
                .collect();
            all.sort_unstable();
            all
        };
        let main = coupled.main(&places, &counts(0), &mut dice);
        assert_eq!(main.len(), 2000);
        let with: Vec<(u64, Mask)> = places.iter().copied().filter(|p| p.1 == 3).collect();
        let other = coupled.other(1, &with, &counts(1), &main, &mut dice);
        assert_eq!(other.len(), with.len());
        for &(place, count) in main.iter().filter(|of| of.1 > 500) {
            let puts = other.iter().find(|of| of.0 == place).map_or(0, |of| of.1);
            let expected = 0.2 * f64::from(count);
            assert!(
                (f64::from(puts) / expected - 1.0).abs() < 0.5,
                "{count} {puts}"
            );
        }
        let sum = |of: &places::Counted| of.iter().map(|of| of.1).sum::<u32>();
        assert_eq!(sum(&main), counts(0).iter().sum::<u32>());
        assert_eq!(sum(&other), counts(1).iter().sum::<u32>());
    }
}
