//! Tables that are rewritten only so that old blob files lose their references.
//!
//! RocksDB's rule since 9.7: of the oldest blob files, as many as the age cutoff says, the garbage is
//! summed up. If its share reaches the threshold, all tables linked to one of them (it is the oldest
//! file that they refer to) are rewritten at their level, which relocates their values.

use super::inputs::Picking;
use crate::version::{FileMeta, ForcedBlobGc, Version};
use std::sync::Arc;

/// The numbers of the first and the last of the blob files whose tables are to be rewritten; `None` if
/// their garbage is too little.
fn due_range(version: &Version, options: ForcedBlobGc) -> Option<(u64, u64)> {
    let files = &version.blob_files;
    let old = (options.age_cutoff.clamp(0.0, 1.0) * files.len() as f64) as usize;
    let (first, last) = (files.keys().next()?, files.keys().nth(old.checked_sub(1)?)?);
    let oldest = || files.values().take(old);
    let total: u64 = oldest().map(|f| f.file.total_bytes).sum();
    let garbage: u64 = oldest().map(|f| f.garbage_bytes).sum();
    (garbage as f64 >= options.threshold * total as f64).then_some((*first, *last))
}

impl Picking<'_> {
    /// The tables, with their levels.
    pub(super) fn forced_by_blobs(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        let options = self.input.options.forced_blob_gc;
        let range = options.and_then(|o| due_range(self.version(), o));
        let levels = range.map_or(0, |_| self.version().num_levels());
        let (first, last) = range.unwrap_or_default();
        self.version()
            .file_iter()
            .take_while(move |(level, _)| *level < levels)
            .filter(move |(_, f)| {
                let linked = f.oldest_blob_file_number;
                linked >= first && linked <= last && linked != 0 && !f.is_being_compacted()
            })
    }
}
