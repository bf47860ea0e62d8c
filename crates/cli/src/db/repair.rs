//! `db repair`: a new MANIFEST of the tables, blob files and logs that are left.

use super::open::{How, Target, WriteFlags};
use crate::fail::{At, Failure, shell_word};
use crate::overlay::Overlay;
use crate::own::OwnFlags;
use crate::term::{bytes, counted};
use clap::Args;
use serde_json::json;
use spanlith::RepairReport;
use spanlith_env::Env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Puts a directory together again whose CURRENT, MANIFEST or tables are lost or damaged. What cannot be read or is not
/// needed any more is in lost/ afterwards; nothing is deleted. `doctor` says whether there is a better way.
#[derive(Debug, Args)]
pub struct Repair {
    /// Directory of the database, which nobody may have open
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    #[command(flatten)]
    how: How,
    /// Replays logs with default options instead of those in the OPTIONS file
    #[arg(long)]
    default_options: bool,
    /// Shows what would be done and changes nothing; takes the memory of the tables that are made of the logs
    #[arg(long)]
    dry_run: bool,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    own: OwnFlags,
}

impl Repair {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let flags = WriteFlags {
            default_options: self.default_options,
            own: self.own,
            ..WriteFlags::plain()
        };
        let target = Target {
            db: self.db,
            cf: "default".to_string(),
            how: self.how,
        };
        let env = match self.dry_run {
            true => Env {
                fs: Arc::new(Overlay::new(Env::system().fs)),
                ..Env::system()
            },
            false => Env::system(),
        };
        let report = repair(&target, &flags, env)?;
        let mut out = std::io::stdout().lock();
        match self.json {
            true => writeln!(out, "{}", object(&target.db, &report, self.dry_run))?,
            false => print(&mut out, &target.db, &report, self.dry_run)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Repairs the directory of a target, with the options that it records.
///
/// # Errors
/// `Failure` of a directory without a file of a database; those of the engine.
pub fn repair(target: &Target, flags: &WriteFlags, env: Env) -> anyhow::Result<RepairReport> {
    let builder = target.prepare_repair(flags)?.ok_or_else(|| {
        let text = format!(
            "{}: no MANIFEST, no table and no log of a database",
            target.db.display()
        );
        let hint = format!("check the path: ls -l {}", shell_word(&target.db));
        Failure::new(text, hint)
    })?;
    builder.env(env).repair().at(&target.db)
}

/// Path of a file below the directory of the database.
fn short<'p>(dir: &Path, path: &'p Path) -> std::path::Display<'p> {
    path.strip_prefix(dir).unwrap_or(path).display()
}

fn print(
    out: &mut impl Write,
    dir: &Path,
    report: &RepairReport,
    is_dry: bool,
) -> std::io::Result<()> {
    let verb = if is_dry { "would have" } else { "has" };
    writeln!(
        out,
        "{} {verb} {} in {}, {}; {} replayed",
        dir.display(),
        counted(report.tables as u64, "table"),
        counted_families(report),
        bytes(report.table_bytes),
        counted(report.logs as u64, "log"),
    )?;
    for file in &report.lost {
        writeln!(out, "{}: {}", short(dir, &file.path), file.why)?;
    }
    for what in &report.missing {
        writeln!(out, "missing: {what}")?;
    }
    for name in &report.doubted {
        writeln!(
            out,
            "column family '{name}': the MANIFEST does not fit the tables; what had been deleted or overwritten may have come \
             to light"
        )?;
    }
    if report.is_without_manifest {
        writeln!(
            out,
            "no MANIFEST could be read to its end: what had been deleted or overwritten may have come to light"
        )?;
    }
    Ok(())
}

fn counted_families(report: &RepairReport) -> String {
    match report.families.len() {
        1 => "1 column family".to_string(),
        n => format!("{n} column families"),
    }
}

fn object(dir: &Path, report: &RepairReport, is_dry: bool) -> serde_json::Value {
    let lost = report.lost.iter().map(|file| {
        let path = short(dir, &file.path).to_string();
        json!({"file": path, "why": file.why, "is_loss": file.is_loss})
    });
    json!({
        "dry_run": is_dry, "families": report.families, "tables": report.tables,
        "table_bytes": report.table_bytes, "logs": report.logs,
        "lost": lost.collect::<Vec<_>>(), "missing": report.missing,
        "without_manifest": report.is_without_manifest, "doubted": report.doubted,
    })
}
