//! Compresses block after block with one context and one buffer per table.
//!
//! The stored form is RocksDB's second one (format version 2 and later): `varint32 uncompressed
//! size` in front of what the codec produces, except for Snappy, which has its own.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::codec::CompressionOptions;
use super::decompress::{Decompressor, Dictionary};
use lz4_flex::block::{
    CompressTable, compress_into_with_dict, compress_into_with_table, get_maximum_output_size,
};
use spanlith_base::coding::MAX_VARINT32;
use spanlith_base::compression::DEFAULT_LEVEL;
use spanlith_base::{CompressionType, Error, Result};
use zstd_safe::{CCtx, CParameter};

/// The most of a dictionary that LZ4 can refer to.
const LZ4_DICTIONARY_MAX: usize = 64 << 10;
/// bzip2 works on blocks of this many 100,000 bytes, as in RocksDB.
const BZIP2_BLOCK: u32 = 1;
/// bzip2's threshold for its slow sorting, as in RocksDB.
const BZIP2_WORK_FACTOR: u32 = 30;

/// Describes what a codec keeps between blocks.
enum State {
    Off,
    Snappy(Box<snap::raw::Encoder>),
    Zlib(flate2::Compress),
    Bzip2,
    Lz4(CompressTable),
    Lz4Dictionary,
    Zstd(CCtx<'static>),
}

impl State {
    /// Bytes the codec may need for `len` bytes.
    fn most(&self, len: usize) -> usize {
        match self {
            Self::Off => 0,
            Self::Snappy(_) => snap::raw::max_compress_len(len),
            // Stored blocks of deflate cost five bytes per 16 KiB at the worst; bzip2 promises one
            // percent and 600 bytes.
            Self::Zlib(_) => len + len / 1000 + 64,
            Self::Bzip2 => len + len / 100 + 600,
            Self::Lz4(_) | Self::Lz4Dictionary => get_maximum_output_size(len),
            Self::Zstd(_) => zstd_safe::compress_bound(len),
        }
    }
}

/// Compresses blocks; one thread at a time.
pub struct Compressor {
    codec: CompressionType,
    /// A result is kept if it needs at most this many of every 1024 bytes.
    max_per_kb: u64,
    state: State,
    dictionary: Vec<u8>,
    /// Never shortened, so that it is zeroed once.
    out: Vec<u8>,
}

impl Compressor {
    /// A compressor that keeps a result only if it fits `max_per_kb` / 1024 of the input (at most
    /// 1023).
    ///
    /// # Errors
    /// `InvalidArgument` for a level that the codec does not know, `NotSupported` for a codec this build lacks.
    pub fn new(
        codec: CompressionType,
        options: &CompressionOptions,
        max_per_kb: u32,
    ) -> Result<Self> {
        Self::make(codec, options, max_per_kb.min(1023).into(), Vec::new())
    }

    /// A compressor that compresses nothing.
    pub(crate) fn off() -> Self {
        Self {
            codec: CompressionType::None,
            max_per_kb: 0,
            state: State::Off,
            dictionary: Vec::new(),
            out: Vec::new(),
        }
    }

    /// A compressor whose results are kept however large they are (blob files).
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn unlimited(codec: CompressionType, options: &CompressionOptions) -> Result<Self> {
        Self::make(codec, options, 1 << 20, Vec::new())
    }

    /// A compressor of blocks that refer to `dictionary`. Codecs that know no dictionaries ignore
    /// it.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn with_dictionary(
        codec: CompressionType,
        options: &CompressionOptions,
        max_per_kb: u32,
        dictionary: &[u8],
    ) -> Result<Self> {
        Self::make(
            codec,
            options,
            max_per_kb.min(1023).into(),
            dictionary.to_vec(),
        )
    }

