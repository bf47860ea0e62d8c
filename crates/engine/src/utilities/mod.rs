//! Whole-database operations built from the verbs.

mod checkpoint;
mod copy;
mod ingest;
mod sst_writer;
mod storage;

pub use ingest::{IngestOptions, Ingestion};
pub use sst_writer::{SstFile, SstWriter};
pub use storage::{StorageFile, StorageKind, StorageOptions};
