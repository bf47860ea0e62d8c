//! Which entries of a merged stream are deleted by range tombstones.
//!
//! Memtables and level-0 tables act everywhere within their bounds. Of a deeper level one file at a
//! time holds the position; its tombstones take the level's slot while the position is within the
//! *window* that no level leaves its file in. A position that an iterator comes to lies in files its
//! streams have opened, so moving the window reads nothing in general.
//!
//! A scan that meets no place with tombstones does not create one: [`RangeWatch`] tells.

use crate::version::{TableCache, Version};
use spanlith_base::range_del::{CoverageCursor, Place, PlaceBuf, ReadBound, TruncatedTombstones};
use spanlith_base::{Comparator, Result, SequenceNumber, keys};
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering as Memory};

/// Places with range tombstones that were met.
const IN_MEMTABLES: u8 = 1;
const IN_TABLES: u8 = 2;

/// Says whether a merged stream has come to a place that holds range tombstones.
#[derive(Clone, Debug)]
pub struct RangeWatch {
    enabled: bool,
    // Relaxed: used by the one thread that moves the iterator.
    met: Arc<AtomicU8>,
}

impl RangeWatch {
    /// Nothing met yet. If not `enabled`, nothing ever will be.
    pub fn new(enabled: bool) -> Self {
        Self {
            enabled,
            met: Arc::new(AtomicU8::new(0)),
        }
    }

    /// A table with range tombstones takes part from now on.
    pub fn note(&self) {
        self.add(IN_TABLES);
    }

    /// A memtable with range tombstones takes part from now on.
    pub fn note_memtable(&self) {
        self.add(IN_MEMTABLES);
    }

    fn add(&self, place: u8) {
        if self.enabled {
            // One thread stores.
            let met = self.met.load(Memory::Relaxed);
            self.met.store(met | place, Memory::Relaxed);
        }
    }

    /// Returns whether memtables alone hold what was met.
    pub fn is_in_memtables(&self) -> bool {
        self.met.load(Memory::Relaxed) == IN_MEMTABLES
    }

    /// Returns whether one was met.
    #[inline]
    pub fn met(&self) -> bool {
        self.met.load(Memory::Relaxed) != 0
    }
}

/// Answers which entries are deleted, for a reader at one sequence number.
pub struct Coverage {
    comparator: Comparator,
    version: Arc<Version>,
    cache: Arc<TableCache>,
    cursor: CoverageCursor,
    /// Level and its slot in the cursor.
    levels: Vec<(usize, usize)>,
    /// Says whether the window is known, which is the limit of the cursor.
    known: bool,
    /// Internal key that a stream is moved to.
    target: Vec<u8>,
}

impl Coverage {
    /// Without any place yet.
    pub fn new(
        comparator: Comparator,
        version: Arc<Version>,
        cache: Arc<TableCache>,
        bound: ReadBound,
    ) -> Self {
        Self {
            cursor: CoverageCursor::new(comparator.clone(), bound),
            comparator,
            version,
            cache,
            levels: Vec::new(),
            known: false,
            target: Vec::new(),
        }
    }

    /// Adds a memtable or a table, older than what is there.
    pub fn push(&mut self, tombstones: Option<TruncatedTombstones>) {
        self.cursor.push(tombstones);
    }

    /// Adds a level, older than what is there.
    pub fn push_level(&mut self, level: usize) {
        let slot = self.cursor.push(None);
        self.levels.push((level, slot));
    }

    /// Returns whether an entry is deleted.
    ///
    /// # Errors
    /// Of a table that has to be opened.
    #[inline]
    pub fn covers(&mut self, user_key: &[u8], seqno: SequenceNumber) -> Result<bool> {
        if self.known
            && let Some(covers) = self.cursor.covers_at_hand(user_key, seqno)
        {
            return Ok(covers);
        }
        self.locate(user_key, seqno)?;
        Ok(self.cursor.covers(user_key, seqno))
    }

