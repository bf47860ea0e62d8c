//! In-memory write buffer of Spanlith.
//!
//! A [`MemTable`] holds the newest entries of one column family in key order until they are flushed
//! to a table. It knows neither files nor logs nor options of the database.
//!
//! ```text
//!   memtable   the public type: counters, the rule that says when it is full
//!   tree       ordered set of entries: optimistic B+-tree, its readers and writers, batched inserts
//!   range_dels range tombstones, which the tree does not hold
//!   dead_runs  ranges in which readers found nothing
//!   protection optional checksums of entries
//!   bloom      optional filter of keys or prefixes in front of the tree
//!   arena      memory of the nodes: concurrent bump allocation in growing blocks
//! ```
//!
//! Invariants: M1 (a linked entry is immutable and stays put until the memtable is dropped), M2 (no
//! two entries share user key and sequence number).
//! Which entries the range tombstones delete is the reader's business.
#![deny(unsafe_code)]

mod arena;
mod bloom;
mod dead_runs;
mod memtable;
mod protection;
mod range_dels;
mod tree;

pub use bloom::BloomOptions;
pub use dead_runs::{DEAD_RUN_KEYS_MIN, DeadRunEntry, DeadRunReader, DeadRunWatch, Found};
pub use memtable::{Entry, MemTable, MemTableOptions};
pub use protection::Protection;
pub use tree::{EntryRef, Loader, MemTableIter};
