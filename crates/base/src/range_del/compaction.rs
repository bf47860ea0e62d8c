//! Range tombstones in a compaction or flush: which entries they drop, and which of them go into
//! the output files.
//!
//! An entry is dropped if a tombstone over it is newer than it and no snapshot lies between the
//! two, so that every reader sees either both or neither (C1). A tombstone goes when nothing can
//! lie below the output and every snapshot sees it; of tombstones over the same range that no
//! snapshot tells apart only the newest is written.

use super::fragments::{FragmentedTombstones, RangeTombstone};
use super::place::Place;
use super::span::{Around, Span};
use super::truncated::TruncatedTombstones;
use crate::keys::{self, MAX_SEQUENCE, ValueType};
use crate::{Comparator, SequenceNumber};
use std::cmp::Ordering;

/// All tombstones of the inputs of a compaction.
#[derive(Debug)]
pub struct CompactionRangeDels {
    comparator: Comparator,
    /// Ascending.
    snapshots: Vec<SequenceNumber>,
    inputs: Vec<Input>,
    /// Timestamps below this are history that readers have given up.
    history: Option<Vec<u8>>,
    span: Span,
    /// Numbers of the tombstones over the current span, largest first.
    seqnos: Vec<SequenceNumber>,
}

#[derive(Debug)]
struct Input {
    tombstones: TruncatedTombstones,
    at: usize,
    /// Outputs see them once entries up to this internal key have been passed.
    opens_after: Option<Vec<u8>>,
}

/// Describes which of the tombstones belong to an output file, and which of them are history there.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputBounds<'a> {
    /// Internal key from which on the file is responsible for tombstones; `None` for the first file of
    /// a compaction without a lower end.
    pub lower: Option<&'a [u8]>,
    /// Internal key up to which it is, itself included; `None` for the last file of one without an
    /// upper end.
    pub upper: Option<&'a [u8]>,
    /// Internal key of the entry or tombstone that comes next, if one does.
    pub next: Option<&'a [u8]>,
    /// Every snapshot sees tombstones up to this number.
    pub settled_up_to: SequenceNumber,
    /// Says whether nothing older lies below the file: settled tombstones go.
    pub drops_settled: bool,
}

/// A tombstone for an output file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputTombstone {
    /// First user key, with timestamp where the family has them. May lie before what the file is
    /// responsible for: the bounds of the file limit what the tombstone does, not its own.
    pub start: Vec<u8>,
    /// User key after the last, with timestamp where the family has them; may lie beyond likewise.
    pub end: Vec<u8>,
    /// Sequence number.
    pub seqno: SequenceNumber,
    /// Internal key where it begins within the bounds; the file's smallest key is at most this one.
    pub smallest: Vec<u8>,
    /// Internal key where it ends within the bounds; the file's largest key is at least this one. "Up
    /// to but excluding the end", if that lies within.
    pub largest: Vec<u8>,
    /// Every reader sees it, and with timestamps none asks for the time before it.
    pub is_settled: bool,
}

impl OutputTombstone {
    /// Internal key under which it stands in the file's block.
    pub fn key(&self) -> Vec<u8> {
        let tag = keys::pack_tag(self.seqno, ValueType::RangeDeletion as u8);
        keys::internal_key(&self.start, tag)
    }
}

/// Internal key before all versions of a user key: where a tombstone ends that reaches up to the key.
pub fn before_versions(comparator: &Comparator, bare_key: &[u8]) -> Vec<u8> {
    let tag = keys::pack_tag(MAX_SEQUENCE, ValueType::RangeDeletion as u8);
    let mut user = bare_key.to_vec();
    // The largest timestamp comes first.
    user.resize(bare_key.len() + comparator.timestamp_size(), 0xff);
    keys::internal_key(&user, tag)
}

impl CompactionRangeDels {
    /// For a job that must preserve what these snapshots see; ascending.
    pub fn new(comparator: Comparator, snapshots: Vec<SequenceNumber>) -> Self {
        debug_assert!(
            snapshots.is_sorted(),
            "C1: what snapshots see is told by their order"
        );
        Self {
            comparator,
            snapshots,
            inputs: Vec::new(),
            history: None,
            span: Span::default(),
            seqnos: Vec::new(),
        }
    }

