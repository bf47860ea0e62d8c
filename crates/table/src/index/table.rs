//! An index block in the form that is searched: flat arrays of order words, handles, and what is left of
//! the separators.
//!
//! With the built-in comparators a separator is kept in three parts, none of them twice: the prefix that
//! all have in common, once; the up to eight bytes after it, as the order word that a search looks at;
//! and the rest, mostly nothing, because separators are short. Lengths are kept per separator only where
//! they differ. An index stays in memory as long as its table is open, so its bytes count: about 17 per
//! block, of which the handle takes 8.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::sums::EntrySums;
use crate::block::entry::{bad_entry, header, index_header};
use crate::block::parts;
use crate::block::protection::{bytes, words};
use crate::block::seek::{common_prefix, compare, tie_range};
use crate::format::BlockHandle;
use spanlith_base::coding::{get_fixed32, get_varint32, get_varint64};
use spanlith_base::keys::{TAG_LEN, split_internal};
use spanlith_base::{Comparator, Error, Result};
use std::cmp::Ordering;

/// How index entries are encoded; from the properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexForm {
    /// Keys are user keys.
    pub(crate) user_keys: bool,
    /// Values are delta-encoded.
    pub(crate) delta: bool,
    /// Values hold the first key of their block.
    pub(crate) first_keys: bool,
    /// Bytes of the timestamps that keys were written without; they become zeros.
    pub(crate) padding: usize,
    /// A value that is delta-encoded may be a whole handle after a zero (format version 8).
    pub(crate) escapes: bool,
}

/// Most bytes of a separator in its order word.
const HEAD_LEN: usize = size_of::<u64>();

/// A parsed index.
pub(crate) struct IndexTable {
    user_keys: bool,
    /// The order is the reverse one.
    reverse: bool,
    /// The prefix common to all separators, then what follows the order word of each, with its tag.
    /// Without order words: the separators, one after the other.
    keys: Vec<u8>,
    /// End in `keys` of what belongs to each separator; empty if each has `stride` bytes.
    ends: Vec<u32>,
    /// Bytes in `keys` of each separator, if `ends` is empty.
    stride: usize,
    handles: Handles,
    /// Length of the prefix common to all separators.
    common: usize,
    /// Order word of each separator after the common prefix; empty for user comparators.
    prefixes: Vec<u64>,
    /// Bytes of each separator that its order word holds; empty if all eight for each.
    heads: Vec<u8>,
    /// First internal key of each block, if the index has them.
    first: Option<Box<FirstKeys>>,
    /// A checksum of each entry, if blocks in memory have checksums.
    pub(super) sums: Option<Box<EntrySums>>,
}

/// First keys, one after the other, and the end of each.
#[derive(Default)]
struct FirstKeys {
    keys: Vec<u8>,
    ends: Vec<u32>,
}

/// Offsets and sizes of blocks: in half the bytes as long as the blocks lie in the first four
/// gigabytes of the file.
struct Handles {
    near: Vec<[u32; 2]>,
    /// Handles from `near.len()` on.
    far: Vec<BlockHandle>,
}

impl Handles {
    const EMPTY: Self = Self {
        near: Vec::new(),
        far: Vec::new(),
    };

    fn push(&mut self, handle: BlockHandle) {
        match (u32::try_from(handle.offset), u32::try_from(handle.size)) {
            (Ok(offset), Ok(size)) if self.far.is_empty() => self.near.push([offset, size]),
            _ => self.far.push(handle),
        }
    }

    #[inline]
    fn get(&self, i: usize) -> Option<BlockHandle> {
        match self.near.get(i) {
            Some(&[offset, size]) => Some(BlockHandle {
                offset: offset.into(),
                size: size.into(),
            }),
            None => self.far.get(i - self.near.len()).copied(),
        }
    }

    fn len(&self) -> usize {
        self.near.len() + self.far.len()
    }

    fn memory_usage(&self) -> usize {
        self.near.capacity() * size_of::<[u32; 2]>()
            + self.far.capacity() * size_of::<BlockHandle>()
    }
}

