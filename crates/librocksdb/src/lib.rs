//! The library that ships: `librocksdb.so` and `librocksdb.a`. The functions are those of
//! [`spanlith_capi`]; this package only exists because link-time optimisation does not run for a
//! package that is also a Rust library.
#![forbid(unsafe_code)]

pub use spanlith_capi::*;
