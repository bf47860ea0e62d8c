//! `spanlith drive … --kill N`: a driver in a process that is killed, and what must hold when its store is opened again.
//!
//! The process says a line when the data set is there; from then on it may be killed at any moment. The next one goes on
//! with what the last one left. Moments follow from the seed, in milliseconds after that line.

use crate::fail::Failure;
use crate::term::Paint;
use spanlith_workload::drivers::{Driver, Settings};
use spanlith_workload::generate::Rng;
use spanlith_workload::store::{StoreName, StoreOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// Says what a process says when its data set is there.
const LOADED: &str = "loaded";
/// A process that nobody kills ends by itself after so many seconds.
const SECONDS_MAX: u32 = 60;

/// A driver with its parameters.
pub(super) struct Run<'a> {
    pub(super) driver: &'a Driver,
    pub(super) options: &'a StoreOptions,
    pub(super) settings: &'a Settings,
}

/// A process, killed when the value is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended is killed in vain, and there is nobody to tell.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn failed(e: impl std::fmt::Display) -> anyhow::Error {
    let way_out =
        "spanlith drive lists drivers and parameters; --dir names a directory you may write to";
    Failure::new(e.to_string(), way_out).into()
}

impl Run<'_> {
    /// The part of the process: loads or goes on, until it is killed.
    pub(super) fn go_on(&self, store: &StoreName, dir: &Path) -> anyhow::Result<ExitCode> {
        let loaded = || {
            // The parent is there as long as it has not killed us.
            let _ = writeln!(std::io::stdout(), "{LOADED}");
            let _ = std::io::stdout().flush();
        };
        let run = self
            .driver
            .go_on(store, dir, self.options, self.settings, &loaded);
        run.map_err(failed)?;
        Ok(ExitCode::SUCCESS)
    }

    fn start(
        &self,
        store: &StoreName,
        dir: &Path,
        flags: &[String],
        seed: u64,
    ) -> anyhow::Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["drive", self.driver.name]);
        let parameters = self
            .settings
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        command.args(parameters);
        command.args([format!("seed={seed}"), format!("seconds={SECONDS_MAX}")]);
        command.args(flags);
        command.arg("--store").arg(store.to_string());
        command.arg("--go-on").arg(dir);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut process = Process(child);
        let Some(out) = process.0.stdout.take() else {
            return Err(failed("the process has no output"));
        };
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        match line.trim() == LOADED {
            true => Ok(process),
            false => Err(failed("the process ended before its data set was there")),
        }
    }

    /// Kills so many processes, and says after each what holds. Whether everything did.
    pub(super) fn kill(
        &self,
        store: &StoreName,
        dir: &Path,
        kills: u64,
        flags: &[String],
    ) -> anyhow::Result<bool> {
        let (paint, seed) = (Paint::stdout(), self.settings.seed().map_err(failed)?);
        if self.driver.check.is_none() {
            // Refused before anything is made, in the words of the driver.
            self.driver
                .verify(store, dir, self.options, self.settings)
                .map_err(failed)?;
        }
        let mut rng = Rng::new(seed ^ 0x6b11);
        let mut all = true;
        for round in 0..kills {
            let process = self.start(store, dir, flags, seed + round)?;
            let millis = 1 + rng.below(400);
            std::thread::sleep(Duration::from_millis(millis));
            drop(process);
            let verified = self.driver.verify(store, dir, self.options, self.settings);
            let (label, verdicts) = verified.map_err(failed)?;
            let broken: Vec<_> = verdicts.iter().filter(|v| v.wrong.is_some()).collect();
            all &= broken.is_empty();
            let head = format!(
                "{} on {label}, kill {} after {millis} ms",
                self.driver.name,
                round + 1
            );
            let outcome = match broken.is_empty() {
                true => format!("{} ({} conditions)", paint.green("holds"), verdicts.len()),
                false => paint.red("BROKEN"),
            };
            writeln!(std::io::stdout(), "{head}: {outcome}")?;
            for verdict in broken {
                let wrong = verdict.wrong.as_deref().unwrap_or_default();
                writeln!(std::io::stdout(), "  {}: {wrong}", verdict.what)?;
            }
        }
        Ok(all)
    }
}
