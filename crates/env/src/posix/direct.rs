//! Files past the page cache (`O_DIRECT`), for callers that know nothing of alignment.
//!
//! The kernel wants memory, place and length in whole blocks. A read that is aligned in all three goes
//! straight into the caller's memory; any other goes through a buffer that covers it and is copied out.
//! Appends gather in an aligned buffer, which is written when full. What does not fill a block stays in
//! memory until `sync` or `close`, which write it padded with zeros and cut the file to its size; it
//! is written again when more follows.
//!
//! Blocks of 4096 bytes satisfy every device in use.

use super::retry;
use crate::errors::{self, Poison};
use crate::process::{Process, other_process};
use crate::sys::again;
use crate::traits::{RandomAccessFile, WritableFile};
use spanlith_base::{Error, Result};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Alignment of memory, place and length.
const BLOCK: usize = 4096;
/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// Bytes that begin at a multiple of [`BLOCK`].
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// `len` zeros.
    fn new(len: usize) -> Self {
        let memory = vec![0; len + BLOCK - 1];
        // Where a vector's bytes lie does not change while it is not resized.
        let start = memory.as_ptr().align_offset(BLOCK);
        Self { memory, start, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

/// A file read past the page cache.
pub(super) struct DirectRandom {
    file: File,
    size: u64,
    path: PathBuf,
}

impl DirectRandom {
    pub(super) fn new(file: File, size: u64, path: &Path) -> Self {
        Self {
            file,
            size,
            path: path.to_path_buf(),
        }
    }

    /// Reads whole blocks until `buf` is full or the file ends; a result that is no whole number of
    /// blocks is the end.
    fn read_blocks(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let wanted = buf.len();
        let context = errors::read_context(offset, wanted);
        let mut done = 0;
        while done < wanted {
            let at = offset + done as u64;
            let rest = buf.get_mut(done..).unwrap_or_default();
            let n = retry(&context, &self.path, || self.file.read_at(rest, at))?;
            done += n;
            if n == 0 || n % BLOCK != 0 {
                break;
            }
        }
        Ok(done)
    }
}

impl RandomAccessFile for DirectRandom {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if buf.is_empty() || offset >= self.size {
            return Ok(0);
        }
        let head = (offset % BLOCK as u64) as usize;
        let is_aligned =
            head == 0 && buf.len().is_multiple_of(BLOCK) && buf.as_ptr().align_offset(BLOCK) == 0;
        if is_aligned {
            return self.read_blocks(offset, buf);
        }
        // No more than the file can fill: a caller may ask for the whole of a small file.
        let wanted = buf
            .len()
            .min(usize::try_from(self.size - offset).unwrap_or(usize::MAX));
        let mut cover = Aligned::new((head + wanted).next_multiple_of(BLOCK));
        let read = self.read_blocks(offset - head as u64, cover.bytes_mut())?;
        let n = read.saturating_sub(head).min(wanted);
        if let (Some(to), Some(from)) = (buf.get_mut(..n), cover.bytes().get(head..head + n)) {
            to.copy_from_slice(from);
        }
        Ok(n)
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// A file written past the page cache.
pub(super) struct DirectWritable {
    /// `None` once closed.
    file: Option<File>,
    path: PathBuf,
    buffer: Aligned,
    /// Bytes of the buffer in use.
    held: usize,
    /// Where the buffer begins in the file, a multiple of [`BLOCK`].
    base: u64,
    /// Says whether all that is held has been written, padded.
    is_written: bool,
    /// Says who opened it.
    process: Process,
    poison: Poison,
}

impl DirectWritable {
    pub(super) fn new(file: File, path: &Path) -> Self {
        Self {
            file: Some(file),
            path: path.to_path_buf(),
            buffer: Aligned::new(BUFFER_BYTES),
            held: 0,
            base: 0,
            is_written: true,
            process: Process::current(),
            poison: Poison::default(),
        }
    }

    fn with_file<T>(
        &mut self,
        context: &str,
        call: impl FnOnce(&File, &mut Aligned) -> io::Result<T>,
    ) -> Result<T> {
        self.poison.check()?;
        let result = match &self.file {
            Some(_) if !self.process.is_current() => {
                Err(Error::from_io(context, &self.path, other_process()))
            }
            Some(file) => {
                call(file, &mut self.buffer).map_err(|e| Error::from_io(context, &self.path, e))
            }
            None => Err(errors::from_errno(context, &self.path, libc::EBADF)),
        };
        self.poison.keep(result)
    }

    /// Writes the full buffer and begins the next.
    fn write_full(&mut self) -> Result<()> {
        let base = self.base;
        self.with_file(errors::APPEND, |file, buffer| {
            file.write_all_at(buffer.bytes(), base)
        })?;
        self.base += BUFFER_BYTES as u64;
        self.held = 0;
        self.is_written = true;
        Ok(())
    }

    /// Writes what is held, padded to whole blocks, and cuts the file to its size.
    fn write_tail(&mut self) -> Result<()> {
        if self.is_written {
            return Ok(());
        }
        let (base, held, len) = (self.base, self.held, self.len());
        self.with_file(errors::APPEND, |file, buffer| {
            let padded = held.next_multiple_of(BLOCK);
            let bytes = buffer.bytes_mut();
            bytes[held..padded].fill(0);
            file.write_all_at(&bytes[..padded], base)?;
            again(|| file.set_len(len))
        })?;
        self.is_written = true;
        Ok(())
    }
}

impl WritableFile for DirectWritable {
    fn append(&mut self, mut data: &[u8]) -> Result<()> {
        self.poison.check()?;
        if self.file.is_none() {
            return self.with_file(errors::APPEND, |_, _| Ok(()));
        }
        while !data.is_empty() {
            let (part, rest) = data.split_at(data.len().min(BUFFER_BYTES - self.held));
            let held = self.held;
            self.buffer.bytes_mut()[held..held + part.len()].copy_from_slice(part);
            self.held += part.len();
            self.is_written = false;
            if self.held == BUFFER_BYTES {
                self.write_full()?;
            }
            data = rest;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.poison.check()?;
        self.write_tail()?;
        // The device may still hold what bypassed the page cache.
        self.with_file(errors::SYNC, |file, _| again(|| file.sync_data()))
    }

    fn len(&self) -> u64 {
        self.base + self.held as u64
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.write_tail()?;
        let base = len - len % BLOCK as u64;
        let held = (len - base) as usize;
        let present = self.len();
        self.with_file(&errors::truncate_context(len), |file, buffer| {
            again(|| file.set_len(len))?;
            // The block in which appends go on is read back; it was not necessarily held.
            buffer.bytes_mut()[..BLOCK].fill(0);
            Ok(())
        })?;
        if held > 0 && base < present {
            self.load_block(base)?;
        }
        self.base = base;
        self.held = held;
        self.is_written = true;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        if self.file.is_some() && !self.poison.is_set() {
            // A failure poisons the file; it is told below.
            let _ = self.write_tail();
        }
        let Some(file) = self.file.take() else {
            return self.poison.check();
        };
        let closed =
            crate::sys::close(file).map_err(|e| Error::from_io(errors::CLOSE, &self.path, e));
        self.poison.check()?;
        self.poison.keep(closed)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl DirectWritable {
    /// Reads the block at `base` into the buffer through a descriptor of its own, because this one was
    /// opened for writing only.
    fn load_block(&mut self, base: u64) -> Result<()> {
        let path = self.path.clone();
        self.with_file(errors::APPEND, |_, buffer| {
            let bytes = &mut buffer.bytes_mut()[..BLOCK];
            let mut done = 0;
            let file = File::open(&path)?;
            while done < BLOCK {
                match file.read_at(&mut bytes[done..], base + done as u64) {
                    Ok(0) => break,
                    Ok(n) => done += n,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(())
        })
    }
}

impl Drop for DirectWritable {
    fn drop(&mut self) {
        // Writes the tail; whoever needs to know how a close went calls it.
        let _ = self.close();
    }
}
