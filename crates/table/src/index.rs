//! The index of a table: which block holds which keys.
//!
//! The index block has one entry per data block; its key `s` satisfies
//! `last key of the block <= s < first key of the next`. At open it is parsed into flat arrays; the
//! block of a target is the first whose `s` is not smaller.
//!
//! Keys are user keys if no user key spans two blocks, internal keys otherwise. Values are handles,
//! either plain or as differences to the previous one; two properties say which.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::block::build::BlockBuilder;
use crate::block::entry::{bad_entry, header, index_header};
use crate::block::parts;
use crate::block::seek::{common_prefix, compare, tie_range};
use crate::format::{BlockHandle, TRAILER_LEN};
use spanlith_base::coding::{get_varint64, put_varint64};
use spanlith_base::keys::{MAX_SEQUENCE, SEEK_TYPE, pack_tag, split_internal, user_key};
use spanlith_base::{Comparator, Error, Result};
use std::cmp::Ordering;

/// How index entries are encoded; from the properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexForm {
    /// Keys are user keys.
    pub(crate) user_keys: bool,
    /// Values are delta-encoded.
    pub(crate) delta: bool,
}

/// A parsed index.
pub(crate) struct IndexTable {
    user_keys: bool,
    /// The separators, one behind the other.
    keys: Vec<u8>,
    /// End of each separator in `keys`.
    ends: Vec<u32>,
    handles: Vec<BlockHandle>,
    /// Length of the prefix common to all separators, at the start of `keys`.
    common: usize,
    /// Order word of each separator behind the common prefix; empty for user comparators.
    prefixes: Vec<u64>,
}

impl IndexTable {
    /// An index of no blocks.
    pub(crate) const fn empty() -> Self {
        Self {
            user_keys: true,
            keys: Vec::new(),
            ends: Vec::new(),
            handles: Vec::new(),
            common: 0,
            prefixes: Vec::new(),
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
            ..Self::empty()
        };
        let mut previous = BlockHandle::default();
        let mut at = 0;
        let mut last = 0..0;
        while at < entries.len() {
            let (shared, key, value, handle, end) = index_entry(entries, at, form, previous)?;
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
            previous = handle;
            at = end;
        }
        if !matches!(cmp, Comparator::User(_)) {
            table.build_prefixes(cmp);
        }
        Ok(table)
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
    pub(crate) fn handle(&self, i: usize) -> BlockHandle {
        self.handles[i]
    }

    /// Handles of all data blocks.
    pub(crate) fn handles(&self) -> &[BlockHandle] {
        &self.handles
    }

    /// Separator as stored.
    pub(crate) fn key(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.keys[start..self.ends[i] as usize]
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

    /// Bytes of memory it occupies.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of::<Self>()
            + self.keys.capacity()
            + self.ends.capacity() * 4
            + self.handles.capacity() * size_of::<BlockHandle>()
            + self.prefixes.capacity() * 8
    }
}

/// Decodes one index entry: shared length, offsets of key and value, handle, offset of the next.
fn index_entry(
    entries: &[u8],
    at: usize,
    form: IndexForm,
    previous: BlockHandle,
) -> Result<(usize, usize, usize, BlockHandle, usize)> {
    if !form.delta {
        let h = header(entries, at).ok_or_else(bad_entry)?;
        let value = entries.get(h.value..h.end).ok_or_else(bad_entry)?;
        let handle = match BlockHandle::decode(value) {
            Some((handle, [])) => handle,
            _ => return Err(bad_entry()),
        };
        return Ok((h.shared, h.key, h.value, handle, h.end));
    }
    let (shared, key, value) = index_header(entries, at).ok_or_else(bad_entry)?;
    let rest = entries.get(value..).ok_or_else(bad_entry)?;
    let (handle, rest) = if shared == 0 {
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
    Ok((shared, key, value, handle, entries.len() - rest.len()))
}

/// Collects separators while data blocks are written, and encodes the index at the end, when it is
/// known whether user keys suffice.
pub(crate) struct IndexBuilder {
    /// Internal-key separators, one behind the other.
    keys: Vec<u8>,
    /// End of each separator, and the handle of its block.
    entries: Vec<(usize, BlockHandle)>,
    /// Some user key spans two data blocks.
    spans: bool,
    /// Scratch for the shortened key.
    short: Vec<u8>,
}

/// Shortest tag of a separator that is not a key of the table.
const SEPARATOR_TAG: u64 = pack_tag(MAX_SEQUENCE, SEEK_TYPE);

impl IndexBuilder {
    pub(crate) fn new() -> Self {
        Self {
            keys: Vec::new(),
            entries: Vec::new(),
            spans: false,
            short: Vec::new(),
        }
    }

    /// Adds the block that ends with the internal key `last`. `next` is the first key of the next
    /// block, `None` behind the last. With `shorten` the separator is made as short as possible.
    pub(crate) fn add(
        &mut self,
        cmp: &Comparator,
        last: &[u8],
        next: Option<&[u8]>,
        shorten: bool,
        handle: BlockHandle,
    ) {
        let user = user_key(last);
        if next.is_some_and(|next| cmp.equal(user, user_key(next))) {
            self.spans = true;
        }
        let mut found = false;
        if shorten {
            self.short.clear();
            self.short.extend_from_slice(user);
            match next {
                Some(next) => cmp.shortest_separator(&mut self.short, user_key(next)),
                None => cmp.short_successor(&mut self.short),
            }
            found =
                self.short.len() <= user.len() && cmp.compare(user, &self.short) == Ordering::Less;
        }
        if found {
            self.keys.extend_from_slice(&self.short);
            self.keys.extend_from_slice(&SEPARATOR_TAG.to_le_bytes());
        } else {
            self.keys.extend_from_slice(last);
        }
        self.entries.push((self.keys.len(), handle));
    }

    /// Approximate size of the encoded index.
    pub(crate) fn estimate(&self) -> usize {
        self.keys.len() + self.entries.len() * 12
    }

    /// The index block, and its form.
    pub(crate) fn finish(&self, interval: usize) -> (Vec<u8>, IndexForm) {
        let form = IndexForm {
            user_keys: !self.spans,
            delta: true,
        };
        let mut builder = BlockBuilder::new(interval);
        let mut previous: &[u8] = &[];
        let mut before = BlockHandle::default();
        let mut start = 0;
        let (mut full, mut delta) = (Vec::new(), Vec::new());
        for &(end, handle) in &self.entries {
            let key = &self.keys[start..end];
            let key = if form.user_keys { user_key(key) } else { key };
            full.clear();
            handle.encode(&mut full);
            let change = handle.size.wrapping_sub(before.size) as i64;
            delta.clear();
            put_varint64(&mut delta, ((change << 1) ^ (change >> 63)) as u64);
            debug_assert!(
                self.entries.first().is_some_and(|f| f.1 == handle)
                    || before.offset + before.size + TRAILER_LEN as u64 == handle.offset
            );
            builder.add_delta(previous, key, &full, &delta);
            previous = key;
            before = handle;
            start = end;
        }
        (builder.finish().to_vec(), form)
    }
}
