//! Programs that attack the engine: what it promises is checked against a reference.
//!
//! | programme | what it finds |
//! |---|---|
//! | [`model`] | wrong answers, over any sequence of operations, reopenings and crashes |
//! | [`beside`] | nothing: it counts what damage and failing calls do to us and to RocksDB |
//! | [`crash`] | what is lost, invented or unopenable after a power loss at any change |
//! | [`damage`] | what is silent, or panics, after damage to a file at rest |
//! | [`diff`] | results and files that differ from RocksDB's, through the C functions |
//! | [`faults`] | what one failing call loses, stops for good or hides |
//! | [`histories`] | concurrent operations that no single order explains |
//! | [`interrupts`] | who notices interrupted and short system calls |
//! | [`kill`] | what a killed process loses on a real disk |
//! | [`large`] | entries of 4 GiB and batches beyond that get lost or stop the database |
//! | [`threads`] | what writers and readers at once see of each other |
//!
//! [`watchdog`] ends a programme whose piece of work does not end.
#![forbid(unsafe_code)]

pub mod beside;
pub mod crash;
pub mod damage;
pub mod diff;
pub mod faults;
pub mod histories;
pub mod interrupts;
pub mod kill;
pub mod large;
pub mod model;
mod pool;
pub mod threads;
pub mod watchdog;
