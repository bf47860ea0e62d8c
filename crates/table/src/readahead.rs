//! Reads of a scan: one file read serves many blocks.
//!
//! A buffer holds a stretch of the file. A block inside it costs no read. With a fixed size every
//! miss reads that much from the block on; without one, reading ahead begins after a number of blocks
//! in sequence (two) with a small read (8 KiB) and each further one doubles up to a bound (256 KiB), so
//! that random seeks read only what they need. While one stretch is consumed the system is told of the
//! next, so that a scan does not wait for the disk every time.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use crate::format::{BlockHandle, BlockKind, TRAILER_LEN};
use crate::options::{AutoReadahead, ReadParams};
use crate::reader::TableReader;
use spanlith_base::{Error, Result};

/// The buffer of one iterator.
#[derive(Default)]
pub(crate) struct ReadAhead {
    buffer: Vec<u8>,
    /// File offset of the buffer.
    start: u64,
    /// Offset after the last block that was asked for.
    expected: u64,
    /// Blocks read in sequence.
    run: u32,
    /// Next size of an automatic read.
    size: usize,
}

impl ReadAhead {
    /// The stored bytes of a block with its trailer; fewer if the file ends early. Nothing is read
    /// beyond `limit` except the block itself.
    pub(crate) fn read(
        &mut self,
        reader: &TableReader,
        handle: BlockHandle,
        params: &ReadParams,
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
            Some(at) => {
                // RocksDB tells the system to read ahead and asks for every block.
                if params.is_counted {
                    let now = reader.moment();
                    reader.count_file_read(params, len, now);
                    reader.count_block_read(BlockKind::Data, params, (now, now));
                }
                at
            }
            None => {
                self.refill(reader, (handle.offset, len), params, limit)?;
                0
            }
        };
        let end = (at + len).min(self.buffer.len());
        Ok(self.buffer.get(at..end).unwrap_or_default())
    }

    /// Bytes to read from a block of `len` on.
    fn wanted(&mut self, params: &ReadParams, auto: AutoReadahead) -> usize {
        if params.readahead > 0 {
            return params.readahead;
        }
        if self.run < auto.after_reads || auto.max == 0 {
            self.size = 0;
            return 0;
        }
        let first = auto.initial.min(auto.max);
        self.size = (self.size * 2).clamp(first, auto.max);
        self.size
    }

    fn refill(
        &mut self,
        reader: &TableReader,
        (offset, len): (u64, usize),
        params: &ReadParams,
        limit: u64,
    ) -> Result<()> {
        let wanted = self.wanted(params, reader.options().auto_readahead);
        let most = usize::try_from(limit - offset).unwrap_or(usize::MAX);
        let size = wanted.max(len).min(most);
        reader.pace(params, size as u64);
        self.start = offset;
        self.buffer.resize(size, 0);
        let file = reader.file();
        let began = params.is_counted.then(|| reader.moment()).flatten();
        match file.read_at(offset, &mut self.buffer) {
            Ok(n) => {
                self.buffer.truncate(n);
                if params.is_counted {
                    let now = reader.count_file_read(params, n.min(len), began);
                    reader.count_block_read(BlockKind::Data, params, (began, now));
                }
                let next = offset + n as u64;
                if params.prefetch && wanted > len && next < limit {
                    let ahead = usize::try_from(limit - next).unwrap_or(usize::MAX);
                    file.read_ahead(next, wanted.min(ahead));
                }
                Ok(())
            }
            Err(e) => {
                self.buffer.clear();
                Err(e)
            }
        }
    }
}
