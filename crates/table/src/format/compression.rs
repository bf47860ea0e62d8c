//! Codecs of blocks.
//!
//! The type byte in a block's trailer decides for that block; a block that did not shrink enough is
//! stored raw. An LZ4 block is `varint32 uncompressed size` and one raw LZ4 block.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use spanlith_base::coding::{MAX_VARINT32, get_varint32, put_varint32};
use spanlith_base::{Error, Result};

/// Codec of a table being written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Blocks as they are.
    #[default]
    None,
    /// LZ4.
    Lz4,
}

impl Compression {
    /// The codec of a type byte; `None` if this build does not write it.
    pub fn from_byte(b: u8) -> Option<Self> {
        match b {
            0 => Some(Self::None),
            4 => Some(Self::Lz4),
            _ => None,
        }
    }

    /// The type byte in trailers.
    pub fn as_byte(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Lz4 => 4,
        }
    }

    /// Name in the `rocksdb.compression` property before format version 7.
    pub fn name(self) -> &'static str {
        CompressionType(self.as_byte()).name()
    }
}

/// A type byte that RocksDB defines, readable by this build or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionType(u8);

impl CompressionType {
    /// Not compressed.
    pub const NONE: Self = Self(0);

    /// A defined type; `None` for bytes no writer stores.
    pub fn from_byte(b: u8) -> Option<Self> {
        matches!(b, 0..=7 | 0x40 | 0x80..=0xfe).then_some(Self(b))
    }

    /// The type byte.
    pub fn as_byte(self) -> u8 {
        self.0
    }

    /// RocksDB's name.
    pub fn name(self) -> &'static str {
        match self.0 {
            0 => "NoCompression",
            1 => "Snappy",
            2 => "Zlib",
            3 => "BZip2",
            4 => "LZ4",
            5 => "LZ4HC",
            6 => "Xpress",
            7 => "ZSTD",
            0x40 => "ZSTDNotFinal",
            _ => "Custom",
        }
    }

    /// The codec, or an error that names it.
    ///
    /// # Errors
    /// `NotSupported` for codecs this build lacks.
    pub fn codec(self) -> Result<Compression> {
        Compression::from_byte(self.0).ok_or_else(|| {
            Error::not_supported(format!("{} compression", self.name())).with("type", self.0)
        })
    }
}

/// Replaces `out` by the uncompressed form of `contents`.
///
/// # Errors
/// `Corruption` for bytes that do not decode to exactly the announced size.
pub(crate) fn decompress(codec: Compression, contents: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    match codec {
        Compression::None => {
            out.extend_from_slice(contents);
            Ok(())
        }
        Compression::Lz4 => {
            let (size, packed) = get_varint32(contents)
                .ok_or_else(|| Error::corruption("LZ4 block without an uncompressed size"))?;
            let size = size as usize;
            // One LZ4 byte stands for at most 255 bytes; a larger claim is a lie, and must not
            // decide how much is allocated.
            if size > packed.len().saturating_mul(255) {
                return Err(Error::corruption("LZ4 block claims an impossible size")
                    .with("claimed", size)
                    .with("compressed", packed.len()));
            }
            out.resize(size, 0);
            match decompress_into(packed, out) {
                Ok(n) if n == size => Ok(()),
                Ok(n) => Err(
                    Error::corruption("LZ4 block has another size than announced")
                        .with("announced", size)
                        .with("size", n),
                ),
                Err(e) => Err(Error::corruption(format!(
                    "LZ4 block does not decompress: {e}"
                ))),
            }
        }
    }
}

/// Compresses block after block with one hash table and one buffer.
pub(crate) struct Compressor {
    codec: Compression,
    max_per_kb: usize,
    table: Option<CompressTable>,
    /// Never shortened, so that it is zeroed once.
    out: Vec<u8>,
}

impl Compressor {
    /// A compressor that keeps a result only if it fits `max_per_kb` / 1024 of the input.
    pub(crate) fn new(codec: Compression, max_per_kb: u32) -> Self {
        let table = (codec == Compression::Lz4).then(CompressTable::default);
        Self {
            codec,
            max_per_kb: (max_per_kb as usize).min(1023),
            table,
            out: Vec::new(),
        }
    }

    /// The codec it was made for.
    pub(crate) fn codec(&self) -> Compression {
        self.codec
    }

    /// The stored form of `raw`; `None` if it does not shrink enough or compression is off.
    pub(crate) fn compress(&mut self, raw: &[u8]) -> Option<&[u8]> {
        let table = self.table.as_mut()?;
        let budget = (raw.len() as u64 * self.max_per_kb as u64 / 1024) as usize;
        let size = u32::try_from(raw.len())
            .ok()
            .filter(|&n| n < i32::MAX as u32)?;
        let mut head = Vec::with_capacity(MAX_VARINT32);
        put_varint32(&mut head, size);
        let most = head.len() + get_maximum_output_size(raw.len());
        if self.out.len() < most {
            self.out.resize(most, 0);
        }
        let (front, back) = self.out.split_at_mut_checked(head.len())?;
        front.copy_from_slice(&head);
        let n = head.len() + compress_into_with_table(raw, back, table).ok()?;
        if n <= budget { self.out.get(..n) } else { None }
    }
}
