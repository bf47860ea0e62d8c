//! Which compaction runs next, what it claims while it runs, and what becomes of its outcome.
//!
//! A plan claims its inputs and its output range under the state mutex ([`Compactor::start`]), runs without it
//! ([`CompactionRun`]), and gives them back whatever came of it ([`Compactor::end`]).

use super::blob_gc::BlobGcChoice;
use super::job::{CompactionJob, CompactionRun, is_aborted};
use crate::core::{
    CompactionProgress, DbState, FamilySettings, Lsm, Place, ShortDirs, panicked, settle_move,
};
use crate::options::CompactionStyle;
use crate::picker::{CompactionPlan, pick};
use spanlith_base::{Error, ErrorKind, Result, Severity};
use spanlith_pace::Change;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Starts, runs and ends compactions of a database, on a thread of the background or of a caller.
pub(crate) struct Compactor<'a> {
    pub(super) lsm: &'a Lsm,
}

/// Returns whether an error says that output and input of a job differ.
fn is_mismatch(e: &Error) -> bool {
    e.kind() == ErrorKind::Corruption && e.severity() == Severity::Hard
}

impl<'a> Compactor<'a> {
    /// That of these trees.
    pub(crate) fn new(lsm: &'a Lsm) -> Self {
        Self { lsm }
    }

    /// Body of a background compaction job: picks, runs, and asks for the next.
    pub(crate) fn run_next(&self) {
        let short = self.look_for_room();
        let job = {
            let mut state = self.lsm.state.lock();
            state.jobs.start_compaction();
            let (job, held_back) = self.next_job(&mut state, &short);
            if job.is_none() {
                drop(state);
                if let Some(e) = held_back {
                    self.lsm.set_error(Place::Compaction, &e);
                }
                self.lsm.state.notify_all();
                return;
            }
            // While this one runs, another family may be next.
            self.lsm.schedule(&mut state);
            job
        };
        match job {
            Some(mut job) => {
                job.gives_way = true;
                self.run_begun(job);
            }
            None => self.lsm.purge_obsolete(),
        }
    }

    /// Looks where there is little room. Requires: no lock, since the file system is asked.
    pub(super) fn look_for_room(&self) -> ShortDirs {
        let lsm = self.lsm;
        let families = lsm.families.load_full();
        ShortDirs::look(&*lsm.c.env.fs, &families, &lsm.options(), &lsm.throttle)
    }

    /// Runs a background job that was begun, reports what goes wrong, and ends it.
    pub(super) fn run_begun(&self, job: CompactionJob) {
        let mut result = self.run_caught(&job);
        if result.as_ref().is_err_and(is_mismatch) {
            // The outputs contradict the inputs: once may be a fault of the memory.
            let again = self.run_caught(&job);
            result = again.map_err(|e| match is_mismatch(&e) {
                true => e.with_severity(Severity::Fatal),
                false => e,
            });
        }
        // Before the plan ends: the same plan is not to be picked again at once.
        match result {
            Ok(_) => self.lsm.work_succeeded(Place::Compaction),
            Err(e) if e.kind() == ErrorKind::ColumnFamilyDropped => {}
            // Nothing is wrong, and it is due again once compactions go on.
            Err(e) if is_aborted(&e) => {}
            Err(_) if self.lsm.stopping() => {}
            Err(e) => {
                let files = job.plan.input_files().cloned().collect();
                self.lsm.set_error_of(files, &e);
            }
        }
        self.end(&job);
        self.lsm.c.resources.release_space(room_for(&job.plan));
        // It may be the last to hold a family that was dropped, whose tables go with it.
        drop(job);
        self.lsm.purge_obsolete();
        self.use_room();
    }

    /// Tries compactions again that found no room: that of one which has ended, and of its inputs, may do.
    fn use_room(&self) {
        let mut state = self.lsm.state.lock();
        let all = state.families.iter_mut();
        let short: Vec<u32> = all
            .filter_map(|(&id, f)| f.compaction.take_lack().then_some(id))
            .collect();
        if !short.is_empty() {
            self.lsm.retry_compactions(&mut state, &short);
            drop(state);
            self.lsm.state.notify_all();
        }
    }

    /// As [`CompactionRun::run`], on the thread of a caller: he gets what a background job would report. A
    /// panic stops writes, as there.
    pub(super) fn run_for_caller(&self, job: &CompactionJob) -> Result<Vec<u64>> {
        self.run_caught(job).inspect_err(|e| {
            if e.severity() == Severity::Fatal {
                self.lsm.set_error(Place::Compaction, e);
            }
        })
    }

    /// As [`CompactionRun::run`]; a panic becomes an error.
    fn run_caught(&self, job: &CompactionJob) -> Result<Vec<u64>> {
        let done = catch_unwind(AssertUnwindSafe(|| CompactionRun::new(self.lsm, job).run()));
        done.unwrap_or_else(|panic| Err(panicked("compaction", &*panic)))
    }

    /// Returns whether nothing keeps compactions in the background from beginning.
    pub(super) fn may_begin(&self, state: &DbState) -> bool {
        !state.jobs.has_exclusive()
            && !state.jobs.are_paused()
            && !state.ends()
            && !self.lsm.switches.all_are_off()
            && !state.trouble.stops_work()
            && !state.trouble.holds(Place::Compaction)
    }

