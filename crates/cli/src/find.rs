//! `spanlith find KEY`: every version of one key, wherever it lies.
//!
//! Tables and logs are read without opening the database: all column families, every table whose range
//! holds the key, every log. What a memtable holds was logged before (unless the log was off), so the
//! live logs show it. Versions come newest first, and the first that no range tombstone covers is the
//! one that reads see. Range tombstones that hold the key count as versions.

use crate::bytes::{self, parse, show, show_short};
use crate::dump::type_name;
use crate::fail::At;
use crate::inventory::{Family, Inventory};
use crate::places::{FileFlags, Places};
use crate::tables;
use crate::term::{self, Paint};
use clap::Args;
use serde_json::json;
use spanlith::version::{NewFile, filenames};
use spanlith::{Comparator, Result};
use spanlith_base::keys::{internal_key, split_internal, tag_sequence, tag_type};
use spanlith_base::{MAX_SEQUENCE, ValueType};
use spanlith_wal::{BatchIter, BatchOp, LogReader, ReadEvent};
use std::cmp::Ordering;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Characters of a value that are shown without `--full`.
const SHORT: usize = 60;
/// Characters of the name of a family that are shown.
const FAMILY: usize = 24;

const EXAMPLES: &str = "\
Examples:
  spanlith find user:17 --db /data/db
  spanlith find 0x00ff --db /data/db --cf accounts --json
  spanlith find --hex 757365723a3137 --db /data/db --full

Columns: sequence number, family, what was written, where it lies, value. A version marked 'visible'
is what a get returns (merge operands are folded into the value below them); 'flushed' marks entries
of logs that have reached a table as well. Exit code 1 if no version is found.";

/// Shows every version of one key over tables and logs
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Find {
    /// The key
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Only this column family; all of them if left out
    #[arg(long, value_name = "NAME")]
    cf: Option<String>,
    #[command(flatten)]
    files: FileFlags,
    /// Whole values instead of their beginnings
    #[arg(long)]
    full: bool,
    /// Key and values are bare hexadecimal, in and out
    #[arg(long)]
    hex: bool,
    /// Prints JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Where a version lies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// In a log, at the offset of its batch.
    Log { number: u64, offset: u64 },
    /// In a table of a level.
    Table { level: u32, number: u64 },
}

/// One thing that was written about the key.
struct Version {
    family: u32,
    sequence: u64,
    /// Type byte of the entry.
    kind: u8,
    /// The value, or the ends of the range.
    value: Vec<u8>,
    range: Option<(Vec<u8>, Vec<u8>)>,
    timestamp: Vec<u8>,
    place: Place,
    /// In a log, of a family that has flushed past it.
    flushed: bool,
}

/// Describes what is looked for in one family.
struct Wanted<'a> {
    id: u32,
    family: &'a Family,
    order: Comparator,
    /// Says whether the order is that of the database, not a stand-in.
    known_order: bool,
    key: &'a [u8],
}

impl Wanted<'_> {
    /// Returns whether a stored user key is the key, whatever its timestamp.
    fn is_key(&self, user: &[u8]) -> bool {
        self.order.strip_timestamp(user) == self.key
    }

    /// Returns whether the key lies between two stored keys, the first included; one whose order is unknown
    /// might.
    fn is_between(&self, begin: &[u8], end: &[u8], with_end: bool) -> bool {
        if !self.known_order {
            return true;
        }
        let to_key = |a: &[u8]| {
            let order = &self.order;
            order.compare_without_timestamp(a, true, self.key, false)
        };
        let before_end = match to_key(end) {
            Ordering::Greater => true,
            Ordering::Equal => with_end,
            Ordering::Less => false,
        };
        to_key(begin) != Ordering::Greater && before_end
    }

    fn version(&self, sequence: u64, kind: u8, user: &[u8], place: Place) -> Version {
        Version {
            family: self.id,
            sequence,
            kind,
            value: Vec::new(),
            range: None,
            timestamp: self.order.split_timestamp(user).1.to_vec(),
            place,
            flushed: false,
        }
    }
}

