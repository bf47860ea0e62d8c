//! Lengths of filters that use up the memory which an allocator really gives for them
//! (`optimize_filters_for_memory`).
//!
//! Allocators round sizes up. A filter grows into what its block would waste, and so lets fewer absent
//! keys pass than asked for. How many fewer is kept as a balance, and as long as there is one, filters
//! that are a step smaller than asked for are tried: on the whole filters take less memory and pass no
//! more keys. The length of a filter thus depends on the allocator and on the filters before; readers
//! take any.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Bytes after the body of a filter.
const TAIL: u64 = 5;
/// Bytes after a block, which are in memory with it.
const TRAILER: u64 = 5;
/// The unit of a balance: one filter that lets every absent key pass.
const WHOLE: f64 = 4_294_967_296.0;

/// Describes what the filters of one policy let pass beyond what was asked for. Clones share it.
#[derive(Clone, Debug)]
pub struct FilterBalance {
    /// Negative while they let less pass. Relaxed: threads that meet may take the wrong step once.
    balance: Arc<AtomicI64>,
    usable: fn(u64) -> u64,
}

impl Default for FilterBalance {
    /// Even, for the allocator of the process.
    fn default() -> Self {
        Self::of_allocator(spanlith_env::usable_size)
    }
}

impl PartialEq for FilterBalance {
    /// Returns whether it is the same balance.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.balance, &other.balance)
    }
}

/// Describes what a kind of filter over certain entries can be.
pub(super) trait Lengths {
    /// The longest that is not longer than `len`; all lengths are with the tail.
    fn round_down(&self, len: u64) -> u64;
    /// Share of absent keys that one of that length lets pass.
    fn rate(&self, len: u64) -> f64;
}

impl FilterBalance {
    /// Even, for an allocator that really gives `usable` bytes for so many.
    fn of_allocator(usable: fn(u64) -> u64) -> Self {
        Self {
            balance: Arc::default(),
            usable,
        }
    }

    /// The length for a filter that was to have `wanted` bytes; both with the tail.
    pub(super) fn fit(&self, wanted: u64, lengths: &impl Lengths) -> u64 {
        let balance = self.balance.load(Ordering::Relaxed);
        let wanted_rate = lengths.rate(wanted);
        let (mut len, mut rate) = (wanted, wanted_rate);
        if balance < 0 {
            let bearable = -balance as f64 / WHOLE + wanted_rate;
            let body = wanted - TAIL;
            let steps = [3 * body / 4, 13 * body / 16, 7 * body / 8, 15 * body / 16];
            let smaller = steps.map(|body| lengths.round_down(body + TAIL));
            let smaller = smaller.map(|len| (len, lengths.rate(len)));
            if let Some(&fits) = smaller.iter().find(|(_, rate)| *rate <= bearable) {
                (len, rate) = fits;
            }
        }
        let requested = len + TRAILER;
        let usable = (self.usable)(requested);
        // Much more than requested would make the file larger for little.
        if usable > requested && usable - usable / 4 <= requested {
            len = lengths.round_down(usable - TRAILER);
            rate = lengths.rate(len);
        }
        let change = (rate - wanted_rate) * WHOLE;
        self.balance.fetch_add(change as i64, Ordering::Relaxed);
        len
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FilterKind, FilterPolicy};
    use super::*;

    /// Sizes of jemalloc: four to a doubling.
    fn four_to_a_doubling(bytes: u64) -> u64 {
        let step = (bytes.max(17) - 1).ilog2().max(6) - 2;
        bytes.next_multiple_of(1 << step)
    }

    /// Lengths of filters over so many keys, one after the other.
    fn lengths(kind: FilterKind, balance: Option<FilterBalance>, counts: &[u64]) -> Vec<usize> {
        let policy = FilterPolicy::new(kind, 7, 0, balance).unwrap();
        let mut n = 0u64;
        let filters = counts.iter().map(|&count| {
            let mut keys: Vec<u64> = (n..n + count)
                .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
                .collect();
            n += count;
            keys.sort_unstable();
            let hashes: Vec<u64> = keys.iter().map(|k| policy.hash(&k.to_be_bytes())).collect();
            policy.build(&hashes).len()
        });
        filters.collect()
    }

    const COUNTS: [u64; 20] = [
        700, 700, 50, 1300, 2100, 333, 4000, 999, 3333, 120, 2500, 640, 1800, 5000, 260, 1100,
        3000, 90, 410, 2222,
    ];
    const BLOOM: FilterKind = FilterKind::Bloom { bits: 10.0 };
    const RIBBON: FilterKind = FilterKind::Ribbon {
        bits: 10.0,
        bloom_before_level: -1,
    };

    const BLOOM_LENGTHS: [usize; 20] = [
        965, 965, 69, 1733, 2501, 453, 5061, 1477, 4037, 197, 3013, 837, 2501, 6085, 389, 1477,
        3525, 133, 581, 3013,
    ];
    const RIBBON_LENGTHS: [usize; 20] = [
        757, 629, 69, 1269, 2037, 373, 3061, 885, 3061, 197, 2549, 629, 1525, 5109, 373, 885, 3061,
        133, 437, 2037,
    ];

    #[test]
    fn lengths_are_those_of_rocksdb_with_jemalloc() {
        let of = |kind| {
            let balance = FilterBalance::of_allocator(four_to_a_doubling);
            lengths(kind, Some(balance), &COUNTS)
        };
        assert_eq!(of(BLOOM), BLOOM_LENGTHS);
        assert_eq!(of(RIBBON), RIBBON_LENGTHS);
    }

    #[test]
    fn an_allocator_that_gives_what_is_asked_for_changes_no_length() {
        for kind in [BLOOM, RIBBON] {
            let balance = FilterBalance::of_allocator(|bytes| bytes);
            assert_eq!(
                lengths(kind, Some(balance.clone()), &COUNTS),
                lengths(kind, None, &COUNTS)
            );
            assert_eq!(balance.balance.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn an_allocator_that_wastes_more_than_a_quarter_is_not_followed() {
        let doubling = FilterBalance::of_allocator(|bytes| bytes * 2);
        assert_eq!(
            lengths(BLOOM, Some(doubling), &COUNTS),
            lengths(BLOOM, None, &COUNTS)
        );
    }
}
