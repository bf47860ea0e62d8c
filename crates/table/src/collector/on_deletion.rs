//! RocksDB's `CompactOnDeletionCollector`: asks for compaction of tables with many deletions close
//! together, which scans would have to step over.
//!
//! The window slides in steps of a 128th of its size: deletions are counted in a ring of 128
//! buckets, and when one is full the oldest is emptied. Range tombstones take a place in the window
//! but count as no deletion.

use super::{
    CollectedEntry, CollectorContext, TablePropertiesCollector, TablePropertiesCollectorFactory,
};

/// Steps in which a window slides.
const BUCKETS: usize = 128;

/// When a table is to be compacted: either threshold suffices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CompactOnDeletion {
    /// Entries in the window, rounded up to a multiple of 128; 0 looks at no window.
    pub window_size: usize,
    /// Deletions within a window that suffice.
    pub deletion_trigger: usize,
    /// Share of deletions among all entries that suffices; only values above 0 and up to 1 count.
    pub deletion_ratio: f64,
    /// Bytes below which a table is left alone.
    pub min_file_size: u64,
}

impl CompactOnDeletion {
    /// RocksDB's name.
    pub const NAME: &'static str = "CompactOnDeletionCollector";

    fn has_ratio(&self) -> bool {
        self.deletion_ratio > 0.0 && self.deletion_ratio <= 1.0
    }
}

impl TablePropertiesCollectorFactory for CompactOnDeletion {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn options_text(&self) -> String {
        format!(
            "{{id={};min_file_size={};deletion_ratio={:.6};deletion_trigger={};window_size={};}}",
            Self::NAME,
            self.min_file_size,
            self.deletion_ratio,
            self.deletion_trigger,
            self.window_size
        )
    }

    fn log_text(&self) -> String {
        format!(
            "{} (Sliding window size = {} Deletion trigger = {} Deletion ratio = {})",
            Self::NAME,
            self.window_size,
            self.deletion_trigger,
            self.deletion_ratio
        )
    }

    fn create(&self, _context: &CollectorContext) -> Option<Box<dyn TablePropertiesCollector>> {
        Some(Box::new(Window {
            limits: *self,
            bucket_size: self.window_size.div_ceil(BUCKETS),
            buckets: [0; BUCKETS],
            current: 0,
            keys_in_current: 0,
            deletions_in_window: 0,
            most_deletions: 0,
            entries: 0,
            deletions: 0,
            file_size: 0,
            needs_compaction: false,
        }))
    }
}

/// The window over one table.
struct Window {
    limits: CompactOnDeletion,
    /// Entries of a bucket; 0 without a window.
    bucket_size: usize,
    /// Deletions by bucket.
    buckets: [usize; BUCKETS],
    current: usize,
    keys_in_current: usize,
    deletions_in_window: usize,
    /// Most deletions that any window had.
    most_deletions: usize,
    entries: u64,
    deletions: u64,
    file_size: u64,
    needs_compaction: bool,
}

impl Window {
    fn slide(&mut self, is_deletion: bool) {
        if self.keys_in_current == self.bucket_size {
            self.current = (self.current + 1) % BUCKETS;
            self.deletions_in_window -= std::mem::take(&mut self.buckets[self.current]);
            self.keys_in_current = 0;
        }
        self.keys_in_current += 1;
        if is_deletion {
            self.buckets[self.current] += 1;
            self.deletions_in_window += 1;
            self.most_deletions = self.most_deletions.max(self.deletions_in_window);
        }
    }
}

impl TablePropertiesCollector for Window {
    fn add(&mut self, entry: &CollectedEntry<'_>) {
        if self.needs_compaction {
            return;
        }
        let is_deletion = entry.kind.is_point_deletion();
        self.entries += 1;
        self.deletions += u64::from(is_deletion);
        self.file_size = entry.file_size;
        if self.bucket_size > 0 {
            self.slide(is_deletion);
            // A table that was too small for its deletions may have grown.
            self.needs_compaction = self.most_deletions >= self.limits.deletion_trigger
                && self.file_size >= self.limits.min_file_size;
        }
    }

    fn finish(&mut self) -> Vec<(String, Vec<u8>)> {
        let limits = &self.limits;
        if limits.has_ratio() && self.entries > 0 && self.file_size >= limits.min_file_size {
            let ratio = self.deletions as f64 / self.entries as f64;
            self.needs_compaction |= ratio >= limits.deletion_ratio;
        }
        Vec::new()
    }

    fn needs_compaction(&self) -> bool {
        self.needs_compaction
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_base::ValueType;

    /// Returns whether a table with these entries (`true`: a deletion), each 10 bytes, is to be compacted.
    fn asks(limits: CompactOnDeletion, entries: impl IntoIterator<Item = bool>) -> bool {
        let context = CollectorContext {
            column_family_id: 0,
            level: 0,
        };
        let mut collector = limits.create(&context).unwrap();
        for (n, is_deletion) in entries.into_iter().enumerate() {
            collector.add(&CollectedEntry {
                key: b"k",
                value: b"",
                kind: match is_deletion {
                    true => ValueType::Deletion,
                    false => ValueType::Value,
                },
                seqno: 1,
                file_size: n as u64 * 10,
            });
        }
        assert!(collector.finish().is_empty());
        collector.needs_compaction()
    }

    fn window(window_size: usize, deletion_trigger: usize) -> CompactOnDeletion {
        CompactOnDeletion {
            window_size,
            deletion_trigger,
            ..CompactOnDeletion::default()
        }
    }

    #[test]
    fn deletions_count_only_while_they_are_in_one_window() {
        let spread = |gap: usize| (0..gap * 10).map(move |n| n % gap == 0);
        assert!(asks(window(128, 10), [true; 10]));
        assert!(!asks(window(128, 11), [true; 10]));
        // Ten deletions, 13 entries apart: the first is 117 before the last.
        assert!(asks(window(128, 10), spread(13)));
        assert!(!asks(window(128, 10), spread(15)));
        // Rounded up to buckets of two: the window has 256 entries.
        assert!(asks(window(129, 10), spread(28)));
        assert!(!asks(window(129, 10), spread(30)));
    }

    #[test]
    fn without_window_and_ratio_nothing_is_asked() {
        assert!(!asks(window(0, 0), [true; 1000]));
        assert!(asks(window(1, 0), [false]), "a trigger of 0 always holds");
    }

    #[test]
    fn the_ratio_is_of_the_whole_table_and_bounded() {
        let ratio = |deletion_ratio| CompactOnDeletion {
            deletion_ratio,
            ..CompactOnDeletion::default()
        };
        let half = || (0..100).map(|n| n % 2 == 0);
        assert!(asks(ratio(0.5), half()));
        assert!(!asks(ratio(0.51), half()));
        assert!(!asks(ratio(0.0), [true; 9]));
        assert!(!asks(ratio(1.01), [true; 9]));
        assert!(!asks(ratio(0.5), []));
    }

    #[test]
    fn a_small_table_is_left_alone_until_it_has_grown() {
        let limits = CompactOnDeletion {
            min_file_size: 500,
            ..window(128, 10)
        };
        assert!(!asks(limits, [true; 50]));
        assert!(asks(limits, [true; 51]));
        // The deletions may be far back by then.
        assert!(asks(limits, (0..1000).map(|n| n < 10)));
    }
}
