//! The counters of the perf context that are kept by level of the tree: RocksDB's
//! `PerfContextByLevel`.
//!
//! A thread keeps them once it said so, and then whenever its level records counts.

use super::is_on;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A counter of the calling thread for tables of one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LevelCounter {
    /// Keys that a filter kept from being looked for.
    BloomFilterUseful,
    /// Keys that a filter let pass.
    BloomFilterFullPositive,
    /// Keys that a filter let pass and that were there.
    BloomFilterFullTruePositive,
    /// Blocks found in the cache.
    BlockCacheHitCount,
    /// Blocks that the cache did not have.
    BlockCacheMissCount,
}

impl LevelCounter {
    /// All, in the order of RocksDB's report.
    pub const ALL: [Self; 5] = [
        Self::BloomFilterUseful,
        Self::BloomFilterFullPositive,
        Self::BloomFilterFullTruePositive,
        Self::BlockCacheHitCount,
        Self::BlockCacheMissCount,
    ];

    /// RocksDB's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::BloomFilterUseful => "bloom_filter_useful",
            Self::BloomFilterFullPositive => "bloom_filter_full_positive",
            Self::BloomFilterFullTruePositive => "bloom_filter_full_true_positive",
            Self::BlockCacheHitCount => "block_cache_hit_count",
            Self::BlockCacheMissCount => "block_cache_miss_count",
        }
    }
}

thread_local! {
    static IS_KEPT: Cell<bool> = const { Cell::new(false) };
    static VALUES: RefCell<BTreeMap<u32, [u64; LevelCounter::ALL.len()]>> =
        const { RefCell::new(BTreeMap::new()) };
}

/// The calling thread keeps counters by level from now on, and goes on with what it has.
pub fn enable_by_level() {
    IS_KEPT.set(true);
}

/// The calling thread keeps no counters by level any more; what it has stays.
pub fn disable_by_level() {
    IS_KEPT.set(false);
}

/// As [`disable_by_level`]; what the thread has is forgotten.
pub fn clear_by_level() {
    IS_KEPT.set(false);
    VALUES.with_borrow_mut(BTreeMap::clear);
}

/// Adds to a counter for `level`, if the thread keeps counters by level; a negative level is unknown and
/// not counted.
pub fn add_at_level(counter: LevelCounter, level: i32, n: u64) {
    if n == 0 || !is_on() || !IS_KEPT.get() {
        return;
    }
    if let Ok(level) = u32::try_from(level) {
        VALUES.with_borrow_mut(|values| {
            let value = &mut values.entry(level).or_default()[counter as usize];
            *value = value.wrapping_add(n);
        });
    }
}

/// The calling thread's counter for `level`.
pub fn value_at_level(counter: LevelCounter, level: u32) -> u64 {
    VALUES.with_borrow(|values| values.get(&level).map_or(0, |v| v[counter as usize]))
}

/// Sets the calling thread's counters of all levels that it knows to zero.
pub(super) fn reset() {
    VALUES.with_borrow_mut(|values| values.values_mut().for_each(|v| *v = Default::default()));
}

/// RocksDB's text, after that of the other counters: each name with the values of all levels.
pub(super) fn report(out: &mut String, without_zeros: bool) {
    if !IS_KEPT.get() {
        return;
    }
    VALUES.with_borrow(|values| {
        for counter in LevelCounter::ALL {
            // Writing to a string cannot fail.
            let _ = write!(out, "{} = ", counter.name());
            for (level, value) in values.iter().map(|(level, v)| (level, v[counter as usize])) {
                if value != 0 || !without_zeros {
                    let _ = write!(out, "{value}@level{level}, ");
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::{PerfCounter, add, report, reset, set_level};
    use super::*;

    #[test]
    fn counters_by_level_are_kept_on_request_and_told_behind_the_others() {
        reset();
        set_level(2);
        add_at_level(LevelCounter::BloomFilterUseful, 3, 1);
        assert_eq!(value_at_level(LevelCounter::BloomFilterUseful, 3), 0);
        assert_eq!(report(true), "");
        enable_by_level();
        add(PerfCounter::GetReadBytes, 1);
        add_at_level(LevelCounter::BloomFilterUseful, 3, 2);
        add_at_level(LevelCounter::BloomFilterUseful, 0, 4);
        add_at_level(LevelCounter::BloomFilterUseful, -1, 4);
        add_at_level(LevelCounter::BlockCacheMissCount, 0, 1);
        assert_eq!(
            report(true),
            "get_read_bytes = 1, bloom_filter_useful = 4@level0, 2@level3, \
             bloom_filter_full_positive = bloom_filter_full_true_positive = \
             block_cache_hit_count = block_cache_miss_count = 1@level0"
        );
        set_level(1);
        add_at_level(LevelCounter::BloomFilterUseful, 3, 2);
        assert_eq!(value_at_level(LevelCounter::BloomFilterUseful, 3), 2);
        reset();
        assert!(report(false).ends_with("block_cache_miss_count = 0@level0, 0@level3"));
        disable_by_level();
        assert!(report(false).ends_with("multiscan_io_coalesced_nonadjacent = 0"));
        clear_by_level();
        enable_by_level();
        assert!(report(false).ends_with("block_cache_miss_count ="));
        clear_by_level();
    }
}
