//! The range tombstones of a memtable, apart from its entries.
//!
//! Additions go to a list under a lock. Readers want fragments; they are made by the first reader
//! after an addition and shared until the next one. A reader that finds them up to date takes no
//! lock.
//!
//! A reader at a snapshot ignores tombstones newer than it, so it does not matter whether fragments
//! hold some that were added meanwhile.

use spanlith_base::Comparator;
use spanlith_base::SequenceNumber;
use spanlith_base::keys::TAG_LEN;
use spanlith_base::range_del::{FragmentedTombstones, RangeTombstone};
use spanlith_base::sync::atomic::{AtomicU64, Ordering};
use spanlith_base::sync::{ArcCell, Mutex};
use std::sync::Arc;

/// Rank of a lock under which nothing else is taken.
const RANK: u8 = 90;

/// A tombstone with keys of its own.
struct Owned {
    start: Box<[u8]>,
    end: Box<[u8]>,
    seqno: SequenceNumber,
}

/// Fragments of the first `count` tombstones.
struct Published {
    count: u64,
    list: Arc<FragmentedTombstones>,
}

/// Range tombstones, in the order of their addition and as fragments.
pub(crate) struct RangeDels {
    comparator: Comparator,
    added: Mutex<Vec<Owned>>,
    /// Length of `added`. Released under its lock; Acquire pairs so that the fragments are remade.
    count: AtomicU64,
    published: ArcCell<Published>,
    /// Relaxed, as the next two: each counts for itself.
    data_bytes: AtomicU64,
    smallest: AtomicU64,
    largest: AtomicU64,
}

impl RangeDels {
    pub(crate) fn new(comparator: Comparator) -> Self {
        let none = FragmentedTombstones::build(&comparator, []);
        Self {
            comparator,
            added: Mutex::new(RANK, Vec::new()),
            count: AtomicU64::new(0),
            published: ArcCell::new(Arc::new(Published {
                count: 0,
                list: Arc::new(none),
            })),
            data_bytes: AtomicU64::new(0),
            smallest: AtomicU64::new(u64::MAX),
            largest: AtomicU64::new(0),
        }
    }

    pub(crate) fn add(&self, seqno: SequenceNumber, start: &[u8], end: &[u8]) {
        let mut added = self.added.lock();
        added.push(Owned {
            start: start.into(),
            end: end.into(),
            seqno,
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

    /// Number of tombstones.
    pub(crate) fn len(&self) -> u64 {
        self.count.load(Ordering::Acquire)
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
