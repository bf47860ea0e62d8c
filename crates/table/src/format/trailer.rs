//! The five bytes after every block, and the checksum in them.
//!
//! ```text
//! u8 compression type, fixed32 checksum over contents ++ compression type
//! ```
//!
//! From format version 6 on the stored value is the checksum plus a *context modifier* made of a
//! per-file random number and the block's offset, so that a block found at the wrong place, or in
//! the wrong file, does not verify.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::BlockHandle;
use spanlith_base::checksum::ChecksumKind;
use spanlith_base::coding::get_fixed32;
use spanlith_base::{CompressionType, Error, Result};
use std::path::Path;

/// Bytes of a block trailer.
pub const TRAILER_LEN: usize = 5;

/// Describes what a block holds, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BlockKind {
    Data,
    Filter,
    Index,
    Properties,
    MetaIndex,
    RangeDeletion,
    CompressionDictionary,
    Blob,
}

impl BlockKind {
    /// RocksDB's name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "Data",
            Self::Filter => "Filter",
            Self::Index => "Index",
            Self::Properties => "Properties",
            Self::MetaIndex => "MetaIndex",
            Self::RangeDeletion => "RangeDeletion",
            Self::CompressionDictionary => "CompressionDictionary",
            Self::Blob => "Blob",
        }
    }
}

/// How the blocks of one file are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumContext {
    /// Checksum function.
    pub kind: ChecksumKind,
    /// Random number of the file; 0 before format version 6.
    pub base: u32,
}

impl ChecksumContext {
    /// Returns what is added to the checksum of a block at `offset`.
    #[inline]
    pub fn modifier(self, offset: u64) -> u32 {
        if self.base == 0 {
            return 0;
        }
        self.base ^ (offset as u32).wrapping_add((offset >> 32) as u32)
    }

    /// The trailer of a block.
    #[inline]
    pub fn trailer(self, contents: &[u8], compression: u8, offset: u64) -> [u8; TRAILER_LEN] {
        let sum = self.kind.compute(contents, compression);
        let [a, b, c, d] = sum.wrapping_add(self.modifier(offset)).to_le_bytes();
        [compression, a, b, c, d]
    }

    /// Splits a stored block of `handle.size` bytes plus trailer and, if `verify`, checks it (T2).
    ///
    /// # Errors
    /// `Corruption` if `stored` is short, the checksum differs or the type is unknown;
    /// `NotSupported` for a codec this build lacks.
    pub fn open<'a>(
        self,
        stored: &'a [u8],
        handle: BlockHandle,
        verify: bool,
        kind: BlockKind,
        path: &Path,
    ) -> Result<(&'a [u8], CompressionType)> {
        let size = usize::try_from(handle.size).unwrap_or(usize::MAX);
        let split = stored.split_at_checked(size);
        let Some((contents, &[compression, a, b, c, d])) = split else {
            return Err(truncated(stored.len(), handle, path));
        };
        if verify {
            let stored = u32::from_le_bytes([a, b, c, d]);
            let modifier = self.modifier(handle.offset);
            let computed = self.kind.compute(contents, compression);
            let stored = stored.wrapping_sub(modifier);
            // T2: nothing of the block is used.
            if stored != computed {
                return Err(mismatch(self, stored, computed, handle, kind, path));
            }
        }
        let compression = CompressionType::from_stored_byte(compression).ok_or_else(|| {
            Error::corruption("unknown compression type of a block")
                .with_path(path)
                .with_offset(handle.offset)
                .with("type", compression)
        })?;
        Ok((contents, compression))
    }
}

#[cold]
fn truncated(got: usize, handle: BlockHandle, path: &Path) -> Error {
    Error::corruption(format!(
        "truncated block read from {} offset {}, expected {} bytes, got {got}",
        path.display(),
        handle.offset,
        handle.size.saturating_add(TRAILER_LEN as u64),
    ))
    .with_path(path)
    .with_offset(handle.offset)
}

#[cold]
fn mismatch(
    context: ChecksumContext,
    stored: u32,
    computed: u32,
    handle: BlockHandle,
    kind: BlockKind,
    path: &Path,
) -> Error {
    let removed = if context.modifier(handle.offset) != 0 {
        "(context removed)"
    } else {
        ""
    };
    Error::corruption(format!(
        "block checksum mismatch: stored{removed} = {stored}, computed = {computed}, type = {}  \
         in {} offset {} size {}, block_type = {}",
        context.kind.as_byte(),
        path.display(),
        handle.offset,
        handle.size,
        kind.name(),
    ))
    .with_path(path)
    .with_offset(handle.offset)
}

/// Reads the little-endian word at `at`, or reports a short footer.
pub(super) fn word(bytes: &[u8], at: usize) -> Result<u32> {
    get_fixed32(bytes, at).ok_or_else(|| Error::corruption("table footer is cut"))
}
