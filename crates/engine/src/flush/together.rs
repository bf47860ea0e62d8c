//! One flush of several families in one edit, in a database whose other flushes take each family by itself.
//!
//! Who asks for it takes the families' turns to flush, all or none, seals their memtables at one moment, and
//! leaves the rest to a job. As long as the turns are taken no other job flushes what they hold: a table with a
//! part of what was sealed would be durable without the others. The turns are taken with leadership in hand, and
//! only when all are free: a writer with leadership may wait for a flush of any of them.

use crate::core::{DbState, Engine, Family, LeaderState, Place, panicked};
use crate::flush::job::Picked;
use spanlith_base::sync::MutexGuard;
use spanlith_base::{Error, ErrorKind, Result};
use spanlith_env::JobClass;
use spanlith_memtable::MemTable;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The turns of families to flush; they are free again when it goes.
pub(crate) struct FlushTurns {
    engine: Arc<Engine>,
    families: Vec<Arc<Family>>,
}

impl Drop for FlushTurns {
    fn drop(&mut self) {
        let mut state = self.engine.state.lock();
        state.flushes -= 1;
        for family in &self.families {
            if let Some(f) = state.family_mut(family.id) {
                f.flush_scheduled = false;
                f.flush_running = false;
                // Else somebody may have asked for what was sealed since.
                if f.imm.is_empty() {
                    f.flush_requested = false;
                    f.flush_at_once = false;
                }
            }
        }
        self.engine.schedule(&mut state);
        drop(state);
        self.engine.changed.notify_all();
    }
}

impl Engine {
    /// Leadership, and with it the turns of all these families.
    ///
    /// # Errors
    /// The background error that stops writes; `ShutdownInProgress`; `ColumnFamilyDropped`.
    pub(crate) fn lead_with_turns(
        self: &Arc<Self>,
        families: &[Arc<Family>],
    ) -> Result<(MutexGuard<'_, LeaderState>, FlushTurns)> {
        loop {
            let leader = self.leader.lock();
            if let Some(turns) = self.take_turns(&mut self.state.lock(), families)? {
                return Ok((leader, turns));
            }
            drop(leader);
            let mut state = self.state.lock();
            while !Self::are_free(&state, families) && !state.ends() {
                state = self.wait_changed(state);
            }
        }
    }

    fn are_free(state: &DbState, families: &[Arc<Family>]) -> bool {
        let is_busy = |f: &Arc<Family>| state.family(f.id).is_some_and(|f| f.flush_scheduled);
        state.paused == 0 && !families.iter().any(is_busy)
    }

    /// `None` if a flush of one of them is queued or runs, or jobs pause.
    fn take_turns(
        self: &Arc<Self>,
        state: &mut DbState,
        families: &[Arc<Family>],
    ) -> Result<Option<FlushTurns>> {
        if state.ends() {
            return Err(Error::shutdown(""));
        }
        if let Some(e) = state.trouble.refusal() {
            return Err(e);
        }
        if !Self::are_free(state, families) {
            return Ok(None);
        }
        for family in families {
            state.alive(family.id)?;
        }
        for family in families {
            if let Some(f) = state.family_mut(family.id) {
                f.flush_scheduled = true;
            }
        }
        // From here on: a pause that begins before the job is queued waits for it.
        state.flushes += 1;
        Ok(Some(FlushTurns {
            engine: self.clone(),
            families: families.to_vec(),
        }))
    }

    /// Queues the flush of all that is sealed, by family up to the memtable named.
    pub(crate) fn spawn_flush_together(
        self: &Arc<Self>,
        turns: FlushTurns,
        last: Vec<(u32, Arc<MemTable>)>,
    ) {
        let me = self.clone();
        self.spawn(JobClass::High, "flush", turns, move || {
            me.flush_together(&last)
        });
    }

    fn flush_together(self: &Arc<Self>, last: &[(u32, Arc<MemTable>)]) {
        loop {
            let picked: Vec<Picked> = {
                let mut state = self.state.lock();
                if state.trouble.stops_work() || self.stopping() {
                    return;
                }
                let mut picked = Vec::new();
                for (id, newest) in last {
                    picked.extend(Picked::up_to(&mut state, *id, newest));
                }
                picked
            };
            if picked.is_empty() {
                return;
            }
            let flush = || self.flush_memtables(&picked, 0);
            let flushed = catch_unwind(AssertUnwindSafe(flush));
            match flushed.unwrap_or_else(|panic| Err(panicked("flush", &*panic))) {
                Ok(()) => self.work_succeeded(Place::Flush),
                // Nothing was installed: once more, without it.
                Err(e) if e.kind() == ErrorKind::ColumnFamilyDropped => continue,
                Err(e) => self.flush_failed(&picked, &e),
            }
            for file in &self.c.purge.run() {
                self.note_deleted(file);
            }
            return;
        }
    }
}
