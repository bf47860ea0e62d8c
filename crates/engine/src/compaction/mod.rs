//! Chooses tables and rewrites them.

mod balance;
mod below;
mod beside;
mod blob_gc;
mod blob_meter;
mod compactor;
mod files;
mod giving_way;
mod iterator;
mod job;
mod manual;
mod notes;
mod outputs;
mod own_readers;
mod parts;
mod pause;
mod placed;
mod refit;
mod split;
mod trim;
mod units;
mod unread;
mod work;

#[cfg(test)]
pub(crate) use balance::plant;
pub(crate) use balance::{check_memtables, check_outputs};
pub(crate) use below::Below;
pub use blob_gc::{BlobGcChoice, BlobGcPolicy};
pub(crate) use blob_meter::BlobMeter;
pub(crate) use compactor::Compactor;
pub(crate) use files::TableRemoval;
pub use files::{CompactFilesOptions, KeyRange};
pub(crate) use iterator::{CompactionIter, IterSettings};
pub(crate) use manual::ManualCompaction;
pub use manual::{BottommostCompaction, CompactRangeOptions};
pub(crate) use pause::WorkControl;
pub(crate) use trim::Trim;
