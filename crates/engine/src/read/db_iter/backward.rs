//! Moving backward: the merged stream stops before all versions of the current key, whose value was
//! copied while passing over it.

use super::{At, DbIter, SKIP_RANGE_AFTER};
use crate::read::get::unknown_type;
use crate::read::stored::Stored;
use spanlith_base::keys::{self, ValueType};
use spanlith_base::{Comparator, Pinned, Result};

/// Values of at least this length are shared with their block.
const SHARED_LEN_MIN: usize = 512;

/// Says whether one entry was all there is of a key.
enum Passing {
    /// It was, and it is shown.
    Done,
    /// The general loop goes on after a version of this kind, if the entry was passed.
    First(Option<ValueType>),
}

impl DbIter {
    /// Last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: &[u8]) {
        self.reset();
        let upper = self.parts.upper.take();
        let c = &self.parts.comparator;
        match &upper {
            // Everything before the bound: stand before its newest version.
            Some(u) if c.compare_without_timestamp(target, false, u, false).is_ge() => {
                self.parts.view.begin(target);
                self.seek_before(u);
            }
            _ => {
                self.parts.view.begin(target);
                self.parts.view.oldest(&mut self.seek_key, target);
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
            self.parts.view.begin(&upper);
            self.seek_before(&upper);
            self.parts.upper = Some(upper);
            return self.find_backward();
        }
        self.parts.view.begin_anywhere();
        self.parts.inner.seek_to_last();
        self.find_backward();
        self.note_prefix();
    }

    /// Moves the merged stream before all versions of `user_key`.
    fn seek_before(&mut self, user_key: &[u8]) {
        self.parts.view.newest(&mut self.seek_key, user_key);
        self.parts.inner.seek_for_prev(&self.seek_key);
    }

    /// Key before; stays invalid if it is.
    pub fn prev(&mut self) {
        if self.parts.max_skipped != 0 {
            return self.prev_limited();
        }
        if self.parts.dead.converts() && self.at != At::None {
            return self.prev_converting();
        }
        self.prev_from_entry();
    }

    /// [`Self::prev`] without a limit.
    #[inline]
    pub(super) fn prev_from_entry(&mut self) {
        match self.at {
            At::None => return,
            At::Inner | At::Resolved => {
                self.key.clear();
                self.key
                    .extend_from_slice(keys::user_key(self.parts.inner.key()));
                // Step before every version of the key, newer invisible ones included.
                let mut run = 0;
                while self.parts.inner.valid() && self.on_saved_key() {
                    if self.is_long(run) {
                        self.reseek_before_saved_key();
                        break;
                    }
                    self.parts.inner.prev();
                    run += 1;
                }
            }
            At::Merged => self.reseek_before_saved_key(),
            At::Saved | At::Shared => {}
        }
        self.find_backward();
    }

    /// Moves the merged stream before all versions of `self.key`.
    fn reseek_before_saved_key(&mut self) {
        let bare = self.parts.comparator.strip_timestamp(&self.key);
        self.parts.view.newest(&mut self.seek_key, bare);
        self.parts.inner.reseek_for_prev(&self.seek_key);
    }

    /// Returns whether a seek is worth more than steps over further versions of a key.
    #[inline]
    fn is_long(&self, run: u64) -> bool {
        run > self.parts.counting.reseek_after && self.parts.view.is_plain()
    }

    /// Backward, among the versions of `self.key`, one of which is visible: moves the merged stream to the
    /// oldest that its value depends on.
    #[cold]
    fn reseek_to_base(&mut self) {
        self.passed.reseeks += 1;
        let tag = keys::seek_tag(self.parts.snapshot);
        self.parts.view.target(&mut self.seek_key, &self.key, tag);
        self.parts.inner.reseek(&self.seek_key);
        let is_merge =
            |internal: &[u8]| keys::tag_type(keys::tag(internal)) == ValueType::Merge as u8;
        while self.parts.inner.valid() && self.on_saved_key() {
            if !is_merge(self.parts.inner.key()) {
                return;
            }
            self.parts.inner.next();
        }
        self.parts.view.oldest(&mut self.seek_key, &self.key);
        self.parts.inner.reseek_for_prev(&self.seek_key);
    }

