//! RocksDB behind the trait [`Store`](super::Store), through its C library, which is loaded at run time.
//!
//! Only functions that releases 7.8 to 11.8 share are used. [`library`] loads them, [`database`] and [`transaction`] call them; they
//! are the only places of the crate with unsafe code.

mod database;
mod library;
mod transaction;

pub use database::RocksDb;
