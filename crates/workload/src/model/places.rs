//! Which keys of a range operations concern, and how often each: what [`super::ranges`] keeps, made again.
//!
//! Keys of the same operations are laid in runs of the model's length. The numbers of accesses of a range are the model's, whatever chance
//! does; which key gets which follows from a score of each key. Scores of keys of a group are as alike as the model says, and so are those of
//! one key by two operations.

use super::Dice;
use super::coupled::Coupled;
use super::ranges::{self, Mask, Nearness, Part};
use super::shape::Shape;
use super::table::{FamilyModel, OperationModel, RangeModel, main_of};
use std::collections::BTreeMap;

/// Draws of a table of accesses, from which those of a part of the numbers are taken.
const DRAWS: usize = 4096;

/// Keys of a group that are at least as alike lie in the order of their accesses: what does not fit into one group is then together in
/// the next one, too.
const EQUAL: f64 = 0.97;

/// Places of keys in a range with their accesses, in the order of the places.
pub(super) type Counted = Vec<(u64, u32)>;

/// Holds what is the same for all ranges of a family.
pub(super) struct Layout<'a> {
    family: &'a FamilyModel,
    main: usize,
    /// Of each operation: draws of its accesses of a key, ascending.
    draws: BTreeMap<usize, Vec<u64>>,
}

/// The number that a share of the values of a normal distribution is below, about.
pub(super) fn normal(share: f64) -> f64 {
    let share = share.clamp(1e-9, 1.0 - 1e-9);
    (share / (1.0 - share)).ln() / 1.702
}

impl<'a> Layout<'a> {
    pub(super) fn of(family: &'a FamilyModel) -> Self {
        let draws = |(&op, model): (&usize, &OperationModel)| (op, draws(&model.counts));
        Self {
            family,
            main: main_of(&family.ranges),
            draws: family.operations.iter().map(draws).collect(),
        }
    }

    /// The keys of a range that each operation concerns.
    pub(super) fn range(&self, range: &RangeModel, dice: &mut Dice) -> BTreeMap<usize, Counted> {
        let masks = masks(range, dice);
        if let Some(coupled) = self.coupled() {
            return self.coupled_range(coupled, range, &masks, dice);
        }
        let mut scores = vec![f64::NAN; masks.len()];
        let mut found = BTreeMap::new();
        // The main operation comes first, since others go by its scores.
        let others = self.family.operations.keys().copied();
        let main = others.clone().filter(|&op| op == self.main);
        for op in main.chain(others.filter(|&op| op != self.main)) {
            let has = |&(_, mask): &(u64, Mask)| mask >> op & 1 == 1;
            let places: Vec<(u64, Mask)> = (0..).zip(masks.iter().copied()).filter(has).collect();
            if !places.is_empty() {
                found.insert(op, self.operation(op, range, &places, &mut scores, dice));
            }
        }
        found
    }

