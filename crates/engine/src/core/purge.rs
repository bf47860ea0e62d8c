//! Deletes table files that nothing refers to any more (V5).
//!
//! The last reference to a file's metadata reports it here when the file left the current version;
//! jobs and the end of iterators empty the queue outside all locks.

use super::state::rank;
use crate::version::{FilePaths, PurgeSink, TableIo};
use spanlith_base::Result;
use spanlith_base::sync::Mutex;
use spanlith_env::SstFileManager;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Obsolete tables that are not yet unlinked.
pub(crate) struct PurgeQueue {
    io: Arc<TableIo>,
    sst_files: Option<Arc<SstFileManager>>,
    queue: Mutex<Vec<(u64, PathBuf)>>,
}

impl PurgeQueue {
    /// Deletes through `sst_files` if there is such a manager.
    pub(crate) fn new(io: Arc<TableIo>, sst_files: Option<Arc<SstFileManager>>) -> Self {
        Self {
            io,
            sst_files,
            queue: Mutex::new(rank::LEAF, Vec::new()),
        }
    }

    /// Unlinks what is queued and returns the numbers. A file that cannot be unlinked is found again
    /// at the next open.
    pub(crate) fn run(&self) -> Vec<u64> {
        let files = std::mem::take(&mut *self.queue.lock());
        for (number, path) in &files {
            self.io.forget(*number);
            let _ = self.delete(path);
        }
        files.into_iter().map(|f| f.0).collect()
    }

    /// Deletes a table: at once, or at the rate of the manager.
    pub(crate) fn delete(&self, path: &Path) -> Result<()> {
        match &self.sst_files {
            Some(manager) => manager.delete(path),
            None => self.io.fs().delete(path),
        }
    }
}

/// Where the files of one family report.
pub(super) struct FamilySink {
    pub queue: Arc<PurgeQueue>,
    pub paths: FilePaths,
}

impl PurgeSink for FamilySink {
    fn file_obsolete(&self, number: u64, path_id: u32) {
        let path = self.paths.table(number, path_id);
        self.queue.queue.lock().push((number, path));
    }
}
