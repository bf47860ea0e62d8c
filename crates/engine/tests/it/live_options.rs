//! Every option that may be changed on an open database takes effect when it is changed.
//!
//! A run has a database open with options A, changes one option, works, and writes down what can be seen: calls
//! to the file system with reads and hints, timers, waiting jobs, properties, and counters. For each option
//! there are three runs of the same work: *A, changed to A*; *B, changed to B*; *A, changed to B*. The option
//! has an effect if the first two differ, and the change has it if the last two are equal. The needless change
//! of the first two runs gives all of them the same file numbers.
//!
//! The tables name every `mutable` row of all structs of options once. Rows without a run say why.

use spanlith::options::{
    BlockBasedTableOptions, CfOptions, DbOptions, OptionTable, OwnCfOptions, OwnDbOptions,
    apply_options_string,
};
use spanlith::{Db, FamilyOptions, ReadOptions, WriteBatch, WriteOptions};
use spanlith_base::checksum::crc32c;
use spanlith_base::stats::{Statistics, Ticker};
use spanlith_cache::Policy;
use spanlith_env::{Env, Executor, Job, JobClass, ManualExecutor, MemFs, TraceFs};
use spanlith_table::BlockCache;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Work that shows the effect of an option.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// Overlapping flushes with automatic compactions, a compaction of all, reads and a scan.
    Tree,
    /// Flushes, which automatic compactions may follow, then reads of each table.
    Tables,
    /// Large values in the log and in a table.
    Large,
    /// Flushes, then one compaction of all.
    CompactAll,
    /// Unlogged writes, then closing.
    Unlogged,
    /// Two days with flushes, and what time makes due.
    Days,
}

