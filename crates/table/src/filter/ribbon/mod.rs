//! The Ribbon filter: a system of linear equations over bits, a third smaller than Bloom.
//!
//! ```text
//! [segments: 16 bytes each] fe [u8 seed] [u24 blocks]
//! ```
//!
//! Each key is an equation: 128 coefficients at some start, and a result. The solution has a row of
//! bits per slot; 128 slots are a block, and a column of a block is one segment. Blocks before the
//! one where the count of columns rises have one column less than the others, so that a filter can
//! have any length. (Dillinger, Walzer: "Ribbon filter: practically smaller than Bloom and Xor".)

mod build;
mod equation;
mod query;
mod sizing;

pub(super) use build::build;
pub(super) use query::Layout;
pub(super) use sizing::{InSlots, KEYS_MAX, capacity, len_for};