/// Describes what was found and what could not be read.
#[derive(Default)]
struct Findings {
    versions: Vec<Version>,
    unread: Vec<String>,
    tables: u64,
    logs: u64,
}

impl Find {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let key = parse(&self.key, self.hex)?;
        let places = self.files.tables.parse()?;
        let i = Inventory::read_with_disk(&self.db, self.files.wal_dir.as_deref()).at(&self.db)?;
        if let Some(name) = &self.cf {
            crate::db::open::known_family(&i, name)?;
        }
        let chosen = i
            .families
            .iter()
            .filter(|(_, f)| self.cf.as_ref().is_none_or(|name| *name == f.name));
        let wanted: Vec<Wanted<'_>> = chosen
            .map(|(&id, family)| Wanted {
                id,
                family,
                order: crate::db::verify::comparator_or_stand_in(&family.comparator),
                known_order: Comparator::from_name(&family.comparator).is_some(),
                key: &key,
            })
            .collect();
        let mut found = Findings {
            // Of tables that nothing names any more nobody knows whether they hold the key.
            unread: i.damage().collect(),
            ..Findings::default()
        };
        let tables: u64 = wanted.iter().map(|w| w.family.files.len() as u64).sum();
        let progress = term::bar(tables + i.logs.len() as u64, "files", "searching");
        for w in &wanted {
            for f in w.family.files.values() {
                if w.is_between(tables::user(&f.smallest), tables::user(&f.largest), true)
                    && let Err(e) = search_table(&i, &places, w, f, &mut found)
                {
                    found
                        .unread
                        .push(format!("{}: {e}", tables::name(&i, f.number)));
                }
                progress.inc(1);
            }
        }
        for &number in i.logs.keys() {
            if let Err(e) = search_log(&i, number, &wanted, &mut found) {
                let name = filenames::log_file_name(number);
                found.unread.push(format!("{name}: {e}"));
            }
            progress.inc(1);
        }
        progress.finish_and_clear();
        // Newest first, as a read meets them; a range tombstone covers only what is older.
        found.versions.sort_by(|a, b| {
            let timestamps = b.timestamp.iter().rev().cmp(a.timestamp.iter().rev());
            let newest = timestamps.then(b.sequence.cmp(&a.sequence));
            a.family
                .cmp(&b.family)
                .then(newest)
                .then(a.place.cmp(&b.place))
        });
        self.print(&i, &found)?;
        let failed = found.versions.is_empty() || !found.unread.is_empty();
        Ok(if failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }

