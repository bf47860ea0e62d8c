//! Which ordinals are being written, were written and are durable: the bookkeeping of writes and flushes.
//!
//! All of it is under the lock `state` of the disk, which nobody holds during I/O.

use super::SpeedDisk;
use crate::log::Log;
use crate::plant::Plant;
use spanlith_base::sync::thread::yield_now;
use spanlith_base::{Error, Result};
use std::sync::atomic::Ordering;

impl SpeedDisk {
    /// Ordinals for `count` pages, of which the last holds `last` bytes, that are going to be written; the present
    /// witness; and the bytes of the page before.
    pub(crate) fn begin_write(&self, count: u64, last: u16) -> (u64, u64, u16) {
        let mut state = self.state.lock();
        let from = state.next_ordinal;
        if state.durable >= from {
            // Flushes for tables that have failed by now lost nothing of ours.
            state.failed_for_tables = self.failed_for_tables();
        }
        let before = std::mem::replace(&mut state.last_len, last);
        state.next_ordinal += count;
        state.in_flight.insert(from, from + count);
        (from, state.durable, before)
    }

    /// As [`Self::begin_write`] for a durable write that goes on beside others; `None` if anything in front of it is neither durable
    /// nor about to be, or has failed.
    pub(crate) fn begin_durable(&self, count: u64, last: u16) -> Option<(u64, u64, u16)> {
        let mut state = self.state.lock();
        let promised = state.promised.max(state.durable);
        if promised < state.next_ordinal || state.failed.is_some() {
            return None;
        }
        let from = state.next_ordinal;
        let before = std::mem::replace(&mut state.last_len, last);
        state.next_ordinal += count;
        state.promised = state.next_ordinal;
        state.in_flight.insert(from, from + count);
        Some((from, state.durable, before))
    }

    /// The durable write of `ordinals` has ended. Pages of the log are listed and count as durable once all before them are.
    pub(crate) fn end_flight(&self, log: &Log, ordinals: (u64, u64), result: &Result<()>) {
        let mut state = self.state.lock();
        let mut of_log = log.state.lock();
        if let Err(e) = result {
            state.failed.get_or_insert_with(|| e.clone());
            of_log.failed.get_or_insert_with(|| e.clone());
        } else if let Some(flight) = of_log.flights.iter_mut().find(|f| f.ordinals == ordinals) {
            flight.is_written = true;
        }
        // One that failed is never written, so that nothing after it gets here.
        while of_log.flights.front().is_some_and(|f| f.is_written)
            && let Some(flight) = of_log.flights.pop_front()
        {
            let (from, to) = flight.ordinals;
            of_log.len += flight.bytes;
            of_log.ahead -= flight.bytes;
            of_log.pages.extend(flight.pages);
            // Only now: a page that is neither under way nor known would seem to be gone.
            state.in_flight.remove(&from);
            debug_assert!(state.durable >= from, "durable writes end in order");
            if state.durable >= from {
                state.durable = state.durable.max(to);
                state.sealed = state.sealed.max(to);
            }
        }
        drop(of_log);
        let is_awaited = state.waiting != 0;
        drop(state);
        if is_awaited {
            self.risen.notify_all();
        }
    }

    /// Waits until everything below `ordinal` is durable by writes that are under way.
    pub(crate) fn wait_durable(&self, ordinal: u64) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            let is_durable = state.durable >= ordinal || self.plant == Some(Plant::DurableAlone);
            match (is_durable, &state.failed) {
                (true, _) => return Ok(()),
                (false, Some(e)) => return Err(e.clone()),
                (false, None) => {}
            }
            state.waiting += 1;
            state = self.risen.wait(state);
            state.waiting -= 1;
        }
    }

    /// Registers that the page `ordinal` is written again with `len` bytes, if it still may.
    pub(crate) fn begin_again(&self, ordinal: u64, len: u16) -> bool {
        let mut state = self.state.lock();
        let is_last = ordinal + 1 == state.next_ordinal;
        let may = is_last && (ordinal >= state.sealed || self.plant == Some(Plant::Rewrite));
        if may {
            state.last_len = len;
            state.in_flight.insert(ordinal, ordinal + 1);
        }
        may
    }

    /// The page `ordinal` stays as it is, with `len` bytes, though [`Self::begin_again`] said otherwise.
    pub(crate) fn give_up_again(&self, ordinal: u64, len: u16) {
        let mut state = self.state.lock();
        state.last_len = len;
        state.in_flight.remove(&ordinal);
    }

    /// Returns whether everything in front of an ordinal is durable.
    pub(crate) fn is_durable_before(&self, ordinal: u64) -> bool {
        self.state.lock().durable >= ordinal || self.plant == Some(Plant::DurableAlone)
    }

    /// Ends a write that began with `starts`. After a failure its ordinals stay: nothing after them is ever durable.
    pub(crate) fn end_write(&self, starts: &[u64], result: &Result<()>) {
        let mut state = self.state.lock();
        match result {
            Ok(()) => {
                for start in starts {
                    state.in_flight.remove(start);
                }
            }
            Err(e) => {
                state.failed.get_or_insert_with(|| e.clone());
            }
        }
    }

    /// A durable write of the ordinals from `from` to `to` has ended; whether all below is durable now.
    pub(crate) fn note_durable(&self, from: u64, to: u64) -> bool {
        let mut state = self.state.lock();
        if state.durable >= from || self.plant == Some(Plant::DurableAlone) {
            state.durable = state.durable.max(to);
            state.sealed = state.sealed.max(to);
        }
        state.durable >= to
    }

    /// Makes everything below `ordinal` durable.
    pub(crate) fn flush_to(&self, ordinal: u64) -> Result<()> {
        loop {
            {
                let state = self.state.lock();
                match (state.durable >= ordinal, &state.failed) {
                    (true, _) => return Ok(()),
                    (false, Some(e)) => return Err(e.clone()),
                    (false, None) => {}
                }
                if state.written() < ordinal.min(state.next_ordinal) {
                    drop(state);
                    // Somebody else's write in front of ours is under way.
                    yield_now();
                    continue;
                }
            }
            self.flush()?;
        }
    }

    fn flush(&self) -> Result<()> {
        let written = {
            let mut state = self.state.lock();
            let written = state.written();
            state.sealed = state.sealed.max(written);
            written
        };
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        let flushed = {
            let _under_way = self.gate.enter(false);
            self.device.flush()
        };
        if let (Err(_), Some(top)) = (&flushed, &self.top) {
            top.note_failed_flush();
        }
        let failed_for_tables = self.failed_for_tables();
        let mut state = self.state.lock();
        let flushed = flushed.and_then(|()| match state.failed_for_tables == failed_for_tables {
            true => Ok(()),
            false => Err(
                Error::io("a flush for tables on the speed disk failed before")
                    .with_path(&self.path),
            ),
        });
        match &flushed {
            Ok(()) if state.failed.is_none() => state.durable = state.durable.max(written),
            Ok(()) => {}
            Err(e) => {
                state.failed.get_or_insert_with(|| e.clone());
                state.lost = true;
            }
        }
        flushed
    }

    /// Flushes that failed and may have lost pages of logs.
    pub(super) fn failed_for_tables(&self) -> u64 {
        self.top.as_ref().map_or(0, |top| top.failed_flushes())
    }

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// Of the device, now or before.
    pub fn sync_all(&self) -> Result<()> {
        self.conclude()?;
        let next = self.state.lock().written();
        self.flush_to(next)
    }
}
