//! Values of a scan: files that the scan reads in order are read in growing steps.
//!
//! References of neighbouring keys mostly lead to neighbouring records, because flushes and compactions
//! write values in the order of keys. A *window* follows one blob file: once two values in a row lay close
//! to each other, the next read takes 64 KiB, the one after that twice as much, up to 1 MiB, and values
//! are served from it. Where reads are quick ([`BlobReads::are_quick`](super::BlobReads::are_quick)) values must lie closer,
//! and the first step is shorter. Both directions are followed. A jump ends the run, so that random references cost
//! what single reads cost. Several files are followed at once: the keys of a range may lie in tables of
//! several levels. What to do with a scan whose values lie apart is for others to decide ([`ScanWindows::is_scattered`]).
//!
//! At most [`WINDOWS`] × 1 MiB are held, and 64 files are kept open. One thread uses it, with its iterator.

use super::index::BlobPointer;
use super::reader::{BlobFileReader, Extent, fill, give_back};
use super::source::{BlobRead, BlobSource};
use crate::version::Version;
use spanlith_base::{FileNumber, Result};
use std::sync::Arc;

/// Files that are followed at once.
const WINDOWS: usize = 8;

/// How values of one file are read ahead.
#[derive(Clone, Copy)]
struct Pace {
    /// First step of a run.
    step: usize,
    /// Bytes between two values that still count as neighbours.
    gap: u64,
}

/// For reads that wait for a device.
const WAITING: Pace = Pace {
    step: 64 << 10,
    gap: 64 << 10,
};
/// For quick ones: copying what nobody asks for takes longer than a read.
const QUICK: Pace = Pace {
    step: 16 << 10,
    gap: 4 << 10,
};

/// Largest step.
const STEP_MAX: usize = 1 << 20;
/// Files that are kept open are as many as two to the power of it.
const READERS_BITS: u32 = 6;

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
    bytes: Vec<u8>,
    /// Larger is newer.
    used: u64,
}

/// Open files of the version that is scanned, so that the next value of one is found without a lock.
#[derive(Default)]
struct Readers(Vec<Option<(FileNumber, Arc<BlobFileReader>)>>);

impl Readers {
    fn place(file: FileNumber) -> usize {
        // Numbers of blob files have gaps that are much alike: they are spread by Fibonacci hashing.
        (file.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - READERS_BITS)) as usize
    }

    /// The reader of a file, if it is there. It is put back after use, unless there was something wrong with it.
    fn take(&mut self, file: FileNumber) -> Option<Arc<BlobFileReader>> {
        let (number, reader) = self.0.get_mut(Self::place(file))?.take()?;
        (number == file).then_some(reader)
    }

    /// Keeps a reader, in place of another one's.
    fn put(&mut self, file: FileNumber, reader: Arc<BlobFileReader>) {
        if self.0.is_empty() {
            self.0.resize_with(1 << READERS_BITS, || None);
        }
        if let Some(slot) = self.0.get_mut(Self::place(file)) {
            *slot = Some((file, reader));
        }
    }
}

/// Files of which the version that is scanned was seen to have them.
#[derive(Default)]
struct Known(Vec<FileNumber>);

impl Known {
    fn has(&mut self, version: &Version, file: FileNumber) -> bool {
        if self.0.is_empty() {
            // No file has that number.
            self.0.resize(1 << READERS_BITS, 0);
        }
        match self.0.get_mut(Readers::place(file)) {
            Some(known) if *known == file => true,
            Some(known) if version.blob_files.contains_key(&file) => {
                *known = file;
                true
            }
            _ => false,
        }
    }
}

/// The windows of one scan.
#[derive(Default)]
pub(crate) struct ScanWindows {
    readers: Readers,
    known: Known,
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

