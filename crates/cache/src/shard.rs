//! One shard: a table, its capacity, and the choice of what leaves.
//!
//! *Clock*: a hand goes round the slots. It passes pinned entries, takes credit from others, and
//! evicts the first without. A hit adds credit, a store into the line that the lookup read anyway.
//!
//! *LRU*: two chains. Entries of high priority, and those that were hit, are in the protected one,
//! which holds up to half the capacity; what it pushes out becomes the newest of the other, whose
//! oldest entry leaves first. A pinned entry met there is in use, so it counts as new.
//!
//! *Spare room*: some entries take only what nobody else uses (a third chain, or a mark). They push out none but their like,
//! leave before all others (with the clock: when the hand meets them), and count as ordinary ones once they were hit.
//!
//! Invariant: K1, restored by every operation that changes the shard or finds it too full. Values
//! that leave are handed to the caller, to be dropped outside the lock.
//!
//! Threads: none; the cache's lock of the shard guards it.

use crate::cache::{CacheKey, Policy, Priority};
use crate::table::{NONE, Table};
use spanlith_base::memory::prefetch;
use spanlith_base::{Error, Result, SubCode};
use std::ptr::without_provenance;
use std::sync::Arc;

/// Most rounds of the hand that an entry survives without a hit.
const CREDIT_MAX: u8 = 3;
/// LRU lists.
const ORDINARY: u8 = 0;
const PROTECTED: u8 = 1;
/// The list, and with the clock the mark, of entries in spare room.
const SPARE: u8 = 2;
/// Clock: slots that are looked at for an entry in spare room that may go.
const SPARE_SEEN: usize = 32;

/// Values that left a shard. One is the common number, and needs no allocation.
pub(crate) struct Gone<V> {
    first: Option<Arc<V>>,
    rest: Vec<Arc<V>>,
}

impl<V> Gone<V> {
    pub(crate) fn new() -> Self {
        Self {
            first: None,
            rest: Vec::new(),
        }
    }

    fn push(&mut self, value: Option<Arc<V>>) {
        match self.first {
            None => self.first = value,
            Some(_) => self.rest.extend(value),
        }
    }
}

/// Describes what one lock guards.
#[repr(align(128))]
pub(crate) struct Shard<V> {
    table: Table<V>,
    policy: Policy,
    strict: bool,
    capacity: usize,
    usage: usize,
    /// Clock: slot the hand points at.
    hand: usize,
    /// Clock: where entries in spare room were looked for last.
    spare_hand: usize,
    /// Lookups to let pass before looking for entries that are not pinned any more: as many as the
    /// last vain search visited, so that such searches cost a lookup a constant.
    patience: usize,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl<V> Shard<V> {
    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.strict
    }

    pub(crate) fn new(capacity: usize, policy: Policy, strict: bool) -> Self {
        let table = Table::new();
        Self {
            table,
            policy,
            strict,
            capacity,
            usage: 0,
            hand: 0,
            spare_hand: 0,
            patience: 0,
            hits: 0,
            misses: 0,
        }
    }

    pub(crate) fn usage(&self) -> usize {
        self.usage
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Places of its table, free ones included.
    pub(crate) fn slots(&self) -> usize {
        self.table.capacity()
    }

    /// Shows each entry's key, value and charge.
    pub(crate) fn for_each(&self, mut see: impl FnMut(&CacheKey, &V, usize)) {
        for slot in self.table.entries() {
            if let Some(value) = &slot.value {
                see(&slot.key, value, slot.charge);
            }
        }
    }

    pub(crate) fn pinned_usage(&self) -> usize {
        self.table
            .entries()
            .filter(|s| s.is_pinned())
            .map(|s| s.charge)
            .sum()
    }

    /// The value of `key`, and a note of its use.
    #[inline]
    pub(crate) fn lookup(&mut self, hash: u32, key: &CacheKey) -> Option<Arc<V>> {
        let Some(at) = self.table.find(hash, key) else {
            self.misses += 1;
            return None;
        };
        self.hits += 1;
        let slot = self.table.slot_mut(at);
        // Before the reference is counted: that waits for its line, and nothing behind it is read before.
        prefetch::<1>(without_provenance(slot.first_read));
        let value = slot.value.clone();
        match self.policy {
            Policy::Clock => slot.credit = (slot.credit + 1).min(CREDIT_MAX),
            Policy::Lru => self.touch(at),
        }
        value
    }

    /// Returns whether the shard holds more than it may. Then `trim` removes what is not pinned any more.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.usage > self.capacity
    }

