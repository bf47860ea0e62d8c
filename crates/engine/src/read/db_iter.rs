//! Turns the merged stream of internal keys into the user's view at a sequence number: skips what
//! is newer, collapses versions, hides deletions, resolves merges, honours bounds.
//!
//! Forward, the merged stream stands *on* the current entry (except for merge results, which are
//! built aside). Backward, it stands *before* all versions of the current key, whose value was
//! copied while passing over it.
//!
//! Entries under range tombstones are passed over like deleted ones; a stream whose entries newer
//! places delete is moved past the whole range.

mod ahead;
mod backward;
mod covered;
mod dead;
mod limited;
mod scan_flush;

use super::get::unknown_type;
use super::stored::{Blobs, Entity, Stored};
use super::view::View;
use crate::blob::{BlobRead, BlobSource};
use crate::core::SuperVersion;
use crate::iter::{Coverage, MergingIter, RangeWatch};
use crate::merge::MergeOperator;
use crate::version::TableCache;
use spanlith_base::keys::{self, ValueType};
use spanlith_base::{Comparator, Error, MAX_SEQUENCE, Pinned, Result, SequenceNumber};
use std::sync::Arc;

/// Entries under range tombstones passed by stepping before a stream is moved past the range.
const SKIP_RANGE_AFTER: u32 = 4;

/// Describes what a [`DbIter`] is made of.
pub(crate) struct DbIterParts {
    pub inner: MergingIter,
    /// Keeps memtables and tables alive.
    pub pin: Arc<SuperVersion>,
    pub cache: Arc<TableCache>,
    /// Says whether `inner` has come to range tombstones.
    pub ranges: RangeWatch,
    pub snapshot: SequenceNumber,
    pub comparator: Comparator,
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    pub lower: Option<Vec<u8>>,
    pub upper: Option<Vec<u8>>,
    /// How many internal keys a move may pass over; 0 for any number.
    pub max_skipped: u64,
    /// When moves seek, and how those with a limit count.
    pub counting: Counting,
    /// How runs of deleted keys are treated.
    pub dead: DeadKeys,
    pub blobs: Arc<BlobSource>,
    pub blob_read: BlobRead,
    /// Says what is visible besides the snapshot, and what is passed over.
    pub view: View,
    /// The iterator may ask for a flush of the memtable that it reads: it neither follows what is written nor is the
    /// database read-only.
    pub may_mark: bool,
}

use ahead::ScanValues;
pub(crate) use dead::DeadKeys;
pub(crate) use limited::Counting;
use scan_flush::ScanFlush;

#[derive(Clone, Copy, PartialEq)]
enum At {
    /// No entry.
    None,
    /// Forward, on the entry of the merged stream.
    Inner,
    /// Forward, on an entry of the merged stream whose value was made ready aside.
    Resolved,
    /// Forward, on a merge result; the merged stream is past the versions that were folded.
    Merged,
    /// Backward; the merged stream is before all versions of the key.
    Saved,
    /// As `Saved`, with a long value that stays in its block: `aside.shared` keeps the block.
    Shared,
}

/// The user's iterator.
pub struct DbIter {
    parts: DbIterParts,
    at: At,
    key: Vec<u8>,
    value: Vec<u8>,
    error: Option<Error>,
    /// Internal keys that the current move has counted, if there is a limit.
    skipped: u64,
    /// After a seek its target, empty after one to the first key.
    seek_key: Vec<u8>,
    /// Made when the first range tombstones are met.
    coverage: Option<Box<Coverage>>,
    /// A range of a memtable that deleted an entry passed.
    cover: Option<Box<covered::Cover>>,
    /// Looks into memtables for range tombstones since the last move to a place.
    looks: u8,
    /// A seek has met range tombstones.
    has_sought: bool,
    /// The way of values from blob files; made with the first value that lies in one.
    values: Option<Box<ScanValues>>,
    /// State that few iterators have; made when it is first needed.
    aside: Option<Box<Aside>>,
    /// Says what it passed over so far, for those who measure.
    passed: Passed,
    /// Deleted keys in a row after which the loop forward hands over; 0 for never.
    dead_stop: u32,
    /// Entries passed over from this number on count towards a flush of the memtable.
    hidden_from: SequenceNumber,
    scan_flush: Option<Box<ScanFlush>>,
}

