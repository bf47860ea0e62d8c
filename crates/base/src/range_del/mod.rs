//! Range tombstones: "all keys from start up to end, older than this, are deleted".
//!
//! ```text
//!   fragments    one source's tombstones as disjoint ranges, each with its sequence numbers
//!   heads        words by which such a list is searched
//!   truncated    such a list, cut to the bounds of the file it comes from
//!   coverage     is this entry deleted? over many sources, for keys that come almost in order
//!   compaction   what a compaction may drop, and the tombstones of its output files
//!   span         the stretch around a key within which answers stay the same
//!   place        positions between internal keys, which the cuts are made at
//! ```
//!
//! A tombstone of sequence number *t* deletes the entries of keys in its range with numbers
//! *strictly* below *t*, for readers at *t* or later.
//!
//! With timestamps, start and end of a tombstone carry the same timestamp; ranges are compared
//! without it, and a tombstone counts for readers at its timestamp or later.

mod compaction;
mod coverage;
mod fragments;
mod heads;
mod place;
mod span;
#[cfg(test)]
mod tests;
mod truncated;

pub use compaction::{CompactionRangeDels, OutputBounds, OutputTombstone, before_versions};
pub use coverage::{CoverageCursor, ReadBound};
pub use fragments::{Fragment, FragmentedTombstones, RangeTombstone};
pub use place::{Place, PlaceBuf};
pub use truncated::{TruncatedIter, TruncatedTombstones};
