//! The log being written: its file, how much it holds, and its witnesses. Guarded by write leadership.
//!
//! Records are put together in `write/record.rs`; `witness.rs` says when a witness goes before one of them. A sync makes
//! earlier logs durable first, then this one, then, once per log, the directory (reliability 2.6).

use super::Lsm;
use super::notes::NotePlace;
use super::witness::WitnessClock;
use spanlith_base::stats::Ticker;
use spanlith_base::{Error, FileNumber, Result, SequenceNumber};
use spanlith_wal::LogWriter;

/// See the head of the module.
pub(crate) struct CurrentLog {
    /// `None` after close or a failed creation.
    pub(super) writer: Option<LogWriter>,
    /// Bytes of batches appended to it.
    pub(super) bytes: u64,
    /// Bytes that it may have before somebody looks whether all logs together are too large.
    room: u64,
    /// Sequence number that its last record begins with; 0 if it has none.
    pub(super) last_record: SequenceNumber,
    /// Says what it has in witnesses.
    pub(super) witness: WitnessClock,
}

impl CurrentLog {
    /// There is none yet.
    pub(crate) fn none() -> Self {
        Self {
            writer: None,
            bytes: 0,
            // Looked at by the first write.
            room: 0,
            last_record: 0,
            witness: WitnessClock::new(None),
        }
    }

    /// The writer of its file, if there is one.
    #[inline]
    pub(crate) fn writer(&self) -> Option<&LogWriter> {
        self.writer.as_ref()
    }

    /// As [`Self::writer`], to append to it. What batches it gets is told by [`Self::note_batches`].
    ///
    /// # Errors
    /// `Io` if there is none.
    #[inline]
    pub(crate) fn open_writer(&mut self) -> Result<&mut LogWriter> {
        self.writer.as_mut().ok_or_else(no_log)
    }

    /// Its number; 0 if there is none.
    pub(crate) fn number(&self) -> FileNumber {
        self.writer.as_ref().map_or(0, LogWriter::log_number)
    }

    /// Bytes of batches in it; 0 if it holds notes only.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sequence number that its last record begins with.
    #[inline]
    pub(crate) fn last_record(&self) -> SequenceNumber {
        self.last_record
    }

    /// A record of batches was added that begins with sequence number `first`.
    #[inline]
    pub(crate) fn note_batches(&mut self, bytes: usize, first: SequenceNumber) {
        debug_assert!(
            self.writer.as_ref().is_some_and(|log| !log.is_empty()),
            "W1: what counts as logged is in a log"
        );
        debug_assert!(
            first >= self.last_record,
            "W2: {first} is logged after {}",
            self.last_record
        );
        self.bytes += bytes as u64;
        self.last_record = first;
    }

    /// Returns whether somebody has to look whether all logs together are too large.
    #[inline]
    pub(crate) fn is_out_of_room(&self) -> bool {
        self.bytes >= self.room
    }

    /// Bytes that it may have until [`Self::is_out_of_room`]; 0 has the next write look.
    pub(crate) fn set_room(&mut self, bytes: u64) {
        self.room = bytes;
    }

    /// Returns whether a record needs nothing in front of it, and nobody has to look at all logs.
    pub(crate) fn takes_plain_records(&self) -> bool {
        !self.is_out_of_room() && !self.witness_may_be_due()
    }

    /// Returns whether all of it is durable; false if there is none.
    pub(crate) fn is_synced(&self) -> bool {
        self.writer.as_ref().is_some_and(LogWriter::is_synced)
    }

    /// Writes to `new` from now on, which holds `bytes` of batches and ends with a record that begins with `last_record`.
    /// Returns the writer of the log before.
    pub(crate) fn begin(
        &mut self,
        lsm: &Lsm,
        new: LogWriter,
        bytes: u64,
        last_record: SequenceNumber,
    ) -> Option<LogWriter> {
        self.bytes = bytes;
        // The next write looks at the logs together.
        self.room = 0;
        self.last_record = last_record;
        self.witness = WitnessClock::new(lsm.witness_spacing());
        self.writer.replace(new)
    }

    /// Ends it: there is none afterwards.
    pub(crate) fn end(&mut self) -> Option<LogWriter> {
        self.writer.take()
    }

    /// The next record is going to be synced.
    pub(crate) fn expect_sync(&mut self) {
        if let Some(log) = &mut self.writer {
            log.expect_sync();
        }
    }

    /// Hands records that `manual_wal_flush` holds back to the operating system.
    ///
    /// # Errors
    /// Of the file.
    pub(crate) fn flush(&mut self) -> Result<()> {
        match &mut self.writer {
            None => Ok(()),
            Some(log) => log.flush(),
        }
    }

    /// Makes everything logged so far durable (W6).
    ///
    /// # Errors
    /// Of the files; `Io` if there is no log.
    pub(crate) fn sync(&mut self, lsm: &Lsm) -> Result<()> {
        lsm.sync_old_logs()?;
        let log = self.open_writer()?;
        log.sync()?;
        lsm.settle_log_name(log.log_number())?;
        debug_assert!(log.is_synced(), "W6: a sync leaves nothing in the log");
        self.expect_witness(lsm);
        Ok(())
    }

    /// Where the next record goes, for notes.
    pub(super) fn place_in<'a>(lsm: &'a Lsm, log: &LogWriter) -> NotePlace<'a> {
        NotePlace {
            db_id: &lsm.c.db_id,
            log: log.log_number(),
            offset: log.next_offset(),
        }
    }
}

impl Lsm {
    /// Syncs and closes the logs before the current one, oldest first.
    ///
    /// # Errors
    /// Of the files, and of recording in the MANIFEST that they are synced.
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
}

#[cold]
fn no_log() -> Error {
    Error::io("the log is not open")
}
