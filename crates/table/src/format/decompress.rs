//! Turns stored blocks back into what they were.
//!
//! ```text
//! codec        format version >= 2               format versions 0 and 1
//! Snappy       snappy block                      the same
//! zlib, bzip2  varint32 size, stream             stream
//! LZ4, LZ4HC   varint32 size, block              fixed64 size, block
//! zstd         varint32 size, frame              the same
//! ```
//!
//! Hostile input: a claimed size decides how much is allocated only as far as the compressed bytes
//! can stand for it; where a codec has no useful bound, the output grows as it is produced.
//!
//! Contexts belong to the thread and are reused, so that a block costs no allocation but its own.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use lz4_flex::block::{decompress_into, decompress_into_with_dict};
use spanlith_base::coding::{get_fixed32, get_varint32};
use spanlith_base::{CompressionType, Error, Result};
use std::cell::RefCell;
use zstd_safe::{DCtx, DDict, InBuffer, OutBuffer};

/// Largest block that any writer compresses.
const SIZE_MAX: usize = i32::MAX as usize;
/// First room of an output whose size nothing vouches for, and its growth.
const STEP: usize = 64 << 10;
/// Uncompressed size per compressed byte that is believed without growing step by step.
const BELIEVED_RATIO: usize = 64;
/// The most of a dictionary that LZ4 can refer to.
const LZ4_DICTIONARY_MAX: usize = 64 << 10;

thread_local! {
    static ZSTD: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
    static INFLATE: RefCell<flate2::Decompress> = RefCell::new(flate2::Decompress::new(false));
}

/// A dictionary of a table, digested once.
pub(crate) struct Dictionary {
    raw: Vec<u8>,
    zstd: Option<DDict<'static>>,
}

impl Dictionary {
    /// The dictionary in a block; `None` if zstd cannot digest it. It is digested for zstd only if
    /// the table may hold zstd blocks.
    pub(crate) fn new(raw: Vec<u8>, zstd: bool) -> Option<Self> {
        let zstd = match zstd {
            true => Some(DDict::try_create(&raw)?),
            false => None,
        };
        Some(Self { raw, zstd })
    }

    /// Bytes of memory it occupies.
    pub(crate) fn memory_usage(&self) -> usize {
        self.raw.capacity() + self.zstd.as_ref().map_or(0, DDict::sizeof)
    }

    fn lz4(&self) -> &[u8] {
        let from = self.raw.len().saturating_sub(LZ4_DICTIONARY_MAX);
        self.raw.get(from..).unwrap_or_default()
    }
}

/// How the blocks of one table are decompressed.
#[derive(Default)]
pub(crate) struct Decompressor {
    /// Format version 0 or 1.
    pub(crate) old_sizes: bool,
    /// For data blocks.
    pub(crate) dictionary: Option<Dictionary>,
}

impl Decompressor {
    /// Bytes of memory it occupies.
    pub(crate) fn memory_usage(&self) -> usize {
        self.dictionary.as_ref().map_or(0, Dictionary::memory_usage)
    }

    /// Replaces `out` by the uncompressed form of `contents`.
    ///
    /// # Errors
    /// `Corruption` for bytes that do not decode to exactly the announced size.
    pub(crate) fn decompress(
        &self,
        codec: CompressionType,
        contents: &[u8],
        is_data: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let dictionary = self.dictionary.as_ref().filter(|_| is_data);
        run(codec, contents, self.old_sizes, dictionary, out)
    }
}

/// Replaces `out` by the uncompressed form of `contents` as format version 2 and later, and blob
/// files, store it.
///
/// # Errors
/// `Corruption` for bytes that do not decode to exactly the announced size, `NotSupported` for a codec this build
/// lacks.
pub fn decompress(codec: CompressionType, contents: &[u8], out: &mut Vec<u8>) -> Result<()> {
    run(codec, contents, false, None, out)
}

fn run(
    codec: CompressionType,
    contents: &[u8],
    old_sizes: bool,
    dictionary: Option<&Dictionary>,
    out: &mut Vec<u8>,
) -> Result<()> {
    if !matches!(
        codec,
        CompressionType::Snappy | CompressionType::Lz4 | CompressionType::Lz4Hc
    ) {
        out.clear();
    }
    match codec {
        CompressionType::None => {
            out.extend_from_slice(contents);
            Ok(())
        }
        CompressionType::Snappy => snappy(contents, out),
        CompressionType::Lz4 | CompressionType::Lz4Hc => {
            let (size, packed) = match old_sizes {
                false => prefixed(codec, contents)?,
                true => fixed(codec, contents)?,
            };
            lz4(size, packed, dictionary, out)
        }
        CompressionType::Zlib if old_sizes => zlib(None, contents, dictionary, out),
        CompressionType::Zlib => {
            let (size, packed) = prefixed(codec, contents)?;
            zlib(Some(size), packed, dictionary, out)
        }
        CompressionType::Bzip2 if old_sizes => bzip2(None, contents, out),
        CompressionType::Bzip2 => {
            let (size, packed) = prefixed(codec, contents)?;
            bzip2(Some(size), packed, out)
        }
        CompressionType::Zstd | CompressionType::ZstdNotFinal => {
            let (size, packed) = prefixed(codec, contents)?;
            zstd(size, packed, dictionary, out)
        }
        CompressionType::Xpress | CompressionType::Custom(_) | CompressionType::Disable => {
            Err(codec.unreadable())
        }
    }
}

