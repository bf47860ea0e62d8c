//! Ordered set of entries that many threads read and write: a B+-tree whose readers take no locks.
//!
//! An entry is a *record*, one allocation that never changes: lengths, key, tag, value. Leaves hold
//! pointers to records in order, inner nodes pointers to children between *separators*; a separator
//! is the first record of the child at its right. Beside each pointer stands a *word*, eight bytes
//! of the key, so that a search reads a few neighbouring lines per node and touches a record only
//! where words are equal:
//!
//! ```text
//!   node   [version][count][skip][level][link][low][high] | words … | records … | children …
//!   leaf   link = leaf at the right                                               (inner only)
//!   inner  link = child before the first separator, children[i] = child after separator i
//!   record [key len u32][value len u32][key][tag][value][checksum, if entries are protected]
//! ```
//!
//! `low` and `high` fence the keys a node can hold: low <= key < high, null where open. What both
//! fences share all keys of the node share, so words may start after the first `skip` bytes; keys
//! with a long common prefix stay cheap to tell apart.
//!
//! Why not a skiplist: a search there is a chain of some twenty dependent cache misses in a large
//! memtable, here two or three.
//!
//! **Concurrency.** Every node has a version, odd while a writer holds it. A reader notes the
//! version, reads, and looks again: if it changed, it searches anew. On the way down it looks at the
//! parent's version after it has noted the child's, so the child is the right one. A writer searches
//! like a reader and takes the leaf by compare-and-swap from the noted version, so that it knows
//! nothing changed in between. Full inner nodes are split on the way down; a split therefore takes
//! two nodes at most, node and parent, and readers see it as a whole.
//!
//! Nothing is ever removed: no node or record is freed before the memtable, every pointer a reader
//! can meet, however old, points to a live node or a whole record, and a separator always stands in
//! its leaf as the first record.
//!
//! Invariants: B1, M1 (records never change or move), M2 (user key and sequence number are new: the
//! neighbour is checked at the version under which the leaf is taken).
#![expect(
    unsafe_code,
    reason = "optimistic readers over arena memory; checked with loom"
)]

mod batch;
mod check;
mod cursor;
mod insert;
mod loader;
mod node;
mod record;
mod search;
mod totals;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, shuttle))]
#[path = "loom_tests.rs"]
mod shuttle_tests;

pub use cursor::{EntryRef, MemTableIter};
pub use loader::Loader;
pub(crate) use search::Tree;
