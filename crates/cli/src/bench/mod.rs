//! `spanlith bench`: db_bench's benchmarks by their names, and YCSB's.
//!
//! Without `--rate` the loop is closed: a thread makes its next call when the last one has returned,
//! so latencies say nothing about a given load. With it the loop is open: calls have intended start
//! times and latencies count from those. Operations are divided among the threads (db_bench gives
//! each thread all of them).

mod device;
mod driver;
mod kind;
mod outstanding;
mod page;
mod reference;
mod report;
mod sampler;
mod settings;
mod workload;
mod ycsb;

pub use driver::wait_idle;

use crate::fail::{At, Failure, Usage, shell_word};
use crate::own::OwnFlags;
use crate::term;
use crate::traced::TraceFlags;
use clap::Args;
use kind::Kind;
use reference::Reference;
use report::Outcome;
use serde_json::json;
use settings::{HELP, Settings};
use spanlith::Db;
use spanlith::options::text::apply_options_string;
use spanlith::options::{BlockBasedTableOptions, CfOptions, CompressionType, DbOptions};
use spanlith::version::parse_file_name;
use spanlith_base::stats::Statistics;
use spanlith_cache::Policy;
use spanlith_env::emulated::Emulator;
use spanlith_table::BlockCache;
use spanlith_workload::report::environment::{Environment, cores};
use spanlith_workload::store::spec::nested;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

/// Describes what to run, and how.
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
    /// Records nothing of what was durable when, as RocksDB does not; to measure what that costs
    #[arg(long)]
    no_evidence: bool,
    /// Any option of RocksDB, as in "block_size=16384;level0_file_num_compaction_trigger=2"
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    options: String,
    #[command(flatten)]
    own: OwnFlags,
    // Of the last database, if benchmarks begin with new ones.
    #[command(flatten)]
    traces: TraceFlags,
    #[command(flatten)]
    device: device::DeviceFlag,
    /// Prints one JSON object instead of lines and a table
    #[arg(long)]
    json: bool,
    /// Writes a page with charts over time, the shape of the tree, the environment and the options
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Prints what db_bench prints, and no table
    #[arg(long, hide = true)]
    as_db_bench: bool,
    #[command(flatten)]
    reference: Reference,
}

/// Begin of the names of temporary directories; the number of the process follows.
const TEMPORARY: &str = "spanlith-bench-";

