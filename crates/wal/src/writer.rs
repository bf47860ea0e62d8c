//! Appends logical records to a log file, in legacy form (types 1 to 4).
//!
//! ```text
//! payload parts ──copy once──► buffer: header | fragment [| header | fragment ...] ──► one append
//! ```
//!
//! The buffer is reused, so a record costs no allocation. The checksum of a record in one part is
//! taken from the payload: bytes just copied cannot be loaded in aligned words before they have left
//! the store buffer (33 against 17 ns for 132 bytes). With several parts a call for each costs more
//! than that, so there it is taken from the copy. A record longer than [`APPEND_LIMIT`] goes out in
//! several appends, which bounds the buffer.
//!
//! Invariants: WAL1 and E2 by way of the file: after a failed append or sync every later call fails
//! with the same error, and the position does not advance. Threads: one owner at a time. Never
//! syncs on its own, never reorders. Does not write recyclable, compressed or metadata records.

use crate::record::{BLOCK_SIZE, FIRST, FULL, HEADER_SIZE, LAST, MIDDLE, TYPE_OFFSET};
use spanlith_base::Result;
use spanlith_base::checksum::{crc32c, crc32c_append, mask};
use spanlith_env::WritableFile;

/// Bytes gathered before they are handed to the file, for records longer than this.
pub const APPEND_LIMIT: usize = 1 << 20;

/// CRC-32C of the type byte [`FULL`], with which the checksum of a whole record begins.
const CRC_FULL: u32 = 0xA016_D052;

/// Writes records to a write-ahead log or a MANIFEST.
pub struct LogWriter {
    file: Box<dyn WritableFile>,
    log_number: u64,
    /// Where in the current block the next byte goes; `..= BLOCK_SIZE`.
    block_offset: usize,
    /// File length at the last successful sync.
    synced_len: u64,
    /// Bytes of the record being framed; empty between calls.
    buffer: Vec<u8>,
}

impl std::fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogWriter")
            .field("path", &self.file.path())
            .field("log_number", &self.log_number)
            .field("len", &self.file.len())
            .finish()
    }
}

impl LogWriter {
    /// Writes to `file` from its present end on. `log_number` is 0 for a MANIFEST.
    pub fn new(file: Box<dyn WritableFile>, log_number: u64) -> Self {
        debug_assert_eq!(CRC_FULL, crc32c(&[FULL]));
        let block_offset = (file.len() % BLOCK_SIZE as u64) as usize;
        Self {
            synced_len: 0,
            file,
            log_number,
            block_offset,
            buffer: Vec::with_capacity(4096),
        }
    }

    /// Appends one logical record. The bytes have reached the operating system when this returns.
    ///
    /// # Errors
    /// Those of the file; the log is unusable afterwards.
    #[inline]
    pub fn add_record(&mut self, payload: &[u8]) -> Result<()> {
        let room = BLOCK_SIZE - self.block_offset;
        if HEADER_SIZE + payload.len() > room {
            return self.add_fragmented(&[payload], payload.len());
        }
        self.buffer.clear();
        self.buffer.reserve(HEADER_SIZE + payload.len());
        self.buffer.extend_from_slice(&[0, 0, 0, 0, 0, 0, FULL]);
        self.buffer.extend_from_slice(payload);
        self.finish_full(crc32c_append(CRC_FULL, payload))
    }

