//! Drops what nobody can see any more (C1), for flushes and compactions alike.
//!
//! Live snapshots cut history into *stripes*: an entry belongs to the oldest snapshot that sees it,
//! or to the tip. Of the entries of one user key in one stripe only the newest can be seen. On top of
//! that, tombstones vanish when nothing older lies below, pairs of put and single delete cancel, and
//! merge operands are folded. Rules: `docs/formats/semantics.md`, "what may be dropped".

use super::balance::Dropped;
use super::trim::Trim;
use crate::blob::{BlobRead, BlobSource, resolve_columns};
use crate::compaction::{Below, BlobMeter};
use crate::core::SeqnoTimes;
use crate::filter::{FilterDecision, FilterValue, JobFilter};
use crate::iter::MergingIter;
use crate::merge::MergeOperator;
use crate::version::Version;
use crate::version::edit::BlobFileGarbage;
use spanlith_base::keys::{self, ValueType};
use spanlith_base::range_del::CompactionRangeDels;
use spanlith_base::{Comparator, Error, MAX_SEQUENCE, Pinned, Result, SequenceNumber};
use std::collections::VecDeque;
use std::sync::Arc;

pub(crate) use counts::ReadCounts;

mod counts;
mod merge;
mod single;

/// How to decide.
pub(crate) struct IterSettings {
    pub comparator: Comparator,
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// Live snapshots, ascending.
    pub snapshots: Vec<SequenceNumber>,
    /// Behind this number a transaction looks for writes: none goes without a trace.
    pub conflicts_from: SequenceNumber,
    /// Nothing older than the inputs overlaps their range.
    pub bottommost: bool,
    /// Answers whether a key can exist below the output; `None` for flushes: it can.
    pub below: Option<Below>,
    /// Entries from this number on keep it at the bottom, because it tells their time.
    pub keep_from: SequenceNumber,
    /// For flushes: when sequence numbers were assigned, if the family keeps that.
    pub times: Option<Arc<SeqnoTimes>>,
    /// Range tombstones of the inputs.
    pub ranges: CompactionRangeDels,
    /// User code that decides over entries, and the level its compaction starts from.
    pub filter: Option<(JobFilter, usize)>,
    /// User key at which the output ends; `None` is open.
    pub end: Option<Vec<u8>>,
    /// Versions of keys with earlier timestamps may be collapsed; empty keeps all.
    pub history_low: Vec<u8>,
    /// Values in blob files, for merges onto them.
    pub blobs: Arc<BlobSource>,
    /// The version whose blob files are meant.
    pub version: Arc<Version>,
    /// A deletion below a single delete is an error (`enforce_single_del_contracts`).
    pub enforce_single_deletes: bool,
    /// Versions that go, whoever sees them.
    pub trim: Option<Trim>,
    /// Somebody wants to know what is read.
    pub counts: bool,
}

/// Where the current output entry is.
#[derive(Clone, Copy, PartialEq)]
enum At {
    End,
    /// On the input's entry, with the tag possibly rewritten into `key`.
    Input,
    /// As `Input`, with the key in `aged`.
    Aged,
    /// The front of `queue`.
    Queue,
}

/// Filters a sorted stream of internal keys.
pub(crate) struct CompactionIter {
    input: MergingIter,
    s: IterSettings,
    at: At,
    /// The user key being worked on, and room for a tag: with it, the current output entry's key.
    key: Vec<u8>,
    /// Entries made ready out of order with the input: merge results, single deletes.
    queue: VecDeque<(Vec<u8>, Pinned)>,
    /// The current output entry's key with its timestamp forgotten.
    aged: Vec<u8>,
    /// Length of the user key, and whether there is one.
    user_len: usize,
    has_user: bool,
    /// Stripe of the last entry of `user` that was handled; older entries in it are hidden.
    stripe: Option<usize>,
    /// Says whether an entry of `user` was output.
    output_one: bool,
    /// The timestamp of `user` lies in the history that may be collapsed.
    is_history: bool,
    entries: u64,
    /// Says what became of those that were not output.
    dropped: Dropped,
    /// The filter skipped entries, so that `entries` says nothing.
    skipped: bool,
    /// Says what is read, if somebody wants to know.
    counts: Option<ReadCounts>,
    /// Counts blobs that the inputs refer to, if there are blob files.
    meter: Option<Box<BlobMeter>>,
    /// Nothing but sequence numbers and types decides: most inputs then go the short way.
    is_plain: bool,
    /// Smaller sequence numbers tell nothing to anyone: entries lose them.
    zero_below: SequenceNumber,
}

