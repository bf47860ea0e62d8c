//! `db properties`, `db options` and `db set-options`: what a database says of itself, and what it is
//! told.

use super::Common;
use super::open::{Target, WriteFlags};
use crate::fail::{At, Failure, Usage};
use crate::inventory::Inventory;
use clap::Args;
use serde_json::{Map, Value, json};
use spanlith::ErrorKind;
use spanlith::options::{
    BlockBasedTableOptions, CfOptions, DbOptions, OptionScope, OptionTable, Sidecar, get_own,
    own_options,
};
use spanlith_env::Env;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Properties shown if none is named, without their prefix. Texts of many lines are asked for by name.
const SHOWN: [&str; 36] = [
    "num-immutable-mem-table",
    "num-immutable-mem-table-flushed",
    "mem-table-flush-pending",
    "num-running-flushes",
    "compaction-pending",
    "num-running-compactions",
    "background-errors",
    "cur-size-active-mem-table",
    "cur-size-all-mem-tables",
    "size-all-mem-tables",
    "num-entries-active-mem-table",
    "num-entries-imm-mem-tables",
    "num-deletes-active-mem-table",
    "num-deletes-imm-mem-tables",
    "estimate-num-keys",
    "estimate-table-readers-mem",
    "is-file-deletions-enabled",
    "num-snapshots",
    "oldest-snapshot-time",
    "oldest-snapshot-sequence",
    "num-live-versions",
    "current-super-version-number",
    "estimate-live-data-size",
    "min-log-number-to-keep",
    "min-obsolete-sst-number-to-keep",
    "total-sst-files-size",
    "live-sst-files-size",
    "base-level",
    "estimate-pending-compaction-bytes",
    "actual-delayed-write-rate",
    "is-write-stopped",
    "num-blob-files",
    "total-blob-file-size",
    "live-blob-file-size",
    "live-blob-file-garbage-size",
    "block-cache-usage",
];

/// Texts of many lines, named in the help.
const TEXTS: &str = "rocksdb.stats, rocksdb.cfstats, rocksdb.dbstats, rocksdb.levelstats, \
                     rocksdb.sstables, rocksdb.aggregated-table-properties, rocksdb.blob-stats";

