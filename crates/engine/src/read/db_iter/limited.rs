//! Moves that may pass over only so many internal keys (`max_skippable_internal_keys`).
//!
//! Users see which entries count, by where their iterator stops, so the counts are RocksDB's: every entry
//! that a move looks at while it decides, shown ones too, but not what range tombstones delete and not what a
//! seek leaves behind. Seeks come after `max_sequential_skip_in_iterations` versions of one key. A move
//! fails once it looks at an entry with more than the limit counted before.
//!
//! Iterators without a limit never come here.

use super::{At, DbIter, SKIP_RANGE_AFTER};
use crate::read::get::unknown_type;
use spanlith_base::keys::{self, ValueType};
use spanlith_base::{Error, MAX_SEQUENCE};

/// Describes what moves count by. Without a limit only the first matters.
#[derive(Clone, Copy)]
pub(crate) struct Counting {
    /// Versions of one key passed by stepping before the iterator seeks.
    pub reseek_after: u64,
    /// The streams below are in order throughout, not only within a prefix.
    pub total_order: bool,
}

impl DbIter {
    /// Counts an entry; false, after an error, if there were too many before it.
    pub(super) fn count_one(&mut self) -> bool {
        if self.skipped > self.parts.max_skipped {
            self.fail(Error::incomplete("Too many internal keys skipped."));
            return false;
        }
        self.skipped += 1;
        true
    }

    /// Moves the merged stream past entries that range tombstones delete; false after an error.
    fn leave_covered(&mut self, back: bool) -> bool {
        let mut run = 0;
        while self.parts.ranges.met() && self.parts.inner.valid() {
            match self.covered() {
                Some(false) => return true,
                Some(true) => run += 1,
                None => return false,
            }
            if !back {
                if !self.pass_covered(run) {
                    return false;
                }
            } else if run <= SKIP_RANGE_AFTER || !self.pass_covered_back() {
                if self.error.is_some() {
                    return false;
                }
                self.parts.inner.prev();
            }
        }
        true
    }

    fn step<const FOLLOWS: bool>(&mut self) {
        if FOLLOWS {
            self.parts.inner.next_following();
        } else {
            self.parts.inner.next();
        }
    }

    fn save_key(&mut self) {
        self.key.clear();
        self.key
            .extend_from_slice(keys::user_key(self.parts.inner.key()));
    }

