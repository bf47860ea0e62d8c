//! How far flushes and compactions have come, for the pace of writers. Jobs note it now and then; nothing depends on it
//! being exact.

use std::sync::atomic::{AtomicU64, Ordering};

/// How much faster than on average the end of a flush is taken to pass; it never passes wholly.
const TAIL_SPEED: f64 = 1.5;

/// Part of a compaction after which its speed is known.
const KNOWN: f64 = 0.02;

/// The flush of a family that runs. All orders are relaxed: these are estimates.
///
/// Writing the entries is measured. What follows (syncs, the MANIFEST) is not: it is taken to last as long, by share, as in
/// flushes before.
#[derive(Default)]
pub(crate) struct FlushProgress {
    /// Bytes to be written; 0 if none runs.
    total: AtomicU64,
    done: AtomicU64,
    began_nanos: AtomicU64,
    /// When all entries were written; 0 before.
    written_nanos: AtomicU64,
    /// Parts of a million of the time that writing entries took in flushes before.
    share: AtomicU64,
}

impl FlushProgress {
    pub(crate) fn begin(&self, total: u64, now_nanos: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.written_nanos.store(0, Ordering::Relaxed);
        self.began_nanos.store(now_nanos, Ordering::Relaxed);
        self.total.store(total.max(1), Ordering::Relaxed);
    }

    /// Bytes written so far.
    #[inline]
    pub(crate) fn note(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }

    pub(crate) fn written(&self, now_nanos: u64) {
        self.written_nanos
            .store(now_nanos.max(1), Ordering::Relaxed);
    }

    /// The flush is over: its memtables are gone, or it failed.
    pub(crate) fn end(&self, now_nanos: u64) {
        let began = self.began_nanos.load(Ordering::Relaxed);
        let written = self.written_nanos.load(Ordering::Relaxed);
        self.total.store(0, Ordering::Relaxed);
        let whole = now_nanos.saturating_sub(began);
        if written > began && whole > 0 {
            let share = (written - began) as f64 / whole as f64;
            let before = self.share();
            let next = before + (share.clamp(0.05, 1.0) - before) / 4.0;
            self.share.store((next * 1e6) as u64, Ordering::Relaxed);
        }
    }

    fn share(&self) -> f64 {
        match self.share.load(Ordering::Relaxed) {
            0 => 0.8,
            share => share as f64 / 1e6,
        }
    }

    /// The part that is done, below 1; 0 if none runs.
    pub(crate) fn fraction(&self, now_nanos: u64) -> f64 {
        let total = self.total.load(Ordering::Relaxed);
        if total == 0 {
            return 0.0;
        }
        let share = self.share();
        let written = self.written_nanos.load(Ordering::Relaxed);
        if written == 0 {
            let done = self.done.load(Ordering::Relaxed) as f64 / total as f64;
            return done.min(1.0) * share;
        }
        let writing = written.saturating_sub(self.began_nanos.load(Ordering::Relaxed));
        let tail = writing as f64 * (1.0 - share) / share;
        let passed = now_nanos.saturating_sub(written) as f64;
        let part = 1.0 - (-TAIL_SPEED * passed / tail.max(1.0)).exp();
        (share + (1.0 - share) * part).min(0.999)
    }
}

/// A compaction that runs.
pub(crate) struct CompactionProgress {
    /// The job.
    pub id: u64,
    /// Bytes of its inputs in level 0 that leave it.
    pub level0_bytes: u64,
    began_nanos: u64,
    expected: AtomicU64,
    done: AtomicU64,
}

impl CompactionProgress {
    pub(crate) fn new(id: u64, level0_bytes: u64, now_nanos: u64) -> Self {
        Self {
            id,
            level0_bytes,
            began_nanos: now_nanos,
            expected: AtomicU64::new(0),
            done: AtomicU64::new(0),
        }
    }

    /// Entries it is going to read.
    pub(crate) fn expect(&self, entries: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.expected.store(entries, Ordering::Relaxed);
    }

    /// Reads that many more.
    pub(crate) fn add(&self, entries: u64) {
        self.done.fetch_add(entries, Ordering::Relaxed);
    }

    /// The part that is done.
    pub(crate) fn fraction(&self) -> f64 {
        match self.expected.load(Ordering::Relaxed) {
            0 => 0.0,
            all => (self.done.load(Ordering::Relaxed) as f64 / all as f64).min(1.0),
        }
    }

    /// Seconds until it ends if it goes on as it began, and for which it has run; `None` before that can be said.
    pub(crate) fn left_and_spent(&self, now_nanos: u64) -> Option<(f64, f64)> {
        let done = self.fraction();
        let spent = now_nanos.saturating_sub(self.began_nanos) as f64 / 1e9;
        (done >= KNOWN && spent > 0.0).then(|| (spent * (1.0 - done) / done, spent))
    }

    /// Bytes of level 0 that are as good as gone from it.
    pub(crate) fn level0_done(&self) -> u64 {
        (self.level0_bytes as f64 * self.fraction()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_comes_forward_without_steps_and_learns_how_long_its_end_takes() {
        let p = FlushProgress::default();
        assert_eq!(p.fraction(5), 0.0);
        for _ in 0..20 {
            p.begin(1000, 1_000_000);
            p.note(500);
            p.written(3_000_000);
            p.end(5_000_000);
        }
        assert_eq!(p.fraction(9), 0.0);
        p.begin(1000, 0);
        p.note(1000);
        let written = p.fraction(2_000_000);
        assert!((0.48..0.52).contains(&written), "{written}");
        p.written(2_000_000);
        let mut last = written - 0.001;
        for at in 20..200 {
            let now = p.fraction(at * 100_000);
            assert!(now >= last && now - last < 0.05, "{at}: {last} {now}");
            last = now;
        }
        assert!((0.98..1.0).contains(&last), "{last}");
        // A clock that went back.
        p.end(0);
    }

    #[test]
    fn a_compaction_counts_what_left_level_0() {
        let p = CompactionProgress::new(7, 1000, 5_000_000_000);
        assert_eq!(
            (p.level0_done(), p.left_and_spent(9_000_000_000)),
            (0, None)
        );
        p.expect(400);
        p.add(100);
        assert_eq!((p.fraction(), p.level0_done()), (0.25, 250));
        assert_eq!(p.left_and_spent(9_000_000_000), Some((12.0, 4.0)));
        // A clock that went back.
        assert_eq!(p.left_and_spent(0), None);
        p.add(1000);
        assert_eq!(p.level0_done(), 1000);
    }
}
