//! Makes room before a group is written: refuses, delays or stops it, and seals a full memtable.

use crate::core::{Engine, Immutable, LeaderState, Opening};
use crate::version::filenames;
use spanlith_base::{Error, Result};
use spanlith_env::IoActivity;
use spanlith_memtable::MemTable;
use spanlith_wal::LogWriter;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest single sleep of a delayed writer, so that it notices soon that the delay is lifted.
const SLICE: Duration = Duration::from_millis(1);

impl Engine {
    /// Called by the leader before it forms a group of at least `bytes`.
    #[inline]
    pub(crate) fn make_room(
        self: &Arc<Self>,
        leader: &mut LeaderState,
        no_slowdown: bool,
        bytes: usize,
    ) -> Result<()> {
        if self.write_gate.load(Ordering::Relaxed) != 0 {
            self.wait_for_gate(no_slowdown, bytes)?;
        }
        if leader
            .mem
            .should_flush(self.c.family.options.write_buffer_size as usize)
        {
            return self.seal(leader, no_slowdown);
        }
        Ok(())
    }

    #[cold]
    fn seal(self: &Arc<Self>, leader: &mut LeaderState, no_slowdown: bool) -> Result<()> {
        self.switch_memtable(leader)
            .inspect_err(|e| self.set_error("sealing a memtable", e))?;
        // The sealed memtable may be the one too many.
        if self.write_gate.load(Ordering::Relaxed) & crate::core::gate::STOP != 0 {
            self.wait_for_gate(no_slowdown, 0)?;
        }
        Ok(())
    }

    #[cold]
    fn wait_for_gate(&self, no_slowdown: bool, bytes: usize) -> Result<()> {
        use crate::core::gate;
        if let Some(e) = self.refusal() {
            return Err(e);
        }
        let bits = self.write_gate.load(Ordering::Relaxed);
        if bits & gate::DELAY != 0 && bytes > 0 {
            let clock = &self.c.env.clock;
            let mut left = self.throttle.delay(clock.monotonic_nanos(), bytes);
            if !left.is_zero() && no_slowdown {
                return Err(Error::incomplete("Write stall"));
            }
            while !left.is_zero() && self.write_gate.load(Ordering::Relaxed) & gate::DELAY != 0 {
                let nap = left.min(SLICE);
                clock.sleep(nap);
                left -= nap;
            }
        }
        let mut state = self.state.lock();
        loop {
            if state.closing {
                return Err(Error::shutdown("stalled writes"));
            }
            if let Some(e) = &state.error {
                return Err(e.clone());
            }
            if self.write_gate.load(Ordering::Relaxed) & gate::STOP == 0 {
                return Ok(());
            }
            if no_slowdown {
                return Err(Error::incomplete("Write stall"));
            }
            // Ends with the flush or compaction that lifts the stop, an error, or close.
            state = self.wait_changed(state);
        }
    }

    /// Creates the log file of `number`.
    pub(crate) fn create_log(&self, number: u64) -> Result<LogWriter> {
        let path = self.path(filenames::log_file_name(number));
        let mut file = self.c.env.fs.create(&path, IoActivity::Wal)?;
        let o = &self.c.options;
        if o.allow_fallocate {
            let size = self.c.family.options.write_buffer_size;
            file.preallocate(size + size / 10);
        }
        Ok(LogWriter::new(file, number))
    }

    /// Seals the mutable memtable and starts a new one, and a new log unless the current one is
    /// empty. Requires: leadership.
    pub(crate) fn switch_memtable(self: &Arc<Self>, leader: &mut LeaderState) -> Result<()> {
        let reuse = leader.log.as_ref().is_some_and(LogWriter::is_empty);
        let next_log = if reuse {
            leader.log.as_ref().map_or(0, LogWriter::log_number)
        } else {
            let number = self.new_file_number();
            let mut new = self.create_log(number)?;
            if let Some(before) = &leader.log {
                let opening = Opening {
                    number: before.log_number(),
                    size: before.len(),
                    sequence: self.visible(),
                };
                let batch = opening.to_batch(&self.c.db_id)?;
                new.add_record(batch.as_bytes())?;
            }
            let old = leader.log.replace(new);
            leader.log_in_dir = false;
            leader.log_bytes = 0;
            let keep_from = self.state.lock().log_number;
            leader.older.retain(|l| l.log_number() >= keep_from);
            if let Some(mut old) = old {
                if old.is_synced() {
                    old.close()?;
                } else {
                    leader.older.push(old);
                }
            }
            number
        };
        let arena_block = self.arena_block_size();
        let mem = Arc::new(MemTable::new(self.c.family.comparator.clone(), arena_block));
        let sealed = std::mem::replace(&mut leader.mem, mem.clone());
        let mut state = self.state.lock();
        if !reuse {
            state.logs.push_back(next_log);
        }
        state.imm.push(Immutable {
            mem: sealed,
            next_log,
            last_sequence: self.visible(),
        });
        self.install_with(&mut state, mem);
        Ok(())
    }

    /// RocksDB's default: an eighth of the write buffer, at most 1 MiB, in whole 4 KiB.
    pub(crate) fn arena_block_size(&self) -> usize {
        let o = &self.c.family.options;
        let set = if o.arena_block_size == 0 {
            (o.write_buffer_size / 8).min(1 << 20)
        } else {
            o.arena_block_size
        };
        (set as usize).next_multiple_of(4096)
    }
}