    /// The next compaction of the family that has waited longest and may write; if there is none, why
    /// one was held back.
    fn next_job(
        &self,
        state: &mut DbState,
        short: &ShortDirs,
    ) -> (Option<CompactionJob>, Option<Error>) {
        if !self.may_begin(state) {
            return (None, None);
        }
        let (mut held, mut refusal) = (Vec::new(), None);
        let job = self.pick_job(state, short, &mut |id, e| {
            held.push(id);
            refusal = Some(e);
        });
        if job.is_some() {
            // Their turn comes again.
            for id in held {
                if let Some(f) = state.family_mut(id) {
                    f.compaction.queue();
                    state.jobs.push_family(id);
                }
            }
        }
        (job, refusal)
    }

    fn pick_job(
        &self,
        state: &mut DbState,
        short: &ShortDirs,
        hold_back: &mut dyn FnMut(u32, Error),
    ) -> Option<CompactionJob> {
        while let Some(id) = state.jobs.pop_family() {
            let Some(f) = state.family_mut(id) else {
                continue;
            };
            f.compaction.unqueue();
            let picked =
                pick(&f.picker_input(&self.lsm.times, &self.lsm.options())).map(|mut plan| {
                    settle_move(&f.version, &f.family.cache.paths, &mut plan);
                    plan
                });
            if let Some(plan) = &picked
                && let Some(e) = short.refusal(&f.family, plan)
            {
                hold_back(id, e);
                continue;
            }
            match picked {
                // Without room it waits for the next install, as if nothing could run, or for the end of another.
                Some(plan)
                    if !self
                        .lsm
                        .c
                        .resources
                        .reserve_space(&f.family, room_for(&plan)) =>
                {
                    f.compaction.note_lack();
                    self.lsm.put_off_compaction(state, id);
                }
                Some(plan) => return self.start(state, id, plan),
                // Nothing can run now; what is due is looked at again after the next install.
                None => self.lsm.put_off_compaction(state, id),
            }
        }
        None
    }

    /// Marks the inputs and registers the output range. Requires: the state mutex; [`settle_move`] was
    /// asked. `None` if the family was dropped.
    pub(crate) fn start(
        &self,
        state: &mut DbState,
        family: u32,
        plan: CompactionPlan,
    ) -> Option<CompactionJob> {
        let id = state.jobs.new_id();
        let f = state.family_mut(family)?;
        f.compaction.judge_at(self.lsm.c.env.clock.now_seconds());
        for file in plan.input_files() {
            debug_assert!(
                !file.is_being_compacted(),
                "C2: {} is an input twice",
                file.number
            );
            file.being_compacted.store(true, Ordering::Relaxed);
        }
        let now = self.lsm.c.env.clock.monotonic_nanos();
        let range = plan.running(id, &f.family.comparator);
        let progress = Arc::new(CompactionProgress::new(
            id,
            level0_bytes(&plan, &f.settings),
            now,
        ));
        debug_assert!(
            (f.compaction.running().iter()).all(|r| !r.shares_output(&range, &f.family.comparator)),
            "C2: {range:?} is written to by {:?}",
            f.compaction.running()
        );
        f.compaction.begin(range, progress.clone());
        let job = CompactionJob {
            family: f.family.clone(),
            settings: f.settings.clone(),
            output_temperature: plan.output_temperature,
            progress,
            plan,
            id,
            max_subcompactions: 0,
            blob_gc: BlobGcChoice::default(),
            gives_way: false,
            is_beside: false,
            canceled: None,
            trim: None,
            told: None,
        };
        state.jobs.begin_compaction();
        Some(job)
    }

    /// Takes back what [`Self::start`] did, and looks for more work.
    pub(crate) fn end(&self, job: &CompactionJob) {
        let mut state = self.lsm.state.lock();
        for file in job.plan.input_files() {
            let stays = state.trouble.is_quarantined(file);
            file.being_compacted.store(stays, Ordering::Relaxed);
        }
        state.jobs.end_compaction();
        if job.is_beside {
            state.jobs.set_beside_works(false);
        }
        if let Some(f) = state.family_mut(job.family.id) {
            f.compaction.end(job.id);
            // An input that went is not there any more, if it went.
            let left = f.version.files(0).iter();
            let stays = |n: u64| left.clone().any(|f| f.number == n);
            let mut inputs = job.plan.inputs.iter().filter(|i| i.0 == 0);
            if let Some(first) = inputs.next().and_then(|i| i.1.first())
                && !stays(first.number)
            {
                f.pace.retired_level0(job.progress.level0_bytes);
                if job.plan.output_level == 0 && job.plan.is_leveled {
                    f.pace.merged_level0(job.plan.input_files().count());
                }
            }
            f.pace.change = Some(Change::Compaction);
        }
        // Scores exclude what is being compacted: they change now.
        self.lsm.install_superversion(&mut state, job.family.id);
        self.lsm.schedule(&mut state);
        drop(state);
        self.lsm.state.notify_all();
        self.lsm.reporter.tell_stalls();
    }
}

/// Bytes of level 0 that a plan takes out of it. With leveled compaction, what is merged within level 0 stays; elsewhere
/// it is a sorted run less.
fn level0_bytes(plan: &CompactionPlan, settings: &FamilySettings) -> u64 {
    let leaves = plan.output_level > 0 || settings.levels.style != CompactionStyle::Level;
    let inputs = plan.inputs.iter().filter(|i| i.0 == 0 && leaves);
    inputs.flat_map(|i| &i.1).map(|f| f.size).sum()
}

/// Bytes that a plan may write at most.
pub(super) fn room_for(plan: &CompactionPlan) -> u64 {
    if plan.is_trivial_move || plan.only_deletes {
        0
    } else {
        plan.input_bytes()
    }
}
