//! Commands about entries: put, get, delete, scan, query and their relatives.

use super::range::{Times, time_text};
use super::{Ldb, Stop};
use crate::db::open::Target;
use spanlith::{Cf, Cursor, ReadOptions, SizeOf, WriteBatch};
use spanlith_base::byte_text::{bytes_of_text, text_of_bytes};
use std::io::{BufRead, Write};

/// Bytes of a time after a value.
const TIME_LEN: usize = 4;

impl Ldb {
    pub(super) fn put(&mut self) -> Result<(), Stop> {
        let [key, value] = &self.args.words[..] else {
            let text = "<key> and <value> must be specified for the put command";
            return Err(Stop::failed(text));
        };
        let (key, value) = (self.args.key(key)?, self.args.value(value)?);
        let (target, cf) = self.open_to_write()?;
        cf.put(&key, target.stored(value))?;
        self.close(cf)?;
        self.ok()
    }

    pub(super) fn batch_put(&mut self) -> Result<(), Stop> {
        let words = self.args.words.clone();
        if words.len() < 2 {
            let text = "At least one <key> <value> pair must be specified batchput.";
            return Err(Stop::failed(text));
        }
        if !words.len().is_multiple_of(2) {
            let text = "Equal number of <key>s and <value>s must be specified for batchput.";
            return Err(Stop::failed(text));
        }
        let pairs = words.chunks_exact(2).map(|pair| {
            let (key, value) = (self.args.key(&pair[0])?, self.args.value(&pair[1])?);
            Ok((key, value))
        });
        let pairs: Vec<(Vec<u8>, Vec<u8>)> = pairs.collect::<Result<_, Stop>>()?;
        let (target, cf) = self.open_to_write()?;
        let mut batch = WriteBatch::new();
        for (key, value) in pairs {
            batch.put_cf(&cf, key, target.stored(value));
        }
        cf.db().write(&batch)?;
        self.close(cf)?;
        self.ok()
    }

    pub(super) fn get(&mut self) -> Result<(), Stop> {
        let [key] = &self.args.words[..] else {
            return Err(Stop::failed("<key> must be specified for the get command"));
        };
        let key = self.args.key(key)?;
        let (target, cf) = self.open_to_read()?;
        let Some(value) = cf.get(&key)? else {
            return Err(Stop::failed("Get failed: NotFound: "));
        };
        let value = self.args.show_value(self.given(&target, &value)?);
        self.line(&value)
    }

    pub(super) fn multi_get(&mut self) -> Result<(), Stop> {
        let words = self.args.words.clone();
        if words.is_empty() {
            let text = "At least one <key> must be specified for multi_get.";
            return Err(Stop::failed(text));
        }
        let keys = words.iter().map(|k| self.args.key(k));
        let keys: Vec<Vec<u8>> = keys.collect::<Result<_, _>>()?;
        let (target, cf) = self.open_to_read()?;
        let mut failed = Vec::new();
        for (key, found) in keys.iter().zip(cf.multi_get(&keys)) {
            match found {
                Ok(Some(value)) => {
                    let value = self.args.show_value(self.given(&target, &value)?);
                    self.line(&value)?;
                }
                Ok(None) => self.line(b"Key not found")?,
                Err(e) => {
                    let key = String::from_utf8_lossy(&self.args.show_key(key)).into_owned();
                    failed.push(format!("Status for key {key}: {e}"));
                }
            }
        }
        match failed.is_empty() {
            true => Ok(()),
            false => Err(Stop::failed(failed.join("\n"))),
        }
    }

    pub(super) fn delete(&mut self) -> Result<(), Stop> {
        let [key] = &self.args.words[..] else {
            let text = "KEY must be specified for the delete command";
            return Err(Stop::failed(text));
        };
        let key = self.args.key(key)?;
        let (_, cf) = self.open_to_write()?;
        cf.delete(&key)?;
        self.close(cf)?;
        self.ok()
    }

    pub(super) fn delete_range(&mut self) -> Result<(), Stop> {
        let [begin, end] = &self.args.words[..] else {
            let text = "begin and end keys must be specified for the delete command";
            return Err(Stop::failed(text));
        };
        let (begin, end) = (self.args.key(begin)?, self.args.key(end)?);
        let (_, cf) = self.open_to_write()?;
        cf.delete_range(&begin, &end)?;
        self.close(cf)?;
        self.ok()
    }

