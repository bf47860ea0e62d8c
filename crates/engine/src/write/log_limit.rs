//! Keeps all logs together below `max_total_wal_size`: the families that need the oldest one are
//! flushed.

use crate::core::{LeaderState, Lsm, Place, Speed};
use crate::listener::FlushReason;
use spanlith_base::Result;

/// Where the limit that is derived from the write buffers ends: an idle family must not hold back
/// tens of gigabytes.
const MOST_DERIVED: u64 = 1 << 30;
/// Bytes of log between two looks at a speed disk.
const SPEED_STEP: u64 = 32 << 10;

impl LeaderState {
    /// Bytes of all logs together; no limit with one family, whose logs go with its memtables.
    fn log_limit(&self, lsm: &Lsm) -> u64 {
        if self.slots.len() <= 1 {
            return u64::MAX;
        }
        match lsm.options().max_total_wal_size {
            0 => {
                let buffers = self.slots.iter().map(|slot| {
                    let o = &slot.family.settings().options;
                    let count = o.max_write_buffer_number.max(1) as u64;
                    o.write_buffer_size.saturating_mul(count)
                });
                let all = buffers.fold(0u64, u64::saturating_add);
                all.saturating_mul(4).min(MOST_DERIVED)
            }
            set => set,
        }
    }

    /// Looks whether the logs are too large, seals what holds the oldest back, and says when to look
    /// again. Requires: leadership.
    #[cold]
    pub(super) fn limit_logs(&mut self, lsm: &Lsm) -> Result<()> {
        let limit = self.log_limit(lsm);
        let is_tight = lsm.c.speed.as_ref().is_some_and(Speed::is_tight);
        if limit == u64::MAX && lsm.c.speed.is_none() {
            self.log.set_room(limit);
            return Ok(());
        }
        let (older, holders) = {
            let mut state = lsm.state.lock();
            let older = state.logs.closed_bytes(0);
            let mut holders = Vec::new();
            let oldest = state.logs.oldest().unwrap_or(0);
            // A log with a transaction that nobody decided about stays whoever is flushed.
            let pinned = state.min_undecided_log() <= oldest;
            if (is_tight || older.saturating_add(self.log.bytes()) > limit)
                && !pinned
                && state.logs.begin_release()
            {
                for f in state.families.values_mut() {
                    if f.oldest_log() <= oldest && !f.is_idle() {
                        f.flush.request();
                        holders.push(f.family.id);
                    }
                }
                lsm.schedule(&mut state);
            }
            (older, holders)
        };
        // While the oldest log goes, the next look comes after another part of the limit.
        let mut step = (limit / 16).max(1);
        let mut next = limit.saturating_sub(older);
        if lsm.c.speed.is_some() {
            // Page groups are used up by the number of commits, whatever they hold.
            step = step.min(SPEED_STEP);
            next = next.min(self.log.bytes() + SPEED_STEP);
        }
        let room = next.max(self.log.bytes().saturating_add(step));
        self.log.set_room(room);
        let slots = holders.iter().filter_map(|&id| self.slot(id));
        let filled: Vec<usize> = slots.filter(|&at| !self.slots[at].mem.is_empty()).collect();
        if !filled.is_empty() {
            self.switch_memtables(lsm, &filled, FlushReason::WalFull)
                .inspect_err(|e| lsm.set_error(Place::Seal, e))?;
            let mut state = lsm.state.lock();
            for id in holders {
                if let Some(f) = state.family_mut(id) {
                    f.flush.request();
                }
            }
            lsm.schedule(&mut state);
        }
        Ok(())
    }
}
