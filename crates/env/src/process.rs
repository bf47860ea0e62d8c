//! Which process opened something.
//!
//! A child of `fork` has copies of all descriptors and of all memory, but none of the threads. What it appends
//! goes where the parent is about to append, what it cuts or deletes is the parent's: so it must do neither, above all
//! not when it closes what it never used, on its way to `exec` or `exit`.

use std::sync::atomic::{AtomicU64, Ordering};

/// The process that asked, in a word that costs a load to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u64);

/// How often one of the ancestors since the first look forked before this process came to be. Relaxed: the
/// child has one thread when it counts.
static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

impl Process {
    /// This one.
    pub fn current() -> Self {
        crate::sys::in_children(in_child);
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether it is this one, and no ancestor of it.
    #[inline]
    pub fn is_current(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}

/// What is said of a file that a child of the process would write.
pub(crate) fn other_process() -> std::io::Error {
    std::io::Error::other("opened before a fork, only the process that opened it may write it")
}
