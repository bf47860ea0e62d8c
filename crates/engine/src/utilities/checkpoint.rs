//! Checkpoints: a directory that opens as the database was at one moment.
//!
//! Files that never change are linked, so that a checkpoint on the same file system takes no room and hardly any
//! time. It is made in `DIR.tmp` and renamed once everything in it is durable: under its name it is whole or not
//! there.

use super::copy::Copier;
use super::dirs::{delete_dir_of_files, parent};
use super::storage::{Kept, StorageOptions};
use crate::db::Db;
use spanlith_base::{Error, ErrorKind, Result};
use spanlith_env::FileSystem;
use std::path::{Path, PathBuf};

impl Db {
    /// Makes a checkpoint in `dir`, which must not exist: all memtables are flushed first, so that what was written
    /// without a log is in it, too.
    ///
    /// Costs a flush, and what is not linked: the MANIFEST and the current log, everything if `dir` is on another
    /// file system. Writes go on meanwhile.
    ///
    /// # Errors
    /// `InvalidArgument` if there is something at `dir`; `Aborted` if what an earlier attempt left at `DIR.tmp`
    /// cannot be removed; `NotSupported` of a database that was opened for reading; of the flush; `Io`. Nothing is
    /// left of a checkpoint that failed, as far as it can be removed.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.checkpoint_opt(dir, 0)
    }

    /// As [`Self::checkpoint`]; memtables are flushed only if the logs have `log_size_for_flush` bytes, else the logs
    /// are copied. 0 is always, `u64::MAX` never.
    ///
    /// # Errors
    /// As there.
    pub fn checkpoint_opt(&self, dir: impl AsRef<Path>, log_size_for_flush: u64) -> Result<()> {
        let (c, dir) = (&self.engine().c, dir.as_ref());
        if c.env.fs.entry(dir)?.is_some() {
            return Err(Error::invalid_argument("Directory exists"));
        }
        let dir = without_slashes(dir)
            .ok_or_else(|| Error::invalid_argument("invalid checkpoint directory name"))?;
        if c.read_only {
            return Err(Error::not_supported(
                "Checkpoint of a database opened for reading",
            ));
        }
        Checkpoint::new(self, dir).make(log_size_for_flush)
    }
}

/// A checkpoint that is being made.
struct Checkpoint<'a> {
    db: &'a Db,
    dir: PathBuf,
    /// Where it is until it is whole.
    staging: PathBuf,
}

impl<'a> Checkpoint<'a> {
    fn new(db: &'a Db, dir: PathBuf) -> Self {
        let mut staging = dir.clone().into_os_string();
        staging.push(".tmp");
        let staging = PathBuf::from(staging);
        Self { db, dir, staging }
    }

    fn fs(&self) -> &'a dyn FileSystem {
        &*self.db.engine().c.env.fs
    }

    /// Makes it, or leaves nothing as far as that can be removed.
    fn make(&self, log_size_for_flush: u64) -> Result<()> {
        let (fs, dir, staging) = (self.fs(), &self.dir, &self.staging);
        let log = self.db.engine().reporter.log();
        log.info(format_args!("checkpoint: {} begins", dir.display()));
        delete_dir_of_files(fs, staging).map_err(|e| {
            Error::new(
                ErrorKind::Aborted,
                format!(
                    "Failed to clean the temporary directory {} needed before checkpoint creation : {e}",
                    staging.display()
                ),
            )
        })?;
        // Where it is by now.
        let mut place = staging;
        let made = self.fill(log_size_for_flush).and_then(|()| {
            fs.rename(staging, dir)?;
            place = dir;
            fs.sync_dir(parent(dir))
        });
        match &made {
            Ok(()) => log.info(format_args!("checkpoint: {} is there", dir.display())),
            Err(e) => {
                log.warn(format_args!("checkpoint: {} failed: {e}", dir.display()));
                if let Err(e) = delete_dir_of_files(fs, place) {
                    log.warn(format_args!("checkpoint: {} stays: {e}", place.display()));
                }
            }
        }
        made
    }

    /// Makes the directory with everything in it, all durable.
    fn fill(&self, log_size_for_flush: u64) -> Result<()> {
        let fs = self.fs();
        make_dir(fs, &self.staging)?;
        let _kept = Kept::new(self.db);
        let copier = Copier::new(fs, &self.db.engine().reporter);
        let options = StorageOptions::default().flush_from(log_size_for_flush);
        for file in self.db.storage_files(&options)? {
            copier.put(&file, &self.staging)?;
        }
        fs.sync_dir(&self.staging)
    }
}

/// Creates a directory, in RocksDB's words if there is none to hold it.
pub(super) fn make_dir(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    if fs.entry(parent(dir))?.is_none() {
        // ENOENT.
        let missing = std::io::Error::from_raw_os_error(2);
        return Err(Error::from_io("While mkdir", dir, missing));
    }
    fs.create_dir_if_missing(dir)
}

/// The path without what ends it, so that something can be added to its name; `None` if nothing is left.
pub(super) fn without_slashes(dir: &Path) -> Option<PathBuf> {
    let name = dir.components().next_back()?;
    matches!(name, std::path::Component::Normal(_)).then(|| dir.components().collect())
}
