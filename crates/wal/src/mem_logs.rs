//! The double of [`FileLogs`](crate::FileLogs) for tests: logs in memory, and a power loss that keeps what was synced.
//!
//! Threads: any.

use crate::store::{LogPlace, LogStore};
use spanlith_base::sync::Mutex;
use spanlith_base::{Error, Result, SubCode};
use spanlith_env::{RandomAccessFile, SequentialFile, Unlinked, WritableFile};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Above all callers' ranks; nothing is called under it.
const RANK: u8 = 95;

#[derive(Debug, Default)]
struct Contents {
    bytes: Vec<u8>,
    synced: usize,
}

type Shared = Arc<Mutex<Contents>>;
type Logs = BTreeMap<(u64, LogPlace), Shared>;

#[derive(Default)]
struct State {
    logs: Logs,
    /// Names as of the last sync.
    durable: Logs,
}

/// Logs in memory. `clone` is another handle to the same store.
#[derive(Clone)]
pub struct MemLogs(Arc<Mutex<State>>);

impl Default for MemLogs {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(RANK, State::default())))
    }
}

impl MemLogs {
    /// No logs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes what a power loss leaves: logs whose names were synced, with the bytes that were.
    pub fn lose_power(&self) {
        let mut state = self.0.lock();
        state.logs = state.durable.clone();
        for log in state.logs.values() {
            let kept = log.lock().synced;
            log.lock().bytes.truncate(kept);
        }
    }

    fn get(&self, number: u64, place: LogPlace) -> Result<Shared> {
        let found = self.0.lock().logs.get(&(number, place)).cloned();
        found.ok_or_else(|| {
            Error::io("no such log")
                .with_subcode(SubCode::PathNotFound)
                .with_path(&self.path(number, place))
        })
    }

    fn writer(&self, number: u64, log: Shared, at: usize) -> Box<dyn WritableFile> {
        let path = self.path(number, LogPlace::Live);
        Box::new(MemLog { log, at, path })
    }
}

struct MemLog {
    log: Shared,
    at: usize,
    path: PathBuf,
}

impl WritableFile for MemLog {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let bytes = &mut self.log.lock().bytes;
        let end = self.at + data.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[self.at..end].copy_from_slice(data);
        self.at = end;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let mut log = self.log.lock();
        log.synced = log.bytes.len();
        Ok(())
    }

    fn len(&self) -> u64 {
        self.at as u64
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.at = usize::try_from(len).unwrap_or(usize::MAX);
        self.log.lock().bytes.resize(self.at, 0);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

struct MemLogReader {
    log: Shared,
    at: u64,
    path: PathBuf,
}

impl RandomAccessFile for MemLogReader {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let log = self.log.lock();
        let begin = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = log.bytes.get(begin..).unwrap_or_default();
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn size(&self) -> u64 {
        self.log.lock().bytes.len() as u64
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl SequentialFile for MemLogReader {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let n = self.read_at(self.at, buf)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl MemLogs {
    fn reader(&self, number: u64, place: LogPlace) -> Result<MemLogReader> {
        Ok(MemLogReader {
            log: self.get(number, place)?,
            at: 0,
            path: self.path(number, place),
        })
    }
}

impl LogStore for MemLogs {
    fn create(&self, number: u64) -> Result<Box<dyn WritableFile>> {
        let log = Arc::new(Mutex::new(RANK + 1, Contents::default()));
        let key = (number, LogPlace::Live);
        self.0.lock().logs.insert(key, Arc::clone(&log));
        Ok(self.writer(number, log, 0))
    }

    fn recycle(&self, old: u64, number: u64) -> Result<Box<dyn WritableFile>> {
        let log = self.get(old, LogPlace::Live)?;
        let mut state = self.0.lock();
        state.logs.remove(&(old, LogPlace::Live));
        let key = (number, LogPlace::Live);
        state.logs.insert(key, Arc::clone(&log));
        Ok(self.writer(number, log, 0))
    }

    fn reopen(&self, number: u64) -> Result<Box<dyn WritableFile>> {
        let log = self.get(number, LogPlace::Live)?;
        let end = log.lock().bytes.len();
        Ok(self.writer(number, log, end))
    }

    fn open(&self, number: u64, place: LogPlace) -> Result<Box<dyn SequentialFile>> {
        Ok(Box::new(self.reader(number, place)?))
    }

    fn open_random(&self, number: u64, place: LogPlace) -> Result<Arc<dyn RandomAccessFile>> {
        Ok(Arc::new(self.reader(number, place)?))
    }

    fn is_there(&self, number: u64, place: LogPlace) -> Result<bool> {
        Ok(self.0.lock().logs.contains_key(&(number, place)))
    }

    fn size(&self, number: u64, place: LogPlace) -> Result<u64> {
        Ok(self.get(number, place)?.lock().bytes.len() as u64)
    }

    fn modified(&self, number: u64, place: LogPlace) -> Result<u64> {
        self.get(number, place).map(|_| 0)
    }

    fn list(&self, place: LogPlace) -> Result<Vec<u64>> {
        let state = self.0.lock();
        let keys = state.logs.keys().filter(|key| key.1 == place);
        Ok(keys.map(|key| key.0).collect())
    }

    fn archive(&self, number: u64) -> Result<()> {
        let log = self.get(number, LogPlace::Live)?;
        let mut state = self.0.lock();
        state.logs.remove(&(number, LogPlace::Live));
        state.logs.insert((number, LogPlace::Archive), log);
        Ok(())
    }

    fn delete(&self, number: u64, place: LogPlace) -> Result<Unlinked> {
        self.get(number, place)?;
        self.0.lock().logs.remove(&(number, place));
        Ok(Unlinked::default())
    }

    fn sync_names(&self, place: LogPlace) -> Result<()> {
        let mut state = self.0.lock();
        let now: Logs = state
            .logs
            .iter()
            .map(|(k, v)| (*k, Arc::clone(v)))
            .collect();
        state.durable.retain(|key, _| key.1 != place);
        state
            .durable
            .extend(now.into_iter().filter(|(key, _)| key.1 == place));
        Ok(())
    }

    fn path(&self, number: u64, place: LogPlace) -> PathBuf {
        PathBuf::from(format!("{place:?}/{number:06}.log"))
    }
}
