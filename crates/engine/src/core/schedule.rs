//! Decides, under the state mutex, which background jobs to queue.

use super::background_error::Place;
use super::state::{DbState, FamilyState};
use super::urgent::is_any_urgent;
use super::{BackgroundWork, Lsm, gate};
use crate::picker::leaves_room_beside;
use spanlith_base::{Error, Result, Severity, callbacks};
use spanlith_env::JobClass;
use spanlith_pace::{SpeedUpInput, wants_speed_up};
use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Says what a job is that merges within level 0 beside a compaction out of it.
const MERGE_BESIDE: &str = "merge";

impl Lsm {
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

    /// Threads that compactions may have: one for each that may run at once, and one for merges beside them.
    pub(crate) fn compaction_threads(&self) -> usize {
        self.max_compactions() + usize::from(self.merges_beside())
    }

    /// Returns whether a merge within level 0 may run beside the compactions that [`Self::max_compactions`] allows.
    pub(crate) fn merges_beside(&self) -> bool {
        self.throttle.is_smooth() && self.options().own.level0_merges_beside
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

    /// Queues flushes and compactions as far as there is work and room for them, and asks a compaction that runs to give way
    /// where urgent work found no room. Writers that wait for what is not to come go on.
    pub(crate) fn schedule(&self, state: &mut DbState) {
        self.queue_jobs(state);
        self.lift_stalls(state);
        if state.jobs.compactions_running() > 0
            && self.options().own.preemptible_compaction
            && is_any_urgent(state, self.c.options.atomic_flush)
        {
            self.switches.ask_way();
        }
    }

    fn queue_jobs(&self, state: &mut DbState) {
        let stopped = state.jobs.are_paused() || state.trouble.stops_work();
        if !state.life.runs() || stopped || self.c.read_only {
            return;
        }
        let Some(work) = self.work() else {
            return;
        };
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
            self.schedule_together(&work, state);
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
            let counted = CountedFlush(work.clone());
            spawn(&work, JobClass::High, "flush", counted, move |work| {
                work.flush(&family)
            });
        }
        if state.jobs.has_exclusive() || !may_compact || self.switches.all_are_off() {
            return;
        }
        let queued = state.jobs.compactions_queued();
        let busy = state.jobs.compactions_in_slots();
        // One job at a time unless some tree is behind, as RocksDB; each finished job asks again.
        let behind = || state.families.values().any(wants_more);
        let is_held = !self.gate.is_open_to_leaders() || self.gate.has(gate::FULL);
        let limit = if is_held || behind() {
            self.max_compactions()
        } else {
            1
        };
        if busy < limit && queued == 0 && state.jobs.has_families() {
            state.jobs.queue_compaction();
            spawn(&work, JobClass::Low, "compaction", (), |work| {
                work.compact()
            });
        } else if busy >= limit && self.merges_beside() {
            queue_merge_beside(&work, state);
        }
    }

    /// Queues the flushes of several families that may begin, in the order of asking where two have a family in common.
    fn schedule_together(&self, work: &Arc<dyn BackgroundWork>, state: &mut DbState) {
        let mut earlier = BTreeSet::new();
        for listed in state.jobs.take_together() {
            let families: Vec<u32> = listed.0.iter().map(|l| l.0).collect();
            let is_free = |id: &u32| {
                let f = state.family(*id);
                !earlier.contains(id)
                    && f.is_none_or(|f| !f.flush.is_queued() && !f.flush.has_untold_seals())
            };
            if !families.iter().all(is_free) {
                earlier.extend(families);
                state.jobs.list_together(listed);
                continue;
            }
            for &id in &families {
                if let Some(f) = state.family_mut(id) {
                    f.flush.unlist();
                    f.flush.queue();
                }
            }
            state.jobs.begin_flush();
            let turns = Turns {
                work: work.clone(),
                families,
            };
            spawn(work, JobClass::High, "flush", turns, move |work| {
                work.flush_together(listed)
            });
        }
    }

