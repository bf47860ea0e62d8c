//! Log records, write batches and their readers.
//!
//! One framing ([`record`]) serves write-ahead logs and MANIFESTs; the payload of a write-ahead log
//! record is one [`WriteBatch`].
//!
//! - [`LogWriter`] turns payloads into records and appends them to a file.
//! - [`LogReader`] turns a file back into payloads and reports damage as events; what damage means
//!   is decided by the caller's recovery mode.
//! - [`LogStore`] is where logs are, by number: files ([`FileLogs`]), memory for tests ([`MemLogs`]).
//! - [`WriteBatch`] collects updates in RocksDB's encoding; [`BatchIter`] walks such bytes.
//!
//! Bytes are RocksDB's. Nothing here knows what a column family, a memtable or a version edit is.
#![forbid(unsafe_code)]

pub mod batch;
pub mod batch_iter;
pub mod compression;
mod entry;
mod framer;
mod mem_logs;
pub mod reader;
pub mod record;
mod salvage;
mod search;
pub mod store;
pub mod writer;

pub use batch::{
    BATCH_HEADER_SIZE, ContentFlags, WriteBatch, entry_checksums, reconcile_timestamps,
    verify_checksums,
};
pub use batch_iter::{BatchIter, BatchOp, PrepareKind};
pub use entry::{ENTRY_OVERHEAD_MAX, batch_header, push_entry, push_entry_head};
pub use mem_logs::MemLogs;
pub use reader::{COMPRESSED_RECORD_MAX, CorruptionKind, LogReader, ReadEvent};
pub use salvage::{Met, Salvaged, each_record, each_salvaged};
pub use search::{Search, is_whole_but_for_length, search_records};
pub use store::{FileLogs, LogPlace, LogStore};
pub use writer::{LogOptions, LogWriter};
