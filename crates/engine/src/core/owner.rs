//! The process that opened a database, and its LOCK file.
//!
//! A child made by `fork` shares the memory and the open files of its parent, but not its threads: nobody but the process
//! that opened the database writes, deletes, or waits for its jobs.

use spanlith_env::{FileLock, Process};
use std::sync::{Mutex, PoisonError};

/// See the head of the module.
pub(crate) struct Owner {
    process: Process,
    /// `None` once the database is closed, and for one that is opened for reading.
    lock: Mutex<Option<Box<dyn FileLock>>>,
    /// Another process writes the database, and this one follows it.
    follows_another: bool,
}

impl Owner {
    /// The current process, which holds the LOCK file if there is one to hold.
    pub(crate) fn new(lock: Option<Box<dyn FileLock>>, follows_another: bool) -> Self {
        Self {
            process: Process::current(),
            lock: Mutex::new(lock),
            follows_another,
        }
    }

    /// Returns whether the calling process opened the database.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.process.is_current()
    }

    /// Returns whether another process writes the database, and this one follows it.
    pub(crate) fn follows_another(&self) -> bool {
        self.follows_another
    }

    /// Lets another open take the directory.
    pub(crate) fn release(&self) {
        let held = self
            .lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(held);
    }

    /// As [`Self::release`] in a child: the mutex may have been held by a thread of the parent when it forked. The LOCK is
    /// the parent's; the child may open the directory when the parent is gone.
    pub(crate) fn release_in_child(&self) {
        if let Ok(mut lock) = self.lock.try_lock() {
            drop(lock.take());
        }
    }
}
