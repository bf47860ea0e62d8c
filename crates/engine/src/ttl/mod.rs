//! Values with the time they were written at: RocksDB's databases with a time to live.
//!
//! Behind each value and each merge operand stand four bytes, the Unix time in seconds as a signed number, little-endian.
//! Who opens the database with times to live does not see them; who opens it plainly does. Compactions drop values
//! that are older than their family's time to live; until then they are read, and operands are never dropped.
//!
//! Here are the format and what wraps a family's merge operator and compaction filters. The write path appends times
//! (`write::timed`), the read path takes them off where a value leaves it. Callable from any thread.

mod filter;
mod format;
mod merge;

pub(crate) use filter::wrap_filters;
pub use format::{TIME_LEN, append_time, split_time, without_time};
pub(crate) use format::{shown, shown_all, too_short};
pub use merge::TimedMerge;

use crate::merge::MergeOperator;
use spanlith_env::Clock;
use std::sync::Arc;

/// Describes what a family whose values have times knows of them.
#[derive(Clone)]
pub(crate) struct ValueTimes {
    /// Tells the time of a write.
    pub clock: Arc<dyn Clock>,
    /// The family's merge operator as its user gave it: takes values without times.
    pub user_operator: Option<Arc<dyn MergeOperator>>,
}
