//! The last 53 bytes of a table (48 in format version 0).
//!
//! ```text
//! versions 1..5                            versions 6, 7
//!  0 u8      checksum type                  0 u8      checksum type
//!  1 handle  metaindex                      1 bytes   3e 00 7a 00
//!  . handle  index                          5 fixed32 checksum of the footer
//!  . zeros                                  9 fixed32 base of context checksums, not 0
//!                                          13 fixed32 metaindex size
//!                                          17 16 zeros, ignored; 33 8 zeros, checked
//! 41 fixed32 format version                41 fixed32 format version
//! 45 fixed64 magic                         45 fixed64 magic
//! ```
//!
//! From version 6 on the metaindex ends where the footer begins, and the index is found in it.
//! Version 0 has the two handles from byte 0 on, the legacy magic at byte 40, and CRC-32C.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::trailer::word;
use super::{BlockHandle, ChecksumContext, TRAILER_LEN};
use spanlith_base::checksum::ChecksumKind;
use spanlith_base::coding::get_fixed64;
use spanlith_base::{Error, Result};
use std::path::Path;

/// Bytes of the footer of versions 1 and later.
pub const FOOTER_LEN: usize = 53;
/// Bytes of the footer of version 0.
const LEGACY_LEN: usize = 48;
const MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
const LEGACY_MAGIC: u64 = 0xdb47_7524_8b80_fb57;
/// The newest format that is read and, on request, written; RocksDB has it since 11.10.
pub const FORMAT_VERSION_MAX: u32 = 8;

const EXTENDED_MAGIC: [u8; 4] = [0x3e, 0x00, 0x7a, 0x00];

/// Describes what the footer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Format version, 0 to [`FORMAT_VERSION_MAX`].
    pub format_version: u32,
    /// How blocks are checked.
    pub checksum: ChecksumContext,
    /// Directory of meta blocks.
    pub metaindex: BlockHandle,
    /// Index block; `None` from version 6 on, where the metaindex names it.
    pub index: Option<BlockHandle>,
    /// Offset of the footer: no block reaches beyond it.
    pub offset: u64,
}

impl Footer {
    /// The encoded footer. Requires: version 1 to 8, and from version 6 on a metaindex that ends at
    /// `self.offset`, from version 8 on one of less than 64 KiB.
    pub fn encode(&self) -> [u8; FOOTER_LEN] {
        let mut v = Vec::with_capacity(FOOTER_LEN);
        v.push(self.checksum.kind.as_byte());
        if self.format_version >= 6 {
            v.extend_from_slice(&EXTENDED_MAGIC);
            v.extend_from_slice(&[0; 4]);
            v.extend_from_slice(&self.checksum.base.to_le_bytes());
            v.extend_from_slice(&(self.metaindex.size as u32).to_le_bytes());
        } else {
            self.metaindex.encode(&mut v);
            self.index.unwrap_or_default().encode(&mut v);
        }
        v.resize(FOOTER_LEN - 12, 0);
        v.extend_from_slice(&self.format_version.to_le_bytes());
        v.extend_from_slice(&MAGIC.to_le_bytes());
        let mut out = [0; FOOTER_LEN];
        out.copy_from_slice(&v);
        if self.format_version >= 6 {
            let sum = footer_checksum(self.checksum, &out, self.offset);
            if let Some(field) = out.get_mut(5..9) {
                field.copy_from_slice(&sum.to_le_bytes());
            }
        }
        out
    }

    /// Decodes the footer from `tail`, the last bytes of a file of `file_size` bytes.
    ///
    /// # Errors
    /// `Corruption` for damaged footers, `NotSupported` for kinds, versions and checksums this
    /// build does not read.
    pub fn decode(tail: &[u8], file_size: u64, path: &Path) -> Result<Self> {
        let magic = tail
            .len()
            .checked_sub(8)
            .and_then(|at| get_fixed64(tail, at));
        let Some(magic) = magic.filter(|_| tail.len() >= LEGACY_LEN) else {
            return Err(Error::corruption(format!(
                "file is too short ({file_size} bytes) to be an sstable: {}",
                path.display()
            ))
            .with_path(path));
        };
        if magic == LEGACY_MAGIC {
            let at = tail.len().saturating_sub(LEGACY_LEN);
            let f = tail.get(at..).unwrap_or_default();
            let offset = file_size.saturating_sub(LEGACY_LEN as u64);
            return Self::with_handles(f, 0, ChecksumKind::Crc32c, offset)
                .map_err(|e| e.with_path(path));
        }
        if magic != MAGIC {
            return Err(wrong_magic(magic, path));
        }
        let at = tail.len().checked_sub(FOOTER_LEN);
        let Some(f) = at.and_then(|at| tail.get(at..)) else {
            return Err(Error::corruption(format!(
                "file is too short ({file_size} bytes) to be an sstable: {}",
                path.display()
            ))
            .with_path(path));
        };
        let offset = file_size.saturating_sub(FOOTER_LEN as u64);
        Self::parse(f, offset).map_err(|e| e.with_path(path))
    }

