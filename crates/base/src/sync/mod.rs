//! Synchronisation: ranked mutexes and the cell that publishes superversions.
//!
//! [`atomic`] is std's, or loom's under `cfg(loom)`, so that the lock-free parts can be model
//! checked with the code that ships.

mod arc_cell;
mod group_queue;
mod mutex;

pub use arc_cell::{ArcCell, Guard};
pub use group_queue::{Group, GroupQueue, Role, Waiter};
pub use mutex::{Condvar, Mutex, MutexGuard};

/// std's or loom's atomics.
pub mod atomic {
    #[cfg(loom)]
    pub use loom::sync::atomic::*;
    #[cfg(not(loom))]
    pub use std::sync::atomic::*;
}
