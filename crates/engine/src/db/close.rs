//! Ending background work, and closing.

use super::properties::Properties;
use crate::core::{Engine, LeaderState, TraceControl};
use crate::listener::FlushReason;
use crate::options::FlushOptions;
use crate::write::{FlushCall, WriteWaits};
use spanlith_base::Result;
use std::sync::Arc;

impl Engine {
    /// Flushes what is in no log, unless the options say not to. Ends a pause, which would keep the
    /// flush waiting.
    fn flush_unlogged(&self) -> Result<()> {
        if !self.logs.lacks_writes() || self.options().avoid_flush_during_shutdown {
            return Ok(());
        }
        self.state.lock().jobs.end_pauses();
        FlushCall::of_all(self, &self.leader, FlushReason::ShutDown).run(FlushOptions::AT_ONCE)
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
        self.reporter
            .log()
            .info(format_args!("{}", WriteWaits::new(self).text()));
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
