//! Checks of write-ahead logs, judged by what was written down about their durability.
//!
//! Where a log cannot be read, a torn end and damage look alike. Witnesses in the log and its recorded
//! end tell which bytes had been durable ([`crate::recovery::LogJudge`]); what they prove is damage.
//! Without proof the end of the newest log may be torn, and everything else counts as damaged.

use super::report::{Finding, VerifyLevel};
use super::verifier::Verifier;
use crate::core::{Note, NotePlace, Witness};
use crate::recovery::LogJudge;
use spanlith_base::coding::{get_fixed32, get_fixed64};
use spanlith_base::{Error, FileNumber, Result, SubCode};
use spanlith_env::Env;
use spanlith_wal::{BatchIter, LogReader, ReadEvent};
use std::path::{Path, PathBuf};

/// A log that is verified.
#[derive(Clone, Debug)]
pub struct LogToVerify<'a> {
    /// Its number.
    pub number: FileNumber,
    /// As findings name it.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Id of the database, without which notes are not recognised.
    pub db_id: &'a str,
    /// Bytes known to have been synced; 0 if nothing is known.
    pub synced: u64,
    /// Bytes that are there, if somebody is writing after them; what comes after is not read.
    pub written: Option<u64>,
    /// Where a recovery cut it, if one did; what lies after does not count.
    pub cut: Option<u64>,
    /// No log follows it.
    pub is_newest: bool,
}

/// Describes what a log says of the MANIFEST: its number, and bytes of it that were durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Witnessed {
    /// Number of the MANIFEST that CURRENT named.
    pub number: FileNumber,
    /// Bytes of it that were durable.
    pub size: u64,
}

/// Of which database the notes in a log are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogOrigin {
    /// Of the one asked for.
    Ours,
    /// Of another one, or of other places: there are some, and none counts.
    Another,
    /// There are none.
    Unknown,
}

/// Asks the notes in a log whether it is of the database `db_id`. Damage is passed over.
///
/// # Errors
/// Those of the file.
pub fn log_origin(env: &Env, path: &Path, log: FileNumber, db_id: &str) -> Result<LogOrigin> {
    let mut reader = LogReader::new(env.fs.open_sequential(path)?, log);
    let mut origin = LogOrigin::Unknown;
    loop {
        match reader.next_event()? {
            ReadEvent::Record { offset, .. } => {
                let place = NotePlace { db_id, log, offset };
                if Note::of_batch(reader.record(), &place).is_some() {
                    return Ok(LogOrigin::Ours);
                }
                if Note::looks_like(reader.record()) {
                    origin = LogOrigin::Another;
                }
            }
            ReadEvent::Eof | ReadEvent::OldRecord { .. } => return Ok(origin),
            _ => {}
        }
    }
}

/// How the reading of a log went.
struct Walk<'l> {
    log: &'l LogToVerify<'l>,
    /// Nothing from here on counts.
    limit: u64,
    /// End of the last record.
    end: u64,
    /// Sequence number after the last batch.
    next_sequence: u64,
}

