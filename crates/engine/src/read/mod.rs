//! Answers at a sequence number: point reads and iterators.

mod db_iter;
mod get;
mod multi_get;
mod options;
mod verbs;

pub use db_iter::DbIter;
pub use options::ReadOptions;
