//! Describes what replay of logs does next: a pure function of recovery mode and what the reader finds.
//!
//! | mode | torn tail | other damage | end of a recycled log |
//! |---|---|---|---|
//! | tolerate corrupted tail | skip | fail; end of log if the log is recycled and the damage is such as its old bytes cause | skip |
//! | absolute consistency | fail | fail | skip |
//! | point in time | stop | stop | stop |
//! | skip any | skip | skip | skip |
//!
//! *Stop* means: the rest of this log is dropped, and of the later ones only those are replayed that
//! continue the sequence without a gap. Without `paranoid_checks` damage is skipped in every mode.
//!
//! Damage to bytes that had been synced, by the evidence, does not come here in the first three modes:
//! it is reported ([`super::evidence`]).
//!
//! Beyond the modes stands what a mode must not hide: a batch that does not decode, a prepared
//! section that nobody asked for, a read error, and a sequence that runs backwards all fail.
//!
//! Invariants: WAL2. Pure: no I/O, no lock, no clock. The outcome tables of `fixtures/wal/recovery`
//! are its test.

use crate::options::WalRecoveryMode;
use spanlith_base::{Error, MAX_SEQUENCE, Result, SequenceNumber};
use spanlith_wal::ReadEvent;

/// Describes what to do with a record or an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A record: replay it. An event: go on reading.
    GoOn,
    /// Leave it out, for this reason, and go on reading.
    Skip(String),
    /// Drop the rest of this log and go on with the next.
    NextLog(String),
}

/// Describes what a log says of the one before it, or what was seen of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WalInfo {
    /// Its number.
    pub number: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Sequence number that its last batch begins with; 0 if it holds none.
    pub last_sequence: SequenceNumber,
}

/// Decides while logs are replayed in ascending order.
#[derive(Debug)]
pub(super) struct Decider {
    mode: WalRecoveryMode,
    paranoid: bool,
    /// Compare what logs say of their predecessors.
    verify: bool,
    /// Logs below this number may be missing.
    min_log: u64,
    /// Replay has stopped in this log.
    stopped: Option<u64>,
    next_sequence: Option<SequenceNumber>,
    /// Says what the writer of the last batch gave to the next, if that is not the same.
    given_next: Option<SequenceNumber>,
    log: u64,
    before: Option<WalInfo>,
    /// Sequence number that the last batch of the present log begins with.
    last_in_log: SequenceNumber,
}

impl Decider {
    /// Begins a replay; `min_log` is the lowest log that recovery needs.
    pub(super) fn new(mode: WalRecoveryMode, paranoid: bool, verify: bool, min_log: u64) -> Self {
        Self {
            mode,
            paranoid,
            verify,
            min_log,
            stopped: None,
            next_sequence: None,
            given_next: None,
            log: 0,
            before: None,
            last_in_log: 0,
        }
    }

    /// Log `number` comes next.
    pub(super) fn begin_log(&mut self, number: u64) {
        self.log = number;
        self.last_in_log = 0;
    }

    /// The present log, of `size` bytes, was read as far as it goes.
    pub(super) fn end_log(&mut self, size: u64) {
        self.before = Some(WalInfo {
            number: self.log,
            size,
            last_sequence: self.last_in_log,
        });
    }

    /// The log that ended last.
    pub(super) fn last_log(&self) -> Option<WalInfo> {
        self.before
    }

    /// The sequence number that a continuing batch has; `None` before the first.
    #[cfg(test)]
    pub(super) fn next_sequence(&self) -> Option<SequenceNumber> {
        self.next_sequence
    }

    /// An event that is no record. `recycled` is what the reader says of its file.
    pub(super) fn event(&mut self, event: &ReadEvent, recycled: bool) -> Result<Verdict> {
        match event {
            ReadEvent::Corruption { kind, tail, .. } => {
                let tolerate = self.mode == WalRecoveryMode::TolerateCorruptedTailRecords;
                if tolerate && *tail {
                    return Ok(Verdict::Skip(kind.to_string()));
                }
                if tolerate && recycled && kind.ends_recycled() {
                    return Ok(Verdict::NextLog(kind.to_string()));
                }
                let error = event.clone().into_error();
                self.damage(error.unwrap_or_else(|| Error::corruption(kind.to_string())))
            }
            ReadEvent::OldRecord { .. } if self.mode == WalRecoveryMode::PointInTimeRecovery => {
                Ok(self.stop("record of an older log".to_string()))
            }
            ReadEvent::Predecessor {
                log_number,
                size,
                last_sequence,
            } => {
                let recorded = WalInfo {
                    number: *log_number,
                    size: *size,
                    last_sequence: *last_sequence,
                };
                match self.mismatch(recorded) {
                    None => Ok(Verdict::GoOn),
                    Some(text) => self.damage(Error::corruption(text)),
                }
            }
            _ => Ok(Verdict::GoOn),
        }
    }

    /// The RocksDB text for a predecessor that is not what was seen; `None` if all is well.
    fn mismatch(&self, recorded: WalInfo) -> Option<String> {
        if !self.verify
            || self.mode == WalRecoveryMode::SkipAnyCorruptedRecords
            || self.stopped.is_some()
        {
            return None;
        }
        let number = recorded.number;
        let Some(seen) = self.before else {
            return (number >= self.min_log).then(|| format!("Missing WAL of log number {number}"));
        };
        if seen.number != number {
            return Some(format!(
                "Mismatched predecessor log number of WAL file {:06}.log Recorded {number}. \
                 Observed {}",
                self.log, seen.number
            ));
        }
        if seen.last_sequence != recorded.last_sequence {
            return Some(format!(
                "Mismatched last sequence number recorded in the WAL of log number {number}. \
                 Recorded {}. Observed {}. (Last sequence number equal to 0 indicates no WAL \
                 records)",
                recorded.last_sequence, seen.last_sequence
            ));
        }
        (seen.size != recorded.size).then(|| {
            format!(
                "Mismatched size of the WAL of log number {number}. Recorded {} bytes. Observed \
                 {} bytes.",
                recorded.size, seen.size
            )
        })
    }

