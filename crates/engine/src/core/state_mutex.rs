//! The state mutex, and the wait for changes of what it guards. It tells the perf context of a thread how long that waits.
//!
//! Only threads of processes in which some thread ever recorded pay more than one load of a line that
//! does not change.

use super::state::{DbState, rank};
use spanlith_base::perf::{self, PerfCounter, PerfTime};
use spanlith_base::sync::{Condvar, Mutex, MutexGuard};
use spanlith_env::Clock;
use std::sync::Arc;
use std::time::Duration;

/// The mutex around [`DbState`].
pub struct StateMutex {
    inner: Mutex<DbState>,
    /// Background work finished, an error was set, or close began.
    changed: Condvar,
    clock: Arc<dyn Clock>,
}

impl StateMutex {
    /// The mutex around `state`; waits are measured by `clock`.
    pub fn new(state: DbState, clock: Arc<dyn Clock>) -> Self {
        Self {
            inner: Mutex::new(rank::STATE, state),
            changed: Condvar::new(),
            clock,
        }
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, DbState> {
        match perf::was_raised() {
            true => self.lock_measured(),
            false => self.inner.lock(),
        }
    }

    #[cold]
    fn lock_measured(&self) -> MutexGuard<'_, DbState> {
        let _timer = self.time(PerfCounter::DbMutexLockNanos);
        self.inner.lock()
    }

    /// Wakes those who wait for a change of the state.
    pub fn notify_all(&self) {
        self.changed.notify_all();
    }

    /// Waits for a change of the state, for so long; returns whether that was too short.
    pub fn wait_timeout<'a>(
        &self,
        guard: MutexGuard<'a, DbState>,
        limit: Duration,
    ) -> (MutexGuard<'a, DbState>, bool) {
        self.changed.wait_timeout(guard, limit)
    }

    /// Measures until the result is dropped, if times inside locks are wanted.
    pub fn time(&self, counter: PerfCounter) -> impl Drop + '_ {
        perf::timer(counter, PerfTime::Mutex, || self.clock.monotonic_nanos())
    }
}
