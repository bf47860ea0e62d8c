//! Values of blob files in memory (`blob_cache`), uncompressed.
//!
//! Values are blocks of a [`BlockCache`], so that one cache may hold blocks and values and has one
//! capacity. A value is found by the number of its file and its offset; the entries of one family
//! have an id of their own in the cache. Threads: any.

use super::index::BlobPointer;
use spanlith_base::Pinned;
use spanlith_base::perf::{self, PerfCounter};
use spanlith_base::stats::{Statistics, Ticker};
use spanlith_cache::{CacheKey, Priority};
use spanlith_table::{Block, BlockCache, CacheRole};
use std::sync::Arc;

/// Bits of a key that hold the offset; the others hold the number of the file. What needs more
/// (offsets from 64 GiB on, more than 268 million files) is not cached.
const OFFSET_BITS: u32 = 36;

/// The cached values of one family.
pub struct BlobCache {
    cache: BlockCache,
    /// This family's part of the keys, which no other user of the cache has.
    id: u64,
    statistics: Option<Arc<Statistics>>,
}

impl BlobCache {
    /// Values in `cache`, which may be shared with anything else.
    pub fn new(cache: BlockCache, statistics: Option<Arc<Statistics>>) -> Self {
        let id = cache.new_id();
        Self {
            cache,
            id,
            statistics,
        }
    }

    /// The cache.
    pub fn cache(&self) -> &BlockCache {
        &self.cache
    }

    fn key(&self, pointer: &BlobPointer) -> Option<CacheKey> {
        let fits = pointer.offset >> OFFSET_BITS == 0 && pointer.file >> (64 - OFFSET_BITS) == 0;
        fits.then_some(CacheKey {
            file: self.id,
            block: pointer.file << OFFSET_BITS | pointer.offset,
        })
    }

    /// The value, if it is cached.
    pub(super) fn find(&self, pointer: &BlobPointer) -> Option<Pinned> {
        let found = self.key(pointer).and_then(|key| self.cache.lookup(&key));
        let value = found.map(|block| block.pin(block.bytes()));
        if let Some(s) = &self.statistics {
            match &value {
                Some(value) => {
                    s.add(Ticker::BlobdbCacheHit, 1);
                    s.add(Ticker::BlobdbCacheBytesRead, value.len() as u64);
                }
                None => s.add(Ticker::BlobdbCacheMiss, 1),
            }
        }
        if value.is_some() {
            perf::add(PerfCounter::BlobCacheHitCount, 1);
        }
        value
    }

    /// Keeps a value.
    pub(super) fn keep(&self, pointer: &BlobPointer, value: &[u8]) {
        let Some(key) = self.key(pointer) else {
            return;
        };
        let block = Arc::new(Block::raw_as(CacheRole::BlobValue, value.to_vec()));
        let charge = block.memory_usage();
        // A strict cache that is full of entries in use does without the value.
        let added = self.cache.insert(key, block, charge, Priority::Low);
        if let Some(s) = &self.statistics {
            match added {
                Ok(()) => {
                    s.add(Ticker::BlobdbCacheAdd, 1);
                    s.add(Ticker::BlobdbCacheBytesWrite, value.len() as u64);
                }
                Err(_) => s.add(Ticker::BlobdbCacheAddFailures, 1),
            }
        }
    }
}
