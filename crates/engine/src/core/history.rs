//! Counters kept in memory at regular times, as RocksDB's statistics history.

use spanlith_base::stats::Ticker;
use std::collections::{BTreeMap, VecDeque};

/// Increases of counters over one period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsSlice {
    /// End of the period, in microseconds since the epoch.
    pub at_micros: u64,
    /// Increases by RocksDB's names with the leading `rocksdb.`; those of the first slice count from
    /// the beginning.
    pub increases: BTreeMap<String, u64>,
}

/// Counters kept in memory, `stats_persist_period_sec` apart.
#[derive(Default)]
pub(crate) struct StatsHistory {
    slices: VecDeque<StatsSlice>,
    last: Vec<u64>,
    bytes: usize,
}

/// Memory of one counter of a slice beside its name: the node of the tree and the string.
const ENTRY_BYTES: usize = 64;

impl StatsHistory {
    /// Adds the counters of now, and forgets the oldest slices until `bytes_max` are not exceeded.
    pub(crate) fn push(&mut self, at_micros: u64, now: Vec<u64>, bytes_max: u64) {
        let last = std::mem::take(&mut self.last);
        let of = |at: usize, v: u64| v.saturating_sub(last.get(at).copied().unwrap_or(0));
        let increases: BTreeMap<String, u64> = Ticker::ALL
            .iter()
            .zip(&now)
            .enumerate()
            .map(|(at, (t, &v))| (format!("rocksdb.{}", t.name()), of(at, v)))
            .collect();
        self.last = now;
        self.bytes += slice_bytes(&increases);
        self.slices.push_back(StatsSlice {
            at_micros,
            increases,
        });
        while self.bytes as u64 > bytes_max
            && let Some(oldest) = self.slices.pop_front()
        {
            self.bytes -= slice_bytes(&oldest.increases);
        }
    }

    /// Notes the counters of now without a slice; returns those noted before.
    pub(crate) fn exchange(&mut self, now: Vec<u64>) -> Option<Vec<u64>> {
        let before = std::mem::replace(&mut self.last, now);
        (!before.is_empty()).then_some(before)
    }

    /// Slices that ended in `[from, until)`, oldest first.
    pub(crate) fn between(&self, from: u64, until: u64) -> Vec<StatsSlice> {
        let inside = |s: &&StatsSlice| (from..until).contains(&s.at_micros);
        self.slices.iter().filter(inside).cloned().collect()
    }
}

fn slice_bytes(increases: &BTreeMap<String, u64>) -> usize {
    increases.keys().map(|k| k.len() + ENTRY_BYTES).sum()
}
