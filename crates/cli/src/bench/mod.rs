//! `spanlith bench`: db_bench's benchmarks by their names.
//!
//! Closed loop: a thread makes its next call when the last one has returned, so latencies say
//! nothing about a given load. Operations are divided among the threads (db_bench gives each thread
//! all of them).

pub mod histogram;
pub mod meter;
mod report;
mod workload;

use crate::fail::{At, Failure, Usage, shell_word};
use crate::term;
use clap::Args;
use meter::Board;
use report::Outcome;
use serde_json::json;
use spanlith::options::text::{apply_options_string, split_pairs};
use spanlith::options::{
    BlockBasedTableOptions, CfOptions, CompressionType, DbOptions, OptionTable,
};
use spanlith::version::parse_file_name;
use spanlith::{Cf, Db};
use spanlith_cache::Policy;
use spanlith_table::BlockCache;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};
use workload::Kind;

const HELP: &str = "\
Benchmarks, run in the order given:
  fillseq               puts every key once, in order, into a fresh database
  fillrandom            puts random keys into a fresh database
  fillbatch             as fillseq, in batches (--batch-size, else 1000)
  fillsync              as fillrandom with sync; a thousandth of --num
  overwrite             puts random keys into the existing database
  readrandom            gets random keys
  readmissing           gets keys that are not there, among those that are
  readseq, readreverse  one scan over everything; an operation is one entry
  seekrandom            seeks random keys with a new iterator, then --seek-nexts steps
  multireadrandom       multi-get of --batch-size (else 32) random keys; an operation is one key
  deleterandom          deletes random keys
  deleterangerandom     range deletions of --range-size keys at random places; --num / 1000 of them
  mergerandom           adds 1 to random counters by merges (uint64add if --options names no operator)
  fillfamilies          batches of a random key in each of --families families
  readfamilies          gets random keys from random families of --families
  readwhilewriting      readrandom on --threads while one more thread puts
  readrandomwriterandom --readwritepercent gets, the rest puts; 'mixed' for short
  compact, flush, waitforcompaction, stats

Examples:
  spanlith bench fillrandom readrandom seekrandom --num 1000000
  spanlith bench --benchmarks fillseq,mixed --duration 10 --threads 2 --json
  spanlith bench fillrandom --db /data/bench && spanlith bench readrandom --db /data/bench \\
      --use-existing-db --cache-mb 512

Without --db the database lives in a temporary directory and is removed at the end.";

/// What to run, and how.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Bench {
    /// Benchmarks, separated by blanks or commas
    #[arg(value_name = "BENCHMARK", value_delimiter = ',')]
    names: Vec<String>,
    /// Benchmarks as db_bench takes them
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    benchmarks: Vec<String>,
    #[command(flatten)]
    settings: Settings,
    /// Directory of the database; kept
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Uses the database that is there
    #[arg(long, alias = "use_existing_db")]
    use_existing_db: bool,
    /// Removes the database that is there first
    #[arg(long, conflicts_with = "use_existing_db")]
    destroy: bool,
    /// Codec of blocks
    #[arg(long, value_parser = ["none", "lz4"], default_value = "lz4", alias = "compression_type")]
    compression: String,
    /// Block cache
    #[arg(long, value_name = "MIB", default_value_t = 32)]
    cache_mb: usize,
    /// Bits of Bloom filter per key; 0 for no filter
    #[arg(
        long,
        value_name = "BITS",
        default_value_t = 10.0,
        alias = "bloom_bits"
    )]
    bloom: f64,
    /// Memtable size
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    write_buffer_mb: u64,
    /// Flushes and compactions that may run at once
    #[arg(
        long,
        value_name = "N",
        default_value_t = 2,
        alias = "max_background_jobs"
    )]
    background_jobs: i32,
    /// Any option of RocksDB, as in "block_size=16384;level0_file_num_compaction_trigger=2"
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    options: String,
    /// Prints one JSON object instead of lines and a table
    #[arg(long)]
    json: bool,
    /// Prints what db_bench prints, and no table
    #[arg(long, hide = true)]
    as_db_bench: bool,
}

