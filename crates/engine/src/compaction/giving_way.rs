//! A compaction that runs lets more urgent work go first (`preemptible_compaction`).
//!
//! The thread does the urgent work inside the compaction, between two entries, and goes on with what it did. So nothing is
//! begun anew and nothing has to be stored and resumed: readers, the open output and the place in the inputs stay where they
//! are, on the stack. The price is that the compaction's inputs and its output range stay taken meanwhile, as they would by a job that is
//! parked.
//!
//! A flush goes before everything, a compaction out of level 0 or within it before deeper ones, so that a thread is in three jobs at
//! most. Requires: the caller holds no lock and no token.

use super::compactor::{Compactor, room_for};
use super::job::CompactionJob;
use crate::core::{Lsm, ShortDirs, is_flush_urgent, is_level0_urgent, settle_move};
use crate::picker::pick;
use spanlith_env::JobClass;

/// How long a job was interrupted, by the clock and by the processor time of its thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Paused {
    pub nanos: u64,
    pub cpu_nanos: u64,
}

impl Paused {
    /// Takes in the pauses of another part.
    pub(super) fn add(&mut self, other: Self) {
        self.nanos += other.nanos;
        self.cpu_nanos += other.cpu_nanos;
    }
}

impl CompactionJob {
    /// Returns whether it takes files of level 0.
    fn takes_level0(&self) -> bool {
        self.plan.inputs.iter().any(|i| i.0 == 0)
    }

    /// Lets urgent work go first, if it is asked to. Costs one load if it is not.
    #[inline]
    pub(super) fn give_way(&self, lsm: &Lsm, paused: &mut Paused) {
        if self.gives_way && lsm.switches.take_way() {
            self.let_first(lsm, paused);
        }
    }

    #[cold]
    fn let_first(&self, lsm: &Lsm, paused: &mut Paused) {
        let clock = &lsm.c.env.clock;
        let began = (clock.monotonic_nanos(), clock.thread_cpu_nanos());
        let flush = is_flush_urgent(&lsm.state.lock(), lsm.c.options.atomic_flush);
        let flushed = flush && lsm.c.env.executor.lend(JobClass::High);
        let next = match self.takes_level0() {
            true => None,
            false => begin_urgent(lsm),
        };
        if flushed || next.is_some() {
            let first = next.as_ref().map_or_else(
                || "a flush".to_string(),
                |next| format!("job {} of level 0 of [{}]", next.id, next.family.name),
            );
            lsm.reporter.log().info(format_args!(
                "[{}] [JOB {}] Compaction gives way to {first}",
                self.family.name, self.id,
            ));
        }
        if let Some(next) = next {
            Compactor::new(lsm).run_begun(next);
        }
        paused.nanos += clock.monotonic_nanos().saturating_sub(began.0);
        paused.cpu_nanos += clock.thread_cpu_nanos().saturating_sub(began.1);
    }
}

/// Begins the compaction of a level 0 that writers are about to wait for, if it can run now.
fn begin_urgent(lsm: &Lsm) -> Option<CompactionJob> {
    let families = lsm.families.load_full();
    let options = lsm.options();
    let short = ShortDirs::look(&*lsm.c.env.fs, &families, &options, &lsm.throttle);
    drop(families);
    let compactor = Compactor::new(lsm);
    let mut state = lsm.state.lock();
    if !compactor.may_begin(&state) {
        return None;
    }
    let urgent = state.families.values().filter(|f| is_level0_urgent(f));
    let urgent: Vec<u32> = urgent.map(|f| f.family.id).collect();
    for id in urgent {
        let Some(f) = state.family_mut(id) else {
            continue;
        };
        let Some(mut plan) = pick(&f.picker_input(&lsm.times, &options)) else {
            continue;
        };
        // Others than of level 0 wait for their turn; nothing was changed so far.
        if plan.inputs.first().is_none_or(|i| i.0 != 0) {
            continue;
        }
        settle_move(&f.version, &f.family.cache.paths, &mut plan);
        let room = room_for(&plan);
        if short.refusal(&f.family, &plan).is_some()
            || !lsm.c.resources.reserve_space(&f.family, room)
        {
            continue;
        }
        let mut job = compactor.start(&mut state, id, plan)?;
        job.gives_way = true;
        return Some(job);
    }
    None
}
