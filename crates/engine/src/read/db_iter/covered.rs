//! Entries under range tombstones.
//!
//! Most iterators meet few of them, and often all tombstones lie in memtables: then the first looks of a move
//! search their fragments, and the fragment that deletes an entry is kept, for the entries behind it. Only a
//! move that looks on makes a [`Coverage`], which costs a seek to make and next to nothing to ask.

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
    /// Returns whether a range tombstone deletes the merged stream's entry; `None` after an error.
    #[cold]
    pub(super) fn covered(&mut self) -> Option<bool> {
        let key = self.parts.inner.key();
        let (user, seqno) = (keys::user_key(key), keys::tag_sequence(keys::tag(key)));
        if let Some(cover) = &self.cover
            && cover.holds(&self.parts.comparator, user, seqno)
        {
            return Some(true);
        }
        if self.coverage.is_none()
            && let Some(covered) = self.look_in_memtables()
        {
            return Some(covered);
        }
        self.coverage()?;
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
        let mems = std::iter::once(&parts.pin.mem).chain(&parts.pin.imm);
        for (slot, mem) in mems.enumerate() {
            let Some(list) = mem.range_tombstones() else {
                continue;
            };
            // The slow way reports a damaged tombstone.
            mem.check_fragments().ok()?;
            if let Some((fragment, newest)) = list.covering(user, parts.snapshot)
                && newest > seqno
            {
                self.cover = Some(Box::new(Cover {
                    slot,
                    start: fragment.start.to_vec(),
                    end: fragment.end.to_vec(),
                    seqno: newest,
                }));
                return Some(true);
            }
        }
        Some(false)
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

    /// Moves the stream of the entry to behind what newer places delete. False if nothing moved, `None` after an
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
