//! Setters and getters of options that are one number: one line each, in the order of the header.

use crate::options::rocksdb_options_t;

accessors! {
    rocksdb_options_t {
        db.allow_ingest_behind:
            rocksdb_options_set_allow_ingest_behind(u8),
            rocksdb_options_get_allow_ingest_behind -> u8;
        db.compaction_readahead_size:
            rocksdb_options_compaction_readahead_size(usize),
            rocksdb_options_get_compaction_readahead_size -> usize;
        db.create_if_missing:
            rocksdb_options_set_create_if_missing(u8), rocksdb_options_get_create_if_missing -> u8;
        db.create_missing_column_families:
            rocksdb_options_set_create_missing_column_families(u8),
            rocksdb_options_get_create_missing_column_families -> u8;
        db.error_if_exists:
            rocksdb_options_set_error_if_exists(u8), rocksdb_options_get_error_if_exists -> u8;
        db.paranoid_checks:
            rocksdb_options_set_paranoid_checks(u8), rocksdb_options_get_paranoid_checks -> u8;
        db.open_files_async:
            rocksdb_options_set_open_files_async(u8), rocksdb_options_get_open_files_async -> u8;
        db.info_log_level:
            rocksdb_options_set_info_log_level(i32), rocksdb_options_get_info_log_level -> i32;
        cf.write_buffer_size:
            rocksdb_options_set_write_buffer_size(usize),
            rocksdb_options_get_write_buffer_size -> usize;
        db.db_write_buffer_size:
            rocksdb_options_set_db_write_buffer_size(usize),
            rocksdb_options_get_db_write_buffer_size -> usize;
        db.max_open_files:
            rocksdb_options_set_max_open_files(i32), rocksdb_options_get_max_open_files -> i32;
        db.max_file_opening_threads:
            rocksdb_options_set_max_file_opening_threads(i32),
            rocksdb_options_get_max_file_opening_threads -> i32;
        db.max_total_wal_size:
            rocksdb_options_set_max_total_wal_size(u64),
            rocksdb_options_get_max_total_wal_size -> u64;
        cf.num_levels: rocksdb_options_set_num_levels(i32), rocksdb_options_get_num_levels -> i32;
        cf.level0_file_num_compaction_trigger:
            rocksdb_options_set_level0_file_num_compaction_trigger(i32),
            rocksdb_options_get_level0_file_num_compaction_trigger -> i32;
        cf.level0_slowdown_writes_trigger:
            rocksdb_options_set_level0_slowdown_writes_trigger(i32),
            rocksdb_options_get_level0_slowdown_writes_trigger -> i32;
        cf.level0_stop_writes_trigger:
            rocksdb_options_set_level0_stop_writes_trigger(i32),
            rocksdb_options_get_level0_stop_writes_trigger -> i32;
        cf.target_file_size_base:
            rocksdb_options_set_target_file_size_base(u64),
            rocksdb_options_get_target_file_size_base -> u64;
        cf.target_file_size_multiplier:
            rocksdb_options_set_target_file_size_multiplier(i32),
            rocksdb_options_get_target_file_size_multiplier -> i32;
        cf.max_bytes_for_level_base:
            rocksdb_options_set_max_bytes_for_level_base(u64),
            rocksdb_options_get_max_bytes_for_level_base -> u64;
        cf.level_compaction_dynamic_level_bytes:
            rocksdb_options_set_level_compaction_dynamic_level_bytes(u8),
            rocksdb_options_get_level_compaction_dynamic_level_bytes -> u8;
        cf.max_bytes_for_level_multiplier:
            rocksdb_options_set_max_bytes_for_level_multiplier(f64),
            rocksdb_options_get_max_bytes_for_level_multiplier -> f64;
        cf.ttl: rocksdb_options_set_ttl(u64), rocksdb_options_get_ttl -> u64;
        cf.periodic_compaction_seconds:
            rocksdb_options_set_periodic_compaction_seconds(u64),
            rocksdb_options_get_periodic_compaction_seconds -> u64;
        cf.memtable_op_scan_flush_trigger:
            rocksdb_options_set_memtable_op_scan_flush_trigger(u32),
            rocksdb_options_get_memtable_op_scan_flush_trigger -> u32;
        cf.memtable_avg_op_scan_flush_trigger:
            rocksdb_options_set_memtable_avg_op_scan_flush_trigger(u32),
            rocksdb_options_get_memtable_avg_op_scan_flush_trigger -> u32;
        cf.min_tombstones_for_range_conversion:
            rocksdb_options_set_min_tombstones_for_range_conversion(u32),
            rocksdb_options_get_min_tombstones_for_range_conversion -> u32;
        db.skip_stats_update_on_db_open:
            rocksdb_options_set_skip_stats_update_on_db_open(u8),
            rocksdb_options_get_skip_stats_update_on_db_open -> u8;
        cf.enable_blob_files:
            rocksdb_options_set_enable_blob_files(u8), rocksdb_options_get_enable_blob_files -> u8;
        cf.min_blob_size:
            rocksdb_options_set_min_blob_size(u64), rocksdb_options_get_min_blob_size -> u64;
        cf.blob_file_writable_file_max_buffer_size:
            rocksdb_options_set_blob_file_writable_file_max_buffer_size(u64),
            rocksdb_options_get_blob_file_writable_file_max_buffer_size -> u64;
        db.remote_compaction_manifest_floor:
            rocksdb_options_set_remote_compaction_manifest_floor(u8),
            rocksdb_options_get_remote_compaction_manifest_floor -> u8;
        db.use_session_tmp_dir_for_remote_compaction:
            rocksdb_options_set_use_session_tmp_dir_for_remote_compaction(u8),
            rocksdb_options_get_use_session_tmp_dir_for_remote_compaction -> u8;
        db.periodic_compaction_phase_recovery_percent:
            rocksdb_options_set_periodic_compaction_phase_recovery_percent(i32),
            rocksdb_options_get_periodic_compaction_phase_recovery_percent -> i32;
        cf.blob_file_size:
            rocksdb_options_set_blob_file_size(u64), rocksdb_options_get_blob_file_size -> u64;
        cf.blob_compression_type:
            rocksdb_options_set_blob_compression_type(i32),
            rocksdb_options_get_blob_compression_type -> i32;
        cf.enable_blob_garbage_collection:
            rocksdb_options_set_enable_blob_gc(u8), rocksdb_options_get_enable_blob_gc -> u8;
        cf.blob_garbage_collection_age_cutoff:
            rocksdb_options_set_blob_gc_age_cutoff(f64),
            rocksdb_options_get_blob_gc_age_cutoff -> f64;
        cf.blob_garbage_collection_force_threshold:
            rocksdb_options_set_blob_gc_force_threshold(f64),
            rocksdb_options_get_blob_gc_force_threshold -> f64;
        cf.read_triggered_compaction_threshold:
            rocksdb_options_set_read_triggered_compaction_threshold(f64),
            rocksdb_options_get_read_triggered_compaction_threshold -> f64;
        db.max_compaction_trigger_wakeup_seconds:
            rocksdb_options_set_max_compaction_trigger_wakeup_seconds(u64),
            rocksdb_options_get_max_compaction_trigger_wakeup_seconds -> u64;
        cf.blob_compaction_readahead_size:
            rocksdb_options_set_blob_compaction_readahead_size(u64),
            rocksdb_options_get_blob_compaction_readahead_size -> u64;
        cf.blob_file_starting_level:
            rocksdb_options_set_blob_file_starting_level(i32),
            rocksdb_options_get_blob_file_starting_level -> i32;
        cf.prepopulate_blob_cache:
            rocksdb_options_set_prepopulate_blob_cache(i32),
            rocksdb_options_get_prepopulate_blob_cache -> i32;
        cf.max_write_buffer_number:
            rocksdb_options_set_max_write_buffer_number(i32),
            rocksdb_options_get_max_write_buffer_number -> i32;
        cf.min_write_buffer_number_to_merge:
            rocksdb_options_set_min_write_buffer_number_to_merge(i32),
            rocksdb_options_get_min_write_buffer_number_to_merge -> i32;
        cf.max_write_buffer_size_to_maintain:
            rocksdb_options_set_max_write_buffer_size_to_maintain(i64),
            rocksdb_options_get_max_write_buffer_size_to_maintain -> i64;
        db.enable_pipelined_write:
            rocksdb_options_set_enable_pipelined_write(u8),
            rocksdb_options_get_enable_pipelined_write -> u8;
        db.unordered_write:
            rocksdb_options_set_unordered_write(u8), rocksdb_options_get_unordered_write -> u8;
        db.max_subcompactions:
            rocksdb_options_set_max_subcompactions(u32),
            rocksdb_options_get_max_subcompactions -> u32;
        db.max_background_jobs:
            rocksdb_options_set_max_background_jobs(i32),
            rocksdb_options_get_max_background_jobs -> i32;
        db.max_background_compactions:
            rocksdb_options_set_max_background_compactions(i32),
            rocksdb_options_get_max_background_compactions -> i32;
        db.max_background_flushes:
            rocksdb_options_set_max_background_flushes(i32),
            rocksdb_options_get_max_background_flushes -> i32;
        db.max_log_file_size:
            rocksdb_options_set_max_log_file_size(usize),
            rocksdb_options_get_max_log_file_size -> usize;
        db.log_file_time_to_roll:
            rocksdb_options_set_log_file_time_to_roll(usize),
            rocksdb_options_get_log_file_time_to_roll -> usize;
        db.keep_log_file_num:
            rocksdb_options_set_keep_log_file_num(usize),
            rocksdb_options_get_keep_log_file_num -> usize;
        db.recycle_log_file_num:
            rocksdb_options_set_recycle_log_file_num(usize),
            rocksdb_options_get_recycle_log_file_num -> usize;
        cf.soft_pending_compaction_bytes_limit:
            rocksdb_options_set_soft_pending_compaction_bytes_limit(usize),
            rocksdb_options_get_soft_pending_compaction_bytes_limit -> usize;
        cf.hard_pending_compaction_bytes_limit:
            rocksdb_options_set_hard_pending_compaction_bytes_limit(usize),
            rocksdb_options_get_hard_pending_compaction_bytes_limit -> usize;
        db.max_manifest_file_size:
            rocksdb_options_set_max_manifest_file_size(usize),
            rocksdb_options_get_max_manifest_file_size -> usize;
        db.table_cache_numshardbits:
            rocksdb_options_set_table_cache_numshardbits(i32),
            rocksdb_options_get_table_cache_numshardbits -> i32;
        cf.arena_block_size:
            rocksdb_options_set_arena_block_size(usize),
            rocksdb_options_get_arena_block_size -> usize;
        db.use_fsync: rocksdb_options_set_use_fsync(i32), rocksdb_options_get_use_fsync -> i32;
        db.wal_ttl_seconds:
            rocksdb_options_set_WAL_ttl_seconds(u64), rocksdb_options_get_WAL_ttl_seconds -> u64;
        db.wal_size_limit_mb:
            rocksdb_options_set_WAL_size_limit_MB(u64),
            rocksdb_options_get_WAL_size_limit_MB -> u64;
        db.manifest_preallocation_size:
            rocksdb_options_set_manifest_preallocation_size(usize),
            rocksdb_options_get_manifest_preallocation_size -> usize;
        db.allow_mmap_reads:
            rocksdb_options_set_allow_mmap_reads(u8), rocksdb_options_get_allow_mmap_reads -> u8;
        db.allow_mmap_writes:
            rocksdb_options_set_allow_mmap_writes(u8), rocksdb_options_get_allow_mmap_writes -> u8;
        db.use_direct_reads:
            rocksdb_options_set_use_direct_reads(u8), rocksdb_options_get_use_direct_reads -> u8;
        db.use_direct_io_for_flush_and_compaction:
            rocksdb_options_set_use_direct_io_for_flush_and_compaction(u8),
            rocksdb_options_get_use_direct_io_for_flush_and_compaction -> u8;
        db.is_fd_close_on_exec:
            rocksdb_options_set_is_fd_close_on_exec(u8),
            rocksdb_options_get_is_fd_close_on_exec -> u8;
        db.stats_dump_period_sec:
            rocksdb_options_set_stats_dump_period_sec(u32),
            rocksdb_options_get_stats_dump_period_sec -> u32;
        db.stats_persist_period_sec:
            rocksdb_options_set_stats_persist_period_sec(u32),
            rocksdb_options_get_stats_persist_period_sec -> u32;
        db.advise_random_on_open:
            rocksdb_options_set_advise_random_on_open(u8),
            rocksdb_options_get_advise_random_on_open -> u8;
        db.use_adaptive_mutex:
            rocksdb_options_set_use_adaptive_mutex(u8),
            rocksdb_options_get_use_adaptive_mutex -> u8;
        db.bytes_per_sync:
            rocksdb_options_set_bytes_per_sync(u64), rocksdb_options_get_bytes_per_sync -> u64;
        db.wal_bytes_per_sync:
            rocksdb_options_set_wal_bytes_per_sync(u64),
            rocksdb_options_get_wal_bytes_per_sync -> u64;
        db.writable_file_max_buffer_size:
            rocksdb_options_set_writable_file_max_buffer_size(u64),
            rocksdb_options_get_writable_file_max_buffer_size -> u64;
        db.allow_concurrent_memtable_write:
            rocksdb_options_set_allow_concurrent_memtable_write(u8),
            rocksdb_options_get_allow_concurrent_memtable_write -> u8;
        db.enable_write_thread_adaptive_yield:
            rocksdb_options_set_enable_write_thread_adaptive_yield(u8),
            rocksdb_options_get_enable_write_thread_adaptive_yield -> u8;
        cf.max_sequential_skip_in_iterations:
            rocksdb_options_set_max_sequential_skip_in_iterations(u64),
            rocksdb_options_get_max_sequential_skip_in_iterations -> u64;
        cf.disable_auto_compactions:
            rocksdb_options_set_disable_auto_compactions(i32),
            rocksdb_options_get_disable_auto_compactions -> u8;
        cf.optimize_filters_for_hits:
            rocksdb_options_set_optimize_filters_for_hits(i32),
            rocksdb_options_get_optimize_filters_for_hits -> u8;
        db.delete_obsolete_files_period_micros:
            rocksdb_options_set_delete_obsolete_files_period_micros(u64),
            rocksdb_options_get_delete_obsolete_files_period_micros -> u64;
        cf.memtable_prefix_bloom_size_ratio:
            rocksdb_options_set_memtable_prefix_bloom_size_ratio(f64),
            rocksdb_options_get_memtable_prefix_bloom_size_ratio -> f64;
        cf.max_compaction_bytes:
            rocksdb_options_set_max_compaction_bytes(u64),
            rocksdb_options_get_max_compaction_bytes -> u64;
        db.write_dbid_to_manifest:
            rocksdb_options_set_write_dbid_to_manifest(u8),
            rocksdb_options_get_write_dbid_to_manifest -> u8;
        db.write_identity_file:
            rocksdb_options_set_write_identity_file(u8),
            rocksdb_options_get_write_identity_file -> u8;
        db.track_and_verify_wals_in_manifest:
            rocksdb_options_set_track_and_verify_wals_in_manifest(u8),
            rocksdb_options_get_track_and_verify_wals_in_manifest -> u8;
        cf.memtable_huge_page_size:
            rocksdb_options_set_memtable_huge_page_size(usize),
            rocksdb_options_get_memtable_huge_page_size -> usize;
        cf.max_successive_merges:
            rocksdb_options_set_max_successive_merges(usize),
            rocksdb_options_get_max_successive_merges -> usize;
        cf.bloom_locality:
            rocksdb_options_set_bloom_locality(u32), rocksdb_options_get_bloom_locality -> u32;
        cf.inplace_update_support:
            rocksdb_options_set_inplace_update_support(u8),
            rocksdb_options_get_inplace_update_support -> u8;
        cf.inplace_update_num_locks:
            rocksdb_options_set_inplace_update_num_locks(usize),
            rocksdb_options_get_inplace_update_num_locks -> usize;
        cf.report_bg_io_stats:
            rocksdb_options_set_report_bg_io_stats(i32),
            rocksdb_options_get_report_bg_io_stats -> u8;
        db.avoid_unnecessary_blocking_io:
            rocksdb_options_set_avoid_unnecessary_blocking_io(u8),
            rocksdb_options_get_avoid_unnecessary_blocking_io -> u8;
        cf.experimental_mempurge_threshold:
            rocksdb_options_set_experimental_mempurge_threshold(f64),
            rocksdb_options_get_experimental_mempurge_threshold -> f64;
        db.wal_recovery_mode:
            rocksdb_options_set_wal_recovery_mode(i32),
            rocksdb_options_get_wal_recovery_mode -> i32;
        cf.compression:
            rocksdb_options_set_compression(i32), rocksdb_options_get_compression -> i32;
        cf.bottommost_compression:
            rocksdb_options_set_bottommost_compression(i32),
            rocksdb_options_get_bottommost_compression -> i32;
        cf.compaction_style:
            rocksdb_options_set_compaction_style(i32), rocksdb_options_get_compaction_style -> i32;
        db.atomic_flush:
            rocksdb_options_set_atomic_flush(u8), rocksdb_options_get_atomic_flush -> u8;
        db.manual_wal_flush:
            rocksdb_options_set_manual_wal_flush(u8), rocksdb_options_get_manual_wal_flush -> u8;
        db.wal_compression:
            rocksdb_options_set_wal_compression(i32), rocksdb_options_get_wal_compression -> i32;
        cf.compaction_pri:
            rocksdb_options_set_compaction_pri(i32), rocksdb_options_get_compaction_pri -> i32;
        db.dump_malloc_stats:
            rocksdb_options_set_dump_malloc_stats(u8), rocksdb_options_get_dump_malloc_stats -> u8;
        cf.memtable_whole_key_filtering:
            rocksdb_options_set_memtable_whole_key_filtering(u8),
            rocksdb_options_get_memtable_whole_key_filtering -> u8;
        db.flush_verify_memtable_count:
            rocksdb_options_set_flush_verify_memtable_count(u8),
            rocksdb_options_get_flush_verify_memtable_count -> u8;
        db.compaction_verify_record_count:
            rocksdb_options_set_compaction_verify_record_count(u8),
            rocksdb_options_get_compaction_verify_record_count -> u8;
        db.track_and_verify_wals:
            rocksdb_options_set_track_and_verify_wals(u8),
            rocksdb_options_get_track_and_verify_wals -> u8;
        db.verify_sst_unique_id_in_manifest:
            rocksdb_options_set_verify_sst_unique_id_in_manifest(u8),
            rocksdb_options_get_verify_sst_unique_id_in_manifest -> u8;
        db.read_io_executor_threads:
            rocksdb_options_set_read_io_executor_threads(i32),
            rocksdb_options_get_read_io_executor_threads -> i32;
        db.async_wal_precreate:
            rocksdb_options_set_async_wal_precreate(u8),
            rocksdb_options_get_async_wal_precreate -> u8;
        db.verify_manifest_content_on_close:
            rocksdb_options_set_verify_manifest_content_on_close(u8),
            rocksdb_options_get_verify_manifest_content_on_close -> u8;
        db.optimize_manifest_for_recovery:
            rocksdb_options_set_optimize_manifest_for_recovery(u8),
            rocksdb_options_get_optimize_manifest_for_recovery -> u8;
        db.reuse_manifest_on_open:
            rocksdb_options_set_reuse_manifest_on_open(u8),
            rocksdb_options_get_reuse_manifest_on_open -> u8;
        db.max_manifest_space_amp_pct:
            rocksdb_options_set_max_manifest_space_amp_pct(i32),
            rocksdb_options_get_max_manifest_space_amp_pct -> i32;
        db.use_direct_io_for_compaction_reads:
            rocksdb_options_set_use_direct_io_for_compaction_reads(u8),
            rocksdb_options_get_use_direct_io_for_compaction_reads -> u8;
        db.allow_fallocate:
            rocksdb_options_set_allow_fallocate(u8), rocksdb_options_get_allow_fallocate -> u8;
        db.persist_stats_to_disk:
            rocksdb_options_set_persist_stats_to_disk(u8),
            rocksdb_options_get_persist_stats_to_disk -> u8;
        db.stats_history_buffer_size:
            rocksdb_options_set_stats_history_buffer_size(usize),
            rocksdb_options_get_stats_history_buffer_size -> usize;
        db.strict_bytes_per_sync:
            rocksdb_options_set_strict_bytes_per_sync(u8),
            rocksdb_options_get_strict_bytes_per_sync -> u8;
        db.enable_thread_tracking:
            rocksdb_options_set_enable_thread_tracking(u8),
            rocksdb_options_get_enable_thread_tracking -> u8;
        db.delayed_write_rate:
            rocksdb_options_set_delayed_write_rate(u64),
            rocksdb_options_get_delayed_write_rate -> u64;
        db.max_write_batch_group_size_bytes:
            rocksdb_options_set_max_write_batch_group_size_bytes(u64),
            rocksdb_options_get_max_write_batch_group_size_bytes -> u64;
        db.write_thread_max_yield_usec:
            rocksdb_options_set_write_thread_max_yield_usec(u64),
            rocksdb_options_get_write_thread_max_yield_usec -> u64;
        db.write_thread_slow_yield_usec:
            rocksdb_options_set_write_thread_slow_yield_usec(u64),
            rocksdb_options_get_write_thread_slow_yield_usec -> u64;
        db.allow_2pc: rocksdb_options_set_allow_2pc(u8), rocksdb_options_get_allow_2pc -> u8;
        db.avoid_flush_during_recovery:
            rocksdb_options_set_avoid_flush_during_recovery(u8),
            rocksdb_options_get_avoid_flush_during_recovery -> u8;
        db.enforce_write_buffer_manager_during_recovery:
            rocksdb_options_set_enforce_write_buffer_manager_during_recovery(u8),
            rocksdb_options_get_enforce_write_buffer_manager_during_recovery -> u8;
        db.avoid_flush_during_shutdown:
            rocksdb_options_set_avoid_flush_during_shutdown(u8),
            rocksdb_options_get_avoid_flush_during_shutdown -> u8;
        db.two_write_queues:
            rocksdb_options_set_two_write_queues(u8), rocksdb_options_get_two_write_queues -> u8;
        db.background_close_inactive_wals:
            rocksdb_options_set_background_close_inactive_wals(u8),
            rocksdb_options_get_background_close_inactive_wals -> u8;
        db.prefix_seek_opt_in_only:
            rocksdb_options_set_prefix_seek_opt_in_only(u8),
            rocksdb_options_get_prefix_seek_opt_in_only -> u8;
        db.log_readahead_size:
            rocksdb_options_set_log_readahead_size(usize),
            rocksdb_options_get_log_readahead_size -> usize;
        db.best_efforts_recovery:
            rocksdb_options_set_best_efforts_recovery(u8),
            rocksdb_options_get_best_efforts_recovery -> u8;
        db.max_bgerror_resume_count:
            rocksdb_options_set_max_bgerror_resume_count(i32),
            rocksdb_options_get_max_bgerror_resume_count -> i32;
        db.bgerror_resume_retry_interval:
            rocksdb_options_set_bgerror_resume_retry_interval(u64),
            rocksdb_options_get_bgerror_resume_retry_interval -> u64;
        db.allow_data_in_errors:
            rocksdb_options_set_allow_data_in_errors(u8),
            rocksdb_options_get_allow_data_in_errors -> u8;
        db.lowest_used_cache_tier:
            rocksdb_options_set_lowest_used_cache_tier(i32),
            rocksdb_options_get_lowest_used_cache_tier -> i32;
        db.enforce_single_del_contracts:
            rocksdb_options_set_enforce_single_del_contracts(u8),
            rocksdb_options_get_enforce_single_del_contracts -> u8;
        db.follower_refresh_catchup_period_ms:
            rocksdb_options_set_follower_refresh_catchup_period_ms(u64),
            rocksdb_options_get_follower_refresh_catchup_period_ms -> u64;
        db.follower_catchup_retry_count:
            rocksdb_options_set_follower_catchup_retry_count(u64),
            rocksdb_options_get_follower_catchup_retry_count -> u64;
        db.follower_catchup_retry_wait_ms:
            rocksdb_options_set_follower_catchup_retry_wait_ms(u64),
            rocksdb_options_get_follower_catchup_retry_wait_ms -> u64;
        db.metadata_write_temperature:
            rocksdb_options_set_metadata_write_temperature(i32),
            rocksdb_options_get_metadata_write_temperature -> i32;
        db.wal_write_temperature:
            rocksdb_options_set_wal_write_temperature(i32),
            rocksdb_options_get_wal_write_temperature -> i32;
        db.fast_sst_open:
            rocksdb_options_set_fast_sst_open(u8), rocksdb_options_get_fast_sst_open -> u8;
        cf.target_file_size_is_upper_bound:
            rocksdb_options_set_target_file_size_is_upper_bound(u8),
            rocksdb_options_get_target_file_size_is_upper_bound -> u8;
        cf.strict_max_successive_merges:
            rocksdb_options_set_strict_max_successive_merges(u8),
            rocksdb_options_get_strict_max_successive_merges -> u8;
        cf.paranoid_file_checks:
            rocksdb_options_set_paranoid_file_checks(u8),
            rocksdb_options_get_paranoid_file_checks -> u8;
        cf.verify_output_flags:
            rocksdb_options_set_verify_output_flags(i32),
            rocksdb_options_get_verify_output_flags -> i32;
        cf.force_consistency_checks:
            rocksdb_options_set_force_consistency_checks(u8),
            rocksdb_options_get_force_consistency_checks -> u8;
        cf.disallow_memtable_writes:
            rocksdb_options_set_disallow_memtable_writes(u8),
            rocksdb_options_get_disallow_memtable_writes -> u8;
        cf.sample_for_compression:
            rocksdb_options_set_sample_for_compression(u64),
            rocksdb_options_get_sample_for_compression -> u64;
        cf.last_level_temperature:
            rocksdb_options_set_last_level_temperature(i32),
            rocksdb_options_get_last_level_temperature -> i32;
        cf.default_write_temperature:
            rocksdb_options_set_default_write_temperature(i32),
            rocksdb_options_get_default_write_temperature -> i32;
        cf.default_temperature:
            rocksdb_options_set_default_temperature(i32),
            rocksdb_options_get_default_temperature -> i32;
        cf.preclude_last_level_data_seconds:
            rocksdb_options_set_preclude_last_level_data_seconds(u64),
            rocksdb_options_get_preclude_last_level_data_seconds -> u64;
        cf.preserve_internal_time_seconds:
            rocksdb_options_set_preserve_internal_time_seconds(u64),
            rocksdb_options_get_preserve_internal_time_seconds -> u64;
        cf.enable_blob_direct_write:
            rocksdb_options_set_enable_blob_direct_write(u8),
            rocksdb_options_get_enable_blob_direct_write -> u8;
        cf.blob_direct_write_partitions:
            rocksdb_options_set_blob_direct_write_partitions(u32),
            rocksdb_options_get_blob_direct_write_partitions -> u32;
        cf.memtable_protection_bytes_per_key:
            rocksdb_options_set_memtable_protection_bytes_per_key(u32),
            rocksdb_options_get_memtable_protection_bytes_per_key -> u32;
        cf.persist_user_defined_timestamps:
            rocksdb_options_set_persist_user_defined_timestamps(u8),
            rocksdb_options_get_persist_user_defined_timestamps -> u8;
        cf.block_protection_bytes_per_key:
            rocksdb_options_set_block_protection_bytes_per_key(u8),
            rocksdb_options_get_block_protection_bytes_per_key -> u8;
        cf.bottommost_file_compaction_delay:
            rocksdb_options_set_bottommost_file_compaction_delay(u32),
            rocksdb_options_get_bottommost_file_compaction_delay -> u32;
        cf.paranoid_memory_checks:
            rocksdb_options_set_paranoid_memory_checks(u8),
            rocksdb_options_get_paranoid_memory_checks -> u8;
        cf.memtable_verify_per_key_checksum_on_seek:
            rocksdb_options_set_memtable_verify_per_key_checksum_on_seek(u8),
            rocksdb_options_get_memtable_verify_per_key_checksum_on_seek -> u8;
        cf.cf_allow_ingest_behind:
            rocksdb_options_set_cf_allow_ingest_behind(u8),
            rocksdb_options_get_cf_allow_ingest_behind -> u8;
        cf.memtable_batch_lookup_optimization:
            rocksdb_options_set_memtable_batch_lookup_optimization(u8),
            rocksdb_options_get_memtable_batch_lookup_optimization -> u8;
        cf.memtable_max_range_deletions:
            rocksdb_options_set_memtable_max_range_deletions(u32),
            rocksdb_options_get_memtable_max_range_deletions -> u32;
        cf.uncache_aggressiveness:
            rocksdb_options_set_uncache_aggressiveness(u32),
            rocksdb_options_get_uncache_aggressiveness -> u32;
    }
}

