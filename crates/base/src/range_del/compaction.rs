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
}

/// The user keys that an output file is responsible for, without timestamps.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputBounds<'a> {
    /// First key; `None` for the first file of a compaction without a lower end.
    pub lower: Option<&'a [u8]>,
    /// Key behind the last, which is where the next file or the next subcompaction begins; `None`
    /// for the last file of one without an upper end.
    pub upper: Option<&'a [u8]>,
    /// Whether versions of `upper` stand in this file too: the cut went between them.
    pub shares_upper: bool,
    /// With an output at the bottom: the oldest snapshot, [`MAX_SEQUENCE`] if there is none. Then
    /// tombstones up to it go.
    pub drop_up_to: Option<SequenceNumber>,
}

/// A tombstone for an output file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputTombstone {
    /// First user key, with timestamp where the family has them.
    pub start: Vec<u8>,
    /// User key behind the last, with timestamp where the family has them.
    pub end: Vec<u8>,
    /// Sequence number.
    pub seqno: SequenceNumber,
}

impl OutputTombstone {
    /// Internal key under which it stands in the file's block; the file's smallest key is at most
    /// this one.
    pub fn smallest(&self) -> Vec<u8> {
        let tag = keys::pack_tag(self.seqno, ValueType::RangeDeletion as u8);
        keys::internal_key(&self.start, tag)
    }

    /// The file's largest key is at least this one, which says "up to but excluding the end".
    pub fn largest(&self) -> Vec<u8> {
        let tag = keys::pack_tag(MAX_SEQUENCE, ValueType::RangeDeletion as u8);
        keys::internal_key(&self.end, tag)
    }
}

impl CompactionRangeDels {
    /// For a job that must preserve what these snapshots see; ascending.
    pub fn new(comparator: Comparator, snapshots: Vec<SequenceNumber>) -> Self {
        debug_assert!(snapshots.is_sorted());
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
        if !tombstones.is_empty() {
            self.inputs.push(Input { tombstones, at: 0 });
            self.span.forget();
        }
    }

    /// Whether there is none; then nothing is dropped or written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Whether an entry is deleted for every reader that would see it: a tombstone over it is newer,
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

    /// Whether some input's tombstone overlaps user keys from `first` to `last`, both included and
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

    /// Internal keys at which the inputs' tombstones begin to act, ascending: places at which an
    /// output may be cut although no entry stands there.
    pub fn starts(&self) -> Vec<Vec<u8>> {
        let mut starts = Vec::new();
        for Input { tombstones, .. } in &self.inputs {
            for index in 0..tombstones.len() {
                starts.push(match tombstones.start(index) {
                    Place::At(key, tag) => keys::internal_key(key, tag),
                    Place::Before(key) => {
                        let fragment = tombstones.get(index);
                        let seqno = fragment.seqnos.first().copied().unwrap_or(0);
                        let tag = keys::pack_tag(seqno, ValueType::RangeDeletion as u8);
                        keys::internal_key(&[key, fragment.timestamp(0)].concat(), tag)
                    }
                });
            }
        }
        starts.sort_by(|a, b| self.comparator.compare_internal(a, b));
        starts
    }

    /// The tombstones that belong into an output file, in the order of its block: by start
    /// ascending, then by sequence number descending.
    pub fn output(&self, bounds: &OutputBounds<'_>) -> Vec<OutputTombstone> {
        let clipped = self.clipped(bounds);
        let inputs = clipped.iter().map(|t| RangeTombstone {
            start: &t.start,
            end: &t.end,
            seqno: t.seqno,
        });
        let list =
            FragmentedTombstones::build_for_snapshots(&self.comparator, inputs, &self.snapshots);
        let mut out = Vec::new();
        for fragment in list.iter() {
            for (i, &seqno) in fragment.seqnos.iter().enumerate() {
                let timestamp = fragment.timestamp(i);
                if self.is_obsolete(seqno, timestamp, bounds) {
                    continue;
                }
                out.push(OutputTombstone {
                    start: [fragment.start, timestamp].concat(),
                    end: [fragment.end, timestamp].concat(),
                    seqno,
                });
            }
        }
        out
    }

    fn is_obsolete(
        &self,
        seqno: SequenceNumber,
        timestamp: &[u8],
        bounds: &OutputBounds<'_>,
    ) -> bool {
        bounds.drop_up_to.is_some_and(|oldest| seqno <= oldest)
            && (timestamp.is_empty()
                || is_history(&self.comparator, timestamp, self.history.as_deref()))
    }

    /// All tombstones of all inputs, as far as they lie within the bounds.
    fn clipped(&self, bounds: &OutputBounds<'_>) -> Vec<OutputTombstone> {
        let comparator = &self.comparator;
        let less = |a: &[u8], b: &[u8]| {
            comparator.compare_without_timestamp(a, false, b, false) == Ordering::Less
        };
        let mut out = Vec::new();
        for Input { tombstones, .. } in &self.inputs {
            let first = bounds
                .lower
                .map_or(0, |k| tombstones.first_ending_after(&Place::Before(k)));
            for index in first..tombstones.len() {
                let mut start = tombstones.start(index).bare_key(comparator);
                let mut end = tombstones.end(index).bare_key(comparator);
                if let Some(lower) = bounds.lower.filter(|l| less(start, l)) {
                    start = lower;
                }
                if let Some(upper) = bounds.upper {
                    let beyond = if bounds.shares_upper {
                        less(upper, start)
                    } else {
                        !less(start, upper)
                    };
                    if beyond {
                        break;
                    }
                    // Versions of the bound in this file are deleted too, so the range must go on
                    // behind it; the file's largest key, which is one of them, limits it.
                    if !bounds.shares_upper && less(upper, end) {
                        end = upper;
                    }
                }
                if !less(start, end) {
                    continue;
                }
                let fragment = tombstones.get(index);
                for (i, &seqno) in fragment.seqnos.iter().enumerate() {
                    let timestamp = fragment.timestamp(i);
                    out.push(OutputTombstone {
                        start: [start, timestamp].concat(),
                        end: [end, timestamp].concat(),
                        seqno,
                    });
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
        for Input { tombstones, at } in &mut self.inputs {
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

/// Whether a timestamp is before the end of the history that may be forgotten.
fn is_history(comparator: &Comparator, timestamp: &[u8], end: Option<&[u8]>) -> bool {
    end.is_some_and(|end| comparator.compare_timestamp(timestamp, end) == Ordering::Less)
}
