//! Memory that is charged to the block cache although it lies elsewhere: RocksDB's `cache_usage_options`.
//!
//! | role | memory | when there is no room (strict caches only) |
//! |---|---|---|
//! | dictionary buffer | data held back until a table has a dictionary | no more is held back |
//! | filter construction | hashes of keys, and the filter made of them | it is built all the same |
//! | table reader | an open table, without what it keeps in the cache | the table does not open |
//! | file metadata | the description of a file of the newest version | the version is not installed |

use crate::{Block, BlockCache, CacheRole};
use spanlith_base::{Error, ErrorKind, Result, SubCode};
use spanlith_cache::{CacheKey, Policy, Priority, Release, Reservation, Reserved};
use std::sync::Arc;

/// Memory of one role that is charged to a block cache.
pub type MemoryCharge = Arc<Reservation<Block>>;
/// A part of it.
pub type Charge = Reserved<Block>;

/// Says whether the memory of a role is charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charged {
    /// As RocksDB does if nothing is said: of all roles only the buffer of dictionaries is.
    #[default]
    Fallback,
    /// It is.
    Enabled,
    /// It is not.
    Disabled,
}

/// Which memory is charged to the block cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUsageOptions([Charged; CacheRole::ALL.len()]);

impl CacheUsageOptions {
    /// Decides about a role.
    pub fn set(&mut self, role: CacheRole, charged: Charged) {
        self.0[role as usize] = charged;
    }

    /// The decision about a role.
    pub fn get(&self, role: CacheRole) -> Charged {
        self.0[role as usize]
    }

    /// Refuses what RocksDB refuses, in its words.
    ///
    /// # Errors
    /// `NotSupported` for roles whose memory cannot be charged; `InvalidArgument` without a block cache,
    /// and for values of blob files, of which there is no cache.
    pub fn check(&self, no_block_cache: bool) -> Result<()> {
        for role in CacheRole::ALL {
            let charged = self.get(role);
            let name = role.name();
            let supported = matches!(
                role,
                CacheRole::CompressionDictionaryBuildingBuffer
                    | CacheRole::FilterConstruction
                    | CacheRole::BlockBasedTableReader
                    | CacheRole::FileMetadata
                    | CacheRole::BlobCache
            );
            if charged != Charged::Fallback && !supported {
                return Err(Error::not_supported(format!(
                    "Enable/Disable CacheEntryRoleOptions::charged for CacheEntryRole {name} is not \
                     supported"
                )));
            }
            let what = match role {
                _ if charged != Charged::Enabled => continue,
                _ if no_block_cache => "block cache is disabled",
                CacheRole::BlobCache => "blob cache is not configured",
                _ => continue,
            };
            return Err(Error::invalid_argument(format!(
                "Enable CacheEntryRoleOptions::charged for CacheEntryRole {name} but {what}"
            )));
        }
        Ok(())
    }

    /// Returns what is charged to `cache`, if there is one.
    pub fn charges(&self, cache: Option<&BlockCache>) -> CacheCharges {
        let charge = |role, by_default: bool| {
            let is_charged = match self.get(role) {
                Charged::Fallback => by_default,
                decided => decided == Charged::Enabled,
            };
            let cache = cache.filter(|_| is_charged)?;
            Some(Reservation::new(cache, Block::empty(role), Release::Prompt))
        };
        CacheCharges {
            dictionary: charge(CacheRole::CompressionDictionaryBuildingBuffer, true),
            filter: charge(CacheRole::FilterConstruction, false),
            reader: charge(CacheRole::BlockBasedTableReader, false),
            metadata: charge(CacheRole::FileMetadata, false),
            statistics: cache.and_then(StatisticsEntry::in_cache),
        }
    }
}

/// The entry of a block cache that stands for the statistics about its entries. RocksDB adds one to each cache with
/// the first family that uses it, and programs see it: the cache of an open database without tables is not empty.
/// All families share one entry, which cannot be evicted while one of them has it.
#[derive(Debug)]
pub struct StatisticsEntry {
    cache: BlockCache,
    /// `None` only in `drop`.
    entry: Option<Arc<Block>>,
}

impl StatisticsEntry {
    /// [`spanlith_cache::Cache::new_id`] never yields this file.
    const KEY: CacheKey = CacheKey { file: 0, block: 0 };

