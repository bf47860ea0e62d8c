//! The index of a table: which block holds which keys.
//!
//! An index block has one entry per data block; its key `s` satisfies
//! `last key of the block <= s < first key of the next`. When read it is parsed into flat arrays; the
//! block of a target is the first whose `s` is not smaller.
//!
//! Keys are user keys if no user key spans two blocks, internal keys otherwise. Values are handles,
//! either plain or as differences to the previous one; two properties say which. Index type 3 adds
//! the first key of each block to its handle.
//!
//! Index type 2 has two levels: partitions, each an index block, and above them a block of the same
//! form whose handles are those of the partitions. Index type 1 has one level and two meta blocks
//! that map prefixes to data blocks; they are written for other readers and not used here.

mod build;
mod hash;
mod partition;
mod sums;
mod table;
mod uniform;

pub(crate) use build::{FinishedIndex, IndexBuilder, TopLevel};
pub(crate) use hash::{METADATA, accounts_for};
pub(crate) use table::{IndexForm, IndexTable};

/// Structure of a table's index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum IndexType {
    /// One block, binary search.
    #[default]
    BinarySearch = 0,
    /// One block, and a map from prefixes to data blocks. Needs a prefix extractor.
    HashSearch = 1,
    /// Partitions below a top level.
    TwoLevelIndexSearch = 2,
    /// One block whose entries also hold the first key of each data block.
    BinarySearchWithFirstKey = 3,
}

impl IndexType {
    /// The type of a number in the properties.
    pub fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::BinarySearch),
            1 => Some(Self::HashSearch),
            2 => Some(Self::TwoLevelIndexSearch),
            3 => Some(Self::BinarySearchWithFirstKey),
            _ => None,
        }
    }
}
