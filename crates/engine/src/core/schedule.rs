//! Decides, under the state mutex, which background jobs to queue.

use super::Engine;
use super::state::DbState;
use super::throttle::{SpeedUpInput, wants_speed_up};
use spanlith_base::{Error, Result};
use spanlith_env::JobClass;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Engine {
    /// Compaction jobs that may run at once: RocksDB's split of `max_background_jobs`.
    pub(crate) fn max_compactions(&self) -> usize {
        let o = &self.c.options;
        let jobs = o.max_background_jobs.max(1);
        let wanted = if o.max_background_compactions == -1 && o.max_background_flushes == -1 {
            jobs - (jobs / 4).max(1)
        } else {
            o.max_background_compactions
        };
        wanted.max(1) as usize
    }

    /// Queues a flush and compactions as far as there is work and room for them.
    pub(crate) fn schedule(self: &Arc<Self>, state: &mut DbState) {
        if !state.started || state.closing || state.error.is_some() || self.c.read_only {
            return;
        }
        if self.flush_is_due(state) && !state.flush_scheduled {
            state.flush_scheduled = true;
            let me = self.clone();
            self.spawn(JobClass::High, "flush", move || me.background_flush());
        }
        let o = &self.c.family.options;
        if o.disable_auto_compactions || state.manual > 0 {
            return;
        }
        let busy = state.compactions_queued + state.compactions_running;
        // One job at a time unless the tree is behind, as RocksDB; each finished job asks again.
        let limit = if self.write_gate.load(Ordering::Relaxed) != 0 || self.wants_speed_up(state) {
            self.max_compactions()
        } else {
            1
        };
        if busy < limit && state.compactions_queued == 0 && state.compaction_due {
            state.compactions_queued += 1;
            let me = self.clone();
            self.spawn(JobClass::Low, "compaction", move || {
                me.background_compaction()
            });
        }
    }

    /// Whether sealed memtables are to be flushed now.
    pub(crate) fn flush_is_due(&self, state: &DbState) -> bool {
        let merge_at = self
            .c
            .family
            .options
            .min_write_buffer_number_to_merge
            .max(1) as usize;
        state.imm.len() >= merge_at || (state.flush_requested && !state.imm.is_empty())
    }

    fn wants_speed_up(&self, state: &DbState) -> bool {
        let o = &self.c.family.options;
        let bottom = state.version.num_non_empty_levels().saturating_sub(1);
        wants_speed_up(&SpeedUpInput {
            l0_files: state.version.num_files(0),
            level0_file_num_compaction_trigger: o.level0_file_num_compaction_trigger,
            level0_slowdown_writes_trigger: o.level0_slowdown_writes_trigger,
            pending_compaction_bytes: state.pending_compaction_bytes,
            soft_pending_compaction_bytes_limit: o.soft_pending_compaction_bytes_limit,
            bottommost_bytes: state.version.level_bytes(bottom),
            max_bytes_for_level_base: o.max_bytes_for_level_base,
            marked_files: 0,
        })
    }

    /// Queues a job whose panic becomes a fatal background error.
    fn spawn(
        self: &Arc<Self>,
        class: JobClass,
        what: &'static str,
        job: impl FnOnce() + Send + 'static,
    ) {
        let me = self.clone();
        self.c.env.executor.spawn(
            class,
            Box::new(move || {
                if catch_unwind(AssertUnwindSafe(job)).is_err() {
                    let e = Error::aborted(format!("panic in a {what} job"));
                    me.set_error(what, &e);
                    let mut state = me.state.lock();
                    // The job cannot give back what it took; nothing new starts after an error.
                    state.flush_scheduled = false;
                    state.flush_running = false;
                    state.compactions_queued = 0;
                    state.compactions_running = 0;
                    drop(state);
                    me.changed.notify_all();
                }
            }),
        );
    }

    /// Waits until no job runs or is queued.
    pub(crate) fn drain(&self) -> Result<()> {
        let mut state = self.state.lock();
        while state.flush_scheduled || state.compactions_queued + state.compactions_running > 0 {
            state = self.wait_changed(state);
        }
        Ok(())
    }
}
