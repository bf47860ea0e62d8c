//! Draws options: those of an open, and those that change while the database runs.

use super::Maker;
use spanlith_base::CompressionType;

/// Extractors that all keys of a program with prefixes have prefixes under.
const EXTRACTORS: [&str; 5] = [
    "fixed:1",
    "fixed:3",
    "rocksdb.FixedPrefix.2",
    "capped:2",
    "rocksdb.Noop",
];

const BLOB_CODEC: &str = "blob_compression_type";

/// Options of blob files, of which all may change while the database runs.
const BLOB_OPTIONS: &[(&str, &[&str])] = &[
    ("enable_blob_files", &["true", "true", "true", "false"]),
    ("min_blob_size", &["0", "1", "20", "100", "1000"]),
    ("blob_file_size", &["1", "1000", "20000", "268435456"]),
    (
        BLOB_CODEC,
        &[
            "kNoCompression",
            "kZSTD",
            "kSnappyCompression",
            "kLZ4Compression",
        ],
    ),
    ("enable_blob_garbage_collection", &["true", "false"]),
    (
        "blob_garbage_collection_age_cutoff",
        &["0.0", "0.25", "0.5", "1.0"],
    ),
    ("blob_garbage_collection_force_threshold", &["0.3", "1.0"]),
    ("blob_compaction_readahead_size", &["0", "4096"]),
    ("blob_file_starting_level", &["0", "1", "6"]),
    ("prepopulate_blob_cache", &["kDisable", "kFlushOnly"]),
];

