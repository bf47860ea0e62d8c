//! Numbered pieces of work on some threads, whose reports are added up.

use std::sync::{Mutex, PoisonError};

/// Describes what pieces of work report, added up.
pub(crate) trait Sum: Default + Send {
    /// Adds the report of one piece.
    fn merge(&mut self, other: Self);
}

/// Runs the pieces 0, 1, 2, … on `jobs` threads until `enough` says so of the next number and the
/// sum so far; `progress` is told the sum after each.
pub(crate) fn run_numbered<R: Sum>(
    jobs: usize,
    enough: impl Fn(u64, &R) -> bool + Sync,
    run: impl Fn(u64) -> R + Sync,
    progress: impl Fn(&R) + Sync,
) -> R {
    let state = Mutex::new((0u64, R::default()));
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let next = || {
        let mut s = lock();
        if enough(s.0, &s.1) {
            return None;
        }
        s.0 += 1;
        Some(s.0 - 1)
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(number) = next() {
                    let done = run(number);
                    let mut s = lock();
                    s.1.merge(done);
                    progress(&s.1);
                }
            });
        }
    });
    state.into_inner().unwrap_or_else(PoisonError::into_inner).1
}
