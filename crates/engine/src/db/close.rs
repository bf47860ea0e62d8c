//! Flush on demand, and closing.

use super::properties::Properties;
use crate::core::{Engine, Family, FamilyState, LeaderState, Place, TraceControl, wait_would_help};
use crate::listener::FlushReason;
use crate::options::FlushOptions;
use spanlith_base::{Error, ErrorKind, Result, callbacks};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

impl Engine {
    /// Seals the mutable memtables of the families and has all sealed ones flushed.
    pub(crate) fn flush(&self, families: &[Arc<Family>], options: FlushOptions) -> Result<()> {
        self.flush_for(FlushReason::ManualFlush, families, options)
    }

    /// [`Self::flush`], and why, as listeners are told.
    pub(crate) fn flush_for(
        &self,
        reason: FlushReason,
        families: &[Arc<Family>],
        options: FlushOptions,
    ) -> Result<()> {
        self.flush_listed(reason, families, options, true)
    }

    /// [`Self::flush_for`] of all families that there are. One that is dropped meanwhile has nothing to flush: nobody
    /// named it, and nobody is told.
    pub(crate) fn flush_all_for(&self, reason: FlushReason, options: FlushOptions) -> Result<()> {
        let all: Vec<_> = self.families.load().iter().cloned().collect();
        self.flush_listed(reason, &all, options, false)
    }

    fn flush_listed(
        &self,
        reason: FlushReason,
        families: &[Arc<Family>],
        options: FlushOptions,
        is_named: bool,
    ) -> Result<()> {
        self.writable()?;
        if self.state.lock().life.is_canceled() {
            return Err(Error::shutdown(""));
        }
        let is_atomic = self.c.options.atomic_flush;
        // A caller who names families has those flushed; whatever else asks wants one consistent cut.
        let takes_all = is_atomic && !(is_named && reason == FlushReason::ManualFlush);
        let mut all: Vec<Arc<Family>> = match takes_all {
            true => self.families.load().iter().cloned().collect(),
            false => families.to_vec(),
        };
        // Each is flushed once, however often it is named.
        let mut named = BTreeSet::new();
        all.retain(|family| named.insert(family.id));
        // Nobody asked for those that are dropped from here on.
        let passes_dropped = is_atomic || !is_named;
        if passes_dropped {
            all.retain(|family| !family.is_dropped());
        }
        let families = &all[..];
        if !passes_dropped && let Some(at) = families.iter().position(|f| f.is_dropped()) {
            // RocksDB flushes one after the other: those before it are written out.
            if at > 0 {
                self.flush_for(reason, &families[..at], options)?;
            }
            return Err(Error::new(ErrorKind::ColumnFamilyDropped, ""));
        }
        let is_stopped = self.gate.has(crate::core::gate::STOP);
        if reason == FlushReason::ManualFlush && !options.wait && is_stopped {
            return Err(Error::new(
                ErrorKind::TryAgain,
                "Writes have been stopped, thus unable to perform manual flush. Please try again later \
                 after writes are resumed",
            ));
        }
        // A job that asks would wait for itself.
        let is_job = callbacks::place().is_some();
        if !options.allow_write_stall && !is_job {
            let mut is_needed = false;
            for family in families {
                is_needed |= match self.wait_for_calm(family) {
                    Err(e) if passes_dropped && e.kind() == ErrorKind::ColumnFamilyDropped => false,
                    needed => needed?,
                };
            }
            if !is_needed {
                return Ok(());
            }
        }
        {
            let mut leader = self.leader.lock();
            if let Some(e) = self.refusal() {
                return Err(e);
            }
            let slots = families.iter().filter_map(|f| leader.slot(f.id));
            let filled: Vec<usize> = slots
                .filter(|&at| !leader.slots[at].mem.is_empty())
                .collect();
            let sealed = if options.atomic && families.len() > 1 && !is_atomic {
                leader.seal_together(self, families, &filled, reason)
            } else if filled.is_empty() {
                Ok(())
            } else {
                leader.switch_memtables(self, &filled, reason)
            };
            self.let_go(leader);
            sealed.inspect_err(|e| self.set_error(Place::Seal, e))?;
        }
        let mut state = self.state.lock();
        // Done when everything sealed by now is gone and listeners know; later memtables do not matter.
        let mut last = Vec::new();
        for family in families {
            if let Some(f) = state.family_mut(family.id)
                && let is_due = f.flush_is_due()
                && let Some(newest) = f.imm.last_mut()
            {
                last.push((family.id, newest.mem.clone()));
                if !is_due || newest.reason.is_retry() {
                    newest.reason = reason;
                }
                f.flush.request_now();
            }
        }
        // Who asks does not wait for the next try.
        state.trouble.release(None);
        let failed_before = state.trouble.failed_flushes;
        self.schedule(&mut state);
        if !options.wait {
            return Ok(());
        }
        loop {
            if let Some(e) = state.trouble.refusal() {
                return Err(e);
            }
            let there = last.iter().any(|(id, mem)| {
                let f = state.family(*id);
                f.is_some_and(|f| {
                    f.flush.is_untold() || f.imm.iter().any(|i| Arc::ptr_eq(&i.mem, mem))
                })
            });
            if !there {
                return Ok(());
            }
            if state.trouble.failed_flushes != failed_before
                && let Some(e) = &state.trouble.flush_error
            {
                return Err(e.clone());
            }
            if state.ends() && state.jobs.flushes() == 0 {
                return Err(Error::shutdown(""));
            }
            state = self.wait_changed(state);
        }
    }

