//! Blocks and an index that are made of entries when somebody walks over a table that has none.

use crate::CacheRole;
use crate::block::Block;
use crate::block::build::BlockBuilder;
use crate::block::seek::common_prefix;
use crate::format::BlockHandle;
use crate::index::{IndexForm, IndexTable};
use spanlith_base::keys::append_internal;
use spanlith_base::{Comparator, Result};
use std::sync::Arc;

/// Entries between restart points.
const INTERVAL: usize = 16;

/// Makes one data block.
pub(crate) struct BlockWriter {
    block: BlockBuilder,
    last: Vec<u8>,
    key: Vec<u8>,
}

impl Default for BlockWriter {
    fn default() -> Self {
        Self {
            block: BlockBuilder::new(INTERVAL),
            last: Vec::new(),
            key: Vec::new(),
        }
    }
}

impl BlockWriter {
    /// Adds the next entry.
    pub(crate) fn add(&mut self, user_key: &[u8], tag: u64, value: &[u8]) {
        self.key.clear();
        append_internal(&mut self.key, user_key, tag);
        let shared = common_prefix(&self.last, &self.key);
        self.block.add(&self.key, value, shared);
        std::mem::swap(&mut self.last, &mut self.key);
    }

    /// The block.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.block.finish().to_vec()
    }
}

/// Makes an index with the last key of each block.
pub(crate) struct VirtualIndex {
    block: BlockBuilder,
    key: Vec<u8>,
}

impl Default for VirtualIndex {
    fn default() -> Self {
        Self {
            block: BlockBuilder::new(1),
            key: Vec::new(),
        }
    }
}

/// How separators and handles are encoded.
pub(crate) const FORM: IndexForm = IndexForm {
    user_keys: false,
    delta: false,
    first_keys: false,
    padding: 0,
    escapes: false,
};

impl VirtualIndex {
    /// Adds the block at `handle`, which ends with this key.
    pub(crate) fn add(&mut self, user_key: &[u8], tag: u64, handle: BlockHandle) {
        self.key.clear();
        append_internal(&mut self.key, user_key, tag);
        let mut value = Vec::new();
        handle.encode(&mut value);
        self.block.add(&self.key, &value, 0);
    }

    /// The index, ready to be searched.
    ///
    /// # Errors
    /// None for keys in order.
    pub(crate) fn finish(mut self, comparator: &Comparator) -> Result<Arc<Block>> {
        if self.block.is_empty() {
            return Ok(empty_index());
        }
        let table = IndexTable::parse(self.block.finish(), FORM, u64::MAX, comparator)?;
        Ok(Arc::new(Block::from_index(table, CacheRole::IndexBlock)))
    }
}

/// An index of no blocks.
pub(crate) fn empty_index() -> Arc<Block> {
    Arc::new(Block::from_index(
        IndexTable::empty(),
        CacheRole::IndexBlock,
    ))
}