    fn make(
        codec: CompressionType,
        options: &CompressionOptions,
        max_per_kb: u64,
        dictionary: Vec<u8>,
    ) -> Result<Self> {
        let state = match codec {
            CompressionType::None => State::Off,
            CompressionType::Snappy => State::Snappy(Box::new(snap::raw::Encoder::new())),
            CompressionType::Zlib => State::Zlib(deflate(options)?),
            CompressionType::Bzip2 => State::Bzip2,
            CompressionType::Lz4 | CompressionType::Lz4Hc if dictionary.is_empty() => {
                State::Lz4(CompressTable::default())
            }
            CompressionType::Lz4 | CompressionType::Lz4Hc => State::Lz4Dictionary,
            CompressionType::Zstd => State::Zstd(zstd(options, &dictionary)?),
            CompressionType::Xpress
            | CompressionType::ZstdNotFinal
            | CompressionType::Custom(_)
            | CompressionType::Disable => return Err(codec.unwritable()),
        };
        Ok(Self {
            codec,
            max_per_kb,
            state,
            dictionary,
            out: Vec::new(),
        })
    }

    /// The codec it was made for.
    pub fn codec(&self) -> CompressionType {
        self.codec
    }

    /// [`Self::compress`], followed on demand by the way back.
    ///
    /// # Errors
    /// `Corruption` if the block does not come back as it was.
    #[inline]
    pub(crate) fn pack(&mut self, raw: &[u8], verify: bool) -> Result<Option<&[u8]>> {
        match verify {
            false => Ok(self.compress(raw)),
            true => self.compress_and_verify(raw),
        }
    }

    #[cold]
    fn compress_and_verify(&mut self, raw: &[u8]) -> Result<Option<&[u8]>> {
        let Some(len) = self.compress(raw).map(<[u8]>::len) else {
            return Ok(None);
        };
        let packed = self.out.get(..len).unwrap_or_default();
        self.verify(packed, raw)?;
        Ok(Some(packed))
    }

    /// Returns whether `packed` is `raw`.
    fn verify(&self, packed: &[u8], raw: &[u8]) -> Result<()> {
        let is_zstd = self.codec == CompressionType::Zstd;
        let decompressor = Decompressor {
            old_sizes: false,
            dictionary: match self.dictionary.is_empty() {
                true => None,
                false => Dictionary::new(self.dictionary.clone(), is_zstd),
            },
        };
        let mut back = Vec::new();
        decompressor.decompress(self.codec, packed, true, &mut back)?;
        if back != raw {
            return Err(Error::corruption(
                "Decompressed block did not match pre-compression block",
            ));
        }
        Ok(())
    }

    /// The stored form of `raw`; `None` if it does not shrink enough or compression is off.
    pub fn compress(&mut self, raw: &[u8]) -> Option<&[u8]> {
        if matches!(self.state, State::Off) {
            return None;
        }
        // Larger blocks are stored raw, as in RocksDB.
        let size = u32::try_from(raw.len())
            .ok()
            .filter(|&n| n < i32::MAX as u32)?;
        let budget = (u64::from(size) * self.max_per_kb / 1024) as usize;
        let (head, head_len) = varint(size);
        let head = match self.codec {
            CompressionType::Snappy => &[],
            _ => head.get(..head_len)?,
        };
        let most = head.len() + self.state.most(raw.len());
        if self.out.len() < most {
            self.out.resize(most, 0);
        }
        let (front, back) = self.out.split_at_mut_checked(head.len())?;
        front.copy_from_slice(head);
        let n = match &mut self.state {
            State::Off => None,
            State::Snappy(encoder) => encoder.compress(raw, back).ok(),
            State::Zlib(stream) => zlib_into(stream, &self.dictionary, raw, back),
            State::Bzip2 => bzip2_into(raw, back),
            State::Lz4(table) => compress_into_with_table(raw, back, table).ok(),
            State::Lz4Dictionary => {
                let from = self.dictionary.len().saturating_sub(LZ4_DICTIONARY_MAX);
                compress_into_with_dict(raw, back, self.dictionary.get(from..)?).ok()
            }
            // As in RocksDB 11.8 the frame must come about within the budget: zstd gives up on some
            // that would just fit.
            State::Zstd(context) => {
                let room = budget.checked_sub(head.len())?.min(back.len());
                context.compress2(back.get_mut(..room)?, raw).ok()
            }
        };
        let n = head.len() + n?;
        if n <= budget { self.out.get(..n) } else { None }
    }
}

