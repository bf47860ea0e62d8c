//! Tests of the engine through its public API.

mod basic;
mod fault;
mod golden;
mod order;
