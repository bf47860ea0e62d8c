//! One source's tombstones as disjoint ranges.
//!
//! Tombstones may overlap and come in any order. Cutting each at the ends of all others yields
//! *fragments*: ranges that are equal or disjoint, in order, each with the sequence numbers of the
//! tombstones that cover it. Then one binary search answers for a key, in words rather than keys where
//! the order allows it ([`Heads`]).
//!
//! Costs: n tombstones make at most 2n - 1 fragments; building takes O(n log n) plus one step per
//! number stored. Tombstones nested in each other store up to n numbers per fragment, as RocksDB
//! does; [`FragmentedTombstones::build_bounded`] refuses that for bytes of unknown origin.

use super::heads::Heads;
use super::place::Place;
use crate::{Comparator, Error, Result, SequenceNumber};
use std::cmp::Ordering;

/// A range tombstone as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeTombstone<'a> {
    /// First user key deleted, with timestamp where the family has them.
    pub start: &'a [u8],
    /// User key after the last one deleted, with timestamp where the family has them.
    pub end: &'a [u8],
    /// Entries below this number are deleted.
    pub seqno: SequenceNumber,
}

/// Disjoint ranges in order, each with descending sequence numbers.
#[derive(Debug)]
pub struct FragmentedTombstones {
    comparator: Comparator,
    /// Bounds, back to back.
    keys: Box<[u8]>,
    fragments: Box<[Span]>,
    /// Words of the ends, for searches; `None` if they are of no use.
    heads: Option<Heads>,
    /// Numbers of all fragments, back to back.
    seqnos: Box<[SequenceNumber]>,
    /// One timestamp per number; empty without timestamps.
    timestamps: Box<[u8]>,
    originals: u64,
}

/// A fragment, as offsets into the shared arrays.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: (usize, usize),
    end: (usize, usize),
    seqnos: (usize, usize),
}

/// A range and the numbers of the tombstones over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// First user key, without timestamp.
    pub start: &'a [u8],
    /// User key after the last, without timestamp.
    pub end: &'a [u8],
    /// Sequence numbers, largest first.
    pub seqnos: &'a [SequenceNumber],
    /// Their timestamps, back to back; empty without timestamps.
    pub timestamps: &'a [u8],
}

impl<'a> Fragment<'a> {
    /// Index of the newest tombstone that a reader at `snapshot` and, where given, at a timestamp
    /// can see.
    pub fn visible(
        &self,
        snapshot: SequenceNumber,
        timestamp: Option<&[u8]>,
        comparator: &Comparator,
    ) -> Option<usize> {
        let at = self.seqnos.partition_point(|&s| s > snapshot);
        let Some(bound) = timestamp.filter(|_| !self.timestamps.is_empty()) else {
            return (at < self.seqnos.len()).then_some(at);
        };
        (at..self.seqnos.len())
            .find(|&i| comparator.compare_timestamp(self.timestamp(i), bound) != Ordering::Greater)
    }

    /// Timestamp of the tombstone at `index` of [`Self::seqnos`].
    pub fn timestamp(&self, index: usize) -> &'a [u8] {
        let size = self.timestamps.len() / self.seqnos.len().max(1);
        &self.timestamps[index * size..][..size]
    }
}