    /// A job panicked, which is a fatal background error.
    fn job_panicked(&self, class: JobClass, what: &str, error: &Error) {
        self.set_error(Place::Panic, error);
        let mut state = self.state.lock();
        // The job cannot give back what it took; nothing new starts after an error.
        if class == JobClass::High {
            for f in state.families.values_mut() {
                f.flush.abandon();
            }
        } else {
            // It was queued no more. Others may go on: whoever closes waits for them.
            state.jobs.end_compaction();
            if what == MERGE_BESIDE {
                state.jobs.free_beside();
            }
        }
        drop(state);
        self.state.notify_all();
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

/// Queues a job whose panic becomes a fatal background error. What is `held` is let go of last: whoever waits
/// for that may close the database and give its directory away.
fn spawn(
    work: &Arc<dyn BackgroundWork>,
    class: JobClass,
    what: &'static str,
    held: impl Send + 'static,
    job: impl FnOnce(&dyn BackgroundWork) + Send + 'static,
) {
    let me = work.clone();
    work.lsm().c.env.executor.spawn(
        class,
        Box::new(move || {
            let _inside = callbacks::enter(callbacks::Place::Job);
            let run = || me.lsm().disk.during(what, || job(&*me));
            if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
                me.lsm().job_panicked(class, what, &panicked(what, &*panic));
            }
            // A job without work, too, may have been the last to hold a family that was dropped.
            me.lsm().purge_queued();
            drop(held);
        }),
    );
}

/// Queues a merge within a level 0 that a compaction takes older files out of, if its slot is free.
fn queue_merge_beside(work: &Arc<dyn BackgroundWork>, state: &mut DbState) {
    if state.families.values().any(is_merge_beside_due) && state.jobs.take_beside() {
        let run = |work: &dyn BackgroundWork| work.merge_beside();
        spawn(work, JobClass::Low, MERGE_BESIDE, (), run);
    }
}

/// Returns whether files came to a level 0 while a compaction takes older ones out of it, as far as can be said at little cost.
pub(crate) fn is_merge_beside_due(f: &FamilyState) -> bool {
    !f.settings.options.disable_auto_compactions
        && leaves_room_beside(&f.version, &f.settings.levels, f.compaction.running())
}

/// A flush job that [`Jobs`](super::Jobs) counts until this is dropped.
struct CountedFlush(Arc<dyn BackgroundWork>);

impl Drop for CountedFlush {
    fn drop(&mut self) {
        let lsm = self.0.lsm();
        lsm.state.lock().jobs.end_flush();
        lsm.state.notify_all();
    }
}

/// The families of a flush of several that is queued or runs: no other job flushes them meanwhile.
struct Turns {
    work: Arc<dyn BackgroundWork>,
    families: Vec<u32>,
}

impl Drop for Turns {
    fn drop(&mut self) {
        let lsm = self.work.lsm();
        let mut state = lsm.state.lock();
        state.jobs.end_flush();
        for &id in &self.families {
            if let Some(f) = state.family_mut(id) {
                let is_all_flushed = f.imm.is_empty();
                f.flush.end_together(is_all_flushed);
            }
        }
        lsm.schedule(&mut state);
        drop(state);
        lsm.state.notify_all();
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
    use super::super::double::Double;
    use super::super::gate;
    use super::super::{CompactionProgress, Family};
    use super::*;
    use crate::Db;
    use crate::options::{CfOptions, DbOptions, WriteThrottlePolicy};
    use crate::picker::RunningCompaction;
    use spanlith_env::{Env, Executor, IoActivity, MemFs};

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
                let panics = |_: &dyn BackgroundWork| panic!("in a test");
                let work: Arc<dyn BackgroundWork> = engine.clone();
                match class {
                    JobClass::High => {
                        spawn(&work, class, "flush", CountedFlush(work.clone()), panics);
                    }
                    _ => spawn(&work, class, "compaction", (), panics),
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

    fn trees(names: &[&str]) -> Arc<Double> {
        Double::new(&DbOptions::new(), names, &CfOptions::new())
    }

    const FOUR_FILES: &str = "L0 1 a..z 1MB\nL0 2 a..z 1MB\nL0 3 a..z 1MB\nL0 4 a..z 1MB";

    #[test]
    fn a_sealed_memtable_is_flushed_by_one_job() {
        let double = trees(&["default", "other"]);
        double.schedule();
        assert_eq!(double.run(), [""; 0], "nothing is due");
        double.seal(1);
        double.seal(1);
        double.schedule();
        assert_eq!(double.state().jobs.flushes(), 1);
        assert_eq!(double.run(), ["flush other"]);
        assert_eq!(double.state().jobs.flushes(), 0);
        // The body of the job ends the turn of the family; this one does not.
        double.seal(1);
        assert_eq!(double.run(), [""; 0], "its turn is not over");
        double.state().family_mut(1).unwrap().flush.abandon();
        double.schedule();
        assert_eq!(double.run(), ["flush other"]);
    }

    #[test]
    fn flushes_of_all_families_at_once_are_one_job() {
        let options = DbOptions::new().atomic_flush(true);
        let double = Double::new(&options, &["default", "other"], &CfOptions::new());
        double.seal(1);
        double.seal(0);
        assert_eq!(double.run(), ["flush default"]);
    }

    #[test]
    fn nothing_is_queued_while_work_is_paused_or_held_back() {
        let double = trees(&["default"]);
        double.state().jobs.pause();
        double.seal(0);
        double.install(0, FOUR_FILES);
        assert_eq!(double.run(), [""; 0], "paused");
        assert!(double.state().jobs.unpause());
        double.schedule();
        assert_eq!(double.run(), ["flush default", "compact Some(0)"]);
    }

    #[test]
    fn an_installed_version_that_is_due_is_compacted_once() {
        let double = trees(&["default"]);
        double.install(0, "L0 1 a..z 1MB");
        assert_eq!(double.run(), [""; 0], "one file is not enough");
        double.install(0, FOUR_FILES);
        double.schedule();
        assert_eq!(double.state().jobs.compactions_queued(), 1);
        assert_eq!(double.run(), ["compact Some(0)"]);
    }

    #[test]
    fn one_compaction_is_queued_for_two_trees_and_the_next_when_it_asks() {
        let double = trees(&["default", "other"]);
        double.install(0, FOUR_FILES);
        double.install(1, FOUR_FILES);
        assert_eq!(double.state().jobs.compactions_queued(), 1);
        assert_eq!(double.run(), ["compact Some(0)"]);
        {
            let mut state = double.state();
            state.jobs.start_compaction();
            state.jobs.end_compaction();
        }
        double.schedule();
        assert_eq!(double.run(), ["compact Some(1)"]);
    }

    /// Files 5 to 8 came while a compaction takes 1 to 4 out of level 0.
    fn beside(policy: WriteThrottlePolicy) -> Arc<Double> {
        let mut options = DbOptions::new();
        options.own.write_throttle_policy = policy;
        let double = Double::new(&options, &["default"], &CfOptions::new());
        let range = RunningCompaction {
            id: 9,
            output_level: 1,
            smallest: b"a".to_vec(),
            largest: b"z".to_vec(),
            input_levels: vec![0],
            proximal: None,
        };
        let mut state = double.state();
        let progress = Arc::new(CompactionProgress::new(9, 10, 0));
        let f = state.family_mut(0).unwrap();
        f.compaction.begin(range, progress);
        state.jobs.begin_compaction();
        drop(state);
        double
    }

    const FOUR_CAME: &str =
        "L0 8 a..z 1MB\nL0 7 a..z 1MB\nL0 6 a..z 1MB\nL0 5 a..z 1MB\nL0 4 a..z 1MB busy";

    #[test]
    fn a_merge_beside_a_compaction_of_level_0_has_a_slot_of_its_own() {
        let double = beside(WriteThrottlePolicy::Smooth);
        double.install(0, FOUR_CAME);
        double.schedule();
        assert!(!double.state().jobs.take_beside(), "it is asked for once");
        assert_eq!(double.state().jobs.compactions_queued(), 0);
        assert_eq!(double.run(), ["merge beside"]);
        double.schedule();
        assert_eq!(double.run(), ["merge beside"]);
        assert_eq!(double.lsm().compaction_threads(), 2);
        for policy in [WriteThrottlePolicy::Rocksdb, WriteThrottlePolicy::TwoStage] {
            let double = beside(policy);
            double.install(0, FOUR_CAME);
            assert_eq!(double.run(), [""; 0], "{policy:?}");
            assert_eq!(double.lsm().compaction_threads(), 1);
        }
    }

    #[test]
    fn no_merge_begins_beside_while_work_is_held_back() {
        let held = |hold: &dyn Fn(&mut DbState)| {
            let double = beside(WriteThrottlePolicy::Smooth);
            hold(&mut double.state());
            double.install(0, FOUR_CAME);
            assert_eq!(double.run(), [""; 0]);
        };
        held(&|state| state.jobs.pause());
        held(&|state| state.jobs.begin_manual(true));
        let double = beside(WriteThrottlePolicy::Smooth);
        double.lsm().switches.abort();
        double.install(0, FOUR_CAME);
        assert_eq!(double.run(), [""; 0]);
    }

    /// A job found no work and was the last to hold a family that was dropped: its tables stayed until a later job.
    #[test]
    fn files_that_a_job_was_the_last_to_hold_go_with_it() {
        let double = Double::new(&DbOptions::new(), &["default"], &CfOptions::new());
        let c = &double.lsm().c;
        let path = c.dir.join("000007.sst");
        c.env.fs.create_dir_if_missing(&c.dir).unwrap();
        drop(c.env.fs.create(&path, IoActivity::Other).unwrap());
        let sink = double.state().family(0).unwrap().family.cache.paths.clone();
        let sink = Family::new_sink(&c.purge, sink);
        double.install(
            0,
            "L0 4 a..z 1MB\nL0 3 a..z 1MB\nL0 2 a..z 1MB\nL0 1 a..z 1MB",
        );
        sink.file_obsolete(7, 0, 0);
        assert!(c.env.fs.size(&path).is_ok());
        assert_eq!(double.run(), ["compact Some(0)"]);
        assert!(c.env.fs.size(&path).is_err());
    }

    #[test]
    fn without_automatic_compactions_a_due_tree_is_left() {
        let families = CfOptions::new().disable_auto_compactions(true);
        let double = Double::new(&DbOptions::new(), &["default"], &families);
        double.install(0, FOUR_FILES);
        assert_eq!(double.run(), [""; 0]);
    }

    #[test]
    fn installed_versions_close_the_gate_of_writers_and_open_it() {
        let double = trees(&["default"]);
        let files = |n: u32| {
            (1..=n)
                .map(|i| format!("L0 {i} a..z 1MB\n"))
                .collect::<String>()
        };
        let bits = |double: &Double| {
            let gate = &double.lsm().gate;
            (gate.has(gate::DELAY), gate.has(gate::STOP))
        };
        double.install(0, &files(19));
        assert_eq!(bits(&double), (false, false));
        double.install(0, &files(20));
        assert_eq!(bits(&double), (true, false), "slow down");
        double.install(0, &files(36));
        assert_eq!(bits(&double), (false, true), "stop");
        double.install(0, &files(3));
        assert_eq!(bits(&double), (false, false));
    }
}
