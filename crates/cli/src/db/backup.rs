//! `db backup` and `db restore`: copies of databases that share what they have in common, in RocksDB's directories.

use super::open::{Target, WriteFlags};
use crate::fail::{At, Failure, holds_remains, shell_word};
use crate::term::{self, Paint, bytes, count, counted};
use clap::{Args, Subcommand};
use serde_json::json;
use spanlith::{
    BackupEngine, BackupInfo, BackupOptions, CreateBackupOptions, RestoreMode, RestoreOptions,
};
use spanlith_env::Env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  spanlith db backup create --db /data/db /backups      tables that are there already are not copied again
  spanlith db backup list /backups
  spanlith db backup verify /backups --checksums        every byte of every backup
  spanlith db backup purge /backups --keep 7
  spanlith db restore --from /backups --db /data/db     the newest; all is copied and compared first

A directory of backups is RocksDB's: either engine restores, and adds to, what the other saved.";

/// Verbs of `db backup`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Backup {
    /// Makes a backup of a database as it is now
    #[command(after_help = EXAMPLES)]
    Create(Box<Create>),
    /// Lists the backups; exit code 1 if one is damaged
    List(List),
    /// Looks whether the files of backups are there and whole; exit code 1 if not
    Verify(Verify),
    /// Deletes a backup, damaged or not, and the files that only it has
    Delete(Delete),
    /// Deletes the oldest backups
    Purge(Purge),
}

