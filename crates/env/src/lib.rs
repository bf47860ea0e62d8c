//! The outside world of Spanlith: file systems, clock, threads, randomness, and their doubles.
//!
//! Everything outside the process is reached through [`Env`] (E3), so that a test can own all of
//! it and a failure has a seed.
#![deny(unsafe_code)]

pub mod clock;
mod errors;
pub mod executor;
mod lock;
pub mod mem;
pub mod posix;
pub mod rng;
mod sys;
mod system;
pub mod traits;

pub use clock::{SystemClock, VirtualClock};
pub use executor::{ManualExecutor, ThreadExecutor};
pub use mem::{FsOp, MemFs};
pub use posix::PosixFs;
pub use rng::{SeededRng, SystemRng};
pub use traits::*;
