//! The records of a trace file, one after the other.

use spanlith_base::Result;
use spanlith_base::coding::{get_fixed32, get_fixed64};
use spanlith_env::SequentialFile;

/// Timestamp, kind, length of what follows.
const HEAD: usize = 8 + 1 + 4;
/// Bytes asked of the file at once. A record is believed to be as long as it says only as its bytes arrive.
const STEP: usize = 64 << 10;

/// One record, not taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// Where it begins in the file.
    pub offset: u64,
    /// Microseconds since 1970; of calls of the file system, nanoseconds of a clock that only goes forward.
    pub timestamp: u64,
    /// One of [`super::kinds`], or anything else.
    pub kind: u8,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// A record that the file does not hold completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TornTrace {
    /// Where it begins.
    pub offset: u64,
    /// Bytes of it that are there.
    pub bytes: u64,
}

/// Bytes of a file from front to back. Memory: the most that was asked for at once, as far as the file has it.
pub(super) struct RawBytes {
    file: Box<dyn SequentialFile>,
    buffer: Vec<u8>,
    /// Where unread bytes begin in the buffer.
    begin: usize,
    /// Where those bytes are in the file.
    offset: u64,
    is_eof: bool,
}

impl RawBytes {
    pub(super) fn new(file: Box<dyn SequentialFile>) -> Self {
        Self {
            file,
            buffer: Vec::new(),
            begin: 0,
            offset: 0,
            is_eof: false,
        }
    }

    /// Where the next byte is in the file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next `n` bytes, which stay unread; `None` if there are fewer.
    pub(super) fn peek(&mut self, n: usize) -> Result<Option<&[u8]>> {
        Ok(match self.fill(n)? {
            true => self.buffer.get(self.begin..self.begin + n),
            false => None,
        })
    }

    /// The next `n` bytes; `None` if there are fewer, which stay unread.
    pub(super) fn take(&mut self, n: usize) -> Result<Option<&[u8]>> {
        if !self.fill(n)? {
            return Ok(None);
        }
        let from = self.begin;
        self.begin += n;
        self.offset += n as u64;
        Ok(self.buffer.get(from..from + n))
    }

    /// Unread bytes that the buffer has.
    fn left(&self) -> u64 {
        (self.buffer.len() - self.begin) as u64
    }

    /// Makes the buffer hold `n` unread bytes; false if the file has fewer.
    fn fill(&mut self, n: usize) -> Result<bool> {
        while self.buffer.len() - self.begin < n {
            if self.is_eof {
                return Ok(false);
            }
            if self.begin > 0 {
                self.buffer.drain(..self.begin);
                self.begin = 0;
            }
            let had = self.buffer.len();
            self.buffer.resize(had + STEP, 0);
            let read = self
                .file
                .read(self.buffer.get_mut(had..).unwrap_or_default());
            self.buffer.truncate(had + read.as_ref().map_or(0, |&n| n));
            self.is_eof = read? == 0;
        }
        Ok(true)
    }
}

/// Reads the records of a trace file. Memory: that of the longest record, however long records say they are.
pub struct TraceReader {
    bytes: RawBytes,
    torn: Option<TornTrace>,
}

impl TraceReader {
    /// Reads from the beginning of a file.
    pub fn new(file: Box<dyn SequentialFile>) -> Self {
        Self {
            bytes: RawBytes::new(file),
            torn: None,
        }
    }

    /// The next record, or `None` at the end of the file, which may lie inside a record ([`Self::torn`]).
    ///
    /// # Errors
    /// Of reading the file.
    pub fn next_record(&mut self) -> Result<Option<RawRecord<'_>>> {
        let head = self.bytes.peek(HEAD)?.unwrap_or_default();
        let (Some(timestamp), Some(&kind), Some(length)) = (
            get_fixed64(head, 0),
            head.get(8),
            get_fixed32(head, HEAD - 4),
        ) else {
            return Ok(self.end());
        };
        let whole = HEAD + length as usize;
        if !self.bytes.fill(whole)? {
            return Ok(self.end());
        }
        let offset = self.bytes.offset();
        let record = self.bytes.take(whole)?.unwrap_or_default();
        Ok(Some(RawRecord {
            offset,
            timestamp,
            kind,
            payload: record.get(HEAD..).unwrap_or_default(),
        }))
    }

    /// Where the next record begins.
    pub fn position(&self) -> u64 {
        self.bytes.offset()
    }

    /// The record in which the file ended, once [`Self::next_record`] has said that nothing follows.
    pub fn torn(&self) -> Option<TornTrace> {
        self.torn
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.bytes.buffer.capacity()
    }

    fn end<T>(&mut self) -> Option<T> {
        let bytes = self.bytes.left();
        if bytes > 0 {
            self.torn = Some(TornTrace {
                offset: self.bytes.offset(),
                bytes,
            });
        }
        None
    }
}
