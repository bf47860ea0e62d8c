//! Tests of the engine through its public API.

mod basic;
mod concurrency;
mod damage;
mod fault;
mod golden;
mod order;
mod regressions;
