//! How the accesses of a range of keys are shared out over its keys, and which of these lie side by side.
//!
//! Of each range a model keeps how many keys are concerned by exactly which operations (a [`Mask`]), in how many runs, and how many
//! keys are accessed about how often, with the sum of their accesses, so that a hot range stays as hot as it is ([`CountBin`]). Of each
//! operation on a family it keeps, *inside* ranges: how alike neighbours are in the number of their accesses, in how large groups, and how
//! much the number has to do with that of the operation which concerns most keys. What distinguishes ranges is no likeness of
//! neighbours: it is taken off before.

use super::observe::{Counted, OPS};
use std::collections::BTreeMap;

/// Operations that concern a key: a bit for each id.
pub type Mask = u16;

/// Numbers of accesses up to this one are kept as they are; above, a power of two has four parts.
const EXACT: u64 = 8;
/// Parts of numbers of accesses.
pub(super) const BINS: usize = 8 + 29 * 4;
/// Pairs of keys that are looked at for a correlation at most.
const PAIRS: usize = 200_000;
/// Distances up to two to this power are looked at for the size of groups.
const LAGS: u32 = 14;
/// Keys among which groups are looked for at least.
const WIDE: usize = 1024;
/// A correlation below is taken for none.
const NONE: f64 = 0.1;

/// Keys that are accessed about as often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountBin {
    /// Which part of the numbers.
    pub bin: usize,
    /// Keys.
    pub keys: u64,
    /// Their accesses together.
    pub accesses: u64,
}

/// How keys of a range that an operation concerns lie beside each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Nearness {
    /// Correlation of the accesses of keys of one group, from 0 to 1.
    pub together: f64,
    /// About so many keys are a group; 0 without groups.
    pub group: u64,
    /// Correlation with the accesses by the operation of most keys.
    pub with_main: f64,
}

/// The part that a number of accesses, from 1 on, belongs to.
pub(super) fn bin_of(count: u64) -> usize {
    if count < EXACT {
        return count as usize;
    }
    let power = count.ilog2() as usize;
    let quarter = (count >> (power - 2)) & 3;
    (EXACT as usize + (power - 3) * 4 + quarter as usize).min(BINS - 1)
}

/// The least and the most number of a part.
pub(super) fn bounds(bin: usize) -> (u64, u64) {
    let Some(above) = bin.checked_sub(EXACT as usize) else {
        return (bin.max(1) as u64, bin.max(1) as u64);
    };
    let (power, quarter) = (above / 4 + 3, (above % 4) as u64);
    let width = 1_u64 << (power - 2);
    let low = (4 + quarter) * width;
    (low, low + width - 1)
}

/// The operations that concern a key.
pub(super) fn mask_of(key: &Counted) -> Mask {
    (0..OPS).fold(0, |mask, op| mask | Mask::from(key.counts[op] > 0) << op)
}

/// Keys of a range that are concerned by exactly the same operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// How many there are.
    pub keys: u64,
    /// In how many runs they lie.
    pub runs: u64,
}

/// The keys of a range by their masks.
pub(super) fn parts(range: &[&Counted]) -> BTreeMap<Mask, Part> {
    let mut parts: BTreeMap<Mask, Part> = BTreeMap::new();
    for same in range.chunk_by(|a, b| mask_of(a) == mask_of(b)) {
        if let Some(first) = same.first() {
            let part = parts.entry(mask_of(first)).or_default();
            part.keys += same.len() as u64;
            part.runs += 1;
        }
    }
    parts
}

impl Part {
    /// The part of which one key of so many was looked at. A run of single keys is one however many are.
    pub(super) fn of_sample(self, scale: f64) -> Self {
        let keys = (self.keys as f64 * scale).round();
        let length = self.keys as f64 / self.runs as f64;
        let length = 1.0 + (length - 1.0) * scale;
        Self {
            keys: keys as u64,
            runs: (keys / length).round().max(1.0) as u64,
        }
    }
}

