//! Describes what the writer and the readers of tables can be told.

use crate::activity::ReadActivity;
use crate::choice::{CodecChoice, CodecMemory, CommonPrefix};
use crate::collector::Collectors;
use crate::filter::{FilterBalance, FilterKind};
use crate::flat::TableFormat;
use crate::index::IndexType;
use crate::lookups::LookupTap;
use crate::meter::WriteCounters;
use crate::{BlockCache, CacheCharges, CompressionOptions};
use spanlith_base::checksum::ChecksumKind;
use spanlith_base::slice_transform::ExtractorId;
use spanlith_base::stats::Statistics;
use spanlith_base::{Comparator, CompressionType, SliceTransform};
use spanlith_env::{Clock, IoPriority, RateLimiter};
use std::sync::Arc;

/// How index keys are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexShortening {
    /// The last key of each block.
    None,
    /// The shortest key between two blocks.
    #[default]
    Separators,
    /// Also a short key after the last block.
    SeparatorsAndSuccessor,
}

/// Shape of the tables of a column family.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// How tables are laid out. All else that is said here counts for block-based tables only.
    pub format: TableFormat,
    /// Uncompressed bytes at which a data block is cut.
    pub block_size: usize,
    /// Every entry gets a data block of its own, whatever its size.
    pub one_entry_per_block: bool,
    /// A block is cut early if it is this close to its size, in percent, and the next entry would
    /// not fit.
    pub block_size_deviation: u32,
    /// Entries per restart point in data blocks.
    pub block_restart_interval: usize,
    /// Entries per restart point in the index.
    pub index_block_restart_interval: usize,
    /// 2 to 8.
    pub format_version: u32,
    /// How blocks are checked.
    pub checksum: ChecksumKind,
    /// The filter to write.
    pub filter: FilterKind,
    /// Says whether whole keys go into the filter. Prefixes do if there is a prefix extractor; without
    /// either no filter is written.
    pub whole_key_filtering: bool,
    /// Structure of the index.
    pub index_type: IndexType,
    /// Bytes at which a partition of a two-level index, and of its filter, is cut.
    pub metadata_block_size: usize,
    /// Cut the filter into partitions; only with a two-level index.
    pub partition_filters: bool,
    /// How index keys are made.
    pub index_shortening: IndexShortening,
    /// Fit the length of filters to the memory they really take, and choose the number of probes by it.
    pub optimize_filters_for_memory: bool,
    /// Says what the filters that were fitted so far let pass beyond what was asked for; clones share it.
    pub filter_balance: FilterBalance,
    /// Add a hash index to data blocks, with this share of its buckets in use.
    pub data_block_hash_index: Option<f64>,
    /// Keep the values of a data block apart from its keys.
    pub separate_key_value_in_data_block: bool,
    /// Pad every data block to a multiple of the block size, but at most 4096 bytes. Only without
    /// compression.
    pub block_align: bool,
    /// Pad before a data block that would cross a multiple of this size; 0 does not.
    pub super_block_alignment_size: usize,
    /// Pad only if that takes less than the alignment divided by this.
    pub super_block_alignment_space_overhead_ratio: usize,
    /// Compress the index block like data blocks.
    pub enable_index_compression: bool,
    /// Leave out what the keys of a data block share with the one before; off costs space and helps
    /// nothing here.
    pub use_delta_encoding: bool,
    /// Decompress every compressed block again and compare.
    pub verify_compression: bool,
    /// Ask every finished filter for all of its entries.
    pub verify_filters: bool,
    /// A block stays compressed if it needs at most this many of every 1024 bytes.
    pub max_compressed_bytes_per_kb: u32,
    /// Cut filter partitions by their own size instead of along with those of the index. Recorded
    /// as a property also where nothing is partitioned.
    pub decouple_partitioned_filters: bool,
    /// Index blocks are marked if the gaps between their keys vary by less than this share of the mean;
    /// negative marks none.
    pub uniform_cv_threshold: f64,
    /// When data blocks of format version 8 store once what their keys have in common.
    pub common_prefix: CommonPrefix,
    /// Says what was learned of the data while it was compressed; clones share it.
    pub codec_memory: CodecMemory,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            format: TableFormat::BlockBased,
            block_size: 4096,
            one_entry_per_block: false,
            block_size_deviation: 10,
            block_restart_interval: 16,
            index_block_restart_interval: 1,
            format_version: 7,
            checksum: ChecksumKind::Xxh3,
            filter: FilterKind::None,
            whole_key_filtering: true,
            index_type: IndexType::BinarySearch,
            metadata_block_size: 4096,
            partition_filters: false,
            index_shortening: IndexShortening::Separators,
            optimize_filters_for_memory: true,
            filter_balance: FilterBalance::default(),
            data_block_hash_index: None,
            separate_key_value_in_data_block: false,
            block_align: false,
            super_block_alignment_size: 0,
            super_block_alignment_space_overhead_ratio: 128,
            enable_index_compression: true,
            use_delta_encoding: true,
            verify_compression: false,
            verify_filters: false,
            max_compressed_bytes_per_kb: 896,
            decouple_partitioned_filters: true,
            uniform_cv_threshold: -1.0,
            common_prefix: CommonPrefix::default(),
            codec_memory: CodecMemory::default(),
        }
    }
}

