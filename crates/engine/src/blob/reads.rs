//! Reads of values in blob files, counted by size: the cost that separation has.
//!
//! Every value that is read from a file for a user is counted; of those that are read alone or by a scan one in
//! sixteen is timed. Used by any thread.

use spanlith_env::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Classes of values by size: class *n* holds sizes from 2^n on.
pub(crate) const SIZE_CLASSES: usize = 32;

/// One of so many reads is timed.
const TIMED_EVERY: u64 = 16;

/// The class of a value of `len` bytes.
pub(crate) fn size_class(len: u64) -> usize {
    (len.max(1).ilog2() as usize).min(SIZE_CLASSES - 1)
}

/// Counts of reads. Relaxed: each figure stands for itself.
pub(crate) struct BlobReads {
    clock: Arc<dyn Clock>,
    by_class: [AtomicU64; SIZE_CLASSES],
    timed: AtomicU64,
    nanos: AtomicU64,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BlobReadNumbers {
    /// Reads by class of size.
    pub by_class: [u64; SIZE_CLASSES],
    /// Reads that were timed, and how long they took.
    pub timed: u64,
    pub nanos: u64,
}

impl BlobReads {
    /// Without any reads yet.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            by_class: [const { AtomicU64::new(0) }; SIZE_CLASSES],
            timed: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
        }
    }

    /// Counts a stored value of `len` bytes that was read together with others.
    pub(super) fn add(&self, len: u64) {
        self.by_class[size_class(len)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a read of a stored value of `len` bytes, which `work` makes.
    pub(super) fn count<T>(&self, len: u64, work: impl FnOnce() -> T) -> T {
        let before = self.by_class[size_class(len)].fetch_add(1, Ordering::Relaxed);
        if !before.is_multiple_of(TIMED_EVERY) {
            return work();
        }
        let began = self.clock.monotonic_nanos();
        let done = work();
        let nanos = self.clock.monotonic_nanos().saturating_sub(began);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.timed.fetch_add(1, Ordering::Relaxed);
        done
    }

    /// The counts so far.
    pub(crate) fn numbers(&self) -> BlobReadNumbers {
        BlobReadNumbers {
            by_class: std::array::from_fn(|n| self.by_class[n].load(Ordering::Relaxed)),
            timed: self.timed.load(Ordering::Relaxed),
            nanos: self.nanos.load(Ordering::Relaxed),
        }
    }
}
