//! In-memory write buffer of Spanlith.
//!
//! A [`MemTable`] holds the newest entries of one column family in key order until they are flushed
//! to a table. It knows neither files nor logs nor options of the database.
//!
//! ```text
//!   memtable   the public type: counters, the rule that says when it is full
//!   tree       ordered set of entries: optimistic B+-tree, its readers and writers, batched inserts
//!   arena      memory of the nodes: concurrent bump allocation in growing blocks
//! ```
//!
//! Invariants: M1 (a linked entry is immutable and stays put until the memtable is dropped), M2 (no
//! two entries share user key and sequence number). Range tombstones are the engine's business.
#![deny(unsafe_code)]

mod arena;
mod memtable;
mod tree;

pub use memtable::{Entry, MemTable};
pub use tree::{EntryRef, MemTableIter};
