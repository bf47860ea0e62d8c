//! The superblock: to whom a speed disk belongs, and its sizes.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | `SPANSDSB` |
//! | 8 | 4 | masked CRC-32C of what follows, to byte 512 |
//! | 12 | 4 | version of the format: 1 |
//! | 16 | 8 | generation |
//! | 24 | 16 | instance: drawn when the disk is formatted |
//! | 40 | 8 | epoch: rises with every open for writing |
//! | 48 | 8 | bytes of the disk when it was formatted |
//! | 56 | 4, 4, 4 | page size, pages of a group, groups |
//! | 68 | 4 | bytes of the owner's name |
//! | 72 | 8, 8 | nanoseconds of a durable page write and of a flush, as calibrated; 0: not |
//! | 88 | to 256 | owner: identity of the database that attached it; none: nobody did |
//!
//! Integers are little-endian.

use crate::bytes::{array_at, u32_at, u64_at};
use crate::layout::Layout;
use spanlith_base::checksum::{crc32c, mask};
use spanlith_base::{Error, Result};

/// Bytes that count.
pub const SUPERBLOCK_BYTES: usize = 512;
/// Most bytes of the name of an owner.
pub const OWNER_MAX: usize = 256;
const MAGIC: &[u8; 8] = b"SPANSDSB";
const VERSION: u32 = 1;
const OWNER_AT: usize = 88;

/// Describes what a superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Which of two copies is newer.
    pub generation: u64,
    /// Drawn when the disk was formatted.
    pub instance: [u8; 16],
    /// Rises with every open for writing.
    pub epoch: u64,
    /// Bytes of the disk when it was formatted.
    pub size: u64,
    /// Sizes.
    pub layout: Layout,
    /// Nanoseconds of a durable write of a page, as measured; 0 if nobody did.
    pub write_nanos: u64,
    /// Nanoseconds of a flush behind a cached write, as measured; 0 if nobody did.
    pub flush_nanos: u64,
    /// Identity of the database that it belongs to; empty if none.
    pub owner: String,
}

impl Superblock {
    /// Its bytes. An owner's name that is too long is cut; [`crate::SpeedDisk`] refuses such.
    pub fn encode(&self) -> Vec<u8> {
        let owner = self.owner.as_bytes();
        let owner = owner.get(..owner.len().min(OWNER_MAX)).unwrap_or_default();
        let mut out = Vec::with_capacity(SUPERBLOCK_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.instance);
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.size.to_le_bytes());
        for n in [
            self.layout.page_size,
            self.layout.group_pages,
            self.layout.groups,
            owner.len() as u32,
        ] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        out.extend_from_slice(&self.write_nanos.to_le_bytes());
        out.extend_from_slice(&self.flush_nanos.to_le_bytes());
        out.extend_from_slice(owner);
        out.resize(SUPERBLOCK_BYTES, 0);
        let crc = mask(crc32c(out.get(12..).unwrap_or_default()));
        if let Some(place) = out.get_mut(8..12) {
            place.copy_from_slice(&crc.to_le_bytes());
        }
        out
    }

    /// Returns what `bytes` say; `None` if they are none of ours, torn or damaged.
    ///
    /// # Errors
    /// `NotSupported` for a later version; `Corruption` for sizes that make no sense under a checksum that is right.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>> {
        let Some(bytes) = bytes.get(..SUPERBLOCK_BYTES) else {
            return Ok(None);
        };
        let crc = mask(crc32c(bytes.get(12..).unwrap_or_default()));
        if bytes.get(..8) != Some(MAGIC) || u32_at(bytes, 8) != crc {
            return Ok(None);
        }
        let version = u32_at(bytes, 12);
        if version != VERSION {
            return Err(Error::not_supported(format!(
                "version {version} of the format of speed disks; this release knows version {VERSION}"
            )));
        }
        let owner = u32_at(bytes, 68) as usize;
        let owner = (owner <= OWNER_MAX).then(|| bytes.get(OWNER_AT..OWNER_AT + owner));
        let owner = owner.flatten().map(<[u8]>::to_vec).map(String::from_utf8);
        let Some(Ok(owner)) = owner else {
            return Err(Error::corruption("superblock of a speed disk: owner"));
        };
        let found = Self {
            generation: u64_at(bytes, 16),
            instance: array_at(bytes, 24),
            epoch: u64_at(bytes, 40),
            size: u64_at(bytes, 48),
            layout: Layout {
                page_size: u32_at(bytes, 56),
                group_pages: u32_at(bytes, 60),
                groups: u32_at(bytes, 64),
            },
            write_nanos: u64_at(bytes, 72),
            flush_nanos: u64_at(bytes, 80),
            owner,
        };
        match found.layout.check(found.size) {
            Ok(()) => Ok(Some(found)),
            Err(e) => Err(Error::corruption(format!(
                "superblock of a speed disk: {}",
                e.message()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Superblock {
        Superblock {
            generation: 7,
            instance: *b"0123456789abcdef",
            epoch: 3,
            size: 1 << 20,
            layout: Layout::new(1 << 20, 4096, 64 << 10).unwrap(),
            write_nanos: 100_000,
            flush_nanos: 90_000,
            owner: "0e3a-owner".into(),
        }
    }

    #[test]
    fn a_superblock_comes_back_and_no_changed_bit_goes_unseen() {
        let block = example();
        let bytes = block.encode();
        assert_eq!(bytes.len(), SUPERBLOCK_BYTES);
        assert_eq!(Superblock::decode(&bytes).unwrap(), Some(block));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Superblock::decode(&changed).unwrap(), None, "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert_eq!(Superblock::decode(&bytes[..len]).unwrap(), None);
        }
    }

    #[test]
    fn sizes_that_make_no_sense_and_later_versions_are_told() {
        let mut block = example();
        block.layout.groups = 13;
        let e = Superblock::decode(&block.encode()).unwrap_err();
        assert!(e.to_string().starts_with("Corruption: superblock"), "{e}");
        let mut bytes = example().encode();
        bytes[12] = 2;
        let crc = mask(crc32c(&bytes[12..]));
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        let e = Superblock::decode(&bytes).unwrap_err();
        assert!(
            e.to_string().starts_with("Not implemented: version 2"),
            "{e}"
        );
    }
}
