//! Turns the merged stream of internal keys into the user's view at a sequence number: skips what
//! is newer, collapses versions, hides deletions, resolves merges, honours bounds.
//!
//! Forward, the merged stream stands *on* the current entry (except for merge results, which are
//! built aside). Backward, it stands *before* all versions of the current key, whose value was
//! copied while passing over it.
//!
//! Entries under range tombstones are passed over like deleted ones; a stream whose entries newer
//! places delete is moved past the whole range.

use crate::core::SuperVersion;
use crate::iter::{Coverage, MergingIter, RangeWatch};
use crate::merge::{MergeOperator, full_merge};
use crate::version::TableCache;
use spanlith_base::keys::{self, MAX_SEQUENCE, ValueType};
use spanlith_base::{Comparator, Error, Pinned, Result, SequenceNumber};
use std::cmp::Ordering;
use std::sync::Arc;

/// Hidden versions of one key passed by stepping before a seek is tried.
const RESEEK_AFTER: u32 = 8;

/// Entries under range tombstones passed by stepping before a stream is moved past the range.
const SKIP_RANGE_AFTER: u32 = 4;

/// What a [`DbIter`] is made of.
pub(crate) struct DbIterParts {
    pub inner: MergingIter,
    /// Keeps memtables and tables alive.
    pub pin: Arc<SuperVersion>,
    pub cache: Arc<TableCache>,
    /// Whether `inner` has come to range tombstones.
    pub ranges: RangeWatch,
    pub snapshot: SequenceNumber,
    pub comparator: Comparator,
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    pub lower: Option<Vec<u8>>,
    pub upper: Option<Vec<u8>>,
    pub max_skipped: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum At {
    /// No entry.
    None,
    /// Forward, on the entry of the merged stream.
    Inner,
    /// Forward, on a merge result; the merged stream is past the versions that were folded.
    Merged,
    /// Backward; the merged stream is before all versions of the key.
    Saved,
}

/// The user's iterator.
pub struct DbIter {
    parts: DbIterParts,
    at: At,
    key: Vec<u8>,
    value: Vec<u8>,
    error: Option<Error>,
    skipped: u64,
    seek_key: Vec<u8>,
    /// Made when the first range tombstones are met.
    coverage: Option<Box<Coverage>>,
}

impl DbIter {
    pub(crate) fn new(parts: DbIterParts) -> Self {
        Self {
            parts,
            at: At::None,
            key: Vec::new(),
            value: Vec::new(),
            error: None,
            skipped: 0,
            seek_key: Vec::new(),
            coverage: None,
        }
    }

    /// Whether it stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.at != At::None
    }

