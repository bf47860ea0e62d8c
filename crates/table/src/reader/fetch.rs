//! From a handle to a block: cache, file, checksum, decompression, search arrays.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::TableReader;
use crate::block::Block;
use crate::block::protection::changed;
use crate::format::{BlockHandle, BlockKind, TRAILER_LEN};
use crate::lookups::CachedKind;
use crate::options::ReadParams;
use spanlith_base::stats::{Statistics, Ticker};
use spanlith_base::{CompressionType, Error, ErrorKind, Result};
use spanlith_cache::{CacheKey, Priority};
use spanlith_env::{IoDirection, IoPriority, RateLimiter, ReadRequest};
use std::path::Path;
use std::sync::Arc;

/// Bytes of an entry of the cache beside its block: the place in the cache's table, of which up to half are free,
/// the counts of its owners, and what the allocator adds. RocksDB charges as much for its handle (`kFullChargeCacheMetadata`).
const ENTRY_BYTES: usize = 160;

impl TableReader {
    /// Where the table is.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Adds file and position to an error that does not know them.
    #[cold]
    pub(crate) fn at(&self, e: Error, handle: BlockHandle) -> Error {
        let e = e.with_path(self.file.path());
        if e.offset().is_some() {
            e
        } else {
            e.with_offset(handle.offset)
        }
    }

    #[inline]
    pub(super) fn cache_key(&self, handle: BlockHandle) -> CacheKey {
        let CacheKey { file, block } = self.cache_base;
        CacheKey {
            file,
            block: block ^ handle.offset,
        }
    }

    /// Refuses I/O if the read must do without, or is too late for it.
    #[inline]
    pub(crate) fn may_read(&self, params: &ReadParams) -> Result<()> {
        if params.cache_only {
            return Err(Error::incomplete("no blocking io"));
        }
        if params.deadline_micros != 0 {
            return self.check_deadline(params.deadline_micros);
        }
        Ok(())
    }

    #[cold]
    fn check_deadline(&self, deadline_micros: u64) -> Result<()> {
        let clock = self.options.counters.as_ref().map(|c| &c.clock);
        if clock.is_some_and(|clock| clock.now_micros() >= deadline_micros) {
            return Err(Error::new(ErrorKind::TimedOut, "Deadline exceeded"));
        }
        Ok(())
    }

    /// Asks the rate limiter for a read of `bytes`, if the read has a priority there.
    #[inline]
    pub(crate) fn pace(&self, params: &ReadParams, bytes: u64) {
        if let (Some(priority), Some(limiter)) = (params.rate_priority, &self.options.rate_limiter)
        {
            let counters = self.options.counters.as_ref();
            let statistics = counters.and_then(|c| c.statistics.as_deref());
            pace(limiter, priority, bytes, statistics);
        }
    }

    /// Bytes of a block as stored, with its trailer.
    fn stored_len(&self, handle: BlockHandle) -> Result<usize> {
        let end = handle.end().filter(|&end| end <= self.footer.offset);
        let len = usize::try_from(handle.size)
            .ok()
            .and_then(|n| n.checked_add(TRAILER_LEN));
        let (Some(_), Some(len)) = (end, len) else {
            let e = Error::corruption("block handle points outside the file");
            return Err(self.at(e.with("size", handle.size), handle));
        };
        Ok(len)
    }

    /// A block as stored, with its trailer.
    pub(super) fn stored(&self, handle: BlockHandle) -> Result<Vec<u8>> {
        let mut stored = vec![0; self.stored_len(handle)?];
        // R2: the table is kept by whoever reads, not by a lock.
        spanlith_base::sync::assert_only_tokens_are_held();
        let n = self.file.read_at(handle.offset, &mut stored)?;
        stored.truncate(n);
        Ok(stored)
    }

    /// Replaces `out` by the verified, uncompressed contents of a stored block.
    pub(crate) fn unpack(
        &self,
        stored: &[u8],
        handle: BlockHandle,
        kind: BlockKind,
        verify: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let (contents, codec) = self.contents(stored, handle, kind, verify)?;
        self.decompressor
            .decompress(codec, contents, kind == BlockKind::Data, out)
            .map_err(|e| self.at(e, handle))
    }

