//! `options dump` and `options diff`: what OPTIONS files say, and where two of them differ.

use super::kind::{self, Kind};
use crate::bytes::show;
use crate::fail::{At, Failure};
use crate::inventory::Inventory;
use clap::Args;
use serde_json::json;
use spanlith::Error;
use spanlith::options::ini::parse_options_file_with;
use spanlith::options::{OptionTable, ParsedOptions};
use spanlith_env::Env;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Longest OPTIONS file that is read.
const BYTES_MAX: u64 = 16 << 20;

/// Which file.
#[derive(Debug, Args)]
pub struct Dump {
    /// An OPTIONS file, or the directory of a database
    file: PathBuf,
    /// Prints JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Which files.
#[derive(Debug, Args)]
pub struct Diff {
    /// An OPTIONS file, or the directory of a database
    first: PathBuf,
    /// Another one
    second: PathBuf,
    /// Prints JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Values by section and name.
type Values = BTreeMap<(String, &'static str), String>;

impl Dump {
    /// Prints every option.
    ///
    /// # Errors
    /// Of reading the file, and of writing.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let mut out = std::io::stdout().lock();
        for ((section, name), value) in read(&self.file)? {
            match self.json {
                true => {
                    let object = json!({ "section": section, "name": name, "value": value });
                    writeln!(out, "{object}")?;
                }
                false => writeln!(out, "{section}\t{name}={value}")?,
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Diff {
    /// Prints the options that differ; exit code 1 if any does.
    ///
    /// # Errors
    /// Of reading the files, and of writing.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let (first, second) = (read(&self.first)?, read(&self.second)?);
        let mut names: Vec<_> = first.keys().chain(second.keys()).collect();
        names.sort();
        names.dedup();
        let mut out = std::io::stdout().lock();
        let mut same = true;
        for key @ (section, name) in names {
            let (a, b) = (first.get(key), second.get(key));
            if a == b {
                continue;
            }
            same = false;
            if self.json {
                let object = json!({ "section": section, "name": name, "first": a, "second": b });
                writeln!(out, "{object}")?;
                continue;
            }
            let side = |value: Option<&String>| value.map_or("(none)".to_string(), String::clone);
            writeln!(out, "{section}\t{name}\t{}\t{}", side(a), side(b))?;
        }
        Ok(match same {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }
}

fn read(path: &Path) -> anyhow::Result<Values> {
    let parsed = match path.is_dir() {
        false => {
            kind::expect(path, Kind::Options)?;
            let read = || {
                let bytes = Env::system().fs.read_all(path, BYTES_MAX)?;
                let text = String::from_utf8(bytes)
                    .map_err(|_| Error::corruption("OPTIONS file is not text"))?;
                parse_options_file_with(&text, true)
            };
            read()
        }
        true => {
            let options = Inventory::read(path).at(path)?.options;
            let file = options.ok_or_else(|| {
                Failure::new(
                    format!("{} has no OPTIONS file", path.display()),
                    "an engine that opens the database writes one: spanlith db flush",
                )
            })?;
            file.parsed
        }
    };
    let parsed = parsed.map_err(|e| {
        Failure::new(
            format!("{}: {e}", path.display()),
            "the file is text: mend the line it names, or restore it from a copy; spanlith db flush \
             --default-options opens a database without it",
        )
    })?;
    Ok(values(&parsed))
}

fn values(parsed: &ParsedOptions) -> Values {
    let mut out = Values::new();
    section(&mut out, "database".to_string(), &parsed.db);
    for cf in &parsed.cfs {
        let name = show(cf.name.as_bytes(), false);
        section(&mut out, format!("family {name}"), &cf.options);
        section(&mut out, format!("table {name}"), &cf.table);
    }
    out
}

fn section<T: OptionTable>(out: &mut Values, section: String, options: &T) {
    for row in T::ROWS {
        let value = options.get_option(row.name).unwrap_or_default();
        out.insert((section.clone(), row.name), value);
    }
}