    /// User key; empty if not valid.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match self.at {
            At::Inner => keys::user_key(self.parts.inner.key()),
            At::Merged | At::Saved => &self.key,
            At::None => &[],
        }
    }

    /// Value; empty if not valid.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self.at {
            At::Inner => self.parts.inner.value(),
            At::Merged | At::Saved => &self.value,
            At::None => &[],
        }
    }

    /// The error that ended the iteration, if any.
    pub fn status(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }

    fn reset(&mut self) {
        self.at = At::None;
        self.error = None;
        self.skipped = 0;
    }

    #[cold]
    fn fail(&mut self, e: Error) {
        self.error = Some(e);
        self.at = At::None;
    }

    /// Ends the iteration; with the merged stream's error if that is why.
    fn end(&mut self) {
        self.at = At::None;
        if let Err(e) = self.parts.inner.status() {
            self.error = Some(e);
        }
    }

    fn seek_inner(&mut self, user_key: &[u8], tag: u64) {
        self.seek_key.clear();
        keys::append_internal(&mut self.seek_key, user_key, tag);
        self.parts.inner.seek(&self.seek_key);
    }

    /// First key at or after `target`.
    pub fn seek(&mut self, target: &[u8]) {
        self.reset();
        let lower = self.parts.lower.take();
        let from = match &lower {
            Some(l) if self.parts.comparator.compare(target, l) == Ordering::Less => l,
            _ => target,
        };
        self.seek_inner(from, keys::seek_tag(self.parts.snapshot));
        self.parts.lower = lower;
        self.find_forward(false);
    }

    /// First key.
    pub fn seek_to_first(&mut self) {
        if let Some(lower) = self.parts.lower.take() {
            self.reset();
            self.seek_inner(&lower, keys::seek_tag(self.parts.snapshot));
            self.parts.lower = Some(lower);
        } else {
            self.reset();
            self.parts.inner.seek_to_first();
        }
        self.find_forward(false);
    }

    /// Last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: &[u8]) {
        self.reset();
        let upper = self.parts.upper.take();
        match &upper {
            // Everything before the bound: stand before its newest version.
            Some(u) if self.parts.comparator.compare(target, u) != Ordering::Less => {
                self.seek_before(u);
            }
            _ => {
                self.seek_key.clear();
                keys::append_internal(&mut self.seek_key, target, 0);
                self.parts.inner.seek_for_prev(&self.seek_key);
            }
        }
        self.parts.upper = upper;
        self.find_backward();
    }

    /// Last key.
    pub fn seek_to_last(&mut self) {
        self.reset();
        if let Some(upper) = self.parts.upper.take() {
            self.seek_before(&upper);
            self.parts.upper = Some(upper);
        } else {
            self.parts.inner.seek_to_last();
        }
        self.find_backward();
    }

    /// Moves the merged stream before all versions of `user_key`.
    fn seek_before(&mut self, user_key: &[u8]) {
        self.seek_key.clear();
        keys::append_internal(&mut self.seek_key, user_key, keys::seek_tag(MAX_SEQUENCE));
        self.parts.inner.seek_for_prev(&self.seek_key);
    }

    /// Next key; stays invalid if it is.
    #[inline]
    pub fn next(&mut self) {
        self.skipped = 0;
        match self.at {
            At::None => return,
            At::Inner => {
                self.key.clear();
                self.key
                    .extend_from_slice(keys::user_key(self.parts.inner.key()));
                self.parts.inner.next();
            }
            At::Merged => {}
            At::Saved => {
                // Turn round: to the first entry at or after the newest version of the key.
                let key = std::mem::take(&mut self.key);
                self.seek_inner(&key, keys::seek_tag(MAX_SEQUENCE));
                self.key = key;
            }
        }
        self.find_forward(true);
    }

    /// Key before; stays invalid if it is.
    pub fn prev(&mut self) {
        self.skipped = 0;
        match self.at {
            At::None => return,
            At::Inner => {
                self.key.clear();
                self.key
                    .extend_from_slice(keys::user_key(self.parts.inner.key()));
                // Step before every version of the key, newer invisible ones included.
                while self.parts.inner.valid() && self.on_saved_key() {
                    self.parts.inner.prev();
                }
            }
            At::Merged => {
                let key = std::mem::take(&mut self.key);
                self.seek_before(&key);
                self.key = key;
            }
            At::Saved => {}
        }
        self.find_backward();
    }

    #[inline]
    fn on_saved_key(&self) -> bool {
        self.parts
            .comparator
            .equal(keys::user_key(self.parts.inner.key()), &self.key)
    }

    /// Counts an internal key that is passed over; false when the budget is used up.
    #[inline]
    fn skip_one(&mut self) -> bool {
        self.skipped += 1;
        if self.parts.max_skipped != 0 && self.skipped > self.parts.max_skipped {
            self.fail(Error::incomplete("Too many internal keys skipped."));
            return false;
        }
        true
    }

    /// Whether a range tombstone deletes the merged stream's entry; `None` after an error.
    #[cold]
    fn covered(&mut self) -> Option<bool> {
        let parts = &self.parts;
        let coverage = self.coverage.get_or_insert_with(|| {
            let pin = &parts.pin;
            Box::new(pin.coverage(&parts.comparator, &parts.cache, parts.snapshot))
        });
        let key = parts.inner.key();
        match coverage.covers(keys::user_key(key), keys::tag_sequence(keys::tag(key))) {
            Ok(covered) => Some(covered),
            Err(e) => {
                self.fail(e);
                None
            }
        }
    }

    /// Moves on from an entry that [`Self::covered`] said is deleted, the `run`-th in a row; false
    /// after an error.
    fn pass_covered(&mut self, run: u32) -> bool {
        if run > SKIP_RANGE_AFTER
            && let Some(coverage) = &mut self.coverage
        {
            let inner = &mut self.parts.inner;
            let key = inner.key();
            let seqno = keys::tag_sequence(keys::tag(key));
            let (user, older) = (keys::user_key(key), inner.top_index());
            match coverage.skip_to(older, user, seqno, &mut self.seek_key) {
                Ok(true) => {
                    inner.seek_top(&self.seek_key);
                    return true;
                }
                Ok(false) => {}
                Err(e) => {
                    self.fail(e);
                    return false;
                }
            }
        }
        self.parts.inner.next();
        true
    }

    /// Backward: moves the stream of an entry that is deleted to before the range, if newer places
    /// delete all it holds there. False if nothing moved.
    fn pass_covered_back(&mut self) -> bool {
        let Some(coverage) = &mut self.coverage else {
            return false;
        };
        let inner = &mut self.parts.inner;
        let key = inner.key();
        let seqno = keys::tag_sequence(keys::tag(key));
        let (user, older) = (keys::user_key(key), inner.top_index());
        match coverage.skip_back_to(older, user, seqno, &mut self.seek_key) {
            Ok(true) => {
                inner.seek_top_for_prev(&self.seek_key);
                true
            }
            Ok(false) => false,
            Err(e) => {
                self.fail(e);
                false
            }
        }
    }

    /// Finds the next visible entry from where the merged stream stands. With `skipping`, versions
    /// of `self.key` are passed over.
    #[inline]
    fn find_forward(&mut self, mut skipping: bool) {
        let mut hidden = 0;
        let mut covered_run = 0;
        while self.parts.inner.valid() {
            let (user, tag) = {
                let k = self.parts.inner.key();
                (keys::user_key(k), keys::tag(k))
            };
            if let Some(upper) = &self.parts.upper
                && self.parts.comparator.compare(user, upper) != Ordering::Less
            {
                self.at = At::None;
                return;
            }
            let visible = keys::tag_sequence(tag) <= self.parts.snapshot;
            let same = skipping && self.parts.comparator.equal(user, &self.key);
            if visible && !same {
                if self.parts.ranges.met() {
                    match self.covered() {
                        Some(false) => covered_run = 0,
                        Some(true) => {
                            covered_run += 1;
                            if !self.pass_covered(covered_run) {
                                return;
                            }
                            continue;
                        }
                        None => return,
                    }
                }
                match ValueType::from_byte(keys::tag_type(tag)) {
                    Some(ValueType::Value) => {
                        self.at = At::Inner;
                        return;
                    }
                    Some(ValueType::Deletion | ValueType::SingleDeletion) => {
                        self.key.clear();
                        let user = keys::user_key(self.parts.inner.key());
                        self.key.extend_from_slice(user);
                        skipping = true;
                        hidden = 0;
                    }
                    Some(ValueType::Merge) => return self.merge_forward(),
                    kind => return self.fail_type(kind, tag),
                }
            } else {
                hidden += 1;
            }
            if !self.skip_one() {
                return;
            }
            if hidden > RESEEK_AFTER {
                hidden = 0;
                if same {
                    // Past all versions of the key.
                    let key = std::mem::take(&mut self.key);
                    self.seek_inner(&key, 0);
                    let stay = self.parts.inner.valid()
                        && keys::tag(self.parts.inner.key()) == 0
                        && self
                            .parts
                            .comparator
                            .equal(keys::user_key(self.parts.inner.key()), &key);
                    self.key = key;
                    if stay {
                        self.parts.inner.next();
                    }
                } else {
                    // Many versions too new to see: go to the first one that is visible.
                    let key = keys::user_key(self.parts.inner.key()).to_vec();
                    self.seek_inner(&key, keys::seek_tag(self.parts.snapshot));
                }
                continue;
            }
            self.parts.inner.next();
        }
        self.end();
    }

    #[cold]
    fn fail_type(&mut self, kind: Option<ValueType>, tag: u64) {
        self.fail(match kind {
            Some(k) => Error::not_supported(format!("entries of type {k:?}")),
            None => Error::corruption("unknown value type in an internal key")
                .with("type", keys::tag_type(tag)),
        });
    }

    fn operator(&mut self) -> Option<Arc<dyn MergeOperator>> {
        let op = self.parts.merge_operator.clone();
        if op.is_none() {
            self.fail(Error::invalid_argument("merge_operator_ must be set."));
        }
        op
    }

    /// Folds the operands of the key under the merged stream, moving it past what was used.
    fn merge_forward(&mut self) {
        let Some(operator) = self.operator() else {
            return;
        };
        self.key.clear();
        self.key
            .extend_from_slice(keys::user_key(self.parts.inner.key()));
        let mut operands: Vec<Pinned> = Vec::new();
        let mut base: Option<Pinned> = None;
        while self.parts.inner.valid() && self.on_saved_key() {
            if self.parts.ranges.met() {
                match self.covered() {
                    Some(false) => {}
                    // The end of the history, as a deletion would be.
                    Some(true) => break,
                    None => return,
                }
            }
            let tag = keys::tag(self.parts.inner.key());
            match ValueType::from_byte(keys::tag_type(tag)) {
                Some(ValueType::Merge) => operands.push(self.parts.inner.value_pinned()),
                Some(ValueType::Value) => {
                    base = Some(self.parts.inner.value_pinned());
                    break;
                }
                Some(ValueType::Deletion | ValueType::SingleDeletion) => break,
                kind => return self.fail_type(kind, tag),
            }
            self.parts.inner.next();
        }
        if self.parts.inner.status().is_err() {
            return self.end();
        }
        self.finish_merge(&operator, base.as_deref(), &operands, At::Merged);
    }

    fn finish_merge(
        &mut self,
        operator: &Arc<dyn MergeOperator>,
        base: Option<&[u8]>,
        newest_first: &[Pinned],
        at: At,
    ) {
        match full_merge(Some(operator), &self.key, base, newest_first) {
            Ok(v) => {
                self.value = v;
                self.at = at;
            }
            Err(e) => self.fail(e),
        }
    }

    /// Finds the visible entry of the largest key at or before where the merged stream stands.
    fn find_backward(&mut self) {
        let mut covered_run = 0;
        while self.parts.inner.valid() {
            let user = keys::user_key(self.parts.inner.key());
            if let Some(lower) = &self.parts.lower
                && self.parts.comparator.compare(user, lower) == Ordering::Less
            {
                self.at = At::None;
                return;
            }
            if self.parts.ranges.met() {
                match self.covered() {
                    Some(false) => covered_run = 0,
                    Some(true) => {
                        covered_run += 1;
                        if covered_run > SKIP_RANGE_AFTER && self.pass_covered_back() {
                            continue;
                        }
                    }
                    None => {}
                }
                if self.error.is_some() {
                    return;
                }
            }
            self.key.clear();
            let user = keys::user_key(self.parts.inner.key());
            self.key.extend_from_slice(user);
            if self.value_of_saved_key() || self.error.is_some() {
                return;
            }
        }
        self.end();
    }

    /// Passes backward over all versions of `self.key`, oldest first, keeping the newest visible
    /// state. True if the key has a value; the iterator then stands on it.
    fn value_of_saved_key(&mut self) -> bool {
        let mut newest: Option<ValueType> = None;
        let mut base: Option<Pinned> = None;
        let mut operands: Vec<Pinned> = Vec::new(); // oldest first
        while self.parts.inner.valid() && self.on_saved_key() {
            let tag = keys::tag(self.parts.inner.key());
            if keys::tag_sequence(tag) <= self.parts.snapshot {
                let mut kind = ValueType::from_byte(keys::tag_type(tag));
                if self.parts.ranges.met() {
                    match self.covered() {
                        Some(false) => {}
                        Some(true) => kind = Some(ValueType::Deletion),
                        None => return false,
                    }
                }
                match kind {
                    Some(ValueType::Value) => {
                        operands.clear();
                        self.value.clear();
                        self.value.extend_from_slice(self.parts.inner.value());
                    }
                    Some(ValueType::Deletion | ValueType::SingleDeletion) => operands.clear(),
                    Some(ValueType::Merge) => {
                        if operands.is_empty() {
                            base = (newest == Some(ValueType::Value))
                                .then(|| Pinned::copy_of(&self.value));
                        }
                        operands.push(self.parts.inner.value_pinned());
                    }
                    kind => {
                        self.fail_type(kind, tag);
                        return false;
                    }
                }
                newest = kind;
            }
            if !self.skip_one() {
                return false;
            }
            self.parts.inner.prev();
        }
        if let Err(e) = self.parts.inner.status() {
            self.fail(e);
            return false;
        }
        match newest {
            Some(ValueType::Value) => self.at = At::Saved,
            Some(ValueType::Merge) => {
                let Some(operator) = self.operator() else {
                    return false;
                };
                operands.reverse();
                self.finish_merge(&operator, base.as_deref(), &operands, At::Saved);
                return self.at == At::Saved;
            }
            _ => return false,
        }
        true
    }
}
