//! Describes what this build refuses: every option whose value would change behaviour that does not exist.
//!
//! The rule is closed: an option that differs from its default is refused unless it is named here,
//! so a new row is refused until somebody implements it. Nothing is accepted and ignored, except
//! where ignoring changes no result: hints, and parts of features that are themselves refused. Those
//! are the lists `…_WITHOUT_EFFECT`, which `scripts/capi-list.sh` prints in `docs/compat.md`.

use super::objects::{FilterPolicyChoice, MergeOperatorChoice, hashes_prefixes, id};
use super::table::{OptionRow, OptionTable};
use super::{
    BlockBasedTableOptions, CfOptions, CompressionOptions, CompressionType, DbOptions, IndexMode,
};
use crate::filter::filter_by_name;
use spanlith_base::slice_transform::SliceTransform;
use spanlith_base::{Error, Result};
use std::sync::LazyLock;

/// Database options of which any value is honoured.
const DB_ANY: &[&str] = &[
    "create_if_missing",
    "create_missing_column_families",
    "error_if_exists",
    "paranoid_checks",
    "flush_verify_memtable_count",
    "compaction_verify_record_count",
    "verify_sst_unique_id_in_manifest",
    "enforce_single_del_contracts",
    "atomic_flush",
    "allow_2pc",
    "wal_dir",
    "wal_recovery_mode",
    "track_and_verify_wals",
    "track_and_verify_wals_in_manifest",
    "manual_wal_flush",
    "max_total_wal_size",
    "recycle_log_file_num",
    "WAL_ttl_seconds",
    "WAL_size_limit_MB",
    "avoid_flush_during_recovery",
    "avoid_flush_during_shutdown",
    "max_bgerror_resume_count",
    "bgerror_resume_retry_interval",
    // Ways to order writes that promise less than the one there is: here, too, a write is visible
    // when it returns, writes become visible in the order of their sequence numbers, and a snapshot
    // never changes.
    "enable_pipelined_write",
    "unordered_write",
    "two_write_queues",
    "max_background_jobs",
    "max_background_flushes",
    "max_background_compactions",
    "max_subcompactions",
    "info_log_level",
    "db_log_dir",
    "max_log_file_size",
    "log_file_time_to_roll",
    "keep_log_file_num",
    "stats_dump_period_sec",
    "statistics",
    "max_manifest_file_size",
    "max_manifest_space_amp_pct",
    "reuse_manifest_on_open",
    "best_efforts_recovery",
    "write_dbid_to_manifest",
    "write_identity_file",
    "bytes_per_sync",
    "strict_bytes_per_sync",
    "max_open_files",
    "open_files_async",
    "db_write_buffer_size",
    // Nothing is mapped, but cuckoo tables are read only with it, as in RocksDB.
    "allow_mmap_reads",
    "use_direct_reads",
    "use_direct_io_for_flush_and_compaction",
    "use_direct_io_for_compaction_reads",
    "rate_limiter_bytes_per_sec",
    "wal_bytes_per_sync",
    "wal_compression",
    "skip_stats_update_on_db_open",
    "delayed_write_rate",
    "max_compaction_trigger_wakeup_seconds",
    "allow_concurrent_memtable_write",
    "max_write_batch_group_size_bytes",
    "db_host_id",
    "max_file_opening_threads",
    "table_cache_numshardbits",
    "allow_fallocate",
    "advise_random_on_open",
    "compaction_readahead_size",
    "writable_file_max_buffer_size",
    "stats_persist_period_sec",
    "stats_history_buffer_size",
    "persist_stats_to_disk",
    "daily_offpeak_time_utc",
    "verify_manifest_content_on_close",
];

