//! Walks the entries of one data block in both directions.
//!
//! Forward, the key is rebuilt in one buffer. Backward, the restart interval around the position is
//! decoded once into a list of entries with their keys one behind the other in the same buffer, and
//! further steps only move along the list.

use super::Block;
use super::entry::{bad_entry, header};
use super::seek::{check_type, compare};
use spanlith_base::keys::{TAG_LEN, split_internal, tag};
use spanlith_base::{Comparator, Pinned, Result};
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// An entry of the list of a backward walk.
#[derive(Clone, Debug)]
struct Entry {
    offset: usize,
    key: Range<usize>,
    value: Range<usize>,
}

/// A position in a block. Without a block, or off its ends, it is not valid.
#[derive(Default)]
pub(crate) struct BlockCursor {
    block: Option<Arc<Block>>,
    valid: bool,
    /// Offset of the current entry.
    offset: usize,
    /// The current key is `keys[key]`.
    keys: Vec<u8>,
    key: Range<usize>,
    /// The current value in the block; its end is the next entry.
    value: Range<usize>,
    /// Entries of one restart interval up to the current one, during a backward walk.
    back: Vec<Entry>,
}

impl BlockCursor {
    /// Moves to another block, before its first entry.
    pub(crate) fn set_block(&mut self, block: Arc<Block>) {
        self.block = Some(block);
        self.reset();
    }

    /// Lets go of the block, and returns it for reuse.
    pub(crate) fn take_block(&mut self) -> Option<Arc<Block>> {
        self.reset();
        self.block.take()
    }

    fn reset(&mut self) {
        self.valid = false;
        self.offset = 0;
        self.keys.clear();
        self.key = 0..0;
        self.value = 0..0;
        self.back.clear();
    }

    /// Whether it is at an entry.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.valid
    }

    /// The current internal key. Requires: valid.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self.keys[self.key.clone()]
    }

    /// The current value. Requires: valid.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        match &self.block {
            Some(block) => &block.data[self.value.clone()],
            None => &[],
        }
    }

    /// The current value with a share in the block. Requires: valid.
    pub(crate) fn value_pinned(&self) -> Pinned {
        match &self.block {
            Some(block) => block.pin(self.value()),
            None => Pinned::default(),
        }
    }

    /// Goes to the first entry; whether there is one.
    pub(crate) fn seek_to_first(&mut self) -> Result<bool> {
        self.reset();
        self.next()
    }

    /// Goes to the next entry (to the first from before it); whether there is one.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<bool> {
        let Some(block) = &self.block else {
            return Ok(false);
        };
        if !self.back.is_empty() {
            self.keys.copy_within(self.key.clone(), 0);
            self.keys.truncate(self.key.end - self.key.start);
            self.back.clear();
        }
        let at = self.value.end;
        let entries = block.entries();
        if at >= entries.len() {
            self.valid = false;
            return Ok(false);
        }
        self.valid = false;
        let Some(h) = header(entries, at) else {
            return Err(bad_entry());
        };
        let len = h.shared + (h.value - h.key);
        if h.shared > self.keys.len() || len < TAG_LEN {
            return Err(bad_entry());
        }
        self.keys.truncate(h.shared);
        self.keys.extend_from_slice(&entries[h.key..h.value]);
        check_type(tag(&self.keys))?;
        self.offset = at;
        self.key = 0..len;
        self.value = h.value..h.end;
        self.valid = true;
        Ok(true)
    }

    /// Goes to the first entry not smaller than (`user`, `tag`); whether there is one.
    pub(crate) fn seek(&mut self, cmp: &Comparator, user: &[u8], tag: u64) -> Result<bool> {
        self.reset();
        let Some(block) = &self.block else {
            return Ok(false);
        };
        if block.entries_end == 0 {
            return Ok(false);
        }
        let restart = block.seek_restart(cmp, user, tag)?;
        let at = block.restart(restart);
        self.value = at..at;
        while self.next()? {
            let key = split_internal(self.key()).ok_or_else(bad_entry)?;
            if compare(cmp, key, (user, tag)) != Ordering::Less {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Goes to the last entry; whether there is one.
    pub(crate) fn seek_to_last(&mut self) -> Result<bool> {
        self.reset();
        let Some(block) = &self.block else {
            return Ok(false);
        };
        if block.entries_end == 0 {
            return Ok(false);
        }
        self.load_back(block.num_restarts() - 1, block.entries_end)
    }

    /// Goes to the previous entry; whether there is one. Requires: valid.
    #[inline]
    pub(crate) fn prev(&mut self) -> Result<bool> {
        if self.back.len() > 1 {
            self.back.pop();
            return self.take_back();
        }
        let Some(block) = &self.block else {
            return Ok(false);
        };
        if self.offset == 0 {
            self.valid = false;
            return Ok(false);
        }
        let restart = block.restart_before(self.offset - 1);
        self.load_back(restart, self.offset)
    }

    /// Lists the entries from a restart point up to `end` and goes to the last of them.
    fn load_back(&mut self, restart: usize, end: usize) -> Result<bool> {
        self.valid = false;
        self.back.clear();
        self.keys.clear();
        let Some(block) = &self.block else {
            return Ok(false);
        };
        let entries = block.entries();
        let mut at = block.restart(restart);
        let mut previous = 0..0;
        while at < end {
            let h = header(entries, at).ok_or_else(bad_entry)?;
            let len = h.shared + (h.value - h.key);
            if h.shared > previous.len() || len < TAG_LEN {
                return Err(bad_entry());
            }
            let start = self.keys.len();
            self.keys
                .extend_from_within(previous.start..previous.start + h.shared);
            self.keys.extend_from_slice(&entries[h.key..h.value]);
            previous = start..start + len;
            self.back.push(Entry {
                offset: at,
                key: previous.clone(),
                value: h.value..h.end,
            });
            at = h.end;
        }
        if at != end {
            return Err(bad_entry());
        }
        self.take_back()
    }

    /// Makes the last entry of the list the current one.
    #[inline]
    fn take_back(&mut self) -> Result<bool> {
        self.valid = false;
        let Some(entry) = self.back.last() else {
            return Ok(false);
        };
        self.offset = entry.offset;
        self.key = entry.key.clone();
        self.value = entry.value.clone();
        check_type(tag(self.key()))?;
        self.valid = true;
        Ok(true)
    }
}