impl FragmentedTombstones {
    /// Fragments of tombstones in any order. Empty and inverted ranges are left out.
    ///
    /// Requires: keys at least as long as a timestamp, which decoders check; others are left out.
    pub fn build<'a>(
        comparator: &Comparator,
        tombstones: impl IntoIterator<Item = RangeTombstone<'a>>,
    ) -> Self {
        let mut sweep = Sweep::new(comparator, tombstones);
        sweep.run(&[], usize::MAX);
        sweep.finish()
    }

    /// As [`Self::build`], but gives up before storing more than `seqnos_max` numbers.
    ///
    /// # Errors
    /// `Corruption` if the tombstones are nested too deeply for that.
    pub fn build_bounded<'a>(
        comparator: &Comparator,
        tombstones: impl IntoIterator<Item = RangeTombstone<'a>>,
        seqnos_max: usize,
    ) -> Result<Self> {
        let mut sweep = Sweep::new(comparator, tombstones);
        if !sweep.run(&[], seqnos_max) {
            return Err(Error::corruption("too many overlapping range tombstones")
                .with("tombstones", sweep.tombstones.len())
                .with("limit", seqnos_max));
        }
        Ok(sweep.finish())
    }

    /// As [`Self::build`], but of each fragment keeps only the newest tombstone for each of
    /// `snapshots` (ascending) and the newest of all: what readers can still tell apart.
    ///
    /// With timestamps all are kept, because readers also choose by timestamp.
    pub fn build_for_snapshots<'a>(
        comparator: &Comparator,
        tombstones: impl IntoIterator<Item = RangeTombstone<'a>>,
        snapshots: &[SequenceNumber],
    ) -> Self {
        let mut sweep = Sweep::new(comparator, tombstones);
        sweep.stripes = comparator.timestamp_size() == 0;
        sweep.run(snapshots, usize::MAX);
        sweep.finish()
    }

    /// Order of the user keys.
    pub fn comparator(&self) -> &Comparator {
        &self.comparator
    }

    /// Number of fragments.
    pub fn len(&self) -> usize {
        self.fragments.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// Number of tombstones that went in.
    pub fn originals(&self) -> u64 {
        self.originals
    }

    /// Bytes of memory held.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>()
            + self.keys.len()
            + size_of_val(&*self.fragments)
            + self.heads.as_ref().map_or(0, Heads::memory_usage)
            + size_of_val(&*self.seqnos)
            + self.timestamps.len()
    }

    /// The fragment at an index below [`Self::len`].
    #[inline]
    pub fn get(&self, index: usize) -> Fragment<'_> {
        let f = self.fragments[index];
        let ts = self.comparator.timestamp_size();
        Fragment {
            start: &self.keys[f.start.0..f.start.1],
            end: &self.keys[f.end.0..f.end.1],
            seqnos: &self.seqnos[f.seqnos.0..f.seqnos.1],
            timestamps: &self.timestamps[f.seqnos.0 * ts..f.seqnos.1 * ts],
        }
    }

    /// The fragments in order, from either side.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Fragment<'_>> + ExactSizeIterator {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Where a fragment begins, as a user key without timestamp.
    #[inline]
    pub fn start(&self, index: usize) -> &[u8] {
        let (from, to) = self.fragments[index].start;
        &self.keys[from..to]
    }

    /// User key after the last of a fragment, without timestamp.
    #[inline]
    pub fn end(&self, index: usize) -> &[u8] {
        let (from, to) = self.fragments[index].end;
        &self.keys[from..to]
    }

    /// Returns whether a search costs less than a comparison of two keys or two.
    #[inline]
    pub(super) fn is_searched_fast(&self) -> bool {
        self.heads.is_some()
    }

    /// Index of the first fragment that ends after `place`; [`Self::len`] if none does.
    pub fn first_ending_after(&self, place: &Place<'_>) -> usize {
        // A place at or before the versions of a key is after an end that is this key, and before those after it.
        match (&self.heads, *place) {
            (Some(heads), Place::Before(key) | Place::At(key, _)) => {
                heads.first_after(&self.comparator, key, |i| self.end(i))
            }
            (None, _) => self.fragments.partition_point(|f| {
                Place::Before(&self.keys[f.end.0..f.end.1]).compare(place, &self.comparator)
                    != Ordering::Greater
            }),
        }
    }

    /// Returns whether every key from `start` up to, but excluding, `end` lies under a tombstone of a number of at
    /// most `snapshot`. Requires: no timestamps.
    pub fn covers_range(&self, start: &[u8], end: &[u8], snapshot: SequenceNumber) -> bool {
        let c = &self.comparator;
        debug_assert_eq!(c.timestamp_size(), 0);
        let mut at = self.first_ending_after(&Place::Before(start));
        let mut covered = start;
        while at < self.len() && c.compare(covered, end) == Ordering::Less {
            let fragment = self.get(at);
            let is_seen = fragment.visible(snapshot, None, c).is_some();
            if !is_seen || c.compare(fragment.start, covered) == Ordering::Greater {
                return false;
            }
            covered = fragment.end;
            at += 1;
        }
        c.compare(covered, end) != Ordering::Less
    }

    /// The fragment over `user_key`, and its newest number of at most `snapshot`; `None` if there is none. Requires: no
    /// timestamps.
    pub fn covering(
        &self,
        user_key: &[u8],
        snapshot: SequenceNumber,
    ) -> Option<(Fragment<'_>, SequenceNumber)> {
        let c = &self.comparator;
        debug_assert_eq!(c.timestamp_size(), 0);
        let at = self.first_ending_after(&Place::Before(user_key));
        let fragment = (at < self.len()).then(|| self.get(at))?;
        if c.compare(fragment.start, user_key).is_gt() {
            return None;
        }
        let newest = fragment.visible(snapshot, None, c)?;
        Some((fragment, fragment.seqnos[newest]))
    }

    /// Largest number, at most `snapshot`, of a tombstone over `user_key` (with timestamp where the
    /// family has them); 0 if none. Entries of the key below it are deleted.
    #[inline]
    pub fn max_covering(&self, user_key: &[u8], snapshot: SequenceNumber) -> SequenceNumber {
        self.max_covering_at(user_key, snapshot, None).0
    }

    /// As [`Self::max_covering`], for a reader at a timestamp: number and timestamp of the newest
    /// tombstone that is at most as new as both.
    pub fn max_covering_at(
        &self,
        user_key: &[u8],
        snapshot: SequenceNumber,
        timestamp: Option<&[u8]>,
    ) -> (SequenceNumber, Option<&[u8]>) {
        let at = self.first_ending_after(&Place::At(user_key, 0));
        let begins = |start: &[u8]| {
            self.comparator
                .compare_without_timestamp(start, false, user_key, true)
                .is_le()
        };
        match at < self.len() {
            true if begins(self.start(at)) => {
                let fragment = self.get(at);
                match fragment.visible(snapshot, timestamp, &self.comparator) {
                    Some(i) if fragment.timestamps.is_empty() => (fragment.seqnos[i], None),
                    Some(i) => (fragment.seqnos[i], Some(fragment.timestamp(i))),
                    None => (0, None),
                }
            }
            _ => (0, None),
        }
    }

    /// Returns whether a tombstone overlaps the user keys from `first` to `last`, both included and without
    /// timestamps; `None` is open.
    pub fn overlaps(&self, first: Option<&[u8]>, last: Option<&[u8]>) -> bool {
        let at = first.map_or(0, |k| self.first_ending_after(&Place::Before(k)));
        let Some(f) = self.fragments.get(at) else {
            return false;
        };
        last.is_none_or(|last| {
            self.comparator.compare_without_timestamp(
                &self.keys[f.start.0..f.start.1],
                false,
                last,
                false,
            ) != Ordering::Greater
        })
    }
}

