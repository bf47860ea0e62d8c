//! The real file system.
//!
//! Files are opened with close-on-exec and, for writing, without following a symbolic link in the last
//! component; new files are 0644 and new directories 0755 under the umask. Interrupted calls are
//! repeated, short reads and writes continued. Nothing is buffered: an appended byte is in the page
//! cache and survives the process.
//!
//! Invariants: E1 (`sync` is fdatasync, of a directory fsync), E2 (a file that is
//! being written remembers its first failure and answers everything later with it).
//!
//! Threads: the file system and random-access files are shared freely; a sequential or writable file
//! belongs to one thread at a time.

mod direct;

use crate::device::{BlockDevice, DeviceAccess, PosixDevice};
use crate::errors::{self, Poison};
use crate::process::{Process, other_process};
use crate::sys::{again, change_again};
use crate::traits::{
    Access, Directory, EntryKind, FileLock, FileSystem, IoActivity, OpenHow, RandomAccessFile,
    ReadRequest, SequentialFile, Unlinked, WritableFile,
};
use crate::{lock, sys, uring};
use direct::{DirectRandom, DirectWritable};
use spanlith_base::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct PosixFs;

impl PosixFs {
    /// The file system.
    pub fn new() -> Self {
        Self
    }
}

/// Repeats `call` while it is interrupted, and names what was being done if it fails.
fn retry<T>(context: &str, path: &Path, call: impl FnMut() -> io::Result<T>) -> Result<T> {
    again(call).map_err(|e| Error::from_io(context, path, e))
}

/// Repeats a deletion while it is interrupted. Nothing is there if an interrupted one was made.
fn retry_deletion(context: &str, path: &Path, call: impl FnMut() -> io::Result<()>) -> Result<()> {
    change_again(ErrorKind::NotFound, || true, call).map_err(|e| Error::from_io(context, path, e))
}

/// Opens for reading; a directory is refused here and not at the first read.
fn open_for_reading(context: &str, path: &Path) -> Result<(File, u64)> {
    open_with_flags(context, path, 0)
}

fn open_with_flags(context: &str, path: &Path, flags: i32) -> Result<(File, u64)> {
    let file = retry(context, path, || {
        OpenOptions::new().read(true).custom_flags(flags).open(path)
    })?;
    let meta = retry(context, path, || file.metadata())?;
    if meta.is_dir() {
        return Err(errors::from_errno(context, path, libc::EISDIR));
    }
    Ok((file, meta.len()))
}

/// Opens a file to be written, created if it is missing.
fn open_for_writing(path: &Path, is_cut: bool, flags: i32) -> Result<File> {
    retry(errors::OPEN_WRITE, path, || {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(is_cut)
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW | flags)
            .open(path)
    })
}