/// How a row is looked at.
#[derive(Debug)]
enum Row {
    /// The value to change to, the work, and other options of all runs.
    Run(&'static str, Work, &'static str),
    /// Accepted and without effect, whatever it is: a list of `options::unsupported` says so.
    NoEffect,
    /// A change to this value is refused: the feature does not exist.
    Refused(&'static str),
    /// Why nothing can be seen from outside.
    Unseen(&'static str),
    /// Seen by a test of its own: the text of its file, and its name.
    Elsewhere(&'static str, &'static str),
}

use Row::{Elsewhere, NoEffect, Refused, Run, Unseen};
use Work::{CompactAll, Days, Large, Tables, Tree, Unlogged};

const CORE: &str = include_str!("core_options.rs");
const DEAD_RUNS: &str = include_str!("dead_runs.rs");
const DISK: &str = include_str!("disk.rs");
const SCAN_FLUSH: &str = include_str!("scan_flush.rs");
const SET: &str = include_str!("set_options.rs");
const TABLES: &str = include_str!("speed_tables.rs");
const STYLES: &str = include_str!("styles.rs");

const NO_AUTO: &str = "disable_auto_compactions=true";
const JOBS: &str =
    "read from the options in force by type; the executor of this test has one thread";
const STALLS: &str =
    "stops the writer who would look; core/throttle/tests.rs has the rule as a table";
const DAMAGE: &str = "shows only when memory is damaged under the process";
const BLOOM: &str = "block_based_table_factory={filter_policy=bloomfilter:10:false}";

const DB: &[(&str, Row)] = &[
    ("max_open_files", Run("20", Tables, NO_AUTO)),
    ("max_total_wal_size", Run("3000", Tree, "")),
    ("delete_obsolete_files_period_micros", NoEffect),
    ("max_background_jobs", Unseen(JOBS)),
    ("max_background_compactions", Unseen(JOBS)),
    (
        "max_subcompactions",
        Run(
            "4",
            CompactAll,
            "compression=kNoCompression;target_file_size_base=20000;disable_auto_compactions=true",
        ),
    ),
    ("max_background_flushes", Unseen(JOBS)),
    (
        "max_manifest_file_size",
        Run("500", Tables, "max_manifest_space_amp_pct=1"),
    ),
    (
        "max_manifest_space_amp_pct",
        Run("1", Tables, "max_manifest_file_size=1"),
    ),
    ("manifest_preallocation_size", NoEffect),
    ("stats_dump_period_sec", Run("77", Days, "")),
    ("stats_persist_period_sec", Run("77", Days, "")),
    ("stats_history_buffer_size", Run("100", Days, "")),
    (
        "compaction_readahead_size",
        Run(
            "4096",
            CompactAll,
            "compression=kNoCompression;disable_auto_compactions=true",
        ),
    ),
    (
        "writable_file_max_buffer_size",
        Run("512", Large, "manual_wal_flush=true"),
    ),
    (
        "bytes_per_sync",
        Run("65536", Large, "compression=kNoCompression"),
    ),
    ("wal_bytes_per_sync", Run("65536", Large, "")),
    (
        "strict_bytes_per_sync",
        Run(
            "true",
            Large,
            "bytes_per_sync=65536;wal_bytes_per_sync=65536",
        ),
    ),
    (
        "delayed_write_rate",
        Elsewhere(SET, "the_rate_of_delayed_writes_follows_its_option"),
    ),
    ("avoid_flush_during_shutdown", Run("true", Unlogged, "")),
    (
        "daily_offpeak_time_utc",
        Run("00:00-12:00", Days, "periodic_compaction_seconds=100000"),
    ),
    ("fast_sst_open", NoEffect),
    ("optimize_manifest_for_recovery", NoEffect),
    (
        "verify_manifest_content_on_close",
        Elsewhere(
            CORE,
            "a_manifest_that_changed_while_the_database_was_open_is_written_anew_on_close",
        ),
    ),
    (
        "max_compaction_trigger_wakeup_seconds",
        Elsewhere(
            include_str!("../../src/core/wakeup.rs"),
            "it_follows_the_shortest_of_what_asks_for_it",
        ),
    ),
    ("periodic_compaction_phase_recovery_percent", Refused("50")),
    ("remote_compaction_manifest_floor", NoEffect),
];

const OWN_DB: &[(&str, Row)] = &[
    (
        "min_free_bytes",
        Elsewhere(DISK, "a_lower_bound_of_free_space_lets_compactions_go_on"),
    ),
    (
        "sd_placement",
        Elsewhere(
            TABLES,
            "flushes_and_upper_levels_go_to_the_speed_disk_and_lower_ones_do_not",
        ),
    ),
    (
        "sd_tables_size",
        Elsewhere(TABLES, "what_finds_no_room_goes_to_the_other_disk"),
    ),
    (
        "sd_tables_bandwidth",
        Elsewhere(TABLES, "levels_leave_a_disk_whose_bandwidth_is_taken"),
    ),
    ("write_throttle_policy", Unseen(PACE)),
    ("stage1_floor_rate", Unseen(PACE)),
    (
        "preemptible_compaction",
        Elsewhere(
            include_str!("giving_way.rs"),
            "a_deep_compaction_lets_flushes_and_level_0_go_first",
        ),
    ),
    (
        "level0_merges_beside",
        Elsewhere(
            include_str!("merges_beside.rs"),
            "files_that_come_beside_a_compaction_out_of_level_0_are_merged",
        ),
    ),
];

const PACE: &str =
    "how long writers wait: write_pace.rs changes the policy; nothing observes the floor yet";

const STYLE: &str = "the style of the family here is by levels; styles.rs changes the others";

const LEVELS: &str = "part of the level options, which are made anew with the family's settings";

const SHAPE: &str = include_str!("../../src/core/level0_shape.rs");

const OWN_CF: &[(&str, Row)] = &[
    ("kvsep_mode", Unseen(LEVELS)),
    (
        "kvsep_ranges",
        Elsewhere(
            include_str!("separation.rs"),
            "keys_have_policies_of_their_own_by_range",
        ),
    ),
    ("kvsep_gc", Unseen(LEVELS)),
    ("kvsep_space_target", Unseen(LEVELS)),
    ("kvsep_space_max", Unseen(LEVELS)),
    (
        "dynamic_level0",
        Elsewhere(SHAPE, "memtables_grow_while_reads_prevail_and_shrink_again"),
    ),
    (
        "dynamic_level0_volume",
        Elsewhere(SHAPE, "the_volume_and_the_rule_follow_their_options"),
    ),
    (
        "codec_choice",
        Elsewhere(
            STYLES,
            "blocks_get_the_codec_that_pays_and_all_of_them_are_read",
        ),
    ),
];

const CF: &[(&str, Row)] = &[
    ("write_buffer_size", Run("65536", Large, "")),
    ("max_write_buffer_number", Unseen(STALLS)),
    ("inplace_update_num_locks", NoEffect),
    (
        "memtable_prefix_bloom_size_ratio",
        Run("0.2", Tables, "memtable_whole_key_filtering=true"),
    ),
    (
        "memtable_whole_key_filtering",
        Run("true", Tables, "memtable_prefix_bloom_size_ratio=0.2"),
    ),
    ("memtable_huge_page_size", NoEffect),
    (
        "arena_block_size",
        Unseen("how memory of a memtable is taken"),
    ),
    ("memtable_protection_bytes_per_key", Unseen(DAMAGE)),
    ("memtable_max_range_deletions", Run("2", Tree, NO_AUTO)),
    (
        "memtable_op_scan_flush_trigger",
        Elsewhere(
            SCAN_FLUSH,
            "entries_of_tables_and_backward_moves_ask_for_no_flush",
        ),
    ),
    (
        "memtable_avg_op_scan_flush_trigger",
        Elsewhere(
            SCAN_FLUSH,
            "the_average_of_moves_asks_for_a_flush_when_the_iterator_leaves",
        ),
    ),
    ("memtable_verify_per_key_checksum_on_seek", Unseen(DAMAGE)),
    ("paranoid_memory_checks", Unseen(DAMAGE)),
    ("experimental_mempurge_threshold", NoEffect),
    ("prefix_extractor", Run("fixed:3", Tables, BLOOM)),
    ("compression", Run("kNoCompression", Tree, "")),
    ("bottommost_compression", Run("kNoCompression", Tree, "")),
    (
        "compression_opts",
        Run("{level=1;max_dict_bytes=4096}", Tree, "compression=kZSTD"),
    ),
    (
        "bottommost_compression_opts",
        Run(
            "{enabled=true;level=1;max_dict_bytes=4096}",
            Tree,
            "compression=kZSTD;bottommost_compression=kZSTD",
        ),
    ),
    ("compression_per_level", Run("kNoCompression", Tree, "")),
    ("compression_manager", Refused("mixed")),
    (
        "sample_for_compression",
        Elsewhere(SCAN_FLUSH, "tables_estimate_their_size_with_other_codecs"),
    ),
    ("level0_file_num_compaction_trigger", Run("2", Tables, "")),
    (
        "level0_slowdown_writes_trigger",
        Elsewhere(SET, "the_rate_of_delayed_writes_follows_its_option"),
    ),
    ("level0_stop_writes_trigger", Unseen(STALLS)),
    (
        "target_file_size_base",
        Run("20000", Tree, "compression=kNoCompression"),
    ),
    (
        "target_file_size_multiplier",
        Unseen("shows below the base level, which this work does not fill twice"),
    ),
    (
        "target_file_size_is_upper_bound",
        Run(
            "true",
            Tree,
            "compression=kNoCompression;compression=kNoCompression;target_file_size_base=20000",
        ),
    ),
    (
        "max_bytes_for_level_base",
        Run(
            "20000",
            Tree,
            "compression=kNoCompression;level_compaction_dynamic_level_bytes=false",
        ),
    ),
    (
        "max_bytes_for_level_multiplier",
        Run(
            "2",
            Tree,
            "compression=kNoCompression;max_bytes_for_level_base=5000;level_compaction_dynamic_level_bytes=false",
        ),
    ),
    (
        "max_bytes_for_level_multiplier_additional",
        Run(
            "1:9:1:1:1:1:1",
            Tree,
            "compression=kNoCompression;max_bytes_for_level_base=5000;level_compaction_dynamic_level_bytes=false;target_file_size_base=5000;max_bytes_for_level_multiplier=2",
        ),
    ),
    (
        "max_compaction_bytes",
        Run(
            "20000",
            Tree,
            "compression=kNoCompression;target_file_size_base=10000;max_bytes_for_level_base=10000;level_compaction_dynamic_level_bytes=false",
        ),
    ),
    ("soft_pending_compaction_bytes_limit", Unseen(STALLS)),
    ("hard_pending_compaction_bytes_limit", Unseen(STALLS)),
    (
        "disable_auto_compactions",
        Run("true", Tables, "level0_file_num_compaction_trigger=2"),
    ),
    ("compaction_options_universal", Unseen(STYLE)),
    ("compaction_options_fifo", Unseen(STYLE)),
    ("max_sequential_skip_in_iterations", Run("0", Tree, NO_AUTO)),
    ("table_factory", Refused("mine")),
    (
        "max_successive_merges",
        Elsewhere(
            CORE,
            "another_limit_of_operands_counts_from_the_next_memtable_on",
        ),
    ),
    (
        "strict_max_successive_merges",
        Elsewhere(
            CORE,
            "operands_over_a_table_that_is_not_in_memory_are_folded_if_strict",
        ),
    ),
    ("paranoid_file_checks", Run("true", Tables, NO_AUTO)),
    (
        "report_bg_io_stats",
        Unseen("adds times of calls to statistics of jobs"),
    ),
    ("ttl", Run("1000", Days, "periodic_compaction_seconds=0")),
    ("periodic_compaction_seconds", Run("1000", Days, "ttl=0")),
    (
        "bottommost_file_compaction_delay",
        Unseen("delays by clock what a snapshot held back; picker/tests have it as scripts"),
    ),
    (
        "read_triggered_compaction_threshold",
        Elsewhere(
            STYLES,
            "files_that_reads_pass_through_in_vain_are_compacted",
        ),
    ),
    ("last_level_temperature", Run("kCold", Tree, "")),
    ("default_write_temperature", Run("kWarm", Tables, NO_AUTO)),
    (
        "preclude_last_level_data_seconds",
        Elsewhere(TIMES, "preclude_last_level_data_seconds"),
    ),
    (
        "preserve_internal_time_seconds",
        Elsewhere(TIMES, "preserve_internal_time_seconds"),
    ),
    ("enable_blob_files", Run("true", Tables, "min_blob_size=10")),
    (
        "min_blob_size",
        Run("100000", Tables, "enable_blob_files=true"),
    ),
    (
        "blob_file_size",
        Run("1000", Tables, "enable_blob_files=true"),
    ),
    (
        "blob_compression_type",
        Run("kZSTD", Tables, "enable_blob_files=true"),
    ),
    (
        "blob_compression_opts",
        Run(
            "{level=19}",
            Large,
            "enable_blob_files=true;blob_compression_type=kZSTD",
        ),
    ),
    (
        "enable_blob_garbage_collection",
        Run(
            "true",
            Tree,
            "enable_blob_files=true;blob_garbage_collection_age_cutoff=1.0",
        ),
    ),
    (
        "blob_garbage_collection_age_cutoff",
        Run(
            "1.0",
            Tree,
            "enable_blob_files=true;enable_blob_garbage_collection=true",
        ),
    ),
    (
        "blob_garbage_collection_force_threshold",
        Run(
            "0.3",
            Tree,
            "enable_blob_files=true;enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff=0.5",
        ),
    ),
    (
        "blob_compaction_readahead_size",
        Run(
            "4096",
            Tree,
            "enable_blob_files=true;enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff=1.0",
        ),
    ),
    (
        "blob_file_starting_level",
        Run(
            "6",
            Tables,
            "enable_blob_files=true;disable_auto_compactions=true",
        ),
    ),
    (
        "prepopulate_blob_cache",
        Unseen("there is no cache of blobs"),
    ),
    ("block_protection_bytes_per_key", Run("8", Tables, NO_AUTO)),
    ("uncache_aggressiveness", NoEffect),
    (
        "verify_output_flags",
        Elsewhere(CORE, "outputs_of_compactions_are_verified_as_the_flags_say"),
    ),
    (
        "min_tombstones_for_range_conversion",
        Elsewhere(
            DEAD_RUNS,
            "min_tombstones_for_range_conversion_turns_runs_into_range_tombstones",
        ),
    ),
    ("blob_file_writable_file_max_buffer_size", NoEffect),
];

const TIMES: &str = include_str!("times.rs");

const TABLE: &[(&str, Row)] = &[
    (
        "block_cache",
        Unseen("a family keeps the cache that it was opened with"),
    ),
    (
        "filter_policy",
        Run("bloomfilter:10:false", Tables, NO_AUTO),
    ),
    (
        "flush_block_policy_factory",
        Run("FlushBlockEveryKeyPolicyFactory", Tables, NO_AUTO),
    ),
    ("metadata_cache_options", NoEffect),
    ("user_defined_index_factory", Refused("unknown")),
    (
        "block_align",
        Run("true", Tables, "compression=kNoCompression"),
    ),
    ("block_restart_interval", Run("2", Tables, NO_AUTO)),
    ("block_size", Run("1000", Tables, NO_AUTO)),
    (
        "block_size_deviation",
        Run("90", Tables, "block_based_table_factory={block_size=500}"),
    ),
    (
        "cache_index_and_filter_blocks",
        Run("true", Tables, NO_AUTO),
    ),
    (
        "cache_index_and_filter_blocks_with_high_priority",
        Unseen("orders what leaves a cache that is full"),
    ),
    ("checksum", Run("kCRC32c", Tables, NO_AUTO)),
    (
        "data_block_hash_table_util_ratio",
        Run(
            "0.2",
            Tables,
            "block_based_table_factory={data_block_index_type=kDataBlockBinaryAndHash}",
        ),
    ),
    (
        "data_block_index_type",
        Run("kDataBlockBinaryAndHash", Tables, NO_AUTO),
    ),
    (
        "decouple_partitioned_filters",
        Run(
            "false",
            Tables,
            "block_based_table_factory={filter_policy=bloomfilter:10:false;partition_filters=true;index_type=kTwoLevelIndexSearch;metadata_block_size=200}",
        ),
    ),
    ("detect_filter_construct_corruption", Unseen(DAMAGE)),
    (
        "enable_index_compression",
        Run(
            "false",
            Tables,
            "block_based_table_factory={block_size=200}",
        ),
    ),
    (
        "fail_if_no_udi_on_open",
        Unseen("concerns indexes of the user's, which are refused"),
    ),
    ("format_version", Run("4", Tables, NO_AUTO)),
    (
        "index_block_restart_interval",
        Run("4", Tables, "block_based_table_factory={block_size=200}"),
    ),
    ("index_block_search_type", NoEffect),
    (
        "index_shortening",
        Run(
            "kNoShortening",
            Tables,
            "block_based_table_factory={block_size=200}",
        ),
    ),
    ("index_type", Run("kTwoLevelIndexSearch", Tables, NO_AUTO)),
    (
        "initial_auto_readahead_size",
        Run(
            "16384",
            Tables,
            "compression=kNoCompression;block_based_table_factory={no_block_cache=true;block_size=200}",
        ),
    ),
    (
        "max_auto_readahead_size",
        Run(
            "8192",
            Tables,
            "compression=kNoCompression;block_based_table_factory={no_block_cache=true;block_size=200}",
        ),
    ),
    (
        "metadata_block_size",
        Run(
            "200",
            Tables,
            "block_based_table_factory={index_type=kTwoLevelIndexSearch;block_size=200}",
        ),
    ),
    (
        "no_block_cache",
        Unseen(
            "a family keeps the cache it was opened with, as in RocksDB, whose tables keep their factory's",
        ),
    ),
    (
        "num_file_reads_for_auto_readahead",
        Run(
            "6",
            Tables,
            "compression=kNoCompression;block_based_table_factory={no_block_cache=true;block_size=200}",
        ),
    ),
    (
        "optimize_filters_for_memory",
        Unseen("rounds sizes of filters by what the allocator gives; table/ tests it"),
    ),
    (
        "partition_filters",
        Run(
            "true",
            Tables,
            "block_based_table_factory={filter_policy=bloomfilter:10:false;index_type=kTwoLevelIndexSearch}",
        ),
    ),
    (
        "pin_l0_filter_and_index_blocks_in_cache",
        Run(
            "true",
            Tables,
            "disable_auto_compactions=true;block_based_table_factory={cache_index_and_filter_blocks=true}",
        ),
    ),
    (
        "pin_top_level_index_and_filter",
        Run(
            "false",
            Tables,
            "disable_auto_compactions=true;block_based_table_factory={cache_index_and_filter_blocks=true;index_type=kTwoLevelIndexSearch}",
        ),
    ),
    (
        "prepopulate_block_cache",
        Run("kFlushOnly", Tables, NO_AUTO),
    ),
    ("read_amp_bytes_per_bit", NoEffect),
    (
        "separate_key_value_in_data_block",
        Run("true", Tables, NO_AUTO),
    ),
    (
        "super_block_alignment_size",
        Unseen("with the default ratio no block of this work is moved; the ratio is seen"),
    ),
    (
        "super_block_alignment_space_overhead_ratio",
        Run(
            "4",
            Tables,
            "compression=kNoCompression;block_based_table_factory={super_block_alignment_size=2048;block_size=1000}",
        ),
    ),
    (
        "uniform_cv_threshold",
        Unseen("an index of this work is too small for the mark; the table crate tests it"),
    ),
    ("use_delta_encoding", Run("false", Tables, NO_AUTO)),
    ("use_udi_as_primary_index", Refused("true")),
    ("verify_compression", Unseen("shows only when a codec errs")),
    ("whole_key_filtering", Run("false", Tables, BLOOM)),
    ("index_mode", Refused("kCustomOnly")),
    (
        "optimize_key_common_prefix",
        Run(
            "kDisabled",
            Tables,
            "disable_auto_compactions=true;block_based_table_factory={format_version=8}",
        ),
    ),
];

/// Runs jobs when it is told to, and remembers how often somebody wants to be called.
#[derive(Default)]
struct Timers {
    jobs: ManualExecutor,
    lines: Mutex<Vec<String>>,
    ticks: Arc<Mutex<Ticks>>,
}

/// Describes what is called, by the number of its timer.
type Ticks = BTreeMap<usize, Box<dyn FnMut() -> bool + Send>>;

/// Ends a timer when it goes.
struct Handle(Arc<Mutex<Ticks>>, usize);

impl Drop for Handle {
    fn drop(&mut self) {
        let tick = self.0.lock().unwrap().remove(&self.1);
        drop(tick);
    }
}

impl Executor for Timers {
    fn spawn(&self, class: JobClass, job: Job) {
        self.jobs.spawn(class, job);
    }

    fn reserve(&self, _: JobClass, _: usize) {}

    fn is_manual(&self) -> bool {
        true
    }

    fn help(&self) -> bool {
        self.jobs.help()
    }

    fn periodic(
        &self,
        name: &str,
        period: Duration,
        tick: Box<dyn FnMut() -> bool + Send>,
    ) -> Box<dyn Send + Sync> {
        let line = format!("timer {name} {period:?}");
        let mut lines = self.lines.lock().unwrap();
        lines.push(line);
        let number = lines.len();
        self.ticks.lock().unwrap().insert(number, tick);
        Box::new(Handle(self.ticks.clone(), number))
    }
}

/// The struct that an option belongs to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scope {
    Database,
    Family,
    Table,
}

/// A call without the numbers of its files, which threads take in any order.
fn plain(line: &str) -> String {
    let digits = |word: &str| word.bytes().take_while(u8::is_ascii_digit).count();
    let words = line.split(' ').map(|word| match word.split_once('.') {
        Some((_, ext)) if digits(word) > 0 => format!("N.{ext}"),
        _ => word.to_string(),
    });
    words.collect::<Vec<_>>().join(" ")
}

struct Bench {
    db: Db,
    timers: Arc<Timers>,
    clock: Arc<spanlith_env::VirtualClock>,
    seen: Vec<String>,
    files: MemFs,
    has_parts: bool,
}

impl Bench {
    fn settle(&self) {
        self.timers.jobs.run_until_idle();
    }

