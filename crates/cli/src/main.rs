//! `spanlith`: the command line. Noun, then verb.
//!
//! Modules: [`db`] reads and writes one database; [`find`], [`doctor`], [`compat`], [`shell`] and [`top`]
//! look at one; [`replay`] asks one what another was asked; [`dump`] shows one file; [`bench`] and [`drive`] measure, [`experiment`]
//! against published numbers; [`sim`] simulates; [`stress`] attacks; [`tour`] shows the whole in two
//! minutes.
//! [`inventory`] reads a directory without opening it and [`tables`] its tables; [`bytes`], [`fail`] and
//! [`term`] are about text, errors and the terminal.
//!
//! Called as `ldb`, `sst_dump`, `db_bench` or `trace_analyzer` the binary is that tool of RocksDB; `spanlith ldb …` is, too.
//!
//! Exit codes: 0 success, 1 failure or damage found, 2 a command line that makes no sense.
#![forbid(unsafe_code)]

/// Writes a line to standard error. Unlike `eprintln!` it goes on where nobody takes it.
macro_rules! tell {
    ($($text:tt)*) => { $crate::os_text::complain(&format!($($text)*)) };
}

mod bench;
mod bytes;
mod compat;
mod db;
mod db_bench;
mod doctor;
mod drive;
mod dump;
mod experiment;
mod fail;
mod find;
mod inventory;
mod ldb;
mod model;
mod os_text;
mod overlay;
mod own;
mod places;
mod raw;
mod reading;
mod replay;
mod sd;
mod shadow;
mod shell;
mod sim;
mod sst_dump;
mod stress;
mod tables;
mod term;
mod top;
mod tour;
mod trace_analyzer;
mod traced;
mod usage;
mod written;

use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  spanlith tour                                     everything in two minutes, on real data
  spanlith db put --create --db /data/db k v        a database of one entry
  spanlith db scan --db /data/db --limit 20         reads any directory RocksDB wrote as well
  spanlith db info --db /data/db                    who wrote it, levels, sizes, logs, options
  spanlith db verify --db /data/db                  every checksum; lists all damage
  spanlith find KEY --db /data/db                   every version of a key, and where it lies
  spanlith doctor --db /data/db                     what is damaged, what is at stake, the way out
  spanlith compat --db /data/db                     which releases of RocksDB can open it
  spanlith top --db /data/db                        a live database from outside
  spanlith sst dump /data/db/000012.sst             one file, one record a line
  spanlith bench fillrandom readrandom --num 1000000
  spanlith drive mixgraph --store spanlith          standard loads, on this and on other stores
  spanlith experiment run X-SP-1 --report sp1.html  a published measurement, run again
  spanlith replay /tmp/trace --db /data/copy        asks a database what another was asked
  spanlith stress kill --db /data/new               processes killed on your disk: nothing may be lost

Read verbs change nothing on disk. --json makes every verb machine-readable. Exit codes: 0 success,
1 failure or damage, 2 bad usage.";

/// Spanlith: an embedded key-value store that reads and writes RocksDB's own files.
#[derive(Debug, Parser)]
#[command(name = "spanlith", version, after_help = EXAMPLES, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    noun: Noun,
}

#[derive(Debug, Subcommand)]
enum Noun {
    /// Reads, writes, describes and checks a database
    #[command(subcommand)]
    Db(db::Verb),
    Find(find::Find),
    Doctor(doctor::Doctor),
    Compat(compat::Compat),
    Shell(shell::Shell),
    Top(top::Top),
    /// Shows or verifies a table file
    #[command(subcommand)]
    Sst(dump::Sst),
    /// Shows or checks a write-ahead log
    #[command(subcommand)]
    Wal(dump::Wal),
    /// Shows or checks a MANIFEST
    #[command(subcommand)]
    Manifest(dump::Manifest),
    /// Shows or verifies a blob file
    #[command(subcommand)]
    Blob(dump::Blob),
    /// Shows and compares OPTIONS files
    #[command(subcommand)]
    Options(dump::Options),
    /// Shows or checks a trace
    #[command(subcommand)]
    Trace(dump::Trace),
    Replay(replay::Replay),
    /// Makes models of workloads of traces, and traces of models
    #[command(subcommand)]
    Model(model::Verb),
    Twin(model::twin::Twin),
    Plot(model::plot::PlotArgs),
    /// RocksDB's ldb: its commands, flags and output
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Ldb(Foreign),
    /// RocksDB's sst_dump: its commands, flags and output
    #[command(
        name = "sst_dump",
        disable_help_flag = true,
        disable_version_flag = true
    )]
    SstDump(Foreign),
    /// RocksDB's db_bench: its flags and result lines
    #[command(
        name = "db_bench",
        disable_help_flag = true,
        disable_version_flag = true
    )]
    DbBench(Foreign),
    /// RocksDB's trace_analyzer: its flags, files and output
    #[command(
        name = "trace_analyzer",
        disable_help_flag = true,
        disable_version_flag = true
    )]
    TraceAnalyzer(Foreign),
    /// Measures: db_bench's benchmarks by their names
    Bench(Box<bench::Bench>),
    Drive(drive::Drive),
    /// Runs experiments of published documents, and shows measured beside printed numbers
    #[command(subcommand)]
    Experiment(experiment::Verb),
    /// Simulates databases under a virtual clock
    #[command(subcommand)]
    Sim(sim::Sim),
    /// Attacks the engine on this machine: kills, power losses, random programs
    #[command(subcommand)]
    Stress(stress::Verb),
    /// Speed disks: makes, measures and shows them
    #[command(subcommand)]
    Sd(sd::Verb),
    /// Shows everything in two minutes, on real data
    Tour(tour::Tour),
    /// The child of the tour that is killed
    #[command(hide = true)]
    CrashWriter(tour::crash::Writer),
}

