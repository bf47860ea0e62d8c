//! Memtables → level-0 tables.

mod job;
mod notes;
mod timestamps;
mod together;

pub(crate) use job::{Flusher, TableRequest, build_table};
pub(crate) use timestamps::history_low_after;