    /// Adds the entry, if it is not there. `None` if a strict cache has no room.
    fn in_cache(cache: &BlockCache) -> Option<Arc<Self>> {
        let entry = match cache.lookup(&Self::KEY) {
            Some(entry) => entry,
            None => {
                let entry = Arc::new(Block::empty(CacheRole::Misc));
                // A handle of RocksDB's has this size.
                let charge = match cache.policy() {
                    Policy::Lru => 88,
                    Policy::Clock => 64,
                };
                let added = cache.insert(Self::KEY, entry.clone(), charge, Priority::High);
                added.ok().map(|()| entry)?
            }
        };
        Some(Arc::new(Self {
            cache: cache.clone(),
            entry: Some(entry),
        }))
    }
}

impl Drop for StatisticsEntry {
    fn drop(&mut self) {
        self.entry = None;
        // A cache that is over its capacity evicts what is not in use any more.
        let capacity = self.cache.capacity();
        if self.cache.usage() > capacity {
            self.cache.set_capacity(capacity);
        }
    }
}

/// Describes what is charged to a block cache; `None` is not.
#[derive(Clone, Debug, Default)]
pub struct CacheCharges {
    /// Data held back for a dictionary.
    pub dictionary: Option<MemoryCharge>,
    /// Filters that are being made.
    pub filter: Option<MemoryCharge>,
    /// Open tables.
    pub reader: Option<MemoryCharge>,
    /// Descriptions of files.
    pub metadata: Option<MemoryCharge>,
    /// Statistics about the entries of the cache.
    pub statistics: Option<Arc<StatisticsEntry>>,
}

/// Charges `bytes`, if they are to be charged.
///
/// # Errors
/// `Aborted` with `MemoryLimit` and RocksDB's text if a strict cache has no room.
pub fn charge(to: Option<&MemoryCharge>, role: CacheRole, bytes: usize) -> Result<Option<Charge>> {
    let Some(to) = to else {
        return Ok(None);
    };
    to.reserve(bytes).map(Some).map_err(|_| {
        let text = format!(
            "Can't allocate {} due to memory limit based on cache capacity for memory allocation",
            role.name()
        );
        Error::new(ErrorKind::Aborted, text).with_subcode(SubCode::MemoryLimit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_families_of_a_cache_share_one_entry_for_its_statistics() {
        for (policy, charge) in [(Policy::Lru, 88), (Policy::Clock, 64)] {
            let cache = BlockCache::new(1 << 20, policy);
            let usage = CacheUsageOptions::default();
            let first = usage.charges(Some(&cache));
            let second = usage.charges(Some(&cache));
            assert_eq!((cache.usage(), cache.len()), (charge, 1));
            assert_eq!(cache.pinned_usage(), charge);
            drop(first);
            assert_eq!(cache.pinned_usage(), charge);
            drop(second);
            assert_eq!((cache.usage(), cache.pinned_usage()), (charge, 0));
            cache.clear_unpinned();
            assert!(cache.is_empty());
        }
        // A strict cache without room does without it; another one is rid of it with the last family.
        let strict = BlockCache::with_shards(0, Policy::Lru, 0, true);
        let charges = CacheUsageOptions::default().charges(Some(&strict));
        assert!(charges.statistics.is_none() && strict.is_empty());
        let none = BlockCache::with_shards(0, Policy::Lru, 0, false);
        let charges = CacheUsageOptions::default().charges(Some(&none));
        assert_eq!(none.usage(), 88);
        drop(charges);
        assert_eq!(none.usage(), 0);
    }

    #[test]
    fn what_cannot_be_charged_is_refused_in_rocksdbs_words() {
        let with = |role, charged, no_cache: bool| {
            let mut options = CacheUsageOptions::default();
            options.set(role, charged);
            options.check(no_cache).map_err(|e| e.to_string())
        };
        let reader = CacheRole::BlockBasedTableReader;
        assert_eq!(with(reader, Charged::Enabled, false), Ok(()));
        assert_eq!(with(reader, Charged::Disabled, true), Ok(()));
        for (got, text) in [
            (
                with(CacheRole::Misc, Charged::Disabled, false),
                "Not implemented: Enable/Disable CacheEntryRoleOptions::charged for CacheEntryRole \
                 Misc is not supported",
            ),
            (
                with(reader, Charged::Enabled, true),
                "Invalid argument: Enable CacheEntryRoleOptions::charged for CacheEntryRole \
                 BlockBasedTableReader but block cache is disabled",
            ),
            (
                with(CacheRole::BlobCache, Charged::Enabled, false),
                "Invalid argument: Enable CacheEntryRoleOptions::charged for CacheEntryRole \
                 BlobCache but blob cache is not configured",
            ),
        ] {
            assert_eq!(got, Err(text.to_string()));
        }
    }
}