/// How often the keys of a range are accessed by an operation, in the order of the numbers.
pub(super) fn count_bins(range: &[&Counted], op: usize) -> Vec<CountBin> {
    let mut bins: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for count in range.iter().map(|k| u64::from(k.counts[op])) {
        if count > 0 {
            let (keys, accesses) = bins.entry(bin_of(count)).or_default();
            *keys += 1;
            *accesses += count;
        }
    }
    let bin = |(bin, (keys, accesses))| CountBin {
        bin,
        keys,
        accesses,
    };
    bins.into_iter().map(bin).collect()
}

/// Sums for a correlation.
#[derive(Clone, Copy, Default)]
struct Sums {
    n: f64,
    xy: f64,
    xx: f64,
    yy: f64,
}

impl Sums {
    /// Of numbers whose means have been taken off.
    fn add(&mut self, x: f64, y: f64) {
        self.n += 1.0;
        self.xy += x * y;
        self.xx += x * x;
        self.yy += y * y;
    }

    fn correlation(&self) -> f64 {
        match self.xx * self.yy > 0.0 {
            true => self.xy / (self.xx * self.yy).sqrt(),
            false => 0.0,
        }
    }
}

/// Logarithms of the accesses of each key that an operation concerns, less their mean, for each range.
fn levels(ranges: &[&[&Counted]], op: usize) -> Vec<Vec<f64>> {
    let mut left = PAIRS;
    let mut all = Vec::new();
    for range in ranges {
        let of = range.iter().filter(|k| k.counts[op] > 0);
        let mut logs: Vec<f64> = of.map(|k| f64::from(k.counts[op]).ln()).collect();
        let mean = logs.iter().sum::<f64>() / (logs.len() as f64).max(1.0);
        logs.iter_mut().for_each(|log| *log -= mean);
        left = left.saturating_sub(logs.len());
        all.push(logs);
        if left == 0 {
            break;
        }
    }
    all
}

/// Of numbers of neighbours, so many places from each other.
fn lagged(levels: &[Vec<f64>], lag: usize) -> Sums {
    let mut sums = Sums::default();
    for range in levels {
        let pairs = range.iter().zip(range.iter().skip(lag));
        pairs.for_each(|(x, y)| sums.add(*x, *y));
    }
    sums
}

/// How much the accesses of keys of a range rise with their places: their correlation.
pub(super) fn tilt(range: &[&Counted], op: usize) -> f64 {
    let levels = levels(&[range], op);
    let Some(levels) = levels.first() else {
        return 0.0;
    };
    let middle = (levels.len() as f64 - 1.0) / 2.0;
    let mut sums = Sums::default();
    for (at, level) in levels.iter().enumerate() {
        sums.add(at as f64 - middle, *level);
    }
    // Two digits are enough, and short in a file.
    (sums.correlation() * 100.0).round() / 100.0
}

/// How the keys that an operation concerns lie beside each other, and what they have to do with those of `main`. Groups may be larger
/// than ranges: their size is that in so many ranges together as have [`WIDE`] keys.
pub(super) fn nearness(ranges: &[&[&Counted]], op: usize, main: usize) -> Nearness {
    let next = lagged(&levels(ranges, op), 1).correlation();
    let group = match next >= NONE {
        true => {
            let keys = ranges.first().map_or(1, |r| r.len());
            let wide: Vec<Vec<&Counted>> = ranges
                .chunks(WIDE.div_ceil(keys.max(1)))
                .map(<[_]>::concat)
                .collect();
            let wide: Vec<&[&Counted]> = wide.iter().map(Vec::as_slice).collect();
            let wide = levels(&wide, op);
            let next = lagged(&wide, 1).correlation();
            group(next, &|lag| lagged(&wide, lag))
        }
        false => 0,
    };
    // Of neighbours one pair in a group's length belongs to two groups.
    let inside = 1.0 - 1.0 / (group.max(2) as f64);
    Nearness {
        together: match group {
            0 => 0.0,
            _ => (next / inside).min(1.0),
        },
        group,
        with_main: match op == main {
            true => 1.0,
            false => with_main(ranges, op, main),
        },
    }
}

