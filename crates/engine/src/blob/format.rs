//! Describes what blob files consist of.
//!
//! ```text
//!   header   30  magic u32, version u32, column family u32, flags u8, compression u8,
//!                expiration from u64, to u64
//!   record   32  key length u64, value length u64, expiration u64, CRC of these u32,
//!                CRC of key and value u32
//!            …   key, value
//!   footer   32  magic u32, records u64, expiration from u64, to u64, CRC of these u32
//! ```
//!
//! Integers are little-endian, CRCs masked CRC-32C. The footer stands only in files that were closed.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use spanlith_base::checksum::{crc32c, crc32c_append, mask};
use spanlith_base::coding::{Decoder, put_fixed32, put_fixed64};
use spanlith_base::{Error, Result};

/// Bytes of a header.
pub const HEADER_LEN: usize = 30;
/// Bytes of a record before its key.
pub const RECORD_HEADER_LEN: usize = 32;
/// Bytes of a footer.
pub const FOOTER_LEN: usize = 32;

const MAGIC: u32 = 0x0024_8f37;
const VERSION: u32 = 1;
const HAS_TTL: u8 = 1;

/// Start of a blob file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobHeader {
    /// The family whose values these are.
    pub column_family: u32,
    /// Legacy: values expire.
    pub has_ttl: bool,
    /// Type byte of the codec of all values.
    pub compression: u8,
    /// Legacy: planned range of expirations, in seconds.
    pub expiration: (u64, u64),
}

impl BlobHeader {
    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_fixed32(out, MAGIC);
        put_fixed32(out, VERSION);
        put_fixed32(out, self.column_family);
        out.push(u8::from(self.has_ttl));
        out.push(self.compression);
        put_fixed64(out, self.expiration.0);
        put_fixed64(out, self.expiration.1);
    }

    /// Decodes the first bytes of a file.
    ///
    /// # Errors
    /// `Corruption` if they are not those of a blob file.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let bad = |what| Error::corruption(format!("Error while decoding blob log header: {what}"));
        if bytes.len() != HEADER_LEN {
            return Err(bad("Unexpected blob file header size"));
        }
        let mut d = Decoder::new(bytes, "blob log header");
        if d.fixed32("magic")? != MAGIC {
            return Err(bad("Magic number mismatch"));
        }
        if d.fixed32("version")? != VERSION {
            return Err(bad("Unknown header version"));
        }
        Ok(Self {
            column_family: d.fixed32("column family")?,
            // Other bits have no meaning and no effect.
            has_ttl: d.u8("flags")? & HAS_TTL != 0,
            compression: d.u8("compression")?,
            expiration: (d.fixed64("expiration")?, d.fixed64("expiration")?),
        })
    }
}

/// Describes what stands before a record's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobRecordHeader {
    /// Bytes of the user key, with its timestamp.
    pub key_len: u64,
    /// Bytes of the value as stored.
    pub value_len: u64,
    /// Legacy: the second at which the value expires.
    pub expiration: u64,
    /// Masked CRC of key and value.
    pub blob_crc: u32,
}

impl BlobRecordHeader {
    /// The header of a record.
    pub fn new(key: &[u8], value: &[u8]) -> Self {
        Self {
            key_len: key.len() as u64,
            value_len: value.len() as u64,
            expiration: 0,
            blob_crc: blob_crc(key, value),
        }
    }

    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let at = out.len();
        for number in [self.key_len, self.value_len, self.expiration] {
            put_fixed64(out, number);
        }
        let crc = mask(crc32c(out.get(at..).unwrap_or_default()));
        put_fixed32(out, crc);
        put_fixed32(out, self.blob_crc);
    }

    /// Decodes and checks a header; the blob's own CRC is another matter.
    ///
    /// # Errors
    /// `Corruption` if its CRC is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let bad = |what| Error::corruption(format!("Error while decoding blob record: {what}"));
        if bytes.len() != RECORD_HEADER_LEN {
            return Err(bad("Unexpected blob record header size"));
        }
        let mut d = Decoder::new(bytes, "blob record");
        let (key_len, value_len) = (d.fixed64("key length")?, d.fixed64("value length")?);
        let expiration = d.fixed64("expiration")?;
        let (header_crc, blob_crc) = (d.fixed32("CRC")?, d.fixed32("CRC")?);
        if mask(crc32c(bytes.get(..24).unwrap_or_default())) != header_crc {
            return Err(bad("Header CRC mismatch"));
        }
        Ok(Self {
            key_len,
            value_len,
            expiration,
            blob_crc,
        })
    }
}

/// Masked CRC of key and value, as a record has it.
pub fn blob_crc(key: &[u8], value: &[u8]) -> u32 {
    mask(crc32c_append(crc32c(key), value))
}

/// End of a closed blob file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobFooter {
    /// Number of records.
    pub blobs: u64,
    /// Legacy: actual range of expirations, in seconds.
    pub expiration: (u64, u64),
}

impl BlobFooter {
    /// Appends the footer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let at = out.len();
        put_fixed32(out, MAGIC);
        for number in [self.blobs, self.expiration.0, self.expiration.1] {
            put_fixed64(out, number);
        }
        let crc = mask(crc32c(out.get(at..).unwrap_or_default()));
        put_fixed32(out, crc);
    }

    /// Decodes and checks the last bytes of a file.
    ///
    /// # Errors
    /// `Corruption` if they are no footer, as in a file that was not closed or was cut.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let bad = |what| Error::corruption(format!("Error while decoding blob log footer: {what}"));
        if bytes.len() != FOOTER_LEN {
            return Err(bad("Unexpected blob file footer size"));
        }
        let mut d = Decoder::new(bytes, "blob log footer");
        if d.fixed32("magic")? != MAGIC {
            return Err(bad("Magic number mismatch"));
        }
        let blobs = d.fixed64("records")?;
        let expiration = (d.fixed64("expiration")?, d.fixed64("expiration")?);
        if mask(crc32c(bytes.get(..28).unwrap_or_default())) != d.fixed32("CRC")? {
            return Err(bad("CRC mismatch"));
        }
        Ok(Self { blobs, expiration })
    }
}
