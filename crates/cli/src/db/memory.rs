//! `db memory`: the memory a database takes once it is open, by owner.
//!
//! The database is opened for reading, with the options of its OPTIONS file where they matter, and what
//! it holds then is shown: memtables hold what the logs hold, readers hold indexes and filters. What a
//! running process holds only the process can say (`spanlith top` shows its resident size).

use super::Common;
use crate::fail::At;
use crate::term::bytes;
use clap::Args;
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

/// Shows memory by owner.
#[derive(Debug, Args)]
pub struct Memory {
    #[command(flatten)]
    common: Common,
}

/// A field of this process's status in KiB, as bytes; `None` where the system does not say.
fn resident() -> Option<u64> {
    crate::top::process::status_bytes(std::process::id(), "VmRSS:")
}

impl Memory {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let before = resident();
        let cf = self.common.target.open_read_only()?;
        let entries = cf.int_property("rocksdb.num-entries-imm-mem-tables");
        let metrics = cf.db().metrics();
        let after = resident();
        let grown = after.zip(before).map(|(a, b)| a.saturating_sub(b));
        let tables = cf.live_files();
        let mut out = std::io::stdout().lock();
        if self.common.json {
            let owners: serde_json::Map<_, _> = metrics
                .memory
                .iter()
                .map(|(owner, n)| (owner.name().to_string(), json!(n)))
                .collect();
            let object = json!({
                "memory": owners, "open_files": metrics.open_files, "tables": tables.len(),
                "entries_in_memtables": entries, "resident_growth": grown,
            });
            writeln!(out, "{object}")?;
        } else {
            for (owner, n) in &metrics.memory {
                writeln!(out, "{:<22}{:>12}", owner.name(), bytes(*n))?;
            }
            writeln!(out, "{:<22}{:>12}", "open files", metrics.open_files)?;
            if let Some(grown) = grown {
                writeln!(out, "{:<22}{:>12}", "process grew by", bytes(grown))?;
            }
        }
        cf.db().clone().close().at(&self.common.target.db)?;
        Ok(ExitCode::SUCCESS)
    }
}
