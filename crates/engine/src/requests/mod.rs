//! Asynchronous requests: futures that belong to no runtime.
//!
//! [`AsyncCf`] issues requests. A write is encoded into the group that is being formed, which is all that it owns: no
//! allocation for each write. One group at a time is written, as one batch with one append to the log and at most one
//! sync; meanwhile the next one forms. A read that memory can answer is answered where it is issued. Other reads, scans
//! and flushes are jobs of threads.
//!
//! | file | what it holds |
//! |---|---|
//! | `handle` | the interface: `AsyncCf`, `Page` |
//! | `future` | the futures, and how a thread waits for one |
//! | `cell` | where results are left: one cell for a group of writes, one for each read |
//! | `queue` | what is outstanding: groups being formed, jobs, requests that wait for room; no engine |
//! | `carry` | carries groups and jobs out; worker threads; the end of all at close |
//! | `plan` | how many threads for what, from mode and cores |
//! | `tally` | counters, and their text |
//!
//! Locks: `queue` has one mutex, under which nothing else happens than bookkeeping. Neither user code nor a waker is
//! called under it. `docs/async.md` says what users may rely on.

mod carry;
mod cell;
mod future;
mod handle;
mod plan;
mod queue;
mod tally;
#[cfg(test)]
mod tests;

pub(crate) use carry::Requests;
pub use future::{ReadFuture, WriteFuture};
pub use handle::{AsyncCf, Page};
pub(crate) use plan::Kind;
