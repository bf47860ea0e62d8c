//! Sealed memtables that listeners are told of once the locks are released. Nothing is noted if nobody listens.

use super::state::{DbState, FamilyState, LeaderState};
use super::stripped::{newest_timestamp, strips_timestamps};
use super::{Family, Lsm};
use crate::listener::MemtableInfo;
use spanlith_base::Comparator;
use spanlith_base::sync::MutexGuard;
use spanlith_memtable::MemTable;
use std::sync::Arc;

/// A memtable that listeners are yet to hear of.
pub(crate) struct Sealed {
    family: u32,
    info: MemtableInfo,
    /// Where the newest timestamp is looked for, once no lock is held, if there is something to look for.
    timed: Option<(Comparator, Arc<MemTable>)>,
}

/// When it goes, the flushes of these memtables may begin.
struct Told<'a> {
    lsm: &'a Lsm,
    /// The families of the memtables.
    families: Vec<u32>,
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        let mut state = self.lsm.state.lock();
        for &id in &self.families {
            if let Some(f) = state.family_mut(id) {
                f.flush.note_seal_told();
            }
        }
        // No job was queued for them: it would have waited on a thread that the listener may need.
        self.lsm.schedule(&mut state);
        drop(state);
        self.lsm.state.notify_all();
    }
}

impl Lsm {
    /// Returns what listeners hear of the memtable of `f` that was sealed last; `None` if nobody listens. Until
    /// [`Self::tell_sealed`], the flush of `f` waits.
    pub(crate) fn note_sealed(&self, f: &mut FamilyState, since: u64) -> Option<Sealed> {
        if self.reporter.listeners().is_empty() {
            return None;
        }
        let mem = &f.imm.last()?.mem;
        f.flush.note_seal();
        let info = MemtableInfo {
            cf_name: f.family.name.clone(),
            first_seqno: mem.first_seqno(),
            earliest_seqno: since,
            entries: mem.len() + mem.range_deletes(),
            deletions: mem.deletes(),
            newest_timestamp: Vec::new(),
        };
        let timed = strips_timestamps(&f.family, &f.settings);
        let timed = timed.then(|| (f.family.comparator.clone(), mem.clone()));
        let family = f.family.id;
        Some(Sealed {
            family,
            info,
            timed,
        })
    }

    /// Lets go of leadership, then tells what happened under it and lets flushes of what was sealed begin. The caller
    /// holds neither the state mutex nor the manifest token.
    pub(crate) fn let_go(&self, mut leader: MutexGuard<'_, LeaderState>) {
        let sealed = std::mem::take(&mut leader.untold);
        drop(leader);
        self.tell_sealed(sealed);
        self.reporter.tell_stalls();
    }

    fn tell_sealed(&self, sealed: Vec<Sealed>) {
        if sealed.is_empty() {
            return;
        }
        // A listener that panics must not hold flushes back for ever.
        let told = Told {
            lsm: self,
            families: sealed.iter().map(|s| s.family).collect(),
        };
        for Sealed {
            mut info, timed, ..
        } in sealed
        {
            if let Some((comparator, mem)) = timed {
                info.newest_timestamp = newest_timestamp(&comparator, &mem);
            }
            self.reporter.listeners().on_memtable_sealed(|| info);
        }
        drop(told);
    }

    /// Waits until listeners know of all sealed memtables of a family. With a manual executor jobs
    /// run on the thread that seals and tells: nothing is to be waited for.
    pub(crate) fn wait_until_told(&self, family: &Family) {
        if self.reporter.listeners().is_empty() || self.c.env.executor.is_manual() {
            return;
        }
        let mut state = self.state.lock();
        while state
            .family(family.id)
            .is_some_and(|f| f.flush.has_untold_seals())
        {
            state = self.wait_changed(state);
        }
    }

    /// A number for a job.
    pub(crate) fn new_job(&self) -> u64 {
        next_job(&mut self.state.lock())
    }
}

/// A number for a job.
pub(crate) fn next_job(state: &mut DbState) -> u64 {
    state.jobs.new_id()
}