/// What the threads need to know.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Keys in the key space, and operations of most benchmarks
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    num: u64,
    /// Operations of the reading benchmarks; --num if left out
    #[arg(long, value_name = "N")]
    reads: Option<u64>,
    /// Bytes of a value
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 100,
        alias = "value_size"
    )]
    value_size: usize,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value_t = 16, alias = "key_size",
          value_parser = at_least_one)]
    key_size: usize,
    /// Threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: u64,
    /// Runs for so long instead of counting operations; scans and ordered fills end with the keys
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    duration: u64,
    /// Seed of all random choices
    #[arg(long, default_value_t = 301)]
    seed: u64,
    /// Entries per write, keys per multi-get
    #[arg(long, value_name = "N", default_value_t = 1, alias = "batch_size",
          value_parser = clap::value_parser!(u64).range(1..))]
    batch_size: u64,
    /// Every write survives a power cut when it returns
    #[arg(long)]
    sync: bool,
    /// Writes are not logged
    #[arg(long, alias = "disable_wal", conflicts_with = "sync")]
    disable_wal: bool,
    /// Share of gets in readrandomwriterandom
    #[arg(long = "readwritepercent", value_name = "PERCENT", default_value_t = 90,
          value_parser = clap::value_parser!(u64).range(0..=100))]
    read_percent: u64,
    /// Entries read after each seek
    #[arg(long, value_name = "N", default_value_t = 10, alias = "seek_nexts")]
    seek_nexts: u64,
    /// Keys that a range deletion covers
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(1..))]
    range_size: u64,
    /// Column families of fillfamilies and readfamilies, beside the default one
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    families: u64,
    /// Number of the benchmark in the list, so that each draws its own random numbers.
    #[arg(skip)]
    round: u64,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_string()),
        Ok(n) => Ok(n),
        Err(e) => Err(format!("{e}")),
    }
}

impl Settings {
    /// Seed of one thread of this benchmark.
    fn stream(&self, thread: u64) -> u64 {
        self.seed
            .wrapping_add(self.round << 40)
            .wrapping_add(thread << 8)
    }

    /// Bytes of a key and its value.
    fn entry_size(&self) -> u64 {
        (self.key_size + self.value_size) as u64
    }
}

