//! One blob file while it is written.
//!
//! Records are appended in the order of calls: a buffer collects small ones, so that the file is
//! written in steps of about half a megabyte; a value that is large itself is not copied. Nothing
//! refers to the file before [`BlobFileWriter::finish`] has written the footer and synced it. The owner
//! syncs the directory, and deletes the file if its job fails.

use super::format::{
    BlobFooter, BlobHeader, BlobRecordHeader, FOOTER_LEN, HEADER_LEN, RECORD_HEADER_LEN,
};
use super::index::BlobPointer;
use super::pieces::{PieceFeed, Pieces};
use crate::version::FileSum;
use crate::version::edit::BlobFileAddition;
use spanlith_base::{Error, FileNumber, Result};
use spanlith_env::WritableFile;
use std::sync::Arc;

/// Bytes that are collected before they are written.
const BUFFER_SIZE: usize = 512 << 10;
/// A value of at least this size is written without being copied.
const LARGE_VALUE: usize = 64 << 10;

/// Appends records to a new blob file.
pub(crate) struct BlobFileWriter {
    file: Box<dyn WritableFile>,
    number: FileNumber,
    compression: u8,
    /// The checksum of the whole file, if files get one.
    sum: Option<FileSum>,
    pieces: Option<PieceFeed>,
    buffer: Vec<u8>,
    /// Records that were begun since the buffer was written.
    buffered: u64,
    records: u64,
    /// Bytes of all records.
    bytes: u64,
}

impl BlobFileWriter {
    /// Begins the file with its header. `compression` is the type byte of the codec that all values
    /// were compressed with.
    pub(crate) fn new(
        (number, file, sum): (FileNumber, Box<dyn WritableFile>, Option<FileSum>),
        column_family: u32,
        compression: u8,
    ) -> Self {
        let mut buffer = Vec::with_capacity(BUFFER_SIZE);
        let header = BlobHeader {
            column_family,
            compression,
            ..BlobHeader::default()
        };
        header.encode(&mut buffer);
        debug_assert_eq!(buffer.len(), HEADER_LEN);
        Self {
            file,
            number,
            compression,
            sum,
            pieces: None,
            buffer,
            buffered: 0,
            records: 0,
            bytes: 0,
        }
    }

    /// Keeps small values in memory, too.
    #[must_use]
    pub(crate) fn keeping(mut self, pieces: Option<&Arc<Pieces>>) -> Self {
        self.pieces = pieces.map(|pieces| PieceFeed::new(pieces.clone(), self.number));
        self
    }

    /// Bytes of the file so far, without the footer.
    pub(crate) fn size(&self) -> u64 {
        HEADER_LEN as u64 + self.bytes
    }

    /// Appends a record of `user_key`, with its timestamp, and the value as it is stored; returns
    /// where the value is.
    ///
    /// # Errors
    /// Of the file. It is of no use then.
    pub(crate) fn add(&mut self, user_key: &[u8], stored: &[u8]) -> Result<BlobPointer> {
        let head = RECORD_HEADER_LEN + user_key.len();
        let pointer = BlobPointer {
            file: self.number,
            offset: self.size() + head as u64,
            size: stored.len() as u64,
            compression: self.compression,
        };
        BlobRecordHeader::new(user_key, stored).encode(&mut self.buffer);
        self.buffer.extend_from_slice(user_key);
        self.buffered += 1;
        if stored.len() >= LARGE_VALUE {
            self.write_out()?;
            self.file.append(stored)?;
        } else {
            self.buffer.extend_from_slice(stored);
            if self.buffer.len() >= BUFFER_SIZE {
                self.write_out()?;
            }
        }
        self.records += 1;
        self.bytes += (head + stored.len()) as u64;
        debug_assert_eq!(self.file.len() + self.buffer.len() as u64, self.size());
        Ok(pointer)
    }

    /// Writes the footer, syncs and closes the file; returns what a version edit says of it.
    ///
    /// # Errors
    /// Of the file.
    pub(crate) fn finish(mut self) -> Result<BlobFileAddition> {
        let footer = BlobFooter {
            blobs: self.records,
            ..BlobFooter::default()
        };
        footer.encode(&mut self.buffer);
        self.write_out()?;
        if let Some(pieces) = self.pieces.take() {
            pieces.finish();
        }
        self.file.sync()?;
        let expected = self.size() + FOOTER_LEN as u64;
        if self.file.len() != expected {
            return Err(
                Error::corruption("a blob file has another size than its records")
                    .with_path(self.file.path())
                    .with("expected", expected)
                    .with("found", self.file.len()),
            );
        }
        self.file.close()?;
        let mut addition = BlobFileAddition {
            number: self.number,
            total_count: self.records,
            total_bytes: self.bytes,
            ..BlobFileAddition::default()
        };
        if let Some(sum) = self.sum {
            sum.describe_blob_file(&mut addition);
        }
        Ok(addition)
    }

    fn write_out(&mut self) -> Result<()> {
        let offset = self.file.len();
        self.file.append(&self.buffer)?;
        if let Some(pieces) = &mut self.pieces {
            pieces.written(offset, &self.buffer, self.buffered);
        }
        self.buffered = 0;
        self.buffer.clear();
        Ok(())
    }
}
