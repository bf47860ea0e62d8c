//! Workloads of databases. So far: what a trace of queries says of the one it was taken from
//! ([`analyze`]), in the files and words of RocksDB's `trace_analyzer`.
#![forbid(unsafe_code)]

pub mod analyze;
