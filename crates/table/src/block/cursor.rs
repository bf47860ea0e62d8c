//! Walks the entries of one data block in both directions.
//!
//! Forward, the key is rebuilt in one buffer. Backward, the restart interval around the position is
//! decoded once into a list of entries with their keys one after the other in the same buffer, and
//! further steps only move along the list.

use super::Block;
use super::entry::{bad_entry, header};
use super::seek::{Walk, check_type, compare, is_known_type};
use spanlith_base::keys::{TAG_LEN, split_internal, tag};
use spanlith_base::{Comparator, Pinned, Result};
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// Bytes copied at once for the rest of a key.
const SLACK: usize = 24;

/// Makes room for a key of `len` bytes and the slack after it.
#[cold]
fn grow(keys: &mut Vec<u8>, len: usize) {
    keys.resize((len + SLACK).next_power_of_two().max(64), 0);
}

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
    /// The current key is `keys[key]`; outside a backward walk it starts at 0, and what comes after it
    /// is leftover.
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
        self.key = 0..0;
        self.value = 0..0;
        self.back.clear();
    }

    /// Returns whether it is at an entry.
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
        if self.advance_short() {
            Ok(true)
        } else {
            self.advance()
        }
    }

    /// The step to a usual entry: lengths below 128 (a value may have up to 16 KiB) and no more than
    /// [`SLACK`] bytes of key of its own. Returns false, and changes nothing that matters, if the
    /// next entry is not of that kind; [`Self::advance`] then decides.
    #[inline(always)]
    pub(crate) fn advance_short(&mut self) -> bool {
        let Some(block) = &self.block else {
            return false;
        };
        let data = &*block.data;
        let at = self.value.end;
        let Some(word) = data.get(at..).and_then(|rest| rest.first_chunk::<4>()) else {
            return false;
        };
        let word = u32::from_le_bytes(*word);
        let shared = (word & 0x7f) as usize;
        let own = (word >> 8 & 0x7f) as usize;
        let (key, value_len) = if word & 0x0080_8080 == 0 {
            (at + 3, word >> 16 & 0x7f)
        } else if word & 0x8080_8080 == 0x0080_0000 {
            (at + 4, (word >> 16 & 0x7f) | (word >> 17 & 0x3f80))
        } else {
            return false;
        };
        let value = key + own;
        let end = value + value_len as usize;
        let len = shared + own;
        let fits = end <= block.entries_end
            && own <= SLACK
            && len >= TAG_LEN
            && shared <= self.key.end
            && self.back.is_empty();
        let from = data.get(key..).and_then(|rest| rest.first_chunk::<SLACK>());
        let to = self
            .keys
            .get_mut(shared..)
            .and_then(|rest| rest.first_chunk_mut::<SLACK>());
        let (true, Some(from), Some(to)) = (fits, from, to) else {
            return false;
        };
        *to = *from;
        if !self
            .keys
            .get(len - TAG_LEN)
            .is_some_and(|&kind| is_known_type(kind))
        {
            return false;
        }
        self.offset = at;
        self.key.end = len;
        self.value = value..end;
        self.valid = true;
        true
    }

    /// The step to any entry.
    #[inline(never)]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if !self.back.is_empty() {
            self.leave_back();
        }
        let Some(block) = &self.block else {
            return Ok(false);
        };
        let at = self.value.end;
        let entries = block.entries();
        self.valid = false;
        if at >= entries.len() {
            return Ok(false);
        }
        let Some(h) = header(entries, at) else {
            return Err(bad_entry());
        };
        let len = h.shared + (h.value - h.key);
        if h.shared > self.key.end || len < TAG_LEN {
            return Err(bad_entry());
        }
        if self.keys.len() < len + SLACK {
            grow(&mut self.keys, len);
        }
        self.keys[h.shared..len].copy_from_slice(&entries[h.key..h.value]);
        check_type(u64::from(self.keys[len - TAG_LEN]))?;
        self.offset = at;
        self.key = 0..len;
        self.value = h.value..h.end;
        self.valid = true;
        Ok(true)
    }

    /// Ends a backward walk: moves the current key to the front of the buffer.
    #[cold]
    fn leave_back(&mut self) {
        self.keys.copy_within(self.key.clone(), 0);
        self.key = 0..self.key.len();
        self.back.clear();
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
        let start = block.restart(block.seek_restart(cmp, user, tag)?);
        block.prefetch_from(start);
        if !matches!(cmp, Comparator::User(_)) {
            let reverse = matches!(cmp, Comparator::ReverseBytewise);
            match block.walk(reverse, user, tag, start)? {
                Walk::End => return Ok(false),
                Walk::At { offset, header, .. } => {
                    // The key up to `shared` is the target's: continue from there.
                    if self.keys.len() < header.shared {
                        grow(&mut self.keys, header.shared);
                    }
                    self.keys[..header.shared].copy_from_slice(&user[..header.shared]);
                    self.key = 0..header.shared;
                    self.value = offset..offset;
                    return self.next();
                }
                Walk::Rebuild => {}
            }
        }
        self.value = start..start;
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

    /// The step back within the list of a backward walk; false, and without effect, if the list is
    /// at its start.
    #[inline]
    pub(crate) fn retreat_short(&mut self) -> bool {
        let Some(at) = self.back.len().checked_sub(2) else {
            return false;
        };
        self.back.truncate(at + 1);
        self.show_back();
        true
    }

    /// Goes to the previous entry; whether there is one. Requires: valid.
    pub(crate) fn prev(&mut self) -> Result<bool> {
        if self.retreat_short() {
            return Ok(true);
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
        if restart > 0 {
            // While these are shown, the lines of those before them arrive.
            block.prefetch_between(block.restart(restart - 1), at);
        }
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
            check_type(tag(&self.keys))?;
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
        self.show_back();
        Ok(self.valid)
    }

    /// Makes the last entry of the list the current one.
    #[inline]
    fn show_back(&mut self) {
        if let Some(entry) = self.back.last() {
            self.offset = entry.offset;
            self.key = entry.key.clone();
            self.value = entry.value.clone();
            self.valid = true;
        }
    }
}
