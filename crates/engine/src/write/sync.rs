//! Handing the log to the system, and making it durable, at the wish of a caller.

use crate::core::{Engine, Leadership, Lsm, Place};
use spanlith_base::Result;
use spanlith_base::stats::Ticker;

/// The log of a database, for callers.
pub(crate) struct Wal<'a> {
    lsm: &'a Lsm,
    leader: &'a Leadership,
}

impl<'a> Wal<'a> {
    /// That of a database.
    pub(crate) fn of(engine: &'a Engine) -> Self {
        Self {
            lsm: engine.lsm(),
            leader: &engine.leader,
        }
    }

    /// Hands log records that `manual_wal_flush` holds back to the operating system.
    ///
    /// # Errors
    /// The background error that refuses writes; of the file.
    pub(crate) fn flush(&self) -> Result<()> {
        let mut leader = self.leader.lock();
        if let Some(e) = self.lsm.refusal() {
            return Err(e);
        }
        let flushed = leader.log.flush();
        flushed.inspect_err(|e| self.lsm.set_error(Place::Log, e))
    }

    /// Makes all that is visible part of the files of the logs.
    ///
    /// # Errors
    /// As [`Self::flush`].
    pub(crate) fn write_out(&self) -> Result<()> {
        match self.lsm.c.options.manual_wal_flush {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Makes every write so far survive a power cut.
    ///
    /// # Errors
    /// As [`Self::flush`]; of the sync.
    pub(crate) fn sync(&self) -> Result<()> {
        let mut leader = self.leader.lock();
        if let Some(e) = self.lsm.refusal() {
            return Err(e);
        }
        let synced = leader.log.sync(self.lsm);
        synced.inspect_err(|e| self.lsm.set_error(Place::Log, e))?;
        if let Some(s) = self.lsm.reporter.statistics() {
            s.add(Ticker::WalSynced, 1);
        }
        Ok(())
    }
}
