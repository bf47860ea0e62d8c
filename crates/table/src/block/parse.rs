//! Takes a block apart from its end.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::entry::{bad_entry, header};
use super::rewrite::rewrite;
use super::seek::common_prefix;
use super::{Block, COMMON_MAX};
use spanlith_base::coding::get_fixed32;
use spanlith_base::keys::{TAG_LEN, split_internal};
use spanlith_base::{Comparator, Error, Result};
use std::ops::Range;

pub(super) const HASH_INDEX: u32 = 1 << 31;
const RESERVED: u32 = 1 << 30;
pub(super) const UNIFORM: u32 = 1 << 29;
pub(super) const SEPARATED: u32 = 1 << 28;

/// Where the parts of a generic block are.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// End of the entries: where the restart array begins, or the values if they are separated.
    pub(crate) entries_end: usize,
    /// Where the restart array begins.
    pub(crate) restarts: usize,
    /// Says whether values are kept apart from the keys.
    pub(crate) separated: bool,
    /// Buckets of the hash index; empty if there is none.
    pub(crate) buckets: Range<usize>,
    /// Number of restart points.
    pub(crate) num_restarts: usize,
    /// Bytes in front of the entries: the prefix that all user keys have in common, which keys at restart
    /// points are stored without. Tables of format version 8 have such blocks.
    pub(crate) prefix: usize,
}

/// Finds the parts of a generic block.
///
/// # Errors
/// `Corruption` if the block is too small for what its footer says.
pub(crate) fn parts(data: &[u8]) -> Result<Parts> {
    let bad = || Error::corruption("bad block contents");
    let mut end = data.len().checked_sub(4).ok_or_else(bad)?;
    let packed = get_fixed32(data, end).ok_or_else(bad)?;
    if packed & RESERVED != 0 {
        return Err(bad());
    }
    let separated = packed & SEPARATED != 0;
    let mut values = 0;
    if separated {
        end = end.checked_sub(4).ok_or_else(bad)?;
        values = get_fixed32(data, end).ok_or_else(bad)? as usize;
    }
    let mut buckets = 0..0;
    if packed & HASH_INDEX != 0 {
        let at = end.checked_sub(2).ok_or_else(bad)?;
        let Some(&[a, b]) = data.get(at..end) else {
            return Err(bad());
        };
        end = at
            .checked_sub(usize::from(u16::from_le_bytes([a, b])))
            .ok_or_else(bad)?;
        buckets = end..at;
    }
    let num_restarts = (packed & (SEPARATED - 1)) as usize;
    let bytes = num_restarts.checked_mul(4).ok_or_else(bad)?;
    let restarts = end.checked_sub(bytes).ok_or_else(bad)?;
    let entries_end = if separated { values } else { restarts };
    if num_restarts == 0 || entries_end > restarts {
        return Err(bad());
    }
    let prefix = get_fixed32(data, restarts).ok_or_else(bad)? as usize;
    if prefix > 0 && prefix >= entries_end {
        return Err(Error::corruption("bad restart point in block"));
    }
    Ok(Parts {
        entries_end,
        restarts,
        separated,
        buckets,
        num_restarts,
        prefix,
    })
}

impl Block {
    /// A data block from its uncompressed bytes; with `arrays` the order words are built too.
    ///
    /// # Errors
    /// `Corruption` if restart points and entries contradict each other.
    pub(crate) fn data(data: Vec<u8>, cmp: &Comparator, arrays: bool) -> Result<Self> {
        let mut block = Self::raw(data);
        block.parse(cmp, arrays)?;
        Ok(block)
    }

    /// A data block in the memory of `old`.
    ///
    /// # Errors
    /// As [`Self::data`].
    pub(crate) fn reparse(&mut self, cmp: &Comparator, arrays: bool) -> Result<()> {
        self.restarts.clear();
        self.prefixes.clear();
        self.common_len = 0;
        self.entries_end = 0;
        self.checksum_len = 0;
        self.buckets = 0..0;
        self.parse(cmp, arrays)
    }

    /// Lets `f` replace the bytes, before [`Self::reparse`].
    pub(crate) fn edit<R>(&mut self, f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        self.data.edit(f)
    }

    fn parse(&mut self, cmp: &Comparator, arrays: bool) -> Result<()> {
        let bad = || Error::corruption("bad restart point in block");
        let mut parts = parts(&self.data)?;
        if parts.separated || parts.prefix > 0 {
            self.data = rewrite(&self.data, |_, value| Ok(value.into()))?.into();
            parts = super::parse::parts(&self.data)?;
        }
        self.entries_end = parts.entries_end;
        if !matches!(cmp, Comparator::User(_)) {
            self.buckets = parts.buckets;
        }
        let (entries, tail) = self
            .data
            .split_at_checked(parts.entries_end)
            .ok_or_else(bad)?;
        if entries.is_empty() {
            // One restart at 0 that names no entry.
            return Ok(());
        }
        for chunk in tail.chunks_exact(4).take(parts.num_restarts) {
            let offset = chunk.try_into().map(u32::from_le_bytes).unwrap_or(u32::MAX);
            let ordered = match self.restarts.as_slice().last() {
                None => offset == 0,
                Some(&before) => before < offset,
            };
            let whole = header(entries, offset as usize)
                .is_some_and(|h| h.shared == 0 && h.value - h.key >= TAG_LEN);
            if !ordered || !whole {
                return Err(bad());
            }
            self.restarts.push(offset, parts.num_restarts);
        }
        if arrays && !matches!(cmp, Comparator::User(_)) {
            self.build_prefixes(cmp)?;
        }
        Ok(())
    }

    fn build_prefixes(&mut self, cmp: &Comparator) -> Result<()> {
        let entries = self.data.get(..self.entries_end).unwrap_or_default();
        let user_key = |restart: u32| {
            let h = header(entries, restart as usize).ok_or_else(bad_entry)?;
            let key = entries.get(h.key..h.value).and_then(split_internal);
            key.map(|(user, _)| user).ok_or_else(bad_entry)
        };
        let restarts = self.restarts.as_slice();
        let (Some(&first), Some(&last)) = (restarts.first(), restarts.last()) else {
            return Ok(());
        };
        let (first, last) = (user_key(first)?, user_key(last)?);
        let common = common_prefix(first, last).min(COMMON_MAX);
        for (to, from) in self.common.iter_mut().zip(first.iter().take(common)) {
            *to = *from;
        }
        // At most `COMMON_MAX`.
        self.common_len = common as u8;
        for &restart in restarts {
            let word = cmp.prefix(user_key(restart)?.get(common..).unwrap_or_default());
            self.prefixes.push(word, restarts.len());
        }
        Ok(())
    }
}
