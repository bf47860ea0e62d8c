//! Deletes table and blob files that nothing refers to any more (V5).
//!
//! The last reference to a file's metadata reports it here when the file left the current version;
//! jobs and the end of iterators empty the queue outside all locks.

use super::state::rank;
use crate::blob::BlobSource;
use crate::version::{FilePaths, PurgeSink, TableIo};
use spanlith_base::Result;
use spanlith_base::sync::{Mutex, thread};
use spanlith_env::{Process, SstFileManager};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Reports before a new one that a debug build compares it with: a second report of a file follows soon.
const REPORTS_COMPARED: usize = 16;

/// A file that nothing refers to any more.
#[derive(Debug)]
pub(crate) struct Obsolete {
    /// Its number.
    pub number: u64,
    /// A blob file, not a table.
    pub is_blob_file: bool,
    path: PathBuf,
    /// Its bytes; 0 of a blob file.
    size: u64,
}

impl Obsolete {
    /// Where it was.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Obsolete files that are not yet unlinked.
pub(crate) struct PurgeQueue {
    io: Arc<TableIo>,
    sst_files: Option<Arc<SstFileManager>>,
    /// The tables of a speed disk without a file system, which the manager counts and cannot reach.
    on_disk: Option<PathBuf>,
    /// Says what the manager was told of by this database.
    tracked: Mutex<HashSet<PathBuf>>,
    queue: Mutex<Vec<Obsolete>>,
    /// Files that are neither tables nor blob files, kept because deletions were disabled.
    others: Mutex<Vec<PathBuf>>,
    /// Says whether `queue` holds something; changed under its lock.
    has_queued: AtomicBool,
    /// Where blob files may be open.
    readers: Mutex<Vec<Weak<BlobSource>>>,
    /// How often deletions were disabled and not enabled.
    disabled: AtomicUsize,
    /// Set under the lock of `queue` once the database is closed: the directory may be another's then.
    closed: AtomicBool,
    /// How many threads unlink what they took from `queue`.
    running: AtomicUsize,
    /// Says who deletes; a child of it deletes nothing.
    process: Process,
}

impl PurgeQueue {
    /// Deletes through `sst_files` if there is such a manager.
    pub(crate) fn new(io: Arc<TableIo>, sst_files: Option<Arc<SstFileManager>>) -> Self {
        Self {
            io,
            sst_files,
            on_disk: None,
            tracked: Mutex::new(rank::LEAF, HashSet::new()),
            queue: Mutex::new(rank::LEAF, Vec::new()),
            others: Mutex::new(rank::LEAF, Vec::new()),
            has_queued: AtomicBool::new(false),
            readers: Mutex::new(rank::LEAF, Vec::new()),
            disabled: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            process: Process::current(),
        }
    }

    /// Deletes what is in `dir` itself.
    pub(crate) fn with_tables_on_disk(mut self, dir: Option<&Path>) -> Self {
        self.on_disk = dir.map(Path::to_path_buf);
        self
    }

    /// Returns whether the manager has to do with the files of a directory.
    pub(crate) fn is_managed(&self, dir: &Path) -> bool {
        self.on_disk.as_deref() != Some(dir)
    }

    /// Has deleted blob files closed, too.
    pub(crate) fn close_in(&self, source: &Arc<BlobSource>) {
        let mut readers = self.readers.lock();
        readers.retain(|r| r.strong_count() > 0);
        readers.push(Arc::downgrade(source));
    }

    /// Keeps files from now on, until enabled as often as this was called.
    pub(crate) fn disable(&self) {
        // Acquire and Release order deletions that began before: whoever holds the queue's lock next
        // sees the count.
        let _queue = self.queue.lock();
        self.disabled.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes back one call of [`Self::disable`], if there was one; what is queued goes at the next
    /// [`Self::run`].
    pub(crate) fn enable(&self) {
        let less = |n: usize| n.checked_sub(1);
        // Nothing to take back: RocksDB ignores that, too.
        let _ = self
            .disabled
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }

    /// Returns whether files are kept.
    pub(crate) fn is_disabled(&self) -> bool {
        self.disabled.load(Ordering::Acquire) > 0
    }

    /// Deletes what is queued, and from then on nothing: handles and iterators that outlive the database
    /// leave their files to the next open. Returns when no thread deletes any more.
    pub(crate) fn close(&self) {
        self.run();
        let queue = self.queue.lock();
        // Release and Acquire: whoever takes the lock next sees it, and `running` was counted under it.
        self.closed.store(true, Ordering::Release);
        drop(queue);
        self.settle();
        self.untrack_all();
    }

    /// Returns when no thread deletes what it took from the queue before.
    pub(crate) fn settle(&self) {
        while self.running.load(Ordering::Acquire) > 0 {
            thread::yield_now();
        }
    }

    /// Returns whether the database is closed, or this is a child of the process that opened it: nothing in its directory is
    /// deleted any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire) || !self.process.is_current()
    }

