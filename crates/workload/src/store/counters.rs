//! Numbers that a store counts, by RocksDB's names of tickers.

use std::collections::BTreeMap;

/// Counts by name since the store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// Of the text that RocksDB's statistics print: lines `name COUNT : n`. Histograms are left out.
    pub fn of_text(text: &str) -> Self {
        let line = |line: &str| {
            let (name, count) = line.split_once(" COUNT : ")?;
            Some((name.to_string(), count.trim().parse().ok()?))
        };
        Self(text.lines().filter_map(line).collect())
    }

    /// A count; 0 if the store does not count it.
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Sets a count.
    pub fn set(&mut self, name: &str, count: u64) {
        self.0.insert(name.to_string(), count);
    }

    /// Returns what was counted since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let change =
            |(name, count): (&String, &u64)| (name.clone(), count.saturating_sub(before.get(name)));
        Self(self.0.iter().map(change).collect())
    }

    /// Data blocks that were not in the cache, so that they came from files.
    pub fn data_blocks_read(&self) -> u64 {
        self.get("rocksdb.block.cache.data.miss")
    }

    /// Data blocks that were in the cache.
    pub fn data_blocks_hit(&self) -> u64 {
        self.get("rocksdb.block.cache.data.hit")
    }

    /// Bytes of tables that flushes and compactions wrote.
    pub fn table_bytes_written(&self) -> u64 {
        self.get("rocksdb.flush.write.bytes") + self.get("rocksdb.compact.write.bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tickers_are_read_and_others_passed_over() {
        let text = "rocksdb.block.cache.data.miss COUNT : 7\n\
                    rocksdb.db.get.micros P50 : 1.0 P95 : 2.0 P99 : 3.0 P100 : 9 COUNT : 12 SUM : 24\nnoise\n";
        let counters = Counters::of_text(text);
        assert_eq!(counters.data_blocks_read(), 7);
        assert_eq!(counters.get("rocksdb.db.get.micros"), 0);
        let mut later = counters.clone();
        later.set("rocksdb.block.cache.data.miss", 10);
        assert_eq!(later.since(&counters).data_blocks_read(), 3);
        assert_eq!(counters.since(&later).data_blocks_read(), 0);
    }
}
