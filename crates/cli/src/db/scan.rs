//! `db scan` and `db count`: many keys, in order.

use super::Common;
use super::open::known_family;
use crate::bytes::{self, parse, push};
use crate::dump::type_name;
use crate::fail::At;
use crate::inventory::Inventory;
use crate::raw::RawScan;
use crate::term;
use clap::Args;
use serde_json::json;
use spanlith::{Cf, Cursor, Entity, ReadOptions};
use spanlith_base::timestamp::decode_u64_timestamp;
use std::cmp::Ordering;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

/// Bytes gathered before they are written out.
const OUTPUT_BUFFER: usize = 256 << 10;
/// Entries between two updates of the progress line.
const TICK: u64 = 1 << 16;

/// A part of the key space.
#[derive(Debug, Args)]
struct Range {
    /// First key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<String>,
    /// Key to stop before
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<String>,
}

/// Prints entries.
#[derive(Debug, Args)]
pub struct Scan {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    range: Range,
    /// Stops after N entries
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Prints keys only
    #[arg(long)]
    keys_only: bool,
    /// Prints the columns of wide-column entities: name=value, separated by tabs
    #[arg(long, conflicts_with = "keys_only")]
    columns: bool,
    /// Prints every entry as tables and logs hold it: key, sequence number, kind, value. Operands of merges stay
    /// apart, deleted and overwritten entries are there, and a range deletion has its end as the value
    #[arg(long, conflicts_with_all = ["keys_only", "columns", "timestamps", "reverse"])]
    raw: bool,
    /// Prints the timestamp of each entry after its key, in families that have them
    #[arg(long)]
    timestamps: bool,
}

/// Counts entries.
#[derive(Debug, Args)]
pub struct Count {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    range: Range,
}

impl Range {
    fn cursor(&self, cf: &Cf, hex: bool) -> anyhow::Result<Cursor> {
        let mut options = ReadOptions::new().fill_cache(false);
        options.lower = self.from.as_deref().map(|k| parse(k, hex)).transpose()?;
        options.upper = self.to.as_deref().map(|k| parse(k, hex)).transpose()?;
        options.readahead = 1 << 20;
        let timestamp = cf.comparator().timestamp_size();
        if timestamp > 0 {
            // The latest there is.
            options.timestamp = Some(vec![0xff; timestamp]);
        }
        Ok(cf.cursor(options))
    }
}

