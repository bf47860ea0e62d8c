//! Looks up a sorted run of keys at once: each filter partition, index partition and data block is
//! fetched once for all neighbours that need it.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::TableReader;
use super::filter::{FilterMemo, FilterPlace};
use super::index::Near;
use crate::block::Block;
use crate::block::seek::Lookup;
use crate::filter::Filter;
use crate::format::BlockHandle;
use crate::index::IndexTable;
use crate::lookups::Lookups;
use crate::options::ReadParams;
use spanlith_base::keys::seek_tag;
use spanlith_base::{Result, SequenceNumber};
use std::ops::ControlFlow;
use std::sync::Arc;

/// One key of a batch.
#[derive(Debug)]
pub struct TableGet<'a> {
    /// The user key.
    pub user_key: &'a [u8],
    /// Its [`TableReader::filter_hash`].
    pub hash: u64,
    /// Says whether it is to be looked up; others are passed over.
    pub is_wanted: bool,
    /// How its lookup ended. An error concerns this key only.
    pub result: Result<()>,
    /// The filter lets it pass.
    passes: bool,
}

impl<'a> TableGet<'a> {
    /// A key that is passed over.
    pub const NONE: Self = Self {
        user_key: &[],
        hash: 0,
        is_wanted: false,
        result: Ok(()),
        passes: false,
    };

    /// A key to look up, with its [`TableReader::filter_hash`].
    pub fn new(user_key: &'a [u8], hash: u64) -> Self {
        Self {
            user_key,
            hash,
            is_wanted: true,
            result: Ok(()),
            passes: true,
        }
    }
}

/// The blocks of the keys before.
#[derive(Default)]
struct Memo {
    partition: Option<(usize, Arc<Block>)>,
    data: Option<(BlockHandle, Arc<Block>)>,
    /// Blocks that were read ahead of their keys.
    gathered: Vec<(BlockHandle, Arc<Block>)>,
    has_gathered: bool,
}

