//! Sharded memory cache of Spanlith.
//!
//! A [`Cache`] maps a file id and a block position to a shared value and keeps the sum of the
//! charges within a capacity. It knows bytes and charges, not blocks.
//!
//! ```text
//!   reservation  memory elsewhere that is charged to the cache
//!   cache   the public handle: picks the shard, drops values outside the locks
//!   shard   capacity, pinning and the two eviction policies over one table
//!   table   open-addressed slots, one line each
//! ```
//!
//! Invariant: K1 (usage exceeds the capacity by no more than the charge of pinned entries; an entry
//! in use is never freed). An entry is pinned while its `Arc` is held outside the cache.
#![forbid(unsafe_code)]

mod cache;
mod reservation;
mod shard;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
mod table;

pub use cache::{Cache, CacheKey, Policy, Priority};
pub use reservation::{Release, Reservation, Reserved, STEP_BYTES};
