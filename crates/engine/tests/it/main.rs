//! Tests of the engine through its public API.

mod basic;
mod golden;