/// Column family id of tables that belong to no family.
pub const UNKNOWN_COLUMN_FAMILY: u32 = i32::MAX as u32;

/// Everything about one table to be written.
#[derive(Clone, Debug)]
pub struct BuilderOptions {
    /// Recorded: when sequence numbers were assigned, encoded; empty for nothing. Known only once all
    /// entries are: see [`TableBuilder::set_seqno_times`](crate::TableBuilder::set_seqno_times).
    pub seqno_to_time_mapping: Vec<u8>,
    /// Shape.
    pub table: TableOptions,
    /// Order of user keys.
    pub comparator: Comparator,
    /// Codec of data blocks, and of the index if enabled.
    pub compression: CompressionType,
    /// How the codec goes about it.
    pub compression_options: CompressionOptions,
    /// How the codec of each data block is chosen.
    pub codec_choice: CodecChoice,
    /// Of so many data blocks one is compressed by a fast and a slow codec for two properties that estimate the table's
    /// size with them; 0 for none.
    pub sample_for_compression: u64,
    /// Bytes of data that are held back at most while a compression dictionary is to be made; 0
    /// sets no limit.
    pub target_file_size: u64,
    /// Recorded.
    pub column_family_id: u32,
    /// Recorded if not empty.
    pub column_family_name: String,
    /// Recorded; part of the unique id.
    pub file_number: u64,
    /// Recorded; part of the unique id.
    pub db_id: String,
    /// Recorded; part of the unique id.
    pub db_session_id: String,
    /// Recorded if not empty.
    pub db_host_id: String,
    /// Recorded; empty means none.
    pub merge_operator_name: String,
    /// Recorded: time of the oldest ancestor, seconds since the epoch.
    pub creation_time: u64,
    /// Recorded: time of the oldest key.
    pub oldest_key_time: u64,
    /// Recorded: time of the newest key.
    pub newest_key_time: u64,
    /// Recorded if above 0.
    pub file_creation_time: u64,
    /// Write no filter although there is a filter policy.
    pub skip_filters: bool,
    /// The table is made to be taken in by a database: it says so, and has room for the sequence number that it gets
    /// there.
    pub is_external: bool,
    /// Keys keep their timestamps, if the comparator has any.
    pub persist_timestamps: bool,
    /// Hash all entries, so that the table can be compared with them.
    pub hash_contents: bool,
    /// The prefixes that go into filter and hash-search index.
    pub prefix_extractor: Option<SliceTransform>,
    /// The level that decides between Bloom and Ribbon: -1 for a flush, the output level of a
    /// compaction, [`BOTTOMMOST`](crate::filter::BOTTOMMOST) if unknown.
    pub filter_level: i32,
    /// Says who sees every entry and adds properties.
    pub collectors: Collectors,
    /// Random number of the context checksums (format version 7); `None` derives one from session
    /// and file number. Zero is replaced.
    pub context_checksum_base: Option<u32>,
    /// Memory of the builder that is charged to a block cache.
    pub charges: CacheCharges,
    /// Says who counts what writing costs; `None` if nobody does.
    pub counters: Option<WriteCounters>,
}

