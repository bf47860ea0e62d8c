//! Where files go that best-efforts recovery leaves out.
//!
//! RocksDB deletes tables and blob files that the recovered state does not name. What is missing may
//! be a directory that was not mounted, so here they are moved into `lost/` of their directory, as
//! RocksDB's repair does with what it cannot use. Logs are not replayed; RocksDB leaves them where
//! they are, replays them at the next plain open, and refuses to open if something was written
//! meanwhile. Here they are moved as well.

use crate::core::Engine;
use spanlith_base::{Error, Result};
use std::path::Path;

/// Directory for files that are put aside, within that of the files.
const LOST_DIR: &str = "lost";

impl Engine {
    /// Moves a file to the directory for lost ones beside it.
    ///
    /// # Errors
    /// Of the file system.
    pub(super) fn put_aside(&self, path: &Path) -> Result<()> {
        let fs = &self.c.env.fs;
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Error::invalid_argument("not a file in a directory").with_path(path));
        };
        let lost = dir.join(LOST_DIR);
        fs.create_dir_if_missing(&lost)?;
        // Numbers are given out anew where the MANIFEST that knew them is lost: what an earlier
        // recovery saved keeps its name.
        let mut target = lost.join(name);
        let mut turn = 0u32;
        while fs.entry(&target)?.is_some() {
            turn += 1;
            let mut other = name.to_os_string();
            other.push(format!(".{turn}"));
            target = lost.join(other);
        }
        fs.rename(path, &target)
    }
}
