//! Generators: random numbers, which record a request asks for, keys, sizes, values that compress as asked.
//!
//! Everything is a function of its seed, and the same on every machine.

mod distribution;
mod keys;
mod lru;
pub mod mixgraph;
pub mod reference;
mod rng;
mod twister;
mod values;
pub mod ycsb;

pub use distribution::{DISTRIBUTIONS, Distribution, Population, Requests, THETA, Zipfian, fnv64};
pub use keys::{Keys, Shuffle};
pub use lru::Lru;
pub use rng::Rng;
pub use twister::Twister;
pub use values::Values;
