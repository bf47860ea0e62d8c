//! The hidden family that keeps statistics (`persist_stats_to_disk`): its name and options.

use super::{CfOptions, CompressionType};

const MIB: u64 = 1 << 20;

/// Name of the family RocksDB keeps statistics in; opened although nobody asks for it.
pub(crate) const STATS_FAMILY: &str = "___rocksdb_stats_history___";

impl CfOptions {
    /// Options of the family of persistent statistics where nobody gave others, RocksDB's: small
    /// memtables and files, no compression.
    pub(crate) fn of_persistent_stats() -> Self {
        Self::new()
            .write_buffer_size(2 * MIB)
            .target_file_size_base(2 * MIB)
            .max_bytes_for_level_base(10 * MIB)
            .soft_pending_compaction_bytes_limit(256 * MIB)
            .hard_pending_compaction_bytes_limit(1024 * MIB)
            .compression(CompressionType::None)
    }
}
