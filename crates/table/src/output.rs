//! The bytes of a table on their way to the file.
//!
//! Blocks gather in a buffer that goes to the file in steps of about one megabyte.

use crate::format::{BlockHandle, BlockKind, ChecksumContext, TRAILER_LEN};
use crate::meter::WriteCounters;
use crate::options::TableOptions;
use spanlith_base::Result;
use spanlith_base::memory::Scratch;
use spanlith_base::stats::Histogram;
use spanlith_env::WritableFile;

/// Largest unit of aligned blocks.
const ALIGNMENT_MAX: usize = 4096;
/// Bytes handed to the file at once. Steps of a quarter took 8 % more processor time in compactions, also where the file is
/// asked to write back as seldom.
const WRITE_STEP: usize = 1 << 20;

/// Up to so many bytes a buffer doubles as it fills: most tables of small databases are no longer.
const SMALL: usize = 32 << 10;
/// A step, and a block that begins just before its end. A longer one has the buffer go to the file first.
const STEP_MAX: usize = WRITE_STEP + (64 << 10);

/// Output buffer in front of the file.
pub(crate) struct Output {
    pub file: Box<dyn WritableFile>,
    pub buffer: Scratch<u8>,
    /// Bytes already handed to the file.
    pub written: u64,
    pub checksum: ChecksumContext,
    /// Says who counts; `None` if nobody does.
    pub counters: Option<WriteCounters>,
}

impl Output {
    /// Bytes that will be written, of which none are yet: [`Self::offset`] tells of them until 0 are expected.
    pub(crate) fn expect(&mut self, bytes: u64) {
        self.written = bytes;
    }

    /// Appends bytes without a trailer.
    pub(crate) fn put_raw(&mut self, bytes: &[u8]) -> Result<BlockHandle> {
        let offset = self.offset();
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= WRITE_STEP {
            self.flush()?;
        }
        Ok(BlockHandle {
            offset,
            size: bytes.len() as u64,
        })
    }
}

impl Output {
    /// Where the next byte goes.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Appends a block and its trailer.
    pub(crate) fn put(&mut self, contents: &[u8], compression: u8) -> Result<BlockHandle> {
        if self.counters.is_some() {
            return self.put_counted(contents, compression);
        }
        self.append(contents, compression)
    }

    #[cold]
    fn put_counted(&mut self, contents: &[u8], compression: u8) -> Result<BlockHandle> {
        let began = self.counters.as_ref().and_then(WriteCounters::moment);
        let handle = self.append(contents, compression)?;
        if let Some(counters) = &self.counters {
            counters.took(&[Histogram::WriteRawBlockMicros], began);
        }
        Ok(handle)
    }

    #[inline]
    fn append(&mut self, contents: &[u8], compression: u8) -> Result<BlockHandle> {
        let offset = self.offset();
        let trailer = self.checksum.trailer(contents, compression, offset);
        let handle = BlockHandle {
            offset,
            size: contents.len() as u64,
        };
        debug_assert!(
            self.verifies(contents, &trailer, handle),
            "T2: a block that is written does not verify"
        );
        if contents.len() < WRITE_STEP {
            self.make_room(contents.len() + TRAILER_LEN)?;
            self.buffer.extend_from_slice(contents);
        } else {
            self.write_through(contents)?;
        }
        self.buffer.extend_from_slice(&trailer);
        if self.buffer.len() >= WRITE_STEP {
            self.flush()?;
        }
        Ok(handle)
    }

    /// Returns whether readers accept a block as it is stored.
    fn verifies(&self, contents: &[u8], trailer: &[u8], handle: BlockHandle) -> bool {
        let path = self.file.path();
        let stored = [contents, trailer].concat();
        let opened = (self.checksum).open(&stored, handle, true, BlockKind::Data, path);
        opened.is_ok()
    }

