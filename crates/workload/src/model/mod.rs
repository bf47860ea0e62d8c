//! Describes what a trace says of a workload, without its keys: observed ([`Observation`]), kept as a model ([`Model`]), and made
//! into requests again ([`generate`]).
//!
//! A model has, for each column family and operation: how sizes, scan lengths and accesses per key are distributed, with
//! values that are frequent kept as they are; how accesses spread over ranges of the sorted keys, when in the trace they
//! fall, and for how long a key is of interest; which operations concern the same keys; how well values compress; and, if a checkpoint was
//! looked at, what the database held besides. Beside these tables stand the
//! curves of [`crate::fit`] that come closest, with their errors: they are for people, requests come from the tables.
//! Neither has a byte of a key or value, so a model can be given away (R-WL-36).
//!
//! Memory of an observation: the keys, of which only a share is kept, chosen by hash, once they are too many
//! ([`ObserveOptions::keys_max`]); everything else is bounded by constants.

mod content;
mod coupled;
mod curves;
mod firsts;
mod generate;
mod histories;
mod json;
mod json_together;
mod keys;
mod observe;
mod places;
mod ranges;
mod shape;
mod spans;
mod stored;
mod table;
#[cfg(test)]
mod tests;
mod together;

pub use content::{Content, ValueSample};
pub use curves::Curve;
pub use generate::{GenerateOptions, Generated, generate, key_at, key_of, population, value_of};
pub use keys::AccessedKeys;
pub use observe::{Counted, FamilyObservation, Observation, ObserveOptions};
pub use ranges::{CountBin, Mask, Nearness, Part};
pub use shape::{Shape, Sizes};
pub use stored::{Positions, StoredKeys, StoredModel, StoredWalk};
pub use table::{FamilyModel, Model, OperationModel, RangeModel};

/// A generator of numbers whose sequence a seed decides (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// From 0 up to but not including 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((self.unit() * n as f64) as usize).min(n.saturating_sub(1))
    }
}

/// A number that has nothing to see with the given one.
pub(crate) fn mix(n: u64) -> u64 {
    let mut z = n;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
