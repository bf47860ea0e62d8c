//! `twin`: a trace, its model, requests made of the model, and both over the same engine, on one page.
//!
//! Both databases are filled with the keys that the trace, or its twin, accesses; values have the sizes of the model. With `--db` the
//! original begins from a checkpoint, and the twin from a database with as many keys and bytes, at the same distances from each
//! other. The same options and sizes of the block cache are given to both. Compared are distributions of whole traces, by the distance of
//! Kolmogorov and Smirnov, and what the engine had to do for their first requests, as many as `--replayed` says: blocks and bytes
//! in step with flushes and compactions, so that they follow from the requests; stalls and throughput as fast as it goes.

use super::checkpoint::Checkpoint;
use super::head::head;
use super::run::{Base, Effects, Limit, Pace, made_families};
use super::{Compared, Limits, compare, observe, page, write_trace};
use crate::db::open::How;
use crate::fail::{Failure, Usage};
use crate::term;
use anyhow::Context;
use clap::Args;
use serde_json::json;
use spanlith_workload::model::{
    GenerateOptions, Model, Observation, key_at, key_of, population, value_of,
};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Families with ids above are refused: the databases need all below.
const FAMILIES: u32 = 256;
/// Sizes of the block cache, as parts of the tables.
pub const CACHES: [f64; 5] = [0.02, 0.056, 0.125, 0.25, 0.5];
/// The size of the cache with which stalls and throughput are measured.
pub const FREE: f64 = 0.125;

/// Makes the twin of a trace, and says on a page how alike they are
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spanlith twin /tmp/trace --page twin.html
  spanlith twin /tmp/trace --db /data/checkpoint                   both begin with what the checkpoint holds
  spanlith twin /tmp/trace --dir /data/scratch --seed 7 --json twin.json")]
pub struct Twin {
    /// The trace of queries; TRACE.ext beside it says how long scans were
    trace: PathBuf,
    /// Checkpoint of the traced database from when the trace was begun: both begin with as much as it holds, with its options.
    /// It stays as it is
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    #[command(flatten)]
    how: How,
    /// The page
    #[arg(long, value_name = "FILE", default_value = "twin.html")]
    page: PathBuf,
    /// The numbers, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Directory for databases and the made trace, new; removed at the end unless --keep
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Leaves the directory with the made trace and the model
    #[arg(long)]
    keep: bool,
    /// Everything that chance decides follows from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// So many requests are replayed for each size of the cache: of longer traces the first ones
    #[arg(long, value_name = "N", default_value_t = 500_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    replayed: u64,
    #[command(flatten)]
    limits: Limits,
}

/// Seconds that a limited disk takes for what the original has flushed and compacted, beside twice the time of a replay without limit.
const STALLED: f64 = 6.0;
/// Bytes per second of a disk that is limited at least: of fewer a stall or two are all there is.
const LIMIT_MIN: u64 = 256 * 1024;

/// Describes what both did with a cache of that size.
pub struct Pair {
    pub part: f64,
    pub original: Effects,
    pub twin: Effects,
}

/// Everything on the page.
pub struct Result {
    pub trace: PathBuf,
    pub model: Model,
    pub compared: Vec<Compared>,
    pub pairs: Vec<Pair>,
    /// As fast as it goes, with a cache of [`FREE`].
    pub free: [Effects; 2],
    /// The same while flushes and compactions are held to so many bytes per second; none if next to nothing is written.
    pub limited: Option<(u64, [Effects; 2])>,
    /// Both began with what a checkpoint holds.
    pub is_from_checkpoint: bool,
    pub seconds: f64,
    pub bytes: [u64; 2],
    /// Requests of each that were replayed.
    pub replayed: u64,
}

