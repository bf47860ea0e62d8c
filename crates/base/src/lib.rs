//! Vocabulary shared by all crates of Spanlith.
//!
//! Internal keys and their order, comparators, errors with RocksDB's texts, integer coding,
//! checksums, pinned bytes, and the synchronisation primitives the engine is built on.
//!
//! This crate opens no file, spawns no thread and asks no clock (docs/architecture.md, "Who may use whom").
#![deny(unsafe_code)]

pub mod byte_text;
pub mod callbacks;
pub mod checksum;
pub mod coding;
pub mod comparator;
pub mod compression;
mod crc32c;
pub mod error;
pub mod histogram;
pub mod iostats;
pub mod keys;
pub mod memory;
pub mod perf;
pub mod pinned;
pub mod range_del;
pub mod slice_transform;
pub mod stats;
pub mod sync;
pub mod timestamp;
pub mod wide_columns;
pub mod write_buffer_manager;

pub use comparator::{Comparator, UserComparator};
pub use compression::CompressionType;
pub use error::{Error, ErrorKind, Result, Severity, SubCode};
pub use keys::{FileNumber, MAX_SEQUENCE, SequenceNumber, ValueType};
pub use pinned::Pinned;
pub use slice_transform::{SliceTransform, UserSliceTransform};
pub use write_buffer_manager::WriteBufferManager;