    /// Waits until no flush or compaction runs, is queued or is due.
    pub(crate) fn wait_idle(&self, limit: Option<Duration>, abort_on_pause: bool) -> Result<()> {
        let clock = &self.c.env.clock;
        let until = limit.map(|l| clock.monotonic_nanos() + l.as_nanos() as u64);
        let mut state = self.state.lock();
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
                None => state = self.wait_changed(state),
                Some(until) => {
                    let left = until.saturating_sub(clock.monotonic_nanos());
                    if left == 0 {
                        return Err(Error::new(ErrorKind::TimedOut, ""));
                    }
                    state = self.state.wait_timeout(state, Duration::from_nanos(left)).0;
                }
            }
        }
    }

    /// Waits until one more sealed memtable and one more file of level 0 would not delay writes, as
    /// far as waiting helps. Returns whether what the memtable held at the call is still to be flushed.
    fn wait_for_calm(&self, family: &Arc<Family>) -> Result<bool> {
        let mut state = self.state.lock();
        let mem = state.alive(family.id)?.mem.clone();
        loop {
            if state.ends() {
                return Err(Error::shutdown(""));
            }
            if let Some(e) = state.trouble.refusal() {
                return Err(e);
            }
            let f = state.alive(family.id)?;
            let is_sealed = f.imm.iter().any(|i| Arc::ptr_eq(&i.mem, &mem));
            if !is_sealed && !Arc::ptr_eq(&mem, &f.mem) {
                return Ok(false);
            }
            // What failed runs again when it likes, and for whoever asks now.
            if !wait_would_help(f) || state.jobs.are_over() || state.trouble.any().is_some() {
                return Ok(true);
            }
            state = self.wait_changed(state);
        }
    }

    /// Flushes what is in no log, unless the options say not to. Ends a pause, which would keep the
    /// flush waiting.
    fn flush_unlogged(&self) -> Result<()> {
        if !self.logs.lacks_writes() || self.options().avoid_flush_during_shutdown {
            return Ok(());
        }
        self.state.lock().jobs.end_pauses();
        self.flush_all_for(FlushReason::ShutDown, FlushOptions::AT_ONCE)
    }

    /// Starts no flush and no compaction any more, ever, and abandons those that run; with `wait`,
    /// waits for their end. Memtables whose writes are in no log are flushed first, unless
    /// `avoid_flush_during_shutdown`.
    pub(crate) fn cancel_background_work(&self, wait: bool) -> Result<()> {
        if self.c.read_only || !self.owner.is_current() {
            return Ok(());
        }
        let (over, failed) = {
            let mut state = self.state.lock();
            state.life.leave();
            (state.ends(), state.trouble.refuses())
        };
        self.state.notify_all();
        let flushed = match over || failed {
            true => Ok(()),
            false => self.flush_unlogged(),
        };
        self.state.lock().life.cancel();
        self.switches.close();
        self.state.notify_all();
        if wait {
            self.drain()?;
        }
        flushed
    }

    /// Returns whether close ends the log with a closing record: if it holds something, or if the MANIFEST has
    /// grown, whose end nothing else would vouch for.
    fn needs_closing(&self, leader: &LeaderState) -> bool {
        let has_records = leader.log.writer().is_some_and(|log| !log.is_empty());
        self.c.options.own.evidence && (has_records || self.catalog.lock().has_grown())
    }

    /// Closes in a child of the process that opened it: writes nothing, takes no lock that a thread of the parent
    /// may have held when it forked, and keeps the memory, since its owner's threads are not here to let go of it.
    #[cold]
    fn close_in_child(self: &Arc<Self>) {
        std::mem::forget(self.clone());
        self.owner.release_in_child();
    }

    /// Refuses new work, finishes or abandons what runs, syncs the log, releases the lock file.
    /// Later calls return at once.
    pub(crate) fn close(self: &Arc<Self>) -> Result<()> {
        if self.owner.is_current() {
            TraceControl::of(self).end_all();
        }
        if self.c.read_only {
            return Ok(());
        }
        if !self.owner.is_current() {
            self.close_in_child();
            return Ok(());
        }
        let over = {
            let mut state = self.state.lock();
            if state.life.is_closing() {
                return Ok(());
            }
            state.life.leave();
            state.life.is_canceled() || state.trouble.refuses()
        };
        self.state.notify_all();
        if let Some(requests) = self.requests.get() {
            // Stalled ones see that the database is being closed.
            requests.finish(self);
        }
        let failed = self.state.lock().trouble.refusal();
        let mut first = match over {
            true => Ok(()),
            false => self.flush_unlogged(),
        };
        {
            let mut state = self.state.lock();
            if !state.life.close() {
                return Ok(());
            }
            // Under the state mutex, as all changes of the word.
            self.gate.set(crate::core::gate::REFUSE);
        }
        self.switches.close();
        self.state.notify_all();
        self.timers.stop();
        let drained = self.drain();
        first = first.and(drained);
        // A resume that is under way sees that the database closes.
        drop(self.resume_token.lock());
        let mut leader = self.leader.lock();
        if failed.is_none() && leader.log.writer().is_some() {
            // A log that was written is made durable (D12).
            let closing = match self.needs_closing(&leader) {
                true => leader.log.add_closing(self),
                false => Ok(()),
            };
            first = first.and(closing);
            let synced = if leader.log.is_synced() && self.logs.are_closed_synced() {
                Ok(())
            } else {
                leader.log.sync(self)
            };
            first = first.and(synced);
            if first.is_ok() && self.c.options.own.evidence {
                // A log of notes only is missed by nobody; older ones may still be needed.
                let current = leader.log.writer().filter(|_| leader.log.bytes() > 0);
                first = self.record_log_ends(current.map(|log| (log.log_number(), log.len())));
            }
        }
        if let Some(mut log) = leader.log.end() {
            let closed = log.close();
            if failed.is_none() {
                first = first.and(closed);
            }
        }
        self.logs.unsynced().clear();
        drop(leader);
        let mut manifest = self.catalog.lock();
        let is_open = manifest.is_open();
        first = first.and(manifest.close());
        if is_open && failed.is_none() && self.options().verify_manifest_content_on_close {
            first = first.and(self.verify_manifest(&mut manifest));
        }
        drop(manifest);
        self.c.purge.close();
        self.c.dirs.close();
        Properties::of(self)
            .written_bytes()
            .tell(self.reporter.log());
        self.reporter.log().info(format_args!("Shutdown complete"));
        if let Some(disk) = self.c.speed.as_ref().and_then(|s| s.fs.disk()) {
            // Handles that are left keep it, and must not keep it from others.
            disk.close();
        }
        self.owner.release();
        match failed {
            Some(e) => Err(e),
            None => first,
        }
    }
}
