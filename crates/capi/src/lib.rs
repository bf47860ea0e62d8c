//! RocksDB's C API, version 11.8 (or, by a feature, an older one), over Spanlith.
//!
//! One file per handle. A handle is a `Box` whose pointer the C program holds; what several of them
//! share (database, cache, operators) is counted, so handles may be destroyed in any order, also
//! after the database was closed. Nothing here decides anything about data: arguments, errors and
//! results are converted, the engine does the rest.
//!
//! A function that is missing here is missing on purpose: what the engine cannot honour is not
//! exported, or is stored and refused by name when the database is opened or the object is used.
//! Only hints are accepted and ignored; `docs/compat.md` lists them all.
//!
//! # Errors
//! Functions with an `errptr` leave `*errptr` alone on success and replace it with a text from
//! `malloc` on failure. Functions without one swallow errors, as RocksDB's do.
//!
//! # Panics (A1)
//! A panic does not leave a function: with an `errptr` it is reported as `Operation aborted: …`,
//! without one the process aborts.
//!
//! # Safety
//! The promises of a C program, which every function relies on:
//!
//! - a handle comes from the function that makes its kind and was not destroyed since;
//! - a pointer with a length is valid for that many bytes, or the length is 0;
//! - a pointer without a length is a NUL-terminated string, or valid for the one value at it;
//! - an array has as many elements as its count says;
//! - `errptr` is valid, and `*errptr` is NULL or comes from `malloc`;
//! - handles that RocksDB wants used by one thread at a time are.
//!
//! NULL is allowed wherever RocksDB allows it, and for every `destroy`.
#![allow(
    non_camel_case_types,
    reason = "types carry the names they have in RocksDB's header"
)]

#[macro_use]
mod macros;
mod backup;
mod backup_options;
mod batch;
mod batch_iterate;
mod batch_updates;
mod batch_with_index;
mod blob_info;
mod cache;
mod catalog;
mod checkpoint;
mod compact_files;
mod compaction_filter;
mod compaction_options;
mod comparator;
mod convert;
mod db;
mod env;
mod event_listener;
mod export;
mod family;
mod ffi;
mod file_checksum;
mod filter_policy;
mod generation;
mod get;
mod hint_sets;
mod ingest;
mod iterator;
mod job_info;
mod job_options;
mod job_stats;
mod latest_options;
mod live_files;
mod logger;
mod maintenance;
mod memory_allocator;
mod memory_usage;
mod merge_operator;
mod metadata;
mod multi_get;
mod newer_reads;
mod older;
mod optimistic_db;
mod options;
mod options_components;
mod options_presets;
mod options_rows;
mod options_text;
mod own_options;
mod perf;
mod pinned;
mod property;
mod rate_limiter;
mod read_components;
mod read_options;
mod repair;
mod replay;
mod requests;
mod set_options;
mod shared;
mod sizes;
mod slice_transform;
mod snapshot;
mod sst_file_manager;
mod sst_file_writer;
mod statistics;
mod storage_info;
mod table_options;
mod table_properties;
mod timestamps;
mod trace;
mod transaction;
mod transaction_db;
mod transaction_reads;
mod ttl;
mod txn_options;
mod wal_files;
mod wal_filter;
mod wal_iterator;
mod write;
mod write_buffer_manager;
mod write_options;

pub use backup::*;
pub use backup_options::*;
pub use batch::*;
pub use batch_iterate::*;
pub use batch_updates::*;
pub use batch_with_index::*;
pub use blob_info::*;
pub use cache::*;
pub use catalog::*;
pub use checkpoint::*;
pub use compact_files::*;
pub use compaction_filter::*;
pub use compaction_options::*;
pub use comparator::*;
pub use db::*;
pub use env::*;
pub use event_listener::*;
pub use export::*;
pub use family::*;
pub use ffi::{rocksdb_free, rocksdb_slice_t};
pub use file_checksum::*;
pub use filter_policy::*;
pub use get::*;
pub use hint_sets::*;
pub use ingest::*;
pub use iterator::*;
pub use job_info::*;
pub use job_options::*;
pub use job_stats::*;
pub use latest_options::*;
pub use live_files::*;
pub use logger::*;
pub use maintenance::*;
pub use memory_allocator::*;
pub use memory_usage::*;
pub use merge_operator::*;
pub use metadata::*;
pub use multi_get::*;
pub use newer_reads::*;
pub use older::*;
pub use optimistic_db::*;
pub use options::*;
pub use options_components::*;
pub use options_presets::*;
pub use options_rows::*;
pub use options_text::*;
pub use own_options::*;
pub use perf::*;
pub use pinned::*;
pub use property::*;
pub use rate_limiter::*;
pub use read_components::*;
pub use read_options::*;
pub use repair::*;
pub use replay::*;
pub use requests::*;
pub use set_options::*;
pub use sizes::*;
pub use slice_transform::*;
pub use snapshot::*;
pub use sst_file_manager::*;
pub use sst_file_writer::*;
pub use statistics::*;
pub use storage_info::*;
pub use table_options::*;
pub use table_properties::*;
pub use timestamps::*;
pub use trace::*;
pub use transaction::*;
pub use transaction_db::*;
pub use transaction_reads::*;
pub use ttl::*;
pub use txn_options::*;
pub use wal_files::*;
pub use wal_filter::*;
pub use wal_iterator::*;
pub use write::*;
pub use write_buffer_manager::*;
pub use write_options::*;
