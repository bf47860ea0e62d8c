//! A file system whose calls take the time of an emulated device.
//!
//! The bytes live in the file system below, which may be real or in memory; what it does to them when the power goes, and
//! faults that are injected there, are not changed. Every call that would reach a device asks the [`Emulator`] when it
//! would be done and waits until then, by the clock that the emulator was given. All threads and files share the
//! channels and the link of the one device, so that they wait for each other as they would there.
//!
//! Speed disks that are opened by way of it may lie on a device of their own.
//!
//! Threads: any. The lock of an emulator (rank 97) is held for bookkeeping, never while waiting.

use super::host::{DeviceUsage, FileId, Host, READ_AHEAD};
use super::model::Direction;
use super::spec::DeviceSpec;
use super::wait::wait_until;
use crate::device::{BlockDevice, DeviceAccess, Durability, Geometry};
use crate::traits::{
    Access, Clock, Directory, EntryKind, FileLock, FileSystem, IoActivity, OpenHow,
    RandomAccessFile, ReadRequest, SequentialFile, Unlinked, WritableFile,
};
use spanlith_base::Result;
use spanlith_base::sync::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Rank of the lock of an emulator. Files are written under the locks of traces (95) and of the info log.
const EMULATOR_RANK: u8 = 97;

/// An emulated device that threads share, and the clock that it goes by.
pub struct Emulator {
    spec: DeviceSpec,
    clock: Arc<dyn Clock>,
    host: Mutex<Host>,
}

impl std::fmt::Debug for Emulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Emulator({})", self.spec)
    }
}

impl Emulator {
    /// An idle device.
    pub fn new(spec: DeviceSpec, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            spec,
            clock,
            host: Mutex::new(EMULATOR_RANK, Host::new(&spec)),
        })
    }

    /// Which one it is.
    pub fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    /// Figures.
    pub fn usage(&self) -> DeviceUsage {
        self.host.lock().usage()
    }

    /// Makes a call below, asks when the device would be done with it if it arrived when that began, and waits until
    /// then. One that fails takes no longer than it took.
    fn take<T>(
        &self,
        below: impl FnOnce() -> Result<T>,
        call: impl FnOnce(&mut Host, u64) -> u64,
    ) -> Result<T> {
        let now = self.clock.monotonic_nanos();
        let made = below()?;
        let done = call(&mut self.host.lock(), now);
        wait_until(&*self.clock, done);
        Ok(made)
    }

    /// Has the device do something that nobody waits for.
    fn start(&self, call: impl FnOnce(&mut Host, u64) -> u64) {
        let now = self.clock.monotonic_nanos();
        call(&mut self.host.lock(), now);
    }
}

/// The file system.
pub struct DeviceFs {
    inner: Arc<dyn FileSystem>,
    files: Option<Arc<Emulator>>,
    disks: Option<Arc<Emulator>>,
    /// Directories whose files are on other devices.
    elsewhere: Vec<(PathBuf, Arc<Emulator>)>,
    /// Says whether what is below is synced, too.
    syncs: bool,
}

impl DeviceFs {
    /// The files of `inner` on the device `files`, and speed disks that are opened by way of it on `disks`. What has no
    /// device takes the time that `inner` takes.
    pub fn new(
        inner: Arc<dyn FileSystem>,
        files: Option<Arc<Emulator>>,
        disks: Option<Arc<Emulator>>,
    ) -> Self {
        Self {
            inner,
            files,
            disks,
            elsewhere: Vec::new(),
            syncs: true,
        }
    }

    /// The files of one directory, without those below it, on another device.
    #[must_use]
    pub fn with_directory(mut self, dir: &Path, device: Arc<Emulator>) -> Self {
        self.elsewhere.push((dir.to_path_buf(), device));
        self
    }

    /// Leaves out the syncs of what is below, which would take their own time beside the emulated one: what is written
    /// survives the end of the process, and nothing more. Where nothing is emulated they are made.
    #[must_use]
    pub fn without_syncs(mut self) -> Self {
        self.syncs = false;
        self
    }

    /// The device of the files.
    pub fn files(&self) -> Option<&Arc<Emulator>> {
        self.files.as_ref()
    }

