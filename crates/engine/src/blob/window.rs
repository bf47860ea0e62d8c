//! Values of a scan: files that the scan reads in order are read in growing steps.
//!
//! References of neighbouring keys mostly lead to neighbouring records, because flushes and compactions
//! write values in the order of keys. A *window* follows one blob file: once two values in a row lay close
//! to each other, the next read takes 64 KiB, the one after that twice as much, up to 1 MiB, and values
//! are served from it. Both directions are followed. A jump ends the run, so that random references cost
//! what single reads cost. Several files are followed at once: the keys of a range may lie in tables of
//! several levels. What to do with a scan whose values lie apart is for others to decide ([`ScanWindows::is_scattered`]).
//!
//! At most [`WINDOWS`] × 1 MiB are held. One thread uses it, with its iterator.

use super::index::{BlobIndex, BlobPointer};
use super::reader::{BlobFileReader, Extent, read};
use super::source::{BlobRead, BlobSource};
use crate::version::Version;
use spanlith_base::{FileNumber, Pinned, Result};

/// Files that are followed at once.
const WINDOWS: usize = 8;
/// First step of a run.
const STEP_MIN: usize = 64 << 10;
/// Largest step.
const STEP_MAX: usize = 1 << 20;
/// Bytes between two values that still count as neighbours.
const GAP_MAX: u64 = 64 << 10;

/// Values in a row, each far from the one before, that make a scan a scattered one.
const JUMPS_MIN: u32 = 2;

/// Where the scan is in one file.
struct Window {
    file: FileNumber,
    /// The value that was read last.
    last: (u64, u64),
    /// Values in a row that lay close to each other.
    run: u32,
    /// Bytes of the next step.
    step: usize,
    /// Says what was read ahead, from `start` on.
    start: u64,
    bytes: Pinned,
    /// Larger is newer.
    used: u64,
}

/// The windows of one scan.
#[derive(Default)]
pub(crate) struct ScanWindows {
    windows: Vec<Window>,
    uses: u64,
    /// Values in a row that lay far from the one before in their file.
    jumps: u32,
}

impl ScanWindows {
    /// Returns whether the last values were read one by one, from places apart.
    pub(crate) fn is_scattered(&self) -> bool {
        self.jumps >= JUMPS_MIN
    }

    /// The next value is not compared with those before.
    pub(crate) fn begin_anew(&mut self) {
        self.jumps = 0;
    }

    /// As [`BlobSource::resolve`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn resolve(
        &mut self,
        source: &BlobSource,
        version: &Version,
        (user_key, index): (&[u8], &[u8]),
        how: BlobRead,
    ) -> Result<Pinned> {
        let pointer = BlobIndex::decode(index)?.pointer()?;
        if !how.may_read || !version.blob_files.contains_key(&pointer.file) {
            return source.resolve(version, user_key, index, how);
        }
        if let Some(value) = source.cached(&pointer) {
            return Ok(value);
        }
        let reader = source.reader(pointer.file)?;
        let mut read = || self.read(&reader, user_key, &pointer, how);
        let value = match source.reads() {
            Some(reads) => reads.count(pointer.size, read),
            None => read(),
        };
        match value {
            Ok(value) => {
                if how.fill_cache {
                    source.keep(&pointer, &value);
                }
                Ok(value)
            }
            // Reads the value by itself, with a file that is opened anew if need be.
            Err(_) => source.get(user_key, &pointer, how),
        }
    }

    fn read(
        &mut self,
        reader: &BlobFileReader,
        user_key: &[u8],
        pointer: &BlobPointer,
        how: BlobRead,
    ) -> Result<Pinned> {
        let extent = reader.extent(user_key, pointer, how.verify_checksums)?;
        let bytes = self.bytes(reader, pointer.file, extent)?;
        reader.value_in(user_key, pointer, extent, bytes)
    }

    fn bytes(
        &mut self,
        reader: &BlobFileReader,
        file: FileNumber,
        extent: Extent,
    ) -> Result<Pinned> {
        self.uses += 1;
        let (used, jumps) = (self.uses, std::mem::take(&mut self.jumps));
        let window = match self.windows.iter().position(|w| w.file == file) {
            Some(at) => &mut self.windows[at],
            None => self.follow(file),
        };
        window.used = used;
        let ahead = window.last.1 <= extent.offset && extent.offset - window.last.1 <= GAP_MAX;
        let back = extent.end() <= window.last.0 && window.last.0 - extent.end() <= GAP_MAX;
        window.last = (extent.offset, extent.end());
        if let Some(bytes) = window.part(extent) {
            return Ok(bytes);
        }
        window.run = if ahead || back { window.run + 1 } else { 0 };
        if window.run < 2 || extent.len >= STEP_MAX {
            window.step = STEP_MIN;
            self.jumps = if ahead || back { 0 } else { jumps + 1 };
            return read(reader.file(), extent.offset, extent.len).map(Pinned::from_vec);
        }
        let len = window.step.max(extent.len);
        window.step = (window.step * 2).min(STEP_MAX);
        let start = match ahead {
            true => extent.offset,
            false => extent.end().saturating_sub(len as u64),
        };
        let left = reader.file().size().saturating_sub(start);
        let len = len.min(usize::try_from(left).unwrap_or(len));
        window.bytes = Pinned::from_vec(read(reader.file(), start, len)?);
        window.start = start;
        match window.part(extent) {
            Some(bytes) => Ok(bytes),
            None => read(reader.file(), extent.offset, extent.len).map(Pinned::from_vec),
        }
    }

    /// A window on another file, in place of the one that was used longest ago if there are too many.
    fn follow(&mut self, file: FileNumber) -> &mut Window {
        let fresh = Window {
            file,
            last: (u64::MAX, u64::MAX),
            run: 0,
            step: STEP_MIN,
            start: 0,
            bytes: Pinned::default(),
            used: 0,
        };
        let oldest = (0..self.windows.len()).min_by_key(|&n| self.windows[n].used);
        let at = match oldest {
            Some(at) if self.windows.len() >= WINDOWS => {
                self.windows[at] = fresh;
                at
            }
            _ => {
                self.windows.push(fresh);
                self.windows.len() - 1
            }
        };
        &mut self.windows[at]
    }
}

impl Window {
    /// The bytes of an extent, if all of them were read ahead.
    fn part(&self, extent: Extent) -> Option<Pinned> {
        let from = usize::try_from(extent.offset.checked_sub(self.start)?).ok()?;
        let to = from.checked_add(extent.len)?;
        (to <= self.bytes.len()).then(|| self.bytes.slice(from..to))
    }
}
