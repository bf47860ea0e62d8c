//! One flush of several families in one edit, in a database whose other flushes take each family by itself.
//!
//! The caller that asks for it seals the families' memtables at one moment and lists them, both with leadership in hand. From
//! then on no job flushes one of these families by itself: a table with a part of what was sealed would be durable
//! without the others. [`Engine::schedule`] begins with what is listed as soon as no job of any of the families
//! runs or is queued, in the order of asking where two lists have a family in common. A try that failed is listed
//! again.

use crate::core::{
    DbState, Engine, Family, FlushTurn, LeaderState, Place, Together, panicked, watch_spare,
};
use crate::flush::job::Picked;
use crate::listener::FlushReason;
use spanlith_base::{ErrorKind, Result};
use spanlith_env::JobClass;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The families of a flush of several that is queued or runs: no other job flushes them meanwhile.
struct Turns {
    engine: Arc<Engine>,
    families: Vec<u32>,
}

impl Drop for Turns {
    fn drop(&mut self) {
        let mut state = self.engine.state.lock();
        state.jobs.end_flush();
        for &id in &self.families {
            if let Some(f) = state.family_mut(id) {
                let is_all_flushed = f.imm.is_empty();
                f.flush.end_together(is_all_flushed);
            }
        }
        self.engine.schedule(&mut state);
        drop(state);
        self.engine.state.notify_all();
    }
}

impl DbState {
    /// Lists what is sealed of these families.
    fn list(&mut self, families: &[Arc<Family>]) {
        let mut newest = Vec::new();
        for family in families {
            if let Some(f) = self.family_mut(family.id)
                && let Some(last) = f.imm.last()
            {
                f.flush.list();
                newest.push((family.id, last.mem.clone()));
            }
        }
        if !newest.is_empty() {
            self.jobs.list_together(Together(newest));
        }
    }
}

impl Engine {
    /// Seals the memtables of these families, as [`Self::switch_memtables`], and lists them to be flushed together.
    /// Requires: leadership. The caller schedules the flush.
    pub(crate) fn seal_together(
        self: &Arc<Self>,
        leader: &mut LeaderState,
        families: &[Arc<Family>],
        filled: &[usize],
        reason: FlushReason,
    ) -> Result<()> {
        let mark = |how: fn(&mut FlushTurn)| {
            let mut state = self.state.lock();
            for family in families {
                if let Some(f) = state.family_mut(family.id) {
                    how(&mut f.flush);
                }
            }
            state
        };
        // What is sealed first is due at once.
        drop(mark(FlushTurn::list));
        let sealed = match filled.is_empty() {
            true => Ok(()),
            false => self.switch_memtables(leader, filled, reason),
        };
        let mut state = mark(FlushTurn::unlist);
        match &sealed {
            Ok(()) => state.list(families),
            Err(_) => self.schedule(&mut state),
        }
        sealed
    }

    /// Queues the flushes of several families that may begin.
    pub(crate) fn schedule_together(self: &Arc<Self>, state: &mut DbState) {
        let mut earlier = BTreeSet::new();
        for listed in state.jobs.take_together() {
            let families: Vec<u32> = listed.0.iter().map(|l| l.0).collect();
            let is_free = |id: &u32| {
                let f = state.family(*id);
                !earlier.contains(id)
                    && f.is_none_or(|f| !f.flush.is_queued() && !f.flush.has_untold_seals())
            };
            if !families.iter().all(is_free) {
                earlier.extend(families);
                state.jobs.list_together(listed);
                continue;
            }
            for &id in &families {
                if let Some(f) = state.family_mut(id) {
                    f.flush.unlist();
                    f.flush.queue();
                }
            }
            state.jobs.begin_flush();
            let engine = self.clone();
            let turns = Turns { engine, families };
            let me = self.clone();
            self.spawn(JobClass::High, "flush", turns, move || {
                me.flush_together(listed)
            });
        }
    }

    fn flush_together(self: &Arc<Self>, listed: Together) {
        loop {
            let picked: Vec<Picked> = {
                let mut state = self.state.lock();
                if state.trouble.stops_work() || self.stopping() {
                    Self::list_again(&mut state, listed);
                    return;
                }
                let mut picked = Vec::new();
                for (id, newest) in &listed.0 {
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
                Err(e) => {
                    self.flush_failed(&picked, &e);
                    let mut state = self.state.lock();
                    // If a listener cleared the error nothing holds another try back, and each family's waits for
                    // the next write or flush.
                    if state.trouble.holds(Place::Flush) || state.trouble.refuses() {
                        Self::list_again(&mut state, listed);
                    }
                }
            }
            break;
        }
        for file in &self.c.purge.run() {
            self.reporter.note_deleted(file, &self.c.dir);
        }
        watch_spare(&*self.c.env.executor);
    }

    /// Before all others, which have waited for this one's families.
    fn list_again(state: &mut DbState, listed: Together) {
        for (id, _) in &listed.0 {
            if let Some(f) = state.family_mut(*id) {
                f.flush.list();
            }
        }
        state.jobs.list_together_again(listed);
    }
}
