//! Bytes around the blocks: handles, trailers, compression, the footer.

mod codec;
mod compress;
mod decompress;
pub(crate) mod dictionary;
mod finalize;
mod footer;
mod handle;
mod trailer;

pub use codec::CompressionOptions;
pub use compress::Compressor;
pub use decompress::decompress;
pub(crate) use decompress::{Decompressor, Dictionary};
pub use footer::{FOOTER_LEN, FORMAT_VERSION_MAX, Footer};
pub use handle::BlockHandle;
pub use trailer::{BlockKind, ChecksumContext, TRAILER_LEN};
