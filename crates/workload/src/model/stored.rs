//! Keys and values that a database held before its trace began: how many lie between those that the trace accesses, and how
//! large they are.
//!
//! A trace shows the keys that are asked for. How many of them share a block, and how large a cache is beside the database,
//! depends on the others, too. A walk over a checkpoint counts them ([`StoredWalk`]); the model keeps their number for each range of
//! accessed keys, and tables of sizes. A made database has as many between its accessed keys, evenly spread ([`Positions`]).

use super::content::{Content, ValueSample};
use super::mix;
use super::observe::{FamilyObservation, OPS};
use super::shape::{Shape, Sizes};
use super::table::RangeModel;
use crate::analyze::Operation;

/// Keys and values that were there, as a walk over them counted.
#[derive(Clone, Debug, Default)]
pub struct StoredKeys {
    /// All of them.
    pub keys: u64,
    /// Keys that are never accessed, by the accessed key that follows them; those after the last one come last.
    pub(super) cold: Vec<u32>,
    /// Bytes of keys.
    pub key_sizes: Sizes,
    /// Bytes of values.
    pub value_sizes: Sizes,
    pub(super) values: ValueSample,
    /// Keys that the trace says were there, and those of them that were not.
    pub expected: u64,
    /// See [`Self::expected`].
    pub missing: u64,
    /// Accessed keys that were there.
    pub present: u64,
}

/// A walk over the keys of a family in their order, beside the accessed keys.
#[derive(Debug)]
pub struct StoredWalk<'a> {
    family: &'a mut FamilyObservation,
    found: StoredKeys,
    /// Place of the next accessed key, and its bytes; none after the last one.
    at: usize,
    next: Option<Vec<u8>>,
}

impl FamilyObservation {
    /// Begins a walk; keys that it does not come to count as absent when the trace began.
    pub fn walk(&mut self) -> StoredWalk<'_> {
        let next = (!self.keys.is_empty()).then(|| self.keys.key(0));
        let cold = vec![0; self.keys.len() + 1];
        StoredWalk {
            family: self,
            found: StoredKeys {
                cold,
                ..StoredKeys::default()
            },
            at: 0,
            next,
        }
    }
}

/// Returns whether the trace says that a key was there: the first that was asked of it is a get, which found it.
fn was_there(counts: &[u32; OPS], first: &[u64; OPS], is_absent: bool) -> bool {
    let get = Operation::Get.id();
    let is_read = |op: usize| op == get || op == Operation::MultiGet.id();
    let is_seek = |op: usize| op == Operation::Seek.id() || op == Operation::SeekForPrev.id();
    let of_others = (0..OPS).filter(|&op| counts[op] > 0 && !is_read(op) && !is_seek(op));
    !is_absent && counts[get] > 0 && of_others.map(|op| first[op]).all(|at| at > first[get])
}

impl StoredWalk<'_> {
    fn step(&mut self, is_stored: bool, is_told: bool) {
        if let Some(counted) = self.family.keys.counted_mut(self.at) {
            if is_told && was_there(&counted.counts, &counted.first, counted.is_absent) {
                self.found.expected += 1;
                self.found.missing += u64::from(!is_stored);
            }
            self.found.present += u64::from(is_stored);
            counted.is_absent = !is_stored;
        }
        self.at += 1;
        self.next = (self.at < self.family.keys.len()).then(|| self.family.keys.key(self.at));
    }

    /// The next entry of the database, in the order of the bytes of keys. `is_told`: the trace says what gets found.
    pub fn add(&mut self, key: &[u8], value: &[u8], is_told: bool) {
        self.found.keys += 1;
        self.found.key_sizes.add(key.len() as u64, 1);
        self.found.value_sizes.add(value.len() as u64, 1);
        self.found.values.add(value, mix(self.found.keys));
        while self.next.as_deref().is_some_and(|next| next < key) {
            self.step(false, is_told);
        }
        match self.next.as_deref() == Some(key) {
            true => self.step(true, is_told),
            false => self.found.cold[self.at] = self.found.cold[self.at].saturating_add(1),
        }
    }

    /// Ends the walk; returns what it found, which the family keeps, too.
    pub fn finish(mut self, is_told: bool) -> StoredKeys {
        while self.next.is_some() {
            self.step(false, is_told);
        }
        self.family.stored = Some(self.found.clone());
        self.found
    }
}

