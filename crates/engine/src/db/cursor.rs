//! Iterators for users: `Cursor` lends entries, `Iter` yields owned ones.

use super::cursor_moves::Move;
use super::traces::TracedSeek;
use crate::core::{Engine, Family, Snapshot};
use crate::read::{DbIter, Entity, ReadOptions};
use crate::ttl::without_time;
use spanlith_base::perf;
use spanlith_base::stats::Ticker;
use spanlith_base::{Error, ErrorKind, Pinned, Result};
use std::ops::Deref;
use std::sync::Arc;

/// The fast scan: key and value borrow until the next move, nothing is copied or counted. Before the
/// first positioning it stands nowhere.
pub struct Cursor {
    /// `Err` if the view could not be built.
    pub(super) iter: Result<DbIter>,
    /// Behind `iter`, so that it is dropped after it.
    pub(super) engine: Purging,
    pub(super) family: Arc<Family>,
    pub(super) options: ReadOptions,
    /// Moves are more than moves.
    pub(super) is_special: bool,
    /// It was refused when it was made, for its options: no other view helps.
    never_was: bool,
    /// Keys and values shown so far, if they are to stay where they are; the last is that under the
    /// cursor, if it stands on one.
    pub(super) kept: Vec<(Pinned, Pinned)>,
}

/// The engine of a cursor. Deletes what nothing refers to any more when it goes: the view may have
/// been the last to hold obsolete tables.
pub(super) struct Purging {
    engine: Arc<Engine>,
    /// The last positioning, if it was recorded and what follows it is to be, too.
    pub(super) traced: Option<TracedSeek>,
}

impl Deref for Purging {
    type Target = Arc<Engine>;
    #[inline]
    fn deref(&self) -> &Arc<Engine> {
        &self.engine
    }
}

impl Drop for Purging {
    fn drop(&mut self) {
        if let Some(seek) = self.traced.take() {
            seek.end(&self.engine.tracing);
        }
        if let Some(s) = self.engine.reporter.statistics() {
            s.add(Ticker::NumIteratorDeleted, 1);
        }
        self.engine.c.purge.run_queued();
    }
}

