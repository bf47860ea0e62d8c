//! The interfaces between the engine and the outside world.
//!
//! Durability (E1): bytes are durable only after `sync` of their file returned `Ok` and, for a new
//! or renamed file, the sync of its directory too. After a failed append or sync a file is
//! *poisoned*: every later append or sync fails with the same error (E2).

use crate::device::{BlockDevice, DeviceAccess};
use spanlith_base::Result;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Why an I/O happens. Counted apart, and the basis of priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum IoActivity {
    Wal,
    Manifest,
    Get,
    Scan,
    Flush,
    Compaction,
    Verify,
    Other,
}

/// A file read from front to back.
pub trait SequentialFile: Send {
    /// Reads up to `buf.len()` bytes; 0 means end of file. Interrupted calls are repeated inside.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize>;
}

/// One of several reads asked for together.
#[derive(Debug)]
pub struct ReadRequest<'a> {
    /// Where to read.
    pub offset: u64,
    /// Says what to fill.
    pub buf: &'a mut [u8],
    /// Bytes read, as [`RandomAccessFile::read_at`] would say; set by
    /// [`RandomAccessFile::read_many`].
    pub result: Result<usize>,
}

impl<'a> ReadRequest<'a> {
    /// A read that was not made yet.
    pub fn new(offset: u64, buf: &'a mut [u8]) -> Self {
        Self {
            offset,
            buf,
            result: Ok(0),
        }
    }
}

/// How a file is going to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No particular way.
    Normal,
    /// Here and there: reading ahead is wasted.
    Random,
    /// From front to back.
    Sequential,
    /// Not again: its pages may leave the cache.
    NotNeeded,
}

/// How a file is opened, beyond its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenHow {
    /// Past the page cache (`O_DIRECT`). Reads and appends of any size and place work; those that are
    /// not aligned cost a copy. A file system without direct I/O fails the open with `InvalidArgument`
    /// as error number; [`FileSystem::check_direct`] asks in advance.
    pub is_direct: bool,
}

