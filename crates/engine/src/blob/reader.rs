//! One blob file, open for reading.
//!
//! Header and footer are checked when it is opened. With checksums verified a read fetches the
//! whole record and compares everything in it; without, only the stored value. Texts of errors are
//! RocksDB's. Shared freely by threads.

use super::format::{
    BlobFooter, BlobHeader, BlobRecordHeader, FOOTER_LEN, HEADER_LEN, RECORD_HEADER_LEN, blob_crc,
};
use super::index::BlobPointer;
use spanlith_base::perf::{self, PerfCounter};
use spanlith_base::{Error, Pinned, Result};
use spanlith_env::RandomAccessFile;
use spanlith_table::Compression;
use spanlith_table::format::{CompressionType, decompress};
use std::sync::Arc;

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
    codec: Compression,
    blobs: u64,
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
        let codec = CompressionType::from_byte(header.compression)
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
        })
    }

    /// Number of records, as the footer says.
    pub fn blobs(&self) -> u64 {
        self.blobs
    }

    /// Type byte of the codec of all values.
    pub fn compression(&self) -> u8 {
        self.compression
    }

    /// The value of `user_key` (with its timestamp) at `pointer`, uncompressed.
    ///
    /// # Errors
    /// `Corruption` if the pointer leads elsewhere or the record is damaged.
    pub fn get(&self, user_key: &[u8], pointer: &BlobPointer, verify: bool) -> Result<Pinned> {
        let stored = self
            .stored(user_key, pointer, verify)
            .map_err(|e| e.with_path(self.file.path()).with_offset(pointer.offset))?;
        if self.codec == Compression::None {
            return Ok(Pinned::from_vec(stored));
        }
        let mut value = Vec::new();
        decompress(self.codec, &stored, &mut value).map_err(|e| {
            Error::corruption(format!("Unable to uncompress blob: {}", e.message()))
                .with_path(self.file.path())
                .with_offset(pointer.offset)
        })?;
        Ok(Pinned::from_vec(value))
    }

    fn stored(&self, user_key: &[u8], pointer: &BlobPointer, verify: bool) -> Result<Vec<u8>> {
        let head = RECORD_HEADER_LEN + user_key.len();
        // Where the value of the file's first record would be with this key.
        let first = (HEADER_LEN + head) as u64;
        let end = pointer.offset.checked_add(pointer.size);
        let limit = self.file.size() - FOOTER_LEN as u64;
        let Some(size) = usize::try_from(pointer.size)
            .ok()
            .filter(|_| pointer.offset >= first && end.is_some_and(|end| end <= limit))
        else {
            return Err(Error::corruption("Invalid blob offset"));
        };
        if pointer.compression != self.compression {
            return Err(
                Error::corruption("Compression type mismatch when reading blob")
                    .with("index", pointer.compression)
                    .with("file", self.compression),
            );
        }
        let before = if verify { head } else { 0 };
        perf::add(PerfCounter::BlobReadCount, 1);
        perf::add(PerfCounter::BlobReadByte, (before + size) as u64);
        if !verify {
            return read(&self.file, pointer.offset, size);
        }
        let mut record = read(&self.file, pointer.offset - head as u64, head + size)?;
        check_record(&record, user_key, pointer)?;
        record.drain(..head);
        Ok(record)
    }
}

/// Compares a whole record with what the index says.
fn check_record(record: &[u8], user_key: &[u8], pointer: &BlobPointer) -> Result<()> {
    let (header, rest) = record.split_at(RECORD_HEADER_LEN);
    let (key, value) = rest.split_at(user_key.len());
    let header = BlobRecordHeader::decode(header)?;
    let problem = if header.key_len != user_key.len() as u64 {
        "Key size mismatch when reading blob"
    } else if header.value_len != pointer.size {
        "Value size mismatch when reading blob"
    } else if key != user_key {
        "Key mismatch when reading blob"
    } else if blob_crc(key, value) != header.blob_crc {
        "Blob CRC mismatch"
    } else {
        return Ok(());
    };
    Err(Error::corruption(problem))
}

/// Exactly `len` bytes at `offset`. Requires: within the file's size, which bounds what is allocated.
fn read(file: &Arc<dyn RandomAccessFile>, offset: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let got = file.read_at(offset, &mut bytes)?;
    if got != len {
        return Err(Error::corruption("Failed to read data from blob file")
            .with("expected", len)
            .with("found", got));
    }
    Ok(bytes)
}