/// A directory that is removed at the end, if it is ours.
struct Place {
    dir: PathBuf,
    temporary: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.temporary {
            // Left over in the system's temporary folder at worst.
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

impl Bench {
    /// Runs the benchmarks.
    ///
    /// # Errors
    /// What failed, with the way out.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let kinds = self.kinds()?;
        let place = self.place()?;
        let existing = self.use_existing_db;
        let mut db: Option<Db> = None;
        let mut used = existing;
        let mut outcomes = Vec::new();
        let paint = term::Paint::stdout();
        match (self.json, self.as_db_bench) {
            (true, _) => {}
            (false, true) => self.reference_head(&place.dir)?,
            (false, false) => self.head(&place.dir)?,
        }
        for (round, (name, kind)) in (0..).zip(kinds) {
            if kind.is_fresh() && !existing && used {
                if let Some(db) = db.take() {
                    db.close().at(&place.dir)?;
                }
                destroy(&place.dir)?;
            }
            used = true;
            let open = match &db {
                Some(db) => db.clone(),
                None => db.insert(self.open(&place.dir)?).clone(),
            };
            let settings = Settings {
                round,
                ..self.settings.clone()
            };
            let outcome = run_one(&name, kind, &open.default_cf(), &settings).at(&place.dir)?;
            if !self.json {
                let width = if self.as_db_bench { 12 } else { 22 };
                writeln!(std::io::stdout(), "{}", outcome.line(width))?;
                if let Some(text) = &outcome.text {
                    writeln!(std::io::stdout(), "{}", paint.dim(text))?;
                }
            }
            outcomes.push(outcome);
        }
        if let Some(db) = db {
            db.close().at(&place.dir)?;
        }
        let mut out = std::io::stdout().lock();
        if self.json {
            let results: Vec<_> = outcomes.iter().map(Outcome::json).collect();
            let object = json!({ "settings": self.settings_json(&place.dir), "results": results });
            writeln!(out, "{object}")?;
        } else if !self.as_db_bench {
            write!(out, "\n{}", report::table(&outcomes, paint))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn kinds(&self) -> anyhow::Result<Vec<(String, Kind)>> {
        let names = self
            .names
            .iter()
            .chain(&self.benchmarks)
            .filter(|n| !n.is_empty());
        let kinds: Result<Vec<_>, Usage> = names
            .map(|name| match Kind::from_name(name) {
                Some(kind) => Ok((name.clone(), kind)),
                None => Err(Usage::new(
                    format!("unknown benchmark '{name}'"),
                    closest(name),
                )),
            })
            .collect();
        let kinds = kinds?;
        if kinds.is_empty() {
            return Err(Usage::new(
                "no benchmark named",
                "for example: spanlith bench fillrandom readrandom; spanlith bench --help lists all",
            )
            .into());
        }
        Ok(kinds)
    }

    /// The directory to use, empty of databases unless an existing one is asked for.
    fn place(&self) -> anyhow::Result<Place> {
        let Some(dir) = &self.db else {
            if self.use_existing_db {
                let hint = "name it: --db DIR --use-existing-db";
                return Err(Usage::new("--use-existing-db without --db", hint).into());
            }
            let dir = std::env::temp_dir().join(format!("spanlith-bench-{}", std::process::id()));
            return Ok(Place {
                dir,
                temporary: true,
            });
        };
        let there = dir.join("CURRENT").exists();
        if there && self.destroy {
            destroy(dir)?;
        } else if there && !self.use_existing_db {
            return Err(Failure::new(
                format!("{} holds a database", dir.display()),
                format!(
                    "--use-existing-db runs on it, --destroy removes it first: spanlith bench … \
                     --db {} --use-existing-db",
                    shell_word(dir)
                ),
            )
            .into());
        }
        Ok(Place {
            dir: dir.clone(),
            temporary: false,
        })
    }

    fn open(&self, dir: &Path) -> anyhow::Result<Db> {
        let mut db = DbOptions::default();
        db.create_if_missing = !self.use_existing_db;
        db.max_background_jobs = self.background_jobs;
        let mut cf = CfOptions::default();
        cf.compression = match self.compression.as_str() {
            "none" => CompressionType::None,
            _ => CompressionType::Lz4,
        };
        cf.write_buffer_size = self.write_buffer_mb << 20;
        let mut table = BlockBasedTableOptions::default();
        if self.bloom > 0.0 {
            table.filter_policy = format!("bloomfilter:{}:false", self.bloom);
        }
        apply_options_string(&nested(&self.options), &mut db, &mut cf, &mut table)
            .map_err(|e| Usage::new(e.to_string(), "--options takes \"name=value;name=value\""))?;
        if cf.merge_operator == CfOptions::default().merge_operator {
            cf.merge_operator = "UInt64AddOperator".to_string();
        }
        Db::builder(dir)
            .options(db)
            .all_families()
            .cf_options(cf)
            .table_options(table)
            .block_cache(BlockCache::new(self.cache_mb << 20, Policy::Clock))
            .open()
            .at(dir)
    }

    /// The lines that db_bench begins with, as far as they mean something here.
    fn reference_head(&self, dir: &Path) -> std::io::Result<()> {
        let s = &self.settings;
        let raw = (s.entry_size() * s.num) as f64 / f64::from(1 << 20);
        writeln!(
            std::io::stdout(),
            "Keys:       {} bytes each\nValues:     {} bytes each\nEntries:    {}\nRawSize:    \
             {raw:.1} MB (estimated)\n------------------------------------------------\nDB path: [{}]",
            s.key_size,
            s.value_size,
            s.num,
            dir.display()
        )
    }

    fn head(&self, dir: &Path) -> std::io::Result<()> {
        let s = &self.settings;
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "Spanlith {} on {} cores, {}",
            env!("CARGO_PKG_VERSION"),
            cores(),
            dir.display()
        )?;
        writeln!(
            out,
            "{} keys of {} bytes, values of {} bytes, {} threads, seed {}, compression {}, cache \
             {} MiB, Bloom {} bits, memtable {} MiB{}{}\n",
            term::count(s.num),
            s.key_size,
            s.value_size,
            s.threads,
            s.seed,
            self.compression,
            self.cache_mb,
            self.bloom,
            self.write_buffer_mb,
            if s.sync { ", sync" } else { "" },
            if s.disable_wal { ", no log" } else { "" },
        )
    }

    fn settings_json(&self, dir: &Path) -> serde_json::Value {
        let s = &self.settings;
        json!({
            "version": env!("CARGO_PKG_VERSION"), "cores": cores(), "db": dir.display().to_string(),
            "num": s.num, "key_size": s.key_size, "value_size": s.value_size,
            "threads": s.threads, "duration": s.duration, "seed": s.seed,
            "range_size": s.range_size, "families": s.families,
            "batch_size": s.batch_size, "sync": s.sync, "disable_wal": s.disable_wal,
            "compression": self.compression, "cache_mb": self.cache_mb, "bloom": self.bloom,
            "write_buffer_mb": self.write_buffer_mb, "background_jobs": self.background_jobs,
            "options": self.options,
        })
    }
}

/// Options of tables by their bare names become those of the table factory, where they belong.
fn nested(options: &str) -> String {
    let Ok(pairs) = split_pairs(options) else {
        // The error is better told by who applies them.
        return options.to_string();
    };
    let is_table = |name: &str| {
        let whole = name.split('.').next().unwrap_or(name);
        BlockBasedTableOptions::row(whole).is_some()
            && CfOptions::row(whole).is_none()
            && DbOptions::row(whole).is_none()
    };
    let (table, others): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|p| is_table(&p.0));
    let join = |pairs: Vec<(String, String)>| {
        let pairs = pairs.into_iter().map(|(name, value)| {
            match value.contains([';', '=']) && !value.starts_with('{') {
                true => format!("{name}={{{value}}}"),
                false => format!("{name}={value}"),
            }
        });
        pairs.collect::<Vec<_>>().join(";")
    };
    match table.is_empty() {
        true => options.to_string(),
        false => {
            let mut all = others;
            all.push(("block_based_table_factory".to_string(), join(table)));
            join(all)
        }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// A name that was perhaps meant.
fn closest(name: &str) -> String {
    let names = || workload::ALL.iter().map(|w| w.0);
    match names().map(|n| (distance(n, name), n)).min() {
        Some((d, best)) if d <= 3 => {
            format!("did you mean {best}? spanlith bench --help lists all")
        }
        _ => format!("one of: {}", names().collect::<Vec<_>>().join(" ")),
    }
}

/// Letters to insert, delete or change to make one name the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Removes the files of a database, and the directory if nothing else is in it.
fn destroy(dir: &Path) -> anyhow::Result<()> {
    let remove = |dir: &Path| -> std::io::Result<()> {
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if parse_file_name(&entry.file_name().to_string_lossy()).is_some() {
                std::fs::remove_file(entry.path())?;
            }
        }
        // Something else may be in it; then it stays.
        let _ = std::fs::remove_dir(dir);
        Ok(())
    };
    remove(dir).map_err(|e| {
        Failure::new(
            format!("cannot remove the database in {}: {e}", dir.display()),
            format!("check owner and permissions: ls -ld {}", shell_word(dir)),
        )
        .into()
    })
}

/// Runs one benchmark.
fn run_one(name: &str, kind: Kind, cf: &Cf, s: &Settings) -> spanlith::Result<Outcome> {
    if kind.is_single_call() {
        return single_call(name, kind, cf);
    }
    let threads = match kind {
        Kind::ReadSeq | Kind::ReadReverse => 1,
        _ => s.threads,
    };
    let operations = kind.operations(s);
    let board = Board::new(
        usize::try_from(threads).unwrap_or(1),
        operations.unwrap_or(u64::MAX),
    );
    let stop_writer = AtomicBool::new(false);
    let (tell, done) = std::sync::mpsc::channel();
    let start = Instant::now();
    let (results, seconds, beside) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|n| {
                let (board, tell) = (&board, tell.clone());
                scope.spawn(move || {
                    let mut meter = board.meter(usize::try_from(n).unwrap_or(0));
                    let result = workload::run(kind, cf, s, n, &mut meter);
                    drop(meter);
                    if result.is_err() {
                        board.stop();
                    }
                    // The receiver lives as long as this scope.
                    let _ = tell.send(());
                    result
                })
            })
            .collect();
        let writer = (kind == Kind::ReadWhileWriting)
            .then(|| scope.spawn(|| workload::write_beside(cf, s, &stop_writer)));
        watch(name, kind, &board, s, threads, &done);
        let results: Vec<_> = workers.into_iter().map(join).collect();
        let seconds = start.elapsed().as_secs_f64();
        stop_writer.store(true, Ordering::Relaxed);
        (results, seconds, writer.map(join))
    });
    results.into_iter().collect::<spanlith::Result<Vec<()>>>()?;
    let written = beside.transpose()?;
    let tally = board.total();
    let text = written.map(|w| {
        format!(
            "{:24}beside: {:.0} puts/s",
            "",
            w as f64 / seconds.max(1e-9)
        )
    });
    Ok(Outcome {
        name: name.to_string(),
        tally,
        seconds,
        text,
    })
}

