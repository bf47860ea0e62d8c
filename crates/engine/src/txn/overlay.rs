//! An iterator over a database as it would be if an indexed batch were written now: RocksDB's
//! iterator over base and delta.
//!
//! Both sides stand at or ahead of the present key, in the direction of the walk; the nearer one is the
//! present key, and the batch's hides the database's. The side that is not present is ahead of it, so a
//! change of direction moves it by one. The batch is asked by key at every move: updates that are made
//! during the walk may be seen, and never break it.

use super::indexed_batch::IndexedBatch;
use crate::db::{Cf, Cursor};
use spanlith_base::{Comparator, Error, Result};
use std::cmp::Ordering;
use std::ops::Bound;

/// Describes what an [`Overlay`] is made of.
pub struct OverlayParts {
    /// Iterator over the database.
    pub base: Cursor,
    /// The family, by its number in the batch; needed for merges.
    pub cf: Option<Cf>,
    /// Order of keys.
    pub order: Comparator,
    /// First key of the batch to be seen.
    pub lower: Option<Vec<u8>>,
    /// First key of the batch not to be seen any more.
    pub upper: Option<Vec<u8>>,
}

/// Walks over the entries of a database and an [`IndexedBatch`], which every move is given; always the
/// same one. Before the first positioning it stands nowhere.
pub struct Overlay {
    base: Cursor,
    cf: Option<Cf>,
    order: Comparator,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
    forward: bool,
    /// Says whether the base is the nearer side.
    at_base: bool,
    /// Says whether both sides stand on one key.
    equal: bool,
    /// The batch's side.
    delta: Option<Vec<u8>>,
    /// The value, if the batch's side is the nearer one.
    value: Vec<u8>,
    error: Option<Error>,
}

impl Overlay {
    /// An iterator over `base` and the updates of family `cf`, without `cf` those of the default
    /// family, in its order.
    pub fn new(parts: OverlayParts) -> Self {
        Self {
            base: parts.base,
            cf: parts.cf,
            order: parts.order,
            lower: parts.lower,
            upper: parts.upper,
            forward: true,
            at_base: true,
            equal: false,
            delta: None,
            value: Vec::new(),
            error: None,
        }
    }

    fn id(&self) -> u32 {
        self.cf.as_ref().map_or(0, Cf::id)
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.order.compare_without_timestamp(a, false, b, false)
    }

