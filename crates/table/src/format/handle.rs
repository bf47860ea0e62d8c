//! Where a block lies in its file.
//!
//! `varint64 offset, varint64 size`; the size leaves out the five bytes of the trailer. A handle of
//! two zeros is the null handle.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use spanlith_base::coding::{get_varint64, put_varint64};

/// Position and size of a block, without its trailer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockHandle {
    /// Offset of the first byte of the contents.
    pub offset: u64,
    /// Bytes of the contents as stored.
    pub size: u64,
}

impl BlockHandle {
    /// Appends the encoded form.
    pub fn encode(self, out: &mut Vec<u8>) {
        put_varint64(out, self.offset);
        put_varint64(out, self.size);
    }

    /// Decodes a handle at the start of `input`; `None` if it is cut.
    #[inline]
    pub fn decode(input: &[u8]) -> Option<(Self, &[u8])> {
        let (offset, rest) = get_varint64(input)?;
        let (size, rest) = get_varint64(rest)?;
        Some((Self { offset, size }, rest))
    }

    /// Offset after the block and its trailer; `None` if it overflows.
    pub fn end(self) -> Option<u64> {
        self.offset
            .checked_add(self.size)?
            .checked_add(super::TRAILER_LEN as u64)
    }
}
