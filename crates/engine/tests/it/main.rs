//! Tests of the engine through its public API.
#![allow(clippy::disallowed_methods, reason = "tests look at real files")]

mod basic;
mod best_efforts;
mod blobs;
mod bounds;
mod cache_usage;
mod checksums;
mod collectors;
mod compaction;
mod concurrency;
mod core_options;
mod counted;
mod damage;
mod errors;
mod evidence;
mod examples;
mod families;
mod fault;
mod files;
mod golden;
mod manifest;
mod multi_get;
mod order;
mod properties;
mod ranges;
mod reads;
mod regressions;
mod row_cache;
mod set_options;
mod shape;
mod times;
mod timestamps;
mod wal_filter;
mod wal_forms;
mod wal_life;
mod wal_recovery;
