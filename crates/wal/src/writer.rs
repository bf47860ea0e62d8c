//! Appends logical records to a log file: in legacy form (types 1 to 4), or as [`LogOptions`] say.
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
//! syncs on its own, never reorders. What is not the legacy form is in [`crate::framer`], which costs
//! one branch.

use crate::framer::{Framer, push_metadata, seal};
use crate::record::{
    BLOCK_SIZE, FIRST, FULL, HEADER_SIZE, LAST, MIDDLE, PREDECESSOR_WAL_INFO, TIMESTAMP_SIZE,
    TYPE_OFFSET,
};
use spanlith_base::checksum::{crc32c, crc32c_append, mask};
use spanlith_base::{CompressionType, Error, Result};
use spanlith_env::{SyncUnderWay, WritableFile};
use std::collections::BTreeSet;

/// Bytes gathered before they are handed to the file, for records longer than this.
pub const APPEND_LIMIT: usize = 1 << 20;

/// Families in one record of timestamp sizes.
const TIMESTAMP_SIZES_MAX: usize = 4096;

/// CRC-32C of the type byte [`FULL`], with which the checksum of a whole record begins.
const CRC_FULL: u32 = 0xA016_D052;

/// The form of a log. The default is what every reader knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Put the log number into every record, so that the file may hold bytes of an earlier log
    /// after its end.
    pub recyclable: bool,
    /// Codec of data records, of those that [`CompressionType::suits_logs`]. Only for a log that starts empty.
    pub compression: CompressionType,
    /// Keep records in memory until [`LogWriter::flush`] or [`LogWriter::sync`], or until so many
    /// bytes have gathered; 0 hands every record over at once.
    pub buffer_size: usize,
}

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
    /// Says what frames the records if they are not of the legacy form, or do not go out at once.
    framer: Option<Box<Framer>>,
    /// Families whose timestamp size stands in this log.
    timestamped: BTreeSet<u32>,
}