/// Values of an option under which sizes of blob files are the same in both libraries, if they are asked
/// for: the first two codecs only.
fn same_size<'a>(exact: bool, name: &str, values: &'a [&'a str]) -> &'a [&'a str] {
    match exact && name == BLOB_CODEC {
        true => &values[..2],
        false => values,
    }
}

impl Maker<'_> {
    /// Options of an open or a family, drawn.
    pub(super) fn options(&mut self) -> String {
        let mut o = String::from(
            "create_if_missing=true;stats_dump_period_sec=0;stats_persist_period_sec=0;max_open_files=-1;allow_fallocate=false;",
        );
        let mut add = |name: &str, value: String| o.push_str(&format!("{name}={value};"));
        add("num_levels", self.levels.to_string());
        let r = &mut *self.rng;
        if self.exact {
            add("disable_auto_compactions", "true".into());
        } else {
            let rows: &[(&str, &[&str])] = &[
                ("write_buffer_size", &["65536", "100000", "300000"]),
                ("max_write_buffer_number", &["2", "3", "6"]),
                ("level0_file_num_compaction_trigger", &["1", "2", "4"]),
                ("level0_stop_writes_trigger", &["36", "12"]),
                ("target_file_size_base", &["4096", "65536", "1048576"]),
                ("max_bytes_for_level_base", &["16384", "262144"]),
                ("max_bytes_for_level_multiplier", &["2", "10"]),
                ("disable_auto_compactions", &["false", "false", "true"]),
                ("min_write_buffer_number_to_merge", &["1", "2"]),
                ("max_subcompactions", &["1", "4"]),
                ("max_background_jobs", &["2", "4"]),
                ("arena_block_size", &["0", "8192"]),
            ];
            for (name, values) in rows {
                // RocksDB waits for ever in close if a memtable without a log waits to be merged.
                let hangs = self.unlogged && *name == "min_write_buffer_number_to_merge";
                if !hangs && r.one_in(2) {
                    add(name, (*r.pick(values)).into());
                }
            }
        }
        let codecs: Vec<String> = CompressionType::written().map(|t| t.name()).collect();
        let codecs: Vec<&str> = codecs.iter().map(String::as_str).collect();
        let rows: &[(&str, &[&str])] = &[
            ("level_compaction_dynamic_level_bytes", &["true", "false"]),
            ("compression", &codecs),
            (
                "bottommost_compression",
                &[
                    "kNoCompression",
                    "kLZ4Compression",
                    "kZSTD",
                    "kDisableCompressionOption",
                ],
            ),
            (
                "compaction_pri",
                &[
                    "kByCompensatedSize",
                    "kOldestLargestSeqFirst",
                    "kOldestSmallestSeqFirst",
                ],
            ),
            ("max_sequential_skip_in_iterations", &["0", "1", "8"]),
            ("max_manifest_file_size", &["100", "1073741824"]),
            ("bytes_per_sync", &["0", "4096"]),
            ("wal_bytes_per_sync", &["0", "4096"]),
            ("allow_concurrent_memtable_write", &["true", "false"]),
            ("paranoid_checks", &["true", "false"]),
            ("use_fsync", &["true", "false"]),
            ("report_bg_io_stats", &["true", "false"]),
            ("wal_compression", &["kNoCompression", "kZSTD"]),
            (
                "wal_recovery_mode",
                &[
                    "kTolerateCorruptedTailRecords",
                    "kAbsoluteConsistency",
                    "kPointInTimeRecovery",
                    "kSkipAnyCorruptedRecords",
                ],
            ),
            ("memtable_prefix_bloom_size_ratio", &["0.1", "0.25"]),
            ("memtable_whole_key_filtering", &["true", "false"]),
            ("optimize_filters_for_hits", &["true", "false"]),
            ("paranoid_file_checks", &["true", "false"]),
            ("force_consistency_checks", &["true", "false"]),
            ("flush_verify_memtable_count", &["true", "false"]),
            ("compaction_verify_record_count", &["true", "false"]),
            ("verify_sst_unique_id_in_manifest", &["true", "false"]),
            ("max_write_buffer_size_to_maintain", &["0", "100000"]),
        ];
        for (name, values) in rows {
            // Where sizes are compared, only codecs whose encoders agree to the byte.
            let values: &[&str] = match *name {
                "blob_compression_type" if self.exact => &["kNoCompression", "kZSTD"],
                _ => values,
            };
            if r.one_in(3) {
                add(name, (*r.pick(values)).into());
            }
        }
        for (name, values) in BLOB_OPTIONS {
            if r.one_in(if self.blobs { 2 } else { 5 }) {
                add(name, (*r.pick(same_size(self.exact, name, values))).into());
            }
        }
        if self.prefixes && r.one_in(2) {
            add("prefix_extractor", (*r.pick(&EXTRACTORS)).into());
        }
        let mut table = String::new();
        let rows: &[(&str, &[&str])] = &[
            ("block_size", &["1", "64", "400", "4096", "16384"]),
            ("block_restart_interval", &["1", "3", "16"]),
            ("index_block_restart_interval", &["1", "5"]),
            ("format_version", &["2", "3", "4", "5", "6", "7"]),
            (
                "checksum",
                &["kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"],
            ),
            (
                "filter_policy",
                &[
                    "bloomfilter:10:false",
                    "bloomfilter:3:false",
                    "ribbonfilter:8:0",
                    "ribbonfilter:12:-1",
                    "nullptr",
                ],
            ),
            (
                "index_type",
                &[
                    "kBinarySearch",
                    "kTwoLevelIndexSearch",
                    "kBinarySearchWithFirstKey",
                ],
            ),
            ("partition_filters", &["true", "false"]),
            ("enable_index_compression", &["true", "false"]),
            ("use_delta_encoding", &["true", "false"]),
            ("verify_compression", &["true", "false"]),
            ("detect_filter_construct_corruption", &["true", "false"]),
            ("metadata_block_size", &["64", "400", "4096"]),
            (
                "data_block_index_type",
                &["kDataBlockBinarySearch", "kDataBlockBinaryAndHash"],
            ),
            ("data_block_hash_table_util_ratio", &["0.5", "0.75"]),
            (
                "pin_l0_filter_and_index_blocks_in_cache",
                &["true", "false"],
            ),
            ("whole_key_filtering", &["true", "false"]),
            ("no_block_cache", &["true", "false"]),
            ("block_cache", &["4096", "1M"]),
            ("cache_index_and_filter_blocks", &["true", "false"]),
            (
                "index_shortening",
                &[
                    "kNoShortening",
                    "kShortenSeparators",
                    "kShortenSeparatorsAndSuccessor",
                ],
            ),
            ("block_size_deviation", &["0", "10", "90"]),
        ];
        for (name, values) in rows {
            if r.one_in(3) {
                table.push_str(&format!("{name}={};", r.pick(values)));
            }
        }
        if !table.contains("kTwoLevelIndexSearch") {
            // RocksDB 11.8.1 crashes when it writes such a table.
            table = table.replace("partition_filters=true;", "");
        }
        o.push_str(&self.style());
        o + &format!("block_based_table_factory={{{table}}};")
    }

    /// Options changed while the database runs; some are refused.
    pub(super) fn set_options(&mut self) {
        let rows: &[&str] = &[
            // Makes a memtable full at once, and flushes run in the background.
            if self.exact {
                "bloom_locality=0"
            } else {
                "write_buffer_size=200000"
            },
            "max_write_buffer_number=4",
            "target_file_size_base=65536",
            "max_bytes_for_level_base=200000",
            "level0_file_num_compaction_trigger=3",
            "level0_slowdown_writes_trigger=20",
            "ttl=100000",
            "compression=kNoCompression",
            "report_bg_io_stats=true",
            "max_sequential_skip_in_iterations=2",
            "block_based_table_factory={block_size=300;}",
            "memtable_whole_key_filtering=true",
            "num_levels=3",
            "no_such_option=1",
            "write_buffer_size=many",
            "compression=kNoSuch",
            "comparator=x",
        ];
        let n = 1 + self.rng.below(2);
        let mut list: Vec<String> = (0..n).map(|_| (*self.rng.pick(rows)).into()).collect();
        if self.prefixes && self.rng.one_in(2) {
            list.push(format!("prefix_extractor={}", self.rng.pick(&EXTRACTORS)));
        }
        if self.blobs {
            let (name, values) = self.rng.pick(BLOB_OPTIONS);
            let values = same_size(self.exact, name, values);
            list.push(format!("{name}={}", self.rng.pick(values)));
        }
        list.extend(self.style_change());
        let family = self.live();
        self.out.push(format!("{family}setopts {}", list.join(" ")));
    }
}
