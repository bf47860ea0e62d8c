//! `db_bench`: RocksDB's benchmark under its own name.
//!
//! Its flags are translated to those of `spanlith bench`, which runs the benchmarks that exist here and
//! prints RocksDB's result lines. A flag that means an option of the database becomes that option; flags
//! without meaning here are named once and ignored, as scripts expect; unknown ones are refused.

use crate::fail::{self, Usage};
use spanlith_base::CompressionType;
use std::process::ExitCode;

/// Flags that `bench` has, perhaps under another name.
const SAME: [(&str, &str); 23] = [
    ("benchmarks", "benchmarks"),
    ("num", "num"),
    ("reads", "reads"),
    ("value_size", "value-size"),
    ("key_size", "key-size"),
    ("threads", "threads"),
    ("duration", "duration"),
    ("seed", "seed"),
    ("batch_size", "batch-size"),
    ("readwritepercent", "readwritepercent"),
    ("seek_nexts", "seek-nexts"),
    ("range_tombstone_width", "range-size"),
    ("db", "db"),
    ("max_background_jobs", "background-jobs"),
    ("num_column_families", "families"),
    ("use_existing_db", "use-existing-db"),
    ("sync", "sync"),
    ("disable_wal", "disable-wal"),
    ("json", "json"),
    ("histogram", "histogram"),
    ("statistics", "statistics"),
    ("report_interval_seconds", "report-interval-seconds"),
    ("report_file", "report-file"),
];

/// Those of them that `bench` has as switches.
const SWITCHES: [&str; 6] = [
    "use_existing_db",
    "sync",
    "disable_wal",
    "json",
    "histogram",
    "statistics",
];

/// Flags that are options of the database by the same name.
const OPTIONS: [&str; 38] = [
    "write_buffer_size",
    "max_write_buffer_number",
    "min_write_buffer_number_to_merge",
    "db_write_buffer_size",
    "block_size",
    "block_restart_interval",
    "index_block_restart_interval",
    "format_version",
    "target_file_size_base",
    "target_file_size_multiplier",
    "max_bytes_for_level_base",
    "max_bytes_for_level_multiplier",
    "level0_file_num_compaction_trigger",
    "level0_slowdown_writes_trigger",
    "level0_stop_writes_trigger",
    "num_levels",
    "max_subcompactions",
    "max_open_files",
    "bytes_per_sync",
    "wal_bytes_per_sync",
    "disable_auto_compactions",
    "level_compaction_dynamic_level_bytes",
    "soft_pending_compaction_bytes_limit",
    "hard_pending_compaction_bytes_limit",
    "delayed_write_rate",
    "allow_concurrent_memtable_write",
    "enable_pipelined_write",
    "use_direct_reads",
    "use_direct_io_for_flush_and_compaction",
    "cache_index_and_filter_blocks",
    "pin_l0_filter_and_index_blocks_in_cache",
    "whole_key_filtering",
    "partition_filters",
    "optimize_filters_for_memory",
    "compaction_readahead_size",
    "max_total_wal_size",
    "stats_dump_period_sec",
    "memtable_whole_key_filtering",
];

/// Flags that change nothing here, or only what is shown.
const IGNORED: [&str; 20] = [
    "compression_ratio",
    "statistics_string",
    "stats_interval",
    "stats_interval_seconds",
    "stats_per_interval",
    "report_bg_io_stats",
    "perf_level",
    "verify_checksum",
    "enable_numa",
    "cache_numshardbits",
    "open_files",
    "ops_between_duration_checks",
    "progress_reports",
    "thread_status_per_interval",
    "mmap_read",
    "mmap_write",
    "use_fsync",
    "memtablerep",
    "writes",
    "print_malloc_stats",
];

const HELP: &str = "\
db_bench - RocksDB's benchmark, run by Spanlith

Usage: db_bench --benchmarks=LIST [--FLAG=VALUE]…

  --benchmarks= --num= --reads= --value_size= --key_size= --threads= --duration= --seed= --batch_size=
  --db= --use_existing_db --sync --disable_wal --readwritepercent= --seek_nexts= --bloom_bits=
  --cache_size= --compression_type= --max_background_jobs= --num_column_families= --json
  --histogram --statistics --report_interval_seconds= --report_file=
  and options of the database by their names: --write_buffer_size= --block_size= --format_version= …

Benchmarks and what they do: spanlith bench --help. Operations are divided among the threads.
Example: db_bench --benchmarks=fillrandom,readrandom --num=1000000 --value_size=100 --threads=2";

