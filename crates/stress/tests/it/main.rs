//! The short forms of the programmes, for every `cargo test`; the long ones are commands of their own.

mod kill;
mod power;
mod short;
