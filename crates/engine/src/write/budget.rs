//! Keeps the memtables within the budget of a write buffer manager, if the database has one.
//!
//! The leader tells the manager how much each memtable that took entries has grown before it forms the
//! next group. If the manager asks for a flush, the memtable with the oldest entry is sealed and flushed,
//! as RocksDB chooses, or the largest, if its policy says so; if it asks writers to wait, the first writer waits without leadership, and all who follow it
//! with it.

use super::room::{Room, RoomWaits, no_room};
use crate::core::{LeaderState, Lsm, Place};
use crate::listener::FlushReason;
use spanlith_base::write_buffer_manager::FlushPolicy;
use spanlith_base::{Error, Result};
use std::time::Duration;

/// Longest wait before looking whether the database is closing.
const SLICE: Duration = Duration::from_millis(20);

impl LeaderState {
    /// Tells the manager how much memtables have grown, and what it asks for. `touched` are slots that may have grown.
    #[cold]
    pub(super) fn keep_budget(
        &mut self,
        lsm: &Lsm,
        touched: &[usize],
        no_slowdown: bool,
        given_up: bool,
    ) -> Result<Room> {
        let Some(manager) = &lsm.c.resources.write_buffers else {
            return Ok(Room::Made);
        };
        for &at in touched {
            if let Some(slot) = self.slots.get(at)
                && let Some(charge) = &slot.charge
            {
                charge.follow(slot.mem.memory_usage() as u64);
            }
        }
        if manager.should_flush() {
            self.flush_one(lsm, manager.policy())?;
        }
        if given_up || !manager.should_stall() || lsm.throttle.has_urgent() {
            return Ok(Room::Made);
        }
        if let Some(e) = lsm.refusal() {
            return Err(e);
        }
        if lsm.state.lock().ends() {
            // No flush comes any more that could make room.
            return Err(Error::shutdown("stalled writes"));
        }
        if no_slowdown {
            return Err(no_room());
        }
        if let Some(e) = lsm.escalate(&mut lsm.state.lock()) {
            return Err(e);
        }
        // The flush that was under way before may have ended without freeing enough.
        self.flush_one(lsm, manager.policy())?;
        Ok(Room::Budget)
    }

    /// Seals and flushes the memtable that the policy takes, unless that family already flushes.
    fn flush_one(&mut self, lsm: &Lsm, policy: FlushPolicy) -> Result<()> {
        let chosen = {
            let state = lsm.state.lock();
            if state.ends() {
                return Ok(());
            }
            let filled = self.slots.iter().enumerate().filter(|(_, slot)| {
                let f = state.family(slot.family.id);
                !slot.mem.is_empty() && f.is_some_and(|f| !f.flush.is_queued())
            });
            match policy {
                FlushPolicy::Oldest => filled.min_by_key(|(_, slot)| slot.mem.first_seqno()),
                FlushPolicy::Largest => filled.max_by_key(|(_, slot)| slot.mem.memory_usage()),
            }
        };
        if let Some((at, _)) = chosen {
            self.switch_memtables(lsm, &[at], FlushReason::WriteBufferManager)
                .inspect_err(|e: &Error| lsm.set_error(Place::Seal, e))?;
        }
        // Sealed memtables are flushed, however few they are.
        let mut state = lsm.state.lock();
        for f in state.families.values_mut() {
            if !f.imm.is_empty() {
                f.flush.request();
            }
        }
        lsm.schedule(&mut state);
        Ok(())
    }
}

impl RoomWaits<'_> {
    /// Waits a little for flushes to free memory; false if nobody is left to free any.
    pub(super) fn for_budget(&self) -> bool {
        let Some(manager) = &self.lsm.c.resources.write_buffers else {
            return false;
        };
        let executor = &self.lsm.c.env.executor;
        if !executor.is_manual() {
            manager.wait_for_room(SLICE);
            return true;
        }
        let helped = executor.help() || self.lsm.pass_time_for_tries();
        if !helped {
            manager.wait_for_room(SLICE);
        }
        helped
    }
}
