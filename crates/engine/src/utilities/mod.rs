//! Whole-database operations built from the verbs.

mod checkpoint;
mod copy;
mod storage;

pub use storage::{StorageFile, StorageKind, StorageOptions};
