//! The filter of an open table: where it is, and what it is asked.
//!
//! The usual filter, one block of whole keys asked by their 64-bit hash, has a path of its own. All
//! others are asked with the key: legacy filters have another hash, prefix filters want the prefix,
//! and of a partitioned filter the key says which partition. What cannot be read matches.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::TableReader;
use crate::CacheRole;
use crate::block::Block;
use crate::filter::{FULL_FILTER_NAME, Filter, PARTITIONED_FILTER_NAME};
use crate::format::{BlockHandle, BlockKind};
use crate::lookups::CachedKind;
use crate::options::ReadParams;
use spanlith_base::keys::{MAX_SEQUENCE, seek_tag};
use spanlith_base::perf::PerfCounter;
use spanlith_base::slice_transform::ExtractorId;
use spanlith_base::timestamp::put_padded;
use spanlith_base::{Comparator, Result, SliceTransform};
use std::sync::Arc;

/// Where the filter is.
pub(super) enum FilterPlace {
    /// There is none, or it cannot be used.
    Absent,
    /// With the reader, asked by the hash of whole keys.
    Resident(Filter),
    /// In the cache, to be read from here when missing; asked by the hash of whole keys.
    Cached(BlockHandle),
    /// Asked with the key.
    Keyed(Box<KeyedFilter>),
}

/// A filter that is asked with the key.
pub(super) struct KeyedFilter {
    blocks: FilterBlocks,
    /// It holds whole keys, and they are to be asked for.
    whole_keys: bool,
}

/// The blocks of a filter that is asked with the key.
enum FilterBlocks {
    /// One, with the reader.
    Resident(Filter),
    /// One, in the cache.
    Cached(BlockHandle),
    /// Partitions.
    Partitioned {
        /// The top level, in the cache if it is not here.
        top: Option<Arc<Block>>,
        top_handle: BlockHandle,
        /// All partitions, if they stay with the reader.
        partitions: Vec<Filter>,
    },
}

/// Blocks of a filter that were fetched for the key before.
#[derive(Default)]
pub(super) struct FilterMemo {
    top: Option<Arc<Block>>,
    block: Option<(BlockHandle, Arc<Block>)>,
}

/// Prefixes in the filter.
pub(super) struct Prefixes {
    /// The extractor the table was written with.
    extractor: SliceTransform,
    id: ExtractorId,
    /// It is the reader's own.
    is_own: bool,
}

impl Prefixes {
    /// Returns whether it is the extractor in use.
    #[inline]
    fn is_current(&self, params: &ReadParams) -> bool {
        params.extractor.map_or(self.is_own, |id| id == self.id)
    }
}

/// Describes what is known about a seek for which a prefix filter may be asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrefixSeek<'a> {
    /// The user key sought, without a timestamp.
    pub key: &'a [u8],
    /// The exclusive upper bound of the iterator. It lets a table be asked whose prefix extractor is
    /// not the one in use.
    pub upper_bound: Option<&'a [u8]>,
    /// The iterator finds out by itself whether prefixes apply (`auto_prefix_mode`), so that the
    /// filter may be asked only if the upper bound shows that nothing beyond the prefix is wanted.
    pub needs_bound: bool,
}

/// Returns whether nothing in front of `bound`, at or after a key with the prefix, has another prefix. Requires:
/// an order in which all keys with a prefix lie together.
pub fn prefix_ends_at(
    extractor: &SliceTransform,
    comparator: &Comparator,
    prefix: &[u8],
    bound: &[u8],
) -> bool {
    if extractor.prefix(bound) == Some(prefix) {
        return true;
    }
    // Or it is the first key after all of the prefix.
    matches!(comparator, Comparator::Bytewise)
        && extractor.full_length() == Some(prefix.len())
        && is_successor(prefix, bound)
}

impl FilterPlace {
    /// Bytes of memory with the reader.
    pub(super) fn memory_usage(&self) -> usize {
        match self {
            Self::Absent | Self::Cached(_) => 0,
            Self::Resident(filter) => filter.memory_usage(),
            Self::Keyed(keyed) => match &keyed.blocks {
                FilterBlocks::Resident(filter) => filter.memory_usage(),
                FilterBlocks::Cached(_) => 0,
                FilterBlocks::Partitioned {
                    top, partitions, ..
                } => {
                    top.as_ref().map_or(0, |top| top.memory_usage())
                        + partitions.iter().map(Filter::memory_usage).sum::<usize>()
                }
            },
        }
    }
}

