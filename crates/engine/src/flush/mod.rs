//! Memtables → level-0 tables.

mod job;

pub(crate) use job::{FileBounds, TableRequest, build_table};