    /// Appends one logical record that is the concatenation of `parts`.
    ///
    /// # Errors
    /// Those of the file; the log is unusable afterwards.
    #[inline]
    pub fn add_record_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let room = BLOCK_SIZE - self.block_offset;
        if HEADER_SIZE + len > room {
            return self.add_fragmented(parts, len);
        }
        self.buffer.clear();
        self.buffer.reserve(HEADER_SIZE + len);
        self.buffer.extend_from_slice(&[0, 0, 0, 0, 0, 0, FULL]);
        for part in parts {
            self.buffer.extend_from_slice(part);
        }
        let crc = crc32c(&self.buffer[TYPE_OFFSET..]);
        self.finish_full(crc)
    }

    /// Completes the header of the one record in the buffer and hands it to the file.
    #[inline]
    fn finish_full(&mut self, crc: u32) -> Result<()> {
        let len = (self.buffer.len() - HEADER_SIZE) as u16;
        self.buffer[..4].copy_from_slice(&mask(crc).to_le_bytes());
        self.buffer[4..TYPE_OFFSET].copy_from_slice(&len.to_le_bytes());
        self.file.append(&self.buffer)?;
        self.block_offset += self.buffer.len();
        Ok(())
    }

    /// The general case: a trailer, several fragments, or both.
    #[cold]
    fn add_fragmented(&mut self, parts: &[&[u8]], len: usize) -> Result<()> {
        let mut parts = parts.iter().copied();
        let mut part: &[u8] = &[];
        let mut left = len;
        let mut block_offset = self.block_offset;
        let mut first = true;
        self.buffer.clear();
        loop {
            let mut room = BLOCK_SIZE - block_offset;
            if room < HEADER_SIZE {
                self.buffer.extend_from_slice(&[0u8; HEADER_SIZE][..room]);
                block_offset = 0;
                room = BLOCK_SIZE;
            }
            let fragment = left.min(room - HEADER_SIZE);
            let last = fragment == left;
            let record_type = match (first, last) {
                (true, true) => FULL,
                (true, false) => FIRST,
                (false, false) => MIDDLE,
                (false, true) => LAST,
            };
            let start = self.buffer.len();
            self.buffer.reserve(HEADER_SIZE + fragment);
            self.buffer
                .extend_from_slice(&[0, 0, 0, 0, 0, 0, record_type]);
            let mut wanted = fragment;
            while wanted > 0 {
                if part.is_empty() {
                    match parts.next() {
                        Some(next) => part = next,
                        None => break,
                    }
                    continue;
                }
                let (head, tail) = part.split_at(wanted.min(part.len()));
                self.buffer.extend_from_slice(head);
                part = tail;
                wanted -= head.len();
            }
            seal(&mut self.buffer[start..]);
            block_offset += HEADER_SIZE + fragment;
            left -= fragment;
            first = false;
            if last || self.buffer.len() >= APPEND_LIMIT {
                self.file.append(&self.buffer)?;
                self.block_offset = block_offset;
                self.buffer.clear();
            }
            if last {
                return Ok(());
            }
        }
    }

    /// Makes all records added so far durable (WAL1).
    ///
    /// # Errors
    /// Those of the file; the log is unusable afterwards (E2).
    pub fn sync(&mut self) -> Result<()> {
        let len = self.file.len();
        self.file.sync()?;
        self.synced_len = len;
        Ok(())
    }

    /// Bytes in the file.
    #[inline]
    pub fn len(&self) -> u64 {
        self.file.len()
    }

    /// Whether the file holds nothing.
    pub fn is_empty(&self) -> bool {
        self.file.is_empty()
    }

    /// Bytes that the last successful sync covered.
    pub fn synced_len(&self) -> u64 {
        self.synced_len
    }

    /// Whether all records are durable.
    pub fn is_synced(&self) -> bool {
        self.synced_len == self.file.len()
    }

    /// The number in the file's name; 0 for a MANIFEST.
    #[inline]
    pub fn log_number(&self) -> u64 {
        self.log_number
    }

    /// The file, for its path.
    pub fn file(&self) -> &dyn WritableFile {
        &*self.file
    }

    /// The file, for hints (`write_back`, `preallocate`). Appending behind the writer's back breaks
    /// the framing.
    pub fn file_mut(&mut self) -> &mut dyn WritableFile {
        &mut *self.file
    }

    /// Closes the file. Does not sync.
    ///
    /// # Errors
    /// Those of the file.
    pub fn close(&mut self) -> Result<()> {
        self.file.close()
    }
}

/// Fills in length and checksum of the one record that `record` is; its type is set.
///
/// Requires: at least a header, at most a block.
#[inline]
fn seal(record: &mut [u8]) {
    debug_assert!((HEADER_SIZE..=BLOCK_SIZE).contains(&record.len()));
    let len = (record.len() - HEADER_SIZE) as u16;
    let crc = mask(crc32c(&record[TYPE_OFFSET..]));
    record[..4].copy_from_slice(&crc.to_le_bytes());
    record[4..TYPE_OFFSET].copy_from_slice(&len.to_le_bytes());
}
