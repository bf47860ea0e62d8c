//! Plain tables: records one after the other, with nothing between them.
//!
//! ```text
//!   records | [bloom] | [index] | properties | metaindex | footer
//! ```
//!
//! A record is a key, a tag and a value. With *prefix encoding* a key leaves out what it shares with the first key of
//! its prefix. Bloom filter and index are there only on request (`store_index_in_file`), for RocksDB: what is read here
//! is an index of our own, made when the table is first asked for something. `docs/formats/plain.md` describes the format.

mod build;
mod index;
mod read;
mod record;

pub(crate) use build::PlainBuilder;
pub(crate) use read::PlainTable;

pub(crate) const ENCODING: &str = "rocksdb.plain.table.encoding.type";
pub(crate) const BLOOM_VERSION: &str = "rocksdb.plain.table.bloom.version";
pub(crate) const BLOOM_BLOCKS: &str = "rocksdb.plain.table.bloom.numblocks";
/// Name of the stored Bloom filter in the metaindex.
pub(crate) const BLOOM: &str = "kBloomBlock";
/// Name of the stored index in the metaindex.
pub(crate) const INDEX: &str = "PlainTableIndexBlock";

/// Most bytes of a file: offsets in the stored index have 31 bits.
const FILE_SIZE_MAX: u64 = (1 << 31) - 1;
/// Stands after a key instead of the tag of a value of number 0.
const VALUE_OF_NUMBER_0: u8 = 0xff;

/// How the keys of a plain table are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainEncoding {
    /// Whole.
    #[default]
    Plain,
    /// Without what they share with the first key of their prefix. Needs a prefix extractor.
    Prefix,
}

/// How plain tables are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlainOptions {
    /// Bytes of every user key; 0 if they differ.
    pub user_key_len: u32,
    /// Bits of the stored Bloom filter for each key; none without any.
    pub bloom_bits_per_key: i32,
    /// Prefixes for each bucket of the stored index; 0 has one bucket for all. Above 0 it needs a prefix extractor.
    pub hash_table_ratio: f64,
    /// Keys of a prefix for each entry of the stored index, and for each whole key with prefix encoding.
    pub index_sparseness: u64,
    /// Kept, and means nothing: how RocksDB allocates its index.
    pub huge_page_tlb_size: u64,
    /// How keys are stored.
    pub encoding_type: PlainEncoding,
    /// Kept, and means nothing: RocksDB's reader then has no index.
    pub full_scan_mode: bool,
    /// Store index and Bloom filter in the file.
    pub store_index_in_file: bool,
    /// Above 0 the probes of a key in the stored Bloom filter lie in one cache line (the family's `bloom_locality`).
    pub bloom_locality: u32,
}

impl Default for PlainOptions {
    fn default() -> Self {
        Self {
            user_key_len: 0,
            bloom_bits_per_key: 10,
            hash_table_ratio: 0.75,
            index_sparseness: 16,
            huge_page_tlb_size: 0,
            encoding_type: PlainEncoding::Plain,
            full_scan_mode: false,
            store_index_in_file: false,
            bloom_locality: 0,
        }
    }
}