impl std::fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogWriter")
            .field("path", &self.file.path())
            .field("log_number", &self.log_number)
            .field("len", &self.len())
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
            framer: None,
            timestamped: BTreeSet::new(),
        }
    }

    /// Writes a log of the given form to `file`, from its present end on.
    ///
    /// # Errors
    /// Those of the file; `InvalidArgument` for compression in a log that holds records already,
    /// `NotSupported` for a codec that does not suit logs.
    pub fn new_with(
        file: Box<dyn WritableFile>,
        log_number: u64,
        options: LogOptions,
    ) -> Result<Self> {
        let mut log = Self::new(file, log_number);
        if options == LogOptions::default() {
            return Ok(log);
        }
        if options.compression != CompressionType::None && !log.file.is_empty() {
            return Err(Error::invalid_argument(
                "compression begins with the first record of a log",
            ));
        }
        let mut framer = Framer::new(log.block_offset, log_number, options)?;
        framer.begin(&mut *log.file)?;
        log.framer = Some(Box::new(framer));
        Ok(log)
    }

    /// Appends one logical record. The bytes have reached the operating system when this returns,
    /// unless the log is buffered.
    ///
    /// # Errors
    /// Those of the file; the log is unusable afterwards.
    #[inline]
    pub fn add_record(&mut self, payload: &[u8]) -> Result<()> {
        if self.framer.is_some() {
            return self.add_framed(&[payload]);
        }
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
        if self.framer.is_some() {
            return self.add_framed(parts);
        }
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

    /// Appends one logical record of at most `len_max` bytes that `fill` appends to what it is given.
    /// For short records: those that are not written in one piece are copied once more.
    ///
    /// # Errors
    /// Those of the file; the log is unusable afterwards.
    #[inline]
    pub fn add_record_with(
        &mut self,
        len_max: usize,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        let room = BLOCK_SIZE - self.block_offset;
        if self.framer.is_some() || HEADER_SIZE + len_max > room {
            let mut payload = Vec::with_capacity(len_max);
            fill(&mut payload);
            return self.add_whole(&payload);
        }
        self.buffer.clear();
        self.buffer.reserve(HEADER_SIZE + len_max);
        self.buffer.extend_from_slice(&[0, 0, 0, 0, 0, 0, FULL]);
        fill(&mut self.buffer);
        let crc = crc32c(&self.buffer[TYPE_OFFSET..]);
        self.finish_full(crc)
    }

    /// Where the next record of data begins: after what was added, or at the next block if no header
    /// fits.
    pub fn next_offset(&self) -> u64 {
        let (used, header) = self.block_use();
        let room = BLOCK_SIZE - used;
        self.len() + if room < header { room as u64 } else { 0 }
    }

    /// Returns whether a record of `len` bytes, which compression may make somewhat longer, is written in one
    /// piece.
    pub fn fits_whole(&self, len: usize) -> bool {
        /// More than a frame of a short record adds to it.
        const FRAME_MAX: usize = 64;
        let (used, header) = self.block_use();
        let room = BLOCK_SIZE - used;
        room < header || header + len + FRAME_MAX <= room
    }

    /// Bytes of the present block in use, and bytes of a header.
    fn block_use(&self) -> (usize, usize) {
        match &self.framer {
            None => (self.block_offset, HEADER_SIZE),
            Some(framer) => framer.block_use(),
        }
    }

    /// Appends two logical records, a short note and one that is the concatenation of `parts`, in one
    /// piece.
    ///
    /// # Errors
    /// Those of the file; the log is unusable afterwards.
    #[cold]
    #[inline(never)]
    pub fn add_note_and_record(&mut self, note: &[u8], parts: &[&[u8]]) -> Result<()> {
        if let Some(framer) = &mut self.framer {
            return framer.add_both(&mut *self.file, note, parts);
        }
        let mut block_offset = self.block_offset;
        self.buffer.clear();
        push_metadata(&mut self.buffer, &mut block_offset, None, (FULL, note));
        let len = parts.iter().map(|p| p.len()).sum();
        self.add_fragments(parts, len, block_offset)
    }

    #[cold]
    fn add_whole(&mut self, payload: &[u8]) -> Result<()> {
        self.add_record(payload)
    }

    /// Appends one logical record in a form that is not the legacy one.
    #[cold]
    fn add_framed(&mut self, parts: &[&[u8]]) -> Result<()> {
        match &mut self.framer {
            None => Ok(()),
            Some(framer) => framer.add(&mut *self.file, parts),
        }
    }

    /// Records the sizes of the user timestamps of families (id, bytes) that were not recorded in
    /// this log before; sizes of zero are left out. Must come before the records that need them.
    ///
    /// # Errors
    /// Those of the file; the log is unusable afterwards.
    pub fn add_timestamp_sizes(&mut self, sizes: &[(u32, u16)]) -> Result<()> {
        let mut payload = Vec::with_capacity(6 * sizes.len());
        for &(cf, size) in sizes {
            if size != 0 && self.timestamped.insert(cf) {
                payload.extend_from_slice(&cf.to_le_bytes());
                payload.extend_from_slice(&size.to_le_bytes());
            }
        }
        // A record of metadata is never fragmented.
        for part in payload.chunks(TIMESTAMP_SIZES_MAX * 6) {
            self.add_metadata(TIMESTAMP_SIZE, part)?;
        }
        Ok(())
    }

    /// Records number, size in bytes and last sequence number (0: no data) of the log before this.
    ///
    /// # Errors
    /// Those of the file; the log is unusable afterwards.
    pub fn add_predecessor(&mut self, number: u64, size: u64, last_sequence: u64) -> Result<()> {
        let mut payload = [0; 24];
        for (field, value) in payload
            .chunks_exact_mut(8)
            .zip([number, size, last_sequence])
        {
            field.copy_from_slice(&value.to_le_bytes());
        }
        self.add_metadata(PREDECESSOR_WAL_INFO, &payload)
    }

    fn add_metadata(&mut self, record_type: u8, payload: &[u8]) -> Result<()> {
        if let Some(framer) = &mut self.framer {
            return framer.add_metadata(&mut *self.file, record_type, payload);
        }
        self.buffer.clear();
        let mut block_offset = self.block_offset;
        push_metadata(
            &mut self.buffer,
            &mut block_offset,
            None,
            (record_type, payload),
        );
        self.file.append(&self.buffer)?;
        self.block_offset = block_offset;
        Ok(())
    }

    /// Hands buffered records to the operating system.
    ///
    /// # Errors
    /// Those of the file; the log is unusable afterwards.
    pub fn flush(&mut self) -> Result<()> {
        match &mut self.framer {
            None => Ok(()),
            Some(framer) => framer.flush(&mut *self.file),
        }
    }

    /// Completes the header of the one record in the buffer and hands it to the file.
    #[inline]
    fn finish_full(&mut self, crc: u32) -> Result<()> {
        let len = (self.buffer.len() - HEADER_SIZE) as u16;
        self.buffer[..4].copy_from_slice(&mask(crc).to_le_bytes());
        self.buffer[4..TYPE_OFFSET].copy_from_slice(&len.to_le_bytes());
        debug_assert!(
            self.block_offset + self.buffer.len() <= BLOCK_SIZE
                && crc == crc32c(&self.buffer[TYPE_OFFSET..]),
            "WAL2: a record that is added is whole, and reads back"
        );
        self.file.append(&self.buffer)?;
        self.block_offset += self.buffer.len();
        Ok(())
    }

    /// The general case: a trailer, several fragments, or both.
    #[cold]
    fn add_fragmented(&mut self, parts: &[&[u8]], len: usize) -> Result<()> {
        self.buffer.clear();
        self.add_fragments(parts, len, self.block_offset)
    }

    /// Adds fragments to the buffer, which ends at `block_offset`, and hands all of it to the file.
    fn add_fragments(
        &mut self,
        parts: &[&[u8]],
        len: usize,
        mut block_offset: usize,
    ) -> Result<()> {
        let mut parts = parts.iter().copied();
        let mut part: &[u8] = &[];
        let mut left = len;
        let mut first = true;
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
            seal(&mut self.buffer[start..], HEADER_SIZE);
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
        self.flush()?;
        self.sync_written()
    }

    /// Announces that a sync follows before anybody is told that what is added until then is written
    /// ([`WritableFile::expect_sync`]).
    pub fn expect_sync(&mut self) {
        self.file.expect_sync();
    }

    /// Makes those records durable that have reached the operating system.
    ///
    /// # Errors
    /// As [`Self::sync`].
    pub fn sync_written(&mut self) -> Result<()> {
        let len = self.file.len();
        self.file.sync()?;
        debug_assert!(len >= self.synced_len, "WAL1: what is durable only grows");
        self.synced_len = len;
        Ok(())
    }

    /// Begins a sync of all records added so far, which ends beside others ([`WritableFile::begin_sync`]). The log counts as
    /// synced from now on: who asks whether it is, waits for the syncs under way first.
    ///
    /// # Errors
    /// As [`Self::sync`].
    pub fn begin_sync(&mut self) -> Result<Option<Box<dyn SyncUnderWay>>> {
        self.flush()?;
        let begun = self.file.begin_sync()?;
        if begun.is_some() {
            self.synced_len = self.file.len();
        }
        Ok(begun)
    }

    /// Bytes added, those that are still buffered included.
    #[inline]
    pub fn len(&self) -> u64 {
        self.file.len() + self.buffered()
    }

    /// Returns whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that have not reached the operating system.
    #[inline]
    pub fn buffered(&self) -> u64 {
        self.framer.as_ref().map_or(0, |f| f.buffered())
    }

    /// Bytes that the last successful sync covered.
    pub fn synced_len(&self) -> u64 {
        self.synced_len
    }

    /// Returns whether all records are durable.
    pub fn is_synced(&self) -> bool {
        self.synced_len == self.len()
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

    /// Hands out buffered records and closes the file. Does not sync.
    ///
    /// # Errors
    /// Those of the file.
    pub fn close(&mut self) -> Result<()> {
        self.flush()?;
        self.file.close()
    }
}
