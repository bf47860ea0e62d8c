//! `db explain KEY`: what a get of the key would look at, place by place. With `--writes`: what held writes up, by the
//! info log ([`super::slow_writes`]).
//!
//! Places come in the order of a read: the logs in memory's place, level 0 by age, then one table per
//! level. For each is said whether its range holds the key, what its filter answers, and what is found.

use super::verify::comparator_or_stand_in;
use crate::bytes::{parse, show};
use crate::dump::type_name;
use crate::fail::{At, Failure};
use crate::inventory::{Family, Inventory};
use crate::places::{Places, TableFlags};
use crate::tables;
use crate::term::Paint;
use clap::Args;
use serde_json::json;
use spanlith::version::NewFile;
use spanlith::{Comparator, Result};
use spanlith_base::keys::{internal_key, split_internal, tag_sequence, tag_type};
use spanlith_base::{MAX_SEQUENCE, ValueType};
use std::cmp::Ordering;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Shows the path of a get.
#[derive(Debug, Args)]
pub struct Explain {
    /// The key
    #[arg(allow_hyphen_values = true, required_unless_present = "writes")]
    key: Option<String>,
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Column family
    #[arg(long, value_name = "NAME", default_value = "default")]
    cf: String,
    #[command(flatten)]
    tables: TableFlags,
    /// The key is bare hexadecimal
    #[arg(long)]
    hex: bool,
    /// Says instead why writes were slow, as far back as the info logs in the directory reach
    #[arg(long, conflicts_with_all = ["key", "hex"])]
    writes: bool,
    /// Prints JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Describes what a table answers.
struct Answer {
    /// `none`, `excludes` or `passes`.
    filter: &'static str,
    /// Number of the data block read.
    block: Option<usize>,
    /// Sequence number and type of the newest version.
    found: Option<(u64, u8)>,
}

impl Explain {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.writes {
            return super::slow_writes::run(&self.db, self.json);
        }
        let key = parse(self.key.as_deref().unwrap_or_default(), self.hex)?;
        let places = self.tables.parse()?;
        let i = Inventory::read_with_disk(&self.db, None).at(&self.db)?;
        // First: what is left of a damaged MANIFEST may name tables that are gone.
        let code = i.exit_code();
        super::open::known_family(&i, &self.cf)?;
        let Some(family) = i.family(&self.cf) else {
            return Ok(ExitCode::FAILURE);
        };
        let Some(order) = Comparator::from_name(&family.comparator) else {
            return Err(Failure::new(
                format!("Not implemented: order of keys {}", family.comparator),
                "spanlith find KEY looks into every table, whatever the order",
            )
            .into());
        };
        let mut out = std::io::stdout().lock();
        let paint = Paint::stdout();
        let logs = i.live_logs().map(|l| l.1).sum::<u64>();
        if self.json {
            let object = json!({ "place": "memtables", "log_bytes": logs });
            writeln!(out, "{object}")?;
        } else {
            writeln!(
                out,
                "memtables  always searched; after an open they hold {} of logs",
                crate::term::bytes(logs)
            )?;
        }
        let (mut reads, mut decided) = (0u64, false);
        for (level, candidates) in candidates(family, &order, &key) {
            if candidates.is_empty() {
                if self.json {
                    let object = json!({ "place": "level", "level": level, "candidates": 0 });
                    writeln!(out, "{object}")?;
                } else {
                    writeln!(out, "L{level:<9} no table's range holds the key")?;
                }
            }
            for f in candidates {
                let answer = ask(&i, &places, family, f, &order, &key);
                let answer = answer.at(&self.db)?;
                reads += u64::from(answer.block.is_some());
                let found = answer.found.map(|(sequence, kind)| {
                    format!("{} at sequence number {sequence}", type_name(kind))
                });
                if self.json {
                    let object = json!({
                        "place": "table", "level": level, "file": tables::name(&i, f.number),
                        "filter": answer.filter, "block": answer.block, "reached": !decided,
                        "found": answer.found.map(|(sequence, kind)| {
                            json!({ "sequence": sequence, "type": type_name(kind) })
                        }),
                    });
                    writeln!(out, "{object}")?;
                } else {
                    let name = tables::name(&i, f.number);
                    let what = match (answer.filter, found) {
                        ("excludes", _) => "the filter excludes it: no block is read".to_string(),
                        (filter, Some(found)) => format!(
                            "{}, block {}: {}",
                            filter_text(filter),
                            answer.block.unwrap_or(0),
                            paint.green(found)
                        ),
                        (filter, None) => {
                            format!("{}, a block is read in vain", filter_text(filter))
                        }
                    };
                    let after = if decided { "  (not reached)" } else { "" };
                    writeln!(out, "L{level:<9} {name}: {what}{after}")?;
                }
                decided |= answer.found.is_some_and(|f| f.1 != ValueType::Merge as u8);
            }
        }
        if !self.json {
            writeln!(
                out,
                "{}: {reads} data blocks over all tables; a get stops at the first entry that is no merge operand",
                show(&key, self.hex)
            )?;
        }
        Ok(code)
    }
}

fn filter_text(filter: &str) -> &'static str {
    match filter {
        "passes" => "the filter lets it pass",
        _ => "no filter",
    }
}

/// Per level that has tables, those whose range holds the key, in the order of a read.
fn candidates<'f>(
    family: &'f Family,
    order: &Comparator,
    key: &[u8],
) -> Vec<(u32, Vec<&'f NewFile>)> {
    let holds = |f: &&NewFile| {
        let to = |k: &[u8]| order.compare_without_timestamp(tables::user(k), true, key, false);
        to(&f.smallest) != Ordering::Greater && to(&f.largest) != Ordering::Less
    };
    family
        .levels()
        .into_keys()
        .map(|level| {
            let of_level = family.files.range((level, 0)..=(level, u64::MAX));
            let mut files: Vec<&NewFile> = of_level.map(|f| f.1).filter(holds).collect();
            files.sort_by_key(|f| std::cmp::Reverse((f.largest_seqno, f.epoch_number, f.number)));
            (level, files)
        })
        .collect()
}

fn ask(
    i: &Inventory,
    places: &Places,
    family: &Family,
    f: &NewFile,
    order: &Comparator,
    key: &[u8],
) -> Result<Answer> {
    let reader = tables::open(i, places, family, f)?;
    let mut first = key.to_vec();
    first.resize(key.len() + order.timestamp_size(), 0xff);
    let filter = match reader.has_filter() {
        false => "none",
        true if reader.may_match_version(&first, &tables::point()) => "passes",
        true => "excludes",
    };
    let mut answer = Answer {
        filter,
        block: None,
        found: None,
    };
    if filter == "excludes" {
        return Ok(answer);
    }
    let mut entries = reader.iter(tables::point());
    entries.seek(&internal_key(&first, MAX_SEQUENCE << 8 | 0xff));
    entries.status()?;
    if entries.valid() {
        answer.block = Some(entries.block_number());
        if let Some((user, tag)) = split_internal(entries.key())
            && comparator_or_stand_in(&family.comparator).strip_timestamp(user) == key
        {
            answer.found = Some((tag_sequence(tag), tag_type(tag)));
        }
    }
    Ok(answer)
}
