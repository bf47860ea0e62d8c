//! Counts reads that found no value in a table with the table's file, for the picker of compactions.
//!
//! One read in [`SAMPLE_RATE`] is counted, for as many: rates are RocksDB's. Each thread draws numbers of its
//! own from a fixed start, so that one thread's reads are counted alike in each run.

use crate::version::FileMeta;
use std::cell::Cell;

/// Reads that one counts for.
const SAMPLE_RATE: u32 = 1024;

thread_local! {
    static DRAWN: Cell<u32> = const { Cell::new(0x9e37_79b9) };
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
