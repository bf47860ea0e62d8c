//! Filters: may a table hold a key?
//!
//! A full filter is one uncompressed block over all user keys of the table. Its last five bytes say
//! what it is; whatever this build cannot interpret answers "maybe", which is always correct. False
//! negatives are forbidden.

mod bloom;
mod hash;
mod probe;

pub use bloom::{FilterBuilder, sanitize_bits};
pub use hash::hash64;
pub use probe::Filter;
pub(crate) use probe::prefetch;

/// Name of the full filter's block in the metaindex. All built-in policies share it.
pub const FULL_FILTER_NAME: &str = "fullfilter.rocksdb.BuiltinBloomFilter";
