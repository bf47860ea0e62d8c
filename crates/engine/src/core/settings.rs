//! Options of a family, in the form its parts take them.

use super::FamilyRequest;
use crate::options::{
    BlockBasedTableOptions, CfOptions, ChecksumType, CodecChoice as CodecChoiceOption,
    CompactionStyle, CompressionOptions, CompressionType, DataBlockIndexType, FilterPolicyChoice,
    IndexShorteningMode, IndexType, KvsepGc, OptimizeKeyCommonPrefix, object_id, partition_prefix,
    table_factory,
};
use crate::version::{
    BlobBudget, FilePaths, ForcedBlobGc, LevelOptions, TableIo, TableReadOptions,
};
use spanlith_base::checksum::ChecksumKind;
use spanlith_table::{
    AutoReadahead, CodecChoice, CodecMemory, CommonPrefix,
    CompressionOptions as TableCompressionOptions, FilterBalance, FilterKind, IndexShortening,
    IndexType as TableIndexType, ReaderOptions, TableOptions,
};

/// The codec of a supported compression type; others were refused before.
fn codec(t: CompressionType) -> CompressionType {
    t.for_writing().unwrap_or_default()
}

/// How codecs of new tables go about it.
pub(crate) fn compression_options(cf: &CfOptions) -> TableCompressionOptions {
    table_form(&cf.compression_opts)
}

/// How the codec of tables in the deepest level with data goes about it.
pub(crate) fn bottommost_compression_options(cf: &CfOptions) -> TableCompressionOptions {
    if cf.bottommost_compression_opts.enabled {
        table_form(&cf.bottommost_compression_opts)
    } else {
        compression_options(cf)
    }
}

/// By how many per cent the codec of the options must undercut LZ4 to be worth its time, above the last level with
/// data: what is written there is soon written again.
const SAVING_ABOVE_PERCENT: u32 = 30;
/// The same where the levels above the last hold a tenth of the data by their rule: even half of that is not worth as
/// much time as the last level takes.
const SAVING_ABOVE_DYNAMIC_PERCENT: u32 = 100;
/// The same in the last level, where most of the data lies.
const SAVING_BELOW_PERCENT: u32 = 15;

/// How the codec of each data block of new tables is chosen, in the last level with data or above it.
pub(crate) fn codec_choice(cf: &CfOptions, is_last_data_level: bool) -> CodecChoice {
    match (cf.own.codec_choice, is_last_data_level) {
        (CodecChoiceOption::Fixed, _) => CodecChoice::Fixed,
        (CodecChoiceOption::Adaptive, false) => CodecChoice::Adaptive {
            saving_percent: match upper_levels_are_small(cf) {
                true => SAVING_ABOVE_DYNAMIC_PERCENT,
                false => SAVING_ABOVE_PERCENT,
            },
        },
        (CodecChoiceOption::Adaptive, true) => CodecChoice::Adaptive {
            saving_percent: SAVING_BELOW_PERCENT,
        },
    }
}

/// Returns whether the levels above the last one with data hold a tenth of it at most, once it is large.
fn upper_levels_are_small(cf: &CfOptions) -> bool {
    cf.compaction_style == CompactionStyle::Level && cf.level_compaction_dynamic_level_bytes
}

/// How the codec of blobs goes about it.
pub(crate) fn blob_compression_options(cf: &CfOptions) -> TableCompressionOptions {
    table_form(&cf.blob_compression_opts)
}

fn table_form(o: &CompressionOptions) -> TableCompressionOptions {
    TableCompressionOptions {
        window_bits: o.window_bits,
        level: o.level,
        strategy: o.strategy,
        max_dict_bytes: o.max_dict_bytes,
        zstd_max_train_bytes: o.zstd_max_train_bytes,
        enabled: o.enabled,
        max_dict_buffer_bytes: o.max_dict_buffer_bytes,
        use_zstd_dict_trainer: o.use_zstd_dict_trainer,
        parallel_threads: o.parallel_threads,
        checksum: o.checksum,
        auto_skip: o.auto_skip,
        auto_skip_min_sample_every: o.auto_skip_min_sample_every,
    }
}

