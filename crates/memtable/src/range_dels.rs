//! The range tombstones of a memtable, apart from its entries.
//!
//! Additions go to a list under a lock. Readers want fragments; they are made by the first reader
//! after an addition and shared until the next one. A reader that finds them up to date takes no
//! lock.
//!
//! A reader at a snapshot ignores tombstones newer than it, so it does not matter whether fragments
//! hold some that were added meanwhile.
//!
//! With protection each tombstone has a checksum, computed from what the caller hands over. All are
//! verified when fragments are made of them, and by who writes them to a table; fragments have none.

use crate::protection::{changed, checksum};
use spanlith_base::keys::{TAG_LEN, ValueType, pack_tag};
use spanlith_base::range_del::{FragmentedTombstones, RangeTombstone};
use spanlith_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use spanlith_base::sync::{ArcCell, Mutex};
use spanlith_base::{Comparator, Result, SequenceNumber};
use std::sync::Arc;

/// Rank of a lock under which nothing else is taken.
const RANK: u8 = 90;

/// A tombstone with keys of its own.
struct Owned {
    start: Box<[u8]>,
    end: Box<[u8]>,
    seqno: SequenceNumber,
    /// As much of its checksum as is kept.
    sum: u64,
}

/// Fragments of the first `count` tombstones.
struct Published {
    count: u64,
    list: Arc<FragmentedTombstones>,
}

/// Range tombstones, in the order of their addition and as fragments.
pub(crate) struct RangeDels {
    comparator: Comparator,
    /// Bits of a checksum that are kept.
    sum_mask: u64,
    added: Mutex<Vec<Owned>>,
    /// Length of `added`. Released under its lock; Acquire pairs so that the fragments are remade.
    count: AtomicU64,
    published: ArcCell<Published>,
    /// A checksum was found wrong. Stored before the fragments are published, whose load orders it.
    is_damaged: AtomicBool,
    /// Relaxed, as the next two: each counts for itself.
    data_bytes: AtomicU64,
    smallest: AtomicU64,
    largest: AtomicU64,
}

impl RangeDels {
    /// No tombstones; each is to have a checksum of so many bytes, at most 8.
    pub(crate) fn new(comparator: Comparator, sum_bytes: u8) -> Self {
        let none = FragmentedTombstones::build(&comparator, []);
        Self {
            comparator,
            sum_mask: match sum_bytes {
                0 => 0,
                n => u64::MAX >> (64 - 8 * u32::from(n.min(8))),
            },
            added: Mutex::new(RANK, Vec::new()),
            count: AtomicU64::new(0),
            published: ArcCell::new(Arc::new(Published {
                count: 0,
                list: Arc::new(none),
            })),
            is_damaged: AtomicBool::new(false),
            data_bytes: AtomicU64::new(0),
            smallest: AtomicU64::new(u64::MAX),
            largest: AtomicU64::new(0),
        }
    }

    pub(crate) fn add(&self, seqno: SequenceNumber, start: &[u8], end: &[u8]) {
        let sum = self.sum_of(seqno, start, end);
        let mut added = self.added.lock();
        added.push(Owned {
            start: start.into(),
            end: end.into(),
            seqno,
            sum,
        });
        let bytes = (start.len() + TAG_LEN + end.len()) as u64;
        self.data_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.smallest.fetch_min(seqno, Ordering::Relaxed);
        self.largest.fetch_max(seqno, Ordering::Relaxed);
        self.count.store(added.len() as u64, Ordering::Release);
    }

    pub(crate) fn list(&self) -> Arc<FragmentedTombstones> {
        let count = self.count.load(Ordering::Acquire);
        {
            let published = self.published.load();
            if published.count == count {
                return Arc::clone(&published.list);
            }
        }
        self.rebuild()
    }

