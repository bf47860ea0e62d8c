//! What a read needs, as one immutable counted value (R2): the mutable memtable, the immutable ones
//! newest first, and the version.

use super::FamilySettings;
use crate::iter::{LevelIter, MergingIter, Source};
use crate::version::{TableCache, Version};
use spanlith_base::{Comparator, Result};
use spanlith_memtable::MemTable;
use spanlith_table::ReadParams;
use std::sync::Arc;

/// Memtables and version of one column family at one moment.
pub struct SuperVersion {
    /// Receives writes.
    pub mem: Arc<MemTable>,
    /// Sealed memtables not yet in tables, newest first.
    pub imm: Vec<Arc<MemTable>>,
    /// The tables.
    pub version: Arc<Version>,
    /// Options in force.
    pub(crate) settings: Arc<FamilySettings>,
}

impl SuperVersion {
    /// A stream over everything, newer places first.
    pub fn merged(
        &self,
        comparator: &Comparator,
        cache: &Arc<TableCache>,
        params: ReadParams,
    ) -> Result<MergingIter> {
        let mut sources = Vec::with_capacity(2 + self.imm.len() + 8);
        sources.push(Source::Mem(self.mem.iter()));
        sources.extend(self.imm.iter().map(|m| Source::Mem(m.iter())));
        for (n, level) in self.version.levels.iter().enumerate() {
            if n == 0 {
                for file in &level.files {
                    let reader = cache.reader(file)?;
                    sources.push(Source::Table(Box::new(reader.iter(params))));
                }
            } else if !level.files.is_empty() {
                let i = LevelIter::new(
                    self.version.clone(),
                    n,
                    comparator.clone(),
                    cache.clone(),
                    params,
                );
                sources.push(Source::Level(Box::new(i)));
            }
        }
        Ok(MergingIter::new(comparator.clone(), sources))
    }
}
