//! The space that a compressed B-tree would take for the entries of a store, computed: none of the B-trees at hand
//! compresses ([SPACE] §5 compares with one that does).
//!
//! Pages of 16 KiB that are as full as those of a tree whose keys come in random order, each compressed by ZSTD at level 1 and
//! rounded up to 4 KiB, since a page is written in place and its neighbours do not move. Inner pages, versions, free space
//! and logs are left out, all of which a real one has: the number is a bound from below.

use super::{Error, Result};
use crate::store::{Direction, Store};
use spanlith_table::{Compression, CompressionOptions, Compressor};

/// Bytes of a page before compression.
const PAGE: usize = 16 << 10;
/// Share of a page that is in use after random insertions: the natural logarithm of 2.
const FILL: f64 = std::f64::consts::LN_2;
/// Bytes of an entry beside key and value: its two lengths.
const HEAD: usize = 4;
/// Pages are written in units of so many bytes.
const UNIT: usize = 4 << 10;

/// Bytes of all pages for the entries of a store's families, so many.
///
/// # Errors
/// Of reading the store; of ZSTD.
pub fn compressed_bytes(store: &dyn Store, families: usize) -> Result<u64> {
    let options = CompressionOptions {
        level: 1,
        ..CompressionOptions::default()
    };
    let mut tree = Tree {
        zstd: Compressor::unlimited(Compression::Zstd, &options)?,
        page: Vec::new(),
        bytes: 0,
    };
    for family in 0..families {
        let mut failed = None;
        let mut each = |key: &[u8], value: &[u8]| {
            failed = tree.add(key, value).err();
            failed.is_none()
        };
        store.scan(family, &[], Direction::Forward, usize::MAX, &mut each)?;
        if let Some(e) = failed {
            return Err(e);
        }
        tree.end_page()?;
    }
    Ok(tree.bytes)
}

struct Tree {
    zstd: Compressor,
    page: Vec<u8>,
    bytes: u64,
}

impl Tree {
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let more = HEAD + key.len() + value.len();
        if self.page.len() + more > (PAGE as f64 * FILL) as usize {
            self.end_page()?;
        }
        self.page.extend((key.len() as u16).to_le_bytes());
        self.page.extend((value.len() as u16).to_le_bytes());
        self.page.extend_from_slice(key);
        self.page.extend_from_slice(value);
        Ok(())
    }

    /// An entry that is longer than a page has pages of its own.
    fn end_page(&mut self) -> Result<()> {
        for page in self.page.chunks(PAGE) {
            let size = self.zstd.compress(page).map_or(page.len(), <[u8]>::len);
            let size = size.min(page.len()).next_multiple_of(UNIT);
            self.bytes = self.bytes.checked_add(size as u64).ok_or_else(overflow)?;
        }
        self.page.clear();
        Ok(())
    }
}

fn overflow() -> Error {
    Error::new("more bytes than a number holds")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Values;

    fn of(ratio: f64, entries: usize) -> u64 {
        let mut tree = Tree {
            zstd: Compressor::unlimited(Compression::Zstd, &CompressionOptions::default()).unwrap(),
            page: Vec::new(),
            bytes: 0,
        };
        let mut values = Values::with_ratio(100, ratio, 1);
        for n in 0..entries {
            tree.add(format!("{n:012}").as_bytes(), values.next())
                .unwrap();
        }
        tree.end_page().unwrap();
        tree.bytes
    }

    #[test]
    fn pages_are_rounded_up_and_cost_what_they_do_not_hold() {
        // 11356 bytes of a page are used by 97 entries; noise keeps 9700 of them and takes three units.
        assert_eq!(of(1.0, 97), 12 << 10);
        assert_eq!(of(1.0, 98), 16 << 10);
        // Compressible entries take fewer units for the same page.
        assert_eq!(of(0.3, 97), 4 << 10);
        assert_eq!(of(0.5, 9700), 100 * (8 << 10));
        assert_eq!(of(0.5, 0), 0);
    }
}