/// The arguments of `bench` for those of db_bench, and what is ignored.
fn translate(args: &[String]) -> Result<(Vec<String>, Vec<String>), Usage> {
    let mut out: Vec<String> = ["spanlith", "bench", "--as-db-bench"]
        .map(str::to_string)
        .to_vec();
    let mut options: Vec<String> = Vec::new();
    let mut ignored = Vec::new();
    let mut has_db = false;
    let mut keeps = false;
    // Its defaults are no filter and Snappy.
    let (mut has_filter, mut has_codec) = (false, false);
    for arg in args {
        let Some(named) = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')) else {
            return Err(Usage::new(
                format!("'{arg}' is no flag"),
                "db_bench takes --name=value: db_bench --benchmarks=fillseq --num=1000",
            ));
        };
        let (name, value) = match named.split_once('=') {
            Some((name, value)) => (name, value),
            None => (named, "true"),
        };
        let is_true = ["true", "1", "yes", "t", "y"].contains(&value);
        has_codec |= name == "compression_type";
        if name == "bloom_bits" {
            has_filter = true;
            let bits = value.parse::<f64>().map_err(|_| number(name, value))?;
            out.push(format!("--bloom={}", bits.max(0.0)));
            continue;
        }
        if let Some((_, ours)) = SAME.iter().find(|s| s.0 == name) {
            has_db |= name == "db";
            if !SWITCHES.contains(&name) {
                out.push(format!("--{ours}={value}"));
            } else if is_true {
                keeps |= name == "use_existing_db";
                out.push(format!("--{ours}"));
            }
            continue;
        }
        match name {
            "cache_size" => {
                let size = value.parse::<i64>().map_err(|_| number(name, value))?;
                out.push(format!("--cache-mb={}", size.max(0) >> 20));
            }
            "compression_type" => match value {
                "none" | "lz4" => out.push(format!("--compression={value}")),
                other => options.push(format!("compression={}", codec(other)?)),
            },
            "compaction_style" => options.push(format!("compaction_style={value}")),
            _ if OPTIONS.contains(&name) => options.push(format!("{name}={value}")),
            _ if IGNORED.contains(&name) => ignored.push(name.to_string()),
            _ => {
                return Err(Usage::new(
                    format!("unknown command line flag '{name}'"),
                    "db_bench --help lists the flags; options of the database are flags, too",
                ));
            }
        }
    }
    if has_db && !keeps {
        // The first benchmark that fills begins with an empty directory, as there.
        out.push("--destroy".to_string());
    }
    if !has_filter {
        out.push("--bloom=0".to_string());
    }
    if !has_codec {
        options.push("compression=kSnappyCompression".to_string());
    }
    if !options.is_empty() {
        out.push(format!("--options={}", options.join(";")));
    }
    Ok((out, ignored))
}

fn number(name: &str, value: &str) -> Usage {
    Usage::new(
        format!("illegal value '{value}' for --{name}"),
        "it takes a number",
    )
}

fn codec(name: &str) -> Result<CompressionType, Usage> {
    let written = || CompressionType::offered().filter(|(_, codec)| codec.is_written());
    match written().find(|(short, _)| *short == name) {
        Some((_, codec)) => Ok(codec),
        None => {
            let known: Vec<&str> = written().map(|(short, _)| short).collect();
            Err(Usage::new(
                format!("unknown compression type '{name}'"),
                format!("one of: {}", known.join(" ")),
            ))
        }
    }
}

/// Runs `db_bench` with arguments that do not include its own name; `bench` runs a translated command
/// line, its own name included.
pub fn run(
    args: &[String],
    bench: fn(Vec<String>) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    if args
        .iter()
        .any(|a| ["--help", "-help", "-h"].contains(&a.as_str()))
    {
        return Ok(fail::show(HELP));
    }
    let (translated, ignored) = translate(args)?;
    if !ignored.is_empty() {
        tell!("ignored: --{}", ignored.join(" --"));
    }
    bench(translated)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<(Vec<String>, Vec<String>), Usage> {
        translate(&line.split(' ').map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn flags_become_those_of_bench_or_options() {
        let (args, ignored) = words(
            "--benchmarks=fillseq -num=5 --sync=1 --disable_wal=0 --block_size=8192 --db=d \
             --cache_size=8388608 --compression_type=zstd --histogram --stats_interval=5",
        )
        .unwrap();
        assert_eq!(
            args[3..],
            [
                "--benchmarks=fillseq",
                "--num=5",
                "--sync",
                "--db=d",
                "--cache-mb=8",
                "--histogram",
                "--destroy",
                "--bloom=0",
                "--options=block_size=8192;compression=kZSTD"
            ]
        );
        assert_eq!(ignored, ["stats_interval"]);
        let (args, _) = words("--db=d --use_existing_db").unwrap();
        assert!(!args.contains(&"--destroy".to_string()));
        for bad in [
            "fillseq",
            "--bogus=1",
            "--cache_size=x",
            "--compression_type=x",
        ] {
            assert!(words(bad).is_err(), "{bad}");
        }
    }
}