/// Database options that are accepted and change nothing.
const DB_WITHOUT_EFFECT: &[&str] = &[
    // Hints: they could only change speed. Mapped files are written by calls, logs and
    // tables are synced with fdatasync.
    "use_fsync",
    "is_fd_close_on_exec",
    "enable_thread_tracking",
    "allow_data_in_errors",
    "async_wal_precreate",
    "read_io_executor_threads",
    "fast_sst_open",
    "optimize_manifest_for_recovery",
    "metadata_write_temperature",
    "wal_write_temperature",
    "allow_mmap_writes",
    "enable_write_thread_adaptive_yield",
    "write_thread_max_yield_usec",
    "write_thread_slow_yield_usec",
    "delete_obsolete_files_period_micros",
    "manifest_preallocation_size",
    "use_adaptive_mutex",
    "avoid_unnecessary_blocking_io",
    "log_readahead_size",
    "background_close_inactive_wals",
    "dump_malloc_stats",
    // Memtables that a recovery fills are written out by their own size.
    "enforce_write_buffer_manager_during_recovery",
    // Iterators ask prefix filters only if a read option says so, in any case.
    "prefix_seek_opt_in_only",
    // Parts of features that do not exist: secondary caches, followers.
    "lowest_used_cache_tier",
    "follower_refresh_catchup_period_ms",
    "follower_catchup_retry_count",
    "follower_catchup_retry_wait_ms",
    // Compactions in other processes.
    "remote_compaction_manifest_floor",
    "use_session_tmp_dir_for_remote_compaction",
];

/// Family options of which any value is honoured.
const CF_ANY: &[&str] = &[
    "write_buffer_size",
    "max_write_buffer_number",
    "min_write_buffer_number_to_merge",
    "arena_block_size",
    "target_file_size_base",
    "target_file_size_multiplier",
    "max_bytes_for_level_base",
    "max_bytes_for_level_multiplier",
    "max_bytes_for_level_multiplier_additional",
    "level0_file_num_compaction_trigger",
    "level0_slowdown_writes_trigger",
    "level0_stop_writes_trigger",
    "level_compaction_dynamic_level_bytes",
    "num_levels",
    "max_compaction_bytes",
    "soft_pending_compaction_bytes_limit",
    "hard_pending_compaction_bytes_limit",
    "disable_auto_compactions",
    "optimize_filters_for_hits",
    "paranoid_file_checks",
    "compaction_pri",
    "compaction_style",
    // Fields without effect are hints (`reduce_file_locking`, a copy instead of a rewrite when only the
    // temperature changes, and its buffer) and `age_for_warm`, which RocksDB ignores too.
    "compaction_options_universal",
    "compaction_options_fifo",
    "ttl",
    "periodic_compaction_seconds",
    "persist_user_defined_timestamps",
    "preserve_internal_time_seconds",
    "preclude_last_level_data_seconds",
    "bottommost_file_compaction_delay",
    "read_triggered_compaction_threshold",
    "memtable_max_range_deletions",
    "memtable_op_scan_flush_trigger",
    "memtable_avg_op_scan_flush_trigger",
    "sample_for_compression",
    "min_tombstones_for_range_conversion",
    "memtable_prefix_bloom_size_ratio",
    "memtable_whole_key_filtering",
    "max_successive_merges",
    "max_sequential_skip_in_iterations",
    "strict_max_successive_merges",
    "memtable_protection_bytes_per_key",
    "block_protection_bytes_per_key",
    "verify_output_flags",
    "target_file_size_is_upper_bound",
    "disallow_memtable_writes",
    "last_level_temperature",
    "default_write_temperature",
    "paranoid_memory_checks",
    "report_bg_io_stats",
    "memtable_verify_per_key_checksum_on_seek",
    "enable_blob_files",
    "min_blob_size",
    "blob_file_size",
    "blob_compression_opts",
    "enable_blob_garbage_collection",
    "blob_garbage_collection_age_cutoff",
    "blob_garbage_collection_force_threshold",
    "blob_compaction_readahead_size",
    "blob_file_starting_level",
    "prepopulate_blob_cache",
];

/// Family options that are accepted and change nothing.
const CF_WITHOUT_EFFECT: &[&str] = &[
    // Tables of a level that overlap are refused whatever it says.
    "force_consistency_checks",
    // Memory: a value is never overwritten in its place, and memtables are not kept once they are
    // flushed.
    "inplace_update_support",
    "max_write_buffer_size_to_maintain",
    // Hints.
    "experimental_mempurge_threshold",
    "memtable_huge_page_size",
    "memtable_insert_with_hint_prefix_extractor",
    "memtable_batch_lookup_optimization",
    "default_temperature",
    "uncache_aggressiveness",
    "bloom_locality",
    // Parts of features that are refused themselves or have no effect: in-place updates, direct
    // writing of blob files.
    "inplace_update_num_locks",
    "blob_direct_write_partitions",
    "blob_direct_write_partition_strategy",
    // How blob files are written, not what is in them.
    "blob_file_writable_file_max_buffer_size",
];