impl TableReader {
    /// [`Self::get_hashed`] for several keys, those that are wanted, which must be in order. `sink` gets the number of the
    /// key in `keys`, then what the sink of [`Self::get_hashed`] gets; breaking ends that key only.
    /// Errors go into [`TableGet::result`].
    pub fn multi_get<F>(
        &self,
        keys: &mut [TableGet<'_>],
        snapshot: SequenceNumber,
        params: &ReadParams,
        mut sink: F,
    ) where
        F: FnMut(usize, u64, &[u8], &Arc<Block>) -> ControlFlow<()>,
    {
        let tag = seek_tag(snapshot);
        if !self.filter_batch(keys, tag, params) {
            return;
        }
        let top = match self.index(params) {
            Ok(top) => top,
            Err(e) => {
                for key in keys.iter_mut().filter(|key| key.passes) {
                    key.result = Err(e.clone());
                }
                return;
            }
        };
        let mut memo = Memo::default();
        let is_listened_to = params.is_counted && self.is_listened_to();
        if is_listened_to {
            Lookups::begin();
        }
        let mut rest = keys;
        let mut n = 0;
        while let [key, behind @ ..] = rest {
            if !key.passes {
                (rest, n) = (behind, n + 1);
                continue;
            }
            let mut seen = None;
            let mut sink = |tag: u64, value: &[u8], block: &Arc<Block>| {
                seen = Some((tag, value.len()));
                sink(n, tag, value, block)
            };
            let sought = (key.user_key, tag);
            key.result = self.get_remembering(&top, sought, (params, behind), &mut memo, &mut sink);
            if params.is_counted && seen.is_some() && !params.skip_filters {
                self.count_found(params);
            }
            if is_listened_to {
                self.note_searched(sought, seen, params, false);
            }
            (rest, n) = (behind, n + 1);
        }
        if is_listened_to {
            // Lookups for keys that did not come to the last one.
            self.note_searched((&[], tag), None, params, true);
        }
    }

    /// Asks the filter for all keys that are wanted; whether any passes.
    fn filter_batch(&self, keys: &mut [TableGet<'_>], tag: u64, params: &ReadParams) -> bool {
        match &self.filter {
            _ if params.skip_filters => {
                keys.iter_mut().for_each(|key| key.passes = key.is_wanted);
            }
            FilterPlace::Absent => {
                for key in keys.iter_mut() {
                    key.passes = key.is_wanted;
                }
            }
            FilterPlace::Resident(filter) => {
                for key in keys.iter().filter(|key| key.is_wanted) {
                    filter.prefetch(key.hash);
                }
                for key in keys.iter_mut() {
                    key.passes = key.is_wanted && filter.may_match_hash(key.hash);
                }
            }
            FilterPlace::Cached(handle) => {
                let block = self.cached_filter_block(*handle, params);
                for key in keys.iter_mut() {
                    key.passes = key.is_wanted
                        && block.as_ref().is_none_or(|block| {
                            !self.believes(block, *handle, key.hash)
                                || Filter::query_bytes(block.bytes(), key.hash)
                        });
                }
            }
            FilterPlace::Keyed(keyed) => {
                let mut memo = FilterMemo::default();
                for key in keys.iter_mut() {
                    let sought = (key.user_key, tag);
                    key.passes = key.is_wanted
                        && self.keyed_filter_matches(keyed, sought, params, &mut memo);
                }
            }
        }
        if params.is_counted && !params.skip_filters {
            let wanted = keys.iter().filter(|k| k.is_wanted);
            self.count_filtered(wanted.map(|k| (k.user_key, k.passes)), params);
        }
        keys.iter().any(|key| key.passes)
    }

    /// One lookup that takes blocks from the one before.
    fn get_remembering<F>(
        &self,
        top: &IndexTable,
        key: (&[u8], u64),
        (params, behind): (&ReadParams, &[TableGet<'_>]),
        memo: &mut Memo,
        sink: &mut F,
    ) -> Result<()>
    where
        F: FnMut(u64, &[u8], &Arc<Block>) -> ControlFlow<()>,
    {
        let Memo {
            partition,
            data,
            gathered,
            has_gathered,
        } = memo;
        let mut fetch = |handle: BlockHandle| match data {
            Some((last, block)) if *last == handle => Ok(block.clone()),
            _ => {
                let block = match self.cached_data_block(handle, params)? {
                    Some(block) => block,
                    None => {
                        if !*has_gathered {
                            *has_gathered = true;
                            *gathered = self.gather(handle, (behind, key.1), params);
                        }
                        match gathered.iter().find(|(at, _)| *at == handle) {
                            Some((_, block)) => block.clone(),
                            None => self.load_data_block(handle, params)?,
                        }
                    }
                };
                if params.is_counted && self.is_listened_to() {
                    Lookups::searched(handle.offset);
                }
                *data = Some((handle, block.clone()));
                Ok(block)
            }
        };
        if !self.has_two_levels() {
            self.get_through(top, key, &mut fetch, sink)?;
            return Ok(());
        }
        let start = self.seek_in(top, key)?;
        for i in start..top.len() {
            let block = match partition {
                Some((last, block)) if *last == i => block.clone(),
                _ => {
                    let block = self.index_partition(top, i, params)?;
                    *partition = Some((i, block.clone()));
                    block
                }
            };
            if let Some(index) = block.index()
                && self.get_through(index, key, &mut fetch, sink)? == Lookup::Done
            {
                return Ok(());
            }
        }
        self.get_flat(key, params, sink)
    }

    /// Reads the block at `first`, which is not in the cache, together with those that the later keys
    /// need and that are not there either. What cannot be read is left out: the key that needs it
    /// meets the error itself.
    #[cold]
    fn gather(
        &self,
        first: BlockHandle,
        (behind, tag): (&[TableGet<'_>], u64),
        params: &ReadParams,
    ) -> Vec<(BlockHandle, Arc<Block>)> {
        if self.may_read(params).is_err() {
            return Vec::new();
        }
        let mut missing = vec![first];
        let mut near = Near::default();
        for key in behind.iter().filter(|key| key.passes) {
            if let Ok(Some(handle)) = self.find_block_near((key.user_key, tag), params, &mut near)
                && missing.last() != Some(&handle)
                && matches!(self.cached_block(handle, params), Ok(None))
            {
                missing.push(handle);
            }
        }
        if missing.len() == 1 {
            return Vec::new();
        }
        let loaded = self.load_data_blocks(&missing, params);
        let pairs = missing.into_iter().zip(loaded);
        pairs
            .filter_map(|(handle, block)| Some((handle, block.ok()?)))
            .collect()
    }
}
