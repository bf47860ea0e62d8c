//! A checksum of a data block in memory (`block_protection_bytes_per_key`): from when it was read until
//! it leaves the cache, so that memory that changes under it is noticed.
//!
//! It covers the bytes and the search arrays beside them, and lies behind the bytes. One checksum
//! serves the whole block: it is verified each time the block is taken from the cache, before any
//! entry is looked at.

use super::Block;
use spanlith_base::Error;
use spanlith_base::checksum::xxh3_128;

impl Block {
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

    /// Whether the block is what it was when it was protected; true if it never was.
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
        let mix =
            |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let sum = self
            .restarts
            .as_slice()
            .iter()
            .fold(sum, |s, &r| mix(s, r.into()));
        self.prefixes.as_slice().iter().fold(sum, |s, &w| mix(s, w))
    }
}

/// A block in the cache is not what was put there.
#[cold]
pub(crate) fn changed() -> Error {
    Error::corruption("Corrupted block entry: per key-value checksum verification failed.")
}
