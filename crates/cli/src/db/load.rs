//! `db load`: lines of KEY<TAB>VALUE into the database.
//!
//! The lines are what `db scan` prints, with or without `--hex`. They are written in batches, each of
//! which takes effect as a whole; a line that cannot be understood stops the load, and the message
//! says how many lines before it are in.

use super::Common;
use super::dump::FAMILY_MARK;
use super::open::WriteFlags;
use crate::bytes::{parse, parse_line};
use crate::fail::{At, Failure, of_system, shell_word};
use crate::term;
use anyhow::Context;
use clap::Args;
use serde_json::json;
use spanlith::{Cf, Comparator, Db, FamilyOptions, WriteBatch, WriteOptions};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Bytes at which a batch is written even if it has few entries.
const BATCH_BYTES: usize = 1 << 20;

/// Loads entries.
#[derive(Debug, Args)]
pub struct Load {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    flags: WriteFlags,
    /// Entries per write
    #[arg(long, value_name = "N", default_value_t = 1000, alias = "batch_size",
          value_parser = clap::value_parser!(u64).range(1..))]
    batch_size: u64,
    /// Every write survives a power cut when it returns, not only the last
    #[arg(long)]
    sync: bool,
    /// The lines are those of `db dump`: each `@family` line names the column family of what follows,
    /// which is made if --create is given
    #[arg(long)]
    dump: bool,
    /// File of lines KEY<TAB>VALUE; standard input if left out
    file: Option<PathBuf>,
}

impl Load {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Common { target, hex, json } = &self.common;
        let (input, progress): (Box<dyn Read>, _) = match &self.file {
            Some(path) => {
                let name = path.display().to_string();
                let file = File::open(path).map_err(|e| {
                    let next = format!("check the path: ls -l {}", shell_word(path));
                    Failure::new(format!("cannot read {name}: {}", of_system(&e)), next)
                })?;
                let size = file.metadata().map(|m| m.len()).unwrap_or(0);
                (Box::new(file), term::bar(size, "B", "loading"))
            }
            None => (Box::new(std::io::stdin()), term::spinner("B", "loading")),
        };
        let start = Instant::now();
        let mut input = BufReader::with_capacity(256 << 10, input);
        let (mut batch, mut line) = (WriteBatch::new(), Vec::new());
        // An empty input changes nothing and makes no database.
        let mut ahead = input
            .read_until(b'\n', &mut line)
            .context("reading the input")?;
        let is_family = self.dump && line.starts_with(FAMILY_MARK.as_bytes());
        if ahead > 0
            && !is_family
            && let Err(why) = entry(&line, *hex)
        {
            return Err(Failure::new(
                format!("line 1: {why}"),
                "nothing was written; lines are KEY<TAB>VALUE, as spanlith db scan prints them",
            )
            .into());
        }
        let mut cf = target.open_read_write(&self.flags)?;
        let db = cf.db().clone();
        let options = WriteOptions::new().sync(self.sync);
        let (mut read, mut written, mut bytes) = (0u64, 0u64, 0u64);
        let end = loop {
            let n = match std::mem::take(&mut ahead) {
                0 if read > 0 => {
                    line.clear();
                    input
                        .read_until(b'\n', &mut line)
                        .context("reading the input")?
                }
                n => n,
            };
            if n == 0 {
                break Ok(());
            }
            bytes += n as u64;
            read += 1;
            if self.dump
                && let Some(name) = line.strip_prefix(FAMILY_MARK.as_bytes())
            {
                match self.family(&db, name)? {
                    Ok(family) => cf = family,
                    Err(why) => break Err(why),
                }
                continue;
            }
            match entry(&line, *hex) {
                Ok((key, value)) => batch.put_cf(&cf, key, target.stored(value)),
                Err(why) => break Err(why),
            };
            if batch.len() as u64 >= self.batch_size || batch.size_bytes() >= BATCH_BYTES {
                db.write_opt(&batch, &options)
                    .at(&target.db)
                    .with_context(|| format!("after {written} entries"))?;
                written += batch.len() as u64;
                batch.clear();
                progress.set_position(bytes);
            }
        };
        if !batch.is_empty() {
            db.write_opt(&batch, &options)
                .at(&target.db)
                .with_context(|| format!("after {written} entries"))?;
            written += batch.len() as u64;
        }
        progress.finish_and_clear();
        db.sync().at(&target.db)?;
        db.close().at(&target.db)?;
        if let Err(why) = end {
            return Err(Failure::new(
                format!("line {read}: {why}"),
                format!(
                    "the {written} lines before it are in; correct the line, then load the rest: \
                     tail -n +{read}"
                ),
            )
            .into());
        }
        let seconds = start.elapsed().as_secs_f64();
        if *json {
            let object = json!({ "entries": written, "bytes": bytes, "seconds": seconds });
            writeln!(std::io::stdout(), "{object}")?;
        } else {
            tell!(
                "{} entries loaded in {seconds:.2} s ({}/s)",
                term::count(written),
                term::count((written as f64 / seconds.max(1e-9)) as u64)
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Load {
    /// The family that a line of a dump names.
    fn family(&self, db: &Db, line: &[u8]) -> anyhow::Result<Result<Cf, String>> {
        let line = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
        let (text, order) = match line.split_once('\t') {
            Some((name, order)) => (name, Comparator::from_name(order)),
            None => (line.as_str(), Some(Comparator::Bytewise)),
        };
        let name = parse(text, false).ok();
        let Some(name) = name.and_then(|name| String::from_utf8(name).ok()) else {
            return Ok(Err(format!("'{text}' is no name of a column family")));
        };
        Ok(match (db.cf(&name), order) {
            (Some(cf), _) => Ok(cf),
            (None, Some(order)) if self.flags.create => {
                let family = FamilyOptions::new(&name).comparator(order);
                Ok(db.create_cf(family).at(&self.common.target.db)?)
            }
            (None, Some(_)) => Err(format!("there is no family {text}; --create makes it")),
            (None, None) => Err(format!("the order of family {text} is not known here")),
        })
    }
}

/// Key and value of a line.
pub fn entry(line: &[u8], hex: bool) -> Result<(Vec<u8>, Vec<u8>), String> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = std::str::from_utf8(line)
        .map_err(|_| "not UTF-8 text; write other bytes as \\xNN or use --hex".to_string())?;
    let Some((key, value)) = line.split_once('\t') else {
        return Err("no tab between key and value".to_string());
    };
    let one = |text: &str| parse_line(text, hex).map_err(|e| e.to_string());
    Ok((one(key)?, one(value)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_key_tab_value() {
        assert_eq!(
            entry(b"a\tb\tc\n", false),
            Ok((b"a".to_vec(), b"b\tc".to_vec()))
        );
        assert_eq!(entry(b"61\t\r\n", true), Ok((b"a".to_vec(), Vec::new())));
        assert_eq!(
            entry(b"a b", false),
            Err("no tab between key and value".to_string())
        );
        assert!(entry(b"\xff\t", false).is_err());
    }
}
