//! Describes what is traced, and how much of it.

/// Options of a trace of queries. The first four are RocksDB's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    /// No record is written once the file has more bytes.
    pub max_trace_file_size: u64,
    /// One of so many requests of a thread is recorded; 0 and 1 record all.
    pub sampling_frequency: u64,
    /// Kinds of requests that are not recorded: bits of [`filter`].
    pub filter: u64,
    /// Writes are recorded in the order in which they take effect, not that in which the calls began.
    pub preserve_write_order: bool,
    /// Beside the trace a file is written with what RocksDB's format has no room for: how long a request took, what it
    /// found, how many steps followed a seek ([`super::Extension`]). It costs a second record for each request.
    pub with_extension: bool,
}

/// Bits of [`TraceOptions::filter`].
pub mod filter {
    /// Gets.
    pub const GET: u64 = 1;
    /// Writes.
    pub const WRITE: u64 = 2;
    /// Seeks.
    pub const SEEK: u64 = 4;
    /// Seeks backward.
    pub const SEEK_FOR_PREV: u64 = 8;
    /// Multi-gets.
    pub const MULTI_GET: u64 = 16;
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self {
            max_trace_file_size: 64 << 30,
            sampling_frequency: 1,
            filter: 0,
            preserve_write_order: false,
            with_extension: false,
        }
    }
}
