//! Chooses tables and rewrites them.

mod below;
mod files;
mod blob_meter;
mod iterator;
mod job;
mod manual;
mod notes;
mod outputs;
mod pause;
mod refit;
mod split;

pub(crate) use below::Below;
pub use files::CompactFilesOptions;
pub(crate) use blob_meter::BlobMeter;
pub(crate) use iterator::{CompactionIter, IterSettings};
pub use manual::{BottommostCompaction, CompactRangeOptions};
