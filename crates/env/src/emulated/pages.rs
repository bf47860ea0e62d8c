//! The host's page cache, as far as it matters when a read is done: which pages are there, and since when.
//!
//! Pages leave in the order of a clock: one that was read since the hand passed it stays for another round.

use std::collections::HashMap;

/// Bytes of a page.
pub(super) const PAGE: u64 = 4096;

#[derive(Clone, Copy, Debug)]
struct Slot {
    file: u64,
    page: u64,
    /// When the device has delivered it.
    ready: u64,
    is_used: bool,
}

/// Pages of files by number.
#[derive(Debug, Default)]
pub(super) struct PageCache {
    places: HashMap<(u64, u64), usize>,
    slots: Vec<Slot>,
    /// Slots that hold nothing.
    free: Vec<usize>,
    pages_max: usize,
    hand: usize,
}

impl PageCache {
    /// An empty one of `bytes`.
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            pages_max: usize::try_from(bytes / PAGE).unwrap_or(usize::MAX),
            ..Self::default()
        }
    }

    /// Returns whether nothing is ever cached.
    pub(super) fn is_off(&self) -> bool {
        self.pages_max == 0
    }

    /// Pages that it holds.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// When a page was or will be there; `None` if it is not asked for yet.
    pub(super) fn ready(&mut self, file: u64, page: u64) -> Option<u64> {
        let &at = self.places.get(&(file, page))?;
        let slot = self.slots.get_mut(at)?;
        slot.is_used = true;
        Some(slot.ready)
    }

    /// Takes a page in, in place of another if there is no room.
    pub(super) fn insert(&mut self, file: u64, page: u64, ready: u64) {
        if self.is_off() {
            return;
        }
        let new = Slot {
            file,
            page,
            ready,
            is_used: false,
        };
        if let Some(&at) = self.places.get(&(file, page)) {
            if let Some(slot) = self.slots.get_mut(at) {
                *slot = Slot {
                    is_used: true,
                    ..new
                };
            }
            return;
        }
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.slots.len() < self.pages_max => {
                self.slots.push(new);
                self.slots.len() - 1
            }
            None => self.evict(),
        };
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = new;
            self.places.insert((file, page), at);
        }
    }

    /// Empties the slot of the page that leaves next. Requires: all slots are in use.
    fn evict(&mut self) -> usize {
        // In the second round at the latest no page is marked any more.
        for _ in 0..2 * self.slots.len() {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.slots.len().max(1);
            let Some(slot) = self.slots.get_mut(at) else {
                continue;
            };
            if slot.is_used {
                slot.is_used = false;
                continue;
            }
            self.places.remove(&(slot.file, slot.page));
            return at;
        }
        self.hand
    }

    /// Forgets the pages of a file of `bytes`.
    pub(super) fn forget(&mut self, file: u64, bytes: u64) {
        for page in 0..bytes.div_ceil(PAGE) {
            if let Some(at) = self.places.remove(&(file, page)) {
                self.free.push(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_leave_when_there_is_no_room_and_nobody_read_them() {
        let mut cache = PageCache::new(3 * PAGE);
        for page in 0..3 {
            cache.insert(1, page, page);
        }
        assert_eq!(cache.ready(1, 0), Some(0));
        cache.insert(1, 3, 30);
        assert_eq!((cache.ready(1, 1), cache.ready(1, 0)), (None, Some(0)));
        assert_eq!((cache.ready(1, 3), cache.len()), (Some(30), 3));
        cache.insert(1, 3, 31);
        assert_eq!((cache.ready(1, 3), cache.len()), (Some(31), 3));
        cache.forget(1, 10 * PAGE);
        assert_eq!(cache.len(), 0);
        for page in 0..5 {
            cache.insert(2, page, 0);
        }
        assert_eq!((cache.len(), cache.slots.len()), (3, 3));
        let mut off = PageCache::new(100);
        off.insert(1, 1, 1);
        assert!(off.is_off() && off.ready(1, 1).is_none());
    }
}
