//! `spanlith compat`: which releases of RocksDB can open a directory, and what decides it.
//!
//! Every table's footer and properties, every live log's records and the MANIFEST are read; each thing
//! that some release cannot read bounds the answer. The bounds are those of `docs/formats`. The OPTIONS
//! file does not bound it: opening does not need it, loading options from it does.

use crate::bytes::show;
use crate::fail::{At, Failure, Usage, shell_word};
use crate::inventory::{Family, Grade, Inventory};
use crate::places::{FileFlags, Places};
use crate::tables;
use crate::term::{self, Paint};
use clap::Args;
use serde_json::{Value, json};
use spanlith::Result;
use spanlith::version::{NewFile, filenames};
use spanlith_base::ValueType;
use spanlith_base::keys::{split_internal, tag_type};
use spanlith_wal::{BatchIter, BatchOp, LogReader, ReadEvent};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

const EXAMPLES: &str = "\
Examples:
  spanlith compat --db /data/db
  spanlith compat --db /data/db --require 7.8        exit code 1 if 7.8 cannot open it
  spanlith compat --db /data/db --deep --json        looks at every entry, too

Without --deep, entries in tables that only newer releases understand (TimedPut, from 8.11 on; second
form of wide-column entities) are not looked for.";

/// Shows the oldest and newest RocksDB that can open a directory, and what decides it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Compat {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    #[command(flatten)]
    files: FileFlags,
    /// Looks at the type of every entry of every table
    #[arg(long)]
    deep: bool,
    /// Fails if this release cannot open it
    #[arg(long, value_name = "RELEASE")]
    require: Option<String>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// A release: major and minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Release(u32, u32);

/// Every release is later: what is needed before it can be opened by none.
const NONE: Release = Release(0, 0);

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl FromStr for Release {
    type Err = Usage;

    fn from_str(text: &str) -> std::result::Result<Self, Usage> {
        let mut parts = text.split('.').map(str::parse::<u32>);
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), None) => Ok(Self(major, 0)),
            (Some(Ok(major)), Some(Ok(minor))) => Ok(Self(major, minor)),
            _ => Err(Usage::new(
                format!("'{text}' is no release"),
                "write it as 7.8 or 11.8.1",
            )),
        }
    }
}

/// Describes what bounds the releases.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bound {
    /// The first release that can.
    from: Option<Release>,
    /// The first release that cannot any more.
    before: Option<Release>,
    /// Says what it is.
    what: String,
}

impl Bound {
    fn from(release: Release, what: impl Into<String>) -> Self {
        Self {
            from: Some(release),
            before: None,
            what: what.into(),
        }
    }

    fn before(release: Release, what: impl Into<String>) -> Self {
        Self {
            from: None,
            before: Some(release),
            what: what.into(),
        }
    }
}

/// Bounds and the files that set them.
#[derive(Default)]
struct Bounds {
    found: BTreeMap<Bound, Vec<String>>,
    /// Says what could not be read, so that it may bound too.
    unread: Vec<String>,
}

impl Bounds {
    fn add(&mut self, bound: Bound, file: &str) {
        let files = self.found.entry(bound).or_default();
        if files.last().is_none_or(|f| f != file) {
            files.push(file.to_string());
        }
    }

    fn oldest(&self) -> Option<Release> {
        self.found.keys().filter_map(|b| b.from).max()
    }

    fn before(&self) -> Option<Release> {
        self.found.keys().filter_map(|b| b.before).min()
    }
}

/// Returns what a table's format version asks for.
fn of_format(version: u32) -> Bound {
    let what = format!("tables of format version {version}");
    let from = match version {
        0 | 1 => return Bound::before(Release(11, 0), what),
        2 => Release(3, 10),
        3 => Release(5, 15),
        4 => Release(5, 16),
        5 => Release(6, 6),
        6 => Release(8, 6),
        _ => Release(10, 4),
    };
    Bound::from(from, what)
}

/// Returns what an entry of this kind asks for.
fn of_entry(kind: ValueType) -> Option<Bound> {
    match kind {
        ValueType::ValuePreferredSeqno => Some(Bound::from(
            Release(8, 11),
            "entries with a time (TimedPut)",
        )),
        ValueType::WideColumnEntity => Some(Bound::from(Release(7, 3), "wide-column entities")),
        ValueType::BlobIndex => Some(Bound::from(Release(6, 18), "values in blob files")),
        _ => None,
    }
}

