//! Statistics of a trace of queries: how often each key was asked for, when, and by which operation.
//!
//! [`Analysis::read`] goes over the trace once and keeps, for each operation and column family, the
//! distinct keys with their counts; [`Analysis::write_files`] and [`Analysis::print`] tell them in the files
//! and words of RocksDB's `trace_analyzer`, whose readers (scripts that plot and fit) then work as they are.
//! Memory: what [`AnalyzerOptions::memory_bytes`] allows for keys, of which others wait in sorted files; eight bytes for each second
//! of an operation and family; with prefixes, an entry for each that occurs in a second.
//!
//! Numbers that `trace_analyzer` counts in its own way are counted so here, too, since the files are compared
//! with those of others: where there is no value it counts ten bytes, and every access as a success; the number of keys over time is noted only by the
//! first operation that sees a new second; the last part of a second has no line; the prefix that comes
//! first is `0` and the last one has no line.

mod accesses;
mod collect;
mod files;
mod keys;
mod operation;
mod options;
mod print;
mod spool;
mod table;
#[cfg(test)]
mod tests;

pub use accesses::{BlockSums, CallSums, Calls, Lookups};
pub use collect::{Access, Analysis, Told, Totals};
pub use files::{KeySpaces, Sink};
pub use operation::Operation;
pub use options::AnalyzerOptions;
pub(crate) use table::{KeyStats, KeyTable};