    fn fill(&self, round: u32, keys: u32) {
        let cf = self.db.default_cf();
        for n in 0..keys {
            let key = format!("key{:05}", (n * 7 + round * 13) % 400);
            let value = format!("{n}-{round}-").repeat(12);
            cf.put(key, value).unwrap();
        }
    }

    fn look(&mut self) {
        for level in 0..7 {
            let name = format!("rocksdb.num-files-at-level{level}");
            self.note(&name);
        }
        for name in [
            "cur-size-all-mem-tables",
            "size-all-mem-tables",
            "actual-delayed-write-rate",
            "is-write-stopped",
            "estimate-pending-compaction-bytes",
            "block-cache-usage",
            "block-cache-pinned-usage",
            "estimate-table-readers-mem",
            "background-errors",
            "total-sst-files-size",
        ] {
            self.note(&format!("rocksdb.{name}"));
        }
        for file in self.db.live_files() {
            let path = format!("/db/{:06}.sst", file.number);
            let bytes = self.files.read_file(Path::new(&path)).unwrap_or_default();
            let (level, size, sum) = (file.level, file.size, crc32c(&bytes));
            // Parts of a compaction take numbers in any order, and these are in the file.
            let sum = if self.has_parts { 0 } else { sum };
            let line = format!("file {level} {size} {sum} {:?}", file.temperature);
            self.seen.push(line);
        }
    }

