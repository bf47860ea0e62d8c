//! One blob file, open for reading.
//!
//! Header and footer are checked when it is opened. With checksums verified a read fetches the
//! whole record and compares everything in it; without, only the stored value. Texts of errors are
//! RocksDB's. Shared freely by threads.

use super::format::{
    BlobFooter, BlobHeader, BlobRecordHeader, FOOTER_LEN, HEADER_LEN, RECORD_HEADER_LEN, blob_crc,
};
use super::index::BlobPointer;
use spanlith_base::CompressionType;
use spanlith_base::perf::{self, PerfCounter};
use spanlith_base::stats::{Statistics, Ticker};
use spanlith_base::{Error, Pinned, Result};
use spanlith_env::RandomAccessFile;
use spanlith_table::format::decompress;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of memory that are read into again, however little is read.
const KEPT_MAX: usize = 1 << 20;

/// Which family a blob file must belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedFamily {
    /// Any, for tools.
    Any,
    /// The one of this id.
    Id(u32),
}

/// An open blob file.
pub struct BlobFileReader {
    file: Arc<dyn RandomAccessFile>,
    compression: u8,
    codec: CompressionType,
    blobs: u64,
    statistics: Option<Arc<Statistics>>,
}

impl BlobFileReader {
    /// Opens a closed blob file.
    ///
    /// # Errors
    /// Of the file; `Corruption` if header or footer are wrong, `NotSupported` for a codec this
    /// build lacks.
    pub fn open(file: Arc<dyn RandomAccessFile>, family: ExpectedFamily) -> Result<Self> {
        let opened = Self::open_unnamed(&file, family);
        opened.map_err(|e| e.with_path(file.path()))
    }

    fn open_unnamed(file: &Arc<dyn RandomAccessFile>, family: ExpectedFamily) -> Result<Self> {
        let size = file.size();
        if size < (HEADER_LEN + FOOTER_LEN) as u64 {
            return Err(Error::corruption("Malformed blob file").with("size", size));
        }
        let header = BlobHeader::decode(&read(file, 0, HEADER_LEN)?)?;
        if header.has_ttl || header.expiration != (0, 0) {
            return Err(Error::corruption("Unexpected TTL blob file"));
        }
        if let ExpectedFamily::Id(id) = family
            && id != header.column_family
        {
            return Err(Error::corruption("Column family ID mismatch")
                .with("expected", id)
                .with("found", header.column_family));
        }
        let footer = BlobFooter::decode(&read(file, size - FOOTER_LEN as u64, FOOTER_LEN)?)?;
        if footer.expiration != (0, 0) {
            return Err(Error::corruption("Unexpected TTL blob file"));
        }
        let codec = CompressionType::from_stored_byte(header.compression)
            .ok_or_else(|| {
                Error::corruption("Unknown compression type of blob file")
                    .with("type", header.compression)
            })?
            .codec()?;
        Ok(Self {
            file: Arc::clone(file),
            compression: header.compression,
            codec,
            blobs: footer.blobs,
            statistics: None,
        })
    }

    /// Counts the bytes that are read, those of header and footer included.
    #[must_use]
    pub(crate) fn counting(mut self, statistics: Option<Arc<Statistics>>) -> Self {
        self.statistics = statistics;
        self.count(HEADER_LEN + FOOTER_LEN);
        self
    }

    fn count(&self, bytes: usize) {
        if let Some(s) = &self.statistics {
            s.add(Ticker::BlobdbBlobFileBytesRead, bytes as u64);
        }
    }

    /// Number of records, as the footer says.
    pub fn blobs(&self) -> u64 {
        self.blobs
    }

    /// Type byte of the codec of all values.
    pub fn compression(&self) -> u8 {
        self.compression
    }

    /// The value of `user_key` (with its timestamp) at `pointer`, uncompressed. Costs one read.
    ///
    /// # Errors
    /// `Corruption` if the pointer leads elsewhere or the record is damaged.
    pub fn get(&self, user_key: &[u8], pointer: &BlobPointer, verify: bool) -> Result<Pinned> {
        let extent = self.extent(user_key, pointer, verify)?;
        let mut bytes = Vec::new();
        self.read_value(user_key, pointer, extent, &mut bytes)?;
        Ok(Pinned::from_vec(bytes))
    }