impl FileSystem for PosixFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let (file, _) = open_for_reading(errors::OPEN_SEQUENTIAL, path)?;
        Ok(Box::new(PosixSequential {
            file,
            path: path.to_path_buf(),
        }))
    }

    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let (file, size) = open_for_reading(errors::OPEN_RANDOM, path)?;
        Ok(Arc::new(PosixRandom {
            file,
            size,
            path: path.to_path_buf(),
        }))
    }

    fn create(&self, path: &Path, _activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        let file = open_for_writing(path, true, 0)?;
        Ok(Box::new(PosixWritable::new(file, path, 0)))
    }

    fn open_random_how(&self, path: &Path, how: OpenHow) -> Result<Arc<dyn RandomAccessFile>> {
        if !how.is_direct {
            return self.open_random(path);
        }
        let (file, size) = open_with_flags(errors::OPEN_RANDOM, path, sys::DIRECT)?;
        Ok(Arc::new(DirectRandom::new(file, size, path)))
    }

    fn create_how(
        &self,
        path: &Path,
        activity: IoActivity,
        how: OpenHow,
    ) -> Result<Box<dyn WritableFile>> {
        if !how.is_direct {
            return self.create(path, activity);
        }
        let file = open_for_writing(path, true, sys::DIRECT)?;
        Ok(Box::new(DirectWritable::new(file, path)))
    }

    fn reopen(&self, path: &Path, _activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        let mut file = open_for_writing(path, false, 0)?;
        let len = retry(errors::OPEN_WRITE, path, || file.seek(SeekFrom::End(0)))?;
        Ok(Box::new(PosixWritable::new(file, path, len)))
    }

    fn overwrite(&self, path: &Path, _activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        let file = retry(errors::OPEN_WRITE, path, || {
            OpenOptions::new().write(true).open(path)
        })?;
        Ok(Box::new(PosixWritable::new(file, path, 0)))
    }

    fn open_device(&self, path: &Path, access: DeviceAccess) -> Result<Arc<dyn BlockDevice>> {
        Ok(Arc::new(PosixDevice::open(path, access)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let is_made = || again(|| std::fs::symlink_metadata(to)).is_ok();
        change_again(ErrorKind::NotFound, is_made, || std::fs::rename(from, to))
            .map_err(|e| Error::from_io(&errors::rename_context(to), from, e))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        retry_deletion(errors::UNLINK, path, || std::fs::remove_file(path))
    }

    fn unlink(&self, path: &Path) -> Result<Unlinked> {
        // Processes that have it open keep its contents. If it cannot be opened, its contents go at once.
        let _contents = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
            .open(path)
            .ok();
        self.delete(path).map(|()| Unlinked { _contents })
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        // The file itself gets another name, not the symbolic link that leads to it.
        let file = again(|| std::fs::canonicalize(from));
        let file = file.as_deref().unwrap_or(from);
        let is_made = || {
            let names = [file, to].map(|path| again(|| std::fs::symlink_metadata(path)).ok());
            let [one, other] = names.map(|meta| meta.map(|m| (m.dev(), m.ino())));
            one.is_some() && one == other
        };
        change_again(ErrorKind::AlreadyExists, is_made, || {
            std::fs::hard_link(file, to)
        })
        .map_err(|e| match e.raw_os_error() {
            Some(libc::EXDEV) => errors::cross_device_link(),
            _ => Error::from_io(&errors::link_context(to), from, e),
        })
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        retry(errors::ENTRY, path, || std::fs::metadata(path)).map(|meta| meta.nlink())
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        match again(|| std::fs::DirBuilder::new().mode(0o755).create(path)) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                match again(|| std::fs::metadata(path)) {
                    Ok(meta) if meta.is_dir() => Ok(()),
                    _ => Err(errors::not_a_directory(path)),
                }
            }
            Err(e) => Err(Error::from_io(errors::MKDIR, path, e)),
        }
    }

    fn delete_dir(&self, path: &Path) -> Result<()> {
        retry_deletion(errors::RMDIR, path, || std::fs::remove_dir(path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        // From the start again: a stream of entries ends at an error, an interruption too.
        let mut names = retry(errors::LIST, dir, || {
            std::fs::read_dir(dir)?
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                .collect::<io::Result<Vec<String>>>()
        })?;
        names.sort_unstable();
        Ok(names)
    }

    fn entry(&self, path: &Path) -> Result<Option<EntryKind>> {
        match again(|| std::fs::metadata(path)) {
            Ok(meta) if meta.is_file() => Ok(Some(EntryKind::File)),
            Ok(meta) if meta.is_dir() => Ok(Some(EntryKind::Dir)),
            Ok(_) => Ok(Some(EntryKind::Other)),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Ok(None)
            }
            Err(e) => Err(Error::from_io(errors::ENTRY, path, e)),
        }
    }

    fn size(&self, path: &Path) -> Result<u64> {
        retry(errors::SIZE, path, || std::fs::metadata(path)).map(|meta| meta.len())
    }

    fn modified(&self, path: &Path) -> Result<u64> {
        let time = retry(errors::MODIFIED, path, || {
            std::fs::metadata(path).and_then(|m| m.modified())
        })?;
        Ok(time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()))
    }

    fn open_dir(&self, dir: &Path) -> Result<Arc<dyn Directory>> {
        let file = retry(errors::OPEN_DIR, dir, || {
            OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_DIRECTORY)
                .open(dir)
        })?;
        Ok(Arc::new(PosixDirectory {
            file,
            path: dir.to_path_buf(),
        }))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        lock::lock(path)
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        sys::free_space(path).map_err(|e| Error::from_io(errors::FREE_SPACE, path, e))
    }

    fn storage(&self, path: &Path) -> Option<u64> {
        std::fs::metadata(path).ok().map(|m| m.dev())
    }

    fn total_space(&self, path: &Path) -> Option<u64> {
        sys::total_space(path).ok()
    }

    fn open_files_max(&self) -> Option<u64> {
        sys::open_files_max()
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
    }
}

