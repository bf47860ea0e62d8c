//! When a log gets a witness, and what it says.
//!
//! A witness rides in front of a group's record, in the same append, so it costs no call. It comes with
//! the first group after a sync, but not before the log has grown by the spacing since the last one:
//! more would cost more than 0.5 % of the log. The path of a write compares two numbers; the rest is
//! looked at when they say that something may be due.

use super::background_error::Place;
use super::notes::{ManifestExtent, NotePlace, WITNESS_MAX, Witness};
use super::{Engine, LeaderState};
use spanlith_base::Result;
use spanlith_wal::{LogWriter, WriteBatch};

/// Bytes of batches after which a log without syncs is looked at for news of the MANIFEST.
const LOOK_AGAIN: u64 = 1 << 20;

/// Bytes that wait in a log beside a witness which is synced for its own sake, at most.
const VOUCH_MAX: u64 = 64 << 10;

/// Describes what the current log has in witnesses. Guarded by write leadership.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WitnessClock {
    /// Bytes of batches in the log from which on a witness may be due; never if there is no evidence.
    pub look_at: u64,
    /// Where the last witness ends; 0 if there is none.
    end: u64,
    /// Durable bytes of the log that a witness told.
    durable: u64,
    /// Says what a witness told of the MANIFEST.
    manifest: ManifestExtent,
    /// Where the log ended when it was last looked whether nobody writes.
    idle_at: u64,
}

impl WitnessClock {
    /// Of a new log; `spacing` is `None` without evidence.
    pub(crate) fn new(spacing: Option<u64>) -> Self {
        Self {
            look_at: spacing.unwrap_or(u64::MAX),
            end: 0,
            durable: 0,
            manifest: ManifestExtent::default(),
            idle_at: 0,
        }
    }
}

impl Engine {
    /// Bytes of log between witnesses; `None` without evidence.
    pub(crate) fn witness_spacing(&self) -> Option<u64> {
        let o = &self.c.options.own;
        o.evidence.then_some(o.witness_spacing)
    }

    /// The current log was synced: the next group tells, if there is room. Requires: leadership.
    pub(crate) fn witness_next(&self, leader: &mut LeaderState) {
        let (Some(spacing), Some(log)) = (self.witness_spacing(), &leader.log) else {
            return;
        };
        let left = (leader.witness.end + spacing).saturating_sub(log.len());
        leader.witness.look_at = leader.log_bytes.saturating_add(left);
    }

