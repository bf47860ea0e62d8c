//! `dump`, `idump` and `load`: many entries out and in.

use super::range::{Groups, Times, time_text};
use super::{Ldb, Stop};
use crate::inventory::Inventory;
use crate::places::Places;
use crate::raw::{RawEntry, RawScan, order_of};
use crate::sst_dump;
use spanlith::version::{FileKind, parse_file_name};
use spanlith::{WriteBatch, WriteOptions};
use spanlith_base::ValueType;
use spanlith_base::histogram::Distribution;
use std::cmp::Ordering;
use std::io::{BufRead, Write};
use std::path::Path;

/// Bytes at which a batch of a load is written.
const BATCH_BYTES: usize = 1 << 20;

/// A key and its value.
type KeyValue = (Vec<u8>, Vec<u8>);

impl Ldb {
    pub(super) fn dump(&mut self) -> Result<(), Stop> {
        if let Some(path) = self.args.path("path") {
            return self.dump_file(&path);
        }
        let most = self.args.most()?;
        let times = Times::of(&self.args)?;
        let count_only = self.args.is("count_only");
        let stamped = self.args.is("timestamp") && self.args.is("ttl");
        let mut groups = Groups::of(&self.args);
        let (target, cf) = self.open_to_read()?;
        if self.args.is("stats") {
            let stats = cf.property("rocksdb.stats").unwrap_or_default();
            self.line(stats.as_bytes())?;
        }
        let mut cursor = self.cursor(&cf)?;
        if stamped {
            let (from, to) = (time_text(times.from), time_text(times.to));
            writeln!(self.out, "Dumping key-values from {from} to {to}")?;
        }
        let sizes = Distribution::default();
        let mut count = 0u64;
        let mut on = cursor.seek_to_first()?;
        while on && most.is_none_or(|m| count < m) {
            let value = self.given(&target, cursor.value())?;
            if let Some(time) = self.time_of(&cursor, times) {
                count += 1;
                if count_only {
                    sizes.record(value.len() as u64);
                }
                if let Some(groups) = &mut groups {
                    let size = (cursor.key().len() + value.len()) as u64;
                    groups.add(cursor.key(), size, self)?;
                } else if !count_only {
                    if stamped {
                        write!(self.out, "{} ", time_text(time))?;
                    }
                    let mut line = self.args.show_key(cursor.key());
                    line.extend_from_slice(b" ==> ");
                    line.extend(self.args.show_value(value));
                    self.line(&line)?;
                }
            }
            on = cursor.next()?;
        }
        match groups {
            Some(mut groups) => groups.finish(self)?,
            None => writeln!(self.out, "Keys in range: {count}")?,
        }
        if count_only {
            writeln!(self.out, "Value size distribution: \n{}", sizes.text())?;
        }
        Ok(())
    }

