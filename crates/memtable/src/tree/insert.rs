//! Insertion of one entry.

use super::node::{NodeRef, SLOTS, wait};
use super::record::{Content, RecordRef, Target};
use super::search::Tree;
use super::totals::Counts;
use crate::protection::{Protection, checksum};
use spanlith_base::ValueType;
use spanlith_base::keys::{TAG_LEN, pack_tag, tag_sequence};
use spanlith_base::sync::atomic::Ordering;

/// Where an entry belongs.
pub(super) struct Place<'a> {
    pub(super) leaf: NodeRef<'a>,
    pub(super) version: u64,
    pub(super) above: Above<'a>,
}

/// Describes what is above a node.
#[derive(Clone, Copy)]
pub(super) enum Above<'a> {
    /// Nothing: it is the root.
    Nothing,
    /// An inner node, and its version.
    Node(NodeRef<'a>, u64),
    /// Not noted: the node cannot be split.
    Unknown,
}

/// An entry on its way in.
pub(super) struct Pending<'a, 'k> {
    pub(super) target: Target<'k>,
    pub(super) content: Content<'k>,
    /// Written once, whatever number of attempts follows.
    pub(super) record: Option<RecordRef<'a>>,
}

impl<'a, 'k> Pending<'a, 'k> {
    /// An entry whose record is written already.
    #[inline]
    pub(super) fn written(record: RecordRef<'a>) -> Self
    where
        'a: 'k,
    {
        let tag = record.tag();
        let key = record.user_key();
        Self {
            target: Target::for_insert(key, tag_sequence(tag)),
            content: Content {
                tag,
                key,
                value: record.value(),
                checksum: 0,
                checksum_len: 0,
            },
            record: Some(record),
        }
    }

    #[inline]
    pub(super) fn new(
        protection: Protection,
        sequence: u64,
        kind: ValueType,
        key: &'k [u8],
        value: &'k [u8],
    ) -> Self {
        let tag = pack_tag(sequence, kind as u8);
        Self {
            target: Target::for_insert(key, sequence),
            content: Content {
                tag,
                key,
                value,
                checksum: match protection.bytes_per_key {
                    0 => 0,
                    _ => checksum(tag, key, value),
                },
                checksum_len: usize::from(protection.bytes_per_key.min(8)),
            },
            record: None,
        }
    }

    /// Bytes of internal key and value.
    #[inline]
    pub(super) fn data_bytes(&self) -> usize {
        self.content.key.len() + TAG_LEN + self.content.value.len()
    }
}

impl Tree {
    /// Adds an entry; false if its key and sequence number are taken (M2).
    pub(crate) fn insert(&self, sequence: u64, kind: ValueType, key: &[u8], value: &[u8]) -> bool {
        let mut pending = Pending::new(self.protection, sequence, kind, key, value);
        let added = self.insert_pending(&mut pending);
        if added {
            let mut counts = Counts::none();
            counts.add(sequence, kind, pending.data_bytes());
            self.totals.add(&counts);
        }
        added
    }

    /// Adds an entry without counting it.
    #[inline]
    pub(super) fn insert_pending<'a>(&'a self, pending: &mut Pending<'a, '_>) -> bool {
        if self.append(pending) {
            return true;
        }
        let mut turns = 0;
        loop {
            if let Some(place) = self.find_place(&pending.target)
                && let Some(added) = self.insert_into(&place, pending)
            {
                return added;
            }
            wait(turns);
            turns += 1;
        }
    }

    /// The leaf of `target`. Splits full inner nodes it meets, so that a parent has room; `None` if
    /// it did, or something changed.
    fn find_place(&self, target: &Target<'_>) -> Option<Place<'_>> {
        let mut place = self.enter();
        let mut above = Above::Nothing;
        while !place.0.is_leaf() {
            let at = place.0.lower_bound(target, &self.comparator);
            if place.0.count() == SLOTS {
                self.split_inner(place, above, at);
                return None;
            }
            let below = self.down(place, at)?;
            above = Above::Node(place.0, place.1);
            place = below;
        }
        Some(Place {
            leaf: place.0,
            version: place.1,
            above,
        })
    }

    /// Adds an entry after all others, without a search, if entries come in order; false if they do
    /// not, or the last leaf is full.
    #[inline]
    pub(super) fn append<'a>(&'a self, pending: &mut Pending<'a, '_>) -> bool {
        // SAFETY: Null, or a node published by Release in `note_end`, which lives in `nodes`.
        let last = unsafe { NodeRef::from_raw(self.last.load(Ordering::Acquire)) };
        last.is_some_and(|leaf| self.append_to(leaf, pending))
    }