    /// Reads an extent into `out` and leaves the value there, in place of what it held. Costs one read, and memory only if
    /// `out` has too little.
    ///
    /// # Errors
    /// As [`Self::get`]; `out` then holds anything.
    pub(super) fn read_value(
        &self,
        user_key: &[u8],
        pointer: &BlobPointer,
        extent: Extent,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let read = fill(&self.file, extent.offset, extent.len, out);
        read.map_err(|e| self.located(e, pointer))?;
        self.keep_value(user_key, pointer, extent, out)
    }

    /// The bytes that a read of `pointer` needs: the whole record if it is to be verified.
    ///
    /// # Errors
    /// `Corruption` if they do not lie within the file.
    pub(super) fn extent(
        &self,
        user_key: &[u8],
        pointer: &BlobPointer,
        verify: bool,
    ) -> Result<Extent> {
        let size = self.check(user_key, pointer)?;
        let head = RECORD_HEADER_LEN + user_key.len();
        let head = if verify { head } else { 0 };
        self.count_read(head + size);
        Ok(Extent {
            offset: pointer.offset - head as u64,
            len: head + size,
            head,
        })
    }

    /// Bytes of a range within the value at `pointer`, as they are stored: nothing of them is verified. Costs one read.
    ///
    /// # Errors
    /// `Corruption` if the pointer leads elsewhere; of the file.
    pub(super) fn bare(
        &self,
        user_key: &[u8],
        pointer: &BlobPointer,
        part: Range<u64>,
    ) -> Result<Pinned> {
        self.check(user_key, pointer)?;
        debug_assert!(part.end <= pointer.size, "cut to the value");
        let len = usize::try_from(part.end - part.start).unwrap_or(usize::MAX);
        if len == 0 {
            return Ok(Pinned::default());
        }
        self.count_read(len);
        let bytes = read(&self.file, pointer.offset + part.start, len);
        let bytes = bytes.map_err(|e| self.located(e, pointer))?;
        Ok(Pinned::from_vec(bytes))
    }

    fn count_read(&self, bytes: usize) {
        perf::add(PerfCounter::BlobReadCount, 1);
        perf::add(PerfCounter::BlobReadByte, bytes as u64);
        self.count(bytes);
    }

    /// Bytes of the value that `pointer` leads to.
    ///
    /// # Errors
    /// `Corruption` if it does not lie within the file, or is compressed otherwise.
    fn check(&self, user_key: &[u8], pointer: &BlobPointer) -> Result<usize> {
        let head = RECORD_HEADER_LEN + user_key.len();
        // Where the value of the file's first record would be with this key.
        let first = (HEADER_LEN + head) as u64;
        let end = pointer.offset.checked_add(pointer.size);
        let limit = self.file.size() - FOOTER_LEN as u64;
        let Some(size) = usize::try_from(pointer.size)
            .ok()
            .filter(|_| pointer.offset >= first && end.is_some_and(|end| end <= limit))
        else {
            let e = Error::corruption("Invalid blob offset");
            return Err(self.located(e, pointer));
        };
        if pointer.compression != self.compression {
            let e = Error::corruption("Compression type mismatch when reading blob")
                .with("index", pointer.compression)
                .with("file", self.compression);
            return Err(self.located(e, pointer));
        }
        Ok(size)
    }

    /// Makes of the bytes of an extent the value in them, verified if they hold the whole record.
    ///
    /// # Errors
    /// `Corruption` if the record is damaged.
    pub(super) fn keep_value(
        &self,
        user_key: &[u8],
        pointer: &BlobPointer,
        extent: Extent,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        if self.codec == CompressionType::None {
            self.verify(user_key, pointer, extent, bytes)?;
            bytes.drain(..extent.head);
            return Ok(());
        }
        let mut value = Vec::new();
        self.copy_value(user_key, pointer, extent, bytes, &mut value)?;
        *bytes = value;
        Ok(())
    }

