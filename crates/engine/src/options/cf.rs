//! Options of a column family, RocksDB's `CFOptions`.

use super::enums::{
    CompactionPri, CompactionStyle, CompressionType, PrepopulateBlobCache, Temperature,
};
use super::nested::{CompressionOptions, FifoCompactionOptions, UniversalCompactionOptions};
use super::own_rows::OwnCfOptions;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// "Let the build choose", for `ttl` and `periodic_compaction_seconds`.
pub const DEFAULT_SECONDS: u64 = u64::MAX - 1;

options! {
    /// Options of one column family.
    pub struct CfOptions {
        /// Order of keys, by name. Fixed for the life of the family.
        fixed comparator: String = "leveldb.BytewiseComparator".to_string();
        /// How operands are merged, by name.
        fixed merge_operator: String = "nullptr".to_string();
        /// Object that drops or changes entries during compaction.
        fixed compaction_filter: String = "nullptr".to_string();
        /// Maker of compaction filters.
        fixed compaction_filter_factory: String = "nullptr".to_string();
        /// Bytes a memtable may hold before it is sealed and queued for flush. Raising it gives
        /// fewer, larger level-0 files and less write amplification; it costs memory (times
        /// `max_write_buffer_number`) and recovery time.
        mutable write_buffer_size: u64 = 64 * MIB;
        /// Memtables, the active one included, before writes stop.
        mutable max_write_buffer_number: i32 = 2;
        /// Sealed memtables that are flushed together.
        fixed min_write_buffer_number_to_merge: i32 = 1;
        /// Bytes of flushed memtables kept for conflict checks of transactions.
        fixed max_write_buffer_size_to_maintain: i64 = 0;
        /// Updates values in the memtable where they are.
        fixed inplace_update_support: bool = false;
        /// Locks for such updates.
        mutable inplace_update_num_locks: u64 = 10_000;
        /// Cache locality of memtable Bloom filters.
        fixed bloom_locality: u32 = 0;
        /// Memtable filter as a share of the write buffer; 0 means none.
        mutable memtable_prefix_bloom_size_ratio: f64 = 0.0;
        /// Memtable filter holds whole keys.
        mutable memtable_whole_key_filtering: bool = false;
        /// Huge pages for the memtable filter.
        mutable memtable_huge_page_size: u64 = 0;
        /// Object that extracts prefixes for insertion hints.
        fixed memtable_insert_with_hint_prefix_extractor: String = "nullptr".to_string();
        /// Memtable representation.
        fixed memtable_factory: String = "SkipListFactory".to_string();
        /// Block of the memtable's arena; 0 derives it from `write_buffer_size`.
        mutable arena_block_size: u64 = 0;
        /// Bytes of checksum per memtable entry.
        mutable memtable_protection_bytes_per_key: u32 = 0;
        /// Range deletions in a memtable that make it full; 0 means any number.
        mutable memtable_max_range_deletions: u32 = 0;
        /// Hidden entries one read steps over that make a memtable full; 0 means any number.
        mutable memtable_op_scan_flush_trigger: u32 = 0;
        /// As above, as an average over a scan.
        mutable memtable_avg_op_scan_flush_trigger: u32 = 0;
        /// Looks up the keys of a multi-get together.
        fixed memtable_batch_lookup_optimization: bool = false;
        /// Checks memtable checksums on seek.
        mutable memtable_verify_per_key_checksum_on_seek: bool = false;
        /// Refuses writes; the family takes ingested files only.
        fixed disallow_memtable_writes: bool = false;
        /// Checks the structure of memtables while reading.
        mutable paranoid_memory_checks: bool = false;
        /// Share of memory below which a memtable is compacted in memory; 0 means never.
        mutable experimental_mempurge_threshold: f64 = 0.0;
        /// Object that extracts prefixes for filters and prefix iteration.
        mutable prefix_extractor: String = "nullptr".to_string();
        /// Codec of blocks.
        mutable compression: CompressionType = CompressionType::Lz4;
        /// Codec of the last level; `kDisableCompressionOption` means as the others.
        mutable bottommost_compression: CompressionType = CompressionType::Disable;
        /// How the codec compresses.
        mutable compression_opts: CompressionOptions = CompressionOptions::default();
        /// How the codec of the last level compresses, if `enabled`.
        mutable bottommost_compression_opts: CompressionOptions = CompressionOptions::default();
        /// Codec per level; the last entry counts for all deeper ones.
        mutable compression_per_level: Vec<CompressionType> = Vec::new();
        /// Object that chooses codecs.
        mutable compression_manager: String = "nullptr".to_string();
        /// One in so many blocks is compressed twice for statistics; 0 means none.
        mutable sample_for_compression: u64 = 0;
        /// Number of levels. Cannot shrink below the deepest level that holds a file.
        fixed num_levels: i32 = 7;
        /// Level-0 files at which compaction starts.
        mutable level0_file_num_compaction_trigger: i32 = 4;
        /// Level-0 files at which writes are delayed.
        mutable level0_slowdown_writes_trigger: i32 = 20;
        /// Level-0 files at which writes stop.
        mutable level0_stop_writes_trigger: i32 = 36;
        /// Size of a level-1 file.
        mutable target_file_size_base: u64 = 64 * MIB;
        /// Factor of file sizes from level to level.
        mutable target_file_size_multiplier: i32 = 1;
        /// Cuts files before, not after, they reach their size.
        mutable target_file_size_is_upper_bound: bool = false;
        /// Sizes the levels from the last one upwards.
        fixed level_compaction_dynamic_level_bytes: bool = true;
        /// Size of level 1.
        mutable max_bytes_for_level_base: u64 = 256 * MIB;
        /// Factor of sizes from level to level. Larger means less space and more writing.
        mutable max_bytes_for_level_multiplier: f64 = 10.0;
        /// Further factors per level.
        mutable max_bytes_for_level_multiplier_additional: Vec<i32> = vec![1; 7];
        /// Input bytes of one compaction; 0 means 25 times `target_file_size_base`.
        mutable max_compaction_bytes: u64 = 0;
        /// Bytes of compaction debt at which writes are delayed.
        mutable soft_pending_compaction_bytes_limit: u64 = 64 * GIB;
        /// Bytes of compaction debt at which writes stop.
        mutable hard_pending_compaction_bytes_limit: u64 = 256 * GIB;
        /// Compacts only when asked.
        mutable disable_auto_compactions: bool = false;
        /// How tables are arranged.
        fixed compaction_style: CompactionStyle = CompactionStyle::Level;
        /// Which file of a level is compacted first.
        fixed compaction_pri: CompactionPri = CompactionPri::MinOverlappingRatio;
        /// Universal compaction.
        mutable compaction_options_universal: UniversalCompactionOptions =
            UniversalCompactionOptions::default();
        /// FIFO compaction.
        mutable compaction_options_fifo: FifoCompactionOptions = FifoCompactionOptions::default();
        /// Hidden entries an iterator steps over before it seeks.
        mutable max_sequential_skip_in_iterations: u64 = 8;
        /// Table format.
        mutable table_factory: String = "BlockBasedTable".to_string();
        /// Objects that collect properties of tables.
        fixed table_properties_collectors: String = String::new();
        /// Operands in the memtable at which a merge is resolved on write; 0 means never.
        mutable max_successive_merges: u64 = 0;
        /// Resolves them even if that needs reading tables.
        mutable strict_max_successive_merges: bool = false;
        /// No filters in the last level, because most looked-up keys exist.
        fixed optimize_filters_for_hits: bool = false;
        /// Reads new tables back.
        mutable paranoid_file_checks: bool = false;
        /// Checks levels after each change.
        fixed force_consistency_checks: bool = true;
        /// Measures I/O of background jobs.
        mutable report_bg_io_stats: bool = false;
        /// Seconds after which a file is compacted so that its deletions take effect.
        mutable ttl: u64 = DEFAULT_SECONDS;
        /// Seconds after which every file is rewritten.
        mutable periodic_compaction_seconds: u64 = DEFAULT_SECONDS;
        /// Seconds a last-level file is left alone although a compaction would help.
        mutable bottommost_file_compaction_delay: u32 = 0;
        /// Reads per byte at which a file is compacted; 0 means never.
        mutable read_triggered_compaction_threshold: f64 = 0.0;
        /// Object that cuts tables at boundaries.
        fixed sst_partitioner_factory: String = "nullptr".to_string();
        /// Temperature of last-level files.
        mutable last_level_temperature: Temperature = Temperature::Unknown;
        /// Temperature of new files.
        mutable default_write_temperature: Temperature = Temperature::Unknown;
        /// Temperature assumed of files without one.
        fixed default_temperature: Temperature = Temperature::Unknown;
        /// Seconds new data stays out of the last level.
        mutable preclude_last_level_data_seconds: u64 = 0;
        /// Seconds for which write times are kept.
        mutable preserve_internal_time_seconds: u64 = 0;
        /// Stores large values in blob files.
        mutable enable_blob_files: bool = false;
        /// Smallest value that goes to a blob file.
        mutable min_blob_size: u64 = 0;
        /// Size of a blob file.
        mutable blob_file_size: u64 = 256 * MIB;
        /// Codec of blobs.
        mutable blob_compression_type: CompressionType = CompressionType::None;
        /// How the codec of blobs compresses.
        mutable blob_compression_opts: CompressionOptions = CompressionOptions::default();
        /// Rewrites live blobs of old blob files during compaction.
        mutable enable_blob_garbage_collection: bool = false;
        /// Share of blob files, from the oldest, that are rewritten.
        mutable blob_garbage_collection_age_cutoff: f64 = 0.25;
        /// Share of garbage at which compactions are started for it.
        mutable blob_garbage_collection_force_threshold: f64 = 1.0;
        /// Bytes of blobs a compaction reads ahead.
        mutable blob_compaction_readahead_size: u64 = 0;
        /// First level whose files may refer to blobs.
        mutable blob_file_starting_level: i32 = 0;
        /// Cache of blobs, by name.
        parsed blob_cache: String = String::new();
        /// Which blob writes fill the blob cache.
        mutable prepopulate_blob_cache: PrepopulateBlobCache = PrepopulateBlobCache::Disable;
        /// Separates values before they reach the log.
        fixed enable_blob_direct_write: bool = false;
        /// Blob files written at once by direct writes.
        fixed blob_direct_write_partitions: u32 = 1;
        /// Object that spreads direct writes.
        parsed blob_direct_write_partition_strategy: String = String::new();
        /// Bytes of checksum per entry of a block in memory.
        mutable block_protection_bytes_per_key: u8 = 0;
        /// How eagerly blocks of obsolete files leave the cache.
        mutable uncache_aggressiveness: u32 = 0;
        /// Which checks are made of a compaction's output.
        mutable verify_output_flags: u32 = 0;
        /// Run of tombstones a scan turns into a range tombstone; 0 means never.
        mutable min_tombstones_for_range_conversion: u32 = 0;
        /// Keeps timestamps in tables, not only in memtables.
        fixed persist_user_defined_timestamps: bool = true;
        /// Keeps room below the family's data for files ingested behind it.
        fixed cf_allow_ingest_behind: bool = false;
        /// Bytes a writer of blob files gathers before it writes; 0 means as for tables.
        newer_mutable blob_file_writable_file_max_buffer_size: u64 = 0;
    }
    ignored {
        "bottommost_temperature", "check_flush_compaction_key_order",
        "compaction_measure_io_stats", "expanded_compaction_factor", "filter_deletes",
        "hard_rate_limit", "ignore_max_compaction_bytes_for_input",
        "level_compaction_dynamic_file_size", "max_grandparent_overlap_factor",
        "max_mem_compaction_level", "max_write_buffer_number_to_maintain",
        "memtable_prefix_bloom_bits", "memtable_prefix_bloom_huge_page_tlb_size",
        "memtable_prefix_bloom_probes", "min_partial_merge_operands",
        "purge_redundant_kvs_while_flush", "rate_limit_delay_max_milliseconds",
        "snap_refresh_nanos", "soft_rate_limit", "source_compaction_factor",
        "verify_checksums_in_compaction",
    }
    own OwnCfOptions
}

impl CfOptions {
    /// Seconds for which it is kept when entries were written; 0 for no time.
    pub(crate) fn kept_time_seconds(&self) -> u64 {
        self.preserve_internal_time_seconds
            .max(self.preclude_last_level_data_seconds)
    }
}