    fn print(&self, i: &Inventory, found: &Findings) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        let paint = Paint::stdout();
        let states = states(&found.versions);
        let name = |v: &Version| {
            let name = i.families.get(&v.family).map_or("", |f| f.name.as_str());
            show_short(name.as_bytes(), FAMILY)
        };
        let columns = |text: String| term::width(&text);
        let wide = found.versions.iter().map(|v| columns(name(v))).max();
        let kinds = found.versions.iter().map(|v| type_name(v.kind).len()).max();
        for (v, state) in found.versions.iter().zip(states) {
            let family = i.families.get(&v.family).map_or("", |f| f.name.as_str());
            let kind = type_name(v.kind);
            let range = v.range.as_ref();
            if self.json {
                let mut object = json!({
                    "family": family, "sequence": v.sequence, "type": kind, "state": state,
                });
                match &v.place {
                    Place::Table { level, number } => {
                        object["file"] = tables::name(i, *number).into();
                        object["level"] = (*level).into();
                    }
                    Place::Log { number, offset } => {
                        object["file"] = filenames::log_file_name(*number).into();
                        object["offset"] = (*offset).into();
                    }
                }
                match range {
                    Some((from, to)) => {
                        object["from"] = bytes::json(from, self.hex);
                        object["to"] = bytes::json(to, self.hex);
                    }
                    None => object["value"] = bytes::json(&v.value, self.hex),
                }
                if !v.timestamp.is_empty() {
                    object["timestamp"] = crate::bytes::hex(&v.timestamp).into();
                }
                writeln!(out, "{object}")?;
                continue;
            }
            let place = match &v.place {
                Place::Table { level, number } => {
                    format!("{} (level {level})", tables::name(i, *number))
                }
                Place::Log { number, offset } => {
                    format!("{} (offset {offset})", filenames::log_file_name(*number))
                }
            };
            let value = match range {
                Some((from, to)) => {
                    format!("[{} .. {})", show(from, self.hex), show(to, self.hex))
                }
                None if self.full => show(&v.value, self.hex),
                None => show_short(&v.value, SHORT),
            };
            let value = match v.timestamp.is_empty() {
                true => value,
                false => format!("{value}  timestamp={}", crate::bytes::hex(&v.timestamp)),
            };
            let state = match state {
                "visible" => paint.green(format!("{state:8}")),
                _ => paint.dim(format!("{state:8}")),
            };
            writeln!(
                out,
                "{:>10}  {}  {kind:kinds$}  {state}  {place}  {value}",
                v.sequence,
                term::padded(&name(v), wide.unwrap_or(0)),
                kinds = kinds.unwrap_or(0)
            )?;
        }
        out.flush()?;
        for unread in &found.unread {
            tell!("{} {unread}", Paint::stderr().red("unread:"));
        }
        if !found.unread.is_empty() {
            crate::fail::ask_doctor(&i.dir);
        }
        if !self.json {
            let none = match found.versions.is_empty() {
                true => "nothing found",
                false => "searched",
            };
            tell!(
                "{none}: {} that may hold the key, {}",
                term::counted(found.tables, "table"),
                term::counted(found.logs, "log")
            );
        }
        Ok(())
    }
}

/// Returns what becomes of each version, newest first: `visible`, `operand` (a merge that is folded into what
/// comes below), `covered` (by a range tombstone), `deletes`, `hidden` (behind a newer one), `flushed`
/// (also in a table).
fn states(versions: &[Version]) -> Vec<&'static str> {
    let mut out = Vec::with_capacity(versions.len());
    let mut family = None;
    let mut decided = false;
    let mut last_seen: Option<(u64, &[u8])> = None;
    let mut tombstone = 0;
    for v in versions {
        if family != Some(v.family) {
            family = Some(v.family);
            decided = false;
            tombstone = 0;
            last_seen = None;
        }
        let range_kind = v.range.is_some();
        let seen = (v.sequence, v.timestamp.as_slice());
        let again = last_seen == Some(seen) && !range_kind;
        out.push(if v.flushed {
            // The entry also stands in a table, from where it may have gone since.
            "flushed"
        } else if again {
            "copy"
        } else if range_kind {
            tombstone = tombstone.max(v.sequence);
            if decided { "hidden" } else { "deletes" }
        } else if v.sequence < tombstone {
            "covered"
        } else if decided {
            "hidden"
        } else {
            decided = v.kind != ValueType::Merge as u8;
            match ValueType::from_byte(v.kind) {
                Some(ValueType::Merge) => "operand",
                Some(
                    ValueType::Deletion
                    | ValueType::SingleDeletion
                    | ValueType::DeletionWithTimestamp,
                ) => "deletes",
                _ => "visible",
            }
        });
        if !range_kind && !v.flushed {
            last_seen = Some(seen);
        }
    }
    out
}

