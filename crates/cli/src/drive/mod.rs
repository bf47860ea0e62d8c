//! `spanlith drive`: one load on one or several stores, side by side.

mod kill;

use crate::fail::{Failure, Usage};
use crate::own::OwnFlags;
use crate::term::{self, Paint};
use crate::traced::TraceFlags;
use clap::Args;
use serde_json::{Value, json};
use spanlith_env::emulated::DeviceSpec;
use spanlith_workload::drivers::settings::COMMON;
use spanlith_workload::drivers::{self, DRIVERS, Driver, Phase, Settings};
use spanlith_workload::report::bars::short;
use spanlith_workload::report::environment::Environment;
use spanlith_workload::store::{StoreName, StoreOptions};
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
Examples:
  spanlith drive                                    the drivers and their parameters
  spanlith drive mixgraph keys=1000000 ops=1000000 variant=prefix_dist
  spanlith drive ycsb workloads=a,c threads=2 --store spanlith --store rocksdb:/usr/lib/librocksdb.so
  spanlith drive two-phase insert_ratio=0.2 seconds=10 --json two.json
  spanlith drive tpcc isolation=rr --kill 5         killed at five random moments; its conditions must hold each time

A driver begins with a new store in a directory below --dir, which is removed at the end. Latencies of open loops
(rate=N) count from the intended start of a call. lmdb, redb and fjall are there if the program was built with the
feature of that name, or with stores for all three.";

/// Drivers that use no store but the disk below it.
const REAL_DISK: [&str; 2] = ["raw", "logger"];

/// Runs a load on a store, or the same one on several.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Drive {
    /// Name of the driver; lists them if left out
    #[arg(value_name = "DRIVER")]
    driver: Option<String>,
    /// Parameters of the driver
    #[arg(value_name = "NAME=VALUE")]
    parameters: Vec<String>,
    /// A store to run on: spanlith, rocksdb:PATH/librocksdb.so, lmdb, redb, fjall, slab; may be given several times
    #[arg(long, value_name = "STORE", default_value = "spanlith")]
    store: Vec<StoreName>,
    /// Options by RocksDB's names, \"name=value;name=value\"
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    options: String,
    #[command(flatten)]
    own: OwnFlags,
    /// Files take the time of an emulated device: H, S, N1, N2, O, H-RAID5 or S-RAID5, with :cache=BYTES for the page cache
    /// (64m; 0 for none) and :scale=PERCENT for a share of its bandwidth. Spanlith only
    #[arg(long, value_name = "NAME")]
    device: Option<DeviceSpec>,
    /// Cache of blocks or pages
    #[arg(long, value_name = "MIB")]
    cache_mb: Option<u64>,
    /// Every write survives a power cut when it returns
    #[arg(long)]
    sync: bool,
    /// Writes are not logged
    #[arg(long, conflicts_with = "sync")]
    disable_wal: bool,
    #[command(flatten)]
    traces: TraceFlags,
    /// Where the stores are made; the system's temporary directory if left out
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Writes all numbers to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Runs in processes that are killed at so many random moments, and checks what must hold each time
    #[arg(long, value_name = "N", conflicts_with = "json",
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    kill: Option<u64>,
    /// For the processes of --kill: the directory of the store, which is kept
    #[arg(long, hide = true, value_name = "DIR")]
    go_on: Option<PathBuf>,
}

fn list() -> anyhow::Result<ExitCode> {
    let paint = Paint::stdout();
    for driver in DRIVERS {
        writeln!(
            std::io::stdout(),
            "{} {}",
            paint.bold(format!("{:<21}", driver.name)),
            driver.title
        )?;
        show(driver.parameters)?;
    }
    writeln!(std::io::stdout(), "{}", paint.bold("and all of them take"))?;
    show(COMMON)?;
    Ok(ExitCode::SUCCESS)
}