/// Removes the temporary directories of runs that were ended by a signal. Without `/proc` nobody knows
/// which these are, and they stay.
fn remove_left_over(all: &Path) {
    let processes = Path::new("/proc");
    if !processes.join("self").exists() {
        return;
    }
    for entry in std::fs::read_dir(all).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(TEMPORARY).map(str::parse::<u32>);
        if let Some(Ok(process)) = process
            && !processes.join(process.to_string()).exists()
        {
            // Another user's directory stays.
            let _ = destroy(&entry.path());
        }
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
    pub fn run(mut self) -> anyhow::Result<ExitCode> {
        if self.is_raw()? {
            return self.device.raw(self.settings.seed, self.json);
        }
        let kinds = self.kinds()?;
        self.check_report()?;
        if self.device.text().is_some() && self.own.text()?.contains("env_device=") {
            let text = "--device and env_device would put one device on another";
            return Err(Usage::new(text, "give one of them").into());
        }
        let mut rows = self.reference.rows()?;
        if rows.is_some() {
            self.settings.keep_points = true;
            self.settings.report_interval_ms = Some(self.reference.report_interval_seconds * 1000);
        }
        let statistics = self
            .reference
            .statistics
            .then(|| Arc::new(Statistics::new()));
        let place = self.place()?;
        let device = self.device.emulate();
        let started = SystemTime::now();
        let existing = self.use_existing_db;
        let mut db: Option<Db> = None;
        let mut used = existing;
        let mut outcomes = Vec::new();
        let mut options = None;
        let records = self.settings.records.clone();
        records.reset(self.settings.num);
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
            match kind {
                Kind::YcsbLoad => records.reset(0),
                _ if kind.is_fresh() => records.reset(self.settings.num),
                _ => records.settle(),
            }
            used = true;
            let open = match &db {
                Some(db) => db.clone(),
                None => db
                    .insert(self.open(&place.dir, statistics.clone(), device.as_ref())?)
                    .clone(),
            };
            let mut settings = self.settings.clone();
            settings.round = round;
            if self.report.is_some() && settings.report_interval_ms.is_none() {
                settings.report_interval_ms = Some(100);
            }
            let outcome = driver::run_one(&name, kind, &open.default_cf(), &settings);
            let outcome = outcome.at(&place.dir)?;
            options = Some(open.options());
            if !self.json {
                let width = if self.as_db_bench { 12 } else { 22 };
                writeln!(std::io::stdout(), "{}", outcome.line(width))?;
                if let Some(text) = &outcome.text {
                    writeln!(std::io::stdout(), "{}", paint.dim(text))?;
                }
                if self.reference.histogram && !outcome.is_text {
                    let text = outcome.tally.latency.reference_text(1000);
                    let what = kind.operation();
                    writeln!(std::io::stdout(), "Microseconds per {what}:\n{text}")?;
                }
            }
            if let Some(rows) = &mut rows {
                rows.add(&outcome)?;
            }
            outcomes.push(outcome);
        }
        if let Some(statistics) = statistics.filter(|_| !self.json) {
            writeln!(std::io::stdout(), "STATISTICS:\n{}", statistics.text())?;
        }
        if let Some(db) = db {
            db.close().at(&place.dir)?;
        }
        let columns = term::size().map_or(usize::MAX, |s| s.0);
        let mut out = std::io::stdout().lock();
        if self.json {
            let results: Vec<_> = outcomes.iter().map(Outcome::json).collect();
            let object = json!({
                "settings": self.settings_json(&place.dir), "results": results,
                "environment": Environment::of(&place.dir).json(),
                "device": device.as_ref().map(|d| device::usage_json(&d.usage())),
            });
            writeln!(out, "{object}")?;
        } else if !self.as_db_bench {
            write!(out, "\n{}", report::table(&outcomes, paint, columns))?;
            if let Some(device) = &device {
                writeln!(out, "{}", device::usage_line(device))?;
            }
        }
        if let Some(file) = &self.report {
            let page = page::Page {
                outcomes: &outcomes,
                settings: &self.settings_json(&place.dir),
                options: options.as_ref(),
                dir: &place.dir,
                started,
            };
            std::fs::write(file, page.html()).map_err(|e| report_failed(file, &e))?;
            if !self.json {
                writeln!(out, "report: {}", file.display())?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Finds out before hours of work whether the page can be written.
    fn check_report(&self) -> anyhow::Result<()> {
        let Some(file) = &self.report else {
            return Ok(());
        };
        let new = !file.exists();
        let open = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(file);
        open.map_err(|e| report_failed(file, &e))?;
        if new {
            // An empty file that stays is no harm.
            let _ = std::fs::remove_file(file);
        }
        Ok(())
    }

    fn kinds(&self) -> anyhow::Result<Vec<(String, Kind)>> {
        let names = self
            .names
            .iter()
            .chain(&self.benchmarks)
            .filter(|n| !n.is_empty())
            .map(|n| n.replace("ycsb-", "ycsb"))
            .flat_map(|n| match n.as_str() {
                "ycsb" => YCSB_ORDER.map(str::to_string).to_vec(),
                _ => vec![n],
            });
        let kinds: Result<Vec<_>, Usage> = names
            .map(|name| match Kind::from_name(&name) {
                Some(kind) => Ok((name, kind)),
                None => Err(Usage::new(
                    format!("unknown benchmark '{name}'"),
                    closest(&name),
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
        if self.settings.outstanding > 1 {
            let is_single =
                |k: &&(String, Kind)| !k.1.is_single_call() && !outstanding::has_form(k.1);
            if let Some((name, _)) = kinds.iter().find(is_single) {
                return Err(Usage::new(
                    format!("{name} has no form with many calls outstanding"),
                    "--outstanding is for fillrandom, fillsync, overwrite, readrandom, readhot and readmissing",
                )
                .into());
            }
            if self.settings.batch_size > 1 {
                return Err(Usage::new(
                    "--outstanding and --batch-size do not go together",
                    "give one of them: many calls outstanding share log appends by themselves",
                )
                .into());
            }
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
            remove_left_over(&std::env::temp_dir());
            let dir = std::env::temp_dir().join(format!("{TEMPORARY}{}", std::process::id()));
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

    fn open(
        &self,
        dir: &Path,
        statistics: Option<Arc<Statistics>>,
        device: Option<&Arc<Emulator>>,
    ) -> anyhow::Result<Db> {
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
        db.own.evidence = !self.no_evidence;
        let mut builder = self.own.apply(Db::builder(dir))?;
        if let Some(device) = device {
            builder = builder.env(device::env_on(device));
        }
        if let Some(statistics) = statistics {
            builder = builder.statistics(statistics);
        }
        let db = builder
            .options(db)
            .all_families()
            .cf_options(cf)
            .table_options(table)
            .block_cache(BlockCache::new(self.cache_mb << 20, Policy::Clock))
            .open()
            .at(dir)?;
        self.traces.start(&db).at(dir)?;
        Ok(db)
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
            "{}, {} thread{}, seed {}\ncompression {}, cache {} MiB, Bloom {} bits, memtable {} \
             MiB{}{}{}{}{}\n",
            self.data(),
            s.threads,
            if s.threads == 1 { "" } else { "s" },
            s.seed,
            self.compression,
            self.cache_mb,
            self.bloom,
            self.write_buffer_mb,
            match s.outstanding {
                1 => String::new(),
                n => format!(", {n} calls outstanding per thread"),
            },
            if s.sync { ", sync" } else { "" },
            if s.disable_wal { ", no log" } else { "" },
            match s.rate {
                Some(rate) => format!(", open loop at {} ops/s", term::count(rate as u64)),
                None => String::new(),
            },
            match self.device.text() {
                Some(device) => format!(", on an emulated device {device}"),
                None => String::new(),
            },
        )
    }

    /// Returns whether the load of a device alone is asked for, which needs no database.
    fn is_raw(&self) -> Result<bool, Usage> {
        let mut names = self.names.iter().chain(&self.benchmarks);
        if !names.clone().any(|n| n == "raw") {
            return Ok(false);
        }
        match names.all(|n| n == "raw") {
            true if self.report.is_some() || self.db.is_some() => Err(Usage::new(
                "raw has no database and draws no page",
                "leave --db and --report out; --json prints its figures",
            )),
            true => Ok(true),
            false => Err(Usage::new(
                "raw is a load of a device and not of a database",
                "run it alone: spanlith bench raw",
            )),
        }
    }

    /// Returns what is written, in words.
    fn data(&self) -> String {
        let s = &self.settings;
        let kinds = self.kinds().unwrap_or_default();
        let is_ycsb = |k: &(String, Kind)| k.1.is_ycsb();
        if !kinds.is_empty() && kinds.iter().all(is_ycsb) {
            return format!("{} {}", term::count(s.num), s.ycsb.text());
        }
        format!(
            "{} keys of {} bytes, values of {} bytes",
            term::count(s.num),
            s.key_size,
            s.value_size
        )
    }

    fn settings_json(&self, dir: &Path) -> serde_json::Value {
        let s = &self.settings;
        json!({
            "version": env!("CARGO_PKG_VERSION"), "cores": cores(), "db": dir.display().to_string(),
            "num": s.num, "key_size": s.key_size, "value_size": s.value_size,
            "threads": s.threads, "duration": s.duration, "seed": s.seed,
            "range_size": s.range_size, "families": s.families,
            "batch_size": s.batch_size, "outstanding": s.outstanding, "sync": s.sync, "disable_wal": s.disable_wal,
            "compression": self.compression, "cache_mb": self.cache_mb, "bloom": self.bloom,
            "write_buffer_mb": self.write_buffer_mb, "background_jobs": self.background_jobs,
            "evidence": !self.no_evidence,
            "options": self.options, "own": self.own.text().unwrap_or_default(), "rate": s.rate,
            "arrivals": format!("{:?}", s.arrivals).to_lowercase(),
            "ycsb": s.ycsb.text(), "data": self.data(), "device": self.device.text(),
        })
    }
}

/// YCSB's own order: D and E change which records exist, so E begins with its own.
const YCSB_ORDER: [&str; 8] = [
    "ycsbload", "ycsba", "ycsbb", "ycsbc", "ycsbf", "ycsbd", "ycsbload", "ycsbe",
];

fn report_failed(file: &Path, e: &std::io::Error) -> anyhow::Error {
    Failure::new(
        format!("cannot write the report {}: {e}", file.display()),
        "name a file in a directory you may write to: --report bench.html",
    )
    .into()
}

/// A name that was perhaps meant.
fn closest(name: &str) -> String {
    let names = || kind::ALL.iter().map(|w| w.0);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_benchmark() {
        for (name, kind, _) in kind::ALL {
            let shown = HELP.contains(name) || kind.is_ycsb();
            assert!(shown, "{name}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn directories_of_processes_that_are_gone_are_removed_and_no_others() {
        let temp = spanlith_testkit::TempDir::new(spanlith_testkit::test_name!());
        let name = |process: u32| temp.join(format!("{TEMPORARY}{process}"));
        // Above any number that Linux gives away.
        let (gone, here, other) = (name(1 << 30), name(std::process::id()), temp.join("other"));
        for dir in [&gone, &here, &other] {
            std::fs::create_dir(dir).unwrap();
            std::fs::write(dir.join("CURRENT"), "x").unwrap();
        }
        remove_left_over(&temp.join(""));
        assert_eq!(
            [&gone, &here, &other].map(|d| d.exists()),
            [false, true, true]
        );
    }

    #[test]
    fn a_misspelt_benchmark_gets_a_suggestion() {
        assert!(closest("readrandm").contains("did you mean readrandom?"));
        assert_eq!((distance("", "abc"), distance("kitten", "sitting")), (3, 3));
        assert!(closest("x").starts_with("one of: fillseq"));
    }
}