/// How many keys lie together that are accessed about as often: twice the distance at which the correlation of their accesses has
/// come down to half of that of neighbours, since in groups of *n* keys it falls by an *n*th with each key.
fn group(next: f64, at: &dyn Fn(usize) -> Sums) -> u64 {
    let mut before = (1, next);
    for lag in (1..=LAGS).map(|power| 1 << power) {
        let sums = at(lag);
        let here = match sums.n >= 100.0 {
            true => sums.correlation(),
            // So far apart there is hardly a pair.
            false => 0.0,
        };
        if here < next / 2.0 {
            let part = (before.1 - next / 2.0) / (before.1 - here).max(1e-9);
            return (2.0 * (before.0 as f64 + part * (lag - before.0) as f64)).round() as u64;
        }
        before = (lag, here);
    }
    2 << LAGS
}

fn with_main(ranges: &[&[&Counted]], op: usize, main: usize) -> f64 {
    let mut sums = Sums::default();
    for range in ranges {
        let both = range
            .iter()
            .filter(|k| k.counts[op] > 0 && k.counts[main] > 0);
        let logs = both.map(|k| {
            let log = |op: usize| f64::from(k.counts[op]).ln();
            (log(op), log(main))
        });
        let logs: Vec<(f64, f64)> = logs.collect();
        let many = (logs.len() as f64).max(1.0);
        let mean = logs
            .iter()
            .fold((0.0, 0.0), |m, l| (m.0 + l.0 / many, m.1 + l.1 / many));
        logs.iter()
            .for_each(|l| sums.add(l.0 - mean.0, l.1 - mean.1));
        if sums.n > PAIRS as f64 {
            break;
        }
    }
    match sums.correlation() {
        r if r.abs() < NONE => 0.0,
        r => r,
    }
}

