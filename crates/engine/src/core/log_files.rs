//! The logs that are on disk, archived ones included.

use super::state_mutex::StateMutex;
use super::{LogSet, Note, NotePlace};
use crate::version::filenames;
use spanlith_base::coding::get_fixed64;
use spanlith_base::{Error, FileNumber, Result, SequenceNumber};
use spanlith_env::{RandomAccessFile, SequentialFile};
use spanlith_wal::store::is_missing;
use spanlith_wal::{BATCH_HEADER_SIZE, LogPlace, LogReader, ReadEvent};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Live logs first: what moves meanwhile is found in the archive.
const PLACES: [LogPlace; 2] = [LogPlace::Live, LogPlace::Archive];

/// A log on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// Its number.
    pub number: FileNumber,
    /// Says whether it is in the archive: nothing in it is needed for recovery.
    pub is_archived: bool,
    /// Sequence number that its first record begins with; 0 if it has none.
    pub start_sequence: SequenceNumber,
    /// Its bytes.
    pub size: u64,
}

impl LogFile {
    /// Where it is below the directory of logs, with a leading `/`, as RocksDB says it.
    pub fn path_name(&self) -> String {
        let name = filenames::log_file_name(self.number);
        match self.is_archived {
            true => format!("/{}/{name}", filenames::ARCHIVE_DIR),
            false => format!("/{name}"),
        }
    }
}

/// A log that is read while it is written. It is held open: what it holds can be read when it has left its
/// directory, too.
pub(crate) struct FollowedLog {
    /// Its reader.
    pub(crate) reader: LogReader,
    number: FileNumber,
    file: Arc<dyn RandomAccessFile>,
}

impl FollowedLog {
    /// Reads what is there by now after `end`: 0, or the end of a record that its reader returned.
    pub(crate) fn read_on(&mut self, end: u64) -> Result<()> {
        if end == 0 {
            self.reader = LogReader::new(Rest::boxed(&self.file, 0), self.number);
            return Ok(());
        }
        let rest = Rest::boxed(&self.file, LogReader::block_of(end));
        self.reader.read_on(rest, end)
    }
}

/// A file from an offset on.
struct Rest {
    file: Arc<dyn RandomAccessFile>,
    offset: u64,
}

impl Rest {
    fn boxed(file: &Arc<dyn RandomAccessFile>, offset: u64) -> Box<dyn SequentialFile> {
        let file = file.clone();
        Box::new(Self { file, offset })
    }
}

impl SequentialFile for Rest {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let n = self.file.read_at(self.offset, buf)?;
        self.offset += n as u64;
        Ok(n)
    }
}

impl LogSet {
    /// Numbers of all logs, ascending, and whether each is archived. A log on its way to the archive
    /// may be listed at its old place.
    pub(crate) fn numbers(&self, state: &StateMutex) -> Result<BTreeMap<FileNumber, bool>> {
        let mut found = BTreeMap::new();
        let known = state.lock().logs.known();
        // The live ones first: what moves meanwhile is found in the archive.
        for place in PLACES {
            for n in self.store().list(place)? {
                // A log that is being made is nobody's yet.
                if known.has_contents(n) {
                    found.insert(n, place == LogPlace::Archive);
                }
            }
        }
        Ok(found)
    }

    /// Where the log is now; the archive if it went there.
    fn place(&self, number: FileNumber) -> Result<LogPlace> {
        match self.store().is_there(number, LogPlace::Live)? {
            true => Ok(LogPlace::Live),
            false => Ok(LogPlace::Archive),
        }
    }

    /// Returns what `open` makes of a log, whichever place it is in; `None` if it is in none.
    fn find_log<T>(&self, open: impl Fn(LogPlace) -> Result<T>) -> Result<Option<T>> {
        for place in PLACES {
            match open(place) {
                Ok(file) => return Ok(Some(file)),
                Err(e) if is_missing(&e) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }

    /// Opens a log wherever it is; `None` if it is gone.
    fn open_log(&self, number: FileNumber) -> Result<Option<LogReader>> {
        let file = self.find_log(|place| self.store().open(number, place))?;
        Ok(file.map(|file| LogReader::new(file, number)))
    }

    /// Opens a log to be read while it grows; `None` if it is gone.
    pub(crate) fn follow(&self, number: FileNumber) -> Result<Option<FollowedLog>> {
        let file = self.find_log(|place| self.store().open_random(number, place))?;
        Ok(file.map(|file| FollowedLog {
            reader: LogReader::new(Rest::boxed(&file, 0), number),
            number,
            file,
        }))
    }

    /// Sequence number that the first record of a log begins with.
    pub(crate) fn start_of(&self, number: FileNumber) -> Result<Option<SequenceNumber>> {
        let Some(mut reader) = self.open_log(number)? else {
            return Ok(None);
        };
        loop {
            match reader.next_event()? {
                // A log of nothing but notes of ours holds no record.
                ReadEvent::Record { offset, .. }
                    if reader.record().len() >= BATCH_HEADER_SIZE
                        && !self.is_own_note(reader.record(), number, offset) =>
                {
                    return Ok(get_fixed64(reader.record(), 0));
                }
                ReadEvent::Eof => return Ok(None),
                _ => {}
            }
        }
    }

    /// All logs that hold a record, oldest first.
    pub(crate) fn files(&self, state: &StateMutex) -> Result<Vec<LogFile>> {
        let mut files = Vec::new();
        for &number in self.numbers(state)?.keys() {
            let Some(start_sequence) = self.start_of(number)? else {
                continue;
            };
            let place = self.place(number)?;
            match self.store().size(number, place) {
                Ok(size) => files.push(LogFile {
                    number,
                    is_archived: place == LogPlace::Archive,
                    start_sequence,
                    size,
                }),
                Err(e) if is_missing(&e) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(files)
    }

    /// The log being written.
    pub(crate) fn current_file(&self, state: &StateMutex) -> Result<LogFile> {
        let newest = state.lock().logs.newest();
        let number = newest.ok_or_else(|| Error::io("the log is not open"))?;
        Ok(LogFile {
            number,
            is_archived: false,
            start_sequence: self.start_of(number)?.unwrap_or(0),
            size: self.store().size(number, LogPlace::Live)?,
        })
    }

    /// Returns whether the batch, whose record begins at `offset` of a log, is a note of ours.
    pub(crate) fn is_own_note(&self, rep: &[u8], log: FileNumber, offset: u64) -> bool {
        let place = NotePlace {
            db_id: self.db_id(),
            log,
            offset,
        };
        Note::of_batch(rep, &place).is_some()
    }
}
