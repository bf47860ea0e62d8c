//! Reads a table: point lookups, iterators, verification.
//!
//! Opening reads footer, metaindex, properties, index and filter, in this order and mostly from one
//! read of the file's end. Index and filter stay with the reader unless they are to live in the
//! cache. Data blocks go through the cache: look up, else read, verify (T2), decompress, build the
//! search arrays, insert.
//!
//! A filter that cannot be read is treated as absent, as RocksDB does on every lookup path;
//! [`TableReader::verify_checksums`] reports it.
//!
//! Threads: shared freely; nothing changes after `open`.

mod adapt;
mod anchors;
mod batch;
pub(crate) mod count;
mod fetch;
mod filter;
mod flat;
mod guard;
mod index;
mod lookups;
mod open;
mod verify;

use crate::Charge;
use crate::activity::ReadActivity;
use crate::block::Block;
use crate::block::entry::bad_entry;
use crate::block::seek::Lookup;
use crate::filter::hash64;
use crate::flat::FlatTable;
use crate::format::{BlockHandle, Decompressor, Footer};
use crate::index::IndexTable;
use crate::iter::TableIter;
use crate::options::{ReadParams, ReaderOptions};
use crate::properties::TableProperties;
use filter::{FilterMemo, FilterPlace, Prefixes};
use guard::Guard;
use index::IndexShape;
use spanlith_base::histogram::Distribution;
use spanlith_base::keys::{MAX_SEQUENCE, seek_tag, split_internal};
use spanlith_base::{Result, SequenceNumber};
use spanlith_cache::CacheKey;
use spanlith_env::RandomAccessFile;
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

use adapt::Adaptation;
pub use adapt::RangeTombstone;
pub use anchors::KeyAnchor;
pub use batch::TableGet;
pub use count::{ThreadReads, reads_of_thread};
pub use filter::{PrefixSeek, prefix_ends_at};
pub use verify::{TableDump, VisitEntry};

/// An open table.
pub struct TableReader {
    file: Arc<dyn RandomAccessFile>,
    file_size: u64,
    options: ReaderOptions,
    footer: Footer,
    /// Name and place of every meta block.
    metaindex: Vec<(String, BlockHandle)>,
    properties: TableProperties,
    /// The properties promise that no block is compressed.
    no_compression: bool,
    decompressor: Decompressor,
    /// Set for tables without blocks.
    flat: Option<Box<FlatTable>>,
    /// `None` for ordinary tables.
    adaptation: Option<Box<Adaptation>>,
    index_handle: BlockHandle,
    index_shape: IndexShape,
    /// The index, or the top level of two; `None` if it lives in the cache.
    index: Option<Arc<Block>>,
    /// All partitions of a two-level index, if they stay with the reader.
    index_partitions: Vec<Arc<Block>>,
    filter: FilterPlace,
    /// Set if blocks of index and filter have checksums in memory: then none is in the fields above.
    guard: Option<Box<Guard>>,
    /// Set if the filter has prefixes of a known extractor.
    prefixes: Option<Prefixes>,
    /// This table's part of cache keys.
    cache_base: CacheKey,
    /// Microseconds that reads of the file took; `None` if nobody counts.
    read_micros: Option<Box<Distribution>>,
    /// Set while it is opened, if somebody counts: what for.
    opening: Option<ReadActivity>,
    /// Its memory in the block cache, if that is charged.
    _charge: Option<Charge>,
}

impl TableReader {
    /// Microseconds that counted reads of the file took; `None` if nobody counts.
    pub fn read_micros(&self) -> Option<&Distribution> {
        self.read_micros.as_deref()
    }

    /// Properties of the table.
    pub fn properties(&self) -> &TableProperties {
        &self.properties
    }

    /// The file.
    pub(crate) fn file(&self) -> &dyn RandomAccessFile {
        &*self.file
    }

    /// The part of the keys of its blocks in the cache that no other table has.
    pub fn cache_file(&self) -> u64 {
        self.cache_base.file
    }

    /// How it was opened.
    pub fn options(&self) -> &ReaderOptions {
        &self.options
    }

    /// The footer.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Bytes of the file.
    pub fn file_size(&self) -> u64 {
        self.file_size
    }

    /// Number of data blocks; an error if the index must be read and cannot be.
    ///
    /// # Errors
    /// Those of reading the index.
    pub fn num_data_blocks(&self) -> Result<usize> {
        let mut blocks = 0;
        self.for_each_index(&ReadParams::default(), |index| {
            blocks += index.len();
            Ok(())
        })?;
        Ok(blocks)
    }

    /// The hash that [`Self::get_hashed`] and [`Self::prefetch_filter`] take; the same for all tables.
    #[inline]
    pub fn filter_hash(user_key: &[u8]) -> u64 {
        hash64(user_key)
    }