    /// A file by its name: a table as `sst_dump` scans it, a log, a MANIFEST.
    fn dump_file(&mut self, path: &Path) -> Result<(), Stop> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match parse_file_name(&name) {
            Some(FileKind::Table(_)) => {
                let hex = self.args.key_hex || self.args.value_hex;
                Ok(sst_dump::scan_with_properties(
                    path,
                    hex,
                    self.args.is("decode_blob_index"),
                    &mut self.out,
                )?)
            }
            Some(FileKind::Log(_)) => self.print_log(path, true, true),
            Some(FileKind::Manifest(_)) => self.print_manifest(path, false, false),
            Some(FileKind::Blob(_)) => Err(Stop::failed(
                "Not implemented: dump of a blob file; spanlith blob dump shows it",
            )),
            _ => Err(Stop::failed(format!(
                "Unknown file type: {}",
                path.display()
            ))),
        }
    }

    pub(super) fn internal_dump(&mut self) -> Result<(), Stop> {
        let most = self.args.most()?.unwrap_or(u64::MAX);
        let hex = self.args.is("hex");
        // Here the bounds are hexadecimal only if that is said of them.
        self.args.key_hex = self.args.is("input_key_hex");
        let bound = |name| -> Result<Option<Vec<u8>>, Stop> {
            Ok(self.args.key_option(name)?.filter(|k| !k.is_empty()))
        };
        let (from, to) = (bound("from")?, bound("to")?);
        self.args.key_hex |= hex || self.args.is("key_hex");
        let decode = self.args.is("decode_blob_index");
        let target = self.target()?;
        self.family_exists(&target)?;
        if self.args.is("stats") {
            let (_, cf) = self.open_to_read()?;
            let stats = cf.property("rocksdb.stats").unwrap_or_default();
            self.line(stats.as_bytes())?;
        }
        let i = Inventory::read(&target.db)?;
        let order = order_of(&i, &target.cf);
        let places = Places::default();
        let entries = RawScan::new(&i, &places, &target.cf, order.clone())?;
        let mut entries = entries.map(RawScan::with_table_ranges).transpose()?;
        let mut covering: Vec<RawEntry> = Vec::new();
        let count_only = self.args.is("count_only");
        let mut groups = Groups::of(&self.args);
        let mut count = 0u64;
        let range = ValueType::RangeDeletion as u8;
        while let Some(entry) = entries.as_mut().map_or(Ok(None), RawScan::next)? {
            // Of range tombstones only what they leave is shown.
            covering.retain(|r| order.compare(&entry.user, &r.value) == Ordering::Less);
            if entry.kind == range {
                covering.push(entry);
                continue;
            }
            if covering.iter().any(|r| entry.sequence < r.sequence) {
                continue;
            }
            let RawEntry {
                user,
                sequence,
                kind,
                value,
            } = &entry;
            if from
                .as_ref()
                .is_some_and(|f| order.compare(user, f) == Ordering::Less)
            {
                continue;
            }
            if to
                .as_ref()
                .is_some_and(|t| order.compare(user, t) != Ordering::Less)
                || count >= most
            {
                break;
            }
            count += 1;
            if let Some(groups) = &mut groups {
                let size = (user.len() + value.len()) as u64;
                groups.add(user, size, self)?;
            } else if !count_only {
                let line = match decode {
                    true => sst_dump::decoded_line(user, *sequence, *kind, value, hex),
                    false => sst_dump::entry_line(user, *sequence, *kind, value, hex),
                };
                self.line(&line)?;
            }
        }
        match groups {
            Some(mut groups) => groups.finish(self)?,
            None => writeln!(self.out, "Internal keys in range: {count}")?,
        }
        Ok(())
    }

    /// Key and value of a line `KEY ==> VALUE`; `None` if it is none.
    pub(super) fn entry(&self, line: &[u8]) -> Result<Option<KeyValue>, Stop> {
        let Some(at) = line.windows(5).position(|w| w == b" ==> ") else {
            return Ok(None);
        };
        let (key, value) = (&line[..at], &line[at + 5..]);
        let key = match self.args.key_hex {
            true => self.args.key(&String::from_utf8_lossy(key))?,
            false => key.to_vec(),
        };
        let value = match self.args.value_hex {
            true => self.args.value(&String::from_utf8_lossy(value))?,
            false => value.to_vec(),
        };
        Ok(Some((key, value)))
    }

    pub(super) fn load(&mut self) -> Result<(), Stop> {
        let (target, cf) = self.open_to_write()?;
        let options = WriteOptions::new().disable_wal(self.args.is("disable_wal"));
        let mut batch = WriteBatch::new();
        let mut bad = 0u64;
        for line in std::io::stdin().lock().split(b'\n') {
            let line = line?;
            // A dump prints this at its end.
            if line.starts_with(b"Keys in range: ") || line.starts_with(b"Created bg thread 0x") {
                continue;
            }
            let Some((key, value)) = self.entry(&line)? else {
                bad += 1;
                continue;
            };
            batch.put_cf(&cf, key, target.stored(value));
            if batch.size_bytes() >= BATCH_BYTES {
                cf.db().write_opt(&batch, &options)?;
                batch.clear();
            }
        }
        cf.db().write_opt(&batch, &options)?;
        if self.args.is("disable_wal") {
            cf.flush(true)?;
        }
        if self.args.is("compact") || self.args.is("bulk_load") {
            cf.compact_range(None, None)?;
        }
        if bad > 0 {
            writeln!(self.out, "Warning: {bad} bad lines ignored.")?;
        }
        self.close(cf)
    }
}