    /// With timestamps: those below `end` are history that may be forgotten.
    pub fn forget_history_below(&mut self, end: Vec<u8>) {
        self.history = Some(end);
        self.span.forget();
    }

    /// Adds the tombstones of an input, in any order of age.
    pub fn add(&mut self, tombstones: TruncatedTombstones) {
        self.add_opened_after(tombstones, None);
    }

    /// As [`Self::add`], of a table that is opened when the one before it has been read up to an
    /// internal key. Outputs that end before have the tombstones they share from that one alone, so
    /// that they are cut at the same places as RocksDB's.
    pub fn add_opened_after(&mut self, tombstones: TruncatedTombstones, key: Option<&[u8]>) {
        if !tombstones.is_empty() {
            self.inputs.push(Input {
                tombstones,
                at: 0,
                opens_after: key.map(<[u8]>::to_vec),
            });
            self.span.forget();
        }
    }

    /// Returns whether there is none; then nothing is dropped or written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Returns whether an entry is deleted for every reader that would see it: a tombstone over it is newer,
    /// and no snapshot sees the entry but not the tombstone.
    ///
    /// With timestamps only tombstones of forgotten history drop entries, because readers at older
    /// timestamps still see what the others delete.
    #[inline]
    pub fn should_drop(&mut self, user_key: &[u8], seqno: SequenceNumber) -> bool {
        if self.inputs.is_empty() {
            return false;
        }
        self.locate(&Place::At(user_key, keys::pack_tag(seqno, 0)));
        if self.seqnos.first().is_none_or(|&newest| newest <= seqno) {
            return false;
        }
        // Readers that see the entry see all up to here.
        let at = self.snapshots.partition_point(|&s| s < seqno);
        let visible = self.snapshots.get(at).copied().unwrap_or(MAX_SEQUENCE);
        let newest = self.seqnos.partition_point(|&s| s > visible);
        self.seqnos.get(newest).is_some_and(|&t| t > seqno)
    }

    /// Returns whether some input's tombstone overlaps user keys from `first` to `last`, both included and
    /// without timestamps.
    pub fn overlaps(&self, first: Option<&[u8]>, last: Option<&[u8]>) -> bool {
        self.inputs.iter().any(|i| {
            let t = &i.tombstones;
            let at = first.map_or(0, |k| t.first_ending_after(&Place::Before(k)));
            at < t.len()
                && last.is_none_or(|last| {
                    self.comparator.compare_without_timestamp(
                        t.start(at).bare_key(&self.comparator),
                        false,
                        last,
                        false,
                    ) != Ordering::Greater
                })
        })
    }

    /// The tombstones that belong into an output file, in the order of its block: by start
    /// ascending, then by sequence number descending.
    ///
    /// They are written whole, as fragments over all tombstones that reach into the file, and act
    /// within the file's bounds only; every file they reach has them. So does RocksDB.
    pub fn output(&self, bounds: &OutputBounds<'_>) -> Vec<OutputTombstone> {
        let c = &self.comparator;
        let (lower, upper) = (bounds.lower, bounds.upper);
        let less = |a: &[u8], b: &[u8]| c.compare_internal(a, b) == Ordering::Less;
        if let (Some(lower), Some(upper)) = (lower, upper)
            && less(upper, lower)
        {
            return Vec::new();
        }
        let reaching = self.reaching(bounds);
        let ranges = reaching.iter().map(|(start, end, seqno)| RangeTombstone {
            start,
            end,
            seqno: *seqno,
        });
        let list = FragmentedTombstones::build_for_snapshots(c, ranges, &self.snapshots);
        let end_tag = keys::pack_tag(MAX_SEQUENCE, ValueType::RangeDeletion as u8);
        let mut out = Vec::new();
        for fragment in list.iter() {
            for (i, &seqno) in fragment.seqnos.iter().enumerate() {
                let timestamp = fragment.timestamp(i);
                let (start, end) = (
                    [fragment.start, timestamp].concat(),
                    [fragment.end, timestamp].concat(),
                );
                let tag = keys::pack_tag(seqno, ValueType::RangeDeletion as u8);
                let mut smallest = keys::internal_key(&start, tag);
                let mut largest = keys::internal_key(&end, end_tag);
                if let Some(lower) = lower {
                    if !less(lower, &largest) {
                        continue;
                    }
                    let bare = c.strip_timestamp(keys::user_key(lower));
                    if c.compare_without_timestamp(&start, true, bare, false) == Ordering::Less {
                        smallest = keys::internal_key(&[bare, timestamp].concat(), tag);
                    }
                }
                if upper.is_some_and(|u| less(u, &smallest)) {
                    return out;
                }
                if let Some(lower) = lower.filter(|l| less(&smallest, l)) {
                    smallest = lower.to_vec();
                }
                if let Some(upper) = upper.filter(|u| less(u, &largest)) {
                    largest = upper.to_vec();
                }
                let is_settled = seqno <= bounds.settled_up_to
                    && (timestamp.is_empty() || is_history(c, timestamp, self.history.as_deref()));
                if is_settled && bounds.drops_settled {
                    continue;
                }
                out.push(OutputTombstone {
                    start,
                    end,
                    seqno,
                    smallest,
                    largest,
                    is_settled,
                });
            }
        }
        out
    }

