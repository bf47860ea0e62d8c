//! Ordered list of entries that many threads read and write without locks.
//!
//! A node is one allocation of the arena; its links stand before it, its bytes behind:
//!
//! ```text
//!   [link h-1] … [link 1] | [link 0][prefix u64][key len u32][value len u32] | key, tag | value
//!                         ^ node
//! ```
//!
//! `prefix` is the comparator's word for the user key; most comparisons end with it. Each level is
//! a sorted singly linked list; level *n* holds a quarter of the entries of level *n*-1.
//!
//! Insertion finds the neighbours of the new key on each level (a *splice*), writes the node, then
//! links it level by level from the bottom, each with one compare-and-swap. A node is in the list
//! from the moment its bottom link is in place; upper links only shorten searches.
//!
//! Invariants: M1 (a linked node's bytes never change; only its links do), M2 (user key and
//! sequence number are new: checked where the bottom link is placed, so that of two racing inserts
//! of the same pair exactly one succeeds).
//!
//! Threads: any number of readers and writers. Links are published with Release and followed with
//! Acquire; that makes a node's bytes visible. One writer at a time may own the remembered splice
//! that makes inserts in key order cheap; others search from the top.
#![expect(
    unsafe_code,
    reason = "lock-free list in arena memory; checked with loom"
)]

mod batch;
mod cursor;
mod insert;
mod list;
mod node;

#[cfg(all(test, loom))]
mod loom_tests;

pub use cursor::{EntryRef, MemTableIter};
pub(crate) use list::SkipList;
