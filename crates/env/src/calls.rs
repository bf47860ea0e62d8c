//! A file system that tells of its calls while somebody wants to know: which, on what, how long they took, and how they
//! ended. I/O traces are made of it.
//!
//! Files are wrapped whether or not anybody listens, so that listening may begin at any time; as long as nobody does, a
//! call costs one relaxed load more. Names of calls are RocksDB's (`Append`, `Read`, `NewWritableFile`), also for those
//! that its own traces leave out (`Sync`, `RangeSync`, `RenameFile`).
//!
//! Threads: as the wrapped file system. Listeners are called on the thread of the call, after it, under no lock of
//! this module.

use crate::device::{BlockDevice, DeviceAccess};
use crate::traits::{
    Access, Clock, Directory, EntryKind, FileLock, FileSystem, IoActivity, OpenHow,
    RandomAccessFile, ReadRequest, SequentialFile, SyncUnderWay, Unlinked, WritableFile,
};
use spanlith_base::{Error, Result};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A call that has come back.
#[derive(Clone, Copy, Debug)]
pub struct FileCall<'a> {
    /// RocksDB's name of the method.
    pub operation: &'static str,
    /// The file or directory.
    pub path: &'a Path,
    /// Nanoseconds that it took.
    pub nanos: u64,
    /// Why it failed, if it did.
    pub error: Option<&'a Error>,
    /// Size of the file, of calls that ask for it.
    pub file_size: Option<u64>,
    /// Bytes that were read, written or hinted at.
    pub length: Option<u64>,
    /// Where they begin.
    pub offset: Option<u64>,
}

/// Takes note of calls.
pub trait NoteCall: Send + Sync {
    /// A call has come back. May write to a file, but to none of the file system that tells of it.
    fn note(&self, call: &FileCall<'_>);
}

/// The switch between a file system and who listens.
pub struct CallTap {
    /// Relaxed: a call that begins meanwhile is told or not.
    is_on: AtomicBool,
    clock: Arc<dyn Clock>,
    to: Box<dyn NoteCall>,
}

impl std::fmt::Debug for CallTap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallTap")
            .field("is_on", &self.is_on())
            .finish_non_exhaustive()
    }
}

/// The arguments of a call that are told.
#[derive(Clone, Copy)]
struct Told<'a> {
    operation: &'static str,
    path: &'a Path,
    file_size: Option<u64>,
    length: Option<u64>,
    offset: Option<u64>,
}

impl<'a> Told<'a> {
    fn new(operation: &'static str, path: &'a Path) -> Self {
        Self {
            operation,
            path,
            file_size: None,
            length: None,
            offset: None,
        }
    }

    fn of(operation: &'static str, path: &'a Path, length: usize) -> Self {
        Self {
            length: Some(length as u64),
            ..Self::new(operation, path)
        }
    }

    fn at(self, offset: u64) -> Self {
        Self {
            offset: Some(offset),
            ..self
        }
    }
}

impl CallTap {
    /// Off; times are taken from `clock`.
    pub fn new(clock: Arc<dyn Clock>, to: Box<dyn NoteCall>) -> Self {
        Self {
            is_on: AtomicBool::new(false),
            clock,
            to,
        }
    }

    /// Turns it on or off. Calls that are under way may still be told.
    pub fn turn(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
    }

    #[inline]
    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Makes a call, and tells of it if somebody listens.
    #[inline]
    fn call<T>(
        &self,
        operation: &'static str,
        path: &Path,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.call_with(|| Told::new(operation, path), make)
    }

    #[inline]
    fn call_with<'a, T>(
        &self,
        told: impl FnOnce() -> Told<'a>,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match self.is_on() {
            true => self.told_call(told, make),
            false => make(),
        }
    }

    #[cold]
    #[inline(never)]
    fn told_call<'a, T>(
        &self,
        told: impl FnOnce() -> Told<'a>,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let began = self.clock.monotonic_nanos();
        let result = make();
        self.tell(began, told(), result.as_ref().err());
        result
    }

    #[cold]
    fn tell(&self, began: u64, told: Told<'_>, error: Option<&Error>) {
        let nanos = self.clock.monotonic_nanos().saturating_sub(began);
        self.to.note(&FileCall {
            operation: told.operation,
            path: told.path,
            nanos,
            error,
            file_size: told.file_size,
            length: told.length,
            offset: told.offset,
        });
    }
}