/// The announced size in front of the compressed bytes.
#[inline]
fn prefixed(codec: CompressionType, contents: &[u8]) -> Result<(usize, &[u8])> {
    match get_varint32(contents) {
        Some((size, packed)) => Ok((size as usize, packed)),
        None => Err(Error::corruption(format!(
            "{} block without an uncompressed size",
            codec.word()
        ))),
    }
}

/// The eight bytes of size in front of LZ4 blocks of old tables, of which four are used.
fn fixed(codec: CompressionType, contents: &[u8]) -> Result<(usize, &[u8])> {
    match (get_fixed32(contents, 0), contents.get(8..)) {
        (Some(size), Some(packed)) => Ok((size as usize, packed)),
        _ => Err(Error::corruption(format!(
            "{} block without an uncompressed size",
            codec.word()
        ))),
    }
}

/// Refuses a claim that the compressed bytes cannot make good: it must not decide how much is
/// allocated.
#[inline]
fn check_claim(codec: &str, size: usize, packed: usize, most: usize) -> Result<()> {
    if size <= most {
        return Ok(());
    }
    Err(
        Error::corruption(format!("{codec} block claims an impossible size"))
            .with("claimed", size)
            .with("compressed", packed),
    )
}

#[cold]
fn other_size(codec: &str, announced: usize, size: usize) -> Error {
    Error::corruption(format!("{codec} block has another size than announced"))
        .with("announced", announced)
        .with("size", size)
}

#[cold]
fn undecodable(codec: &str, why: impl std::fmt::Display) -> Error {
    Error::corruption(format!("{codec} block does not decompress: {why}"))
}

/// Gives `out` that length, whatever it holds: a codec that says how much it has written writes over
/// it. Bytes of before are neither moved nor set to zero first.
#[inline]
fn make_room(out: &mut Vec<u8>, size: usize) {
    match out.capacity() < size {
        true => *out = vec![0; size],
        false => out.resize(size, 0),
    }
}

fn lz4(
    size: usize,
    packed: &[u8],
    dictionary: Option<&Dictionary>,
    out: &mut Vec<u8>,
) -> Result<()> {
    // One LZ4 byte stands for at most 255 bytes.
    check_claim("LZ4", size, packed.len(), packed.len().saturating_mul(255))?;
    make_room(out, size);
    let done = match dictionary {
        None => decompress_into(packed, out),
        Some(dictionary) => decompress_into_with_dict(packed, out, dictionary.lz4()),
    };
    match done {
        Ok(n) if n == size => Ok(()),
        Ok(n) => Err(other_size("LZ4", size, n)),
        Err(e) => Err(undecodable("LZ4", e)),
    }
}

fn snappy(packed: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let size = snap::raw::decompress_len(packed).map_err(|e| undecodable("Snappy", e))?;
    // Its best copy stands for 64 bytes with three.
    check_claim(
        "Snappy",
        size,
        packed.len(),
        packed.len().saturating_mul(22),
    )?;
    make_room(out, size);
    match snap::raw::Decoder::new().decompress(packed, out) {
        Ok(n) if n == size => Ok(()),
        Ok(n) => Err(other_size("Snappy", size, n)),
        Err(e) => Err(undecodable("Snappy", e)),
    }
}

fn zlib(
    size: Option<usize>,
    packed: &[u8],
    dictionary: Option<&Dictionary>,
    out: &mut Vec<u8>,
) -> Result<()> {
    if let Some(size) = size {
        // Deflate stands for at most 1032 bytes with one.
        let most = packed.len().saturating_mul(1032).saturating_add(1032);
        check_claim("zlib", size, packed.len(), most)?;
    }
    INFLATE.with_borrow_mut(|stream| {
        stream.reset(false);
        if let Some(dictionary) = dictionary {
            stream
                .set_dictionary(&dictionary.raw)
                .map_err(|e| undecodable("zlib", e))?;
        }
        let mut room = size.unwrap_or_else(|| packed.len().saturating_mul(4).max(STEP));
        loop {
            out.resize(room, 0);
            let from = stream.total_out() as usize;
            let input = packed.get(stream.total_in() as usize..).unwrap_or_default();
            let output = out.get_mut(from..).unwrap_or_default();
            let status = stream
                .decompress(input, output, flate2::FlushDecompress::Finish)
                .map_err(|e| undecodable("zlib", e))?;
            let total = stream.total_out() as usize;
            if status == flate2::Status::StreamEnd {
                out.truncate(total);
                return match size {
                    Some(size) if size != total => Err(other_size("zlib", size, total)),
                    _ => Ok(()),
                };
            }
            if size.is_some() || total < room || room >= SIZE_MAX {
                return Err(undecodable("zlib", "the stream does not end"));
            }
            room = room.saturating_mul(2).min(SIZE_MAX);
        }
    })
}

