//! From a handle to a block: cache, file, checksum, decompression, search arrays.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::TableReader;
use super::count::CachedKind;
use crate::block::Block;
use crate::format::{BlockHandle, BlockKind, Compression, TRAILER_LEN};
use crate::options::ReadParams;
use spanlith_base::{Error, Result};
use spanlith_cache::{CacheKey, Priority};
use spanlith_env::{IoDirection, IoPriority, RateLimiter};
use std::sync::Arc;

impl TableReader {
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
    fn cache_key(&self, handle: BlockHandle) -> CacheKey {
        CacheKey {
            file: self.cache_id,
            block: handle.offset,
        }
    }

    /// Refuses I/O if the read must do without.
    #[inline]
    pub(crate) fn may_read(params: &ReadParams) -> Result<()> {
        if params.cache_only {
            Err(Error::incomplete("no blocking io"))
        } else {
            Ok(())
        }
    }

    /// Asks the rate limiter for a read of `bytes`, if the read has a priority there.
    #[inline]
    pub(crate) fn pace(&self, params: &ReadParams, bytes: u64) {
        if let (Some(priority), Some(limiter)) = (params.rate_priority, &self.options.rate_limiter)
        {
            pace(limiter, priority, bytes);
        }
    }

    /// A block as stored, with its trailer.
    pub(super) fn stored(&self, handle: BlockHandle) -> Result<Vec<u8>> {
        let end = handle.end().filter(|&end| end <= self.footer.offset);
        let len = usize::try_from(handle.size)
            .ok()
            .and_then(|n| n.checked_add(TRAILER_LEN));
        let (Some(_), Some(len)) = (end, len) else {
            let e = Error::corruption("block handle points outside the file");
            return Err(self.at(e.with("size", handle.size), handle));
        };
        let mut stored = vec![0; len];
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
    fn contents<'a>(
        &self,
        stored: &'a [u8],
        handle: BlockHandle,
        kind: BlockKind,
        verify: bool,
    ) -> Result<(&'a [u8], Compression)> {
        let path = self.file.path();
        let (contents, compression) = self
            .footer
            .checksum
            .open(stored, handle, verify, kind, path)?;
        let codec = compression.codec().map_err(|e| self.at(e, handle))?;
        let plain = matches!(kind, BlockKind::Data | BlockKind::Index) && !self.no_compression;
        if codec != Compression::None && !plain {
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
    ) -> Result<(Vec<u8>, Compression)> {
        let (contents, codec) = self.contents(&stored, handle, kind, verify)?;
        if codec == Compression::None {
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
    #[inline]
    pub(crate) fn cached_block(
        &self,
        handle: BlockHandle,
        params: &ReadParams,
    ) -> Option<Arc<Block>> {
        if params.bypass_cache {
            return None;
        }
        self.options.cache.as_ref()?.lookup(&self.cache_key(handle))
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
            Some(cache) => cache.insert(
                self.cache_key(handle),
                block.clone(),
                block.memory_usage(),
                priority,
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
        match self.cached_block(handle, params) {
            Some(block) => {
                if params.is_counted {
                    self.count_hit(CachedKind::Data, block.memory_usage());
                }
                Ok(block)
            }
            None => self.load_data_block(handle, params),
        }
    }

    #[inline(never)]
    fn load_data_block(&self, handle: BlockHandle, params: &ReadParams) -> Result<Arc<Block>> {
        Self::may_read(params)?;
        self.pace(params, handle.size);
        let verify = params.verify_checksums;
        let mut bytes = if params.is_counted {
            self.read_counted(handle, BlockKind::Data, verify)?
        } else {
            self.read(handle, BlockKind::Data, verify)?
        };
        self.adapt(&mut bytes, params.verify_checksums)
            .map_err(|e| self.at(e, handle))?;
        let block = Block::data(bytes, &self.options.comparator, !params.bypass_cache);
        let block = Arc::new(block.map_err(|e| self.at(e, handle))?);
        self.fill(handle, &block, params)?;
        if params.is_counted {
            self.count_fill(CachedKind::Data, &block, params);
        }
        Ok(block)
    }

    /// A block of index or filter in the cache.
    #[inline]
    pub(super) fn cached_meta(&self, handle: BlockHandle) -> Option<Arc<Block>> {
        self.options.cache.as_ref()?.lookup(&self.cache_key(handle))
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
fn pace(limiter: &RateLimiter, priority: IoPriority, bytes: u64) {
    if !limiter.limits(IoDirection::Read) {
        return;
    }
    let burst = limiter.single_burst_bytes().max(1);
    let mut left = bytes;
    while left > 0 {
        let part = left.min(burst);
        limiter.request(part, priority, IoDirection::Read);
        left -= part;
    }
}