    /// How the operations on a key depend on each other, if that is known, and hot keys lie anywhere: where they lie together, likeness of
    /// neighbours decides.
    fn coupled(&self) -> Option<&'a Coupled> {
        let near = self.family.operations.get(&self.main)?.nearness;
        let together = self.family.together.as_ref()?;
        (near.group == 0).then_some(&together.coupled)
    }

    /// As [`Self::range`], with numbers of accesses that fit those of other operations on the key.
    fn coupled_range(
        &self,
        coupled: &Coupled,
        range: &RangeModel,
        masks: &[Mask],
        dice: &mut Dice,
    ) -> BTreeMap<usize, Counted> {
        let places_of = |op: usize| -> Vec<(u64, Mask)> {
            let all = (0..).zip(masks.iter().copied());
            all.filter(|(_, mask)| mask >> op & 1 == 1).collect()
        };
        let places = places_of(self.main);
        let counts = self.counts(self.main, range, places.len());
        let main = coupled.main(&places, &counts, dice);
        let mut found = BTreeMap::new();
        for &op in self.family.operations.keys().filter(|op| **op != self.main) {
            let places = places_of(op);
            let counts = self.counts(op, range, places.len());
            if !places.is_empty() {
                found.insert(op, coupled.other(op, &places, &counts, &main, dice));
            }
        }
        if !main.is_empty() {
            found.insert(self.main, main);
        }
        found
    }

    /// How often each of the places is accessed; scores of the main operation are kept for the others.
    fn operation(
        &self,
        op: usize,
        range: &RangeModel,
        places: &[(u64, Mask)],
        scores: &mut [f64],
        dice: &mut Dice,
    ) -> Counted {
        let order = match self.in_groups(op, places) {
            true => self.groups(op, range, places.len(), dice),
            false => self.scored(op, range, places, scores, dice),
        };
        let counts = self.counts(op, range, places.len());
        let mut found: Counted = places.iter().map(|p| (p.0, 1)).collect();
        for (rank, (&at, count)) in order.iter().zip(counts).enumerate() {
            found[at].1 = count;
            if op == self.main {
                scores[found[at].0 as usize] = normal((rank as f64 + 0.5) / places.len() as f64);
            }
        }
        found
    }

    /// Returns whether only groups decide how often keys are accessed, and not what else concerns them.
    fn in_groups(&self, op: usize, places: &[(u64, Mask)]) -> bool {
        let near = &self.family.operations[&op].nearness;
        let is_free = match op == self.main {
            true => places.iter().all(|p| (self.rank(p.1) - 0.5).abs() < 0.1),
            false => near.with_main == 0.0,
        };
        near.group > 1 && near.together >= EQUAL && is_free
    }

    /// Where keys of a mask stand on the mean among those of the main operation.
    fn rank(&self, mask: Mask) -> f64 {
        let rank = self.family.ranks.get(&mask).copied().unwrap_or(0.5);
        rank.clamp(0.001, 0.999)
    }

    /// The keys of a range by rising accesses: each group has consecutive ones.
    fn groups(&self, op: usize, range: &RangeModel, keys: usize, dice: &mut Dice) -> Vec<usize> {
        let group = self.family.operations[&op].nearness.group.min(keys as u64) as usize;
        let tilt = range
            .tilts
            .get(&op)
            .copied()
            .unwrap_or(0.0)
            .clamp(-1.0, 1.0);
        let upright = (1.0 - tilt * tilt).sqrt();
        // The hottest group is whole.
        let ends = (0..keys.div_ceil(group.max(1))).map(|n| keys - n * group);
        let place = |end: usize| {
            let ranks = end.saturating_sub(group)..end;
            let middle = (ranks.start + ranks.end) as f64 / 2.0 / keys as f64;
            (tilt * normal(middle) + upright * normal(dice.unit()), ranks)
        };
        let mut groups: Vec<_> = ends.map(place).collect();
        groups.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut order = vec![0; keys];
        for (at, rank) in groups.into_iter().flat_map(|g| g.1).enumerate() {
            order[rank] = at;
        }
        order
    }

    /// The keys of a range by rising scores.
    fn scored(
        &self,
        op: usize,
        range: &RangeModel,
        places: &[(u64, Mask)],
        scores: &[f64],
        dice: &mut Dice,
    ) -> Vec<usize> {
        let near = &self.family.operations[&op].nearness;
        let own = own_scores(near, places.len(), dice);
        // Of small groups a range has several, which lie anywhere.
        let tilt = match 2 * near.group as usize >= places.len() {
            true => range.tilts.get(&op).copied().unwrap_or(0.0),
            false => 0.0,
        };
        let tilt = tilt.clamp(-1.0, 1.0);
        let upright = (1.0 - tilt * tilt).sqrt();
        let many = places.len() as f64;
        let tilted =
            |(at, own): (usize, f64)| tilt * normal((at as f64 + 0.5) / many) + upright * own;
        let own = own.into_iter().enumerate().map(tilted);
        let with = near.with_main.clamp(-1.0, 1.0);
        let without = (1.0 - with * with).sqrt();
        let score = |(&(place, mask), own): (&(u64, Mask), f64)| match scores[place as usize] {
            main if op != self.main && !main.is_nan() => with * main + without * own,
            _ if op != self.main => own,
            _ => own + std::f64::consts::SQRT_2 * normal(self.rank(mask)),
        };
        let mut order: Vec<(f64, usize)> = places.iter().zip(own).map(score).zip(0..).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        order.into_iter().map(|o| o.1).collect()
    }

    /// How often so many keys of a range are accessed, ascending.
    fn counts(&self, op: usize, range: &RangeModel, keys: usize) -> Vec<u32> {
        let draws = self.draws.get(&op).map_or(&[][..], Vec::as_slice);
        let mut counts: Vec<u32> = Vec::with_capacity(keys);
        for bin in range.counts.get(&op).into_iter().flatten() {
            let many = (bin.keys as usize).min(keys);
            let (low, high) = ranges::bounds(bin.bin);
            let from = draws.partition_point(|d| *d < low);
            let to = draws.partition_point(|d| *d <= high);
            let among = &draws[from..to];
            let value = |at: usize| {
                let part = (at as f64 + 0.5) / many as f64;
                match among.is_empty() {
                    true => low + (part * (high - low + 1) as f64) as u64,
                    false => among[((part * among.len() as f64) as usize).min(among.len() - 1)],
                }
            };
            let first = counts.len();
            counts.extend((0..many).map(|at| value(at) as u32));
            correct(
                &mut counts[first..],
                bin.accesses,
                (low as u32, high as u32),
            );
        }
        if counts.len() == keys {
            return counts;
        }
        // Of a file that has been changed, or of a sample.
        let accesses = range.accessed.get(&op).map_or(0, |a| a.1);
        let mean = (accesses as f64 / keys.max(1) as f64).round().max(1.0) as u32;
        let of = |at: usize| counts.get(at * counts.len() / keys).copied();
        (0..keys).map(|at| of(at).unwrap_or(mean)).collect()
    }
}

