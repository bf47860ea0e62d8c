//! Memtables → level-0 tables.

mod job;
mod notes;

pub(crate) use job::{TableRequest, build_table};