impl Compat {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let required = self.require.as_deref().map(Release::from_str).transpose()?;
        let places = self.files.tables.parse()?;
        let i = Inventory::read_with_disk(&self.db, self.files.wal_dir.as_deref()).at(&self.db)?;
        if let Some(dir) = &i.tables_dir {
            let text = format!(
                "no RocksDB opens this database while tables of it are on a speed disk, in {}",
                dir.display()
            );
            let hint = format!(
                "spanlith db migrate --to-files --db {}",
                shell_word(&self.db)
            );
            return Err(Failure::new(text, hint).into());
        }
        let mut bounds = Bounds::default();
        let tables = i.families.values().map(|f| f.files.len() as u64).sum();
        let progress = term::bar(tables, "tables", "reading");
        for family in i.families.values() {
            for f in family.files.values() {
                let name = tables::name(&i, f.number);
                if let Err(e) = table(&i, &places, family, f, self.deep, &name, &mut bounds) {
                    bounds.unread.push(format!("{name}: {e}"));
                }
                progress.inc(1);
            }
            for number in family.blobs.keys() {
                let bound = Bound::from(Release(6, 18), "blob files of the MANIFEST");
                bounds.add(bound, &filenames::blob_file_name(*number));
            }
            if family.comparator.ends_with(".u64ts") {
                let what = "timestamps in keys (u64ts)";
                bounds.add(Bound::from(Release(6, 15), what), &i.manifest);
            }
        }
        progress.finish_and_clear();
        if crate::reading::has_disk() {
            let what = "logs on a speed disk; spanlith db migrate --to-files brings them back";
            bounds.add(Bound::before(NONE, what), filenames::CURRENT_FILE);
        }
        for (number, _) in i.live_logs() {
            let name = filenames::log_file_name(number);
            if let Err(e) = log(&i, number, &name, &mut bounds) {
                bounds.unread.push(format!("{name}: {e}"));
            }
        }
        for f in i.findings.iter().filter(|f| f.grade != Grade::Note) {
            bounds.unread.push(format!("{}: {}", f.file, f.what));
        }
        self.print(&i, &bounds, required)
    }

    fn print(
        &self,
        i: &Inventory,
        bounds: &Bounds,
        required: Option<Release>,
    ) -> anyhow::Result<ExitCode> {
        let (oldest, before) = (bounds.oldest(), bounds.before());
        let can = |r: Release| oldest.is_none_or(|o| r >= o) && before.is_none_or(|b| r < b);
        let nobody = before.is_some_and(|b| b == NONE || oldest.is_some_and(|o| o >= b));
        let ok = required.map(can);
        let mut out = std::io::stdout().lock();
        if self.json {
            let decided: Vec<Value> = bounds
                .found
                .iter()
                .map(|(b, files)| {
                    json!({
                        "what": b.what, "from": b.from.map(|r| r.to_string()),
                        "before": b.before.map(|r| r.to_string()), "files": files,
                    })
                })
                .collect();
            let object = json!({
                "oldest": oldest.map(|r| r.to_string()),
                "before": before.map(|r| r.to_string()),
                "written_by": i.writer(), "bounds": decided, "unread": bounds.unread,
                "required": self.require, "ok": ok,
            });
            writeln!(out, "{object}")?;
        } else {
            let paint = Paint::stdout();
            let oldest_text = oldest.map_or_else(
                || "any that reads its files (nothing asks for a release)".to_string(),
                |r| format!("RocksDB {r}"),
            );
            let newest_text = match before {
                None => "no bound: every later release".to_string(),
                Some(NONE) => "none, whatever the release".to_string(),
                Some(r) => format!("the last before {r}"),
            };
            writeln!(out, "{}  {oldest_text}", paint.bold("oldest"))?;
            writeln!(out, "{}  {newest_text}", paint.bold("newest"))?;
            if nobody {
                writeln!(out, "{}", paint.red("no release can open all of it"))?;
            }
            let writer = i.writer().unwrap_or_else(|| "unknown".to_string());
            writeln!(
                out,
                "{}  OPTIONS written as of {writer}; older releases open the database but need \
                 ignore_unknown_options to load them",
                paint.bold("options")
            )?;
            let mut rows: Vec<(&Bound, &Vec<String>)> = bounds.found.iter().collect();
            rows.sort_by_key(|(b, _)| std::cmp::Reverse((b.from, b.before)));
            for (bound, files) in rows {
                let release = match (bound.from, bound.before) {
                    (Some(from), _) => format!(">= {from}"),
                    (None, Some(NONE)) => "none".to_string(),
                    (None, Some(before)) => format!("<  {before}"),
                    (None, None) => String::new(),
                };
                let decides = bound.from.is_some() && bound.from == oldest
                    || bound.before.is_some() && bound.before == before;
                let mark = if decides { "*" } else { " " };
                let named: Vec<&str> = files.iter().take(3).map(String::as_str).collect();
                let more = match files.len().saturating_sub(named.len()) {
                    0 => String::new(),
                    n => format!(" and {n} more"),
                };
                writeln!(
                    out,
                    "{mark} {release:9} {}: {}{more}",
                    bound.what,
                    named.join(", ")
                )?;
            }
            for unread in &bounds.unread {
                writeln!(out, "{} {unread}", paint.red("unread:"))?;
            }
            if let (Some(r), Some(ok)) = (required, ok) {
                let text = match ok {
                    true => paint.green(format!("RocksDB {r} can open it")),
                    false => paint.red(format!("RocksDB {r} cannot open it")),
                };
                writeln!(out, "{text}")?;
            }
        }
        out.flush()?;
        if !bounds.unread.is_empty() {
            crate::fail::ask_doctor(&i.dir);
        }
        let failed = ok == Some(false) || !bounds.unread.is_empty();
        Ok(match failed {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        })
    }
}

