//! The changes of a database, read back from its logs.
//!
//! A write is in the logs until it is flushed, and in archived logs as long as
//! `WAL_ttl_seconds` and `WAL_size_limit_MB` say. Writes without log are never seen. Records that
//! logs begin with on our behalf are left out.

pub use crate::core::LogFile;

use super::Db;
use super::numbers::{Sections, Taken, is_repeated};
use crate::core::{Engine, FollowedLog, repeated_mark};
use crate::write::{Wal, WriteBatch};
use spanlith_base::coding::{get_fixed32, get_fixed64};
use spanlith_base::stats::Ticker;
use spanlith_base::{Error, ErrorKind, FileNumber, Result, SequenceNumber};
use spanlith_wal::{BATCH_HEADER_SIZE, ReadEvent};
use std::sync::Arc;

/// RocksDB's words for a part of the logs that is gone.
const GAP: &str = "Gap in sequence numbers";
/// And for changes that only another walk can find.
const TAIL: &str = "Create a new iterator to fetch the new tail.";

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
/// missing: they were removed, or written without log; what comes next follows after the gap. Every
/// other error repeats.
pub struct Changes {
    engine: Arc<Engine>,
    /// Sequence number that comes next; what was asked for until there was a change.
    next: SequenceNumber,
    /// There was a change.
    has_begun: bool,
    /// The log being read.
    log: FileNumber,
    /// The same, held open: until its end is known for certain it may lose its name.
    open: Option<FollowedLog>,
    /// The last log to be read, if not all that come are.
    last_log: Option<FileNumber>,
    /// A log after it, if one is known.
    following: Option<FileNumber>,
    /// End of the last record taken from the log.
    read_to: u64,
    /// A change that lies after a gap that was told, and what it took.
    held: Option<(Change, Taken)>,
    /// Says what was prepared and is not decided, as far as the walk has seen it.
    sections: Sections,
    /// Older logs were looked through for sections.
    has_searched: bool,
    /// Says what follows sections that were written before.
    repeated_mark: Vec<u8>,
    /// The change before took more numbers than it is known for: the next begins where it begins.
    is_loose: bool,
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes")
            .field("next", &self.next)
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}

