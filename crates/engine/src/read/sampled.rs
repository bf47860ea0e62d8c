//! Counts reads that found no value in a table with the table's file, for the picker of compactions.
//!
//! One read in [`SAMPLE_RATE`] is counted, for as many: rates are RocksDB's. Each thread draws numbers of its
//! own. The first starts at the same place in each run, so that a program of one thread has its reads counted alike; the
//! others start elsewhere, lest many short threads draw the same few numbers, of which none may count.

use crate::version::FileMeta;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// Reads that one counts for.
const SAMPLE_RATE: u32 = 1024;

/// Threads that have drawn. Relaxed: only that their numbers differ matters.
static THREADS: AtomicU32 = AtomicU32::new(1);

thread_local! {
    static DRAWN: Cell<u32> = Cell::new(first_of(THREADS.fetch_add(1, Ordering::Relaxed)));
}

/// The state from which a thread of that number draws; never 0, which would stay.
fn first_of(thread: u32) -> u32 {
    thread.wrapping_mul(0x9e37_79b9).max(1)
}

/// Returns whether this read is one of those that count.
fn is_drawn() -> bool {
    DRAWN.with(|drawn| {
        // xorshift32
        let mut x = drawn.get();
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        drawn.set(x);
        x.is_multiple_of(SAMPLE_RATE)
    })
}

/// Samples the tables that one lookup asks, all of them or none.
pub(super) struct Sample {
    is_drawn: bool,
}

impl Sample {
    /// Of a lookup in a family that counts, if `wanted`.
    pub(super) fn new(wanted: bool) -> Self {
        Self {
            is_drawn: wanted && is_drawn(),
        }
    }

    /// The lookup found no value in the file.
    #[inline]
    pub(super) fn wasted(&self, file: &FileMeta) {
        if self.is_drawn {
            file.add_wasted_reads(u64::from(SAMPLE_RATE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first read that counts, among many threads of a hundred reads each, is in some of them, and at different places.
    #[test]
    fn threads_draw_different_numbers() {
        let draws_of = |_| {
            let thread =
                std::thread::spawn(|| (0..100).filter(|_| is_drawn()).collect::<Vec<u32>>());
            thread.join().unwrap()
        };
        let mut drawn: Vec<u32> = (0..300).flat_map(draws_of).collect();
        // 29 on average.
        assert!(drawn.len() > 5, "{drawn:?}");
        drawn.sort_unstable();
        drawn.dedup();
        assert!(drawn.len() > 3, "{drawn:?}");
        assert_eq!(first_of(1), 0x9e37_79b9);
        assert_eq!(first_of(0), 1);
    }
}
