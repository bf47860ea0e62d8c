//! The end of the file of a table without blocks: the same footer as that of other tables of format version 0 and 1,
//! with a magic number of its own. Only the handle of the metaindex means something.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use crate::format::{BlockHandle, ChecksumContext, FOOTER_LEN, Footer};
use spanlith_base::checksum::ChecksumKind;
use spanlith_base::coding::get_fixed64;
use spanlith_base::{Error, Result};
use std::path::Path;

/// Of format version 1, which nobody writes, and of version 0.
const PLAIN_MAGIC: u64 = 0x8242_2296_63bf_9564;
const LEGACY_PLAIN_MAGIC: u64 = 0x4f34_18eb_7a8f_13b8;
const CUCKOO_MAGIC: u64 = 0x9267_89d0_c5f1_7873;
/// Bytes of the two handles, with what fills them up.
const HANDLES_LEN: usize = 40;

/// Kind of a table without blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlatKind {
    Cuckoo,
    Plain,
}

/// A footer with the kind of its table.
pub(crate) struct FlatFooter {
    pub(crate) kind: FlatKind,
    pub(crate) footer: Footer,
}

impl FlatFooter {
    /// The footer at the end of `tail`, the last bytes of a file of `file_size` bytes; `None` for other tables.
    ///
    /// # Errors
    /// `Corruption` for a footer that is cut or has a bad handle.
    pub(crate) fn decode(tail: &[u8], file_size: u64, path: &Path) -> Result<Option<Self>> {
        let magic = tail
            .len()
            .checked_sub(8)
            .and_then(|at| get_fixed64(tail, at));
        let (kind, version, len) = match magic {
            Some(CUCKOO_MAGIC) => (FlatKind::Cuckoo, 1, FOOTER_LEN),
            Some(PLAIN_MAGIC) => (FlatKind::Plain, 1, FOOTER_LEN),
            Some(LEGACY_PLAIN_MAGIC) => (FlatKind::Plain, 0, HANDLES_LEN + 8),
            _ => return Ok(None),
        };
        let bytes = tail.len().checked_sub(len).and_then(|at| tail.get(at..));
        let bytes = bytes.ok_or_else(|| {
            let text = format!("file is too short ({file_size} bytes) to be an sstable");
            Error::corruption(text).with_path(path)
        })?;
        let offset = file_size.saturating_sub(len as u64);
        let handles = bytes.get(version..).unwrap_or_default();
        let decoded = BlockHandle::decode(handles.get(..HANDLES_LEN).unwrap_or_default());
        let (metaindex, _) = decoded.ok_or_else(|| {
            let e = Error::corruption("bad block handle in table footer");
            e.with_path(path).with_offset(offset)
        })?;
        let footer = Footer {
            format_version: version as u32,
            checksum: NO_CHECKSUM,
            metaindex,
            index: Some(BlockHandle::default()),
            offset,
        };
        Ok(Some(Self { kind, footer }))
    }

    /// The bytes of a footer.
    pub(crate) fn encode(kind: FlatKind, metaindex: BlockHandle) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_LEN);
        let magic = match kind {
            FlatKind::Cuckoo => {
                out.push(NO_CHECKSUM.kind.as_byte());
                CUCKOO_MAGIC
            }
            FlatKind::Plain => LEGACY_PLAIN_MAGIC,
        };
        let end = out.len() + HANDLES_LEN;
        metaindex.encode(&mut out);
        BlockHandle::default().encode(&mut out);
        out.resize(end, 0);
        if kind == FlatKind::Cuckoo {
            out.extend_from_slice(&1u32.to_le_bytes());
        }
        out.extend_from_slice(&magic.to_le_bytes());
        out
    }
}

const NO_CHECKSUM: ChecksumContext = ChecksumContext {
    kind: ChecksumKind::None,
    base: 0,
};
