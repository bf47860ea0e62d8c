//! Flush on demand, and closing.

use crate::core::Engine;
use spanlith_base::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Engine {
    /// Seals the mutable memtable and has all sealed ones flushed.
    pub(crate) fn flush(self: &Arc<Self>, wait: bool) -> Result<()> {
        if self.c.read_only {
            return Err(Error::not_supported(
                "Not supported operation in read only mode.",
            ));
        }
        {
            let mut leader = self.leader.lock();
            if let Some(e) = self.refusal() {
                return Err(e);
            }
            if !leader.mem.is_empty() {
                self.switch_memtable(&mut leader)
                    .inspect_err(|e| self.set_error("sealing a memtable", e))?;
            }
        }
        let mut state = self.state.lock();
        if state.imm.is_empty() {
            return Ok(());
        }
        state.flush_requested = true;
        self.schedule(&mut state);
        // Done when everything sealed by now is gone; later memtables do not matter.
        let last = state.imm.last().map(|i| i.mem.clone());
        if !wait {
            return Ok(());
        }
        loop {
            if let Some(e) = &state.error {
                return Err(e.clone());
            }
            let there = last
                .as_ref()
                .is_some_and(|l| state.imm.iter().any(|i| Arc::ptr_eq(&i.mem, l)));
            if !there {
                return Ok(());
            }
            if state.closing && !state.flush_scheduled {
                return Err(Error::shutdown(""));
            }
            state = self.wait_changed(state);
        }
    }

    /// Waits until no flush or compaction runs, is queued or is due.
    pub(crate) fn wait_idle(&self, limit: Option<Duration>) -> Result<()> {
        let clock = &self.c.env.clock;
        let until = limit.map(|l| clock.monotonic_nanos() + l.as_nanos() as u64);
        let mut state = self.state.lock();
        loop {
            if let Some(e) = &state.error {
                return Err(e.clone());
            }
            if state.closing {
                return Err(Error::shutdown(""));
            }
            let busy = state.flush_scheduled
                || state.compactions_queued + state.compactions_running > 0
                || state.compaction_due;
            if !busy {
                return Ok(());
            }
            match until {
                None => state = self.wait_changed(state),
                Some(until) => {
                    let left = until.saturating_sub(clock.monotonic_nanos());
                    if left == 0 {
                        return Err(Error::new(ErrorKind::TimedOut, ""));
                    }
                    state = self
                        .changed
                        .wait_timeout(state, Duration::from_nanos(left))
                        .0;
                }
            }
        }
    }

    /// Refuses new work, finishes or abandons what runs, syncs the log, releases the lock file.
    /// Later calls return at once.
    pub(crate) fn close(self: &Arc<Self>) -> Result<()> {
        if self.c.read_only {
            return Ok(());
        }
        let unlogged = {
            let state = self.state.lock();
            if state.closing {
                return Ok(());
            }
            drop(state);
            self.has_unlogged.load(Ordering::Relaxed)
        };
        let mut first: Result<()> = Ok(());
        let failed = self.state.lock().error.clone();
        if unlogged && failed.is_none() && !self.c.options.avoid_flush_during_shutdown {
            first = self.flush(true);
        }
        {
            let mut state = self.state.lock();
            if state.closing {
                return Ok(());
            }
            state.closing = true;
        }
        self.write_gate
            .fetch_or(crate::core::gate::REFUSE, Ordering::Relaxed);
        self.stopping.store(true, Ordering::Relaxed);
        self.changed.notify_all();
        drop(
            self.timer
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .take(),
        );
        let drained = self.drain();
        first = first.and(drained);
        let mut leader = self.leader.lock();
        if failed.is_none() && leader.log.is_some() {
            // A log that was written is made durable (D12).
            let synced =
                if leader.log.as_ref().is_some_and(|l| l.is_synced()) && leader.older.is_empty() {
                    Ok(())
                } else {
                    self.sync_logs(&mut leader)
                };
            first = first.and(synced);
        }
        if let Some(mut log) = leader.log.take() {
            let closed = log.close();
            if failed.is_none() {
                first = first.and(closed);
            }
        }
        leader.older.clear();
        drop(leader);
        let mut manifest = self.manifest.lock();
        if let Some(mut w) = manifest.writer.take() {
            first = first.and(w.close());
        }
        drop(manifest);
        self.c.purge.run();
        self.state.lock().closed = true;
        self.c.log.info(format_args!("Shutdown complete"));
        drop(
            self.lock
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .take(),
        );
        match failed {
            Some(e) => Err(e),
            None => first,
        }
    }
}