/// A file system whose calls are told.
#[derive(Clone)]
pub struct CallsFs {
    inner: Arc<dyn FileSystem>,
    tap: Arc<CallTap>,
}

impl std::fmt::Debug for CallsFs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallsFs")
            .field("tap", &self.tap)
            .finish_non_exhaustive()
    }
}

impl CallsFs {
    /// `inner`, with its calls told through `tap`.
    pub fn new(inner: Arc<dyn FileSystem>, tap: Arc<CallTap>) -> Self {
        Self { inner, tap }
    }

    fn writable(&self, inner: Box<dyn WritableFile>) -> Box<dyn WritableFile> {
        let tap = self.tap.clone();
        Box::new(ToldWritable { inner, tap })
    }

    fn random(&self, inner: Arc<dyn RandomAccessFile>) -> Arc<dyn RandomAccessFile> {
        let tap = self.tap.clone();
        Arc::new(ToldRandom { inner, tap })
    }
}

struct ToldSequential {
    inner: Box<dyn SequentialFile>,
    tap: Arc<CallTap>,
    path: PathBuf,
}

impl SequentialFile for ToldSequential {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        if !self.tap.is_on() {
            return self.inner.read(buf);
        }
        let began = self.tap.clock.monotonic_nanos();
        let read = self.inner.read(buf);
        let n = read.as_ref().copied().unwrap_or(0);
        let told = Told::of("Read", &self.path, n);
        self.tap.tell(began, told, read.as_ref().err());
        read
    }
}

struct ToldRandom {
    inner: Arc<dyn RandomAccessFile>,
    tap: Arc<CallTap>,
}

impl ToldRandom {
    /// As in RocksDB each part is told, with the time of all.
    #[cold]
    fn read_many_told(&self, requests: &mut [ReadRequest<'_>]) {
        let began = self.tap.clock.monotonic_nanos();
        self.inner.read_many(requests);
        let path = self.inner.path();
        for request in &*requests {
            let told = Told::of("MultiRead", path, request.buf.len()).at(request.offset);
            self.tap.tell(began, told, request.result.as_ref().err());
        }
    }
}

impl RandomAccessFile for ToldRandom {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let len = buf.len();
        self.tap.call_with(
            || Told::of("Read", self.inner.path(), len).at(offset),
            || self.inner.read_at(offset, buf),
        )
    }

