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

    /// Whether entries have checksums.
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

    /// [`Self::handle`] of an entry that is what it was.
    ///
    /// # Errors
    /// `Corruption`, with the place of the index, if it is not.
    #[inline]
    pub(crate) fn trusted_handle(&self, i: usize) -> Result<Option<BlockHandle>> {
        match &self.sums {
            Some(sums) => self.checked_handle(sums, i),
            None => Ok(self.handle(i)),
        }
    }

    #[inline(never)]
    fn checked_handle(&self, sums: &EntrySums, i: usize) -> Result<Option<BlockHandle>> {
        if i < self.len() && !self.is_entry_intact(sums, i) {
            return Err(changed_at(sums));
        }
        Ok(self.handle(i))
    }

    /// [`Self::seek`] that is right or fails.
    ///
    /// # Errors
    /// As [`Self::trusted_handle`].
    #[inline]
    pub(crate) fn trusted_seek(&self, cmp: &Comparator, user: &[u8], tag: u64) -> Result<usize> {
        let found = self.seek(cmp, user, tag);
        match &self.sums {
            Some(sums) => self.checked(sums, cmp, (user, tag), found),
            None => Ok(found),
        }
    }

    /// [`Self::seek_near`] that is right or fails, given that `near` was.
    ///
    /// # Errors
    /// As [`Self::trusted_handle`].
    pub(crate) fn trusted_seek_near(
        &self,
        cmp: &Comparator,
        key: (&[u8], u64),
        near: usize,
    ) -> Result<usize> {
        match &self.sums {
            Some(_) => self.trusted_seek(cmp, key.0, key.1),
            None => Ok(self.seek_near(cmp, key, near)),
        }
    }

    #[inline(never)]
    fn checked(
        &self,
        sums: &EntrySums,
        cmp: &Comparator,
        key: (&[u8], u64),
        found: usize,
    ) -> Result<usize> {
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
            Ok(found)
        } else {
            Err(changed_at(sums))
        }
    }
}

#[cold]
fn changed_at(sums: &EntrySums) -> Error {
    changed().with_offset(sums.at.offset)
}