/// The keys and values of a database before the first request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredModel {
    /// Keys, accessed ones included.
    pub keys: u64,
    /// Bytes of a key that is not accessed.
    pub key_sizes: Shape,
    /// Bytes of a value.
    pub value_sizes: Shape,
    /// How well values compress, by class of size.
    pub contents: Vec<Content>,
}

impl StoredModel {
    pub(super) fn of(stored: &StoredKeys) -> Self {
        Self {
            keys: stored.keys,
            key_sizes: Shape::of(&stored.key_sizes),
            value_sizes: Shape::of(&stored.value_sizes),
            contents: stored.values.contents(),
        }
    }
}

/// Where the accessed keys of a family stand among all of its keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Positions {
    /// Of each range: place of its first accessed key, position of it, accessed keys, and all.
    ranges: Vec<[u64; 4]>,
    cold: u64,
}

impl Positions {
    pub(super) fn of(ranges: &[RangeModel]) -> Self {
        let cold = ranges.iter().fold(0_u64, |n, r| n.saturating_add(r.cold));
        if cold == 0 {
            return Self::default();
        }
        let (mut place, mut position) = (0, 0);
        let of = |r: &RangeModel| {
            let all = r.keys + r.cold;
            let range = [place, position, r.keys, all];
            place += r.keys;
            position += all;
            range
        };
        Self {
            ranges: ranges.iter().map(of).collect(),
            cold,
        }
    }

    /// Keys that are not accessed.
    pub fn cold(&self) -> u64 {
        self.cold
    }

    /// Position of the accessed key of a place.
    pub fn position(&self, place: u64) -> u64 {
        let after = self.ranges.partition_point(|r| r[0] <= place);
        let Some([first, position, keys, all]) = after.checked_sub(1).map(|at| self.ranges[at])
        else {
            return place;
        };
        match place - first < keys {
            true => {
                position + (u128::from(place - first) * u128::from(all) / u128::from(keys)) as u64
            }
            false => position + all + (place - first - keys),
        }
    }

    /// Positions of the keys that are not accessed.
    pub fn cold_positions(&self) -> impl Iterator<Item = u64> + '_ {
        self.ranges.iter().flat_map(|&[_, position, keys, all]| {
            let is_accessed = move |at: u64| {
                // The place that comes to it, if any does, is the smallest whose position is not before it.
                let place =
                    (u128::from(at) * u128::from(keys)).div_ceil(u128::from(all.max(1))) as u64;
                place < keys
                    && u128::from(place) * u128::from(all) / u128::from(keys) == u128::from(at)
            };
            (0..all)
                .filter(move |&at| !is_accessed(at))
                .map(move |at| position + at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(keys: u64, cold: u64) -> RangeModel {
        RangeModel {
            keys,
            cold,
            ..RangeModel::default()
        }
    }

    #[test]
    fn accessed_and_other_keys_share_all_positions_between_them() {
        for ranges in [
            vec![range(3, 7), range(5, 0), range(1, 1)],
            vec![range(1, 1000)],
            vec![range(7, 3), range(16, 17)],
            vec![range(4, 0), range(4, 5)],
        ] {
            let positions = Positions::of(&ranges);
            let keys: u64 = ranges.iter().map(|r| r.keys).sum();
            let accessed: Vec<u64> = (0..keys).map(|p| positions.position(p)).collect();
            assert!(accessed.windows(2).all(|w| w[0] < w[1]), "{accessed:?}");
            let cold: Vec<u64> = positions.cold_positions().collect();
            let mut all = [accessed, cold].concat();
            all.sort_unstable();
            let many = keys + positions.cold();
            assert_eq!(all, (0..many).collect::<Vec<_>>(), "{ranges:?}");
        }
    }

    #[test]
    fn without_other_keys_a_place_is_a_position() {
        let positions = Positions::of(&[range(10, 0), range(10, 0)]);
        assert_eq!(positions, Positions::default());
        assert_eq!(positions.position(17), 17);
        assert_eq!(positions.cold_positions().count(), 0);
    }
}