/// The command line of a tool that reads it itself.
#[derive(Debug, clap::Args)]
struct Foreign {
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    args: Vec<OsString>,
}

impl Foreign {
    /// As the tools take them.
    fn texts(&self) -> Vec<String> {
        self.args.iter().map(|a| os_text::of_os(a)).collect()
    }
}

/// Runs a tool under its own name: what the binary was called, and what follows.
fn by_own_name() -> Option<ExitCode> {
    let mut args = std::env::args_os().map(|a| os_text::of_os(&a));
    let name = args.next()?;
    let name = std::path::Path::new(&name)
        .file_stem()?
        .to_string_lossy()
        .into_owned();
    match name.as_str() {
        "ldb" => Some(ldb::run(args.collect())),
        "sst_dump" => Some(sst_dump::run(args.collect())),
        "db_bench" => {
            let args: Vec<String> = args.collect();
            Some(db_bench::run(&args, again).unwrap_or_else(|e| fail::report(&e)))
        }
        "trace_analyzer" => {
            let args: Vec<String> = args.collect();
            Some(trace_analyzer::run(&args).unwrap_or_else(|e| fail::report(&e)))
        }
        _ => None,
    }
}

/// The verb that was called, as it is typed.
fn called() -> String {
    usage::verb(&Cli::command(), &std::env::args_os().collect::<Vec<_>>())
}

fn main() -> ExitCode {
    if let Some(code) = by_own_name() {
        return code;
    }
    match usage::read::<Cli>(std::env::args_os().collect()) {
        Ok(cli) => execute(cli.noun).unwrap_or_else(|e| fail::report(&e)),
        Err(code) => code,
    }
}

/// Runs a command line that was made of another tool's.
fn again(args: Vec<String>) -> anyhow::Result<ExitCode> {
    match usage::read::<Cli>(args.iter().map(|a| os_text::to_os(a)).collect()) {
        Ok(cli) => execute(cli.noun),
        Err(code) => Ok(code),
    }
}

fn execute(noun: Noun) -> anyhow::Result<ExitCode> {
    match noun {
        Noun::Db(verb) => db::run(verb),
        Noun::Find(find) => find.run(),
        Noun::Doctor(doctor) => doctor.run(),
        Noun::Compat(compat) => compat.run(),
        Noun::Shell(shell) => shell.run(),
        Noun::Top(top) => top.run(),
        Noun::Sst(verb) => dump::run_sst(verb),
        Noun::Wal(verb) => dump::run_wal(verb),
        Noun::Manifest(verb) => dump::run_manifest(verb),
        Noun::Blob(verb) => dump::run_blob(verb),
        Noun::Options(verb) => dump::run_options(verb),
        Noun::Trace(verb) => dump::run_trace(verb),
        Noun::Replay(replay) => replay.run(),
        Noun::Model(verb) => model::run(verb),
        Noun::Twin(twin) => twin.run(),
        Noun::Plot(plot) => plot.run(),
        Noun::Ldb(tool) => Ok(ldb::run(tool.texts())),
        Noun::SstDump(tool) => Ok(sst_dump::run(tool.texts())),
        Noun::DbBench(tool) => db_bench::run(&tool.texts(), again),
        Noun::TraceAnalyzer(tool) => trace_analyzer::run(&tool.texts()),
        Noun::Bench(bench) => bench.run(),
        Noun::Drive(drive) => drive.run(),
        Noun::Experiment(verb) => experiment::run(verb),
        Noun::Sim(sim) => sim.run(),
        Noun::Stress(verb) => stress::run(verb),
        Noun::Sd(verb) => sd::run(verb),
        Noun::Tour(tour) => tour.run(),
        Noun::CrashWriter(writer) => writer.run(),
    }
}