    /// Finds the next visible entry from where the merged stream stands, the first entry that a move looks at.
    /// With `skipping`, versions of `self.key` are passed over.
    #[cold]
    pub(super) fn find_forward_limited<const FOLLOWS: bool>(&mut self, mut skipping: bool) {
        self.skipped = 0;
        if !skipping {
            // The key that was sought counts as the key that was looked at before.
            if self.seek_key.is_empty() {
                self.save_key();
            } else {
                self.key.clear();
                self.key.extend_from_slice(keys::user_key(&self.seek_key));
            }
        }
        // Entries of `self.key` in a row.
        let mut run = 0;
        let mut sought = false;
        loop {
            if !self.leave_covered(false) {
                return;
            }
            let Some(k) = self.parts.inner.current_key() else {
                return self.end();
            };
            let (user, tag) = (keys::user_key(k), keys::tag(k));
            let c = &self.parts.comparator;
            let mut visible = keys::tag_sequence(tag) <= self.parts.snapshot;
            let of_key = c.same_key(user, &self.key);
            let mut same = skipping && of_key;
            let beyond = (self.parts.upper.as_ref())
                .is_some_and(|u| c.compare_without_timestamp(user, true, u, false).is_ge());
            if beyond {
                self.at = At::None;
                return;
            }
            if !self.parts.view.is_plain() {
                let Some(seen) = self.parts.view.look(c, user, &self.key, same) else {
                    // Beyond the prefix.
                    self.at = At::None;
                    return;
                };
                visible &= seen.visible;
                same = seen.same;
            }
            if !self.count_one() {
                return;
            }
            if visible && !same {
                (run, sought) = (0, false);
                match ValueType::from_byte(keys::tag_type(tag)) {
                    Some(ValueType::Value) => {
                        self.at = At::Inner;
                        return;
                    }
                    kind if self.parts.view.all_versions() => return self.show_version(kind, tag),
                    Some(
                        ValueType::Deletion
                        | ValueType::SingleDeletion
                        | ValueType::DeletionWithTimestamp,
                    ) => {
                        self.save_key();
                        self.passed.deletions += 1;
                        if keys::tag_sequence(tag) >= self.hidden_from {
                            self.note_hidden();
                        }
                        skipping = true;
                    }
                    Some(ValueType::Merge) => return self.merge_forward::<false>(),
                    kind => {
                        if !self.show_rare(kind) {
                            self.fail_type(tag);
                        }
                        return;
                    }
                }
            } else if visible {
                run += 1;
                self.passed.hidden += 1;
                if keys::tag_sequence(tag) >= self.hidden_from {
                    self.note_hidden();
                }
            } else {
                self.passed.newer += 1;
                if of_key {
                    run += 1;
                } else {
                    self.save_key();
                    skipping = false;
                    (run, sought) = (0, false);
                }
            }
            if run > self.parts.counting.reseek_after && !sought {
                (run, sought) = (0, true);
                self.passed.reseeks += 1;
                let bare = self.parts.comparator.strip_timestamp(&self.key);
                match skipping {
                    true => self.parts.view.oldest(&mut self.seek_key, bare),
                    false => {
                        let tag = keys::seek_tag(self.parts.snapshot);
                        self.parts.view.target(&mut self.seek_key, bare, tag);
                    }
                }
                self.parts.inner.reseek(&self.seek_key);
            } else {
                self.step::<FOLLOWS>();
            }
        }
    }

    /// [`Self::prev`] with a limit.
    #[cold]
    pub(super) fn prev_limited(&mut self) {
        match self.at {
            At::None => return,
            At::Saved | At::Shared => {}
            At::Inner | At::Resolved => self.save_key(),
            // Entries that the merge has read count once more on the way back.
            At::Merged => {
                if !self.leave_covered(false) {
                    return;
                }
                let valid = self.parts.inner.valid();
                if !self.parts.counting.total_order {
                    self.aim_at_newest();
                    self.parts.inner.reseek_for_prev(&self.seek_key);
                } else if !valid {
                    self.aim_at_newest();
                    self.parts.inner.reseek(&self.seek_key);
                }
            }
        }
        self.skipped = 0;
        if matches!(self.at, At::Saved | At::Shared) || self.leave_key() {
            self.go_on_backward();
        }
    }

    /// Makes the place before all versions of `self.key` the one to seek.
    fn aim_at_newest(&mut self) {
        if self.parts.view.all_versions() {
            self.seek_key.clear();
            let tag = keys::seek_tag(MAX_SEQUENCE);
            keys::append_internal(&mut self.seek_key, &self.key, tag);
        } else {
            let bare = self.parts.comparator.strip_timestamp(&self.key);
            self.parts.view.newest(&mut self.seek_key, bare);
        }
    }

    /// Moves the merged stream before all versions of `self.key`, counting what it passes; false after an
    /// error.
    fn leave_key(&mut self) -> bool {
        let mut run = 0;
        let all = self.parts.view.all_versions();
        loop {
            if !self.leave_covered(true) {
                return false;
            }
            if !self.parts.inner.valid() {
                break;
            }
            let c = &self.parts.comparator;
            let user = keys::user_key(self.parts.inner.key());
            let order = match all {
                true => c.compare(user, &self.key),
                false => c.compare_without_timestamp(user, true, &self.key, true),
            };
            if order.is_lt() {
                return true;
            }
            if !self.count_one() {
                return false;
            }
            self.passed.hidden += 1;
            if run >= self.parts.counting.reseek_after {
                run = 0;
                self.aim_at_newest();
                self.parts.inner.reseek(&self.seek_key);
                if !self.leave_covered(false) {
                    return false;
                }
                if !self.parts.inner.valid() {
                    break;
                }
            } else {
                run += 1;
            }
            self.parts.inner.prev();
        }
        match self.parts.inner.status() {
            Ok(()) => true,
            Err(e) => {
                self.fail(e);
                false
            }
        }
    }

