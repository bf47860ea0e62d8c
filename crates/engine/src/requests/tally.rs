//! Counters of asynchronous requests, and their text.

use spanlith_base::histogram::Distribution;
use std::sync::atomic::{AtomicU64, Ordering};

/// Describes what was counted since the first request.
#[derive(Default)]
pub(super) struct Tally {
    /// Groups of writes.
    pub groups: AtomicU64,
    /// Writes in them.
    pub writes: AtomicU64,
    /// Groups whose writes were written one by one, after the group had been refused.
    pub split: AtomicU64,
    /// Groups and jobs that a waiting thread carried out.
    pub inline: AtomicU64,
    /// Reads answered where they were issued.
    pub lucky: AtomicU64,
    /// Reads, scans, flushes and commits that were queued.
    pub jobs: AtomicU64,
    /// Requests refused because there was no room.
    pub busy: AtomicU64,
    /// Writes that waited for room.
    pub waited: AtomicU64,
    /// Threads that were woken or started.
    pub wakeups: AtomicU64,
    /// Microseconds in the queue: of the oldest write of each group, and of jobs.
    pub queue_micros: Distribution,
}

/// Adds one. Relaxed: statistics, nothing is published through them.
pub(super) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// Adds `n`. Relaxed, as [`count`].
pub(super) fn add(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

impl Tally {
    /// One line for each counter, `name: value`.
    pub(super) fn text(&self) -> String {
        let n = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let wait = self.queue_micros.summary();
        format!(
            "groups: {}\nwrites: {}\ngroups-split: {}\ncarried-by-waiters: {}\nlucky-reads: {}\n\
             queued-jobs: {}\nrefused-busy: {}\nwaited-for-room: {}\nthread-wakeups: {}\n\
             queue-wait-micros: median {:.1} p95 {:.1} p99 {:.1} max {:.0}\n",
            n(&self.groups),
            n(&self.writes),
            n(&self.split),
            n(&self.inline),
            n(&self.lucky),
            n(&self.jobs),
            n(&self.busy),
            n(&self.waited),
            n(&self.wakeups),
            wait.median,
            wait.p95,
            wait.p99,
            wait.max,
        )
    }
}
