//! Block devices: storage of a fixed size that is written in place, as a disk or a file that does not grow.
//!
//! [`PosixDevice`] is a device, a loop device or a file, reached by system calls. Doubles stand in the
//! crate `speed`. A device knows nothing of what is stored on it.
//!
//! Durability (E1): a write with [`Durability::Durable`] is durable once it returned `Ok`, whatever was
//! written before; one with [`Durability::Cached`] once a later [`BlockDevice::flush`] did. After a failed
//! flush nothing is known about cached writes, and a later flush says nothing about them either (E2).

use crate::sys;
use spanlith_base::{Error, Result, SubCode};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Smallest unit that a device is taken to write as a whole if it does not say.
const BLOCK_DEFAULT: u32 = 4096;
/// Smallest unit of writes that pass the page cache by.
const DIRECT_BLOCK_MIN: u64 = 512;
/// Largest unit that makes sense here.
const BLOCK_MAX: u32 = 1 << 16;

/// Describes what has to be true of a write when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// It survives the end of the process; a later flush makes it survive a power loss.
    Cached,
    /// It survives a power loss. Nothing is said about other writes.
    Durable,
}

/// Describes what is known about a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes.
    pub size: u64,
    /// Bytes that are written without reading what lies around them: the physical block. A power of
    /// two from 512 to 65536.
    pub block: u32,
    /// Says whether a completed cached write may be lost with the power. Unknown means so.
    pub is_volatile: bool,
    /// Says whether it is a device and not a file.
    pub is_block_device: bool,
}

/// Storage of a fixed size that is written in place, by many threads at once.
pub trait BlockDevice: Send + Sync {
    /// Returns what is known about it.
    fn geometry(&self) -> Geometry;
    /// Fills `buf` from `offset`.
    ///
    /// # Errors
    /// `Io`; also where the device ends first.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()>;
    /// Writes all of `data` at `offset`.
    ///
    /// # Errors
    /// `Io`. What the range holds afterwards is unknown.
    fn write_at(&self, offset: u64, data: &[u8], durability: Durability) -> Result<()>;
    /// Makes every write that returned before this call durable.
    ///
    /// # Errors
    /// `Io`. What was cached may be lost.
    fn flush(&self) -> Result<()>;
    /// Asks for the write-back of a range of cached writes, `is_strict` after what was asked for before in that range has
    /// arrived. No effect is promised.
    fn write_back(&self, _offset: u64, _len: u64, _is_strict: bool) {}
    /// Gives up the exclusive right to write, for somebody who opens it next.
    fn unlock(&self) {}
    /// A number of the storage that holds it, where that is known: the same as that of
    /// [`crate::FileSystem::storage`] for files with which it shares a device.
    fn storage(&self) -> Option<u64> {
        None
    }
    /// Returns what it is called, for messages.
    fn path(&self) -> &Path;
}

/// How a device is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceAccess {
    /// For reading; nobody is kept out.
    Read,
    /// For writing, with a lock on so many bytes from an offset on. The lock belongs to this opening: a second one
    /// is refused, in the same process, too.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes; 0 means to the end.
        len: u64,
    },
}

/// A file or device of the operating system, by way of its page cache: what a process has written survives
/// its end, and a flush covers all of the file.
#[derive(Debug)]
pub struct PosixDevice {
    file: File,
    path: PathBuf,
    geometry: Geometry,
    /// Says whether the system knows writes that are durable by themselves. Relaxed: a hint that costs one
    /// more try if it is not seen.
    has_durable_writes: AtomicBool,
    /// The same, opened for writes that pass the page cache by: those are overwrites side by side, without the lock of the
    /// file, at half the processor time. None where the file system refuses.
    direct: Option<File>,
    /// Says whether such writes are possible. Relaxed: as above.
    has_direct_writes: AtomicBool,
}

