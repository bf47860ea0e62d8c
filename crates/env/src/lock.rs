//! The LOCK file: one database, one process, one handle.
//!
//! Between processes the lock is a POSIX write lock over the whole file, as RocksDB takes it, so that
//! the two exclude each other. POSIX locks belong to the process: a second request of the same
//! process succeeds, and closing *any* descriptor of the file gives the lock up. Hence the table of
//! this process, which is consulted before the file is opened, by path and by inode (a path may lead
//! to the same file through a link).
//!
//! A holder may delete the file before it lets go (destroying a database does). Whoever opened the old
//! file meanwhile gets a lock nobody else will ask for; it is told by the inode, and the request is
//! repeated.
//!
//! A child made by `fork` inherits descriptors of lock files, but no lock: it has a table of its own, and closing what it
//! inherited gives nothing up.
//!
//! Threads: any. The table's mutex is held across the system calls, because a close between another
//! thread's look and its open would release the lock; they do not block.

use crate::errors;
use crate::process::{PerProcess, Process};
use crate::sys::{self, Holder, again};
use crate::traits::FileLock;
use spanlith_base::sync::{Mutex, MutexGuard};
use spanlith_base::{Error, Result, SubCode};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Above the ranks of all callers; nothing is locked under it.
const RANK: u8 = 95;

/// How often a lock that turned out to be of a deleted file is asked for again.
const TRIES_MAX: usize = 100;

/// Of this process alone: a child inherits descriptors, but no lock.
static TABLE: PerProcess<Mutex<BTreeMap<PathBuf, Held>>> = PerProcess::new();

fn table() -> MutexGuard<'static, BTreeMap<PathBuf, Held>> {
    TABLE
        .get_or_init(|| Mutex::new(RANK, BTreeMap::new()))
        .lock()
}

/// Device and inode number.
type Identity = (u64, u64);

/// Describes who took the lock, for the message to the second comer.
struct Held {
    identity: Identity,
    seconds: u64,
    thread: u64,
}

/// A lock that a process holds.
struct PosixLock {
    process: Process,
    identity: Identity,
    key: PathBuf,
    file: Option<File>,
}

impl FileLock for PosixLock {}

impl Drop for PosixLock {
    fn drop(&mut self) {
        let mut table = table();
        if !self.process.is_current() {
            // The lock is the parent's. Closing its file here would give up the one that this process may have taken
            // since.
            let is_held = table.values().any(|held| held.identity == self.identity);
            if is_held {
                std::mem::forget(self.file.take());
            }
            return;
        }
        if let Some(file) = self.file.take() {
            // Closing releases the lock even if unlocking failed.
            let _ = sys::unlock(&file);
            drop(file);
        }
        table.remove(&self.key);
    }
}

/// Takes the lock on `path`, creating the file if it is missing.
pub(crate) fn lock(path: &Path) -> Result<Box<dyn FileLock>> {
    let mut table = table();
    for _ in 0..TRIES_MAX {
        let key = key_of(path);
        let there = again(|| std::fs::metadata(path)).ok().map(|m| identity(&m));
        let held = table
            .get(&key)
            .or_else(|| table.values().find(|held| Some(held.identity) == there));
        if let Some(held) = held {
            return Err(errors::held_by_us(path, held.seconds, held.thread));
        }
        let file = open(path)?;
        if let Err(e) = sys::lock(&file) {
            if !matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) {
                return Err(Error::from_io(errors::LOCK, path, e));
            }
            match sys::lock_holder(&file) {
                Ok(Holder::None) => continue,
                Ok(Holder::Process(pid)) => {
                    return Err(held_elsewhere(path)
                        .with("holder", pid)
                        .with_lock_owner(pid));
                }
                Ok(Holder::Unknown) | Err(_) => return Err(held_elsewhere(path)),
            }
        }
        let locked =
            again(|| file.metadata()).map_err(|e| Error::from_io(errors::LOCK, path, e))?;
        let identity_locked = identity(&locked);
        match again(|| std::fs::metadata(path)) {
            Ok(now) if identity(&now) == identity_locked => {}
            _ => continue,
        }
        let seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs());
        let held = Held {
            identity: identity_locked,
            seconds,
            thread: sys::thread_number(),
        };
        // Taken again: only now is the file sure to exist, so that links in the path resolve.
        let key = key_of(path);
        table.insert(key.clone(), held);
        return Ok(Box::new(PosixLock {
            process: Process::current(),
            identity: identity_locked,
            key,
            file: Some(file),
        }));
    }
    Err(held_elsewhere(path))
}

fn held_elsewhere(path: &Path) -> Error {
    errors::from_errno(errors::LOCK, path, libc::EAGAIN).with_subcode(SubCode::LockHeld)
}

fn identity(m: &std::fs::Metadata) -> Identity {
    (m.dev(), m.ino())
}

/// The path without links, as far as it exists.
fn key_of(path: &Path) -> PathBuf {
    let resolved = again(|| std::fs::canonicalize(path)).or_else(|_| {
        let parent = match path.parent() {
            Some(p) if p.as_os_str().is_empty() => Path::new("."),
            Some(p) => p,
            None => path,
        };
        let name = path.file_name().unwrap_or_default();
        again(|| std::fs::canonicalize(parent)).map(|p| p.join(name))
    });
    resolved
        .or_else(|_| std::path::absolute(path))
        .unwrap_or_else(|_| path.to_path_buf())
}

fn open(path: &Path) -> Result<File> {
    again(|| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
    })
    .map_err(|e| Error::from_io(errors::OPEN_LOCK, path, e))
}

#[cfg(test)]
mod tests;
