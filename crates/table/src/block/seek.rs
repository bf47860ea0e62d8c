//! Searching inside a block.
//!
//! A seek first finds the last restart point whose key is smaller than the target, then walks from
//! there. The point lookup walks without rebuilding keys: it carries how many bytes of the target
//! the last passed key shares, and most entries are passed by comparing that number with their
//! `shared` field. The cases it cannot decide (a shared length that reaches into the tag) fall back
//! to the walk that rebuilds keys, which is also its oracle in the tests.
//!
//! Each step of a walk needs the header the step before led to, so that a block that is not in the
//! processor's cache costs one miss after the other. The lines of the interval are therefore asked
//! for at once before the walk (random lookups in 120 MB of cached blocks: 25 to 30 % less time).

use super::entry::{Header, bad_entry, header};
use super::{Block, hash_index};
use crate::filter::prefetch;
use spanlith_base::keys::{TAG_LEN, append_internal, behind_prefix, split_internal};
use spanlith_base::{Comparator, Error, Result, ValueType};
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::ops::Range;
use std::sync::Arc;

/// Cache lines asked for before a walk; about as many as a core fetches at a time.
const PREFETCH_LINES: usize = 16;
/// As many of an interval that is read next.
const PREFETCH_LINES_MAX: usize = 64;

/// How a lookup in one block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// A larger user key was seen, or the sink wants no more.
    Done,
    /// The block ended; older entries of the key may be in the next one.
    Exhausted,
}

/// Bytes that `a` and `b` have in common at their start.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let n = a.len().min(b.len());
    let (a, b) = (&a[..n], &b[..n]);
    let mut i = 0;
    while let (Some(x), Some(y)) = (a[i..].first_chunk::<8>(), b[i..].first_chunk::<8>()) {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return i + (differ.trailing_zeros() / 8) as usize;
        }
        i += 8;
    }
    while i < n && a[i] == b[i] {
        i += 1;
    }
    i
}

/// The keys whose order word equals that of `user`, given the words of all keys after a prefix
/// they share. Keys before the range are smaller than `user`, keys after it larger.
#[inline]
pub(crate) fn tie_range(
    prefixes: &[u64],
    common: &[u8],
    cmp: &Comparator,
    user: &[u8],
) -> Range<usize> {
    let Some(rest) = behind_prefix(user, common) else {
        let at = if is_before_all(common, cmp, user) {
            0
        } else {
            prefixes.len()
        };
        return at..at;
    };
    let word = cmp.prefix(rest);
    let low = prefixes.partition_point(|&p| p < word);
    if prefixes.get(low) != Some(&word) {
        return low..low;
    }
    let ties = prefixes[low..].partition_point(|&p| p == word);
    low..low + ties
}

/// Returns whether a key that does not begin with `common` stands before those that do.
#[inline(never)]
fn is_before_all(common: &[u8], cmp: &Comparator, user: &[u8]) -> bool {
    let head = &user[..common.len().min(user.len())];
    (head < common) != matches!(cmp, Comparator::ReverseBytewise)
}

/// Returns whether entries of that type occur in data blocks.
#[inline(always)]
pub(crate) fn is_known_type(kind: u8) -> bool {
    const KNOWN: u64 = 1 << ValueType::Deletion as u8
        | 1 << ValueType::Value as u8
        | 1 << ValueType::Merge as u8
        | 1 << ValueType::SingleDeletion as u8
        | 1 << ValueType::BlobIndex as u8
        | 1 << ValueType::DeletionWithTimestamp as u8
        | 1 << ValueType::WideColumnEntity as u8
        | 1 << ValueType::ValuePreferredSeqno as u8;
    kind < 64 && KNOWN >> kind & 1 == 1
}

/// Refuses entry types that do not occur in data blocks.
#[inline]
pub(crate) fn check_type(tag: u64) -> Result<()> {
    if is_known_type(tag as u8) {
        Ok(())
    } else {
        Err(bad_type(tag as u8))
    }
}

#[cold]
fn bad_type(kind: u8) -> Error {
    Error::corruption("unknown entry type in a data block").with("type", kind)
}

/// How the walk without keys ended.
pub(super) enum Walk {
    /// The first entry not smaller than the target. It shares the first `header.shared` bytes with
    /// the target's user key.
    At {
        /// Offset of the entry.
        offset: usize,
        /// Its parts.
        header: Header,
        /// Its tag, if it has the target's user key.
        equal: Option<u64>,
    },
    /// No more entries.
    End,
    /// Undecided; rebuild keys.
    Rebuild,
}

/// Describes what a walk knows of the entry it passed last.
struct Passed {
    /// Offset of the next entry.
    end: usize,
    /// Bytes its user key shares with the target's.
    matched: usize,
    /// Length of its user key.
    len: usize,
    /// The target's byte after the matched ones, -1 after its end.
    sought: i32,
}