    #[cold]
    pub(crate) fn trim(&mut self, gone: &mut Gone<V>) {
        if self.patience > 0 {
            self.patience -= 1;
        } else if !self.make_room(0, gone) {
            self.patience = self.table.capacity();
        }
    }

    pub(crate) fn set_capacity(&mut self, capacity: usize, gone: &mut Gone<V>) {
        self.capacity = capacity;
        self.make_room(0, gone);
        self.demote();
    }

    /// Adds or replaces an entry.
    pub(crate) fn insert(
        &mut self,
        (hash, key): (u32, CacheKey),
        value: Arc<V>,
        (charge, priority): (usize, Priority),
        first_read: *const u8,
        gone: &mut Gone<V>,
    ) -> Result<()> {
        if let Some(at) = self.table.find(hash, &key) {
            self.remove(at, gone);
        }
        let pinned = Arc::strong_count(&value) > 1;
        // An entry that can never fit does not push others out.
        let fits =
            (charge <= self.capacity || pinned && !self.strict) && self.make_room(charge, gone);
        if !fits && (self.strict || !pinned) {
            gone.push(Some(value));
            return if self.strict {
                // RocksDB's kind and text: `Incomplete` would say that a read had to do I/O.
                let text = match self.policy {
                    Policy::Lru => "Insert failed due to LRU cache being full.",
                    Policy::Clock => "Insert failed because the cache is full of entries in use.",
                };
                Err(Error::aborted(text)
                    .with_subcode(SubCode::MemoryLimit)
                    .with("capacity", self.capacity)
                    .with("usage", self.usage)
                    .with("charge", charge))
            } else {
                Ok(())
            };
        }
        let at = self.table.add(hash, key, value, charge);
        self.table.slot_mut(at).first_read = first_read.addr();
        self.usage += charge;
        debug_assert!(
            !fits || self.usage <= self.capacity,
            "K1: {} of {} after room was made",
            self.usage,
            self.capacity
        );
        match self.policy {
            Policy::Clock => {
                self.table.slot_mut(at).credit = match priority {
                    Priority::High => CREDIT_MAX,
                    Priority::Low => 1,
                    Priority::Bottom => 0,
                };
            }
            Policy::Lru => {
                let list = if priority == Priority::High {
                    PROTECTED
                } else {
                    ORDINARY
                };
                self.table.link_newest(at, list);
                self.demote();
            }
        }
        Ok(())
    }

    /// Adds an entry that nobody holds to room that is free or that others of its kind take; drops it if there is none, or
    /// if the key has an entry.
    pub(crate) fn insert_spare(
        &mut self,
        (hash, key): (u32, CacheKey),
        value: Arc<V>,
        charge: usize,
        gone: &mut Gone<V>,
    ) {
        let is_new = charge <= self.capacity && self.table.find(hash, &key).is_none();
        if !is_new || !self.make_spare_room(charge, gone) {
            return gone.push(Some(value));
        }
        let at = self.table.add(hash, key, value, charge);
        self.usage += charge;
        match self.policy {
            Policy::Clock => self.table.slot_mut(at).list = SPARE,
            Policy::Lru => self.table.link_newest(at, SPARE),
        }
    }

    /// As [`Self::make_room`], at the cost of entries in spare room only.
    fn make_spare_room(&mut self, charge: usize, gone: &mut Gone<V>) -> bool {
        while self.usage.saturating_add(charge) > self.capacity {
            let victim = match self.policy {
                Policy::Clock => self.clock_spare_victim(),
                Policy::Lru => self.oldest_unpinned(SPARE),
            };
            match victim {
                Some(at) => self.remove(at, gone),
                None => return false,
            }
        }
        true
    }

    /// An entry in spare room that nobody used, among the next few slots.
    fn clock_spare_victim(&mut self) -> Option<usize> {
        let places = self.table.capacity();
        for _ in 0..SPARE_SEEN.min(places) {
            if self.spare_hand >= places {
                self.spare_hand = 0;
            }
            let at = self.spare_hand;
            let slot = self.table.slot(at);
            let is_spare = slot.value.is_some() && slot.list == SPARE && slot.credit == 0;
            if is_spare && !slot.is_pinned() {
                return Some(at);
            }
            self.spare_hand += 1;
        }
        None
    }

