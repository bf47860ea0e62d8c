//! Holding background work back, and letting it go on.

use crate::core::{Engine, Family};
use spanlith_base::{Error, Result};
use std::sync::Arc;

impl Engine {
    /// Starts no flush and no compaction any more, and waits for those that run. Counts.
    pub(crate) fn pause_background_work(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.jobs.pause();
        // Those that wait for idleness may not want to wait for the end of a pause.
        self.state.notify_all();
        while !state.jobs.are_over() {
            if state.ends() {
                return Err(Error::shutdown(""));
            }
            state = self.wait_changed(state);
        }
        Ok(())
    }

    /// Takes back one pause.
    ///
    /// # Errors
    /// `InvalidArgument` if there was none.
    pub(crate) fn continue_background_work(self: &Arc<Self>) -> Result<()> {
        let mut state = self.state.lock();
        if !state.jobs.unpause() {
            return Err(Error::invalid_argument("Background work already unpaused"));
        }
        self.schedule(&mut state);
        drop(state);
        self.state.notify_all();
        Ok(())
    }

    /// Calls off manual compactions, waits for those that run, and refuses new ones. Counts.
    pub(crate) fn disable_manual_compaction(&self) {
        self.switches.disable_manual();
        self.state.notify_all();
        let mut state = self.state.lock();
        while state.jobs.has_manual() {
            state = self.wait_changed(state);
        }
    }

    /// Gives up all compactions that run, manual ones too, waits for their end, and lets none begin. Flushes go
    /// on. Counts.
    pub(crate) fn abort_compactions(&self) {
        let mut state = self.state.lock();
        self.switches.abort();
        self.state.notify_all();
        while state.jobs.compactions_running() > 0 || state.jobs.has_manual() {
            state = self.wait_changed(state);
        }
    }

    /// Takes back one call of [`Self::abort_compactions`]; without one it does nothing.
    pub(crate) fn resume_compactions(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if self.switches.resume() {
            self.schedule(&mut state);
        }
        drop(state);
        self.state.notify_all();
    }

    /// Keeps obsolete files on disk. Counts.
    pub(crate) fn disable_file_deletions(&self) {
        self.c.purge.disable();
    }

    /// Takes back one call of [`Self::disable_file_deletions`]; the last one deletes what was kept.
    pub(crate) fn enable_file_deletions(&self) {
        self.c.purge.enable();
        if !self.c.purge.is_disabled() && !self.c.purge.is_closed() {
            drop(self.retire_logs());
            self.c.purge.run();
            self.c.purge.run_others();
            self.options_writer().remove_old();
        }
    }

    /// Marks the files of a range, except those of the deepest level with data, so that compactions
    /// take them down. Those of a dropped family go with it.
    pub(crate) fn suggest_compact_range(
        self: &Arc<Self>,
        family: &Arc<Family>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        let (begin, end) = (family.pad(begin, 0xff), family.pad(end, 0));
        let mut state = self.state.lock();
        let Some(alive) = state.family(family.id) else {
            return Ok(());
        };
        let version = alive.version.clone();
        for level in 0..version.num_non_empty_levels().saturating_sub(1) {
            for file in version.overlapping(level, begin.as_deref(), end.as_deref()) {
                file.suggest();
            }
        }
        self.install_superversion(&mut state, family.id);
        Ok(())
    }
}
