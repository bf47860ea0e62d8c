//! A log on a speed disk as files are: read, written, and going on as a file of the file system below when the disk is full.

use crate::disk::SpeedDisk;
use crate::log::Log;
use crate::writer::LogFile;
use spanlith_base::{Error, Result};
use spanlith_env::{
    Access, FileSystem, IoActivity, RandomAccessFile, SequentialFile, SyncUnderWay, WritableFile,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A log on a disk.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) disk: Arc<SpeedDisk>,
    pub(crate) log: Arc<Log>,
}

/// A log that is read: the part on the disk, and the one that is a file.
pub(crate) struct StoredLog {
    pub(crate) stored: Stored,
    pub(crate) rest: Option<Arc<dyn RandomAccessFile>>,
    /// Bytes on the disk when it was opened, or as soon as they are known.
    size: OnceLock<u64>,
    pub(crate) path: PathBuf,
}

impl StoredLog {
    pub(crate) fn new(
        stored: Stored,
        rest: Option<Arc<dyn RandomAccessFile>>,
        path: &Path,
    ) -> Self {
        let size = OnceLock::new();
        // One that is still being found does not grow otherwise, and need not be waited for now.
        if !stored.log.is_being_found() {
            let _ = size.set(stored.log.len());
        }
        Self {
            stored,
            rest,
            size,
            path: path.to_path_buf(),
        }
    }
}

impl RandomAccessFile for StoredLog {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let read = self.stored.log.read_at(&self.stored.disk, offset, buf);
        let n = read.map_err(|e| e.with("log", self.path.display()))?;
        match &self.rest {
            Some(rest) if n < buf.len() => {
                let at = (offset + n as u64).saturating_sub(self.stored.log.len());
                let behind = buf.get_mut(n..).unwrap_or_default();
                Ok(n + rest.read_at(at, behind)?)
            }
            _ => Ok(n),
        }
    }

    fn size(&self) -> u64 {
        let size = self.size.get_or_init(|| self.stored.log.len());
        size + self.rest.as_ref().map_or(0, |r| r.size())
    }

    fn advise(&self, access: Access) {
        if let Some(rest) = &self.rest {
            rest.advise(access);
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// The same from front to back.
pub(crate) struct FromFront {
    pub(crate) log: StoredLog,
    pub(crate) at: u64,
}

impl SequentialFile for FromFront {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let n = self.log.read_at(self.at, buf)?;
        self.at += n as u64;
        Ok(n)
    }
}

/// A log that goes on as a file when the disk is full.
pub(crate) struct SpillingLog {
    front: LogFile,
    below: Arc<dyn FileSystem>,
    rest: Option<Box<dyn WritableFile>>,
    /// Bytes on the disk, once there is a rest.
    front_len: u64,
}

impl SpillingLog {
    /// A log that is empty. `below` takes what finds no room on the disk.
    pub(crate) fn new(front: LogFile, below: Arc<dyn FileSystem>) -> Self {
        Self {
            front,
            below,
            rest: None,
            front_len: 0,
        }
    }

    /// Closes the part on the disk and begins the file.
    fn spill(&mut self) -> Result<&mut Box<dyn WritableFile>> {
        self.front.sync()?;
        self.front.close()?;
        self.front_len = self.front.len();
        let path = self.front.path().to_path_buf();
        let file = self.below.create(&path, IoActivity::Wal)?;
        if let Some(dir) = path.parent() {
            self.below.sync_dir(dir)?;
        }
        Ok(self.rest.insert(file))
    }
}

impl WritableFile for SpillingLog {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        if let Some(rest) = &mut self.rest {
            return rest.append(data);
        }
        match self.front.has_room(data.len()) {
            true => self.front.append(data),
            false => self.spill()?.append(data),
        }
    }

    fn sync(&mut self) -> Result<()> {
        match &mut self.rest {
            Some(rest) => rest.sync(),
            None => self.front.sync(),
        }
    }

    fn expect_sync(&mut self) {
        if self.rest.is_none() {
            self.front.expect_sync();
        }
    }

    fn begin_sync(&mut self) -> Result<Option<Box<dyn SyncUnderWay>>> {
        match &self.rest {
            Some(_) => Ok(None),
            None => self.front.begin_sync(),
        }
    }

    fn len(&self) -> u64 {
        match &self.rest {
            Some(rest) => self.front_len + rest.len(),
            None => self.front.len(),
        }
    }

    fn close(&mut self) -> Result<()> {
        match &mut self.rest {
            Some(rest) => rest.close(),
            None => self.front.close(),
        }
    }

    fn path(&self) -> &Path {
        self.front.path()
    }
}

/// A log that was found at the open: it can be made durable once more, and does not grow.
pub(crate) struct EndedLog {
    pub(crate) stored: Stored,
    pub(crate) rest: Option<Box<dyn WritableFile>>,
    pub(crate) path: PathBuf,
}

impl WritableFile for EndedLog {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let text = "going on with a log on a speed disk";
        Err(Error::not_supported(text).with_path(&self.path))
    }

    fn sync(&mut self) -> Result<()> {
        self.stored.disk.sync_all()?;
        self.rest.as_mut().map_or(Ok(()), |rest| rest.sync())
    }

    fn len(&self) -> u64 {
        self.stored.log.len() + self.rest.as_ref().map_or(0, |rest| rest.len())
    }

    fn close(&mut self) -> Result<()> {
        self.rest.as_mut().map_or(Ok(()), |rest| rest.close())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
