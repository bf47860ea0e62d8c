//! Iterates over a table in both directions.
//!
//! Holds the index, one data block, and a read-ahead buffer. After an error it is not valid and
//! [`TableIter::status`] says why; a new seek starts afresh.

use crate::activity::ReadActivity;
use crate::block::Block;
use crate::block::cursor::BlockCursor;
use crate::block::seek::compare;
use crate::format::{BlockHandle, BlockKind, TRAILER_LEN};
use crate::index::IndexTable;
use crate::lookups::CachedKind;
use crate::options::ReadParams;
use crate::readahead::ReadAhead;
use crate::reader::{PrefixSeek, TableReader};
use spanlith_base::keys::split_internal;
use spanlith_base::{Error, Pinned, Result};
use std::cmp::Ordering;
use std::sync::Arc;

/// A position in a table. Keys are internal keys.
pub struct TableIter {
    reader: Arc<TableReader>,
    params: ReadParams,
    /// The top level of a two-level index, once it was needed.
    top: Option<Arc<Block>>,
    /// Number of the partition that `index` is, if there are two levels.
    partition: usize,
    /// The index, or one of its partitions, once it was needed.
    index: Option<Arc<Block>>,
    /// Number of the current data block in `index`.
    block: usize,
    cursor: BlockCursor,
    readahead: ReadAhead,
    failed: Option<Error>,
    /// A user key after which nobody wants entries.
    upper: Option<Arc<[u8]>>,
    /// All entries of the current data block lie before `upper`.
    is_within: bool,
    /// Says what was counted since the last seek.
    since_seek: SinceSeek,
}

/// Describes what a seek has come to, as it is counted.
#[derive(Clone, Copy, PartialEq)]
enum SinceSeek {
    Nothing,
    /// A data block was fetched.
    Fetched,
    /// And somebody wanted an entry of it.
    Wanted,
}

impl TableIter {
    pub(crate) fn new(reader: Arc<TableReader>, params: ReadParams) -> Self {
        Self {
            reader,
            params,
            top: None,
            partition: usize::MAX,
            index: None,
            block: 0,
            cursor: BlockCursor::default(),
            readahead: ReadAhead::default(),
            failed: None,
            upper: None,
            is_within: false,
            since_seek: SinceSeek::Nothing,
        }
    }

    /// Finds out, from now on, of each data block whether all of it lies before a user key
    /// ([`Self::is_within`]). For keys without timestamps.
    pub fn bound(&mut self, upper: Arc<[u8]>) {
        self.upper = Some(upper);
    }

    /// Returns whether it is known that the entry lies before the bound. Requires: valid.
    #[inline]
    pub fn is_within(&self) -> bool {
        self.is_within
    }

