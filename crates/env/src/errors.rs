//! Describes what the file systems of this crate share about errors: RocksDB's words for what was being done
//! when a call failed, and the poison that a failed write leaves in a file (E2).
//!
//! Clients match on the words (C API contract), so every file system, doubles included, uses these.

use spanlith_base::{Error, Result};
use std::io;
use std::path::Path;

pub(crate) const OPEN_SEQUENTIAL: &str = "While opening a file for sequentially reading";
pub(crate) const OPEN_RANDOM: &str = "While open a file for random read";
pub(crate) const OPEN_WRITE: &str = "While open a file for appending";
pub(crate) const READ_SEQUENTIAL: &str = "While reading file sequentially";
pub(crate) const APPEND: &str = "While appending to file";
pub(crate) const SYNC: &str = "While fdatasync";
pub(crate) const CLOSE: &str = "While closing file after writing";
pub(crate) const UNLINK: &str = "while unlink() file";
pub(crate) const MKDIR: &str = "While mkdir if missing";
pub(crate) const RMDIR: &str = "file rmdir";
pub(crate) const LIST: &str = "While opendir";
pub(crate) const SIZE: &str = "while stat a file for size";
pub(crate) const MODIFIED: &str = "while stat a file for modification time";
pub(crate) const ENTRY: &str = "while stat a file";
pub(crate) const OPEN_DIR: &str = "While open directory";
pub(crate) const SYNC_DIR: &str = "While fsync";
pub(crate) const OPEN_LOCK: &str = "while open a file for lock";
pub(crate) const LOCK: &str = "While lock file";
pub(crate) const FREE_SPACE: &str = "While doing statvfs";

pub(crate) fn rename_context(to: &Path) -> String {
    format!("While renaming a file to {}", to.display())
}

pub(crate) fn link_context(to: &Path) -> String {
    format!("while link file to {}", to.display())
}

pub(crate) fn truncate_context(len: u64) -> String {
    format!("While ftruncate file to size {len}")
}

pub(crate) fn read_context(offset: u64, len: usize) -> String {
    format!("While pread offset {offset} len {len}")
}

/// The error of a system call that failed with `errno`.
pub(crate) fn from_errno(context: &str, path: &Path, errno: i32) -> Error {
    Error::from_io(context, path, io::Error::from_raw_os_error(errno))
}

/// A directory was wanted and something else is there.
pub(crate) fn not_a_directory(path: &Path) -> Error {
    Error::io(format!(
        "`{}' exists but is not a directory",
        path.display()
    ))
}

/// A link or rename would have to copy.
pub(crate) fn cross_device_link() -> Error {
    Error::not_supported("No cross FS links allowed")
}

/// This process holds the lock already.
pub(crate) fn held_by_us(path: &Path, seconds: u64, thread: u64) -> Error {
    let context =
        format!("lock hold by current process, acquire time {seconds} acquiring thread {thread}");
    from_errno(&context, path, libc::ENOLCK).with_subcode(spanlith_base::SubCode::LockHeld)
}

/// The first failure of a file that is being written; every later call gets it again.
#[derive(Debug, Default)]
pub(crate) struct Poison(Option<Error>);

impl Poison {
    /// The first failure, if there was one.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.0 {
            // E2: nothing is tried again on a file that failed.
            Some(first) => Err(first.clone()),
            None => Ok(()),
        }
    }

    /// Remembers the first failure and passes the result on.
    pub(crate) fn keep<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(e) = &result
            && self.0.is_none()
        {
            self.0 = Some(e.clone());
        }
        result
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }
}