    /// The device that the file `path` is on.
    fn device(&self, path: &Path) -> Option<&Arc<Emulator>> {
        let mut elsewhere = self.elsewhere.iter();
        let found = elsewhere.find(|(dir, _)| path.parent() == Some(dir.as_path()));
        found.map(|(_, device)| device).or(self.files.as_ref())
    }

    fn written(
        &self,
        file: Box<dyn WritableFile>,
        is_direct: bool,
        open: impl FnOnce(&mut Host, &Path) -> FileId,
    ) -> Box<dyn WritableFile> {
        let Some(device) = self.device(file.path()) else {
            return file;
        };
        let id = open(&mut device.host.lock(), file.path());
        Box::new(SlowWriter {
            device: device.clone(),
            file,
            id,
            is_direct,
            is_closed: false,
            syncs: self.syncs,
        })
    }

    fn read(
        &self,
        file: Arc<dyn RandomAccessFile>,
        path: &Path,
        is_direct: bool,
    ) -> Arc<dyn RandomAccessFile> {
        let Some(device) = self.device(path) else {
            return file;
        };
        let id = device.host.lock().open(path, file.size());
        Arc::new(SlowReader {
            device: device.clone(),
            file,
            id,
            is_direct,
            is_random: AtomicBool::new(false),
            next: AtomicU64::new(0),
        })
    }
}

/// A file that is written.
struct SlowWriter {
    file: Box<dyn WritableFile>,
    device: Arc<Emulator>,
    id: FileId,
    is_direct: bool,
    is_closed: bool,
    syncs: bool,
}