/// Returns what compaction needs to know.
pub(crate) fn level_options(cf: &CfOptions, paths: &FilePaths) -> LevelOptions {
    let is_budget = cf.own.kvsep_gc == KvsepGc::Budget;
    LevelOptions {
        style: cf.compaction_style,
        universal: cf.compaction_options_universal.clone(),
        fifo: cf.compaction_options_fifo.clone(),
        write_buffer_size: cf.write_buffer_size,
        level0_stop_writes_trigger: cf.level0_stop_writes_trigger,
        num_levels: cf.num_levels.max(1) as u32,
        level_compaction_dynamic_level_bytes: cf.level_compaction_dynamic_level_bytes,
        max_bytes_for_level_base: cf.max_bytes_for_level_base,
        max_bytes_for_level_multiplier: cf.max_bytes_for_level_multiplier,
        max_bytes_for_level_multiplier_additional: cf
            .max_bytes_for_level_multiplier_additional
            .clone(),
        level0_file_num_compaction_trigger: cf.level0_file_num_compaction_trigger,
        target_file_size_base: cf.target_file_size_base,
        target_file_size_multiplier: cf.target_file_size_multiplier,
        max_compaction_bytes: cf.max_compaction_bytes,
        compaction_pri: cf.compaction_pri,
        compression: codec(cf.compression),
        compression_per_level: cf.compression_per_level.iter().map(|&c| codec(c)).collect(),
        codec_by_depth: cf.own.codec_choice == CodecChoiceOption::Adaptive
            && upper_levels_are_small(cf),
        bottommost_compression: match cf.bottommost_compression {
            CompressionType::Disable => None,
            c => Some(codec(c)),
        },
        path_count: paths.count(),
        path_targets: paths.targets(),
        has_speed_dir: paths.speed().is_some(),
        has_compaction_filter: false,
        ttl: cf.ttl,
        periodic_compaction_seconds: cf.periodic_compaction_seconds,
        bottommost_file_compaction_delay: u64::from(cf.bottommost_file_compaction_delay),
        read_triggered_compaction_threshold: cf.read_triggered_compaction_threshold,
        partition_prefix: partition_prefix(&cf.sst_partitioner_factory),
        precludes_last_level: cf.preclude_last_level_data_seconds > 0,
        blob_budget: is_budget.then_some(BlobBudget {
            target: cf.own.kvsep_space_target,
            max: cf.own.kvsep_space_max,
        }),
        forced_blob_gc: (!is_budget
            && cf.enable_blob_garbage_collection
            && cf.blob_garbage_collection_age_cutoff > 0.0
            && cf.blob_garbage_collection_force_threshold < 1.0)
            .then_some(ForcedBlobGc {
                age_cutoff: cf.blob_garbage_collection_age_cutoff,
                threshold: cf.blob_garbage_collection_force_threshold,
            }),
    }
}

