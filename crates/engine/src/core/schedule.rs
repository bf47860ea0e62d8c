//! Decides, under the state mutex, which background jobs to queue.

use super::Engine;
use super::background_error::Place;
use super::state::{DbState, FamilyState};
use spanlith_base::{Error, Result, Severity, callbacks};
use spanlith_env::JobClass;
use spanlith_pace::{SpeedUpInput, wants_speed_up};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

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
        let stopped = state.jobs.are_paused() || state.trouble.stops_work();
        if !state.life.runs() || stopped || self.c.read_only {
            return;
        }
        let mut due = Vec::new();
        let atomic = self.c.options.atomic_flush;
        let may_flush = !state.trouble.holds(Place::Flush);
        let may_compact = !state.trouble.holds(Place::Compaction);
        if atomic && may_flush && state.atomic_flush_is_due() {
            // One job flushes all families; the default family's flags stand for it.
            let f = state.family_mut(0).expect("always there");
            if !f.flush.is_queued() {
                f.flush.queue();
                due.push(f.family.clone());
            }
        }
        if may_flush && state.jobs.has_together() {
            self.schedule_together(state);
        }
        for f in state.families.values_mut() {
            if !atomic && may_flush && !f.flush.is_queued() && f.flush_is_due() {
                f.flush.queue();
                due.push(f.family.clone());
            }
            if f.compaction.wants_queue() && !f.settings.options.disable_auto_compactions {
                f.compaction.queue();
                state.jobs.push_family(f.family.id);
            }
        }
        for family in due {
            state.jobs.begin_flush();
            let me = self.clone();
            let counted = CountedFlush(self.clone());
            self.spawn(JobClass::High, "flush", counted, move || {
                me.background_flush(&family)
            });
        }
        if state.jobs.has_exclusive() || !may_compact || self.switches.all_are_off() {
            return;
        }
        let queued = state.jobs.compactions_queued();
        let busy = queued + state.jobs.compactions_running();
        // One job at a time unless some tree is behind, as RocksDB; each finished job asks again.
        let behind = || state.families.values().any(wants_more);
        let limit = if !self.gate.is_open_to_leaders() || behind() {
            self.max_compactions()
        } else {
            1
        };
        if busy < limit && queued == 0 && state.jobs.has_families() {
            state.jobs.queue_compaction();
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
                            f.flush.abandon();
                        }
                    } else {
                        // It was queued no more. Others may go on: whoever closes waits for them.
                        state.jobs.end_compaction();
                    }
                    drop(state);
                    me.state.notify_all();
                }
                drop(held);
            }),
        );
    }

    /// Waits until no job runs or is queued.
    pub(crate) fn drain(&self) -> Result<()> {
        let mut state = self.state.lock();
        while !state.jobs.are_over() {
            state = self.wait_changed(state);
        }
        Ok(())
    }
}

/// A flush job that [`Jobs`](super::Jobs) counts until this is dropped.
struct CountedFlush(Arc<Engine>);

impl Drop for CountedFlush {
    fn drop(&mut self) {
        self.0.state.lock().jobs.end_flush();
        self.0.state.notify_all();
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
        pending_compaction_bytes: f.compaction.pending_bytes(),
        soft_pending_compaction_bytes_limit: o.soft_pending_compaction_bytes_limit,
        bottommost_bytes: f.version.level_bytes(bottom),
        max_bytes_for_level_base: o.max_bytes_for_level_base,
        marked_files: f.compaction.marked_files(),
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
                for _ in 0..2 + usize::from(class == JobClass::Low) {
                    state.jobs.begin_compaction();
                }
                for _ in 0..1 + usize::from(class == JobClass::High) {
                    state.jobs.begin_flush();
                }
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
            let jobs = &mut state.jobs;
            assert_eq!((jobs.compactions_running(), jobs.flushes()), (2, 1));
            jobs.end_compaction();
            jobs.end_compaction();
            jobs.end_flush();
            assert!(jobs.are_over() && state.trouble.refuses());
        }
    }
}