impl IndexTable {
    /// Flips a bit of one of the arrays, counted through all of them, and tells how many bits there are.
    #[cfg(test)]
    pub(crate) fn flip(&mut self, bit: usize) -> usize {
        let mut begin = 0;
        let mut find = |bits: usize| {
            let at = bit.checked_sub(begin).filter(|&at| at < bits);
            begin += bits;
            at
        };
        for array in [&mut self.keys, &mut self.heads] {
            if let Some(at) = find(array.len() * 8) {
                array[at / 8] ^= 1 << (at % 8);
            }
        }
        if let Some(at) = find(self.ends.len() * 32) {
            self.ends[at / 32] ^= 1 << (at % 32);
        }
        if let Some(at) = find(self.prefixes.len() * 64) {
            self.prefixes[at / 64] ^= 1 << (at % 64);
        }
        if let Some(at) = find(self.handles.near.len() * 64) {
            self.handles.near[at / 64][at % 64 / 32] ^= 1 << (at % 32);
        }
        begin
    }

    /// Takes all that is in memory into a checksum.
    pub(crate) fn checksum(&self, sum: u64) -> u64 {
        let sum = words(sum, &self.shape(), |w| w);
        let sum = bytes(bytes(sum, &self.keys), &self.heads);
        let sum = words(sum, &self.ends, u64::from);
        let sum = words(sum, &self.prefixes, |w| w);
        let near = |[offset, size]: [u32; 2]| u64::from(offset) << 32 | u64::from(size);
        let sum = words(sum, &self.handles.near, near);
        let sum = words(sum, &self.handles.far, |h| {
            h.offset.rotate_left(32) ^ h.size
        });
        let sum = match &self.first {
            Some(first) => words(bytes(sum, &first.keys), &first.ends, u64::from),
            None => sum,
        };
        self.sums.as_ref().map_or(sum, |sums| sums.checksum(sum))
    }

    /// Returns what holds for all entries.
    pub(super) fn shape(&self) -> [u64; 4] {
        [
            u64::from(self.user_keys),
            u64::from(self.reverse),
            self.stride as u64,
            self.common as u64,
        ]
    }

    /// Returns whether there are order words.
    pub(super) fn has_words(&self) -> bool {
        !self.prefixes.is_empty()
    }

    /// Order word of an entry.
    pub(super) fn word(&self, i: usize) -> u64 {
        self.prefixes.get(i).copied().unwrap_or_default()
    }

    /// The prefix common to all separators.
    #[inline]
    pub(super) fn common(&self) -> &[u8] {
        self.keys.get(..self.common).unwrap_or_default()
    }

    /// An index of no blocks.
    pub(crate) const fn empty() -> Self {
        Self {
            user_keys: true,
            reverse: false,
            keys: Vec::new(),
            ends: Vec::new(),
            stride: 0,
            handles: Handles::EMPTY,
            common: 0,
            prefixes: Vec::new(),
            heads: Vec::new(),
            first: None,
            sums: None,
        }
    }

    /// Parses an uncompressed index block. Data blocks must end at or before `limit`.
    ///
    /// # Errors
    /// `Corruption` for entries that do not decode or handles that leave the file.
    pub(crate) fn parse(
        block: &[u8],
        form: IndexForm,
        limit: u64,
        cmp: &Comparator,
    ) -> Result<Self> {
        let parts = parts(block)?;
        let entries = block.get(..parts.entries_end).ok_or_else(bad_entry)?;
        let (prefix, _) = entries
            .split_at_checked(parts.prefix)
            .ok_or_else(bad_entry)?;
        let is_plain =
            form.padding == 0 && !form.first_keys && !parts.separated && prefix.is_empty();
        if is_plain && !matches!(cmp, Comparator::User(_)) {
            let last = get_fixed32(block, parts.restarts + 4 * (parts.num_restarts - 1));
            let last = last.unwrap_or_default() as usize;
            if let Some(table) = Self::parse_whole_keys(entries, last, form, limit, cmp) {
                return Ok(table);
            }
        }
        Self::parse_any(entries, prefix, form, limit, cmp)
    }

