//! Ends the process when a piece of work does not end, and says which it was.
//!
//! A loop or a deadlock in the engine is a finding, but one that returns nothing: the programmes would run for ever
//! and be given up by whoever started them. Every program, image, case, run and round is therefore watched.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Describes what a piece of work is, in words with which it can be repeated.
type What = Box<dyn Fn() -> String + Send>;

/// No piece of work takes so long, even on a machine that has other things to do.
pub const LIMIT: Duration = Duration::from_secs(300);

/// Pieces of work under way, by number.
#[derive(Default)]
struct Pieces {
    last: u64,
    begun: BTreeMap<u64, (Instant, What)>,
}

struct Watchdog {
    limit: Duration,
    pieces: Mutex<Pieces>,
}

impl Watchdog {
    fn new(limit: Duration) -> Self {
        Self {
            limit,
            pieces: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pieces> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, what: What) -> u64 {
        let mut pieces = self.lock();
        pieces.last += 1;
        let number = pieces.last;
        pieces.begun.insert(number, (Instant::now(), what));
        number
    }

    fn end(&self, number: u64) {
        self.lock().begun.remove(&number);
    }

    /// The first piece that is over the limit. Pieces begin in the order of their numbers.
    fn overdue(&self) -> Option<String> {
        let pieces = self.lock();
        let (begin, what) = pieces.begun.values().next()?;
        (begin.elapsed() > self.limit).then(what)
    }
}

static WATCHDOG: LazyLock<Watchdog> = LazyLock::new(|| {
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            if let Some(text) = WATCHDOG.overdue() {
                println!("# HUNG: does not end within {} s\n{text}", LIMIT.as_secs());
                std::process::exit(1);
            }
        }
    });
    Watchdog::new(LIMIT)
});

/// Watches until it is dropped.
pub(crate) struct Watched(u64);

impl Drop for Watched {
    fn drop(&mut self) {
        WATCHDOG.end(self.0);
    }
}

/// Ends the process with exit code 1 and this text if the guard lives longer than [`LIMIT`].
#[must_use]
pub(crate) fn watched(what: impl Fn() -> String + Send + 'static) -> Watched {
    Watched(WATCHDOG.begin(Box::new(what)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_piece_over_the_limit_is_named_until_it_ends() {
        let dog = Watchdog::new(Duration::from_millis(30));
        assert_eq!(dog.overdue(), None);
        let first = dog.begin(Box::new(|| "first".to_string()));
        let second = dog.begin(Box::new(|| "second".to_string()));
        dog.end(first);
        std::thread::sleep(Duration::from_millis(40));
        let third = dog.begin(Box::new(|| "third".to_string()));
        assert_eq!(dog.overdue().as_deref(), Some("second"));
        dog.end(second);
        dog.end(third);
        assert_eq!(dog.overdue(), None);
        let long = Watchdog::new(LIMIT);
        long.begin(Box::new(|| "young".to_string()));
        assert_eq!(long.overdue(), None);
    }
}
