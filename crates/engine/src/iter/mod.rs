//! Sorted streams of internal keys and their merge.

mod coverage;
mod level;
mod merging;
mod source;
mod table_filter;

pub use coverage::{Coverage, RangeWatch};
pub use level::LevelIter;
pub use merging::MergingIter;
pub use source::Source;
pub use table_filter::TableFilter;