/// Shape of new tables.
pub(crate) fn table_options(cf: &CfOptions, o: &BlockBasedTableOptions) -> TableOptions {
    TableOptions {
        format: table_factory::format_in(cf),
        block_size: o.block_size.clamp(1, u64::from(u32::MAX)) as usize,
        one_entry_per_block: object_id(&o.flush_block_policy_factory)
            == Some("FlushBlockEveryKeyPolicyFactory"),
        block_size_deviation: o.block_size_deviation.clamp(0, 100) as u32,
        block_restart_interval: o.block_restart_interval.max(1) as usize,
        index_block_restart_interval: o.index_block_restart_interval.max(1) as usize,
        format_version: o.format_version,
        checksum: match o.checksum {
            ChecksumType::None => ChecksumKind::None,
            ChecksumType::Crc32c => ChecksumKind::Crc32c,
            ChecksumType::XxHash => ChecksumKind::XxHash,
            ChecksumType::XxHash64 => ChecksumKind::XxHash64,
            ChecksumType::Xxh3 => ChecksumKind::Xxh3,
        },
        filter: match FilterPolicyChoice::parse(&o.filter_policy) {
            Some(FilterPolicyChoice::Bloom { bits_per_key }) => {
                FilterKind::Bloom { bits: bits_per_key }
            }
            Some(FilterPolicyChoice::Ribbon {
                bits_per_key,
                bloom_before_level,
            }) => FilterKind::Ribbon {
                bits: bits_per_key,
                bloom_before_level,
            },
            Some(FilterPolicyChoice::None) | None => FilterKind::None,
        },
        index_type: match o.index_type {
            IndexType::BinarySearch => TableIndexType::BinarySearch,
            IndexType::HashSearch => TableIndexType::HashSearch,
            IndexType::TwoLevelIndexSearch => TableIndexType::TwoLevelIndexSearch,
            IndexType::BinarySearchWithFirstKey => TableIndexType::BinarySearchWithFirstKey,
        },
        metadata_block_size: o.metadata_block_size.clamp(1, u64::from(u32::MAX)) as usize,
        partition_filters: o.partition_filters,
        decouple_partitioned_filters: o.decouple_partitioned_filters,
        uniform_cv_threshold: o.uniform_cv_threshold,
        whole_key_filtering: o.whole_key_filtering,
        index_shortening: match o.index_shortening {
            IndexShorteningMode::NoShortening => IndexShortening::None,
            IndexShorteningMode::ShortenSeparators => IndexShortening::Separators,
            _ => IndexShortening::SeparatorsAndSuccessor,
        },
        optimize_filters_for_memory: o.optimize_filters_for_memory,
        filter_balance: FilterBalance::default(),
        enable_index_compression: o.enable_index_compression,
        use_delta_encoding: o.use_delta_encoding,
        verify_compression: o.verify_compression,
        verify_filters: o.detect_filter_construct_corruption,
        max_compressed_bytes_per_kb: cf
            .compression_opts
            .max_compressed_bytes_per_kb
            .clamp(0, 1023) as u32,
        data_block_hash_index: (o.data_block_index_type == DataBlockIndexType::BinaryAndHash)
            .then_some(o.data_block_hash_table_util_ratio),
        separate_key_value_in_data_block: o.separate_key_value_in_data_block,
        block_align: o.block_align,
        super_block_alignment_size: o.super_block_alignment_size.min(1 << 30) as usize,
        super_block_alignment_space_overhead_ratio: o
            .super_block_alignment_space_overhead_ratio
            .min(1 << 30) as usize,
        common_prefix: common_prefix(o.optimize_key_common_prefix),
        codec_memory: CodecMemory::default(),
    }
}

/// When data blocks store once what their keys have in common, as tables know it.
fn common_prefix(option: OptimizeKeyCommonPrefix) -> CommonPrefix {
    match option {
        OptimizeKeyCommonPrefix::Disabled => CommonPrefix::Never,
        OptimizeKeyCommonPrefix::IfFastSeek => CommonPrefix::Bytewise,
        OptimizeKeyCommonPrefix::Enabled => CommonPrefix::Always,
    }
}

/// A size in bytes of this machine.
fn bytes(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Returns what options of tables say about reading them.
pub(crate) fn table_read_options(o: &BlockBasedTableOptions) -> TableReadOptions {
    TableReadOptions {
        cache_index_and_filter_blocks: o.cache_index_and_filter_blocks,
        with_high_priority: o.cache_index_and_filter_blocks_with_high_priority,
        pin_l0: o.pin_l0_filter_and_index_blocks_in_cache,
        pin_top_level: o.pin_top_level_index_and_filter,
        whole_key_filtering: o.whole_key_filtering,
        auto_readahead: AutoReadahead {
            initial: bytes(o.initial_auto_readahead_size),
            max: bytes(o.max_auto_readahead_size),
            after_reads: u32::try_from(o.num_file_reads_for_auto_readahead).unwrap_or(u32::MAX),
        },
    }
}

/// How the tables of a family are opened, as far as that stays; what differs by file is left at its default.
pub(crate) fn reader_options(request: &FamilyRequest, io: &TableIo) -> ReaderOptions {
    ReaderOptions {
        comparator: request.comparator.clone(),
        cache: request.block_cache.clone(),
        rate_limiter: io.rate_limiter().cloned(),
        allows_mapping: io.allows_mapping(),
        charges: request.cache_usage.charges(request.block_cache.as_ref()),
        ..ReaderOptions::default()
    }
}
