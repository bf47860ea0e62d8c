//! Where things stand on a speed disk.
//!
//! ```text
//! byte 0        superblock A          byte 64 Ki    superblock B
//! byte 128 Ki   log directory A       byte 192 Ki   log directory B
//! byte 256 Ki   page groups of the log
//! then, if the disk was formatted for tables: two halves of their metadata log, and their data, to the end
//! ```
//!
//! The two copies of a structure are written in turn, with a rising generation; the valid one with the higher
//! generation counts. So nothing relies on a write that is atomic. The places do not depend on the page
//! size, which the superblock tells.

use spanlith_base::{Error, Result};

/// Where the two superblocks begin.
pub(crate) const SUPERBLOCKS: [u64; 2] = [0, 64 << 10];
/// Where the two log directories begin.
pub(crate) const DIRECTORIES: [u64; 2] = [128 << 10, 192 << 10];
/// Most bytes of a log directory.
pub(crate) const DIRECTORY_MAX: usize = 64 << 10;
/// Where the page groups begin.
pub(crate) const WAL_START: u64 = 256 << 10;
/// Fewest page groups of a disk: one is written while others are flushed.
pub const GROUPS_MIN: u32 = 4;
/// Bytes of a page group unless somebody asks for others.
pub const GROUP_BYTES_DEFAULT: u64 = 4 << 20;

/// Fewest pages of a half of the metadata log of tables.
const HALF_PAGES_MIN: u64 = 16;
/// Most bytes of a half of the metadata log of tables, so that one can be read whole.
const HALF_BYTES_MAX: u64 = 1 << 20;
/// A half of the metadata log has one part of these of the bytes of tables.
const HALF_PART: u64 = 64;

/// The part of a speed disk that has tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TablesArea {
    /// Where it begins: after the page groups.
    pub start: u64,
    /// Bytes of a half of the metadata log.
    pub half_bytes: u64,
    /// Bytes in all: both halves, and the pages of tables.
    pub bytes: u64,
}

impl TablesArea {
    /// The last `bytes` of a disk of `size` bytes, both rounded down to pages.
    pub fn new(size: u64, bytes: u64, page_size: u32) -> Self {
        let page = u64::from(page_size.max(1));
        let end = size / page * page;
        let bytes = bytes / page * page;
        let half = (bytes / HALF_PART).clamp(
            HALF_PAGES_MIN * page,
            HALF_BYTES_MAX.max(HALF_PAGES_MIN * page),
        );
        Self {
            start: end.saturating_sub(bytes),
            half_bytes: half / page * page,
            bytes: bytes.min(end),
        }
    }

    /// Refuses what makes no sense on a disk of `size` bytes whose page groups end at `after`.
    ///
    /// # Errors
    /// `InvalidArgument` with the numbers.
    pub fn check(&self, size: u64, after: u64, page_size: u32) -> Result<()> {
        let page = u64::from(page_size.max(1));
        let is_whole = |n: u64| n.is_multiple_of(page);
        let pages = self.bytes / page;
        let is_sound = self.start >= after
            && self
                .start
                .checked_add(self.bytes)
                .is_some_and(|end| end <= size)
            && [self.start, self.half_bytes, self.bytes]
                .into_iter()
                .all(is_whole)
            && self.half_bytes / page >= HALF_PAGES_MIN
            && self.half_bytes <= HALF_BYTES_MAX.max(HALF_PAGES_MIN * page)
            && pages > 2 * (self.half_bytes / page)
            && u32::try_from(pages).is_ok();
        if is_sound {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "the part of a speed disk for tables is too small, or makes no sense: {} bytes from byte {} on, of which the \
             metadata log takes twice {}; the disk has {size} bytes, and its page groups end at byte {after}",
            self.bytes, self.start, self.half_bytes
        )))
    }

    /// Where a half of the metadata log begins.
    pub(crate) fn half(&self, which: usize) -> u64 {
        self.start + self.half_bytes * (which as u64 & 1)
    }

    /// Pages of a half.
    pub(crate) fn half_pages(&self, page_size: usize) -> u32 {
        u32::try_from(self.half_bytes / page_size.max(1) as u64).unwrap_or(u32::MAX)
    }

    /// Bytes for the pages of tables.
    pub fn data_bytes(&self) -> u64 {
        self.bytes.saturating_sub(2 * self.half_bytes)
    }

    /// Pages of tables.
    pub(crate) fn data_pages(&self, page_size: usize) -> u32 {
        u32::try_from(self.data_bytes() / page_size.max(1) as u64).unwrap_or(u32::MAX)
    }

    /// Where a page of tables begins.
    pub(crate) fn offset_of(&self, page: u32, page_size: usize) -> u64 {
        self.start + 2 * self.half_bytes + u64::from(page) * page_size as u64
    }
}

