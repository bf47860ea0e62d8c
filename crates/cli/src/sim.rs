//! `spanlith sim`: `lsm` is a simulated database, for policies of the write controller; [`sd`] a machine with a speed disk.
//!
//! The real picker, levels, stall rules and policies work on tables without values, under a virtual clock, many times
//! faster than the disk would ([`spanlith_workload::sim`]).

mod sd;

use crate::fail::Usage;
use clap::{Args, Subcommand};
use serde_json::json;
use spanlith_pace::ThrottlePolicy;
use spanlith_workload::sim::{Outcome, Params, random_params, run, run_settled};
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

/// Simulates databases under a virtual clock
#[derive(Debug, Subcommand)]
pub enum Sim {
    /// A tree, its flushes and compactions, and writers under a policy
    Lsm(Lsm),
    /// Clients, cores, a log on a speed disk or in files, and devices
    Sd(Box<sd::Sd>),
}

const EXAMPLES: &str = "\
Examples:
  spanlith sim lsm                                  four policies side by side, a minute of overload each
  spanlith sim lsm --policy rocksdb_517 --series    throughput of every 100 ms
  spanlith sim lsm --sets 10000 --policy smooth     random parameters: cycles and starvation are failures
  spanlith sim lsm --burst                          bursts of nine times as much, 5 s of 12, as Figure 18 of the study

What it leaves out: the log, caches, reads, and the processor. A random set fails if the throughput of the seconds
of its last half swings by more than 30 % around its drift, or if one of them has less than a tenth of the mean; the
exit code is 1 then.";