    /// Parses entries with whole separators in one pass: such as are written unless an option asks for
    /// shorter ones. The last of them begins at `last`. `None` if they are not such, or if anything is
    /// wrong with them.
    fn parse_whole_keys(
        entries: &[u8],
        last: usize,
        form: IndexForm,
        limit: u64,
        cmp: &Comparator,
    ) -> Option<Self> {
        let tag = if form.user_keys { 0 } else { TAG_LEN };
        let key_at = |at| {
            let e = index_entry(entries, at, form, BlockHandle::default()).ok()?;
            let key = (e.shared == 0).then(|| entries.get(e.key..e.value))??;
            let (user, tag) = key.split_at_checked(key.len().checked_sub(tag)?)?;
            Some((e, user, tag))
        };
        let first = key_at(0)?.1;
        let common = common_prefix(first, key_at(last)?.1);
        let (common, _) = first.split_at_checked(common)?;
        // As many as the last one's place lets expect: an entry takes four bytes at least.
        let entry = entries.len().checked_sub(last)?.max(4);
        let n = entries.len() / entry + 1;
        let mut rest = common.to_vec();
        let (mut ends, mut heads) = (Vec::with_capacity(n), Vec::with_capacity(n));
        let mut table = Self {
            user_keys: form.user_keys,
            prefixes: Vec::with_capacity(n),
            ..Self::empty()
        };
        table.handles.near.reserve(n);
        let mut at = 0;
        while at < entries.len() {
            let (e, user, tag) = key_at(at)?;
            let own = user.strip_prefix(common)?;
            if e.handle.end()? > limit || u32::try_from(e.handle.size).is_err() {
                return None;
            }
            let (head, behind) = own.split_at(own.len().min(HEAD_LEN));
            table.prefixes.push(cmp.prefix(own));
            heads.push(head.len() as u8);
            rest.extend_from_slice(behind);
            rest.extend_from_slice(tag);
            ends.push(u32::try_from(rest.len()).ok()?);
            table.handles.push(e.handle);
            at = e.end;
        }
        table.settle(rest, common.len(), ends, heads, cmp);
        table.shrink();
        Some(table)
    }

    /// Parses entries of any form, after the `prefix` that keys which share nothing with the one before are
    /// stored without.
    fn parse_any(
        entries: &[u8],
        prefix: &[u8],
        form: IndexForm,
        limit: u64,
        cmp: &Comparator,
    ) -> Result<Self> {
        let mut table = Self {
            user_keys: form.user_keys,
            first: form.first_keys.then(Box::default),
            ..Self::empty()
        };
        let mut previous = BlockHandle::default();
        let mut at = prefix.len();
        let mut last = 0..0;
        while at < entries.len() {
            let IndexEntry {
                shared,
                key,
                value,
                handle,
                first,
                end,
            } = index_entry(entries, at, form, previous)?;
            let start = table.keys.len();
            if shared > last.len() {
                return Err(bad_entry());
            }
            table
                .keys
                .extend_from_within(last.start..last.start + shared);
            if shared == 0 {
                table.keys.extend_from_slice(prefix);
            }
            table
                .keys
                .extend_from_slice(entries.get(key..value).ok_or_else(bad_entry)?);
            last = start..table.keys.len();
            if !form.user_keys && last.len() < 8 {
                return Err(bad_entry());
            }
            if handle.end().is_none_or(|end| end > limit) || u32::try_from(handle.size).is_err() {
                return Err(
                    Error::corruption("index entry points outside the data blocks")
                        .with("offset", handle.offset)
                        .with("size", handle.size),
                );
            }
            table
                .ends
                .push(u32::try_from(last.end).map_err(|_| bad_entry())?);
            table.handles.push(handle);
            if let Some(firsts) = &mut table.first {
                firsts.keys.extend_from_slice(first);
                let end = u32::try_from(firsts.keys.len()).map_err(|_| bad_entry())?;
                firsts.ends.push(end);
            }
            previous = handle;
            at = end;
        }
        if form.padding > 0 {
            table.pad(form.padding)?;
        }
        if !matches!(cmp, Comparator::User(_)) {
            table.pack(cmp);
        }
        table.shrink();
        Ok(table)
    }