fn varint(mut v: u32) -> ([u8; MAX_VARINT32], usize) {
    let mut out = [0; MAX_VARINT32];
    let mut len = 0;
    for byte in &mut out {
        len += 1;
        if v < 0x80 {
            *byte = v as u8;
            break;
        }
        *byte = v as u8 | 0x80;
        v >>= 7;
    }
    (out, len)
}

fn deflate(options: &CompressionOptions) -> Result<flate2::Compress> {
    let level = match options.level {
        level if !CompressionType::Zlib.takes_level(level) => return Err(bad_level("zlib", level)),
        DEFAULT_LEVEL | -1 => 6,
        level => level as u32,
    };
    // zlib itself turns a window of 2^8 bytes into one of 2^9.
    let bits = options.window_bits.unsigned_abs().clamp(9, 15) as u8;
    let level = flate2::Compression::new(level);
    Ok(flate2::Compress::new_with_window_bits(level, false, bits))
}

fn zstd(options: &CompressionOptions, dictionary: &[u8]) -> Result<CCtx<'static>> {
    let failed = |code| {
        Error::invalid_argument(format!(
            "zstd refuses its options: {}",
            zstd_safe::get_error_name(code)
        ))
    };
    let level = match options.level {
        DEFAULT_LEVEL => 3,
        level => level,
    };
    let mut context = CCtx::try_create().ok_or_else(|| Error::io("zstd has no memory"))?;
    context
        .set_parameter(CParameter::CompressionLevel(level))
        .map_err(failed)?;
    context
        .set_parameter(CParameter::ChecksumFlag(options.checksum))
        .map_err(failed)?;
    if !dictionary.is_empty() {
        // Digested with the first block and kept for all others.
        context.load_dictionary(dictionary).map_err(failed)?;
    }
    Ok(context)
}

#[cold]
fn bad_level(codec: &str, level: i32) -> Error {
    Error::invalid_argument(format!("{codec} has no such compression level")).with("level", level)
}

fn zlib_into(
    stream: &mut flate2::Compress,
    dictionary: &[u8],
    raw: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    stream.reset();
    if !dictionary.is_empty() {
        stream.set_dictionary(dictionary).ok()?;
    }
    match stream.compress(raw, out, flate2::FlushCompress::Finish) {
        Ok(flate2::Status::StreamEnd) => usize::try_from(stream.total_out()).ok(),
        _ => None,
    }
}

fn bzip2_into(raw: &[u8], out: &mut [u8]) -> Option<usize> {
    let level = bzip2::Compression::new(BZIP2_BLOCK);
    let mut stream = bzip2::Compress::new(level, BZIP2_WORK_FACTOR);
    match stream.compress(raw, out, bzip2::Action::Finish) {
        Ok(bzip2::Status::StreamEnd) => usize::try_from(stream.total_out()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_base::ErrorKind;

    #[test]
    fn a_block_that_does_not_come_back_is_an_error() {
        let options = CompressionOptions::default();
        let dictionary = b"the quick brown fox jumps over the lazy dog".repeat(4);
        let raw = b"the quick brown fox jumps over the lazy cat".repeat(3);
        for codec in [
            CompressionType::Zstd,
            CompressionType::Lz4,
            CompressionType::Zlib,
        ] {
            let made = Compressor::with_dictionary(codec, &options, 1024, &dictionary);
            let mut compressor = made.unwrap();
            assert!(compressor.pack(&raw, true).unwrap().is_some(), "{codec:?}");
            // A block that was compressed with one dictionary is read with another.
            let stored = compressor.compress(&raw).unwrap().to_vec();
            compressor.dictionary.reverse();
            let e = compressor.verify(&stored, &raw).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corruption, "{codec:?}");
        }
    }
}
