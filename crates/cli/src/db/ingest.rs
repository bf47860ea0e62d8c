//! `db ingest`: tables that were written outside become part of a database.

use super::open::{Target, WriteFlags};
use crate::fail::{At, Failure};
use crate::term::counted;
use clap::Args;
use serde_json::json;
use spanlith::IngestOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Takes tables in: all of them or none.
#[derive(Debug, Args)]
pub struct Ingest {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    flags: WriteFlags,
    /// Tables, as `spanlith sst write` or RocksDB's `SstFileWriter` make them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Files are linked where that is possible, and their own names go
    #[arg(long = "move")]
    moves: bool,
    /// A file that overlaps anything is refused, so that the files stay as they are
    #[arg(long)]
    no_global_seqno: bool,
    /// Files that do not fit into the last level are refused
    #[arg(long)]
    only_bottommost: bool,
    /// The checksums of all blocks are verified first
    #[arg(long)]
    verify_checksums: bool,
    /// Tables that a database wrote are taken in, too, as long as they overlap nothing
    #[arg(long)]
    allow_db_generated: bool,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

impl Ingest {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let start = Instant::now();
        // Before opening, which replays logs and writes a MANIFEST and an OPTIONS file.
        self.target.check_tables(&self.files)?;
        let cf = self.target.open_read_write(&self.flags)?;
        let db = cf.db().clone();
        let options = IngestOptions::new()
            .move_files(self.moves)
            .allow_global_seqno(!self.no_global_seqno)
            .fail_if_not_bottommost_level(self.only_bottommost)
            .verify_checksums(self.verify_checksums)
            .allow_db_generated_files(self.allow_db_generated);
        let ingested = cf.ingest(&self.files, &options);
        drop(cf);
        let closed = db.close().at(&self.target.db);
        ingested.map_err(|e| {
            let hint = "no file was taken in; spanlith sst verify FILE shows whether one is whole";
            Failure::new(e.to_string(), hint)
        })?;
        closed?;
        let (files, seconds) = (self.files.len() as u64, start.elapsed().as_secs_f64());
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", json!({"files": files, "seconds": seconds}))?;
        } else {
            let done = counted(files, "file");
            writeln!(out, "{done} taken in, {seconds:.2} s")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