    /// Puts timestamps of zeros into keys that were written without.
    #[cold]
    fn pad(&mut self, padding: usize) -> Result<()> {
        let tag = if self.user_keys { 0 } else { TAG_LEN };
        pad_keys(&mut self.keys, &mut self.ends, tag, padding)?;
        match &mut self.first {
            Some(firsts) => pad_keys(&mut firsts.keys, &mut firsts.ends, TAG_LEN, padding),
            None => Ok(()),
        }
    }

    /// Gives back what growing took beyond the need: an index stays as long as its table is open.
    fn shrink(&mut self) {
        self.keys.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.prefixes.shrink_to_fit();
        self.heads.shrink_to_fit();
        self.handles.near.shrink_to_fit();
        self.handles.far.shrink_to_fit();
        if let Some(first) = &mut self.first {
            first.keys.shrink_to_fit();
            first.ends.shrink_to_fit();
        }
    }

    /// Takes the separators, which are whole so far, apart.
    fn pack(&mut self, cmp: &Comparator) {
        let n = self.len();
        if n == 0 {
            return;
        }
        // Of all, not of the ends: a damaged index may be out of order, and keeps its keys even so.
        let first = self.split(0).0;
        let common = (1..n).fold(first.len(), |common, i| {
            common_prefix(&first[..common], self.split(i).0)
        });
        let mut rest = Vec::with_capacity(self.keys.len());
        rest.extend_from_slice(&first[..common]);
        let mut ends = Vec::with_capacity(n);
        let mut heads = Vec::with_capacity(n);
        let mut prefixes = Vec::with_capacity(n);
        for i in 0..n {
            let key = self.stored(i);
            let user = self.split(i).0;
            let own = &user[common..];
            let head = own.len().min(HEAD_LEN);
            rest.extend_from_slice(&own[head..]);
            rest.extend_from_slice(&key[user.len()..]);
            // Not longer than the keys, whose length fits.
            ends.push(rest.len() as u32);
            prefixes.push(cmp.prefix(own));
            heads.push(head as u8);
        }
        self.prefixes = prefixes;
        self.settle(rest, common, ends, heads, cmp);
    }

    /// Keeps separators that were taken apart, and their lengths only if they differ. Requires: one at
    /// least.
    fn settle(
        &mut self,
        keys: Vec<u8>,
        common: usize,
        ends: Vec<u32>,
        heads: Vec<u8>,
        cmp: &Comparator,
    ) {
        let stride = ends[0] as usize - common;
        let is_even = ends.windows(2).all(|e| (e[1] - e[0]) as usize == stride);
        self.reverse = matches!(cmp, Comparator::ReverseBytewise);
        (self.keys, self.common) = (keys, common);
        (self.ends, self.stride) = if is_even {
            (Vec::new(), stride)
        } else {
            (ends, 0)
        };
        self.heads = if heads.iter().all(|&head| usize::from(head) == HEAD_LEN) {
            Vec::new()
        } else {
            heads
        };
    }