impl PosixDevice {
    /// Opens what is at `path`.
    ///
    /// # Errors
    /// `Io`; subcode `PathNotFound` if there is nothing, `LockHeld` if somebody has a part of the range
    /// open for writing; `InvalidArgument` for anything but a file or a block device.
    pub fn open(path: &Path, access: DeviceAccess) -> Result<Self> {
        const OPEN: &str = "While opening a speed disk";
        let is_writer = access != DeviceAccess::Read;
        let context = |e| Error::from_io(OPEN, path, e);
        let kind = std::fs::metadata(path).map_err(context)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            let text = "a speed disk is a file or a block device";
            return Err(Error::invalid_argument(text).with_path(path));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(is_writer);
        if kind.is_block_device() && is_writer {
            if access == (DeviceAccess::Write { offset: 0, len: 0 }) {
                // Refused while it is mounted or somebody else has it so.
                options.custom_flags(sys::EXCLUSIVE);
            } else {
                // Others may have other parts, but nobody all of it.
                check_unclaimed(path).map_err(context)?;
            }
        }
        let file = options.open(path).map_err(context)?;
        if let DeviceAccess::Write { offset, len } = access {
            sys::lock_range(&file, offset, len).map_err(|e| {
                let e = Error::from_io("While lock speed disk", path, e);
                e.with_subcode(SubCode::LockHeld)
            })?;
        }
        let geometry = geometry_of(&file, kind.is_block_device()).map_err(context)?;
        let direct = match is_writer {
            true => open_direct(&file, path),
            false => None,
        };
        Ok(Self {
            has_direct_writes: AtomicBool::new(direct.is_some()),
            direct,
            file,
            path: path.to_path_buf(),
            geometry,
            has_durable_writes: AtomicBool::new(true),
        })
    }

    fn error(&self, what: &str, offset: u64, e: io::Error) -> Error {
        Error::from_io(what, &self.path, e).with_offset(offset)
    }

    /// The file to write `data` by: past the page cache, if place, length and memory are aligned for that.
    fn direct_for(&self, offset: u64, data: &[u8]) -> Option<&File> {
        let block = u64::from(self.geometry.block).max(DIRECT_BLOCK_MIN);
        let is_aligned = |n: u64| n.is_multiple_of(block);
        let is_direct = self.has_direct_writes.load(Ordering::Relaxed)
            && is_aligned(offset)
            && is_aligned(data.len() as u64)
            && is_aligned(data.as_ptr().addr() as u64);
        self.direct.as_ref().filter(|_| is_direct)
    }

    /// Writes so that it is durable; `None` if the system cannot.
    fn write_durable(&self, offset: u64, data: &[u8]) -> io::Result<Option<()>> {
        if let Some(direct) = self.direct_for(offset, data) {
            if let Some(()) = Self::write_durable_by(direct, offset, data)? {
                return Ok(Some(()));
            }
            self.has_direct_writes.store(false, Ordering::Relaxed);
        }
        Self::write_durable_by(&self.file, offset, data)
    }

    fn write_durable_by(file: &File, mut offset: u64, mut data: &[u8]) -> io::Result<Option<()>> {
        while !data.is_empty() {
            match sys::again(|| sys::write_durable(file, data, offset)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    data = data.get(n..).unwrap_or_default();
                    offset += n as u64;
                }
                Err(e) if sys::is_unknown(&e) => return Ok(None),
                Err(e) => return Err(e),
            }
        }
        Ok(Some(()))
    }
}

