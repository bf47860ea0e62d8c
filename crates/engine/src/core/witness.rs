//! When a log gets a witness, and what it says.
//!
//! A witness rides in front of a group's record, in the same append, so it costs no call. It comes with
//! the first group after a sync, but not before the log has grown by the spacing since the last one:
//! more would cost more than 0.5 % of the log. The path of a write compares two numbers; the rest is
//! looked at when they say that something may be due.

use super::background_error::Place;
use super::current_log::CurrentLog;
use super::notes::{ManifestExtent, WITNESS_MAX, Witness};
use super::{Leadership, Lsm};
use spanlith_base::Result;
use spanlith_wal::{LogWriter, WriteBatch};

/// Bytes of batches after which a log without syncs is looked at for news of the MANIFEST.
const LOOK_AGAIN: u64 = 1 << 20;

/// Bytes that wait in a log beside a witness which is synced for its own sake, at most.
const VOUCH_MAX: u64 = 64 << 10;

/// Describes what the current log has in witnesses. Guarded by write leadership.
#[derive(Clone, Copy, Debug)]
pub(super) struct WitnessClock {
    /// Bytes of batches in the log from which on a witness may be due; never if there is no evidence.
    look_at: u64,
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
    pub(super) fn new(spacing: Option<u64>) -> Self {
        Self {
            look_at: spacing.unwrap_or(u64::MAX),
            end: 0,
            durable: 0,
            manifest: ManifestExtent::default(),
            idle_at: 0,
        }
    }
}

impl Lsm {
    /// Bytes of log between witnesses; `None` without evidence.
    pub(super) fn witness_spacing(&self) -> Option<u64> {
        let o = &self.c.options.own;
        o.evidence.then_some(o.witness_spacing)
    }
}

impl CurrentLog {
    /// Returns whether a witness may be due before the next record: [`Self::take_witness`] knows.
    #[inline]
    pub(crate) fn witness_may_be_due(&self) -> bool {
        self.bytes >= self.witness.look_at
    }

    /// The log was synced: the next group tells, if there is room.
    pub(crate) fn expect_witness(&mut self, lsm: &Lsm) {
        let (Some(spacing), Some(log)) = (lsm.witness_spacing(), &self.writer) else {
            return;
        };
        let left = (self.witness.end + spacing).saturating_sub(log.len());
        self.witness.look_at = self.bytes.saturating_add(left);
    }

    /// The witness that goes in front of the next record, if one is due.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_witness(&mut self, lsm: &Lsm) -> Result<Option<WriteBatch>> {
        let (Some(spacing), Some(log)) = (lsm.witness_spacing(), &self.writer) else {
            return Ok(None);
        };
        let clock = &mut self.witness;
        let (durable, manifest) = (log.synced_len(), lsm.catalog.extent());
        if durable <= clock.durable && manifest == clock.manifest {
            clock.look_at = self.bytes.saturating_add(LOOK_AGAIN);
            return Ok(None);
        }
        let left = (clock.end + spacing).saturating_sub(log.len());
        if left > 0 {
            clock.look_at = self.bytes.saturating_add(left);
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
        let batch = witness.to_batch(&Self::place_in(lsm, log), lsm.visible(), false)?;
        clock.end = log.next_offset() + batch.as_bytes().len() as u64;
        clock.durable = durable;
        clock.manifest = manifest;
        clock.look_at = self.bytes.saturating_add(LOOK_AGAIN);
        Ok(Some(batch))
    }

    /// Adds the closing record.
    ///
    /// # Errors
    /// Those of the log.
    pub(crate) fn add_closing(&mut self, lsm: &Lsm) -> Result<()> {
        let Some(log) = &mut self.writer else {
            return Ok(());
        };
        let extent = lsm.catalog.extent();
        // The record may have to begin in another block, which moves it: an empty one would not help.
        let witness = Witness {
            durable: log.synced_len(),
            manifest: Some(extent),
        };
        let place = Self::place_in(lsm, log);
        let batch = witness.to_batch(&place, lsm.visible(), true)?;
        log.add_record(batch.as_bytes())?;
        self.last_record = batch.sequence();
        Ok(())
    }

