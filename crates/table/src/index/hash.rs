//! Writes the meta blocks of a hash-search index: the prefixes of the table in order, and for each
//! its length, the first data block that has it, and the number of data blocks it goes on over.

use spanlith_base::SliceTransform;
use spanlith_base::coding::put_varint32;

/// Name of the block with the prefixes, one behind the other.
const PREFIXES: &str = "rocksdb.hashindex.prefixes";
/// Name of the block with lengths and data blocks.
const METADATA: &str = "rocksdb.hashindex.metadata";

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
