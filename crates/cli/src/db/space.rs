//! `db files` and `db space`: which file of a directory is what, and where the bytes are.
//!
//! Read from the MANIFEST, the directory and the properties of the tables, without opening the
//! database; but for `db space --exact`, which opens it for reading and counts what a scan of each family yields.

use super::open::{How, Target};
use crate::bytes::show;
use crate::fail::At;
use crate::inventory::{Family, Inventory};
use crate::places::TableFlags;
use crate::tables;
use crate::term::{self, Paint, bytes, count, counted};
use clap::Args;
use serde_json::{Value, json};
use spanlith::ReadOptions;
use spanlith::version::{FileKind, NewFile, SPEED_PATH, filenames, parse_file_name};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Lists files.
#[derive(Debug, Args)]
pub struct Files {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Only tables and blob files of this column family
    #[arg(long, value_name = "NAME")]
    cf: Option<String>,
    /// Only files nobody needs any more
    #[arg(long)]
    obsolete: bool,
    /// Prints JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Shows where the bytes are.
#[derive(Debug, Args)]
pub struct Space {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    #[command(flatten)]
    tables: TableFlags,
    /// Reads all entries: how much is live, and by how much the files exceed it
    #[arg(long)]
    exact: bool,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Describes what a scan of a family yields.
#[derive(Clone, Copy, Default)]
struct Live {
    entries: u64,
    /// Bytes of their keys and values.
    bytes: u64,
}

impl Live {
    /// Scans a family. Of families with timestamps the newest version of each key counts.
    fn count(db: &Path, family: &str) -> anyhow::Result<Self> {
        let target = Target {
            db: db.to_path_buf(),
            cf: family.to_string(),
            how: How::default(),
        };
        let cf = target.open_read_only()?;
        let mut options = ReadOptions::default();
        options.fill_cache = false;
        let timestamp = cf.comparator().timestamp_size();
        if timestamp > 0 {
            options.timestamp = Some(vec![0xff; timestamp]);
        }
        let mut live = Self::default();
        for entry in cf.iter_opt(options) {
            let (key, value) = entry.at(db)?;
            live.entries += 1;
            live.bytes += (key.len() + value.len()) as u64;
        }
        cf.db().clone().close().at(db)?;
        Ok(live)
    }

