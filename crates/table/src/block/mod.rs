//! Blocks in memory: bytes, restart points, and the arrays that make a seek short.
//!
//! ```text
//! entries ... | restart array: n x fixed32 | [hash index] | packed footer: fixed32
//! entry: varint32 shared, varint32 non_shared, varint32 value_len, key bytes, value bytes
//! ```
//!
//! A key repeats `shared` bytes of its predecessor; at a restart point `shared` is 0. Bit 31 of the
//! packed footer announces a data-block hash index, bit 29 a hint about key spacing (written into indexes on request, not used), bit
//! 28 separated keys and values (rewritten when the block is loaded).
//!
//! Beside the bytes a block keeps, for the built-in comparators, eight bytes of each restart key
//! after the prefix that all restart keys share, so that a seek is a search over one small array.
//!
//! Invariants checked when a block is made, and relied upon later: restart offsets rise strictly,
//! lie inside the entries and name complete keys that hold at least a tag.

pub(crate) mod build;
pub(crate) mod cursor;
pub(crate) mod entry;
mod parse;
pub(crate) use parse::parts;
pub(crate) use rewrite::rewrite;
mod hash_index;
mod pin;
pub(crate) mod protection;
mod rewrite;
mod role;
pub(crate) mod seek;
mod small;

pub use role::CacheRole;

use crate::index::IndexTable;
use small::Small;
use spanlith_base::Comparator;
use spanlith_base::memory::HeldBytes;
use std::ops::Range;

/// Longest common prefix that is skipped before order words are taken. A longer one makes all words
/// equal, and whole keys are compared.
const COMMON_MAX: usize = 32;

/// A block in its uncompressed form.
pub struct Block {
    data: HeldBytes,
    /// Where the entries end and the restart array begins.
    entries_end: usize,
    restarts: Small<u32>,
    /// The prefix common to all restart keys, as far as it is used.
    common: [u8; COMMON_MAX],
    /// Bytes of `common` in use.
    common_len: u8,
    role: CacheRole,
    /// Bytes of a checksum at the end of `data`; 0 without one.
    checksum_len: u8,
    /// Order word of each restart key after `common`; empty if not built. Of a filter the checksums of its
    /// chunks, if it has them.
    prefixes: Small<u64>,
    /// Buckets of the hash index; empty if there is none or the comparator cannot use it.
    buckets: Range<usize>,
    /// Present in index blocks.
    index: Option<Box<IndexTable>>,
}

impl Block {
    /// A block without entries of its own: the contents of a filter, or whatever else a cache keeps.
    pub fn raw(data: Vec<u8>) -> Self {
        Self {
            data: data.into(),
            entries_end: 0,
            restarts: Small::new(),
            common: [0; COMMON_MAX],
            common_len: 0,
            role: CacheRole::DataBlock,
            checksum_len: 0,
            prefixes: Small::new(),
            buckets: 0..0,
            index: None,
        }
    }

    /// As [`Self::raw`], for a cache that tells what its entries are.
    pub fn raw_as(role: CacheRole, data: Vec<u8>) -> Self {
        Self {
            role,
            ..Self::raw(data)
        }
    }

    /// As [`Self::raw_as`], of a copy of `data` where the bytes of a cache lie.
    pub fn raw_copy(role: CacheRole, data: &[u8]) -> Self {
        Self {
            data: HeldBytes::settled_copy(data),
            ..Self::raw_as(role, Vec::new())
        }
    }

    /// A block without contents: an entry of the cache that stands for memory elsewhere.
    pub fn empty(role: CacheRole) -> Self {
        Self::raw_as(role, Vec::new())
    }

    /// Returns what it is.
    pub fn role(&self) -> CacheRole {
        self.role
    }

    /// An index block in its searchable form.
    pub(crate) fn from_index(index: IndexTable, role: CacheRole) -> Self {
        let mut block = Self::empty(role);
        block.index = Some(Box::new(index));
        block
    }

    /// The bytes of the block, uncompressed.
    pub fn bytes(&self) -> &[u8] {
        &self.data[..self.data.len() - usize::from(self.checksum_len)]
    }

    /// The parsed index, if this is an index block.
    pub(crate) fn index(&self) -> Option<&IndexTable> {
        self.index.as_deref()
    }

    /// The entries, without restart array and footer.
    #[inline]
    pub(crate) fn entries(&self) -> &[u8] {
        &self.data[..self.entries_end]
    }

    /// Number of restart points.
    pub fn num_restarts(&self) -> usize {
        self.restarts.as_slice().len()
    }

    /// Bytes of memory it occupies; the charge in the cache.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>()
            + self.data.memory_usage()
            + self.restarts.heap_usage()
            + self.prefixes.heap_usage()
            + self.index.as_ref().map_or(0, |i| i.memory_usage())
    }

    /// Moves the bytes to where those of a cache lie.
    pub(crate) fn settle(&mut self) {
        self.data.settle();
    }

    /// Returns whether order words were built for `cmp`.
    #[inline]
    fn has_prefixes(&self, cmp: &Comparator) -> bool {
        !matches!(cmp, Comparator::User(_)) && !self.prefixes.as_slice().is_empty()
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block")
            .field("bytes", &self.data.len())
            .field("restarts", &self.num_restarts())
            .finish()
    }
}

#[cfg(test)]
mod tests;