    /// The verified contents of a stored block, and its codec.
    pub(super) fn contents<'a>(
        &self,
        stored: &'a [u8],
        handle: BlockHandle,
        kind: BlockKind,
        verify: bool,
    ) -> Result<(&'a [u8], CompressionType)> {
        let path = self.file.path();
        let (contents, compression) = self
            .footer
            .checksum
            .open(stored, handle, verify, kind, path)?;
        let codec = compression.codec().map_err(|e| self.at(e, handle))?;
        let plain = matches!(kind, BlockKind::Data | BlockKind::Index) && !self.no_compression;
        if codec != CompressionType::None && !plain {
            let e = Error::corruption("compressed block where the table allows none");
            return Err(self.at(e.with("block_type", kind.name()), handle));
        }
        Ok((contents, codec))
    }

    /// Reads, verifies and decompresses a block.
    pub(super) fn read(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        verify: bool,
    ) -> Result<Vec<u8>> {
        match self.opening {
            None => self.read_plain(handle, kind, verify),
            Some(activity) => {
                let params = ReadParams {
                    verify_checksums: verify,
                    is_counted: true,
                    activity,
                    ..ReadParams::default()
                };
                self.read_counted(handle, kind, &params)
            }
        }
    }

    /// As [`Self::read`], counted if the read is.
    pub(super) fn read_meta(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        params: &ReadParams,
    ) -> Result<Vec<u8>> {
        match params.is_counted {
            true => self.read_counted(handle, kind, params),
            false => self.read(handle, kind, params.verify_checksums),
        }
    }

    /// As [`Self::read`], never counted.
    fn read_plain(&self, handle: BlockHandle, kind: BlockKind, verify: bool) -> Result<Vec<u8>> {
        let stored = self.stored(handle)?;
        Ok(self.unpacked(stored, handle, kind, verify)?.0)
    }

    /// The verified, uncompressed contents of a stored block, and its codec.
    #[inline]
    pub(super) fn unpacked(
        &self,
        mut stored: Vec<u8>,
        handle: BlockHandle,
        kind: BlockKind,
        verify: bool,
    ) -> Result<(Vec<u8>, CompressionType)> {
        let (contents, codec) = self.contents(&stored, handle, kind, verify)?;
        if codec == CompressionType::None {
            let len = contents.len();
            stored.truncate(len);
            return Ok((stored, codec));
        }
        let mut out = Vec::new();
        self.decompressor
            .decompress(codec, contents, kind == BlockKind::Data, &mut out)
            .map_err(|e| self.at(e, handle))?;
        Ok((out, codec))
    }

    /// A data block in the cache.
    ///
    /// # Errors
    /// `Corruption` if it has a checksum and is not what was put there.
    #[inline]
    pub(crate) fn cached_block(
        &self,
        handle: BlockHandle,
        params: &ReadParams,
    ) -> Result<Option<Arc<Block>>> {
        let cache = match &self.options.cache {
            Some(cache) if !params.bypass_cache => cache,
            _ => return Ok(None),
        };
        let found = cache.lookup(&self.cache_key(handle));
        if self.options.block_protection_bytes != 0
            && let Some(block) = &found
            && !block.is_intact()
        {
            return Err(self.at(changed(), handle));
        }
        Ok(found)
    }

    /// Makes a data block ready for the cache, if it is on its way there: with its checksum in memory, if
    /// blocks in the cache have one, and in the memory that cached blocks share.
    #[inline]
    pub(crate) fn prepare(&self, block: &mut Block, params: &ReadParams) {
        if self.options.cache.is_none() || !params.fill_cache || params.bypass_cache {
            return;
        }
        if self.options.block_protection_bytes != 0 {
            block.protect(self.options.block_protection_bytes);
        }
        block.settle();
    }

    /// Puts a data block into the cache if the read wants that.
    pub(crate) fn fill(
        &self,
        handle: BlockHandle,
        block: &Arc<Block>,
        params: &ReadParams,
    ) -> Result<()> {
        if !params.fill_cache || params.bypass_cache {
            return Ok(());
        }
        self.insert(handle, block, Priority::Low)
    }

    fn insert(&self, handle: BlockHandle, block: &Arc<Block>, priority: Priority) -> Result<()> {
        match &self.options.cache {
            Some(cache) => cache.insert_read_at(
                self.cache_key(handle),
                block.clone(),
                block.memory_usage() + ENTRY_BYTES,
                priority,
                block.bytes().as_ptr(),
            ),
            None => Ok(()),
        }
    }

    /// A data block, from the cache or the file.
    #[inline]
    pub(super) fn data_block(
        &self,
        handle: BlockHandle,
        params: &ReadParams,
    ) -> Result<Arc<Block>> {
        match self.cached_data_block(handle, params)? {
            Some(block) => Ok(block),
            None => self.load_data_block(handle, params),
        }
    }

    /// As [`Self::cached_block`]; counts a hit.
    #[inline]
    pub(super) fn cached_data_block(
        &self,
        handle: BlockHandle,
        params: &ReadParams,
    ) -> Result<Option<Arc<Block>>> {
        let block = self.cached_block(handle, params)?;
        if params.is_counted
            && let Some(block) = &block
        {
            self.count_hit((CachedKind::Data, handle), block, params);
        }
        Ok(block)
    }

    /// Reads several data blocks at once.
    pub(super) fn load_data_blocks(
        &self,
        handles: &[BlockHandle],
        params: &ReadParams,
    ) -> Vec<Result<Arc<Block>>> {
        let verify = params.verify_checksums;
        let mut buffers: Vec<Result<Vec<u8>>> = handles
            .iter()
            .map(|&handle| {
                self.pace(params, handle.size);
                self.stored_len(handle).map(|len| vec![0; len])
            })
            .collect();
        let mut requests = Vec::with_capacity(handles.len());
        for (handle, buffer) in handles.iter().zip(&mut buffers) {
            if let Ok(buf) = buffer {
                requests.push(ReadRequest {
                    offset: handle.offset,
                    buf,
                    result: Ok(0),
                });
            }
        }
        let began = params.is_counted.then(|| self.moment()).flatten();
        spanlith_base::sync::assert_only_tokens_are_held();
        self.file.read_many(&mut requests);
        let read: Vec<Result<usize>> = requests.into_iter().map(|r| r.result).collect();
        if params.is_counted {
            self.count_batch(read.len());
            self.count_file_batch(params, &read, began);
        }
        let mut read = read.into_iter();
        let mut blocks = Vec::with_capacity(handles.len());
        for (&handle, stored) in handles.iter().zip(buffers) {
            let block = stored.and_then(|mut stored| {
                stored.truncate(read.next().unwrap_or(Ok(0))?);
                if params.is_counted {
                    self.count_read(BlockKind::Data, stored.len() as u64);
                }
                if params.is_counted {
                    let began = self.moment();
                    let mut bytes = Vec::new();
                    self.unpack(&stored, handle, BlockKind::Data, verify, &mut bytes)?;
                    let how = (BlockKind::Data, verify);
                    self.count_unpacked(how, &stored, bytes.len(), began);
                    return self.made_data_block(bytes, handle, params);
                }
                let bytes = self.unpacked(stored, handle, BlockKind::Data, verify)?.0;
                self.made_data_block(bytes, handle, params)
            });
            blocks.push(block);
        }
        blocks
    }

    #[inline(never)]
    pub(crate) fn load_data_block(
        &self,
        handle: BlockHandle,
        params: &ReadParams,
    ) -> Result<Arc<Block>> {
        if let Some(flat) = self.flat() {
            let bytes = flat.block(handle)?;
            return self.made_data_block(bytes, handle, params);
        }
        self.may_read(params)?;
        self.pace(params, handle.size);
        let bytes = if params.is_counted {
            self.read_counted(handle, BlockKind::Data, params)?
        } else {
            self.read_plain(handle, BlockKind::Data, params.verify_checksums)?
        };
        self.made_data_block(bytes, handle, params)
    }

    /// Makes a data block of its contents, and puts it into the cache if the read wants that.
    fn made_data_block(
        &self,
        mut bytes: Vec<u8>,
        handle: BlockHandle,
        params: &ReadParams,
    ) -> Result<Arc<Block>> {
        self.adapt(&mut bytes, params.verify_checksums)
            .map_err(|e| self.at(e, handle))?;
        let block = Block::data(bytes, &self.options.comparator, !params.bypass_cache);
        let mut block = block.map_err(|e| self.at(e, handle))?;
        self.prepare(&mut block, params);
        let block = Arc::new(block);
        self.fill(handle, &block, params)?;
        if params.is_counted {
            self.count_fill((CachedKind::Data, handle), &block, params);
        }
        Ok(block)
    }

    /// A block of index or filter in the cache.
    ///
    /// # Errors
    /// `Corruption` if it has a checksum and is not what was put there.
    #[inline]
    pub(super) fn cached_meta(&self, handle: BlockHandle) -> Result<Option<Arc<Block>>> {
        if let Some(guard) = &self.guard {
            return self.guarded_meta(guard, handle);
        }
        let cache = self.options.cache.as_ref();
        Ok(cache.and_then(|cache| cache.lookup(&self.cache_key(handle))))
    }

    /// Puts a block of index or filter into the cache.
    pub(super) fn insert_meta(&self, handle: BlockHandle, block: &Arc<Block>) -> Result<()> {
        let high = self
            .options
            .cache_index_and_filter_blocks_with_high_priority;
        let priority = if high { Priority::High } else { Priority::Low };
        self.insert(handle, block, priority)
    }
}

/// Waits until the limiter lets `bytes` pass, in parts of what it grants at once.
#[cold]
fn pace(limiter: &RateLimiter, priority: IoPriority, bytes: u64, statistics: Option<&Statistics>) {
    if !limiter.limits(IoDirection::Read) {
        return;
    }
    let burst = limiter.single_burst_bytes().max(1);
    let mut left = bytes;
    while left > 0 {
        let part = left.min(burst);
        if let Some(s) = statistics {
            s.add(Ticker::RateLimiterBytesRead, part);
            s.add(Ticker::RateLimiterRequestsRead, 1);
        }
        limiter.request(part, priority, IoDirection::Read);
        left -= part;
    }
}