fn table(
    i: &Inventory,
    places: &Places,
    family: &Family,
    f: &NewFile,
    deep: bool,
    name: &str,
    bounds: &mut Bounds,
) -> Result<()> {
    let reader = tables::open(i, places, family, f)?;
    let footer = reader.footer();
    bounds.add(of_format(footer.format_version), name);
    if format!("{:?}", footer.checksum.kind).eq_ignore_ascii_case("xxh3") {
        bounds.add(Bound::from(Release(6, 27), "checksums of kind XXH3"), name);
    }
    let p = reader.properties();
    if p.compression_name.contains("NotFinal") {
        let what = "blocks compressed with ZSTD before its format was final";
        bounds.add(Bound::before(Release(10, 0), what), name);
    }
    if p.filter_policy_name.to_lowercase().contains("ribbon") {
        bounds.add(Bound::from(Release(6, 15), "Ribbon filters"), name);
    }
    if p.num_uniform_blocks > 0 {
        let what = "blocks marked as uniformly distributed";
        bounds.add(Bound::from(Release(11, 0), what), name);
    }
    if !f.user_defined_timestamps_persisted {
        let what = "keys written without their timestamps";
        bounds.add(Bound::from(Release(8, 6), what), name);
    }
    if deep {
        let mut entries = reader.iter(tables::walk());
        entries.seek_to_first();
        while entries.valid() {
            let kind = split_internal(entries.key()).map(|(_, tag)| tag_type(tag));
            if let Some(bound) = kind.and_then(ValueType::from_byte).and_then(of_entry) {
                bounds.add(bound, name);
            }
            entries.next();
        }
        entries.status()?;
    }
    Ok(())
}

fn log(i: &Inventory, number: u64, name: &str, bounds: &mut Bounds) -> Result<()> {
    let path = i.wal_dir.join(name);
    let mut reader = LogReader::new(crate::reading::env().fs.open_sequential(&path)?, number);
    loop {
        match reader.next_event()? {
            ReadEvent::Eof => return Ok(()),
            ReadEvent::TimestampSizes(_) => {
                let what = "log records about sizes of timestamps (types 10 and 11)";
                bounds.add(Bound::from(Release(8, 3), what), name);
            }
            ReadEvent::Predecessor { .. } => {
                let what = "log records about the log before (types 130 and 131)";
                bounds.add(Bound::from(Release(10, 0), what), name);
            }
            ReadEvent::Record { .. } => {
                let Ok(batch) = BatchIter::new(reader.record()) else {
                    continue;
                };
                for op in batch.map_while(Result::ok) {
                    let kind = match op {
                        BatchOp::ValuePreferredSeqno { .. } => ValueType::ValuePreferredSeqno,
                        BatchOp::WideColumnEntity { .. } => ValueType::WideColumnEntity,
                        BatchOp::BlobIndex { .. } => ValueType::BlobIndex,
                        _ => continue,
                    };
                    if let Some(bound) = of_entry(kind) {
                        bounds.add(bound, name);
                    }
                }
            }
            ReadEvent::Corruption {
                tail: false,
                offset,
                kind,
                ..
            } => {
                let text = show(
                    format!("{name} at offset {offset}: {kind}").as_bytes(),
                    false,
                );
                bounds.unread.push(text);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_ordered_by_number() {
        let parse = |t: &str| t.parse::<Release>().ok();
        assert_eq!(parse("7.8.3"), Some(Release(7, 8)));
        assert_eq!(parse("11"), Some(Release(11, 0)));
        assert!(parse("7.8") < parse("7.10") && parse("7.10") < parse("10.4"));
        assert_eq!((parse("x"), parse("")), (None, None));
    }

    #[test]
    fn the_highest_demand_decides() {
        let mut b = Bounds::default();
        assert_eq!((b.oldest(), b.before()), (None, None));
        for version in [5, 2, 7, 0] {
            b.add(of_format(version), "000001.sst");
        }
        assert_eq!(
            (b.oldest(), b.before()),
            (Some(Release(10, 4)), Some(Release(11, 0)))
        );
    }
}
