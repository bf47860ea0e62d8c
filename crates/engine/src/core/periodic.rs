//! The work that an open database does from time to time, or when a snapshot is released: it looks for files that have
//! become old, for calls that do not come back, records times, and looks again at flushes that wait.
//!
//! Timers hold no reference that would keep the database open, and end with it.

use super::Lsm;
use super::timers::Wanted;
use super::wakeup::wakeup_period;
use crate::options::{DbOptions, InfoLogLevel};
use std::time::Duration;

/// How often a flush that waits is looked at again: RocksDB's pause.
const POSTPONED_PERIOD: Duration = Duration::from_millis(100);

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Lsm {
    /// Has releases of snapshots, and the passing of time, start compactions.
    pub(crate) fn watch_snapshots_and_ages(&self) {
        let work = self.weak_work();
        self.c.snapshots.set_watch(Box::new(move |oldest| {
            if let Some(work) = work.upgrade() {
                work.lsm().snapshot_released(oldest);
            }
        }));
        self.start_age_timer();
    }

    /// Looks at the files as often as the options in force ask for, from now on.
    pub(crate) fn start_age_timer(&self) {
        let wanted = || {
            let options = self.options().to_arc();
            let state = self.state.lock();
            if state.life.is_closing() {
                return Wanted::AsIs;
            }
            let families = state.families.values().map(|f| &f.settings.options);
            Wanted::Every(wakeup_period(&options, families))
        };
        self.timers.ages.set(wanted, |period| {
            let work = self.weak_work();
            let tick = Box::new(move || {
                let work = work.upgrade();
                work.inspect(|work| work.lsm().look_at_ages()).is_some()
            });
            self.c.env.executor.periodic("ages", period, tick)
        });
    }

    /// A snapshot was released and `oldest` is left: bottommost files whose entries nothing protects
    /// any more become worth rewriting.
    pub(crate) fn snapshot_released(&self, oldest: Option<u64>) {
        let oldest = oldest.unwrap_or_else(|| self.visible());
        let mut state = self.state.lock();
        if state.ends() {
            return;
        }
        let passed = state
            .families
            .values()
            .filter(|f| oldest > f.compaction.mark_threshold());
        let passed: Vec<u32> = passed.map(|f| f.family.id).collect();
        for id in passed {
            if let Some(f) = state.family_mut(id) {
                f.compaction.note_release(oldest);
            }
            self.recompute(&mut state, id);
        }
        self.schedule(&mut state);
    }

    /// Looks at all files again: some may have become too old.
    pub(crate) fn look_at_ages(&self) {
        let mut state = self.state.lock();
        if state.ends() {
            return;
        }
        let ids: Vec<u32> = state.families.keys().copied().collect();
        let now = self.c.env.clock.now_seconds();
        for id in ids {
            if let Some(f) = state.family_mut(id) {
                f.compaction.judge_at(now);
            }
            self.recompute(&mut state, id);
        }
        self.schedule(&mut state);
    }

    /// Begins to record when sequence numbers are assigned, or ends, as the families' options say. To be called when a
    /// family comes or its options change; `is_new` when the database was created just now.
    pub(crate) fn keep_times(&self, is_new: bool) {
        if self.c.read_only {
            return;
        }
        let wanted = || {
            let families = self.families.load_full();
            match self.times.begin(&families, self.visible(), is_new) {
                None => Wanted::Never,
                Some(_) if self.stopping() => Wanted::AsIs,
                Some(period) => Wanted::Every(period),
            }
        };
        self.timers.times.set(wanted, |period| {
            let work = self.weak_work();
            let tick = Box::new(move || {
                let Some(work) = work.upgrade() else {
                    return false;
                };
                let lsm = work.lsm();
                lsm.times.record(&lsm.families.load_full(), lsm.visible());
                true
            });
            self.c.env.executor.periodic("times", period, tick)
        });
    }

    /// Starts looking for calls that do not come back, if the options say so. The timer also sees whether writers are idle.
    pub(crate) fn watch_disk(&self) {
        let Some(period) = self.disk.period(self.c.options.own.evidence) else {
            return;
        };
        let work = self.weak_work();
        let tick = Box::new(move || {
            let Some(work) = work.upgrade().filter(|work| !work.lsm().stopping()) else {
                return false;
            };
            let lsm = work.lsm();
            let now = lsm.c.env.clock.monotonic_nanos();
            lsm.disk.look(now, &lsm.reporter);
            work.vouch_when_idle();
            true
        });
        let executor = &*self.c.env.executor;
        self.timers.disk.restart(executor, "disk", period, tick);
    }

    /// Has flushes that wait looked at again from time to time: the first write to a mutable memtable may
    /// end the wait, and tells nobody.
    pub(crate) fn watch_postponed(&self) {
        let wanted = || match self.stopping() {
            true => Wanted::AsIs,
            false => Wanted::Every(POSTPONED_PERIOD),
        };
        self.timers.postponed.set(wanted, |period| {
            let work = self.weak_work();
            let tick = Box::new(move || {
                let Some(work) = work.upgrade() else {
                    return false;
                };
                let lsm = work.lsm();
                let mut state = lsm.state.lock();
                for f in state.families.values_mut() {
                    f.flush.postpone(false);
                }
                lsm.schedule(&mut state);
                true
            });
            self.c.env.executor.periodic("postponed", period, tick)
        });
    }

    /// Starts, changes or ends the reports if their periods differ from those before.
    pub(crate) fn start_reports(&self, before: &DbOptions, now: &DbOptions) {
        let periods = |o: &DbOptions| {
            let logged = self.reporter.log().is_enabled(InfoLogLevel::Info);
            let dump = if logged { o.stats_dump_period_sec } else { 0 };
            let counted = self.reporter.statistics().is_some();
            let keep = if counted {
                o.stats_persist_period_sec
            } else {
                0
            };
            (u64::from(dump), u64::from(keep))
        };
        if periods(before) == periods(now) {
            return;
        }
        let (dump, keep) = periods(now);
        let step = gcd(dump, keep);
        if step == 0 || self.c.read_only {
            return self.timers.reports.stop();
        }
        let work = self.weak_work();
        let mut seconds = 0u64;
        let due = move |seconds: u64, period: u64| period > 0 && seconds.is_multiple_of(period);
        let tick = Box::new(move || {
            seconds += step;
            let work = work.upgrade().filter(|work| !work.lsm().stopping());
            work.inspect(|work| work.report(due(seconds, dump), due(seconds, keep)))
                .is_some()
        });
        let executor = &*self.c.env.executor;
        let period = Duration::from_secs(step);
        self.timers.reports.restart(executor, "stats", period, tick);
    }
}
