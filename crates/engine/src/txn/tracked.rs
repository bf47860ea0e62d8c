//! The keys of a transaction that others must not write before it ends.

use crate::core::TrackedKey;
use spanlith_base::SequenceNumber;
use std::collections::HashMap;

/// Describes what is known of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tracked {
    /// Nobody has written it since.
    pub(super) seen: SequenceNumber,
    /// It is locked against everybody, or to be written.
    pub(super) is_exclusive: bool,
}

/// Keys by family.
#[derive(Debug, Default)]
pub(super) struct TrackedKeys {
    families: HashMap<u32, HashMap<Box<[u8]>, Tracked>>,
    len: usize,
}

impl TrackedKeys {
    pub(super) fn get(&self, cf: u32, key: &[u8]) -> Option<Tracked> {
        self.families.get(&cf)?.get(key).copied()
    }

    /// Adds a key, or what is new of it: the older of the numbers stays, and the stronger mode. Whether it is new.
    pub(super) fn add(&mut self, cf: u32, key: &[u8], new: Tracked) -> bool {
        let family = self.families.entry(cf).or_default();
        if let Some(known) = family.get_mut(key) {
            known.seen = known.seen.min(new.seen);
            known.is_exclusive |= new.is_exclusive;
            return false;
        }
        family.insert(key.into(), new);
        self.len += 1;
        true
    }

    pub(super) fn remove(&mut self, cf: u32, key: &[u8]) {
        if let Some(family) = self.families.get_mut(&cf)
            && family.remove(key).is_some()
        {
            self.len -= 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn clear(&mut self) {
        self.families.clear();
        self.len = 0;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = TrackedKey<'_>> {
        self.families.iter().flat_map(|(&cf, keys)| {
            keys.iter().map(move |(key, tracked)| TrackedKey {
                cf,
                key,
                seen: tracked.seen,
            })
        })
    }
}