    fn note(&mut self, property: &str) {
        let value = self.db.property(property).unwrap_or_default();
        self.seen.push(format!("{property} {value}"));
    }

    fn read_all(&self) {
        let cf = self.db.default_cf();
        for n in 0..60 {
            let _ = cf.get(format!("key{:05}", n * 7)).unwrap();
            let _ = cf.get(format!("key{n:05}-absent")).unwrap();
        }
        let mut cursor = cf.cursor(ReadOptions::default());
        cursor.seek_to_first().unwrap();
        while cursor.valid() {
            cursor.next().unwrap();
        }
        cursor.status().unwrap();
    }

    fn work(&mut self, work: Work) {
        let db = self.db.clone();
        let cf = db.default_cf();
        match work {
            Work::Tree | Work::CompactAll => {
                // With several families old logs are in the way of a limit on all of them.
                let other = db.create_cf(FamilyOptions::new("other")).unwrap();
                other.put("kept", "in the first log").unwrap();
                for round in 0..8 {
                    self.fill(round, 150);
                    for n in 0..5 {
                        cf.delete_range(
                            format!("key{:05}", n * 50),
                            format!("key{:05}", n * 50 + 3),
                        )
                        .unwrap();
                    }
                    db.flush(true).unwrap();
                    if let Work::Tree = work {
                        self.settle();
                        self.look();
                    }
                }
                if let Work::Tree = work {
                    self.fill(9, 300);
                    self.read_all();
                }
                cf.compact_range(None, None).unwrap();
            }
            Work::Tables => {
                for round in 0..12 {
                    self.fill(round, 60);
                    self.look();
                    db.flush(true).unwrap();
                    self.settle();
                }
                self.read_all();
                self.read_all();
            }
            Work::Large => {
                for n in 0..40 {
                    let noise =
                        (0..100_000u32).map(|i| (i.wrapping_mul(2_654_435_761 + n) >> 13) as u8);
                    cf.put(format!("{n}"), noise.collect::<Vec<u8>>()).unwrap();
                }
                db.flush(true).unwrap();
                cf.put("small", "value").unwrap();
                db.flush_wal(true).unwrap();
            }
            Work::Unlogged => {
                let mut batch = WriteBatch::new();
                batch.put("a", "b");
                let options = WriteOptions::new().disable_wal(true);
                db.write_opt(&batch, &options).unwrap();
            }
            Work::Days => {
                for hour in 0..48 {
                    self.clock.advance(Duration::from_secs(3600));
                    self.fill(hour, 20);
                    if hour % 8 == 0 {
                        db.flush(true).unwrap();
                    }
                    let ticks = std::mem::take(&mut *self.timers.ticks.lock().unwrap());
                    for (number, mut tick) in ticks {
                        if tick() {
                            self.timers.ticks.lock().unwrap().insert(number, tick);
                        }
                    }
                    self.settle();
                    let kept = db.stats_history(0, u64::MAX).len();
                    self.seen.push(format!("hour {hour}, history {kept}"));
                    self.look();
                }
            }
        }
        self.look();
    }
}

/// A run: what was seen.
fn run(
    scope: Scope,
    name: &str,
    open: &str,
    change: &str,
    work: Work,
    others: &str,
) -> Vec<String> {
    let (mut o, mut cf) = (DbOptions::default(), CfOptions::default());
    let mut table = BlockBasedTableOptions::default();
    o.create_if_missing = true;
    cf.write_buffer_size = 4 << 20;
    apply_options_string(others, &mut o, &mut cf, &mut table).unwrap();
    let text = |value: &str| match scope {
        Scope::Table => format!("block_based_table_factory={{{name}={value}}}"),
        _ => format!("{name}={value}"),
    };
    if !open.is_empty() {
        apply_options_string(&text(open), &mut o, &mut cf, &mut table).unwrap();
    }
    let change = match change {
        "" => match scope {
            Scope::Database => o.get_option(name),
            Scope::Family => cf.get_option(name),
            Scope::Table => table.get_option(name),
        },
        text => Some(text.to_string()),
    };
    let change = change.unwrap();
    let files = MemFs::new();
    let trace = TraceFs::with_reads(Arc::new(files.clone()), Path::new("/db"));
    let (mut env, _, clock) = Env::test(Arc::new(trace.clone()), 7);
    let timers = Arc::new(Timers::default());
    env.executor = timers.clone();
    clock.advance(Duration::from_secs(1_000_000));
    let statistics = Arc::new(Statistics::default());
    let db = Db::builder("/db")
        .env(env)
        .options(o)
        .cf_options(cf)
        .table_options(table)
        .statistics(statistics.clone())
        .block_cache(BlockCache::new(64 << 20, Policy::Lru))
        .open()
        .unwrap();
    match scope {
        Scope::Database => db.set_options(&[(name, change.as_str())]).unwrap(),
        Scope::Family => db
            .default_cf()
            .set_options(&[(name, change.as_str())])
            .unwrap(),
        Scope::Table => {
            let whole = format!("{{{name}={change}}}");
            let changes = [("block_based_table_factory", whole.as_str())];
            db.default_cf().set_options(&changes).unwrap();
        }
    }
    // A new memtable and a new log: those that are there keep what they began with.
    db.default_cf().put("first", "x").unwrap();
    db.flush(true).unwrap();
    let mut bench = Bench {
        db,
        timers,
        clock,
        seen: Vec::new(),
        files,
        has_parts: name == "max_subcompactions",
    };
    bench.settle();
    let before = Ticker::ALL.iter().map(|t| statistics.ticker(*t));
    let before: Vec<u64> = before.collect();
    trace.take();
    bench.work(work);
    for (ticker, before) in Ticker::ALL.iter().zip(before) {
        let more = statistics.ticker(*ticker).wrapping_sub(before);
        bench.seen.push(format!("{ticker:?} {more}"));
    }
    bench.db.close().unwrap();
    let mut timers = bench.timers.lines.lock().unwrap().clone();
    timers.retain(|line| line.contains("stat"));
    let mut calls: Vec<String> = trace.take().iter().map(|line| plain(line)).collect();
    // The texts of other options differ there by design.
    calls.retain(|line| {
        !line.contains("OPTIONS") && !line.contains("dbtmp") && !line.contains("LOG")
    });
    calls.sort();
    bench.seen.extend(calls);
    bench.seen.extend(timers.pop());
    bench.seen
}

fn difference(one: &[String], other: &[String]) -> String {
    let pair = one.iter().zip(other).find(|(a, b)| a != b);
    match pair {
        Some((a, b)) => format!("{a} / {b}"),
        None => format!("{} lines / {}", one.len(), other.len()),
    }
}

fn check<T: OptionTable>(scope: Scope, rows: &[(&str, Row)], wrong: &mut Vec<String>) {
    let mutable = T::ROWS
        .iter()
        .filter(|row| row.mutable || scope == Scope::Table);
    let named = |name: &str| rows.iter().filter(|r| r.0 == name).count();
    for row in mutable.filter(|row| named(row.name) != 1) {
        wrong.push(format!(
            "{} is mutable and named {} times",
            row.name,
            named(row.name)
        ));
    }
    for (name, row) in rows {
        if T::row(name).is_none() {
            wrong.push(format!("{name} is no option"));
            continue;
        }
        match row {
            Run(value, work, others) => {
                let plain = run(scope, name, "", "", *work, others);
                let opened = run(scope, name, value, value, *work, others);
                let changed = run(scope, name, "", value, *work, others);
                if plain == opened {
                    wrong.push(format!("{name}: {value} has no effect that {work:?} shows"));
                } else if opened != changed {
                    let difference = difference(&opened, &changed);
                    wrong.push(format!(
                        "{name}: opened with it / changed to it: {difference}"
                    ));
                }
            }
            Refused(value) => {
                let db = Db::builder("/db").create_if_missing(true).no_info_log();
                let (env, _, _) = Env::test(Arc::new(MemFs::new()), 7);
                let db = db.env(env).open().unwrap();
                let changed = match scope {
                    Scope::Database => db.set_options(&[(name, value)]),
                    Scope::Family => db.default_cf().set_options(&[(name, value)]),
                    Scope::Table => {
                        let whole = format!("{{{name}={value}}}");
                        let changes = [("block_based_table_factory", whole.as_str())];
                        db.default_cf().set_options(&changes)
                    }
                };
                if changed.is_ok() {
                    wrong.push(format!("{name}: {value} is accepted"));
                }
            }
            NoEffect => {
                if !spanlith::options::unsupported::is_without_effect(name) {
                    wrong.push(format!("{name} is not listed as without effect"));
                }
            }
            Unseen(why) => assert!(!why.is_empty()),
            Elsewhere(file, test) => {
                if !file.contains(test) || !file.contains(name) {
                    wrong.push(format!("{name}: there is no test {test} that names it"));
                }
            }
        }
    }
}

fn none(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_mutable_option_of_the_database_takes_effect_when_it_is_changed() {
    crate::suite_disk::needs_log_files("some options show their effect in files of logs only");
    let mut wrong = Vec::new();
    check::<DbOptions>(Scope::Database, DB, &mut wrong);
    check::<OwnDbOptions>(Scope::Database, OWN_DB, &mut wrong);
    none(&wrong);
}

#[test]
fn every_mutable_option_of_a_family_takes_effect_when_it_is_changed() {
    let mut wrong = Vec::new();
    check::<CfOptions>(Scope::Family, CF, &mut wrong);
    check::<OwnCfOptions>(Scope::Family, OWN_CF, &mut wrong);
    none(&wrong);
}

#[test]
fn every_mutable_option_of_tables_takes_effect_when_it_is_changed() {
    crate::suite_disk::needs_table_files("some options show their effect in files of tables only");
    let mut wrong = Vec::new();
    check::<BlockBasedTableOptions>(Scope::Table, TABLE, &mut wrong);
    none(&wrong);
}
