//! Says whether entries are deleted, for many sources of tombstones and keys that come almost in order.
//!
//! Sources have slots, newest first: memtables, level-0 files, levels. The cursor remembers the
//! *span* around the last key, within which no source starts or ends a fragment, and the newest
//! visible tombstone there. As long as keys stay within the span, a question costs two comparisons
//! however many sources there are; leaving it costs one look at each source, and a step or a binary
//! search where the source's fragment changed.
//!
//! Used by one thread. A scan without tombstones does not create one.

use super::place::{Place, PlaceBuf};
use super::span::{Around, Span};
use super::truncated::TruncatedTombstones;
use crate::{Comparator, SequenceNumber, keys};
use std::cmp::Ordering;

/// Up to where in the history a reader sees.
#[derive(Clone, Debug)]
pub struct ReadBound {
    /// Largest sequence number seen.
    pub snapshot: SequenceNumber,
    /// Newest timestamp seen; `None` for all.
    pub timestamp: Option<Vec<u8>>,
}

impl From<SequenceNumber> for ReadBound {
    fn from(snapshot: SequenceNumber) -> Self {
        Self {
            snapshot,
            timestamp: None,
        }
    }
}

/// Answers which entries are deleted, for one reader.
#[derive(Debug)]
pub struct CoverageCursor {
    comparator: Comparator,
    bound: ReadBound,
    slots: Vec<Slot>,
    span: Span,
    /// Newest tombstone over the span; 0 if none.
    newest: SequenceNumber,
    spans: u64,
    /// Where the tombstones of all slots are those set: no span reaches out of it. Open where `None`.
    window: (Option<PlaceBuf>, Option<PlaceBuf>),
}

/// A source and where the cursor is in it.
#[derive(Debug, Default)]
struct Slot {
    tombstones: Option<TruncatedTombstones>,
    /// First fragment that ends after the last key.
    at: usize,
    /// Newest visible tombstone of this source over the span; 0 if none.
    newest: SequenceNumber,
}

impl CoverageCursor {
    /// A cursor with no source yet.
    pub fn new(comparator: Comparator, bound: impl Into<ReadBound>) -> Self {
        Self {
            comparator,
            bound: bound.into(),
            slots: Vec::new(),
            span: Span::default(),
            newest: 0,
            spans: 0,
            window: (None, None),
        }
    }

    /// Answers are asked for places from the first up to, but excluding, the second only, until slots are set anew.
    pub fn limit(&mut self, from: Option<Place<'_>>, to: Option<Place<'_>>) {
        self.window = (from.map(PlaceBuf::from), to.map(PlaceBuf::from));
        self.span.forget();
    }

    /// The answer of [`Self::covers`], if it is known without a look at any source, the limits included.
    #[inline]
    pub fn covers_at_hand(&self, user_key: &[u8], seqno: SequenceNumber) -> Option<bool> {
        let place = Place::At(user_key, keys::pack_tag(seqno, 0));
        self.span
            .contains(&place, &self.comparator)
            .then_some(self.newest > seqno)
    }

    /// Returns whether a place lies within the limits.
    #[inline]
    pub fn is_within_limits(&self, place: &Place<'_>) -> bool {
        let order = |end: &PlaceBuf| end.get().compare(place, &self.comparator);
        let (from, to) = &self.window;
        to.as_ref().is_none_or(|to| order(to).is_gt())
            && from.as_ref().is_none_or(|from| order(from).is_le())
    }

    /// Adds a source after those that are there, hence older than they; returns its slot.
    pub fn push(&mut self, tombstones: Option<TruncatedTombstones>) -> usize {
        self.slots.push(Slot::default());
        let slot = self.slots.len() - 1;
        self.set(slot, tombstones);
        slot
    }

    /// Replaces the tombstones of a slot, when the stream over a level moves to another file.
    pub fn set(&mut self, slot: usize, tombstones: Option<TruncatedTombstones>) {
        self.slots[slot] = Slot {
            tombstones: tombstones.filter(|t| !t.is_empty()),
            ..Slot::default()
        };
        self.span.forget();
    }

