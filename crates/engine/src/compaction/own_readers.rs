//! Inputs of compactions read past the page cache while reads of users go through it
//! (`use_direct_io_for_compaction_reads`).
//!
//! A table has one reader for all, with one descriptor. A compaction that reads in another way opens
//! its inputs once more, under descriptions of its own that end with it, and without the block cache.

use super::job::CompactionJob;
use crate::core::Components;
use crate::version::{FileMeta, TableCache, TableIo, TableIoOptions};
use std::sync::Arc;

impl CompactionJob {
    /// How the inputs are opened, if not as for everybody else.
    pub(super) fn own_readers(&self, c: &Components) -> Option<Arc<TableCache>> {
        let o = &c.options;
        if !o.use_direct_io_for_compaction_reads || o.use_direct_reads {
            return None;
        }
        let io = TableIo::new(
            c.env.fs.clone(),
            TableIoOptions {
                direct_reads: true,
                rate_limiter: c.io.rate_limiter().cloned(),
                ..TableIoOptions::default()
            },
        );
        Some(Arc::new(self.family.cache.apart(io)))
    }
}

/// The same files, not open yet, and not reported when the descriptions go.
pub(super) fn described_anew(files: &[Arc<FileMeta>]) -> Vec<Arc<FileMeta>> {
    let anew = |f: &Arc<FileMeta>| {
        let description = f.to_new_file(f.level);
        Arc::new(FileMeta::from_new_file(&description, None))
    };
    files.iter().map(anew).collect()
}
