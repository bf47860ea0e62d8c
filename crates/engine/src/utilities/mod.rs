//! Whole-database operations built from the verbs.

mod backup;
mod checkpoint;
mod copy;
mod dirs;
mod export;
mod ingest;
mod repair;
mod replay;
mod sst_writer;
mod storage;

pub use backup::{
    BackupEngine, BackupInfo, BackupNames, BackupOptions, CreateBackupOptions, ExcludeFile,
    RestoreMode, RestoreOptions,
};
pub use export::ExportedFamily;
pub use ingest::{ImportOptions, IngestOptions, Ingestion};
pub use repair::{LostFile, RemadeManifest, RepairReport, remake_manifest};
pub use replay::{ReplayOptions, ReplaySummary, Replayed, Replayer};
pub use sst_writer::{SstFile, SstWriter};
pub use storage::{StorageFile, StorageKind, StorageOptions};
