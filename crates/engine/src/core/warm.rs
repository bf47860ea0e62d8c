//! New tables whose blocks are wanted in the block cache before anybody asks (`prepopulate_block_cache`).
//!
//! The tables are read once, out of the page cache as a rule, right after they were installed. RocksDB
//! enters the blocks while it writes them; what is in the cache afterwards is the same, and a table
//! that cannot be read back puts nothing there.

use super::{Family, FamilySettings};
use crate::info_log::InfoLog;
use crate::options::PrepopulateBlockCache;
use crate::version::NewFile;
use spanlith_base::Result;
use spanlith_table::ReadParams;
use std::sync::atomic::{AtomicBool, Ordering};

/// Describes who wrote the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrittenBy {
    Flush,
    Compaction,
}

impl WrittenBy {
    /// Reads the blocks of new tables into the cache if the options of the family ask for it, until `stopping`.
    pub(crate) fn warm_cache(
        self,
        family: &Family,
        settings: &FamilySettings,
        files: &[NewFile],
        (stopping, log): (&AtomicBool, &InfoLog),
    ) {
        let wanted = match settings.table_options.prepopulate_block_cache {
            PrepopulateBlockCache::Disable => false,
            PrepopulateBlockCache::FlushOnly => self == Self::Flush,
            PrepopulateBlockCache::FlushAndCompaction => true,
        };
        if !wanted || family.cache.readers.cache.is_none() {
            return;
        }
        for file in files {
            if let Err(e) = warm_table(family, file.number, stopping) {
                // A reader that needs the block that failed meets the error itself.
                let number = file.number;
                log.warn(format_args!("table {number:06} is not cached: {e}"));
            }
        }
    }
}

fn warm_table(family: &Family, number: u64, stopping: &AtomicBool) -> Result<()> {
    let version = family.superversion.load().version.clone();
    let Some((level, at)) = version.locate(number) else {
        return Ok(());
    };
    let reader = family.cache.reader(&version.levels[level].files[at])?;
    let mut iter = reader.iter(ReadParams::default());
    iter.seek_to_first();
    while iter.valid() && !stopping.load(Ordering::Relaxed) {
        iter.next();
    }
    iter.status()
}
