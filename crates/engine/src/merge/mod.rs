//! Merge operators: read-modify-write without the read.

mod builtin;
mod operator;
mod resolver;
mod unfolded;

pub use builtin::{
    BytesXor, Max, Put, SortList, StringAppend, StringAppendTest, UInt64Add, operator_by_name,
    operator_of,
};
pub use operator::{MergeBase, MergeOperator, MergeResult};
pub use resolver::MergeState;
#[allow(unused_imports, reason = "for reads and compactions of entities")]
pub use resolver::{full_merge, full_merge_onto};
pub use unfolded::Unfolded;