    pub(crate) fn erase(&mut self, hash: u32, key: &CacheKey, gone: &mut Gone<V>) {
        if let Some(at) = self.table.find(hash, key) {
            self.remove(at, gone);
        }
    }

    pub(crate) fn clear_unpinned(&mut self, gone: &mut Gone<V>) {
        let mut at = 0;
        while at < self.table.capacity() {
            let slot = self.table.slot(at);
            if slot.value.is_some() && !slot.is_pinned() {
                // Removal may move a later entry here: look again.
                self.remove(at, gone);
            } else {
                at += 1;
            }
        }
    }

    fn remove(&mut self, at: usize, gone: &mut Gone<V>) {
        if self.policy == Policy::Lru {
            self.table.unlink(at);
        }
        self.usage -= self.table.slot(at).charge;
        gone.push(self.table.remove(at));
    }

    /// Evicts until `charge` more fits; false if what is left is all pinned and does not leave
    /// enough.
    fn make_room(&mut self, charge: usize, gone: &mut Gone<V>) -> bool {
        while self.usage.saturating_add(charge) > self.capacity {
            let victim = match self.policy {
                Policy::Clock => self.clock_victim(),
                Policy::Lru => self.lru_victim(),
            };
            match victim {
                Some(at) => self.remove(at, gone),
                None => return false,
            }
        }
        true
    }

    /// The slot the hand stops at; `None` if all entries are pinned.
    fn clock_victim(&mut self) -> Option<usize> {
        let places = self.table.capacity();
        let mut seen_unpinned = false;
        // Each round takes one credit from every entry that is not pinned.
        for step in 0..places * (CREDIT_MAX as usize + 1) + 1 {
            if step == places && !seen_unpinned {
                return None;
            }
            if self.hand >= places {
                self.hand = 0;
            }
            let at = self.hand;
            let slot = self.table.slot_mut(at);
            if slot.value.is_some() && !slot.is_pinned() {
                if slot.credit == 0 {
                    // The hand stays: removal may move another entry to this place.
                    return Some(at);
                }
                seen_unpinned = true;
                slot.credit -= 1;
            }
            self.hand += 1;
        }
        None
    }

    /// Oldest entry that is not pinned, first of those in spare room, then of the ordinary list, last of the protected one.
    fn lru_victim(&mut self) -> Option<usize> {
        let lists = [SPARE, ORDINARY, PROTECTED];
        lists
            .into_iter()
            .find_map(|list| self.oldest_unpinned(list))
    }

    /// Oldest entry of a list that is not pinned. Those before it become its newest: they are in use.
    fn oldest_unpinned(&mut self, list: u8) -> Option<usize> {
        let mut at = self.table.lists[list as usize].oldest;
        let last = self.table.lists[list as usize].newest;
        while at != NONE {
            let next = if at == last {
                NONE
            } else {
                self.table.newer(at)
            };
            if !self.table.slot(at as usize).is_pinned() {
                return Some(at as usize);
            }
            self.table.unlink(at as usize);
            self.table.link_newest(at as usize, list);
            at = next;
        }
        None
    }

    /// Makes an entry that was hit the newest of the protected list.
    #[inline(always)]
    fn touch(&mut self, at: usize) {
        if self.table.lists[PROTECTED as usize].newest == at as u32 {
            return;
        }
        self.table.unlink(at);
        self.table.link_newest(at, PROTECTED);
        self.demote();
    }

    /// Keeps the protected list within half the capacity.
    #[inline]
    fn demote(&mut self) {
        if self.table.lists[PROTECTED as usize].charge > self.capacity / 2 {
            self.demote_oldest();
        }
    }

    #[inline(never)]
    fn demote_oldest(&mut self) {
        while self.table.lists[PROTECTED as usize].charge > self.capacity / 2 {
            let oldest = self.table.lists[PROTECTED as usize].oldest as usize;
            self.table.unlink(oldest);
            self.table.link_newest(oldest, ORDINARY);
        }
    }
}
