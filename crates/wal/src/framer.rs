//! Frames records of the forms that are not the legacy one: with log numbers, compressed, buffered.
//!
//! ```text
//! payload ──[ZSTD frame in pieces]──► header | fragment [| header | fragment ...] ──► buffer ──► append
//! ```
//!
//! The fragments of a compressed record are those of its pieces: a piece may be split at the end of
//! a block, but two pieces never share a fragment. The buffer goes out after each record, or when it
//! is as large as asked for.
//!
//! Invariants and threads: as [`crate::writer`], which owns the framer.

use crate::compression::{Compressor, ZSTD_TYPE};
use crate::record::{
    BLOCK_SIZE, FIRST, FULL, HEADER_SIZE, LAST, MIDDLE, RECYCLABLE_HEADER_SIZE,
    SET_COMPRESSION_TYPE, TYPE_OFFSET, recyclable_type,
};
use crate::writer::{APPEND_LIMIT, LogOptions};
use spanlith_base::checksum::{crc32c, mask};
use spanlith_base::{CompressionType, Result};
use spanlith_env::WritableFile;

/// State of a log that is not of the plain form.
pub(crate) struct Framer {
    block_offset: usize,
    /// Low 32 bits of the log number, if records carry it.
    number: Option<u32>,
    compressor: Option<Compressor>,
    /// Bytes that may wait in `out`; 0 for none.
    buffer_size: usize,
    /// Framed bytes that the file does not have yet.
    out: Vec<u8>,
    /// A record in several parts, put together.
    whole: Vec<u8>,
}

impl Framer {
    pub(crate) fn new(block_offset: usize, log_number: u64, options: LogOptions) -> Result<Self> {
        Ok(Self {
            block_offset,
            number: options.recyclable.then_some(log_number as u32),
            compressor: match options.compression {
                CompressionType::None => None,
                CompressionType::Zstd => Some(Compressor::new()?),
                other => return Err(other.unwritable()),
            },
            buffer_size: options.buffer_size,
            out: Vec::new(),
            whole: Vec::new(),
        })
    }

    /// Writes what stands at the front of a log.
    pub(crate) fn begin(&mut self, file: &mut dyn WritableFile) -> Result<()> {
        if self.compressor.is_none() {
            return Ok(());
        }
        let payload = ZSTD_TYPE.to_le_bytes();
        let record = (SET_COMPRESSION_TYPE, &payload[..]);
        // Its header is the short one in every log.
        push_metadata(&mut self.out, &mut self.block_offset, None, record);
        self.hand_over(file)
    }

    /// Bytes of the present block in use, and bytes of a header.
    pub(crate) fn block_use(&self) -> (usize, usize) {
        (self.block_offset, header_size(self.number))
    }

    /// Frames a short note and the record that `parts` make up, and hands them over together.
    pub(crate) fn add_both(
        &mut self,
        file: &mut dyn WritableFile,
        note: &[u8],
        parts: &[&[u8]],
    ) -> Result<()> {
        self.frame(file, &[note])?;
        self.add(file, parts)
    }

    /// Frames the record that `parts` make up.
    pub(crate) fn add(&mut self, file: &mut dyn WritableFile, parts: &[&[u8]]) -> Result<()> {
        self.frame(file, parts)?;
        self.hand_over(file)
    }

    fn frame(&mut self, file: &mut dyn WritableFile, parts: &[&[u8]]) -> Result<()> {
        let whole: &[u8] = match parts {
            [one] => one,
            parts => {
                self.whole.clear();
                for part in parts {
                    self.whole.extend_from_slice(part);
                }
                &self.whole
            }
        };
        let header = header_size(self.number);
        let (out, block_offset, number) = (&mut self.out, &mut self.block_offset, self.number);
        let mut first = true;
        match &mut self.compressor {
            None => push_fragments(out, block_offset, number, (whole, true, &mut first), file)?,
            Some(compressor) => {
                compressor.record(whole, BLOCK_SIZE - header, |piece, last| {
                    push_fragments(out, block_offset, number, (piece, last, &mut first), file)
                })?;
            }
        }
        Ok(())
    }

