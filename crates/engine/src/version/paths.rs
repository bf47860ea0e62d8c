//! The directories a family's tables lie in (`db_paths`, `cf_paths`).

use super::filenames;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directories by path id. Id 0 is the first; an id beyond the last means the last, as in RocksDB.
#[derive(Clone, Debug)]
pub struct FilePaths {
    dirs: Arc<[PathBuf]>,
}

impl FilePaths {
    /// One directory.
    pub fn one(dir: &Path) -> Self {
        Self {
            dirs: Arc::new([dir.to_path_buf()]),
        }
    }

    /// Several; `dirs` is not empty.
    pub fn new(dirs: Vec<PathBuf>) -> Self {
        debug_assert!(!dirs.is_empty());
        Self { dirs: dirs.into() }
    }

    /// All directories.
    pub fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// Directory of a path id.
    pub fn dir(&self, path_id: u32) -> &Path {
        let at = (path_id as usize).min(self.dirs.len() - 1);
        &self.dirs[at]
    }

    /// Path of a table.
    pub fn table(&self, number: u64, path_id: u32) -> PathBuf {
        self.dir(path_id).join(filenames::table_file_name(number))
    }
}