macro_rules! moves {
    ($($(#[$doc:meta])* $name:ident $variant:ident ( $($arg:ident : $ty:ty)? ) $(or $traced:ident)?;)*) => {
        $($(#[$doc])*
        ///
        /// # Errors
        /// `Corruption` or `Io` of a table; the cursor then stands nowhere.
        #[inline]
        #[allow(clippy::should_implement_trait, reason = "moves say whether they arrived")]
        pub fn $name(&mut self $(, $arg: $ty)?) -> Result<bool> {
            if self.is_special || perf::was_raised() $(|| self.$traced())? {
                return self.move_specially(Move::$variant $(($arg))?);
            }
            let i = self.iter.as_mut().map_err(|e| e.clone())?;
            i.$name($($arg)?);
            if i.valid() { Ok(true) } else { i.status().map(|()| false) }
        })*
    };
}

impl Cursor {
    pub(crate) fn new(engine: Arc<Engine>, family: Arc<Family>, mut options: ReadOptions) -> Self {
        let iter = engine.iterate(&family, &options);
        // The view holds what it needs; a snapshot kept here would keep compactions from dropping
        // anything newer for as long as the cursor lives.
        options.snapshot = None;
        if let Some(s) = engine.reporter.statistics() {
            s.add(Ticker::NumIteratorCreated, 1);
            engine
                .reporter
                .count_superversion(&family.superversion.load_full());
        }
        let refused = |e: &Error| {
            matches!(
                e.kind(),
                ErrorKind::InvalidArgument | ErrorKind::NotSupported
            )
        };
        Self {
            never_was: iter.as_ref().is_err_and(refused),
            is_special: options.tailing
                || options.pin_data
                || engine.reporter.statistics().is_some()
                || family.times.is_some(),
            iter,
            engine: Purging {
                engine,
                traced: None,
            },
            family,
            options,
            kept: Vec::new(),
        }
    }

    /// Returns whether moves to a place are recorded.
    #[inline]
    fn is_traced(&self) -> bool {
        self.engine.tracing.queries.is_on()
    }

    /// A cursor that stands nowhere for that reason.
    pub(super) fn failed(mut self, error: Error) -> Self {
        self.iter = Err(error);
        self
    }

    moves! {
        /// Moves to the first key at or after `key`; says whether there is one.
        seek Seek(key: &[u8]) or is_traced;
        /// Moves to the last key at or before `key`.
        seek_for_prev SeekForPrev(key: &[u8]) or is_traced;
        /// Moves to the first key.
        seek_to_first First() or is_traced;
        /// Moves to the last key.
        seek_to_last Last() or is_traced;
        /// Moves to the next key. Stays nowhere if it stands nowhere.
        next Next();
        /// Moves to the key before.
        prev Prev();
    }

    /// Returns whether it stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.iter.as_ref().is_ok_and(DbIter::valid)
    }

    /// Key under the cursor; empty if it stands nowhere.
    #[inline]
    pub fn key(&self) -> &[u8] {
        if self.is_special
            && let Some((key, _)) = self.kept_here()
        {
            return key;
        }
        self.iter.as_ref().map_or(&[], |i| i.key())
    }

    /// Value under the cursor; empty if it stands nowhere.
    #[inline]
    pub fn value(&self) -> &[u8] {
        if self.is_special {
            return self.special_value();
        }
        self.iter.as_ref().map_or(&[], |i| i.value())
    }

    /// The value under a cursor that keeps what it showed, or shows values without their times.
    #[cold]
    fn special_value(&self) -> &[u8] {
        let stored = match self.kept_here() {
            Some((_, value)) => value,
            None => self.iter.as_ref().map_or(&[][..], |i| i.value()),
        };
        match self.family.times {
            // The move has refused a key that is too short.
            Some(_) => without_time(stored),
            None => stored,
        }
    }

    /// The entry under the cursor, if it was kept.
    #[cold]
    fn kept_here(&self) -> Option<&(Pinned, Pinned)> {
        self.kept.last().filter(|_| self.valid())
    }

    /// Timestamp of the entry; empty in a family without timestamps.
    pub fn timestamp(&self) -> &[u8] {
        self.iter.as_ref().map_or(&[], |i| i.timestamp())
    }

    /// The columns of the entry; a plain value is one column without a name.
    ///
    /// # Errors
    /// `InvalidArgument` if it stands nowhere.
    pub fn entity(&self) -> Result<Entity> {
        let iter = self.iter.as_ref().map_err(Clone::clone)?;
        match self.family.times {
            Some(_) if iter.valid() && !iter.has_entity() => Entity::of_value(self.value()),
            _ => iter.entity(),
        }
    }

    /// Fetches a value in a blob file that was left unread (`allow_unprepared_value`).
    ///
    /// # Errors
    /// Of the blob file; the cursor then stands nowhere.
    pub fn prepare_value(&mut self) -> Result<bool> {
        let i = self.iter.as_mut().map_err(|e| e.clone())?;
        if !i.prepare_value() {
            return i.status().map(|()| false);
        }
        if self.options.pin_data
            && let Some(kept) = self.kept.last_mut()
        {
            // The entry that was kept at the move had no value to lend.
            kept.1 = i.value_pinned();
        }
        Ok(true)
    }

    /// User key, sequence number and type of the entry as they are stored; `None` where they are not
    /// at hand: after moves backward, and on a merge result.
    pub fn internal_key(&self) -> Option<&[u8]> {
        self.iter.as_ref().ok()?.internal_key()
    }

    /// The entry under the cursor.
    #[inline]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        if self.is_special && self.valid() {
            return Some((self.key(), self.value()));
        }
        self.iter.as_ref().ok()?.entry()
    }

    /// Why it stands nowhere, if an error is the reason.
    pub fn status(&self) -> Result<()> {
        match &self.iter {
            Ok(i) => i.status(),
            Err(e) => Err(e.clone()),
        }
    }

    /// Why there can be no such iterator, if its options were refused.
    ///
    /// # Errors
    /// What it was refused with.
    pub fn check_options(&self) -> Result<()> {
        match self.never_was {
            true => self.status(),
            false => Ok(()),
        }
    }

    /// Refuses what [`Self::refresh`] refuses before it moves anything.
    ///
    /// # Errors
    /// `NotSupported` if it follows what is written, or was refused for its options.
    pub fn check_refresh(&self) -> Result<()> {
        match self.options.tailing || self.never_was {
            true => Err(Error::not_supported("Refresh() is not supported")),
            false => Ok(()),
        }
    }

    /// Moves the view to now, or to `snapshot`; the position is lost, unless it is refused.
    ///
    /// # Errors
    /// Of opening tables; as [`Self::check_refresh`].
    pub fn refresh(&mut self, snapshot: Option<Snapshot>) -> Result<()> {
        self.check_refresh()?;
        self.options.snapshot = snapshot;
        self.iter = self.engine.iterate(&self.family, &self.options);
        self.options.snapshot = None;
        self.status()
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