    /// Sees to it that a buffer that has grown a little grows to what a step needs, and no further.
    #[inline]
    fn make_room(&mut self, more: usize) -> Result<()> {
        if more > self.buffer.capacity() - self.buffer.len() {
            return self.grow(more);
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, more: usize) -> Result<()> {
        if self.buffer.len() + more > STEP_MAX {
            self.flush()?;
        }
        if (SMALL..STEP_MAX).contains(&self.buffer.capacity()) {
            self.buffer.reserve(STEP_MAX - self.buffer.len());
        }
        Ok(())
    }

    /// Pads before a data block of `len` bytes that would cross a super block.
    #[inline]
    pub(crate) fn align(&mut self, options: &TableOptions, len: usize) {
        match options.super_block_alignment_size as u64 {
            0 => {}
            size => self.align_super_block(size, options, len as u64 + TRAILER_LEN as u64),
        }
    }

    #[inline(never)]
    fn align_super_block(&mut self, size: u64, options: &TableOptions, len: u64) {
        let ratio = options.super_block_alignment_space_overhead_ratio.max(1) as u64;
        let left = size - self.offset() % size;
        if len > left && left < size / ratio {
            let padded = self.buffer.len() + left as usize;
            self.buffer.pad(padded, 0);
        }
    }

    /// Pads after a data block of a table with aligned blocks.
    #[inline]
    pub(crate) fn pad_behind(&mut self, options: &TableOptions) {
        if options.block_align {
            let unit = options.block_size.clamp(1, ALIGNMENT_MAX) as u64;
            let padded =
                self.buffer.len() + (self.offset().next_multiple_of(unit) - self.offset()) as usize;
            self.buffer.pad(padded, 0);
        }
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let buffer = std::mem::take(&mut self.buffer);
        let result = self.hand_over(&buffer);
        self.buffer = buffer;
        result?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes a block that is as long as the buffer, such as a filter, without a copy of it.
    #[cold]
    #[inline(never)]
    fn write_through(&mut self, contents: &[u8]) -> Result<()> {
        self.flush()?;
        self.hand_over(contents)
    }

    /// Hands bytes to the file, after those handed over before.
    fn hand_over(&mut self, bytes: &[u8]) -> Result<()> {
        let began = self.counters.as_ref().and_then(WriteCounters::moment);
        self.file.append(bytes)?;
        if let Some(counters) = &self.counters {
            counters.took(&[Histogram::SstWriteMicros, counters.writes], began);
        }
        let len = bytes.len() as u64;
        self.file.write_back(self.written, len)?;
        self.written += len;
        Ok(())
    }

    /// Makes what the file holds survive a power cut.
    pub(crate) fn sync(&mut self) -> Result<()> {
        let began = self.counters.as_ref().and_then(WriteCounters::moment);
        self.file.sync()?;
        if let Some(counters) = &self.counters {
            counters.took(&[counters.syncs], began);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_base::checksum::ChecksumKind;
    use spanlith_env::{FileSystem, IoActivity, MemFs};
    use std::path::Path;

    #[test]
    fn blocks_of_any_length_lie_in_order_and_the_buffer_does_not_grow_past_a_step() {
        let fs = MemFs::new();
        let path = Path::new("/table");
        let mut out = Output {
            file: fs.create(path, IoActivity::Other).unwrap(),
            buffer: Scratch::default(),
            written: 0,
            checksum: ChecksumContext {
                kind: ChecksumKind::Xxh3,
                base: 0,
            },
            counters: None,
        };
        let mut expected = Vec::new();
        for len in [
            10,
            40_000,
            WRITE_STEP - 50_000,
            WRITE_STEP - 10,
            7,
            WRITE_STEP,
            5,
            300_000,
        ] {
            let block = vec![len as u8; len];
            let handle = out.put(&block, 0).unwrap();
            assert_eq!(handle.offset, expected.len() as u64);
            expected.extend_from_slice(&block);
            expected.extend_from_slice(&out.checksum.trailer(&block, 0, handle.offset));
            assert!(out.buffer.capacity() <= STEP_MAX, "after {len}");
        }
        out.flush().unwrap();
        assert!(fs.read_file(path).unwrap() == expected);
    }
}
