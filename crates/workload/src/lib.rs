//! Workloads of databases: generators ([`generate`]), the stores they run on ([`store`]), experiments that put
//! measured beside printed numbers ([`experiments`]) and their pages ([`report`]); and what a trace of queries says
//! of the load it was taken from ([`analyze`]), in the files and words of RocksDB's `trace_analyzer`, and as a [`model`] without
//! keys, of which requests are made again, with the curves that come close to it ([`fit`]); and a simulated
//! database ([`sim`]).
#![deny(unsafe_code)]

pub mod analyze;
pub mod drivers;
pub mod experiments;
pub mod figures;
pub mod fit;
pub mod generate;
pub mod measure;
pub mod model;
pub mod report;
pub mod sim;
pub mod store;
pub mod traces;
