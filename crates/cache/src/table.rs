//! Hash table of one shard: slots of one cache line each, found by linear probing.
//!
//! Removal shifts later slots of the run back, so there are no tombstones; a slot's index therefore
//! holds only until the next removal or growth. Slots of the LRU policy are chained by index into
//! three lists, and the table keeps the chains right when it moves a slot.
//!
//! Threads: none; the shard's lock guards it.

use crate::cache::CacheKey;
use std::sync::Arc;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Lists a slot can be in.
pub(crate) const LISTS: usize = 3;

/// An entry, or an empty place (`value` is none).
#[repr(align(64))]
pub(crate) struct Slot<V> {
    pub(crate) key: CacheKey,
    pub(crate) value: Option<Arc<V>>,
    pub(crate) charge: usize,
    /// Address of what the value's readers read first; never followed, only asked for.
    pub(crate) first_read: usize,
    /// Low half of the key's hash; its lowest bits say where the run of the slot starts.
    hash: u32,
    /// Neighbour towards the oldest slot of the list.
    older: u32,
    /// Neighbour towards the newest slot of the list.
    newer: u32,
    /// The list the slot is in. LRU; of the clock only whether the entry took spare room.
    pub(crate) list: u8,
    /// Clock: rounds of the hand the entry survives. LRU: whether it belongs to the first list.
    pub(crate) credit: u8,
}

impl<V> Slot<V> {
    fn empty() -> Self {
        Self {
            key: CacheKey { file: 0, block: 0 },
            value: None,
            charge: 0,
            first_read: 0,
            hash: 0,
            older: NONE,
            newer: NONE,
            list: 0,
            credit: 0,
        }
    }

    /// Returns whether somebody outside the cache holds the value. Under the shard's lock a false answer
    /// stays false: only lookups hand out values.
    pub(crate) fn is_pinned(&self) -> bool {
        self.value
            .as_ref()
            .is_some_and(|v| Arc::strong_count(v) > 1)
    }
}

const _: () = assert!(size_of::<Slot<u64>>() == 64, "a slot is one cache line");

/// Ends of a chain of slots.
#[derive(Clone, Copy)]
pub(crate) struct List {
    pub(crate) oldest: u32,
    pub(crate) newest: u32,
    /// Sum of charges.
    pub(crate) charge: usize,
}

/// The slots of a shard.
pub(crate) struct Table<V> {
    slots: Box<[Slot<V>]>,
    len: usize,
    pub(crate) lists: [List; LISTS],
}

const FIRST_SLOTS: usize = 16;

impl<V> Table<V> {
    pub(crate) fn new() -> Self {
        Self {
            slots: Box::default(),
            len: 0,
            lists: [List {
                oldest: NONE,
                newest: NONE,
                charge: 0,
            }; LISTS],
        }
    }

    /// Entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Places, empty ones included.
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(crate) fn slot(&self, at: usize) -> &Slot<V> {
        &self.slots[at]
    }

    #[inline]
    pub(crate) fn slot_mut(&mut self, at: usize) -> &mut Slot<V> {
        &mut self.slots[at]
    }

    /// Slots with an entry.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Slot<V>> {
        self.slots.iter().filter(|s| s.value.is_some())
    }

    /// Index of the slot with `key`.
    #[inline]
    pub(crate) fn find(&self, hash: u32, key: &CacheKey) -> Option<usize> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        loop {
            // Nothing is there in a table without slots.
            let slot = self.slots.get(at)?;
            slot.value.as_ref()?;
            if slot.key == *key {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds an entry; returns its index. Requires: no slot has its key.
    pub(crate) fn add(&mut self, hash: u32, key: CacheKey, value: Arc<V>, charge: usize) -> usize {
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let at = self.vacancy(hash);
        self.slots[at] = Slot {
            key,
            value: Some(value),
            charge,
            hash,
            ..Slot::empty()
        };
        self.len += 1;
        at
    }

    /// The empty slot where an entry of `hash` belongs.
    fn vacancy(&self, hash: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at].value.is_some() {
            at = (at + 1) & mask;
        }
        at
    }

    /// Takes the entry at `at` out. Requires: it is in no list any more (LRU).
    pub(crate) fn remove(&mut self, at: usize) -> Option<Arc<V>> {
        let mask = self.slots.len() - 1;
        let value = self.slots[at].value.take();
        self.len -= 1;
        let (mut hole, mut from) = (at, at);
        loop {
            from = (from + 1) & mask;
            if self.slots[from].value.is_none() {
                return value;
            }
            let home = self.slots[from].hash as usize & mask;
            if from.wrapping_sub(home) & mask >= from.wrapping_sub(hole) & mask {
                self.slots.swap(hole, from);
                self.relink(hole);
                hole = from;
            }
        }
    }

    /// Tells the neighbours of a moved slot where it is now.
    fn relink(&mut self, at: usize) {
        let slot = &self.slots[at];
        let (older, newer, list) = (slot.older, slot.newer, slot.list as usize);
        if older == NONE && newer == NONE && self.lists[list].oldest == NONE {
            return;
        }
        match older {
            NONE => self.lists[list].oldest = at as u32,
            i => self.slots[i as usize].newer = at as u32,
        }
        match newer {
            NONE => self.lists[list].newest = at as u32,
            i => self.slots[i as usize].older = at as u32,
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(FIRST_SLOTS);
        let fresh = (0..size).map(|_| Slot::empty()).collect();
        let old = std::mem::replace(&mut self.slots, fresh);
        let mut moved = vec![NONE; old.len()];
        for (from, slot) in old.into_iter().enumerate() {
            if slot.value.is_some() {
                let to = self.vacancy(slot.hash);
                self.slots[to] = slot;
                moved[from] = to as u32;
            }
        }
        let to = |from: u32| {
            if from == NONE {
                NONE
            } else {
                moved[from as usize]
            }
        };
        for slot in &mut self.slots {
            slot.older = to(slot.older);
            slot.newer = to(slot.newer);
        }
        for list in &mut self.lists {
            list.oldest = to(list.oldest);
            list.newest = to(list.newest);
        }
    }

    /// Puts the slot at the newest end of `list`. Requires: it is in none.
    pub(crate) fn link_newest(&mut self, at: usize, list: u8) {
        let newest = self.lists[list as usize].newest;
        let slot = &mut self.slots[at];
        (slot.list, slot.older, slot.newer) = (list, newest, NONE);
        let charge = slot.charge;
        match newest {
            NONE => self.lists[list as usize].oldest = at as u32,
            i => self.slots[i as usize].newer = at as u32,
        }
        self.lists[list as usize].newest = at as u32;
        self.lists[list as usize].charge += charge;
    }

    /// Takes the slot out of its list.
    pub(crate) fn unlink(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        let (older, newer, list) = (slot.older, slot.newer, slot.list as usize);
        (slot.older, slot.newer) = (NONE, NONE);
        self.lists[list].charge -= slot.charge;
        match older {
            NONE => self.lists[list].oldest = newer,
            i => self.slots[i as usize].newer = newer,
        }
        match newer {
            NONE => self.lists[list].newest = older,
            i => self.slots[i as usize].older = older,
        }
    }

    /// Index of the next newer slot of the list.
    pub(crate) fn newer(&self, at: u32) -> u32 {
        self.slots[at as usize].newer
    }
}
