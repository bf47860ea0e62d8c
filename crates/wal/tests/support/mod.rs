//! Files in memory for the tests of this crate, and small helpers.
#![allow(dead_code, reason = "each test binary uses its part")]

use spanlith_base::{Error, Result};
use spanlith_env::{SequentialFile, WritableFile};
use spanlith_wal::{LogOptions, LogReader, LogWriter, ReadEvent};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Describes what a [`MemFile`] was told.
#[derive(Debug, Default)]
pub struct State {
    pub bytes: Vec<u8>,
    pub appends: usize,
    pub synced: usize,
    /// The append that fails, from 1; every later call fails too, as a poisoned file does.
    pub fail_at: Option<usize>,
    pub poisoned: bool,
}

/// A file whose contents the test can see.
#[derive(Clone, Debug, Default)]
pub struct MemFile(pub Arc<Mutex<State>>);

impl MemFile {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().bytes.clone()
    }

    /// A writer at the end of this file.
    pub fn writer(&self) -> LogWriter {
        LogWriter::new(Box::new(Sink(self.clone(), PathBuf::from("000001.log"))), 1)
    }

    /// A writer of log `number` at the end of this file, in the given form.
    pub fn writer_with(&self, number: u64, options: LogOptions) -> LogWriter {
        let sink = Sink(self.clone(), PathBuf::from("000001.log"));
        LogWriter::new_with(Box::new(sink), number, options).unwrap()
    }
}

struct Sink(MemFile, PathBuf);

impl WritableFile for Sink {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let mut s = self.0.0.lock().unwrap();
        s.appends += 1;
        if s.poisoned || s.fail_at.is_some_and(|n| s.appends >= n) {
            s.poisoned = true;
            return Err(Error::io("no space"));
        }
        s.bytes.extend_from_slice(data);
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        let mut s = self.0.0.lock().unwrap();
        if s.poisoned {
            return Err(Error::io("no space"));
        }
        s.synced = s.bytes.len();
        Ok(())
    }
    fn len(&self) -> u64 {
        self.0.0.lock().unwrap().bytes.len() as u64
    }
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
    fn path(&self) -> &Path {
        &self.1
    }
}

/// Bytes read in pieces of at most `piece` bytes; an error instead of the byte at `fail_at`.
pub struct Source {
    pub bytes: Vec<u8>,
    pub pos: usize,
    pub piece: usize,
    pub fail_at: Option<usize>,
}

impl Source {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            bytes: bytes.into(),
            pos: 0,
            piece: usize::MAX,
            fail_at: None,
        }
    }

    pub fn boxed(bytes: impl Into<Vec<u8>>) -> Box<dyn SequentialFile> {
        Box::new(Self::new(bytes))
    }
}

impl SequentialFile for Source {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        if self.fail_at.is_some_and(|at| self.pos >= at) {
            return Err(Error::io("bad sector"));
        }
        let n = buf.len().min(self.piece).min(self.bytes.len() - self.pos);
        buf[..n].copy_from_slice(&self.bytes[self.pos..self.pos + n]);
        self.pos += n;
        Ok(n)
    }
}

/// A record: offset, end, bytes.
pub type Found = (u64, u64, Vec<u8>);

/// All records; panics on any other event.
pub fn records(bytes: &[u8], number: u64) -> Vec<Found> {
    let mut reader = LogReader::new(Source::boxed(bytes), number);
    let mut found = Vec::new();
    loop {
        match reader.next_event().unwrap() {
            ReadEvent::Record { offset, end } => {
                found.push((offset, end, reader.record().to_vec()));
            }
            ReadEvent::Eof => return found,
            other => panic!("{other:?}"),
        }
    }
}

/// Records and other events, until the end of the log.
pub fn events(mut reader: LogReader) -> (Vec<Found>, Vec<ReadEvent>) {
    let (mut found, mut other) = (Vec::new(), Vec::new());
    let mut scratch = Vec::new();
    loop {
        match reader.read(&mut scratch).unwrap() {
            ReadEvent::Record { offset, end } => {
                assert_eq!(reader.record(), scratch);
                found.push((offset, end, scratch.clone()));
            }
            ReadEvent::Eof => {
                assert_eq!(reader.next_event().unwrap(), ReadEvent::Eof);
                return (found, other);
            }
            event => {
                assert!(scratch.is_empty() && reader.record().is_empty());
                other.push(event);
            }
        }
    }
}
