//! Runs of deleted keys: moves jump over what an earlier one found dead, and on request a run becomes a
//! range tombstone.
//!
//! The loop that looks for an entry counts deleted keys in a row. After [`WATCH_AFTER`] of them it hands over
//! to [`DbIter::find_forward_dead`], which asks the memtable whether somebody has found nothing in this range
//! ([`spanlith_memtable::DeadRunEntry`]), and lets it remember what this move finds out. A move that passes over
//! fewer comes here never. Who reads less than a state of the family (tiers, table filters, limits, prefixes), or
//! more (timestamps, ignored range deletions), neither learns nor jumps.
//!
//! With `min_tombstones_for_range_conversion` a run of at least so many deleted keys between two live ones is
//! added to the memtable as a range tombstone at the iterator's sequence number, at which nothing in the range is
//! visible. The deletions stay; the tombstone only spares later readers. It is in no log: losing it loses nothing.
//! For conflicts of transactions it is a write of that number to all keys of the range, as in RocksDB: one that looked
//! before finds a conflict where nobody wrote. Runs are not remembered then: a jump would pass over the keys that are
//! to be counted.

use super::{At, DbIter};
use crate::core::SuperVersion;
use crate::read::sampled::Sample;
use crate::read::view::View;
use crate::read::{ReadOptions, ReadTier};
use spanlith_base::Comparator;
use spanlith_base::keys;
use spanlith_memtable::{
    DEAD_RUN_KEYS_MIN, DeadRunEntry, DeadRunReader, DeadRunWatch, Found, MemTable,
};

/// Deleted keys in a row passed by stepping before runs are asked for: as many as a run that is kept must have, so that
/// asking in vain costs no more than what was passed before.
const WATCH_AFTER: u32 = DEAD_RUN_KEYS_MIN;

/// How an iterator treats runs of deleted keys.
#[derive(Clone, Copy, Default)]
pub(crate) struct DeadKeys {
    /// Number of the state read, if runs are remembered; 0 if not.
    view: u64,
    /// Number of the state read, and deleted keys in a row that become a range tombstone; 0 for never.
    convert: (u64, u32),
    /// Says whether tables in which a deletion is met count it as a read in vain.
    samples: bool,
}

impl DeadKeys {
    /// Returns what the options allow; `total_order` says whether streams are in order throughout.
    pub(crate) fn of(
        options: &ReadOptions,
        state: &SuperVersion,
        view: &View,
        total_order: bool,
    ) -> Self {
        let is_whole = options.table_filter.is_none()
            && options.read_tier == ReadTier::All
            && !options.tailing
            && view.until().is_none();
        if !is_whole {
            return Self::default();
        }
        let settings = &state.settings;
        let min = settings.options.min_tombstones_for_range_conversion;
        let is_ordered = total_order && !options.auto_prefix && view.is_plain();
        let remembers = is_ordered
            && min == 0
            && options.max_skipped == 0
            && !options.ignore_range_deletions
            && !matches!(state.mem.comparator(), Comparator::User(_));
        Self {
            view: if remembers { state.number } else { 0 },
            convert: match min > 0 && (total_order || options.prefix_same_as_start) {
                true => (state.number, min),
                false => (0, 0),
            },
            samples: settings.counts_wasted_reads(),
        }
    }

    /// Returns whether runs become range tombstones.
    #[inline]
    pub(super) fn converts(self) -> bool {
        self.convert.1 > 0
    }

    /// Deleted keys in a row after which the loop hands over; 0 for never.
    pub(super) fn first_stop(self) -> u32 {
        match (self.converts() || self.samples, self.view) {
            (true, _) => 1,
            (false, 0) => 0,
            (false, _) => WATCH_AFTER,
        }
    }
}

/// Describes the deleted keys that a move backward has passed.
#[derive(Default)]
pub(super) struct DeadBehind {
    /// [`super::Passed::deletions`] when the last one was passed.
    seen: u64,
    count: u32,
    /// The smallest.
    first: Vec<u8>,
}

/// Ends a watch that nothing is learned under, also if a merge operator panics: there are only a few.
struct WatchGuard<'a> {
    mem: &'a MemTable,
    watch: Option<DeadRunWatch>,
}

impl Drop for WatchGuard<'_> {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.take() {
            self.mem.abandon_dead_run(&watch);
        }
    }
}

