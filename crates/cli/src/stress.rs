//! `spanlith stress`: attacks on the engine, on this machine and its disk.
//!
//! The programmes are those of [`spanlith_stress`], for whoever wants to know whether a disk, a kernel or a container
//! keeps what it acknowledges, or has found a program on which the engine errs.

use crate::fail::{Failure, Usage};
use crate::own::OwnFlags;
use crate::term::{self, Paint, count, counted};
use clap::{Args, Subcommand};
use serde_json::json;
use spanlith_stress::kill::{KillPlan, child, run_kill};
use spanlith_stress::model::program::Program;
use spanlith_stress::model::run::{ModelPlan, reduce_program, run_model, run_program};
use spanlith_stress::model::setup::own_options;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  spanlith stress kill --db /data/new --rounds 200    is anything acknowledged lost on this disk?
  spanlith stress run --ops 1000000 --seed 7          random programs, power losses among them
  spanlith stress run --ops 1000000 > failed.prog     a failure prints the program, made short
  spanlith stress replay failed.prog                  runs it again
  spanlith stress reduce failed.prog                  makes a program that fails shorter

What was drawn is told: the same seed draws the same again. Exit codes: 0 nothing was lost and nothing
differed, 1 something did, 2 bad usage.";

/// Calls that a reduction may make.
const REDUCE_BUDGET: usize = 5_000;

/// The verbs.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Verb {
    /// Kills a process that writes, again and again, and looks for what it acknowledged
    #[command(after_help = EXAMPLES)]
    Kill(Kill),
    /// Random programs against a reference: operations, reopenings, power losses
    #[command(after_help = EXAMPLES)]
    Run(Run),
    /// Runs a program that `run` printed
    #[command(after_help = EXAMPLES)]
    Replay(Replay),
    /// Makes a program that fails as short as it can
    #[command(after_help = EXAMPLES)]
    Reduce(Replay),
    /// The child of `kill`
    #[command(hide = true)]
    KillChild(KillChild),
}

/// Flags of `kill`.
#[derive(Debug, Args)]
pub struct Kill {
    /// Directory for the database, on the disk to be tried; must not exist, and stays. A temporary one if left
    /// out, which stays only if anything was lost
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Kills
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Threads that write at once
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    writers: u64,
    #[command(flatten)]
    own: OwnFlags,
    /// All that is drawn follows from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Flags of `run`.
#[derive(Debug, Args)]
pub struct Run {
    /// Operations in all; the last program is finished
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,
    /// One program in so many runs on real files and threads, the others in memory; 0 is none
    #[arg(long, value_name = "N", default_value_t = 25)]
    real: u64,
    #[command(flatten)]
    own: OwnFlags,
    /// All that is drawn follows from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// A program in a file.
#[derive(Debug, Args)]
pub struct Replay {
    /// The program
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Describes what the child of `kill` is told.
#[derive(Debug, Args)]
pub struct KillChild {
    dir: PathBuf,
    seed: u64,
    round: u64,
    writers: u64,
    #[arg(default_value = "")]
    own: String,
}

/// Runs a verb.
///
/// # Errors
/// Files that cannot be read; what was lost is no error but exit code 1.
pub fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Kill(kill) => kill.run(),
        Verb::Run(run) => run.run(),
        Verb::Replay(replay) => replay.replay(),
        Verb::Reduce(replay) => replay.reduce(),
        Verb::KillChild(c) => child(&c.dir, c.seed, c.round, c.writers, &c.own)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|text| Failure::new(text, "it is started by `spanlith stress kill`").into()),
    }
}