/// Says for each key of a range which operations concern it: as many runs of each mask as there were, which do not meet if that can be.
fn masks(range: &RangeModel, dice: &mut Dice) -> Vec<Mask> {
    let runs = |(&mask, part): (&Mask, &Part)| (mask, part.runs);
    let mut left: BTreeMap<Mask, u64> = range.parts.iter().map(runs).collect();
    let mut laid: BTreeMap<Mask, u64> = BTreeMap::new();
    let mut masks = Vec::with_capacity(range.keys as usize);
    let mut lay = |mask: Mask, masks: &mut Vec<Mask>| {
        let part = range.parts.get(&mask).copied().unwrap_or_default();
        let at = laid.entry(mask).or_default();
        // Of keys that runs share out evenly.
        let end =
            |n: u64| (u128::from(part.keys) * u128::from(n) / u128::from(part.runs.max(1))) as u64;
        masks.extend(std::iter::repeat_n(
            mask,
            (end(*at + 1) - end(*at)) as usize,
        ));
        *at += 1;
    };
    let take = |mask: Mask, left: &mut BTreeMap<Mask, u64>| match left.get_mut(&mask) {
        Some(runs) if *runs > 0 => {
            *runs -= 1;
            true
        }
        _ => false,
    };
    let first = range
        .ends
        .map(|ends| ends.0)
        .filter(|m| take(*m, &mut left));
    let last = range
        .ends
        .map(|ends| ends.1)
        .filter(|m| take(*m, &mut left));
    first.into_iter().for_each(|mask| lay(mask, &mut masks));
    let mut before = first;
    while let Some(mask) = next(&left, before, last, dice) {
        take(mask, &mut left);
        lay(mask, &mut masks);
        before = Some(mask);
    }
    last.into_iter().for_each(|mask| lay(mask, &mut masks));
    masks
}

/// The mask of the next run: each with its share of those that are left, unless it would meet its like, now or in the end.
fn next(
    left: &BTreeMap<Mask, u64>,
    before: Option<Mask>,
    last: Option<Mask>,
    dice: &mut Dice,
) -> Option<Mask> {
    let all: u64 = left.values().sum();
    let others = |&(&mask, &runs): &(&Mask, &u64)| runs > 0 && Some(mask) != before;
    // It has to be every second one from here on.
    let crowded = left.iter().filter(others).find(|&(&mask, &runs)| {
        let more = u64::from(Some(mask) == last);
        2 * (runs + more) > all + more
    });
    if let Some((&mask, _)) = crowded {
        return Some(mask);
    }
    let among: u64 = left.iter().filter(others).map(|(_, runs)| runs).sum();
    if among == 0 {
        return before.filter(|_| all > 0);
    }
    let mut at = ((dice.unit() * among as f64) as u64).min(among - 1);
    for (&mask, &runs) in left.iter().filter(others) {
        if at < runs {
            return Some(mask);
        }
        at -= runs;
    }
    None
}

