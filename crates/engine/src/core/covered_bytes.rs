//! How many bytes of a version a range tombstone covers, by estimate: what its table counts more in
//! scores, so that tables that will free much are compacted early.
//!
//! Rules and constants are RocksDB's, so that both take the same decisions: files inside the range
//! count whole, those at its ends by their indexes, or by half if they matter little.

use super::family::Family;
use crate::version::{FileMeta, Version};
use spanlith_base::keys;
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

    /// Takes in the next tombstone, by start ascending. Of several over one range the first counts,
    /// and of each what lies within the bounds of its table.
    pub(crate) fn add(&mut self, tombstone: &OutputTombstone) {
        if self.last_start.as_ref() == Some(&tombstone.start) {
            return;
        }
        self.last_start = Some(tombstone.start.clone());
        let (start, end) = (&tombstone.smallest, &tombstone.largest);
        let c = &self.family.comparator;
        let order =
            c.compare_without_timestamp(keys::user_key(start), true, keys::user_key(end), true);
        // Versions of one key lie in this level only.
        if order.is_lt() {
            self.total = self.total.saturating_add(self.size(start, end, MARGIN));
        }
    }

    /// Bytes between two internal keys. Files at the ends count half if they are less than `margin` of all; 0
    /// looks into them always.
    pub(crate) fn size(&self, start: &[u8], end: &[u8], margin: f64) -> u64 {
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
        if uncertain < (whole as f64 * margin) as u64 {
            return whole.saturating_add(uncertain / 2);
        }
        let parts = partial.iter().map(|f| self.part_of(f, start, end));
        parts.fold(whole, u64::saturating_add)
    }

    /// Bytes of a table between two internal keys.
    fn part_of(&self, file: &FileMeta, start: &[u8], end: &[u8]) -> u64 {
        let c = &self.family.comparator;
        let (low, high) = (&file.smallest[..], &file.largest[..]);
        let (begins_before, to_end) = (
            c.compare_internal(low, start).is_lt(),
            c.compare_internal(high, end),
        );
        if c.compare_internal(high, start).is_le() || c.compare_internal(low, end).is_gt() {
            return 0;
        }
        if !begins_before && to_end.is_le() {
            return file.size;
        }
        // An estimate is no reason to fail: who needs the file will tell.
        let Ok(reader) = self.family.cache.reader(file) else {
            return file.size / 2;
        };
        let size = if !begins_before {
            reader.approximate_offset(end)
        } else if to_end.is_lt() {
            file.size.saturating_sub(reader.approximate_offset(start))
        } else {
            reader.approximate_size(start, end)
        };
        size.min(file.size)
    }
}