    /// Start, end and number of all tombstones of the inputs that reach between the bounds, as far as
    /// their files let them act.
    fn reaching(&self, bounds: &OutputBounds<'_>) -> Vec<(Vec<u8>, Vec<u8>, SequenceNumber)> {
        let c = &self.comparator;
        let lower = bounds.lower.map(|l| c.strip_timestamp(keys::user_key(l)));
        let mut out = Vec::new();
        'inputs: for Input {
            tombstones,
            opens_after,
            ..
        } in &self.inputs
        {
            if let (Some(next), Some(after)) = (bounds.next, opens_after)
                && c.compare_internal(next, after) != Ordering::Greater
            {
                continue;
            }
            let first = lower.map_or(0, |l| tombstones.first_ending_after(&Place::Before(l)));
            for index in first..tombstones.len() {
                let (from, to) = (tombstones.start(index), tombstones.end(index));
                let (start, end) = (from.bare_key(c), to.bare_key(c));
                if c.compare_without_timestamp(start, false, end, false) != Ordering::Less {
                    continue;
                }
                let fragment = tombstones.get(index);
                for (i, &seqno) in fragment.seqnos.iter().enumerate() {
                    let timestamp = fragment.timestamp(i);
                    let (start, end) = ([start, timestamp].concat(), [end, timestamp].concat());
                    let begin = tombstones.begin(index, i);
                    let is_behind = |u| c.compare_internal(&begin, u) == Ordering::Greater;
                    if bounds.upper.is_some_and(is_behind) {
                        continue 'inputs;
                    }
                    out.push((start, end, seqno));
                }
            }
        }
        out
    }

    #[inline]
    fn locate(&mut self, place: &Place<'_>) {
        if !self.span.contains(place, &self.comparator) {
            self.relocate(place);
        }
    }

    #[cold]
    fn relocate(&mut self, place: &Place<'_>) {
        let mut around = Around::default();
        self.seqnos.clear();
        for Input { tombstones, at, .. } in &mut self.inputs {
            let Some(fragment) = around.narrow(tombstones, at, place, &self.comparator) else {
                continue;
            };
            if self.comparator.timestamp_size() == 0 {
                self.seqnos.extend_from_slice(fragment.seqnos);
                continue;
            }
            for (i, &seqno) in fragment.seqnos.iter().enumerate() {
                if is_history(
                    &self.comparator,
                    fragment.timestamp(i),
                    self.history.as_deref(),
                ) {
                    self.seqnos.push(seqno);
                }
            }
        }
        self.seqnos.sort_unstable_by(|a, b| b.cmp(a));
        self.span.set(&around);
    }
}

/// Returns whether a timestamp is before the end of the history that may be forgotten.
fn is_history(comparator: &Comparator, timestamp: &[u8], end: Option<&[u8]>) -> bool {
    end.is_some_and(|end| comparator.compare_timestamp(timestamp, end) == Ordering::Less)
}
