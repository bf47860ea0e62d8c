//! How much of what leads to values is in memory (R-TR-03). With values in blob files, tables hold keys and references, and
//! a cache that holds all of their blocks makes a get one read.

use super::Cf;
use crate::core::Family;
use spanlith_base::Result;
use spanlith_table::CacheRole;
use std::collections::HashSet;
use std::fmt::Write as _;

/// Says how much of a family's tables is in the block cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexResidency {
    /// Tables of the family.
    pub tables: u64,
    /// Bytes of their files: keys, references, and values that were not separated.
    pub bytes: u64,
    /// Data blocks that they have.
    pub blocks: u64,
    /// Data blocks of them that are in the block cache.
    pub cached_blocks: u64,
    /// Memory that those take.
    pub cached_bytes: u64,
    /// Memory of their open readers: index and filter, as far as they are not in the cache.
    pub reader_bytes: u64,
}

impl IndexResidency {
    /// The share of data blocks that are in the cache; 1 if there are none.
    pub fn share(&self) -> f64 {
        match self.blocks {
            0 => 1.0,
            all => self.cached_blocks as f64 / all as f64,
        }
    }

    /// The property `spanlith.index-residency`.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (name, n) in [
            ("tables", self.tables),
            ("bytes", self.bytes),
            ("data blocks", self.blocks),
            ("data blocks in the cache", self.cached_blocks),
            ("bytes in the cache", self.cached_bytes),
            ("bytes of readers", self.reader_bytes),
        ] {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name}: {n}");
        }
        let _ = writeln!(text, "resident: {:.4}", self.share());
        text
    }

    /// Looks at all tables of a family and all blocks in its cache.
    pub(super) fn of(family: &Family) -> Result<Self> {
        let version = &family.superversion.load_full().version;
        let mut found = Self::default();
        let mut files = HashSet::new();
        for (_, file) in version.file_iter() {
            let reader = family.cache.reader(file)?;
            found.tables += 1;
            found.bytes += file.size;
            found.blocks += reader.properties().num_data_blocks;
            found.reader_bytes += reader.memory_usage() as u64;
            files.insert(reader.cache_file());
        }
        if let Some(cache) = &family.cache.readers.cache {
            cache.visit(|key, block, charge| {
                if block.role() == CacheRole::DataBlock && files.contains(&key.file) {
                    found.cached_blocks += 1;
                    found.cached_bytes += charge as u64;
                }
            });
        }
        Ok(found)
    }
}

impl Cf {
    /// How much of the family's tables is in the block cache. Opens tables that are not open, and visits every entry of the
    /// cache, under the locks of its shards one after the other.
    ///
    /// # Errors
    /// Of opening a table.
    pub fn index_residency(&self) -> Result<IndexResidency> {
        IndexResidency::of(&self.family)
    }
}