fn show(all: &[drivers::Parameter]) -> std::io::Result<()> {
    for p in all {
        writeln!(
            std::io::stdout(),
            "    {:<18}{} [{}]",
            p.name,
            p.what,
            p.default
        )?;
    }
    Ok(())
}

/// Removes a directory when the run is over.
struct Remove(PathBuf);

impl Drop for Remove {
    fn drop(&mut self) {
        // A folder that stays can be found by its name.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Drive {
    /// Runs it.
    ///
    /// # Errors
    /// Names the driver, the parameter, the store or the file.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let Some(name) = &self.driver else {
            return list();
        };
        let driver = drivers::find(name).ok_or_else(|| {
            let names: Vec<&str> = DRIVERS.iter().map(|d| d.name).collect();
            Usage::new(
                format!("unknown driver '{name}'"),
                format!("one of: {}", names.join(" ")),
            )
        })?;
        if self.device.is_some() && REAL_DISK.contains(&driver.name) {
            let text = format!("{} measures the real disk", driver.name);
            return Err(Usage::new(text, "spanlith bench raw shows emulated devices").into());
        }
        if !self.traces.is_empty() && (self.store.len() > 1 || self.kill.is_some()) {
            let text = "a file takes the trace of one run of one store";
            return Err(Usage::new(text, "give one --store, and no --kill").into());
        }
        let settings = Settings::of(driver, &self.parameters)
            .map_err(|e| Usage::new(e, "spanlith drive lists the parameters of every driver"))?;
        if let Some(file) = &self.json {
            self.write(file, "")?;
        }
        let options = StoreOptions {
            options: self.options.clone(),
            own: self.own_text()?,
            cache_bytes: self.cache_mb.map(|mb| mb << 20),
            sync: self.sync,
            disable_wal: self.disable_wal,
            traces: self.traces.files(),
            ..StoreOptions::default()
        };
        let run = kill::Run {
            driver,
            options: &options,
            settings: &settings,
        };
        if let (Some(dir), [store]) = (&self.go_on, self.store.as_slice()) {
            return run.go_on(store, dir);
        }
        let parent = self.dir.clone().unwrap_or_else(std::env::temp_dir);
        if let Some(kills) = self.kill {
            return self.kill_all(&run, kills, &parent);
        }
        let mut results = Vec::new();
        for (n, store) in self.store.iter().enumerate() {
            let dir = parent.join(format!("spanlith-drive-{}-{n}", std::process::id()));
            let _remove = Remove(dir.clone());
            let run = driver.drive(store, &dir, &options, &settings);
            let (label, phases) = run.map_err(|e| {
                Failure::new(
                    e.to_string(),
                    "spanlith drive lists the parameters; --options takes RocksDB's names",
                )
            })?;
            write!(
                std::io::stdout(),
                "{}",
                table(driver, &label, &phases, Paint::stdout())
            )?;
            results.push((label, phases));
        }
        if let Some(file) = &self.json {
            let value = self.value(driver, &settings, &results, &parent);
            self.write(file, &format!("{value:#}\n"))?;
        }
        let holds = results
            .iter()
            .all(|(_, phases)| phases.iter().all(Phase::holds));
        Ok(if holds {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    /// Runs and kills on each store; the exit code tells whether everything held.
    fn kill_all(&self, run: &kill::Run<'_>, kills: u64, parent: &Path) -> anyhow::Result<ExitCode> {
        let mut holds = true;
        for (n, store) in self.store.iter().enumerate() {
            let dir = parent.join(format!("spanlith-kill-{}-{n}", std::process::id()));
            let _remove = Remove(dir.clone());
            holds &= run.kill(store, &dir, kills, &self.flags()?)?;
        }
        Ok(if holds {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    /// Own options, the device among them.
    fn own_text(&self) -> anyhow::Result<String> {
        let device = self.device.map(|spec| format!("env_device={spec}"));
        let own = Some(self.own.text()?).filter(|own| !own.is_empty());
        Ok(own.into_iter().chain(device).collect::<Vec<_>>().join(";"))
    }

    /// The flags that a process of `--kill` gets as they were given here.
    fn flags(&self) -> anyhow::Result<Vec<String>> {
        let mut out = vec![format!("--options={}", self.options)];
        let own = self.own_text()?;
        if !own.is_empty() {
            out.push(format!("--set={own}"));
        }
        out.extend(self.cache_mb.map(|mb| format!("--cache-mb={mb}")));
        out.extend(self.sync.then(|| "--sync".to_string()));
        Ok(out)
    }

    fn write(&self, file: &Path, text: &str) -> anyhow::Result<()> {
        std::fs::write(file, text).map_err(|e| {
            Failure::new(
                format!("cannot write {}: {e}", file.display()),
                "name a file in a directory you may write to: --json FILE",
            )
            .into()
        })
    }

    fn value(
        &self,
        driver: &Driver,
        settings: &Settings,
        results: &[(String, Vec<Phase>)],
        dir: &Path,
    ) -> Value {
        let parameters: serde_json::Map<String, Value> = settings
            .iter()
            .map(|(name, value)| (name.to_string(), json!(value)))
            .collect();
        let results: Vec<Value> = results
            .iter()
            .map(|(label, phases)| {
                json!({ "store": label, "phases": phases.iter().map(Phase::json).collect::<Vec<_>>() })
            })
            .collect();
        json!({
            "driver": driver.name, "parameters": parameters, "options": self.options, "own": self.own_text().unwrap_or_default(),
            "cache_mb": self.cache_mb, "sync": self.sync, "disable_wal": self.disable_wal,
            "results": results, "environment": Environment::of(dir).json(),
        })
    }
}

/// The phases of a store for a terminal.
fn table(driver: &Driver, label: &str, phases: &[Phase], paint: Paint) -> String {
    let head = format!(
        "{:<26}{:>11}{:>11}{:>11}{:>11}{:>11}{:>10}{:>12}{:>12}",
        format!("{} on {label}", driver.name),
        "ops",
        "ops/s",
        "p50",
        "p99",
        "p99.9",
        "CPU µs/op",
        "on disk",
        "written"
    );
    let mut out = paint.bold(head);
    out.push('\n');
    for p in phases {
        let l = &p.tally.latency;
        let _ = writeln!(
            out,
            "  {:<24}{:>11}{:>11}{:>11}{:>11}{:>11}{:>10}{:>12}{:>12}",
            p.name,
            term::count(p.tally.ops),
            term::count(p.per_second() as u64),
            term::nanos(l.percentile(50.0)),
            term::nanos(l.percentile(99.0)),
            term::nanos(l.percentile(99.9)),
            short(p.cpu_micros()),
            term::bytes(p.disk_bytes),
            term::bytes(p.usage.device_written)
        );
        for (part, l) in p.tally.parts.iter().filter(|_| p.tally.parts.len() > 1) {
            let line = format!(
                "    {part:<22}{:>11}{:>11}{:>11}{:>11}{:>11}",
                term::count(l.count()),
                term::count((l.count() as f64 / p.seconds.max(1e-9)) as u64),
                term::nanos(l.percentile(50.0)),
                term::nanos(l.percentile(99.0)),
                term::nanos(l.percentile(99.9))
            );
            let _ = writeln!(out, "{}", paint.dim(line));
        }
        for verdict in &p.verdicts {
            let _ = match &verdict.wrong {
                None => writeln!(out, "    {}  {}", paint.green("holds"), verdict.what),
                Some(wrong) => writeln!(
                    out,
                    "    {}  {}: {wrong}",
                    paint.red("BROKEN"),
                    verdict.what
                ),
            };
        }
        for note in &p.notes {
            let _ = writeln!(out, "    {}", paint.dim(note));
        }
    }
    out
}
