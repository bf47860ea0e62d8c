//! An index block in the form that is searched: flat arrays of separators, order words and handles.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::block::entry::{bad_entry, header, index_header};
use crate::block::parts;
use crate::block::seek::{common_prefix, compare, tie_range};
use crate::format::BlockHandle;
use spanlith_base::coding::{get_varint32, get_varint64};
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
}

/// A parsed index.
pub(crate) struct IndexTable {
    user_keys: bool,
    /// The separators, one behind the other.
    keys: Vec<u8>,
    /// End of each separator in `keys`.
    ends: Vec<u32>,
    handles: Handles,
    /// Length of the prefix common to all separators, at the start of `keys`.
    common: usize,
    /// Order word of each separator behind the common prefix; empty for user comparators.
    prefixes: Vec<u64>,
    /// First internal key of each block, if the index has them.
    first: Option<Box<FirstKeys>>,
}

/// First keys, one behind the other, and the end of each.
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
    /// An index of no blocks.
    pub(crate) const fn empty() -> Self {
        Self {
            user_keys: true,
            keys: Vec::new(),
            ends: Vec::new(),
            handles: Handles::EMPTY,
            common: 0,
            prefixes: Vec::new(),
            first: None,
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
        let mut table = Self {
            user_keys: form.user_keys,
            first: form.first_keys.then(Box::default),
            ..Self::empty()
        };
        let mut previous = BlockHandle::default();
        let mut at = 0;
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
        table.shrink();
        if !matches!(cmp, Comparator::User(_)) {
            table.build_prefixes(cmp);
        }
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
        self.handles.near.shrink_to_fit();
        self.handles.far.shrink_to_fit();
        if let Some(first) = &mut self.first {
            first.keys.shrink_to_fit();
            first.ends.shrink_to_fit();
        }
    }

    fn build_prefixes(&mut self, cmp: &Comparator) {
        let n = self.len();
        if n == 0 {
            return;
        }
        self.common = common_prefix(self.split(0).0, self.split(n - 1).0);
        self.prefixes = (0..n)
            .map(|i| cmp.prefix(self.split(i).0.get(self.common..).unwrap_or_default()))
            .collect();
    }

    /// Number of data blocks.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.handles.len()
    }

    /// Whether no user key spans two data blocks.
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

    /// Separator as stored.
    pub(crate) fn key(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.keys[start..self.ends[i] as usize]
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

    /// Separator as (user key, tag); a user-key separator stands behind all entries of its key.
    #[inline]
    fn split(&self, i: usize) -> (&[u8], u64) {
        let key = self.key(i);
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
            tie_range(&self.prefixes, &self.keys[..self.common], cmp, user)
        };
        while range.start < range.end {
            let middle = range.start + (range.end - range.start) / 2;
            if compare(cmp, self.split(middle), (user, tag)) == Ordering::Less {
                range.start = middle + 1;
            } else {
                range.end = middle;
            }
        }
        range.start
    }

    /// [`Self::seek`] for a target that is not smaller than the one that led to block `near`; a number
    /// that no block has is none.
    pub(crate) fn seek_near(&self, cmp: &Comparator, key: (&[u8], u64), near: usize) -> usize {
        match near < self.len() && compare(cmp, self.split(near), key) != Ordering::Less {
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
            + self.first.as_ref().map_or(0, |first| {
                size_of::<FirstKeys>() + first.keys.capacity() + first.ends.capacity() * 4
            })
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
        let (zigzag, rest) = get_varint64(rest).ok_or_else(bad_entry)?;
        let delta = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        let handle = previous.end().and_then(|offset| {
            Some(BlockHandle {
                offset,
                size: previous.size.checked_add_signed(delta)?,
            })
        });
        (handle.ok_or_else(bad_entry)?, rest)
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
mod tests {
    use super::*;

    #[test]
    fn handles_on_both_sides_of_four_gigabytes_come_back_in_order() {
        let offsets = [0, 5, u64::from(u32::MAX), 1 << 32, (1 << 40) + 3];
        let all = offsets.map(|offset| BlockHandle { offset, size: 7 });
        let mut handles = Handles::EMPTY;
        for handle in all {
            handles.push(handle);
        }
        assert_eq!((handles.near.len(), handles.len()), (3, 5));
        for (i, handle) in all.into_iter().enumerate() {
            assert_eq!(handles.get(i), Some(handle));
        }
        assert_eq!(handles.get(5), None);
    }
}