    /// Frames a record of metadata.
    pub(crate) fn add_metadata(
        &mut self,
        file: &mut dyn WritableFile,
        record_type: u8,
        payload: &[u8],
    ) -> Result<()> {
        let record = (record_type, payload);
        push_metadata(&mut self.out, &mut self.block_offset, self.number, record);
        self.hand_over(file)
    }

    fn hand_over(&mut self, file: &mut dyn WritableFile) -> Result<()> {
        if self.out.len() >= self.buffer_size {
            return self.flush(file);
        }
        Ok(())
    }

    /// Hands everything to the file.
    pub(crate) fn flush(&mut self, file: &mut dyn WritableFile) -> Result<()> {
        if !self.out.is_empty() {
            file.append(&self.out)?;
            self.out.clear();
        }
        Ok(())
    }

    /// Bytes that the file does not have yet.
    #[inline]
    pub(crate) fn buffered(&self) -> u64 {
        self.out.len() as u64
    }
}

fn header_size(number: Option<u32>) -> usize {
    match number {
        None => HEADER_SIZE,
        Some(_) => RECYCLABLE_HEADER_SIZE,
    }
}

/// Starts a record in `out`: header without length and checksum.
fn push_header(out: &mut Vec<u8>, number: Option<u32>, record_type: u8) {
    match number {
        None => out.extend_from_slice(&[0, 0, 0, 0, 0, 0, record_type]),
        Some(number) => {
            out.extend_from_slice(&[0, 0, 0, 0, 0, 0, recyclable_type(record_type)]);
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
}

/// Fills the rest of the block with zeros if it has no room for `wanted` bytes.
fn pad(out: &mut Vec<u8>, block_offset: &mut usize, wanted: usize) {
    let room = BLOCK_SIZE - *block_offset;
    if room < wanted {
        out.resize(out.len() + room, 0);
        *block_offset = 0;
    }
}

/// Appends one record of metadata, which is never split: (type, payload).
pub(crate) fn push_metadata(
    out: &mut Vec<u8>,
    block_offset: &mut usize,
    number: Option<u32>,
    (record_type, payload): (u8, &[u8]),
) {
    let header = header_size(number);
    debug_assert!(header + payload.len() <= BLOCK_SIZE);
    pad(out, block_offset, header + payload.len());
    let start = out.len();
    push_header(out, number, record_type);
    out.extend_from_slice(payload);
    seal(&mut out[start..], header);
    *block_offset += header + payload.len();
}

/// Appends a piece of a record as fragments: (bytes, whether they end the record, whether they begin
/// it). A large record goes out in several appends.
fn push_fragments(
    out: &mut Vec<u8>,
    block_offset: &mut usize,
    number: Option<u32>,
    (mut piece, ends, first): (&[u8], bool, &mut bool),
    file: &mut dyn WritableFile,
) -> Result<()> {
    let header = header_size(number);
    loop {
        pad(out, block_offset, header);
        let (fragment, rest) = piece.split_at(piece.len().min(BLOCK_SIZE - *block_offset - header));
        piece = rest;
        let record_type = match (*first, ends && piece.is_empty()) {
            (true, true) => FULL,
            (true, false) => FIRST,
            (false, false) => MIDDLE,
            (false, true) => LAST,
        };
        *first = false;
        let start = out.len();
        push_header(out, number, record_type);
        out.extend_from_slice(fragment);
        seal(&mut out[start..], header);
        *block_offset += header + fragment.len();
        if out.len() >= APPEND_LIMIT {
            file.append(out)?;
            out.clear();
        }
        if piece.is_empty() {
            return Ok(());
        }
    }
}

/// Fills in length and checksum of the one record that `record` is; the rest of its header is set.
///
/// Requires: at least a header, at most a block.
#[inline]
pub(crate) fn seal(record: &mut [u8], header: usize) {
    debug_assert!((header..=BLOCK_SIZE).contains(&record.len()));
    let len = (record.len() - header) as u16;
    let crc = mask(crc32c(&record[TYPE_OFFSET..]));
    record[..4].copy_from_slice(&crc.to_le_bytes());
    record[4..TYPE_OFFSET].copy_from_slice(&len.to_le_bytes());
}
