//! `db flush`, `db compact` and `db compact-files`: work that normally runs in the background, now.

use super::Common;
use super::open::WriteFlags;
use super::verify::comparator_or_stand_in;
use crate::bytes::parse;
use crate::fail::{At, Usage};
use crate::inventory::Inventory;
use crate::term::{self, bytes, counted};
use clap::Args;
use serde_json::json;
use spanlith::{BottommostCompaction, Cf, CompactFilesOptions, CompactRangeOptions};
use std::cmp::Ordering;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

/// Writes memtables out.
#[derive(Debug, Args)]
pub struct Flush {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    flags: WriteFlags,
}

/// Compacts a range.
#[derive(Debug, Args)]
pub struct Compact {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    flags: WriteFlags,
    /// First key of the range; from the beginning if left out
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<String>,
    /// Last key of the range; to the end if left out
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<String>,
    /// Rewrites the deepest level too, which needs as much free space as the range takes
    #[arg(long)]
    force_bottommost: bool,
    /// Afterwards the files are listed in this level
    #[arg(long, value_name = "LEVEL")]
    target_level: Option<usize>,
    /// Threads that share the work; 0 is what the database's options say
    #[arg(long, value_name = "N", default_value_t = 0)]
    subcompactions: u32,
}

/// Compacts named tables.
#[derive(Debug, Args)]
pub struct CompactFiles {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    flags: WriteFlags,
    /// Numbers of the tables, as `db files` lists them: 12 or 000012.sst
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Level of the new tables
    #[arg(long, value_name = "LEVEL")]
    level: usize,
    /// Bytes at which new tables are cut
    #[arg(long, value_name = "BYTES")]
    file_size: Option<u64>,
}

/// Tables and their bytes.
fn shape(cf: &Cf) -> (u64, u64) {
    let files = cf.live_files();
    (files.len() as u64, files.iter().map(|f| f.size).sum())
}

/// Says what changed, and closes.
fn finish(
    common: &Common,
    cf: &Cf,
    before: (u64, u64),
    start: Instant,
) -> anyhow::Result<ExitCode> {
    let after = shape(cf);
    cf.db().clone().close().at(&common.target.db)?;
    let seconds = start.elapsed().as_secs_f64();
    let mut out = std::io::stdout().lock();
    if common.json {
        let object = json!({
            "family": cf.name(), "seconds": seconds,
            "tables_before": before.0, "bytes_before": before.1,
            "tables_after": after.0, "bytes_after": after.1,
        });
        writeln!(out, "{object}")?;
    } else {
        writeln!(
            out,
            "{}: {}, {} -> {}, {} in {seconds:.2} s",
            crate::bytes::show(cf.name().as_bytes(), false),
            counted(before.0, "table"),
            bytes(before.1),
            counted(after.0, "table"),
            bytes(after.1)
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Flush {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let cf = self.common.target.open_read_write(&self.flags)?;
        let (before, start) = (shape(&cf), Instant::now());
        cf.flush(true).at(&self.common.target.db)?;
        finish(&self.common, &cf, before, start)
    }
}

impl Compact {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Common { target, hex, .. } = &self.common;
        let from = self.from.as_deref().map(|k| parse(k, *hex)).transpose()?;
        let to = self.to.as_deref().map(|k| parse(k, *hex)).transpose()?;
        if let (Some(from), Some(to)) = (&from, &to)
            && let Ok(i) = Inventory::read(&target.db)
            && let Some(family) = i.family(&target.cf)
            && comparator_or_stand_in(&family.comparator).compare(from, to) == Ordering::Greater
        {
            return Err(Usage::new("--from lies behind --to", "--from FIRST --to LAST").into());
        }
        let cf = target.open_read_write(&self.flags)?;
        let (before, start) = (shape(&cf), Instant::now());
        let options = CompactRangeOptions {
            change_level: self.target_level.is_some(),
            target_level: self.target_level,
            bottommost: match self.force_bottommost {
                true => BottommostCompaction::ForceOptimized,
                false => BottommostCompaction::IfHaveCompactionFilter,
            },
            max_subcompactions: self.subcompactions,
            ..CompactRangeOptions::default()
        };
        let progress = term::spinner("", "compacting");
        let done = cf.compact_range_opt(from.as_deref(), to.as_deref(), &options);
        progress.finish_and_clear();
        done.at(&target.db)?;
        finish(&self.common, &cf, before, start)
    }
}

impl CompactFiles {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let numbers = self.files.iter().map(|text| number(text));
        let numbers: Vec<u64> = numbers.collect::<Result<_, _>>()?;
        let target = &self.common.target;
        // Before opening, which would write its logs out as tables.
        if let Ok(i) = Inventory::read(&target.db) {
            let there = i.family(&target.cf).map(|f| &f.files);
            let there: Vec<u64> = there.iter().flat_map(|f| f.keys()).map(|k| k.1).collect();
            if let Some(missing) = numbers.iter().find(|n| !there.contains(n)) {
                let all: Vec<String> = there.iter().map(u64::to_string).collect();
                return Err(crate::fail::Failure::new(
                    format!("table {missing} is not in family {}", target.cf),
                    format!("its tables: {}", all.join(" ")),
                )
                .into());
            }
        }
        let cf = target.open_read_write(&self.flags)?;
        let (before, start) = (shape(&cf), Instant::now());
        let options = CompactFilesOptions {
            output_file_size_limit: self.file_size.unwrap_or(u64::MAX),
            ..CompactFilesOptions::default()
        };
        let progress = term::spinner("", "compacting");
        let made = cf.compact_files(&numbers, self.level, &options);
        progress.finish_and_clear();
        let made = made.at(&target.db)?;
        if !self.common.json {
            let names = made.iter().map(|n| format!("{n:06}.sst"));
            tell!("new tables: {}", names.collect::<Vec<_>>().join(" "));
        }
        finish(&self.common, &cf, before, start)
    }
}

/// Number of a table as the user writes it.
fn number(text: &str) -> Result<u64, Usage> {
    let name = text.rsplit('/').next().unwrap_or(text);
    let digits = name.strip_suffix(".sst").unwrap_or(name);
    digits.parse().map_err(|_| {
        Usage::new(
            format!("'{text}' is no table"),
            "give numbers or names as spanlith db files lists them: 12 or 000012.sst",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_named_by_number_or_file() {
        assert_eq!(number("12").ok(), Some(12));
        assert_eq!(number("/db/000012.sst").ok(), Some(12));
        assert!(number("MANIFEST-000001").is_err());
    }
}
