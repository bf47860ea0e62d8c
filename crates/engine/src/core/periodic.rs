//! The work that an open database does from time to time, or when a snapshot is released: it looks for files that have
//! become old, for calls that do not come back, records times, and looks again at flushes that wait.
//!
//! Timers hold no reference that would keep the database open, and end with it.

use super::Engine;
use super::timers::Wanted;
use super::wakeup::wakeup_period;
use std::sync::Arc;
use std::time::Duration;

/// How often a flush that waits is looked at again: RocksDB's pause.
const POSTPONED_PERIOD: Duration = Duration::from_millis(100);

impl Engine {
    /// Has releases of snapshots, and the passing of time, start compactions.
    pub(crate) fn watch_snapshots_and_ages(self: &Arc<Self>) {
        let me = Arc::downgrade(self);
        self.c.snapshots.set_watch(Box::new(move |oldest| {
            if let Some(me) = me.upgrade() {
                me.snapshot_released(oldest);
            }
        }));
        self.start_age_timer();
    }

    /// Looks at the files as often as the options in force ask for, from now on.
    pub(crate) fn start_age_timer(self: &Arc<Self>) {
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
            let me = Arc::downgrade(self);
            let tick = Box::new(move || {
                let me = me.upgrade();
                me.inspect(|me| me.look_at_ages()).is_some()
            });
            self.c.env.executor.periodic("ages", period, tick)
        });
    }

    /// A snapshot was released and `oldest` is left: bottommost files whose entries nothing protects
    /// any more become worth rewriting.
    pub(crate) fn snapshot_released(self: &Arc<Self>, oldest: Option<u64>) {
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
    pub(crate) fn look_at_ages(self: &Arc<Self>) {
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
    pub(crate) fn keep_times(self: &Arc<Self>, is_new: bool) {
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
            let me = Arc::downgrade(self);
            let tick = Box::new(move || {
                let me = me.upgrade();
                me.inspect(|me| me.times.record(&me.families.load_full(), me.visible()))
                    .is_some()
            });
            self.c.env.executor.periodic("times", period, tick)
        });
    }

    /// Starts looking for calls that do not come back, if the options say so. The timer also sees whether writers are idle.
    pub(crate) fn watch_disk(&self) {
        let Some(period) = self.disk.period(self.c.options.own.evidence) else {
            return;
        };
        let me = self.me.clone();
        let tick = Box::new(move || {
            let me = me.upgrade().filter(|me| !me.stopping());
            me.inspect(|me| {
                let now = me.c.env.clock.monotonic_nanos();
                me.disk.look(now, &me.reporter);
                me.vouch_when_idle();
            })
            .is_some()
        });
        let executor = &*self.c.env.executor;
        self.timers.disk.restart(executor, "disk", period, tick);
    }

    /// Has flushes that wait looked at again from time to time: the first write to a mutable memtable may
    /// end the wait, and tells nobody.
    pub(crate) fn watch_postponed(self: &Arc<Self>) {
        let wanted = || match self.stopping() {
            true => Wanted::AsIs,
            false => Wanted::Every(POSTPONED_PERIOD),
        };
        self.timers.postponed.set(wanted, |period| {
            let me = Arc::downgrade(self);
            let tick = Box::new(move || {
                let Some(me) = me.upgrade() else {
                    return false;
                };
                let mut state = me.state.lock();
                for f in state.families.values_mut() {
                    f.flush.postpone(false);
                }
                me.schedule(&mut state);
                true
            });
            self.c.env.executor.periodic("postponed", period, tick)
        });
    }
}
