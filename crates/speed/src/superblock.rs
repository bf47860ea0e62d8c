//! The superblock: to whom a speed disk belongs, and its sizes.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | `SPANSDSB` |
//! | 8 | 4 | masked CRC-32C of what follows, to byte 512 |
//! | 12 | 4 | version of the format: 1, or 2 if it has a part for tables |
//! | 16 | 8 | generation |
//! | 24 | 16 | instance: drawn when the disk is formatted |
//! | 40 | 8 | epoch: rises with every open for writing |
//! | 48 | 8 | bytes of the disk when it was formatted |
//! | 56 | 4, 4, 4 | page size, pages of a group, groups |
//! | 68 | 4 | bytes of the owner's name |
//! | 72 | 8, 8 | nanoseconds of a durable page write and of a flush, as calibrated; 0: not |
//! | 88 | to 256 | owner: identity of the database that attached it; none: nobody did |
//! | 344 | 8, 8, 8 | of version 2: where the part for tables begins, bytes of a half of its metadata log, bytes in all |
//!
//! Integers are little-endian.

use crate::bytes::{array_at, u32_at, u64_at};
use crate::layout::{Layout, TablesArea};
use spanlith_base::checksum::{crc32c, mask};
use spanlith_base::{Error, Result};

/// Bytes that count.
pub const SUPERBLOCK_BYTES: usize = 512;
/// Most bytes of the name of an owner.
pub const OWNER_MAX: usize = 256;
const MAGIC: &[u8; 8] = b"SPANSDSB";
const VERSION: u32 = 1;
/// The version of disks that have a part for tables: earlier releases refuse it.
const VERSION_TABLES: u32 = 2;
const OWNER_AT: usize = 88;
const TABLES_AT: usize = OWNER_AT + OWNER_MAX;

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
    /// Nanoseconds of a flush after a cached write, as measured; 0 if nobody did.
    pub flush_nanos: u64,
    /// Identity of the database that it belongs to; empty if none.
    pub owner: String,
    /// The part that has tables, if it was formatted with one.
    pub tables: Option<TablesArea>,
}

impl Superblock {
    /// Its bytes. An owner's name that is too long is cut; [`crate::SpeedDisk`] refuses such.
    pub fn encode(&self) -> Vec<u8> {
        let owner = self.owner.as_bytes();
        let owner = owner.get(..owner.len().min(OWNER_MAX)).unwrap_or_default();
        let mut out = Vec::with_capacity(SUPERBLOCK_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[0; 4]);
        let version = self.tables.map_or(VERSION, |_| VERSION_TABLES);
        out.extend_from_slice(&version.to_le_bytes());
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
        if let Some(tables) = &self.tables {
            out.resize(TABLES_AT, 0);
            for n in [tables.start, tables.half_bytes, tables.bytes] {
                out.extend_from_slice(&n.to_le_bytes());
            }
        }
        out.resize(SUPERBLOCK_BYTES, 0);
        let crc = mask(crc32c(out.get(12..).unwrap_or_default()));
        if let Some(place) = out.get_mut(8..12) {
            place.copy_from_slice(&crc.to_le_bytes());
        }
        out
    }

    /// Refuses sizes that make no sense.
    ///
    /// # Errors
    /// `InvalidArgument` with the numbers.
    pub fn check(&self) -> Result<()> {
        self.layout.check(self.size)?;
        match &self.tables {
            Some(tables) => tables.check(self.size, self.layout.end(), self.layout.page_size),
            None => Ok(()),
        }
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
        if version != VERSION && version != VERSION_TABLES {
            return Err(Error::not_supported(format!(
                "version {version} of the format of speed disks; this release knows versions {VERSION} and {VERSION_TABLES}"
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
            tables: (version == VERSION_TABLES).then(|| TablesArea {
                start: u64_at(bytes, TABLES_AT),
                half_bytes: u64_at(bytes, TABLES_AT + 8),
                bytes: u64_at(bytes, TABLES_AT + 16),
            }),
        };
        match found.check() {
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
            tables: None,
        }
    }

    fn with_tables() -> Superblock {
        let layout = Layout::new(1 << 20, 4096, 64 << 10).unwrap();
        Superblock {
            size: 2 << 20,
            layout,
            tables: Some(TablesArea::new(2 << 20, 1 << 20, 4096)),
            ..example()
        }
    }

    #[test]
    fn a_superblock_comes_back_and_no_changed_bit_goes_unseen() {
        for (block, version) in [(example(), 1), (with_tables(), 2)] {
            let bytes = block.encode();
            assert_eq!(bytes.len(), SUPERBLOCK_BYTES);
            assert_eq!(bytes[12], version, "earlier releases refuse tables");
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
    }

    #[test]
    fn a_part_for_tables_lies_behind_the_page_groups_and_within_the_disk() {
        let block = with_tables();
        block.check().unwrap();
        let area = block.tables.unwrap();
        assert_eq!((area.start, area.half_bytes), (1 << 20, 64 << 10));
        assert_eq!(area.data_bytes(), (1 << 20) - (128 << 10));
        for change in [
            |t: &mut TablesArea| t.start -= 4096,
            |t: &mut TablesArea| t.bytes += 4096,
            |t: &mut TablesArea| t.bytes = 128 << 10,
            |t: &mut TablesArea| t.half_bytes = 60 << 10,
            |t: &mut TablesArea| t.half_bytes = 2 << 20,
            |t: &mut TablesArea| t.half_bytes += 1,
            |t: &mut TablesArea| t.start = u64::MAX - 4095,
        ] {
            let mut wrong = block.clone();
            change(wrong.tables.as_mut().unwrap());
            let e = Superblock::decode(&wrong.encode()).unwrap_err();
            assert!(e.to_string().starts_with("Corruption: superblock"), "{e}");
        }
    }

    #[test]
    fn sizes_that_make_no_sense_and_later_versions_are_told() {
        let mut block = example();
        block.layout.groups = 13;
        let e = Superblock::decode(&block.encode()).unwrap_err();
        assert!(e.to_string().starts_with("Corruption: superblock"), "{e}");
        let mut bytes = example().encode();
        bytes[12] = 3;
        let crc = mask(crc32c(&bytes[12..]));
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        let e = Superblock::decode(&bytes).unwrap_err();
        assert!(
            e.to_string().starts_with("Not implemented: version 3"),
            "{e}"
        );
    }
}
