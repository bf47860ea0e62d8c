//! The timers of an open database, each of which one part starts and the close stops.
//!
//! A timer ends by itself when its tick returns false; its place keeps the guard until another is started or the close
//! comes. Guards are dropped outside the lock of their place: that waits for a tick which runs, and the tick may want the
//! place.

use spanlith_env::Executor;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The result of [`Executor::periodic`].
pub(crate) type TimerGuard = Box<dyn Send + Sync>;

/// Returns false to end its timer.
pub(crate) type Tick = Box<dyn FnMut() -> bool + Send>;

/// Describes how often a timer is to tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// As before, or not at all.
    AsIs,
    /// Not any more.
    Never,
    /// Once in this time; a timer that does so already goes on.
    Every(Duration),
}

struct Started {
    period: Duration,
    _guard: TimerGuard,
}

/// The place of one timer.
#[derive(Default)]
pub(crate) struct Timer {
    slot: Mutex<Option<Started>>,
}

impl Timer {
    fn lock(&self) -> MutexGuard<'_, Option<Started>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the timer tick as `wanted` says. That is asked under the lock of the place: a close says that it closes and
    /// then stops the timer, so that none is started later.
    pub(crate) fn set(
        &self,
        wanted: impl FnOnce() -> Wanted,
        start: impl FnOnce(Duration) -> TimerGuard,
    ) {
        let mut slot = self.lock();
        let period = match wanted() {
            Wanted::AsIs => return,
            Wanted::Never => None,
            Wanted::Every(period) => Some(period),
        };
        if slot.as_ref().map(|started| started.period) == period {
            return;
        }
        let new = period.map(|period| Started {
            period,
            _guard: start(period),
        });
        let old = std::mem::replace(&mut *slot, new);
        drop(slot);
        drop(old);
    }

    /// Starts a timer in the place of one that is there, which has ended or is to end.
    pub(crate) fn restart(
        &self,
        executor: &dyn Executor,
        name: &str,
        period: Duration,
        tick: Tick,
    ) {
        let new = Started {
            period,
            _guard: executor.periodic(name, period, tick),
        };
        let old = self.lock().replace(new);
        drop(old);
    }

    /// Stops the timer, and waits for a tick that runs.
    pub(crate) fn stop(&self) {
        let old = self.lock().take();
        drop(old);
    }
}

/// The timers of one database.
#[derive(Default)]
pub(crate) struct Timers {
    /// Reports statistics.
    pub reports: Timer,
    /// Looks for files that have become old.
    pub ages: Timer,
    /// Records when sequence numbers are assigned.
    pub times: Timer,
    /// Tries again what failed.
    pub tries: Timer,
    /// Looks for calls to the disk that do not come back.
    pub disk: Timer,
    /// Looks at flushes that wait for history to be given up.
    pub postponed: Timer,
}

impl Timers {
    /// Stops all, and waits for ticks that run. The caller holds no lock that a tick takes.
    pub(crate) fn stop(&self) {
        let all = [
            &self.reports,
            &self.postponed,
            &self.tries,
            &self.disk,
            &self.ages,
            &self.times,
        ];
        for timer in all {
            timer.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts the guards that are there.
    struct Guard(Arc<AtomicUsize>);

    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_timer_is_started_anew_only_for_another_period_and_its_guard_goes_with_it() {
        let there = Arc::new(AtomicUsize::new(0));
        let started = AtomicUsize::new(0);
        let start = |_: Duration| -> TimerGuard {
            started.fetch_add(1, Ordering::Relaxed);
            there.fetch_add(1, Ordering::Relaxed);
            Box::new(Guard(there.clone()))
        };
        let timers = Timers::default();
        let every = |seconds| Wanted::Every(Duration::from_secs(seconds));
        let mut seen = Vec::new();
        let all = [
            every(1),
            every(1),
            every(2),
            Wanted::AsIs,
            Wanted::Never,
            every(2),
        ];
        for wanted in all {
            timers.ages.set(|| wanted, start);
            let counts = (&started, &*there);
            seen.push((
                counts.0.load(Ordering::Relaxed),
                counts.1.load(Ordering::Relaxed),
            ));
        }
        assert_eq!(seen, [(1, 1), (1, 1), (2, 1), (2, 1), (2, 0), (3, 1)]);
        timers.disk.set(|| every(3), start);
        timers.stop();
        assert_eq!(there.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_guard_is_dropped_outside_the_lock_of_its_place() {
        struct Asks(Arc<Timers>);
        impl Drop for Asks {
            fn drop(&mut self) {
                self.0.times.set(|| Wanted::AsIs, |_| unreachable!());
            }
        }
        let timers = Arc::new(Timers::default());
        for seconds in [1, 2] {
            let asks = Asks(timers.clone());
            let wanted = Wanted::Every(Duration::from_secs(seconds));
            timers.times.set(|| wanted, move |_| Box::new(asks));
        }
        timers.stop();
    }
}
