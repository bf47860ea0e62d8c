//! Counting and timing calls of many threads: histograms, meters, intended start times.

mod histogram;
mod meter;
mod pace;

pub use histogram::Histogram;
pub use meter::{Board, Meter, Tally};
pub use pace::{Clock, Machine, Pace, Rate};
