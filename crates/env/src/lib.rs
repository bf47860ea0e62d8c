//! The outside world of Spanlith: file systems, clock, threads, randomness, and their doubles.
//!
//! Everything outside the process is reached through [`Env`] (E3), so that a test can own all of
//! it and a failure has a seed.
#![deny(unsafe_code)]

pub mod traits;

pub use traits::*;