    /// How often the files hold each live byte; `None` if nothing is live.
    fn amplification(&self, files: u64) -> Option<f64> {
        (self.bytes > 0).then(|| files as f64 / self.bytes as f64)
    }
}

/// A file and what it is.
struct Row {
    name: String,
    kind: &'static str,
    bytes: u64,
    /// Family and level of a table, family of a blob file.
    owner: Option<(String, Option<u32>)>,
    state: &'static str,
    keys: Option<(Vec<u8>, Vec<u8>)>,
}

/// Every file of the directory and of that of the logs.
fn rows(i: &Inventory) -> Vec<Row> {
    let mut tables: BTreeMap<u64, (&Family, &NewFile)> = BTreeMap::new();
    let mut blobs: BTreeMap<u64, &Family> = BTreeMap::new();
    for family in i.families.values() {
        tables.extend(family.files.values().map(|f| (f.number, (family, f))));
        blobs.extend(family.blobs.keys().map(|n| (*n, family)));
    }
    let newest_options = i.options.as_ref().map(|o| o.name.as_str());
    let first_log = i.first_live_log();
    let row = |name: &String, size: u64| {
        let mut row = Row {
            name: name.clone(),
            kind: "other",
            bytes: size,
            owner: None,
            state: "unknown",
            keys: None,
        };
        let live = |yes: bool| if yes { "live" } else { "obsolete" };
        (row.kind, row.state) = match parse_file_name(name) {
            Some(FileKind::Table(n)) => {
                let found = tables.get(&n);
                if let Some((family, f)) = found {
                    row.owner = Some((family.name.clone(), Some(f.level)));
                    let ends = [&f.smallest, &f.largest].map(|k| tables::user(k).to_vec());
                    let [first, last] = ends;
                    row.keys = Some((first, last));
                }
                ("table", live(found.is_some()))
            }
            Some(FileKind::Blob(n)) => {
                let found = blobs.get(&n);
                row.owner = found.map(|f| (f.name.clone(), None));
                ("blob", live(found.is_some()))
            }
            Some(FileKind::Log(n)) => ("log", live(n >= first_log)),
            Some(FileKind::Manifest(_)) => ("manifest", live(*name == i.manifest)),
            Some(FileKind::Options(_)) => ("options", live(Some(name.as_str()) == newest_options)),
            Some(FileKind::Temp(_) | FileKind::OptionsTemp(_)) => ("temporary", "obsolete"),
            Some(_) => ("administration", "live"),
            None if name.starts_with("LOG") => ("info log", "live"),
            None => ("other", "unknown"),
        };
        row
    };
    let mut out: Vec<Row> = i.listing.iter().map(|(n, &s)| row(n, s)).collect();
    if i.wal_dir != i.dir {
        let logs = i.logs.iter();
        out.extend(logs.map(|(&n, &size)| {
            let mut found = row(&filenames::log_file_name(n), size);
            found.name = i.wal_dir.join(&found.name).display().to_string();
            found
        }));
    }
    // Files that the MANIFEST names and that are not there.
    for (n, (family, f)) in &tables {
        let name = tables::name(i, *n);
        let speed = i.tables_dir.as_ref().filter(|_| f.path_id == SPEED_PATH);
        let there = speed.map(|dir| dir.join(&name));
        let fs = crate::reading::env().fs;
        if let Some(path) = there.filter(|path| matches!(fs.entry(path), Ok(Some(_)))) {
            let mut found = row(&name, f.size);
            found.name = path.display().to_string();
            out.push(found);
            continue;
        }
        if !i.listing.contains_key(&name) {
            out.push(Row {
                name,
                kind: "table",
                bytes: f.size,
                owner: Some((family.name.clone(), Some(f.level))),
                state: if f.path_id == 0 || speed.is_some() {
                    "missing"
                } else {
                    "elsewhere"
                },
                keys: None,
            });
        }
    }
    out
}

impl Files {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let i = Inventory::read_with_disk(&self.db, None).at(&self.db)?;
        if let Some(name) = &self.cf {
            super::open::known_family(&i, name)?;
        }
        let paint = Paint::stdout();
        let mut out = std::io::stdout().lock();
        let mut missing = false;
        for row in rows(&i) {
            let family = row.owner.as_ref().map(|o| o.0.as_str());
            if self.cf.is_some() && family != self.cf.as_deref() {
                continue;
            }
            if self.obsolete && row.state != "obsolete" {
                continue;
            }
            missing |= row.state == "missing";
            let level = row.owner.as_ref().and_then(|o| o.1);
            let keys = row.keys.as_ref();
            if self.json {
                let object = json!({
                    "name": row.name, "kind": row.kind, "bytes": row.bytes, "state": row.state,
                    "family": family, "level": level,
                    "smallest_key": keys.map(|k| crate::bytes::json(&k.0, false)),
                    "largest_key": keys.map(|k| crate::bytes::json(&k.1, false)),
                });
                writeln!(out, "{object}")?;
                continue;
            }
            let state = match row.state {
                "live" => row.state.to_string(),
                "missing" => paint.red(row.state),
                other => paint.yellow(other),
            };
            let mut line = format!("{}\t{}\t{}\t{state}", row.name, row.kind, row.bytes);
            if let Some(family) = family {
                line.push('\t');
                line.push_str(&show(family.as_bytes(), false));
            }
            if let Some(level) = level {
                line.push_str(&format!("\tL{level}"));
            }
            if let Some((first, last)) = keys {
                line.push_str(&format!(
                    "\t[{} .. {}]",
                    show(first, false),
                    show(last, false)
                ));
            }
            writeln!(out, "{line}")?;
        }
        out.flush()?;
        let code = i.exit_code();
        if missing && code == ExitCode::SUCCESS {
            crate::fail::ask_doctor(&i.dir);
        }
        Ok(match missing {
            true => ExitCode::FAILURE,
            false => code,
        })
    }
}

/// Sums over the tables of one level.
#[derive(Clone, Copy, Default)]
struct Sums {
    files: u64,
    bytes: u64,
    entries: u64,
    deletions: u64,
    /// Bytes of keys and values before compression.
    raw_bytes: u64,
    index_bytes: u64,
    filter_bytes: u64,
    /// Tables whose properties cannot be read.
    unread: u64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.entries += other.entries;
        self.deletions += other.deletions;
        self.raw_bytes += other.raw_bytes;
        self.index_bytes += other.index_bytes;
        self.filter_bytes += other.filter_bytes;
        self.unread += other.unread;
    }

    fn json(&self) -> Value {
        json!({
            "tables": self.files, "bytes": self.bytes, "entries": self.entries,
            "deletions": self.deletions, "raw_bytes": self.raw_bytes,
            "index_bytes": self.index_bytes, "filter_bytes": self.filter_bytes,
            "unread": self.unread,
        })
    }

    fn row(&self, name: &str) -> String {
        format!(
            "{name:<17}{:>7}{:>11}{:>12}{:>10}{:>11}{:>11}",
            count(self.files),
            bytes(self.bytes),
            count(self.entries),
            count(self.deletions),
            bytes(self.raw_bytes),
            bytes(self.index_bytes + self.filter_bytes),
        )
    }
}

/// Bytes of all tables by those of the deepest level that holds any: 1 where nothing is superseded.
fn amplification(levels: &BTreeMap<u32, Sums>) -> Option<f64> {
    let all: u64 = levels.values().map(|s| s.bytes).sum();
    let last = levels.values().next_back()?;
    (last.bytes > 0).then(|| all as f64 / last.bytes as f64)
}

