//! Chooses tables and rewrites them.

mod below;
mod iterator;
mod job;
mod manual;

pub(crate) use below::Below;
pub(crate) use iterator::{CompactionIter, IterSettings};