struct PosixDirectory {
    file: File,
    path: PathBuf,
}

impl Directory for PosixDirectory {
    fn sync(&self) -> Result<()> {
        retry(errors::SYNC_DIR, &self.path, || self.file.sync_all())
    }
}

struct PosixSequential {
    file: File,
    path: PathBuf,
}

impl SequentialFile for PosixSequential {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        retry(errors::READ_SEQUENTIAL, &self.path, || self.file.read(buf))
    }
}

struct PosixRandom {
    file: File,
    size: u64,
    path: PathBuf,
}

/// Reads at `offset` until `buf` is full or the file ends; `done` bytes are there already.
fn read_rest(
    file: &File,
    path: &Path,
    offset: u64,
    buf: &mut [u8],
    mut done: usize,
) -> Result<usize> {
    while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => {
                let context = errors::read_context(offset, buf.len());
                return Err(Error::from_io(&context, path, e));
            }
        }
    }
    Ok(done)
}

impl RandomAccessFile for PosixRandom {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        read_rest(&self.file, &self.path, offset, buf, 0)
    }

    fn read_many(&self, requests: &mut [ReadRequest<'_>]) {
        // One read, or a kernel without the ring: as always.
        let fd = self.file.as_fd();
        if requests.len() < 2 || !uring::read_many(|_| fd, requests) {
            for request in requests {
                request.result = self.read_at(request.offset, request.buf);
            }
            return;
        }
        for r in requests {
            r.result = match &r.result {
                // The ring may stop short; what is left is read as always.
                Ok(done) if *done > 0 && *done < r.buf.len() => {
                    read_rest(&self.file, &self.path, r.offset, r.buf, *done)
                }
                Ok(done) => Ok(*done),
                // Told again by a call that knows the words for it, or mended by it.
                Err(_) => self.read_at(r.offset, r.buf),
            };
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn advise(&self, access: Access) {
        sys::advise(&self.file, access);
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn read_ahead(&self, offset: u64, len: usize) {
        sys::will_need(&self.file, offset, len as u64);
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// Bytes of a file that are reserved at first: what an idle log takes.
const RESERVED_FIRST: u64 = 256 << 10;

struct PosixWritable {
    /// `None` once closed.
    file: Option<File>,
    path: PathBuf,
    /// Bytes appended successfully.
    len: u64,
    /// Says whether space beyond the size may be reserved.
    reserved: bool,
    /// Where the reserved space ends, and up to where more is reserved once that is written; the latter is 0 if no
    /// more is wanted.
    reserved_end: u64,
    planned_end: u64,
    /// Says who opened it.
    process: Process,
    poison: Poison,
}

impl PosixWritable {
    fn new(file: File, path: &Path, len: u64) -> Self {
        Self {
            file: Some(file),
            path: path.to_path_buf(),
            len,
            reserved: false,
            reserved_end: 0,
            planned_end: 0,
            process: Process::current(),
            poison: Poison::default(),
        }
    }

    /// Runs `call` on the open descriptor unless the file failed before; a failure is final.
    fn with_file<T>(
        &mut self,
        context: &str,
        call: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> Result<T> {
        self.poison.check()?;
        let result = match &mut self.file {
            Some(_) if !self.process.is_current() => {
                Err(Error::from_io(context, &self.path, other_process()))
            }
            Some(file) => call(file).map_err(|e| Error::from_io(context, &self.path, e)),
            None => Err(errors::from_errno(context, &self.path, libc::EBADF)),
        };
        self.poison.keep(result)
    }
}

impl PosixWritable {
    /// Reserves up to `len` bytes after what is written, of those that are planned.
    #[cold]
    fn reserve(&mut self, len: u64) {
        let from = self.len;
        let len = len.min(self.planned_end.saturating_sub(from));
        let context = format!("While fallocate offset {from} len {len}");
        let mut reserved = false;
        // A device error poisons the file, and the next append reports it. Anything else only means
        // that nothing was reserved; a full disk is the business of the append that meets it.
        let _ = self.with_file(&context, |file| match sys::reserve(file, from, len) {
            Ok(()) => {
                reserved = true;
                Ok(())
            }
            Err(e) if e.raw_os_error() == Some(libc::EIO) => Err(e),
            Err(_) => Ok(()),
        });
        self.reserved |= reserved;
        self.reserved_end = from.saturating_add(len);
        if !reserved {
            self.planned_end = 0;
        }
    }
}

impl WritableFile for PosixWritable {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.with_file(errors::APPEND, |file| write_all(file, data))?;
        self.len += data.len() as u64;
        if self.len < self.planned_end && self.len >= self.reserved_end {
            // As much again as there is, so that a file that stays small takes little and one that grows asks
            // seldom.
            self.reserve(self.len.max(RESERVED_FIRST));
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.with_file(errors::SYNC, |file| again(|| file.sync_data()))
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn write_back(&mut self, offset: u64, len: u64) -> Result<()> {
        let context = format!("While sync_file_range offset {offset} bytes {len}");
        self.with_file(&context, |file| match sys::write_back(file, offset, len) {
            Err(e) if is_unsupported(&e) => Ok(()),
            other => other,
        })
    }

    fn write_back_strictly(&mut self, offset: u64, len: u64) -> Result<()> {
        let context = format!("While sync_file_range offset 0 bytes {}", offset + len);
        self.with_file(&context, |file| {
            match sys::write_back_strictly(file, offset, len) {
                Err(e) if is_unsupported(&e) => Ok(()),
                other => other,
            }
        })
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.with_file(&errors::truncate_context(len), |file| {
            again(|| file.set_len(len))?;
            file.seek(SeekFrom::Start(len)).map(drop)
        })?;
        self.len = len;
        Ok(())
    }

    fn write_over(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.with_file(errors::APPEND, |file| file.write_all_at(data, offset))
    }

    fn preallocate(&mut self, len: u64) {
        self.planned_end = self.len.saturating_add(len);
        self.reserve(RESERVED_FIRST);
    }

    fn close(&mut self) -> Result<()> {
        let Some(file) = self.file.take() else {
            return self.poison.check();
        };
        if self.poison.is_set() {
            // The first failure is what counts; the descriptor goes whatever the kernel says.
            let _ = sys::close(file);
            return self.poison.check();
        }
        let cut = if self.reserved && self.process.is_current() {
            again(|| file.set_len(self.len))
        } else {
            Ok(())
        };
        let closed = sys::close(file);
        let context = errors::truncate_context(self.len);
        let result = cut
            .map_err(|e| Error::from_io(&context, &self.path, e))
            .and_then(|()| closed.map_err(|e| Error::from_io(errors::CLOSE, &self.path, e)));
        self.poison.keep(result)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PosixWritable {
    fn drop(&mut self) {
        // Only gives back reserved space. Whoever needs to know how a close went calls it.
        let _ = self.close();
    }
}

/// Writes everything, or says why not. A device that takes nothing is an error, not a reason to spin.
fn write_all(file: &mut File, mut data: &[u8]) -> io::Result<()> {
    while !data.is_empty() {
        match file.write(data) {
            Ok(0) => return Err(io::Error::from_raw_os_error(libc::EIO)),
            Ok(n) => data = data.get(n..).unwrap_or_default(),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Returns whether the file system does not know the call, which loses nothing: the sync does the work.
fn is_unsupported(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(libc::ENOSYS | libc::EOPNOTSUPP | libc::ESPIPE | libc::EINVAL)
    )
}

#[cfg(test)]
mod tests;