impl Passed {
    /// Passes the usual entries: lengths in one byte each (the value's in two), and decided by the
    /// shared length or the first byte of their own. Stops before the first that is not passed, and
    /// is then inside the entries; else it may be at their end or, if the last entry is damaged,
    /// after it.
    #[inline(always)]
    fn skip<const REVERSE: bool>(&mut self, entries: &[u8]) {
        while let Some(word) = entries.get(self.end..).and_then(|e| e.first_chunk::<8>()) {
            let word = u64::from_le_bytes(*word);
            let shared = (word & 0x7f) as usize;
            let own = (word >> 8 & 0x7f) as usize;
            let mut size = 3 + own + (word >> 16 & 0x7f) as usize;
            let mut byte = (word >> 24) as u8;
            if word & 0x0080_8080 != 0 {
                if word & 0x8080_8080 != 0x0080_0000 {
                    return;
                }
                size += 1 + (word >> 17 & 0x3f80) as usize;
                byte = (word >> 32) as u8;
            }
            if own <= TAG_LEN {
                return;
            }
            let len = shared + own - TAG_LEN;
            if shared == self.matched {
                let byte = i32::from(byte);
                if byte == self.sought || (byte < self.sought) == REVERSE {
                    return;
                }
            } else if shared < self.matched || self.matched >= self.len {
                return;
            }
            self.len = len;
            self.end += size;
        }
    }
}

impl Block {
    /// The prefix that all restart keys share.
    #[inline]
    fn common(&self) -> &[u8] {
        &self.common[..usize::from(self.common_len)]
    }

    /// Offset of a restart point.
    #[inline]
    pub(crate) fn restart(&self, i: usize) -> usize {
        self.restarts.as_slice()[i] as usize
    }

    /// The restart interval that holds the entry at `offset`.
    pub(crate) fn restart_before(&self, offset: usize) -> usize {
        self.restarts
            .as_slice()
            .partition_point(|&r| (r as usize) <= offset)
            .saturating_sub(1)
    }

    /// Index of the last restart point whose key is smaller than the target, or 0.
    #[inline]
    pub(crate) fn seek_restart(&self, cmp: &Comparator, user: &[u8], tag: u64) -> Result<usize> {
        let mut range = if self.has_prefixes(cmp) {
            tie_range(self.prefixes.as_slice(), self.common(), cmp, user)
        } else {
            0..self.num_restarts()
        };
        while range.start < range.end {
            let middle = range.start + (range.end - range.start) / 2;
            let h = header(self.entries(), self.restart(middle)).ok_or_else(bad_entry)?;
            let key = split_internal(&self.data[h.key..h.value]).ok_or_else(bad_entry)?;
            if compare(cmp, key, (user, tag)) == Ordering::Less {
                range.start = middle + 1;
            } else {
                range.end = middle;
            }
        }
        Ok(range.start.saturating_sub(1))
    }

    /// The restart point from which a lookup of `user` may walk, by the hash index: all entries of
    /// the key in this block are in that interval. A key that is not in the block is looked for in
    /// the last interval, because older entries of it may be in the next block.
    #[inline(never)]
    fn hashed_restart(&self, cmp: &Comparator, user: &[u8], tag: u64) -> Result<usize> {
        let buckets = self.data.get(self.buckets.clone()).unwrap_or_default();
        match hash_index::bucket(buckets, user) {
            hash_index::EMPTY => Ok(self.num_restarts() - 1),
            restart if usize::from(restart) < self.num_restarts() => Ok(restart.into()),
            _ => self.seek_restart(cmp, user, tag),
        }
    }

    /// Feeds the entries of `user` that are not newer than `tag` to `sink`, newest first.
    ///
    /// # Errors
    /// `Corruption` for bad entries, `NotSupported` for entry types this build lacks.
    pub(crate) fn lookup<F>(
        self: &Arc<Self>,
        cmp: &Comparator,
        user: &[u8],
        tag: u64,
        sink: &mut F,
    ) -> Result<Lookup>
    where
        F: FnMut(u64, &[u8], &Arc<Block>) -> ControlFlow<()>,
    {
        if self.entries_end == 0 {
            return Ok(Lookup::Exhausted);
        }
        let restart = match self.buckets.is_empty() {
            true => self.seek_restart(cmp, user, tag)?,
            false => self.hashed_restart(cmp, user, tag)?,
        };
        let start = self.restart(restart);
        self.prefetch_from(start);
        if matches!(cmp, Comparator::User(_)) {
            return self.lookup_rebuilding(cmp, (user, tag), start, Vec::new(), sink);
        }
        let reverse = matches!(cmp, Comparator::ReverseBytewise);
        match self.walk(reverse, user, tag, start)? {
            Walk::At { equal: None, .. } => Ok(Lookup::Done),
            Walk::End => Ok(Lookup::Exhausted),
            Walk::At {
                header: h,
                equal: Some(found),
                ..
            } => {
                check_type(found)?;
                if sink(found, &self.data[h.value..h.end], self).is_break() {
                    return Ok(Lookup::Done);
                }
                let mut key = Vec::new();
                append_internal(&mut key, user, found);
                self.lookup_rebuilding(cmp, (user, tag), h.end, key, sink)
            }
            Walk::Rebuild => self.lookup_rebuilding(cmp, (user, tag), start, Vec::new(), sink),
        }
    }

