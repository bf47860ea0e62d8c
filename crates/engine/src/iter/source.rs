//! One sorted stream of internal keys: a memtable, a table, or a whole level.
//!
//! An enum instead of a trait object: the merge calls it once per entry, and a predictable branch is
//! cheaper than an indirect call.

use super::LevelIter;
use spanlith_base::perf::{self, PerfCounter};
use spanlith_base::{Pinned, Result};
use spanlith_memtable::MemTableIter;
use spanlith_table::{PrefixSeek, ReadParams, TableIter};
use std::path::Path;
use std::sync::Arc;

/// A stream of internal keys.
pub enum Source {
    /// A memtable.
    Mem(MemTableIter),
    /// One table.
    Table(Box<TableIter>),
    /// The disjoint tables of one level.
    Level(Box<LevelIter>),
}

macro_rules! each {
    ($self:ident, $i:ident => $e:expr) => {
        match $self {
            Source::Mem($i) => $e,
            Source::Table($i) => $e,
            Source::Level($i) => $e,
        }
    };
}

/// Apart, so that steps in tables do not pay for its frame.
#[inline(never)]
fn next_in_memory(i: &mut MemTableIter) -> bool {
    perf::add(PerfCounter::NextOnMemtableCount, 1);
    i.next();
    i.valid()
}

impl Source {
    /// Tells the table that the entry comes from that somebody wants it.
    #[cold]
    pub fn note_wanted(&mut self, prefix: Option<PrefixSeek<'_>>) {
        match self {
            Self::Mem(_) => {}
            Self::Table(i) => i.note_wanted(prefix),
            Self::Level(i) => i.note_wanted(prefix),
        }
    }

    /// Returns whether it stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        each!(self, i => i.valid())
    }

    /// Internal key of the entry. Requires: `valid`.
    #[inline]
    pub fn key(&self) -> &[u8] {
        each!(self, i => i.key())
    }

    /// Value of the entry. Requires: `valid`.
    #[inline]
    pub fn value(&self) -> &[u8] {
        each!(self, i => i.value())
    }

    /// The value as bytes that outlive the position.
    pub fn value_pinned(&self) -> Pinned {
        match self {
            Self::Mem(i) => Pinned::copy_of(i.value()),
            Self::Table(i) => i.value_pinned(),
            Self::Level(i) => i.value_pinned(),
        }
    }

    /// The value as bytes that a block keeps; `None` in a memtable, whose bytes would be copied.
    pub fn value_shared(&self) -> Option<Pinned> {
        match self {
            Self::Mem(_) => None,
            Self::Table(i) => Some(i.value_pinned()),
            Self::Level(i) => Some(i.value_pinned()),
        }
    }

    /// Tells tables of a user key after which nobody wants entries.
    pub fn bound(&mut self, upper: &Arc<[u8]>) {
        match self {
            Self::Mem(_) => {}
            Self::Table(i) => i.bound(upper.clone()),
            Self::Level(i) => i.bound(upper.clone()),
        }
    }

    /// Returns whether it is known that the entry lies before the bound. Requires: `valid`.
    #[inline]
    pub fn is_within(&self) -> bool {
        match self {
            Self::Mem(_) => false,
            Self::Table(i) => i.is_within(),
            Self::Level(i) => i.is_within(),
        }
    }

    /// Internal key and value of the entry. Requires: `valid`.
    #[inline]
    pub fn entry(&self) -> (&[u8], &[u8]) {
        match self {
            Self::Mem(i) => (i.key(), i.value()),
            Self::Table(i) => i.entry(),
            Self::Level(i) => i.entry(),
        }
    }

    /// Moves to the next entry; whether there is one. Requires: `valid`.
    #[allow(clippy::should_implement_trait, reason = "a move, not an iteration")]
    #[inline]
    pub fn next(&mut self) -> bool {
        match self {
            Self::Mem(i) => next_in_memory(i),
            Self::Table(i) => i.next(),
            Self::Level(i) => i.next(),
        }
    }

    /// Moves to the entry before. Requires: `valid`.
    #[inline]
    pub fn prev(&mut self) {
        match self {
            Self::Mem(i) => {
                perf::add(PerfCounter::PrevOnMemtableCount, 1);
                i.prev();
            }
            Self::Table(i) => i.prev(),
            Self::Level(i) => i.prev(),
        }
    }

    /// Moves to the first entry at or after the internal key.
    pub fn seek(&mut self, key: &[u8]) {
        each!(self, i => i.seek(key));
    }

    /// [`Self::seek`], unless a filter says that nothing at or after the internal key has the prefix
    /// sought: then false, and it stands where it stood.
    pub fn seek_prefix(&mut self, key: &[u8], prefix: PrefixSeek<'_>, params: &ReadParams) -> bool {
        match self {
            Self::Mem(i) => i.seek(key),
            Self::Table(i) if !i.reader().prefix_may_match(prefix, params) => return false,
            Self::Table(i) => i.seek(key),
            Self::Level(i) => return i.seek_prefix(key, prefix),
        }
        true
    }

    /// Moves to the last entry at or before the internal key.
    pub fn seek_for_prev(&mut self, key: &[u8]) {
        each!(self, i => i.seek_for_prev(key));
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) {
        each!(self, i => i.seek_to_first());
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) {
        each!(self, i => i.seek_to_last());
    }

    /// Moves a stream of a table; one of a memtable stands nowhere then.
    pub(super) fn leave_memory_or(&mut self, to: impl FnOnce(&mut Self)) {
        match self {
            Self::Mem(i) => i.leave(),
            table => to(table),
        }
    }

    /// The file it reads.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Mem(_) => None,
            Self::Table(i) => Some(i.reader().path()),
            Self::Level(i) => i.path(),
        }
    }

    /// The error that made it invalid, if any.
    pub fn status(&self) -> Result<()> {
        match self {
            Self::Mem(i) => i.status(),
            Self::Table(i) => i.status(),
            Self::Level(i) => i.status(),
        }
    }
}
