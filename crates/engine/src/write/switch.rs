//! Seals memtables, and begins a log when the current one holds something.
//!
//! These are verbs of [`LeaderState`]: who has it leads, so that nobody writes meanwhile. They end with [`Lsm::let_go`].

use super::new_log::LogFactory;
use crate::core::{
    DbState, Family, FlushTurn, Immutable, LeaderState, Lsm, Place, Together, plan_shape,
};
use crate::listener::FlushReason;
use spanlith_base::Result;
use std::sync::Arc;

impl LeaderState {
    /// Seals the mutable memtables of the given slots (with atomic flushes, of all that are not
    /// empty) and starts new ones, and a new log unless the current one is empty. Requires:
    /// leadership, which ends with [`Lsm::let_go`].
    pub(crate) fn switch_memtables(
        &mut self,
        lsm: &Lsm,
        slots: &[usize],
        reason: FlushReason,
    ) -> Result<()> {
        // A log of notes only serves on, as an empty one does in RocksDB: writes that skip the log
        // begin none, and number no file.
        let reuse = self.log.writer().is_some() && self.log.bytes() == 0;
        let next_log = if reuse {
            self.log.number()
        } else {
            self.switch_log(lsm)?
        };
        let mut all: Vec<usize> = slots.to_vec();
        if lsm.c.options.atomic_flush && reason != FlushReason::ManualFlush {
            let filled = (0..self.slots.len()).filter(|&i| !self.slots[i].mem.is_empty());
            all = filled.collect();
        }
        self.seal_memtables(lsm, &all, next_log, reason);
        Ok(())
    }

    /// Seals the mutable memtables of the given slots over `next_log`, which holds nothing of them.
    /// Requires: leadership, which ends with [`Lsm::let_go`].
    pub(super) fn seal_memtables(
        &mut self,
        lsm: &Lsm,
        slots: &[usize],
        next_log: u64,
        reason: FlushReason,
    ) {
        let last_sequence = lsm.visible();
        let mut state = lsm.state.lock();
        for &at in slots {
            let slot = &mut self.slots[at];
            let id = slot.family.id;
            plan_shape(lsm, &mut state, id, slot.mem.len());
            let Some(f) = state.family_mut(id) else {
                continue;
            };
            slot.limit = f.settings.options.write_buffer_size as usize;
            let mem = f.settings.new_memtable(&slot.family.comparator);
            slot.replace(&mem, lsm.c.resources.write_buffers.as_ref());
            self.first_is_new |= at == 0;
            let sealed = std::mem::replace(&mut f.mem, mem);
            sealed.convert_for(0);
            f.imm.push(Immutable {
                mem: sealed,
                next_log,
                last_sequence,
                reason,
                newest_timestamp: Arc::default(),
            });
            let since = std::mem::replace(&mut f.mem_since, last_sequence);
            self.untold.extend(lsm.note_sealed(f, since));
            lsm.publish_superversion(&mut state, id);
        }
        lsm.schedule(&mut state);
        // Families without anything in memory need no log before this one.
        for f in state.families.values_mut().filter(|f| f.is_idle()) {
            f.log_number = f.log_number.max(next_log);
        }
    }

    /// Seals the memtables of these families, as [`Self::switch_memtables`], and lists them to be flushed together.
    /// Requires: leadership. The caller schedules the flush.
    pub(crate) fn seal_together(
        &mut self,
        lsm: &Lsm,
        families: &[Arc<Family>],
        filled: &[usize],
        reason: FlushReason,
    ) -> Result<()> {
        let mark = |how: fn(&mut FlushTurn)| {
            let mut state = lsm.state.lock();
            for family in families {
                if let Some(f) = state.family_mut(family.id) {
                    how(&mut f.flush);
                }
            }
            state
        };
        // The memtable that is sealed first is due at once.
        drop(mark(FlushTurn::list));
        let sealed = match filled.is_empty() {
            true => Ok(()),
            false => self.switch_memtables(lsm, filled, reason),
        };
        let mut state = mark(FlushTurn::unlist);
        match &sealed {
            Ok(()) => state.list(families),
            Err(_) => lsm.schedule(&mut state),
        }
        sealed
    }

    /// Starts a new log, which names the one before. Requires: leadership.
    fn switch_log(&mut self, lsm: &Lsm) -> Result<u64> {
        let number = lsm.catalog.new_file_number();
        let logs = LogFactory::new(lsm);
        let mut new = logs.create(number)?;
        let begun = logs.begin(&mut new, &self.log);
        let last_record = match begun {
            Ok(last_record) => last_record,
            Err(e) => {
                drop(new);
                logs.discard(number);
                return Err(e);
            }
        };
        let old = self.log.begin(lsm, new, 0, last_record);
        let keep_from = {
            let mut state = lsm.state.lock();
            let before = old.as_ref().map(|old| (old.log_number(), old.len()));
            state.logs.begin(number, before);
            state.logs.kept()
        };
        let mut old_logs = lsm.logs.unsynced();
        old_logs.retain(|l| l.log_number() >= keep_from);
        if let Some(mut old) = old {
            // One that was written over an older log has to lose the rest of that first, synced or not.
            let is_settled = lsm.c.options.recycle_log_file_num == 0;
            let done = old.flush().and_then(|()| match old.is_synced() {
                true if is_settled => {
                    old.close()?;
                    lsm.track_synced_logs(&[(old.log_number(), old.len())])
                }
                _ => {
                    old_logs.push(old);
                    Ok(())
                }
            });
            drop(old_logs);
            // The log before holds writes that were acknowledged: an error is one of a write.
            done.inspect_err(|e| lsm.set_error(Place::Log, e))?;
        }
        Ok(number)
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