impl CompactionIter {
    pub(crate) fn new(input: MergingIter, settings: IterSettings) -> Self {
        let zero_below = match (settings.bottommost, settings.snapshots.first()) {
            (false, _) => 0,
            (true, None) => settings.keep_from,
            (true, Some(&oldest)) => settings.keep_from.min(oldest + 1),
        };
        Self {
            input,
            zero_below,
            is_plain: settings.comparator.timestamp_size() == 0
                && settings.filter.is_none()
                && settings.end.is_none()
                && settings.ranges.is_empty(),
            counts: settings.counts.then(ReadCounts::default),
            meter: (!settings.version.blob_files.is_empty()).then(Box::default),
            s: settings,
            at: At::End,
            key: Vec::new(),
            queue: VecDeque::new(),
            user_len: 0,
            aged: Vec::new(),
            has_user: false,
            stripe: None,
            output_one: false,
            is_history: false,
            entries: 0,
            dropped: Dropped::default(),
            skipped: false,
        }
    }

    /// Moves to the first output entry.
    pub(crate) fn seek_to_first(&mut self) -> Result<()> {
        self.input.seek_to_first();
        self.find()
    }

    /// Moves to the first output entry whose user key is not smaller.
    pub(crate) fn seek(&mut self, user_key: &[u8]) -> Result<()> {
        self.input
            .seek(&keys::internal_key(user_key, keys::seek_tag(MAX_SEQUENCE)));
        self.find()
    }

