//! Decides, under the state mutex, which background jobs to queue.

use super::Engine;
use super::background_error::Place;
use super::engine::gate;
use super::state::{DbState, FamilyState};
use spanlith_base::{Error, Result, Severity, callbacks};
use spanlith_env::JobClass;
use spanlith_pace::{SpeedUpInput, wants_speed_up};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Engine {
    /// Compaction jobs that may run at once: RocksDB's split of `max_background_jobs`.
    pub(crate) fn max_compactions(&self) -> usize {
        let o = self.options();
        let jobs = o.max_background_jobs.max(1);
        let wanted = if o.max_background_compactions == -1 && o.max_background_flushes == -1 {
            jobs - (jobs / 4).max(1)
        } else {
            o.max_background_compactions
        };
        wanted.max(1) as usize
    }

    /// Flush jobs that may run at once: RocksDB's split of `max_background_jobs`.
    pub(crate) fn max_flushes(&self) -> usize {
        let o = self.options();
        let wanted = if o.max_background_compactions == -1 && o.max_background_flushes == -1 {
            o.max_background_jobs.max(1) / 4
        } else {
            o.max_background_flushes
        };
        wanted.max(1) as usize
    }

    /// Queues flushes and compactions as far as there is work and room for them.
    pub(crate) fn schedule(self: &Arc<Self>, state: &mut DbState) {
        let stopped = state.ends() || state.paused > 0 || state.trouble.stops_work();
        if !state.started || stopped || self.c.read_only {
            return;
        }
        let mut due = Vec::new();
        let atomic = self.c.options.atomic_flush;
        let may_flush = !state.trouble.holds(Place::Flush);
        let may_compact = !state.trouble.holds(Place::Compaction);
        if atomic && may_flush && state.atomic_flush_is_due() {
            // One job flushes all families; the default family's flags stand for it.
            let f = state.family_mut(0).expect("always there");
            if !f.flush_scheduled {
                f.flush_scheduled = true;
                due.push(f.family.clone());
            }
        }
        if may_flush && !state.together.is_empty() {
            self.schedule_together(state);
        }
        for f in state.families.values_mut() {
            if !atomic && may_flush && !f.flush_scheduled && f.flush_is_due() {
                f.flush_scheduled = true;
                due.push(f.family.clone());
            }
            let idle = f.compaction_queued || !f.compaction_due;
            if !idle && !f.settings.options.disable_auto_compactions {
                f.compaction_queued = true;
                state.compaction_queue.push_back(f.family.id);
            }
        }
        for family in due {
            state.flushes += 1;
            let me = self.clone();
            let counted = CountedFlush(self.clone());
            self.spawn(JobClass::High, "flush", counted, move || {
                me.background_flush(&family)
            });
        }
        if state.manual > 0 || !may_compact || self.switches.all_are_off() {
            return;
        }
        let busy = state.compactions_queued + state.compactions_running;
        // One job at a time unless some tree is behind, as RocksDB; each finished job asks again.
        let behind = || state.families.values().any(wants_more);
        let limit = if self.write_gate.load(Ordering::Relaxed) & !gate::NOT_LEADERS != 0 || behind()
        {
            self.max_compactions()
        } else {
            1
        };
        if busy < limit && state.compactions_queued == 0 && !state.compaction_queue.is_empty() {
            state.compactions_queued += 1;
            let me = self.clone();
            self.spawn(JobClass::Low, "compaction", (), move || {
                me.background_compaction()
            });
        }
    }

    /// Queues a job whose panic becomes a fatal background error. What is `held` is let go of last: whoever waits
    /// for that may close the database and give its directory away.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        class: JobClass,
        what: &'static str,
        held: impl Send + 'static,
        job: impl FnOnce() + Send + 'static,
    ) {
        let me = self.clone();
        self.c.env.executor.spawn(
            class,
            Box::new(move || {
                let _inside = callbacks::enter(callbacks::Place::Job);
                let run = || me.disk.during(what, job);
                if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
                    me.set_error(Place::Panic, &panicked(what, &*panic));
                    let mut state = me.state.lock();
                    // The job cannot give back what it took; nothing new starts after an error.
                    if class == JobClass::High {
                        for f in state.families.values_mut() {
                            f.flush_scheduled = false;
                            f.flush_running = false;
                        }
                    } else {
                        // It was queued no more. Others may go on: whoever closes waits for them.
                        state.compactions_running = state.compactions_running.saturating_sub(1);
                    }
                    drop(state);
                    me.changed.notify_all();
                }
                drop(held);
            }),
        );
    }

    /// Waits until no job runs or is queued.
    pub(crate) fn drain(&self) -> Result<()> {
        let mut state = self.state.lock();
        while !state.no_jobs() {
            state = self.wait_changed(state);
        }
        Ok(())
    }
}

/// A flush job in `DbState::flushes`, which had been counted up.
struct CountedFlush(Arc<Engine>);

impl Drop for CountedFlush {
    fn drop(&mut self) {
        self.0.state.lock().flushes -= 1;
        self.0.changed.notify_all();
    }
}

/// Returns what a job that panicked comes to: a promise is broken, and only opening again helps.
pub(crate) fn panicked(what: &str, panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "no message".to_string());
    Error::aborted(format!("panic in a {what} job: {text}")).with_severity(Severity::Fatal)
}

/// Returns whether one compaction job is not enough for a family.
fn wants_more(f: &FamilyState) -> bool {
    let o = &f.settings.options;
    let bottom = f.version.num_non_empty_levels().saturating_sub(1);
    wants_speed_up(&SpeedUpInput {
        l0_files: f.settings.levels.sorted_runs(&f.version),
        level0_file_num_compaction_trigger: o.level0_file_num_compaction_trigger,
        level0_slowdown_writes_trigger: o.level0_slowdown_writes_trigger,
        pending_compaction_bytes: f.pending_compaction_bytes,
        soft_pending_compaction_bytes_limit: o.soft_pending_compaction_bytes_limit,
        bottommost_bytes: f.version.level_bytes(bottom),
        max_bytes_for_level_base: o.max_bytes_for_level_base,
        marked_files: f.marked_files,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Db;
    use spanlith_env::{Env, Executor, MemFs};

    /// A close waited for no compaction any more once a flush had panicked.
    #[test]
    fn a_job_that_panics_ends_no_other() {
        for class in [JobClass::High, JobClass::Low] {
            let (env, executor, _) = Env::test(Arc::new(MemFs::new()), 1);
            let db = Db::builder("/db").create_if_missing(true).env(env);
            let db = db.no_info_log().open().unwrap();
            let engine = db.engine().clone();
            {
                let mut state = engine.state.lock();
                // Two compactions and a flush that run, and one of each that panics.
                state.compactions_running = 2 + usize::from(class == JobClass::Low);
                state.flushes = 1 + usize::from(class == JobClass::High);
                let panics = || panic!("in a test");
                match class {
                    JobClass::High => {
                        engine.spawn(class, "flush", CountedFlush(engine.clone()), panics);
                    }
                    _ => engine.spawn(class, "compaction", (), panics),
                }
            }
            assert!(executor.help());
            let mut state = engine.state.lock();
            assert_eq!((state.compactions_running, state.flushes), (2, 1));
            assert!(state.trouble.refuses());
            (state.compactions_running, state.flushes) = (0, 0);
        }
    }
}
