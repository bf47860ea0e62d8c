//! The keys of a family with what was asked of them: a table of keys while a trace is read, one order afterwards.

use super::histories::Histories;
use super::observe::{Counted, OPS};
use crate::analyze::{KeyStats, KeyTable};
use spanlith_base::checksum::xxh3_128;
use spanlith_base::{Error, Result};
use std::ops::Range;

/// Accesses that are counted together, so that their misses of the processor's cache overlap.
const BATCH: usize = 64;
/// Bytes of keys that wait at most.
const BATCH_BYTES: usize = 1 << 20;

/// An access to a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    /// Id of the operation.
    pub op: usize,
    /// Requests before it.
    pub at: u64,
    /// Nothing was found.
    pub absent: bool,
}

/// Keys that were accessed, in the order of their bytes once the trace has been read.
#[derive(Clone, Debug, Default)]
pub struct AccessedKeys {
    table: KeyTable,
    /// By what stands for the key in the table; then in the order of the keys.
    counted: Vec<Counted>,
    /// Of some keys, by the same number until they are sorted.
    histories: Histories,
    /// Places in the table, in the order of the keys.
    order: Vec<u32>,
    waiting: Vec<(u32, Range<u32>, Touch)>,
    /// Keys of the accesses that wait.
    bytes: Vec<u8>,
}

/// A number between 0 and 2^64 that a key always has: keys with small ones are kept when all are too many.
pub(super) fn lot(key: &[u8]) -> u64 {
    xxh3_128(key, 0).0
}

impl AccessedKeys {
    /// How many there are; accesses that wait may add to them.
    pub fn len(&self) -> usize {
        self.counted.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.counted.is_empty()
    }

    /// The accesses of each, in the order of the keys.
    pub fn values(&self) -> std::slice::Iter<'_, Counted> {
        self.counted.iter()
    }

    /// The counts of the key of that place in the order.
    pub(super) fn counted_mut(&mut self, place: usize) -> Option<&mut Counted> {
        debug_assert!(self.waiting.is_empty(), "all have been counted");
        self.counted.get_mut(place)
    }

    /// The key of that place in the order.
    pub fn key(&self, place: usize) -> Vec<u8> {
        let mut key = Vec::new();
        if let Some(&at) = self.order.get(place) {
            self.table.key(at, &mut key);
        }
        key
    }

    /// Bytes of the key of that place in the order.
    pub fn key_len(&self, place: usize) -> usize {
        self.order.get(place).map_or(0, |&at| self.table.length(at))
    }

    /// Keys in their order, with what was asked of them.
    pub fn iter(&self) -> impl Iterator<Item = (Vec<u8>, &Counted)> {
        (0..)
            .zip(&self.counted)
            .map(|(at, counted)| (self.key(at), counted))
    }

    /// Notes an access.
    pub(super) fn add(&mut self, key: &[u8], touch: Touch) -> Result<()> {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let range = begin as u32..self.bytes.len() as u32;
        self.waiting.push((self.table.hash(key), range, touch));
        match self.waiting.len() >= BATCH || self.bytes.len() >= BATCH_BYTES {
            true => self.settle(),
            false => Ok(()),
        }
    }

    /// Counts the accesses that wait.
    pub(super) fn settle(&mut self) -> Result<()> {
        self.table.reserve(self.waiting.len());
        std::hint::black_box(self.table.warm(self.waiting.iter().map(|w| w.0)));
        for (hash, range, touch) in self.waiting.drain(..) {
            let key = &self.bytes[range.start as usize..range.end as usize];
            let new = KeyStats {
                ordinal: u32::try_from(self.counted.len()).map_err(|_| too_many())?,
                ..KeyStats::default()
            };
            let ordinal = self.table.count(hash, key, &new).map_err(|_| too_many())?;
            if ordinal == new.ordinal {
                self.counted.push(Counted {
                    is_absent: touch.absent,
                    ..Counted::default()
                });
            }
            self.counted[ordinal as usize].note(&touch);
            self.histories.add(ordinal, touch.op, touch.at);
        }
        self.bytes.clear();
        Ok(())
    }

    /// Keeps the keys whose lot is at most `threshold`; no access waits.
    pub(super) fn thin(&mut self, threshold: u64) -> Result<()> {
        debug_assert!(self.waiting.is_empty(), "all have been counted");
        let mut rest = Self::default();
        let (order, counted) = (self.table.order(), &self.counted);
        let mut numbers = vec![u32::MAX; counted.len()];
        let mut keep = |key: &[u8], stats: &KeyStats| {
            if lot(key) > threshold {
                return Ok(());
            }
            rest.table.reserve(1);
            let new = KeyStats {
                ordinal: rest.counted.len() as u32,
                ..KeyStats::default()
            };
            rest.table.count(rest.table.hash(key), key, &new)?;
            numbers[stats.ordinal as usize] = new.ordinal;
            rest.counted.push(counted[stats.ordinal as usize].clone());
            Ok(())
        };
        self.table.each(&order, &mut keep).map_err(|_| too_many())?;
        rest.histories = std::mem::take(&mut self.histories);
        rest.histories.renumber(|old| {
            let new = numbers.get(old as usize).copied();
            new.filter(|&new| new != u32::MAX)
        });
        *self = rest;
        Ok(())
    }

    /// Puts the keys into their order; no access waits, and none follows.
    pub(super) fn sort(&mut self) {
        debug_assert!(self.waiting.is_empty(), "all have been counted");
        self.order = self.table.order();
        let counted = std::mem::take(&mut self.counted);
        let of = |place: &u32| counted[self.table.ordinal(*place) as usize].clone();
        self.counted = self.order.iter().map(of).collect();
        let mut places = vec![0; self.counted.len()];
        for (place, at) in (0..).zip(&self.order) {
            places[self.table.ordinal(*at) as usize] = place;
        }
        let place = |number: u32| places.get(number as usize).copied();
        self.histories.renumber(place);
        self.histories.sort();
    }

    /// Accesses of some keys, all of these: place of the key in the order, id of the operation, requests before.
    pub fn accesses(&self) -> impl Iterator<Item = (u32, usize, u64)> {
        self.histories.all()
    }

    /// Whole histories of some keys.
    pub(super) fn histories(&self) -> &Histories {
        &self.histories
    }
}

fn too_many() -> Error {
    Error::invalid_argument("the keys of the trace take more than 32 GiB of memory")
}

impl Counted {
    fn note(&mut self, touch: &Touch) {
        debug_assert!(touch.op < OPS, "an operation that is known");
        if self.counts[touch.op] == 0 {
            self.first[touch.op] = touch.at;
        }
        self.last[touch.op] = touch.at;
        self.counts[touch.op] = self.counts[touch.op].saturating_add(1);
    }
}
