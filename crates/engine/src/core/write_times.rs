//! Where the time of writes goes, and what held them up.
//!
//! Two sources. Writes that wait (on purpose for their pace, a delay or a stop, asleep in the queue, for a sync of the log, or for a
//! full memtable to be sealed) note that; others pay nothing for it. Writes of a
//! database whose statistics want times note all parts: a few readings of the clock and six counters for each. A write that took
//! twenty times as long as writes usually take gets a line in `LOG` that says what went on, at most one in ten seconds.

use super::state::rank;
use spanlith_base::sync::Mutex;
use spanlith_pace::{Evenness, StallCause, Windows};
use std::sync::atomic::{AtomicU64, Ordering};

/// By how much more than usual a write has to take to be called slow.
const SLOW: u64 = 20;
/// Least time of a slow write in nanoseconds, and what is usual before anything was measured.
const SLOW_MIN_NANOS: u64 = 1_000_000;
const USUAL_UNKNOWN_NANOS: u64 = 50_000;
/// Time between two lines.
const LINE_NANOS: u64 = 10_000_000_000;

/// A part of the way of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Waits on purpose: for the pace, a delay, or the end of a stop.
    Throttle,
    /// Waits for other writers.
    Queue,
    /// Appends to the log, and syncs it.
    Log,
    /// Inserts into memtables.
    Memtable,
    /// Makes it visible, and what is left.
    Publish,
}

impl Part {
    pub(crate) const ALL: [Self; 5] = [
        Self::Throttle,
        Self::Queue,
        Self::Log,
        Self::Memtable,
        Self::Publish,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Throttle => "throttle",
            Self::Queue => "queue",
            Self::Log => "log",
            Self::Memtable => "memtable",
            Self::Publish => "publish",
        }
    }
}

/// Nanoseconds of one write by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts([u64; 5]);

impl Parts {
    pub(crate) fn add(&mut self, part: Part, nanos: u64) {
        self.0[part as usize] += nanos;
    }

    pub(crate) fn get(&self, part: Part) -> u64 {
        self.0[part as usize]
    }

    fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Counts what is not known of `total` as time spent waiting for others.
    pub(crate) fn close(&mut self, total: u64) {
        self.add(Part::Queue, total.saturating_sub(self.sum()));
    }
}

/// Number of [`WaitCause`]s.
const CAUSES: usize = 8;

/// Why writers waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitCause {
    /// Each keeps to the pace of its family.
    Pace,
    /// The rule that delays or stops writes.
    Rule(StallCause),
    /// A file is taken in, or an error is waited for.
    Other,
    /// Others lead, for so long that the writer sleeps; what they wait for is in it, too.
    Queue,
    /// The log is made durable; for all of a group together.
    Sync,
    /// A full memtable is sealed and a log begun; for all of a group together.
    Switch,
}

impl WaitCause {
    pub(crate) const ALL: [Self; CAUSES] = [
        Self::Pace,
        Self::Rule(StallCause::MemtableLimit),
        Self::Rule(StallCause::L0FileCountLimit),
        Self::Rule(StallCause::PendingCompactionBytes),
        Self::Other,
        Self::Queue,
        Self::Sync,
        Self::Switch,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pace => "pace",
            Self::Rule(StallCause::MemtableLimit) => "memtable-limit",
            Self::Rule(StallCause::L0FileCountLimit) => "l0-file-count-limit",
            Self::Rule(StallCause::PendingCompactionBytes) => "pending-compaction-bytes",
            Self::Other => "other",
            Self::Queue => "queue",
            Self::Sync => "log-sync",
            Self::Switch => "memtable-switch",
        }
    }

    fn index(self) -> usize {
        Self::ALL.iter().position(|&c| c == self).unwrap_or(0)
    }
}

/// Holds what one database knows of the times of its writes. All orders are relaxed: these are statistics.
#[derive(Default)]
pub(crate) struct WriteTimes {
    parts: [AtomicU64; 5],
    timed: AtomicU64,
    /// A moving median; 0 before anything was measured.
    usual_nanos: AtomicU64,
    waited: [AtomicU64; CAUSES],
    longest_nanos: AtomicU64,
    /// When the next line may be written.
    next_line: AtomicU64,
    slow: AtomicU64,
    windows: Inner,
}

struct Inner(Mutex<Windows>);

impl Default for Inner {
    fn default() -> Self {
        Self(Mutex::new(rank::LEAF, Windows::default()))
    }
}

/// A copy of the numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WriteTimeNumbers {
    /// Writes that were measured, and nanoseconds of them by [`Part`].
    pub timed: u64,
    pub parts: [u64; 5],
    pub usual_nanos: u64,
    /// Nanoseconds that writers waited, by [`WaitCause`]; those of several writers add up.
    pub waited: [u64; CAUSES],
    pub longest_nanos: u64,
    /// Writes that took far longer than usual.
    pub slow: u64,
    /// Of windows of 100 ms in which somebody waited.
    pub even: Evenness,
}

