//! Sorted streams of internal keys and their merge.

mod level;
mod merging;
mod source;

pub use level::LevelIter;
pub use merging::MergingIter;
pub use source::Source;