    /// The witness that goes in front of the next record, if one is due. Requires: leadership.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_witness(&self, leader: &mut LeaderState) -> Result<Option<WriteBatch>> {
        let (Some(spacing), Some(log)) = (self.witness_spacing(), &leader.log) else {
            return Ok(None);
        };
        let clock = &mut leader.witness;
        let (durable, manifest) = (log.synced_len(), self.catalog.extent());
        if durable <= clock.durable && manifest == clock.manifest {
            clock.look_at = leader.log_bytes.saturating_add(LOOK_AGAIN);
            return Ok(None);
        }
        let left = (clock.end + spacing).saturating_sub(log.len());
        if left > 0 {
            clock.look_at = leader.log_bytes.saturating_add(left);
            return Ok(None);
        }
        if !log.fits_whole(WITNESS_MAX) {
            // With the next group, in the next block.
            return Ok(None);
        }
        let witness = Witness {
            durable,
            manifest: (manifest != clock.manifest).then_some(manifest),
        };
        let batch = witness.to_batch(&self.place_in(log), self.visible(), false)?;
        clock.end = log.next_offset() + batch.as_bytes().len() as u64;
        clock.durable = durable;
        clock.manifest = manifest;
        clock.look_at = leader.log_bytes.saturating_add(LOOK_AGAIN);
        Ok(Some(batch))
    }

    /// Adds the closing record to the log. Requires: leadership.
    ///
    /// # Errors
    /// Those of the log.
    pub(crate) fn add_closing(&self, leader: &mut LeaderState) -> Result<()> {
        let Some(log) = &mut leader.log else {
            return Ok(());
        };
        let extent = self.catalog.extent();
        // The record may have to begin in another block, which moves it: an empty one would not help.
        let witness = Witness {
            durable: log.synced_len(),
            manifest: Some(extent),
        };
        let place = self.place_in(log);
        let batch = witness.to_batch(&place, self.visible(), true)?;
        log.add_record(batch.as_bytes())?;
        leader.last_record = batch.sequence();
        Ok(())
    }

    /// Tells the current log how much of the MANIFEST is durable, before logs go of which nothing else
    /// says that they were needed: so a MANIFEST that is cut later is found out even if nothing more is
    /// written. Not synced, so it is what a killed process leaves; after a power loss the next witness
    /// tells. Passed over if somebody is writing, who may tell it.
    pub(crate) fn vouch_for_manifest(&self) {
        if !self.c.options.own.evidence {
            return;
        }
        let extent = self.catalog.extent();
        if let Some(mut leader) = self.leader.try_lock()
            && leader.witness.manifest != extent
            && let Err(e) = self.add_witness(&mut leader)
        {
            drop(leader);
            self.set_error(Place::Log, &e);
        }
    }

    /// As [`Self::vouch_for_manifest`] behind a flush of what is in no log, so that no log goes that a cut
    /// MANIFEST would ask for. Synced, if that costs next to nothing.
    pub(crate) fn vouch_for_unlogged(&self) {
        if !self.c.options.own.evidence || !self.logs.lacks_writes() {
            return;
        }
        let Some(mut leader) = self.leader.try_lock() else {
            return;
        };
        let is_small = |log: &LogWriter| log.len() - log.synced_len() <= VOUCH_MAX;
        if !self.logs.are_closed_synced() || !leader.log.as_ref().is_some_and(is_small) {
            return;
        }
        let done = self.add_witness(&mut leader);
        if let Err(e) = done.and_then(|()| self.sync_logs(&mut leader)) {
            drop(leader);
            self.set_error(Place::Log, &e);
        }
    }

    /// Tells the current log what is durable if nobody has written since the last call, so that the end of a
    /// log which is not written to any more is vouched for as well. Not synced; one witness at most until
    /// there is news. Called by a timer.
    pub(crate) fn vouch_when_idle(&self) {
        if !self.c.options.own.evidence {
            return;
        }
        let Some(mut leader) = self.leader.try_lock() else {
            return;
        };
        let Some(log) = &leader.log else {
            return;
        };
        let (end, durable) = (log.next_offset(), log.synced_len());
        let extent = self.catalog.extent();
        let clock = &mut leader.witness;
        let is_idle = clock.idle_at == end;
        clock.idle_at = end;
        if !is_idle || (durable <= clock.durable && extent == clock.manifest) {
            return;
        }
        let done = self.add_witness(&mut leader);
        leader.witness.idle_at = leader.witness.end;
        if let Err(e) = done {
            drop(leader);
            self.set_error(Place::Log, &e);
        }
    }

    /// Adds a witness to the log, unless it has that already or is not to be written.
    /// Requires: leadership.
    fn add_witness(&self, leader: &mut LeaderState) -> Result<()> {
        let extent = self.catalog.extent();
        let Some(log) = &mut leader.log else {
            return Ok(());
        };
        let durable = log.synced_len();
        let is_news = durable > leader.witness.durable || extent != leader.witness.manifest;
        if !is_news || self.state.lock().trouble.refuses() {
            return Ok(());
        }
        let witness = Witness {
            durable,
            manifest: (extent != leader.witness.manifest).then_some(extent),
        };
        let place = self.place_in(log);
        let batch = witness.to_batch(&place, self.visible(), false)?;
        log.add_record(batch.as_bytes())?;
        leader.last_record = batch.sequence();
        leader.witness.end = log.next_offset();
        leader.witness.durable = durable;
        leader.witness.manifest = extent;
        Ok(())
    }

    fn place_in(&self, log: &LogWriter) -> NotePlace<'_> {
        NotePlace {
            db_id: &self.c.db_id,
            log: log.log_number(),
            offset: log.next_offset(),
        }
    }
}
