//! Keeps the memtables within the budget of a write buffer manager, if the database has one.
//!
//! The leader tells the manager how much each memtable that took entries has grown before it forms the
//! next group. If the manager asks for a flush, the memtable with the oldest entry is sealed and flushed,
//! as RocksDB chooses, or the largest, if its policy says so; if it asks writers to wait, the first writer waits without leadership, and all who follow it
//! with it.

use super::room::{Room, no_room};
use crate::core::{Engine, LeaderState, Place};
use crate::listener::FlushReason;
use spanlith_base::write_buffer_manager::FlushPolicy;
use spanlith_base::{Error, Result};
use std::time::Duration;

/// Longest wait before looking whether the database is closing.
const SLICE: Duration = Duration::from_millis(20);

impl Engine {
    /// Requires: leadership. `touched` are slots that may have grown.
    #[cold]
    pub(super) fn keep_budget(
        &self,
        leader: &mut LeaderState,
        touched: &[usize],
        no_slowdown: bool,
        given_up: bool,
    ) -> Result<Room> {
        let Some(manager) = &self.c.resources.write_buffers else {
            return Ok(Room::Made);
        };
        for &at in touched {
            if let Some(slot) = leader.slots.get(at)
                && let Some(charge) = &slot.charge
            {
                charge.follow(slot.mem.memory_usage() as u64);
            }
        }
        if manager.should_flush() {
            self.flush_one(leader, manager.policy())?;
        }
        if given_up || !manager.should_stall() || self.throttle.has_urgent() {
            return Ok(Room::Made);
        }
        if let Some(e) = self.refusal() {
            return Err(e);
        }
        if self.state.lock().ends() {
            // No flush comes any more that could make room.
            return Err(Error::shutdown("stalled writes"));
        }
        if no_slowdown {
            return Err(no_room());
        }
        if let Some(e) = self.escalate(&mut self.state.lock()) {
            return Err(e);
        }
        // The flush that was under way before may have ended without freeing enough.
        self.flush_one(leader, manager.policy())?;
        Ok(Room::Budget)
    }

    /// Waits a little for flushes to free memory; false if nobody is left to free any.
    pub(super) fn wait_for_budget(&self) -> bool {
        let Some(manager) = &self.c.resources.write_buffers else {
            return false;
        };
        let executor = &self.c.env.executor;
        if !executor.is_manual() {
            manager.wait_for_room(SLICE);
            return true;
        }
        let helped = executor.help() || self.pass_time_for_tries();
        if !helped {
            manager.wait_for_room(SLICE);
        }
        helped
    }

    /// Seals and flushes the memtable that the policy takes, unless that family already flushes.
    fn flush_one(&self, leader: &mut LeaderState, policy: FlushPolicy) -> Result<()> {
        let chosen = {
            let state = self.state.lock();
            if state.ends() {
                return Ok(());
            }
            let filled = leader.slots.iter().enumerate().filter(|(_, slot)| {
                let f = state.family(slot.family.id);
                !slot.mem.is_empty() && f.is_some_and(|f| !f.flush.is_queued())
            });
            match policy {
                FlushPolicy::Oldest => filled.min_by_key(|(_, slot)| slot.mem.first_seqno()),
                FlushPolicy::Largest => filled.max_by_key(|(_, slot)| slot.mem.memory_usage()),
            }
        };
        if let Some((at, _)) = chosen {
            leader
                .switch_memtables(self, &[at], FlushReason::WriteBufferManager)
                .inspect_err(|e: &Error| self.set_error(Place::Seal, e))?;
        }
        // What is sealed is flushed, however few memtables that are.
        let mut state = self.state.lock();
        for f in state.families.values_mut() {
            if !f.imm.is_empty() {
                f.flush.request();
            }
        }
        self.schedule(&mut state);
        Ok(())
    }
}