/// Flags of `db backup create`.
#[derive(Debug, Args)]
pub struct Create {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    flags: WriteFlags,
    /// Directory of the backups; made if it is missing
    #[arg(value_name = "BACKUPS")]
    to: PathBuf,
    /// Memtables are written out as tables first, instead of copying the logs
    #[arg(long)]
    flush: bool,
    /// Copies at most so many bytes per second; 0 is as fast as can be
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    bytes_per_second: u64,
    /// Kept with the backup
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Flags of `db backup list`.
#[derive(Debug, Args)]
pub struct List {
    /// Directory of the backups
    #[arg(value_name = "BACKUPS")]
    dir: PathBuf,
    /// Prints JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Flags of `db backup verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// Directory of the backups
    #[arg(value_name = "BACKUPS")]
    dir: PathBuf,
    /// Only this one
    #[arg(long, value_name = "N")]
    id: Option<u32>,
    /// Reads every byte; without, names and sizes count
    #[arg(long)]
    checksums: bool,
    /// Prints JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Flags of `db backup delete`.
#[derive(Debug, Args)]
pub struct Delete {
    /// Directory of the backups
    #[arg(value_name = "BACKUPS")]
    dir: PathBuf,
    /// Its number
    #[arg(value_name = "N")]
    id: u32,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Flags of `db backup purge`.
#[derive(Debug, Args)]
pub struct Purge {
    /// Directory of the backups
    #[arg(value_name = "BACKUPS")]
    dir: PathBuf,
    /// So many of the newest stay
    #[arg(long, value_name = "N")]
    keep: u32,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Restores a backup as a database. What is there of one goes once everything is copied and compared
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Restore {
    /// Directory of the backups
    #[arg(long, value_name = "BACKUPS")]
    from: PathBuf,
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Directory of its logs; that of the database if left out
    #[arg(long, value_name = "DIR")]
    wal_dir: Option<PathBuf>,
    /// Number of the backup; the newest if left out
    #[arg(long, value_name = "N")]
    id: Option<u32>,
    /// Puts the backup in the place of the database that is there
    #[arg(long)]
    replace: bool,
    /// Logs that are there stay: to go on from a backup made without logs
    #[arg(long)]
    keep_logs: bool,
    /// Tables that are there and are the same stay and are not copied
    #[arg(long)]
    keep_same: bool,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Runs a verb.
///
/// # Errors
/// What failed, with the way out.
pub fn run(verb: Backup) -> anyhow::Result<ExitCode> {
    match verb {
        Backup::Create(v) => v.run(),
        Backup::List(v) => v.run(),
        Backup::Verify(v) => v.run(),
        Backup::Delete(v) => v.run(),
        Backup::Purge(v) => v.run(),
    }
}

/// Opens a directory that is there.
fn open(dir: &Path) -> anyhow::Result<BackupEngine> {
    if !dir.join("meta").is_dir() {
        let text = format!("{}: no directory of backups", dir.display());
        let hint = "spanlith db backup create --db DIR BACKUPS makes one";
        return Err(Failure::new(text, hint).into());
    }
    BackupEngine::open(BackupOptions::new(dir), &Env::system()).at(dir)
}

fn info_json(info: &BackupInfo) -> serde_json::Value {
    json!({
        "id": info.id, "timestamp": info.timestamp, "sequence": info.sequence, "bytes": info.size,
        "files": info.files, "excluded": info.excluded,
        "note": String::from_utf8_lossy(&info.app_metadata),
    })
}

impl Create {
    fn run(self) -> anyhow::Result<ExitCode> {
        let start = Instant::now();
        let cf = self.target.open_read_write(&self.flags)?;
        let db = cf.db().clone();
        drop(cf);
        let env = Env::system();
        let options = BackupOptions::new(&self.to).backup_rate_limit(self.bytes_per_second, &env);
        let backups = BackupEngine::open(options, &env).at(&self.to)?;
        let progress = term::spinner("steps of 4 MiB", "copying");
        let mut how = CreateBackupOptions::default();
        how.flush_before_backup = self.flush;
        how.app_metadata = self.note.clone().into_bytes();
        let shown = progress.clone();
        how.progress = Some(Arc::new(move || shown.inc(1)));
        let made = backups.create(&db, &how).at(&self.to);
        progress.finish_and_clear();
        let closed = db.close().at(&self.target.db);
        let id = made?;
        closed?;
        let info = backups.backups().into_iter().find(|b| b.id == id);
        let (files, size) = info.as_ref().map_or((0, 0), |i| (i.files, i.size));
        let seconds = start.elapsed().as_secs_f64();
        let mut out = std::io::stdout().lock();
        if self.json {
            let object = json!({"id": id, "files": files, "bytes": size, "seconds": seconds});
            writeln!(out, "{object}")?;
        } else {
            writeln!(
                out,
                "backup {id}: {}, {} in {seconds:.2} s",
                counted(files.into(), "file"),
                bytes(size)
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl List {
    fn run(self) -> anyhow::Result<ExitCode> {
        let backups = open(&self.dir)?;
        let damaged = backups.damaged();
        let mut out = std::io::stdout().lock();
        for info in backups.backups() {
            if self.json {
                writeln!(out, "{}", info_json(&info))?;
                continue;
            }
            let note = String::from_utf8_lossy(&info.app_metadata).into_owned();
            let left_out = match info.excluded.len() as u64 {
                0 => String::new(),
                n => format!(", {} left out", count(n)),
            };
            writeln!(
                out,
                "backup {}: {}, sequence number {}, {}{left_out}, {}{}",
                info.id,
                term::utc(u64::try_from(info.timestamp).unwrap_or(0)),
                count(info.sequence),
                counted(info.files.into(), "file"),
                bytes(info.size),
                if note.is_empty() {
                    note
                } else {
                    format!(": {}", note.escape_debug())
                }
            )?;
        }
        let paint = Paint::stdout();
        for (id, error) in &damaged {
            if self.json {
                let object = json!({"id": id, "damage": error.to_string()});
                writeln!(out, "{object}")?;
            } else {
                writeln!(out, "backup {id}: {}: {error}", paint.red("damaged"))?;
            }
        }
        Ok(ExitCode::from(u8::from(!damaged.is_empty())))
    }
}

impl Verify {
    fn run(self) -> anyhow::Result<ExitCode> {
        let backups = open(&self.dir)?;
        let damaged = backups.damaged();
        let there = backups.backups().into_iter().map(|b| b.id);
        let all = there.chain(damaged.iter().map(|(id, _)| *id));
        let mut ids: Vec<u32> = match self.id {
            Some(id) => vec![id],
            None => all.collect(),
        };
        ids.sort_unstable();
        let progress = term::bar(ids.len() as u64, "backups", "verifying");
        let mut is_clean = true;
        let mut lines = Vec::new();
        for id in ids {
            let result = backups.verify(id, self.checksums);
            progress.inc(1);
            is_clean &= result.is_ok();
            lines.push((id, result.err().map(|e| e.to_string())));
        }
        progress.finish_and_clear();
        let (mut out, paint) = (std::io::stdout().lock(), Paint::stdout());
        for (id, error) in lines {
            if self.json {
                let object = json!({"id": id, "ok": error.is_none(), "damage": error});
                writeln!(out, "{object}")?;
                continue;
            }
            match error {
                None => writeln!(out, "backup {id}: {}", paint.green("ok"))?,
                Some(text) => writeln!(out, "backup {id}: {}: {text}", paint.red("not ok"))?,
            }
        }
        Ok(ExitCode::from(u8::from(!is_clean)))
    }
}

/// Tells what is left.
fn tell_left(dir: &Path, backups: &BackupEngine, json: bool) -> anyhow::Result<ExitCode> {
    let left: Vec<u32> = backups.backups().iter().map(|b| b.id).collect();
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", json!({ "left": left }))?;
    } else {
        let done = counted(left.len() as u64, "backup");
        writeln!(out, "{}: {done} left", dir.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Delete {
    fn run(self) -> anyhow::Result<ExitCode> {
        let backups = open(&self.dir)?;
        backups.delete(self.id).map_err(|e| {
            let hint = format!("spanlith db backup list {}", shell_word(&self.dir));
            Failure::new(format!("backup {}: {e}", self.id), hint)
        })?;
        tell_left(&self.dir, &backups, self.json)
    }
}

impl Purge {
    fn run(self) -> anyhow::Result<ExitCode> {
        let backups = open(&self.dir)?;
        backups.purge(self.keep).at(&self.dir)?;
        tell_left(&self.dir, &backups, self.json)
    }
}

impl Restore {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let start = Instant::now();
        let backups = open(&self.from)?;
        let newest = backups.backups().into_iter().map(|b| b.id).max();
        let asked = self.replace || self.keep_same || self.keep_logs;
        if !asked && holds_remains(&self.db) {
            let dir = shell_word(&self.db);
            return Err(Failure::new(
                format!(
                    "{}: there is a database already, which a restore would replace",
                    self.db.display()
                ),
                format!(
                    "restore into another directory, or add --replace if nothing of {dir} is needed; \
                     --keep-same copies only what differs"
                ),
            )
            .into());
        }
        let mut options = RestoreOptions::default();
        options.keep_log_files = self.keep_logs;
        if self.keep_same {
            options.mode = RestoreMode::KeepSame;
        }
        let wal_dir = self.wal_dir.as_ref().unwrap_or(&self.db);
        let progress = term::spinner("", "restoring");
        let restored = backups.restore(self.id, &self.db, wal_dir, &options);
        progress.finish_and_clear();
        restored.map_err(|e| {
            let hint = match e.subcode() {
                Some(spanlith::SubCode::LockHeld) => "close the database first".to_string(),
                _ => format!(
                    "spanlith db backup verify --checksums {} says which can be restored",
                    shell_word(&self.from)
                ),
            };
            Failure::new(e.to_string(), hint)
        })?;
        let id = self.id.or(newest).unwrap_or(0);
        let seconds = start.elapsed().as_secs_f64();
        let mut out = std::io::stdout().lock();
        if self.json {
            let db = self.db.to_string_lossy();
            let object = json!({"id": id, "db": db, "seconds": seconds});
            writeln!(out, "{object}")?;
        } else {
            let to = self.db.display();
            writeln!(out, "{to}: backup {id} restored in {seconds:.2} s")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