impl TableReader {
    /// Returns whether the filter lets prefix seeks for `seek.key` pass: false only if no key of the table
    /// at or after it has its prefix. True whenever the filter has no answer.
    pub fn prefix_may_match(&self, seek: PrefixSeek<'_>, params: &ReadParams) -> bool {
        let Some(prefix) = self.prefix_to_ask(seek, params) else {
            return true;
        };
        let passes = self.prefix_passes(seek, prefix, params);
        if params.is_counted {
            self.count_prefix_seek(passes);
        }
        passes
    }

    /// The prefix for which the filter is asked; `None` if it has no answer.
    #[inline]
    pub(crate) fn prefix_to_ask<'a>(
        &self,
        seek: PrefixSeek<'a>,
        params: &ReadParams,
    ) -> Option<&'a [u8]> {
        let prefixes = self.prefixes.as_ref().filter(|_| !params.skip_filters)?;
        let prefix = prefixes.extractor.prefix(seek.key)?;
        let is_free = !seek.needs_bound && prefixes.is_current(params);
        (is_free || self.is_bounded(prefixes, prefix, seek)).then_some(prefix)
    }

    /// Returns what the filter says of a prefix.
    #[inline]
    fn prefix_passes(&self, seek: PrefixSeek<'_>, prefix: &[u8], params: &ReadParams) -> bool {
        let tag = seek_tag(MAX_SEQUENCE);
        match &self.filter {
            FilterPlace::Absent => true,
            FilterPlace::Resident(filter) => filter.may_match(prefix),
            FilterPlace::Cached(handle) => self.cached_filter(*handle, prefix, params),
            FilterPlace::Keyed(keyed) => {
                let mut memo = FilterMemo::default();
                let size = self.options.comparator.timestamp_size();
                if size > 0 {
                    // In front of all versions of the key.
                    let mut first = Vec::new();
                    put_padded(&mut first, seek.key, size, 0xff);
                    return self.ask_blocks(
                        &keyed.blocks,
                        (&first, tag),
                        prefix,
                        (params, &mut memo),
                    );
                }
                self.ask_blocks(&keyed.blocks, (seek.key, tag), prefix, (params, &mut memo))
            }
        }
    }

    /// Returns whether the upper bound keeps a seek within the prefix of its key.
    fn is_bounded(&self, prefixes: &Prefixes, prefix: &[u8], seek: PrefixSeek<'_>) -> bool {
        let bound = seek.upper_bound;
        bound.is_some_and(|b| {
            prefix_ends_at(&prefixes.extractor, &self.options.comparator, prefix, b)
        })
    }

    /// Returns whether the extractor finds a prefix of a user key.
    pub(super) fn has_prefix(&self, user_key: &[u8]) -> bool {
        let bare = self.options.comparator.strip_timestamp(user_key);
        let prefixes = self.prefixes.as_ref();
        prefixes.is_some_and(|p| p.extractor.prefix(bare).is_some())
    }

    /// Returns whether a prefix extractor and a filter with prefixes are there to be asked.
    pub fn has_prefix_filter(&self) -> bool {
        self.prefixes.is_some() && !matches!(self.filter, FilterPlace::Absent)
    }

    /// Returns what point lookups ask the filter for: prefixes instead of whole keys, and anything at all.
    pub(super) fn filter_asks(&self, params: &ReadParams) -> (bool, bool) {
        match &self.filter {
            FilterPlace::Absent => (false, false),
            FilterPlace::Resident(_) | FilterPlace::Cached(_) => (false, true),
            FilterPlace::Keyed(keyed) if keyed.whole_keys => (false, true),
            FilterPlace::Keyed(_) => {
                let prefixes = self.prefixes.as_ref();
                (true, prefixes.is_some_and(|p| p.is_current(params)))
            }
        }
    }

    /// Asks a filter of [`FilterPlace::Keyed`] for a point lookup.
    #[inline(never)]
    pub(super) fn keyed_filter_matches(
        &self,
        keyed: &KeyedFilter,
        key: (&[u8], u64),
        params: &ReadParams,
        memo: &mut FilterMemo,
    ) -> bool {
        let bare = self.options.comparator.strip_timestamp(key.0);
        let entry = if keyed.whole_keys {
            Some(bare)
        } else {
            self.prefixes
                .as_ref()
                .filter(|p| p.is_current(params))
                .and_then(|p| p.extractor.prefix(bare))
        };
        entry.is_none_or(|entry| self.ask_blocks(&keyed.blocks, key, entry, (params, memo)))
    }

    /// Asks for `entry` where the key (user key, tag) belongs.
    fn ask_blocks(
        &self,
        blocks: &FilterBlocks,
        key: (&[u8], u64),
        entry: &[u8],
        (params, memo): (&ReadParams, &mut FilterMemo),
    ) -> bool {
        match blocks {
            FilterBlocks::Resident(filter) => filter.may_match(entry),
            FilterBlocks::Cached(handle) => self.ask_cached(*handle, entry, params, memo),
            FilterBlocks::Partitioned {
                top,
                top_handle,
                partitions,
            } => {
                if top.is_none() && memo.top.is_none() {
                    memo.top = self.cached_filter_top(*top_handle, params).ok();
                }
                let top = top.as_ref().or(memo.top.as_ref());
                let top = top.and_then(|top| top.index());
                let Some(top) = top.filter(|top| top.len() > 0) else {
                    return true;
                };
                // Behind the last partition the last one answers.
                let Some(at) = self.filter_seek(top, key) else {
                    return true;
                };
                let at = at.min(top.len() - 1);
                if let Some(filter) = partitions.get(at) {
                    return filter.may_match(entry);
                }
                match top.handle(at) {
                    Some(handle) => self.ask_cached(handle, entry, params, memo),
                    None => true,
                }
            }
        }
    }

    /// Asks a filter block that lives in the cache, or is still held from the key before.
    fn ask_cached(
        &self,
        handle: BlockHandle,
        entry: &[u8],
        params: &ReadParams,
        memo: &mut FilterMemo,
    ) -> bool {
        if let Some((last, block)) = &memo.block
            && *last == handle
        {
            return !self.believes_entry(block, handle, entry)
                || Filter::query_bytes_for(block.bytes(), entry);
        }
        let Some(block) = self.cached_filter_block(handle, params) else {
            return true;
        };
        let matches = !self.believes_entry(&block, handle, entry)
            || Filter::query_bytes_for(block.bytes(), entry);
        memo.block = Some((handle, block));
        matches
    }

    /// The top level of a partitioned filter in the cache, read if it is not there.
    fn cached_filter_top(&self, handle: BlockHandle, params: &ReadParams) -> Result<Arc<Block>> {
        if let Some(block) = self.cached_filter_meta(handle)? {
            if params.is_counted {
                self.count_hit((CachedKind::Filter, handle), &block, params);
            }
            return Ok(block);
        }
        self.may_read(params)?;
        let block = self.load_index(handle, self.top_form(), BlockKind::Filter, params)?;
        let block = Arc::new(block);
        self.insert_meta(handle, &block)?;
        if params.is_counted {
            self.count_fill((CachedKind::Filter, handle), &block, params);
        }
        Ok(block)
    }

    /// Asks a filter block that lives in the cache. What cannot be read matches.
    fn cached_filter(&self, handle: BlockHandle, entry: &[u8], params: &ReadParams) -> bool {
        self.cached_filter_block(handle, params)
            .is_none_or(|block| {
                !self.believes_entry(&block, handle, entry)
                    || Filter::query_bytes_for(block.bytes(), entry)
            })
    }

    /// Asks a filter block in the cache by hash.
    pub(super) fn cached_filter_matches(
        &self,
        handle: BlockHandle,
        hash: u64,
        params: &ReadParams,
    ) -> bool {
        self.cached_filter_block(handle, params)
            .is_none_or(|block| {
                !self.believes(&block, handle, hash) || Filter::query_bytes(block.bytes(), hash)
            })
    }

    pub(super) fn cached_filter_block(
        &self,
        handle: BlockHandle,
        params: &ReadParams,
    ) -> Option<Arc<Block>> {
        if let Some(block) = self.cached_filter_meta(handle).ok()? {
            if params.is_counted {
                self.count_hit((CachedKind::Filter, handle), &block, params);
            }
            return Some(block);
        }
        if params.cache_only {
            return None;
        }
        let began = params.is_counted.then(|| self.moment()).flatten();
        let bytes = self.read_meta(handle, BlockKind::Filter, params);
        let block = self.guarded(Block::raw_as(CacheRole::FilterBlock, bytes.ok()?), handle);
        let block = Arc::new(block);
        // A full cache only means that the filter is read again.
        let _ = self.insert_meta(handle, &block);
        if params.is_counted {
            self.count_time(PerfCounter::ReadFilterBlockNanos, began);
            self.count_fill((CachedKind::Filter, handle), &block, params);
        }
        Some(block)
    }

    /// Finds out where the filter is, and reads what stays with the reader.
    pub(super) fn open_filter(&mut self, in_cache: bool, top_in_cache: bool, verify: bool) {
        let p = &self.properties;
        let whole_keys = self.options.whole_key_filtering && p.whole_key_filtering();
        let prefixes = p.prefix_filtering().then(|| self.file_prefixes()).flatten();
        if !whole_keys && prefixes.is_none() {
            return;
        }
        let blocks = if let Some(handle) = self.meta(FULL_FILTER_NAME) {
            // Only formats before 5 have filters with another hash.
            let by_hash = whole_keys && self.footer.format_version >= 5;
            if in_cache {
                if by_hash {
                    self.filter = FilterPlace::Cached(handle);
                    self.prefixes = prefixes;
                    return;
                }
                FilterBlocks::Cached(handle)
            } else {
                // RocksDB reads on without a filter it cannot read.
                let Ok(bytes) = self.read(handle, BlockKind::Filter, verify) else {
                    return;
                };
                let filter = Filter::parse(bytes);
                if !filter.is_understood() {
                    return;
                }
                if whole_keys && filter.is_asked_by_hash() {
                    self.filter = FilterPlace::Resident(filter);
                    self.prefixes = prefixes;
                    return;
                }
                FilterBlocks::Resident(filter)
            }
        } else if let Some(top_handle) = self.meta(PARTITIONED_FILTER_NAME) {
            let Some(blocks) = self.open_partitions(top_handle, in_cache, top_in_cache, verify)
            else {
                return;
            };
            blocks
        } else {
            return;
        };
        self.prefixes = prefixes;
        self.filter = FilterPlace::Keyed(Box::new(KeyedFilter { blocks, whole_keys }));
    }

    fn open_partitions(
        &self,
        top_handle: BlockHandle,
        in_cache: bool,
        top_in_cache: bool,
        verify: bool,
    ) -> Option<FilterBlocks> {
        if top_handle.size == 0 {
            return None;
        }
        let mut top = None;
        let mut partitions = Vec::new();
        if !top_in_cache {
            let form = self.top_form();
            let params = self.opening_params(verify);
            let block = self.load_index(top_handle, form, BlockKind::Filter, &params);
            let block = block.ok()?;
            if !in_cache {
                for handle in block.index()?.handles() {
                    // A partition that cannot be read matches.
                    let bytes = self.read(handle, BlockKind::Filter, verify);
                    partitions.push(Filter::parse(bytes.unwrap_or_else(|_| vec![0; 6])));
                }
            }
            top = Some(Arc::new(block));
        }
        Some(FilterBlocks::Partitioned {
            top,
            top_handle,
            partitions,
        })
    }

    /// The extractor of the table's prefixes, if it is known here.
    fn file_prefixes(&self) -> Option<Prefixes> {
        let name = self.properties.prefix_extractor_name.as_str();
        let current = self.options.prefix_extractor.as_ref();
        if let Some(current) = current.filter(|c| c.is_named(name)) {
            return Some(Prefixes {
                extractor: current.clone(),
                id: current.id(),
                is_own: true,
            });
        }
        let extractor = SliceTransform::from_text(name)?;
        let id = extractor.id();
        Some(Prefixes {
            extractor,
            id,
            is_own: false,
        })
    }

    /// The top level of a partitioned filter, read for verification; `None` if there is none.
    ///
    /// # Errors
    /// Those of reading it.
    pub(super) fn load_filter_top(&self) -> Result<Option<Block>> {
        let Some(handle) = self.meta(PARTITIONED_FILTER_NAME).filter(|h| h.size > 0) else {
            return Ok(None);
        };
        let params = self.opening_params(true);
        self.load_index(handle, self.top_form(), BlockKind::Filter, &params)
            .map(Some)
    }
}

/// Returns whether `bound` is the first key after all keys that begin with `prefix`.
fn is_successor(prefix: &[u8], bound: &[u8]) -> bool {
    let Some(last) = prefix.iter().rposition(|&b| b != 0xff) else {
        return false;
    };
    let mut next = prefix.get(..=last).unwrap_or_default().to_vec();
    if let Some(byte) = next.last_mut() {
        *byte += 1;
    }
    // The bound may have the full length, or be cut after the byte that was raised.
    bound == next
        || (bound.len() == prefix.len()
            && bound.starts_with(&next)
            && bound
                .get(next.len()..)
                .is_some_and(|rest| rest.iter().all(|&b| b == 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_successor_of_a_prefix_is_recognised() {
        assert!(is_successor(b"abc", b"abd"));
        assert!(is_successor(b"ab\xff", b"ac"));
        assert!(is_successor(b"ab\xff", b"ac\0"));
        for bound in [&b"abe"[..], b"abc", b"abd0", b"ab", b""] {
            assert!(!is_successor(b"abc", bound), "{bound:?}");
        }
        assert!(!is_successor(b"\xff\xff", b"\xff\xff\xff"));
    }
}
