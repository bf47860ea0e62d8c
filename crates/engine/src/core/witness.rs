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

/// What the current log has in witnesses. Guarded by write leadership.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WitnessClock {
    /// Bytes of batches in the log from which on a witness may be due; never if there is no evidence.
    pub look_at: u64,
    /// Where the last witness ends; 0 if there is none.
    end: u64,
    /// Durable bytes of the log that a witness told.
    durable: u64,
    /// What a witness told of the MANIFEST.
    manifest: ManifestExtent,
}

impl WitnessClock {
    /// Of a new log; `spacing` is `None` without evidence.
    pub(crate) fn new(spacing: Option<u64>) -> Self {
        Self {
            look_at: spacing.unwrap_or(u64::MAX),
            end: 0,
            durable: 0,
            manifest: ManifestExtent::default(),
        }
    }
}

impl Engine {
    /// Bytes of log between witnesses; `None` without evidence.
    pub(crate) fn witness_spacing(&self) -> Option<u64> {
        let o = &self.c.evidence;
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
        let (durable, manifest) = (log.synced_len(), *self.manifest_extent.lock());
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
        let extent = *self.manifest_extent.lock();
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
        if !self.c.evidence.evidence {
            return;
        }
        let Some(mut leader) = self.leader.try_lock() else {
            return;
        };
        let extent = *self.manifest_extent.lock();
        if extent == leader.witness.manifest || self.state.lock().trouble.refuses() {
            return;
        }
        let Some(log) = &mut leader.log else {
            return;
        };
        let durable = log.synced_len();
        let witness = Witness {
            durable,
            manifest: Some(extent),
        };
        let place = self.place_in(log);
        let written = witness
            .to_batch(&place, self.visible(), false)
            .and_then(|batch| log.add_record(batch.as_bytes()).map(|()| batch.sequence()));
        let end = log.next_offset();
        match written {
            Ok(sequence) => {
                leader.last_record = sequence;
                leader.witness.end = end;
                leader.witness.durable = durable;
                leader.witness.manifest = extent;
            }
            Err(e) => {
                drop(leader);
                self.set_error(Place::Log, &e);
            }
        }
    }

    fn place_in(&self, log: &LogWriter) -> NotePlace<'_> {
        NotePlace {
            db_id: &self.c.db_id,
            log: log.log_number(),
            offset: log.next_offset(),
        }
    }
}
