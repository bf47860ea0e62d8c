//! A simulated machine with a speed disk: clients, cores, a log and devices, under virtual time ([SPAN] §5).
//!
//! The log is the real one: batches go through the page layout of `spanlith_speed` to an emulated device, and their
//! ordinals decide what is durable. Groups form as in the engine: everything that waits when the log is free, or when fewer
//! groups than `sd_writes_in_flight` are on their way. Files are
//! those of `spanlith_env::emulated`. What processors do is a table of service times ([`Costs`]); a burst takes a core
//! until it ends.
//!
//! | module | |
//! |---|---|
//! | `costs` | times: what stages take of a processor, and how that is measured |
//! | `levels` | tables on two devices: placement, flushes and compactions, in steps |
//! | `load` | how busy these devices are |
//! | `log` | a log on a speed disk, or in a file |
//! | `run` | events of calls, groups and reads |
//! | `slab` | a store without a log, to compare with |
//!
//! The events leave out compactions (the cores that they take are left free), stalls, and memory; `levels` has those, and knows no
//! single request.

mod company;
mod costs;
mod levels;
mod load;
mod log;
mod run;
mod slab;

pub use costs::Costs;
pub use levels::{Jobs, Phase, TableOutcome, TableParams, Window, run_levels};
pub use run::{Latency, Mix, Outcome, Params, Way, run};
pub use slab::{SlabParams, run_slab};
