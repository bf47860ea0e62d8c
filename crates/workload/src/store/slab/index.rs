//! Which slot holds a key: ordered maps in memory, one for each family.

use super::file::{Entry, Place};
use crate::store::Direction;
use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};

/// The places of all keys.
#[derive(Debug)]
pub(super) struct Index {
    families: Vec<BTreeMap<Box<[u8]>, Place>>,
    /// Sequence numbers of what was found while opening, and slots that lost against newer ones.
    sequences: BTreeMap<Place, u64>,
    stale: Vec<Place>,
    /// A family of the files that the store was opened without.
    unknown: Option<usize>,
}

impl Index {
    pub(super) fn new(families: usize) -> Self {
        Self {
            families: vec![BTreeMap::new(); families],
            sequences: BTreeMap::new(),
            stale: Vec::new(),
            unknown: None,
        }
    }

    /// Takes an entry that was read while opening. Of two with the same key the larger sequence number counts.
    pub(super) fn found(&mut self, entry: &Entry<'_>, place: Place) {
        if self.families.len() <= entry.family {
            self.unknown = Some(entry.family);
            return;
        }
        let old = self.families[entry.family].get(entry.key).copied();
        let newest = old.map_or(0, |old| self.sequences.get(&old).copied().unwrap_or(0));
        if old.is_some() && newest > entry.sequence {
            self.stale.push(place);
            return;
        }
        self.stale.extend(old);
        self.sequences.insert(place, entry.sequence);
        self.families[entry.family].insert(entry.key.into(), place);
    }

    /// A family that the files hold and the index does not have.
    pub(super) fn unknown(&self) -> Option<usize> {
        self.unknown
    }

    /// Ends the opening: slots that hold older values.
    pub(super) fn take_stale(&mut self) -> Vec<Place> {
        self.sequences.clear();
        std::mem::take(&mut self.stale)
    }

    pub(super) fn get(&self, family: usize, key: &[u8]) -> Option<Place> {
        self.families[family].get(key).copied()
    }

    pub(super) fn set(&mut self, family: usize, key: &[u8], place: Place) {
        match self.families[family].get_mut(key) {
            Some(old) => *old = place,
            None => {
                self.families[family].insert(key.into(), place);
            }
        }
    }

    pub(super) fn remove(&mut self, family: usize, key: &[u8]) -> Option<Place> {
        self.families[family].remove(key)
    }

    /// Keys from a start on, in order.
    pub(super) fn from<'a>(
        &'a self,
        family: usize,
        start: &'a [u8],
        direction: Direction,
    ) -> Box<dyn Iterator<Item = (&'a [u8], Place)> + 'a> {
        let all = &self.families[family];
        match direction {
            Direction::Forward => Box::new(
                all.range::<[u8], _>((Included(start), Unbounded))
                    .map(|(key, place)| (key.as_ref(), *place)),
            ),
            Direction::Backward => Box::new(
                all.range::<[u8], _>((Unbounded, Included(start)))
                    .rev()
                    .map(|(key, place)| (key.as_ref(), *place)),
            ),
        }
    }
}