impl Twin {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let began = Instant::now();
        let dir = self.dir.clone().unwrap_or_else(|| {
            std::env::temp_dir().join(format!("spanlith-twin-{}", std::process::id()))
        });
        if dir.exists() {
            let text = format!("{}: there is something already", dir.display());
            return Err(Usage::new(text, "--dir names a directory that does not exist yet").into());
        }
        std::fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
        let result = self.make(&dir, began);
        if !self.keep {
            std::fs::remove_dir_all(&dir).ok();
        }
        let result = result?;
        std::fs::write(&self.page, page::html(&result))
            .with_context(|| format!("writing {}", self.page.display()))?;
        if let Some(path) = &self.json {
            std::fs::write(path, format!("{:#}\n", numbers(&result)))
                .with_context(|| format!("writing {}", path.display()))?;
        }
        print(&result)?;
        tell!("{}", self.page.display());
        Ok(ExitCode::SUCCESS)
    }

    fn make(&self, dir: &Path, began: Instant) -> anyhow::Result<Result> {
        let mut seen = observe(&self.trace, &self.limits)?;
        if seen.keys_kept_one_of > 1.0 {
            let text = format!("the trace has more than {} keys", self.limits.keys_max);
            return Err(
                Failure::new(text, "--keys-max allows more; each takes some 300 bytes").into(),
            );
        }
        let families = seen.families.last_key_value().map_or(1, |(id, _)| id + 1);
        if families > FAMILIES {
            let text = format!("the trace has a family with the id {}", families - 1);
            return Err(Failure::new(text, format!("up to {FAMILIES} can be made")).into());
        }
        let checkpoint = self.db.as_ref();
        let checkpoint = checkpoint.map(|db| Checkpoint::read(db, &self.how, &seen));
        let checkpoint = checkpoint.transpose()?;
        let copied = checkpoint
            .as_ref()
            .map(|c| c.copy(&dir.join("original"), &mut seen));
        let copied = copied.transpose()?;
        let model = Model::of(&seen);
        std::fs::write(dir.join("model.json"), format!("{:#}\n", model.to_json()))?;
        let made = dir.join("twin.trace");
        let options = GenerateOptions {
            seed: self.seed,
            began: seen.began,
            ..GenerateOptions::default()
        };

        // Some forty memtables are filled, so that one compaction more or less is a small part of what gets written.
        let replayed = self.replayed.min(seen.requests);
        let put: f64 = seen
            .families
            .values()
            .map(|f| (f.value_sizes.mean() + f.key_sizes.mean()) * f.value_sizes.total() as f64)
            .sum();
        let put = put * replayed as f64 / seen.requests as f64;
        let buffer = (put / 40.0).clamp(64.0 * 1024.0, 64.0 * 1024.0 * 1024.0) as u64;
        let families = match &checkpoint {
            Some(checkpoint) => checkpoint.families().clone(),
            None => made_families(families, buffer),
        };
        let ((original, original_head), (other, other_head)) = both(
            || {
                let base = match copied {
                    Some(copied) => copied,
                    None => Base::make(&dir.join("original"), families.clone(), &mut |put| {
                        fill_original(&seen, &model, put)
                    })?,
                };
                let head = head(&self.trace, replayed, &dir.join("original.trace"))?;
                Ok((base, head))
            },
            || {
                write_trace(&model, &options, &made)?;
                let base = Base::make(&dir.join("twin"), families.clone(), &mut |put| {
                    fill_twin(&model, put)
                })?;
                Ok((base, head(&made, replayed, &dir.join("twin-head.trace"))?))
            },
        )?;
        let replay = |part: f64, pace| {
            let cache = (original.bytes as f64 * part).max(16384.0) as usize;
            both(
                || original.replay(&original_head, &dir.join("copy"), cache, pace),
                || other.replay(&other_head, &dir.join("twin-copy"), cache, pace),
            )
        };
        let mut pairs = Vec::new();
        for part in CACHES {
            let (original, twin) = replay(part, Pace::InStep)?;
            pairs.push(Pair {
                part,
                original,
                twin,
            });
        }
        let free = replay(FREE, Pace::Free)?;
        let written = pairs.iter().map(|p| p.original.written).max().unwrap_or(0);
        let quickly = replayed as f64 / free.0.rate.min(free.1.rate).max(1.0);
        let limit = (written as f64 / (STALLED + 2.0 * quickly)) as u64;
        let limit = (limit >= LIMIT_MIN).then(|| Limit {
            bytes_per_second: limit,
            write_buffer: checkpoint.is_none().then_some(buffer),
        });
        // Most of the time with a limited disk is spent waiting: the made trace is read meanwhile.
        let (limited, twin) = both(
            || {
                let Some(limit) = limit else { return Ok(None) };
                let (original, twin) = replay(FREE, Pace::Limited(limit))?;
                Ok(Some((limit.bytes_per_second, [original, twin])))
            },
            || observe(&made, &self.limits),
        )?;
        Ok(Result {
            trace: self.trace.clone(),
            model,
            compared: compare(&seen, &twin),
            pairs,
            free: [free.0, free.1],
            limited,
            is_from_checkpoint: checkpoint.is_some(),
            seconds: began.elapsed().as_secs_f64(),
            bytes: [original.bytes, other.bytes],
            replayed,
        })
    }
}

/// Does two things at once: the original and its twin have the machine in equal parts.
fn both<T: Send, U: Send>(
    one: impl FnOnce() -> anyhow::Result<T> + Send,
    other: impl FnOnce() -> anyhow::Result<U>,
) -> anyhow::Result<(T, U)> {
    std::thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other()?;
        let one = one
            .join()
            .unwrap_or_else(|e| std::panic::resume_unwind(e))?;
        Ok((one, other))
    })
}