/// State that few iterators have. It is apart so that the others are small enough for the allocator's fast path.
#[derive(Default)]
struct Aside {
    /// The entity under the iterator, if `value` holds the default column of one.
    entity: Option<Entity>,
    /// A value that has yet to be fetched.
    unprepared: Option<Stored>,
    /// Backward over all versions: the internal key of the one it stands on.
    version: Vec<u8>,
    /// The value at `At::Shared`.
    shared: Pinned,
    /// Backward where runs of deleted keys become range tombstones.
    dead_behind: dead::DeadBehind,
}

impl Aside {
    /// Lets go of what belongs to one entry.
    #[cold]
    fn forget(&mut self) {
        self.entity = None;
        self.unprepared = None;
        self.shared = Pinned::default();
    }
}

/// Internal entries that an iterator passed over.
#[derive(Clone, Copy, Default)]
pub(crate) struct Passed {
    /// Versions older than one that was shown or deleted; backward all entries, those shown too.
    pub hidden: u64,
    /// Tombstones of single keys.
    pub deletions: u64,
    /// Entries newer than the snapshot.
    pub newer: u64,
    /// Merge operands folded.
    pub operands: u64,
    /// Values made of merge operands.
    pub merges: u64,
    /// Seeks in place of steps over many versions.
    pub reseeks: u64,
    /// Runs of deleted keys that became range tombstones.
    pub converted: u64,
    /// Those that were long enough, but might hide something, or are under a range tombstone already.
    pub unconverted: u64,
}

impl DbIter {
    /// Tells the table that the entry comes from that somebody wants it, where reads are counted; it may
    /// have been `sought`.
    #[cold]
    pub(crate) fn note_wanted(&mut self, sought: Option<&[u8]>) {
        let upper = self.parts.upper.as_deref();
        let prefix = sought.and_then(|key| self.parts.view.prefix_seek(key, upper));
        self.parts.inner.note_wanted(prefix);
    }

    pub(crate) fn new(parts: DbIterParts) -> Self {
        let (hidden_from, scan_flush) = ScanFlush::new(&parts.pin, parts.may_mark);
        Self {
            hidden_from,
            scan_flush,
            dead_stop: parts.dead.first_stop(),
            parts,
            at: At::None,
            key: Vec::new(),
            value: Vec::new(),
            error: None,
            skipped: 0,
            seek_key: Vec::new(),
            coverage: None,
            cover: None,
            looks: 0,
            has_sought: false,
            values: None,
            aside: None,
            passed: Passed::default(),
        }
    }

    /// Returns what it passed over since it was made.
    pub(crate) fn passed(&self) -> Passed {
        self.passed
    }

    /// How many streams it merges, and how many of them are memtables.
    pub(crate) fn sources(&self) -> (usize, usize) {
        self.parts.inner.sources()
    }

    /// About how many keys all memtables together compare for one seek.
    pub fn search_steps(&self) -> u64 {
        self.parts.inner.search_steps()
    }

    /// Returns whether the merged stream stands on the entry shown, so that the next move passes it.
    pub(crate) fn stands_on_entry(&self) -> bool {
        matches!(self.at, At::Inner | At::Resolved)
    }

