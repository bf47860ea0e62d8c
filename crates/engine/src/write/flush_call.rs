//! Flushes on demand: memtables are sealed under leadership, and the caller waits until jobs have made tables of them.

use crate::core::{Family, Leadership, Lsm, Place, gate, wait_would_help};
use crate::listener::FlushReason;
use crate::options::FlushOptions;
use spanlith_base::{Error, ErrorKind, Result, callbacks};
use spanlith_memtable::MemTable;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A caller's wish to have families flushed.
pub(crate) struct FlushCall<'a> {
    lsm: &'a Lsm,
    leader: &'a Leadership,
    /// Why, as listeners are told.
    reason: FlushReason,
    families: Vec<Arc<Family>>,
    /// The caller named the families: one that is dropped is an error.
    is_named: bool,
}

/// The memtables that a call waits for: of each family the newest that was sealed.
struct Awaited {
    last: Vec<(u32, Arc<MemTable>)>,
    /// Flushes that had failed before.
    failed_before: u64,
}

impl<'a> FlushCall<'a> {
    /// Of these families.
    pub(crate) fn new(
        lsm: &'a Lsm,
        leader: &'a Leadership,
        reason: FlushReason,
        families: &[Arc<Family>],
    ) -> Self {
        Self {
            lsm,
            leader,
            reason,
            families: families.to_vec(),
            is_named: true,
        }
    }

    /// Of all families that there are. One that is dropped meanwhile has nothing to flush: nobody
    /// named it, and nobody is told.
    pub(crate) fn of_all(lsm: &'a Lsm, leader: &'a Leadership, reason: FlushReason) -> Self {
        Self {
            lsm,
            leader,
            reason,
            families: lsm.families.load().iter().cloned().collect(),
            is_named: false,
        }
    }

    /// Seals the mutable memtables of the families and has all sealed ones flushed.
    ///
    /// # Errors
    /// `NotSupported` of a database that was opened for reading; `ShutdownInProgress`; `ColumnFamilyDropped` of a family
    /// that was named; `TryAgain` without a wait while writes are stopped; the background error that refuses writes; of the
    /// flush.
    pub(crate) fn run(mut self, options: FlushOptions) -> Result<()> {
        let lsm = self.lsm;
        lsm.writable()?;
        if lsm.state.lock().life.is_canceled() {
            return Err(Error::shutdown(""));
        }
        self.choose();
        if !self.passes_dropped()
            && let Some(at) = self.families.iter().position(|f| f.is_dropped())
        {
            // RocksDB flushes one after the other: those before it are written out.
            self.families.truncate(at);
            if at > 0 {
                self.run(options)?;
            }
            return Err(Error::new(ErrorKind::ColumnFamilyDropped, ""));
        }
        let is_stopped = lsm.gate.has(gate::STOP | gate::FULL);
        if self.reason == FlushReason::ManualFlush && !options.wait && is_stopped {
            return Err(Error::new(
                ErrorKind::TryAgain,
                "Writes have been stopped, thus unable to perform manual flush. Please try again later \
                 after writes are resumed",
            ));
        }
        // A job that asks would wait for itself.
        let is_job = callbacks::place().is_some();
        if !options.allow_write_stall && !is_job && !self.wait_for_calm()? {
            return Ok(());
        }
        self.seal(options)?;
        let awaited = self.request();
        match options.wait {
            true => self.wait(&awaited),
            false => Ok(()),
        }
    }

    /// Returns whether families that are dropped meanwhile are passed over: nobody asked for them.
    fn passes_dropped(&self) -> bool {
        self.lsm.c.options.atomic_flush || !self.is_named
    }

    /// Settles which families are flushed, each once, however often it is named.
    fn choose(&mut self) {
        let is_atomic = self.lsm.c.options.atomic_flush;
        // A caller who names families has those flushed; whatever else asks wants one consistent cut.
        if is_atomic && !(self.is_named && self.reason == FlushReason::ManualFlush) {
            self.families = self.lsm.families.load().iter().cloned().collect();
        }
        let mut named = BTreeSet::new();
        self.families.retain(|family| named.insert(family.id));
        if self.passes_dropped() {
            self.families.retain(|family| !family.is_dropped());
        }
    }

    /// Waits until the flush would delay no writes, as far as waiting helps. Returns whether it is still needed.
    fn wait_for_calm(&self) -> Result<bool> {
        let mut is_needed = false;
        for family in &self.families {
            is_needed |= match self.wait_for_calm_of(family) {
                Err(e) if self.passes_dropped() && e.kind() == ErrorKind::ColumnFamilyDropped => {
                    false
                }
                needed => needed?,
            };
        }
        Ok(is_needed)
    }

