//! Iterators for users: `Cursor` lends entries, `Iter` yields owned ones.

use crate::core::{Engine, Family, Snapshot};
use crate::read::{DbIter, ReadOptions};
use spanlith_base::{Error, Pinned, Result};
use std::sync::Arc;

/// The fast scan: key and value borrow until the next move, nothing is copied or counted. Before the
/// first positioning it stands nowhere.
pub struct Cursor {
    engine: Arc<Engine>,
    family: Arc<Family>,
    options: ReadOptions,
    /// `Err` if the view could not be built.
    iter: Result<DbIter>,
}

macro_rules! moves {
    ($($(#[$doc:meta])* $name:ident ( $($arg:ident : $ty:ty),* );)*) => {
        $($(#[$doc])*
        ///
        /// # Errors
        /// `Corruption` or `Io` of a table; the cursor then stands nowhere.
        #[inline]
        #[allow(clippy::should_implement_trait, reason = "moves say whether they arrived")]
        pub fn $name(&mut self $(, $arg: $ty)*) -> Result<bool> {
            let i = self.iter.as_mut().map_err(|e| e.clone())?;
            i.$name($($arg),*);
            if i.valid() { Ok(true) } else { i.status().map(|()| false) }
        })*
    };
}

impl Cursor {
    pub(super) fn new(engine: Arc<Engine>, family: Arc<Family>, mut options: ReadOptions) -> Self {
        let iter = engine.iterate(&family, &options);
        // The view holds what it needs; a snapshot kept here would keep compactions from dropping
        // anything newer for as long as the cursor lives.
        options.snapshot = None;
        Self {
            engine,
            family,
            options,
            iter,
        }
    }

    moves! {
        /// Moves to the first key at or after `key`; says whether there is one.
        seek(key: &[u8]);
        /// Moves to the last key at or before `key`.
        seek_for_prev(key: &[u8]);
        /// Moves to the first key.
        seek_to_first();
        /// Moves to the last key.
        seek_to_last();
        /// Moves to the next key. Stays nowhere if it stands nowhere.
        next();
        /// Moves to the key before.
        prev();
    }

    /// Whether it stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.iter.as_ref().is_ok_and(DbIter::valid)
    }

    /// Key under the cursor; empty if it stands nowhere.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.iter.as_ref().map_or(&[], |i| i.key())
    }

    /// Value under the cursor; empty if it stands nowhere.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.iter.as_ref().map_or(&[], |i| i.value())
    }

    /// The entry under the cursor.
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.valid().then(|| (self.key(), self.value()))
    }

    /// Why it stands nowhere, if an error is the reason.
    pub fn status(&self) -> Result<()> {
        match &self.iter {
            Ok(i) => i.status(),
            Err(e) => Err(e.clone()),
        }
    }

    /// Moves the view to now, or to `snapshot`; the position is lost.
    ///
    /// # Errors
    /// Of opening tables.
    pub fn refresh(&mut self, snapshot: Option<Snapshot>) -> Result<()> {
        self.options.snapshot = snapshot;
        self.iter = self.engine.iterate(&self.family, &self.options);
        self.options.snapshot = None;
        self.status()
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        // The view may have been the last to hold obsolete tables.
        self.iter = Err(Error::aborted("dropped"));
        self.engine.c.purge.run();
    }
}

/// The convenient scan. Fused: after an error, or the end, it yields `None`.
pub struct Iter {
    cursor: Cursor,
    state: State,
}

enum State {
    Fresh,
    Going,
    Done,
}

impl Iter {
    pub(super) fn new(cursor: Cursor) -> Self {
        Self {
            cursor,
            state: State::Fresh,
        }
    }
}

impl Iterator for Iter {
    type Item = Result<(Pinned, Pinned)>;

    fn next(&mut self) -> Option<Self::Item> {
        let moved = match self.state {
            State::Fresh => self.cursor.seek_to_first(),
            State::Going => self.cursor.next(),
            State::Done => return None,
        };
        self.state = State::Going;
        match moved {
            Ok(true) => {
                let (k, v) = (self.cursor.key(), self.cursor.value());
                Some(Ok((Pinned::copy_of(k), Pinned::copy_of(v))))
            }
            Ok(false) => {
                self.state = State::Done;
                None
            }
            Err(e) => {
                self.state = State::Done;
                Some(Err(e))
            }
        }
    }
}

impl std::iter::FusedIterator for Iter {}
