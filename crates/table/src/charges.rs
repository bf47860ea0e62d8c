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
use spanlith_cache::{Release, Reservation, Reserved};
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
