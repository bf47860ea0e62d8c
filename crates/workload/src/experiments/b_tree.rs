//! The space that a compressed B-tree would take for the entries of a store, computed: none of the B-trees at hand
//! compresses ([SPACE] §5 compares with one that does).
//!
//! Pages of 16 KiB that are as full as those of a tree whose keys come in random order, each compressed by ZSTD at level 1.
//! A page is written in place and its neighbours do not move, so that the space of a page comes in units. There are two
//! kinds of trees: one rounds each page up to 4 KiB, as a file system with holes allows; the other has a fixed 8 KiB for
//! every page, as the engine of the document has (InnoDB with `KEY_BLOCK_SIZE=8`), and splits a page that does not fit.
//! Inner pages, versions, free space and logs are left out, all of which a real one has: the numbers are bounds from below.

use super::{Error, Result};
use crate::store::{Direction, Store};
use spanlith_base::CompressionType;
use spanlith_table::{CompressionOptions, Compressor};

/// Bytes of a page before compression.
const PAGE: usize = 16 << 10;
/// Share of a page that is in use after random insertions: the natural logarithm of 2.
const FILL: f64 = std::f64::consts::LN_2;
/// Bytes of an entry beside key and value: its two lengths.
const HEAD: usize = 4;
/// Pages are written in units of so many bytes.
const UNIT: usize = 4 << 10;
/// Bytes of every page where they are fixed.
const FIXED: usize = 8 << 10;

/// Bytes of all pages of both kinds of trees.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Space {
    /// Each page is rounded up to 4 KiB.
    pub rounded: u64,
    /// Each page takes 8 KiB.
    pub fixed: u64,
}

/// Bytes of all pages for the entries of a store's families, so many.
///
/// # Errors
/// Of reading the store; of ZSTD.
pub fn compressed_bytes(store: &dyn Store, families: usize) -> Result<Space> {
    let options = CompressionOptions {
        level: 1,
        ..CompressionOptions::default()
    };
    let mut tree = Tree {
        zstd: Compressor::unlimited(CompressionType::Zstd, &options)?,
        page: Vec::new(),
        space: Space::default(),
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
    Ok(tree.space)
}

struct Tree {
    zstd: Compressor,
    page: Vec<u8>,
    space: Space,
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
            let size = size.min(page.len());
            let add = |to: u64, more: usize| to.checked_add(more as u64).ok_or_else(overflow);
            self.space.rounded = add(self.space.rounded, size.next_multiple_of(UNIT))?;
            // A page that does not fit is split until its parts do.
            let parts = size.div_ceil(FIXED).next_power_of_two();
            self.space.fixed = add(self.space.fixed, parts * FIXED)?;
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

    fn of(ratio: f64, entries: usize) -> Space {
        let mut tree = Tree {
            zstd: Compressor::unlimited(CompressionType::Zstd, &CompressionOptions::default())
                .unwrap(),
            page: Vec::new(),
            space: Space::default(),
        };
        let mut values = Values::with_ratio(100, ratio, 1);
        for n in 0..entries {
            tree.add(format!("{n:012}").as_bytes(), values.next())
                .unwrap();
        }
        tree.end_page().unwrap();
        tree.space
    }

    #[test]
    fn pages_are_rounded_up_and_cost_what_they_do_not_hold() {
        let space = |rounded: u64, fixed: u64| Space {
            rounded: rounded << 10,
            fixed: fixed << 10,
        };
        // 11356 bytes of a page are used by 97 entries; noise keeps 9700 of them and takes three units, or two pages.
        assert_eq!(of(1.0, 97), space(12, 16));
        assert_eq!(of(1.0, 98), space(16, 24));
        // Compressible entries take fewer units for the same page, and no less than a page.
        assert_eq!(of(0.3, 97), space(4, 8));
        assert_eq!(of(0.5, 9700), space(800, 800));
        assert_eq!(of(0.5, 0), space(0, 0));
    }
}
