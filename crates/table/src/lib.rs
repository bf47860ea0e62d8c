//! Sorted table files in RocksDB's block-based format.
//!
//! A table is an immutable file of blocks: data blocks with the entries in internal-key order, a
//! filter, an index, properties, a directory of these ("metaindex") and a footer. The [`builder`]
//! writes it front to back; the [`reader`] opens it from the footer, answers point lookups and
//! hands out [`TableIter`]s.
//!
//! ```text
//!   data blocks | filter | index | properties | metaindex | footer
//! ```
//!
//! Format versions 0 to 7 are read and 2 to 7 written, with RocksDB's codecs, checksums, indexes and
//! filters. Every other feature found in a file is refused with `NotSupported` and its name; nothing is
//! guessed.
//!
//! Invariants: T1 (keys strictly increase; bounds and properties describe the contents), T2 (no byte
//! is interpreted before its checksum is verified, unless the caller opted out), T3 (a finished file
//! never changes), B3 (any bytes decode to a value or an error).
//!
//! Threads: a reader is shared freely; an iterator or builder belongs to one thread at a time.
#![deny(unsafe_code)]

pub mod block;
pub mod builder;
pub mod collector;
pub mod filter;
pub mod format;
pub mod iter;
pub mod options;
pub mod properties;
pub mod reader;
pub mod unique_id;

mod activity;
mod charges;
mod choice;
mod counters;
mod flat;
mod index;
mod lookups;
mod meter;
mod output;
mod readahead;
mod sampling;
mod timestamps;

pub use activity::ReadActivity;
pub use block::{Block, CacheRole};
pub use builder::{ContentHash, TableBuilder, TableSummary};
pub use charges::{
    CacheCharges, CacheUsageOptions, Charge, Charged, MemoryCharge, StatisticsEntry, charge,
};
pub use choice::{CodecChoice, CodecMemory, CommonPrefix};
pub use collector::{
    CollectedEntry, CollectorContext, Collectors, CompactOnDeletion, TablePropertiesCollector,
    TablePropertiesCollectorFactory,
};
pub use filter::{FilterBalance, FilterKind};
pub use flat::{CuckooOptions, PlainEncoding, PlainOptions, TableFormat};
pub use format::{CompressionOptions, Compressor};
pub use index::IndexType;
pub use iter::TableIter;
pub use lookups::{BlockLookup, CachedKind, GetLookup, LookupTap, Lookups, NoteLookup, Sought};
pub use meter::WriteCounters;
pub use options::{
    AutoReadahead, BuilderOptions, IndexShortening, ReadCounters, ReadParams, ReaderOptions,
    TableOptions,
};
pub use properties::TableProperties;
pub use reader::{
    KeyAnchor, PrefixSeek, RangeTombstone, TableDump, TableGet, TableReader, ThreadReads,
    VisitEntry, prefix_ends_at, reads_of_thread,
};

/// The cache of blocks in their uncompressed form, with the search arrays beside the bytes.
pub type BlockCache = spanlith_cache::Cache<Block>;
