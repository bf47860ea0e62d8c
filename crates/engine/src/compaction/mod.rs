//! Chooses tables and rewrites them.

mod below;
mod iterator;
mod job;
mod manual;
pub mod picker;
mod plan;

pub(crate) use below::Below;
pub(crate) use iterator::{CompactionIter, IterSettings};
pub use picker::*;
pub use plan::*;