/// A tombstone in the sweep: timestamp split off.
struct Swept<'a> {
    start: &'a [u8],
    end: &'a [u8],
    seqno: SequenceNumber,
    timestamp: &'a [u8],
}

/// Goes through all bounds in order and keeps the tombstones over the current range.
struct Sweep<'a> {
    comparator: Comparator,
    tombstones: Vec<Swept<'a>>,
    originals: u64,
    /// Keep one number per snapshot only.
    stripes: bool,
    keys: Vec<u8>,
    fragments: Vec<Span>,
    seqnos: Vec<SequenceNumber>,
    timestamps: Vec<u8>,
}

impl<'a> Sweep<'a> {
    fn new(
        comparator: &Comparator,
        tombstones: impl IntoIterator<Item = RangeTombstone<'a>>,
    ) -> Self {
        let mut originals = 0;
        let size = comparator.timestamp_size();
        let order = |a: &[u8], b: &[u8]| comparator.compare_without_timestamp(a, false, b, false);
        let mut swept: Vec<Swept<'_>> = tombstones
            .into_iter()
            .map(|t| {
                originals += 1;
                let (start, timestamp) = comparator.split_timestamp(t.start);
                Swept {
                    start,
                    end: comparator.strip_timestamp(t.end),
                    seqno: t.seqno,
                    timestamp,
                }
            })
            .filter(|t| t.timestamp.len() == size && order(t.start, t.end) == Ordering::Less)
            .collect();
        // Newer first, so that many that start together are each appended to those in force.
        swept.sort_by(|a, b| order(a.start, b.start).then(b.seqno.cmp(&a.seqno)));
        Self {
            comparator: comparator.clone(),
            tombstones: swept,
            originals,
            stripes: false,
            keys: Vec::new(),
            fragments: Vec::new(),
            seqnos: Vec::new(),
            timestamps: Vec::new(),
        }
    }