/// A file read at any offset, by many threads at once.
pub trait RandomAccessFile: Send + Sync {
    /// Reads at `offset` until `buf` is full or the file ends; returns the bytes read.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;
    /// Makes all of `requests`, at once where the system can; each has its own result.
    fn read_many(&self, requests: &mut [ReadRequest<'_>]) {
        for request in requests {
            request.result = self.read_at(request.offset, request.buf);
        }
    }
    /// Size in bytes when the file was opened.
    fn size(&self) -> u64;
    /// Hints how the file is going to be read. No effect is promised.
    fn advise(&self, _access: Access) {}
    /// Hints that `[offset, offset + len)` will be read soon. No effect is promised.
    fn read_ahead(&self, _offset: u64, _len: usize) {}
    /// A descriptor of the operating system on which reads may be made beside this file, with the same results; `None`
    /// if reads must come this way.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Tells a file that counts its reads of one that was made through [`Self::descriptor`].
    fn note_read(&self, _bytes: usize) {}
    /// The path it was opened with, for messages.
    fn path(&self) -> &Path;
}

/// A file being written. Not buffered: `append` hands the bytes to the operating system, so that
/// they survive a crash of the process. (A file opened for direct I/O holds back what fills no block;
/// `sync` and `close` write it.)
pub trait WritableFile: Send {
    /// Appends all of `data`.
    fn append(&mut self, data: &[u8]) -> Result<()>;
    /// Makes all appended bytes durable (fdatasync).
    fn sync(&mut self) -> Result<()>;
    /// Announces that [`Self::sync`] follows before anybody is told that what is appended until then is written:
    /// it may stay in memory until that call. Without an effect where appends are cheap beside syncs.
    fn expect_sync(&mut self) {}
    /// Begins [`Self::sync`] for all that was appended, and leaves its end to [`SyncUnderWay::end`], beside which the file may be
    /// appended to and synced again. `None`: this file, or what was appended to it, has to be synced by [`Self::sync`];
    /// nothing has happened then.
    fn begin_sync(&mut self) -> Result<Option<Box<dyn SyncUnderWay>>> {
        Ok(None)
    }
    /// Bytes appended so far.
    fn len(&self) -> u64;
    /// Returns whether nothing was appended.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Asks for write-back of `[offset, offset + len)` without waiting (sync_file_range).
    fn write_back(&mut self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }
    /// As [`Self::write_back`], and waits for what was asked for before.
    fn write_back_strictly(&mut self, offset: u64, len: u64) -> Result<()> {
        self.write_back(offset, len)
    }
    /// Cuts the file to `len` bytes, or extends it with zeros; appends go on there. Durable with the
    /// next sync.
    fn truncate(&mut self, _len: u64) -> Result<()> {
        Err(
            spanlith_base::Error::not_supported("truncating a file that is written")
                .with_path(self.path()),
        )
    }
    /// Writes `data` over what is at `offset`, within what the file holds; appends go on at its end. Durable with the next
    /// sync; until then a crash may leave what was there, `data`, or a part of each.
    ///
    /// # Errors
    /// `NotSupported`, and nothing has happened, where a file only grows; of the device.
    fn write_over(&mut self, _offset: u64, _data: &[u8]) -> Result<()> {
        Err(
            spanlith_base::Error::not_supported("writing over what a file holds")
                .with_path(self.path()),
        )
    }
    /// Reserves `len` bytes on disk without changing the size (fallocate KEEP_SIZE); a hint.
    fn preallocate(&mut self, _len: u64) {}
    /// Cuts what was reserved beyond the size and closes; errors count as sync errors.
    fn close(&mut self) -> Result<()>;
    /// The path, for messages.
    fn path(&self) -> &Path;
}

/// A sync that was begun ([`WritableFile::begin_sync`]). Dropped without its end, it counts as failed.
pub trait SyncUnderWay: Send {
    /// Does what is left to do, and returns when all that was appended before the sync began is durable, that of syncs that
    /// began earlier included.
    ///
    /// # Errors
    /// Those of [`WritableFile::sync`], and of any sync that began earlier. The file is unusable then.
    fn end(self: Box<Self>) -> Result<()>;
}

/// An open directory, wherever it has been moved by now; closed when dropped.
pub trait Directory: Send + Sync {
    /// Makes creations, renames and deletions in it durable. After a failure the next call tries
    /// again.
    fn sync(&self) -> Result<()>;
}

/// A held LOCK file; released when dropped.
pub trait FileLock: Send + Sync {}

/// Describes what a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Regular file.
    File,
    /// Directory.
    Dir,
    /// Anything else.
    Other,
}

/// Describes what keeps the contents of a file whose name is gone, if anything does.
#[derive(Debug, Default)]
pub struct Unlinked {
    pub(crate) _contents: Option<std::fs::File>,
}

