//! Memtables → level-0 tables.

mod job;
mod notes;
mod options;
mod timestamps;

pub(crate) use job::{TableRequest, build_table};
pub use options::FlushOptions;
pub(crate) use timestamps::history_low_after;
