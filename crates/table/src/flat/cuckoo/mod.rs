//! Cuckoo tables: a hash table of buckets of equal size, each of them empty or a key with its value.
//!
//! ```text
//!   buckets: table size + block size - 1, each key and value | properties | metaindex | footer
//! ```
//!
//! A key is in one of the `block size` buckets from where one of the table's hash functions sends it on.
//! A bucket whose key is the *empty key* of the properties holds nothing. In tables of the last level keys
//! have no tag and count as values of number 0. All keys have one length, and all values.
//! `docs/formats/cuckoo.md` describes the format.

mod build;
mod hash;
mod read;

pub(crate) use build::CuckooBuilder;
pub(crate) use read::CuckooTable;

pub(crate) const EMPTY_KEY: &str = "rocksdb.cuckoo.bucket.empty.key";
pub(crate) const HASH_FUNCTIONS: &str = "rocksdb.cuckoo.hash.num";
pub(crate) const TABLE_SIZE: &str = "rocksdb.cuckoo.hash.size";
pub(crate) const VALUE_LENGTH: &str = "rocksdb.cuckoo.value.length";
pub(crate) const IS_LAST_LEVEL: &str = "rocksdb.cuckoo.file.islastlevel";
pub(crate) const BLOCK_SIZE: &str = "rocksdb.cuckoo.hash.cuckooblocksize";
pub(crate) const IDENTITY_FIRST: &str = "rocksdb.cuckoo.hash.identityfirst";
pub(crate) const USE_MODULE_HASH: &str = "rocksdb.cuckoo.hash.usemodule";
pub(crate) const USER_KEY_LENGTH: &str = "rocksdb.cuckoo.hash.userkeylength";

/// Most hash functions that a table has.
const HASH_FUNCTIONS_MAX: u32 = 64;

/// How cuckoo tables are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CuckooOptions {
    /// Share of the buckets that is in use at most.
    pub hash_table_ratio: f64,
    /// Moves of keys, one for the sake of another, that are tried at most before a hash function is added.
    pub max_search_depth: u32,
    /// Buckets in a row that a hash leads to.
    pub cuckoo_block_size: u32,
    /// The first hash is the first eight bytes of the key: for keys that are hashes already.
    pub identity_as_first_hash: bool,
    /// Hashes are reduced by a division; else by a mask, and the number of buckets is a power of two.
    pub use_module_hash: bool,
}

impl Default for CuckooOptions {
    fn default() -> Self {
        Self {
            hash_table_ratio: 0.9,
            max_search_depth: 100,
            cuckoo_block_size: 5,
            identity_as_first_hash: false,
            use_module_hash: true,
        }
    }
}
