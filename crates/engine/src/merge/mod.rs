//! Merge operators: read-modify-write without the read.

mod operator;
mod resolver;

pub use operator::{MergeOperator, StringAppend, UInt64Add, operator_by_name};
pub use resolver::{MergeState, full_merge};