fn bzip2(size: Option<usize>, packed: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let most = size.unwrap_or(SIZE_MAX);
    let mut room = most.min(packed.len().saturating_mul(BELIEVED_RATIO).max(STEP));
    let mut stream = bzip2::Decompress::new(false);
    loop {
        out.resize(room, 0);
        let from = stream.total_out() as usize;
        let input = packed.get(stream.total_in() as usize..).unwrap_or_default();
        let output = out.get_mut(from..).unwrap_or_default();
        let status = stream
            .decompress(input, output)
            .map_err(|e| undecodable("bzip2", e))?;
        let total = stream.total_out() as usize;
        if status == bzip2::Status::StreamEnd {
            out.truncate(total);
            return match size {
                Some(size) if size != total => Err(other_size("bzip2", size, total)),
                _ => Ok(()),
            };
        }
        let stuck = stream.total_in() as usize == packed.len() - input.len() && total == from;
        if total == room && room < most {
            room = room.saturating_mul(2).min(most);
        } else if stuck {
            return Err(undecodable("bzip2", "the stream does not end"));
        }
    }
}

fn zstd(
    size: usize,
    packed: &[u8],
    dictionary: Option<&Dictionary>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let dictionary = dictionary.and_then(|d| d.zstd.as_ref().map(|digested| (d, digested)));
    if size > packed.len().saturating_mul(BELIEVED_RATIO).max(STEP) {
        return zstd_stepwise(size, packed, dictionary.map(|(d, _)| d), out);
    }
    out.reserve_exact(size);
    let done = ZSTD.with_borrow_mut(|context| match dictionary {
        None => context.decompress(out, packed),
        Some((_, digested)) => context.decompress_using_ddict(out, packed, digested),
    });
    match done {
        Ok(n) if n == size => Ok(()),
        Ok(n) => Err(other_size("zstd", size, n)),
        Err(code) => Err(undecodable("zstd", zstd_safe::get_error_name(code))),
    }
}

/// Decompresses a frame that claims to be much larger than its compressed form.
fn zstd_stepwise(
    size: usize,
    packed: &[u8],
    dictionary: Option<&Dictionary>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let failed = |code| undecodable("zstd", zstd_safe::get_error_name(code));
    let mut context = DCtx::create();
    if let Some(dictionary) = dictionary {
        context.load_dictionary(&dictionary.raw).map_err(failed)?;
    }
    let mut input = InBuffer::around(packed);
    loop {
        let from = out.len();
        let room = from.max(STEP).min(size.saturating_sub(from).max(1));
        out.reserve_exact(room);
        let before = input.pos();
        let mut output = OutBuffer::around_pos(out, from);
        let left = context
            .decompress_stream(&mut output, &mut input)
            .map_err(failed)?;
        let stuck = output.pos() == from && input.pos() == before;
        if out.len() > size || stuck {
            return Err(other_size("zstd", size, out.len()));
        }
        if left == 0 {
            break;
        }
    }
    if out.len() != size || input.pos() != packed.len() {
        return Err(other_size("zstd", size, out.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Compressor, codec::CompressionOptions};
    use super::*;

    #[test]
    fn what_was_in_the_buffer_before_does_not_show() {
        let raw = b"some bytes and some bytes and some more bytes".repeat(9);
        for codec in [
            CompressionType::Snappy,
            CompressionType::Zlib,
            CompressionType::Bzip2,
            CompressionType::Lz4,
            CompressionType::Zstd,
        ] {
            let made = Compressor::new(codec, &CompressionOptions::default(), 1024);
            let mut compressor = made.unwrap();
            let packed = compressor.compress(&raw).unwrap().to_vec();
            for len in [0, 7, raw.len(), 3 * raw.len()] {
                let mut out = vec![b'x'; len];
                decompress(codec, &packed, &mut out).unwrap();
                assert!(out == raw, "{codec:?} over {len} bytes");
            }
            let mut out = vec![b'x'; 3 * raw.len()];
            decompress(codec, &packed[..packed.len() - 3], &mut out).unwrap_err();
        }
    }
}
