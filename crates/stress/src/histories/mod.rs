//! Concurrent histories: real threads on few keys, and a search for one order that explains all they
//! saw.
//!
//! [`run`] opens databases with drawn options, lets threads loose on them for many short rounds and
//! records what they did; [`search`] decides about each round. A round has keys of its own, which hold
//! nothing at first, so that rounds can share a database and its background work.
//!
//! Threads interleave as they will: a seed repeats the operations, not the schedule.

mod client;
pub mod history;
mod run;
pub mod search;
#[cfg(test)]
mod tests;

pub use client::{Client, Mix, Round};
pub use run::{HistoriesPlan, HistoriesReport, run_histories};
