//! Compression of logical records: one ZSTD frame each.
//!
//! A compressed log begins with a record that names the codec. After it every logical record is
//! compressed by itself into one frame with a checksum of its contents, so that records can be
//! skipped and a frame never needs what stands before it. The compressor hands out pieces that fit a
//! block; the log fragments them further. Records of metadata are never compressed.
//!
//! Invariants: B3. A frame that asks for a window larger than [`WINDOW_LOG_MAX`] is refused, so
//! memory is bounded by what decompressed data the input really holds. Threads: one owner at a time.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation
)]

use crate::record::BLOCK_SIZE;
use spanlith_base::{CompressionType, Error, Result};
use zstd_safe::zstd_sys::ZSTD_EndDirective::ZSTD_e_end;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

/// Largest window of a frame that is read, as power of two. RocksDB writes at ZSTD's default level,
/// whose window is 2^21 bytes.
const WINDOW_LOG_MAX: u32 = 25;

/// Number of ZSTD among RocksDB's compression types, as in the record that names the codec.
pub const ZSTD_TYPE: u32 = CompressionType::Zstd.as_byte() as u32;

fn failed(code: usize) -> Error {
    Error::corruption("error compressing record").with("codec", zstd_safe::get_error_name(code))
}

/// Compresses logical records.
pub(crate) struct Compressor {
    ctx: CCtx<'static>,
    /// One piece.
    piece: Box<[u8]>,
}

impl Compressor {
    pub(crate) fn new() -> Result<Self> {
        let mut ctx = CCtx::try_create().ok_or_else(|| Error::io("no memory for compression"))?;
        ctx.set_parameter(CParameter::ChecksumFlag(true))
            .map_err(failed)?;
        Ok(Self {
            ctx,
            piece: vec![0; BLOCK_SIZE].into_boxed_slice(),
        })
    }

    /// Compresses `record` and hands its pieces, of at most `piece_max` bytes, to `take`, with
    /// whether the piece is the last one.
    pub(crate) fn record(
        &mut self,
        record: &[u8],
        piece_max: usize,
        mut take: impl FnMut(&[u8], bool) -> Result<()>,
    ) -> Result<()> {
        self.ctx
            .reset(ResetDirective::SessionOnly)
            .map_err(failed)?;
        let mut input = InBuffer::around(record);
        loop {
            let room = self.piece.get_mut(..piece_max).unwrap_or_default();
            let mut output = OutBuffer::around(&mut *room);
            let left = self
                .ctx
                .compress_stream2(&mut output, &mut input, ZSTD_e_end)
                .map_err(failed)?;
            let len = output.pos();
            take(room.get(..len).unwrap_or_default(), left == 0)?;
            if left == 0 {
                return Ok(());
            }
        }
    }
}

/// Decompresses logical records that arrive in fragments.
pub(crate) struct Decompressor {
    ctx: DCtx<'static>,
    piece: Box<[u8]>,
}

impl Decompressor {
    pub(crate) fn new() -> Result<Self> {
        let mut ctx = DCtx::try_create().ok_or_else(|| Error::io("no memory for compression"))?;
        ctx.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))
            .map_err(failed)?;
        Ok(Self {
            ctx,
            piece: vec![0; BLOCK_SIZE].into_boxed_slice(),
        })
    }

    /// Forgets what was left of another record.
    pub(crate) fn reset(&mut self) {
        // Cannot fail without a change of parameters; if it did, the next fragment would not decode.
        let _ = self.ctx.reset(ResetDirective::SessionOnly);
    }

    /// Appends what `fragment` holds to `out`. Says whether a frame ended with it; `None` if it does
    /// not decode, or once `out` is longer than `most`.
    pub(crate) fn fragment(
        &mut self,
        fragment: &[u8],
        out: &mut Vec<u8>,
        most: usize,
    ) -> Option<bool> {
        let mut input = InBuffer::around(fragment);
        let mut ended = false;
        loop {
            let mut output = OutBuffer::around(&mut *self.piece);
            let before = input.pos();
            let hint = self.ctx.decompress_stream(&mut output, &mut input).ok()?;
            let len = output.pos();
            out.extend_from_slice(self.piece.get(..len)?);
            if out.len() > most {
                return None;
            }
            // Without progress the call only repeats what the last one said.
            if len > 0 || input.pos() > before {
                ended = hint == 0;
            }
            let full = len == self.piece.len();
            if input.pos() == fragment.len() && (!full || ended) {
                return Some(ended);
            }
            if len == 0 && input.pos() == before {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_in_pieces_comes_back_and_a_part_of_it_does_not_end() {
        let mut x = 1u64;
        let noise: Vec<u8> = (0..200_000)
            .map(|_| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                x.to_le_bytes()[0]
            })
            .collect();
        for record in [&b""[..], b"a", &[7; 300_000], &noise] {
            let mut found: Vec<Vec<u8>> = Vec::new();
            let mut c = Compressor::new().unwrap();
            c.record(record, 1000, |piece, _| {
                found.push(piece.to_vec());
                Ok(())
            })
            .unwrap();
            let mut d = Decompressor::new().unwrap();
            let mut out = Vec::new();
            for (n, piece) in found.iter().enumerate() {
                assert!(piece.len() <= 1000);
                let ended = d.fragment(piece, &mut out, usize::MAX);
                assert_eq!(ended, Some(n + 1 == found.len()));
            }
            assert_eq!(out, record);
        }
    }

    #[test]
    fn bytes_that_are_no_frame_are_refused() {
        let mut d = Decompressor::new().unwrap();
        let mut out = Vec::new();
        assert_eq!(d.fragment(b"not a frame", &mut out, usize::MAX), None);
        d.reset();
        // A frame that asks for a window of two gigabytes.
        assert_eq!(
            d.fragment(
                &[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01],
                &mut out,
                usize::MAX
            ),
            None
        );
        assert!(out.is_empty());
    }
}
