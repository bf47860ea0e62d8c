//! Which threads are in a place from which user code may call back into a database: jobs in the background, whose end
//! stopped writers wait for, and writers that are first in the queue.
//!
//! Threads: each asks and answers for itself. While no thread is in such a place, asking costs one load.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a job of any database: writers of that one, or of others whose jobs queue behind it, may wait for its end.
    Job,
    /// In a write that is still to make room, or in a job that such a writer runs: no other write comes past it. The
    /// number tells its database from others.
    Write(usize),
}

/// Threads that are in a place. Relaxed: a thread asks for itself, and has counted itself before.
static THREADS: AtomicUsize = AtomicUsize::new(0);

#[cfg(not(shuttle))]
thread_local! {
    static PLACE: Cell<Option<Place>> = const { Cell::new(None) };
}
#[cfg(shuttle)]
shuttle::thread_local! {
    static PLACE: Cell<Option<Place>> = Cell::new(None);
}

/// Returns whether any thread is in a place.
#[inline]
pub fn has_any() -> bool {
    THREADS.load(Ordering::Relaxed) != 0
}

/// Where the calling thread is, if anywhere.
#[inline]
pub fn place() -> Option<Place> {
    if has_any() { place_of_thread() } else { None }
}

/// Not inlined: the address of a thread-local costs a call in a shared library, which the optimiser else makes before it
/// looks at the count.
#[cold]
#[inline(never)]
fn place_of_thread() -> Option<Place> {
    PLACE.with(Cell::get)
}

/// Puts the calling thread into a place until the answer is dropped. A job that a waiting writer runs stays in the place of
/// the writer.
#[must_use]
pub fn enter(place: Place) -> Inside {
    THREADS.fetch_add(1, Ordering::Relaxed);
    let before = PLACE.with(|at| {
        let before = at.get();
        if !(matches!(before, Some(Place::Write(_))) && place == Place::Job) {
            at.set(Some(place));
        }
        before
    });
    Inside { before }
}

/// Takes the thread out again when dropped.
#[derive(Debug)]
pub struct Inside {
    before: Option<Place>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        PLACE.with(|at| at.set(self.before));
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_a_waiting_writer_runs_is_part_of_the_write() {
        assert_eq!(place(), None);
        let job = enter(Place::Job);
        assert_eq!(place(), Some(Place::Job));
        let write = enter(Place::Write(1));
        let helped = enter(Place::Job);
        assert_eq!(place(), Some(Place::Write(1)));
        std::thread::scope(|s| {
            s.spawn(|| assert_eq!(place(), None, "another thread is nowhere"));
        });
        drop(helped);
        drop(write);
        assert_eq!(place(), Some(Place::Job));
        drop(job);
        assert_eq!(place(), None);
    }
}
