//! Blocks of index and filter under checksums in memory (`block_protection_bytes_per_key`).
//!
//! A table that is opened with the option keeps no block of index or filter in its fields. What would stay
//! with the reader is held here and, like what lives in the cache, fetched by its handle. So tables without
//! the option pay nothing, and a block is checked where it is used: of an index the entries that decide
//! where a search ends and those that an iterator comes to, of a Bloom filter the chunk that answers. Other
//! filters, and indexes in the order of a user comparator, are verified whole each time they are taken.
//!
//! Filters answer yes or no. One that changed answers yes, and the index, which is asked next, reports it:
//! to this lookup, or to another that comes between.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::TableReader;
use crate::CacheRole;
use crate::block::Block;
use crate::block::protection::changed;
use crate::filter::{FULL_FILTER_NAME, PARTITIONED_FILTER_NAME, hash64};
use crate::format::{BlockHandle, BlockKind};
use crate::index::IndexTable;
use spanlith_base::{Error, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// Describes what a reader with protected blocks keeps.
#[derive(Default)]
pub(super) struct Guard {
    /// Blocks that stay with the reader, by offset.
    held: Vec<(BlockHandle, Arc<Block>)>,
    /// A filter that changed, until the index reports it.
    pending: Mutex<Option<Error>>,
}

impl Guard {
    /// Keeps a block. Requires: all are kept before any is looked for.
    pub(super) fn hold(&mut self, handle: BlockHandle, block: Arc<Block>) {
        let at = self.held.partition_point(|b| b.0.offset < handle.offset);
        self.held.insert(at, (handle, block));
    }

    fn find(&self, handle: BlockHandle) -> Option<Arc<Block>> {
        let at = self.held.partition_point(|b| b.0.offset < handle.offset);
        let found = self.held.get(at).filter(|b| b.0 == handle);
        found.map(|b| b.1.clone())
    }

    fn note(&self, error: &Error) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        *pending = Some(error.clone());
    }

    /// Returns what a filter found out.
    pub(super) fn take_pending(&self) -> Option<Error> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.take()
    }

    /// Bytes of the blocks it keeps.
    pub(super) fn memory_usage(&self) -> usize {
        self.held.iter().map(|b| b.1.memory_usage()).sum()
    }
}

impl TableReader {
    /// Gives a block of index or filter its checksum, if the table is read with them.
    pub(super) fn guarded(&self, mut block: Block, handle: BlockHandle) -> Block {
        block.protect_meta(handle, self.options.block_protection_bytes);
        block
    }

    /// Returns whether a filter block can be believed about a hash. If not, the index will report it.
    #[inline]
    pub(super) fn believes(&self, block: &Block, handle: BlockHandle, hash: u64) -> bool {
        match &self.guard {
            Some(guard) if block.is_checked_in_use() => {
                let intact = block.vouches_for(hash);
                if !intact {
                    guard.note(&self.at(changed(), handle));
                }
                intact
            }
            _ => true,
        }
    }

    /// [`Self::believes`] about a key or prefix.
    #[inline]
    pub(super) fn believes_entry(&self, block: &Block, handle: BlockHandle, entry: &[u8]) -> bool {
        self.guard.is_none() || self.believes(block, handle, hash64(entry))
    }

    /// The first block of an index over filter blocks whose separator is not smaller than the target. If the
    /// index changed there is no answer, and the index of the table will report it.
    pub(super) fn filter_seek(&self, top: &IndexTable, key: (&[u8], u64)) -> Option<usize> {
        match (self.seek_in(top, key), &self.guard) {
            (Ok(at), _) => Some(at),
            (Err(e), guard) => {
                if let Some(guard) = guard {
                    guard.note(&e);
                }
                None
            }
        }
    }

    /// Verifies all of an index.
    ///
    /// # Errors
    /// `Corruption` if it is not what it was.
    pub(super) fn check_whole(&self, block: &Block, handle: BlockHandle) -> Result<()> {
        if self.guard.is_some() && !block.is_intact() {
            return Err(self.at(changed(), handle));
        }
        Ok(())
    }

    /// A block of index or filter that is held or in the cache.
    ///
    /// # Errors
    /// `Corruption` if it is not what was put there; of a block that is checked in use, then.
    #[inline(never)]
    pub(super) fn guarded_meta(
        &self,
        guard: &Guard,
        handle: BlockHandle,
    ) -> Result<Option<Arc<Block>>> {
        let cached = || self.options.cache.as_ref()?.lookup(&self.cache_key(handle));
        let found = guard.find(handle).or_else(cached);
        match &found {
            Some(block) if !block.is_checked_in_use() && !block.is_intact() => {
                Err(self.at(changed(), handle))
            }
            _ => Ok(found),
        }
    }

    /// As [`Self::cached_meta`] for a filter, which answers yes if it changed: the index will report it.
    pub(super) fn cached_filter_meta(&self, handle: BlockHandle) -> Result<Option<Arc<Block>>> {
        let found = self.cached_meta(handle);
        if let (Err(e), Some(guard)) = (&found, &self.guard) {
            guard.note(e);
        }
        found
    }

    /// Reads the filter that stays with the reader: all of it, or the top level of partitions. What cannot
    /// be read is asked for again when it is needed.
    pub(super) fn hold_filter(&self, all: bool, verify: bool) -> Vec<(BlockHandle, Arc<Block>)> {
        let mut blocks = Vec::new();
        let read = |handle: BlockHandle| {
            let bytes = self.read(handle, BlockKind::Filter, verify).ok()?;
            let block = self.guarded(Block::raw_as(CacheRole::FilterBlock, bytes), handle);
            Some((handle, Arc::new(block)))
        };
        if let Some(handle) = self.meta(FULL_FILTER_NAME) {
            blocks.extend(read(handle).filter(|_| all));
        } else if let Some(handle) = self.meta(PARTITIONED_FILTER_NAME).filter(|h| h.size > 0) {
            let form = self.top_form();
            let params = self.opening_params(verify);
            if let Ok(top) = self.load_index(handle, form, BlockKind::Filter, &params) {
                if let Some(partitions) = top.index().filter(|_| all) {
                    blocks.extend(partitions.handles().filter_map(read));
                }
                blocks.push((handle, Arc::new(top)));
            }
        }
        blocks
    }
}

#[cfg(test)]
mod tests;