/// Table options of which any value is honoured.
const TABLE_ANY: &[&str] = &[
    "block_cache",
    "block_restart_interval",
    "block_size",
    "prepopulate_block_cache",
    "block_size_deviation",
    "cache_index_and_filter_blocks",
    "index_block_restart_interval",
    "index_shortening",
    "index_type",
    "no_block_cache",
    "pin_l0_filter_and_index_blocks_in_cache",
    "pin_top_level_index_and_filter",
    "whole_key_filtering",
    "checksum",
    "data_block_index_type",
    "data_block_hash_table_util_ratio",
    "separate_key_value_in_data_block",
    "fail_if_no_udi_on_open",
    "super_block_alignment_size",
    "super_block_alignment_space_overhead_ratio",
    "cache_index_and_filter_blocks_with_high_priority",
    "initial_auto_readahead_size",
    "max_auto_readahead_size",
    "num_file_reads_for_auto_readahead",
    "optimize_filters_for_memory",
    "enable_index_compression",
    "use_delta_encoding",
    "verify_compression",
    "detect_filter_construct_corruption",
    "decouple_partitioned_filters",
    "uniform_cv_threshold",
    "metadata_block_size",
    "partition_filters",
    "optimize_key_common_prefix",
];

/// Table options that are accepted and change nothing.
const TABLE_WITHOUT_EFFECT: &[&str] = &[
    // A statistic.
    "read_amp_bytes_per_bit",
    // How an index is searched; the mark that tells it is written.
    "index_block_search_type",
    // Which index and filter blocks stay in memory: only the older switches are looked at.
    "metadata_cache_options",
];

/// Returns whether the option called `name` is accepted and changes nothing, whatever its value.
pub fn is_without_effect(name: &str) -> bool {
    [DB_WITHOUT_EFFECT, CF_WITHOUT_EFFECT, TABLE_WITHOUT_EFFECT]
        .iter()
        .any(|list| list.contains(&name))
}

/// Says whether an option's name stands in one of two lists.
type Rows<T> = LazyLock<Vec<&'static OptionRow<T>>>;

static DB_ROWS: Rows<DbOptions> = LazyLock::new(|| others([DB_ANY, DB_WITHOUT_EFFECT]));
static CF_ROWS: Rows<CfOptions> = LazyLock::new(|| others([CF_ANY, CF_WITHOUT_EFFECT]));
static TABLE_ROWS: Rows<BlockBasedTableOptions> =
    LazyLock::new(|| others([TABLE_ANY, TABLE_WITHOUT_EFFECT]));

/// The options that `lists` do not hold.
fn others<T: OptionTable>(lists: [&[&str]; 2]) -> Vec<&'static OptionRow<T>> {
    let is_listed = |name| lists.iter().any(|list| list.contains(&name));
    T::ROWS.iter().filter(|row| !is_listed(row.name)).collect()
}

/// Names of `rows` that are not the defaults.
fn changed<T: OptionTable>(
    options: &T,
    rows: &'static Rows<T>,
) -> impl Iterator<Item = &'static str> {
    let default = T::default();
    let rows = rows.iter().copied();
    let changed = rows.filter(move |row| (row.get)(options) != (row.get)(&default));
    changed.map(|row| row.name)
}