    /// Shows what is visible at `seqno` from the next move on, if `state` is the one it is over. The
    /// memtable's stream meets what is added ahead of it.
    pub(crate) fn follow(&mut self, state: &Arc<SuperVersion>, seqno: SequenceNumber) -> bool {
        if !Arc::ptr_eq(&self.parts.pin, state) {
            return false;
        }
        if self.parts.snapshot != seqno {
            self.parts.snapshot = seqno;
            // Range tombstones that were added are looked at anew.
            self.coverage = None;
            self.has_sought = false;
            if let Some(values) = &mut self.values {
                values.forget_scout();
            }
            self.cover = None;
            if state.mem.range_deletes() > 0 {
                self.parts.ranges.note_memtable();
            }
        }
        true
    }

    /// Value that outlives the position; empty if not valid.
    pub(crate) fn value_pinned(&self) -> Pinned {
        match self.at {
            At::Inner => self.parts.inner.value_pinned(),
            At::Shared => self
                .aside
                .as_ref()
                .map_or_else(Pinned::default, |a| a.shared.clone()),
            _ => Pinned::copy_of(self.value()),
        }
    }

    /// Returns whether it stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.at != At::None
    }

    /// User key; empty if not valid.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match self.at {
            At::Inner if self.parts.view.is_plain() => keys::user_key(self.parts.inner.key()),
            At::None => &[],
            _ => self.shown_key(),
        }
    }

    /// User key and value; `None` if not valid.
    #[inline]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        match self.at {
            At::Inner if self.parts.view.is_plain() => {
                let (key, value) = self.parts.inner.entry();
                Some((keys::user_key(key), value))
            }
            At::Saved if self.parts.view.is_plain() => Some((&self.key, self.value())),
            At::Shared => Some((&self.key, self.shared_value())),
            At::None => None,
            _ => Some(self.unusual_entry()),
        }
    }

    #[inline(never)]
    fn unusual_entry(&self) -> (&[u8], &[u8]) {
        (self.shown_key(), self.value())
    }

    fn blobs(&self) -> Blobs<'_> {
        Blobs {
            source: &self.parts.blobs,
            version: &self.parts.pin.version,
            how: self.parts.blob_read,
        }
    }

    /// The key under the iterator as it is stored: with its timestamp, if it has one.
    #[inline]
    fn stored_key(&self) -> &[u8] {
        match self.at {
            At::Inner | At::Resolved => keys::user_key(self.parts.inner.key()),
            At::Merged | At::Saved | At::Shared => &self.key,
            At::None => &[],
        }
    }

    /// The key of an iterator with timestamps, or of an entry that was made ready aside.
    #[inline(never)]
    fn shown_key(&self) -> &[u8] {
        if self.parts.view.all_versions() {
            return match self.at {
                At::None => &[],
                At::Saved => self.aside.as_ref().map_or(&[][..], |a| &a.version),
                _ => self.parts.inner.key(),
            };
        }
        self.parts.comparator.strip_timestamp(self.stored_key())
    }

    /// Timestamp of the entry; empty in a family without timestamps.
    pub fn timestamp(&self) -> &[u8] {
        self.parts.comparator.split_timestamp(self.stored_key()).1
    }

    /// The internal key under the iterator; `None` where none is at hand: backward, and on a merge
    /// result.
    pub fn internal_key(&self) -> Option<&[u8]> {
        matches!(self.at, At::Inner | At::Resolved).then(|| self.parts.inner.key())
    }

    /// The columns of the entry; a plain value is one column without a name.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not valid.
    pub fn entity(&self) -> Result<Entity> {
        match self.aside.as_ref().and_then(|a| a.entity.as_ref()) {
            _ if !self.valid() => Err(Error::invalid_argument("iterator is not valid")),
            Some(entity) if self.at != At::Inner => Ok(entity.clone()),
            _ => Entity::of_value(self.value()),
        }
    }

    /// Returns whether it stands on an entity, whose default column is the value.
    pub(crate) fn has_entity(&self) -> bool {
        self.aside.as_ref().is_some_and(|a| a.entity.is_some()) && self.holds_aside()
    }

    /// Returns whether the value is there.
    pub(crate) fn is_prepared(&self) -> bool {
        self.unprepared().is_none() || !self.holds_aside()
    }

    /// The value that has yet to be fetched, if there is one.
    fn unprepared(&self) -> Option<&Stored> {
        self.aside.as_ref().and_then(|a| a.unprepared.as_ref())
    }

    fn aside(&mut self) -> &mut Aside {
        self.aside.get_or_insert_default()
    }

    /// Returns whether the entry under the iterator may have something aside. Where the merged stream shows the value itself,
    /// and after the end, what was left unread belongs to an entry before.
    fn holds_aside(&self) -> bool {
        matches!(self.at, At::Resolved | At::Merged | At::Saved)
    }

    /// Fetches the value, if the iterator was allowed to put that off. False after an error.
    pub fn prepare_value(&mut self) -> bool {
        if self.holds_aside()
            && let Some(stored) = self.aside.as_mut().and_then(|a| a.unprepared.take())
        {
            self.present(stored);
        }
        self.valid()
    }

    /// Value; empty if not valid.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self.at {
            At::Inner => self.parts.inner.value(),
            At::Resolved | At::Merged | At::Saved => &self.value,
            At::Shared => self.shared_value(),
            At::None => &[],
        }
    }

    /// Value at [`At::Shared`].
    #[inline]
    fn shared_value(&self) -> &[u8] {
        debug_assert!(self.at == At::Shared);
        self.aside.as_ref().map_or(&[], |a| &a.shared)
    }

    /// The error that ended the iteration, if any.
    pub fn status(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }

    fn reset(&mut self) {
        if self.at == At::Shared {
            self.forget_aside();
        }
        self.at = At::None;
        self.looks = 0;
        self.error = None;
        if self.scan_flush.is_some() {
            self.begin_scan();
        }
        if let Some(values) = &mut self.values {
            values.begin_anew();
        }
    }

    /// Ends the iteration with an error; the next move to a place goes on.
    #[cold]
    pub(crate) fn fail(&mut self, e: Error) {
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

    /// Moves the merged stream to the first entry of `user_key`, which has no timestamp, at or
    /// after `tag`.
    fn seek_inner(&mut self, user_key: &[u8], tag: u64) {
        self.parts.view.target(&mut self.seek_key, user_key, tag);
        self.parts.inner.seek(&self.seek_key);
    }

    /// As [`Self::seek_inner`], from an entry before.
    fn reseek_inner(&mut self, user_key: &[u8], tag: u64) {
        self.parts.view.target(&mut self.seek_key, user_key, tag);
        self.parts.inner.reseek(&self.seek_key);
    }

    /// Turns the bytes of the entry into what the user sees; after an error the iterator stands
    /// nowhere.
    fn present(&mut self, stored: Stored) {
        let shown = match stored {
            Stored::Blob(index) => {
                // Read into the memory of the value before.
                let mut value = std::mem::take(&mut self.value);
                let read = self.scanned_value(&index, &mut value);
                read.map(|()| (value, None))
            }
            Stored::Entity(_) => {
                let entity = stored.into_entity(self.stored_key(), self.blobs());
                entity.and_then(|entity| {
                    let columns = entity.columns()?;
                    let value = columns.default_column().map_or(&[][..], |c| c.value);
                    Ok((value.to_vec(), Some(entity.clone())))
                })
            }
            Stored::Value(value) => Ok((value.into_vec(), None)),
        };
        match shown {
            Ok((value, entity)) => {
                self.value = value;
                if entity.is_some() || self.aside.is_some() {
                    self.aside().entity = entity;
                }
            }
            Err(e) => self.fail(e),
        }
    }

    /// Stands on an entry of a rare type; false if it is none that holds a value.
    #[cold]
    fn show_rare(&mut self, kind: Option<ValueType>) -> bool {
        let bytes = self.parts.inner.value_pinned();
        let stored = match kind.map(|kind| Stored::of(kind, bytes)) {
            Some(Ok(Some(stored))) => stored,
            Some(Err(e)) => {
                self.fail(e);
                return true;
            }
            Some(Ok(None)) | None => return false,
        };
        self.at = At::Resolved;
        self.show_stored(stored);
        true
    }

    /// Shows what the entry that it stands on holds: now, or once somebody asks for it.
    fn show_stored(&mut self, stored: Stored) {
        let unprepared = self.aside.as_mut().and_then(|a| a.unprepared.take());
        let passed = unprepared.is_some();
        if !self.parts.view.may_put_off || !matches!(stored, Stored::Blob(_)) {
            return self.present(stored);
        }
        if passed && let Some(values) = &mut self.values {
            values.skip();
        }
        self.value.clear();
        let aside = self.aside();
        aside.entity = None;
        aside.unprepared = Some(stored);
    }

    /// First key at or after `target`.
    pub fn seek(&mut self, target: &[u8]) {
        self.reset();
        let lower = self.parts.lower.take();
        let c = &self.parts.comparator;
        let from = match &lower {
            Some(l) if c.compare_without_timestamp(target, false, l, false).is_lt() => l,
            _ => target,
        };
        // The prefix is that of the target, even if a bound lies after it.
        self.parts.view.begin(target);
        if let Some(seek) = self
            .parts
            .view
            .prefix_seek(from, self.parts.upper.as_deref())
        {
            let tag = keys::seek_tag(self.parts.snapshot);
            self.parts.view.target(&mut self.seek_key, from, tag);
            let view = &self.parts.view;
            let comes_back = view.awaits(&self.parts.comparator, seek);
            self.parts
                .inner
                .seek_prefix(&self.seek_key, seek, &view.params, comes_back);
        } else if !self.parts.ranges.met() || !self.seek_over_ranges(from) {
            self.seek_inner(from, keys::seek_tag(self.parts.snapshot));
        }
        self.parts.lower = lower;
        self.find_forward(false);
    }

    /// First key.
    pub fn seek_to_first(&mut self) {
        self.reset();
        if let Some(lower) = self.parts.lower.take() {
            self.parts.view.begin(&lower);
            self.seek_inner(&lower, keys::seek_tag(self.parts.snapshot));
            self.parts.lower = Some(lower);
            return self.find_forward(false);
        }
        self.seek_key.clear();
        self.parts.view.begin_anywhere();
        self.parts.inner.seek_to_first();
        self.find_forward(false);
        self.note_prefix();
    }

    /// After a move to an end: with `prefix_same_as_start` the prefix found there is the one to stay
    /// in.
    fn note_prefix(&mut self) {
        if self.valid() && self.parts.view.stays_in_prefix {
            let key = self.key().to_vec();
            self.parts.view.begin(&key);
        }
    }

    /// Next key; stays invalid if it is.
    #[inline]
    pub fn next(&mut self) {
        if self.scan_flush.is_some() {
            self.begin_step();
        }
        match self.at {
            At::None => return,
            At::Inner | At::Resolved => {
                keys::replace_key(&mut self.key, keys::user_key(self.parts.inner.key()));
                self.parts.inner.next_inlined();
            }
            At::Merged => {}
            At::Saved | At::Shared => {
                // Turn round: to the first entry at or after the newest version of the key.
                let key = std::mem::take(&mut self.key);
                if self.parts.view.all_versions() {
                    self.seek_key.clear();
                    let tag = keys::seek_tag(MAX_SEQUENCE);
                    keys::append_internal(&mut self.seek_key, &key, tag);
                } else {
                    let bare = self.parts.comparator.strip_timestamp(&key);
                    self.parts.view.newest(&mut self.seek_key, bare);
                }
                self.parts.inner.reseek(&self.seek_key);
                self.key = key;
            }
        }
        self.find_forward(true);
    }

    /// As [`Self::next`] of an iterator that [`Self::follow`]s what is written: where a table or a sealed
    /// memtable ends, the mutable one is looked at again, as in RocksDB.
    pub(crate) fn next_following(&mut self) {
        match self.at {
            At::None => return,
            At::Inner | At::Resolved => {
                self.key.clear();
                self.key
                    .extend_from_slice(keys::user_key(self.parts.inner.key()));
                self.parts.inner.next_following();
            }
            At::Merged => {}
            // Such an iterator never goes backward.
            At::Saved | At::Shared => return self.next(),
        }
        self.find_forward_as::<true>(true);
    }

    #[inline]
    fn on_saved_key(&self) -> bool {
        self.is_saved_key(keys::user_key(self.parts.inner.key()))
    }

    /// Returns whether an entry of that key is a version of `self.key`.
    #[inline(always)]
    fn is_saved_key(&self, key: &[u8]) -> bool {
        if self.parts.view.all_versions() {
            return self.parts.comparator.equal(key, &self.key);
        }
        self.parts.comparator.same_key(key, &self.key)
    }

    /// Finds the next visible entry from where the merged stream stands. With `skipping`, versions
    /// of `self.key` are passed over.
    #[inline]
    fn find_forward(&mut self, skipping: bool) {
        self.find_forward_as::<false>(skipping);
    }

    /// As [`Self::find_forward`]; steps are those of [`Self::next_following`] if it `FOLLOWS`.
    #[inline]
    fn find_forward_as<const FOLLOWS: bool>(&mut self, mut skipping: bool) {
        let mut hidden = 0;
        let mut covered_run = 0;
        let mut dead = 0;
        while let Some(k) = self.parts.inner.current_key() {
            let (user, tag) = (keys::user_key(k), keys::tag(k));
            if let Some(upper) = &self.parts.upper
                && !self.parts.inner.is_within()
                && (self.parts.comparator)
                    .compare_without_timestamp(user, true, upper, false)
                    .is_ge()
            {
                self.at = At::None;
                return;
            }
            let mut visible = keys::tag_sequence(tag) <= self.parts.snapshot;
            let mut same = skipping && self.parts.comparator.same_key(user, &self.key);
            if !self.parts.view.is_plain() {
                match self
                    .parts
                    .view
                    .look(&self.parts.comparator, user, &self.key, same)
                {
                    Some(seen) => {
                        visible &= seen.visible;
                        same = seen.same;
                    }
                    // Beyond the prefix.
                    None => {
                        self.at = At::None;
                        return;
                    }
                }
            }
            if visible && !same {
                if self.parts.ranges.met() {
                    match self.covered() {
                        Some(false) => covered_run = 0,
                        Some(true) => {
                            if self.parts.max_skipped != 0 {
                                return self.find_forward_limited::<FOLLOWS>(skipping);
                            }
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
                    kind if self.parts.view.all_versions() => {
                        self.show_version(kind, tag);
                        return;
                    }
                    Some(
                        ValueType::Deletion
                        | ValueType::SingleDeletion
                        | ValueType::DeletionWithTimestamp,
                    ) => {
                        if self.parts.max_skipped != 0 {
                            return self.find_forward_limited::<FOLLOWS>(skipping);
                        }
                        self.key.clear();
                        let user = keys::user_key(self.parts.inner.key());
                        self.key.extend_from_slice(user);
                        self.passed.deletions += 1;
                        if keys::tag_sequence(tag) >= self.hidden_from {
                            self.note_hidden();
                        }
                        skipping = true;
                        hidden = 0;
                        dead += 1;
                        if dead == self.dead_stop {
                            return self.find_forward_dead();
                        }
                    }
                    Some(ValueType::Merge) => return self.merge_forward::<false>(),
                    kind => {
                        if !self.show_rare(kind) {
                            self.fail_type(tag);
                        }
                        return;
                    }
                }
            } else {
                if self.parts.max_skipped != 0 {
                    return self.find_forward_limited::<FOLLOWS>(skipping);
                }
                hidden += 1;
                if visible {
                    self.passed.hidden += 1;
                    if keys::tag_sequence(tag) >= self.hidden_from {
                        self.note_hidden();
                    }
                } else {
                    self.passed.newer += 1;
                }
            }
            if hidden > self.parts.counting.reseek_after && self.parts.view.is_plain() {
                hidden = 0;
                self.passed.reseeks += 1;
                if same {
                    // Past all versions of the key.
                    let key = std::mem::take(&mut self.key);
                    self.reseek_inner(&key, 0);
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
                    self.reseek_inner(&key, keys::seek_tag(self.parts.snapshot));
                }
                continue;
            }
            if FOLLOWS {
                self.parts.inner.next_following();
            } else {
                self.parts.inner.next();
            }
        }
        self.end();
    }

    #[cold]
    fn fail_type(&mut self, tag: u64) {
        self.fail(unknown_type(keys::tag_type(tag)));
    }

    /// Stands on a version of an iterator that yields all of them, deletions too.
    fn show_version(&mut self, kind: Option<ValueType>, tag: u64) {
        match kind {
            Some(
                ValueType::Value
                | ValueType::Merge
                | ValueType::Deletion
                | ValueType::SingleDeletion
                | ValueType::DeletionWithTimestamp,
            ) => self.at = At::Inner,
            kind => {
                if !self.show_rare(kind) {
                    self.fail_type(tag);
                }
            }
        }
    }

    fn operator(&mut self) -> Option<Arc<dyn MergeOperator>> {
        let op = self.parts.merge_operator.clone();
        if op.is_none() {
            self.fail(Error::invalid_argument("merge_operator_ must be set."));
        }
        op
    }

    /// Folds the operands of the key under the merged stream, moving it past what was used. In the midst of a
    /// move `BACK` it stays on what ended the history.
    fn merge_forward<const BACK: bool>(&mut self) {
        let Some(operator) = self.operator() else {
            return;
        };
        self.sample();
        self.key.clear();
        self.key
            .extend_from_slice(keys::user_key(self.parts.inner.key()));
        let mut operands: Vec<Pinned> = Vec::new();
        let mut base: Option<Stored> = None;
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
                // The end of the history counts as used, as in RocksDB: the next move does not pass it over.
                Some(
                    ValueType::Deletion
                    | ValueType::SingleDeletion
                    | ValueType::DeletionWithTimestamp,
                ) => {
                    if !BACK {
                        self.parts.inner.next();
                    }
                    break;
                }
                kind => {
                    let bytes = self.parts.inner.value_pinned();
                    match kind.map(|kind| Stored::of(kind, bytes)) {
                        Some(Ok(Some(stored))) => base = Some(stored),
                        Some(Err(e)) => return self.fail(e),
                        Some(Ok(None)) | None => return self.fail_type(tag),
                    }
                    if !BACK {
                        self.parts.inner.next();
                    }
                    break;
                }
            }
            self.parts.inner.next();
        }
        if self.parts.inner.status().is_err() {
            return self.end();
        }
        let at = if BACK { At::Saved } else { At::Merged };
        self.finish_merge(&operator, base, &operands, at);
    }

    fn finish_merge(
        &mut self,
        operator: &Arc<dyn MergeOperator>,
        base: Option<Stored>,
        newest_first: &[Pinned],
        at: At,
    ) {
        self.passed.operands += newest_first.len() as u64;
        self.passed.merges += 1;
        let blobs = self.blobs();
        match Stored::merged(Some(operator), &self.key, base, newest_first, blobs) {
            Ok(stored) => {
                self.at = at;
                if let Some(aside) = &mut self.aside {
                    aside.unprepared = None;
                }
                self.present(stored);
            }
            Err(e) => self.fail(e),
        }
    }
}