    /// Returns whether it stands on an output entry.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.at != At::End
    }

    /// Internal key. Requires: `valid`.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        match self.at {
            At::Queue => &self.queue[0].0,
            At::Aged => &self.aged,
            _ => &self.key,
        }
    }

    /// Value. Requires: `valid`.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        match self.at {
            At::Queue => &self.queue[0].1,
            _ => self.input.value(),
        }
    }

    /// Moves to the next output entry.
    ///
    /// # Errors
    /// Of the input, and broken contracts of single deletes.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<()> {
        #[cfg(test)]
        self.suffer();
        // An entry that is output as it is refers to the same blobs before and after: it need not be metered.
        if self.is_plain && self.at == At::Input {
            self.count_entry();
            self.entries += 1;
            self.input.next_inlined();
            if self.find_plain() {
                return Ok(());
            }
            return self.find();
        }
        if self.meter.is_some() && self.at != At::End {
            self.meter_output();
        }
        match self.at {
            At::Queue => {
                self.queue.pop_front();
            }
            At::Input | At::Aged => self.step(),
            At::End => return Ok(()),
        }
        self.find()
    }

    /// Blobs that inputs refer to and outputs do not.
    pub(crate) fn garbage(&self) -> Vec<BlobFileGarbage> {
        self.meter.as_ref().map_or_else(Vec::new, |m| m.garbage())
    }

    #[cold]
    fn meter_output(&mut self) {
        if let Some(mut meter) = self.meter.take() {
            meter.take_out(self.key(), self.value());
            self.meter = Some(meter);
        }
    }

    /// Entries read so far; `None` if a filter skipped some unseen.
    pub(crate) fn input_entries(&self) -> Option<u64> {
        (!self.skipped).then_some(self.entries)
    }

    /// Entries that were read and not output, by reason.
    pub(crate) fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// Returns what was read so far; nothing if nobody wants to know.
    pub(crate) fn counts(&self) -> ReadCounts {
        self.counts.unwrap_or_default()
    }

    /// Checks that what was read so far was either output, as `written` entries, or dropped. To be asked
    /// at the end.
    ///
    /// # Errors
    /// `Corruption` with the numbers.
    pub(crate) fn check(&self, written: u64) -> Result<()> {
        debug_assert!(
            self.queue.is_empty(),
            "C4: asked while entries wait to be written"
        );
        self.dropped.check(self.entries, written)
    }

    /// Counts the input's entry, which is about to be left behind.
    #[inline]
    fn count_entry(&mut self) {
        if let Some(counts) = &mut self.counts {
            counts.entry(self.input.key(), self.input.value());
        }
    }

    /// Leaves the input's entry behind, which is read as part of another.
    fn step_joined(&mut self) {
        let bytes = self.input.key().len() + self.input.value().len();
        self.dropped.joined_bytes += bytes as u64;
        let counts = self.counts.take();
        self.step();
        self.counts = counts;
    }

    #[inline(never)]
    fn step(&mut self) {
        self.entries += 1;
        self.count_entry();
        if self.meter.is_some() {
            self.meter_input();
        }
        self.input.next();
    }

    #[cold]
    fn meter_input(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.take_in(self.input.key(), self.input.value());
        }
    }

    /// The user key being worked on.
    #[inline]
    fn user(&self) -> &[u8] {
        &self.key[..self.user_len]
    }

    /// Index of the stripe of `seqno`; `snapshots.len()` is the tip.
    #[inline]
    fn stripe_of(&self, seqno: SequenceNumber) -> usize {
        match self.s.snapshots.last() {
            None => 0,
            Some(&newest) if seqno > newest => self.s.snapshots.len(),
            _ => self.s.snapshots.partition_point(|&s| s < seqno),
        }
    }

    /// Returns whether every snapshot sees `seqno`.
    #[inline]
    fn seen_by_all(&self, seqno: SequenceNumber) -> bool {
        self.s.snapshots.first().is_none_or(|&s| seqno <= s)
    }

    /// Returns whether no older entry of the current user key can lie below the output.
    fn nothing_below(&mut self) -> bool {
        self.s.bottommost
            || self
                .s
                .below
                .as_mut()
                .is_some_and(|b| !b.may_contain(&self.s.comparator, &self.key[..self.user_len]))
    }

    #[inline]
    fn on_user_key(&self) -> bool {
        self.input.valid()
            && self
                .s
                .comparator
                .equal(keys::user_key(self.input.key()), self.user())
    }

    /// Outputs the input's entry.
    #[inline]
    fn emit_input(&mut self, kind: ValueType, seqno: SequenceNumber) {
        let zero = seqno < self.zero_below && loses_seqno(kind);
        let zero = zero && (!self.is_timed() || self.is_history);
        let tag = keys::pack_tag(if zero { 0 } else { seqno }, kind as u8);
        self.key[self.user_len..].copy_from_slice(&tag.to_le_bytes());
        self.output_one = true;
        self.at = At::Input;
        if zero && self.is_timed() {
            self.forget_timestamp();
        }
    }

    /// Queues an entry of the current user key.
    fn enqueue(&mut self, kind: ValueType, seqno: SequenceNumber, value: Pinned) {
        let zero = seqno < self.zero_below && loses_seqno(kind);
        let zero = zero && (!self.is_timed() || self.is_history);
        let tag = keys::pack_tag(if zero { 0 } else { seqno }, kind as u8);
        let mut key = keys::internal_key(self.user(), tag);
        if zero && self.is_timed() {
            let size = self.s.comparator.timestamp_size();
            key[self.user_len - size..self.user_len].fill(0);
        }
        self.queue.push_back((key, value));
        self.output_one = true;
    }

    /// The short way of [`Self::find`], for puts, blob indexes and what they hide, if `is_plain` and nothing is
    /// queued. False where it does not lead further; `find` then goes on from there.
    #[inline]
    fn find_plain(&mut self) -> bool {
        while self.input.valid() {
            let internal = self.input.key();
            let (user, tag) = (keys::user_key(internal), keys::tag(internal));
            let kind = keys::tag_type(tag);
            if kind != ValueType::Value as u8 && kind != ValueType::BlobIndex as u8 {
                return false;
            }
            let seqno = keys::tag_sequence(tag);
            let stripe = self.stripe_of(seqno);
            if !self.has_user || !self.s.comparator.equal(user, self.user()) {
                self.user_len = user.len();
                self.key.clear();
                self.key.extend_from_slice(internal);
                self.has_user = true;
                self.stripe = Some(stripe);
                self.output_one = true;
                if seqno < self.zero_below {
                    let tag = keys::pack_tag(0, kind);
                    self.key[self.user_len..].copy_from_slice(&tag.to_le_bytes());
                }
                self.at = At::Input;
                return true;
            }
            if self.stripe != Some(stripe) {
                return false;
            }
            self.dropped.hidden += 1;
            if kind == ValueType::BlobIndex as u8 {
                self.meter_input();
            }
            self.count_entry();
            self.entries += 1;
            self.input.next_inlined();
        }
        false
    }

    /// Finds the next output entry, starting with the input's current one.
    fn find(&mut self) -> Result<()> {
        loop {
            if !self.queue.is_empty() {
                self.at = At::Queue;
                return Ok(());
            }
            if !self.input.valid() {
                self.at = At::End;
                return self.input.status();
            }
            let internal = self.input.key();
            let (user, tag) = (keys::user_key(internal), keys::tag(internal));
            let seqno = keys::tag_sequence(tag);
            let byte = keys::tag_type(tag);
            if let Some(trim) = &self.s.trim
                && trim.drops(&self.s.comparator, user)
            {
                let end = self.s.end.as_deref();
                if end.is_some_and(|end| self.s.comparator.compare(user, end).is_ge()) {
                    self.at = At::End;
                    return Ok(());
                }
                self.dropped.trimmed += 1;
                self.step();
                continue;
            }
            if !self.has_user || !self.s.comparator.equal(user, self.user()) {
                if let Some(end) = &self.s.end
                    && self.s.comparator.compare(user, end).is_ge()
                {
                    self.at = At::End;
                    return Ok(());
                }
                // Of versions whose timestamps may be forgotten the newest hides the others.
                let mut goes_on = false;
                if self.is_timed() {
                    (goes_on, self.is_history) = self.next_version();
                }
                self.user_len = user.len();
                self.key.clear();
                self.key.extend_from_slice(internal);
                self.has_user = true;
                if !goes_on {
                    self.stripe = None;
                }
                self.output_one = false;
                if self.s.filter.is_some() && self.filter_newest(byte, seqno)? {
                    continue;
                }
            }
            let stripe = self.stripe_of(seqno);
            if self.stripe == Some(stripe) && byte != ValueType::SingleDeletion as u8 {
                // Hidden by a newer entry that the same snapshots see. A single delete is not: it
                // still has to cancel the put that may lie below, or that put comes back when the
                // newer entry is cancelled in its turn.
                self.dropped.hidden += 1;
                self.step();
                continue;
            }
            self.stripe = Some(stripe);
            // A single delete stays: it cancels the put below it, which is deleted as well. At the
            // bottom a deletion stays as long as a snapshot needs an older entry: what iterators and
            // counts see is then the same whether the range tombstone above lives on or not. Operands are
            // left to the merge, which treats what lies below them as a key's newest entry.
            if !self.s.ranges.is_empty()
                && byte != ValueType::SingleDeletion as u8
                && (byte != ValueType::Merge as u8 || self.is_timed())
                && !(self.s.bottommost && byte == ValueType::Deletion as u8)
                && (!self.is_timed() || self.is_history)
                && self.is_covered(seqno)
            {
                self.dropped.covered += 1;
                self.step();
                continue;
            }
            match ValueType::from_byte(byte) {
                Some(ValueType::Value) => {
                    self.emit_input(ValueType::Value, seqno);
                    return Ok(());
                }
                Some(ValueType::Deletion) => {
                    if self.deletion(ValueType::Deletion, seqno, stripe) {
                        return Ok(());
                    }
                }
                Some(ValueType::SingleDeletion) => self.single_deletion(seqno, stripe)?,
                Some(ValueType::Merge) => {
                    self.merge(seqno, stripe)?;
                }
                Some(k @ (ValueType::BlobIndex | ValueType::WideColumnEntity)) => {
                    self.emit_input(k, seqno);
                    return Ok(());
                }
                Some(ValueType::ValuePreferredSeqno) => {
                    if self.timed_put(seqno)? {
                        return Ok(());
                    }
                }
                Some(ValueType::DeletionWithTimestamp) => {
                    if self.is_history {
                        if self.deletion(ValueType::DeletionWithTimestamp, seqno, stripe) {
                            return Ok(());
                        }
                        continue;
                    }
                    self.emit_input(ValueType::DeletionWithTimestamp, seqno);
                    return Ok(());
                }
                Some(ValueType::RangeDeletion) | None => {
                    return Err(Error::corruption("unknown value type in an internal key")
                        .with("type", byte));
                }
            }
        }
    }

    /// Handles a value that prefers another number. In a memtable its time stands there instead. True if it
    /// is the current output entry.
    #[cold]
    fn timed_put(&mut self, seqno: SequenceNumber) -> Result<bool> {
        let stored = self.input.value();
        let number = keys::timed_number(stored).ok_or_else(short_timed_put)?;
        let value = keys::timed_value(stored).ok_or_else(short_timed_put)?;
        if self.s.below.is_none() {
            let preferred = self.s.times.as_ref().map(|t| t.seqno_before(number));
            match preferred.filter(|&p| p < seqno) {
                Some(preferred) => {
                    let packed = [value, &preferred.to_le_bytes()].concat();
                    let kind = ValueType::ValuePreferredSeqno;
                    self.enqueue(kind, seqno, Pinned::from_vec(packed));
                }
                None => self.enqueue(ValueType::Value, seqno, Pinned::copy_of(value)),
            }
            self.step();
            return Ok(false);
        }
        // It takes that number once nothing can come between: no snapshot, nothing older below, and no
        // range tombstone that would then hide it.
        let value = Pinned::copy_of(value);
        let settles = self.seen_by_all(seqno)
            && self.nothing_below()
            && (self.s.ranges.is_empty() || !self.is_covered(number.min(seqno)));
        if !settles {
            self.emit_input(ValueType::ValuePreferredSeqno, seqno);
            return Ok(true);
        }
        self.enqueue(ValueType::Value, number.min(seqno), value);
        self.step();
        Ok(false)
    }

    /// Returns whether the input stands on a version of the current key, of whatever timestamp.
    fn on_version(&self) -> bool {
        let c = &self.s.comparator;
        self.input.valid() && c.same_key(keys::user_key(self.input.key()), self.user())
    }

    /// With timestamps, before the input's entry becomes the current key: whether it is a version of
    /// the one before that may be hidden by it, both being history; and whether it is history.
    #[cold]
    fn next_version(&self) -> (bool, bool) {
        let was_history = self.is_history && self.has_user;
        let c = &self.s.comparator;
        let user = keys::user_key(self.input.key());
        let low = &self.s.history_low;
        let timestamp = c.split_timestamp(user).1;
        let is_history = !low.is_empty() && c.compare_timestamp(timestamp, low).is_lt();
        (was_history && is_history && self.on_version(), is_history)
    }

    /// Outputs the current key with the smallest timestamp.
    #[cold]
    fn forget_timestamp(&mut self) {
        self.aged.clear();
        self.aged.extend_from_slice(&self.key);
        let size = self.s.comparator.timestamp_size();
        self.aged[self.user_len - size..self.user_len].fill(0);
        self.at = At::Aged;
    }

    /// Returns whether keys have timestamps: then entries of one key and another timestamp come later.
    fn is_timed(&self) -> bool {
        self.s.comparator.timestamp_size() != 0
    }

    /// Returns whether a range tombstone deletes the input's entry for all that would see it.
    #[cold]
    fn is_covered(&mut self, seqno: SequenceNumber) -> bool {
        let user = keys::user_key(self.input.key());
        self.s.ranges.should_drop(user, seqno)
    }

    /// Returns whether a range tombstone alone is reason enough to drop the input's entry.
    fn is_hidden_by_range(&mut self, seqno: SequenceNumber) -> bool {
        !self.s.ranges.is_empty() && (!self.is_timed() || self.is_history) && self.is_covered(seqno)
    }

    /// The range tombstones of the inputs.
    pub(crate) fn ranges(&self) -> &CompactionRangeDels {
        &self.s.ranges
    }

    /// Says what tests plant.
    #[cfg(test)]
    fn suffer(&mut self) {
        use super::balance::plant::{Fault, strikes};
        if self.at != At::Input {
            return;
        }
        if strikes(Fault::ReadsPast) {
            self.input.next();
        }
        if strikes(Fault::Forgets) {
            self.step();
        }
        if strikes(Fault::Doubles) {
            let mut key = self.key.clone();
            let older = keys::tag(&key) - 1;
            key[self.user_len..].copy_from_slice(&older.to_le_bytes());
            self.queue.push_back((key, Pinned::default()));
            self.is_plain = false;
        }
    }

    /// Asks the filter about the newest entry of a key. True if the entry has been dealt with.
    fn filter_newest(&mut self, byte: u8, seqno: SequenceNumber) -> Result<bool> {
        let Some((filter, level)) = &self.s.filter else {
            return Ok(false);
        };
        let (fetched, entity);
        let value = match ValueType::from_byte(byte) {
            Some(ValueType::BlobIndex) => {
                let (index, how) = (self.input.value(), BlobRead::of_job());
                fetched = (self.s.blobs).resolve(&self.s.version, self.user(), index, how)?;
                if let Some(counts) = &mut self.counts {
                    counts.blob(self.user_len, index);
                }
                FilterValue::Value(&fetched)
            }
            Some(ValueType::Value) => FilterValue::Value(self.input.value()),
            Some(ValueType::WideColumnEntity) => {
                entity = self.whole_entity(self.input.value())?;
                FilterValue::Entity(entity.as_deref().unwrap_or(self.input.value()))
            }
            _ => return Ok(false),
        };
        let decision = filter.filter(*level, self.user(), value);
        let stripe = self.stripe_of(seqno);
        match decision {
            FilterDecision::Keep => return Ok(false),
            FilterDecision::Remove => {
                self.stripe = Some(stripe);
                let gone = self.seen_by_all(seqno) && self.nothing_below();
                if gone || self.s.bottommost {
                    let obsolete = self.dropped.obsolete;
                    let is_output = self.deletion(ValueType::Deletion, seqno, stripe);
                    // It was no deletion before.
                    self.dropped.filtered += self.dropped.obsolete - obsolete;
                    self.dropped.obsolete = obsolete;
                    debug_assert!(!is_output, "the input's entry is no deletion");
                } else {
                    let covered = self.is_hidden_by_range(seqno);
                    self.step();
                    if covered {
                        self.dropped.covered += 1;
                    } else {
                        self.enqueue(ValueType::Deletion, seqno, Pinned::default());
                    }
                }
            }
            FilterDecision::Purge => {
                self.stripe = Some(stripe);
                self.single_deletion(seqno, stripe)?;
            }
            FilterDecision::ChangeValue(new) => self.replace(ValueType::Value, seqno, new),
            FilterDecision::ChangeEntity(new) => {
                self.replace(ValueType::WideColumnEntity, seqno, new);
            }
            FilterDecision::RemoveAndSkipUntil(until) => return Ok(self.skip_until(&until)),
        }
        Ok(true)
    }

    /// An entity of the current key with all columns in their places; `None` if they are there already.
    fn whole_entity(&self, entity: &[u8]) -> Result<Option<Vec<u8>>> {
        resolve_columns(entity, |index| {
            let how = BlobRead::of_job();
            (self.s.blobs).resolve(&self.s.version, self.user(), index, how)
        })
    }

    /// Puts the filter's value in the place of the input's, unless a newer entry or a range tombstone
    /// hides the input's: what is deleted does not come back changed.
    fn replace(&mut self, kind: ValueType, seqno: SequenceNumber, new: Vec<u8>) {
        let stripe = self.stripe_of(seqno);
        let hidden = self.stripe == Some(stripe) || self.is_hidden_by_range(seqno);
        self.stripe = Some(stripe);
        self.step();
        if hidden {
            self.dropped.hidden += 1;
        } else {
            self.enqueue(kind, seqno, Pinned::from_vec(new));
        }
    }

    /// Leaves out everything before `until`, if that lies ahead.
    fn skip_until(&mut self, until: &[u8]) -> bool {
        if !self.s.comparator.compare(until, self.user()).is_gt() {
            return false;
        }
        self.skipped = true;
        self.input
            .seek(&keys::internal_key(until, keys::seek_tag(MAX_SEQUENCE)));
        true
    }

    /// Handles a deletion; true if it is the current output entry.
    fn deletion(&mut self, kind: ValueType, seqno: SequenceNumber, stripe: usize) -> bool {
        if self.seen_by_all(seqno) && self.nothing_below() {
            debug_assert_eq!(stripe, 0, "C1: a snapshot sees what {seqno} deletes");
            self.dropped.obsolete += 1;
            self.step();
            return false;
        }
        if !self.s.bottommost {
            self.emit_input(kind, seqno);
            return true;
        }
        // At the bottom, but a snapshot needs it: only if it hides something from someone, or a transaction looks for it.
        self.step();
        while self.on_version()
            && self.stripe_of(keys::tag_sequence(keys::tag(self.input.key()))) == stripe
        {
            self.dropped.hidden += 1;
            self.dropped.passed_over += 1;
            self.step_joined();
        }
        if self.on_version() || seqno > self.s.conflicts_from {
            self.enqueue(kind, seqno, Pinned::default());
        } else {
            self.dropped.obsolete += 1;
            self.dropped.needless += 1;
        }
        false
    }
}

/// Returns whether an entry that everybody sees, at the bottom, needs no sequence number.
#[inline]
fn loses_seqno(kind: ValueType) -> bool {
    matches!(
        kind,
        ValueType::Value | ValueType::BlobIndex | ValueType::WideColumnEntity
    )
}

#[cold]
fn short_timed_put() -> Error {
    Error::corruption("a value with a preferred sequence number is too short")
}