/// A tree of files.
pub trait FileSystem: Send + Sync {
    /// Opens for reading from the front. Missing: `Io` with subcode `PathNotFound`, context
    /// `While opening a file for sequentially reading`.
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>>;
    /// Opens for reading at offsets; context `While open a file for random read`.
    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>>;
    /// Creates a file, cutting an existing one to nothing; context `While open a file for appending`.
    fn create(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>>;
    /// As [`Self::open_random`], opened in a certain way. Unless a file system says otherwise, `how`
    /// changes nothing.
    fn open_random_how(&self, path: &Path, _how: OpenHow) -> Result<Arc<dyn RandomAccessFile>> {
        self.open_random(path)
    }
    /// As [`Self::create`], opened in a certain way. Unless a file system says otherwise, `how`
    /// changes nothing.
    fn create_how(
        &self,
        path: &Path,
        activity: IoActivity,
        _how: OpenHow,
    ) -> Result<Box<dyn WritableFile>> {
        self.create(path, activity)
    }
    /// Opens a file to append after what is there, creating it if it is missing; context `While open
    /// a file for appending`.
    fn reopen(&self, path: &Path, _activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        Err(spanlith_base::Error::not_supported("reopening a file for writing").with_path(path))
    }
    /// Opens an existing file to write it again from its front. What it holds stays until it is
    /// overwritten: [`WritableFile::len`] counts from 0, and what lies after it is still there after
    /// `close`. Unless a file system says otherwise, what it holds is cut off, as by
    /// [`Self::create`]. Missing: an error; context `While open a file for appending`.
    fn overwrite(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        self.size(path)?;
        self.create(path, activity)
    }
    /// Returns whether the file at `path` can be opened for direct I/O.
    ///
    /// # Errors
    /// `InvalidArgument` in RocksDB's words if it can only be opened without, or not at all.
    fn check_direct(&self, path: &Path) -> Result<()> {
        let Err(direct) = self.open_random_how(path, OpenHow { is_direct: true }) else {
            return Ok(());
        };
        Err(match self.open_random(path) {
            Ok(_) => spanlith_base::Error::invalid_argument(
                "Direct I/O is not supported by the specified DB.",
            ),
            Err(_) => spanlith_base::Error::invalid_argument(format!(
                "Found options incompatible with filesystem: {direct}"
            )),
        })
    }
    /// Opens a file of fixed size, or a device, that is written in place.
    ///
    /// # Errors
    /// `NotSupported` where there are none; those of [`crate::PosixDevice::open`].
    fn open_device(&self, path: &Path, _access: DeviceAccess) -> Result<Arc<dyn BlockDevice>> {
        Err(spanlith_base::Error::not_supported("a device on this file system").with_path(path))
    }
    /// Renames, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Unlinks a file.
    fn delete(&self, path: &Path) -> Result<()>;
    /// As [`Self::delete`], which has to free what the file held: 0.4 ms per MB in the page cache. Where the
    /// name alone can go at once, the contents go when the answer is dropped.
    fn unlink(&self, path: &Path) -> Result<Unlinked> {
        self.delete(path).map(|()| Unlinked::default())
    }
    /// Hard link.
    fn link(&self, from: &Path, to: &Path) -> Result<()>;
    /// Number of names the file has; `NotSupported` where that is not known.
    fn link_count(&self, path: &Path) -> Result<u64> {
        Err(spanlith_base::Error::not_supported("counting the names of a file").with_path(path))
    }
    /// Creates one directory level; fine if it exists. Context `While mkdir if missing`; if a file
    /// is there: ``IO error: `DIR' exists but is not a directory``.
    fn create_dir_if_missing(&self, path: &Path) -> Result<()>;
    /// Removes an empty directory.
    fn delete_dir(&self, path: &Path) -> Result<()>;
    /// Names in a directory, sorted, without `.` and `..`.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;
    /// Returns what `path` is; `None` if there is nothing.
    fn entry(&self, path: &Path) -> Result<Option<EntryKind>>;
    /// Size of a file; context `while stat a file for size`.
    fn size(&self, path: &Path) -> Result<u64>;
    /// Modification time in seconds since the epoch.
    fn modified(&self, path: &Path) -> Result<u64>;
    /// Opens a directory to sync it, now and later; context `While open directory`.
    fn open_dir(&self, dir: &Path) -> Result<Arc<dyn Directory>>;
    /// Makes creations, renames and deletions in `dir` durable, once. Who syncs it again holds it
    /// open: its path may lead elsewhere by then.
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.open_dir(dir)?.sync()
    }
    /// Takes the advisory lock, as RocksDB: `fcntl` write lock over the whole file plus a table of
    /// this process. Errors: `IO error: lock hold by current process, acquire time T acquiring
    /// thread N: PATH: No locks available`, or `IO error: While lock file: PATH: Resource
    /// temporarily unavailable` with the holder's process id as fact `holder` and in
    /// `Error::lock_owner`; both with subcode `LockHeld`.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;
    /// Bytes free for us on the file system that holds `path`.
    fn free_space(&self, path: &Path) -> Result<u64>;
    /// Bytes of the whole file system that holds `path`, where that is known.
    fn total_space(&self, _path: &Path) -> Option<u64> {
        None
    }
    /// A number of the storage that holds `path`, where that is known: files with the same one share a device.
    fn storage(&self, _path: &Path) -> Option<u64> {
        None
    }
    /// How many files this process may have open, if there is a limit.
    fn open_files_max(&self) -> Option<u64> {
        None
    }
    /// An absolute form of `path`, for messages and lock tables.
    fn absolute(&self, path: &Path) -> PathBuf;
    /// Reads a whole small file, refusing more than `limit` bytes with `Corruption`.
    fn read_all(&self, path: &Path, limit: u64) -> Result<Vec<u8>> {
        let mut file = self.open_sequential(path)?;
        let mut out = Vec::new();
        let mut buf = [0u8; 4096];
        loop {
            let n = file.read(&mut buf)?;
            if n == 0 {
                return Ok(out);
            }
            if out.len() as u64 + n as u64 > limit {
                return Err(spanlith_base::Error::corruption("file is too large")
                    .with_path(path)
                    .with("limit", limit));
            }
            out.extend_from_slice(&buf[..n]);
        }
    }
}

