//! Holding background work back, and letting it go on, for callers.

use crate::core::{Family, FamilyState, Lsm};
use spanlith_base::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::Duration;

/// Lets callers pause background work, call compactions off, wait for the end of both, and name files that are to be
/// compacted.
pub(crate) struct WorkControl<'a> {
    lsm: &'a Lsm,
}

impl<'a> WorkControl<'a> {
    /// That of these trees.
    pub(crate) fn new(lsm: &'a Lsm) -> Self {
        Self { lsm }
    }

    /// Starts no flush and no compaction any more, and waits for those that run. Counts.
    pub(crate) fn pause(&self) -> Result<()> {
        let mut state = self.lsm.state.lock();
        state.jobs.pause();
        // Those that wait for idleness may not want to wait for the end of a pause.
        self.lsm.state.notify_all();
        while !state.jobs.are_over() {
            if state.ends() {
                return Err(Error::shutdown(""));
            }
            state = self.lsm.wait_changed(state);
        }
        Ok(())
    }

    /// Takes back one pause.
    ///
    /// # Errors
    /// `InvalidArgument` if there was none.
    pub(crate) fn unpause(&self) -> Result<()> {
        let mut state = self.lsm.state.lock();
        if !state.jobs.unpause() {
            return Err(Error::invalid_argument("Background work already unpaused"));
        }
        self.lsm.schedule(&mut state);
        drop(state);
        self.lsm.state.notify_all();
        Ok(())
    }

    /// Calls off manual compactions, waits for those that run, and refuses new ones. Counts.
    pub(crate) fn disable_manual(&self) {
        self.lsm.switches.disable_manual();
        self.lsm.state.notify_all();
        let mut state = self.lsm.state.lock();
        while state.jobs.has_manual() {
            state = self.lsm.wait_changed(state);
        }
    }

    /// Takes back one call of [`Self::disable_manual`].
    pub(crate) fn enable_manual(&self) {
        self.lsm.switches.enable_manual();
    }

    /// Gives up all compactions that run, manual ones too, waits for their end, and lets none begin. Flushes go
    /// on. Counts.
    pub(crate) fn abort_compactions(&self) {
        let mut state = self.lsm.state.lock();
        self.lsm.switches.abort();
        self.lsm.state.notify_all();
        while state.jobs.compactions_running() > 0 || state.jobs.has_manual() {
            state = self.lsm.wait_changed(state);
        }
    }

    /// Takes back one call of [`Self::abort_compactions`]; without one it does nothing.
    pub(crate) fn resume_compactions(&self) {
        let mut state = self.lsm.state.lock();
        if self.lsm.switches.resume() {
            self.lsm.schedule(&mut state);
        }
        drop(state);
        self.lsm.state.notify_all();
    }

    /// Waits until no flush or compaction runs, is queued or is due.
    pub(crate) fn wait_idle(&self, limit: Option<Duration>, abort_on_pause: bool) -> Result<()> {
        let clock = &self.lsm.c.env.clock;
        let until = limit.map(|l| clock.monotonic_nanos() + l.as_nanos() as u64);
        let mut state = self.lsm.state.lock();
        loop {
            if let Some(e) = state.trouble.any() {
                return Err(e);
            }
            if state.ends() {
                return Err(Error::shutdown(""));
            }
            if abort_on_pause && state.jobs.are_paused() {
                return Err(Error::new(ErrorKind::Aborted, ""));
            }
            // Without a job when a pause holds it back. A flush that waits for history to be given up is not due.
            let is_due = |f: &FamilyState| f.compaction.is_due() || f.flush_is_due();
            let due = state.families.values().any(is_due)
                || state.jobs.has_together()
                || state.jobs.has_families();
            if state.jobs.are_over() && !due {
                return Ok(());
            }
            match until {
                None => state = self.lsm.wait_changed(state),
                Some(until) => {
                    let left = until.saturating_sub(clock.monotonic_nanos());
                    if left == 0 {
                        return Err(Error::new(ErrorKind::TimedOut, ""));
                    }
                    state = self
                        .lsm
                        .state
                        .wait_timeout(state, Duration::from_nanos(left))
                        .0;
                }
            }
        }
    }

    /// Marks the files of a range, except those of the deepest level with data, so that compactions
    /// take them down. Those of a dropped family go with it.
    pub(crate) fn suggest_range(
        &self,
        family: &Arc<Family>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        let (begin, end) = (family.pad(begin, 0xff), family.pad(end, 0));
        let mut state = self.lsm.state.lock();
        let Some(alive) = state.family(family.id) else {
            return Ok(());
        };
        let version = alive.version.clone();
        for level in 0..version.num_non_empty_levels().saturating_sub(1) {
            for file in version.overlapping(level, begin.as_deref(), end.as_deref()) {
                file.suggest();
            }
        }
        self.lsm.install_superversion(&mut state, family.id);
        Ok(())
    }
}
