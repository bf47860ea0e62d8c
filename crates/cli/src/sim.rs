//! `spanlith sim lsm`: a simulated database, for policies of the write controller.
//!
//! The real picker, levels, stall rules and policies work on tables without values, under a virtual clock, many times
//! faster than the disk would ([`spanlith_workload::sim`]).

use crate::fail::Usage;
use clap::{Args, Subcommand};
use serde_json::json;
use spanlith_pace::ThrottlePolicy;
use spanlith_workload::sim::{Outcome, Params, random_params, run};
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

/// Simulates databases under a virtual clock
#[derive(Debug, Subcommand)]
pub enum Sim {
    /// A tree, its flushes and compactions, and writers under a policy
    Lsm(Lsm),
}

const EXAMPLES: &str = "\
Examples:
  spanlith sim lsm                                  four policies side by side, a minute of overload each
  spanlith sim lsm --policy rocksdb_517 --series    throughput of every 100 ms
  spanlith sim lsm --random 10000 --policy smooth   random parameters: cycles and starvation are failures
  spanlith sim lsm --burst                          1:1 with bursts of nine times as much, 5 s of 12

What it leaves out: the log, caches, reads, and the processor. Exit code 1 if a random set fails.";

/// Simulates one tree
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Lsm {
    /// One policy instead of all: rocksdb_517, rocksdb, two_stage or smooth
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Simulated seconds
    #[arg(long, default_value_t = 60.0, value_name = "S")]
    seconds: f64,
    /// Bytes per second that writers offer
    #[arg(long, default_value_t = 120e6, value_name = "BYTES")]
    offered: f64,
    /// Nine times as much in 5 s of every 12, beginning from a ninth
    #[arg(long)]
    burst: bool,
    /// Runs this many random sets of parameters instead
    #[arg(long, value_name = "N")]
    random: Option<u64>,
    /// Of the random sets
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    seed: u64,
    /// Prints the throughput of every 100 ms
    #[arg(long)]
    series: bool,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Most that the throughput of seconds may vary, by their mean, and least that a second may be of it.
const VARIATION_MAX: f64 = 0.3;
const SECOND_MIN: f64 = 0.1;

impl Sim {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Lsm(lsm) => lsm.run(),
        }
    }
}

impl Lsm {
    fn policies(&self) -> Result<Vec<ThrottlePolicy>, Usage> {
        match &self.policy {
            None => Ok(ThrottlePolicy::ALL.to_vec()),
            Some(name) => {
                let policy = name
                    .parse()
                    .map_err(|e: String| Usage::new(e, "see spanlith sim lsm --help"))?;
                Ok(vec![policy])
            }
        }
    }

    fn run(self) -> anyhow::Result<ExitCode> {
        let policies = self.policies()?;
        if !self.seconds.is_finite() || !(1.0..=1e7).contains(&self.seconds) {
            let what = format!("--seconds {} is out of bounds", self.seconds);
            return Err(Usage::new(what, "from 1 to 10000000").into());
        }
        if !self.offered.is_finite() || !(1.0..=1e12).contains(&self.offered) {
            let what = format!("--offered {} is out of bounds", self.offered);
            return Err(Usage::new(what, "from 1 to 1e12 bytes per second").into());
        }
        match self.random {
            Some(sets) => self.run_random(sets, &policies),
            None => self.run_side_by_side(&policies),
        }
    }