/// Prints properties.
#[derive(Debug, Args)]
pub struct Properties {
    #[command(flatten)]
    common: Common,
    /// Names as RocksDB has them; `rocksdb.` may be left out. Without any, the numbers are shown;
    /// stats, cfstats, dbstats, levelstats, sstables, aggregated-table-properties and blob-stats are
    /// texts
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

impl Properties {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let cf = self.common.target.open_read_only()?;
        let full = |name: &str| match name.starts_with("rocksdb.") {
            true => name.to_string(),
            false => format!("rocksdb.{name}"),
        };
        let mut found: Vec<(String, String)> = Vec::new();
        if self.names.is_empty() {
            for name in SHOWN {
                let name = full(name);
                if let Some(value) = cf.property(&name) {
                    found.push((name, value));
                }
            }
            for level in 0..cf.num_levels() {
                let name = format!("rocksdb.num-files-at-level{level}");
                if let Some(value) = cf.property(&name) {
                    found.push((name, value));
                }
            }
        }
        for name in self.names.iter().map(|n| full(n)) {
            let Some(value) = cf.property(&name) else {
                return Err(Usage::new(
                    format!("unknown property '{name}'"),
                    format!("spanlith db properties lists the numbers; texts are {TEXTS}"),
                )
                .into());
            };
            found.push((name, value));
        }
        let mut out = std::io::stdout().lock();
        if self.common.json {
            let value = |v: &String| v.parse::<u64>().map_or_else(|_| json!(v), |n| json!(n));
            let object: Map<String, Value> =
                found.iter().map(|(n, v)| (n.clone(), value(v))).collect();
            writeln!(out, "{}", Value::Object(object))?;
        } else if let ([(_, value)], 1) = (&found[..], self.names.len()) {
            writeln!(out, "{}", value.trim_end())?;
        } else {
            for (name, value) in found {
                writeln!(out, "{name}\t{}", value.trim_end())?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints options.
#[derive(Debug, Args)]
pub struct Options {
    /// Directory of the database
    #[arg(long, value_name = "DIR", required_unless_present = "own")]
    db: Option<PathBuf>,
    /// Only options that RocksDB does not have, with their meaning; without --db their defaults
    #[arg(long)]
    own: bool,
    /// Only this column family; all of them if left out
    #[arg(long, value_name = "NAME")]
    cf: Option<String>,
    /// Only options that differ from RocksDB 11.8's defaults
    #[arg(long)]
    changed: bool,
    /// Only options whose names contain this
    #[arg(value_name = "PART")]
    part: Option<String>,
    /// Prints JSON, one object a line
    #[arg(long)]
    json: bool,
}

impl Options {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Some(db) = self.db.as_ref().filter(|_| !self.own) else {
            return self.run_own();
        };
        let inventory = Inventory::read(db).at(db)?;
        if let Some(name) = &self.cf {
            super::open::known_family(&inventory, name)?;
        }
        let Some(file) = &inventory.options else {
            return Err(Failure::new(
                format!("{} has no OPTIONS file", db.display()),
                "an engine that opens the database writes one: spanlith db flush",
            )
            .into());
        };
        let parsed = file.parsed.as_ref().map_err(|e| {
            Failure::new(
                format!("{}: {e}", file.name),
                "the file is text: mend the line, or move the file away and open the database",
            )
        })?;
        if let Some(part) = &self.part
            && !has_option(part)
        {
            return Err(Failure::new(
                format!("no option has '{part}' in its name"),
                "without a name all options are listed",
            )
            .into());
        }
        let mut out = std::io::stdout().lock();
        if !self.json {
            let [major, minor, patch] = parsed.rocksdb_version;
            writeln!(
                out,
                "# {}, as of RocksDB {major}.{minor}.{patch}",
                file.name
            )?;
        }
        if self.cf.is_none() {
            self.section(&mut out, "database", "", &parsed.db)?;
        }
        for cf in &parsed.cfs {
            if self.cf.as_ref().is_some_and(|name| *name != cf.name) {
                continue;
            }
            self.section(&mut out, "family", &cf.name, &cf.options)?;
            self.section(&mut out, "table", &cf.name, &cf.table)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Options that RocksDB does not have, as the file `SPANLITH` records them.
    fn run_own(&self) -> anyhow::Result<ExitCode> {
        let recorded = match &self.db {
            None => None,
            Some(db) => {
                let inventory = Inventory::read(db).at(db)?;
                if let Some(name) = &self.cf {
                    super::open::known_family(&inventory, name)?;
                }
                Sidecar::load(&Env::system(), db).at(db)?
            }
        };
        let recorded = recorded.unwrap_or_default();
        let family = recorded.family(self.cf.as_deref().unwrap_or("default"));
        let mut out = std::io::stdout().lock();
        for option in own_options() {
            let value = get_own(option.name, &recorded.db, &family)?;
            let differs = value != option.default;
            let part = self.part.as_deref().unwrap_or("");
            if (self.changed && !differs) || !option.name.contains(part) {
                continue;
            }
            let scope = match option.scope {
                OptionScope::Database => "database",
                OptionScope::Family => "family",
            };
            let meaning = option.doc.split_ascii_whitespace();
            let meaning = meaning.collect::<Vec<_>>().join(" ");
            if self.json {
                let bounds = option.bounds.map(|(low, high)| json!([low, high]));
                let object = json!({
                    "section": scope, "name": option.name, "value": value, "changed": differs,
                    "default": option.default, "bounds": bounds, "mutable": option.mutable,
                    "type": option.type_name, "meaning": meaning,
                });
                writeln!(out, "{object}")?;
                continue;
            }
            let mark = if differs { "*" } else { " " };
            let bounds = option
                .bounds
                .map(|(low, high)| format!(" ({low} to {high})"));
            let when = if option.mutable {
                ", may be changed while open"
            } else {
                ""
            };
            writeln!(
                out,
                "{scope}\t{mark} {}={value}{}{when}\n    {meaning}",
                option.name,
                bounds.unwrap_or_default()
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn section<T: OptionTable>(
        &self,
        out: &mut dyn Write,
        kind: &str,
        family: &str,
        options: &T,
    ) -> std::io::Result<()> {
        let changed = options.changed();
        let names: Vec<&'static str> = T::ROWS.iter().map(|row| row.name).collect();
        let part = self.part.as_deref().unwrap_or("");
        for name in names {
            let differs = changed.contains(&name);
            if (self.changed && !differs) || !name.contains(part) {
                continue;
            }
            let value = options.get_option(name).unwrap_or_default();
            if self.json {
                let object = json!({
                    "section": kind, "family": family, "name": name, "value": value,
                    "changed": differs,
                });
                writeln!(out, "{object}")?;
            } else {
                let family = crate::bytes::show(family.as_bytes(), false);
                let section = match family.is_empty() {
                    true => kind.to_string(),
                    false => format!("{kind} {family}"),
                };
                let mark = if differs { "*" } else { " " };
                writeln!(out, "{section}\t{mark} {name}={value}")?;
            }
        }
        Ok(())
    }
}

/// Returns whether any option's name contains a text.
fn has_option(part: &str) -> bool {
    let names = DbOptions::ROWS.iter().map(|row| row.name);
    let names = names.chain(CfOptions::ROWS.iter().map(|row| row.name));
    let mut names = names.chain(BlockBasedTableOptions::ROWS.iter().map(|row| row.name));
    names.any(|name| name.contains(part))
}

/// Changes options.
#[derive(Debug, Args)]
pub struct SetOptions {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    flags: WriteFlags,
    /// Options of the database instead of a column family
    #[arg(long)]
    database: bool,
    /// Changes to make, in RocksDB's names: write_buffer_size=64M disable_auto_compactions=true
    #[arg(required = true, value_name = "NAME=VALUE")]
    changes: Vec<String>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

impl SetOptions {
    /// A change that is refused, with the way out.
    fn refused(&self, error: anyhow::Error) -> anyhow::Error {
        let Some(e) = error.downcast_ref::<spanlith::Error>() else {
            return error;
        };
        let hint = match e.kind() {
            ErrorKind::InvalidArgument | ErrorKind::NotFound => {
                let dir = crate::fail::shell_word(&self.target.db);
                let of = match self.database {
                    true => "without --database it is a family's",
                    false => "--database changes one of the database",
                };
                format!("spanlith db options --db {dir} lists names and values; {of}")
            }
            _ => crate::fail::way_out(e, &self.target.db),
        };
        Failure::new(e.to_string(), hint).into()
    }

    pub fn run(self) -> anyhow::Result<ExitCode> {
        let pairs: Vec<(&str, &str)> = self
            .changes
            .iter()
            .map(|text| {
                text.split_once('=').ok_or_else(|| {
                    let hint = "write NAME=VALUE: write_buffer_size=64M";
                    Usage::new(format!("'{text}' has no value"), hint)
                })
            })
            .collect::<Result<_, _>>()?;
        // Before opening, which replays logs and writes a MANIFEST and an OPTIONS file.
        if !self.flags.create {
            self.target
                .check_changes(&pairs, self.database)
                .map_err(|e| self.refused(e))?;
        }
        let cf = self.target.open_read_write(&self.flags)?;
        let db = cf.db().clone();
        let done = match self.database {
            true => db.set_options(&pairs),
            false => cf.set_options(&pairs),
        };
        done.map_err(|e| self.refused(e.into()))?;
        let value = |name: &str| match self.database {
            true => {
                let now = db.options().db;
                now.get_option(name).or_else(|| now.own.get_option(name))
            }
            false => cf
                .options()
                .get_option(name)
                .or_else(|| cf.options().own.get_option(name))
                .or_else(|| cf.table_options().get_option(name)),
        };
        // Objects have no value of their own: what was set of them is shown.
        let shown = |(name, given): &(&str, &str)| value(name).or_else(|| Some(given.to_string()));
        let now: Vec<(&str, Option<String>)> = pairs.iter().map(|p| (p.0, shown(p))).collect();
        db.close().at(&self.target.db)?;
        let mut out = std::io::stdout().lock();
        if self.json {
            let object: Map<String, Value> = now
                .into_iter()
                .map(|(name, value)| (name.to_string(), json!(value)))
                .collect();
            writeln!(out, "{}", Value::Object(object))?;
        } else {
            for (name, value) in now {
                writeln!(out, "{name}={}", value.unwrap_or_default())?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