fn search_table(
    i: &Inventory,
    places: &Places,
    w: &Wanted<'_>,
    f: &NewFile,
    found: &mut Findings,
) -> Result<()> {
    found.tables += 1;
    let place = Place::Table {
        level: f.level,
        number: f.number,
    };
    let reader = tables::open(i, places, w.family, f)?;
    let mut entries = reader.iter(match w.known_order {
        true => tables::point(),
        false => tables::walk(),
    });
    if w.known_order {
        // In front of all versions: the newest timestamp there can be.
        let mut first = w.key.to_vec();
        first.resize(first.len() + w.order.timestamp_size(), 0xff);
        entries.seek(&internal_key(&first, MAX_SEQUENCE << 8 | 0xff));
    } else {
        entries.seek_to_first();
    }
    while entries.valid() {
        let Some((user, tag)) = split_internal(entries.key()) else {
            break;
        };
        if w.is_key(user) {
            let mut v = w.version(tag_sequence(tag), tag_type(tag), user, place.clone());
            v.value = entries.value().to_vec();
            found.versions.push(v);
        } else if w.known_order {
            break;
        }
        entries.next();
    }
    entries.status()?;
    for (begin, end, sequence) in reader.range_tombstones()? {
        if w.known_order && w.is_between(&begin, &end, false) {
            let kind = ValueType::RangeDeletion as u8;
            let mut v = w.version(sequence, kind, &begin, place.clone());
            v.range = Some((begin, end));
            found.versions.push(v);
        }
    }
    Ok(())
}

/// Entries of a log that concern the key. Damage ends the search of the log, as it may end recovery.
fn search_log(
    i: &Inventory,
    number: u64,
    wanted: &[Wanted<'_>],
    found: &mut Findings,
) -> Result<()> {
    let path = i.wal_dir.join(filenames::log_file_name(number));
    let mut reader = LogReader::new(crate::reading::env().fs.open_sequential(&path)?, number);
    found.logs += 1;
    loop {
        let offset = match reader.next_event()? {
            ReadEvent::Record { offset, .. } => offset,
            ReadEvent::Eof | ReadEvent::OldRecord { .. } => return Ok(()),
            // A torn end is what a crash leaves.
            ReadEvent::Corruption { tail: true, .. } => return Ok(()),
            event @ ReadEvent::Corruption { .. } => match event.into_error() {
                Some(e) => return Err(e),
                None => return Ok(()),
            },
            _ => continue,
        };
        let Ok(batch) = BatchIter::new(reader.record()) else {
            continue;
        };
        let mut sequence = batch.sequence();
        for op in batch {
            let op = op?;
            let at = sequence;
            sequence += u64::from(op.is_counted());
            let id = op.cf().unwrap_or(0);
            let Some(w) = wanted.iter().find(|w| w.id == id) else {
                continue;
            };
            let place = Place::Log { number, offset };
            let flushed = number < w.family.log_number.max(i.min_log_number);
            if let Some(mut v) = logged(w, &op, at, place) {
                v.flushed = flushed;
                found.versions.push(v);
            }
        }
    }
}

/// A version if the entry concerns the key.
fn logged(w: &Wanted<'_>, op: &BatchOp<'_>, sequence: u64, place: Place) -> Option<Version> {
    let (key, kind, value): (&[u8], ValueType, &[u8]) = match *op {
        BatchOp::Put { key, value, .. } => (key, ValueType::Value, value),
        BatchOp::Merge { key, value, .. } => (key, ValueType::Merge, value),
        BatchOp::Delete { key, .. } => (key, ValueType::Deletion, b""),
        BatchOp::SingleDelete { key, .. } => (key, ValueType::SingleDeletion, b""),
        BatchOp::BlobIndex { key, index, .. } => (key, ValueType::BlobIndex, index),
        BatchOp::WideColumnEntity { key, entity, .. } => (key, ValueType::WideColumnEntity, entity),
        BatchOp::ValuePreferredSeqno { key, value, .. } => {
            (key, ValueType::ValuePreferredSeqno, value)
        }
        BatchOp::DeleteRange { begin, end, .. } => {
            if !w.known_order || !w.is_between(begin, end, false) {
                return None;
            }
            let mut v = w.version(sequence, ValueType::RangeDeletion as u8, begin, place);
            v.range = Some((begin.to_vec(), end.to_vec()));
            return Some(v);
        }
        _ => return None,
    };
    w.is_key(key).then(|| {
        let mut v = w.version(sequence, kind as u8, key, place);
        v.value = value.to_vec();
        v
    })
}
