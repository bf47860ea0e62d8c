//! Reads of values in blob files, counted by size: the cost that separation has.
//!
//! Every value that is read from a file for a user is counted; of those that are read alone or by a scan one in
//! sixteen is timed, and each while reads wait. The times also say whether they wait for a device, or are answered from
//! memory. Used by any thread.

use spanlith_env::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Classes of values by size: class *n* holds sizes from 2^n on.
pub(crate) const SIZE_CLASSES: usize = 32;

/// One of so many reads is timed.
const TIMED_EVERY: u64 = 16;

/// Nanoseconds of waiting, on an average, up to which reads are quick: looking ahead costs about as much for each value.
const QUICK_NANOS: u64 = 3000;
/// The same from which on they are quick again: each is timed meanwhile, so that a few in a row would do otherwise.
const QUICK_AGAIN_NANOS: u64 = 1500;
/// Most nanoseconds that one read counts for: a thread that lost its processor once did not wait for a device, and leaves
/// the average below [`QUICK_NANOS`].
const WAIT_NANOS_MAX: u64 = 32_000;
/// Each timed read has one part in so many of the average.
const AVERAGED: u64 = 32;
/// Bytes that a nanosecond copies, at least: that part of a read's time is no waiting.
const COPIED_BYTES: u64 = 2;

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
    /// Average of waiting, times [`AVERAGED`]; [`UNKNOWN`] before the first.
    wait: AtomicU64,
    /// Reads are quick. Relaxed: a hint.
    quick: AtomicBool,
}

/// No read was timed yet, or the clock stands still.
const UNKNOWN: u64 = u64::MAX;

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
            wait: AtomicU64::new(UNKNOWN),
            quick: AtomicBool::new(false),
        }
    }

    /// Returns whether reads were answered without waiting for a device, as those of late tell.
    pub(crate) fn are_quick(&self) -> bool {
        self.quick.load(Ordering::Relaxed)
    }

    /// Takes a timed read into the average. Of two threads at once one may be lost.
    fn note_wait(&self, len: u64, nanos: u64) {
        if nanos == 0 {
            return;
        }
        let wait = nanos.saturating_sub(len / COPIED_BYTES).min(WAIT_NANOS_MAX);
        let next = match self.wait.load(Ordering::Relaxed) {
            UNKNOWN => wait * AVERAGED,
            sum => sum - sum / AVERAGED + wait,
        };
        self.wait.store(next, Ordering::Relaxed);
        if next > QUICK_NANOS * AVERAGED {
            self.quick.store(false, Ordering::Relaxed);
        } else if next < QUICK_AGAIN_NANOS * AVERAGED {
            self.quick.store(true, Ordering::Relaxed);
        }
    }

    /// Counts a stored value of `len` bytes that was read together with others.
    pub(super) fn add(&self, len: u64) {
        self.by_class[size_class(len)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a read of a stored value of `len` bytes, which `work` makes.
    pub(super) fn count<T>(&self, len: u64, work: impl FnOnce() -> T) -> T {
        let before = self.by_class[size_class(len)].fetch_add(1, Ordering::Relaxed);
        if self.are_quick() && !before.is_multiple_of(TIMED_EVERY) {
            return work();
        }
        let began = self.clock.monotonic_nanos();
        let done = work();
        let nanos = self.clock.monotonic_nanos().saturating_sub(began);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.timed.fetch_add(1, Ordering::Relaxed);
        self.note_wait(len, nanos);
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

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_env::VirtualClock;
    use std::time::Duration;

    /// Reads of `len` bytes that take so many nanoseconds each.
    fn read(reads: &BlobReads, clock: &VirtualClock, n: u64, len: u64, nanos: u64) {
        for _ in 0..n {
            reads.count(len, || clock.advance(Duration::from_nanos(nanos)));
        }
    }

    #[test]
    fn reads_are_quick_while_hardly_any_waits() {
        let clock = Arc::new(VirtualClock::new());
        let reads = BlobReads::new(clock.clone());
        assert!(!reads.are_quick(), "nothing is known");
        read(&reads, &clock, 1, 1000, 0);
        assert!(!reads.are_quick(), "a clock that stands still says nothing");
        read(&reads, &clock, 1, 1000, 900);
        assert!(reads.are_quick());
        // One that lost its processor for long, and is timed.
        read(&reads, &clock, 14, 1000, 900);
        read(&reads, &clock, 1, 1000, 1_000_000_000);
        assert!(reads.are_quick());
        read(&reads, &clock, 16 * 40, 1000, 80_000);
        assert!(!reads.are_quick());
        // Each is timed now, so that the change is soon seen.
        read(&reads, &clock, 120, 1000, 900);
        assert!(reads.are_quick());
        // One in seven from a device is too many.
        let mut slow = 0;
        for n in 0..20_000 {
            let nanos = if n % 7 == 0 { 80_000 } else { 900 };
            read(&reads, &clock, 1, 1000, nanos);
            slow += u64::from(!reads.are_quick());
        }
        assert!(slow > 12_000, "{slow}");
    }

    #[test]
    fn what_a_large_value_takes_to_copy_is_no_waiting() {
        let clock = Arc::new(VirtualClock::new());
        let reads = BlobReads::new(clock.clone());
        read(&reads, &clock, 100, 256_000, 100_000);
        assert!(reads.are_quick());
        read(&reads, &clock, 1600, 256_000, 200_000);
        assert!(!reads.are_quick());
    }
}
