//! Order, log, apply, publish; refuse or slow writers.

mod apply;
mod batch;
mod budget;
mod check;
mod count;
mod in_flight;
mod joined;
mod limits;
mod log_limit;
mod measured;
mod new_log;
mod options;
mod pace;
mod paced;
mod pipeline;
mod record;
mod resume;
mod room;
mod switch;
mod sync;
mod timed;
mod traced;
mod two_phase;
mod unwind;
mod urgent;
mod watched;

pub(crate) use apply::deletion_type;
pub use batch::{FamilyRef, WriteBatch};
pub(crate) use check::not_executed;
pub(crate) use count::WriteWaits;
pub(crate) use joined::{check_joined, check_one};
pub(crate) use new_log::LogFactory;
pub use options::WriteOptions;
pub(crate) use resume::Resume;
pub(crate) use sync::Wal;
pub(crate) use two_phase::{TransactionSteps, batch_of, needs_two_phase};
