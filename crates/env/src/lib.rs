//! The outside world of Spanlith: file systems, clock, threads, randomness, and their doubles.
//!
//! Everything outside the process is reached through [`Env`] (E3), so that a test can own all of
//! it and a failure has a seed.
#![deny(unsafe_code)]

pub mod calls;
pub mod clock;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
pub mod device;
pub mod emulated;
mod errors;
pub mod executor;
pub mod fault;
mod lock;
pub mod mem;
pub mod paced;
pub mod posix;
mod process;
pub mod rate_limiter;
pub mod rng;
pub mod sst_file_manager;
mod sys;
mod system;
pub mod timed;
mod together;
pub mod trace;
pub mod traits;
mod uring;
pub mod watch;

pub use calls::{CallTap, CallsFs, FileCall, NoteCall};
pub use clock::{SystemClock, VirtualClock};
pub use device::{
    BlockDevice, DeviceAccess, Durability, Geometry, PosixDevice, create_device_file,
};
pub use executor::{ManualExecutor, ThreadExecutor, start_thread};
pub use fault::{Effect, FaultFs, FaultRule, OpClass, RuleId};
pub use mem::{FsOp, MemFs, Observer};
pub use paced::{PacedFile, PacedReader, SyncPace};
pub use posix::PosixFs;
pub use process::{PerProcess, Process};
pub use rate_limiter::{IoDirection, IoPriority, RateLimiter, RateLimiterMode, RateLimiterOptions};
pub use rng::{SeededRng, SystemRng};
pub use sst_file_manager::{SstFileManager, SstFileManagerOptions};
pub use sys::{Ticks, thread_number, usable_size};
pub use timed::TimedFs;
pub use together::read_together;
pub use trace::TraceFs;
pub use traits::*;
pub use watch::{IoWatch, Stalled, WatchedCall, WatchedFs};
