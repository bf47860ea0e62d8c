//! RocksDB's C interface, served by Spanlith, under the name, version and features of the published
//! crate `librocksdb-sys`.
//!
//! A program that uses the crate `rocksdb` gains the engine by one entry in its `Cargo.toml`:
//!
//! ```toml
//! [patch.crates-io]
//! librocksdb-sys = { path = "…/spanlith/crates/librocksdb-sys" }
//! ```
//!
//! The declarations are generated beforehand, so that neither `bindgen` nor a C++ compiler runs. They
//! name every function of RocksDB 11.8.1; a function that `docs/compat.md` does not list as exported is
//! declared, and a program that calls it does not link.
#![allow(
    non_camel_case_types,
    non_upper_case_globals,
    missing_docs,
    reason = "the names are those of the C interface, which docs/compat.md describes"
)]

// The functions are defined there; the linker takes them from it.
extern crate spanlith_capi as _;

#[rustfmt::skip]
mod bindings;

pub use bindings::*;
