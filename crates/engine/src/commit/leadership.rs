//! The right to order writes: held by one thread at a time, beside which groups may still be on their way to the disk.
//!
//! ```text
//!   leader: order, log ─► in flight: durable write ─► apply ─► publish ─► landed
//!           (lock held)   (lock passed on; `in_flight` counts such groups, `unapplied` those up to publish)
//! ```
//!
//! [`Leadership::lock`] waits until no group is in flight, so that its holder may seal memtables, begin a log, drop families
//! and publish alone. [`Leadership::lock_beside`] does not: its holder may only send off another group. A group in flight
//! needs no lock of leadership to land, so that its end can be awaited under it.

use spanlith_base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use spanlith_base::sync::{Condvar, Mutex, MutexGuard, thread};

/// Of the lock of those who wait for landings: a leaf.
const RANK: u8 = 90;

/// Time of a sync after which sleeping is cheaper than spinning: some times what a sleep and its end take.
const SLOW_SYNC_NANOS: u64 = 30_000;

/// Rounds of spinning between two looks at the queue.
const SPINS: u32 = 20;

/// See the head of the module. `L` is what it guards.
pub(crate) struct Leadership<L> {
    state: Mutex<L>,
    /// Counts removals of families, for those who are not leaders.
    generation: AtomicU64,
    /// Groups in flight. Raised under the lock, lowered by whoever lands one: Release, paired with the Acquire of those who
    /// wait for it, so that what was applied is seen.
    in_flight: AtomicU32,
    /// Those of them that are not applied yet: one that is waits for groups before it, and nothing is gained by keeping others
    /// on the ground for it. Orders as above.
    unapplied: AtomicU32,
    /// Threads that wait for a landing, one at most but for spurious ones: they hold the lock.
    waiting: Mutex<u32>,
    landed: Condvar,
    /// How long a sync takes, smoothed, in nanoseconds. Relaxed: a hint.
    sync_nanos: AtomicU64,
    /// Groups that may be in flight and not applied.
    most: u32,
}

impl<L> Leadership<L> {
    /// `most`: groups that may be in flight; 0: as many as pay on this machine, `None`: one, as the log syncs by itself.
    pub(crate) fn new(rank: u8, state: L, most: Option<u64>) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let most = match most {
            None => 1,
            Some(0) if cores() <= 2 => 1,
            Some(0) => 2,
            Some(n) => u32::try_from(n).unwrap_or(u32::MAX),
        };
        Self {
            state: Mutex::new(rank, state),
            generation: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            unapplied: AtomicU32::new(0),
            waiting: Mutex::new(RANK, 0),
            landed: Condvar::new(),
            sync_nanos: AtomicU64::new(0),
            most,
        }
    }

    /// Lets other threads come on, within a wait that is shorter than a sleep. Most writers that are awaited have been woken on
    /// this processor: a leader that only spins keeps them from it.
    pub(crate) fn pause() {
        for _ in 0..SPINS {
            thread::spin();
        }
        thread::yield_now();
    }

    /// Leads, with no group in flight.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, L> {
        let leader = self.state.lock();
        if self.in_flight() != 0 {
            self.await_landings(0);
        }
        leader
    }

    /// As [`Self::lock`] if nobody leads and no group is in flight.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, L>> {
        let leader = self.state.try_lock()?;
        (self.in_flight() == 0).then_some(leader)
    }

    /// Leads while groups may be in flight.
    pub(crate) fn lock_beside(&self) -> MutexGuard<'_, L> {
        self.state.lock()
    }

    /// How often families were removed, as far as the caller can know.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// A family was removed. Release: a caller that reads the new number before it looks for the family does not find it. A
    /// request with the old one is checked once more. Requires: the lock.
    pub(crate) fn publish_generation(&self, generation: u64) {
        self.generation.store(generation, Ordering::Release);
    }

    /// Groups that may be in flight and not applied.
    pub(crate) fn most_in_flight(&self) -> u32 {
        self.most
    }

    /// Groups in flight.
    #[inline]
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Groups in flight that are not applied.
    pub(crate) fn unapplied(&self) -> u32 {
        self.unapplied.load(Ordering::Acquire)
    }

    /// Waits until at most `most` groups are in flight. Requires: the lock.
    #[cold]
    pub(crate) fn await_landings(&self, most: u32) {
        let mut waiting = self.waiting.lock();
        *waiting += 1;
        while self.in_flight() > most {
            waiting = self.landed.wait(waiting);
        }
        *waiting -= 1;
    }

    /// Waits until one more group may take off. Requires: the lock.
    pub(crate) fn await_take_off(&self) {
        let is_full = || self.unapplied() >= self.most;
        if !is_full() {
            return;
        }
        let mut waiting = self.waiting.lock();
        *waiting += 1;
        while is_full() {
            waiting = self.landed.wait(waiting);
        }
        *waiting -= 1;
    }

    /// Returns whether a sync takes longer than a thread that sleeps and is woken.
    pub(crate) fn syncs_slowly(&self) -> bool {
        self.sync_nanos() > SLOW_SYNC_NANOS
    }

    /// How long a sync takes.
    pub(crate) fn sync_nanos(&self) -> u64 {
        self.sync_nanos.load(Ordering::Relaxed)
    }

    /// The sync of a group has taken so long.
    pub(crate) fn note_sync(&self, nanos: u64) {
        let old = self.sync_nanos();
        self.sync_nanos
            .store((old * 7 + nanos) / 8, Ordering::Relaxed);
    }

    /// A group is in flight from now on. Requires: the lock.
    pub(crate) fn take_off(&self) {
        self.unapplied.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// A group in flight is applied, or is over without: another may take off. Once for each, before [`Self::land`].
    pub(crate) fn applied(&self) {
        self.unapplied.fetch_sub(1, Ordering::Release);
        if *self.waiting.lock() != 0 {
            self.landed.notify_all();
        }
    }

    /// A group has landed, or failed.
    pub(crate) fn land(&self) {
        self.in_flight.fetch_sub(1, Ordering::Release);
        if *self.waiting.lock() != 0 {
            self.landed.notify_all();
        }
    }
}