    /// Adds a witness, unless the log has it already or is not to be written.
    fn add_witness(&mut self, lsm: &Lsm) -> Result<()> {
        let extent = lsm.catalog.extent();
        let Some(log) = &mut self.writer else {
            return Ok(());
        };
        let durable = log.synced_len();
        let is_news = durable > self.witness.durable || extent != self.witness.manifest;
        if !is_news || lsm.state.lock().trouble.refuses() {
            return Ok(());
        }
        let witness = Witness {
            durable,
            manifest: (extent != self.witness.manifest).then_some(extent),
        };
        let place = Self::place_in(lsm, log);
        let batch = witness.to_batch(&place, lsm.visible(), false)?;
        log.add_record(batch.as_bytes())?;
        self.last_record = batch.sequence();
        self.witness.end = log.next_offset();
        self.witness.durable = durable;
        self.witness.manifest = extent;
        Ok(())
    }

    /// As [`Self::add_witness`] if nobody has written since the last call and there is news.
    fn add_witness_when_idle(&mut self, lsm: &Lsm) -> Result<()> {
        let Some(log) = &self.writer else {
            return Ok(());
        };
        let (end, durable) = (log.next_offset(), log.synced_len());
        let extent = lsm.catalog.extent();
        let clock = &mut self.witness;
        let is_idle = clock.idle_at == end;
        clock.idle_at = end;
        if !is_idle || (durable <= clock.durable && extent == clock.manifest) {
            return Ok(());
        }
        let done = self.add_witness(lsm);
        self.witness.idle_at = self.witness.end;
        done
    }
}

/// Adds witnesses to the current log without a write that they could ride with.
pub(crate) struct Voucher<'a> {
    lsm: &'a Lsm,
    leader: &'a Leadership,
}

impl<'a> Voucher<'a> {
    /// Of these trees, to the log of this leadership.
    pub(crate) fn new(lsm: &'a Lsm, leader: &'a Leadership) -> Self {
        Self { lsm, leader }
    }

    /// Tells the current log how much of the MANIFEST is durable, before logs go of which nothing else
    /// says that they were needed: so a MANIFEST that is cut later is found out even if nothing more is
    /// written. Not synced, so it is what a killed process leaves; after a power loss the next witness
    /// tells. Passed over if somebody is writing, who may tell it.
    pub(crate) fn vouch_for_manifest(&self) {
        let extent = self.lsm.catalog.extent();
        self.with_log(|lsm, log| match log.witness.manifest == extent {
            true => Ok(()),
            false => log.add_witness(lsm),
        });
    }

    /// As [`Self::vouch_for_manifest`] after a flush of what is in no log, so that no log goes that a cut
    /// MANIFEST would ask for. Synced, if that costs next to nothing.
    pub(crate) fn vouch_for_unlogged(&self) {
        if !self.lsm.logs.lacks_writes() {
            return;
        }
        self.with_log(|lsm, log| {
            let is_small = |log: &LogWriter| log.len() - log.synced_len() <= VOUCH_MAX;
            if !lsm.logs.are_closed_synced() || !log.writer.as_ref().is_some_and(is_small) {
                return Ok(());
            }
            log.add_witness(lsm)?;
            log.sync(lsm)
        });
    }

    /// Tells the current log what is durable if nobody has written since the last call, so that the end of a
    /// log which is not written to any more is vouched for as well. Not synced; one witness at most until
    /// there is news. Called by a timer.
    pub(crate) fn vouch_when_idle(&self) {
        self.with_log(|lsm, log| log.add_witness_when_idle(lsm));
    }

    /// Does something with the current log, unless there is no evidence or somebody leads. An error is one of the log.
    fn with_log(&self, act: impl FnOnce(&Lsm, &mut CurrentLog) -> Result<()>) {
        if !self.lsm.c.options.own.evidence {
            return;
        }
        let Some(mut leader) = self.leader.try_lock() else {
            return;
        };
        let done = act(self.lsm, &mut leader.log);
        drop(leader);
        if let Err(e) = done {
            self.lsm.set_error(Place::Log, &e);
        }
    }
}
