//! `spanlith sim sd`: a simulated machine with a speed disk ([`spanlith_workload::sim::sd`]).

use crate::fail::Usage;
use crate::term;
use clap::Args;
use serde_json::{Value, json};
use spanlith_env::emulated::DeviceSpec;
use spanlith_workload::sim::sd::{Costs, Mix, Outcome, Params, Way, run};
use std::io::Write;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  spanlith sim sd                                   40 virtual cores, tables on S-RAID5, log on O: all ways, all mixes
  spanlith sim sd --tables N1 --log O --mix writes  another pair of devices
  spanlith sim sd --cores 2 --threads 8 --measure   with the service times of this machine

The log is the real one on an emulated device, and groups form as in the engine; what processors do is a table of
service times, those of --measure or built in. Of 40 cores 8 flush and compact and are left out.";

/// Simulates clients, cores, a log and devices
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Sd {
    /// Device of the tables
    #[arg(long, value_name = "NAME", default_value = "S-RAID5")]
    tables: DeviceSpec,
    /// Device of the log where it is not with the tables
    #[arg(long, value_name = "NAME", default_value = "O")]
    log: DeviceSpec,
    /// Cores of clients and engine; those of flushes and compactions come on top
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1024))]
    cores: u64,
    /// Threads that call one by one
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=4096))]
    threads: u64,
    /// Threads of the engine that read for calls that are outstanding (the option async_threads); as many as cores if
    /// left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    readers: Option<u64>,
    /// Clients that have calls outstanding
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=4096))]
    clients: u64,
    /// Calls that each of them has outstanding
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=4096))]
    outstanding: u64,
    /// Groups of calls one by one on their way to a speed disk at a time (the option sd_writes_in_flight)
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    in_flight: u64,
    /// One mix instead of all: writes, A, B, E, F or graph (LinkBench)
    #[arg(long, value_name = "NAME")]
    mix: Option<String>,
    /// Reads of a hundred that a cache answers
    #[arg(long, value_name = "PERCENT", default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=100))]
    cached: u64,
    /// Simulated seconds
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// Of the random choices
    #[arg(long, value_name = "SEED", default_value_t = 301)]
    seed: u64,
    /// Measures service times here instead of taking the built-in ones
    #[arg(long)]
    measure: bool,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

fn costs_json(c: &Costs) -> Value {
    json!({
        "issue": c.issue, "request": c.request, "group": c.group, "log_entry": c.log_entry, "insert": c.insert,
        "get": c.get, "scan": c.scan, "wake": c.wake, "switch": c.switch,
    })
}

fn outcome_json(mix: Mix, way: Way, o: &Outcome) -> Value {
    json!({
        "mix": mix.name(), "way": way.name(), "per_second": o.per_second, "mean_nanos": o.latency.mean,
        "p50_nanos": o.latency.p50, "p90_nanos": o.latency.p90, "p99_nanos": o.latency.p99,
        "p999_nanos": o.latency.p999, "group": o.group, "processor": o.processor, "waiting": o.waiting,
    })
}

impl Sd {
    fn mixes(&self) -> Result<Vec<Mix>, Usage> {
        let Some(name) = &self.mix else {
            return Ok(Mix::ALL.to_vec());
        };
        let found = Mix::ALL
            .iter()
            .find(|m| m.name().eq_ignore_ascii_case(name));
        found.map(|m| vec![*m]).ok_or_else(|| {
            let names = Mix::ALL.map(Mix::name).join(", ");
            Usage::new(format!("unknown mix '{name}'"), format!("one of {names}"))
        })
    }

    /// Runs it.
    ///
    /// # Errors
    /// Of parameters that make no sense; of measuring.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mixes = self.mixes()?;
        if !self.seconds.is_finite() || !(0.01..=1000.0).contains(&self.seconds) {
            let what = format!("--seconds {} is out of bounds", self.seconds);
            return Err(Usage::new(what, "from 0.01 to 1000").into());
        }
        let costs = match self.measure {
            true => Costs::measure()?,
            false => Costs::reference(),
        };
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let mut all = Vec::new();
        for mix in mixes {
            for way in Way::ALL {
                let params = Params {
                    cores: count(self.cores),
                    threads: count(self.threads),
                    readers: count(self.readers.unwrap_or(self.cores)),
                    clients: (count(self.clients), count(self.outstanding)),
                    in_flight: count(self.in_flight),
                    cached_percent: self.cached,
                    costs,
                    seconds: self.seconds,
                    seed: self.seed,
                    ..Params::new(self.tables, self.log, way, mix)
                };
                all.push((mix, way, run(&params)?));
            }
        }
        let mut out = std::io::stdout().lock();
        if self.json {
            let rows: Vec<Value> = all
                .iter()
                .map(|(m, w, o)| outcome_json(*m, *w, o))
                .collect();
            writeln!(
                out,
                "{}",
                json!({
                    "tables": self.tables.to_string(), "log": self.log.to_string(), "cores": self.cores,
                    "costs": costs_json(&costs), "runs": rows,
                })
            )?;
            return Ok(ExitCode::SUCCESS);
        }
        self.print(&mut out, &all)?;
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, out: &mut impl Write, all: &[(Mix, Way, Outcome)]) -> std::io::Result<()> {
        writeln!(
            out,
            "tables on {}, log on {}, {} cores; {} threads one by one, or {} clients with {} calls each",
            self.tables, self.log, self.cores, self.threads, self.clients, self.outstanding
        )?;
        writeln!(
            out,
            "{:<7} {:<33} {:>9} {:>6} {:>9} {:>9} {:>9} {:>6} {:>5} {:>5}",
            "mix", "way", "calls/s", "times", "p50", "p99", "p99.9", "group", "cpu", "wait"
        )?;
        let mut first = 0.0;
        for (mix, way, o) in all {
            if *way == Way::ALL[0] {
                first = o.per_second;
            }
            writeln!(
                out,
                "{:<7} {:<33} {:>9} {:>6.2} {:>9} {:>9} {:>9} {:>6.1} {:>4.0}% {:>4.0}%",
                mix.name(),
                way.name(),
                term::count(o.per_second as u64),
                o.per_second / first,
                term::nanos(o.latency.p50 as u64),
                term::nanos(o.latency.p99 as u64),
                term::nanos(o.latency.p999 as u64),
                o.group,
                o.processor * 100.0,
                o.waiting * 100.0,
            )?;
        }
        Ok(())
    }
}