    pub(super) fn scan(&mut self) -> Result<(), Stop> {
        let most = self.args.most()?;
        let times = Times::of(&self.args)?;
        let (no_value, stamped) = (self.args.is("no_value"), self.args.is("timestamp"));
        let (target, cf) = self.open_to_read()?;
        let mut cursor = self.cursor(&cf)?;
        let ttl = self.args.is("ttl");
        if ttl && stamped {
            let (from, to) = (time_text(times.from), time_text(times.to));
            writeln!(self.out, "Scanning key-values from {from} to {to}")?;
        }
        let mut shown = 0;
        let mut on = cursor.seek_to_first()?;
        while on && most.is_none_or(|m| shown < m) {
            let value = self.given(&target, cursor.value())?;
            if let Some(time) = self.time_of(&cursor, times) {
                if ttl && stamped {
                    write!(self.out, "{} ", time_text(time))?;
                }
                let mut line = self.args.show_key(cursor.key());
                if !no_value {
                    line.extend_from_slice(b" : ");
                    line.extend(self.args.show_value(value));
                }
                self.line(&line)?;
                shown += 1;
            }
            on = cursor.next()?;
        }
        Ok(())
    }

    pub(super) fn query(&mut self) -> Result<(), Stop> {
        let (target, cf) = self.open_to_write()?;
        for line in std::io::stdin().lock().split(b'\n') {
            let line = text_of_bytes(&line?);
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            match words[..] {
                [] => {}
                ["help", ..] => {
                    self.line(b"get <key>\nput <key> <value>\ndelete <key>")?;
                }
                ["exit" | "quit"] => break,
                ["get", key] => self.query_get(&target, &cf, key)?,
                ["put", key, value] => {
                    let (k, v) = (self.args.key(key)?, self.args.value(value)?);
                    cf.put(&k, target.stored(v))?;
                    self.line(&bytes_of_text(&format!("Successfully put {key} {value}")))?;
                }
                ["delete", key] => {
                    cf.delete(self.args.key(key)?)?;
                    self.line(&bytes_of_text(&format!("Successfully deleted {key}")))?;
                }
                [name, ..] => {
                    self.line(&bytes_of_text(&format!("Unknown command {name}")))?;
                }
            }
            self.out.flush()?;
        }
        self.close(cf)
    }

    fn query_get(&mut self, target: &Target, cf: &Cf, text: &str) -> Result<(), Stop> {
        let key = self.args.key(text)?;
        match cf.get(&key)? {
            Some(value) => {
                let mut line = self.args.show_key(&key);
                line.extend_from_slice(b" ==> ");
                line.extend(self.args.show_value(self.given(target, &value)?));
                self.line(&line)
            }
            None => self.line(&bytes_of_text(&format!("Not found {text}"))),
        }
    }

    pub(super) fn approximate_size(&mut self) -> Result<(), Stop> {
        let bound = |name: &str| {
            let text = format!("{name} must be specified for approxsize command");
            self.args
                .key_option(name)?
                .ok_or_else(|| Stop::failed(text))
        };
        let (from, to) = (bound("from")?, bound("to")?);
        let (_, cf) = self.open_to_read()?;
        let size = cf.approximate_size(&from, &to, SizeOf::default())?;
        writeln!(self.out, "{size}")?;
        Ok(())
    }

    pub(super) fn check_consistency(&mut self) -> Result<(), Stop> {
        self.open_to_read()?;
        self.ok()
    }

    /// A cursor over the range that the options give.
    pub(super) fn cursor(&self, cf: &Cf) -> Result<Cursor, Stop> {
        let mut options = ReadOptions::new().fill_cache(false);
        // An empty bound is none.
        options.lower = self.args.key_option("from")?.filter(|k| !k.is_empty());
        options.upper = self.args.key_option("to")?.filter(|k| !k.is_empty());
        options.readahead = 1 << 20;
        let timestamp = cf.comparator().timestamp_size();
        if timestamp > 0 {
            // The latest there is.
            options.timestamp = Some(vec![0xff; timestamp]);
        }
        Ok(cf.cursor(options))
    }

    /// A value as it was given.
    pub(super) fn given<'v>(&self, target: &Target, stored: &'v [u8]) -> Result<&'v [u8], Stop> {
        // Nothing of an entry that was written without a time tells the time from the value.
        if self.args.is("ttl") && stored.len() < TIME_LEN {
            let text = "Corruption: Error: value's length less than timestamp's";
            return Err(Stop::failed(text));
        }
        Ok(target.value(stored))
    }

    /// The time of an entry, 0 without times; `None` if it is not to be shown.
    pub(super) fn time_of(&self, cursor: &Cursor, times: Times) -> Option<i64> {
        match self.args.is("ttl") {
            true => times.take(cursor.value()),
            false => Some(0),
        }
    }

    pub(super) fn ok(&mut self) -> Result<(), Stop> {
        self.line(b"OK")
    }

    pub(super) fn line(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.out.write_all(bytes)?;
        self.out.write_all(b"\n")?;
        Ok(())
    }
}