    /// As [`BlobSource::fetch`], into `out` in place of what it held.
    ///
    /// # Errors
    /// As there; `out` then holds anything.
    pub(crate) fn fetch(
        &mut self,
        source: &BlobSource,
        version: &Version,
        (user_key, pointer): (&[u8], &BlobPointer),
        how: BlobRead,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if let Some(pieces) = source.pieces()
            && self.known.has(version, pointer.file)
            && pieces.copy(user_key, pointer, out)
        {
            self.jumps = 0;
            return Ok(());
        }
        let kept = self.readers.take(pointer.file);
        if !how.may_read || (kept.is_none() && !version.blob_files.contains_key(&pointer.file)) {
            *out = source.fetch(version, user_key, pointer, how)?.into_vec();
            return Ok(());
        }
        if let Some(value) = source.cache().and_then(|cache| cache.find(pointer)) {
            if let Some(reader) = kept {
                self.readers.put(pointer.file, reader);
            }
            give_back(out, value.len());
            out.clear();
            out.extend_from_slice(&value);
            return Ok(());
        }
        let reader = match kept {
            Some(reader) => reader,
            None => source.reader(pointer.file)?,
        };
        let read = match source.reads() {
            Some(reads) => {
                let pace = match reads.are_quick() {
                    true => QUICK,
                    false => WAITING,
                };
                let work = || self.read(&reader, (user_key, pointer), how, pace, out);
                reads.count(pointer.size, work)
            }
            None => self.read(&reader, (user_key, pointer), how, WAITING, out),
        };
        if read.is_err() {
            // Reads the value by itself, with a file that is opened anew if need be.
            *out = source.get(user_key, pointer, how)?.into_vec();
            return Ok(());
        }
        self.readers.put(pointer.file, reader);
        if how.fill_cache {
            source.keep(pointer, out);
        }
        Ok(())
    }

    fn read(
        &mut self,
        reader: &BlobFileReader,
        (user_key, pointer): (&[u8], &BlobPointer),
        how: BlobRead,
        pace: Pace,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let extent = reader.extent(user_key, pointer, how.verify_checksums)?;
        let at = self.window(reader, pointer.file, extent, pace)?;
        match at.and_then(|at| self.windows[at].part(extent)) {
            Some(bytes) => reader.copy_value(user_key, pointer, extent, bytes, out),
            None => reader.read_value(user_key, pointer, extent, out),
        }
    }

    /// The window that has the bytes of an extent; `None` if they are to be read alone.
    fn window(
        &mut self,
        reader: &BlobFileReader,
        file: FileNumber,
        extent: Extent,
        pace: Pace,
    ) -> Result<Option<usize>> {
        self.uses += 1;
        let (used, jumps) = (self.uses, std::mem::take(&mut self.jumps));
        let followed = self.windows.iter().position(|w| w.file == file);
        let at = followed.unwrap_or_else(|| self.follow(file));
        let window = &mut self.windows[at];
        window.used = used;
        let ahead = window.last.1 <= extent.offset && extent.offset - window.last.1 <= pace.gap;
        let back = extent.end() <= window.last.0 && window.last.0 - extent.end() <= pace.gap;
        window.last = (extent.offset, extent.end());
        if window.part(extent).is_some() {
            return Ok(Some(at));
        }
        window.run = if ahead || back { window.run + 1 } else { 0 };
        if window.run < 2 || extent.len >= STEP_MAX {
            window.step = pace.step;
            self.jumps = if ahead || back { 0 } else { jumps + 1 };
            return Ok(None);
        }
        let len = window.step.max(extent.len);
        window.step = (window.step * 2).min(STEP_MAX);
        let start = match ahead {
            true => extent.offset,
            false => extent.end().saturating_sub(len as u64),
        };
        let left = reader.file().size().saturating_sub(start);
        let len = len.min(usize::try_from(left).unwrap_or(len));
        window.start = start;
        if let Err(e) = fill(reader.file(), start, len, &mut window.bytes) {
            // They are those of no place.
            window.bytes.clear();
            return Err(e);
        }
        Ok(Some(at))
    }

    /// A window on another file, in place of the one that was used longest ago if there are too many.
    fn follow(&mut self, file: FileNumber) -> usize {
        let fresh = Window {
            file,
            last: (u64::MAX, u64::MAX),
            run: 0,
            step: WAITING.step,
            start: 0,
            bytes: Vec::new(),
            used: 0,
        };
        let oldest = (0..self.windows.len()).min_by_key(|&n| self.windows[n].used);
        match oldest {
            Some(at) if self.windows.len() >= WINDOWS => {
                self.windows[at] = fresh;
                at
            }
            _ => {
                self.windows.push(fresh);
                self.windows.len() - 1
            }
        }
    }
}

impl Window {
    /// The bytes of an extent, if all of them were read ahead.
    fn part(&self, extent: Extent) -> Option<&[u8]> {
        let from = usize::try_from(extent.offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..from.checked_add(extent.len)?)
    }
}
