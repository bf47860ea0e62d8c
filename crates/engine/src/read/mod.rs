//! Answers at a sequence number: point reads and iterators.

mod db_iter;
mod fold;
mod get;
mod multi_get;
mod newest;
mod observed;
mod operands;
mod options;
mod rows;
mod sampled;
mod stored;
mod timestamps;
mod traced;
mod verbs;
mod view;

pub use db_iter::DbIter;
pub(crate) use db_iter::Passed;
pub(crate) use fold::folded;
pub(crate) use newest::Newest;
pub(crate) use observed::is_merge_failure;
pub use options::{ReadOptions, ReadPurpose, ReadTier, wrong_purpose};
pub use stored::Entity;
pub(crate) use verbs::FamilyKeys;
pub(crate) use view::{check_timestamp, timestamp_missing};
