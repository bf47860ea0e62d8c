//! Makes room before a group is written: refuses, delays or stops it, and seals a full memtable.

use super::urgent::address;
use crate::core::{
    DbState, Engine, Immutable, LeaderState, Opening, Place, WitnessClock, gate, is_lack,
    plan_shape,
};
use crate::listener::FlushReason;
use crate::options::CompressionType;
use spanlith_base::sync::{MutexGuard, assert_no_lock_is_held};
use spanlith_base::{Error, Result, callbacks};
use spanlith_env::{PacedFile, SyncPace, WritableFile};
use spanlith_wal::{LogCompression, LogOptions, LogPlace, LogWriter};
use std::sync::Arc;
use std::time::Duration;

/// Most bytes that are reserved for a log at once.
const PREALLOCATED_MAX: u64 = 1 << 30;
/// Longest wait of a writer for an ingestion.
const HOLD_MAX: Duration = Duration::from_secs(10);
/// Longest single sleep of a delayed writer, so that it notices soon that the delay is lifted.
const SLICE: Duration = Duration::from_millis(1);

/// How far a leader is with making room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is some.
    Made,
    /// Listeners are to hear of something first.
    Told,
    /// Background work has to catch up.
    Gate,
    /// A write buffer manager waits for flushes.
    Budget,
}

/// Describes what a leader has waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waited {
    /// Its delay, or the end of a stop.
    gate: bool,
    /// Room in the budget, which nobody is left to free.
    budget: bool,
}

/// Returns what a writer is told who does not want to wait.
pub(super) fn no_room() -> Error {
    Error::incomplete("Write stall")
}

impl Engine {
    /// Called by the leader before it forms a group.
    #[inline]
    pub(super) fn make_room(
        self: &Arc<Self>,
        leader: &mut LeaderState,
        no_slowdown: bool,
        waited: Waited,
    ) -> Result<Room> {
        let bits = self.gate.bits() & !gate::NOT_LEADERS;
        if bits != 0 && (!waited.gate || bits & gate::STOP != 0) && !self.passes(bits) {
            return Ok(Room::Gate);
        }
        if leader.log_bytes >= leader.log_room {
            self.limit_logs(leader)?;
        }
        let first = &leader.slots[0];
        if first.mem.should_flush(first.limit)
            || !leader.touched.is_empty()
            || first.charge.is_some()
        {
            return self.seal_full(leader, no_slowdown, waited);
        }
        Ok(Room::Made)
    }

    /// Returns whether a leader goes on under these bits of the gate, for a write that others wait for.
    #[cold]
    fn passes(&self, bits: u16) -> bool {
        bits & gate::REFUSE == 0 && self.throttle.has_urgent()
    }

