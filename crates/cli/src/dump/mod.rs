//! `spanlith sst|wal|manifest|blob|options|trace VERB FILE`: one file, complete or in part, one record a line, or
//! whether it is whole ([`check`]).
//!
//! Columns are separated by tabs; the first names the kind of record. With `--json` each line is an
//! object with the same names. Damage is a line too, and makes the exit code 1.

mod blob;
mod check;
mod gen_trace;
pub mod kind;
mod manifest;
mod options;
mod sst;
mod summary;
mod trace;
mod wal;
mod write;

pub use sst::open as open_table;

use crate::bytes::{json, show};
use crate::fail::shell_word;
use clap::{Args, Subcommand};
use kind::Kind;
use spanlith_base::keys::{split_internal, tag_sequence, tag_type};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const SST_EXAMPLES: &str = "\
Examples:
  spanlith sst dump --no-entries 000012.sst   footer, properties, index
  spanlith sst layout 000012.sst              which blocks it consists of
  spanlith sst verify /data/db/*.sst          every checksum
  spanlith db scan --hex --db /data/db | spanlith sst write --hex --db /data/db bulk.sst";

const WAL_EXAMPLES: &str = "\
Examples:
  spanlith wal dump /data/db/000012.log       every update, with its sequence number
  spanlith wal check /data/db/*.log           every record
  spanlith wal since 1000 --db /data/db       what was written from sequence number 1000 on";

const MANIFEST_EXAMPLES: &str = "\
Examples:
  spanlith manifest dump /data/db/MANIFEST-000005
  spanlith manifest check --json /data/db/MANIFEST-*";

const BLOB_EXAMPLES: &str = "\
Examples:
  spanlith blob dump --hex 000021.blob        every value with its key
  spanlith blob verify /data/db/*.blob        every checksum
  spanlith blob live --db /data/db            how much of each is still referred to";

const OPTIONS_EXAMPLES: &str = "\
Examples:
  spanlith options dump /data/db/OPTIONS-000007
  spanlith options check /data/db/OPTIONS-*
  spanlith options diff /data/old /data/new   what differs; exit code 1 if anything does";

const TRACE_EXAMPLES: &str = "\
Examples:
  spanlith trace dump /tmp/trace              every request, lookup or call
  spanlith trace check /tmp/trace             every record
  spanlith bench ycsbc --trace-blocks /tmp/blocks --trace-io /tmp/io
  spanlith trace blocks /tmp/blocks           hit ratio by kind, caller, level and family
  spanlith trace io /tmp/io                   calls, bytes and times by operation and file
  trace_analyzer --trace_path=/tmp/trace --analyze_get --output_qps_stats   statistics of requests";

/// Verbs of `sst`.
#[derive(Debug, Subcommand)]
#[command(after_help = SST_EXAMPLES)]
pub enum Sst {
    /// Prints footer, meta blocks, properties, index and every entry
    Dump(SstDump),
    /// Prints the properties
    Properties(Dump),
    /// Prints where the blocks are, and the share of the file that each kind takes
    Layout(Dump),
    /// Verifies the checksum of every block of tables
    Verify(check::Check),
    /// Makes a table of lines KEY<TAB>VALUE, for `spanlith db ingest` or RocksDB
    Write(write::Write),
}

/// Verbs of `wal`.
#[derive(Debug, Subcommand)]
#[command(after_help = WAL_EXAMPLES)]
pub enum Wal {
    /// Prints every update of every batch
    Dump(Dump),
    /// Reads every record of logs
    #[command(alias = "verify")]
    Check(check::Check),
    /// Prints the updates from a sequence number on, of all logs of a database
    Since(wal::Since),
}

/// Verbs of `manifest`.
#[derive(Debug, Subcommand)]
#[command(after_help = MANIFEST_EXAMPLES)]
pub enum Manifest {
    /// Prints every field of every version edit
    Dump(Dump),
    /// Reads every record of MANIFESTs
    #[command(alias = "verify")]
    Check(check::Check),
}

/// Verbs of `blob`.
#[derive(Debug, Subcommand)]
#[command(after_help = BLOB_EXAMPLES)]
pub enum Blob {
    /// Prints header, footer and every value with its key
    Dump(Dump),
    /// Verifies every value of blob files
    Verify(check::Check),
    /// Shows how much of each blob file of a database is still referred to
    Live(check::Live),
}

/// Verbs of `options`.
#[derive(Debug, Subcommand)]
#[command(after_help = OPTIONS_EXAMPLES)]
pub enum Options {
    /// Prints every option of an OPTIONS file
    Dump(options::Dump),
    /// Reads OPTIONS files
    #[command(alias = "verify")]
    Check(check::Check),
    /// Prints the options that differ between two files or databases; exit code 1 if any does
    Diff(options::Diff),
}

/// Verbs of `trace`.
#[derive(Debug, Subcommand)]
#[command(after_help = TRACE_EXAMPLES)]
pub enum Trace {
    /// Prints every record of a trace of queries, of blocks or of file system calls
    Dump(Dump),
    /// Reads every record of traces
    #[command(alias = "verify")]
    Check(check::Check),
    /// Sums up a trace of looked-up blocks: by kind, caller, level and family
    Blocks(Dump),
    /// Sums up a trace of calls of the file system: by operation and kind of file
    Io(Dump),
    Gen(gen_trace::Gen),
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

/// Runs a verb about tables.
///
/// # Errors
/// What failed, with the way out.
pub fn run_sst(verb: Sst) -> anyhow::Result<ExitCode> {
    match verb {
        Sst::Dump(args) => {
            kind::expect(&args.dump.file, Kind::Table)?;
            sst::run(&args)
        }
        Sst::Properties(args) => {
            kind::expect(&args.file, Kind::Table)?;
            sst::properties(&args)
        }
        Sst::Layout(args) => {
            kind::expect(&args.file, Kind::Table)?;
            sst::layout(&args)
        }
        Sst::Verify(args) => args.run(Kind::Table, check::table),
        Sst::Write(args) => args.run(),
    }
}

/// Runs a verb about logs.
///
/// # Errors
/// What failed, with the way out.
pub fn run_wal(verb: Wal) -> anyhow::Result<ExitCode> {
    match verb {
        Wal::Dump(args) => {
            kind::expect(&args.file, Kind::Log)?;
            wal::run(&args)
        }
        Wal::Check(args) => args.run(Kind::Log, check::log),
        Wal::Since(args) => args.run(),
    }
}

/// Runs a verb about MANIFESTs.
///
/// # Errors
/// What failed, with the way out.
pub fn run_manifest(verb: Manifest) -> anyhow::Result<ExitCode> {
    match verb {
        Manifest::Dump(args) => {
            kind::expect(&args.file, Kind::Manifest)?;
            manifest::run(&args)
        }
        Manifest::Check(args) => args.run(Kind::Manifest, check::manifest),
    }
}

/// Runs a verb about blob files.
///
/// # Errors
/// What failed, with the way out.
pub fn run_blob(verb: Blob) -> anyhow::Result<ExitCode> {
    match verb {
        Blob::Dump(args) => {
            kind::expect(&args.file, Kind::Blob)?;
            blob::run(&args)
        }
        Blob::Verify(args) => args.run(Kind::Blob, check::blob),
        Blob::Live(args) => args.run(),
    }
}

/// Runs a verb about OPTIONS files.
///
/// # Errors
/// What failed, with the way out.
pub fn run_options(verb: Options) -> anyhow::Result<ExitCode> {
    match verb {
        Options::Dump(args) => args.run(),
        Options::Check(args) => args.run(Kind::Options, check::options),
        Options::Diff(args) => args.run(),
    }
}

/// Runs a verb about traces.
///
/// # Errors
/// What failed, with the way out.
pub fn run_trace(verb: Trace) -> anyhow::Result<ExitCode> {
    match verb {
        Trace::Dump(args) => {
            kind::expect(&args.file, Kind::Trace)?;
            trace::run(&args)
        }
        Trace::Check(args) => args.run(Kind::Trace, trace::check),
        Trace::Blocks(args) => {
            kind::expect(&args.file, Kind::Trace)?;
            summary::blocks(&args)
        }
        Trace::Io(args) => {
            kind::expect(&args.file, Kind::Trace)?;
            summary::calls(&args)
        }
        Trace::Gen(args) => args.run(),
    }
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
    format!("spanlith doctor --db {dir} says what is at stake and the way out")
}

/// A record: its kind, then named fields.
struct Record {
    kind: &'static str,
    fields: Vec<(&'static str, Field)>,
}

/// Describes what a field of a record holds.
enum Field {
    Value(serde_json::Value),
    /// Bytes, and whether they are shown in hexadecimal.
    Bytes(Vec<u8>, bool),
    /// An internal key of a MANIFEST: `user key@sequence number:type`.
    Key(Vec<u8>, bool),
}

impl Field {
    fn text(&self) -> String {
        match self {
            Self::Value(serde_json::Value::String(text)) => text.clone(),
            Self::Value(other) => other.to_string(),
            Self::Bytes(bytes, hex) => show(bytes, *hex),
            Self::Key(key, hex) => match split_internal(key) {
                Some((user, tag)) => format!(
                    "{}@{}:{}",
                    show(user, *hex),
                    tag_sequence(tag),
                    type_name(tag_type(tag))
                ),
                None => show(key, *hex),
            },
        }
    }

    fn json(&self) -> serde_json::Value {
        match self {
            Self::Value(value) => value.clone(),
            Self::Bytes(bytes, hex) => json(bytes, *hex),
            Self::Key(key, hex) => match split_internal(key) {
                Some((user, tag)) => serde_json::json!({
                    "key": json(user, *hex), "sequence": tag_sequence(tag), "type": type_name(tag_type(tag)),
                }),
                None => json(key, *hex),
            },
        }
    }
}

impl Record {
    fn new(kind: &'static str) -> Self {
        Self {
            kind,
            fields: Vec::new(),
        }
    }

    fn with(mut self, name: &'static str, value: impl Into<serde_json::Value>) -> Self {
        self.fields.push((name, Field::Value(value.into())));
        self
    }

    /// With a field that holds bytes.
    fn bytes(mut self, name: &'static str, bytes: &[u8], hex: bool) -> Self {
        self.fields.push((name, Field::Bytes(bytes.to_vec(), hex)));
        self
    }

    /// With a field that holds an internal key.
    fn key(mut self, name: &'static str, key: &[u8], hex: bool) -> Self {
        self.fields.push((name, Field::Key(key.to_vec(), hex)));
        self
    }

    /// Writes the line.
    fn print(&self, out: &mut dyn std::io::Write, json: bool) -> std::io::Result<()> {
        if json {
            let mut object = serde_json::Map::new();
            object.insert("record".to_string(), self.kind.into());
            for (name, value) in &self.fields {
                object.insert((*name).to_string(), value.json());
            }
            return writeln!(out, "{}", serde_json::Value::Object(object));
        }
        write!(out, "{}", self.kind)?;
        for (name, value) in &self.fields {
            write!(out, "\t{name}={}", value.text())?;
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
