//! Stores that drivers and experiments run on: one trait, and an adapter for each engine.
//!
//! [`api`] has the trait and what it speaks of, [`spec`] turns a name of the command line into an open
//! store, [`counters`] reads the statistics that engines print. Adapters: [`ours`], [`rocksdb`], [`slab`], and behind features of
//! the crate `lmdb`, `redb`, `fjall`.
//! All adapters copy values into the caller's buffer, so that no engine is charged for a copy that another
//! is spared, and all are called through one pointer, which costs each of them a nanosecond a call.

pub mod api;
pub mod counters;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "lmdb")]
mod lmdb;
mod ours;
mod plain;
#[cfg(feature = "redb")]
mod redb;
mod rocksdb;
mod slab;
pub mod spec;

pub use api::{
    Batch, Change, Direction, Error, Isolation, Level, Result, Store, StoreOptions, TraceFiles,
    Transaction,
};
pub use counters::Counters;
pub use ours::Ours;
pub use spec::StoreName;

#[cfg(test)]
mod tests;
