//! Logs that recovery does not need any more: kept to be written again, moved to the archive, or
//! deleted.
//!
//! In this order, as RocksDB: the pool of `recycle_log_file_num`, the archive of `WAL_ttl_seconds` and
//! `WAL_size_limit_MB`, deletion. A log in the pool keeps its name, which is below every number that
//! recovery asks for, so after a crash it is an obsolete file like any other.

use super::Engine;
use spanlith_base::stats::Ticker;
use spanlith_base::{FileNumber, Result};
use spanlith_env::Unlinked;
use spanlith_wal::LogPlace;
use std::sync::atomic::Ordering;

const MIB: u64 = 1 << 20;

/// Most seconds between two looks at the archive.
const PURGE_PERIOD: u64 = 600;

impl Engine {
    /// Returns whether obsolete logs are kept for readers of changes.
    pub(crate) fn archives_logs(&self) -> bool {
        let o = &self.c.options;
        o.wal_ttl_seconds > 0 || o.wal_size_limit_mb > 0
    }

    /// Puts away logs that hold nothing unflushed (WAL3). Returns what holds the contents of those that were
    /// deleted: to be dropped where nobody waits.
    pub(crate) fn retire_logs(&self) -> Vec<Unlinked> {
        let mut contents = Vec::new();
        if self.c.purge.is_disabled() {
            return contents;
        }
        let (dead, first_own): (Vec<u64>, u64) = {
            let mut state = self.state.lock();
            let keep = state.kept_log;
            debug_assert!(
                state.logs.iter().is_sorted(),
                "WAL3: logs are listed in their order"
            );
            let n = state.logs.iter().take_while(|&&l| l < keep).count();
            state.closed_logs.retain(|&n, _| n >= keep);
            (state.logs.drain(..n).collect(), state.first_own_log)
        };
        if !dead.is_empty() {
            // A descriptor that is closed later would cut the file at the end of what it wrote.
            let mut old = self.old_logs.lock();
            old.retain(|l| !dead.contains(&l.log_number()));
        }
        if dead.is_empty() {
            self.vouch_for_unlogged();
        } else {
            self.vouch_for_manifest();
        }
        let mut is_away = false;
        for n in dead {
            if n >= first_own && self.keep_for_reuse(n) {
                continue;
            }
            // A log that cannot be put away is older than any family's log number: the next open
            // ignores it and tries again.
            match self.put_away_log(n) {
                Ok(unlinked) => {
                    is_away = true;
                    contents.push(unlinked);
                }
                Err(e) => self
                    .c
                    .log
                    .warn(format_args!("cannot put away log {n:06}: {e}")),
            }
        }
        if is_away {
            self.sync_away();
        }
        self.purge_archive();
        contents
    }

    /// Makes it durable that logs are gone: so a MANIFEST that asks for them again is known to have lost
    /// its last edits, whatever else a power loss took (`docs/formats/evidence.md`).
    pub(crate) fn sync_away(&self) {
        if !self.c.options.own.evidence {
            return;
        }
        let logs = &self.c.logs;
        let archived = match self.archives_logs() {
            true => logs.sync_names(LogPlace::Archive),
            false => Ok(()),
        };
        // Without it a power loss may bring them back, which harms nobody.
        if let Err(e) = archived.and_then(|()| logs.sync_names(LogPlace::Live)) {
            let log = &self.c.log;
            log.warn(format_args!("cannot sync the directory of logs: {e}"));
        }
    }

    /// Moves an obsolete log to the archive, or deletes it.
    pub(crate) fn put_away_log(&self, number: FileNumber) -> Result<Unlinked> {
        if self.archives_logs() {
            self.c.logs.archive(number)?;
            return Ok(Unlinked::default());
        }
        self.delete_log(number, LogPlace::Live)
    }

    fn delete_log(&self, number: FileNumber, place: LogPlace) -> Result<Unlinked> {
        let unlinked = self.c.logs.delete(number, place)?;
        self.tick_statistic(Ticker::FilesDeletedImmediately);
        Ok(unlinked)
    }

    fn keep_for_reuse(&self, number: FileNumber) -> bool {
        let mut state = self.state.lock();
        let room = state.reusable_logs.len() < self.c.options.recycle_log_file_num as usize;
        if room {
            state.reusable_logs.push_back(number);
        }
        room
    }

    /// Deletes archived logs that are too old or too many, at most every ten minutes (every half of
    /// their time to live, if that is less).
    pub(crate) fn purge_archive(&self) {
        if !self.archives_logs() {
            return;
        }
        let ttl = self.c.options.wal_ttl_seconds;
        let period = match ttl {
            0 => PURGE_PERIOD,
            ttl => (ttl / 2).clamp(1, PURGE_PERIOD),
        };
        let now = self.c.env.clock.now_seconds();
        let last = self.archive_purged.load(Ordering::Relaxed);
        if last != 0 && now.saturating_sub(last) < period {
            return;
        }
        self.archive_purged.store(now, Ordering::Relaxed);
        if let Err(e) = self.purge_archive_at(now) {
            self.c.log.warn(format_args!("the archive of logs: {e}"));
        }
    }

    fn purge_archive_at(&self, now: u64) -> Result<()> {
        const PLACE: LogPlace = LogPlace::Archive;
        let logs = &self.c.logs;
        let mut kept = Vec::new();
        let ttl = self.c.options.wal_ttl_seconds;
        for number in logs.list(PLACE)? {
            let size = logs.size(number, PLACE)?;
            let too_old = ttl > 0 && now.saturating_sub(logs.modified(number, PLACE)?) > ttl;
            if too_old || size == 0 {
                self.delete_log(number, PLACE)?;
            } else {
                kept.push((number, size));
            }
        }
        let limit = self.c.options.wal_size_limit_mb.saturating_mul(MIB);
        if limit == 0 {
            return Ok(());
        }
        let mut total: u64 = kept.iter().map(|l| l.1).sum();
        for (number, size) in kept {
            if total <= limit {
                break;
            }
            self.delete_log(number, PLACE)?;
            total -= size;
        }
        Ok(())
    }
}
