//! Blocks in memory: bytes, restart points, and the arrays that make a seek short.
//!
//! ```text
//! entries ... | restart array: n x fixed32 | [hash index] | packed footer: fixed32
//! entry: varint32 shared, varint32 non_shared, varint32 value_len, key bytes, value bytes
//! ```
//!
//! A key repeats `shared` bytes of its predecessor; at a restart point `shared` is 0. Bit 31 of the
//! packed footer announces a data-block hash index (accepted and skipped), bit 29 a hint about key
//! spacing (skipped), bit 28 separated keys and values (refused).
//!
//! Beside the bytes a block keeps, for the built-in comparators, eight bytes of each restart key
//! behind the prefix that all restart keys share, so that a seek is a search over one small array.
//!
//! Invariants checked when a block is made, and relied upon later: restart offsets rise strictly,
//! lie inside the entries and name complete keys that hold at least a tag.

pub(crate) mod build;
pub(crate) mod cursor;
pub(crate) mod entry;
mod parse;
pub(crate) use parse::parts;
mod pin;
pub(crate) mod seek;

use crate::index::IndexTable;
use spanlith_base::Comparator;

/// A block in its uncompressed form.
pub struct Block {
    data: Vec<u8>,
    /// Where the entries end and the restart array begins.
    entries_end: usize,
    restarts: Vec<u32>,
    /// Position and length, in `data`, of the prefix common to all restart keys.
    common: (u32, u32),
    /// Order word of each restart key behind the common prefix; empty if not built.
    prefixes: Vec<u64>,
    /// Present in index blocks.
    index: Option<Box<IndexTable>>,
}

impl Block {
    /// A block without entries of its own: the contents of a filter.
    pub(crate) fn raw(data: Vec<u8>) -> Self {
        Self {
            data,
            entries_end: 0,
            restarts: Vec::new(),
            common: (0, 0),
            prefixes: Vec::new(),
            index: None,
        }
    }

    /// An index block in its searchable form.
    pub(crate) fn from_index(index: IndexTable) -> Self {
        let mut block = Self::raw(Vec::new());
        block.index = Some(Box::new(index));
        block
    }

    /// The bytes of the block, uncompressed.
    pub fn bytes(&self) -> &[u8] {
        &self.data
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
        self.restarts.len()
    }

    /// Bytes of memory it occupies; the charge in the cache.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>()
            + self.data.capacity()
            + self.restarts.capacity() * 4
            + self.prefixes.capacity() * 8
            + self.index.as_ref().map_or(0, |i| i.memory_usage())
    }

    /// Whether order words were built for `cmp`.
    #[inline]
    fn has_prefixes(&self, cmp: &Comparator) -> bool {
        !matches!(cmp, Comparator::User(_)) && !self.prefixes.is_empty()
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block")
            .field("bytes", &self.data.len())
            .field("restarts", &self.restarts.len())
            .finish()
    }
}