fn code(is_clean: bool) -> ExitCode {
    match is_clean {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

impl Kill {
    fn run(self) -> anyhow::Result<ExitCode> {
        let program = std::env::current_exe().map_err(|e| {
            Failure::new(
                format!("cannot find this program: {e}"),
                "start it by its path",
            )
        })?;
        let is_temporary = self.db.is_none();
        let dir = self.db.clone().unwrap_or_else(|| {
            let name = format!("spanlith-stress-kill-{}", std::process::id());
            std::env::temp_dir().join(name)
        });
        if dir.exists() {
            let text = format!("{} exists", dir.display());
            return Err(Usage::new(text, "give --db a name that is free").into());
        }
        let plan = KillPlan {
            command: (program, vec!["stress", "kill-child"]),
            dir: dir.clone(),
            seed: self.seed,
            rounds: self.rounds,
            writers: self.writers,
            own: self.own.text()?,
        };
        let start = Instant::now();
        let bar = term::bar(self.rounds, "kills", "killing");
        let mut seen = None;
        let result = run_kill(&plan, |r| {
            bar.set_position(r.rounds);
            seen = Some(r.clone());
        });
        bar.finish_and_clear();
        let seconds = start.elapsed().as_secs_f64();
        let report = seen.unwrap_or_default();
        if is_temporary && result.is_ok() {
            // A file that cannot be deleted costs space only.
            let _ = std::fs::remove_dir_all(&dir);
        }
        let mut out = std::io::stdout().lock();
        let failure = result.err();
        if self.json {
            let object = json!({
                "ok": failure.is_none(), "seed": self.seed, "kills": report.rounds,
                "while_opening": report.while_opening, "acknowledged": report.acknowledged,
                "synced": report.synced, "found_unacknowledged": report.unacknowledged,
                "failure": failure, "directory": dir.display().to_string(), "seconds": seconds,
            });
            writeln!(out, "{object}")?;
            return Ok(code(failure.is_none()));
        }
        let paint = Paint::stdout();
        writeln!(
            out,
            "{} ({} while opening), {} ({} of them synced), {} found without an acknowledgement, {seconds:.1} s, seed {}",
            counted(report.rounds, "kill"),
            count(report.while_opening),
            counted(report.acknowledged, "acknowledged write"),
            count(report.synced),
            count(report.unacknowledged),
            self.seed
        )?;
        match &failure {
            None => writeln!(
                out,
                "{}: nothing was lost, nothing invented",
                paint.green("ok")
            )?,
            Some(text) => {
                writeln!(out, "{}: {text}", paint.red("not ok"))?;
                writeln!(out, "what is left: {}", dir.display())?;
            }
        }
        Ok(code(failure.is_none()))
    }
}

/// Panics are failures, which are told with their program.
fn silence_panics() {
    std::panic::set_hook(Box::new(|_| {}));
}

impl Run {
    fn run(self) -> anyhow::Result<ExitCode> {
        silence_panics();
        let mut plan = ModelPlan::new(self.seed, self.ops);
        plan.real_one_in = self.real;
        plan.own = own_options(&self.own.text()?);
        let start = Instant::now();
        let bar = term::bar(self.ops, "operations", "running");
        let result = run_model(&plan, |r| bar.set_position(r.tally.get("operations")));
        bar.finish_and_clear();
        let seconds = start.elapsed().as_secs_f64();
        let mut out = std::io::stdout().lock();
        let is_clean = result.is_ok();
        let (report, failure) = match result {
            Ok(report) => (report, None),
            Err(failure) => (failure.report.clone(), Some(failure)),
        };
        if self.json {
            let object = json!({
                "ok": is_clean, "seed": self.seed, "programs": report.programs, "counts": report.tally.0,
                "failure": failure.as_ref().map(|f| f.failure.text.clone()),
                "program": failure.as_ref().map(|f| f.program.to_string()), "seconds": seconds,
            });
            writeln!(out, "{object}")?;
        } else if let Some(failure) = failure {
            // As a file that `replay` reads.
            write!(out, "# seed {}\n{failure}", self.seed)?;
        } else {
            let paint = Paint::stdout();
            let done = counted(report.programs, "program");
            writeln!(out, "{done}, {seconds:.1} s, seed {}", self.seed)?;
            for (what, n) in &report.tally.0 {
                writeln!(out, "  {what:22} {:>12}", count(*n))?;
            }
            writeln!(
                out,
                "{}: no difference from the reference",
                paint.green("ok")
            )?;
        }
        Ok(code(is_clean))
    }
}

/// Reads a program.
fn read(path: &Path) -> anyhow::Result<Program> {
    let hint = "a program is what `spanlith stress run` prints of a failure";
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::new(format!("{}: {e}", path.display()), hint))?;
    let program = Program::parse(&text);
    Ok(program.map_err(|e| Usage::new(format!("{}: {e}", path.display()), hint))?)
}

impl Replay {
    fn replay(self) -> anyhow::Result<ExitCode> {
        let program = read(&self.file)?;
        silence_panics();
        let result = run_program(&program, None).0;
        let mut out = std::io::stdout().lock();
        if self.json {
            let failure = result.as_ref().err();
            let object = json!({
                "ok": result.is_ok(), "operations": program.ops.len(), "operation": failure.map(|f| f.op),
                "failure": failure.map(|f| f.text.clone()),
            });
            writeln!(out, "{object}")?;
            return Ok(code(result.is_ok()));
        }
        let paint = Paint::stdout();
        match &result {
            Ok(()) => {
                let done = counted(program.ops.len() as u64, "operation");
                writeln!(out, "{}: {done}, no difference", paint.green("ok"))?;
            }
            Err(f) => {
                writeln!(
                    out,
                    "{}: operation {}: {}",
                    paint.red("not ok"),
                    f.op,
                    f.text
                )?;
                if let Some(op) = program.ops.get(f.op) {
                    writeln!(out, "  {op}")?;
                }
            }
        }
        Ok(code(result.is_ok()))
    }

    fn reduce(self) -> anyhow::Result<ExitCode> {
        let program = read(&self.file)?;
        silence_panics();
        let Err(failure) = run_program(&program, None).0 else {
            let text = format!("{}: the program does not fail", self.file.display());
            return Err(Failure::new(text, "there is nothing to be made shorter").into());
        };
        let bar = term::spinner("programs", "reducing");
        let short = reduce_program(&program, &failure, None, REDUCE_BUDGET);
        bar.finish_and_clear();
        let mut out = std::io::stdout().lock();
        if self.json {
            let object = json!({
                "ok": true, "operations_before": program.ops.len(), "operations": short.ops.len(),
                "program": short.to_string(), "failure": failure.text,
            });
            writeln!(out, "{object}")?;
        } else {
            writeln!(out, "# {}", failure.text.replace('\n', "\n# "))?;
            write!(out, "{short}")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
