//! `db checkpoint`: a directory that opens as the database is now.

use super::open::{Target, WriteFlags};
use crate::fail::{At, Failure};
use crate::term::{bytes, counted};
use clap::Args;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Makes a checkpoint.
#[derive(Debug, Args)]
pub struct Checkpoint {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    flags: WriteFlags,
    /// The directory to make; on the same file system tables are linked and take no room
    #[arg(value_name = "TO")]
    to: PathBuf,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

impl Checkpoint {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let start = Instant::now();
        if self.to.exists() {
            let text = format!("Invalid argument: Directory exists: {}", self.to.display());
            return Err(Failure::new(text, "name a directory that is not there yet").into());
        }
        let cf = self.target.open_read_write(&self.flags)?;
        let db = cf.db().clone();
        drop(cf);
        let made = db.checkpoint(&self.to).at(&self.to);
        let closed = db.close().at(&self.target.db);
        made.and(closed)?;
        let mut sizes = Vec::new();
        for entry in std::fs::read_dir(&self.to)? {
            sizes.push(entry?.metadata()?.len());
        }
        let (files, size) = (sizes.len() as u64, sizes.iter().sum::<u64>());
        let seconds = start.elapsed().as_secs_f64();
        let mut out = std::io::stdout().lock();
        if self.json {
            let to = self.to.to_string_lossy();
            let object =
                json!({"checkpoint": to, "files": files, "bytes": size, "seconds": seconds});
            writeln!(out, "{object}")?;
        } else {
            writeln!(
                out,
                "{}: {}, {} in {seconds:.2} s",
                self.to.display(),
                counted(files, "file"),
                bytes(size)
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
