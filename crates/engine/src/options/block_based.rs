//! Options of block-based tables, RocksDB's `BlockBasedTableOptions`.

use super::enums::{
    BlockSearchType, ChecksumType, DataBlockIndexType, IndexMode, IndexShorteningMode, IndexType,
    OptimizeKeyCommonPrefix, PrepopulateBlockCache,
};
use super::nested::MetadataCacheOptions;
use super::values::{OptionValue, ValueError};

/// A 32-bit number whose upper half may be garbage in files of RocksDB 6.10 to 6.14.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LowHalf(pub u32);

impl From<u32> for LowHalf {
    fn from(n: u32) -> Self {
        Self(n)
    }
}

impl OptionValue for LowHalf {
    fn print(&self) -> String {
        self.0.to_string()
    }

    fn parse_into(&mut self, text: &str) -> Result<(), ValueError> {
        // Unlike other numbers it takes no braces.
        if text.starts_with('{') {
            return Err(ValueError::Number("stoull"));
        }
        let mut wide = 0u64;
        wide.parse_into(text)?;
        self.0 = wide as u32;
        Ok(())
    }
}

options! {
    /// Options of block-based tables.
    pub struct BlockBasedTableOptions {
        /// Pads data blocks so that none crosses a page.
        mutable block_align: bool = false;
        /// Cache of blocks, by size.
        parsed block_cache: String = String::new();
        /// Keys between restart points of a data block. More saves space and costs seek time.
        mutable block_restart_interval: i32 = 16;
        /// Bytes of a data block before compression. Larger compresses better and saves index;
        /// a point read fetches more.
        mutable block_size: u64 = 4096;
        /// Share of a block, in per cent, that may stay unused rather than exceed its size.
        mutable block_size_deviation: i32 = 10;
        /// Keeps index and filter blocks in the block cache instead of with the open table.
        mutable cache_index_and_filter_blocks: bool = false;
        /// They are evicted last.
        mutable cache_index_and_filter_blocks_with_high_priority: bool = true;
        /// Block checksum.
        mutable checksum: ChecksumType = ChecksumType::Xxh3;
        /// Load of the hash index of data blocks.
        mutable data_block_hash_table_util_ratio: f64 = 0.75;
        /// Says whether data blocks carry a hash index.
        mutable data_block_index_type: DataBlockIndexType = DataBlockIndexType::BinarySearch;
        /// Cuts filter partitions apart from index partitions.
        mutable decouple_partitioned_filters: bool = true;
        /// Checks filters while they are built.
        mutable detect_filter_construct_corruption: bool = false;
        /// Compresses index blocks.
        mutable enable_index_compression: bool = true;
        /// Refuses tables without the user's index.
        mutable fail_if_no_udi_on_open: bool = false;
        /// Filters, such as `bloomfilter:10:false`.
        fixed filter_policy: String = "nullptr".to_string();
        /// Object that decides when a data block ends.
        fixed flush_block_policy_factory: String = "FlushBlockBySizePolicyFactory".to_string();
        /// Version of the table format.
        mutable format_version: u32 = 7;
        /// Keys between restart points of an index block.
        mutable index_block_restart_interval: i32 = 1;
        /// How an index block is searched.
        mutable index_block_search_type: BlockSearchType = BlockSearchType::Binary;
        /// How far index keys are shortened.
        mutable index_shortening: IndexShorteningMode = IndexShorteningMode::ShortenSeparators;
        /// Layout of the index.
        mutable index_type: IndexType = IndexType::BinarySearch;
        /// First read-ahead of an iterator.
        mutable initial_auto_readahead_size: u64 = 8192;
        /// Largest read-ahead of an iterator.
        mutable max_auto_readahead_size: u64 = 262_144;
        /// Bytes of an index or filter partition.
        mutable metadata_block_size: u64 = 4096;
        /// Which metadata blocks stay in the block cache.
        fixed metadata_cache_options: MetadataCacheOptions = MetadataCacheOptions::default();
        /// Does without a block cache.
        mutable no_block_cache: bool = false;
        /// Sequential reads of a file after which read-ahead starts.
        mutable num_file_reads_for_auto_readahead: u64 = 2;
        /// Sizes filters to what the allocator hands out.
        mutable optimize_filters_for_memory: bool = true;
        /// Splits filters.
        mutable partition_filters: bool = false;
        /// Keeps index and filter blocks of level 0 in the cache.
        mutable pin_l0_filter_and_index_blocks_in_cache: bool = false;
        /// Keeps the top level of partitioned indexes and filters in the cache.
        mutable pin_top_level_index_and_filter: bool = true;
        /// Which writes fill the block cache.
        mutable prepopulate_block_cache: PrepopulateBlockCache = PrepopulateBlockCache::Disable;
        /// Bytes per bit of the map that measures read amplification; 0 means none.
        mutable read_amp_bytes_per_bit: LowHalf = LowHalf(0);
        /// Stores the keys of a data block apart from the values.
        mutable separate_key_value_in_data_block: bool = false;
        /// Alignment of groups of data blocks; 0 means none.
        mutable super_block_alignment_size: u64 = 0;
        /// Bounds the space lost to it: one in so many.
        mutable super_block_alignment_space_overhead_ratio: u64 = 128;
        /// Spread of keys below which an index is taken for uniform; negative means never.
        mutable uniform_cv_threshold: f64 = -1.0;
        /// Stores keys as differences from the one before.
        mutable use_delta_encoding: bool = true;
        /// Reads through the user's index.
        mutable use_udi_as_primary_index: bool = false;
        /// Maker of the user's index.
        fixed user_defined_index_factory: String = "nullptr".to_string();
        /// Decompresses each block after compressing it and compares.
        mutable verify_compression: bool = false;
        /// Filters hold whole keys.
        mutable whole_key_filtering: bool = true;
        /// Which indexes tables have: the standard one, the user's, or both.
        newer_mutable index_mode: IndexMode = IndexMode::StandardDefault;
        /// Format version 8: whether a data block stores once what its keys have in common. `kIfFastSeek` does so for
        /// keys in order of their bytes, or the reverse, `kEnabled` for all. Needs `use_delta_encoding`.
        newer_mutable optimize_key_common_prefix: OptimizeKeyCommonPrefix =
            OptimizeKeyCommonPrefix::IfFastSeek;
    }
    ignored {
        "block_cache_compressed", "hash_index_allow_collision", "index_per_partition",
        "reserve_table_builder_memory", "reserve_table_reader_memory", "skip_table_builder_flush",
    }
}
