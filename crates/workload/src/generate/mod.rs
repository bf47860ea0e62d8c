//! Generators: random numbers, values that compress as asked.
//!
//! Everything is a function of its seed, and the same on every machine.

mod rng;
mod values;

pub use rng::Rng;
pub use values::Values;