/// Brings the sum of numbers as near to what it shall be as bounds of each allow, which they keep.
fn correct(counts: &mut [u32], sum: u64, (low, high): (u32, u32)) {
    let many = counts.len() as i64;
    let now: u64 = counts.iter().map(|&n| u64::from(n)).sum();
    let missing = sum as i64 - now as i64;
    for (at, count) in (0..many).zip(counts) {
        // Each the same, and what is left over shared out evenly.
        let to = |at: i64| (i128::from(missing) * i128::from(at)).div_euclid(i128::from(many));
        let more = (to(at + 1) - to(at)) as i64;
        *count = i64::from(*count)
            .saturating_add(more)
            .clamp(i64::from(low), i64::from(high)) as u32;
    }
}

fn draws(counts: &Shape) -> Vec<u64> {
    if counts.is_empty() {
        return Vec::new();
    }
    let share = |at: usize| (at as f64 + 0.5) / DRAWS as f64;
    let mut all: Vec<u64> = (0..DRAWS).map(|at| counts.draw(share(at))).collect();
    all.sort_unstable();
    all
}

/// Scores of keys side by side, those of a group alike.
fn own_scores(near: &Nearness, keys: usize, dice: &mut Dice) -> Vec<f64> {
    let group = near.group.min(keys.max(1) as u64);
    let together = match group {
        0 | 1 => 0.0,
        _ if near.together >= EQUAL => 1.0,
        _ => near.together.clamp(0.0, 1.0),
    };
    let (shared, alone) = (together.sqrt(), (1.0 - together).sqrt());
    // Groups begin anywhere.
    let offset = dice.below(group.max(1) as usize);
    let mut of_group = 0.0;
    let score = |at: usize| {
        if at == 0 || (at + offset).is_multiple_of(group.max(1) as usize) {
            of_group = normal(dice.unit());
        }
        shared * of_group + alone * normal(dice.unit())
    };
    (0..keys).map(score).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many runs as the model says, the first and the last of their masks, whatever the shares are.
    #[test]
    fn runs_are_laid_as_the_model_says() {
        let mut dice = Dice::new(1);
        let part = |keys, runs| Part { keys, runs };
        for (parts, ends) in [
            (vec![(1, part(60, 4)), (2, part(30, 3))], (1, 1)),
            (vec![(1, part(60, 4)), (2, part(30, 4))], (2, 1)),
            (
                vec![(1, part(9, 3)), (2, part(4, 2)), (3, part(2, 2))],
                (3, 2),
            ),
            (vec![(1, part(7, 1))], (1, 1)),
            (vec![(1, part(50, 30)), (2, part(50, 30))], (1, 2)),
        ] {
            let range = RangeModel {
                keys: parts.iter().map(|p| p.1.keys).sum(),
                parts: parts.iter().copied().collect(),
                ends: Some(ends),
                ..RangeModel::default()
            };
            for _ in 0..50 {
                let masks = masks(&range, &mut dice);
                assert_eq!(masks.len() as u64, range.keys);
                assert_eq!((masks[0], *masks.last().unwrap()), ends);
                for &(mask, part) in &parts {
                    let runs = masks.chunk_by(|a, b| a == b).filter(|r| r[0] == mask);
                    assert_eq!(runs.count() as u64, part.runs, "{parts:?} {masks:?}");
                    let keys = masks.iter().filter(|m| **m == mask).count();
                    assert_eq!(keys as u64, part.keys);
                }
            }
        }
    }

    #[test]
    fn sums_are_corrected_inside_of_bounds() {
        for (counts, sum, bounds, expected) in [
            (vec![4, 4, 4], 13, (4, 7), vec![4, 4, 5]),
            (vec![4, 5, 6], 12, (4, 7), vec![4, 4, 5]),
            (vec![5], u64::MAX >> 8, (5, 6), vec![6]),
            (vec![], 7, (1, 1), vec![]),
        ] {
            let mut got: Vec<u32> = counts;
            correct(&mut got, sum, bounds);
            assert_eq!(got, expected);
        }
    }
}