    /// Calls `seek` for each of so many streams, newest first, with the internal key to which it is to be moved by a
    /// reader that begins at a user key and number, if that is another one: newer places delete all it holds before.
    ///
    /// # Errors
    /// As [`Self::covers`], before any call.
    pub fn begin_at(
        &mut self,
        streams: usize,
        user_key: &[u8],
        seqno: SequenceNumber,
        mut seek: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        debug_assert_eq!(self.comparator.timestamp_size(), 0);
        self.locate(user_key, seqno)?;
        let (cursor, target) = (&mut self.cursor, &mut self.target);
        cursor.begin_at(streams, user_key, seqno, |stream, place| match place {
            None => seek(stream, None),
            Some(place) => {
                write_place(place, target);
                seek(stream, Some(target));
            }
        });
        Ok(())
    }

    /// Writes the internal key to which the stream of slot `older`, standing on the entry given, may
    /// be moved forward because newer places delete all it holds before; false if they do not.
    ///
    /// # Errors
    /// As [`Self::covers`].
    pub fn skip_to(
        &mut self,
        older: usize,
        user_key: &[u8],
        seqno: SequenceNumber,
        target: &mut Vec<u8>,
    ) -> Result<bool> {
        self.locate(user_key, seqno)?;
        let place = self.cursor.skip_to(older, user_key, seqno);
        Ok(self.write_target(place, target))
    }

    /// As [`Self::skip_to`], backward.
    ///
    /// # Errors
    /// As [`Self::covers`].
    pub fn skip_back_to(
        &mut self,
        older: usize,
        user_key: &[u8],
        seqno: SequenceNumber,
        target: &mut Vec<u8>,
    ) -> Result<bool> {
        self.locate(user_key, seqno)?;
        let place = self.cursor.skip_back_to(older, user_key, seqno);
        Ok(self.write_target(place, target))
    }

    fn write_target(&self, place: Option<PlaceBuf>, target: &mut Vec<u8>) -> bool {
        // With timestamps a bound alone is no user key; such a scan steps.
        let Some(place) = place.filter(|_| self.comparator.timestamp_size() == 0) else {
            return false;
        };
        write_place(place.get(), target);
        true
    }

    #[inline]
    fn locate(&mut self, user_key: &[u8], seqno: SequenceNumber) -> Result<()> {
        let place = Place::At(user_key, keys::pack_tag(seqno, 0));
        if self.known && self.cursor.is_within_limits(&place) {
            return Ok(());
        }
        self.move_window(&place)
    }

    /// Puts the tombstones of the files that hold `place` into the slots of their levels.
    #[cold]
    fn move_window(&mut self, place: &Place<'_>) -> Result<()> {
        self.known = false;
        let c = &self.comparator;
        let (mut from, mut to): (Option<Place<'_>>, Option<Place<'_>>) = (None, None);
        for &(level, slot) in &self.levels {
            let files = &self.version.levels[level].files;
            let end_of = |i: usize| Place::of_largest(&files[i].largest, c);
            let at = files.partition_point(|f| {
                Place::of_largest(&f.largest, c).compare(place, c) != Ordering::Greater
            });
            let mut tombstones = None;
            if let Some(file) = files.get(at) {
                let start = Place::of_smallest(&file.smallest);
                if start.compare(place, c) == Ordering::Greater {
                    narrow(&mut to, start, c, Ordering::Greater);
                    if at > 0 {
                        narrow(&mut from, end_of(at - 1), c, Ordering::Less);
                    }
                } else {
                    self.cache.reader(file)?;
                    tombstones = file.truncated_tombstones();
                    narrow(&mut from, start, c, Ordering::Less);
                    narrow(&mut to, end_of(at), c, Ordering::Greater);
                }
            } else if at > 0 {
                narrow(&mut from, end_of(at - 1), c, Ordering::Less);
            }
            self.cursor.set(slot, tombstones);
        }
        self.cursor.limit(from, to);
        self.known = true;
        Ok(())
    }
}

/// Writes the first internal key at a place. Requires: no timestamps.
fn write_place(place: Place<'_>, target: &mut Vec<u8>) {
    let (user_key, tag) = match place {
        Place::Before(key) => (key, keys::seek_tag(keys::MAX_SEQUENCE)),
        Place::At(key, tag) => (key, tag),
    };
    target.clear();
    keys::append_internal(target, user_key, tag);
}

/// Replaces `bound` by `at` if it is open or compares to `at` as `when`.
fn narrow<'a>(bound: &mut Option<Place<'a>>, at: Place<'a>, c: &Comparator, when: Ordering) {
    if bound.is_none_or(|b| b.compare(&at, c) == when) {
        *bound = Some(at);
    }
}