/// Refuses what this build does not do, all of it at once.
///
/// # Errors
/// `NotSupported` with the names of the options, separated by commas; codecs are named too. `InvalidArgument`
/// for aligned blocks that are to be compressed.
pub fn check_supported(
    db: &DbOptions,
    cf: &CfOptions,
    table: &BlockBasedTableOptions,
) -> Result<()> {
    let mut refused = Vec::new();
    for name in changed(db, &DB_ROWS) {
        if !db_value(db, name) {
            refused.push(name.to_string());
        }
    }
    for name in changed(cf, &CF_ROWS) {
        if !cf_value(cf, name) {
            refused.push(match name {
                "compression" | "bottommost_compression" | "compression_per_level" => {
                    format!("{name} {}", refused_codec(cf, name))
                }
                _ => name.to_string(),
            });
        }
    }
    if cf.table_factory == "BlockBasedTable" {
        check_alignment(cf, table)?;
        for name in changed(table, &TABLE_ROWS) {
            if name != "block_align" && !table_value(table, name) {
                refused.push(name.to_string());
            }
        }
    }
    if refused.is_empty() {
        Ok(())
    } else {
        Err(Error::not_supported(refused.join(", ")))
    }
}

/// Options of a family that name an object which programs may bring themselves.
const CF_OBJECTS: [&str; 7] = [
    "comparator",
    "merge_operator",
    "memtable_factory",
    "prefix_extractor",
    "compaction_filter",
    "compaction_filter_factory",
    "sst_partitioner_factory",
];

/// Takes back names of objects that neither this build nor RocksDB knows: objects of a program, which it has to
/// bring again. RocksDB leaves such options as they were before the text. What RocksDB has and this build has not
/// stays, and is refused at open.
pub fn keep_known_objects(
    (cf, table): (&mut CfOptions, &mut BlockBasedTableOptions),
    (cf_before, table_before): (&CfOptions, &BlockBasedTableOptions),
) {
    for row in CfOptions::ROWS {
        let (now, before) = ((row.get)(cf), (row.get)(cf_before));
        let is_of_rocksdb = now.contains("RemoveEmptyValueCompactionFilter");
        let is_object = CF_OBJECTS.contains(&row.name) && !is_of_rocksdb;
        let default = || (row.get)(&CfOptions::default());
        if is_object && now != before && now != default() && !cf_value(cf, row.name) {
            // An option reads its own printed text.
            let _ = (row.set)(cf, &before);
        }
    }
    let is_of_rocksdb = table.filter_policy.contains("rocksdb.");
    if !is_of_rocksdb && !table_value(table, "filter_policy") {
        table.filter_policy.clone_from(&table_before.filter_policy);
    }
    if !table_value(table, "flush_block_policy_factory") {
        let before = &table_before.flush_block_policy_factory;
        table.flush_block_policy_factory.clone_from(before);
    }
}

/// Values of database options, other than defaults, that are honoured.
fn db_value(db: &DbOptions, name: &str) -> bool {
    match name {
        "file_checksum_gen_factory" => {
            super::objects::file_checksum_factory(&db.file_checksum_gen_factory).is_some()
        }
        "listeners" => super::objects::is_null(&db.listeners),
        _ => false,
    }
}

/// Aligned blocks are not compressed. RocksDB says so when a database is opened; to a change of options only when the
/// next flush fails and with it all writes, so that a change is refused here.
fn check_alignment(cf: &CfOptions, table: &BlockBasedTableOptions) -> Result<()> {
    let compresses = |c: &CompressionType| {
        // `Disable` is what `bottommost_compression` has by default: no codec of its own.
        !matches!(c, CompressionType::None | CompressionType::Disable)
    };
    let what = if !table.block_align {
        return Ok(());
    } else if compresses(&cf.compression) {
        "compression"
    } else if compresses(&cf.bottommost_compression) {
        "bottommost_compression"
    } else if cf.compression_per_level.iter().any(compresses) {
        "compression_per_level"
    } else {
        return Ok(());
    };
    Err(Error::invalid_argument(format!(
        "Enable block_align, but {what} enabled"
    )))
}

fn refused_codec(cf: &CfOptions, name: &str) -> String {
    match name {
        "compression" => cf.compression.to_string(),
        "bottommost_compression" => cf.bottommost_compression.to_string(),
        _ => cf
            .compression_per_level
            .iter()
            .copied()
            .find(|c| !c.is_written())
            .unwrap_or_default()
            .to_string(),
    }
}

/// Returns whether the codecs of a family honour the options; what only changes ratio or speed they may
/// ignore.
fn codecs_honour(cf: &CfOptions, o: &CompressionOptions) -> bool {
    let takes = |codec: CompressionType| codec.takes_level(o.level);
    takes(cf.compression)
        && takes(cf.bottommost_compression)
        && cf.compression_per_level.iter().copied().all(takes)
}