impl WritableFile for SlowWriter {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let (id, bytes, is_direct) = (self.id, data.len() as u64, self.is_direct);
        let file = &mut self.file;
        self.device.take(
            || file.append(data),
            |host, now| host.append(id, now, bytes, is_direct),
        )
    }

    fn sync(&mut self) -> Result<()> {
        let (id, file) = (self.id, &mut self.file);
        let below = || match self.syncs {
            true => file.sync(),
            // A file that failed or was closed says so.
            false => file.append(&[]),
        };
        self.device.take(below, |host, now| host.sync(id, now))
    }

    fn expect_sync(&mut self) {
        // Without a sync below nothing may wait there for one.
        if self.syncs {
            self.file.expect_sync();
        }
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn is_empty(&self) -> bool {
        self.file.is_empty()
    }

    fn write_back(&mut self, offset: u64, len: u64) -> Result<()> {
        self.file.write_back(offset, len)?;
        let id = self.id;
        self.device
            .start(|host, now| host.write_back(id, now, offset.saturating_add(len)));
        Ok(())
    }

    fn write_back_strictly(&mut self, offset: u64, len: u64) -> Result<()> {
        let (id, file) = (self.id, &mut self.file);
        // The sync waits for bytes handed over before, not for those handed over now.
        self.device.take(
            || file.write_back_strictly(offset, len),
            |host, now| {
                let before = host.write_back(id, now, 0);
                host.write_back(id, now, offset.saturating_add(len));
                before
            },
        )
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.file.truncate(len)?;
        self.device.host.lock().truncate(self.id, len);
        Ok(())
    }

    fn preallocate(&mut self, len: u64) {
        self.file.preallocate(len);
    }

    fn close(&mut self) -> Result<()> {
        let (id, file) = (self.id, &mut self.file);
        let holds_back = self.is_direct && !self.is_closed;
        self.device.take(
            || file.close(),
            |host, now| match holds_back {
                // The part of a block that was held back.
                true => host.write_back(id, now, u64::MAX),
                false => now,
            },
        )?;
        self.is_closed = true;
        Ok(())
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

/// A file that is read at any place.
struct SlowReader {
    file: Arc<dyn RandomAccessFile>,
    device: Arc<Emulator>,
    id: FileId,
    is_direct: bool,
    /// Nothing is fetched ahead. Relaxed: a hint.
    is_random: AtomicBool,
    /// Where the last read ended: one that begins there is taken for one from front to back. Relaxed: a hint.
    next: AtomicU64,
}

impl SlowReader {
    /// When a read that arrives at `now` is done.
    fn done(&self, host: &mut Host, now: u64, offset: u64, bytes: usize) -> u64 {
        let bytes = bytes as u64;
        let before = self
            .next
            .swap(offset.saturating_add(bytes), Ordering::Relaxed);
        let follows = offset == before && offset > 0;
        let is_direct = self.is_direct || host.is_direct();
        let ahead = match follows && !is_direct && !self.is_random.load(Ordering::Relaxed) {
            true => READ_AHEAD,
            false => 0,
        };
        host.read(self.id, now, (offset, bytes), self.is_direct, ahead)
    }
}

impl RandomAccessFile for SlowReader {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let len = buf.len();
        self.device.take(
            || self.file.read_at(offset, buf),
            |host, now| self.done(host, now, offset, len),
        )
    }

    fn read_many(&self, requests: &mut [ReadRequest<'_>]) {
        let places: Vec<_> = requests.iter().map(|r| (r.offset, r.buf.len())).collect();
        let below = || {
            self.file.read_many(requests);
            Ok(())
        };
        // Each request has its own result.
        let _ = self.device.take(below, |host, now| {
            let done = places
                .iter()
                .map(|&(offset, len)| self.done(host, now, offset, len));
            done.max().unwrap_or(now)
        });
    }

    fn size(&self) -> u64 {
        self.file.size()
    }

    fn advise(&self, access: Access) {
        self.file.advise(access);
        self.is_random
            .store(access == Access::Random, Ordering::Relaxed);
    }

    fn read_ahead(&self, offset: u64, len: usize) {
        self.file.read_ahead(offset, len);
        if !self.is_direct && !self.device.host.lock().is_direct() {
            let id = self.id;
            self.device
                .start(|host, now| host.read(id, now, (offset, len as u64), false, 0));
        }
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

/// A file that is read from front to back.
struct SlowStream {
    file: Box<dyn SequentialFile>,
    device: Arc<Emulator>,
    id: FileId,
    at: u64,
    /// Everything below was fetched.
    fetched: u64,
}

impl SequentialFile for SlowStream {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let now = self.device.clock.monotonic_nanos();
        let n = self.file.read(buf)?;
        self.at += n as u64;
        if self.at > self.fetched {
            let from = self.fetched;
            let bytes = (self.at - from).max(READ_AHEAD);
            let done = {
                let mut host = self.device.host.lock();
                host.read(self.id, now, (from, bytes), false, 0)
            };
            wait_until(&*self.device.clock, done);
            self.fetched = from + bytes;
        }
        Ok(n)
    }
}

/// An open directory.
struct SlowDirectory {
    inner: Arc<dyn Directory>,
    device: Arc<Emulator>,
    syncs: bool,
}

impl Directory for SlowDirectory {
    fn sync(&self) -> Result<()> {
        let below = || match self.syncs {
            true => self.inner.sync(),
            false => Ok(()),
        };
        self.device.take(below, Host::sync_directory)
    }
}

/// A speed disk.
struct SlowDisk {
    inner: Arc<dyn BlockDevice>,
    device: Arc<Emulator>,
    syncs: bool,
}

impl BlockDevice for SlowDisk {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let bytes = buf.len() as u64;
        self.device.take(
            || self.inner.read_at(offset, buf),
            |host, now| host.model().serve(now, Direction::Read, offset, bytes),
        )
    }

    fn write_at(&self, offset: u64, data: &[u8], durability: Durability) -> Result<()> {
        let bytes = data.len() as u64;
        let below = match self.syncs {
            true => durability,
            false => Durability::Cached,
        };
        self.device.take(
            || self.inner.write_at(offset, data, below),
            |host, now| {
                let model = host.model();
                let done = model.serve(now, Direction::Write, offset, bytes);
                match durability {
                    Durability::Cached => done,
                    Durability::Durable => model.flush(done),
                }
            },
        )
    }

    fn flush(&self) -> Result<()> {
        let below = || match self.syncs {
            true => self.inner.flush(),
            false => Ok(()),
        };
        self.device.take(below, |host, now| host.model().flush(now))
    }

    fn unlock(&self) {
        self.inner.unlock();
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

impl FileSystem for DeviceFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let file = self.inner.open_sequential(path)?;
        let Some(device) = self.device(path) else {
            return Ok(file);
        };
        // It may have another name by now; the device then has no size to read ahead in.
        let size = self.inner.size(path).unwrap_or(0);
        let id = device.host.lock().open(path, size);
        Ok(Box::new(SlowStream {
            file,
            device: device.clone(),
            id,
            at: 0,
            fetched: 0,
        }))
    }

    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        Ok(self.read(self.inner.open_random(path)?, path, false))
    }

    fn open_random_how(&self, path: &Path, how: OpenHow) -> Result<Arc<dyn RandomAccessFile>> {
        let file = self.inner.open_random_how(path, how)?;
        Ok(self.read(file, path, how.is_direct))
    }

    fn create(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        let file = self.inner.create(path, activity)?;
        Ok(self.written(file, false, Host::create))
    }

    fn create_how(
        &self,
        path: &Path,
        activity: IoActivity,
        how: OpenHow,
    ) -> Result<Box<dyn WritableFile>> {
        let file = self.inner.create_how(path, activity, how)?;
        Ok(self.written(file, how.is_direct, Host::create))
    }

    fn reopen(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        let file = self.inner.reopen(path, activity)?;
        let len = file.len();
        Ok(self.written(file, false, |host, path| host.open(path, len)))
    }

    fn overwrite(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        let len = self.inner.size(path)?;
        let file = self.inner.overwrite(path, activity)?;
        Ok(self.written(file, false, |host, path| host.overwrite(path, len)))
    }

    fn check_direct(&self, path: &Path) -> Result<()> {
        self.inner.check_direct(path)
    }

    fn open_device(&self, path: &Path, access: DeviceAccess) -> Result<Arc<dyn BlockDevice>> {
        let inner = self.inner.open_device(path, access)?;
        let Some(device) = &self.disks else {
            return Ok(inner);
        };
        Ok(Arc::new(SlowDisk {
            inner,
            device: device.clone(),
            syncs: self.syncs,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)?;
        match (self.device(from), self.device(to)) {
            (Some(old), Some(new)) if Arc::ptr_eq(old, new) => old.host.lock().rename(from, to),
            // Its next reads fetch from the other device.
            (old, new) => {
                let _ = old.map(|old| old.host.lock().delete(from));
                let _ = new.map(|new| new.host.lock().delete(to));
            }
        }
        Ok(())
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.inner.delete(path)?;
        if let Some(device) = self.device(path) {
            device.host.lock().delete(path);
        }
        Ok(())
    }

    fn unlink(&self, path: &Path) -> Result<Unlinked> {
        let contents = self.inner.unlink(path)?;
        if let Some(device) = self.device(path) {
            device.host.lock().delete(path);
        }
        Ok(contents)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.link(from, to)?;
        if let (Some(old), Some(new)) = (self.device(from), self.device(to))
            && Arc::ptr_eq(old, new)
        {
            old.host.lock().link(from, to);
        }
        Ok(())
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        self.inner.link_count(path)
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        self.inner.create_dir_if_missing(path)
    }

    fn delete_dir(&self, path: &Path) -> Result<()> {
        self.inner.delete_dir(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn entry(&self, path: &Path) -> Result<Option<EntryKind>> {
        self.inner.entry(path)
    }

    fn size(&self, path: &Path) -> Result<u64> {
        self.inner.size(path)
    }

    fn modified(&self, path: &Path) -> Result<u64> {
        self.inner.modified(path)
    }

    fn open_dir(&self, dir: &Path) -> Result<Arc<dyn Directory>> {
        let inner = self.inner.open_dir(dir)?;
        Ok(match self.device(&dir.join("file")) {
            None => inner,
            Some(device) => Arc::new(SlowDirectory {
                inner,
                device: device.clone(),
                syncs: self.syncs,
            }),
        })
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.inner.lock(path)
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        self.inner.free_space(path)
    }

    fn total_space(&self, path: &Path) -> Option<u64> {
        self.inner.total_space(path)
    }

    fn open_files_max(&self) -> Option<u64> {
        self.inner.open_files_max()
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        self.inner.absolute(path)
    }
}

#[cfg(test)]
mod tests;
