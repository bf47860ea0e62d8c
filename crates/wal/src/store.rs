//! Where the logs of a database are: by number, live or in the archive.
//!
//! The engine makes, finds, archives and deletes logs through [`LogStore`] and never asks for their paths, except
//! to name them in messages. [`FileLogs`] keeps each log in a file of a directory, as RocksDB does; [`MemLogs`] is
//! the double for tests. A store for another place (pages of a raw device) implements the same trait.
//!
//! **What a store promises.** Contents: bytes of a log survive a crash of the process once `append` returned, and
//! a power loss once its `sync` returned *and* its name is durable (E1). Names: making, archiving and deleting
//! change names, which are durable after [`LogStore::sync_names`]. After a failed sync of a log no later sync of it
//! succeeds (E2). A log that is open for reading stays readable after it was archived or deleted.
//!
//! **What it leaves to others.** Framing ([`crate::LogWriter`], [`crate::LogReader`]), numbers (given by the
//! engine, never used twice, V4), the decision that a log is obsolete (WAL3).
//!
//! Threads: any. A number is created, archived or deleted by one thread at a time; listing and reading may
//! happen meanwhile, and a log on its way to the archive may then be seen in either place.

use spanlith_base::{Error, Result, SubCode};
use spanlith_env::{
    FileSystem, IoActivity, RandomAccessFile, SequentialFile, Unlinked, WritableFile,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogPlace {
    /// Among those that recovery reads.
    Live,
    /// Among those that are kept for readers of changes.
    Archive,
}

/// The logs of a database.
pub trait LogStore: Send + Sync {
    /// Makes an empty live log.
    ///
    /// # Errors
    /// Of the place where logs are.
    fn create(&self, number: u64) -> Result<Box<dyn WritableFile>>;

    /// Gives the obsolete live log `old` the new number and opens it to be written from its front. What it holds
    /// stays behind what is written: such logs are written with
    /// [`recyclable`](crate::LogOptions::recyclable) records.
    ///
    /// # Errors
    /// As [`Self::create`]; the log `old` may be gone then.
    fn recycle(&self, old: u64, number: u64) -> Result<Box<dyn WritableFile>>;

    /// Opens a live log to append at its end.
    ///
    /// # Errors
    /// As [`Self::create`].
    fn reopen(&self, number: u64) -> Result<Box<dyn WritableFile>>;

    /// Opens a log to be read from its front.
    ///
    /// # Errors
    /// `Io` with subcode `PathNotFound` if there is none in that place; as [`Self::create`].
    fn open(&self, number: u64, place: LogPlace) -> Result<Box<dyn SequentialFile>>;

    /// Opens a log to be read at offsets, also while it is written.
    ///
    /// # Errors
    /// As [`Self::open`].
    fn open_random(&self, number: u64, place: LogPlace) -> Result<Arc<dyn RandomAccessFile>>;

    /// Returns whether there is a log of that number in that place.
    ///
    /// # Errors
    /// As [`Self::create`].
    fn is_there(&self, number: u64, place: LogPlace) -> Result<bool>;

    /// Bytes of a log.
    ///
    /// # Errors
    /// As [`Self::open`].
    fn size(&self, number: u64, place: LogPlace) -> Result<u64>;

    /// When a log was written last, in seconds since the epoch.
    ///
    /// # Errors
    /// As [`Self::open`].
    fn modified(&self, number: u64, place: LogPlace) -> Result<u64>;

    /// Numbers of all logs in a place, ascending. An archive that was never made has none.
    ///
    /// # Errors
    /// As [`Self::create`].
    fn list(&self, place: LogPlace) -> Result<Vec<u64>>;

    /// Moves a live log to the archive.
    ///
    /// # Errors
    /// As [`Self::open`].
    fn archive(&self, number: u64) -> Result<()>;

    /// Deletes a log. Its contents are freed when the answer is dropped, at the latest.
    ///
    /// # Errors
    /// As [`Self::open`].
    fn delete(&self, number: u64, place: LogPlace) -> Result<Unlinked>;

    /// Makes durable which logs there are in a place.
    ///
    /// # Errors
    /// Of the sync.
    fn sync_names(&self, place: LogPlace) -> Result<()>;

    /// Returns what a log is called in messages.
    fn path(&self, number: u64, place: LogPlace) -> PathBuf;
}

/// Syncs a directory; what holds it open is the caller's.
pub type SyncDir = Box<dyn Fn(&Path) -> Result<()> + Send + Sync>;

/// Logs in files of a directory, and archived ones in a directory below it.
pub struct FileLogs {
    fs: Arc<dyn FileSystem>,
    /// By place.
    dirs: [PathBuf; 2],
    sync_dir: SyncDir,
}

impl FileLogs {
    /// Logs in `live` and `archive`. Directories are synced by `sync_dir`, which may know them open.
    pub fn new(
        fs: Arc<dyn FileSystem>,
        live: PathBuf,
        archive: PathBuf,
        sync_dir: SyncDir,
    ) -> Self {
        Self {
            fs,
            dirs: [live, archive],
            sync_dir,
        }
    }

    fn dir(&self, place: LogPlace) -> &Path {
        let [live, archive] = &self.dirs;
        match place {
            LogPlace::Live => live,
            LogPlace::Archive => archive,
        }
    }

    fn live(&self, number: u64) -> PathBuf {
        self.path(number, LogPlace::Live)
    }
}

/// The number of a log by the name of its file.
fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

impl LogStore for FileLogs {
    fn create(&self, number: u64) -> Result<Box<dyn WritableFile>> {
        self.fs.create(&self.live(number), IoActivity::Wal)
    }

    fn recycle(&self, old: u64, number: u64) -> Result<Box<dyn WritableFile>> {
        let to = self.live(number);
        self.fs.rename(&self.live(old), &to)?;
        self.fs.overwrite(&to, IoActivity::Wal)
    }

    fn reopen(&self, number: u64) -> Result<Box<dyn WritableFile>> {
        self.fs.reopen(&self.live(number), IoActivity::Wal)
    }

    fn open(&self, number: u64, place: LogPlace) -> Result<Box<dyn SequentialFile>> {
        self.fs.open_sequential(&self.path(number, place))
    }

    fn open_random(&self, number: u64, place: LogPlace) -> Result<Arc<dyn RandomAccessFile>> {
        self.fs.open_random(&self.path(number, place))
    }

    fn is_there(&self, number: u64, place: LogPlace) -> Result<bool> {
        Ok(self.fs.entry(&self.path(number, place))?.is_some())
    }

    fn size(&self, number: u64, place: LogPlace) -> Result<u64> {
        self.fs.size(&self.path(number, place))
    }

    fn modified(&self, number: u64, place: LogPlace) -> Result<u64> {
        self.fs.modified(&self.path(number, place))
    }

    fn list(&self, place: LogPlace) -> Result<Vec<u64>> {
        let dir = self.dir(place);
        if self.fs.entry(dir)?.is_none() {
            return Ok(Vec::new());
        }
        let names = self.fs.list(dir)?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| number_of(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn archive(&self, number: u64) -> Result<()> {
        let to = self.path(number, LogPlace::Archive);
        self.fs.rename(&self.live(number), &to)
    }

    fn delete(&self, number: u64, place: LogPlace) -> Result<Unlinked> {
        self.fs.unlink(&self.path(number, place))
    }

    fn sync_names(&self, place: LogPlace) -> Result<()> {
        (self.sync_dir)(self.dir(place))
    }

    fn path(&self, number: u64, place: LogPlace) -> PathBuf {
        self.dir(place).join(format!("{number:06}.log"))
    }
}

/// Returns whether an error says that there is no such log.
pub fn is_missing(e: &Error) -> bool {
    e.subcode() == Some(SubCode::PathNotFound)
}