    /// Asks for the cache lines of the entries from `start` on.
    #[inline(always)]
    pub(super) fn prefetch_from(&self, start: usize) {
        prefetch::<PREFETCH_LINES>(&self.data, start);
    }

    /// Asks for the cache lines of the entries from `start` to `end`, of the first kilobytes at most.
    pub(super) fn prefetch_between(&self, start: usize, end: usize) {
        for at in (start..end).step_by(64).take(PREFETCH_LINES_MAX) {
            prefetch::<1>(&self.data, at);
        }
    }

    /// Walks from the restart point at `at` to the first entry not smaller than the target.
    #[inline]
    pub(super) fn walk(&self, reverse: bool, user: &[u8], tag: u64, at: usize) -> Result<Walk> {
        if reverse {
            self.walk_in_order::<true>(user, tag, at)
        } else {
            self.walk_in_order::<false>(user, tag, at)
        }
    }

    fn walk_in_order<const REVERSE: bool>(&self, user: &[u8], tag: u64, at: usize) -> Result<Walk> {
        let entries = self.entries();
        let mut passed = Passed {
            end: at,
            matched: 0,
            len: 0,
            sought: byte_at(user, 0),
        };
        loop {
            passed.skip::<REVERSE>(entries);
            let at = passed.end;
            if at >= entries.len() {
                return match at == entries.len() {
                    true => Ok(Walk::End),
                    false => Err(bad_entry()),
                };
            }
            let h = header(entries, at).ok_or_else(bad_entry)?;
            let key_len = h.shared + (h.value - h.key);
            if key_len < TAG_LEN {
                return Err(bad_entry());
            }
            let len = key_len - TAG_LEN;
            if h.shared > passed.matched {
                // The byte that made the last key smaller is inherited, unless it belonged to a tag
                // there or belongs to one here.
                if passed.matched < passed.len && passed.matched < len {
                    passed.len = len;
                    passed.end = h.end;
                    continue;
                }
                return Ok(Walk::Rebuild);
            }
            if h.value - h.key < TAG_LEN {
                return Ok(Walk::Rebuild);
            }
            // The first `shared` bytes equal the target's: compare the rest.
            let own = &entries[h.key..h.value - TAG_LEN];
            let sought = &user[h.shared..];
            let more = common_prefix(own, sought);
            passed = Passed {
                end: h.end,
                matched: h.shared + more,
                len,
                sought: byte_at(user, h.shared + more),
            };
            let order = match (own.get(more), sought.get(more)) {
                (None, None) => {
                    let bytes = entries[h.value - TAG_LEN..h.value].try_into();
                    let found = bytes.map(u64::from_le_bytes).unwrap_or_default();
                    if found <= tag {
                        return Ok(Walk::At {
                            offset: at,
                            header: h,
                            equal: Some(found),
                        });
                    }
                    continue;
                }
                (a, b) => a < b,
            };
            if order == REVERSE {
                return Ok(Walk::At {
                    offset: at,
                    header: h,
                    equal: None,
                });
            }
        }
    }

    /// The walk that rebuilds every key: the general case, and the oracle of [`Self::walk`].
    #[inline(never)]
    fn lookup_rebuilding<F>(
        self: &Arc<Self>,
        cmp: &Comparator,
        target: (&[u8], u64),
        mut at: usize,
        mut key: Vec<u8>,
        sink: &mut F,
    ) -> Result<Lookup>
    where
        F: FnMut(u64, &[u8], &Arc<Block>) -> ControlFlow<()>,
    {
        let entries = self.entries();
        while at < entries.len() {
            let h = header(entries, at)
                .filter(|h| h.shared <= key.len())
                .ok_or_else(bad_entry)?;
            key.truncate(h.shared);
            key.extend_from_slice(&entries[h.key..h.value]);
            let (user, tag) = split_internal(&key).ok_or_else(bad_entry)?;
            match cmp.compare(user, target.0) {
                Ordering::Less => {}
                Ordering::Greater => return Ok(Lookup::Done),
                Ordering::Equal if tag > target.1 => {}
                Ordering::Equal => {
                    check_type(tag)?;
                    if sink(tag, &entries[h.value..h.end], self).is_break() {
                        return Ok(Lookup::Done);
                    }
                }
            }
            at = h.end;
        }
        Ok(Lookup::Exhausted)
    }
}

/// The byte at `at`, or -1 after the end.
#[inline(always)]
fn byte_at(key: &[u8], at: usize) -> i32 {
    key.get(at).map_or(-1, |&b| i32::from(b))
}

/// Order of two split internal keys (B1).
#[inline]
pub(crate) fn compare(cmp: &Comparator, a: (&[u8], u64), b: (&[u8], u64)) -> Ordering {
    match cmp.compare(a.0, b.0) {
        Ordering::Equal => b.1.cmp(&a.1),
        order => order,
    }
}
