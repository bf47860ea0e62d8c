//! When keys are accessed first, by how often they are accessed.
//!
//! A key of many accesses is met early, one of a single access at any time, so that the beginning of a workload consists of
//! hot keys. A table of times for each class of keys (1 access, 2 and 3, 4 to 7, and so on) says so for a whole family; a range of keys
//! has its own times as well ([`super::RangeModel::times`]), which tell ranges apart that are of interest at different moments. A time is
//! drawn from the table of the class, and taken with a probability that gives the range its own times
//! all in all.

use super::Dice;
use super::shape::Shape;
use super::table::TIMES;

/// Classes of keys by powers of two of their accesses.
pub(super) const FIRSTS: usize = 16;
/// Unit of the times: this is the whole trace.
pub(super) const WHOLE: u64 = 1_000_000_000;
/// Times that are drawn for a key at most; the last one is taken.
const DRAWS: usize = 32;
/// Points at which the table of a class is looked at, for its shares of the parts of time.
const POINTS: usize = 512;

/// Times of first accesses of keys, by class of the number of accesses.
pub(super) type Classes = [Shape; FIRSTS];

/// The class of a key.
pub(super) fn class_of_count(count: u32) -> usize {
    (count.max(1).ilog2() as usize).min(FIRSTS - 1)
}

/// Collects first accesses.
#[derive(Default)]
pub(super) struct Collected([Vec<u64>; FIRSTS]);

impl Collected {
    /// Notes the first access of a key, as a part of the trace: `at` of `span`.
    pub(super) fn add(&mut self, count: u32, at: u64, span: u64) {
        let part = u128::from(at) * u128::from(WHOLE) / u128::from(span.max(1));
        self.0[class_of_count(count)].push((part as u64).min(WHOLE));
    }

    /// The tables; those of classes without keys are empty.
    pub(super) fn classes(mut self) -> Classes {
        std::array::from_fn(|class| {
            let times = &mut self.0[class];
            times.sort_unstable();
            Shape::of_sorted(times)
        })
    }
}

/// The tables of a family's operation, with the share of each part of time.
pub(super) struct Firsts<'a> {
    classes: &'a Classes,
    shares: [[f64; TIMES]; FIRSTS],
}

/// As [`Firsts`], for a range: how likely a time of each part is taken.
pub(super) struct OfRange<'a, 'b> {
    firsts: &'b Firsts<'a>,
    taken: [f64; TIMES],
}

fn slot(part: f64) -> usize {
    ((part * TIMES as f64) as usize).min(TIMES - 1)
}

impl<'a> Firsts<'a> {
    pub(super) fn of(classes: &'a Classes) -> Self {
        let mut shares = [[0.0; TIMES]; FIRSTS];
        for (class, shares) in classes.iter().zip(&mut shares) {
            for point in 0..POINTS {
                let at = class.draw((point as f64 + 0.5) / POINTS as f64) as f64 / WHOLE as f64;
                shares[slot(at)] += 1.0 / POINTS as f64;
            }
        }
        Self { classes, shares }
    }

    /// The table that tells of keys of a class: its own, or that of the next class that has one.
    fn nearest(&self, class: usize) -> usize {
        let has = |class: &usize| !self.classes[*class].is_empty();
        let below = (0..=class).rev().find(has);
        below.or_else(|| (class..FIRSTS).find(has)).unwrap_or(class)
    }

    /// For a range with these first accesses in parts of time, and keys of these numbers of accesses.
    pub(super) fn of_range<'b>(
        &'b self,
        own: Option<&[u64; TIMES]>,
        counts: &[u32],
    ) -> OfRange<'a, 'b> {
        let mut expected = [0.0; TIMES];
        for &count in counts {
            let shares = &self.shares[self.nearest(class_of_count(count))];
            for (sum, share) in expected.iter_mut().zip(shares) {
                *sum += share / counts.len() as f64;
            }
        }
        let mut taken = [1.0; TIMES];
        if let Some(own) = own
            && own.iter().any(|&n| n > 0)
        {
            let all = own.iter().map(|&n| n as f64).sum::<f64>();
            for ((taken, &n), expected) in taken.iter_mut().zip(own).zip(expected) {
                // A part of time that no table has cannot be drawn in any case.
                *taken = match expected > 0.0 {
                    true => n as f64 / all / expected,
                    false => 0.0,
                };
            }
            let most = taken.iter().copied().fold(0.0, f64::max);
            match most > 0.0 {
                true => taken.iter_mut().for_each(|t| *t /= most),
                false => taken = [1.0; TIMES],
            }
        }
        OfRange {
            firsts: self,
            taken,
        }
    }
}

impl OfRange<'_, '_> {
    /// The first access of a key of so many, in a share of the trace.
    pub(super) fn draw(&self, count: u32, dice: &mut Dice) -> f64 {
        let class = self.firsts.nearest(class_of_count(count));
        let table = &self.firsts.classes[class];
        let mut at = 0.0;
        for _ in 0..DRAWS {
            at = table.draw(dice.unit()) as f64 / WHOLE as f64;
            if dice.unit() < self.taken[slot(at)] {
                break;
            }
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hot keys begin early, single ones anywhere.
    fn classes() -> Classes {
        let mut all = Collected::default();
        for n in 0..10_000 {
            all.add(1, n, 10_000);
            all.add(64, n / 50, 10_000);
        }
        all.classes()
    }

    #[test]
    fn a_class_of_keys_keeps_its_times() {
        let classes = classes();
        let firsts = Firsts::of(&classes);
        let range = firsts.of_range(None, &[1, 64]);
        let mut dice = Dice::new(1);
        let mut mean = |count| {
            let draws = 4000;
            (0..draws)
                .map(|_| range.draw(count, &mut dice))
                .sum::<f64>()
                / f64::from(draws)
        };
        let (single, hot) = (mean(1), mean(64));
        assert!((0.48..0.52).contains(&single), "{single}");
        assert!((0.009..0.011).contains(&hot), "{hot}");
        // No key has 8 accesses; those of the class below are nearest.
        let between = mean(8);
        assert!((0.48..0.52).contains(&between), "{between}");
    }

    #[test]
    fn a_range_keeps_its_own_times_though_its_keys_are_of_classes() {
        let classes = classes();
        let firsts = Firsts::of(&classes);
        // Half of the keys of the range are hot; nothing begins in its second half of time.
        let counts: Vec<u32> = (0..1000).map(|n| [1, 64][n % 2]).collect();
        let mut own = [0; TIMES];
        own[..TIMES / 2].fill(10);
        own[0] += 80;
        let range = firsts.of_range(Some(&own), &counts);
        let mut dice = Dice::new(2);
        let mut made = [0_u64; TIMES];
        for _ in 0..20 {
            for &count in &counts {
                made[slot(range.draw(count, &mut dice))] += 1;
            }
        }
        assert_eq!(made[TIMES / 2..].iter().sum::<u64>(), 0, "{made:?}");
        assert!(made[0] > 10_000, "{made:?}");
        assert!(made[1..TIMES / 2].iter().all(|&n| n > 400), "{made:?}");
    }
}
