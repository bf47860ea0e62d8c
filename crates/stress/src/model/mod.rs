//! Random programs against a database and a reference: an ordered map with history.
//!
//! | part | what it is |
//! |---|---|
//! | [`setup`], [`program`] | what a program is, and its text form |
//! | [`generate`] | draws programs |
//! | [`history`] | the reference |
//! | [`world`] | files in memory with a manual executor, or real files with threads |
//! | [`crashing`] | images as power losses leave them |
//! | [`check`], [`player`], `view` | run and compare |
//! | [`reduce`] | makes a failing program short |
//! | [`run`] | many programs, counted |

pub mod check;
pub mod crashing;
pub mod generate;
pub mod history;
pub mod player;
pub mod program;
pub mod reduce;
pub mod run;
pub mod setup;
mod view;
pub mod world;

pub use player::{Failure, Player, Tally};
pub use program::{Op, Program};
pub use setup::{MergeKind, Setup, Tuning};