    /// Returns whether it stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.error.is_none()
            && self.base.status().is_ok()
            && match self.at_base {
                true => self.base.valid(),
                false => self.delta.is_some(),
            }
    }

    /// Key; empty if it stands nowhere.
    pub fn key(&self) -> &[u8] {
        match self.at_base {
            true => self.base.key(),
            false => self.delta.as_deref().unwrap_or_default(),
        }
    }

    /// Value; empty if it stands nowhere.
    pub fn value(&self) -> &[u8] {
        match self.at_base {
            true => self.base.value(),
            false => &self.value,
        }
    }

    /// Why it stands nowhere, if an error is the reason.
    ///
    /// # Errors
    /// That error.
    pub fn status(&self) -> Result<()> {
        match &self.error {
            Some(e) => Err(e.clone()),
            None => self.base.status(),
        }
    }

    /// Moves to the first key.
    pub fn seek_to_first(&mut self, batch: &IndexedBatch) {
        self.forward = true;
        self.move_base(Cursor::seek_to_first);
        self.delta_first(batch);
        self.settle(batch);
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self, batch: &IndexedBatch) {
        self.forward = false;
        self.move_base(Cursor::seek_to_last);
        self.delta_last(batch);
        self.settle(batch);
    }

    /// Moves to the first key at or after `key`.
    pub fn seek(&mut self, batch: &IndexedBatch, key: &[u8]) {
        self.forward = true;
        self.move_base(|b| b.seek(key));
        let is_before = |l: &Vec<u8>| self.compare(key, l) == Ordering::Less;
        match self.lower.as_ref().is_some_and(is_before) {
            true => self.delta_first(batch),
            false => self.delta_from(batch, Bound::Included(key)),
        }
        self.settle(batch);
    }

    /// Moves to the last key at or before `key`.
    pub fn seek_for_prev(&mut self, batch: &IndexedBatch, key: &[u8]) {
        self.forward = false;
        self.move_base(|b| b.seek_for_prev(key));
        let is_behind = |u: &Vec<u8>| self.compare(key, u) != Ordering::Less;
        match self.upper.as_ref().is_some_and(is_behind) {
            true => self.delta_last(batch),
            false => self.delta_from(batch, Bound::Included(key)),
        }
        self.settle(batch);
    }

    /// Moves to the next key; an error if it stands nowhere.
    pub fn next(&mut self, batch: &IndexedBatch) {
        if !self.valid() {
            self.error = Some(Error::not_supported("Next() on invalid iterator"));
            return;
        }
        self.turn(batch, true);
        self.advance(batch);
    }

    /// Moves to the key before; an error if it stands nowhere.
    pub fn prev(&mut self, batch: &IndexedBatch) {
        if !self.valid() {
            self.error = Some(Error::not_supported("Prev() on invalid iterator"));
            return;
        }
        self.turn(batch, false);
        self.advance(batch);
    }

    /// Brings the side that is not present ahead of the present key in the new direction.
    fn turn(&mut self, batch: &IndexedBatch, forward: bool) {
        if self.forward == forward {
            return;
        }
        self.forward = forward;
        self.equal = false;
        if !self.base.valid() {
            // It was exhausted: all it has lies on this side.
            self.move_base(match forward {
                true => Cursor::seek_to_first,
                false => Cursor::seek_to_last,
            });
        } else if self.delta.is_none() {
            match forward {
                true => self.delta_first(batch),
                false => self.delta_last(batch),
            }
        } else if self.at_base {
            self.advance_delta(batch);
        } else {
            self.advance_base();
        }
        if let Some(delta) = &self.delta
            && self.base.valid()
        {
            self.equal = self.compare(delta, self.base.key()) == Ordering::Equal;
        }
    }

    fn advance(&mut self, batch: &IndexedBatch) {
        if self.equal {
            self.advance_base();
            self.advance_delta(batch);
        } else if self.at_base {
            self.advance_base();
        } else {
            self.advance_delta(batch);
        }
        self.settle(batch);
    }

    /// Moves the base; its errors are found in its status.
    fn move_base(&mut self, step: impl FnOnce(&mut Cursor) -> Result<bool>) {
        drop(step(&mut self.base));
    }

    fn advance_base(&mut self) {
        self.move_base(match self.forward {
            true => Cursor::next,
            false => Cursor::prev,
        });
    }

    fn advance_delta(&mut self, batch: &IndexedBatch) {
        if let Some(key) = self.delta.take() {
            self.delta_from(batch, Bound::Excluded(&key));
        }
    }

    fn delta_first(&mut self, batch: &IndexedBatch) {
        let lower = self.lower.take();
        let from = lower.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let key = batch.neighbour(self.id(), from, true);
        self.lower = lower;
        self.delta = key.filter(|k| self.is_within(k)).map(<[u8]>::to_vec);
    }

    fn delta_last(&mut self, batch: &IndexedBatch) {
        let upper = self.upper.as_deref();
        let from = upper.map_or(Bound::Unbounded, Bound::Excluded);
        let key = batch.neighbour(self.id(), from, false);
        self.delta = key.filter(|k| self.is_within(k)).map(<[u8]>::to_vec);
    }

    /// Moves the batch's side to the next key from there in the direction of the walk.
    fn delta_from(&mut self, batch: &IndexedBatch, from: Bound<&[u8]>) {
        let key = batch.neighbour(self.id(), from, self.forward);
        self.delta = key.filter(|k| self.is_within(k)).map(<[u8]>::to_vec);
    }

    fn is_within(&self, key: &[u8]) -> bool {
        let is_behind = |l: &Vec<u8>| self.compare(key, l) != Ordering::Less;
        let is_before = |u: &Vec<u8>| self.compare(key, u) == Ordering::Less;
        self.lower.as_ref().is_none_or(is_behind) && self.upper.as_ref().is_none_or(is_before)
    }

    /// Finds the nearer side, stepping over keys that the batch deletes.
    fn settle(&mut self, batch: &IndexedBatch) {
        self.error = None;
        self.value.clear();
        loop {
            self.equal = false;
            self.at_base = true;
            if !self.base.valid() && self.base.status().is_err() {
                return;
            }
            let Some(key) = &self.delta else { return };
            if self.base.valid() {
                let order = self.compare(key, self.base.key());
                let order = if self.forward { order } else { order.reverse() };
                if order == Ordering::Greater {
                    return;
                }
                self.equal = order == Ordering::Equal;
            }
            match self.delta_value(batch, key) {
                Ok(Some(value)) => {
                    self.value = value;
                    self.at_base = false;
                    return;
                }
                Ok(None) => {}
                Err(e) => {
                    self.error = Some(e);
                    self.at_base = false;
                    return;
                }
            }
            let equal = self.equal;
            self.advance_delta(batch);
            if equal {
                self.advance_base();
            }
        }
    }

    /// The value of the key that the batch's side stands on; `None` if it is deleted.
    fn delta_value(&self, batch: &IndexedBatch, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = batch.find(self.id(), key)?;
        found.value(self.cf.as_ref(), key, || match self.equal {
            true => self.base.entity().map(Some),
            false => Ok(None),
        })
    }
}
