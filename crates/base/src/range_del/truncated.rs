//! A list of fragments, cut to the bounds of the file it comes from.
//!
//! A file's tombstones never act beyond its smallest and largest key: what a compaction put into
//! the next file may have lost entries that the tombstone would have hidden, or be newer. The cut is
//! made between internal keys, because versions of one user key can lie in two files.

use super::compaction::before_versions;
use super::fragments::{Fragment, FragmentedTombstones};
use super::place::{Place, PlaceBuf};
use crate::keys::{self, ValueType};
use std::cmp::Ordering;
use std::sync::Arc;

/// Fragments and the bounds outside which they do not act. A clone shares both.
#[derive(Clone, Debug)]
pub struct TruncatedTombstones {
    list: Arc<FragmentedTombstones>,
    lower: Option<Arc<PlaceBuf>>,
    upper: Option<Arc<PlaceBuf>>,
    /// Fragments with something left within the bounds.
    range: (usize, usize),
}

impl TruncatedTombstones {
    /// A list that acts everywhere, as that of a memtable does.
    pub fn whole(list: Arc<FragmentedTombstones>) -> Self {
        Self::between(list, None, None)
    }

    /// The list of a file with these smallest and largest internal keys, as the MANIFEST has them.
    /// Requires: keys at least as long as a tag.
    pub fn of_file(list: Arc<FragmentedTombstones>, smallest: &[u8], largest: &[u8]) -> Self {
        let lower = Place::of_smallest(smallest).into();
        let upper = Place::of_largest(largest, list.comparator()).into();
        Self::between(list, Some(lower), Some(upper))
    }

    /// The list, acting from `lower` (included) up to `upper` (excluded).
    pub fn between(
        list: Arc<FragmentedTombstones>,
        lower: Option<PlaceBuf>,
        upper: Option<PlaceBuf>,
    ) -> Self {
        let comparator = list.comparator();
        let first = lower
            .as_ref()
            .map_or(0, |l| list.first_ending_after(&l.get()));
        let last = upper.as_ref().map_or(list.len(), |upper| {
            let at = list.first_ending_after(&upper.get());
            // The bound may lie within this one.
            let within = at < list.len()
                && Place::Before(list.get(at).start).compare(&upper.get(), comparator)
                    == Ordering::Less;
            at + usize::from(within)
        });
        let range = (first, last.max(first));
        Self {
            list,
            lower: lower.map(Arc::new),
            upper: upper.map(Arc::new),
            range,
        }
    }

    /// The fragments, uncut.
    pub fn list(&self) -> &Arc<FragmentedTombstones> {
        &self.list
    }

    /// Number of fragments within the bounds.
    pub fn len(&self) -> usize {
        self.range.1 - self.range.0
    }

    /// Returns whether nothing lies within the bounds.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The fragment at an index below [`Self::len`]; its own bounds are uncut.
    pub fn get(&self, index: usize) -> Fragment<'_> {
        self.list.get(self.range.0 + index)
    }

    /// Where a fragment begins to act.
    #[inline]
    pub fn start(&self, index: usize) -> Place<'_> {
        let start = Place::Before(self.list.start(self.range.0 + index));
        match &self.lower {
            Some(l) if index == 0 => start.later(l.get(), self.list.comparator()),
            _ => start,
        }
    }

    /// Where a fragment ceases to act.
    #[inline]
    pub fn end(&self, index: usize) -> Place<'_> {
        let end = Place::Before(self.list.end(self.range.0 + index));
        match &self.upper {
            Some(u) if index + 1 == self.len() => end.earlier(u.get(), self.list.comparator()),
            _ => end,
        }
    }

    /// Internal key at which one of a fragment's numbers begins to act: its own, or that of the bound,
    /// then before any entry of that number.
    pub fn begin(&self, index: usize, number: usize) -> Vec<u8> {
        let fragment = self.get(index);
        let seqno = fragment.seqnos.get(number).copied().unwrap_or(0);
        let own = [fragment.start, fragment.timestamp(number)].concat();
        let tag = keys::pack_tag(seqno, ValueType::RangeDeletion as u8);
        let own = keys::internal_key(&own, tag);
        let comparator = self.list.comparator();
        let is_later = |l: &Place<'_>| l.compare(&Place::of_smallest(&own), comparator).is_gt();
        match self.lower.as_ref().map(|l| l.get()) {
            Some(l) if index == 0 && is_later(&l) => match l {
                Place::At(key, tag) => {
                    let tag = keys::pack_tag(keys::tag_sequence(tag), keys::MAX_VALID_TYPE);
                    keys::internal_key(key, tag)
                }
                Place::Before(key) => before_versions(comparator, key),
            },
            _ => own,
        }
    }

    /// Index of the first fragment that ends after `place`; [`Self::len`] if none does.
    pub fn first_ending_after(&self, place: &Place<'_>) -> usize {
        let at = self
            .list
            .first_ending_after(place)
            .clamp(self.range.0, self.range.1)
            - self.range.0;
        // The last one may end earlier, at the bound.
        let behind = at + 1 == self.len()
            && self.end(at).compare(place, self.list.comparator()) != Ordering::Greater;
        at + usize::from(behind)
    }

    /// An iterator over the fragments within the bounds; not positioned.
    pub fn iter(&self) -> TruncatedIter {
        TruncatedIter {
            at: self.len(),
            tombstones: self.clone(),
        }
    }
}

/// A position among the fragments of a list.
#[derive(Clone, Debug)]
pub struct TruncatedIter {
    tombstones: TruncatedTombstones,
    /// The length of the list when not valid.
    at: usize,
}

impl TruncatedIter {
    /// Returns whether the iterator is at a fragment.
    #[inline]
    pub fn valid(&self) -> bool {
        self.at < self.tombstones.len()
    }

    /// Moves to the first fragment.
    pub fn seek_to_first(&mut self) {
        self.at = 0;
    }

    /// Moves to the last fragment.
    pub fn seek_to_last(&mut self) {
        self.at = self.tombstones.len().wrapping_sub(1);
    }

    /// Moves to the first fragment that ends after `place`: the one over it, or the next.
    pub fn seek(&mut self, place: &Place<'_>) {
        self.at = self.tombstones.first_ending_after(place);
    }

    /// Moves to the last fragment that starts at or before `place`: the one over it, or the one
    /// before.
    pub fn seek_for_prev(&mut self, place: &Place<'_>) {
        let at = self.tombstones.first_ending_after(place);
        let starts = at < self.tombstones.len()
            && self
                .tombstones
                .start(at)
                .compare(place, self.tombstones.list.comparator())
                != Ordering::Greater;
        self.at = if starts { at } else { at.wrapping_sub(1) };
    }

    /// Moves to the next fragment. Requires: valid.
    pub fn next(&mut self) {
        self.at += 1;
    }

    /// Moves to the previous fragment. Requires: valid.
    pub fn prev(&mut self) {
        self.at = self.at.wrapping_sub(1);
    }

    /// Where the fragment begins to act. Requires: valid.
    pub fn start(&self) -> Place<'_> {
        self.tombstones.start(self.at)
    }

    /// Where the fragment ceases to act. Requires: valid.
    pub fn end(&self) -> Place<'_> {
        self.tombstones.end(self.at)
    }

    /// The fragment, uncut, with its sequence numbers. Requires: valid.
    pub fn fragment(&self) -> Fragment<'_> {
        self.tombstones.get(self.at)
    }
}
