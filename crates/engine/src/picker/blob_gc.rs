//! Tables that are rewritten only so that old blob files lose their references.
//!
//! RocksDB's rule since 9.7: of the oldest blob files, as many as the age cutoff says, the garbage is
//! summed up. If its share reaches the threshold, tables linked to one of them (it is the oldest
//! file that they refer to) are rewritten at their level, which relocates their values.
//!
//! The table that refers to the oldest file comes first, and none that refers only to files after the last one with
//! garbage: a rewrite gives a table new files, which count as old, too, at an age cutoff of 1, and garbage that others
//! hold would have it rewritten for ever.

use super::inputs::Picking;
use crate::version::{FileMeta, ForcedBlobGc, Version};
use std::sync::Arc;

/// The number of the last of the blob files whose tables are to be rewritten, from the oldest on; `None` if
/// their garbage is too little.
fn due_until(version: &Version, options: ForcedBlobGc) -> Option<u64> {
    let files = &version.blob_files;
    let old = (options.age_cutoff.clamp(0.0, 1.0) * files.len() as f64) as usize;
    let oldest = || files.iter().take(old);
    let (last, _) = oldest().rfind(|f| f.1.garbage_bytes > 0)?;
    let total: u64 = oldest().map(|f| f.1.file.total_bytes).sum();
    let garbage: u64 = oldest().map(|f| f.1.garbage_bytes).sum();
    (garbage as f64 >= options.threshold * total as f64).then_some(*last)
}

impl Picking<'_> {
    /// The tables, with their levels; those first that refer to the oldest file.
    pub(super) fn forced_by_blobs(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        let options = self.input.options.forced_blob_gc;
        let last = options.and_then(|o| due_until(self.version(), o));
        let mut due = Vec::new();
        if let Some(last) = last {
            due.extend(self.version().file_iter().filter(|(_, f)| {
                (1..=last).contains(&f.oldest_blob_file_number) && !f.is_being_compacted()
            }));
            due.sort_by_key(|(_, f)| f.oldest_blob_file_number);
        }
        due.into_iter()
    }
}