    /// Goes on with making room for a group of at least `bytes`. Meanwhile others may lead: they change options, flush
    /// and sync while writers wait, and listeners may have them do it. The writer stays first in the queue.
    #[cold]
    pub(super) fn make_room_slowly<'a>(
        self: &'a Arc<Self>,
        mut leader: MutexGuard<'a, LeaderState>,
        mut room: Result<Room>,
        no_slowdown: bool,
        mut bytes: usize,
    ) -> (MutexGuard<'a, LeaderState>, Result<()>) {
        let _inside = callbacks::enter(callbacks::Place::Write(address(self)));
        let mut waited = Waited::default();
        loop {
            let has_news = !leader.untold.is_empty();
            if has_news {
                self.let_go(leader);
                leader = self.leader.lock();
            }
            match room {
                Ok(Room::Made) => return (leader, Ok(())),
                Err(e) => return (leader, Err(e)),
                Ok(Room::Told) => {}
                Ok(Room::Gate) => {
                    drop(leader);
                    let lifted = self.wait_for_gate(no_slowdown, bytes);
                    self.reporter.tell_stalls();
                    leader = self.leader.lock();
                    if let Err(e) = lifted {
                        return (leader, Err(e));
                    }
                    waited.gate = true;
                }
                Ok(Room::Budget) => {
                    drop(leader);
                    waited.budget = !self.wait_for_budget();
                    leader = self.leader.lock();
                }
            }
            // Its delay is behind it.
            bytes = 0;
            room = self.make_room(&mut leader, no_slowdown, waited);
        }
    }

    /// Returns what a write that does not want to wait is told before it joins the queue, where it would stand behind one that
    /// does.
    #[cold]
    pub(super) fn check_room(&self) -> Result<()> {
        if self.gate.has(gate::STOP) {
            self.wait_at_gate(true, 0)?;
        }
        let manager = self.c.resources.write_buffers.as_ref();
        if manager.is_some_and(|m| m.should_stall()) {
            return Err(self.refusal().unwrap_or_else(no_room));
        }
        Ok(())
    }

    /// Seals the memtables that are full.
    fn seal_full(
        self: &Arc<Self>,
        leader: &mut LeaderState,
        no_slowdown: bool,
        waited: Waited,
    ) -> Result<Room> {
        let mut full = Vec::new();
        let mut touched = std::mem::take(&mut leader.touched);
        touched.push(0);
        touched.sort_unstable();
        touched.dedup();
        for &at in &touched {
            if let Some(slot) = leader.slots.get(at)
                && slot.mem.should_flush(slot.limit)
            {
                full.push(at);
            }
        }
        if !full.is_empty() {
            self.switch_memtables(leader, &full, FlushReason::WriteBufferFull)
                .inspect_err(|e| self.set_error(Place::Seal, e))?;
            // The sealed memtable may be the one too many.
            if self.gate.has(gate::STOP) && !self.throttle.has_urgent() {
                leader.touched = touched;
                return Ok(Room::Gate);
            }
        }
        let room = match leader.slots[0].charge {
            Some(_) => self.keep_budget(leader, &touched, no_slowdown, waited.budget)?,
            None => Room::Made,
        };
        match room {
            Room::Budget => leader.touched = touched,
            _ => {
                touched.clear();
                leader.touched = touched;
            }
        }
        Ok(match room {
            Room::Made if !leader.untold.is_empty() => Room::Told,
            room => room,
        })
    }

    #[cold]
    fn wait_for_gate(&self, no_slowdown: bool, bytes: usize) -> Result<()> {
        let began = self.nanos();
        let cause = self.wait_cause();
        let waited = self.wait_at_gate(no_slowdown, bytes);
        self.count_stall(self.nanos().saturating_sub(began), cause);
        waited
    }

    fn wait_at_gate(&self, no_slowdown: bool, bytes: usize) -> Result<()> {
        if let Some(e) = self.refusal() {
            return Err(e);
        }
        let bits = self.gate.bits();
        if bits & gate::DELAY != 0 && bytes > 0 {
            let clock = &self.c.env.clock;
            let mut left = self.throttle.delay(clock.monotonic_nanos(), bytes);
            if !left.is_zero() && no_slowdown {
                return Err(no_room());
            }
            let is_delayed = || self.gate.has(gate::DELAY);
            while !left.is_zero() && is_delayed() && !self.throttle.has_urgent() {
                let nap = left.min(SLICE);
                assert_no_lock_is_held();
                clock.sleep(nap);
                left -= nap;
            }
        }
        let mut state = self.state.lock();
        if bits & gate::HOLD != 0 && !no_slowdown {
            state = self.wait_for_ingestion(state);
        }
        loop {
            if state.life.is_closing() {
                return Err(Error::shutdown("stalled writes"));
            }
            if let Some(e) = state.trouble.refusal() {
                return Err(e);
            }
            if !self.gate.has(gate::STOP) || self.throttle.has_urgent() {
                return Ok(());
            }
            if state.life.gives_up() {
                // Nothing will lift the stop.
                return Err(Error::shutdown("stalled writes"));
            }
            if no_slowdown {
                return Err(no_room());
            }
            if let Some(e) = self.escalate(&mut state) {
                return Err(e);
            }
            if state.trouble.next_release().is_some() && self.c.env.executor.is_manual() {
                drop(state);
                self.pass_time_for_tries();
                state = self.state.lock();
                continue;
            }
            // Ends with the flush or compaction that lifts the stop, with an error, with the try that
            // follows one, or with close.
            state = self.wait_changed(state);
        }
    }

    /// Waits until no ingestion holds writers back, but not for ever.
    fn wait_for_ingestion<'a>(
        &'a self,
        mut state: MutexGuard<'a, DbState>,
    ) -> MutexGuard<'a, DbState> {
        let clock = &self.c.env.clock;
        let until = clock.monotonic_nanos() + HOLD_MAX.as_nanos() as u64;
        while state.holds > 0 && !state.life.gives_up() && !self.throttle.has_urgent() {
            let left = until.saturating_sub(clock.monotonic_nanos());
            if left == 0 {
                break;
            }
            let left = Duration::from_nanos(left);
            state = self.state.wait_timeout(state, left).0;
        }
        state
    }

    /// Creates the log file of `number`.
    pub(crate) fn create_log(&self, number: u64) -> Result<LogWriter> {
        let made = self.try_to_create_log(number);
        match made {
            Err(e) if is_lack(&e) => {
                // Tables that nobody uses now give their descriptors back.
                self.c.io.close_idle();
                self.try_to_create_log(number)
            }
            made => made,
        }
        .inspect_err(|_| self.discard_log(number))
    }

    /// Removes a log that was begun and is not going to be used: replay must not stop at it. One that
    /// cannot be removed is given up with all others by the next resume.
    pub(super) fn discard_log(&self, number: u64) {
        let logs = self.logs.store();
        if let Ok(true) | Err(_) = logs.is_there(number, LogPlace::Live)
            && logs.delete(number, LogPlace::Live).is_err()
        {
            self.state.lock().trouble.log_poisoned = true;
        }
    }

    fn try_to_create_log(&self, number: u64) -> Result<LogWriter> {
        let o = self.options().to_arc();
        let reused = self.state.lock().logs.take_reusable();
        let mut file = match reused.map(|old| self.reuse_log(old, number)) {
            Some(Ok(file)) => file,
            Some(Err(_)) | None => {
                let mut file = self.logs.store().create(number)?;
                if o.allow_fallocate {
                    let size = self.families.default().settings().options.write_buffer_size;
                    // What is reserved is nobody else's until the log is closed.
                    file.preallocate((size + size / 10).min(PREALLOCATED_MAX));
                }
                file
            }
        };
        if o.wal_bytes_per_sync > 0 {
            let pace = SyncPace {
                bytes_per_sync: o.wal_bytes_per_sync,
                is_strict: o.strict_bytes_per_sync,
            };
            file = Box::new(PacedFile::new(file, None, pace));
        }
        let compression = match o.wal_compression {
            CompressionType::Zstd => LogCompression::Zstd,
            _ => LogCompression::None,
        };
        let form = LogOptions {
            compression,
            buffer_size: match o.manual_wal_flush {
                true => o.writable_file_max_buffer_size as usize,
                false => 0,
            },
            recyclable: o.recycle_log_file_num > 0,
        };
        LogWriter::new_with(file, number, form)
    }

    /// Gives the obsolete log `old` the name of a new one, to be written from its front. Nothing is
    /// cut off: saving the file system that work is the point.
    fn reuse_log(&self, old: u64, number: u64) -> Result<Box<dyn WritableFile>> {
        let file = self.logs.store().recycle(old, number);
        file.inspect_err(|e| {
            // A new file does as well; what is left of the old one is found at the next open.
            self.reporter
                .log()
                .warn(format_args!("cannot write log {old:06} again: {e}"));
        })
    }

    /// Starts a new log, which names the one before. Requires: leadership.
    fn switch_log(&self, leader: &mut LeaderState) -> Result<u64> {
        let number = self.catalog.new_file_number();
        let mut new = self.create_log(number)?;
        let begun = self.begin_log(&mut new, leader);
        let last_record = match begun {
            Ok(last_record) => last_record,
            Err(e) => {
                drop(new);
                self.discard_log(number);
                return Err(e);
            }
        };
        leader.last_record = last_record;
        let old = leader.log.replace(new);
        leader.log_bytes = 0;
        leader.witness = WitnessClock::new(self.witness_spacing());
        // The next write looks at the logs together.
        leader.log_room = 0;
        let keep_from = {
            let mut state = self.state.lock();
            let before = old.as_ref().map(|old| (old.log_number(), old.len()));
            state.logs.begin(number, before);
            state.logs.kept()
        };
        let mut old_logs = self.logs.unsynced();
        old_logs.retain(|l| l.log_number() >= keep_from);
        if let Some(mut old) = old {
            // One that was written over an older log has to lose the rest of that first, synced or not.
            let is_settled = self.c.options.recycle_log_file_num == 0;
            let done = old.flush().and_then(|()| match old.is_synced() {
                true if is_settled => {
                    old.close()?;
                    self.track_synced_logs(&[(old.log_number(), old.len())])
                }
                _ => {
                    old_logs.push(old);
                    Ok(())
                }
            });
            drop(old_logs);
            // The log before holds writes that were acknowledged: an error is one of a write.
            done.inspect_err(|e| self.set_error(Place::Log, e))?;
        }
        Ok(number)
    }

    /// Writes what a log begins with; returns the sequence number of its last record.
    fn begin_log(&self, new: &mut LogWriter, leader: &LeaderState) -> Result<u64> {
        let Some(before) = &leader.log else {
            return Ok(0);
        };
        if self.c.options.track_and_verify_wals {
            new.add_predecessor(before.log_number(), before.len(), leader.last_record)?;
        }
        if !self.c.options.own.evidence {
            return Ok(0);
        }
        let opening = Opening {
            number: before.log_number(),
            size: before.len(),
            sequence: self.visible(),
        };
        let batch = opening.to_batch(&self.c.db_id)?;
        new.add_record(batch.as_bytes())?;
        Ok(batch.sequence())
    }

    /// Seals the mutable memtables of the given slots (with atomic flushes, of all that are not
    /// empty) and starts new ones, and a new log unless the current one is empty. Requires:
    /// leadership, which ends with [`Self::let_go`].
    pub(crate) fn switch_memtables(
        self: &Arc<Self>,
        leader: &mut LeaderState,
        slots: &[usize],
        reason: FlushReason,
    ) -> Result<()> {
        // A log of notes only serves on, as an empty one does in RocksDB: writes that skip the log
        // begin none, and number no file.
        let reuse = leader.log.is_some() && leader.log_bytes == 0;
        let next_log = if reuse {
            leader.log.as_ref().map_or(0, LogWriter::log_number)
        } else {
            self.switch_log(leader)?
        };
        let mut all: Vec<usize> = slots.to_vec();
        if self.c.options.atomic_flush && reason != FlushReason::ManualFlush {
            let filled = (0..leader.slots.len()).filter(|&i| !leader.slots[i].mem.is_empty());
            all = filled.collect();
        }
        self.seal_memtables(leader, &all, next_log, reason);
        Ok(())
    }

    /// Seals the mutable memtables of the given slots over `next_log`, which holds nothing of them.
    /// Requires: leadership, which ends with [`Self::let_go`].
    pub(super) fn seal_memtables(
        self: &Arc<Self>,
        leader: &mut LeaderState,
        slots: &[usize],
        next_log: u64,
        reason: FlushReason,
    ) {
        let last_sequence = self.visible();
        let mut state = self.state.lock();
        for &at in slots {
            let slot = &mut leader.slots[at];
            let id = slot.family.id;
            plan_shape(self, &mut state, id, slot.mem.len());
            let Some(f) = state.family_mut(id) else {
                continue;
            };
            slot.limit = f.settings.options.write_buffer_size as usize;
            let mem = f.settings.new_memtable(&slot.family.comparator);
            slot.replace(&mem, self.c.resources.write_buffers.as_ref());
            leader.first_is_new |= at == 0;
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
            leader.untold.extend(self.note_sealed(f, since));
            self.install_superversion(&mut state, id);
        }
        // Families without anything in memory need no log before this one.
        for f in state.families.values_mut().filter(|f| f.is_idle()) {
            f.log_number = f.log_number.max(next_log);
        }
    }
}
