//! Writes the meta blocks of a hash-search index: the prefixes of the table in order, and for each
//! its length, the first data block that has it, and the number of data blocks it goes on over.

use spanlith_base::SliceTransform;
use spanlith_base::coding::{get_varint32, put_varint32};

/// Name of the block with the prefixes, one after the other.
const PREFIXES: &str = "rocksdb.hashindex.prefixes";
/// Name of the block with lengths and data blocks.
pub(crate) const METADATA: &str = "rocksdb.hashindex.metadata";

/// Gathers prefixes while entries are added.
pub(crate) struct HashIndex {
    extractor: SliceTransform,
    prefixes: Vec<u8>,
    metadata: Vec<u8>,
    /// The prefix of the last key; meaningless while `blocks` is 0.
    current: Vec<u8>,
    /// First data block with it.
    first_block: u32,
    /// Data blocks with it.
    blocks: u32,
}

impl HashIndex {
    pub(super) fn new(extractor: SliceTransform) -> Self {
        Self {
            extractor,
            prefixes: Vec::new(),
            metadata: Vec::new(),
            current: Vec::new(),
            first_block: 0,
            blocks: 0,
        }
    }

    /// A key went into data block number `block`.
    pub(super) fn add(&mut self, user_key: &[u8], block: u32) {
        let prefix = self.extractor.transform(user_key);
        if self.blocks > 0 && self.current == prefix {
            self.blocks = block - self.first_block + 1;
            return;
        }
        self.end_prefix();
        self.current.clear();
        self.current.extend_from_slice(prefix);
        self.first_block = block;
        self.blocks = 1;
    }

    fn end_prefix(&mut self) {
        if self.blocks == 0 {
            return;
        }
        self.prefixes.extend_from_slice(&self.current);
        put_varint32(&mut self.metadata, self.current.len() as u32);
        put_varint32(&mut self.metadata, self.first_block);
        put_varint32(&mut self.metadata, self.blocks);
    }

    /// Name and contents of the meta blocks, in the order they are written.
    pub(super) fn finish(mut self) -> [(&'static str, Vec<u8>); 2] {
        self.end_prefix();
        [(METADATA, self.metadata), (PREFIXES, self.prefixes)]
    }
}

/// Returns whether the block of lengths and data blocks accounts for each of `blocks` data blocks: a prefix begins in the last
/// block of the one before it or in the next, the first in the first, and the last ends in the last. What cannot be
/// decoded does not.
pub(crate) fn accounts_for(mut metadata: &[u8], blocks: u64) -> bool {
    // The data block after those seen so far.
    let mut end = 0u64;
    while !metadata.is_empty() {
        let mut number = || {
            let (number, rest) = get_varint32(metadata)?;
            metadata = rest;
            Some(u64::from(number))
        };
        let (Some(_), Some(first), Some(count)) = (number(), number(), number()) else {
            return false;
        };
        if count == 0 || first > end || first + 1 < end {
            return false;
        }
        end = first + count;
    }
    end == blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(prefixes: &[(u32, u32)]) -> Vec<u8> {
        let mut out = Vec::new();
        for &(first, count) in prefixes {
            [4, first, count]
                .iter()
                .for_each(|&n| put_varint32(&mut out, n));
        }
        out
    }

    #[test]
    fn each_data_block_is_accounted_for_once() {
        for (prefixes, blocks, right) in [
            (&[(0, 1), (0, 1), (0, 2), (1, 3)][..], 4, true),
            (&[(0, 1), (1, 1)], 2, true),
            (&[], 0, true),
            // Recorded while the blocks were held back.
            (&[(0, 1), (0, 1), (0, 1)], 3, false),
            (&[(0, 1), (0, 1), (3, 1)], 4, false),
            (&[(0, 1), (2, 1)], 3, false),
            (&[(0, 0)], 0, false),
            (&[], 1, false),
        ] {
            assert_eq!(
                accounts_for(&metadata(prefixes), blocks),
                right,
                "{prefixes:?}"
            );
        }
        assert!(!accounts_for(&[0x80], 1));
    }
}
