//! Checksums of the entries of an index in memory (`block_protection_bytes_per_key`).
//!
//! A search looks at few entries, and only two of them decide what it finds: the first that is not smaller
//! than the target and the one before it. If these two are what they were, stand where they stood, and have
//! the target between them, the search was right whatever it met on its way. So a lookup pays for two
//! entries, not for the whole index.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::table::IndexTable;
use crate::block::protection::{bytes, changed, shortened, words};
use crate::format::BlockHandle;
use spanlith_base::{Comparator, Error, Result};
use std::cmp::Ordering;

/// A checksum for each entry of an index.
pub(super) struct EntrySums {
    /// Where the index is in its file.
    at: BlockHandle,
    /// Bytes of each sum in use.
    len: u8,
    sums: Vec<u64>,
}

impl EntrySums {
    /// Bytes of memory it occupies.
    pub(super) fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.sums.capacity() * 8
    }

    /// Takes all sums into a checksum.
    pub(super) fn checksum(&self, sum: u64) -> u64 {
        words(sum, &self.sums, |w| w)
    }
}

impl IndexTable {
    /// Gives each entry a checksum of `len` bytes; `at` is where the index is in its file. User comparators
    /// get none, for they must not see a key that changed: such an index is verified whole.
    pub(crate) fn guard(&mut self, at: BlockHandle, len: u8) {
        if self.has_words() {
            let sums = (0..self.len()).map(|i| shortened(self.entry_sum(i), len));
            let sums = sums.collect();
            self.sums = Some(Box::new(EntrySums { at, len, sums }));
        }
    }

    /// Returns whether entries have checksums.
    #[inline]
    pub(crate) fn is_guarded(&self) -> bool {
        self.sums.is_some()
    }

    /// All that an entry is, and its place.
    fn entry_sum(&self, i: usize) -> u64 {
        let handle = self.handle(i).unwrap_or_default();
        let (shape, stored) = (self.shape(), self.stored(i));
        let array = [
            i as u64,
            self.len() as u64,
            self.word(i),
            self.head(i) as u64,
            handle.offset,
            handle.size,
        ];
        let sum = bytes(words(words(0, &shape, |w| w), &array, |w| w), stored);
        let sum = bytes(sum, self.common());
        self.first_key(i).map_or(sum, |key| bytes(sum, key))
    }

    fn is_entry_intact(&self, sums: &EntrySums, i: usize) -> bool {
        let kept = sums.sums.get(i);
        kept.is_some_and(|&kept| kept == shortened(self.entry_sum(i), sums.len))
    }

    /// Verifies an entry; one after the last is none.
    ///
    /// # Errors
    /// `Corruption`, with the place of the index, if it is not what it was.
    #[cold]
    #[inline(never)]
    pub(crate) fn check_entry(&self, i: usize) -> Result<()> {
        match &self.sums {
            Some(sums) if i < self.len() && !self.is_entry_intact(sums, i) => Err(changed_at(sums)),
            _ => Ok(()),
        }
    }

    /// Verifies that [`Self::seek`] found what an index finds that did not change.
    ///
    /// # Errors
    /// As [`Self::check_entry`].
    #[cold]
    #[inline(never)]
    pub(crate) fn check_found(
        &self,
        cmp: &Comparator,
        key: (&[u8], u64),
        found: usize,
    ) -> Result<()> {
        let Some(sums) = &self.sums else {
            return Ok(());
        };
        let before = found.checked_sub(1);
        let is_right = found <= self.len()
            && sums.sums.len() == self.len()
            && before.is_none_or(|i| {
                self.is_entry_intact(sums, i) && self.order(cmp, i, key) == Ordering::Less
            })
            && (found == self.len()
                || self.is_entry_intact(sums, found)
                    && self.order(cmp, found, key) != Ordering::Less);
        if is_right {
            Ok(())
        } else {
            Err(changed_at(sums))
        }
    }
}

#[cold]
fn changed_at(sums: &EntrySums) -> Error {
    changed().with_offset(sums.at.offset)
}