    /// Waits until one more sealed memtable and one more file of level 0 would not delay writes, as
    /// far as waiting helps. Returns whether what the memtable held at the call is still to be flushed.
    ///
    /// It waits for no more compactions than there are tables at the call: those that the tree asked for then have run,
    /// and later ones may follow each other without end.
    fn wait_for_calm_of(&self, family: &Arc<Family>) -> Result<bool> {
        let mut state = self.lsm.state.lock();
        let first = state.alive(family.id)?;
        let mem = first.mem.clone();
        let last = first.compaction.ended() + first.version.file_iter().count() as u64;
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
            // A job that failed runs again when it likes, and for a caller that asks now.
            let is_vain = f.compaction.ended() > last;
            if is_vain
                || !wait_would_help(f)
                || state.jobs.are_over()
                || state.trouble.any().is_some()
            {
                return Ok(true);
            }
            state = self.lsm.wait_changed(state);
        }
    }

    /// Seals what is not empty.
    fn seal(&self, options: FlushOptions) -> Result<()> {
        let lsm = self.lsm;
        let mut leader = self.leader.lock();
        if let Some(e) = lsm.refusal() {
            return Err(e);
        }
        let slots = self.families.iter().filter_map(|f| leader.slot(f.id));
        let filled: Vec<usize> = slots
            .filter(|&at| !leader.slots[at].mem.is_empty())
            .collect();
        let is_together = options.atomic && self.families.len() > 1 && !lsm.c.options.atomic_flush;
        let sealed = if is_together {
            leader.seal_together(lsm, &self.families, &filled, self.reason)
        } else if filled.is_empty() {
            Ok(())
        } else {
            leader.switch_memtables(lsm, &filled, self.reason)
        };
        lsm.let_go(leader);
        sealed.inspect_err(|e| lsm.set_error(Place::Seal, e))
    }

    /// Asks for the flush of all that is sealed by now.
    fn request(&self) -> Awaited {
        let mut state = self.lsm.state.lock();
        // Done when everything sealed by now is gone and listeners know; later memtables do not matter.
        let mut last = Vec::new();
        for family in &self.families {
            if let Some(f) = state.family_mut(family.id)
                && let is_due = f.flush_is_due()
                && let Some(newest) = f.imm.last_mut()
            {
                last.push((family.id, newest.mem.clone()));
                if !is_due || newest.reason.is_retry() {
                    newest.reason = self.reason;
                }
                f.flush.request_now();
            }
        }
        // A caller that asks does not wait for the next try.
        state.trouble.release(None);
        let failed_before = state.trouble.failed_flushes;
        self.lsm.schedule(&mut state);
        Awaited {
            last,
            failed_before,
        }
    }

    /// Waits until it is done.
    fn wait(&self, awaited: &Awaited) -> Result<()> {
        let mut state = self.lsm.state.lock();
        loop {
            if let Some(e) = state.trouble.refusal() {
                return Err(e);
            }
            let there = awaited.last.iter().any(|(id, mem)| {
                let f = state.family(*id);
                f.is_some_and(|f| {
                    f.flush.is_untold() || f.imm.iter().any(|i| Arc::ptr_eq(&i.mem, mem))
                })
            });
            if !there {
                return Ok(());
            }
            if state.trouble.failed_flushes != awaited.failed_before
                && let Some(e) = &state.trouble.flush_error
            {
                return Err(e.clone());
            }
            if state.ends() && state.jobs.flushes() == 0 {
                return Err(Error::shutdown(""));
            }
            state = self.lsm.wait_changed(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::options::CfOptions;
    use crate::{Db, FamilyOptions, FlushOptions};
    use spanlith_env::{Env, Executor, JobClass, MemFs};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Compactions that leave a tree as it was follow each other, as RocksDB's of young data do.
    #[test]
    fn a_flush_waits_for_no_more_compactions_than_there_are_tables() {
        const TABLES: u64 = 3;
        let (env, executor, _) = Env::test(Arc::new(MemFs::new()), 1);
        let family = FamilyOptions::new("default").options(CfOptions {
            level0_file_num_compaction_trigger: TABLES as i32,
            level0_slowdown_writes_trigger: TABLES as i32,
            ..CfOptions::default()
        });
        let db = Db::builder("/db").create_if_missing(true).env(env);
        let db = db.family(family).no_info_log().open().unwrap();
        let cf = db.default_cf();
        for table in 0..TABLES {
            cf.put("k", table.to_be_bytes()).unwrap();
            let at_once = FlushOptions {
                allow_write_stall: true,
                ..FlushOptions::default()
            };
            cf.flush_opt(at_once).unwrap();
        }
        let engine = db.engine().clone();
        // The compaction that the tables ask for stands for those below, and one is always to come.
        assert_eq!(engine.state.lock().jobs.pop_family(), Some(0));
        let ended = Arc::new(AtomicU64::new(0));
        for _ in 0..10 * TABLES {
            engine.state.lock().jobs.begin_compaction();
            let (engine, ended) = (engine.clone(), ended.clone());
            let compaction = move || {
                ended.fetch_add(1, Ordering::Relaxed);
                let mut state = engine.state.lock();
                state.family_mut(0).unwrap().compaction.end(u64::MAX);
                drop(state);
                engine.state.notify_all();
            };
            executor.spawn(JobClass::Low, Box::new(compaction));
        }
        cf.put("k", "last").unwrap();
        cf.flush(true).unwrap();
        assert_eq!(ended.load(Ordering::Relaxed), TABLES + 1);
        for _ in 0..10 * TABLES {
            engine.state.lock().jobs.end_compaction();
        }
        drop(engine);
        db.close().unwrap();
    }
}
