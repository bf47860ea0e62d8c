//! Order, log, apply, publish; refuse or slow writers.

mod apply;
mod batch;
mod budget;
mod count;
mod joined;
mod limits;
mod log_limit;
mod options;
mod pace;
mod paced;
mod pipeline;
mod record;
mod resume;
mod room;
mod sync;
mod timed;
mod traced;
mod two_phase;
mod unwind;
mod urgent;

pub use batch::{FamilyRef, WriteBatch};
pub(crate) use joined::{check_joined, check_one};
pub use options::WriteOptions;
pub(crate) use pipeline::{deletion_type, not_executed};
pub(crate) use two_phase::{batch_of, needs_two_phase};
