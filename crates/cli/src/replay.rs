//! `replay`: asks a database what a trace says another was asked.
//!
//! The engine replays ([`spanlith::Replayer`]); here are the command line, the copy that is replayed into, and the
//! report: how late requests were, how long they took by kind, and what they cost.

use crate::db::open::{How, Target, WriteFlags};
use crate::dump::kind::{self, Kind};
use crate::fail::{At, Failure, Usage};
use crate::term;
use clap::Args;
use serde_json::{Value, json};
use spanlith::trace::kinds;
use spanlith::{Db, ReplayOptions, ReplaySummary, Replayed, Replayer, WriteOptions};
use spanlith_base::histogram::Distribution;
use spanlith_base::perf;
use spanlith_env::Env;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Replays a trace of queries into a database
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spanlith replay /tmp/trace --db /data/copy                       at the original speed, in order
  spanlith replay /tmp/trace --db /data/db --copy-to /data/copy    into a checkpoint; /data/db stays as it is
  spanlith replay /tmp/trace --db /data/copy --fast-forward 1e9    as fast as it goes
  spanlith replay /tmp/trace --db /data/copy --threads 4 --order per-key --json")]
pub struct Replay {
    /// The trace, as spanlith or RocksDB wrote it; TRACE.ext beside it says how long scans were
    trace: PathBuf,
    /// Directory of the database that is asked; its writes are made
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    #[command(flatten)]
    how: How,
    /// Replays into a checkpoint of the database that is made there first
    #[arg(long, value_name = "DIR")]
    copy_to: Option<PathBuf>,
    /// Makes the database if there is none
    #[arg(long)]
    create: bool,
    /// Speed: 2 replays in half the time
    #[arg(long, value_name = "X", default_value_t = 1.0, alias = "fast_forward")]
    fast_forward: f64,
    /// Threads that ask
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// With several threads: requests of a key stay in their order (per-key), or not
    #[arg(long, value_name = "ORDER", default_value = "none", value_parser = ["none", "per-key"])]
    order: String,
    /// Steps after a seek where TRACE.ext has no number
    #[arg(long, value_name = "N", default_value_t = 0, alias = "scan_len")]
    scan_len: u64,
    /// Every write is synced
    #[arg(long)]
    sync: bool,
    /// Counts of the perf context (2 counts, 3 and more times as well); with one thread
    #[arg(long, value_name = "LEVEL", alias = "perf_level",
          value_parser = clap::value_parser!(i32).range(1..=5))]
    perf_level: Option<i32>,
    /// One object instead of text
    #[arg(long)]
    json: bool,
}

const NAMES: [(u8, &str); 5] = [
    (kinds::WRITE, "write"),
    (kinds::GET, "get"),
    (kinds::MULTI_GET, "multi_get"),
    (kinds::SEEK, "seek"),
    (kinds::SEEK_FOR_PREV, "seek_for_prev"),
];

/// Times of requests, in microseconds.
#[derive(Default)]
struct Times {
    lag: Distribution,
    by_kind: [Distribution; NAMES.len()],
}

impl Times {
    fn note(&self, replayed: &Replayed<'_>) {
        self.lag.record(replayed.lag / 1000);
        let at = NAMES.iter().position(|(kind, _)| *kind == replayed.kind);
        if let Some(of_kind) = at.and_then(|at| self.by_kind.get(at)) {
            of_kind.record(replayed.nanos / 1000);
        }
    }
}