    fn run_side_by_side(&self, policies: &[ThrottlePolicy]) -> anyhow::Result<ExitCode> {
        let mut out = std::io::stdout().lock();
        if !self.json {
            writeln!(
                out,
                "{:<12} {:>9} {:>9} {:>7} {:>7} {:>7} {:>6} {:>6} {:>6} {:>8}",
                "policy",
                "mean",
                "min",
                "cv 1 s",
                "<50 %",
                "<10 %",
                "stop s",
                "L0",
                "amp",
                "x time"
            )?;
        }
        for &policy in policies {
            let mut params = Params {
                policy,
                seconds: self.seconds,
                offered: self.offered,
                ..Params::default()
            };
            if self.burst {
                params.offered /= 9.0;
                params.burst = Some((12.0, 5.0, 9.0));
            }
            let began = Instant::now();
            let o = run(&params);
            let times = self.seconds / began.elapsed().as_secs_f64().max(1e-9);
            self.print(&mut out, policy, &o, times)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn print(
        &self,
        out: &mut impl Write,
        policy: ThrottlePolicy,
        o: &Outcome,
        times: f64,
    ) -> anyhow::Result<()> {
        let mb = 1e6;
        if self.json {
            let line = json!({
                "policy": policy.name(),
                "mean_bytes_per_sec": o.even.mean * 10.0,
                "min_window_bytes": o.even.min,
                "median_window_bytes": o.even.median,
                "cv_100ms": o.even.variation,
                "cv_1s": o.even_seconds.variation,
                "windows_below_half": o.even.below_half,
                "windows_below_tenth": o.even.below_tenth,
                "longest_gap_windows": o.even.longest_gap,
                "stopped_seconds": o.stopped_seconds,
                "level0_max": o.level0_max,
                "debt_max": o.debt_max,
                "write_amplification": o.amplification,
                "times_real_time": times,
                "series": if self.series { o.series.clone() } else { Vec::new() },
            });
            writeln!(out, "{line}")?;
            return Ok(());
        }
        writeln!(
            out,
            "{:<12} {:>7.1}MB {:>7.1}MB {:>7.3} {:>7} {:>7} {:>6.2} {:>6} {:>6.1} {:>8.0}",
            policy.name(),
            o.even.mean * 10.0 / mb,
            o.even.min * 10.0 / mb,
            o.even_seconds.variation,
            o.even.below_half,
            o.even.below_tenth,
            o.stopped_seconds,
            o.level0_max,
            o.amplification,
            times,
        )?;
        if self.series {
            for (i, bytes) in o.series.iter().enumerate() {
                writeln!(
                    out,
                    "{:>8.1} s {:>8.2} MB/s",
                    i as f64 / 10.0,
                    bytes * 10.0 / mb
                )?;
            }
        }
        Ok(())
    }

    fn run_random(&self, sets: u64, policies: &[ThrottlePolicy]) -> anyhow::Result<ExitCode> {
        let mut out = std::io::stdout().lock();
        let mut failed_any = false;
        for &policy in policies {
            let began = Instant::now();
            let (mut cycles, mut starved, mut worst, mut simulated) = (0u64, 0u64, 0.0f64, 0.0);
            for set in 0..sets {
                let seed = self.seed.wrapping_add(set);
                let params = random_params(seed, policy);
                let o = run(&params);
                simulated += params.seconds;
                let e = &o.even_seconds;
                worst = worst.max(e.variation);
                let is_cycle = e.variation > VARIATION_MAX;
                let is_starved = e.min < SECOND_MIN * e.mean;
                cycles += u64::from(is_cycle);
                starved += u64::from(is_starved);
                if (is_cycle || is_starved) && self.series {
                    writeln!(out, "seed {seed}: {e:?}")?;
                }
            }
            let took = began.elapsed().as_secs_f64();
            failed_any |= cycles + starved > 0;
            let line = json!({
                "policy": policy.name(), "sets": sets, "seed": self.seed, "cycles": cycles,
                "starved": starved, "worst_variation": worst,
                "times_real_time": simulated / took.max(1e-9),
            });
            match self.json {
                true => writeln!(out, "{line}")?,
                false => writeln!(
                    out,
                    "{:<12} {sets} sets from seed {}: {cycles} with a cycle, {starved} starved; worst variation {worst:.2}; {:.0} times real time",
                    policy.name(),
                    self.seed,
                    simulated / took.max(1e-9),
                )?,
            }
        }
        Ok(ExitCode::from(u8::from(failed_any)))
    }
}