    fn read_many(&self, requests: &mut [ReadRequest<'_>]) {
        match self.tap.is_on() {
            true => self.read_many_told(requests),
            false => self.inner.read_many(requests),
        }
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn advise(&self, access: Access) {
        self.inner.advise(access);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // Reads that are to be told must come this way.
        match self.tap.is_on() {
            true => None,
            false => self.inner.descriptor(),
        }
    }

    fn read_ahead(&self, offset: u64, len: usize) {
        // It says nothing of how it went.
        let hinted = self.tap.call_with(
            || Told::of("Prefetch", self.inner.path(), len).at(offset),
            || {
                self.inner.read_ahead(offset, len);
                Ok(())
            },
        );
        debug_assert!(hinted.is_ok());
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

struct ToldWritable {
    inner: Box<dyn WritableFile>,
    tap: Arc<CallTap>,
}

impl ToldWritable {
    /// Makes a call and tells of it with the bytes it is about. A closed tap keeps no registers for the telling.
    #[inline]
    fn during<T>(
        &mut self,
        operation: &'static str,
        extent: (Option<u64>, Option<u64>),
        make: impl FnOnce(&mut dyn WritableFile) -> Result<T>,
    ) -> Result<T> {
        match self.tap.is_on() {
            true => self.told_during(operation, extent, make),
            false => make(&mut *self.inner),
        }
    }

    #[cold]
    #[inline(never)]
    fn told_append(&mut self, data: &[u8]) -> Result<()> {
        let extent = (None, Some(data.len() as u64));
        self.told_during("Append", extent, |f| f.append(data))
    }

    #[cold]
    #[inline(never)]
    fn told_during<T>(
        &mut self,
        operation: &'static str,
        (offset, length): (Option<u64>, Option<u64>),
        make: impl FnOnce(&mut dyn WritableFile) -> Result<T>,
    ) -> Result<T> {
        let began = self.tap.clock.monotonic_nanos();
        let result = make(&mut *self.inner);
        let told = Told {
            length,
            offset,
            ..Told::new(operation, self.inner.path())
        };
        self.tap.tell(began, told, result.as_ref().err());
        result
    }
}

impl WritableFile for ToldWritable {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        // The way of every write: a closed tap hands the call on as it is.
        match self.tap.is_on() {
            true => self.told_append(data),
            false => self.inner.append(data),
        }
    }

    fn sync(&mut self) -> Result<()> {
        self.during("Sync", (None, None), |f| f.sync())
    }

    fn expect_sync(&mut self) {
        self.inner.expect_sync();
    }

    fn begin_sync(&mut self) -> Result<Option<Box<dyn SyncUnderWay>>> {
        // A sync that is told of is a single call.
        match self.tap.is_on() {
            true => Ok(None),
            false => self.inner.begin_sync(),
        }
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    fn write_back(&mut self, offset: u64, len: u64) -> Result<()> {
        let extent = (Some(offset), Some(len));
        self.during("RangeSync", extent, |f| f.write_back(offset, len))
    }

    fn write_back_strictly(&mut self, offset: u64, len: u64) -> Result<()> {
        let extent = (Some(offset), Some(len));
        self.during("RangeSync", extent, |f| f.write_back_strictly(offset, len))
    }

    fn write_over(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        let extent = (Some(offset), Some(data.len() as u64));
        self.during("PositionedAppend", extent, |f| f.write_over(offset, data))
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.during("Truncate", (None, Some(len)), |f| f.truncate(len))
    }

    fn preallocate(&mut self, len: u64) {
        let hinted = self.during("Allocate", (None, Some(len)), |f| {
            f.preallocate(len);
            Ok(())
        });
        debug_assert!(hinted.is_ok());
    }

    fn close(&mut self) -> Result<()> {
        self.during("Close", (None, None), |f| f.close())
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

struct ToldDirectory {
    inner: Arc<dyn Directory>,
    tap: Arc<CallTap>,
    path: PathBuf,
}

impl Directory for ToldDirectory {
    fn sync(&self) -> Result<()> {
        self.tap.call("Fsync", &self.path, || self.inner.sync())
    }
}

impl FileSystem for CallsFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let inner = self.tap.call("NewSequentialFile", path, || {
            self.inner.open_sequential(path)
        })?;
        Ok(Box::new(ToldSequential {
            inner,
            tap: self.tap.clone(),
            path: path.to_path_buf(),
        }))
    }

    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let open = || self.inner.open_random(path);
        let file = self.tap.call("NewRandomAccessFile", path, open)?;
        Ok(self.random(file))
    }

    fn create(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        let create = || self.inner.create(path, activity);
        let file = self.tap.call("NewWritableFile", path, create)?;
        Ok(self.writable(file))
    }

    fn open_random_how(&self, path: &Path, how: OpenHow) -> Result<Arc<dyn RandomAccessFile>> {
        let open = || self.inner.open_random_how(path, how);
        let file = self.tap.call("NewRandomAccessFile", path, open)?;
        Ok(self.random(file))
    }

    fn create_how(
        &self,
        path: &Path,
        activity: IoActivity,
        how: OpenHow,
    ) -> Result<Box<dyn WritableFile>> {
        let create = || self.inner.create_how(path, activity, how);
        let file = self.tap.call("NewWritableFile", path, create)?;
        Ok(self.writable(file))
    }

    fn reopen(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        let reopen = || self.inner.reopen(path, activity);
        let file = self.tap.call("ReopenWritableFile", path, reopen)?;
        Ok(self.writable(file))
    }

    fn overwrite(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        let overwrite = || self.inner.overwrite(path, activity);
        let file = self.tap.call("ReuseWritableFile", path, overwrite)?;
        Ok(self.writable(file))
    }

    fn check_direct(&self, path: &Path) -> Result<()> {
        self.inner.check_direct(path)
    }

    fn open_device(&self, path: &Path, access: DeviceAccess) -> Result<Arc<dyn BlockDevice>> {
        self.inner.open_device(path, access)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.tap
            .call("RenameFile", to, || self.inner.rename(from, to))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.tap
            .call("DeleteFile", path, || self.inner.delete(path))
    }

    fn unlink(&self, path: &Path) -> Result<Unlinked> {
        self.tap
            .call("DeleteFile", path, || self.inner.unlink(path))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.tap.call("LinkFile", to, || self.inner.link(from, to))
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        self.inner.link_count(path)
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        let create = || self.inner.create_dir_if_missing(path);
        self.tap.call("CreateDirIfMissing", path, create)
    }

    fn delete_dir(&self, path: &Path) -> Result<()> {
        self.tap
            .call("DeleteDir", path, || self.inner.delete_dir(path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.tap.call("GetChildren", dir, || self.inner.list(dir))
    }

    fn entry(&self, path: &Path) -> Result<Option<EntryKind>> {
        self.tap.call("FileExists", path, || self.inner.entry(path))
    }

    fn size(&self, path: &Path) -> Result<u64> {
        if !self.tap.is_on() {
            return self.inner.size(path);
        }
        let began = self.tap.clock.monotonic_nanos();
        let size = self.inner.size(path);
        let told = Told {
            file_size: Some(size.as_ref().copied().unwrap_or(0)),
            ..Told::new("GetFileSize", path)
        };
        self.tap.tell(began, told, size.as_ref().err());
        size
    }

    fn modified(&self, path: &Path) -> Result<u64> {
        let ask = || self.inner.modified(path);
        self.tap.call("GetFileModificationTime", path, ask)
    }

    fn open_dir(&self, dir: &Path) -> Result<Arc<dyn Directory>> {
        let open = || self.inner.open_dir(dir);
        let inner = self.tap.call("NewDirectory", dir, open)?;
        Ok(Arc::new(ToldDirectory {
            inner,
            tap: self.tap.clone(),
            path: dir.to_path_buf(),
        }))
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
mod tests {
    use super::*;
    use crate::clock::VirtualClock;
    use crate::fault::{FaultFs, FaultRule, OpClass};
    use crate::mem::MemFs;
    use spanlith_base::sync::Mutex;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    /// Remembers calls as text.
    struct Noted {
        lines: Lines,
    }

    impl NoteCall for Noted {
        fn note(&self, call: &FileCall<'_>) {
            let mut line = format!("{} {}", call.operation, call.path.display());
            for (name, n) in [
                ("size", call.file_size),
                ("length", call.length),
                ("offset", call.offset),
            ] {
                if let Some(n) = n {
                    line.push_str(&format!(" {name}={n}"));
                }
            }
            if call.nanos > 0 {
                line.push_str(&format!(" took={}", call.nanos));
            }
            if call.error.is_some() {
                line.push_str(" failed");
            }
            self.lines.lock().push(line);
        }
    }

    type Lines = Arc<Mutex<Vec<String>>>;

    fn told(inner: Arc<dyn FileSystem>) -> (CallsFs, Arc<CallTap>, Lines) {
        told_by(inner, Arc::new(VirtualClock::at(1)))
    }

    fn told_by(
        inner: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
    ) -> (CallsFs, Arc<CallTap>, Lines) {
        let lines = Arc::new(Mutex::new(99, Vec::new()));
        let to = Noted {
            lines: lines.clone(),
        };
        let tap = Arc::new(CallTap::new(clock, Box::new(to)));
        (CallsFs::new(inner, tap.clone()), tap, lines)
    }

    fn work(fs: &CallsFs) {
        let (dir, path, other) = (Path::new("/d"), Path::new("/d/f"), Path::new("/d/g"));
        fs.create_dir_if_missing(dir).unwrap();
        let mut file = fs.create(path, IoActivity::Other).unwrap();
        file.append(b"hello world").unwrap();
        file.write_back(0, 5).unwrap();
        file.preallocate(100);
        file.truncate(8).unwrap();
        file.sync().unwrap();
        file.close().unwrap();
        fs.sync_dir(dir).unwrap();
        let read = fs.open_random(path).unwrap();
        let (mut some, mut more) = ([0; 2], [0; 3]);
        assert_eq!(read.read_at(1, &mut some).unwrap(), 2);
        read.read_ahead(2, 4);
        let mut both = [
            ReadRequest::new(0, &mut some),
            ReadRequest::new(6, &mut more),
        ];
        read.read_many(&mut both);
        assert_eq!((&some, &more[..2]), (b"he", &b"wo"[..]));
        assert_eq!(fs.size(path).unwrap(), 8);
        fs.rename(path, other).unwrap();
        assert_eq!(fs.read_all(other, 100).unwrap(), b"hello wo");
        assert_eq!(fs.list(dir).unwrap(), ["g"]);
        fs.unlink(other).unwrap();
        fs.delete_dir(dir).unwrap();
        assert!(fs.size(other).is_err());
    }

    #[test]
    fn calls_are_told_by_rocksdbs_names_while_somebody_listens() {
        let (fs, tap, lines) = told(Arc::new(MemFs::new()));
        work(&fs);
        assert_eq!(*lines.lock(), Vec::<String>::new());
        tap.turn(true);
        work(&fs);
        let all = std::mem::take(&mut *lines.lock());
        assert_eq!(
            all,
            [
                "CreateDirIfMissing /d",
                "NewWritableFile /d/f",
                "Append /d/f length=11",
                "RangeSync /d/f length=5 offset=0",
                "Allocate /d/f length=100",
                "Truncate /d/f length=8",
                "Sync /d/f",
                "Close /d/f",
                "NewDirectory /d",
                "Fsync /d",
                "NewRandomAccessFile /d/f",
                "Read /d/f length=2 offset=1",
                "Prefetch /d/f length=4 offset=2",
                "MultiRead /d/f length=2 offset=0",
                "MultiRead /d/f length=3 offset=6",
                "GetFileSize /d/f size=8",
                "RenameFile /d/g",
                "NewSequentialFile /d/g",
                "Read /d/g length=8",
                "Read /d/g length=0",
                "GetChildren /d",
                "DeleteFile /d/g",
                "DeleteDir /d",
                "GetFileSize /d/g size=0 failed",
            ]
        );
        tap.turn(false);
        work(&fs);
        assert!(lines.lock().is_empty());
    }

    /// A clock on which every look takes a nanosecond.
    struct Ticking(AtomicU64);

    impl Clock for Ticking {
        fn now_micros(&self) -> u64 {
            0
        }
        fn monotonic_nanos(&self) -> u64 {
            self.0.fetch_add(1, Ordering::Relaxed)
        }
        fn sleep(&self, _duration: Duration) {}
    }

    #[test]
    fn a_file_that_was_open_before_is_told_with_its_time_and_how_it_ended() {
        let faulty = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
        let (fs, tap, lines) = told_by(faulty.clone(), Arc::new(Ticking(AtomicU64::new(0))));
        let mut file = fs.create(Path::new("/f"), IoActivity::Other).unwrap();
        file.append(b"x").unwrap();
        tap.turn(true);
        file.append(b"yz").unwrap();
        faulty.add(FaultRule::fail(OpClass::Append, 1, 5));
        assert!(file.append(b"zz").is_err());
        let expected = [
            "Append /f length=2 took=1",
            "Append /f length=2 took=1 failed",
        ];
        assert_eq!(*lines.lock(), expected);
    }

    #[test]
    fn all_promises_of_a_file_system_hold_told_or_not() {
        for is_on in [false, true] {
            let (fs, tap, lines) = told(Arc::new(MemFs::new()));
            tap.turn(is_on);
            fs.create_dir_if_missing(Path::new("/c")).unwrap();
            crate::conformance::run(&fs, Path::new("/c"));
            assert_eq!(lines.lock().is_empty(), !is_on);
        }
    }
}
