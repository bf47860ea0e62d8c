//! Entries under range tombstones.
//!
//! Most iterators meet few of them, and often all tombstones lie in memtables: then the first looks of a move
//! search their fragments, and the fragment that deletes an entry is kept, for the entries after it. Only a
//! move that looks on, or a second seek, makes a [`Coverage`], which costs a seek to make and next to nothing to ask.
//!
//! A seek into a range has older places begin after it: entries that newer places delete are not looked for.

use super::{DbIter, SKIP_RANGE_AFTER};
use crate::iter::Coverage;
use spanlith_base::keys::{self, MAX_SEQUENCE};
use spanlith_base::perf::{self, PerfCounter};
use spanlith_base::range_del::ReadBound;
use spanlith_base::{Comparator, SequenceNumber};

/// Looks of a move that search in memtables.
const LOOKS_MAX: u8 = 4;

/// A fragment of a memtable's range tombstones.
pub(super) struct Cover {
    /// Which memtable, as a stream.
    slot: usize,
    start: Vec<u8>,
    end: Vec<u8>,
    /// Newest number of it that the iterator sees.
    seqno: SequenceNumber,
}

impl Cover {
    fn holds(&self, c: &Comparator, user_key: &[u8], seqno: SequenceNumber) -> bool {
        seqno < self.seqno
            && c.compare(user_key, &self.end).is_lt()
            && c.compare(&self.start, user_key).is_le()
    }
}

impl DbIter {
    /// Moves the merged stream to the first entry at or after `from` that is not known to be deleted by a range. False,
    /// with nothing moved, if that is no other than the first entry of all, or not known.
    #[inline(never)]
    pub(super) fn seek_over_ranges(&mut self, from: &[u8]) -> bool {
        // With a limit, entries are counted as they are passed.
        if !self.parts.view.is_plain() || self.parts.max_skipped != 0 {
            return false;
        }
        let is_first = !std::mem::replace(&mut self.has_sought, true);
        let tag = keys::seek_tag(self.parts.snapshot);
        if is_first && self.coverage.is_none() && self.parts.ranges.is_in_memtables() {
            let Some(Some(cover)) = self.cover_in_memtables(from, 0) else {
                return false;
            };
            self.parts.view.target(&mut self.seek_key, from, tag);
            let end = keys::internal_key(&cover.end, keys::seek_tag(MAX_SEQUENCE));
            self.parts
                .inner
                .seek_older_to(&self.seek_key, cover.slot, &end);
            self.cover = Some(Box::new(cover));
            return true;
        }
        // An error is met again by who needs the answer.
        if self.coverage.is_none() && self.coverage().is_none() {
            self.error = None;
        }
        let Some(coverage) = &mut self.coverage else {
            return false;
        };
        self.parts.view.target(&mut self.seek_key, from, tag);
        self.parts.inner.seek_over(&self.seek_key, coverage).is_ok()
    }

    /// Returns whether a range tombstone deletes the merged stream's entry; `None` after an error.
    #[cold]
    pub(super) fn covered(&mut self) -> Option<bool> {
        let key = self.parts.inner.key();
        let (user, seqno) = (keys::user_key(key), keys::tag_sequence(keys::tag(key)));
        if self.coverage.is_none() {
            if let Some(cover) = &self.cover
                && cover.holds(&self.parts.comparator, user, seqno)
            {
                return Some(true);
            }
            if let Some(covered) = self.look_in_memtables() {
                return Some(covered);
            }
            self.coverage()?;
        }
        let coverage = self.coverage.as_mut()?;
        let key = self.parts.inner.key();
        match coverage.covers(keys::user_key(key), keys::tag_sequence(keys::tag(key))) {
            Ok(covered) => Some(covered),
            Err(e) => {
                self.fail(e);
                None
            }
        }
    }

    /// As [`Self::covered`], by a search; `None` if that does not tell.
    fn look_in_memtables(&mut self) -> Option<bool> {
        let parts = &self.parts;
        if self.looks >= LOOKS_MAX
            || !parts.ranges.is_in_memtables()
            || parts.view.until().is_some()
        {
            return None;
        }
        self.looks += 1;
        let key = parts.inner.key();
        let (user, seqno) = (keys::user_key(key), keys::tag_sequence(keys::tag(key)));
        let cover = self.cover_in_memtables(user, seqno)?;
        let covered = cover.is_some();
        if covered {
            self.cover = cover.map(Box::new);
        }
        Some(covered)
    }

    /// The fragment of the newest memtable that has one over `user_key` with a number above `seqno`, if any; `None` if
    /// a tombstone is damaged, which the slow way reports.
    fn cover_in_memtables(&self, user_key: &[u8], seqno: SequenceNumber) -> Option<Option<Cover>> {
        let parts = &self.parts;
        let mems = std::iter::once(&parts.pin.mem).chain(&parts.pin.imm);
        for (slot, mem) in mems.enumerate() {
            let Some(list) = mem.range_tombstones() else {
                continue;
            };
            mem.check_fragments().ok()?;
            if let Some((fragment, newest)) = list.covering(user_key, parts.snapshot)
                && newest > seqno
            {
                return Some(Some(Cover {
                    slot,
                    start: fragment.start.to_vec(),
                    end: fragment.end.to_vec(),
                    seqno: newest,
                }));
            }
        }
        Some(None)
    }

    /// Says what range tombstones of all places delete; `None` after an error.
    pub(super) fn coverage(&mut self) -> Option<&mut Coverage> {
        if self.coverage.is_none() {
            let parts = &self.parts;
            let pin = &parts.pin;
            let bound = ReadBound {
                snapshot: parts.snapshot,
                timestamp: parts.view.until().map(<[u8]>::to_vec),
            };
            let coverage = pin.coverage(&parts.comparator, &parts.cache, bound);
            let mut mems = std::iter::once(&pin.mem).chain(&pin.imm);
            if let Err(e) = mems.try_for_each(|mem| mem.check_fragments()) {
                self.fail(e);
                return None;
            }
            self.coverage = Some(Box::new(coverage));
            self.cover = None;
        }
        self.coverage.as_deref_mut()
    }

    /// Moves on from an entry that [`Self::covered`] said is deleted, the `run`-th in a row; false
    /// after an error.
    pub(super) fn pass_covered(&mut self, run: u32) -> bool {
        if run > SKIP_RANGE_AFTER {
            match self.leap() {
                Some(true) => return true,
                Some(false) => {}
                None => return false,
            }
        }
        self.parts.inner.next();
        true
    }

    /// Moves the stream of the entry to after what newer places delete. False if nothing moved, `None` after an
    /// error.
    fn leap(&mut self) -> Option<bool> {
        let inner = &self.parts.inner;
        let key = inner.key();
        let seqno = keys::tag_sequence(keys::tag(key));
        let (user, older) = (keys::user_key(key), inner.top_index());
        if let Some(cover) = &self.cover
            && older > cover.slot
            && cover.holds(&self.parts.comparator, user, seqno)
        {
            self.seek_key.clear();
            let tag = keys::seek_tag(MAX_SEQUENCE);
            keys::append_internal(&mut self.seek_key, &cover.end, tag);
        } else {
            let Some(coverage) = self.coverage.as_mut() else {
                return Some(false);
            };
            match coverage.skip_to(older, user, seqno, &mut self.seek_key) {
                Ok(true) => {}
                Ok(false) => return Some(false),
                Err(e) => {
                    self.fail(e);
                    return None;
                }
            }
        }
        perf::add(PerfCounter::InternalRangeDelReseekCount, 1);
        self.parts.inner.seek_top(&self.seek_key);
        Some(true)
    }
}