#[cfg(test)]
mod tests {
    use crate::compaction_options::{
        rocksdb_fifo_compaction_options_t, rocksdb_universal_compaction_options_t,
    };
    use crate::options::rocksdb_options_t;
    use crate::storage_info::rocksdb_livefiles_storage_info_options_t;
    use crate::table_options::rocksdb_block_based_table_options_t;
    use std::collections::HashMap;

    /// Says what every getter of RocksDB 11.8.1 returns on a fresh object: handle, getter, value.
    const REFERENCE: &str = include_str!("../../../fixtures/capi/defaults-11.8.tsv");

    /// Getters that came later.
    const NEWER: [&str; 5] = [
        "rocksdb_options_get_blob_file_writable_file_max_buffer_size",
        "rocksdb_options_get_remote_compaction_manifest_floor",
        "rocksdb_options_get_use_session_tmp_dir_for_remote_compaction",
        "rocksdb_options_get_periodic_compaction_phase_recovery_percent",
        "rocksdb_block_based_options_get_optimize_key_common_prefix",
    ];

    /// Their defaults are those of RocksDB 11.12.
    #[test]
    fn getters_of_later_options_return_their_defaults() {
        let mut values = rocksdb_options_t::default().printed_values();
        values.extend(rocksdb_block_based_table_options_t::default().printed_values());
        let values: HashMap<_, _> = values.into_iter().collect();
        let found = NEWER.map(|getter| values[getter].as_str());
        assert_eq!(found, ["0", "1", "0", "0", "1"]);
    }

