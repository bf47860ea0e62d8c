//! The changes of a database, read back from its logs.
//!
//! What was written is in the logs until it is flushed, and in archived logs as long as
//! `WAL_ttl_seconds` and `WAL_size_limit_MB` say. Writes without log are never seen. Records that
//! logs begin with on our behalf are left out.

pub use crate::core::LogFile;

use super::Db;
use crate::core::Engine;
use crate::write::WriteBatch;
use spanlith_base::coding::{get_fixed32, get_fixed64};
use spanlith_base::stats::Ticker;
use spanlith_base::{Error, ErrorKind, FileNumber, Result, SequenceNumber};
use spanlith_wal::{BATCH_HEADER_SIZE, LogReader, ReadEvent};
use std::sync::Arc;

/// RocksDB's words for a part of the logs that is gone.
const GAP: &str = "Gap in sequence numbers";

/// One batch as it was logged. Batches that were written at the same time may be one.
#[derive(Clone, Debug)]
pub struct Change {
    /// Sequence number of its first update.
    pub sequence: SequenceNumber,
    /// Its updates.
    pub batch: WriteBatch,
}

/// Walks the changes of a database in the order of their sequence numbers; see [`Db::changes`].
///
/// After `None`, changes that were written since then follow. `NotFound` says once that changes are
/// missing: they were removed, or written without log; what comes next follows behind the gap. Every
/// other error repeats.
pub struct Changes {
    engine: Arc<Engine>,
    /// Sequence number that comes next; what was asked for until there was a change.
    next: SequenceNumber,
    /// There was a change.
    has_begun: bool,
    /// The log being read.
    log: FileNumber,
    reader: Option<LogReader>,
    /// A log behind it, if one is known.
    following: Option<FileNumber>,
    /// End of the last record taken from the log.
    read_to: u64,
    /// A change that lies behind a gap that was told.
    held: Option<Change>,
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes")
            .field("next", &self.next)
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}

/// What comes of one look into a log.
enum Found {
    Change(Change),
    /// The log ends here, for now, or is gone.
    End,
    /// The next record is not visible yet.
    Unpublished,
}

impl Changes {
    fn new(engine: &Arc<Engine>, since: SequenceNumber) -> Result<Self> {
        if since > engine.visible() {
            return Err(Error::new(
                ErrorKind::NotFound,
                "Requested sequence not yet written in the db",
            ));
        }
        let mut first = 0;
        for &n in engine.log_numbers()?.keys() {
            match engine.start_of_log(n)? {
                Some(start) if first == 0 || start <= since => first = n,
                Some(_) => break,
                None => {}
            }
        }
        Ok(Self {
            engine: engine.clone(),
            next: since,
            has_begun: false,
            log: first,
            reader: None,
            following: None,
            read_to: 0,
            held: None,
        })
    }

    /// The next batch of the present log: the first one ends at or behind `next`, the others begin there.
    fn look(&mut self, visible: SequenceNumber) -> Result<Found> {
        if self.reader.is_none() {
            self.reader = self.engine.open_log(self.log)?;
        }
        let Some(reader) = &mut self.reader else {
            return Ok(Found::End);
        };
        loop {
            let (offset, end) = match reader.next_event()? {
                ReadEvent::Record { offset, end } => (offset, end),
                ReadEvent::Eof => {
                    // What is appended later is read by another reader.
                    self.reader = None;
                    return Ok(Found::End);
                }
                // A tail that is being written, or was given up by recovery, looks like damage.
                _ => continue,
            };
            let rep = reader.record();
            let (Some(sequence), Some(count)) = (get_fixed64(rep, 0), get_fixed32(rep, 8)) else {
                continue;
            };
            if offset < self.read_to || rep.len() < BATCH_HEADER_SIZE {
                continue;
            }
            let last = (sequence + u64::from(count)).saturating_sub(1);
            if last > visible {
                self.reader = None;
                return Ok(Found::Unpublished);
            }
            self.read_to = end;
            let is_empty = count == 0;
            // A batch without updates ends before it begins: as in RocksDB it is shown behind others, and
            // first only if everything was asked for.
            let is_before = match self.has_begun {
                true => sequence < self.next,
                false => last < self.next,
            };
            if (is_empty && self.engine.is_own_note(rep, self.log, offset)) || is_before {
                continue;
            }
            let batch = WriteBatch::from_bytes(rep)?;
            return Ok(Found::Change(Change { sequence, batch }));
        }
    }

    fn step(&mut self) -> Result<Option<Change>> {
        if let Some(change) = self.held.take() {
            return Ok(Some(self.pass(change)));
        }
        if self.engine.c.options.manual_wal_flush {
            self.engine.flush_wal(false)?;
        }
        loop {
            // Known before the look: a log that another follows gets no more records.
            let following = self.following;
            let visible = self.engine.visible();
            if visible == 0 || (self.has_begun && self.next > visible) {
                // Nothing but batches without updates could follow, which wait for one that has some. The
                // reader may hold an end of the log that is none by then.
                self.reader = None;
                return Ok(None);
            }
            match self.look(visible)? {
                Found::Change(change) if change.sequence > self.next.max(1) => {
                    self.held = Some(change);
                    return Err(Error::new(ErrorKind::NotFound, GAP));
                }
                Found::Change(change) => return Ok(Some(self.pass(change))),
                Found::Unpublished => return Ok(None),
                Found::End => {}
            }
            if let Some(following) = following {
                self.log = following;
                self.reader = None;
                self.read_to = 0;
                self.find_following()?;
                continue;
            }
            self.find_following()?;
            if self.following.is_none() {
                return Ok(None);
            }
        }
    }

    fn find_following(&mut self) -> Result<()> {
        let logs = self.engine.log_numbers()?;
        let after = logs.range(self.log + 1..).next();
        self.following = after.map(|l| *l.0);
        Ok(())
    }

    fn pass(&mut self, change: Change) -> Change {
        let count = get_fixed32(change.batch.as_bytes(), 8).unwrap_or(0);
        self.next = self.next.max(change.sequence + u64::from(count));
        self.has_begun = true;
        change
    }
}

impl Iterator for Changes {
    type Item = Result<Change>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

impl Db {
    /// The changes from sequence number `since` on (0 or 1: from the first), as far as logs and
    /// archived logs have them.
    ///
    /// # Errors
    /// `NotFound` if nothing that new was written yet; those of reading the logs.
    pub fn changes(&self, since: SequenceNumber) -> Result<Changes> {
        self.engine().tick_statistic(Ticker::GetupdatessinceCalls);
        Changes::new(self.engine(), since)
    }

    /// All logs that hold a record, archived ones included, oldest first.
    ///
    /// # Errors
    /// Those of reading the logs.
    pub fn log_files(&self) -> Result<Vec<LogFile>> {
        self.engine().log_files()
    }

    /// The log being written.
    ///
    /// # Errors
    /// Those of reading it; `Io` if the database is closed.
    pub fn current_log_file(&self) -> Result<LogFile> {
        self.engine().current_log_file()
    }
}