/// Of the keys of each mask, where they stand on the mean among those of their range by the accesses of an operation that
/// concerns them: 0 for those with the fewest, 1 for those with the most.
pub(super) fn ranks(ranges: &[&[&Counted]], main: usize) -> BTreeMap<Mask, f64> {
    let mut sums: BTreeMap<Mask, (f64, f64)> = BTreeMap::new();
    for range in ranges {
        let of = range.iter().filter(|k| k.counts[main] > 0);
        let mut all: Vec<(u32, Mask)> = of.map(|k| (k.counts[main], mask_of(k))).collect();
        all.sort_unstable();
        let many = all.len() as f64;
        let mut before = 0;
        for same in all.chunk_by(|a, b| a.0 == b.0) {
            // Keys of as many accesses share their places.
            let rank = (before as f64 + same.len() as f64 / 2.0) / many;
            before += same.len();
            for (_, mask) in same {
                let (sum, keys) = sums.entry(*mask).or_default();
                *sum += rank;
                *keys += 1.0;
            }
        }
    }
    let mean = |(mask, (sum, keys)): (Mask, (f64, f64))| (mask, sum / keys);
    sums.into_iter().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dice;

    fn key(counts: &[(usize, u32)]) -> Counted {
        let mut key = Counted::default();
        counts.iter().for_each(|&(op, n)| key.counts[op] = n);
        key
    }

    #[test]
    fn parts_of_numbers_meet_without_gaps() {
        let mut next = 1;
        for bin in 1..BINS {
            let (low, high) = bounds(bin);
            assert_eq!(low, next);
            assert_eq!((bin_of(low), bin_of(high)), (bin, bin));
            next = high + 1;
        }
        assert!(next > u64::from(u32::MAX));
    }

    /// Ranges that differ, with keys that do not, have no likeness of neighbours; groups inside ranges have.
    #[test]
    fn likeness_of_neighbours_is_that_inside_of_ranges() {
        let mut dice = Dice::new(1);
        let mut ranges_of = |group: usize| -> Vec<Vec<Counted>> {
            let range = |hot: u32, dice: &mut Dice| {
                let mut level = 0.0;
                let of = |at: usize| {
                    if at.is_multiple_of(group) {
                        level = dice.unit();
                    }
                    key(&[(0, hot * (1 + (20.0 * level) as u32))])
                };
                (0..640).map(of).collect()
            };
            (1..40).map(|hot| range(hot * hot, &mut dice)).collect()
        };
        let mut nearness_of = |group| {
            let all = ranges_of(group);
            let refs: Vec<Vec<&Counted>> = all.iter().map(|r| r.iter().collect()).collect();
            let slices: Vec<&[&Counted]> = refs.iter().map(Vec::as_slice).collect();
            nearness(&slices, 0, 0)
        };
        assert_eq!(
            nearness_of(1),
            Nearness {
                together: 0.0,
                group: 0,
                with_main: 1.0
            }
        );
        for group in [8, 32] {
            let found = nearness_of(group);
            assert!(found.together > 0.9, "{group}: {found:?}");
            let off = found.group as f64 / group as f64;
            assert!((0.7..1.4).contains(&off), "{group}: {found:?}");
        }
    }

    #[test]
    fn a_range_whose_last_keys_are_hot_is_tilted() {
        let tilt_of = |counts: &[u32]| {
            let all: Vec<Counted> = counts.iter().map(|n| key(&[(0, *n)])).collect();
            tilt(&all.iter().collect::<Vec<_>>(), 0)
        };
        assert!(tilt_of(&[1, 1, 1, 9, 9, 9]) > 0.8);
        assert!(tilt_of(&[9, 9, 0, 0, 0, 9, 1, 1, 1]) < -0.8);
        for level in [&[1, 9, 9, 1][..], &[5, 5, 5], &[7], &[0]] {
            assert_eq!(tilt_of(level), 0.0, "{level:?}");
        }
    }

    #[test]
    fn a_sample_of_keys_has_their_runs() {
        let all = [3, 3, 3, 1, 1, 3, 2, 2, 2, 2].map(|mask| key(&[(0, mask & 1), (1, mask >> 1)]));
        let parts = parts(&all.iter().collect::<Vec<_>>());
        let part = |keys, runs| Part { keys, runs };
        let expected = [(1, part(2, 1)), (2, part(4, 1)), (3, part(4, 2))];
        assert_eq!(parts, BTreeMap::from(expected));
        assert_eq!(parts[&2].of_sample(1.0), parts[&2]);
        // Runs of 4 in a tenth of the keys are of 31.
        assert_eq!(parts[&2].of_sample(10.0), part(40, 1));
        assert_eq!(part(5, 5).of_sample(10.0), part(50, 50));
    }

    #[test]
    fn operations_on_the_same_keys_are_as_alike_as_they_were_made() {
        let mut dice = Dice::new(3);
        let mut made = |alike: f64| -> Vec<Counted> {
            let of = |_| {
                let one = dice.unit();
                let other = if dice.unit() < alike {
                    one
                } else {
                    dice.unit()
                };
                let count = |u: f64| (6.0 * u).exp() as u32 + 1;
                key(&[(0, count(one)), (1, count(other))])
            };
            (0..5000).map(of).collect()
        };
        for alike in [0.0, 0.5, 1.0] {
            let all = made(alike);
            let range: Vec<&Counted> = all.iter().collect();
            let found = nearness(&[&range], 1, 0).with_main;
            assert!((found - alike).abs() < 0.06, "{alike}: {found}");
        }
        // Keys of both operations are the hot ones.
        let all: Vec<Counted> = (1..1000)
            .map(|n| key(&[(0, n), (1, u32::from(n > 500))]))
            .collect();
        let range: Vec<&Counted> = all.iter().collect();
        let ranks = ranks(&[&range], 0);
        assert!(
            (ranks[&1] - 0.25).abs() < 0.01 && (ranks[&3] - 0.75).abs() < 0.01,
            "{ranks:?}"
        );
    }
}
