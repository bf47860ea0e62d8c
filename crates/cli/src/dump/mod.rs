//! `spanlith sst|wal|manifest|blob dump FILE`: one file, complete, one record a line.
//!
//! Columns are separated by tabs; the first names the kind of record. With `--json` each line is an
//! object with the same names. Damage is a line too, and makes the exit code 1.

mod blob;
mod manifest;
mod sst;
mod wal;

pub use sst::open as open_table;

use crate::fail::shell_word;
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Verbs of `sst`.
#[derive(Debug, Subcommand)]
pub enum Sst {
    /// Prints footer, meta blocks, properties, index and every entry
    Dump(SstDump),
}

/// Verbs of `wal`.
#[derive(Debug, Subcommand)]
pub enum Wal {
    /// Prints every update of every batch
    Dump(Dump),
}

/// Verbs of `manifest`.
#[derive(Debug, Subcommand)]
pub enum Manifest {
    /// Prints every field of every version edit
    Dump(Dump),
}

/// Verbs of `blob`.
#[derive(Debug, Subcommand)]
pub enum Blob {
    /// Prints header, footer and every value with its key
    Dump(Dump),
}

/// Which file, and how.
#[derive(Debug, Args)]
pub struct Dump {
    /// The file
    file: PathBuf,
    /// Keys and values in bare hexadecimal
    #[arg(long)]
    hex: bool,
    /// Prints JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Which table, and how much of it.
#[derive(Debug, Args)]
pub struct SstDump {
    #[command(flatten)]
    dump: Dump,
    /// Leaves out the entries
    #[arg(long)]
    no_entries: bool,
    /// Leaves out the index
    #[arg(long)]
    no_index: bool,
}

/// Dumps a table.
///
/// # Errors
/// What failed, with the way out.
pub fn run_sst(verb: Sst) -> anyhow::Result<ExitCode> {
    let Sst::Dump(args) = verb;
    sst::run(&args)
}

/// Dumps a log.
///
/// # Errors
/// What failed, with the way out.
pub fn run_wal(verb: Wal) -> anyhow::Result<ExitCode> {
    let Wal::Dump(args) = verb;
    wal::run(&args)
}

/// Dumps a MANIFEST.
///
/// # Errors
/// What failed, with the way out.
pub fn run_manifest(verb: Manifest) -> anyhow::Result<ExitCode> {
    let Manifest::Dump(args) = verb;
    manifest::run(&args)
}

/// Dumps a blob file.
///
/// # Errors
/// What failed, with the way out.
pub fn run_blob(verb: Blob) -> anyhow::Result<ExitCode> {
    let Blob::Dump(args) = verb;
    blob::run(&args)
}

/// The directory of a file: that of its database.
fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// The next command after damage in one file.
fn verify_hint(file: &Path) -> String {
    let dir = shell_word(folder(file));
    format!("spanlith db verify --db {dir} checks the whole database")
}

/// A record: its kind, then named fields.
struct Record {
    kind: &'static str,
    fields: Vec<(&'static str, serde_json::Value)>,
}

impl Record {
    fn new(kind: &'static str) -> Self {
        Self {
            kind,
            fields: Vec::new(),
        }
    }

    fn with(mut self, name: &'static str, value: impl Into<serde_json::Value>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// Writes the line.
    fn print(&self, out: &mut dyn std::io::Write, json: bool) -> std::io::Result<()> {
        if json {
            let mut object = serde_json::Map::new();
            object.insert("record".to_string(), self.kind.into());
            for (name, value) in &self.fields {
                object.insert((*name).to_string(), value.clone());
            }
            return writeln!(out, "{}", serde_json::Value::Object(object));
        }
        write!(out, "{}", self.kind)?;
        for (name, value) in &self.fields {
            match value {
                serde_json::Value::String(text) => write!(out, "\t{name}={text}")?,
                other => write!(out, "\t{name}={other}")?,
            }
        }
        writeln!(out)
    }
}

/// Name of an entry's type byte.
pub fn type_name(byte: u8) -> String {
    use spanlith_base::ValueType as T;
    match T::from_byte(byte) {
        Some(T::Value) => "put".to_string(),
        Some(T::Deletion) => "delete".to_string(),
        Some(T::Merge) => "merge".to_string(),
        Some(T::SingleDeletion) => "single_delete".to_string(),
        Some(T::RangeDeletion) => "delete_range".to_string(),
        Some(T::BlobIndex) => "blob_index".to_string(),
        Some(T::DeletionWithTimestamp) => "delete_with_timestamp".to_string(),
        Some(T::WideColumnEntity) => "wide_column_entity".to_string(),
        Some(T::ValuePreferredSeqno) => "timed_put".to_string(),
        None => format!("type_{byte}"),
    }
}
