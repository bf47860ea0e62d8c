//! `sst verify`, `wal check`, `manifest check`, `blob verify`, `options check`: is one file whole?
//!
//! Prints a line for each file and ends with 1 if one is damaged. Only what the file itself says is
//! checked; `db verify` knows what the MANIFEST and the other files say of it.

use super::kind::{self, Kind};
use super::{folder, open_table};
use crate::bytes::show;
use crate::fail::{Failure, shell_word};
use crate::inventory::Inventory;
use crate::term::{Paint, bytes, count};
use clap::Args;
use serde_json::json;
use spanlith::blob::walk_blobs;
use spanlith::options::ini::parse_options_file_with;
use spanlith::version::{FileKind, VersionEdit, parse_file_name};
use spanlith::{Error, Result};
use spanlith_env::Env;
use spanlith_wal::{BatchIter, LogReader, ReadEvent};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Longest OPTIONS file that is read.
const OPTIONS_MAX: u64 = 16 << 20;

/// Which files.
#[derive(Debug, Args)]
pub struct Check {
    /// The files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Prints JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Describes what a file was found to be: whole with so many of something, or damaged.
type Found = std::result::Result<String, String>;

impl Check {
    /// Checks all files.
    ///
    /// # Errors
    /// Of writing.
    pub fn run(&self, wanted: Kind, look: fn(&Path) -> Found) -> anyhow::Result<ExitCode> {
        let mut out = std::io::stdout().lock();
        let paint = Paint::stdout();
        let (mut damaged, mut hint) = (None, None);
        for path in &self.files {
            // A file of another kind is not damaged.
            let another = kind::is_another(path, wanted);
            if let (Some((what, next)), false) = (&another, self.json) {
                writeln!(out, "{}: {what}", paint.red("not checked"))?;
                hint.get_or_insert(next.clone());
                continue;
            }
            let found = match another {
                Some((what, next)) => {
                    hint.get_or_insert(next);
                    Err(what)
                }
                None => look(path),
            };
            let name = path.display();
            match (&found, self.json) {
                (found, true) => {
                    let what = found.as_ref().map_or_else(String::clone, String::clone);
                    let object =
                        json!({ "file": name.to_string(), "ok": found.is_ok(), "what": what });
                    writeln!(out, "{object}")?;
                }
                (Ok(what), false) => writeln!(out, "{}: {name}: {what}", paint.green("ok"))?,
                (Err(what), false) => writeln!(out, "{}: {name}: {what}", paint.red("damage"))?,
            }
            if found.is_err() {
                damaged.get_or_insert(path);
            }
        }
        out.flush()?;
        if let Some(hint) = hint {
            tell!("next:  {hint}");
            return Ok(ExitCode::FAILURE);
        }
        let Some(first) = damaged else {
            return Ok(ExitCode::SUCCESS);
        };
        let dir = folder(first);
        if Inventory::read_leniently(dir, None).is_ok_and(|i| i.is_some()) {
            let dir = shell_word(dir);
            tell!("next:  spanlith doctor --db {dir} says what is at stake and the way out");
        } else if !self.json {
            tell!("next:  restore {} from a copy", shell_word(first));
        }
        Ok(ExitCode::FAILURE)
    }
}

fn text(e: &Error) -> String {
    e.to_string()
}

/// Every block of a table.
pub fn table(path: &Path) -> Found {
    let look = || -> Result<String> {
        let reader = open_table(path)?;
        let blocks = reader.verify_checksums()?;
        let entries = reader.properties().num_entries;
        Ok(format!(
            "{} blocks, {} entries, {}",
            count(blocks),
            count(entries),
            bytes(reader.file_size())
        ))
    };
    look().map_err(|e| text(&e))
}

/// Every record of a log or a MANIFEST, `decode`d.
fn records(
    path: &Path,
    decode: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> std::result::Result<u64, String> {
    // Recyclable records carry the number of their log, which the name tells.
    let kind = path
        .file_name()
        .and_then(|n| parse_file_name(&n.to_string_lossy()));
    let number = match kind {
        Some(FileKind::Log(n)) => n,
        _ => 0,
    };
    let file = Env::system()
        .fs
        .open_sequential(path)
        .map_err(|e| text(&e))?;
    let mut reader = LogReader::new(file, number);
    let mut n = 0;
    let mut damage: Vec<String> = Vec::new();
    loop {
        match reader.next_event().map_err(|e| text(&e))? {
            ReadEvent::Eof => break,
            ReadEvent::Record { offset, .. } => {
                n += 1;
                if let Err(e) = decode(reader.record()) {
                    damage.push(format!("at {offset}: {e}"));
                }
            }
            ReadEvent::Corruption {
                offset,
                dropped,
                kind,
                tail,
            } => {
                let tail = if tail {
                    ", the end, as a crash may leave it"
                } else {
                    ""
                };
                damage.push(format!("at {offset}: {kind}, {dropped} bytes{tail}"));
            }
            _ => {}
        }
    }
    match damage.is_empty() {
        true => Ok(n),
        false => Err(damage.join("; ")),
    }
}

/// Every record of a log, and that each is a batch.
pub fn log(path: &Path) -> Found {
    let (mut updates, mut last) = (0u64, 0);
    let n = records(path, &mut |record| {
        let batch = BatchIter::new(record)?;
        let of_batch = u64::from(batch.header_count());
        updates += of_batch;
        last = last.max(batch.sequence().saturating_add(of_batch).saturating_sub(1));
        batch.into_iter().try_for_each(|op| op.map(drop))
    })?;
    Ok(format!(
        "{} records, {} updates, up to sequence number {last}",
        count(n),
        count(updates)
    ))
}

/// Every record of a MANIFEST, and that each is an edit.
pub fn manifest(path: &Path) -> Found {
    let n = records(path, &mut |record| VersionEdit::decode(record).map(drop))?;
    Ok(format!("{} records", count(n)))
}

/// Every value of a blob file.
pub fn blob(path: &Path) -> Found {
    let look = || -> Result<String> {
        let file = Env::system().fs.open_random(path)?;
        let n = walk_blobs(&file, &mut |_, _, _| Ok(()))?;
        Ok(format!("{} values, {}", count(n), bytes(file.size())))
    };
    look().map_err(|e| text(&e))
}

/// That an OPTIONS file is understood.
pub fn options(path: &Path) -> Found {
    let look = || -> Result<String> {
        let bytes = Env::system().fs.read_all(path, OPTIONS_MAX)?;
        let file = String::from_utf8(bytes);
        let file = file.map_err(|_| Error::corruption("OPTIONS file is not text"))?;
        let parsed = parse_options_file_with(&file, true)?;
        let [major, minor, patch] = parsed.rocksdb_version;
        let families = parsed.cfs.iter().map(|cf| show(cf.name.as_bytes(), false));
        let families: Vec<String> = families.collect();
        Ok(format!(
            "as of RocksDB {major}.{minor}.{patch}, families {}",
            families.join(", ")
        ))
    };
    look().map_err(|e| text(&e))
}

/// Which database.
#[derive(Debug, Args)]
pub struct Live {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Prints JSON, one object a line
    #[arg(long)]
    json: bool,
}

impl Live {
    /// `blob live`: how much of each blob file is still referred to.
    ///
    /// # Errors
    /// Of reading the MANIFEST, and of writing.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let i = Inventory::read(&self.db)
            .map_err(|e| Failure::new(e.to_string(), crate::fail::way_out(&e, &self.db)))?;
        let mut out = std::io::stdout().lock();
        for family in i.families.values() {
            for (number, file) in &family.blobs {
                let (all, gone) = (file.added.total_bytes, file.garbage_bytes);
                let live = all.saturating_sub(gone);
                let values = file.added.total_count.saturating_sub(file.garbage_count);
                let percent = live as f64 * 100.0 / all.max(1) as f64;
                if self.json {
                    let object = json!({
                        "file": number, "family": family.name, "values": file.added.total_count,
                        "bytes": all, "live_values": values, "live_bytes": live,
                    });
                    writeln!(out, "{object}")?;
                } else {
                    writeln!(
                        out,
                        "{number:06}.blob  {}  live {} of {} values, {} of {} ({percent:.1} %)",
                        show(family.name.as_bytes(), false),
                        count(values),
                        count(file.added.total_count),
                        bytes(live),
                        bytes(all),
                    )?;
                }
            }
        }
        Ok(i.exit_code())
    }
}
