//! Blob files: large values apart from the tables that name them.
//!
//! ```text
//!   writer    one blob file while it is written
//!   source    values by blob index: open files are kept, bytes are checked
//!   batch     many values at once
//!   window    values of a scan
//!   part      a part of a value
//!   pieces    small values in the block cache
//!   reader    one blob file
//!   format    header, record, footer
//!   index     what a table holds in place of the value
//! ```
//!
//! Which blob files are live, and how much of them is garbage, is part of the version.

mod batch;
mod cache;
mod entity;
mod format;
mod index;
mod part;
mod pieces;
#[cfg(test)]
mod pieces_tests;
mod read_ahead;
mod reader;
mod reads;
mod references;
mod source;
#[cfg(test)]
mod tests;
mod walk;
mod window;
mod writer;

pub use cache::BlobCache;
pub(crate) use entity::resolve_columns;
pub use format::{
    BlobFooter, BlobHeader, BlobRecordHeader, FOOTER_LEN, HEADER_LEN, RECORD_HEADER_LEN,
};
pub use index::{BlobIndex, BlobPointer};
pub(crate) use part::{Part, part_of};
pub(crate) use read_ahead::ReadAheadFile;
pub use reader::{BlobFileReader, ExpectedFamily};
pub(crate) use reads::{BlobReadNumbers, BlobReads, SIZE_CLASSES, size_class};
pub(crate) use references::{each_pointer, each_reference};
pub use source::{BlobRead, BlobSource};
pub use walk::{VisitBlob, read_range, walk_blobs};
pub(crate) use window::ScanWindows;
pub(crate) use writer::BlobFileWriter;
