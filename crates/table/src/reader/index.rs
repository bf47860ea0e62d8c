//! The index of an open table, with one level or two.
//!
//! The index, or the top level of two, stays with the reader or lives in the cache. Partitions are
//! read through the cache when they are needed; without a cache, and in level 0 if it is to be
//! pinned, they stay with the reader as well.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::TableReader;
use crate::CacheRole;
use crate::block::Block;
use crate::block::entry::bad_entry;
use crate::format::{BlockHandle, BlockKind};
use crate::index::{IndexForm, IndexTable, IndexType};
use crate::lookups::CachedKind;
use crate::options::ReadParams;
use spanlith_base::Result;
use spanlith_base::perf::PerfCounter;
use std::ops::Deref;
use std::sync::Arc;

/// The index, held for a moment.
pub(super) enum IndexRef<'a> {
    Resident(&'a Block),
    Cached(Arc<Block>),
}

/// An index without blocks, for blocks that are none.
static NO_INDEX: IndexTable = IndexTable::empty();

impl Deref for IndexRef<'_> {
    type Target = IndexTable;
    #[inline]
    fn deref(&self) -> &IndexTable {
        self.block().index().unwrap_or(&NO_INDEX)
    }
}

impl IndexRef<'_> {
    /// The block that it is in.
    #[inline]
    pub(super) fn block(&self) -> &Block {
        match self {
            Self::Resident(block) => block,
            Self::Cached(block) => block,
        }
    }
}

/// Shape of a table's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexShape {
    pub(super) kind: IndexType,
    pub(super) form: IndexForm,
}

/// Where the key before was found: in the index, or the top level of two, and in the partition below.
pub(super) struct Near {
    top: usize,
    below: usize,
}

impl Default for Near {
    /// Nowhere.
    fn default() -> Self {
        Self {
            top: usize::MAX,
            below: usize::MAX,
        }
    }
}

impl TableReader {
    /// Returns whether the index is the top level over partitions.
    #[inline]
    pub(crate) fn has_two_levels(&self) -> bool {
        self.index_shape.kind == IndexType::TwoLevelIndexSearch
    }

    /// How the index, or the top level of two, is encoded.
    pub(super) fn top_form(&self) -> IndexForm {
        IndexForm {
            first_keys: false,
            ..self.index_shape.form
        }
    }

    /// Reads and parses an index block.
    pub(super) fn load_index(
        &self,
        handle: BlockHandle,
        form: IndexForm,
        kind: BlockKind,
        params: &ReadParams,
    ) -> Result<Block> {
        let bytes = self.read_meta(handle, kind, params)?;
        let limit = self.footer.offset;
        let table = IndexTable::parse(&bytes, form, limit, &self.options.comparator)
            .map_err(|e| self.at(e, handle))?;
        let role = match kind {
            BlockKind::Filter => CacheRole::FilterMetaBlock,
            _ => CacheRole::IndexBlock,
        };
        Ok(self.guarded(Block::from_index(table, role), handle))
    }

