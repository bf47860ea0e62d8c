//! A simulated database: the real picker, levels, stall rules and policies on tables without values, under a virtual clock.
//!
//! Memtables fill at the rate writers are allowed, flushes and compactions share a device and slots, tables have key ranges
//! and sizes only. Hours of load pass in seconds, so that a policy can be tried with thousands of sets of parameters.
//! What it leaves out: the log, caches, reads, and the processor.

mod run;
pub mod sd;
mod tree;

pub use run::{Mishap, Outcome, Params, Sight, random_params, run, run_settled, waits};
