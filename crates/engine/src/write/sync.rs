//! Making the log durable.

use crate::core::{Engine, LeaderState, Place};
use spanlith_base::stats::Ticker;
use spanlith_base::{Error, Result};
use std::sync::Arc;

impl Engine {
    /// Syncs and closes the logs before the current one, oldest first.
    pub(crate) fn sync_old_logs(&self) -> Result<()> {
        let mut old = self.logs.unsynced();
        let mut synced = Vec::new();
        while let Some(first) = old.first_mut() {
            if self.c.options.recycle_log_file_num > 0 {
                // Behind its records lie those of the file's life before, where replay would stop:
                // they must be gone for good before a table refers to a later log.
                first.flush()?;
                let len = first.len();
                first.file_mut().truncate(len)?;
            }
            first.sync()?;
            first.close()?;
            synced.push((first.log_number(), first.len()));
            old.remove(0);
        }
        if let Some(s) = self.reporter.statistics().filter(|_| !synced.is_empty()) {
            s.add(Ticker::WalSynced, 1);
        }
        self.track_synced_logs(&synced)
    }

    /// Syncs everything logged so far: earlier logs first, then the current one, then, once per log,
    /// the directory (reliability 2.6). Requires: leadership.
    pub(crate) fn sync_logs(&self, leader: &mut LeaderState) -> Result<()> {
        self.sync_old_logs()?;
        let log = leader
            .log
            .as_mut()
            .ok_or_else(|| Error::io("the log is not open"))?;
        log.sync()?;
        self.settle_log_name(log.log_number())?;
        self.witness_next(leader);
        Ok(())
    }

    /// Hands log records that `manual_wal_flush` holds back to the operating system, and makes them
    /// survive a power cut if `sync`.
    pub(crate) fn flush_wal(self: &Arc<Self>, sync: bool) -> Result<()> {
        if sync {
            return self.sync_wal();
        }
        let mut leader = self.leader.lock();
        if let Some(e) = self.refusal() {
            return Err(e);
        }
        let flushed = match &mut leader.log {
            None => Ok(()),
            Some(log) => log.flush(),
        };
        flushed.inspect_err(|e| self.set_error(Place::Log, e))
    }

    /// Makes all that is visible part of the files of the logs.
    pub(crate) fn write_out_log(self: &Arc<Self>) -> Result<()> {
        match self.c.options.manual_wal_flush {
            true => self.flush_wal(false),
            false => Ok(()),
        }
    }

    /// Makes every write so far survive a power cut.
    pub(crate) fn sync_wal(self: &Arc<Self>) -> Result<()> {
        let mut leader = self.leader.lock();
        if let Some(e) = self.refusal() {
            return Err(e);
        }
        self.sync_logs(&mut leader)
            .inspect_err(|e| self.set_error(Place::Log, e))?;
        if let Some(s) = self.reporter.statistics() {
            s.add(Ticker::WalSynced, 1);
        }
        Ok(())
    }
}
