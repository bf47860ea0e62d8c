//! How far the range tombstones of a compaction's inputs act.
//!
//! Tables write a tombstone whole, and it acts within the bounds of its table. Of two tables that
//! share a user key the first ends at an entry: cut there, the part of the tombstone over the later
//! versions in the next table would begin inside the key, where a tombstone cannot begin. Such tables
//! are compacted together always, so that in a compaction they count as one: an *atomic unit*, as in
//! RocksDB.

use super::trim::Trim;
use crate::picker::CompactionPlan;
use crate::version::FileMeta;
use crate::version::version::sstable_key_compare;
use spanlith_base::Comparator;
use spanlith_base::range_del::{CompactionRangeDels, TruncatedTombstones};
use std::sync::Arc;

/// Internal keys at which the tombstones of the inputs begin to act, each within its own table,
/// ascending: places at which an output may be cut although no entry stands there.
pub(super) fn tombstone_starts(plan: &CompactionPlan, comparator: &Comparator) -> Vec<Vec<u8>> {
    let mut starts = Vec::new();
    for tombstones in plan.input_files().filter_map(|f| f.truncated_tombstones()) {
        starts.extend((0..tombstones.len()).map(|index| tombstones.begin(index, 0)));
    }
    starts.sort_by(|a, b| comparator.compare_internal(a, b));
    starts
}

/// Adds the range tombstones of all inputs, each cut to the unit of its table, without those that are trimmed.
/// Requires: tables that were opened.
pub(super) fn add_tombstones(
    ranges: &mut CompactionRangeDels,
    plan: &CompactionPlan,
    comparator: &Comparator,
    trim: Option<&Trim>,
) {
    for (level, files) in &plan.inputs {
        let shares_key = |a: &Arc<FileMeta>, b: &Arc<FileMeta>| {
            *level > 0 && sstable_key_compare(comparator, &a.largest, &b.smallest).is_eq()
        };
        for unit in files.chunk_by(shares_key) {
            let (Some(first), Some(last)) = (unit.first(), unit.last()) else {
                continue;
            };
            let mut before = None;
            for file in unit {
                let own = file.tombstones.get();
                let kept =
                    own.map(|list| trim.map_or_else(|| list.clone(), |t| t.tombstones(list)));
                if let Some(list) = kept {
                    let t = TruncatedTombstones::of_file(list, &first.smallest, &last.largest);
                    ranges.add_opened_after(t, before);
                }
                before = Some(&file.largest[..]);
            }
        }
    }
}
