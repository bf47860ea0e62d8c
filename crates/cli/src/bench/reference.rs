//! Describes what db_bench shows beside its result lines, for scripts that read it: histograms, statistics, a
//! file with a row for each interval.

use super::report::Outcome;
use crate::fail::Failure;
use clap::Args;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

/// Flags that `db_bench` has and `bench` does not show.
#[derive(Debug, Args)]
pub struct Reference {
    /// Prints the distribution of latencies after each result
    #[arg(long, hide = true)]
    pub(super) histogram: bool,
    /// Prints all counters of the engine at the end
    #[arg(long, hide = true)]
    pub(super) statistics: bool,
    /// Writes a row for each interval to a file; 0 for none
    #[arg(long, hide = true, default_value_t = 0)]
    pub(super) report_interval_seconds: u64,
    /// That file
    #[arg(long, hide = true, default_value = "report.csv")]
    report_file: PathBuf,
}

impl Reference {
    /// The file of rows, begun; `None` if none was asked for.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn rows(&self) -> anyhow::Result<Option<Rows>> {
        if self.report_interval_seconds == 0 {
            return Ok(None);
        }
        let failed = |e: std::io::Error| {
            Failure::new(
                format!("cannot write {}: {e}", self.report_file.display()),
                "name a file in a directory you may write to: --report_file=FILE",
            )
        };
        let mut file = File::create(&self.report_file).map_err(failed)?;
        writeln!(file, "secs_elapsed,interval_qps").map_err(failed)?;
        Ok(Some(Rows {
            file,
            interval: self.report_interval_seconds,
            elapsed: 0,
        }))
    }
}

/// A file with a row for each interval of all benchmarks.
pub struct Rows {
    file: File,
    interval: u64,
    /// Seconds of the rows so far.
    elapsed: u64,
}

impl Rows {
    /// Adds the intervals of a benchmark.
    ///
    /// # Errors
    /// Of writing.
    pub fn add(&mut self, outcome: &Outcome) -> std::io::Result<()> {
        for point in outcome.series.points() {
            self.elapsed += self.interval;
            writeln!(self.file, "{},{:.0}", self.elapsed, point.rate())?;
        }
        Ok(())
    }
}
