//! `spanlith experiment`: lists, runs and shows the experiments of `spanlith_workload::experiments`.

use crate::fail::{Failure, Usage};
use crate::term::{self, Paint};
use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use spanlith_env::emulated::DeviceSpec;
use spanlith_workload::experiments::{
    self, EXPERIMENTS, Experiment, Outcome, Plan, Progress, Spread,
};
use spanlith_workload::report;
use spanlith_workload::report::bars::short;
use spanlith_workload::store::StoreName;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Describes what to do with experiments.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Lists the experiments: document, set-up, criterion
    List(List),
    Run(Box<Run>),
    Report(Report),
}

/// Lists the experiments.
#[derive(Debug, Args)]
pub struct List {
    /// Machine-readable, with set-up and criterion
    #[arg(long)]
    json: bool,
}

const RUN_HELP: &str = "\
Examples:
  spanlith experiment list
  spanlith experiment run X-SP-1
  spanlith experiment run X-SP-1 --store spanlith --store rocksdb:/usr/lib/librocksdb.so --report sp1.html
  spanlith experiment run all --scale 0.2 --check --json all.json

Absolute numbers of a document belong to its machines; ratios, signs and orders are judged. Each run makes a
directory below --dir and removes it at the end.";

/// Runs experiments by their names, or `all`.
#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub struct Run {
    /// Names as `experiment list` shows them, or `all`
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// A store to measure: spanlith, rocksdb:PATH/librocksdb.so, lmdb, redb, fjall, slab; may be given several times
    #[arg(long, value_name = "STORE", default_value = "spanlith")]
    store: Vec<StoreName>,
    /// Factor on the sizes of the set-ups
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = scale)]
    scale: f64,
    /// Runs of each experiment; medians are judged, least and most are shown
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// Seed of all random choices
    #[arg(long, default_value_t = 301)]
    seed: u64,
    /// Puts the databases on an emulated device: H, S, N1, N2, O, H-RAID5 or S-RAID5, with :cache=BYTES for the page cache
    /// (64m; 0 for none) and :scale=PERCENT for a share of its bandwidth. Refused by experiments that name their devices
    #[arg(long, value_name = "NAME")]
    device: Option<DeviceSpec>,
    /// Where databases are made while it runs; the system's temporary directory if left out
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Writes numbers, criteria and environment to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes one page with charts that any browser shows
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Exit code 1 if a criterion is not met
    #[arg(long)]
    check: bool,
}

/// Makes one page of the files that `experiment run --json` wrote.
#[derive(Debug, Args)]
pub struct Report {
    /// Files of `experiment run --json`
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The page
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n.is_finite() && n > 0.0 => Ok(n),
        Ok(_) => Err("must be above 0".to_string()),
        Err(e) => Err(e.to_string()),
    }
}

/// Runs a verb.
///
/// # Errors
/// Names the experiment, the store or the file.
pub fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::List(list) => list.run(),
        Verb::Run(run) => run.run(),
        Verb::Report(report) => report.run(),
    }
}

fn write_file(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).map_err(|e| {
        Failure::new(
            format!("cannot write {}: {e}", file.display()),
            "name a file in a directory you may write to",
        )
        .into()
    })
}