    /// Backward: moves the stream of an entry that is deleted to before the range, if newer places
    /// delete all it holds there. False if nothing moved.
    pub(super) fn pass_covered_back(&mut self) -> bool {
        if self.coverage().is_none() {
            return false;
        }
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

    /// Finds the visible entry of the largest key at or before where the merged stream stands.
    fn find_backward(&mut self) {
        if self.parts.max_skipped != 0 {
            return self.find_backward_limited();
        }
        let mut covered_run = 0;
        let all = self.parts.view.all_versions();
        while let Some(internal) = self.parts.inner.current_key() {
            let user = keys::user_key(internal);
            if let Some(lower) = &self.parts.lower
                && (self.parts.comparator)
                    .compare_without_timestamp(user, true, lower, false)
                    .is_lt()
            {
                self.at = At::None;
                return;
            }
            let is_plain = self.parts.view.is_plain();
            if !is_plain && self.parts.view.leaves_prefix(user) {
                self.at = At::None;
                return;
            }
            self.key.clear();
            self.key.extend_from_slice(user);
            let mut newest = None;
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
            } else if is_plain {
                match self.pass_lone_value(keys::tag(internal)) {
                    Passing::Done => return,
                    Passing::First(kind) => newest = kind,
                }
            }
            let found = match all {
                true => self.version_of_saved_key(),
                false => self.value_of_saved_key::<false>(newest),
            };
            if !found && self.parts.dead.converts() {
                self.note_dead_behind();
            }
            if found || self.error.is_some() {
                return;
            }
        }
        self.end();
    }

    /// Backward over all versions: passes over the entries of one key and timestamp. True if the
    /// newest that the snapshot sees is to be shown; the iterator then stands on it.
    pub(super) fn version_of_saved_key(&mut self) -> bool {
        let mut kind = None;
        while self.parts.inner.valid() && self.on_saved_key() {
            let tag = keys::tag(self.parts.inner.key());
            if keys::tag_sequence(tag) <= self.parts.snapshot {
                let covered = match self.parts.ranges.met() {
                    true => self.covered(),
                    false => Some(false),
                };
                kind = match covered {
                    Some(false) => Some(keys::tag_type(tag)),
                    Some(true) => None,
                    None => return false,
                };
                let version = &mut self.aside.get_or_insert_default().version;
                version.clear();
                version.extend_from_slice(self.parts.inner.key());
                self.value.clear();
                self.value.extend_from_slice(self.parts.inner.value());
            }
            if self.parts.max_skipped != 0 && !self.count_one() {
                return false;
            }
            self.parts.inner.prev();
        }
        if let Err(e) = self.parts.inner.status() {
            self.fail(e);
            return false;
        }
        let Some(byte) = kind.filter(|_| self.parts.view.sees(&self.parts.comparator, &self.key))
        else {
            return false;
        };
        self.at = At::Saved;
        self.forget_aside();
        match ValueType::from_byte(byte) {
            Some(
                ValueType::Value
                | ValueType::Merge
                | ValueType::Deletion
                | ValueType::SingleDeletion
                | ValueType::DeletionWithTimestamp,
            ) => {}
            rare => match self.saved_as(rare) {
                Ok(Some(stored)) => self.show_stored(stored),
                Ok(None) => self.fail(unknown_type(byte)),
                Err(e) => self.fail(e),
            },
        }
        self.at == At::Saved
    }

    /// The value that stood aside belongs to another entry.
    #[inline(always)]
    pub(super) fn forget_aside(&mut self) {
        if let Some(aside) = &mut self.aside {
            aside.forget();
        }
    }

    /// The usual case, a value with one version, is done without the general loop: passes over the entry under the merged
    /// stream, whose tag is given, if it is a visible value, and keeps it.
    #[inline(always)]
    fn pass_lone_value(&mut self, tag: u64) -> Passing {
        if keys::tag_type(tag) != ValueType::Value as u8
            || keys::tag_sequence(tag) > self.parts.snapshot
        {
            return Passing::First(None);
        }
        let at = self.save_value();
        self.passed.hidden += 1;
        self.parts.inner.prev();
        let before = self.parts.inner.current_key();
        if before.is_some_and(|key| !self.is_saved_key(keys::user_key(key))) {
            self.at = at;
            return Passing::Done;
        }
        if at == At::Shared {
            self.copy_shared();
        }
        Passing::First(Some(ValueType::Value))
    }

    /// Keeps the value under the merged stream, which moves on, in place of what stood aside; returns where the iterator
    /// stands if it is the only version. A long value of a table stays in its block, since copying costs more than
    /// keeping the block.
    #[inline]
    fn save_value(&mut self) -> At {
        let value = self.parts.inner.value();
        if value.len() < SHARED_LEN_MIN {
            self.value.clear();
            self.value.extend_from_slice(value);
            self.forget_aside();
            return At::Saved;
        }
        self.save_long_value()
    }

    fn save_long_value(&mut self) -> At {
        if self.share_value() {
            return At::Shared;
        }
        self.value.clear();
        self.value.extend_from_slice(self.parts.inner.value());
        self.forget_aside();
        At::Saved
    }

    /// Shares the value under the merged stream with its block; false if it is in a memtable.
    fn share_value(&mut self) -> bool {
        let Some(shared) = self.parts.inner.value_shared() else {
            return false;
        };
        let aside = self.aside.get_or_insert_default();
        aside.entity = None;
        aside.unprepared = None;
        aside.shared = shared;
        true
    }

    /// Copies a shared value to where one with several versions is kept.
    #[cold]
    fn copy_shared(&mut self) {
        self.value.clear();
        if let Some(aside) = &mut self.aside {
            self.value.extend_from_slice(&aside.shared);
            aside.shared = Pinned::default();
        }
    }