/// Time.
pub trait Clock: Send + Sync {
    /// Microseconds since the epoch (wall clock).
    fn now_micros(&self) -> u64;
    /// Nanoseconds of a clock that never goes back.
    fn monotonic_nanos(&self) -> u64;
    /// Nanoseconds of processor time that the calling thread used; 0 where nobody knows.
    fn thread_cpu_nanos(&self) -> u64 {
        0
    }
    /// Returns whether its time is the machine's, so that others that know that may be asked instead.
    fn is_of_machine(&self) -> bool {
        false
    }
    /// Sleeps; a virtual clock advances instead.
    fn sleep(&self, duration: Duration);
    /// Seconds since the epoch.
    fn now_seconds(&self) -> u64 {
        self.now_micros() / 1_000_000
    }
}

/// Class of background work; each has its own threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobClass {
    /// Flushes.
    High,
    /// Compactions.
    Low,
    /// Last-level compactions.
    Bottom,
    /// Asynchronous requests of clients.
    Request,
}

/// A priority of threads that may be lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lowered {
    /// For the processor: to a `nice` value from 1 to 19, if that is lower than what they have.
    Processor(u8),
    /// For the disk: they are served when nobody else wants to be.
    Disk,
}

/// A background job.
pub type Job = Box<dyn FnOnce() + Send + 'static>;

/// Runs background work.
pub trait Executor: Send + Sync {
    /// Queues a job; never blocks.
    fn spawn(&self, class: JobClass, job: Job);
    /// Makes at least `threads` threads available to a class (a shared pool never shrinks).
    fn reserve(&self, class: JobClass, threads: usize);
    /// Lowers the priority of the threads of a class, for all who share them and until the process ends. What the system
    /// refuses stays as it is; an executor without threads does nothing.
    fn lower(&self, _class: JobClass, _what: Lowered) {}
    /// Returns whether jobs run only when somebody calls [`Self::help`] or an equivalent: then a thread that
    /// waits for background work has to help.
    fn is_manual(&self) -> bool {
        false
    }
    /// Returns whether jobs wait and the system gives no thread for them: then, too, a thread that waits for
    /// background work has to help. Asks for threads once more.
    fn lacks_threads(&self) -> bool {
        false
    }
    /// Called by a thread that is about to wait for background work. A manual executor, or one that
    /// lacks threads, runs one queued job on the caller's thread and returns true (the caller then looks
    /// again before it waits); an executor with threads returns false.
    fn help(&self) -> bool {
        false
    }
    /// Runs the oldest job of a class on the caller's thread, if one waits and all threads of the class are taken; returns
    /// whether it did. For a job that lets others go first.
    fn lend(&self, _class: JobClass) -> bool {
        false
    }
    /// Calls `tick` every `period` on a thread that it may share with other timers, until it returns
    /// false or the returned guard is dropped (which waits for a tick that runs). `name` says what it
    /// is for. A manual executor starts nothing.
    fn periodic(
        &self,
        name: &str,
        period: Duration,
        tick: Box<dyn FnMut() -> bool + Send>,
    ) -> Box<dyn Send + Sync>;
}

/// Randomness.
pub trait Rng: Send + Sync {
    /// 64 random bits.
    fn next_u64(&self) -> u64;
}

/// Everything outside the process.
#[derive(Clone)]
pub struct Env {
    /// Files.
    pub fs: Arc<dyn FileSystem>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Threads.
    pub executor: Arc<dyn Executor>,
    /// Chance.
    pub rng: Arc<dyn Rng>,
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Env")
    }
}
