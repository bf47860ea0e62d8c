//! `sst write`: a table of lines KEY<TAB>VALUE, for `db ingest` or RocksDB's ingestion.

use crate::db::{Common, entry};
use crate::fail::{Failure, Usage};
use crate::term::{bytes, count, spinner};
use clap::Args;
use serde_json::json;
use spanlith::SstWriter;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

/// Writes a table.
#[derive(Debug, Args)]
pub struct Write {
    /// The table to make; must not exist
    #[arg(value_name = "TABLE")]
    table: PathBuf,
    /// File of lines KEY<TAB>VALUE in ascending order of keys, as `spanlith db scan` prints them;
    /// standard input if left out
    #[arg(value_name = "INPUT")]
    input: Option<PathBuf>,
    /// The database that is to take it in: the table is written as its options say
    #[command(flatten)]
    common: Common,
}

impl Write {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.table.exists() {
            let text = format!("{} exists", self.table.display());
            return Err(Usage::new(text, "give the table a name that is free").into());
        }
        let input: Box<dyn Read> = match &self.input {
            None => Box::new(std::io::stdin()),
            Some(path) => Box::new(File::open(path).map_err(|e| {
                Failure::new(
                    format!("cannot read {}: {e}", path.display()),
                    "check the path",
                )
            })?),
        };
        let family = self.common.target.family_options()?;
        let result = self.write(input, family);
        if result.is_err() {
            // Half a table helps nobody.
            let _ = std::fs::remove_file(&self.table);
        }
        let file = result?;
        let mut out = std::io::stdout().lock();
        if self.common.json {
            let table = self.table.to_string_lossy();
            let object = json!({"table": table, "entries": file.entries, "bytes": file.size});
            writeln!(out, "{object}")?;
        } else {
            let entries = match file.entries {
                1 => "1 entry".to_string(),
                n => format!("{} entries", count(n)),
            };
            writeln!(
                out,
                "{}: {entries}, {}",
                self.table.display(),
                bytes(file.size)
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn write(
        &self,
        input: Box<dyn Read>,
        family: spanlith::FamilyOptions,
    ) -> anyhow::Result<spanlith::SstFile> {
        let path = self.table.display().to_string();
        let failed = |e: spanlith::Error| Failure::new(format!("{path}: {e}"), "nothing was made");
        let mut table = SstWriter::create(&self.table, family).map_err(failed)?;
        let progress = spinner("entries", "writing");
        let mut input = BufReader::with_capacity(256 << 10, input);
        let (mut line, mut number) = (Vec::new(), 0u64);
        loop {
            line.clear();
            let read = input.read_until(b'\n', &mut line);
            if read
                .map_err(|e| Failure::new(format!("reading the input: {e}"), "nothing was made"))?
                == 0
            {
                break;
            }
            number += 1;
            let at = |why: String, hint: &str| Failure::new(format!("line {number}: {why}"), hint);
            let (key, value) = entry(&line, self.common.hex).map_err(|why| {
                at(
                    why,
                    "nothing was made; lines are KEY<TAB>VALUE, as spanlith db scan prints them",
                )
            })?;
            table
                .put(key, self.common.target.stored(value))
                .map_err(|e| {
                    at(
                        e.to_string(),
                        "nothing was made; keys ascend, and none comes twice",
                    )
                })?;
            if number.is_multiple_of(1024) {
                progress.set_position(number);
            }
        }
        progress.finish_and_clear();
        if number == 0 {
            return Err(Failure::new("there are no lines", "nothing was made").into());
        }
        Ok(table.finish().map_err(failed)?)
    }
}