    fn append_to<'a>(&'a self, leaf: NodeRef<'a>, pending: &mut Pending<'a, '_>) -> bool {
        let version = leaf.begin();
        let count = leaf.count();
        let last = count.checked_sub(1).and_then(|i| leaf.record(i));
        let belongs = count < SLOTS
            && leaf.link().is_none()
            && last.is_some_and(|r| r.is_before(&pending.target, &self.comparator));
        let place = Place {
            leaf,
            version,
            above: Above::Unknown,
        };
        belongs && self.insert_at(&place, count, pending) == Some(true)
    }

    /// Remembers a leaf as the last one if an entry was added at its end, so that the next entry is
    /// tried there first.
    #[inline]
    fn note_end(&self, leaf: NodeRef<'_>, at_end: bool) {
        let last = if at_end {
            leaf.raw()
        } else {
            std::ptr::null_mut()
        };
        // The plain look leaves the line alone while nothing changes.
        if self.last.load(Ordering::Relaxed) != last {
            self.last.store(last, Ordering::Release);
        }
    }

    /// Returns whether entries come in order.
    pub(super) fn is_appending(&self) -> bool {
        !self.last.load(Ordering::Relaxed).is_null()
    }

    /// Adds an entry to the leaf it belongs to; `None` if it must be searched again.
    #[inline]
    pub(super) fn insert_into<'a>(
        &'a self,
        place: &Place<'a>,
        pending: &mut Pending<'a, '_>,
    ) -> Option<bool> {
        let at = place.leaf.lower_bound(&pending.target, &self.comparator);
        self.insert_at(place, at, pending)
    }

    /// Adds an entry after `at` others of a leaf; `None` if it must be searched again.
    #[inline]
    fn insert_at<'a>(
        &'a self,
        place: &Place<'a>,
        at: usize,
        pending: &mut Pending<'a, '_>,
    ) -> Option<bool> {
        let Place {
            leaf,
            version,
            above,
        } = *place;
        let target = &pending.target;
        let count = leaf.count();
        let neighbour = if at >= count {
            leaf.high()
        } else if leaf.has_word_of(at, target.key, &self.comparator) {
            leaf.record(at)
        } else {
            None
        };
        if neighbour.is_some_and(|n| target.is_taken_by(n, &self.comparator)) {
            return leaf.is_unchanged(version).then_some(false);
        }
        if !leaf.is_unchanged(version) {
            return None;
        }
        let record = match pending.record {
            Some(record) => record,
            None => *pending.record.insert(self.write(&pending.content)),
        };
        if count == SLOTS {
            // Entries that come in order fill their leaves.
            let appended = (at == SLOTS && leaf.link().is_none()).then_some(record);
            let middle = if appended.is_some() { SLOTS } else { SLOTS / 2 };
            let split = self.split((leaf, version), above, middle, appended);
            return (split && appended.is_some()).then_some(true);
        }
        if !leaf.try_hold(version) {
            return None;
        }
        leaf.insert(at, record, &self.comparator);
        let at_end = at == count && leaf.link().is_none();
        leaf.release();
        self.note_end(leaf, at_end);
        Some(true)
    }

    pub(super) fn write(&self, content: &Content<'_>) -> RecordRef<'_> {
        let memory = self.records.allocate(RecordRef::size(content));
        // SAFETY: Memory of that size, fresh from the arena, which lives as long as `self`.
        unsafe { RecordRef::write(memory, content) }
    }

    #[cold]
    fn split_inner<'a>(&'a self, node: (NodeRef<'a>, u64), above: Above<'a>, at: usize) {
        let in_order = at == SLOTS && node.0.high().is_none();
        let middle = if in_order { SLOTS - 1 } else { SLOTS / 2 };
        self.split(node, above, middle, None);
    }

    /// Splits `node` at `middle` and tells its parent; false, with nothing done, if one of them
    /// changed. Requires: at the noted versions the node is full and the parent is not.
    #[cold]
    fn split<'a>(
        &'a self,
        (node, version): (NodeRef<'a>, u64),
        above: Above<'a>,
        middle: usize,
        appended: Option<RecordRef<'a>>,
    ) -> bool {
        match above {
            Above::Unknown => return false,
            Above::Node(parent, version) if !parent.try_hold(version) => return false,
            Above::Node(..) | Above::Nothing => {}
        }
        if !node.try_hold(version) {
            if let Above::Node(parent, _) = above {
                parent.release_unchanged();
            }
            return false;
        }
        let (separator, right) = node.split(&self.nodes, middle, appended, &self.comparator);
        if let Above::Node(parent, _) = above {
            parent.insert_child(separator, right, &self.comparator);
            node.release();
            parent.release();
        } else {
            // A thread that replaces the root holds the old one, so `node` still is the root.
            debug_assert_eq!(self.root.load(Ordering::Relaxed), node.raw());
            let none = std::ptr::null_mut();
            let root = NodeRef::new(&self.nodes, node.level() + 1, node.raw(), none, none);
            root.insert_child(separator, right, &self.comparator);
            self.root.store(root.raw(), Ordering::Release);
            node.release();
        }
        true
    }
}