    #[cold]
    fn rebuild(&self) -> Arc<FragmentedTombstones> {
        let added = self.added.lock();
        let count = added.len() as u64;
        {
            // Another reader may have been first.
            let published = self.published.load();
            if published.count == count {
                return Arc::clone(&published.list);
            }
        }
        if !self.are_intact(&added) {
            self.is_damaged.store(true, Ordering::Relaxed);
        }
        let tombstones = added.iter().map(|t| RangeTombstone {
            start: &t.start,
            end: &t.end,
            seqno: t.seqno,
        });
        let list = Arc::new(FragmentedTombstones::build(&self.comparator, tombstones));
        self.published.replace(Arc::new(Published {
            count,
            list: Arc::clone(&list),
        }));
        list
    }

    /// The kept part of a checksum; 0 without protection.
    fn sum_of(&self, seqno: SequenceNumber, start: &[u8], end: &[u8]) -> u64 {
        match self.sum_mask {
            0 => 0,
            mask => checksum(pack_tag(seqno, ValueType::RangeDeletion as u8), start, end) & mask,
        }
    }

    fn are_intact(&self, added: &[Owned]) -> bool {
        let is_intact = |t: &Owned| t.sum == self.sum_of(t.seqno, &t.start, &t.end);
        self.sum_mask == 0 || added.iter().all(is_intact)
    }

    /// Fails if a tombstone was found changed when fragments were made.
    pub(crate) fn status(&self) -> Result<()> {
        match self.is_damaged.load(Ordering::Relaxed) {
            true => Err(changed()),
            false => Ok(()),
        }
    }

    /// Verifies all tombstones.
    pub(crate) fn check(&self) -> Result<()> {
        match self.are_intact(&self.added.lock()) {
            true => self.status(),
            false => Err(changed()),
        }
    }

    /// Number of tombstones.
    pub(crate) fn len(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Number of tombstones that begin at `start` or after it, and before `end`.
    pub(crate) fn count_within(&self, start: &[u8], end: &[u8]) -> u64 {
        let c = &self.comparator;
        let is_within =
            |t: &&Owned| c.compare(&t.start, start).is_ge() && c.compare(&t.start, end).is_lt();
        self.added.lock().iter().filter(is_within).count() as u64
    }

    /// Bytes of internal keys and end keys.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes.load(Ordering::Relaxed)
    }

    /// Bytes held, without the fragments, which come and go.
    pub(crate) fn memory_usage(&self) -> usize {
        self.data_bytes() as usize + self.len() as usize * size_of::<Owned>() + size_of::<Self>()
    }

    pub(crate) fn smallest(&self) -> SequenceNumber {
        self.smallest.load(Ordering::Relaxed)
    }

    pub(crate) fn largest(&self) -> SequenceNumber {
        self.largest.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tombstones with checksums of so many bytes, of which one changes in memory.
    fn damaged(sum_bytes: u8, change: impl FnOnce(&mut Owned)) -> RangeDels {
        let ranges = RangeDels::new(Comparator::Bytewise, sum_bytes);
        ranges.add(5, b"a", b"c");
        ranges.add(6, b"d", b"f");
        ranges.check().unwrap();
        change(&mut ranges.added.lock()[1]);
        ranges
    }

    #[test]
    fn a_tombstone_that_changes_in_memory_is_found_when_fragments_are_made() {
        for sum_bytes in [1, 2, 4, 8] {
            let changes: [fn(&mut Owned); 4] = [
                |t| t.start[0] = b'e',
                |t| t.end[0] = b'g',
                |t| t.seqno = 7,
                |t| t.sum ^= 1,
            ];
            for change in changes {
                let ranges = damaged(sum_bytes, change);
                ranges.status().unwrap();
                let text = "Corruption: Corrupted memtable entry, per key-value checksum verification \
                            failed.";
                assert_eq!(ranges.check().unwrap_err().to_string(), text);
                ranges.list();
                assert_eq!(ranges.status().unwrap_err().to_string(), text);
            }
        }
        damaged(0, |t| t.seqno = 7).check().unwrap();
        let intact = damaged(8, |_| ());
        intact.list();
        intact.status().unwrap();
    }
}
