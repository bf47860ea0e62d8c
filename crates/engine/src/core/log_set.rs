//! The files of the logs: the store they are in, those that are not synced yet, which of their names are durable, and the
//! archive.
//!
//! Which logs there are and which are needed says [`LogList`](super::LogList), under the state mutex. Nothing here takes
//! that mutex.
//!
//! A log that recovery does not need any more goes, as in RocksDB, to the pool of `recycle_log_file_num`, else to the
//! archive of `WAL_ttl_seconds` and `WAL_size_limit_MB`, else it is deleted. A log in the pool keeps its name, which is
//! below every number that recovery asks for, so after a crash it is an obsolete file like any other.

use super::Reporter;
use super::state::rank;
use crate::options::FixedDbOptions;
use spanlith_base::stats::Ticker;
use spanlith_base::sync::{Mutex, MutexGuard};
use spanlith_base::{FileNumber, Result};
use spanlith_env::{Clock, Unlinked};
use spanlith_wal::{LogPlace, LogStore, LogWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const MIB: u64 = 1 << 20;

/// Most seconds between two looks at the archive.
const PURGE_PERIOD: u64 = 600;

/// Parts of logs that an open did not replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DroppedRecords {
    pub bytes: u64,
    /// Records found in them.
    pub records: u64,
}

/// Which obsolete logs are kept for readers of changes.
#[derive(Clone, Copy, Debug)]
struct ArchiveRules {
    ttl_seconds: u64,
    size_max: u64,
}

/// See the head of the module.
pub(crate) struct LogSet {
    /// The logs, live and archived.
    store: Arc<dyn LogStore>,
    /// Where live logs are; the directory of the database unless the options name another.
    dir: PathBuf,
    /// Notes in logs name it.
    db_id: String,
    archive: ArchiveRules,
    /// That logs are gone is made durable.
    has_evidence: bool,
    /// Closed logs with bytes that were not synced, oldest first. A descriptor that wrote is the one that syncs.
    unsynced: Mutex<Vec<LogWriter>>,
    /// The names of logs up to this number are durable, of those that are there. Relaxed: at worst a directory is synced
    /// once more.
    durable_names: AtomicU64,
    /// When the archive was looked through last, in seconds; 0 is never. Relaxed, as the rest: hints and counters.
    archive_purged: AtomicU64,
    /// Some write is in no log: close flushes.
    lacks_writes: AtomicBool,
    /// Some family has timestamps: logs say how long they are.
    has_timestamps: AtomicBool,
    dropped_bytes: AtomicU64,
    dropped_records: AtomicU64,
}

impl LogSet {
    /// The logs of `store`, which are in `dir` and belong to the database `db_id`.
    pub(crate) fn new(
        store: Arc<dyn LogStore>,
        dir: PathBuf,
        db_id: &str,
        options: &FixedDbOptions,
    ) -> Self {
        Self {
            store,
            dir,
            db_id: db_id.to_string(),
            archive: ArchiveRules {
                ttl_seconds: options.wal_ttl_seconds,
                size_max: options.wal_size_limit_mb.saturating_mul(MIB),
            },
            has_evidence: options.own.evidence,
            unsynced: Mutex::new(rank::OLD_LOGS, Vec::new()),
            durable_names: AtomicU64::new(0),
            archive_purged: AtomicU64::new(0),
            lacks_writes: AtomicBool::new(false),
            has_timestamps: AtomicBool::new(false),
            dropped_bytes: AtomicU64::new(0),
            dropped_records: AtomicU64::new(0),
        }
    }

    /// The store: creates, opens, lists and deletes.
    pub(crate) fn store(&self) -> &dyn LogStore {
        &*self.store
    }

    /// The database that notes in logs name.
    pub(super) fn db_id(&self) -> &str {
        &self.db_id
    }

    /// Where live logs are.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Path of the live log of that number.
    pub(crate) fn path(&self, number: FileNumber) -> PathBuf {
        self.store.path(number, LogPlace::Live)
    }