    /// Makes the fragments; false if more than `seqnos_max` numbers would be stored.
    fn run(&mut self, snapshots: &[SequenceNumber], seqnos_max: usize) -> bool {
        let comparator = self.comparator.clone();
        let order = |a: &[u8], b: &[u8]| comparator.compare_without_timestamp(a, false, b, false);
        let tombstones = std::mem::take(&mut self.tombstones);
        let mut ends: Vec<&[u8]> = tombstones.iter().map(|t| t.end).collect();
        ends.sort_by(|a, b| order(a, b));
        // Those over the range that begins at `from`, largest number first.
        let mut active: Vec<&Swept<'_>> = Vec::new();
        let mut starting = tombstones.iter().peekable();
        let mut within = true;
        let mut from: &[u8] = &[];
        let mut ends = ends.into_iter().peekable();
        while let Some(&end) = ends.peek() {
            let to = match starting.peek() {
                Some(t) if order(t.start, end) == Ordering::Less => t.start,
                _ => end,
            };
            if !active.is_empty() {
                if order(from, to) == Ordering::Less {
                    self.emit(from, to, &active, snapshots);
                }
                if self.seqnos.len() > seqnos_max {
                    within = false;
                    break;
                }
                active.retain(|t| order(t.end, to) == Ordering::Greater);
            }
            while ends
                .next_if(|e| order(e, to) != Ordering::Greater)
                .is_some()
            {}
            while let Some(t) = starting.next_if(|t| order(t.start, to) != Ordering::Greater) {
                let at = active.partition_point(|a| {
                    let newer = comparator.compare_timestamp(t.timestamp, a.timestamp);
                    (a.seqno, newer.reverse()) > (t.seqno, Ordering::Equal)
                });
                active.insert(at, t);
            }
            from = to;
        }
        self.tombstones = tombstones;
        within
    }

    fn emit(
        &mut self,
        from: &[u8],
        to: &[u8],
        active: &[&Swept<'_>],
        snapshots: &[SequenceNumber],
    ) {
        let first = self.seqnos.len();
        let mut last = None;
        for t in active {
            let stripe = snapshots.partition_point(|&s| s < t.seqno);
            let same = last.is_some_and(|(seqno, last_stripe, timestamp)| {
                (self.stripes && stripe == last_stripe)
                    || (seqno == t.seqno && timestamp == t.timestamp)
            });
            if !same {
                last = Some((t.seqno, stripe, t.timestamp));
                self.seqnos.push(t.seqno);
                self.timestamps.extend_from_slice(t.timestamp);
            }
        }
        // Ranges often touch: the key is there already then.
        let start = match self.fragments.last() {
            Some(f) if self.keys[f.end.0..f.end.1] == *from => f.end,
            _ => append(&mut self.keys, from),
        };
        let end = append(&mut self.keys, to);
        self.fragments.push(Span {
            start,
            end,
            seqnos: (first, self.seqnos.len()),
        });
    }

    fn finish(self) -> FragmentedTombstones {
        let key_at = |(from, to): (usize, usize)| &self.keys[from..to];
        let ends = || self.fragments.iter().map(|f| key_at(f.end));
        let heads = (self.fragments.first().zip(self.fragments.last()))
            .and_then(|(f, l)| Heads::of(&self.comparator, key_at(f.end), key_at(l.end), ends()));
        FragmentedTombstones {
            heads,
            comparator: self.comparator,
            keys: self.keys.into(),
            fragments: self.fragments.into(),
            seqnos: self.seqnos.into(),
            timestamps: self.timestamps.into(),
            originals: self.originals,
        }
    }
}

fn append(keys: &mut Vec<u8>, key: &[u8]) -> (usize, usize) {
    let at = keys.len();
    keys.extend_from_slice(key);
    (at, keys.len())
}