impl Scan {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.raw {
            return self.run_raw();
        }
        let Common { target, hex, json } = &self.common;
        let cf = target.open_read_only()?;
        let mut out = BufWriter::with_capacity(OUTPUT_BUFFER, std::io::stdout().lock());
        let mut cursor = self.range.cursor(&cf, *hex)?;
        let mut left = self.limit.unwrap_or(u64::MAX);
        let mut line = Vec::new();
        let mut on = if self.reverse {
            cursor.seek_to_last()
        } else {
            cursor.seek_to_first()
        };
        while on.at(&target.db)? && left > 0 {
            left -= 1;
            line.clear();
            let entity = match self.columns {
                true => Some(cursor.entity().at(&target.db)?),
                false => None,
            };
            let columns = entity.as_ref().map(Entity::columns).transpose();
            let columns = columns.at(&target.db)?;
            let columns = columns.as_ref().map(|c| c.iter());
            if *json {
                let mut object = json!({ "key": bytes::json(cursor.key(), *hex) });
                if self.timestamps {
                    object["timestamp"] = timestamp(cursor.timestamp()).into();
                }
                if let Some(columns) = columns {
                    let shown = columns.map(|c| {
                        json!({ "name": bytes::json(c.name, *hex), "value": bytes::json(c.value, *hex) })
                    });
                    object["columns"] = shown.collect();
                } else if !self.keys_only {
                    object["value"] = bytes::json(target.value(cursor.value()), *hex);
                }
                line.extend_from_slice(object.to_string().as_bytes());
            } else {
                push(&mut line, cursor.key(), *hex);
                if self.timestamps {
                    line.push(b'\t');
                    line.extend_from_slice(timestamp(cursor.timestamp()).as_bytes());
                }
                if let Some(columns) = columns {
                    for column in columns {
                        line.push(b'\t');
                        push(&mut line, column.name, *hex);
                        line.push(b'=');
                        push(&mut line, column.value, *hex);
                    }
                } else if !self.keys_only {
                    line.push(b'\t');
                    push(&mut line, target.value(cursor.value()), *hex);
                }
            }
            line.push(b'\n');
            out.write_all(&line)?;
            on = if self.reverse {
                cursor.prev()
            } else {
                cursor.next()
            };
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Scan {
    /// Reads the files without the engine, which would need the merge operator.
    fn run_raw(self) -> anyhow::Result<ExitCode> {
        let Common { target, hex, json } = &self.common;
        let files = &target.how.files;
        let i = Inventory::read_with_logs(&target.db, files.wal_dir.as_deref()).at(&target.db)?;
        known_family(&i, &target.cf)?;
        let places = files.tables.parse()?;
        let order = target.order(&i)?;
        let bound = |key: Option<&str>| key.map(|k| parse(k, *hex)).transpose();
        let (from, to) = (bound(self.from())?, bound(self.to())?);
        let scan = RawScan::new(&i, &places, &target.cf, order.clone()).at(&target.db)?;
        let Some(scan) = scan else {
            return Ok(ExitCode::SUCCESS);
        };
        let mut scan = scan.with_table_ranges().at(&target.db)?;
        let mut out = BufWriter::with_capacity(OUTPUT_BUFFER, std::io::stdout().lock());
        let mut left = self.limit.unwrap_or(u64::MAX);
        let mut line = Vec::new();
        while left > 0 {
            let entry = match scan.next() {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                Err(e) => {
                    out.flush()?;
                    return Err(e).at(&target.db);
                }
            };
            let is = |bound: &Option<Vec<u8>>, wanted: Ordering| {
                let bound = bound.as_ref();
                bound.is_some_and(|b| order.compare(&entry.user, b) == wanted)
            };
            if is(&from, Ordering::Less) {
                continue;
            }
            if is(&to, Ordering::Greater) || is(&to, Ordering::Equal) {
                break;
            }
            left -= 1;
            line.clear();
            let kind = type_name(entry.kind);
            if *json {
                let object = json!({
                    "key": bytes::json(&entry.user, *hex), "sequence": entry.sequence, "kind": kind,
                    "value": bytes::json(&entry.value, *hex),
                });
                line.extend_from_slice(object.to_string().as_bytes());
            } else {
                push(&mut line, &entry.user, *hex);
                line.extend_from_slice(format!("\t{}\t{kind}\t", entry.sequence).as_bytes());
                push(&mut line, &entry.value, *hex);
            }
            line.push(b'\n');
            out.write_all(&line)?;
        }
        out.flush()?;
        Ok(i.exit_code())
    }

    fn from(&self) -> Option<&str> {
        self.range.from.as_deref()
    }

    fn to(&self) -> Option<&str> {
        self.range.to.as_deref()
    }
}

/// A timestamp as a number if it has eight bytes, as those of the built-in orders do.
fn timestamp(bytes: &[u8]) -> String {
    decode_u64_timestamp(bytes).map_or_else(|| crate::bytes::hex(bytes), |n| n.to_string())
}

impl Count {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Common { target, hex, json } = &self.common;
        let cf = target.open_read_only()?;
        let (mut entries, mut key_bytes, mut value_bytes) = (0u64, 0u64, 0u64);
        let mut cursor = self.range.cursor(&cf, *hex)?;
        let progress = term::spinner("entries", "counting");
        let mut on = cursor.seek_to_first();
        while on.at(&target.db)? {
            entries += 1;
            key_bytes += cursor.key().len() as u64;
            value_bytes += target.value(cursor.value()).len() as u64;
            if entries.is_multiple_of(TICK) {
                progress.set_position(entries);
            }
            on = cursor.next();
        }
        progress.finish_and_clear();
        let mut out = std::io::stdout().lock();
        if *json {
            let object = json!({
                "entries": entries, "key_bytes": key_bytes, "value_bytes": value_bytes
            });
            writeln!(out, "{object}")?;
        } else {
            writeln!(out, "{entries}")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