    /// A footer of version 0 to 5, whose handles begin `f`.
    fn with_handles(
        f: &[u8],
        format_version: u32,
        kind: ChecksumKind,
        offset: u64,
    ) -> Result<Self> {
        let handles = BlockHandle::decode(f.get(..40).unwrap_or_default())
            .and_then(|(meta, rest)| Some((meta, BlockHandle::decode(rest)?.0)));
        let (metaindex, index) =
            handles.ok_or_else(|| Error::corruption("bad block handle in table footer"))?;
        Ok(Self {
            format_version,
            checksum: ChecksumContext { kind, base: 0 },
            metaindex,
            index: Some(index),
            offset,
        })
    }

    fn parse(f: &[u8], offset: u64) -> Result<Self> {
        let format_version = word(f, 41)?;
        if format_version == 0 {
            return Err(Error::corruption(
                "table footer of version 0 without its magic number",
            ));
        }
        if format_version > FORMAT_VERSION_MAX {
            // A flipped bit as likely as a later release: RocksDB's words for both.
            return Err(Error::corruption(format!(
                "Corrupt or unsupported format_version {format_version}"
            )));
        }
        let kind = ChecksumKind::from_byte(f.first().copied().unwrap_or(u8::MAX))?;
        if format_version < 6 {
            let handles = f.get(1..).unwrap_or_default();
            return Self::with_handles(handles, format_version, kind, offset);
        }
        if f.get(1..5) != Some(&EXTENDED_MAGIC) {
            return Err(Error::corruption(
                "bad extended magic number in table footer",
            ));
        }
        let base = word(f, 9)?;
        if base == 0 {
            return Err(Error::corruption(
                "invalid base context checksum in table footer",
            ));
        }
        let checksum = ChecksumContext { kind, base };
        let mut copy = [0; FOOTER_LEN];
        copy.copy_from_slice(f);
        if let Some(field) = copy.get_mut(5..9) {
            field.fill(0);
        }
        let computed = footer_checksum(checksum, &copy, offset);
        let stored = word(f, 5)?;
        if computed != stored {
            return Err(Error::corruption(format!(
                "Footer at {offset} checksum mismatch: stored = {stored}, computed = {computed}"
            )));
        }
        if f.get(33..41).is_none_or(|r| r.iter().any(|&b| b != 0)) {
            return Err(Error::not_supported(
                "table footer uses a future feature (reserved bytes are not zero)",
            ));
        }
        let field = u64::from(word(f, 13)?);
        // From version 8 on the upper half is a gap in front of the footer, kept for later use.
        let (size, gap) = match format_version {
            ..8 => (field, 0),
            _ => (field & 0xffff, field >> 16),
        };
        let start = offset
            .checked_sub(TRAILER_LEN as u64 + gap)
            .and_then(|o| o.checked_sub(size));
        let start = start.ok_or_else(|| Error::corruption("metaindex is larger than its file"))?;
        let metaindex = BlockHandle {
            offset: start,
            size,
        };
        Ok(Self {
            format_version,
            checksum,
            metaindex,
            index: None,
            offset,
        })
    }
}

/// Checksum over the 53 bytes with the checksum field zeroed; the last byte plays the part of a
/// trailer's compression type.
fn footer_checksum(context: ChecksumContext, f: &[u8; FOOTER_LEN], offset: u64) -> u32 {
    let [rest @ .., last] = f;
    context
        .kind
        .compute(rest, *last)
        .wrapping_add(context.modifier(offset))
}

#[cold]
fn wrong_magic(magic: u64, path: &Path) -> Error {
    Error::corruption(format!(
        "Bad table magic number: expected {MAGIC}, found {magic} in {}",
        path.display()
    ))
    .with_path(path)
}