    #[test]
    fn getters_of_fresh_objects_return_what_rocksdbs_do() {
        let reference: HashMap<&str, &str> = REFERENCE
            .lines()
            .filter_map(|l| l.split_once('\t')?.1.split_once('\t'))
            .collect();
        let mut values = rocksdb_options_t::default().printed_values();
        values.extend(rocksdb_block_based_table_options_t::default().printed_values());
        values.extend(rocksdb_universal_compaction_options_t::default().printed_values());
        values.extend(rocksdb_fifo_compaction_options_t::default().printed_values());
        values.extend(rocksdb_livefiles_storage_info_options_t::default().printed_values());
        values.extend(crate::rocksdb_envoptions_t::default().printed_values());
        values.extend(crate::rocksdb_ingestexternalfileoptions_t::default().printed_values());
        values.extend(crate::rocksdb_transactiondb_options_t::default().printed_values());
        values.extend(crate::rocksdb_transaction_options_t::default().printed_values());
        values.extend(crate::rocksdb_optimistictransaction_options_t::default().printed_values());
        values.extend(crate::rocksdb_backup_engine_options_t::default().printed_values());
        values.extend(crate::rocksdb_create_backup_options_t::default().printed_values());
        values.extend(crate::rocksdb_restore_options_t::default().printed_values());
        values.extend(crate::rocksdb_optimistictransactiondb_options_t::default().printed_values());
        assert!(values.len() > 200, "{}", values.len());
        for (getter, value) in values {
            if NEWER.contains(&getter) {
                continue;
            }
            assert_eq!(reference.get(getter), Some(&value.as_str()), "{getter}");
        }
    }
}