    /// Number of data blocks.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.handles.len()
    }

    /// Returns whether no user key spans two data blocks.
    #[inline]
    pub(crate) fn has_user_keys(&self) -> bool {
        self.user_keys
    }

    /// Handle of a data block.
    #[inline]
    pub(crate) fn handle(&self, i: usize) -> Option<BlockHandle> {
        self.handles.get(i)
    }

    /// Handles of all data blocks.
    pub(crate) fn handles(&self) -> impl Iterator<Item = BlockHandle> {
        (0..self.len()).filter_map(|i| self.handles.get(i))
    }

    /// Returns what `keys` holds of a separator: all of it without order words.
    #[inline]
    pub(super) fn stored(&self, i: usize) -> &[u8] {
        // Nothing is taken for granted: memory may change under a search, which is noticed after it.
        let range = if self.ends.is_empty() {
            let start = self.common.wrapping_add(i.wrapping_mul(self.stride));
            start..start.wrapping_add(self.stride)
        } else {
            let start = match i {
                0 => self.common,
                _ => self.end(i - 1),
            };
            start..self.end(i)
        };
        self.keys.get(range).unwrap_or_default()
    }

    #[inline]
    fn end(&self, i: usize) -> usize {
        self.ends.get(i).copied().unwrap_or_default() as usize
    }

    /// Bytes of a separator that its order word holds.
    #[inline]
    pub(super) fn head(&self, i: usize) -> usize {
        self.heads.get(i).map_or(HEAD_LEN, |&head| head.into())
    }

    /// Separator as in the file.
    pub(crate) fn key(&self, i: usize) -> Vec<u8> {
        let Some(&word) = self.prefixes.get(i) else {
            return self.stored(i).to_vec();
        };
        let word = if self.reverse { !word } else { word };
        let mut key = self.keys[..self.common].to_vec();
        key.extend_from_slice(&word.to_be_bytes()[..self.head(i)]);
        key.extend_from_slice(self.stored(i));
        key
    }

    /// First internal key of a block, if the index knows it.
    #[inline]
    pub(crate) fn first_key(&self, i: usize) -> Option<&[u8]> {
        let firsts = self.first.as_deref()?;
        let start = match i.checked_sub(1) {
            Some(before) => *firsts.ends.get(before)? as usize,
            None => 0,
        };
        firsts.keys.get(start..*firsts.ends.get(i)? as usize)
    }

    /// Returns what `keys` holds of a separator as (user key, tag); a user-key separator stands after all
    /// entries of its key.
    #[inline]
    fn split(&self, i: usize) -> (&[u8], u64) {
        let key = self.stored(i);
        if self.user_keys {
            return (key, 0);
        }
        // The length was checked when the index was parsed.
        split_internal(key).unwrap_or((key, 0))
    }

    /// The first block whose separator is not smaller than the target; `len` if there is none.
    #[inline]
    pub(crate) fn seek(&self, cmp: &Comparator, user: &[u8], tag: u64) -> usize {
        let mut range = if self.prefixes.is_empty() {
            0..self.len()
        } else {
            tie_range(&self.prefixes, self.common(), cmp, user)
        };
        while range.start < range.end {
            let middle = range.start + (range.end - range.start) / 2;
            if self.order_in_tie(cmp, middle, (user, tag)) == Ordering::Less {
                range.start = middle + 1;
            } else {
                range.end = middle;
            }
        }
        range.start
    }

    /// Order of a separator and a target that have common prefix and order word in common.
    fn order_in_tie(&self, cmp: &Comparator, i: usize, (user, tag): (&[u8], u64)) -> Ordering {
        let own = self.split(i);
        if self.prefixes.is_empty() {
            return compare(cmp, own, (user, tag));
        }
        let sought = user.get(self.common..).unwrap_or_default();
        let (head, behind) = sought.split_at(sought.len().min(HEAD_LEN));
        // In equal words a key that ends early is followed by zeros in the other.
        match self.head(i).cmp(&head.len()) {
            Ordering::Equal => compare(cmp, own, (behind, tag)),
            order if self.reverse => order.reverse(),
            order => order,
        }
    }

    /// Order of a separator and a target.
    pub(super) fn order(&self, cmp: &Comparator, i: usize, target: (&[u8], u64)) -> Ordering {
        let Some(own) = self.prefixes.get(i) else {
            return self.order_in_tie(cmp, i, target);
        };
        let common = self.common();
        let (head, rest) = target.0.split_at(common.len().min(target.0.len()));
        if head != common {
            return match (head < common) != self.reverse {
                true => Ordering::Greater,
                false => Ordering::Less,
            };
        }
        own.cmp(&cmp.prefix(rest))
            .then_with(|| self.order_in_tie(cmp, i, target))
    }

    /// Returns whether all keys of a data block are smaller than `user`.
    pub(crate) fn is_before(&self, cmp: &Comparator, i: usize, user: &[u8]) -> bool {
        // Of one user key the largest tag comes first.
        i < self.len() && self.order(cmp, i, (user, u64::MAX)) == Ordering::Less
    }

    /// [`Self::seek`] for a target that is not smaller than the one that led to block `near`; a number
    /// that no block has is none.
    pub(crate) fn seek_near(&self, cmp: &Comparator, key: (&[u8], u64), near: usize) -> usize {
        match near < self.len() && self.order(cmp, near, key) != Ordering::Less {
            true => near,
            false => self.seek(cmp, key.0, key.1),
        }
    }

    /// Bytes of memory it occupies.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of::<Self>()
            + self.keys.capacity()
            + self.ends.capacity() * 4
            + self.handles.memory_usage()
            + self.prefixes.capacity() * 8
            + self.heads.capacity()
            + self.first.as_ref().map_or(0, |first| {
                size_of::<FirstKeys>() + first.keys.capacity() + first.ends.capacity() * 4
            })
            + self.sums.as_ref().map_or(0, |sums| sums.memory_usage())
    }
}

