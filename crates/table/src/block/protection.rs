//! A checksum of a block in memory (`block_protection_bytes_per_key`): of data blocks from when they were
//! read until they leave the cache, of index and filter as long as their table is open, so that memory
//! that changes under them is noticed.
//!
//! It covers the bytes and the search arrays beside them, or those of an index, and lies after the bytes.
//! One checksum serves the whole block: it is verified each time the block is taken, before any entry is
//! looked at. Indexes and Bloom filters grow with their table, so they have more: an index one per entry
//! (`index/sums.rs`), a filter one per chunk of two lines. A lookup verifies those it goes by.

use super::Block;
use crate::filter::Filter;
use crate::format::BlockHandle;
use spanlith_base::Error;
use spanlith_base::checksum::xxh3_128;

/// Bytes of a filter under one checksum: two lines.
const CHUNK: usize = 128;

impl Block {
    /// [`Self::protect`] for an index or a filter that is at `at` in its file, with the checksums that lookups
    /// verify.
    pub(crate) fn protect_meta(&mut self, at: BlockHandle, len: u8) {
        if len == 0 || self.checksum_len != 0 {
            return;
        }
        if let Some(index) = &mut self.index {
            index.guard(at, len);
        } else if Filter::line_in(self.bytes(), 0).is_some() {
            let chunks = self.bytes().len().div_ceil(CHUNK);
            for i in 0..chunks {
                let sum = shortened(self.chunk_sum(i), len);
                self.prefixes.push(sum, chunks);
            }
        }
        self.protect(len);
    }

    /// Returns whether lookups verify what they use, so that nothing has to be done when the block is taken.
    pub(crate) fn is_checked_in_use(&self) -> bool {
        match &self.index {
            Some(index) => index.is_guarded(),
            None => !self.prefixes.as_slice().is_empty(),
        }
    }

    /// The chunk of a filter, together with what says how the filter is asked.
    fn chunk_sum(&self, i: usize) -> u64 {
        let bytes = self.bytes();
        let rest = bytes.get(i.saturating_mul(CHUNK)..).unwrap_or_default();
        let chunk = rest.get(..CHUNK).unwrap_or(rest);
        let mut trailer = [0; 8];
        if let Some(last) = bytes.last_chunk::<5>() {
            trailer[..last.len()].copy_from_slice(last);
        }
        let shape = [i as u64, bytes.len() as u64, u64::from_le_bytes(trailer)];
        self::bytes(words(0, &shape, |w| w), chunk)
    }

    /// Says whether what a filter of [`Self::is_checked_in_use`] says of a key with that hash is what it was made
    /// to say.
    pub(crate) fn vouches_for(&self, hash: u64) -> bool {
        let Some(line) = Filter::line_in(self.bytes(), hash) else {
            return false;
        };
        let (i, len) = (line / CHUNK, self.checksum_len);
        let kept = self.prefixes.as_slice().get(i);
        kept.is_some_and(|&kept| kept == shortened(self.chunk_sum(i), len))
    }

    /// Appends a checksum of `len` bytes, at most 8; 0 does nothing. Requires: not protected yet.
    pub(crate) fn protect(&mut self, len: u8) {
        if len == 0 || self.checksum_len != 0 {
            return;
        }
        let sum = self.checksum(self.data.len()).to_le_bytes();
        let kept = &sum[..usize::from(len).min(sum.len())];
        self.data.edit(|data| {
            data.reserve_exact(kept.len());
            data.extend_from_slice(kept);
        });
        self.checksum_len = kept.len() as u8;
    }

    /// Returns whether the block is what it was when it was protected; true if it never was.
    pub(crate) fn is_intact(&self) -> bool {
        if self.checksum_len == 0 {
            return true;
        }
        let len = self.bytes().len();
        let sum = self.checksum(len).to_le_bytes();
        self.data
            .get(len..)
            .is_some_and(|kept| sum.starts_with(kept))
    }

    fn checksum(&self, len: usize) -> u64 {
        let bytes = self.data.get(..len).unwrap_or_default();
        let sum = xxh3_128(bytes, len as u64).0;
        let sum = words(sum, self.restarts.as_slice(), u64::from);
        let sum = words(sum, self.prefixes.as_slice(), |w| w);
        self.index.as_ref().map_or(sum, |index| index.checksum(sum))
    }
}

/// Says what tests change in memory.
#[cfg(test)]
impl Block {
    /// Puts other bytes of the same length under the checksum.
    pub(crate) fn overwrite(&mut self, bytes: &[u8]) {
        let len = self.bytes().len();
        self.data.edit(|data| data[..len].copy_from_slice(bytes));
    }

    /// The index, to be changed.
    pub(crate) fn index_mut(&mut self) -> &mut crate::index::IndexTable {
        self.index.as_mut().expect("an index block")
    }
}

/// Takes an array into a checksum, in four lanes so that a long one does not wait for itself.
pub(crate) fn words<T: Copy>(sum: u64, array: &[T], word: impl Fn(T) -> u64) -> u64 {
    let mix =
        |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut lanes = [sum, !sum, sum.swap_bytes(), !sum.swap_bytes()];
    let chunks = array.chunks_exact(lanes.len());
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &item) in lanes.iter_mut().zip(chunk) {
            *lane = mix(*lane, word(item));
        }
    }
    let sum = lanes.into_iter().fold(array.len() as u64, mix);
    rest.iter().fold(sum, |sum, &item| mix(sum, word(item)))
}

/// The first `len` bytes of a checksum.
pub(crate) fn shortened(sum: u64, len: u8) -> u64 {
    match len {
        0..8 => sum & ((1 << (8 * len)) - 1),
        _ => sum,
    }
}

/// Takes bytes into a checksum.
pub(crate) fn bytes(sum: u64, bytes: &[u8]) -> u64 {
    xxh3_128(bytes, sum).0
}

/// A block in the cache is not what was put there.
#[cold]
pub(crate) fn changed() -> Error {
    Error::corruption("Corrupted block entry: per key-value checksum verification failed.")
}