    /// Passes backward over all versions of `self.key`, oldest first, keeping the newest visible
    /// state, which is `newest` before the first. True if the key has a value; the iterator then
    /// stands on it.
    ///
    /// If `LIMITED` it counts, stops at the first version that is too new to see, and seeks the newest instead
    /// of passing many.
    pub(super) fn value_of_saved_key<const LIMITED: bool>(
        &mut self,
        mut newest: Option<ValueType>,
    ) -> bool {
        let mut count = 0;
        // Versions passed since the last seek, and whether the newest visible one was sought.
        let mut run = 0;
        let mut is_sought = false;
        let mut base: Option<Stored> = None;
        let mut operands: Vec<Pinned> = Vec::new(); // oldest first
        while self.parts.inner.valid() && self.on_saved_key() {
            let tag = keys::tag(self.parts.inner.key());
            if !LIMITED && self.is_long(run) && !self.parts.ranges.met() {
                if keys::tag_sequence(tag) > self.parts.snapshot {
                    // So are all newer ones.
                    self.reseek_before_saved_key();
                    break;
                }
                if !is_sought {
                    is_sought = true;
                    run = 0;
                    operands.clear();
                    newest = None;
                    self.reseek_to_base();
                    continue;
                }
            }
            run += 1;
            if LIMITED && self.parts.ranges.met() {
                // Entries that ranges delete do not count.
                match self.covered() {
                    Some(false) => {}
                    Some(true) => {
                        self.parts.inner.prev();
                        continue;
                    }
                    None => return false,
                }
            }
            if keys::tag_sequence(tag) <= self.parts.snapshot && self.takes_version() {
                if LIMITED {
                    if !self.count_one() {
                        return false;
                    }
                    if count >= self.parts.counting.reseek_after {
                        return self.value_by_seek();
                    }
                    count += 1;
                }
                let mut kind = ValueType::from_byte(keys::tag_type(tag));
                if !LIMITED && self.parts.ranges.met() {
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
                    Some(
                        ValueType::Deletion
                        | ValueType::SingleDeletion
                        | ValueType::DeletionWithTimestamp,
                    ) => {
                        self.passed.deletions += 1;
                        operands.clear();
                    }
                    Some(ValueType::Merge) => {
                        if operands.is_empty() {
                            base = match self.saved_as(newest) {
                                Ok(base) => base,
                                Err(e) => {
                                    self.fail(e);
                                    return false;
                                }
                            };
                        }
                        operands.push(self.parts.inner.value_pinned());
                    }
                    Some(
                        ValueType::BlobIndex
                        | ValueType::WideColumnEntity
                        | ValueType::ValuePreferredSeqno,
                    ) => {
                        operands.clear();
                        self.value.clear();
                        self.value.extend_from_slice(self.parts.inner.value());
                    }
                    _ => {
                        self.fail_type(tag);
                        return false;
                    }
                }
                newest = kind;
            } else if LIMITED {
                break;
            }
            self.passed.hidden += 1;
            self.parts.inner.prev();
        }
        if let Err(e) = self.parts.inner.status() {
            self.fail(e);
            return false;
        }
        match newest {
            Some(ValueType::Value) => {
                self.at = At::Saved;
                self.forget_aside();
            }
            Some(ValueType::Merge) => {
                let Some(operator) = self.operator() else {
                    return false;
                };
                operands.reverse();
                self.finish_merge(&operator, base, &operands, At::Saved);
                return self.at == At::Saved;
            }
            rare => match self.saved_as(rare) {
                Ok(Some(stored)) => {
                    self.at = At::Saved;
                    self.show_stored(stored);
                    return self.at == At::Saved;
                }
                Ok(None) => return false,
                Err(e) => {
                    self.fail(e);
                    return false;
                }
            },
        }
        true
    }

    /// Backward: whether the version under the merged stream is visible by its timestamp; its key
    /// becomes the one that is shown.
    #[inline]
    pub(super) fn takes_version(&mut self) -> bool {
        let user = keys::user_key(self.parts.inner.key());
        if self.parts.view.is_plain() {
            // Keys that a comparator of the user's calls equal may differ: the newest is the one shown.
            if matches!(self.parts.comparator, Comparator::User(_)) {
                self.key.clear();
                self.key.extend_from_slice(user);
            }
            return true;
        }
        let seen = self.parts.view.sees(&self.parts.comparator, user);
        if seen {
            self.key.clear();
            self.key.extend_from_slice(user);
        }
        seen
    }

    /// Returns what the bytes saved in `value` are, by the type of their entry.
    pub(super) fn saved_as(&self, kind: Option<ValueType>) -> Result<Option<Stored>> {
        match kind {
            Some(kind) => Stored::of(kind, Pinned::copy_of(&self.value)),
            None => Ok(None),
        }
    }
}
