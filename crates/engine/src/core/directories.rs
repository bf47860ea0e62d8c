//! The directories of an open database, held open until it closes.
//!
//! A sync through an open directory does not ask for its path, so that a database whose directory was
//! renamed, unlinked or covered by a mount goes on with the files it has, as RocksDB does. What is not
//! held (a database opened for reading, directories for lost files and archived logs) is opened for each
//! sync.
//!
//! Threads: any. No lock is held while a directory is opened, synced or closed.

use super::state::rank;
use spanlith_base::Result;
use spanlith_base::sync::Mutex;
use spanlith_env::{Directory, FileSystem};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// By path, as the options spell it.
type Held = BTreeMap<PathBuf, Arc<dyn Directory>>;

/// Makes a directory, durable when this returns, unless it is there.
///
/// # Errors
/// Of making it and of syncing its parent.
pub(crate) fn create_dir(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    let is_new = fs.entry(dir)?.is_none();
    fs.create_dir_if_missing(dir)?;
    match fs.absolute(dir).parent() {
        Some(parent) if is_new => fs.sync_dir(parent),
        _ => Ok(()),
    }
}

/// Open directories.
pub(crate) struct Directories {
    fs: Arc<dyn FileSystem>,
    /// `None` once the database is closed.
    held: Mutex<Option<Held>>,
}

impl Directories {
    /// None yet.
    pub(crate) fn new(fs: Arc<dyn FileSystem>) -> Self {
        Self {
            fs,
            held: Mutex::new(rank::LEAF, Some(Held::new())),
        }
    }

    /// Opens a directory, unless it is held, and keeps it open.
    ///
    /// # Errors
    /// Of opening it.
    pub(crate) fn hold(&self, dir: &Path) -> Result<()> {
        if self.find(dir).is_some() {
            return Ok(());
        }
        let opened = self.fs.open_dir(dir)?;
        if let Some(held) = &mut *self.held.lock() {
            held.insert(dir.to_path_buf(), opened);
        }
        Ok(())
    }

    fn find(&self, dir: &Path) -> Option<Arc<dyn Directory>> {
        let held = self.held.lock();
        held.as_ref().and_then(|held| held.get(dir)).cloned()
    }

    /// The directory, held or opened for this once.
    ///
    /// # Errors
    /// Of opening it.
    pub(crate) fn get(&self, dir: &Path) -> Result<Arc<dyn Directory>> {
        match self.find(dir) {
            Some(found) => Ok(found),
            None => self.fs.open_dir(dir),
        }
    }

    /// Makes creations, renames and deletions in a directory durable.
    ///
    /// # Errors
    /// Of the sync, and of opening what is not held.
    pub(crate) fn sync(&self, dir: &Path) -> Result<()> {
        self.get(dir)?.sync()
    }

    /// Closes a directory.
    pub(crate) fn release(&self, dir: &Path) {
        let mut held = self.held.lock();
        let released = held.as_mut().and_then(|held| held.remove(dir));
        drop(held);
        drop(released);
    }

    /// Closes all, for good: what outlives the database keeps no directory open.
    pub(crate) fn close(&self) {
        let all = self.held.lock().take();
        drop(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_env::{FaultFs, IoActivity, MemFs, OpClass};

    #[test]
    fn what_is_held_is_opened_once_and_synced_wherever_it_is() {
        let mem = MemFs::new();
        let fs = FaultFs::new(Arc::new(mem.clone()));
        let [old, new] = ["/old", "/new"].map(Path::new);
        fs.create_dir_if_missing(old).unwrap();
        let dirs = Directories::new(Arc::new(fs.clone()));
        dirs.hold(old).unwrap();
        dirs.hold(old).unwrap();
        fs.rename(old, new).unwrap();
        fs.create(&new.join("f"), IoActivity::Other).unwrap();
        dirs.sync(old).unwrap();
        fs.sync_dir(Path::new("/")).unwrap();
        assert_eq!(mem.strict_clone().list(new).unwrap(), ["f"]);
        assert_eq!(fs.calls(OpClass::OpenDir), 2);
        dirs.release(old);
        assert!(dirs.sync(old).is_err());
        dirs.sync(new).unwrap();
        dirs.hold(new).unwrap();
        dirs.close();
        dirs.hold(new).unwrap();
        assert!(dirs.find(new).is_none());
    }
}