/// Describes what comes of one look into a log.
enum Found {
    Change(Change, Taken),
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
        Wal::of(engine).write_out()?;
        let mut first = 0;
        for &n in engine.logs.numbers(&engine.state)?.keys() {
            match engine.logs.start_of(n)? {
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
            open: None,
            last_log: None,
            following: None,
            read_to: 0,
            held: None,
            sections: Sections::default(),
            has_searched: false,
            repeated_mark: repeated_mark(&engine.c.db_id),
            is_loose: false,
        })
    }

    /// Ends with the logs there are by now, as RocksDB's walks do. When changes were made that are in none of
    /// them, `TryAgain` is the answer instead of `None`.
    ///
    /// # Errors
    /// Those of reading the logs.
    pub fn within_logs(mut self) -> Result<Self> {
        let logs = self.engine.logs.numbers(&self.engine.state)?;
        self.last_log = logs.last_key_value().map(|l| *l.0);
        for &n in logs.keys().rev() {
            // One without a record is none to RocksDB.
            if self.engine.logs.start_of(n)?.is_some() {
                self.last_log = Some(n);
                break;
            }
        }
        Ok(self)
    }

    /// The next batch of the present log: the first one ends at or after `next`, the others begin there.
    fn look(&mut self, visible: SequenceNumber) -> Result<Found> {
        if self.open.is_none() {
            self.open = self.engine.logs.follow(self.log)?;
        }
        let Some(open) = &mut self.open else {
            return Ok(Found::End);
        };
        let mut is_fresh = false;
        loop {
            let (offset, end) = match open.reader.next_event()? {
                ReadEvent::Record { offset, end } => (offset, end),
                // The records that were read may be older than those that are visible.
                ReadEvent::Eof | ReadEvent::Corruption { .. } if !is_fresh => {
                    is_fresh = true;
                    open.read_on(self.read_to)?;
                    continue;
                }
                ReadEvent::Eof => return Ok(Found::End),
                // A tail that is being written, or was given up by recovery, looks like damage.
                _ => continue,
            };
            let reader = &open.reader;
            let rep = reader.record();
            let (Some(sequence), Some(count)) = (get_fixed64(rep, 0), get_fixed32(rep, 8)) else {
                continue;
            };
            if offset < self.read_to || rep.len() < BATCH_HEADER_SIZE {
                continue;
            }
            let batch = WriteBatch::from_bytes(rep);
            let mut taken = match &batch {
                Ok(batch) => self.sections.take(batch),
                Err(_) => Taken {
                    numbers: count.into(),
                    or_more: false,
                },
            };
            if taken.or_more
                && !self.has_searched
                && let Ok(batch) = &batch
            {
                self.has_searched = true;
                self.sections.add(sections_before(&self.engine, self.log)?);
                taken = self.sections.take(batch);
            }
            let last = (sequence + taken.numbers).saturating_sub(1);
            if last > visible {
                open.read_on(self.read_to)?;
                return Ok(Found::Unpublished);
            }
            self.read_to = end;
            let is_empty = count == 0;
            // A batch without updates ends before it begins: as in RocksDB it is shown after others, and
            // first only if everything was asked for.
            let is_before = match self.has_begun {
                true => sequence < self.next,
                false => last < self.next,
            };
            let is_ours = is_empty && self.engine.logs.is_own_note(rep, self.log, offset)
                || batch
                    .as_ref()
                    .is_ok_and(|b| is_repeated(b, &self.repeated_mark));
            if is_ours || is_before {
                if let Ok(batch) = &batch {
                    self.sections.forget(batch);
                }
                continue;
            }
            let batch = batch?;
            return Ok(Found::Change(Change { sequence, batch }, taken));
        }
    }

    fn step(&mut self) -> Result<Option<Change>> {
        if let Some((change, taken)) = self.held.take() {
            return Ok(Some(self.pass(change, &taken)));
        }
        loop {
            // Known before the look: a log that another follows gets no more records.
            let following = self.following;
            let visible = self.engine.visible();
            if visible == 0 || (self.has_begun && self.next > visible) {
                // Nothing but batches without updates could follow, which wait for one that has some.
                return Ok(None);
            }
            // Behind what is visible, so that all of it is in the file.
            Wal::of(&self.engine).write_out()?;
            match self.look(visible)? {
                Found::Change(change, taken)
                    if change.sequence > self.next.max(1) && !self.is_loose =>
                {
                    self.held = Some((change, taken));
                    return Err(Error::new(ErrorKind::NotFound, GAP));
                }
                Found::Change(change, taken) => return Ok(Some(self.pass(change, &taken))),
                Found::Unpublished => return Ok(None),
                Found::End => {}
            }
            if let Some(following) = following {
                self.log = following;
                self.open = None;
                self.read_to = 0;
                self.find_following()?;
                continue;
            }
            self.find_following()?;
            if self.following.is_none() {
                return match self.last_log {
                    Some(_) if self.has_begun => Err(Error::new(ErrorKind::TryAgain, TAIL)),
                    _ => Ok(None),
                };
            }
        }
    }

    fn find_following(&mut self) -> Result<()> {
        let logs = self.engine.logs.numbers(&self.engine.state)?;
        let after = logs.range(self.log + 1..).next().map(|l| *l.0);
        self.following = after.filter(|&n| self.last_log.is_none_or(|last| n <= last));
        Ok(())
    }

    fn pass(&mut self, change: Change, taken: &Taken) -> Change {
        self.next = self.next.max(change.sequence + taken.numbers);
        self.is_loose = taken.or_more;
        self.sections.forget(&change.batch);
        self.has_begun = true;
        change
    }
}

/// Returns what was prepared in logs before that one and is not decided there.
fn sections_before(engine: &Engine, log: FileNumber) -> Result<Sections> {
    let mut sections = Sections::default();
    for (&number, _) in engine.logs.numbers(&engine.state)?.range(..log) {
        let Some(mut older) = engine.logs.follow(number)? else {
            continue;
        };
        loop {
            match older.reader.next_event()? {
                ReadEvent::Record { .. } => {
                    if let Ok(batch) = WriteBatch::from_bytes(older.reader.record()) {
                        sections.take(&batch);
                        sections.forget(&batch);
                    }
                }
                ReadEvent::Eof => break,
                _ => {}
            }
        }
    }
    Ok(sections)
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
        self.engine().reporter.tick(Ticker::GetupdatessinceCalls);
        Changes::new(self.engine(), since)
    }

    /// All logs that hold a record, archived ones included, oldest first.
    ///
    /// # Errors
    /// Those of reading the logs.
    pub fn log_files(&self) -> Result<Vec<LogFile>> {
        self.engine().logs.files(&self.engine().state)
    }

    /// The log being written.
    ///
    /// # Errors
    /// Those of reading it; `Io` if the database is closed.
    pub fn current_log_file(&self) -> Result<LogFile> {
        self.engine().logs.current_file(&self.engine().state)
    }
}
