//! `db migrate`: tables come to a speed disk, and a database leaves it.

use crate::fail::{At, Failure, Usage, shell_word};
use crate::places::TableFlags;
use crate::sd::parse_size;
use crate::term::counted;
use clap::Args;
use serde_json::json;
use spanlith::options::{DbOptions, SdPlacement};
use spanlith::version::FilePaths;
use spanlith::{
    Error, MovedTables, SpeedSource, TablesAt, ToFiles, migrate_tables_to_files, migrate_to_files,
    migrate_to_speed_disk,
};
use spanlith_env::Env;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Brings tables of a database to a speed disk, or its logs and tables from there into files, so that the directory is one
/// that RocksDB opens.
#[derive(Debug, Args)]
pub struct Migrate {
    /// Directory of the database, which nobody may have open
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Logs and tables become files of the database's directories again
    #[arg(long)]
    to_files: bool,
    /// Tables of the upper levels go to this directory of a speed disk, or to this speed disk itself
    #[arg(long, value_name = "DIR|DISK", conflicts_with = "to_files")]
    to_speed_disk: Option<PathBuf>,
    /// Bytes that tables may take there; without it, what is free there
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "to_speed_disk")]
    size: Option<u64>,
    /// Which levels go there: `lad:N`, or as many as fit
    #[arg(long, value_name = "auto|lad:N", value_parser = parse_placement, requires = "to_speed_disk")]
    placement: Option<SdPlacement>,
    /// The speed disk of the logs, if it is not where it was
    #[arg(long, value_name = "DISK", conflicts_with = "lose_logs")]
    sd_path: Option<String>,
    /// The directory of tables on the speed disk, if it is not where it was
    #[arg(long, value_name = "DIR")]
    sd_tables_path: Option<PathBuf>,
    /// The speed disk of the logs is gone: every write since the last flush is lost
    #[arg(long)]
    lose_logs: bool,
    /// The directory of tables is gone: of their keys older values, and deleted keys, may come back
    #[arg(long)]
    lose_tables: bool,
    /// Directory of the logs, if it is not that of the database
    #[arg(long, value_name = "DIR")]
    wal_dir: Option<PathBuf>,
    #[command(flatten)]
    places: TableFlags,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

fn parse_placement(text: &str) -> Result<SdPlacement, String> {
    let policy = text.parse().map(SdPlacement);
    policy.map_err(|()| "not lad:N with N up to 64, or auto".to_string())
}

impl Migrate {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match &self.to_speed_disk {
            Some(to) => self.to_speed_disk(to),
            None if self.to_files => self.to_files(),
            None => {
                let hint = "--to-files brings logs and tables back into files, --to-speed-disk DIR takes tables there; a speed \
                            disk for the logs is taken by --set sd_path=DISK";
                Err(Usage::new("db migrate knows two ways", hint).into())
            }
        }
    }

    /// Directories of the tables of a family.
    fn paths(&self) -> anyhow::Result<impl Fn(&str) -> FilePaths> {
        let (places, dir) = (self.places.parse()?, self.db.clone());
        Ok(move |family: &str| {
            let paths = places.of(family).unwrap_or(&places.db);
            match paths.is_empty() {
                true => FilePaths::one(&dir),
                false => FilePaths::new(paths.clone()),
            }
        })
    }

    /// The failure, with the way out.
    fn failed(&self, e: Error) -> anyhow::Error {
        let text = e.to_string();
        let dir = shell_word(&self.db);
        let hint = if text.contains("is missing, and with it the logs") {
            let flags = match text.contains("--lose-tables") {
                true => "--lose-logs --lose-tables",
                false => "--lose-logs",
            };
            format!(
                "--sd-path DISK says where it is now; if it is gone for good, spanlith db migrate --to-files \
                 {flags} --db {dir} opens what is left"
            )
        } else if text.contains("is missing, and with it") {
            format!(
                "--sd-tables-path DIR says where it is now; if it is gone for good, a backup is the better way; spanlith \
                 db migrate --to-files --lose-tables --db {dir} opens the rest"
            )
        } else {
            return match Err::<(), _>(e).at(&self.db) {
                Err(e) => e,
                Ok(()) => Failure::new("nothing failed", "").into(),
            };
        };
        Failure::new(text, hint).into()
    }

    fn to_speed_disk(&self, to: &std::path::Path) -> anyhow::Result<ExitCode> {
        let paths = self.paths()?;
        let env = Env::system();
        let (placement, size) = (self.placement.unwrap_or_default(), self.size.unwrap_or(0));
        let done = migrate_to_speed_disk(&env, &self.db, &paths, to, placement, size);
        let done = done.map_err(|e| self.failed(e))?;
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", tables_json(&done))?;
        } else {
            writeln!(
                out,
                "{} ({}) brought to {}",
                counted(done.tables as u64, "table"),
                counted(done.bytes, "byte"),
                to.display()
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn to_files(&self) -> anyhow::Result<ExitCode> {
        let paths = self.paths()?;
        let mut options = DbOptions::default();
        if let Some(dir) = &self.wal_dir {
            options.wal_dir = dir.to_string_lossy().into_owned();
        }
        let source = self.sd_path.clone().map(SpeedSource::Path);
        let env = Env::system();
        // Tables may be on the disk of the logs, which is nobody's once these have left.
        let at = TablesAt {
            dir: self.sd_tables_path.clone(),
            disk: source.clone(),
        };
        let tables = migrate_tables_to_files(&env, &self.db, &paths, &at, self.lose_tables);
        let tables = tables.map_err(|e| self.failed(e))?;
        let logs = migrate_to_files(&env, &self.db, &options, source.as_ref(), self.lose_logs);
        let logs = logs.map_err(|e| self.failed(e))?;
        self.report(&logs, &tables)?;
        Ok(ExitCode::SUCCESS)
    }

    fn report(&self, logs: &ToFiles, tables: &MovedTables) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        if self.json {
            let mut object = json!({
                "logs": logs.logs, "was_on_files": logs.was_on_files && tables.was_on_files,
                "lost_logs": logs.lost_logs,
            });
            object["tables"] = tables_json(tables);
            writeln!(out, "{object}")?;
            return Ok(());
        }
        if logs.was_on_files {
            writeln!(out, "the logs are files already")?;
        } else if logs.lost_logs {
            writeln!(
                out,
                "the logs on the speed disk were given up; the next open needs --give-up-damage (synced_log_damage=truncate)"
            )?;
        } else {
            writeln!(
                out,
                "{} brought back into files",
                counted(logs.logs as u64, "log")
            )?;
        }
        if tables.lost > 0 {
            writeln!(
                out,
                "{} on the speed disk given up: of their keys older values, and deleted keys, may have come back",
                counted(tables.lost as u64, "table")
            )?;
        }
        if tables.tables > 0 {
            writeln!(
                out,
                "{} ({}) brought back",
                counted(tables.tables as u64, "table"),
                counted(tables.bytes, "byte")
            )?;
        }
        Ok(())
    }
}

fn tables_json(done: &MovedTables) -> serde_json::Value {
    json!({
        "moved": done.tables, "bytes": done.bytes, "lost": done.lost, "was_on_files": done.was_on_files,
    })
}
