//! The durable truth about which files make up a column family.
//!
//! - [`filenames`]: names of the files of a database directory.
//! - [`edit`]: one record of the MANIFEST.
//! - [`file_meta`]: a table file as the MANIFEST describes it, and its life on disk.
//! - [`builder`]: a version plus edits gives the next version.
//!
//! Everything here is computation on memory: no I/O, no locks, no clock.

pub mod builder;
pub mod edit;
pub mod file_meta;
pub mod filenames;
#[allow(clippy::module_inception)]
pub mod version;

pub use builder::VersionBuilder;
pub use edit::{NewFile, VersionEdit};
pub use file_meta::{FileMeta, FileStats, PurgeSink};
pub use filenames::{FileKind, parse_file_name};
pub use version::{Level, Version};