    /// The token of closed logs that are not synced yet, oldest first. It may be held during I/O.
    pub(crate) fn unsynced(&self) -> MutexGuard<'_, Vec<LogWriter>> {
        self.unsynced.lock()
    }

    /// Returns whether all closed logs are synced.
    pub(crate) fn are_closed_synced(&self) -> bool {
        self.unsynced.lock().is_empty()
    }

    /// Returns whether all closed logs before `number` are synced.
    pub(crate) fn are_synced_before(&self, number: FileNumber) -> bool {
        let unsynced = self.unsynced.lock();
        unsynced.iter().all(|log| log.log_number() >= number)
    }

    /// Closes the writers of logs that are gone, synced or not: a descriptor that is closed later would cut the file at the
    /// end of what it wrote.
    pub(super) fn forget_unsynced(&self, dead: &[FileNumber]) {
        let mut unsynced = self.unsynced.lock();
        unsynced.retain(|l| !dead.contains(&l.log_number()));
    }

    /// Returns whether the name of the log, which is in the directory, is durable.
    #[inline]
    pub(crate) fn has_durable_name(&self, number: FileNumber) -> bool {
        self.durable_names.load(Ordering::Relaxed) >= number
    }

    /// The directory of logs was synced, and log `newest` had been in it before.
    pub(crate) fn names_are_durable(&self, newest: FileNumber) {
        self.durable_names.fetch_max(newest, Ordering::Relaxed);
    }

    /// Syncs the directory of logs unless the name of log `number`, which is in it, is durable. `newest` tells which is the
    /// newest log in it.
    ///
    /// # Errors
    /// Of that sync.
    pub(crate) fn settle_name(
        &self,
        number: FileNumber,
        newest: impl FnOnce() -> Option<FileNumber>,
    ) -> Result<()> {
        if self.has_durable_name(number) {
            return Ok(());
        }
        let newest = newest();
        self.store.sync_names(LogPlace::Live)?;
        self.names_are_durable(newest.map_or(number, |n| n.max(number)));
        Ok(())
    }

    /// Some write is in no log.
    #[inline]
    pub(crate) fn note_unlogged(&self) {
        // Looked at first: the line stays with all who write so.
        if !self.lacks_writes.load(Ordering::Relaxed) {
            self.lacks_writes.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether some write is in no log.
    pub(crate) fn lacks_writes(&self) -> bool {
        self.lacks_writes.load(Ordering::Relaxed)
    }

    /// Some family has timestamps: logs say how long they are from now on.
    pub(crate) fn note_timestamps(&self) {
        self.has_timestamps.store(true, Ordering::Relaxed);
    }

    /// Returns whether logs say how long timestamps are.
    #[inline]
    pub(crate) fn has_timestamps(&self) -> bool {
        self.has_timestamps.load(Ordering::Relaxed)
    }

    /// An open did not replay this.
    pub(crate) fn note_dropped(&self, dropped: DroppedRecords) {
        self.dropped_bytes
            .fetch_add(dropped.bytes, Ordering::Relaxed);
        self.dropped_records
            .fetch_add(dropped.records, Ordering::Relaxed);
    }

    /// The parts of logs that the open did not replay.
    pub(crate) fn dropped(&self) -> DroppedRecords {
        DroppedRecords {
            bytes: self.dropped_bytes.load(Ordering::Relaxed),
            records: self.dropped_records.load(Ordering::Relaxed),
        }
    }

    /// Returns whether obsolete logs are kept for readers of changes.
    pub(super) fn archives(&self) -> bool {
        self.archive.ttl_seconds > 0 || self.archive.size_max > 0
    }

    /// Moves an obsolete log to the archive, or deletes it. Returns what holds the contents of one that was deleted: to be
    /// dropped where nobody waits.
    ///
    /// # Errors
    /// Of the place where logs are.
    pub(crate) fn put_away(&self, number: FileNumber, reporter: &Reporter) -> Result<Unlinked> {
        if self.archives() {
            self.store.archive(number)?;
            return Ok(Unlinked::default());
        }
        self.delete(number, LogPlace::Live, reporter)
    }

    fn delete(&self, number: FileNumber, place: LogPlace, reporter: &Reporter) -> Result<Unlinked> {
        let unlinked = self.store.delete(number, place)?;
        reporter.tick(Ticker::FilesDeletedImmediately);
        Ok(unlinked)
    }

    /// Makes it durable that logs are gone: so a MANIFEST that asks for them again is known to have lost
    /// its last edits, whatever else a power loss took (`docs/formats/evidence.md`).
    pub(crate) fn sync_away(&self, reporter: &Reporter) {
        if !self.has_evidence {
            return;
        }
        let archived = match self.archives() {
            true => self.store.sync_names(LogPlace::Archive),
            false => Ok(()),
        };
        // Without it a power loss may bring them back, which harms nobody.
        if let Err(e) = archived.and_then(|()| self.store.sync_names(LogPlace::Live)) {
            let log = reporter.log();
            log.warn(format_args!("cannot sync the directory of logs: {e}"));
        }
    }

    /// Deletes archived logs that are too old or too many, at most every ten minutes (every half of
    /// their time to live, if that is less).
    pub(crate) fn purge_archive(&self, clock: &dyn Clock, reporter: &Reporter) {
        if !self.archives() {
            return;
        }
        let period = match self.archive.ttl_seconds {
            0 => PURGE_PERIOD,
            ttl => (ttl / 2).clamp(1, PURGE_PERIOD),
        };
        let now = clock.now_seconds();
        let last = self.archive_purged.load(Ordering::Relaxed);
        if last != 0 && now.saturating_sub(last) < period {
            return;
        }
        self.archive_purged.store(now, Ordering::Relaxed);
        if let Err(e) = self.purge_archive_at(now, reporter) {
            let log = reporter.log();
            log.warn(format_args!("the archive of logs: {e}"));
        }
    }

    fn purge_archive_at(&self, now: u64, reporter: &Reporter) -> Result<()> {
        const PLACE: LogPlace = LogPlace::Archive;
        let mut kept = Vec::new();
        let ttl = self.archive.ttl_seconds;
        for number in self.store.list(PLACE)? {
            let size = self.store.size(number, PLACE)?;
            let too_old = ttl > 0 && now.saturating_sub(self.store.modified(number, PLACE)?) > ttl;
            if too_old || size == 0 {
                self.delete(number, PLACE, reporter)?;
            } else {
                kept.push((number, size));
            }
        }
        let limit = self.archive.size_max;
        if limit == 0 {
            return Ok(());
        }
        let mut total: u64 = kept.iter().map(|l| l.1).sum();
        for (number, size) in kept {
            if total <= limit {
                break;
            }
            self.delete(number, PLACE, reporter)?;
            total -= size;
        }
        Ok(())
    }
}