    /// Deletes a file that is neither a table nor a blob file now, or when deletions are enabled again. One that
    /// cannot be deleted is found at the next open.
    pub(crate) fn delete_other(&self, path: PathBuf) {
        if self.is_disabled() {
            self.others.lock().push(path);
        } else if !self.is_closed() {
            let _ = self.io.fs().delete(&path);
        }
    }

    /// Deletes what [`Self::delete_other`] kept, unless deletions are disabled.
    pub(crate) fn run_others(&self) {
        let others = match self.is_disabled() || self.is_closed() {
            true => return,
            false => std::mem::take(&mut *self.others.lock()),
        };
        for path in others {
            let _ = self.io.fs().delete(&path);
        }
    }

    /// As [`Self::run`]; takes no lock if nothing is queued.
    pub(crate) fn run_queued(&self) {
        if self.has_queued() {
            self.run();
        }
    }

    /// Returns whether something is queued.
    pub(super) fn has_queued(&self) -> bool {
        // Relaxed: what this thread let go of it queued itself.
        self.has_queued.load(Ordering::Relaxed)
    }

    /// Unlinks what is queued and returns it. A file that cannot be unlinked is found again
    /// at the next open.
    pub(crate) fn run(&self) -> Vec<Obsolete> {
        let (files, keep) = {
            let mut queue = self.queue.lock();
            let keep = self.is_closed();
            if self.is_disabled() && !keep {
                return Vec::new();
            }
            self.has_queued.store(false, Ordering::Relaxed);
            self.running.fetch_add(1, Ordering::AcqRel);
            (std::mem::take(&mut *queue), keep)
        };
        for file in &files {
            if file.is_blob_file {
                let readers = self.readers.lock().clone();
                for source in readers.iter().filter_map(Weak::upgrade) {
                    source.forget(file.number);
                }
            } else {
                self.io.forget(file.number);
            }
            if !keep {
                let _ = self.delete(&file.path);
            }
        }
        self.running.fetch_sub(1, Ordering::AcqRel);
        match keep {
            true => Vec::new(),
            false => files,
        }
    }

    /// Bytes of the tables that are queued.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queue.lock().iter().map(|file| file.size).sum()
    }

    fn push(&self, file: Obsolete) {
        let mut queue = self.queue.lock();
        let mut newest = queue.iter().rev().take(REPORTS_COMPARED);
        debug_assert!(
            newest.all(|f| f.path != file.path),
            "V5: {} is reported by two that held it last",
            file.path.display()
        );
        queue.push(file);
        self.has_queued.store(true, Ordering::Relaxed);
    }

    /// Deletes a file: at once, or at the rate of the manager.
    pub(crate) fn delete(&self, path: &Path) -> Result<()> {
        let Some(manager) = &self.sst_files else {
            return self.io.fs().delete(path);
        };
        match path.parent().is_none_or(|dir| self.is_managed(dir)) {
            true => manager.delete(path)?,
            false => {
                self.io.fs().delete(path)?;
                manager.forget(path);
            }
        }
        self.tracked.lock().remove(path);
        Ok(())
    }

    /// Deletes a table that a job wrote and no version names, at once: it may have to make room for the next
    /// try. One that cannot be deleted is found by the next open.
    pub(crate) fn discard(&self, number: u64, path: &Path) {
        if self.is_closed() {
            return;
        }
        self.io.forget(number);
        if self.io.fs().delete(path).is_ok()
            && let Some(manager) = &self.sst_files
        {
            self.tracked.lock().remove(path);
            manager.forget(path);
        }
    }

    /// Tells the manager of a table.
    pub(crate) fn track(&self, path: PathBuf, size: u64) {
        if let Some(manager) = &self.sst_files {
            // Beyond the limit the table counts all the same: `check_space` reports it.
            let _ = manager.add(&path, size);
            self.tracked.lock().insert(path);
        }
    }

    /// Has the manager count none of the tables any more: they are not this database's to watch.
    fn untrack_all(&self) {
        let tracked = std::mem::take(&mut *self.tracked.lock());
        if let Some(manager) = &self.sst_files {
            tracked.iter().for_each(|path| manager.forget(path));
        }
    }
}

impl Drop for PurgeQueue {
    /// Of an open that failed.
    fn drop(&mut self) {
        self.untrack_all();
    }
}

/// Where the files of one family report.
pub(super) struct FamilySink {
    pub queue: Arc<PurgeQueue>,
    pub paths: FilePaths,
}

impl PurgeSink for FamilySink {
    fn file_obsolete(&self, number: u64, path_id: u32, size: u64) {
        let path = self.paths.table(number, path_id);
        self.queue.push(Obsolete {
            number,
            is_blob_file: false,
            path,
            size,
        });
    }

    fn blob_file_obsolete(&self, number: u64) {
        let path = self.paths.blob(number);
        self.queue.push(Obsolete {
            number,
            is_blob_file: true,
            path,
            size: 0,
        });
    }
}
