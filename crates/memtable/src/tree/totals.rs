//! Counters of a tree, cheap for a lone writer.
//!
//! One writer at a time owns a set of counters and updates it with plain stores; writers that find
//! it owned add to a second set with locked instructions. Readers sum both.

use spanlith_base::ValueType;
use spanlith_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One set of counters. Relaxed: each counts for itself and publishes nothing.
#[repr(align(128))]
struct Set {
    /// Guards the owned set: taken by Acquire swap, given back by Release store. Unused in the other.
    busy: AtomicBool,
    entries: AtomicU64,
    deletes: AtomicU64,
    data_bytes: AtomicU64,
    smallest: AtomicU64,
    largest: AtomicU64,
}

/// The counters.
pub(super) struct Totals {
    owned: Set,
    shared: Set,
}

/// Sums over all entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) entries: u64,
    pub(crate) deletes: u64,
    /// Bytes of internal keys and values.
    pub(crate) data_bytes: u64,
    /// `u64::MAX` while empty.
    pub(crate) smallest: u64,
    /// Zero while empty.
    pub(crate) largest: u64,
}

impl Counts {
    #[inline]
    pub(super) fn none() -> Self {
        Self {
            smallest: u64::MAX,
            ..Self::default()
        }
    }

    #[inline]
    pub(super) fn add(&mut self, sequence: u64, kind: ValueType, data_bytes: usize) {
        self.entries += 1;
        self.deletes += u64::from(kind.is_point_deletion());
        self.data_bytes += data_bytes as u64;
        self.smallest = self.smallest.min(sequence);
        self.largest = self.largest.max(sequence);
    }
}

impl Set {
    fn new() -> Self {
        Self {
            busy: AtomicBool::new(false),
            entries: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
            data_bytes: AtomicU64::new(0),
            smallest: AtomicU64::new(u64::MAX),
            largest: AtomicU64::new(0),
        }
    }
}

impl Totals {
    pub(super) fn new() -> Self {
        Self {
            owned: Set::new(),
            shared: Set::new(),
        }
    }

    /// Counts entries added.
    #[inline]
    pub(super) fn add(&self, counts: &Counts) {
        let set = &self.owned;
        // The plain look first leaves a line that is in use alone.
        if set.busy.load(Ordering::Relaxed) || set.busy.swap(true, Ordering::Acquire) {
            return self.add_shared(counts);
        }
        let add = |counter: &AtomicU64, n: u64| {
            counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        };
        add(&set.entries, counts.entries);
        add(&set.deletes, counts.deletes);
        add(&set.data_bytes, counts.data_bytes);
        let smallest = set.smallest.load(Ordering::Relaxed).min(counts.smallest);
        set.smallest.store(smallest, Ordering::Relaxed);
        let largest = set.largest.load(Ordering::Relaxed).max(counts.largest);
        set.largest.store(largest, Ordering::Relaxed);
        set.busy.store(false, Ordering::Release);
    }

    #[cold]
    fn add_shared(&self, counts: &Counts) {
        let set = &self.shared;
        set.entries.fetch_add(counts.entries, Ordering::Relaxed);
        set.data_bytes
            .fetch_add(counts.data_bytes, Ordering::Relaxed);
        if counts.deletes > 0 {
            set.deletes.fetch_add(counts.deletes, Ordering::Relaxed);
        }
        if counts.smallest < set.smallest.load(Ordering::Relaxed) {
            set.smallest.fetch_min(counts.smallest, Ordering::Relaxed);
        }
        if counts.largest > set.largest.load(Ordering::Relaxed) {
            set.largest.fetch_max(counts.largest, Ordering::Relaxed);
        }
    }

    /// The sums. Entries that are being added may or may not be in.
    pub(super) fn get(&self) -> Counts {
        let (a, b) = (&self.owned, &self.shared);
        let load = |c: &AtomicU64| c.load(Ordering::Relaxed);
        Counts {
            entries: load(&a.entries) + load(&b.entries),
            deletes: load(&a.deletes) + load(&b.deletes),
            data_bytes: load(&a.data_bytes) + load(&b.data_bytes),
            smallest: load(&a.smallest).min(load(&b.smallest)),
            largest: load(&a.largest).max(load(&b.largest)),
        }
    }
}