    /// Returns whether no source has tombstones.
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(|s| s.tombstones.is_none())
    }

    /// Returns whether an entry is deleted: a tombstone over it is newer than it, and visible.
    #[inline]
    pub fn covers(&mut self, user_key: &[u8], seqno: SequenceNumber) -> bool {
        self.newest_over(user_key, seqno) > seqno
    }

    /// Largest number of a visible tombstone over an entry; 0 if none.
    #[inline]
    pub fn newest_over(&mut self, user_key: &[u8], seqno: SequenceNumber) -> SequenceNumber {
        self.locate(&Place::At(user_key, keys::pack_tag(seqno, 0)));
        self.newest
    }

    /// Where it is worth seeking to in the source of slot `older`, whose next entry is the one
    /// given: the end of the ranges that sources *newer* than it delete without a gap, starting at
    /// that entry. `None` if they do not delete it.
    ///
    /// Of one user key a newer source holds the newer entries (V2), so a tombstone of one deletes
    /// all that older sources hold in its range.
    pub fn skip_to(
        &mut self,
        older: usize,
        user_key: &[u8],
        seqno: SequenceNumber,
    ) -> Option<PlaceBuf> {
        self.locate(&Place::At(user_key, keys::pack_tag(seqno, 0)));
        let mut end: Option<Place<'_>> = None;
        for slot in &self.slots[..older.min(self.slots.len())] {
            if let Some(here) = self.end_of_run(slot) {
                end = Some(end.map_or(here, |e| e.later(here, &self.comparator)));
            }
        }
        end.map(PlaceBuf::from)
    }

    /// Calls `seek` for each source up to `sources`, newest first, with the place from which on it may hold what a
    /// reader that begins at `user_key` and `seqno` sees: `None` for there, else the end of the ranges that newer
    /// sources delete from there on without a gap.
    pub fn begin_at(
        &mut self,
        sources: usize,
        user_key: &[u8],
        seqno: SequenceNumber,
        mut seek: impl FnMut(usize, Option<Place<'_>>),
    ) {
        self.locate(&Place::At(user_key, keys::pack_tag(seqno, 0)));
        let mut end: Option<Place<'_>> = None;
        for source in 0..sources {
            seek(source, end);
            if self.newest != 0
                && let Some(here) = self.slots.get(source).and_then(|s| self.end_of_run(s))
            {
                end = Some(end.map_or(here, |e| e.later(here, &self.comparator)));
            }
        }
    }

    /// Where the fragments of a source end that delete from the span on without a gap; `None` if none does.
    fn end_of_run<'a>(&self, slot: &'a Slot) -> Option<Place<'a>> {
        let tombstones = slot.tombstones.as_ref().filter(|_| slot.newest != 0)?;
        let c = &self.comparator;
        let mut at = slot.at;
        // Fragments that touch continue each other.
        while at + 1 < tombstones.len()
            && tombstones.start(at + 1).compare(&tombstones.end(at), c) == Ordering::Equal
            && tombstones
                .get(at + 1)
                .visible(self.bound.snapshot, self.bound.timestamp.as_deref(), c)
                .is_some()
        {
            at += 1;
        }
        Some(tombstones.end(at))
    }

    /// The mirror of [`Self::skip_to`] for a reader that goes backward: where the ranges begin that
    /// sources newer than slot `older` delete without a gap, ending at the entry given. `None` if
    /// they do not delete it.
    pub fn skip_back_to(
        &mut self,
        older: usize,
        user_key: &[u8],
        seqno: SequenceNumber,
    ) -> Option<PlaceBuf> {
        self.locate(&Place::At(user_key, keys::pack_tag(seqno, 0)));
        let Self {
            slots,
            comparator,
            bound,
            ..
        } = self;
        let mut start: Option<Place<'_>> = None;
        for slot in &slots[..older.min(slots.len())] {
            let Some(tombstones) = &slot.tombstones else {
                continue;
            };
            if slot.newest == 0 {
                continue;
            }
            let mut at = slot.at;
            while at > 0
                && tombstones
                    .end(at - 1)
                    .compare(&tombstones.start(at), comparator)
                    == Ordering::Equal
                && tombstones
                    .get(at - 1)
                    .visible(bound.snapshot, bound.timestamp.as_deref(), comparator)
                    .is_some()
            {
                at -= 1;
            }
            let here = tombstones.start(at);
            start = Some(start.map_or(here, |s| s.earlier(here, comparator)));
        }
        start.map(PlaceBuf::from)
    }

    /// How often the span was left; the rest of the questions were answered from it.
    pub fn spans(&self) -> u64 {
        self.spans
    }

    #[inline]
    fn locate(&mut self, place: &Place<'_>) {
        if !self.span.contains(place, &self.comparator) {
            self.relocate(place);
        }
    }

    /// Finds the span around `place`.
    #[cold]
    fn relocate(&mut self, place: &Place<'_>) {
        let ends = (self.window.0.as_ref(), self.window.1.as_ref());
        let mut around = Around::window(ends.0.map(PlaceBuf::get), ends.1.map(PlaceBuf::get));
        debug_assert!(self.is_within_limits(place), "asked beyond its limits");
        self.newest = 0;
        for slot in &mut self.slots {
            slot.newest = 0;
            let Some(tombstones) = &slot.tombstones else {
                continue;
            };
            if let Some(fragment) = around.narrow(tombstones, &mut slot.at, place, &self.comparator)
            {
                let timestamp = self.bound.timestamp.as_deref();
                slot.newest = fragment
                    .visible(self.bound.snapshot, timestamp, &self.comparator)
                    .map_or(0, |i| fragment.seqnos[i]);
                self.newest = self.newest.max(slot.newest);
            }
        }
        self.span.set(&around);
        self.spans += 1;
    }
}
