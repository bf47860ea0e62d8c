//! `db info`: what a directory holds.
//!
//! Read from the MANIFEST, the OPTIONS file and the directory, without opening the database: a
//! directory that the engine refuses is described too. Logs are read for their sequence numbers.

use crate::fail::At;
use crate::inventory::{Family, Finding, Grade, Inventory};
use crate::tables;
use crate::term::{Paint, bytes, count, counted};
use crate::top::LogTail;
use crate::written::{Written, drive_of};
use clap::Args;
use serde_json::{Value, json};
use spanlith::options::OptionTable;
use spanlith_wal::{BatchIter, BatchOp, LogReader, ReadEvent};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Describes a directory.
#[derive(Debug, Args)]
pub struct Info {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Only this column family
    #[arg(long, value_name = "NAME")]
    cf: Option<String>,
    /// Also lists every table file
    #[arg(long)]
    files: bool,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Describes what a log holds.
struct LogInfo {
    number: u64,
    size: u64,
    live: bool,
    batches: u64,
    updates: u64,
    last_sequence: u64,
}

/// Transactions that are prepared and undecided: name and log.
type Prepared = BTreeMap<Vec<u8>, u64>;

impl Info {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut inventory = Inventory::read_with_disk(&self.db, None).at(&self.db)?;
        if let Some(name) = &self.cf {
            super::open::known_family(&inventory, name)?;
            inventory.families.retain(|_, f| f.name == *name);
        }
        let (logs, prepared) = read_logs(&inventory);
        let text = if self.json {
            format!("{}\n", self.as_json(&inventory, &logs, &prepared))
        } else {
            self.as_text(&inventory, &logs, &prepared)
        };
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        let damaged = inventory.findings.iter().any(|f| f.grade == Grade::Damage);
        Ok(if damaged {
            crate::fail::ask_doctor(&inventory.dir);
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }

    fn as_text(&self, i: &Inventory, logs: &[LogInfo], prepared: &Prepared) -> String {
        let paint = Paint::stdout();
        let mut out = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(out, "{} {value}", paint.bold(format!("{name:16}")));
        };
        line("directory", i.dir.display().to_string());
        line("identity", identity(i));
        line("written by", writer(i));
        line("sequence number", count(sequence(i, logs)));
        line("next file", i.next_file.to_string());
        line("size", total_size(i));
        let manifest = format!(
            "{}, {}, {}",
            i.manifest,
            counted(i.edits, "record"),
            bytes(i.manifest_bytes)
        );
        line("manifest", manifest);
        for log in logs {
            let what = if log.live {
                "to be replayed"
            } else {
                "not needed any more"
            };
            line(
                "log",
                format!(
                    "{:06}.log, {}, {}, {}, {what}",
                    log.number,
                    bytes(log.size),
                    counted(log.batches, "write"),
                    counted(log.updates, "update")
                ),
            );
        }
        if let Some(written) = written(i) {
            for (name, text) in written.lines(drive_of(&i.dir)) {
                line(name, text);
            }
        }
        for (xid, log) in prepared {
            let name = crate::bytes::show(xid, false);
            line("prepared", format!("{name}, undecided, in {log:06}.log"));
        }
        for (id, f) in &i.families {
            let size: u64 = f.files.values().map(|f| f.size).sum();
            let name = crate::bytes::show(f.name.as_bytes(), false);
            line(
                "family",
                format!(
                    "{name} (id {id}), {}, {}, {}",
                    counted(f.files.len() as u64, "table"),
                    bytes(size),
                    f.comparator
                ),
            );
            for (level, (files, size)) in f.levels() {
                line(
                    "",
                    format!(
                        "L{level:<3} {:>10} {:>12}",
                        counted(files, "file"),
                        bytes(size)
                    ),
                );
            }
            if !f.blobs.is_empty() {
                let size = f.blob_bytes();
                line(
                    "",
                    format!(
                        "blob {:>9} {:>12}",
                        counted(f.blobs.len() as u64, "file"),
                        bytes(size)
                    ),
                );
            }
            if self.files {
                for row in file_rows(f) {
                    line("", row);
                }
            }
            for (name, value) in changed_options(i, &f.name) {
                line("option", format!("{name}={value}"));
            }
        }
        for (name, value) in changed_db_options(i) {
            line("option", format!("{name}={value}"));
        }
        for f in &i.findings {
            let word = match f.grade {
                Grade::Damage => paint.red("damage"),
                Grade::Unchecked => paint.yellow("unchecked"),
                Grade::Note => "note".to_string(),
            };
            let _ = writeln!(out, "{word}: {}{}: {}", f.file, place(f), f.what);
        }
        out
    }

