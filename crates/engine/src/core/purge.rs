//! Deletes table files that nothing refers to any more (V5).
//!
//! The last reference to a file's metadata reports it here when the file left the current version;
//! jobs and the end of iterators empty the queue outside all locks.

use super::state::rank;
use crate::version::{PurgeSink, filenames};
use spanlith_base::sync::Mutex;
use spanlith_env::FileSystem;
use std::path::PathBuf;
use std::sync::Arc;

/// Obsolete tables that are not yet unlinked.
pub(crate) struct PurgeQueue {
    dir: PathBuf,
    fs: Arc<dyn FileSystem>,
    queue: Mutex<Vec<u64>>,
}

impl PurgeQueue {
    pub(crate) fn new(dir: PathBuf, fs: Arc<dyn FileSystem>) -> Self {
        Self {
            dir,
            fs,
            queue: Mutex::new(rank::LEAF, Vec::new()),
        }
    }

    /// Unlinks what is queued. A file that cannot be unlinked is found again at the next open.
    pub(crate) fn run(&self) -> Vec<u64> {
        let numbers = std::mem::take(&mut *self.queue.lock());
        for &n in &numbers {
            let _ = self
                .fs
                .delete(&self.dir.join(filenames::table_file_name(n)));
        }
        numbers
    }
}

impl PurgeSink for PurgeQueue {
    fn file_obsolete(&self, number: u64, _path_id: u32) {
        self.queue.lock().push(number);
    }
}
