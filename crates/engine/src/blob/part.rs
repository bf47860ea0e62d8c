//! A part of a value: of one that lies uncompressed in a blob file, only the bytes that are wanted are read.

use super::index::{BlobIndex, BlobPointer};
use super::reader::BlobFileReader;
use super::source::{BlobRead, BlobSource};
use crate::version::Version;
use spanlith_base::{Pinned, Result};
use std::ops::Range;

/// Type byte of values that are stored as they are.
const UNCOMPRESSED: u8 = 0;

/// A part of a value, and the length of the whole.
pub(crate) type Part = (Pinned, u64);

/// The bytes of a range that a value of `len` bytes has.
fn within(range: &Range<u64>, len: u64) -> Range<u64> {
    let start = range.start.min(len);
    start..range.end.clamp(start, len)
}

/// The part of a value that is at hand.
pub(crate) fn part_of(value: &Pinned, range: &Range<u64>) -> Part {
    let len = value.len() as u64;
    let part = within(range, len);
    // Not longer than the value, whose length is a `usize`.
    (value.slice(part.start as usize..part.end as usize), len)
}

impl BlobSource {
    /// As [`Self::resolve`], a part of the value. One read of no more than the part, if the value lies uncompressed in its
    /// file and checksums are not to be verified, which needs the whole record.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub(crate) fn resolve_part(
        &self,
        version: &Version,
        (user_key, index): (&[u8], &[u8]),
        range: &Range<u64>,
        how: BlobRead,
    ) -> Result<Part> {
        let pointer = BlobIndex::decode(index)?.pointer()?;
        let is_bare = pointer.compression == UNCOMPRESSED
            && !how.verify_checksums
            && how.may_read
            && version.blob_files.contains_key(&pointer.file);
        if !is_bare {
            let value = self.resolve(version, user_key, index, how)?;
            return Ok(part_of(&value, range));
        }
        if let Some(value) = self.cached(user_key, &pointer, how) {
            return Ok(part_of(&value, range));
        }
        let read = || self.reader(pointer.file)?.part(user_key, &pointer, range);
        let part = match self.reads() {
            Some(reads) => reads.count(pointer.size, read)?,
            None => read()?,
        };
        Ok((part, pointer.size))
    }
}

impl BlobFileReader {
    /// A part of the value at `pointer`, which must lie uncompressed in the file; nothing of it is verified.
    fn part(&self, user_key: &[u8], pointer: &BlobPointer, range: &Range<u64>) -> Result<Pinned> {
        let part = within(range, pointer.size);
        self.bare(user_key, pointer, part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_to_the_value() {
        let value = Pinned::from_vec(b"0123456789".to_vec());
        for (range, expected) in [
            (0..10, &b"0123456789"[..]),
            (2..4, b"23"),
            (8..100, b"89"),
            (10..11, b""),
            (100..200, b""),
            (0..u64::MAX, b"0123456789"),
            (u64::MAX - 1..u64::MAX, b""),
            (5..5, b""),
        ] {
            let (part, len) = part_of(&value, &range);
            assert_eq!((&part[..], len), (expected, 10), "{range:?}");
        }
        #[allow(clippy::reversed_empty_ranges, reason = "callers may give one")]
        let backward = 7..3;
        assert_eq!(part_of(&value, &backward).0, Pinned::default());
    }
}