impl WriteTimes {
    /// Takes in a measured write; says whether a line is due for it.
    pub(crate) fn measured(&self, now_nanos: u64, parts: &Parts) -> bool {
        for (sum, part) in self.parts.iter().zip(parts.0) {
            sum.fetch_add(part, Ordering::Relaxed);
        }
        self.timed.fetch_add(1, Ordering::Relaxed);
        let total = parts.sum();
        // By the writes before it.
        let is_due = self.is_slow(now_nanos, total);
        let usual = self.usual_nanos.load(Ordering::Relaxed);
        let next = match usual {
            0 => total.max(1),
            // A step of a sixteenth towards it: where as many are above as below.
            usual if total > usual => usual + usual / 16 + 1,
            usual => (usual - usual / 16).max(1),
        };
        self.usual_nanos.store(next, Ordering::Relaxed);
        is_due
    }

    /// Takes in a wait that is part of the way of a write.
    pub(crate) fn add(&self, cause: WaitCause, nanos: u64) {
        self.waited[cause.index()].fetch_add(nanos, Ordering::Relaxed);
    }

    /// Takes in a wait on purpose.
    pub(crate) fn waited(&self, now_nanos: u64, cause: WaitCause, nanos: u64, bytes: u64) {
        self.add(cause, nanos);
        self.longest_nanos.fetch_max(nanos, Ordering::Relaxed);
        self.windows.0.lock().note(now_nanos, nanos, bytes);
    }

    /// Counts a write that took `total`, if it was slow, and says whether a line is due for it. Called once for a write: with
    /// all of its time where it is measured, else with the time that it waited.
    pub(crate) fn is_slow(&self, now_nanos: u64, total: u64) -> bool {
        let usual = match self.usual_nanos.load(Ordering::Relaxed) {
            0 => USUAL_UNKNOWN_NANOS,
            usual => usual,
        };
        if total < SLOW_MIN_NANOS || total / SLOW < usual {
            return false;
        }
        self.slow.fetch_add(1, Ordering::Relaxed);
        let due = self.next_line.load(Ordering::Relaxed);
        let next = now_nanos.saturating_add(LINE_NANOS);
        // One of those who come together.
        now_nanos >= due
            && self
                .next_line
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    pub(crate) fn numbers(&self) -> WriteTimeNumbers {
        fn of<const N: usize>(sums: &[AtomicU64; N]) -> [u64; N] {
            std::array::from_fn(|i| sums[i].load(Ordering::Relaxed))
        }
        WriteTimeNumbers {
            timed: self.timed.load(Ordering::Relaxed),
            parts: of(&self.parts),
            usual_nanos: self.usual_nanos.load(Ordering::Relaxed),
            waited: of(&self.waited),
            longest_nanos: self.longest_nanos.load(Ordering::Relaxed),
            slow: self.slow.load(Ordering::Relaxed),
            even: self.windows.0.lock().evenness(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    fn parts(throttle: u64, log: u64, total: u64) -> Parts {
        let mut parts = Parts::default();
        parts.add(Part::Throttle, throttle);
        parts.add(Part::Log, log);
        parts.close(total);
        parts
    }

    #[test]
    fn what_is_not_known_is_the_queue() {
        let p = parts(10, 20, 100);
        assert_eq!((p.get(Part::Queue), p.sum()), (70, 100));
        // A clock that went back.
        assert_eq!(parts(10, 20, 5).get(Part::Queue), 0);
    }

    #[test]
    fn a_slow_write_is_told_once_in_ten_seconds() {
        let t = WriteTimes::default();
        let mut now = 0;
        for _ in 0..200 {
            now += 100 * US;
            assert!(!t.measured(now, &parts(0, 40 * US, 100 * US)));
        }
        let usual = t.numbers().usual_nanos;
        assert!((80 * US..130 * US).contains(&usual), "{usual}");
        assert!(!t.measured(now, &parts(0, 0, 900 * US)), "not that slow");
        assert!(t.measured(now, &parts(0, 0, 5000 * US)));
        assert!(!t.measured(now + LINE_NANOS - 1, &parts(0, 0, 5000 * US)));
        assert!(t.measured(now + LINE_NANOS, &parts(0, 0, 5000 * US)));
        let n = t.numbers();
        assert_eq!((n.timed, n.slow), (204, 3));
        assert_eq!(n.parts[Part::Log as usize], 200 * 40 * US);
    }

    #[test]
    fn waits_are_kept_by_cause() {
        let t = WriteTimes::default();
        let rule = WaitCause::Rule(StallCause::L0FileCountLimit);
        t.waited(5_000 * US, rule, 2_000 * US, 10);
        t.waited(6_000 * US, WaitCause::Pace, 500 * US, 20);
        // Each write is judged once, by its caller.
        assert_eq!(t.numbers().slow, 0);
        assert!(t.is_slow(5_000 * US, 2_000 * US));
        assert!(!t.is_slow(6_000 * US, 500 * US));
        let n = t.numbers();
        assert_eq!(n.waited, [500 * US, 0, 2_000 * US, 0, 0, 0, 0, 0]);
        // Waits that nobody asked for are no pauses of the pace.
        t.add(WaitCause::Queue, 9_000 * US);
        assert_eq!(t.numbers().waited[5], 9_000 * US);
        let n = t.numbers();
        assert_eq!((n.longest_nanos, n.slow), (2_000 * US, 1));
        assert_eq!(n.usual_nanos, 0);
    }
}