    /// Returns whether the filter lets versions of a key pass. `user_key` carries a timestamp if the keys of
    /// the table do; filters hold keys without. Who finds the key then says so
    /// ([`Self::note_found`]).
    pub fn may_match_version(&self, user_key: &[u8], params: &ReadParams) -> bool {
        if params.skip_filters {
            return true;
        }
        let bare = self.options.comparator.strip_timestamp(user_key);
        let passes = match &self.filter {
            FilterPlace::Absent => true,
            FilterPlace::Resident(filter) => filter.may_match_hash(hash64(bare)),
            FilterPlace::Cached(handle) => {
                self.cached_filter_matches(*handle, hash64(bare), params)
            }
            FilterPlace::Keyed(keyed) => {
                let key = (user_key, seek_tag(MAX_SEQUENCE));
                self.keyed_filter_matches(keyed, key, params, &mut FilterMemo::default())
            }
        };
        if params.is_counted {
            self.count_filtered(std::iter::once((user_key, passes)), params);
        }
        passes
    }

    /// Counts, if the read is counted, that a key which [`Self::may_match_version`] let pass is there.
    pub fn note_found(&self, params: &ReadParams) {
        if params.is_counted && !params.skip_filters {
            self.count_found(params);
        }
    }

    /// Starts loading the cache line of the filter that [`Self::get_hashed`] will read.
    #[inline]
    pub fn prefetch_filter(&self, hash: u64) {
        if let FilterPlace::Resident(filter) = &self.filter {
            filter.prefetch(hash);
        }
    }

    /// Returns whether a filter is in use.
    pub fn has_filter(&self) -> bool {
        !matches!(self.filter, FilterPlace::Absent)
    }

    /// Feeds the entries of `user_key` with sequence numbers up to `snapshot` to `sink`, newest
    /// first, until it breaks or there are no more. The `Arc<Block>` owns the value bytes
    /// ([`Block::pin`]).
    ///
    /// # Errors
    /// `Corruption`, `Io`, `NotSupported` for entries this build lacks; `Incomplete` if the block
    /// is not cached and I/O is not allowed.
    pub fn get<F>(
        &self,
        user_key: &[u8],
        snapshot: SequenceNumber,
        params: &ReadParams,
        sink: F,
    ) -> Result<()>
    where
        F: FnMut(u64, &[u8], &Arc<Block>) -> ControlFlow<()>,
    {
        let bare = self.options.comparator.strip_timestamp(user_key);
        self.get_hashed(user_key, hash64(bare), snapshot, params, sink)
    }

    /// Returns what a filter says that is not a full one kept by the reader.
    #[inline(never)]
    fn other_filter_matches(
        &self,
        (user_key, snapshot): (&[u8], SequenceNumber),
        hash: u64,
        params: &ReadParams,
    ) -> bool {
        match &self.filter {
            FilterPlace::Resident(filter) => filter.may_match_hash(hash),
            FilterPlace::Absent => true,
            FilterPlace::Cached(handle) => self.cached_filter_matches(*handle, hash, params),
            FilterPlace::Keyed(keyed) => {
                let key = (user_key, seek_tag(snapshot));
                self.keyed_filter_matches(keyed, key, params, &mut FilterMemo::default())
            }
        }
    }

    /// [`Self::get`] with the key's [`Self::filter_hash`], for callers that ask several tables.
    ///
    /// # Errors
    /// As [`Self::get`].
    #[inline(always)]
    pub fn get_hashed<F>(
        &self,
        user_key: &[u8],
        hash: u64,
        snapshot: SequenceNumber,
        params: &ReadParams,
        sink: F,
    ) -> Result<()>
    where
        F: FnMut(u64, &[u8], &Arc<Block>) -> ControlFlow<()>,
    {
        let passes = match &self.filter {
            _ if params.skip_filters => true,
            FilterPlace::Resident(filter) => filter.may_match_hash(hash),
            _ => self.other_filter_matches((user_key, snapshot), hash, params),
        };
        if params.is_counted {
            return self.get_counted((user_key, snapshot), params, passes, sink);
        }
        if !passes {
            return Ok(());
        }
        self.get_unfiltered(user_key, snapshot, params, sink)
    }