impl Default for BuilderOptions {
    fn default() -> Self {
        Self {
            seqno_to_time_mapping: Vec::new(),
            table: TableOptions::default(),
            comparator: Comparator::Bytewise,
            compression: CompressionType::None,
            codec_choice: CodecChoice::Fixed,
            compression_options: CompressionOptions::default(),
            sample_for_compression: 0,
            target_file_size: 0,
            column_family_id: UNKNOWN_COLUMN_FAMILY,
            column_family_name: String::new(),
            file_number: 0,
            db_id: String::new(),
            db_session_id: String::new(),
            db_host_id: String::new(),
            merge_operator_name: String::new(),
            creation_time: 0,
            oldest_key_time: 0,
            newest_key_time: 0,
            file_creation_time: 0,
            skip_filters: false,
            is_external: false,
            persist_timestamps: true,
            hash_contents: false,
            prefix_extractor: None,
            filter_level: crate::filter::BOTTOMMOST,
            collectors: Collectors::default(),
            context_checksum_base: None,
            charges: CacheCharges::default(),
            counters: None,
        }
    }
}

/// Describes who counts what reads of a table cost.
#[derive(Clone)]
pub struct ReadCounters {
    /// Where it is counted, beside the perf context.
    pub statistics: Option<Arc<Statistics>>,
    /// Measures how long reads take.
    pub clock: Arc<dyn Clock>,
    /// Is told which blocks are looked up in the cache, while it is on.
    pub lookups: Option<Arc<LookupTap>>,
}

/// How a table is opened.
#[derive(Clone)]
pub struct ReaderOptions {
    /// Order of user keys; must be the one the table was written with.
    pub comparator: Comparator,
    /// Bytes of a checksum that blocks have in memory, at most 8; 0 for none. It is verified whenever a block
    /// is taken: data blocks from the cache, those of index and filter from wherever they stay.
    pub block_protection_bytes: u8,
    /// Cache of data blocks; `None` reads every block from the file.
    pub cache: Option<BlockCache>,
    /// Verify the checksums of the meta blocks at open.
    pub verify_checksums: bool,
    /// Unique id the MANIFEST records; `None` or zeros check nothing.
    pub expected_unique_id: Option<[u64; 2]>,
    /// Largest sequence number in the table according to the MANIFEST, 0 if unknown: the number of
    /// all entries of a table that was made for ingestion.
    pub largest_seqno: u64,
    /// The MANIFEST says that keys were written without their timestamps. Properties that say so
    /// suffice as well.
    pub stripped_timestamps: bool,
    /// Files may be mapped into memory (`allow_mmap_reads`). RocksDB reads cuckoo tables in no other way, so that they are
    /// refused without; here nothing is mapped.
    pub allows_mapping: bool,
    /// Number of the file.
    pub file_number: u64,
    /// Level it is in; -1 unknown.
    pub level: i32,
    /// Levels of its family; 0 unknown. Only counting asks.
    pub levels: i32,
    /// Keep index and filter in the cache instead of with the reader.
    pub cache_index_and_filter_blocks: bool,
    /// Index and filter in the cache have high priority there.
    pub cache_index_and_filter_blocks_with_high_priority: bool,
    /// Keep index and filter with the reader all the same, partitions included, if the table is in
    /// level 0.
    pub pin_l0_filter_and_index_blocks_in_cache: bool,
    /// Keep the top level of a partitioned index or filter with the reader all the same.
    pub pin_top_level_index_and_filter: bool,
    /// The prefix extractor in use. Prefixes in filters are asked for only if the table was written
    /// with one of the same name.
    pub prefix_extractor: Option<SliceTransform>,
    /// Ask the filter for whole keys, if it has them.
    pub whole_key_filtering: bool,
    /// The table's id in the cache, from [`spanlith_cache::Cache::new_id`], if it has no identity of its own; `None` asks
    /// for a new one.
    pub cache_id: Option<u64>,
    /// How iterators read ahead on their own.
    pub auto_readahead: AutoReadahead,
    /// Asked before reads that have a priority ([`ReadParams::rate_priority`]), if it limits reads.
    pub rate_limiter: Option<Arc<RateLimiter>>,
    /// Memory of readers that is charged to a block cache.
    pub charges: CacheCharges,
    /// Says who counts; only reads with [`ReadParams::is_counted`] are.
    pub counters: Option<ReadCounters>,
}

