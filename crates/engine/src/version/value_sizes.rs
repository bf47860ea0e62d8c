//! How large a value is on average, as compaction scores need it.
//!
//! Sums over tables whose properties are known. A version goes on with the sums of the one before
//! and adds its new tables; what goes is not subtracted, as in RocksDB, so that both weigh tombstones
//! alike.

use super::file_meta::FileMeta;
use super::version::Version;

/// Sums over tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueSizes {
    /// Entries that are no tombstones.
    values: u64,
    raw_key_bytes: u64,
    raw_value_bytes: u64,
    file_bytes: u64,
}

impl ValueSizes {
    /// The sums of a version: those it was given, or over its own tables.
    pub fn of(version: &Version) -> Self {
        version.value_sizes.get().copied().unwrap_or_else(|| {
            let mut sums = Self::default();
            for (_, file) in version.file_iter() {
                sums.add(file);
            }
            sums
        })
    }

    /// Takes in a table, if its properties are known.
    pub fn add(&mut self, file: &FileMeta) {
        let Some(s) = file.stats.get() else {
            return;
        };
        let values = s.num_entries.saturating_sub(s.num_deletions);
        self.values = self.values.saturating_add(values);
        self.raw_key_bytes = self.raw_key_bytes.saturating_add(s.raw_key_size);
        self.raw_value_bytes = self.raw_value_bytes.saturating_add(s.raw_value_size);
        self.file_bytes = self.file_bytes.saturating_add(file.size);
    }

    /// Bytes a value takes on disk; 0 if no value is known.
    pub fn average(&self) -> u64 {
        let raw = self.raw_key_bytes.saturating_add(self.raw_value_bytes);
        if self.values == 0 || raw == 0 {
            return 0;
        }
        // The ratio of stored to raw bytes stands for compression.
        (self.raw_value_bytes / self.values).saturating_mul(self.file_bytes) / raw
    }
}