type PutEntry<'a> = &'a mut dyn FnMut(u32, &[u8], &[u8]) -> spanlith::Result<()>;

fn fill_original(seen: &Observation, model: &Model, put: PutEntry<'_>) -> spanlith::Result<()> {
    for (cf, family) in &seen.families {
        let Some(of) = model.families.get(cf) else {
            continue;
        };
        for (key, counted) in family.keys.iter() {
            if !counted.is_absent {
                put(*cf, &key, &value_of(of, &key, 0))?;
            }
        }
    }
    Ok(())
}

fn fill_twin(model: &Model, put: PutEntry<'_>) -> spanlith::Result<()> {
    for (cf, family) in &model.families {
        for place in population(family) {
            let key = key_of(family, *cf, place);
            put(*cf, &key, &value_of(family, &key, 0))?;
        }
        for position in family.positions.cold_positions() {
            let key = key_at(family, *cf, position);
            put(*cf, &key, &value_of(family, &key, 0))?;
        }
    }
    Ok(())
}

/// The twin's share of the original; 1 if both are nothing.
pub fn ratio(original: f64, twin: f64) -> f64 {
    match original == 0.0 && twin == 0.0 {
        true => 1.0,
        false => twin / original.max(1e-12),
    }
}

fn numbers(result: &Result) -> serde_json::Value {
    let effects = |e: &Effects| json!({ "block_reads": e.reads, "hit_ratio": e.hit_ratio, "bytes_written": e.written });
    let free = |e: &Effects| json!({ "stall_seconds": e.stalled, "requests_per_second": e.rate });
    let limited = result.limited.as_ref().map(|(bytes, [a, b])| {
        json!({ "bytes_per_second": bytes, "original": free(a), "twin": free(b) })
    });
    let distances: serde_json::Map<String, serde_json::Value> = result
        .compared
        .iter()
        .map(|c| (c.name.clone(), c.distance.into()))
        .collect();
    let runs: Vec<_> = result
        .pairs
        .iter()
        .map(|p| {
            json!({ "cache": p.part, "original": effects(&p.original), "twin": effects(&p.twin) })
        })
        .collect();
    json!({ "ks": distances, "runs": runs, "from_checkpoint": result.is_from_checkpoint,
            "free": { "cache": FREE, "original": free(&result.free[0]), "twin": free(&result.free[1]) }, "limited": limited,
            "seconds": result.seconds, "replayed": result.replayed,
            "table_bytes": { "original": result.bytes[0], "twin": result.bytes[1] } })
}

fn print(result: &Result) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{} and its twin, in {:.1} s",
        term::counted(result.model.requests, "request"),
        result.seconds
    )?;
    for c in &result.compared {
        writeln!(out, "  {:<52} KS {:.4}", c.name, c.distance)?;
    }
    if result.replayed < result.model.requests {
        let first = term::counted(result.replayed, "request");
        writeln!(out, "  replayed: the first {first} of each")?;
    }
    writeln!(
        out,
        "  {:>6}  {:>22}  {:>15}  {:>22}",
        "cache", "block reads", "hit ratio", "bytes written"
    )?;
    for p in &result.pairs {
        let (a, b) = (&p.original, &p.twin);
        let share = |x: f64, y: f64| format!("{:+.1} %", (ratio(x, y) - 1.0) * 100.0);
        writeln!(
            out,
            "  {:>5.1}%  {:>22}  {:>6.3} {:>8}  {:>22}",
            p.part * 100.0,
            format!("{} {}", a.reads, share(a.reads as f64, b.reads as f64)),
            a.hit_ratio,
            format!("{:+.1} pt", (b.hit_ratio - a.hit_ratio) * 100.0),
            format!(
                "{} {}",
                a.written,
                share(a.written as f64, b.written as f64)
            ),
        )?;
    }
    let [a, b] = &result.free;
    writeln!(
        out,
        "  as fast as it goes: stalled {:.2} and {:.2} s, {} and {} requests/s",
        a.stalled,
        b.stalled,
        term::count(a.rate as u64),
        term::count(b.rate as u64)
    )?;
    if let Some((bytes, [a, b])) = &result.limited {
        writeln!(
            out,
            "  with {}/s for flushes and compactions: stalled {:.2} and {:.2} s, {:+.1} %",
            term::bytes(*bytes),
            a.stalled,
            b.stalled,
            (ratio(a.stalled, b.stalled) - 1.0) * 100.0
        )?;
    }
    Ok(())
}
