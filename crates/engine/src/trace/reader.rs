//! The records of a trace file, one behind the other.

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

/// Reads the records of a trace file. Memory: that of the longest record, however long records say they are.
pub struct TraceReader {
    file: Box<dyn SequentialFile>,
    buffer: Vec<u8>,
    /// Where unread bytes begin in the buffer.
    begin: usize,
    /// Where those bytes are in the file.
    offset: u64,
    is_eof: bool,
    torn: Option<TornTrace>,
}

impl TraceReader {
    /// Reads from the beginning of a file.
    pub fn new(file: Box<dyn SequentialFile>) -> Self {
        Self {
            file,
            buffer: Vec::new(),
            begin: 0,
            offset: 0,
            is_eof: false,
            torn: None,
        }
    }

    /// The next record, or `None` at the end of the file, which may lie inside a record ([`Self::torn`]).
    ///
    /// # Errors
    /// Of reading the file.
    pub fn next_record(&mut self) -> Result<Option<RawRecord<'_>>> {
        if !self.fill(HEAD)? {
            return Ok(self.end());
        }
        let head = self.buffer.get(self.begin..).unwrap_or_default();
        let (Some(timestamp), Some(&kind), Some(length)) = (
            get_fixed64(head, 0),
            head.get(8),
            get_fixed32(head, HEAD - 4),
        ) else {
            return Ok(self.end());
        };
        let whole = HEAD + length as usize;
        if !self.fill(whole)? {
            return Ok(self.end());
        }
        let from = self.begin;
        let offset = self.offset;
        self.begin += whole;
        self.offset += whole as u64;
        Ok(Some(RawRecord {
            offset,
            timestamp,
            kind,
            payload: self
                .buffer
                .get(from + HEAD..from + whole)
                .unwrap_or_default(),
        }))
    }

    /// Where the next record begins.
    pub fn position(&self) -> u64 {
        self.offset
    }

    /// The record in which the file ended, once [`Self::next_record`] has said that nothing follows.
    pub fn torn(&self) -> Option<TornTrace> {
        self.torn
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.buffer.capacity()
    }

    fn end<T>(&mut self) -> Option<T> {
        let bytes = (self.buffer.len() - self.begin) as u64;
        if bytes > 0 {
            self.torn = Some(TornTrace {
                offset: self.offset,
                bytes,
            });
        }
        None
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