    fn as_json(&self, i: &Inventory, logs: &[LogInfo], prepared: &Prepared) -> Value {
        let families: Vec<Value> = i
            .families
            .iter()
            .map(|(id, f)| family_json(i, *id, f))
            .collect();
        let logs: Vec<Value> = logs
            .iter()
            .map(|l| {
                json!({
                    "number": l.number, "bytes": l.size, "live": l.live, "writes": l.batches,
                    "updates": l.updates, "last_sequence": l.last_sequence,
                })
            })
            .collect();
        json!({
            "directory": i.dir.display().to_string(),
            "db_id": i.db_id,
            "identity": i.identity,
            "written_by": i.writer(),
            "sequence": logs.iter().filter_map(|l| l["last_sequence"].as_u64())
                .fold(i.last_sequence, u64::max),
            "next_file": i.next_file,
            "min_log_number": i.min_log_number,
            "manifest": { "file": i.manifest, "records": i.edits, "bytes": i.manifest_bytes },
            "table_bytes": i.table_bytes(),
            "written": written(i).map(|w| w.json(drive_of(&i.dir))),
            "logs": logs,
            "prepared": prepared.iter()
                .map(|(xid, log)| json!({ "transaction": crate::bytes::json(xid, false), "log": log }))
                .collect::<Vec<_>>(),
            "families": families,
            "options_file": i.options.as_ref().map(|o| &o.name),
            "options": changed_db_options(i).into_iter().collect::<std::collections::BTreeMap<_, _>>(),
            "findings": i.findings.iter().map(finding_json).collect::<Vec<_>>(),
        })
    }
}

/// Returns what was written, as the info log in the directory last told; `None` if it does not.
fn written(i: &Inventory) -> Option<Written> {
    LogTail::read(&i.dir.join("LOG")).ok()?.written
}

fn family_json(i: &Inventory, id: u32, f: &Family) -> Value {
    let levels: Vec<Value> = f
        .levels()
        .into_iter()
        .map(|(level, (files, size))| json!({ "level": level, "files": files, "bytes": size }))
        .collect();
    let files: Vec<Value> = f
        .files
        .values()
        .map(|f| {
            json!({
                "level": f.level, "number": f.number, "bytes": f.size,
                "smallest_seqno": f.smallest_seqno, "largest_seqno": f.largest_seqno,
                "smallest_key": crate::bytes::json(tables::user(&f.smallest), false), "largest_key": crate::bytes::json(tables::user(&f.largest), false),
                "created": f.file_creation_time,
            })
        })
        .collect();
    json!({
        "id": id, "name": f.name, "comparator": f.comparator, "log_number": f.log_number,
        "levels": levels, "files": files, "blob_files": f.blobs.len(),
        "options": changed_options(i, &f.name).into_iter()
            .collect::<std::collections::BTreeMap<_, _>>(),
    })
}

/// A finding as JSON.
pub fn finding_json(f: &Finding) -> Value {
    let grade = match f.grade {
        Grade::Damage => "damage",
        Grade::Unchecked => "unchecked",
        Grade::Note => "note",
    };
    let show = |key: &[u8]| crate::bytes::json(key, false);
    let keys = f.keys.as_ref().map(|(a, b)| [show(a), show(b)]);
    json!({ "grade": grade, "file": f.file, "offset": f.offset, "keys": keys, "what": f.what })
}

/// ` at offset N`, or nothing.
pub fn place(f: &Finding) -> String {
    f.offset
        .map_or_else(String::new, |o| format!(" at offset {o}"))
}

fn user_key(internal: &[u8]) -> String {
    crate::bytes::show(tables::user(internal), false)
}

fn file_rows(f: &Family) -> Vec<String> {
    f.files
        .values()
        .map(|f| {
            format!(
                "L{:<3} {:06}.sst {:>12}  seq {}..{}  [{} .. {}]",
                f.level,
                f.number,
                bytes(f.size),
                f.smallest_seqno,
                f.largest_seqno,
                user_key(&f.smallest),
                user_key(&f.largest)
            )
        })
        .collect()
}

fn identity(i: &Inventory) -> String {
    match (&i.db_id, &i.identity) {
        (Some(id), Some(file)) if id != file => {
            format!("{id} (the file IDENTITY says {file}; the MANIFEST counts)")
        }
        (Some(id), None) => format!("{id} (no IDENTITY file)"),
        (Some(id), Some(_)) | (None, Some(id)) => id.clone(),
        (None, None) => "none recorded".to_string(),
    }
}

fn writer(i: &Inventory) -> String {
    match (i.writer(), &i.options) {
        (Some(version), Some(o)) => format!("RocksDB {version}, or compatible ({})", o.name),
        (_, Some(o)) => format!("unknown ({} does not say)", o.name),
        (_, None) => "unknown (no OPTIONS file)".to_string(),
    }
}

fn total_size(i: &Inventory) -> String {
    let files: usize = i.families.values().map(|f| f.files.len()).sum();
    let all: u64 = i.listing.values().sum();
    format!(
        "{} in {files} tables; {} in all files",
        bytes(i.table_bytes()),
        bytes(all)
    )
}

fn sequence(i: &Inventory, logs: &[LogInfo]) -> u64 {
    logs.iter()
        .map(|l| l.last_sequence)
        .fold(i.last_sequence, u64::max)
}

/// Options of the database that differ from the defaults.
fn changed_db_options(i: &Inventory) -> Vec<(&'static str, String)> {
    let parsed = i.options.as_ref().and_then(|o| o.parsed.as_ref().ok());
    parsed.map_or_else(Vec::new, |p| changed(&p.db))
}

/// Number of a family's tables, and their bytes.
pub fn file_totals(f: &Family) -> (u64, u64) {
    let sizes = f.files.values().map(|f| f.size);
    (f.files.len() as u64, sizes.sum())
}

/// Options of a family that differ from the defaults.
pub fn changed_options(i: &Inventory, name: &str) -> Vec<(&'static str, String)> {
    let parsed = i.options.as_ref().and_then(|o| o.parsed.as_ref().ok());
    let Some(cf) = parsed.and_then(|p| p.cf(name)) else {
        return Vec::new();
    };
    let mut out = changed(&cf.options);
    out.extend(changed(&cf.table));
    out
}

fn changed<T: OptionTable>(options: &T) -> Vec<(&'static str, String)> {
    let value = |name| (name, options.get_option(name).unwrap_or_default());
    options.changed().into_iter().map(value).collect()
}

fn read_logs(i: &Inventory) -> (Vec<LogInfo>, Prepared) {
    let first_live = i.first_live_log();
    let mut prepared = Prepared::new();
    let logs = i
        .logs
        .iter()
        .map(|(&number, &size)| {
            let mut log = LogInfo {
                number,
                size,
                live: number >= first_live,
                batches: 0,
                updates: 0,
                last_sequence: 0,
            };
            let path = i
                .wal_dir
                .join(spanlith::version::filenames::log_file_name(number));
            let Ok(file) = crate::reading::env().fs.open_sequential(&path) else {
                return log;
            };
            let mut reader = LogReader::new(file, number);
            // Damage is the business of `verify`; what is readable is counted.
            while let Ok(event) = reader.next_event() {
                match event {
                    ReadEvent::Record { .. } => {
                        let Ok(batch) = BatchIter::new(reader.record()) else {
                            continue;
                        };
                        for op in batch.clone().map_while(|op| op.ok()) {
                            match op {
                                BatchOp::EndPrepare { xid } => {
                                    prepared.insert(xid.to_vec(), number);
                                }
                                BatchOp::Commit { xid }
                                | BatchOp::CommitWithTimestamp { xid, .. }
                                | BatchOp::Rollback { xid } => {
                                    prepared.remove(xid);
                                }
                                _ => {}
                            }
                        }
                        log.batches += 1;
                        log.updates += u64::from(batch.header_count());
                        let last = batch.sequence() + u64::from(batch.header_count());
                        log.last_sequence = log.last_sequence.max(last.saturating_sub(1));
                    }
                    ReadEvent::Eof => break,
                    _ => {}
                }
            }
            log
        })
        .collect();
    (logs, prepared)
}