/// A thread's result; its panic goes on here.
fn join<T>(handle: std::thread::ScopedJoinHandle<'_, T>) -> T {
    handle
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Shows a line each second until all threads are done; ends them when their time is up.
fn watch(
    name: &str,
    kind: Kind,
    board: &Board,
    s: &Settings,
    threads: u64,
    done: &std::sync::mpsc::Receiver<()>,
) {
    let line = term::live_line();
    let start = Instant::now();
    let goal = match kind.operations(s) {
        Some(n) => Some(n),
        None if matches!(kind, Kind::FillSeq | Kind::FillBatch) => Some(s.num),
        None => None,
    };
    let end = (s.duration > 0).then(|| start + Duration::from_secs(s.duration));
    let mut next = start + Duration::from_secs(1);
    let mut running = threads;
    while running > 0 {
        let until = end
            .filter(|e| *e > Instant::now())
            .map_or(next, |e| e.min(next));
        match done.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(()) => running -= 1,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = Instant::now();
        if end.is_some_and(|e| now >= e) {
            board.stop();
        }
        if now >= next {
            next = now + Duration::from_secs(1);
            let recent = board.recent();
            let share = goal.map_or_else(String::new, |goal| {
                format!(
                    "{:3.0} %  ",
                    100.0 * board.done() as f64 / goal.max(1) as f64
                )
            });
            line.set_message(format!(
                "{name:22} {:4.0} s  {share}{:>12} ops/s  p50 {}  p99 {}",
                (now - start).as_secs_f64(),
                term::count(recent.ops),
                term::nanos(recent.latency.percentile(50.0)),
                term::nanos(recent.latency.percentile(99.0)),
            ));
            line.tick();
        }
    }
    line.finish_and_clear();
}

fn single_call(name: &str, kind: Kind, cf: &Cf) -> spanlith::Result<Outcome> {
    let db = cf.db();
    let start = Instant::now();
    let mut text = None;
    match kind {
        Kind::Compact => cf.compact_range(None, None)?,
        Kind::Flush => db.flush(true)?,
        Kind::WaitForCompaction => wait_idle(db),
        _ => text = Some(db.property("rocksdb.stats").unwrap_or_default()),
    }
    let took = start.elapsed();
    let mut tally = meter::Tally {
        ops: 1,
        busy: took,
        ..meter::Tally::default()
    };
    tally
        .latency
        .add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    Ok(Outcome {
        name: name.to_string(),
        tally,
        seconds: took.as_secs_f64(),
        text,
    })
}

/// Waits until no flush or compaction runs or is due, or background work has failed.
pub fn wait_idle(db: &Db) {
    const BUSY: [&str; 5] = [
        "rocksdb.mem-table-flush-pending",
        "rocksdb.num-running-flushes",
        "rocksdb.num-immutable-mem-table",
        "rocksdb.compaction-pending",
        "rocksdb.num-running-compactions",
    ];
    let value = |name| db.int_property(name).unwrap_or(0);
    while value("rocksdb.background-errors") == 0 && BUSY.iter().any(|name| value(name) > 0) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_benchmark() {
        for (name, ..) in workload::ALL {
            assert!(HELP.contains(name), "{name}");
        }
    }

    #[test]
    fn options_of_tables_are_told_from_others() {
        assert_eq!(nested("num_levels=3"), "num_levels=3");
        assert_eq!(
            nested("block_size=8;num_levels=3"),
            "num_levels=3;block_based_table_factory={block_size=8}"
        );
    }

    #[test]
    fn a_misspelt_benchmark_gets_a_suggestion() {
        assert!(closest("readrandm").contains("did you mean readrandom?"));
        assert_eq!((distance("", "abc"), distance("kitten", "sitting")), (3, 3));
        assert!(closest("x").starts_with("one of: fillseq"));
    }
}
