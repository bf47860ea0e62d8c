//! RocksDB's trace files: what callers asked a database, which blocks were looked up in the cache, which
//! calls reached the file system.
//!
//! All three kinds are records one after the other ([`TraceReader`]); the first is a header
//! ([`TraceHeader`]), which tells traces of queries from the other two. [`TraceHeader::decode`] takes a record
//! apart. The format: `docs/formats/trace.md`. Nothing of a trace is protected by a checksum, and a trace
//! whose process ended early stops anywhere; that is no damage ([`TraceReader::torn`]).
//!
//! Traces are written by [`recorder`], without a lock that callers share: those of queries where callers come in, those of
//! blocks ([`blocks`]) and calls ([`calls`]) where readers of tables and the file system tell of them.

mod access;
mod blocks;
mod calls;
mod encode;
mod extension;
mod header;
mod options;
mod query;
mod reader;
mod recorder;
mod sink;
#[cfg(test)]
mod tests;

pub use access::{BlockAccess, BlockCaller, BlockReference, FileCall, TracedBlock};
pub use blocks::BlockTraceOptions;
pub(crate) use blocks::{BlockTrace, busy};
pub(crate) use calls::CallTrace;
pub use encode::{
    RELEASE, put_access_header, put_get, put_multi_get, put_query_header, put_record, put_seek,
    put_write_head,
};
pub use extension::{Extension, ExtensionReader};
pub use header::{TraceForm, TraceHeader};
pub use options::{TraceOptions, filter};
pub use query::{MultiGetKeys, Query};
pub use reader::{RawRecord, TornTrace, TraceReader};
pub(crate) use recorder::{OnStop, Ordered, Recorder, RecorderOptions, Tap, Ticket, TraceKind};
pub use recorder::{TraceSummary, extension_path};

/// Byte that says what a record is.
pub mod kinds {
    /// The header.
    pub const BEGIN: u8 = 1;
    /// The end, of traces of queries only.
    pub const END: u8 = 2;
    /// A batch was written.
    pub const WRITE: u8 = 3;
    /// A get.
    pub const GET: u8 = 4;
    /// A seek of an iterator.
    pub const SEEK: u8 = 5;
    /// A seek backward of an iterator.
    pub const SEEK_FOR_PREV: u8 = 6;
    /// The first of five kinds of blocks.
    pub const BLOCK_FIRST: u8 = 7;
    /// The last of them.
    pub const BLOCK_LAST: u8 = 11;
    /// A call of the file system.
    pub const FILE_CALL: u8 = 12;
    /// Several gets in one call.
    pub const MULTI_GET: u8 = 13;
}

/// A record after the header, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceRecord<'a> {
    /// The trace was ended; nothing that follows belongs to it.
    End,
    /// A caller's request.
    Query(Query<'a>),
    /// A block was looked up.
    Block(BlockAccess<'a>),
    /// The file system was called.
    Call(FileCall<'a>),
    /// A kind that no release has written, or that does not belong into this trace. Readers skip it.
    Unknown(u8),
}
