//! Options of a database, RocksDB's `DBOptions`.

use super::enums::{CacheTier, CompressionType, InfoLogLevel, Temperature, WalRecoveryMode};
use super::own_rows::OwnDbOptions;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

options! {
    /// Options of a database: what belongs to no single column family.
    pub struct DbOptions {
        /// Creates the database if the directory holds none; otherwise opening fails.
        fixed create_if_missing: bool = false;
        /// Creates column families that are asked for and do not exist.
        fixed create_missing_column_families: bool = false;
        /// Refuses to open a database that exists.
        fixed error_if_exists: bool = false;
        /// Treats damage that could be worked around as an error, and stops writes after one.
        fixed paranoid_checks: bool = true;
        /// Counts entries when a memtable is flushed and compares.
        fixed flush_verify_memtable_count: bool = true;
        /// Counts entries that a compaction reads and compares with the tables' properties.
        fixed compaction_verify_record_count: bool = true;
        /// Records sizes of logs in the MANIFEST and compares when logs are replayed.
        fixed track_and_verify_wals_in_manifest: bool = false;
        /// Records each log's predecessor in it and compares when logs are replayed.
        fixed track_and_verify_wals: bool = false;
        /// Compares the unique id of a table with the one in the MANIFEST when it is opened.
        fixed verify_sst_unique_id_in_manifest: bool = true;
        /// The outside world, by name.
        parsed env: String = String::new();
        /// Bytes per second that background work may write; 0 means no limit.
        parsed rate_limiter_bytes_per_sec: u64 = 0;
        /// Least important level that goes to the info log.
        fixed info_log_level: InfoLogLevel = InfoLogLevel::Info;
        /// Table files kept open; -1 means all. Each costs a descriptor and its index; fewer costs
        /// a reopen on access.
        mutable max_open_files: i32 = -1;
        /// Threads that open tables when the database is opened.
        fixed max_file_opening_threads: i32 = 16;
        /// Bytes of logs beyond which the families that hold the oldest one are flushed; 0 means
        /// four times all write buffers.
        mutable max_total_wal_size: u64 = 0;
        /// Counters, by name.
        parsed statistics: String = String::new();
        /// Syncs with `fsync` instead of `fdatasync`. Slower; needed on file systems whose
        /// `fdatasync` forgets the size.
        fixed use_fsync: bool = false;
        /// Where the info log goes; empty means the database directory.
        fixed db_log_dir: String = String::new();
        /// Where logs go; empty means the database directory.
        fixed wal_dir: String = String::new();
        /// Microseconds between searches for files nobody needs; files known to be obsolete are
        /// deleted at once.
        mutable delete_obsolete_files_period_micros: u64 = 6 * 60 * 60 * 1_000_000;
        /// Flushes and compactions that run at once. More finish sooner and take cores and disk
        /// from the foreground.
        mutable max_background_jobs: i32 = 2;
        /// Compactions that run at once; -1 derives it from `max_background_jobs`.
        mutable max_background_compactions: i32 = -1;
        /// Parts into which one compaction may be split to run in parallel.
        mutable max_subcompactions: u32 = 1;
        /// Flushes that run at once; -1 derives it from `max_background_jobs`.
        mutable max_background_flushes: i32 = -1;
        /// Size at which a piece of the info log is closed; 0 lets the build choose.
        fixed max_log_file_size: u64 = 0;
        /// Seconds after which a piece of the info log is closed; 0 means never.
        fixed log_file_time_to_roll: u64 = 0;
        /// Pieces of the info log that are kept.
        fixed keep_log_file_num: u64 = 1000;
        /// Logs kept to be overwritten instead of created; saves metadata writes.
        fixed recycle_log_file_num: u64 = 0;
        /// Size at which the MANIFEST is written anew.
        mutable max_manifest_file_size: u64 = GIB;
        /// Growth of the MANIFEST over its compact size, in per cent, at which it is written anew.
        mutable max_manifest_space_amp_pct: i32 = 500;
        /// Shards of the table cache, as a power of two.
        fixed table_cache_numshardbits: i32 = 6;
        /// Seconds an archived log is kept; 0 means it is deleted.
        fixed wal_ttl_seconds as "WAL_ttl_seconds": u64 = 0;
        /// Megabytes of archived logs that are kept; 0 means none.
        fixed wal_size_limit_mb as "WAL_size_limit_MB": u64 = 0;
        /// Bytes reserved for the MANIFEST at a time.
        mutable manifest_preallocation_size: u64 = 4 * MIB;
        /// Reads tables through memory maps.
        fixed allow_mmap_reads: bool = false;
        /// Writes tables through memory maps.
        fixed allow_mmap_writes: bool = false;
        /// Reads tables without the page cache.
        fixed use_direct_reads: bool = false;
        /// Reads compaction inputs without the page cache.
        fixed use_direct_io_for_compaction_reads: bool = false;
        /// Writes tables without the page cache.
        fixed use_direct_io_for_flush_and_compaction: bool = false;
        /// Reserves space before writing.
        fixed allow_fallocate: bool = true;
        /// Descriptors are not inherited by child processes.
        fixed is_fd_close_on_exec: bool = true;
        /// Seconds between statistics in the info log; 0 means never.
        mutable stats_dump_period_sec: u32 = 600;
        /// Seconds between snapshots of the counters; 0 means never.
        mutable stats_persist_period_sec: u32 = 600;
        /// Writes the snapshots of the counters to a hidden column family.
        fixed persist_stats_to_disk: bool = false;
        /// Bytes of snapshots of the counters kept in memory.
        mutable stats_history_buffer_size: u64 = MIB;
        /// Tells the operating system to expect random reads of tables.
        fixed advise_random_on_open: bool = true;
        /// Bytes in all memtables of all families at which one is flushed; 0 means no limit.
        fixed db_write_buffer_size: u64 = 0;
        /// Bytes a compaction reads ahead. Larger suits spinning disks.
        mutable compaction_readahead_size: u64 = 2 * MIB;
        /// Bytes a table writer gathers before it writes.
        mutable writable_file_max_buffer_size: u64 = MIB;
        /// Spins before a lock sleeps.
        fixed use_adaptive_mutex: bool = false;
        /// Bytes of a table after which write-back is started; 0 leaves it to the kernel.
        mutable bytes_per_sync: u64 = 0;
        /// Bytes of a log after which write-back is started; 0 leaves it to the kernel.
        mutable wal_bytes_per_sync: u64 = 0;
        /// Waits for the write-back that was started before.
        mutable strict_bytes_per_sync: bool = false;
        /// Objects told about events.
        parsed listeners: String = "{}".to_string();
        /// Shows background threads in the thread list.
        fixed enable_thread_tracking: bool = false;
        /// Bytes per second of writes once they are delayed; 0 means 16 MiB.
        mutable delayed_write_rate: u64 = 0;
        /// Logs a write group while the one before it is applied.
        fixed enable_pipelined_write: bool = false;
        /// Lets writes become visible out of order.
        fixed unordered_write: bool = false;
        /// Members of a write group insert their own batches.
        fixed allow_concurrent_memtable_write: bool = true;
        /// A waiting writer spins and yields before it sleeps.
        fixed enable_write_thread_adaptive_yield: bool = true;
        /// Bytes of one write group.
        fixed max_write_batch_group_size_bytes: u64 = MIB;
        /// Microseconds a waiting writer spins and yields at most.
        fixed write_thread_max_yield_usec: u64 = 100;
        /// Microseconds after which a yield counts as slow.
        fixed write_thread_slow_yield_usec: u64 = 3;
        /// Skips collecting table properties when the database is opened.
        fixed skip_stats_update_on_db_open: bool = false;
        /// Says what replay does with a damaged log.
        fixed wal_recovery_mode: WalRecoveryMode = WalRecoveryMode::PointInTimeRecovery;
        /// Understands prepared transactions in logs.
        fixed allow_2pc: bool = false;
        /// Object that decides about records while logs are replayed.
        fixed wal_filter: String = "nullptr".to_string();
        /// Dumps the allocator's statistics with ours.
        fixed dump_malloc_stats: bool = false;
        /// Keeps replayed entries in memtables instead of flushing them.
        fixed avoid_flush_during_recovery: bool = false;
        /// Closes without flushing what no log holds.
        mutable avoid_flush_during_shutdown: bool = false;
        /// Keeps room below all data for files ingested behind it.
        fixed allow_ingest_behind: bool = false;
        /// Uses a second queue for writes that only go to the log.
        fixed two_write_queues: bool = false;
        /// Log bytes stay in the process until they are flushed by hand.
        fixed manual_wal_flush: bool = false;
        /// Codec of log records.
        fixed wal_compression: CompressionType = CompressionType::None;
        /// Flushes all families together, as one step.
        fixed atomic_flush: bool = false;
        /// Leaves deletion of files to the background.
        fixed avoid_unnecessary_blocking_io: bool = false;
        /// Records the database id in the MANIFEST.
        fixed write_dbid_to_manifest: bool = true;
        /// Writes the IDENTITY file.
        fixed write_identity_file: bool = true;
        /// Bytes read ahead when logs are replayed; 0 lets the kernel decide.
        fixed log_readahead_size: u64 = 0;
        /// Object that computes checksums of whole files.
        fixed file_checksum_gen_factory: String = "nullptr".to_string();
        /// Opens the newest consistent state when files are missing.
        fixed best_efforts_recovery: bool = false;
        /// Times a recoverable background error is retried.
        fixed max_bgerror_resume_count: i32 = i32::MAX;
        /// Microseconds between these retries.
        fixed bgerror_resume_retry_interval: u64 = 1_000_000;
        /// Error messages may contain keys and values.
        fixed allow_data_in_errors: bool = false;
        /// Host recorded in tables; `__hostname__` stands for the machine's name.
        fixed db_host_id: String = "__hostname__".to_string();
        /// Fails a compaction that meets a single delete of a key put twice.
        fixed enforce_single_del_contracts: bool = true;
        /// Slowest cache tier in use.
        fixed lowest_used_cache_tier: CacheTier = CacheTier::NonVolatileBlock;
        /// Applies the limit on all memtables while logs are replayed.
        fixed enforce_write_buffer_manager_during_recovery: bool = true;
        /// Daily hours of low load, as `HH:MM-HH:MM`, for compactions that can wait.
        mutable daily_offpeak_time_utc: String = String::new();
        /// Prefix iteration only when asked for, instead of whenever there is a prefix extractor.
        fixed prefix_seek_opt_in_only: bool = false;
        /// Follower: milliseconds between catch-ups.
        fixed follower_refresh_catchup_period_ms: u64 = 10_000;
        /// Follower: times a catch-up is repeated.
        fixed follower_catchup_retry_count: u64 = 10;
        /// Follower: milliseconds between repetitions.
        fixed follower_catchup_retry_wait_ms: u64 = 100;
        /// Temperature of MANIFEST, CURRENT and OPTIONS.
        fixed metadata_write_temperature: Temperature = Temperature::Unknown;
        /// Temperature of logs.
        fixed wal_write_temperature: Temperature = Temperature::Unknown;
        /// Creates the next log ahead of need.
        fixed async_wal_precreate: bool = false;
        /// Closes logs that are no longer written in the background.
        fixed background_close_inactive_wals: bool = false;
        /// Opens tables after the database is open.
        fixed open_files_async: bool = false;
        /// Goes on with the MANIFEST of the last open.
        fixed reuse_manifest_on_open: bool = false;
        /// Threads that read for asynchronous calls.
        fixed read_io_executor_threads: i32 = 1;
        /// Opens tables with fewer reads.
        mutable fast_sst_open: bool = false;
        /// Writes the MANIFEST so that it is read faster.
        mutable optimize_manifest_for_recovery: bool = false;
        /// Reads the MANIFEST back when the database is closed.
        mutable verify_manifest_content_on_close: bool = false;
        /// Seconds between looks for compactions that time makes due.
        mutable max_compaction_trigger_wakeup_seconds: u64 = 43_200;
        /// Spreads periodic compactions of databases that are configured alike over the period: the share, in
        /// per cent, of the way to a time of its own by which each comes earlier. 0 leaves them where they are.
        newer_mutable periodic_compaction_phase_recovery_percent: i32 = 0;
        /// Compactions in other processes: tells them which MANIFEST they need at least.
        newer_mutable remote_compaction_manifest_floor: bool = true;
        /// Compactions in other processes write to a directory of the session.
        newer use_session_tmp_dir_for_remote_compaction: bool = false;
    }
    ignored {
        "access_hint_on_compaction_start", "allow_os_buffer", "base_background_compactions",
        "concurrent_prepare", "disable_data_sync", "disableDataSync",
        "experimental_allow_mempurge", "experimental_mempurge_policy",
        "experimental_mempurge_threshold", "fail_if_options_file_error",
        "new_table_reader_for_compaction_inputs", "preserve_deletes",
        "random_access_max_buffer_size", "rate_limiter", "seq_per_batch",
        "skip_checking_sst_file_sizes_on_db_open", "skip_log_error_on_recovery",
        "use_direct_writes",
    }
    own OwnDbOptions
    at_open FixedDbOptions
}
