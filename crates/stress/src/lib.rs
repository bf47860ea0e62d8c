//! Programs that attack the engine: what it promises is checked against a reference.
//!
//! | programme | what it finds |
//! |---|---|
//! | [`model`] | wrong answers, over any sequence of operations, reopenings and crashes |
//! | [`crash`] | what is lost, invented or unopenable after a power loss at any change |
//! | [`diff`] | results and files that differ from RocksDB's, through the C functions |
//! | [`kill`] | what a killed process loses on a real disk |
//! | [`threads`] | what writers and readers at once see of each other |
#![forbid(unsafe_code)]

pub mod crash;
pub mod diff;
pub mod kill;
pub mod model;
pub mod threads;
