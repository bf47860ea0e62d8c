//! Describes what a read needs, as one immutable counted value (R2): the mutable memtable, the immutable ones
//! newest first, and the version.

use super::FamilySettings;
use crate::iter::{Coverage, LevelIter, MergingIter, RangeWatch, Source, TableFilter};
use crate::version::{TableCache, Version};
use spanlith_base::range_del::{ReadBound, TruncatedTombstones};
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
    /// Reads at an earlier timestamp fail: the version may have lost what they would see. Empty for
    /// none.
    pub(crate) history_low: Vec<u8>,
    /// Its number in the family; 0 if it holds less than a state of the family does, or readers were never given
    /// it by that number.
    pub(crate) number: u64,
    /// Lookups ask one table after the other, by the careful way: see [`asks_in_turn`].
    pub(crate) asks_in_turn: bool,
}

/// Returns whether lookups of a family ask its tables one after the other: what they find is kept in rows, filters
/// are left out at the bottom, or reads in vain are counted.
pub(super) fn asks_in_turn(cache: &TableCache, settings: &FamilySettings) -> bool {
    cache.rows.is_some() || cache.expects_hits || settings.counts_wasted_reads()
}

impl SuperVersion {
    /// A stream over everything, newer places first.
    pub fn merged(
        &self,
        comparator: &Comparator,
        cache: &Arc<TableCache>,
        params: ReadParams,
        ranges: &RangeWatch,
        filter: Option<&TableFilter>,
    ) -> Result<MergingIter> {
        let levels = self.version.occupied();
        let tables = levels.iter().map(|(n, level)| match n {
            0 => level.files.len(),
            _ => 1,
        });
        let count = 1 + self.imm.len() + tables.sum::<usize>();
        let mut sources = MergingIter::with_capacity(comparator.clone(), count);
        for mem in std::iter::once(&self.mem).chain(&self.imm) {
            sources.push(Source::Mem(mem.iter()));
            if mem.range_deletes() > 0 {
                ranges.note_memtable();
            }
        }
        for &(n, ref level) in levels {
            if n == 0 {
                for file in &level.files {
                    let reader = cache.reader(file)?;
                    if file.tombstones.get().is_some() {
                        ranges.note();
                    }
                    // A table that is passed over keeps its place among the streams.
                    if filter.is_none_or(|filter| filter.takes(&reader)) {
                        sources.push(Source::Table(Box::new(reader.iter(params))));
                    } else {
                        let none =
                            LevelIter::over(Vec::new(), comparator.clone(), cache.clone(), params);
                        sources.push(Source::Level(Box::new(none)));
                    }
                }
            } else {
                let mut params = params;
                params.skip_filters = cache.expects_hits && self.version.is_deepest(n);
                let i = LevelIter::new(
                    self.version.clone(),
                    n,
                    comparator.clone(),
                    cache.clone(),
                    params,
                )
                .watched(ranges.clone())
                .filtered(filter.cloned());
                sources.push(Source::Level(Box::new(i)));
            }
        }
        Ok(sources)
    }

    /// Answers which entries of [`Self::merged`] range tombstones delete for readers at `bound`.
    /// The slots are those of the streams merged there. Requires: the tables of level 0 are open.
    pub(crate) fn coverage(
        &self,
        comparator: &Comparator,
        cache: &Arc<TableCache>,
        bound: ReadBound,
    ) -> Coverage {
        let mut coverage = Coverage::new(
            comparator.clone(),
            self.version.clone(),
            cache.clone(),
            bound,
        );
        for mem in std::iter::once(&self.mem).chain(&self.imm) {
            coverage.push(mem.range_tombstones().map(TruncatedTombstones::whole));
        }
        for (n, level) in self.version.levels.iter().enumerate() {
            if n == 0 {
                for file in &level.files {
                    coverage.push(file.truncated_tombstones());
                }
            } else if !level.files.is_empty() {
                coverage.push_level(n);
            }
        }
        coverage
    }
}
