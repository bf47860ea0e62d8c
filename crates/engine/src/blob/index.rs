//! Blob indexes: what a table holds in place of a large value.
//!
//! ```text
//!   00  varint64 expiration, value                          inlined, legacy
//!   01  varint64 file, varint64 offset, varint64 size, u8 compression
//!   02  varint64 expiration, then as 01                     legacy
//! ```
//!
//! Offset and size are those of the stored value, not of its record. File 0 means the table itself.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use spanlith_base::coding::{get_varint64, put_varint64};
use spanlith_base::{Error, FileNumber, Result};

const INLINED_TTL: u8 = 0;
const BLOB: u8 = 1;
const BLOB_TTL: u8 = 2;

/// Where a blob is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobPointer {
    /// Number of the blob file; 0 for the table that holds the index.
    pub file: FileNumber,
    /// Position of the stored value in the file, in bytes.
    pub offset: u64,
    /// Bytes stored, compressed.
    pub size: u64,
    /// Type byte of the codec; that of the whole file.
    pub compression: u8,
}

/// A decoded blob index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobIndex<'a> {
    /// A blob in a file.
    Blob(BlobPointer),
    /// Legacy: a blob in a file, with the second at which it expires.
    BlobTtl(BlobPointer, u64),
    /// Legacy: the value itself, with the second at which it expires.
    InlinedTtl(&'a [u8], u64),
}

impl<'a> BlobIndex<'a> {
    /// Decodes a value of type blob index, or a blob column.
    ///
    /// # Errors
    /// `Corruption` for an unknown kind, or bytes missing or left over.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let (&kind, rest) = bytes.split_first().ok_or_else(|| bad("empty"))?;
        let expiration = |rest| get_varint64(rest).ok_or_else(|| bad("Corrupted expiration"));
        match kind {
            BLOB => Ok(Self::Blob(pointer(rest)?)),
            INLINED_TTL => {
                let (expiration, value) = expiration(rest)?;
                Ok(Self::InlinedTtl(value, expiration))
            }
            BLOB_TTL => {
                let (expiration, rest) = expiration(rest)?;
                Ok(Self::BlobTtl(pointer(rest)?, expiration))
            }
            _ => Err(bad(&format!("Unknown blob index type: {kind}"))),
        }
    }

    /// The pointer of a kind that today's databases use.
    ///
    /// # Errors
    /// `Corruption` for the legacy kinds.
    pub fn pointer(&self) -> Result<BlobPointer> {
        match self {
            Self::Blob(pointer) => Ok(*pointer),
            _ => Err(Error::corruption("Unexpected TTL/inlined blob index")),
        }
    }
}

impl BlobPointer {
    /// Appends the blob index of the pointer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(BLOB);
        for number in [self.file, self.offset, self.size] {
            put_varint64(out, number);
        }
        out.push(self.compression);
    }
}

fn pointer(bytes: &[u8]) -> Result<BlobPointer> {
    let parse = || {
        let (file, rest) = get_varint64(bytes)?;
        let (offset, rest) = get_varint64(rest)?;
        let (size, rest) = get_varint64(rest)?;
        match rest {
            [compression] => Some(BlobPointer {
                file,
                offset,
                size,
                compression: *compression,
            }),
            _ => None,
        }
    };
    parse().ok_or_else(|| bad("Corrupted blob offset"))
}

#[cold]
fn bad(what: &str) -> Error {
    Error::corruption(format!("Error while decoding blob index: {what}"))
}
