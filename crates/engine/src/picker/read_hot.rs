//! Files that reads pass through in vain (`read_triggered_compaction_threshold`).
//!
//! A read that finds no value in a table, but nothing, a deletion or a merge operand, would have been spared by a
//! compaction. A sample of them is counted with each file; one that has more of them per byte than the threshold
//! is compacted into the next level, the hottest first, when nothing else is due. Not so files of the deepest
//! level with data, below which nothing is found, unless that is level 0.

use super::inputs::Picking;
use crate::options::CompactionStyle;
use crate::version::FileMeta;
use std::sync::Arc;

impl Picking<'_> {
    /// The files, with their levels, that are free and have enough such reads; most reads per byte first.
    pub(super) fn read_hot(&self) -> Vec<(usize, &Arc<FileMeta>)> {
        let o = self.input.options;
        let threshold = o.read_triggered_compaction_threshold;
        if threshold <= 0.0 || o.style == CompactionStyle::Fifo {
            return Vec::new();
        }
        let deepest = self.version().num_non_empty_levels().saturating_sub(1);
        let mut hot: Vec<(f64, usize, &Arc<FileMeta>)> = self
            .version()
            .file_iter()
            .filter(|(level, f)| (*level < deepest || *level == 0) && !f.is_being_compacted())
            .map(|(level, f)| (f.wasted_reads() as f64 / f.size.max(1) as f64, level, f))
            .filter(|(per_byte, ..)| *per_byte > threshold)
            .collect();
        hot.sort_by(|a, b| b.0.total_cmp(&a.0));
        hot.into_iter().map(|(_, level, f)| (level, f)).collect()
    }
}
