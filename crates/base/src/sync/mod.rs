//! Synchronisation: ranked mutexes and the cell that publishes superversions.
//!
//! [`atomic`], [`thread`] and what the mutex is made of are std's, or loom's under `cfg(loom)`, or
//! shuttle's under `cfg(shuttle)`, so that the lock-free parts, and with shuttle all that stands on
//! them, can be model checked with the code that ships. Under loom the mutex stays std's.

mod arc_cell;
mod byte_ring;
mod commit_order;
#[cfg(shuttle)]
mod explore;
mod group_queue;
mod mutex;

pub use arc_cell::{ArcCell, Guard};
pub use byte_ring::{Fill, Producer, RECORD_HEAD, RECORD_MAX, Ring};
pub use commit_order::{CommitOrder, Ticket};
#[cfg(shuttle)]
pub use explore::explore;
pub use group_queue::{Group, GroupQueue, Role, Waiter};
pub use mutex::{Condvar, Mutex, MutexGuard, assert_no_lock_is_held, assert_only_tokens_are_held};

/// std's, loom's or shuttle's atomics.
pub mod atomic {
    #[cfg(loom)]
    pub use loom::sync::atomic::*;
    #[cfg(shuttle)]
    pub use shuttle::sync::atomic::*;
    #[cfg(not(any(loom, shuttle)))]
    pub use std::sync::atomic::*;
}

/// std's, loom's or shuttle's ways to pass time.
pub mod thread {
    #[cfg(loom)]
    pub use loom::thread::yield_now;
    #[cfg(shuttle)]
    pub use shuttle::thread::yield_now;
    #[cfg(not(any(loom, shuttle)))]
    pub use std::thread::yield_now;

    /// Passes a moment in a loop that waits for another thread. In models the other thread runs.
    #[inline]
    pub fn spin() {
        #[cfg(not(any(loom, shuttle)))]
        std::hint::spin_loop();
        #[cfg(any(loom, shuttle))]
        yield_now();
    }
}

/// Describes what mutexes are made of. Under loom std's: its models know no locks of ours.
mod locks {
    #[cfg(shuttle)]
    pub(super) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    #[cfg(not(shuttle))]
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
}
