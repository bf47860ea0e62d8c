//! The driver of writes: it forms groups of requests and carries each through its stages, over a trait that does the work.
//!
//! ```text
//!   request ─► queue ─► leader: room ─► group ─► order ─► log ─► sync ─► insert ─► publish ─► release
//!                                                 └──── in flight: several at a time ────┘
//! ```
//!
//! The driver decides who leads, which requests form a group, in which order stages run, who inserts, and how each kind of
//! failure ends for the requests of a group. It knows neither logs nor memtables: [`Stages`] has those verbs, and the
//! engine implements it (`write/stages.rs`). Calls are dispatched statically, so that a lone writer pays for no seam. The
//! tests drive a double, without a database.
//!
//! Ownership: [`CommitPipeline`] owns the queue and the count of followers that insert. The right to lead ([`Leadership`])
//! and the order of sequence numbers have other users too, so that the driver borrows them.
//!
//! Promises: a group is logged before it is inserted (W1), in the order of its numbers (W2); it becomes visible once it and
//! all groups before it are inserted (W3); after a panic or a failure nobody waits for it any more (W5); a synced group is
//! durable before it is inserted (W6).

mod in_flight;
mod leadership;
mod pipeline;
mod request;
mod stages;
mod times;
mod unwind;

#[cfg(test)]
#[cfg_attr(shuttle, allow(dead_code, reason = "models need less than tests"))]
mod double;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub(crate) use leadership::Leadership;
pub(crate) use pipeline::{CommitPipeline, commit};
pub(crate) use request::{Entries, GroupLoad, Request};
pub(crate) use stages::{Stage, Stages, TimesByStage};
