//! How many bytes of a version a range tombstone covers, by estimate: what its table counts more in
//! scores, so that tables that will free much are compacted early.
//!
//! Rules and constants are RocksDB's, so that both take the same decisions: files inside the range
//! count whole, those at its ends by their indexes, or by half if they matter little.

use super::family::Family;
use crate::version::{FileMeta, Version};
use spanlith_base::range_del::OutputTombstone;
use std::sync::Arc;

/// Files at the ends of a range are not looked into if their share is smaller than one to this.
const MARGIN: f64 = 0.1;

/// Adds up what tombstones of one table cover in the levels from one on.
pub(crate) struct CoveredBytes<'a> {
    family: &'a Family,
    version: &'a Version,
    from_level: usize,
    last_start: Option<Vec<u8>>,
    /// Sum over the tombstones seen.
    pub total: u64,
}

impl<'a> CoveredBytes<'a> {
    /// For the tombstones of one table.
    pub(crate) fn new(family: &'a Family, version: &'a Version, from_level: usize) -> Self {
        Self {
            family,
            version,
            from_level,
            last_start: None,
            total: 0,
        }
    }

    /// Takes in the next tombstone, by start ascending. Of several over one range the first counts.
    pub(crate) fn add(&mut self, tombstone: &OutputTombstone) {
        if self.last_start.as_ref() == Some(&tombstone.start) {
            return;
        }
        self.last_start = Some(tombstone.start.clone());
        let size = self.size(&tombstone.smallest(), &tombstone.largest());
        self.total = self.total.saturating_add(size);
    }

    /// Bytes between two internal keys.
    fn size(&self, start: &[u8], end: &[u8]) -> u64 {
        let c = &self.family.comparator;
        let (mut whole, mut partial) = (0_u64, Vec::<&Arc<FileMeta>>::new());
        for level in self.from_level..self.version.num_non_empty_levels() {
            let files = self.version.files(level);
            if level == 0 {
                partial.extend(files);
                continue;
            }
            let Some(deepest) = files.len().checked_sub(1) else {
                continue;
            };
            let reaching =
                |key| files.partition_point(|f| c.compare_internal(&f.largest, key).is_lt());
            let first = reaching(start).min(deepest);
            let last = reaching(end).min(deepest).max(first);
            partial.push(&files[first]);
            if first < last {
                let inner = files[first + 1..last].iter();
                whole = whole.saturating_add(inner.map(|f| f.size).sum());
                partial.push(&files[last]);
            }
        }
        let uncertain: u64 = partial.iter().map(|f| f.size).sum();
        if uncertain < (whole as f64 * MARGIN) as u64 {
            return whole.saturating_add(uncertain / 2);
        }
        let parts = partial.iter().map(|f| {
            let before_end = self.offset(f, end);
            before_end.saturating_sub(self.offset(f, start))
        });
        parts.fold(whole, u64::saturating_add)
    }

    /// Bytes of a table before an internal key.
    fn offset(&self, file: &FileMeta, key: &[u8]) -> u64 {
        let c = &self.family.comparator;
        if c.compare_internal(&file.largest, key).is_le() {
            return file.size;
        }
        if c.compare_internal(&file.smallest, key).is_gt() {
            return 0;
        }
        match self.family.cache.reader(file) {
            Ok(reader) => reader.approximate_offset(key).min(file.size),
            // An estimate is no reason to fail: who needs the file will tell.
            Err(_) => file.size / 2,
        }
    }
}
