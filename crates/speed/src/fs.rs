//! A file system whose logs are on a speed disk.
//!
//! Everything but the logs of one directory goes to the file system below. A log is created on the disk while that has
//! room, otherwise as a file. One that outgrows the disk goes on as a file of its name: what is on the disk is
//! made durable and closed first, so that the two parts are one file for every reader. Who renames a log out of the
//! directory gets a copy in a file, and the disk has its room again.

use crate::beside::BesideLog;
use crate::disk::SpeedDisk;
use crate::log::Log;
use crate::writer::LogFile;
use spanlith_base::{Error, Result, SubCode};
use spanlith_env::{
    Access, BlockDevice, Clock, DeviceAccess, Directory, EntryKind, FileLock, FileSystem,
    IoActivity, OpenHow, RandomAccessFile, SequentialFile, SyncUnderWay, Unlinked, WritableFile,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A log is not begun on the disk if less than one in so many of its page groups would be free then.
const RESERVE: u32 = 8;
/// Bytes copied at once.
const COPY_BYTES: usize = 256 << 10;

/// The file system. Until a disk is attached it is the one below.
pub struct SpeedFs {
    below: Arc<dyn FileSystem>,
    dir: PathBuf,
    disk: OnceLock<Arc<SpeedDisk>>,
    /// Tables on the storage of the disk give way to the logs, by this clock.
    clock: OnceLock<Arc<dyn Clock>>,
    /// Logs, or their ends, that are files for want of room. Relaxed: a figure.
    spilled: AtomicU64,
}

impl SpeedFs {
    /// Over `below`; the logs are those in the directory `dir`.
    pub fn new(below: Arc<dyn FileSystem>, dir: &Path) -> Self {
        Self {
            below,
            dir: dir.to_path_buf(),
            disk: OnceLock::new(),
            clock: OnceLock::new(),
            spilled: AtomicU64::new(0),
        }
    }

    /// Puts the logs on `disk` from now on, once.
    pub fn attach(&self, disk: Arc<SpeedDisk>) {
        // A second disk would hide the logs of the first.
        let _ = self.disk.set(disk);
    }

    /// From now on tables that are created on the storage that holds the disk give way to its logs. Returns
    /// whether those in `dir` do.
    pub fn give_way(&self, clock: &Arc<dyn Clock>, dir: &Path) -> bool {
        let Some(disk) = self.disk() else {
            return false;
        };
        let is_shared = self.is_beside(disk, dir);
        if is_shared {
            disk.gate().measure(clock);
            // The first clock is as good as another.
            let _ = self.clock.set(clock.clone());
        }
        is_shared
    }

    /// Returns whether `dir` is on the storage that holds the disk.
    fn is_beside(&self, disk: &SpeedDisk, dir: &Path) -> bool {
        disk.storage()
            .is_some_and(|storage| self.below.storage(dir) == Some(storage))
    }

    /// The disk, if one is attached.
    pub fn disk(&self) -> Option<&Arc<SpeedDisk>> {
        self.disk.get()
    }

    /// The file system below.
    pub fn below(&self) -> &Arc<dyn FileSystem> {
        &self.below
    }

    /// Logs, or ends of logs, that were made files for want of room.
    pub fn spilled(&self) -> u64 {
        self.spilled.load(Ordering::Relaxed)
    }

    /// The number of the log that `path` names.
    fn number(&self, path: &Path) -> Option<u64> {
        let name = path.file_name()?.to_str()?;
        let digits = name.strip_suffix(".log")?;
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let number = is_number.then(|| digits.parse().ok()).flatten()?;
        (path.parent() == Some(self.dir.as_path())).then_some(number)
    }

    /// The log on the disk that `path` names.
    fn find(&self, path: &Path) -> Option<Stored> {
        let disk = self.disk.get()?;
        let log = disk.log(self.number(path)?)?;
        let disk = disk.clone();
        Some(Stored { disk, log })
    }

    /// The part of a log that is a file.
    fn rest(&self, path: &Path) -> Result<Option<Arc<dyn RandomAccessFile>>> {
        match self.below.open_random(path) {
            Ok(file) => Ok(Some(file)),
            Err(e) if e.subcode() == Some(SubCode::PathNotFound) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn open_stored(&self, path: &Path, stored: Stored) -> Result<StoredLog> {
        Ok(StoredLog {
            rest: self.rest(path)?,
            size: stored.log.len(),
            stored,
            path: path.to_path_buf(),
        })
    }

    /// Copies a log on the disk into a file, durably but for its name.
    ///
    /// # Errors
    /// `Io` with subcode `PathNotFound` if there is no such log; of disk and file.
    pub fn copy_log(&self, from: &Path, to: &Path) -> Result<()> {
        match self.find(from) {
            Some(stored) => self.copy_out(stored, from, to),
            None => {
                let e = std::io::Error::from_raw_os_error(2);
                Err(Error::from_io(
                    "While copying a log from a speed disk",
                    from,
                    e,
                ))
            }
        }
    }

    fn copy_out(&self, stored: Stored, from: &Path, to: &Path) -> Result<()> {
        let log = self.open_stored(from, stored)?;
        let mut out = self.below.create(to, IoActivity::Wal)?;
        let mut buf = vec![0; COPY_BYTES];
        let mut at = 0;
        loop {
            let n = log.read_at(at, &mut buf)?;
            if n == 0 {
                break;
            }
            out.append(buf.get(..n).unwrap_or_default())?;
            at += n as u64;
        }
        out.sync()?;
        out.close()
    }

    /// Removes a log from the disk, and its part that is a file.
    fn delete_stored(&self, path: &Path, stored: &Stored) -> Result<()> {
        // The front goes last: an end without its front would be a log that begins in the middle.
        if self.below.entry(path)?.is_some() {
            self.below.delete(path)?;
        }
        stored.disk.delete_log(stored.log.number())
    }

    fn create_log(&self, path: &Path, number: u64) -> Result<Option<Box<dyn WritableFile>>> {
        let Some(disk) = self.disk.get() else {
            return Ok(None);
        };
        if let Some(stored) = self.find(path) {
            self.delete_stored(path, &stored)?;
        }
        let usage = disk.usage();
        if usage.free_groups <= usage.groups / RESERVE {
            self.spilled.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        if self.below.entry(path)?.is_some() {
            self.below.delete(path)?;
        }
        let log = disk.create_log(number)?;
        Ok(Some(Box::new(SpillingLog {
            front: LogFile::new(disk.clone(), log, path),
            below: self.below.clone(),
            rest: None,
            front_len: 0,
        })))
    }
}

/// A log on a disk.
#[derive(Clone)]
struct Stored {
    disk: Arc<SpeedDisk>,
    log: Arc<Log>,
}

/// A log that is read: the part on the disk, and the one that is a file.
struct StoredLog {
    stored: Stored,
    rest: Option<Arc<dyn RandomAccessFile>>,
    /// Bytes on the disk when it was opened.
    size: u64,
    path: PathBuf,
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
        self.size + self.rest.as_ref().map_or(0, |r| r.size())
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
struct FromFront {
    log: StoredLog,
    at: u64,
}

impl SequentialFile for FromFront {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let n = self.log.read_at(self.at, buf)?;
        self.at += n as u64;
        Ok(n)
    }
}

/// A log that goes on as a file when the disk is full.
struct SpillingLog {
    front: LogFile,
    below: Arc<dyn FileSystem>,
    rest: Option<Box<dyn WritableFile>>,
    /// Bytes on the disk, once there is a rest.
    front_len: u64,
}

impl SpillingLog {
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
struct EndedLog {
    stored: Stored,
    rest: Option<Box<dyn WritableFile>>,
    path: PathBuf,
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

impl FileSystem for SpeedFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        match self.find(path) {
            Some(stored) => Ok(Box::new(FromFront {
                log: self.open_stored(path, stored)?,
                at: 0,
            })),
            None => self.below.open_sequential(path),
        }
    }

    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        match self.find(path) {
            Some(stored) => Ok(Arc::new(self.open_stored(path, stored)?)),
            None => self.below.open_random(path),
        }
    }

    fn open_random_how(&self, path: &Path, how: OpenHow) -> Result<Arc<dyn RandomAccessFile>> {
        match self.find(path) {
            Some(_) => self.open_random(path),
            None => self.below.open_random_how(path, how),
        }
    }

    fn create(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        if let Some(number) = self.number(path)
            && let Some(log) = self.create_log(path, number)?
        {
            return Ok(log);
        }
        let file = self.below.create(path, activity)?;
        if let Some(clock) = self.clock.get()
            && let Some(disk) = self.disk()
            && matches!(activity, IoActivity::Flush | IoActivity::Compaction)
            && path.parent().is_some_and(|dir| self.is_beside(disk, dir))
        {
            return Ok(Box::new(BesideLog::new(file, disk.clone(), clock.clone())));
        }
        Ok(file)
    }

    fn create_how(
        &self,
        path: &Path,
        activity: IoActivity,
        how: OpenHow,
    ) -> Result<Box<dyn WritableFile>> {
        match self.disk.get().and_then(|_| self.number(path)) {
            Some(_) => self.create(path, activity),
            None => self.below.create_how(path, activity, how),
        }
    }

    fn reopen(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        match self.find(path) {
            Some(stored) => {
                let rest = match self.below.entry(path)? {
                    Some(_) => Some(self.below.reopen(path, activity)?),
                    None => None,
                };
                Ok(Box::new(EndedLog {
                    stored,
                    rest,
                    path: path.to_path_buf(),
                }))
            }
            None => self.below.reopen(path, activity),
        }
    }

    fn overwrite(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        match self.find(path) {
            Some(_) => self.create(path, activity),
            None => self.below.overwrite(path, activity),
        }
    }

    fn check_direct(&self, path: &Path) -> Result<()> {
        self.below.check_direct(path)
    }

    fn open_device(&self, path: &Path, access: DeviceAccess) -> Result<Arc<dyn BlockDevice>> {
        self.below.open_device(path, access)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let Some(stored) = self.find(from) else {
            return self.below.rename(from, to);
        };
        self.copy_out(stored.clone(), from, to)?;
        if let Some(dir) = to.parent() {
            self.below.sync_dir(dir)?;
        }
        self.delete_stored(from, &stored)
    }

    fn delete(&self, path: &Path) -> Result<()> {
        match self.find(path) {
            Some(stored) => self.delete_stored(path, &stored),
            None => self.below.delete(path),
        }
    }

    fn unlink(&self, path: &Path) -> Result<Unlinked> {
        match self.find(path) {
            Some(_) => self.delete(path).map(|()| Unlinked::default()),
            None => self.below.unlink(path),
        }
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        match self.find(from) {
            Some(_) => Err(Error::not_supported("No cross FS links allowed")),
            None => self.below.link(from, to),
        }
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        match self.find(path) {
            Some(_) => Ok(1),
            None => self.below.link_count(path),
        }
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        self.below.create_dir_if_missing(path)
    }

    fn delete_dir(&self, path: &Path) -> Result<()> {
        self.below.delete_dir(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = self.below.list(dir)?;
        if let Some(disk) = self.disk.get().filter(|_| dir == self.dir) {
            let numbers = disk.numbers().into_iter();
            names.extend(numbers.map(|number| format!("{number:06}.log")));
            names.sort();
            names.dedup();
        }
        Ok(names)
    }

    fn entry(&self, path: &Path) -> Result<Option<EntryKind>> {
        match self.find(path) {
            Some(_) => Ok(Some(EntryKind::File)),
            None => self.below.entry(path),
        }
    }

    fn size(&self, path: &Path) -> Result<u64> {
        match self.find(path) {
            Some(stored) => Ok(self.open_stored(path, stored)?.size()),
            None => self.below.size(path),
        }
    }

    fn modified(&self, path: &Path) -> Result<u64> {
        match self.find(path) {
            // No page says when it was written.
            Some(_) => self.below.modified(&self.dir),
            None => self.below.modified(path),
        }
    }

    fn open_dir(&self, dir: &Path) -> Result<Arc<dyn Directory>> {
        self.below.open_dir(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.below.lock(path)
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        self.below.free_space(path)
    }

    fn open_files_max(&self) -> Option<u64> {
        self.below.open_files_max()
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        self.below.absolute(path)
    }

    fn read_all(&self, path: &Path, limit: u64) -> Result<Vec<u8>> {
        let Some(stored) = self.find(path) else {
            return self.below.read_all(path, limit);
        };
        let log = self.open_stored(path, stored)?;
        if log.size() > limit {
            let e = Error::corruption("file is too large").with_path(path);
            return Err(e.with("limit", limit));
        }
        let mut out = vec![0; usize::try_from(log.size()).unwrap_or(0)];
        let n = log.read_at(0, &mut out)?;
        out.truncate(n);
        Ok(out)
    }
}