impl Verifier<'_> {
    /// Checks every record of a log, and that its batch decodes; for the quick level, that the log is as
    /// long as it had been. Returns what it says about the MANIFEST.
    ///
    /// # Errors
    /// `Aborted` if the verification is called off.
    pub fn log(&mut self, log: &LogToVerify<'_>) -> Result<Option<Witnessed>> {
        self.begin(&log.name)?;
        let size = match self.env.fs.size(&log.path) {
            Ok(size) => size,
            Err(e) if e.subcode() == Some(SubCode::PathNotFound) => {
                let what = match log.synced {
                    0 => "missing".to_string(),
                    n => format!("missing, though {n} bytes of it had been synced"),
                };
                self.add(Finding::damage(&log.name, None, what));
                return Ok(None);
            }
            Err(e) => {
                self.add(Finding::from_error(&log.name, None, &e));
                return Ok(None);
            }
        };
        self.report.logs += 1;
        if self.level() == VerifyLevel::Quick {
            let least = log.synced.max(log.written.unwrap_or(0));
            if size < least.min(log.cut.unwrap_or(u64::MAX)) {
                let what = format!("{size} bytes, {least} had been written");
                self.add(Finding::damage(&log.name, Some(size), what));
            }
            return Ok(None);
        }
        let file = match self.env.fs.open_sequential(&log.path) {
            Ok(file) => file,
            Err(e) => {
                self.add(Finding::from_error(&log.name, None, &e));
                return Ok(None);
            }
        };
        let limit = log.written.unwrap_or(u64::MAX);
        let mut walk = Walk {
            log,
            limit: limit.min(log.cut.unwrap_or(u64::MAX)),
            end: 0,
            next_sequence: 0,
        };
        let mut reader = LogReader::new(file, log.number);
        let mut judge = LogJudge::new(log.db_id, log.number, log.synced.min(walk.limit));
        let mut witnessed = None;
        loop {
            let before = reader.position();
            let event = reader.next_event();
            let read = reader.position().saturating_sub(before);
            self.pace(read);
            self.step(read)?;
            match event {
                Ok(ReadEvent::Record { offset, .. }) if offset >= walk.limit => break,
                Ok(ReadEvent::Record { offset, end }) => {
                    self.report.log_records += 1;
                    walk.end = end;
                    let note = judge.note(reader.record(), offset);
                    witnessed = witnessed.max(told_by(note));
                    if let Err(e) = walk.batch(reader.record()) {
                        self.add(Finding::from_error(&log.name, Some(offset), &e));
                    }
                }
                Ok(ReadEvent::Corruption { offset, .. } | ReadEvent::OldRecord { offset })
                    if offset >= walk.limit =>
                {
                    break;
                }
                Ok(ReadEvent::Corruption {
                    offset,
                    dropped,
                    kind,
                    tail,
                }) => {
                    let what = format!("{kind} ({dropped} bytes dropped)");
                    let from = reader.skipped_at().unwrap_or(offset).min(offset);
                    let place = (from, reader.is_recycled());
                    self.judge(&mut judge, &walk, place, Some((what, tail)));
                }
                Ok(ReadEvent::OldRecord { offset }) => {
                    self.judge(&mut judge, &walk, (offset, true), None);
                }
                Ok(ReadEvent::Eof) => {
                    if let Some(offset) = reader.skipped_at().filter(|&at| at < walk.limit) {
                        let place = (offset, reader.is_recycled());
                        self.judge(&mut judge, &walk, place, None);
                    }
                    let end = match reader.is_recycled() {
                        true => walk.end,
                        false => reader.position(),
                    };
                    self.ended(&judge, &walk, end);
                    break;
                }
                Ok(ReadEvent::TimestampSizes(_) | ReadEvent::Predecessor { .. }) => {}
                Err(e) => {
                    let at = reader.position();
                    self.add(Finding::from_error(&log.name, Some(at), &e));
                    break;
                }
            }
        }
        self.report.bytes += reader.position().min(walk.limit);
        let behind = judge.manifest().map(|m| Witnessed {
            number: m.number,
            size: m.size,
        });
        Ok(witnessed.max(behind))
    }

    /// Reading fails at a place, with an event that says what is wrong and whether it may be a torn end;
    /// without one, only proof makes it a finding.
    fn judge(
        &mut self,
        judge: &mut LogJudge<'_>,
        walk: &Walk<'_>,
        place: (u64, bool),
        event: Option<(String, bool)>,
    ) {
        let log = walk.log;
        let (offset, _) = place;
        let proof = match judge.fail(&self.env, &log.path, place, walk.next_sequence) {
            Ok(finding) => finding.proof(),
            Err(e) => {
                self.add(Finding::from_error(&log.name, Some(offset), &e));
                None
            }
        };
        let is_written = log.written.is_some();
        match (proof, event) {
            (Some(proof), Some((what, _))) => {
                let what = format!("{what}; {proof}");
                self.add(Finding::damage(&log.name, Some(offset), what));
            }
            (Some(proof), None) => {
                let what = format!("no record; {proof}");
                self.add(Finding::damage(&log.name, Some(offset), what));
            }
            (None, Some((what, true))) if log.is_newest && !is_written => {
                let what = format!("torn end, as after a crash: {what}");
                self.add(Finding::note(&log.name, Some(offset), what));
            }
            (None, Some((what, _))) => {
                self.add(Finding::damage(&log.name, Some(offset), what));
            }
            (None, None) => {}
        }
    }

    /// Reading ended at the end of the file.
    fn ended(&mut self, judge: &LogJudge<'_>, walk: &Walk<'_>, end: u64) {
        let log = walk.log;
        if let Some(proven) = judge.end(end).proven {
            let what = format!("ends here, though {proven} bytes of the log had been synced");
            self.add(Finding::damage(&log.name, Some(end), what));
        } else if let Some(written) = log.written
            && end < written.min(log.cut.unwrap_or(u64::MAX))
        {
            let what = format!("ends here, though {written} bytes had been written");
            self.add(Finding::damage(&log.name, Some(end), what));
        }
    }
}

fn told_by(note: Option<Note>) -> Option<Witnessed> {
    match note {
        Some(Note::Witness(Witness {
            manifest: Some(m), ..
        })) => Some(Witnessed {
            number: m.number,
            size: m.size,
        }),
        _ => None,
    }
}

impl Walk<'_> {
    /// Decodes a batch.
    fn batch(&mut self, record: &[u8]) -> Result<()> {
        let mut batch = BatchIter::new(record)?;
        batch.try_for_each(|op| op.map(drop))?;
        let (Some(sequence), Some(count)) = (get_fixed64(record, 0), get_fixed32(record, 8)) else {
            return Err(Error::corruption("log record too small"));
        };
        self.next_sequence = self.next_sequence.max(sequence + u64::from(count));
        Ok(())
    }
}