    /// The index, or the top level of two, with the reader or in the cache.
    #[inline]
    pub(super) fn index(&self, params: &ReadParams) -> Result<IndexRef<'_>> {
        match &self.index {
            Some(block) => Ok(IndexRef::Resident(block)),
            None => Ok(IndexRef::Cached(self.cached_top(params)?)),
        }
    }

    /// [`Self::index`] with a share in it, for iterators.
    pub(crate) fn shared_index(&self, params: &ReadParams) -> Result<Arc<Block>> {
        match &self.index {
            Some(block) => Ok(block.clone()),
            None => self.cached_top(params),
        }
    }

    fn cached_top(&self, params: &ReadParams) -> Result<Arc<Block>> {
        self.cached_index(self.index_handle, params)
    }

    /// An index block in the cache, read if it is not there.
    pub(super) fn cached_index(
        &self,
        handle: BlockHandle,
        params: &ReadParams,
    ) -> Result<Arc<Block>> {
        if let Some(guard) = &self.guard
            && let Some(e) = guard.take_pending()
        {
            return Err(e);
        }
        if let Some(block) = self.cached_meta(handle)? {
            if params.is_counted {
                self.count_hit((CachedKind::Index, handle), &block, params);
            }
            return Ok(block);
        }
        self.may_read(params)?;
        let began = params.is_counted.then(|| self.moment()).flatten();
        let form = self.index_shape.form;
        let block = Arc::new(self.load_index(handle, form, BlockKind::Index, params)?);
        self.insert_meta(handle, &block)?;
        if params.is_counted {
            self.count_time(PerfCounter::ReadIndexBlockNanos, began);
            self.count_fill((CachedKind::Index, handle), &block, params);
        }
        Ok(block)
    }

    /// Partition number `i` below the top level.
    pub(crate) fn index_partition(
        &self,
        top: &IndexTable,
        i: usize,
        params: &ReadParams,
    ) -> Result<Arc<Block>> {
        if let Some(block) = self.index_partitions.get(i) {
            return Ok(block.clone());
        }
        let handle = self.handle_in(top, i)?.ok_or_else(bad_entry)?;
        self.cached_index(handle, params)
    }

    /// The first block of an index whose separator is not smaller than the target; its length if none is.
    ///
    /// # Errors
    /// `Corruption` if the index changed in memory.
    #[inline(always)]
    pub(crate) fn seek_in(&self, index: &IndexTable, key: (&[u8], u64)) -> Result<usize> {
        let cmp = &self.options.comparator;
        let found = index.seek(cmp, key.0, key.1);
        if index.is_guarded() {
            let checked = index.check_found(cmp, key, found);
            checked.map_err(|e| e.with_path(self.file.path()))?;
        }
        Ok(found)
    }

    /// The block of an entry of an index, if there is one.
    ///
    /// # Errors
    /// `Corruption` if the entry changed in memory.
    #[inline(always)]
    pub(crate) fn handle_in(&self, index: &IndexTable, i: usize) -> Result<Option<BlockHandle>> {
        if index.is_guarded() {
            let checked = index.check_entry(i);
            checked.map_err(|e| e.with_path(self.file.path()))?;
        }
        Ok(index.handle(i))
    }

    /// Reads all partitions, to stay with the reader.
    pub(super) fn load_index_partitions(
        &self,
        verify: bool,
    ) -> Result<Vec<(BlockHandle, Arc<Block>)>> {
        let params = self.opening_params(verify);
        let top = self.index(&params)?;
        let form = self.index_shape.form;
        let load = |handle: BlockHandle| {
            let block = self.load_index(handle, form, BlockKind::Index, &params)?;
            Ok((handle, Arc::new(block)))
        };
        top.handles().map(load).collect()
    }

    /// Calls `each` with the index, or with its partitions in order.
    pub(super) fn for_each_index(
        &self,
        params: &ReadParams,
        mut each: impl FnMut(&IndexTable) -> Result<()>,
    ) -> Result<()> {
        if let Some(flat) = self.flat() {
            return each(flat.index()?.index().unwrap_or(&NO_INDEX));
        }
        let top = self.index(params)?;
        self.check_whole(top.block(), self.index_handle)?;
        if !self.has_two_levels() {
            return each(&top);
        }
        for i in 0..top.len() {
            let partition = self.index_partition(&top, i, params)?;
            self.check_whole(&partition, top.handle(i).unwrap_or_default())?;
            each(partition.index().unwrap_or(&NO_INDEX))?;
        }
        Ok(())
    }

    /// The data block that holds a key, or would; `None` after the last.
    pub(super) fn find_block(
        &self,
        user: &[u8],
        tag: u64,
        params: &ReadParams,
    ) -> Result<Option<BlockHandle>> {
        self.find_block_near((user, tag), params, &mut Near::default())
    }

    /// [`Self::find_block`] for keys in order, each from where the one before was found.
    pub(super) fn find_block_near(
        &self,
        key: (&[u8], u64),
        params: &ReadParams,
        near: &mut Near,
    ) -> Result<Option<BlockHandle>> {
        if let Some(flat) = self.flat() {
            let block = flat.index()?;
            let index = block.index().unwrap_or(&NO_INDEX);
            return Ok(index.handle(self.seek_in(index, key)?));
        }
        let top = self.index(params)?;
        let at = self.seek_near_in(&top, key, near.top)?;
        if at != near.top {
            near.below = usize::MAX;
        }
        near.top = at;
        let handle = top.handle(at);
        if handle.is_none() || !self.has_two_levels() {
            return Ok(handle);
        }
        let partition = self.index_partition(&top, at, params)?;
        let index = partition.index().unwrap_or(&NO_INDEX);
        near.below = self.seek_near_in(index, key, near.below)?;
        Ok(index.handle(near.below))
    }

    #[inline]
    fn seek_near_in(&self, index: &IndexTable, key: (&[u8], u64), near: usize) -> Result<usize> {
        if index.is_guarded() {
            // Where the last key was found may have changed since.
            return self.seek_in(index, key);
        }
        Ok(index.seek_near(&self.options.comparator, key, near))
    }
}
