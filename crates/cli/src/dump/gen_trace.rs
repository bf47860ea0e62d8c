//! `trace gen`: a synthetic day of a published production database, as a trace with the file beside it.

use super::folder;
use crate::fail::{At, Usage};
use crate::term::counted;
use clap::Args;
use spanlith_workload::generate::reference::{REFERENCES, Reference};
use spanlith_workload::traces::of_day;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Writes a synthetic day of UDB, ZippyDB or UP2X as a trace
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spanlith trace gen zippydb /tmp/zippydb.trace --events 1000000
  spanlith twin /tmp/zippydb.trace --page twin.html")]
pub struct Gen {
    /// udb, zippydb or up2x
    #[arg(value_name = "DATABASE")]
    database: String,
    /// The trace; what does not fit its format goes into FILE.ext
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Events of the day, about
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    events: u64,
    /// Everything that chance decides follows from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Gen {
    /// Writes it.
    ///
    /// # Errors
    /// Names the database or the file.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let database = Reference::of(&self.database).ok_or_else(|| {
            let names = REFERENCES.map(|r| r.name);
            Usage::new(
                format!("unknown database '{}'", self.database),
                format!("one of: {}", names.join(" ")),
            )
        })?;
        let day = database.day(self.events, self.seed);
        let requests = of_day(&database, &day, self.seed, &self.file).at(folder(&self.file))?;
        writeln!(
            std::io::stdout(),
            "{} of a day of {} in {}",
            counted(requests, "request"),
            database.name,
            self.file.display()
        )?;
        Ok(ExitCode::SUCCESS)
    }
}