impl List {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let mut out = std::io::stdout().lock();
        if self.json {
            let all: Vec<Value> = EXPERIMENTS
                .iter()
                .map(|e| {
                    json!({
                        "id": e.id, "title": e.title, "document": e.document, "setup": e.setup,
                        "requirements": e.requirements, "criterion": e.criterion,
                        "stores": e.stores.text(),
                    })
                })
                .collect();
            writeln!(out, "{}", Value::from(all))?;
            return Ok(ExitCode::SUCCESS);
        }
        let paint = Paint::stdout();
        for e in EXPERIMENTS {
            let head = format!("{:<10} {}", e.id, e.title);
            writeln!(
                out,
                "{}\n           {}\n           {}",
                paint.bold(head),
                paint.dim(format!(
                    "{}; {}; {}",
                    e.document,
                    e.requirements,
                    e.stores.text()
                )),
                e.criterion
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Steps as a bar on a terminal.
struct Shown {
    bar: ProgressBar,
    id: &'static str,
}

impl Progress for Shown {
    fn step(&self, step: u64, steps: u64, what: &str) {
        let place = match steps {
            0 => String::new(),
            _ => format!(" {step}/{steps}"),
        };
        self.bar.set_message(format!("{}{place} {what}", self.id));
        self.bar.tick();
    }
}

impl Run {
    fn chosen(&self) -> anyhow::Result<Vec<&'static Experiment>> {
        if self.ids.iter().any(|id| id == "all") {
            let runs = |e: &&Experiment| self.store.iter().all(|s| e.stores.allow(s));
            return Ok(EXPERIMENTS.iter().filter(runs).collect());
        }
        let chosen = self.ids.iter().map(|id| {
            experiments::find(id).ok_or_else(|| {
                let known: Vec<&str> = EXPERIMENTS.iter().map(|e| e.id).collect();
                Usage::new(
                    format!("unknown experiment '{id}'"),
                    format!("one of: {}, or all", known.join(" ")),
                )
                .into()
            })
        });
        chosen.collect()
    }

    fn run(&self) -> anyhow::Result<ExitCode> {
        let chosen = self.chosen()?;
        // An output file that cannot be written is found out before the work.
        for file in [&self.json, &self.report].into_iter().flatten() {
            write_file(file, "")?;
        }
        let dir = self.dir.clone().unwrap_or_else(std::env::temp_dir);
        let plan = Plan {
            scale: self.scale,
            seed: self.seed,
            runs: self.runs,
            stores: &self.store,
            device: self.device,
            dir: &dir,
        };
        let mut outcomes = Vec::new();
        for experiment in chosen {
            let shown = Shown {
                bar: term::live_line(),
                id: experiment.id,
            };
            let outcome = experiments::run(experiment, &plan, &shown);
            shown.bar.finish_and_clear();
            let outcome = outcome.map_err(|e| {
                Failure::new(
                    format!("{}: {e}", experiment.id),
                    format!(
                        "what it needs: spanlith experiment list; its files were below {}",
                        dir.display()
                    ),
                )
            })?;
            write!(std::io::stdout(), "{}", text(&outcome, Paint::stdout()))?;
            outcomes.push(outcome);
        }
        if let Some(file) = &self.json {
            let all: Vec<Value> = outcomes.iter().map(Outcome::json).collect();
            write_file(file, &format!("{:#}\n", Value::from(all)))?;
        }
        if let Some(file) = &self.report {
            // As a page that is made of the numbers later: the order of facts is that of the JSON form.
            let read: Result<Vec<Outcome>, String> = outcomes
                .iter()
                .map(|outcome| Outcome::from_json(&outcome.json()))
                .collect();
            let read = read.map_err(anyhow::Error::msg)?;
            write_file(file, &report::experiments::html(&read))?;
        }
        let passed = outcomes.iter().all(Outcome::passed);
        Ok(match self.check && !passed {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        })
    }
}

fn numbers(values: &[f64]) -> String {
    match Spread::of(values) {
        None => "-".to_string(),
        Some(s) if s.least < s.most => format!(
            "{} ({} … {})",
            short(s.median),
            short(s.least),
            short(s.most)
        ),
        Some(s) => short(s.median),
    }
}

/// An outcome for a terminal.
fn text(o: &Outcome, paint: Paint) -> String {
    let mut out = paint.bold(format!("{} {}", o.id, o.title));
    let _ = writeln!(
        out,
        "\n{}",
        paint.dim(format!(
            "{}, scale {}, {:.1} s",
            o.document,
            short(o.scale),
            o.seconds
        ))
    );
    for figure in &o.findings.figures {
        let _ = writeln!(out, "  {} ({})", figure.title, figure.unit);
        if figure.is_course() {
            let _ = writeln!(
                out,
                "    {} places: see --report or --json",
                figure.places.len()
            );
            continue;
        }
        let places = figure.places.iter().map(|p| term::width(p)).max();
        let wide = places.unwrap_or(0).max(8);
        for (n, place) in figure.places.iter().enumerate() {
            let _ = write!(out, "    {}", term::padded(place, wide));
            for series in &figure.series {
                let _ = write!(
                    out,
                    "  {} {}",
                    paint.dim(&series.name),
                    numbers(&series.values[n])
                );
            }
            out.push('\n');
        }
    }
    for check in &o.findings.checks {
        let verdict = match check.passed() {
            true => paint.green("passed"),
            false => paint.red("NOT PASSED"),
        };
        let _ = writeln!(
            out,
            "  {verdict}  {}: {}, wanted {}",
            check.what,
            numbers(&check.values),
            check.bound
        );
    }
    for note in &o.findings.notes {
        let _ = writeln!(out, "  {note}");
    }
    out
}

impl Report {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let mut outcomes = Vec::new();
        for file in &self.files {
            let failed = |why: String| {
                Failure::new(
                    format!("{}: {why}", file.display()),
                    "it takes files that spanlith experiment run --json FILE wrote",
                )
            };
            let text = std::fs::read_to_string(file).map_err(|e| failed(e.to_string()))?;
            let value: Value = serde_json::from_str(&text).map_err(|e| failed(e.to_string()))?;
            let list = value
                .as_array()
                .ok_or_else(|| failed("no list of experiments".to_string()))?;
            for (n, value) in list.iter().enumerate() {
                let outcome = Outcome::from_json(value);
                outcomes.push(outcome.map_err(|e| failed(format!("experiment {}: {e}", n + 1)))?);
            }
        }
        write_file(&self.output, &report::experiments::html(&outcomes))?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_experiments_are_refused_with_those_that_there_are() {
        let run = Run {
            ids: vec!["X-NO-1".into()],
            store: vec![StoreName::Ours],
            scale: 1.0,
            runs: 1,
            seed: 1,
            device: None,
            dir: None,
            json: None,
            report: None,
            check: false,
        };
        let e = run.chosen().unwrap_err();
        assert!(e.to_string().contains("X-NO-1"));
        assert!(e.downcast_ref::<Usage>().unwrap().hint().contains("X-SP-1"));
    }
}