/// Simulates one tree
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Lsm {
    /// One policy instead of all: rocksdb_517, rocksdb, two_stage or smooth
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Simulated seconds: 60 unless given, and 120 of each random set
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Bytes per second that writers offer
    #[arg(long, default_value_t = 120e6, value_name = "BYTES")]
    offered: f64,
    /// Nine times as much in 5 s of every 12, on a device that carries the mean and not the burst
    #[arg(long, conflicts_with = "offered")]
    burst: bool,
    /// Bytes per second that writes keep in the first stage of two_stage, and under smooth while less than half of
    /// the buffers is full; 0 for what the policy takes by itself
    #[arg(long, value_name = "BYTES")]
    floor: Option<u64>,
    /// Without the slot that smooth has for merges within level 0 beside the compaction out of it
    #[arg(long)]
    no_merges_beside: bool,
    /// Runs this many random sets of parameters instead
    #[arg(long, visible_alias = "random", value_name = "N", conflicts_with_all = ["burst", "floor", "offered"])]
    sets: Option<u64>,
    /// Of the random sets
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    seed: u64,
    /// Prints throughput, level 0 and pace of every 100 ms; of random sets, those of the sets that fail
    #[arg(long)]
    series: bool,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Prints each 100 ms: throughput, files of level 0, and the pace with the stage that decides.
fn print_series(out: &mut impl Write, o: &Outcome) -> std::io::Result<()> {
    let windows = o.series.iter().zip(&o.sights);
    for (i, (bytes, sight)) in windows.enumerate() {
        let pace = sight.pace.map_or_else(String::new, |(rate, stage)| {
            format!("  {:.2} MB/s by {}", rate / 1e6, stage.name())
        });
        let (at, rate) = (i as f64 / 10.0, bytes * 10.0 / 1e6);
        writeln!(
            out,
            "{at:>8.1} s {rate:>8.2} MB/s {:>4} files{pace}",
            sight.files
        )?;
    }
    Ok(())
}

/// Most that the throughput of seconds may swing, by their mean, and least that a second may be of it.
const SWING_MAX: f64 = 0.3;
const SECOND_MIN: f64 = 0.1;
/// Random sets between two lines of progress.
const PROGRESS: u64 = 500;

/// Describes what random sets of parameters came to under one policy.
#[derive(Default)]
struct Tally {
    cycles: u64,
    starved: u64,
    /// Level 0 got beyond its stop by more files than there are memtables.
    crowded: u64,
    swing_max: f64,
    least: f64,
    mean: f64,
    simulated: f64,
}

impl Tally {
    /// Takes in a set; says whether it fails.
    fn add(&mut self, params: &Params, o: &Outcome) -> bool {
        let is_cycle = o.swing > SWING_MAX;
        let is_starved = o.least < SECOND_MIN;
        let bound = i64::from(params.stop_trigger) + i64::from(params.max_write_buffer_number);
        self.cycles += u64::from(is_cycle);
        self.starved += u64::from(is_starved);
        self.crowded += u64::from(o.level0_max as i64 > bound);
        self.swing_max = self.swing_max.max(o.swing);
        self.least = self.least.min(o.least);
        self.mean += o.even.mean * 10.0;
        self.simulated += params.seconds;
        is_cycle || is_starved
    }
}

impl Sim {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Lsm(lsm) => lsm.run(),
            Self::Sd(sd) => sd.run(),
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
        if let Some(seconds) = self.seconds
            && !(1.0..=1e7).contains(&seconds)
        {
            let what = format!("--seconds {seconds} is out of bounds");
            return Err(Usage::new(what, "from 1 to 10000000").into());
        }
        if !self.offered.is_finite() || !(1.0..=1e12).contains(&self.offered) {
            let what = format!("--offered {} is out of bounds", self.offered);
            return Err(Usage::new(what, "from 1 to 1e12 bytes per second").into());
        }
        match self.sets {
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
            let mut params = match self.burst {
                true => Params::bursts(policy),
                false => Params {
                    policy,
                    offered: self.offered,
                    ..Params::default()
                },
            };
            params.seconds = self.seconds.unwrap_or(params.seconds);
            params.stage1_floor_rate = self.floor.unwrap_or(params.stage1_floor_rate);
            params.merges_beside = !self.no_merges_beside;
            let began = Instant::now();
            let o = run(&params);
            let times = params.seconds / began.elapsed().as_secs_f64().max(1e-9);
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
            print_series(out, o)?;
        }
        Ok(())
    }

    fn run_random(&self, sets: u64, policies: &[ThrottlePolicy]) -> anyhow::Result<ExitCode> {
        let mut out = std::io::stdout().lock();
        let mut failed_any = false;
        for &policy in policies {
            let began = Instant::now();
            let mut tally = Tally {
                least: 1.0,
                ..Tally::default()
            };
            for set in 0..sets {
                let seed = self.seed.wrapping_add(set);
                let mut params = random_params(seed, policy);
                params.merges_beside = !self.no_merges_beside;
                params.seconds = self.seconds.unwrap_or(params.seconds);
                let o = run_settled(&params);
                if tally.add(&params, &o) {
                    failed_any = true;
                    // A set that fails can be looked at by its seed.
                    eprintln!(
                        "seed {seed}: swing {:.3}, least second {:.3}",
                        o.swing, o.least
                    );
                    if self.series && !self.json {
                        print_series(&mut out, &o)?;
                    }
                }
                if (set + 1) % PROGRESS == 0 {
                    eprintln!("{policy}: {} of {sets} sets", set + 1);
                }
            }
            let took = began.elapsed().as_secs_f64().max(1e-9);
            self.print_tally(&mut out, policy, sets, &tally, took)?;
        }
        Ok(ExitCode::from(u8::from(failed_any)))
    }

    fn print_tally(
        &self,
        out: &mut impl Write,
        policy: ThrottlePolicy,
        sets: u64,
        t: &Tally,
        took: f64,
    ) -> anyhow::Result<()> {
        let times = t.simulated / took;
        let mean = t.mean / sets.max(1) as f64;
        if self.json {
            let line = json!({
                "policy": policy.name(), "sets": sets, "seed": self.seed, "cycles": t.cycles,
                "starved": t.starved, "crowded": t.crowded, "worst_swing": t.swing_max,
                "least_second": t.least, "mean_bytes_per_sec": mean, "times_real_time": times,
            });
            writeln!(out, "{line}")?;
            return Ok(());
        }
        writeln!(
            out,
            "{:<12} {sets} sets from seed {}: {} with a cycle, {} starved, {} crowded; worst swing {:.2}, least second {:.2}; \
             mean {:.1} MB/s; {times:.0} times real time",
            policy.name(),
            self.seed,
            t.cycles,
            t.starved,
            t.crowded,
            t.swing_max,
            t.least,
            mean / 1e6,
        )?;
        Ok(())
    }
}