    /// Returns whether it is at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.cursor.valid()
    }

    /// The internal key. Requires: valid.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    /// The value. Requires: valid.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.cursor.value()
    }

    /// The value, sharing the block it is in. Requires: valid.
    pub fn value_pinned(&self) -> Pinned {
        self.cursor.value_pinned()
    }

    /// The error that made it invalid, if any.
    ///
    /// # Errors
    /// That error.
    pub fn status(&self) -> Result<()> {
        match &self.failed {
            Some(e) => Err(e.clone()),
            None => Ok(()),
        }
    }

    /// Number of the current data block, from 0; in its partition, if the index has two levels.
    /// Requires: valid.
    pub fn block_number(&self) -> usize {
        self.block
    }

    /// Where the current data block is. Requires: valid.
    pub(crate) fn block_handle(&self) -> Option<BlockHandle> {
        self.index_table()?.handle(self.block)
    }

    /// The table it reads.
    pub fn reader(&self) -> &Arc<TableReader> {
        &self.reader
    }

    /// Goes to the first entry.
    pub fn seek_to_first(&mut self) {
        let done = self.start().and_then(|()| self.try_first());
        self.finish(done);
    }

    /// Goes to the last entry.
    pub fn seek_to_last(&mut self) {
        let done = self.start().and_then(|()| self.try_last());
        self.finish(done);
    }

    /// Goes to the first entry not smaller than the internal key `target`.
    pub fn seek(&mut self, target: &[u8]) {
        let done = self.start().and_then(|()| self.try_seek(target));
        self.finish(done);
    }

    /// Goes to the last entry not larger than the internal key `target`.
    pub fn seek_for_prev(&mut self, target: &[u8]) {
        let done = self.start().and_then(|()| self.try_seek_for_prev(target));
        self.finish(done);
    }

    /// Goes to the next entry; whether there is one. Requires: valid.
    #[allow(clippy::should_implement_trait, reason = "a move, not an iteration")]
    #[inline(always)]
    pub fn next(&mut self) -> bool {
        self.cursor.advance_short() || self.next_slow()
    }

    /// Key and value. Requires: valid.
    #[inline]
    pub fn entry(&self) -> (&[u8], &[u8]) {
        (self.cursor.key(), self.cursor.value())
    }

    /// Goes to the previous entry. Requires: valid.
    #[inline]
    pub fn prev(&mut self) {
        if !self.cursor.retreat_short() {
            self.prev_slow();
        }
    }

    #[inline(never)]
    fn next_slow(&mut self) -> bool {
        match self.cursor.advance() {
            Ok(true) => {}
            Ok(false) => {
                let done = self.first_from(self.block + 1);
                self.finish(done);
            }
            Err(e) => self.fail_in_block(e),
        }
        self.valid()
    }

    #[inline(never)]
    fn prev_slow(&mut self) {
        match self.cursor.prev() {
            Ok(true) => {}
            Ok(false) => {
                let done = self.last_before(self.block);
                self.finish(done);
            }
            Err(e) => self.fail_in_block(e),
        }
    }

    #[cold]
    fn fail_in_block(&mut self, e: Error) {
        let e = self.located(e);
        self.finish(Err(e));
    }

    /// Adds file and block to an error of the current block.
    #[cold]
    fn located(&self, e: Error) -> Error {
        match self.block_handle() {
            Some(handle) => self.reader.at(e, handle),
            None => e,
        }
    }

    fn finish(&mut self, done: Result<()>) {
        if let Err(e) = done {
            self.cursor.take_block();
            self.failed = Some(e);
        }
    }

    /// Forgets an earlier failure and makes sure of the index.
    fn start(&mut self) -> Result<()> {
        self.failed = None;
        self.since_seek = SinceSeek::Nothing;
        if self.index.is_none() {
            self.cursor.take_block();
            if let Some(flat) = self.reader.flat() {
                self.index = Some(flat.index()?);
                return Ok(());
            }
            let index = self.reader.shared_index(&self.params)?;
            if self.reader.has_two_levels() {
                self.top = Some(index.clone());
                self.partition = usize::MAX;
            }
            self.index = Some(index);
        }
        Ok(())
    }

    /// Number of partitions; 0 with one level.
    fn partitions(&self) -> usize {
        let top = self.top.as_deref().and_then(Block::index);
        top.map_or(0, IndexTable::len)
    }

    /// Makes a partition of a two-level index the current one.
    fn enter(&mut self, partition: usize) -> Result<()> {
        if partition == self.partition {
            return Ok(());
        }
        if let Some(top) = self.top.as_deref().and_then(Block::index) {
            let index = self.reader.index_partition(top, partition, &self.params)?;
            self.index = Some(index);
            self.partition = partition;
            // No block of this partition is loaded.
            self.block = usize::MAX;
        }
        Ok(())
    }

    fn try_first(&mut self) -> Result<()> {
        if self.top.is_some() {
            if self.partitions() == 0 {
                self.cursor.take_block();
                return Ok(());
            }
            self.enter(0)?;
        }
        self.first_from(0)
    }

    fn try_last(&mut self) -> Result<()> {
        if self.top.is_some() {
            let Some(last) = self.partitions().checked_sub(1) else {
                self.cursor.take_block();
                return Ok(());
            };
            self.enter(last)?;
        }
        self.last_before(self.blocks())
    }

    fn index_table(&self) -> Option<&IndexTable> {
        self.index.as_deref().and_then(Block::index)
    }

    fn blocks(&self) -> usize {
        self.index_table().map_or(0, IndexTable::len)
    }

    fn try_seek(&mut self, target: &[u8]) -> Result<()> {
        let Some((user, tag)) = split_internal(target) else {
            return Err(Error::invalid_argument(
                "seek target is shorter than its tag",
            ));
        };
        let reader = self.reader.clone();
        let cmp = &reader.options().comparator;
        if let Some(top) = self.top.as_deref().and_then(Block::index) {
            let partition = reader.seek_in(top, (user, tag))?;
            if partition >= top.len() {
                self.cursor.take_block();
                return Ok(());
            }
            self.enter(partition)?;
        }
        let block = match self.index_table() {
            Some(index) => reader.seek_in(index, (user, tag))?,
            None => 0,
        };
        if block >= self.blocks() {
            return self.first_from(block);
        }
        self.load(block)?;
        match self.cursor.seek(cmp, user, tag) {
            Ok(true) => Ok(()),
            Ok(false) => self.first_from(block + 1),
            Err(e) => Err(self.located(e)),
        }
    }

    fn try_seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        self.try_seek(target)?;
        if !self.valid() {
            return self.try_last();
        }
        let at = split_internal(self.key()).zip(split_internal(target));
        let cmp = &self.reader.options().comparator;
        if at.is_some_and(|(key, target)| compare(cmp, key, target) == Ordering::Greater) {
            self.prev();
            // A failure of the step is this seek's failure.
            return self.status();
        }
        Ok(())
    }

    /// Goes to the first entry of the first block from `block` on that has one.
    fn first_from(&mut self, mut block: usize) -> Result<()> {
        loop {
            while block < self.blocks() {
                self.load(block)?;
                if self.cursor.seek_to_first().map_err(|e| self.located(e))? {
                    return Ok(());
                }
                block += 1;
            }
            if self.top.is_none() || self.partition.saturating_add(1) >= self.partitions() {
                self.cursor.take_block();
                return Ok(());
            }
            self.enter(self.partition + 1)?;
            block = 0;
        }
    }

    /// Goes to the last entry of the last block before `block` that has one.
    fn last_before(&mut self, mut block: usize) -> Result<()> {
        loop {
            while block > 0 {
                block -= 1;
                self.load(block)?;
                if self.cursor.seek_to_last().map_err(|e| self.located(e))? {
                    return Ok(());
                }
            }
            if self.top.is_none() || self.partition == 0 || self.partition >= self.partitions() {
                self.cursor.take_block();
                return Ok(());
            }
            self.enter(self.partition - 1)?;
            block = self.blocks();
        }
    }

    /// Makes `block` the current one.
    fn load(&mut self, block: usize) -> Result<()> {
        let old = self.cursor.take_block();
        if let Some(old) = old {
            if block == self.block {
                self.cursor.set_block(old);
                return Ok(());
            }
            return self.load_into(block, Some(old));
        }
        self.load_into(block, None)
    }

    /// Counts the first data block that a seek fetches.
    #[cold]
    fn note_fetched(&mut self) {
        if self.since_seek == SinceSeek::Nothing && self.params.activity != ReadActivity::Compaction
        {
            self.since_seek = SinceSeek::Fetched;
            self.reader.count_seek_data();
        }
    }

    /// Takes note that somebody wants the entry, to which `prefix` led if a filter might be asked; counts
    /// that once after a seek. Requires: the read is counted.
    #[cold]
    pub fn note_wanted(&mut self, prefix: Option<PrefixSeek<'_>>) {
        if self.since_seek == SinceSeek::Fetched {
            self.since_seek = SinceSeek::Wanted;
            let asked = prefix.and_then(|p| self.reader.prefix_to_ask(p, &self.params));
            self.reader
                .count_seek_wanted(asked.is_some() && self.reader.has_filter());
        }
    }

    fn load_into(&mut self, block: usize, old: Option<Arc<Block>>) -> Result<()> {
        let handle = match self.index_table() {
            Some(index) => self.reader.handle_in(index, block)?,
            None => None,
        };
        let Some(handle) = handle else {
            return Ok(());
        };
        self.block = block;
        let cmp = &self.reader.options().comparator;
        self.is_within = match (&self.upper, self.index_table()) {
            (Some(upper), Some(index)) => index.is_before(cmp, block, upper),
            _ => false,
        };
        let reader = &*self.reader;
        if let Some(found) = reader.cached_block(handle, &self.params)? {
            if self.params.is_counted {
                reader.count_hit((CachedKind::Data, handle), &found, &self.params);
                self.note_fetched();
            }
            self.cursor.set_block(found);
            return Ok(());
        }
        if reader.flat().is_some() {
            let block = reader.load_data_block(handle, &self.params)?;
            self.cursor.set_block(block);
            return Ok(());
        }
        reader.may_read(&self.params)?;
        let limit = reader.footer().offset;
        let stored = self
            .readahead
            .read(reader, handle, &self.params, limit)
            .map_err(|e| reader.at(e, handle))?;
        let verify = self.params.verify_checksums;
        let cmp = &reader.options().comparator;
        let arrays = !self.params.bypass_cache;
        // A block that nobody else holds gives its memory to the next one.
        let mut found = old
            .filter(|_| self.params.bypass_cache)
            .unwrap_or_else(|| Arc::new(Block::raw(Vec::with_capacity(stored.len()))));
        if Arc::get_mut(&mut found).is_none() {
            found = Arc::new(Block::raw(Vec::with_capacity(stored.len())));
        }
        if let Some(fresh) = Arc::get_mut(&mut found) {
            let is_counted = self.params.is_counted;
            fresh.edit(|data| {
                let began = is_counted.then(|| reader.moment()).flatten();
                reader.unpack(stored, handle, BlockKind::Data, verify, data)?;
                if is_counted {
                    reader.count_unpacked((BlockKind::Data, verify), stored, data.len(), began);
                }
                reader.adapt(data, verify).map_err(|e| reader.at(e, handle))
            })?;
            let parsed = fresh.reparse(cmp, arrays);
            parsed.map_err(|e| reader.at(e, handle))?;
            reader.prepare(fresh, &self.params);
        }
        reader.fill(handle, &found, &self.params)?;
        if self.params.is_counted {
            let stored = handle.size + TRAILER_LEN as u64;
            reader.count_read(BlockKind::Data, stored);
            reader.count_fill((CachedKind::Data, handle), &found, &self.params);
            self.note_fetched();
        }
        self.cursor.set_block(found);
        Ok(())
    }
}