    /// [`Self::get`] without the filter, for callers that asked it already.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_unfiltered<F>(
        &self,
        user_key: &[u8],
        snapshot: SequenceNumber,
        params: &ReadParams,
        mut sink: F,
    ) -> Result<()>
    where
        F: FnMut(u64, &[u8], &Arc<Block>) -> ControlFlow<()>,
    {
        let tag = seek_tag(snapshot);
        let index = self.index(params)?;
        if self.has_two_levels() {
            return self.get_below(&index, (user_key, tag), params, &mut sink);
        }
        let mut fetch = |handle| self.data_block(handle, params);
        self.get_through(&index, (user_key, tag), &mut fetch, &mut sink)?;
        Ok(())
    }

    /// The lookup through one index block.
    #[inline]
    fn get_through<B, F>(
        &self,
        index: &IndexTable,
        (user_key, tag): (&[u8], u64),
        fetch: &mut B,
        sink: &mut F,
    ) -> Result<Lookup>
    where
        B: FnMut(BlockHandle) -> Result<Arc<Block>>,
        F: FnMut(u64, &[u8], &Arc<Block>) -> ControlFlow<()>,
    {
        let cmp = &self.options.comparator;
        let mut i = self.seek_in(index, (user_key, tag))?;
        while i < index.len() {
            let handle = self.handle_in(index, i)?.ok_or_else(bad_entry)?;
            if let Some((first, _)) = index.first_key(i).and_then(split_internal)
                && cmp.compare(first, user_key) == Ordering::Greater
            {
                return Ok(Lookup::Done);
            }
            let block = fetch(handle)?;
            let found = block
                .lookup(cmp, user_key, tag, sink)
                .map_err(|e| self.at(e, handle))?;
            // With user-key separators no key goes on in the next block.
            if found == Lookup::Done || index.has_user_keys() {
                return Ok(Lookup::Done);
            }
            i += 1;
        }
        Ok(Lookup::Exhausted)
    }

    /// The lookup through the partitions below a top level.
    #[inline(never)]
    fn get_below<F>(
        &self,
        top: &IndexTable,
        key: (&[u8], u64),
        params: &ReadParams,
        sink: &mut F,
    ) -> Result<()>
    where
        F: FnMut(u64, &[u8], &Arc<Block>) -> ControlFlow<()>,
    {
        let mut fetch = |handle| self.data_block(handle, params);
        let start = self.seek_in(top, key)?;
        for i in start..top.len() {
            let partition = self.index_partition(top, i, params)?;
            if let Some(index) = partition.index()
                && self.get_through(index, key, &mut fetch, sink)? == Lookup::Done
            {
                return Ok(());
            }
        }
        self.get_flat(key, params, sink)
    }

    /// An iterator over all entries, at no position yet.
    pub fn iter(self: &Arc<Self>, params: ReadParams) -> TableIter {
        TableIter::new(self.clone(), params)
    }

    /// Bytes of the file before `internal_key`, about: filter, index and all else are dealt out to
    /// the data blocks by their size. The size of the file if the key is after the last.
    /// Half of it if the table has no data block.
    pub fn approximate_offset(&self, internal_key: &[u8]) -> u64 {
        match self.data_bytes() {
            0 => self.file_size / 2,
            data => self.with_share_of_all(self.data_offset(internal_key), data),
        }
    }

    /// Bytes of the file from one internal key on and before another, about, rounded once; all of it
    /// if the table has no data block.
    pub fn approximate_size(&self, start: &[u8], end: &[u8]) -> u64 {
        let (from, to) = (self.data_offset(start), self.data_offset(end));
        match self.data_bytes() {
            0 => self.file_size,
            data => self.with_share_of_all(to.saturating_sub(from), data),
        }
    }

    fn data_bytes(&self) -> u64 {
        self.properties.data_size.min(self.file_size)
    }

    /// Where the block begins that would hold the key; the end of all blocks after the last.
    fn data_offset(&self, internal_key: &[u8]) -> u64 {
        let data = self.data_bytes();
        let handle = split_internal(internal_key)
            .map(|(user, tag)| self.find_block(user, tag, &ReadParams::default()));
        match handle {
            Some(Ok(Some(handle))) => handle.offset.min(data),
            _ => data,
        }
    }

    /// Bytes of data blocks with their share of everything else.
    fn with_share_of_all(&self, bytes: u64, data: u64) -> u64 {
        (bytes as f64 / data as f64 * self.file_size as f64) as u64
    }

    /// Bytes of memory the reader occupies, without what is in the cache.
    pub fn memory_usage(&self) -> usize {
        let partitions = self.index_partitions.iter();
        size_of::<Self>()
            + self.filter.memory_usage()
            + self.decompressor.memory_usage()
            + self.index.as_ref().map_or(0, |i| i.memory_usage())
            + partitions.map(|i| i.memory_usage()).sum::<usize>()
            + self.flat.as_ref().map_or(0, |f| f.memory_usage())
            + self.guard.as_ref().map_or(0, |g| g.memory_usage())
    }
}

impl std::fmt::Debug for TableReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableReader")
            .field("path", &self.file.path())
            .field("entries", &self.properties.num_entries)
            .finish()
    }
}
