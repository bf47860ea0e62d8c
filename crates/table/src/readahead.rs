//! Reads of a scan: one file read serves many blocks.
//!
//! A buffer holds a stretch of the file. A block inside it costs no read. With a fixed size every
//! miss reads that much from the block on; without one, the third read in sequence starts with 8 KiB
//! and each further one doubles, up to 256 KiB, so that random seeks read only what they need.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use crate::format::{BlockHandle, TRAILER_LEN};
use spanlith_base::{Error, Result};
use spanlith_env::RandomAccessFile;

const FIRST: usize = 8 << 10;
const LARGEST: usize = 256 << 10;
/// Sequential reads before reading ahead begins.
const SEQUENTIAL: u32 = 2;

/// The buffer of one iterator.
#[derive(Default)]
pub(crate) struct ReadAhead {
    buffer: Vec<u8>,
    /// File offset of the buffer.
    start: u64,
    /// Offset behind the last block that was asked for.
    expected: u64,
    /// Blocks read in sequence.
    run: u32,
    /// Next size of an automatic read.
    size: usize,
}

impl ReadAhead {
    /// The stored bytes of a block with its trailer; fewer if the file ends early. `fixed` is the
    /// size of reads, 0 for automatic; nothing is read beyond `limit` except the block itself.
    pub(crate) fn read(
        &mut self,
        file: &dyn RandomAccessFile,
        handle: BlockHandle,
        fixed: usize,
        limit: u64,
    ) -> Result<&[u8]> {
        let outside = || Error::corruption("block handle points outside the file");
        let len = usize::try_from(handle.size)
            .ok()
            .and_then(|n| n.checked_add(TRAILER_LEN));
        let len = len.filter(|_| handle.end().is_some_and(|end| end <= limit));
        let len = len.ok_or_else(outside)?;
        self.run = if handle.offset == self.expected {
            self.run.saturating_add(1)
        } else {
            0
        };
        self.expected = handle.offset + len as u64;
        let inside = handle.offset.checked_sub(self.start).and_then(|at| {
            let at = usize::try_from(at).ok()?;
            (at.checked_add(len)? <= self.buffer.len()).then_some(at)
        });
        let at = match inside {
            Some(at) => at,
            None => {
                self.refill(file, handle.offset, len, fixed, limit)?;
                0
            }
        };
        let end = (at + len).min(self.buffer.len());
        Ok(self.buffer.get(at..end).unwrap_or_default())
    }

    fn refill(
        &mut self,
        file: &dyn RandomAccessFile,
        offset: u64,
        len: usize,
        fixed: usize,
        limit: u64,
    ) -> Result<()> {
        let wanted = if fixed > 0 {
            fixed
        } else if self.run >= SEQUENTIAL {
            self.size = (self.size * 2).clamp(FIRST, LARGEST);
            self.size
        } else {
            self.size = 0;
            0
        };
        let most = usize::try_from(limit - offset).unwrap_or(usize::MAX);
        let size = wanted.max(len).min(most);
        self.start = offset;
        self.buffer.resize(size, 0);
        match file.read_at(offset, &mut self.buffer) {
            Ok(n) => {
                self.buffer.truncate(n);
                Ok(())
            }
            Err(e) => {
                self.buffer.clear();
                Err(e)
            }
        }
    }
}
