//! Memtables → level-0 tables.

mod job;

pub(crate) use job::{TableRequest, build_table};