    /// As [`Self::keep_value`], with the value copied to `out`, in place of what it held.
    ///
    /// # Errors
    /// As there.
    pub(super) fn copy_value(
        &self,
        user_key: &[u8],
        pointer: &BlobPointer,
        extent: Extent,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.verify(user_key, pointer, extent, bytes)?;
        let stored = bytes.get(extent.head..).unwrap_or_default();
        give_back(out, stored.len());
        out.clear();
        if self.codec == CompressionType::None {
            out.extend_from_slice(stored);
            return Ok(());
        }
        decompress(self.codec, stored, out).map_err(|e| {
            let text = format!("Unable to uncompress blob: {}", e.message());
            self.located(Error::corruption(text), pointer)
        })
    }

    fn verify(
        &self,
        user_key: &[u8],
        pointer: &BlobPointer,
        extent: Extent,
        bytes: &[u8],
    ) -> Result<()> {
        debug_assert_eq!(bytes.len(), extent.len, "all bytes were read");
        match extent.head {
            0 => Ok(()),
            _ => check_record(bytes, user_key, pointer).map_err(|e| self.located(e, pointer)),
        }
    }

    /// The file.
    pub(super) fn file(&self) -> &Arc<dyn RandomAccessFile> {
        &self.file
    }

    /// An error with the file and the offset it is about.
    pub(super) fn located(&self, e: Error, pointer: &BlobPointer) -> Error {
        e.with_path(self.file.path()).with_offset(pointer.offset)
    }
}

/// Bytes of a file that hold a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub offset: u64,
    pub len: usize,
    /// Bytes before the value; 0 if only the value is read.
    pub head: usize,
}

impl Extent {
    /// Where the bytes end.
    pub fn end(&self) -> u64 {
        self.offset + self.len as u64
    }
}

/// Compares a whole record with what the index says.
pub(super) fn check_record(record: &[u8], user_key: &[u8], pointer: &BlobPointer) -> Result<()> {
    let (header, value) = check_record_head(record, user_key, pointer)?;
    match blob_crc(user_key, value) == header.blob_crc {
        true => Ok(()),
        false => Err(Error::corruption("Blob CRC mismatch")),
    }
}

/// As [`check_record`], without the checksum of the value; the header and the value.
pub(super) fn check_record_head<'r>(
    record: &'r [u8],
    user_key: &[u8],
    pointer: &BlobPointer,
) -> Result<(BlobRecordHeader, &'r [u8])> {
    let (header, rest) = record.split_at(RECORD_HEADER_LEN);
    let (key, value) = rest.split_at(user_key.len());
    let header = BlobRecordHeader::decode(header)?;
    let problem = if header.key_len != user_key.len() as u64 {
        "Key size mismatch when reading blob"
    } else if header.value_len != pointer.size {
        "Value size mismatch when reading blob"
    } else if key != user_key {
        "Key mismatch when reading blob"
    } else {
        return Ok((header, value));
    };
    Err(Error::corruption(problem))
}

/// Exactly `len` bytes at `offset`. Requires: within the file's size, which bounds what is allocated.
pub(super) fn read(file: &Arc<dyn RandomAccessFile>, offset: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fill(file, offset, len, &mut bytes)?;
    Ok(bytes)
}

/// Frees the memory of `out`, and what it held, if that is far too much for `len` bytes.
pub(super) fn give_back(out: &mut Vec<u8>, len: usize) {
    if out.capacity() > KEPT_MAX.max(len.saturating_mul(2)) {
        *out = Vec::new();
    }
}

/// As [`read`], in place of what `out` held and in its memory, unless that is too little or far too much.
pub(super) fn fill(
    file: &Arc<dyn RandomAccessFile>,
    offset: u64,
    len: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    give_back(out, len);
    match out.capacity() < len {
        // Zeroed by the allocator, which for large ones costs nothing.
        true => *out = vec![0; len],
        // The bytes that the last read left are overwritten.
        false => out.resize(len, 0),
    }
    let got = file.read_at(offset, out)?;
    if got != len {
        return Err(Error::corruption("Failed to read data from blob file")
            .with("expected", len)
            .with("found", got));
    }
    Ok(())
}
