//! Merges within level 0 beside the compaction out of it, in a slot of their own.
//!
//! While a compaction takes files out of level 0, others come. Under the policy `smooth` they come at an even rate, and with
//! `level0_merges_beside` a job of its own makes few of them ([`pick_beside`]). The job goes on until there is nothing to merge,
//! and gives its slot back under the lock under which it found that out.

use super::compactor::{Compactor, room_for};
use super::job::CompactionJob;
use crate::core::{DbState, ShortDirs, is_merge_beside_due};
use crate::picker::pick_beside;

impl Compactor<'_> {
    /// Body of the job: merges until nothing is to be merged.
    pub(crate) fn run_beside(&self) {
        loop {
            let short = self.look_for_room();
            let job = {
                let mut state = self.lsm.state.lock();
                let job = self.begin_beside(&mut state, &short);
                match job {
                    Some(_) => state.jobs.set_beside_works(true),
                    None => state.jobs.free_beside(),
                }
                job
            };
            let Some(job) = job else {
                self.lsm.state.notify_all();
                return;
            };
            self.run_begun(job);
        }
    }

    /// Begins a merge, if there is one that may begin and write. One that has no room is left: what is urgent is the
    /// compaction that it would run beside.
    fn begin_beside(&self, state: &mut DbState, short: &ShortDirs) -> Option<CompactionJob> {
        if !self.may_begin(state) || !self.lsm.merges_beside() {
            return None;
        }
        let due = state.families.values().filter(|f| is_merge_beside_due(f));
        let due: Vec<u32> = due.map(|f| f.family.id).collect();
        for id in due {
            let f = state.family(id)?;
            let input = f.picker_input(&self.lsm.times, &self.lsm.options());
            let Some(plan) = pick_beside(&input) else {
                continue;
            };
            let resources = &self.lsm.c.resources;
            if short.refusal(&f.family, &plan).is_some()
                || !resources.reserve_space(&f.family, room_for(&plan))
            {
                continue;
            }
            let mut job = self.start(state, id, plan)?;
            (job.gives_way, job.is_beside) = (true, true);
            return Some(job);
        }
        None
    }
}
