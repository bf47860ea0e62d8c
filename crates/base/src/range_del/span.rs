//! The stretch around a key within which no source of tombstones starts or ends a fragment.

use super::fragments::Fragment;
use super::place::{Place, PlaceBuf};
use super::truncated::TruncatedTombstones;
use crate::Comparator;
use std::cmp::Ordering;

/// A stretch `[from, to)`, or nothing known.
#[derive(Debug, Default)]
pub(super) struct Span {
    known: bool,
    /// `None` where open, of either.
    from: Option<PlaceBuf>,
    to: Option<PlaceBuf>,
}

impl Span {
    pub(super) fn forget(&mut self) {
        self.known = false;
    }

    /// Returns whether the stretch is known and holds `place`. The end is looked at first, because keys
    /// mostly ascend.
    #[inline]
    pub(super) fn contains(&self, place: &Place<'_>, comparator: &Comparator) -> bool {
        let order = |end: &PlaceBuf| end.get().compare(place, comparator);
        self.known
            && self
                .to
                .as_ref()
                .is_none_or(|to| order(to) == Ordering::Greater)
            && self
                .from
                .as_ref()
                .is_none_or(|from| order(from) != Ordering::Greater)
    }

    pub(super) fn set(&mut self, around: &Around<'_>) {
        store(&mut self.from, around.from);
        store(&mut self.to, around.to);
        self.known = true;
    }
}

/// Copies an end into its buffer.
fn store(buffer: &mut Option<PlaceBuf>, place: Option<Place<'_>>) {
    match place {
        Some(place) => buffer.get_or_insert_default().set(place),
        None => *buffer = None,
    }
}

/// A stretch in the making: everything, or a window, narrowed by one source after the other.
#[derive(Default)]
pub(super) struct Around<'a> {
    from: Option<Place<'a>>,
    to: Option<Place<'a>>,
}

impl<'a> Around<'a> {
    /// The stretch between two places, open where there is none.
    pub(super) fn window(from: Option<Place<'a>>, to: Option<Place<'a>>) -> Self {
        Self { from, to }
    }

    /// Narrows the stretch to where the source does not change, and moves its position `at` to the
    /// first fragment that ends after `place`; returns the fragment over `place`.
    pub(super) fn narrow(
        &mut self,
        tombstones: &'a TruncatedTombstones,
        at: &mut usize,
        place: &Place<'_>,
        comparator: &Comparator,
    ) -> Option<Fragment<'a>> {
        *at = step(tombstones, *at, place, comparator);
        if let Some(before) = at.checked_sub(1) {
            self.begin(tombstones.end(before), comparator);
        }
        if *at == tombstones.len() {
            return None;
        }
        let start = tombstones.start(*at);
        if start.compare(place, comparator) == Ordering::Greater {
            self.finish(start, comparator);
            return None;
        }
        self.begin(start, comparator);
        self.finish(tombstones.end(*at), comparator);
        Some(tombstones.get(*at))
    }

    fn begin(&mut self, from: Place<'a>, comparator: &Comparator) {
        self.from = Some(self.from.map_or(from, |f| f.later(from, comparator)));
    }

    fn finish(&mut self, to: Place<'a>, comparator: &Comparator) {
        self.to = Some(self.to.map_or(to, |t| t.earlier(to, comparator)));
    }
}

/// First fragment that ends after `place`. Where a search costs many comparisons, it comes from a guess near it:
/// neighbours first, because keys come almost in order.
fn step(
    tombstones: &TruncatedTombstones,
    guess: usize,
    place: &Place<'_>,
    comparator: &Comparator,
) -> usize {
    if tombstones.list().is_searched_fast() {
        return tombstones.first_ending_after(place);
    }
    let len = tombstones.len();
    let ends_behind = |i: usize| tombstones.end(i).compare(place, comparator) == Ordering::Greater;
    let is_first = |i: usize| (i == len || ends_behind(i)) && (i == 0 || !ends_behind(i - 1));
    [guess, guess + 1, guess.wrapping_sub(1)]
        .into_iter()
        .find(|&i| i <= len && is_first(i))
        .unwrap_or_else(|| tombstones.first_ending_after(place))
}
