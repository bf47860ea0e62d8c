//! Bytes around the blocks: handles, trailers, compression, the footer.

mod compression;
mod footer;
mod handle;
mod trailer;

pub use compression::{Compression, CompressionType};
pub(crate) use compression::{Compressor, decompress};
pub use footer::{FOOTER_LEN, Footer};
pub use handle::BlockHandle;
pub use trailer::{BlockKind, ChecksumContext, TRAILER_LEN};