/// How an iterator reads ahead when nobody tells it how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoReadahead {
    /// Bytes of the first read ahead; 0 turns reading ahead off.
    pub initial: usize,
    /// Most bytes of one; each is twice the one before.
    pub max: usize,
    /// Blocks read in sequence before it begins.
    pub after_reads: u32,
}

impl Default for AutoReadahead {
    fn default() -> Self {
        Self {
            initial: 8 << 10,
            max: 256 << 10,
            after_reads: 2,
        }
    }
}

impl Default for ReaderOptions {
    fn default() -> Self {
        Self {
            comparator: Comparator::Bytewise,
            block_protection_bytes: 0,
            cache: None,
            verify_checksums: true,
            expected_unique_id: None,
            largest_seqno: 0,
            stripped_timestamps: false,
            allows_mapping: true,
            file_number: 0,
            level: -1,
            levels: 0,
            cache_index_and_filter_blocks: false,
            cache_index_and_filter_blocks_with_high_priority: true,
            pin_l0_filter_and_index_blocks_in_cache: false,
            pin_top_level_index_and_filter: true,
            prefix_extractor: None,
            whole_key_filtering: true,
            cache_id: None,
            auto_readahead: AutoReadahead::default(),
            rate_limiter: None,
            charges: CacheCharges::default(),
            counters: None,
        }
    }
}

/// How one read goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadParams {
    /// Put blocks that were read into the cache.
    pub fill_cache: bool,
    /// Verify checksums of blocks that are read.
    pub verify_checksums: bool,
    /// Do no I/O: what is not cached is `Incomplete`.
    pub cache_only: bool,
    /// Bytes an iterator reads at once; 0 lets it find out.
    pub readahead: usize,
    /// Neither look into the cache nor fill it (compactions).
    pub bypass_cache: bool,
    /// Do not ask filters: what is sought is expected to be there.
    pub skip_filters: bool,
    /// Tell the system of the stretch after the one that is read (`async_io`).
    pub prefetch: bool,
    /// Priority with the rate limiter; `None` does not ask it.
    pub rate_priority: Option<IoPriority>,
    /// Point in time, in microseconds since 1970, after which nothing more is read from files; 0 is
    /// none. Needs a clock ([`ReaderOptions::counters`]).
    pub deadline_micros: u64,
    /// Count what the read costs, in the statistics of the table's reader and in the perf context of
    /// the calling thread.
    pub is_counted: bool,
    /// Says what the read is for; only counting asks.
    pub activity: ReadActivity,
    /// The extractor in use, on which it depends what prefix filters are asked for; `None` is the reader's own
    /// ([`ReaderOptions::prefix_extractor`]).
    pub extractor: Option<ExtractorId>,
}

impl Default for ReadParams {
    fn default() -> Self {
        Self {
            fill_cache: true,
            verify_checksums: true,
            cache_only: false,
            readahead: 0,
            bypass_cache: false,
            skip_filters: false,
            prefetch: false,
            rate_priority: None,
            deadline_micros: 0,
            is_counted: false,
            activity: ReadActivity::Unknown,
            extractor: None,
        }
    }
}