/// Sizes of a speed disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a page: a power of two from 512 to 65536.
    pub page_size: u32,
    /// Pages of a page group.
    pub group_pages: u32,
    /// Page groups.
    pub groups: u32,
}

impl Layout {
    /// The layout of a disk of `size` bytes, with page groups of about `group_bytes`.
    ///
    /// # Errors
    /// `InvalidArgument` where that leaves less than [`GROUPS_MIN`] groups or a group is no page.
    pub fn new(size: u64, page_size: u32, group_bytes: u64) -> Result<Self> {
        let layout = Self {
            page_size,
            group_pages: u32::try_from(group_bytes / u64::from(page_size.max(1))).unwrap_or(0),
            groups: 0,
        };
        let room = size.saturating_sub(WAL_START);
        let groups = room.checked_div(layout.group_bytes()).unwrap_or(0);
        let layout = Self {
            groups: u32::try_from(groups).unwrap_or(u32::MAX),
            ..layout
        };
        layout.check(size)?;
        Ok(layout)
    }

    /// Refuses what makes no sense on a disk of `size` bytes.
    ///
    /// # Errors
    /// `InvalidArgument` with the numbers.
    pub fn check(&self, size: u64) -> Result<()> {
        let pages = u64::from(self.group_pages) * u64::from(self.groups);
        let is_sound = self.page_size.is_power_of_two()
            && (512..=65536).contains(&self.page_size)
            && self.group_pages > 0
            && self.groups >= GROUPS_MIN
            && u32::try_from(pages).is_ok()
            && self.end() <= size;
        if is_sound {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "a speed disk of {size} bytes is too small, or its sizes make no sense: pages of {} bytes, {} page groups \
             (at least {GROUPS_MIN}) of {} pages from byte {WAL_START} on",
            self.page_size, self.groups, self.group_pages
        )))
    }

    /// Bytes of a page group.
    pub fn group_bytes(&self) -> u64 {
        u64::from(self.group_pages) * u64::from(self.page_size)
    }

    /// The first byte after the last page group.
    pub fn end(&self) -> u64 {
        let groups = self.group_bytes().saturating_mul(u64::from(self.groups));
        WAL_START.saturating_add(groups)
    }

    /// Number of the first page of a group; pages are counted from the first one of the first group.
    pub(crate) fn first_page(&self, group: u32) -> u32 {
        group.saturating_mul(self.group_pages)
    }

    /// Where a page begins.
    pub fn offset_of(&self, page: u32) -> u64 {
        WAL_START + u64::from(page) * u64::from(self.page_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        let layout = Layout::new(1 << 20, 4096, 64 << 10).unwrap();
        assert_eq!((layout.groups, layout.group_pages), (12, 16));
        assert_eq!(layout.end(), 1 << 20);
        for (size, page, group) in [
            (0, 4096, 64 << 10),
            (300 << 10, 4096, 64 << 10),
            (1 << 20, 0, 64 << 10),
            (1 << 20, 1000, 64 << 10),
            (1 << 20, 4096, 0),
            (1 << 20, 4096, u64::MAX),
            (1 << 20, 1 << 17, 1 << 17),
        ] {
            let e = Layout::new(size, page, group).unwrap_err();
            assert!(
                e.to_string().starts_with("Invalid argument: a speed disk"),
                "{e}"
            );
        }
    }
}
