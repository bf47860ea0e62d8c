//! Which process opened something.
//!
//! A child of `fork` has copies of all descriptors and of all memory, but none of the threads. What it appends
//! goes where the parent is about to append, what it cuts or deletes is the parent's: so it must do neither, above all
//! not when it closes what it never used, on its way to `exec` or `exit`.

use std::sync::OnceLock;
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

    /// Returns whether it is this one, and no ancestor of it.
    #[inline]
    pub fn is_current(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}

/// A value that each process has for itself: what the threads of the parent hold, and locks that one of them may have
/// held when it forked, are nothing to a child, which begins with a new one.
///
/// Costs two loads. What ancestors had is kept: nobody can say what state it is in.
#[derive(Debug)]
pub struct PerProcess<T> {
    /// Of the process that asked first; the others hang behind it, each set by the process it belongs to.
    first: OnceLock<Box<Generation<T>>>,
}

#[derive(Debug)]
struct Generation<T> {
    process: Process,
    value: T,
    next: OnceLock<Box<Generation<T>>>,
}

impl<T> PerProcess<T> {
    /// A value that is made when the first process asks for it.
    pub const fn new() -> Self {
        let first = OnceLock::new();
        Self { first }
    }

    /// This process's value, if it has asked for it before.
    pub fn get(&self) -> Option<&T> {
        let mut slot = &self.first;
        while let Some(generation) = slot.get() {
            if generation.process.is_current() {
                return Some(&generation.value);
            }
            slot = &generation.next;
        }
        None
    }

    /// This process's value; `make` makes it if this process has none yet. It may be called and its value dropped
    /// if two threads ask first.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        let process = Process::current();
        let mut fresh: Option<Box<Generation<T>>> = None;
        let mut make = Some(make);
        let mut slot = &self.first;
        loop {
            let generation = match slot.get() {
                Some(generation) => generation,
                None => {
                    // Made outside: whoever forks meanwhile leaves no slot that is half set for longer than a move.
                    let mine = fresh.take().or_else(|| {
                        let value = make.take()?();
                        let next = OnceLock::new();
                        Some(Box::new(Generation {
                            process,
                            value,
                            next,
                        }))
                    });
                    if let Some(mine) = mine
                        && let Err(back) = slot.set(mine)
                    {
                        fresh = Some(back);
                    }
                    continue;
                }
            };
            if generation.process.is_current() {
                return &generation.value;
            }
            slot = &generation.next;
        }
    }

    /// Takes this process's value; what ancestors had is left where it is, for good.
    pub fn take(&mut self) -> Option<T> {
        let mut next = self.first.take();
        while let Some(generation) = next {
            let Generation {
                process,
                value,
                next: behind,
            } = *generation;
            if process.is_current() {
                return Some(value);
            }
            std::mem::forget(value);
            next = behind.into_inner();
        }
        None
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns what is said of a file that a child of the process would write.
pub(crate) fn other_process() -> std::io::Error {
    std::io::Error::other("opened before a fork, only the process that opened it may write it")
}