    /// A record whose batch begins at `sequence`; asked before anything of it is used. `None` for
    /// a record too short for a batch.
    ///
    /// # Errors
    /// `Corruption` where the mode does not allow to go on.
    pub(super) fn record(&mut self, sequence: Option<SequenceNumber>) -> Result<Verdict> {
        let Some(sequence) = sequence else {
            return self.damage(Error::corruption("log record too small"));
        };
        if sequence > MAX_SEQUENCE {
            let text = format!("sequence {sequence} is too large");
            return self.damage(Error::corruption(text));
        }
        if self.mode == WalRecoveryMode::PointInTimeRecovery && self.stopped.is_some() {
            if ![self.next_sequence, self.given_next].contains(&Some(sequence)) {
                let why = "does not continue the sequence";
                return Ok(Verdict::NextLog(why.to_string()));
            }
            self.stopped = None;
        }
        Ok(Verdict::GoOn)
    }

    /// The batch asked for last, which begins at `sequence`, decodes and is about to be replayed; the
    /// batch after it has at least `next` as sequence number.
    ///
    /// # Errors
    /// `Corruption` if that is less than an earlier batch asked for, in every mode.
    pub(super) fn accept(&mut self, sequence: SequenceNumber, next: SequenceNumber) -> Result<()> {
        // W2, as far as the log shows it: the numbers of its records never go back.
        if let Some(before) = self.next_sequence.filter(|before| next < *before) {
            return Err(Error::corruption(format!(
                "Sequence number is being set backwards during recovery, this is likely a software \
                 bug or a data corruption. Prev next seqno: {before}, current next seqno: {next}"
            )));
        }
        self.last_in_log = sequence;
        self.next_sequence = Some(next);
        self.given_next = None;
        Ok(())
    }

    /// The batch accepted last says that it has so many entries. Its writer gave a number to each, also to range
    /// deletions of nothing, which replay gives none, in RocksDB as here: the next log of that writer begins
    /// after them, one of a writer that had replayed the batch before them.
    pub(super) fn given(&mut self, next: SequenceNumber) {
        self.given_next = Some(next);
    }

    /// A log of ours begins with a note about the log before it, which is missing or ended early, and
    /// nothing proves that its end was synced. `refuses`: what RocksDB would not notice is reported.
    ///
    /// # Errors
    /// `Corruption` in the modes that want all or nothing.
    pub(super) fn gap(&mut self, refuses: bool) -> Result<Verdict> {
        let why = "the log before it is missing or ended early";
        match self.mode {
            _ if !refuses => Ok(Verdict::GoOn),
            WalRecoveryMode::PointInTimeRecovery => Ok(self.stop(why.to_string())),
            WalRecoveryMode::SkipAnyCorruptedRecords => Ok(Verdict::GoOn),
            _ => Err(Error::corruption(why)),
        }
    }

    /// The sequence number that a record found after damage has at least.
    pub(super) fn least_sequence(&self) -> SequenceNumber {
        self.next_sequence.unwrap_or(0)
    }

    /// Returns whether damage to bytes that had been synced may be passed over: the mode asks for what can be
    /// had.
    pub(super) fn passes_over_proven(&self) -> bool {
        self.mode == WalRecoveryMode::SkipAnyCorruptedRecords
    }

    /// Something that decodes cannot be replayed, or bytes are damaged.
    ///
    /// # Errors
    /// `error` itself where the mode does not allow to go on.
    pub(super) fn damage(&mut self, error: Error) -> Result<Verdict> {
        match self.mode {
            WalRecoveryMode::SkipAnyCorruptedRecords => Ok(Verdict::Skip(error.to_string())),
            _ if !self.paranoid => Ok(Verdict::Skip(error.to_string())),
            WalRecoveryMode::PointInTimeRecovery => Ok(self.stop(error.to_string())),
            _ => Err(error),
        }
    }

    /// Returns whether errors are taken seriously.
    pub(super) fn is_paranoid(&self) -> bool {
        self.paranoid
    }

    fn stop(&mut self, why: String) -> Verdict {
        self.stopped = Some(self.log);
        Verdict::NextLog(why)
    }

    /// The log in which replay stopped, if none went on from there.
    pub(super) fn stopped_in(&self) -> Option<u64> {
        self.stopped
    }

    /// The check at the end: replay stopped, and a family has tables with later data. `families`
    /// yields name, log number and whether the family has tables.
    ///
    /// # Errors
    /// `Corruption` that names the first such family.
    pub(super) fn finish<'f>(
        &self,
        families: impl IntoIterator<Item = (&'f str, u64, bool)>,
    ) -> Result<()> {
        let Some(stopped) = self.stopped else {
            return Ok(());
        };
        for (name, log_number, has_tables) in families {
            // WAL2 and F2: what is recovered is a prefix, tables included.
            if log_number > stopped && has_tables {
                return Err(Error::corruption(format!(
                    "Column family inconsistency: SST file contains data beyond the point of \
                     corruption in CF {name}"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