impl DbIter {
    /// Goes on from a deleted entry, whose key is `self.key`, after so many in a row as the loop may pass.
    #[cold]
    pub(super) fn find_forward_dead(&mut self) {
        let stop = self.dead_stop;
        let dead = self.parts.dead;
        if stop == 1 {
            self.sample();
            self.dead_stop = match dead.view {
                0 => 0,
                _ => WATCH_AFTER - 1,
            };
            match dead.converts() {
                true => self.find_forward_converting(),
                false => {
                    self.parts.inner.next();
                    self.find_forward(true);
                }
            }
        } else {
            self.dead_stop = 0;
            self.find_forward_watching();
        }
        self.dead_stop = stop;
    }

    /// The move has met a deletion or a merge operand.
    #[inline]
    pub(super) fn sample(&self) {
        if self.parts.dead.samples
            && let Some(file) = self.parts.inner.top_file()
        {
            Sample::new(true).wasted(file);
        }
    }

    /// From the first deleted key of a run: notes how long it gets.
    fn find_forward_converting(&mut self) {
        let first = self.key.clone();
        // The first is counted already.
        let before = self.passed.deletions - 1;
        self.parts.inner.next();
        self.find_forward(true);
        let count = self.passed.deletions - before;
        if self.error.is_some() || count < u64::from(self.parts.dead.convert.1) {
            return;
        }
        // Without a live key after them the last deleted key is where the range ends, as in RocksDB.
        let end = match self.at {
            At::None => self.key.clone(),
            _ => self.stored_key().to_vec(),
        };
        self.convert(&first, &end);
    }

    fn convert(&mut self, first: &[u8], end: &[u8]) {
        if self.parts.comparator.compare(first, end).is_ge() {
            return;
        }
        let reader = self.dead_reader(self.parts.dead.convert.0);
        let mem = &self.parts.pin.mem;
        match mem.add_redundant_range_tombstone(reader, first, end) {
            true => self.passed.converted += 1,
            false => self.passed.unconverted += 1,
        }
    }

    fn dead_reader(&self, view: u64) -> DeadRunReader {
        DeadRunReader {
            view,
            snapshot: self.parts.snapshot,
        }
    }

    /// From a deleted key on: jumps if somebody was here, and remembers what is found.
    fn find_forward_watching(&mut self) {
        let mem = self.parts.pin.mem.clone();
        let reader = self.dead_reader(self.parts.dead.view);
        let (watch, again) = match mem.enter_dead_run(reader, &self.key) {
            DeadRunEntry::Unknown => {
                self.parts.inner.next();
                (None, 0)
            }
            DeadRunEntry::Nothing => return self.at = At::None,
            DeadRunEntry::Watch(watch) => {
                // All versions of the key, too new ones as well; streams further on stand where they stood before
                // the watch began.
                self.parts.view.newest(&mut self.seek_key, &self.key);
                self.parts.inner.reseek(&self.seek_key);
                (Some(watch), 1)
            }
            DeadRunEntry::Jump(to, watch) => {
                self.parts.view.newest(&mut self.seek_key, &to);
                self.parts.inner.reseek(&self.seek_key);
                (watch, 0)
            }
        };
        let mut guard = WatchGuard { mem: &mem, watch };
        let (newer, deletions) = (self.passed.newer, self.passed.deletions);
        self.find_forward(true);
        // The deletion that was met before.
        self.passed.hidden = self.passed.hidden.saturating_sub(again);
        if self.error.is_some() || self.passed.newer != newer {
            return;
        }
        let Some(watch) = guard.watch.take() else {
            return;
        };
        let found = Found {
            to: match self.at {
                At::None => self.parts.upper.as_deref(),
                _ => Some(self.stored_key()),
            },
            skipped: self.passed.deletions - deletions,
        };
        mem.finish_dead_run(reader, &watch, found);
    }

    /// [`Self::prev`] where runs become range tombstones.
    #[cold]
    pub(super) fn prev_converting(&mut self) {
        let end = self.stored_key().to_vec();
        let seen = self.passed.deletions;
        let behind = &mut self.aside().dead_behind;
        behind.seen = seen;
        behind.count = 0;
        self.prev_from_entry();
        if self.error.is_none() && self.aside().dead_behind.count >= self.parts.dead.convert.1 {
            let first = std::mem::take(&mut self.aside().dead_behind.first);
            self.convert(&first, &end);
        }
    }

    /// Backward: `self.key` was passed over. Counts it if it is deleted, and not merely too new to be seen.
    #[inline]
    pub(super) fn note_dead_behind(&mut self) {
        let behind = &mut self.aside.get_or_insert_default().dead_behind;
        if behind.seen != self.passed.deletions {
            behind.seen = self.passed.deletions;
            behind.count += 1;
            keys::replace_key(&mut behind.first, &self.key);
        }
    }
}