/// Values of family options, other than defaults, that are honoured.
fn cf_value(cf: &CfOptions, name: &str) -> bool {
    match name {
        "comparator" => {
            matches!(
                id(&cf.comparator),
                Some(
                    "leveldb.BytewiseComparator"
                        | "rocksdb.ReverseBytewiseComparator"
                        | "leveldb.BytewiseComparator.u64ts"
                        | "rocksdb.ReverseBytewiseComparator.u64ts"
                )
            )
        }
        "merge_operator" => MergeOperatorChoice::parse(&cf.merge_operator).is_some(),
        "memtable_factory" => id(&cf.memtable_factory).is_some_and(|id| {
            // Only iterators that begin at an end see them from outside.
            let kind = id.split(':').next();
            hashes_prefixes(id)
                || matches!(
                    kind,
                    Some("SkipListFactory" | "skip_list" | "VectorRepFactory" | "vector")
                )
        }),
        "prefix_extractor" => {
            super::objects::is_null(&cf.prefix_extractor)
                || SliceTransform::from_text(&cf.prefix_extractor).is_some()
        }
        "compression" => cf.compression.is_written(),
        "bottommost_compression" => {
            cf.bottommost_compression.is_written()
                || cf.bottommost_compression == CompressionType::Disable
        }
        "blob_compression_type" => cf.blob_compression_type.is_written(),
        "compression_per_level" => cf.compression_per_level.iter().all(|c| c.is_written()),
        "compression_opts" => codecs_honour(cf, &cf.compression_opts),
        "bottommost_compression_opts" => {
            let own = &cf.bottommost_compression_opts;
            !own.enabled || codecs_honour(cf, own)
        }
        "compaction_filter" => {
            super::objects::is_null(&cf.compaction_filter)
                || id(&cf.compaction_filter).is_some_and(|name| filter_by_name(name).is_some())
        }
        "table_factory" => super::table_factory::format_of(&cf.table_factory).is_ok(),
        "sst_partitioner_factory" => {
            super::objects::is_null(&cf.sst_partitioner_factory)
                || super::partition_prefix(&cf.sst_partitioner_factory).is_some()
        }
        "table_properties_collectors" => {
            super::collectors_of(&cf.table_properties_collectors).is_some()
        }
        "compaction_filter_factory" | "compression_manager" | "blob_cache" => cf
            .get_option(name)
            .is_some_and(|text| super::objects::is_null(&text)),
        _ => false,
    }
}

/// Values of table options, other than defaults, that are honoured.
fn table_value(table: &BlockBasedTableOptions, name: &str) -> bool {
    match name {
        "filter_policy" => FilterPolicyChoice::parse(&table.filter_policy).is_some(),
        "flush_block_policy_factory" => matches!(
            id(&table.flush_block_policy_factory),
            Some("FlushBlockBySizePolicyFactory" | "FlushBlockEveryKeyPolicyFactory")
        ),
        "format_version" => matches!(table.format_version, 2..=8),
        // Without a user's index all of these mean the standard one.
        "index_mode" => matches!(
            table.index_mode,
            IndexMode::StandardOnly | IndexMode::StandardDefault | IndexMode::StandardRequired
        ),
        "user_defined_index_factory" => super::objects::is_null(&table.user_defined_index_factory),
        _ => false,
    }
}

/// Asserts that the lists name rows only, none twice.
#[cfg(test)]
pub(super) fn check_lists() {
    fn check<T: OptionTable>(lists: [&[&str]; 2]) {
        let names = lists.concat();
        for (n, name) in names.iter().enumerate() {
            assert!(T::row(name).is_some(), "{name}");
            assert!(!names[..n].contains(name), "{name}");
        }
    }
    check::<DbOptions>([DB_ANY, DB_WITHOUT_EFFECT]);
    check::<CfOptions>([CF_ANY, CF_WITHOUT_EFFECT]);
    check::<BlockBasedTableOptions>([TABLE_ANY, TABLE_WITHOUT_EFFECT]);
}
