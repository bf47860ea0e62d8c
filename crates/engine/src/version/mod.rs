//! The durable truth about which files make up a column family.
//!
//! - [`filenames`]: names of the files of a database directory.
//! - [`edit`]: one record of the MANIFEST.
//! - [`file_meta`]: a table file as the MANIFEST describes it, and its life on disk.
//! - [`BlobFileMeta`]: a blob file as the MANIFEST describes it, and its life on disk.
//! - [`version`]: the files of all levels at one moment, immutable and searchable.
//! - [`builder`]: a version plus edits gives the next version.
//! - [`levels`]: target sizes, compaction scores and debt of a version.
//! - [`FilePaths`]: the directories tables lie in.
//!
//! Everything here is computation on memory: no I/O, no locks, no clock; except that [`TableCache`] and
//! [`TableIo`] open files.

mod blob_file;
mod blob_refs;
pub mod builder;
mod current_marks;
pub mod edit;
mod file_checksum;
pub mod file_meta;
pub mod filenames;
mod io_times;
pub mod levels;
mod paths;
mod row_cache;
mod speed_mark;
mod table_cache;
mod table_io;
#[cfg(test)]
pub(crate) mod testing;
mod value_sizes;
#[allow(clippy::module_inception)]
pub mod version;

pub use blob_file::BlobFileMeta;
pub(crate) use blob_file::blob_bytes;
pub use blob_refs::{BLOB_REFS, BlobRef, BlobRefs};
pub use builder::VersionBuilder;
pub use current_marks::{CurrentMarks, TablesMark};
pub use edit::{BlobFileAddition, BlobFileGarbage, NewFile, VersionEdit};
pub use file_checksum::{FileChecksum, FileSum};
pub use file_meta::{FileMeta, FileStats, PurgeSink, is_range_sentinel};
pub use filenames::{FileKind, parse_file_name};
pub use io_times::{IoNanos, IoTimes};
pub use levels::{BlobBudget, ForcedBlobGc, LevelOptions, LevelTargets};
pub use paths::{DbPath, FilePaths, PATHS_MAX, SPEED_PATH};
pub use row_cache::RowCache;
pub(crate) use row_cache::{Row, RowPlace, RowWriter};
pub use speed_mark::SpeedMark;
pub use table_cache::{ReaderRef, TableCache, TableReadOptions};
pub use table_io::{TableIo, TableIoOptions};
pub use value_sizes::ValueSizes;
pub use version::{Level, Version, sstable_key_compare};
