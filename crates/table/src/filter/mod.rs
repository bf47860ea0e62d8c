//! Filters: may a table hold a key?
//!
//! A filter is an uncompressed block over all user keys of the table, or over a part of them, and
//! over their prefixes if there is a prefix extractor. Its last five bytes say what it is; whatever
//! this build cannot interpret answers "maybe", which is always correct. False negatives are
//! forbidden.
//!
//! [`Filter`] asks. The writer gathers the entries of a table and builds the filter, in one piece or
//! in partitions; [`FilterPolicy`] says of which kind.

mod balance;
mod bloom;
mod entries;
mod hash;
pub(crate) mod hash32;
mod legacy;
mod policy;
mod probe;
mod rate;
mod ribbon;
mod writer;

pub use balance::FilterBalance;
pub use bloom::FilterBuilder;
pub use hash::hash64;
pub use policy::{BOTTOMMOST, FilterKind, FilterPolicy};
pub use probe::Filter;
pub(crate) use probe::prefetch;
pub use rate::sanitize_bits;
pub(crate) use writer::{FilterWriter, Finished};

/// Name of the full filter's block in the metaindex. All built-in policies share it.
pub const FULL_FILTER_NAME: &str = "fullfilter.rocksdb.BuiltinBloomFilter";
/// Name of the top level of a partitioned filter in the metaindex.
pub const PARTITIONED_FILTER_NAME: &str = "partitionedfilter.rocksdb.BuiltinBloomFilter";