impl BlockDevice for PosixDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn storage(&self) -> Option<u64> {
        let metadata = self.file.metadata().ok()?;
        Some(match self.geometry.is_block_device {
            true => metadata.rdev(),
            false => metadata.dev(),
        })
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let read = self.file.read_exact_at(buf, offset);
        read.map_err(|e| self.error("While reading a speed disk", offset, e))
    }

    fn write_at(&self, offset: u64, data: &[u8], durability: Durability) -> Result<()> {
        const WRITE: &str = "While writing a speed disk";
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| end > self.geometry.size) {
            let e = io::ErrorKind::StorageFull.into();
            return Err(self.error(WRITE, offset, e));
        }
        if durability == Durability::Durable && self.has_durable_writes.load(Ordering::Relaxed) {
            let written = self.write_durable(offset, data);
            if let Some(()) = written.map_err(|e| self.error(WRITE, offset, e))? {
                return Ok(());
            }
            self.has_durable_writes.store(false, Ordering::Relaxed);
        }
        let written = self.file.write_all_at(data, offset);
        written.map_err(|e| self.error(WRITE, offset, e))?;
        match durability {
            Durability::Cached => Ok(()),
            Durability::Durable => self.flush(),
        }
    }

    fn flush(&self) -> Result<()> {
        let flushed = sys::again(|| self.file.sync_data());
        flushed.map_err(|e| self.error("While flushing a speed disk", 0, e))
    }

    fn write_back(&self, offset: u64, len: u64, is_strict: bool) {
        // A failure is told by the flush.
        let _ = match is_strict {
            true => sys::write_back_again(&self.file, offset, len),
            false => sys::write_back(&self.file, offset, len),
        };
    }

    fn unlock(&self) {
        // It goes with the descriptor at the latest.
        let _ = sys::unlock_range(&self.file);
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// Refuses a block device that is mounted, or that somebody has as a whole.
fn check_unclaimed(path: &Path) -> io::Result<()> {
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        let mut options = OpenOptions::new();
        match options.read(true).custom_flags(sys::EXCLUSIVE).open(path) {
            Ok(_) => return Ok(()),
            // Perhaps one who looks, as here.
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => std::thread::yield_now(),
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

/// Opens a file once more, for writes that pass the page cache by.
fn open_direct(file: &File, path: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(sys::DIRECT);
    let direct = options.open(path).ok()?;
    let (old, new) = (file.metadata().ok()?, direct.metadata().ok()?);
    // Somebody may have put another file there meanwhile.
    ((old.dev(), old.ino()) == (new.dev(), new.ino())).then_some(direct)
}

/// Makes a file of `size` bytes whose blocks are all written, so that writing them again changes none of the
/// file system's own structures, and makes it durable together with its name. An existing file is refused.
///
/// # Errors
/// `Io`; nothing is left of the file then.
pub fn create_device_file(path: &Path, size: u64) -> Result<()> {
    let context = |e| Error::from_io("While creating a speed disk", path, e);
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600);
    let file = file.open(path).map_err(context)?;
    let filled = fill(&file, size).and_then(|()| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    });
    filled.map_err(|e| {
        // A device that was not finished is of no use; that it stays changes nothing about the error.
        let _ = std::fs::remove_file(path);
        context(e)
    })
}

fn fill(file: &File, size: u64) -> io::Result<()> {
    const CHUNK: usize = 1 << 20;
    sys::reserve(file, 0, size).or_else(|e| match sys::is_unknown(&e) {
        true => Ok(()),
        false => Err(e),
    })?;
    let zeros = vec![0u8; CHUNK];
    let mut at = 0;
    while at < size {
        let n = usize::try_from(size - at).map_or(CHUNK, |rest| rest.min(CHUNK));
        file.write_all_at(zeros.get(..n).unwrap_or_default(), at)?;
        at += n as u64;
    }
    file.sync_all()
}

fn geometry_of(file: &File, is_block_device: bool) -> io::Result<Geometry> {
    let metadata = file.metadata()?;
    let (size, number) = match is_block_device {
        false => (metadata.len(), metadata.dev()),
        true => {
            use std::io::{Seek, SeekFrom};
            let mut file = file;
            (file.seek(SeekFrom::End(0))?, metadata.rdev())
        }
    };
    let block = queue_number(number, "physical_block_size");
    Ok(Geometry {
        size,
        block: block.unwrap_or(BLOCK_DEFAULT),
        // Bytes in the page cache are volatile whatever the device behind it says.
        is_volatile: true,
        is_block_device,
    })
}

/// A number that the block layer tells of a device: from its own queue or, for a partition, that of the whole.
fn queue_number(device: u64, name: &str) -> Option<u32> {
    let (major, minor) = (libc::major(device), libc::minor(device));
    let own = format!("/sys/dev/block/{major}:{minor}");
    let text = [
        format!("{own}/queue/{name}"),
        format!("{own}/../queue/{name}"),
    ]
    .iter()
    .find_map(|path| std::fs::read_to_string(path).ok())?;
    let number: u32 = text.trim().parse().ok()?;
    (number.is_power_of_two() && (512..=BLOCK_MAX).contains(&number)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 20;

    fn file(dir: &tempfile::TempDir) -> PathBuf {
        let path = dir.path().join("disk");
        create_device_file(&path, SIZE).unwrap();
        path
    }

    fn open(path: &Path, offset: u64, len: u64) -> Result<PosixDevice> {
        PosixDevice::open(path, DeviceAccess::Write { offset, len })
    }

    /// Both ways of durable writes, in turn over the same places, with readers by the page cache.
    #[test]
    fn aligned_writes_pass_the_page_cache_and_all_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir);
        let device = open(&path, 0, 0).unwrap();
        let mut memory = vec![0u8; 3 * 4096];
        let aligned = memory.as_ptr().align_offset(4096);
        let mut expected = vec![0u8; 4 * 4096];
        for n in 1..40u8 {
            let (page, shift) = (usize::from(n % 4), usize::from(n % 3 == 0));
            let data = &mut memory[aligned + shift..][..4096];
            data.fill(n);
            let is_direct = device.direct_for(page as u64 * 4096, data).is_some();
            assert_eq!(is_direct, shift == 0 && device.direct.is_some());
            let how = match n % 5 {
                0 => Durability::Cached,
                _ => Durability::Durable,
            };
            device.write_at(page as u64 * 4096, data, how).unwrap();
            expected[page * 4096..][..4096].fill(n);
            let mut back = vec![0; expected.len()];
            device.read_at(0, &mut back).unwrap();
            assert!(back == expected, "after write {n}");
        }
    }

    #[test]
    fn a_file_is_written_in_place_and_never_grows() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir);
        let device = open(&path, 0, 0).unwrap();
        assert_eq!(device.geometry().size, SIZE);
        assert!(device.geometry().is_volatile);
        device
            .write_at(4096, b"cached", Durability::Cached)
            .unwrap();
        device
            .write_at(8192, b"durable", Durability::Durable)
            .unwrap();
        device.flush().unwrap();
        let mut back = [0; 7];
        device.read_at(8192, &mut back).unwrap();
        assert_eq!(&back, b"durable");
        for durability in [Durability::Cached, Durability::Durable] {
            let e = device.write_at(SIZE - 2, b"abc", durability).unwrap_err();
            assert!(e.to_string().starts_with("IO error: "), "{e}");
        }
        assert!(device.read_at(SIZE - 2, &mut back).is_err());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), SIZE);
    }

    #[test]
    fn a_range_is_open_for_writing_once_and_for_reading_by_anybody() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir);
        let first = open(&path, 0, SIZE / 2).unwrap();
        let second = open(&path, SIZE / 2, SIZE / 2).unwrap();
        let e = open(&path, SIZE / 2 - 4096, 8192).unwrap_err();
        assert_eq!(e.subcode(), Some(SubCode::LockHeld));
        PosixDevice::open(&path, DeviceAccess::Read).unwrap();
        drop(first);
        open(&path, 0, SIZE / 2).unwrap();
        drop(second);
    }

    #[test]
    fn what_is_no_device_and_what_is_there_already_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let e = PosixDevice::open(&dir.path().join("none"), DeviceAccess::Read).unwrap_err();
        assert_eq!(e.subcode(), Some(SubCode::PathNotFound));
        let e = PosixDevice::open(dir.path(), DeviceAccess::Read).unwrap_err();
        assert!(e.to_string().starts_with("Invalid argument: "), "{e}");
        let path = file(&dir);
        create_device_file(&path, SIZE).unwrap_err();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), SIZE);
    }
}
