//! How fast writers may go.
//!
//! Flush and compaction limit how fast data can be taken in. When sealed memtables, files of level 0 or the debt of the
//! tree pile up, writes have to be slowed down. This crate holds the rules by which that is done, as pure functions of
//! facts: it opens no file, takes no lock and reads no clock. Time comes in as nanoseconds of a monotonic clock.
//!
//! ```text
//!   condition     normal, delayed or stopped: RocksDB's rules
//!   speed_up      whether more than one compaction may run: RocksDB's rule
//!   policy        the names of the four policies
//!   rocksdb       the policy of RocksDB 11.8
//!   algorithm1    the policy of RocksDB 5.17, as "Algorithm 1" of the study of RocksDB on 3D XPoint prints it
//!   two_stage     that study's cure
//!   leading       one value for the three policies under which the leader of a write group waits
//!   smooth        the policy under which every writer waits for itself, before it joins the queue:
//!                 `pressure` of the stages, their measured `capacity`, the law of `level0`, and the `bucket`
//!   level0_shape  how many files level 0 is to have, by the share of writes
//!   work_debt     what of the debt was made by writes; `given`, the space that compactions give back
//!   evenness      how even a series of throughputs is, and `windows` the series while writers wait
//! ```
#![forbid(unsafe_code)]

mod algorithm1;
mod bucket;
mod capacity;
mod condition;
mod evenness;
mod given;
mod leading;
mod level0;
mod level0_shape;
mod policy;
mod pressure;
mod rocksdb;
mod smooth;
mod speed_up;
mod standstill;
mod two_stage;
mod windows;
mod work_debt;

pub use algorithm1::{Algorithm1, REFILL_NANOS, near_stop_rate};
pub use bucket::{Bucket, Ticket};
pub use capacity::Meter;
pub use condition::{StallCause, StallCondition, StallInput, stall_condition};
pub use evenness::{Evenness, evenness, swing};
pub use given::SpaceGiven;
pub use leading::Leading;
pub use level0_shape::{FILES_MAX, FILES_MIN, Level0Shape, ShapePlanner, ShapeRule};
pub use policy::ThrottlePolicy;
pub use pressure::{
    DebtFacts, Facts, Level0Facts, MemoryFacts, Pressure, SpaceFacts, Stage, WATCHED,
};
pub use rocksdb::DelayController;
pub use smooth::{Decision, Smooth, SmoothOptions};
pub use speed_up::{SpeedUpInput, wants_speed_up};
pub use two_stage::{TwoStage, TwoStageOptions};
pub use windows::{WINDOW_NANOS, Windows};
pub use work_debt::{Change, WorkDebt};
