//! Blob files: large values apart from the tables that name them.
//!
//! ```text
//!   source    values by blob index: open files are kept, bytes are checked
//!   reader    one blob file
//!   format    header, record, footer
//!   index     what a table holds in place of the value
//! ```
//!
//! Which blob files are live, and how much of them is garbage, is part of the version.

mod format;
mod index;
mod reader;
mod references;
mod source;
#[cfg(test)]
mod tests;
mod walk;

pub use format::{
    BlobFooter, BlobHeader, BlobRecordHeader, FOOTER_LEN, HEADER_LEN, RECORD_HEADER_LEN,
};
pub use index::{BlobIndex, BlobPointer};
pub use reader::{BlobFileReader, ExpectedFamily};
pub(crate) use references::{each_pointer, each_reference};
pub use source::{BlobRead, BlobSource};
pub use walk::{VisitBlob, read_range, walk_blobs};
