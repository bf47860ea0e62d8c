//! `db migrate`: a database leaves its speed disk.

use crate::fail::{At, Failure, Usage, shell_word};
use crate::term::counted;
use clap::Args;
use serde_json::json;
use spanlith::options::DbOptions;
use spanlith::{SpeedSource, migrate_to_files};
use spanlith_env::Env;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Brings the logs from a speed disk back into files, so that the directory is one that RocksDB opens.
#[derive(Debug, Args)]
pub struct Migrate {
    /// Directory of the database, which nobody may have open
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// The logs become files again
    #[arg(long)]
    to_files: bool,
    /// The speed disk, if it is not where it was
    #[arg(long, value_name = "DISK", conflicts_with = "lose_logs")]
    sd_path: Option<String>,
    /// The speed disk is gone: every write since the last flush is lost
    #[arg(long)]
    lose_logs: bool,
    /// Directory of the logs, if it is not that of the database
    #[arg(long, value_name = "DIR")]
    wal_dir: Option<PathBuf>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

impl Migrate {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if !self.to_files {
            let hint = "spanlith db migrate --to-files --db DIR; a speed disk is taken by --set sd_path=DISK";
            return Err(Usage::new("db migrate knows one way", hint).into());
        }
        let mut options = DbOptions::default();
        if let Some(dir) = &self.wal_dir {
            options.wal_dir = dir.to_string_lossy().into_owned();
        }
        let source = self.sd_path.map(SpeedSource::Path);
        let env = Env::system();
        let done = migrate_to_files(&env, &self.db, &options, source.as_ref(), self.lose_logs);
        let done = done.map_err(|e| match e.to_string() {
            text if text.contains("is missing") => {
                let dir = shell_word(&self.db);
                let hint = format!(
                    "--sd-path DISK says where it is now; if it is gone for good, spanlith db migrate --to-files \
                     --lose-logs --db {dir} opens the tables without the logs"
                );
                Failure::new(text, hint).into()
            }
            _ => match Err::<(), _>(e).at(&self.db) {
                Err(e) => e,
                Ok(()) => Failure::new("nothing failed", "").into(),
            },
        });
        let done = done?;
        let mut out = std::io::stdout().lock();
        if self.json {
            let object = json!({
                "logs": done.logs, "was_on_files": done.was_on_files, "lost_logs": done.lost_logs,
            });
            writeln!(out, "{object}")?;
        } else if done.was_on_files {
            writeln!(out, "the logs are files already")?;
        } else if done.lost_logs {
            writeln!(
                out,
                "the logs on the speed disk were given up; the next open needs --give-up-damage (synced_log_damage=truncate)"
            )?;
        } else {
            writeln!(
                out,
                "{} brought back into files",
                counted(done.logs as u64, "log")
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