    /// Finds the visible entry of the largest key at or before where the merged stream stands.
    #[cold]
    pub(super) fn find_backward_limited(&mut self) {
        self.skipped = 0;
        self.go_on_backward();
    }

    fn go_on_backward(&mut self) {
        let all = self.parts.view.all_versions();
        loop {
            if !self.leave_covered(true) {
                return;
            }
            if !self.parts.inner.valid() {
                return self.end();
            }
            let user = keys::user_key(self.parts.inner.key());
            let c = &self.parts.comparator;
            let before = (self.parts.lower.as_ref())
                .is_some_and(|l| c.compare_without_timestamp(user, true, l, false).is_lt());
            if before || (!self.parts.view.is_plain() && self.parts.view.leaves_prefix(user)) {
                self.at = At::None;
                return;
            }
            self.save_key();
            let found = match all {
                true => self.version_of_saved_key(),
                false => self.value_of_saved_key::<true>(None),
            };
            if self.error.is_some() || (!all && !self.leave_key()) || found {
                return;
            }
            if self.skipped > self.parts.max_skipped {
                // The next one counts too many, whether or not there is one.
                self.count_one();
                return;
            }
        }
    }

    /// Backward, among the versions of `self.key`: seeks the newest that is visible. True if the key has a
    /// value; the iterator then stands on it.
    pub(super) fn value_by_seek(&mut self) -> bool {
        let bare = self.parts.comparator.strip_timestamp(&self.key);
        let tag = keys::seek_tag(self.parts.snapshot);
        self.parts.view.target(&mut self.seek_key, bare, tag);
        self.parts.inner.reseek(&self.seek_key);
        if !self.leave_covered(false) {
            return false;
        }
        if !self.parts.inner.valid() {
            self.end();
            return false;
        }
        if !self.on_saved_key() {
            return false;
        }
        self.takes_version();
        if self.is_on_deletion() {
            return false;
        }
        let byte = keys::tag_type(keys::tag(self.parts.inner.key()));
        let kind = ValueType::from_byte(byte);
        if kind == Some(ValueType::Merge) {
            return self.merge_by_seek();
        }
        self.value.clear();
        self.value.extend_from_slice(self.parts.inner.value());
        match self.saved_as(kind) {
            Ok(Some(stored)) => {
                self.at = At::Saved;
                self.forget_aside();
                self.present(stored);
            }
            Ok(None) => self.fail(unknown_type(byte)),
            Err(e) => self.fail(e),
        }
        self.at == At::Saved
    }

    fn is_on_deletion(&self) -> bool {
        let byte = keys::tag_type(keys::tag(self.parts.inner.key()));
        ValueType::from_byte(byte).is_some_and(ValueType::is_point_deletion)
    }

    /// Backward, on the newest operand of `self.key`.
    fn merge_by_seek(&mut self) -> bool {
        let newest = self.seek_key.clone();
        self.merge_forward::<true>();
        if self.error.is_some() || !self.leave_covered(false) {
            return false;
        }
        if self.parts.inner.valid() && self.on_saved_key() && !self.is_on_deletion() {
            // The value below the operands.
        } else if !self.parts.counting.total_order {
            self.parts.inner.reseek_for_prev(&newest);
        } else if !self.parts.inner.valid() {
            self.parts.inner.reseek(&newest);
        }
        self.at == At::Saved
    }
}