impl Replay {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.perf_level.is_some() && self.threads > 1 {
            return Err(Usage::new(
                "--perf-level with several threads: each thread has a perf context of its own",
                "leave out --threads",
            )
            .into());
        }
        kind::expect(&self.trace, Kind::Trace)?;
        let db = self.open()?;
        let mut replayer = Replayer::new(&db, &[], &Env::system(), &self.trace).at(&self.db)?;
        replayer.prepare().at(&self.db)?;
        let options = ReplayOptions {
            threads: self.threads,
            fast_forward: self.fast_forward,
            keeps_key_order: self.order == "per-key",
            scan_steps: self.scan_len,
            write: WriteOptions::new().sync(self.sync),
        };
        if let Some(level) = self.perf_level {
            perf::reset();
            perf::set_level(level);
        }
        let times = Times::default();
        let began = Instant::now();
        let outcome = replayer.replay(&options, Some(&|r: Replayed<'_>| times.note(&r)));
        let seconds = began.elapsed().as_secs_f64();
        let counted = self.perf_level.map(|_| perf::report(true));
        let summary = outcome.map_err(|e| self.refused(&e))?;
        drop(replayer);
        db.close().at(&self.db)?;
        self.report(&summary, &times, seconds, counted.as_deref())?;
        Ok(ExitCode::SUCCESS)
    }

    fn open(&self) -> anyhow::Result<Db> {
        let mut target = Target {
            db: self.db.clone(),
            cf: "default".into(),
            how: self.how.clone(),
        };
        let mut flags = WriteFlags::plain();
        flags.create = self.create;
        let cf = target.open_read_write(&flags)?;
        let db = cf.db().clone();
        let Some(copy) = &self.copy_to else {
            return Ok(db);
        };
        db.checkpoint_opt(copy, 0).at(&self.db)?;
        drop(cf);
        db.close().at(&self.db)?;
        target.db = copy.clone();
        Ok(target.open_read_write(&WriteFlags::plain())?.db().clone())
    }

    fn refused(&self, e: &spanlith::Error) -> Failure {
        let text = format!("{}: {e}", self.trace.display());
        let next = match e.message() {
            m if m.contains("olumn family") || m.contains("olumn Family") => {
                "the database has to have the families that were traced, by their numbers: spanlith db families \
                 --db DIR; replay into a checkpoint that was made when the trace was begun"
            }
            m if m.contains("merge") => {
                "--merge-operator says how the families merge, as the traced database did"
            }
            _ => "spanlith trace check TRACE says whether the file is whole",
        };
        Failure::new(text, next)
    }

    fn report(
        &self,
        summary: &ReplaySummary,
        times: &Times,
        seconds: f64,
        counted: Option<&str>,
    ) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        let of = |d: &Distribution| {
            let s = d.summary();
            json!({ "count": s.count, "mean": s.average, "median": s.median, "p95": s.p95,
                    "p99": s.p99, "max": s.max })
        };
        if self.json {
            let by_kind: serde_json::Map<String, Value> = NAMES
                .iter()
                .zip(&times.by_kind)
                .filter(|(_, d)| d.summary().count > 0)
                .map(|((_, name), d)| ((*name).to_string(), of(d)))
                .collect();
            let object = json!({
                "requests": summary.requests(), "writes": summary.writes, "gets": summary.gets,
                "multi_gets": summary.multi_gets, "seeks": summary.seeks, "steps": summary.steps,
                "skipped": summary.skipped, "found": summary.found, "seconds": seconds,
                "torn_bytes": summary.torn.map(|t| t.bytes), "lag_micros": of(&times.lag),
                "latency_micros": by_kind, "perf": counted,
            });
            writeln!(out, "{object}")?;
            return Ok(());
        }
        writeln!(
            out,
            "{} in {seconds:.2} s ({}/s): {}, {}, {}, {}",
            term::counted(summary.requests(), "request"),
            term::count((summary.requests() as f64 / seconds.max(1e-9)) as u64),
            term::counted(summary.writes, "write"),
            term::counted(summary.gets, "get"),
            term::counted(summary.multi_gets, "multi-get"),
            term::counted(summary.seeks, "seek"),
        )?;
        writeln!(
            out,
            "{} found, {} after seeks, {} skipped",
            term::counted(summary.found, "key"),
            term::counted(summary.steps, "step"),
            term::counted(summary.skipped, "record"),
        )?;
        let rows = NAMES.iter().map(|(_, name)| *name).zip(&times.by_kind);
        let rows = std::iter::once(("late by", &times.lag)).chain(rows);
        for (name, d) in rows.filter(|(_, d)| d.summary().count > 0) {
            let s = d.summary();
            writeln!(
                out,
                "{name:>14}  median {:.1} µs, 95 % {:.1} µs, 99 % {:.1} µs, most {:.0} µs",
                s.median, s.p95, s.p99, s.max
            )?;
        }
        if let Some(torn) = summary.torn {
            writeln!(
                out,
                "the trace ends inside the record at {}: its process ended early",
                torn.offset
            )?;
        }
        if let Some(counted) = counted {
            writeln!(out, "{counted}")?;
        }
        Ok(())
    }
}
