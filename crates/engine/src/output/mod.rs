//! Describes what flushes, compactions and recovery write: tables, and blob files for large values.
//!
//! ```text
//!   CompactionIter ──► ValueSink ──► TableOutput ──► TableBuilder, bounds of the table
//!                          └──► BlobFileWriter       (only if values are separated or relocated)
//! ```
//!
//! A job without separation has no sink, which costs one test of an option per entry.

mod sink;
mod table;

pub(crate) use sink::{NewBlobFiles, OldFiles, ValueSink};
pub(crate) use table::{TableEnd, TableOutput, TableTarget, builder_options};
