//! Asks a Ribbon filter.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::equation::{equation, raw_seed, starts};

/// Most columns: a result has no more bits.
const COLUMNS_MAX: usize = 32;
/// Bytes of a segment.
const SEGMENT: usize = 16;

/// Describes what length and tail of a Ribbon filter say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::filter) struct Layout {
    blocks: u32,
    /// First block with `columns` columns; those before have one less.
    first_upper: u32,
    columns: u8,
    seed: u8,
}

impl Layout {
    /// The layout of a filter with `len` bytes before its tail; `None` if it has too few blocks, or
    /// no column, and so says nothing.
    pub(in crate::filter) fn new(len: usize, seed: u8, blocks: u32) -> Option<Self> {
        if blocks < 2 {
            return None;
        }
        let segments = len / SEGMENT;
        let count = blocks as usize;
        let columns = segments.div_ceil(count);
        if columns > COLUMNS_MAX {
            return Some(Self {
                blocks,
                first_upper: 0,
                columns: COLUMNS_MAX as u8,
                seed,
            });
        }
        (columns > 0).then_some(Self {
            blocks,
            first_upper: (columns * count - segments) as u32,
            columns: columns as u8,
            seed,
        })
    }

    /// Number of blocks.
    pub(super) fn blocks(self) -> usize {
        self.blocks as usize
    }

    /// Number of columns of a block.
    #[inline]
    pub(super) fn columns_of(self, block: usize) -> usize {
        usize::from(self.columns) - usize::from(block < self.first_upper as usize)
    }

    /// Segments before those of a block.
    #[inline]
    fn first_segment(self, block: usize) -> usize {
        block * usize::from(self.columns) - block.min(self.first_upper as usize)
    }

    /// Offset of the first segment that a key of that hash needs.
    #[inline]
    pub(in crate::filter) fn offset_of(self, hash: u64) -> usize {
        let start = equation(hash, raw_seed(self.seed), starts(self.blocks)).start;
        self.first_segment(start / 128) * SEGMENT
    }

    /// Returns whether a key of that hash may be in the filter `bytes`.
    #[inline(never)]
    pub(in crate::filter) fn query(self, bytes: &[u8], hash: u64) -> bool {
        let equation = equation(hash, raw_seed(self.seed), starts(self.blocks));
        let (block, bit) = (equation.start / 128, equation.start % 128);
        let columns = self.columns_of(block);
        let first = self.first_segment(block);
        let here = equation.coefficients << bit;
        // Shifted by all 128 bits nothing is left.
        let beyond = equation
            .coefficients
            .checked_shr(128 - bit as u32)
            .unwrap_or(0);
        let segment = |i: usize| {
            let bytes = bytes.get(i * SEGMENT..)?.first_chunk::<SEGMENT>()?;
            Some(u128::from_le_bytes(*bytes))
        };
        for column in 0..columns {
            let Some(mut bits) = segment(first + column).map(|s| s & here) else {
                return true;
            };
            if bit > 0 {
                // The columns of the first block count, also where the next one has one more.
                match segment(first + columns + column) {
                    Some(next) => bits ^= next & beyond,
                    None => return true,
                }
            }
            if bits.count_ones() & 1 != equation.result >> column & 1 {
                return false;
            }
        }
        true
    }
}