/// Puts `padding` zeros before the last `tag` bytes of each of some keys.
fn pad_keys(keys: &mut Vec<u8>, ends: &mut [u32], tag: usize, padding: usize) -> Result<()> {
    let mut out = Vec::with_capacity(keys.len() + ends.len() * padding);
    let mut start = 0;
    for end in ends {
        let key = keys.get(start..*end as usize).ok_or_else(bad_entry)?;
        let (user, tag) = key.split_at(key.len().saturating_sub(tag));
        start = *end as usize;
        out.extend_from_slice(user);
        out.resize(out.len() + padding, 0);
        out.extend_from_slice(tag);
        *end = u32::try_from(out.len()).map_err(|_| bad_entry())?;
    }
    *keys = out;
    Ok(())
}

impl BlockHandle {
    /// The block right after this one, whose size differs by a number in zigzag form.
    fn next(self, zigzag: u64) -> Option<Self> {
        let delta = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        Some(Self {
            offset: self.end()?,
            size: self.size.checked_add_signed(delta)?,
        })
    }
}

/// A decoded index entry.
struct IndexEntry<'a> {
    /// Bytes shared with the previous key.
    shared: usize,
    /// Offsets of the key's own bytes and of the value.
    key: usize,
    value: usize,
    handle: BlockHandle,
    /// First key of the block; empty if the form has none.
    first: &'a [u8],
    /// Offset of the next entry.
    end: usize,
}

/// Decodes one index entry.
#[inline(always)]
fn index_entry(
    entries: &[u8],
    at: usize,
    form: IndexForm,
    previous: BlockHandle,
) -> Result<IndexEntry<'_>> {
    let (shared, key, value, end) = if form.delta {
        let (shared, key, value) = index_header(entries, at).ok_or_else(bad_entry)?;
        (shared, key, value, entries.len())
    } else {
        let h = header(entries, at).ok_or_else(bad_entry)?;
        (h.shared, h.key, h.value, h.end)
    };
    let rest = entries.get(value..end).ok_or_else(bad_entry)?;
    let (handle, rest) = if !form.delta || shared == 0 {
        BlockHandle::decode(rest).ok_or_else(bad_entry)?
    } else {
        let (code, rest) = get_varint64(rest).ok_or_else(bad_entry)?;
        match code.checked_sub(u64::from(form.escapes)) {
            None => BlockHandle::decode(rest).ok_or_else(bad_entry)?,
            Some(zigzag) => (previous.next(zigzag).ok_or_else(bad_entry)?, rest),
        }
    };
    let (first, rest): (&[u8], _) = if form.first_keys {
        let (len, rest) = get_varint32(rest).ok_or_else(bad_entry)?;
        let (first, rest) = rest.split_at_checked(len as usize).ok_or_else(bad_entry)?;
        if first.len() < TAG_LEN {
            return Err(bad_entry());
        }
        (first, rest)
    } else {
        (&[], rest)
    };
    if !form.delta && !rest.is_empty() {
        return Err(bad_entry());
    }
    Ok(IndexEntry {
        shared,
        key,
        value,
        handle,
        first,
        end: end - rest.len(),
    })
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
