//! Spanlith: an embedded log-structured merge-tree key-value store that reads and writes RocksDB's
//! own files.
//!
//! ```
//! use spanlith::Db;
//! # fn main() -> spanlith::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("spanlith-doc-{}", std::process::id()));
//! let db = Db::open(&dir)?;
//! let cf = db.default_cf();
//! cf.put("language", "Rust")?;
//! assert_eq!(cf.get("language")?.as_deref(), Some(&b"Rust"[..]));
//! for entry in cf.iter() {
//!     let (key, value) = entry?;
//!     println!("{} = {}", key.escape_ascii(), value.escape_ascii());
//! }
//! db.close()?;
//! # std::fs::remove_dir_all(&dir).ok();
//! # Ok(())
//! # }
//! ```
//!
//! Modules, from the user's side down; a module uses only those after it:
//! `utilities > txn > requests > db > inspect > recovery > write > read > flush > compaction > output > core > picker > iter > blob > version > ttl >
//! merge > trace > info_log > options > filter > locks`.
#![deny(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read fixtures")
)]

pub mod blob;
mod commit;
mod compaction;
mod core;
mod db;
mod filter;
mod flush;
mod info_log;
pub mod inspect;
mod iter;
pub mod listener;
mod locks;
mod merge;
pub mod options;
mod output;
pub mod picker;
mod read;
mod recovery;
mod requests;
pub mod trace;
pub mod ttl;
mod txn;
mod utilities;
pub mod version;
mod write;

pub use crate::compaction::{
    BlobGcChoice, BlobGcPolicy, BottommostCompaction, CompactFilesOptions, CompactRangeOptions,
    KeyRange,
};
pub use crate::core::{DefaultCache, Snapshot, StatsSlice, WriteClass};
pub use core::SpeedSource;
pub use db::{
    Cf, Change, Changes, Cursor, Db, FamilyOptions, IndexResidency, Iter, LevelMetric, LiveFile,
    LogFile, MemoryOwner, Metrics, OpenBuilder, PaceMetric, Secondary, SizeOf, StallMetric,
    TimedValue, ValueRange, WeakDb, WriteMetric, WrittenBytes,
};
#[doc(hidden)]
pub use db::{OpenHook, set_open_hook};
pub use filter::{
    CompactionFilter, CompactionFilterFactory, FilterContext, FilterDecision, FilterValue,
    RemoveEmptyValues, TableCreation, filter_by_name,
};
pub use info_log::Logger;
pub use inspect::{Finding, Grade, VerifyLevel, VerifyOptions, VerifyProgress, VerifyReport};
pub use iter::TableFilter;
pub use listener::EventListener;
pub use locks::{LockMode, LockOptions};
pub use merge::{
    BytesXor, Max, MergeBase, MergeOperator, MergeResult, Put, SortList, StringAppend,
    StringAppendTest, UInt64Add, Unfolded, operator_by_name, operator_of,
};
pub use options::FlushOptions;
pub use read::{Entity, ReadOptions, ReadPurpose, ReadTier, wrong_purpose};
pub use recovery::{
    MovedTables, PathsOf, TablesAt, ToFiles, WalFilter, WalVerdict, migrate_tables_to_files,
    migrate_to_files, migrate_to_speed_disk,
};
pub use requests::{AsyncCf, Page, ReadFuture, WriteFuture};
pub use spanlith_base::WriteBufferManager;
pub use spanlith_base::{
    Comparator, Error, ErrorKind, Pinned, Result, SequenceNumber, Severity, SubCode, UserComparator,
};
pub use spanlith_env::Env;
pub use spanlith_table::{
    CollectedEntry, CollectorContext, Collectors, CompactOnDeletion, TableProperties,
    TablePropertiesCollector, TablePropertiesCollectorFactory,
};
pub use txn::{
    Below, Found, IndexedBatch, Overlay, OverlayParts, Transaction, TxnCursor, TxnOptions, TxnState,
};
pub use utilities::{
    BackupEngine, BackupInfo, BackupNames, BackupOptions, CreateBackupOptions, ExcludeFile,
    RestoreMode, RestoreOptions,
};
pub use utilities::{ExportedFamily, ImportOptions, IngestOptions, Ingestion, SstFile, SstWriter};
pub use utilities::{LostFile, RemadeManifest, RepairReport, remake_manifest};
pub use utilities::{ReplayOptions, ReplaySummary, Replayed, Replayer};
pub use utilities::{StorageFile, StorageKind, StorageOptions};
pub use version::DbPath;
pub use write::{FamilyRef, WriteBatch, WriteOptions};
