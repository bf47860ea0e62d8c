//! Tables without blocks: cuckoo tables, which are hash tables, and plain tables, which are records in a row.
//!
//! Their entries have neither checksums nor a codec (T2 holds for none of their bytes), and their meta blocks no
//! trailers. A reader of blocks and an index above them walks over such a table all the same: [`FlatTable`] makes an
//! index when the first walk begins, and its blocks as they are needed. So iterators, compactions and verification
//! know of one form only, and their hot paths of none of this. Point lookups in a cuckoo table go by its hashes.
//!
//! Threads: a table is shared freely.

mod blocks;
mod cuckoo;
mod file;
mod footer;
mod plain;
mod write;

pub(crate) use blocks::{FORM, empty_index};
pub use cuckoo::CuckooOptions;
pub(crate) use cuckoo::CuckooTable;
pub(crate) use file::FlatFile;
pub(crate) use footer::{FlatFooter, FlatKind};
pub(crate) use plain::PlainTable;
pub use plain::{PlainEncoding, PlainOptions};
pub(crate) use write::FlatWriter;

use crate::block::Block;
use crate::format::BlockHandle;
use crate::properties::TableProperties;
use spanlith_base::{Comparator, Result};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Bytes of entries that become one block.
const ONE_BLOCK: usize = 4096;

/// Describes how the tables of a family are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum TableFormat {
    /// Blocks and an index above them.
    #[default]
    BlockBased,
    /// A hash table of keys and values of one length each.
    Cuckoo(CuckooOptions),
    /// Records one after the other.
    Plain(PlainOptions),
}

/// Takes an entry that a lookup found: its tag, its value, and the owner of the value.
pub(crate) type FlatSink<'a> = &'a mut dyn FnMut(u64, &[u8], &Arc<Block>) -> ControlFlow<()>;

/// An open table without blocks.
pub(crate) enum FlatTable {
    Cuckoo(CuckooTable),
    Plain(PlainTable),
}

impl FlatTable {
    /// Opens a table of this kind.
    ///
    /// # Errors
    /// `Corruption` if properties are missing or contradict each other.
    pub(crate) fn open(
        kind: FlatKind,
        file: FlatFile,
        properties: &TableProperties,
        comparator: &Comparator,
    ) -> Result<Self> {
        match kind {
            FlatKind::Cuckoo => CuckooTable::open(file, properties, comparator).map(Self::Cuckoo),
            FlatKind::Plain => PlainTable::open(file, properties, comparator).map(Self::Plain),
        }
    }

    /// Returns the table if it finds keys by themselves, without the index.
    pub(crate) fn by_hash(&self) -> Option<&CuckooTable> {
        match self {
            Self::Cuckoo(table) => Some(table),
            Self::Plain(_) => None,
        }
    }

    /// The index above the blocks, made if nobody asked for it yet.
    ///
    /// # Errors
    /// Of reading the file; `Corruption`.
    pub(crate) fn index(&self) -> Result<Arc<Block>> {
        match self {
            Self::Cuckoo(table) => table.index(),
            Self::Plain(table) => table.index(),
        }
    }

    /// The bytes of a block of the index.
    ///
    /// # Errors
    /// Of reading the file; `Corruption`.
    pub(crate) fn block(&self, handle: BlockHandle) -> Result<Vec<u8>> {
        match self {
            Self::Cuckoo(table) => table.block(handle),
            Self::Plain(table) => table.block(handle),
        }
    }

    /// Bytes of memory it occupies.
    pub(crate) fn memory_usage(&self) -> usize {
        match self {
            Self::Cuckoo(table) => size_of::<Self>() + table.memory_usage(),
            Self::Plain(table) => size_of::<Self>() + table.memory_usage(),
        }
    }
}