impl Space {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let places = self.tables.parse()?;
        let i = Inventory::read_with_disk(&self.db, None).at(&self.db)?;
        let tables = i.families.values().map(|f| f.files.len() as u64).sum();
        let progress = term::bar(tables, "tables", "reading properties");
        let mut families: Vec<(&Family, BTreeMap<u32, Sums>)> = Vec::new();
        for family in i.families.values() {
            let mut levels: BTreeMap<u32, Sums> = BTreeMap::new();
            for f in family.files.values() {
                let sums = levels.entry(f.level).or_default();
                sums.files += 1;
                sums.bytes += f.size;
                match tables::open(&i, &places, family, f) {
                    Ok(reader) => {
                        let p = reader.properties();
                        sums.entries += p.num_entries;
                        sums.deletions += p.num_deletions;
                        sums.raw_bytes += p.raw_key_size + p.raw_value_size;
                        sums.index_bytes += p.index_size;
                        sums.filter_bytes += p.filter_size;
                    }
                    Err(_) => sums.unread += 1,
                }
                progress.inc(1);
            }
            families.push((family, levels));
        }
        progress.finish_and_clear();
        let mut live: BTreeMap<&str, Live> = BTreeMap::new();
        if self.exact {
            for (family, _) in &families {
                live.insert(&family.name, Live::count(&self.db, &family.name)?);
            }
        }
        let mut kinds: BTreeMap<(&'static str, &'static str), (u64, u64)> = BTreeMap::new();
        for row in rows(&i) {
            let sum = kinds.entry((row.kind, row.state)).or_default();
            sum.0 += 1;
            sum.1 += row.bytes;
        }
        let mut out = std::io::stdout().lock();
        if self.json {
            let families: Vec<Value> = families
                .iter()
                .map(|(family, levels)| {
                    let mut all = Sums::default();
                    levels.values().for_each(|s| all.add(s));
                    json!({
                        "name": family.name, "total": all.json(),
                        "space_amplification": amplification(levels),
                        "live_entries": live.get(family.name.as_str()).map(|l| l.entries),
                        "live_bytes": live.get(family.name.as_str()).map(|l| l.bytes),
                        "exact_space_amplification": live.get(family.name.as_str())
                            .and_then(|l| l.amplification(all.bytes + family.blob_bytes())),
                        "levels": levels.iter()
                            .map(|(l, s)| (l.to_string(), s.json()))
                            .collect::<serde_json::Map<_, _>>(),
                        "blob_files": family.blobs.len(),
                        "blob_bytes": family.blob_bytes(),
                    })
                })
                .collect();
            let kinds: Vec<Value> = kinds
                .iter()
                .map(|((kind, state), (files, size))| {
                    json!({ "kind": kind, "state": state, "files": files, "bytes": size })
                })
                .collect();
            writeln!(out, "{}", json!({ "families": families, "files": kinds }))?;
            return Ok(i.exit_code());
        }
        let paint = Paint::stdout();
        let head = format!(
            "{:<17}{:>7}{:>11}{:>12}{:>10}{:>11}{:>11}",
            "family", "tables", "bytes", "entries", "deletions", "raw", "idx+filter"
        );
        writeln!(out, "{}", paint.bold(head))?;
        for (family, levels) in &families {
            let mut all = Sums::default();
            levels.values().for_each(|s| all.add(s));
            let name = crate::bytes::show_short(family.name.as_bytes(), 16);
            writeln!(out, "{}", all.row(&name))?;
            for (level, sums) in levels {
                writeln!(out, "{}", sums.row(&format!("  L{level}")))?;
            }
            if !family.blobs.is_empty() {
                let size = family.blob_bytes();
                let files = counted(family.blobs.len() as u64, "blob file");
                writeln!(out, "  {files}, {}", bytes(size))?;
            }
            if let Some(factor) = amplification(levels) {
                writeln!(
                    out,
                    "  space amplification at most {factor:.2} (all tables by the last level)"
                )?;
            }
            if let Some(l) = live.get(family.name.as_str()) {
                let entries = match l.entries {
                    1 => "1 live entry".to_string(),
                    n => format!("{} live entries", count(n)),
                };
                let files = all.bytes + family.blob_bytes();
                let factor = l.amplification(files);
                let factor = factor.map_or(String::new(), |f| {
                    format!("; tables and blob files hold {f:.3} times that")
                });
                writeln!(out, "  {entries}, {}{factor}", bytes(l.bytes))?;
            }
            if all.unread > 0 {
                let text = format!("  {} cannot be read", counted(all.unread, "table"));
                writeln!(out, "{}", paint.red(text))?;
            }
        }
        writeln!(out)?;
        for ((kind, state), (files, size)) in kinds {
            let name = format!("{kind}, {state}");
            writeln!(out, "{name:<25}{:>7}{:>11}", count(files), bytes(size))?;
        }
        Ok(i.exit_code())
    }
}
