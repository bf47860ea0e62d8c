//! `ldb`: RocksDB's administration tool, with its flags, its output and its exit codes.
//!
//! The binary called `ldb` is this, and so is `spanlith ldb`. Commands that only read open for reading
//! and change nothing, which the reference does not promise. Commands this build lacks are refused by
//! name. [`args`] takes the command line apart, [`data`], [`admin`] and [`copies`] hold the commands that open
//! the database, [`files`] those that read its files.

mod admin;
pub mod args;
mod copies;
mod data;
mod dump;
mod files;
mod range;

use crate::db::open::{How, Target, WriteFlags};
use crate::fail;
use crate::os_text::complain;
use args::Args;
use spanlith::{Cf, Error};
use spanlith_base::CompressionType;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Bytes gathered before they are written out.
const OUTPUT_BUFFER: usize = 256 << 10;

/// Commands of the reference that this build does not have.
const ABSENT: [&str; 3] = [
    "unsafe_remove_sst_file",
    "update_manifest",
    "change_compaction_style",
];

const HELP: &str = "\
ldb - administration tool for RocksDB directories (Spanlith)

Usage: ldb --db=DIR COMMAND [ARGUMENTS] [--OPTION[=VALUE]]…

Keys and values:
  --hex, --key_hex, --value_hex   hexadecimal, in and out, with 0x in front
  --column_family=NAME            the column family; default if left out
  --ttl                           values end in four bytes of time

Data:
  put KEY VALUE [--create_if_missing]        batchput KEY VALUE [KEY VALUE]…
  get KEY    multi_get KEY [KEY]…            delete KEY    deleterange BEGIN END
  scan [--from] [--to] [--max_keys] [--no_value] [--timestamp] [--start_time] [--end_time]
  query                                      a line each: get KEY, put KEY VALUE, delete KEY
  approxsize [--from] [--to]                 checkconsistency
  list_file_range_deletes [--max_keys]

Administration:
  dump [--from] [--to] [--max_keys] [--count_only] [--count_delim[=C]] [--stats] [--timestamp]
  dump --path=FILE                           a table, log or MANIFEST
  idump [--from] [--to] [--input_key_hex] [--max_keys] [--count_only] [--count_delim[=C]] [--stats]
  load [--create_if_missing] [--disable_wal] [--bulk_load] [--compact]
  dump_wal --walfile=FILE [--header] [--print_value]
  manifest_dump [--verbose] [--json] [--path=FILE]
  file_checksum_dump [--path=FILE]           dump_live_files
  list_live_files_metadata [--sort_by_filename]
  list_column_families                       get_property NAME
  create_column_family NAME                  drop_column_family NAME
  compact [--from] [--to]                    reduce_levels --new_levels=N [--print_old_levels]
  checkpoint --checkpoint_dir=DIR            repair [--verbose]
  backup --backup_dir=DIR                    restore --backup_dir=DIR
  write_extern_sst FILE                      lines KEY ==> VALUE from standard input, in order
  ingest_extern_sst FILE [--move_files] [--snapshot_consistency] [--allow_global_seqno]
                         [--allow_blocking_flush] [--write_global_seqno]

When writing: --write_buffer_size= --file_size= --block_size= --compression_type= --auto_compaction=

Example: ldb --db=/data/db scan --from=a --to=m --max_keys=10";

/// Why a command ends.
#[derive(Debug)]
pub enum Stop {
    /// After `Failed: `.
    Failed(String),
    /// As it is.
    Said(String),
    /// The command line makes no sense: with the help after it.
    Help(String),
    /// Writing the output failed.
    Output(std::io::Error),
}

impl Stop {
    /// A failure.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }
}

impl From<Error> for Stop {
    fn from(e: Error) -> Self {
        Self::Failed(e.rocksdb_text())
    }
}

impl From<std::io::Error> for Stop {
    fn from(e: std::io::Error) -> Self {
        Self::Output(e)
    }
}

impl From<anyhow::Error> for Stop {
    fn from(e: anyhow::Error) -> Self {
        Self::Failed(format!("{e:#}"))
    }
}

/// A command line with the output it writes to.
pub struct Ldb {
    args: Args,
    out: Box<dyn Write>,
}

/// Runs `ldb` with arguments that do not include its own name.
pub fn run(args: Vec<String>) -> ExitCode {
    if args.iter().any(|a| a == "--help" || a == "help") {
        return fail::show(HELP);
    }
    if args.iter().any(|a| a == "--version") {
        return fail::show(concat!("ldb from Spanlith ", env!("CARGO_PKG_VERSION")));
    }
    let mut ldb = Ldb {
        args: Args::parse(args),
        out: Box::new(BufWriter::with_capacity(
            OUTPUT_BUFFER,
            std::io::stdout().lock(),
        )),
    };
    let done = ldb.dispatch();
    // The output before a failure is shown first.
    let flushed = ldb.out.flush().map_err(Stop::from);
    match done.and(flushed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Output(e)) if e.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(stop) => {
            match stop {
                Stop::Failed(text) => tell!("Failed: {text}"),
                Stop::Said(text) => complain(&text),
                Stop::Help(text) => tell!("{text}\n{HELP}"),
                Stop::Output(e) => tell!("Failed: {e}"),
            }
            ExitCode::FAILURE
        }
    }
}

impl Ldb {
    fn dispatch(&mut self) -> Result<(), Stop> {
        const RANGE: [&str; 3] = ["from", "to", "max_keys"];
        let command = self.args.command.clone();
        let own: &[&str] = match command.as_str() {
            "put" | "batchput" => &["create_if_missing"],
            "scan" => &[
                "from",
                "to",
                "max_keys",
                "no_value",
                "timestamp",
                "start_time",
                "end_time",
            ],
            "dump" => &[
                "from",
                "to",
                "max_keys",
                "timestamp",
                "count_only",
                "count_delim",
                "stats",
                "bucket",
                "start_time",
                "end_time",
                "decode_blob_index",
                "dump_uncompressed_blobs",
            ],
            "idump" => &[
                "from",
                "to",
                "max_keys",
                "input_key_hex",
                "count_only",
                "count_delim",
                "stats",
                "decode_blob_index",
            ],
            "load" => &["create_if_missing", "disable_wal", "bulk_load", "compact"],
            "dump_wal" => &["walfile", "header", "print_value", "write_committed"],
            "manifest_dump" => &["verbose", "json"],
            "dump_live_files" => &["decode_blob_index", "dump_uncompressed_blobs"],
            "list_live_files_metadata" => &["sort_by_filename"],
            "approxsize" | "compact" | "list_file_range_deletes" => &RANGE,
            "reduce_levels" => &["new_levels", "print_old_levels"],
            "repair" => &["verbose"],
            "checkpoint" => &["checkpoint_dir"],
            "backup" | "restore" => &[
                "backup_dir",
                "backup_env_uri",
                "backup_fs_uri",
                "num_threads",
                "stderr_log_level",
                "create_if_missing",
            ],
            "write_extern_sst" => &["create_if_missing"],
            "ingest_extern_sst" => &[
                "create_if_missing",
                "move_files",
                "snapshot_consistency",
                "allow_global_seqno",
                "allow_blocking_flush",
                "ingest_behind",
                "write_global_seqno",
            ],
            _ => &[],
        };
        if ABSENT.contains(&command.as_str()) {
            let text = format!("Not implemented: the command {command}");
            return Err(Stop::failed(text));
        }
        let handler: fn(&mut Self) -> Result<(), Stop> = match command.as_str() {
            "put" => Self::put,
            "batchput" => Self::batch_put,
            "get" => Self::get,
            "multi_get" => Self::multi_get,
            "delete" => Self::delete,
            "deleterange" => Self::delete_range,
            "scan" => Self::scan,
            "query" => Self::query,
            "approxsize" => Self::approximate_size,
            "checkconsistency" => Self::check_consistency,
            "list_file_range_deletes" => Self::list_range_deletes,
            "dump" => Self::dump,
            "idump" => Self::internal_dump,
            "load" => Self::load,
            "compact" => Self::compact,
            "get_property" => Self::get_property,
            "list_column_families" => Self::list_families,
            "create_column_family" => Self::create_family,
            "drop_column_family" => Self::drop_family,
            "reduce_levels" => Self::reduce_levels,
            "checkpoint" => Self::checkpoint,
            "repair" => Self::repair,
            "backup" => Self::backup,
            "restore" => Self::restore,
            "write_extern_sst" => Self::write_external,
            "ingest_extern_sst" => Self::ingest_external,
            "dump_wal" => Self::dump_wal,
            "manifest_dump" => Self::manifest_dump,
            "file_checksum_dump" => Self::file_checksum_dump,
            "dump_live_files" => Self::dump_live_files,
            "list_live_files_metadata" => Self::list_live_files,
            _ => return Err(Stop::Help("Unknown command".to_string())),
        };
        self.args.check(own)?;
        if ["env_uri", "fs_uri", "secondary_path"]
            .iter()
            .any(|n| self.args.option(n).is_some())
        {
            let text = "Not implemented: --env_uri, --fs_uri and --secondary_path";
            return Err(Stop::failed(text));
        }
        let needs_none = ["dump_wal"].contains(&command.as_str());
        let has = |name| self.args.option(name).is_some();
        if !needs_none && !has("db") && !has("path") {
            return Err(Stop::Help(
                "Either db or path must be specified.".to_string(),
            ));
        }
        handler(self)
    }

    /// The directory.
    fn dir(&self) -> Result<PathBuf, Stop> {
        let dir = self.args.path("db").filter(|d| !d.as_os_str().is_empty());
        dir.ok_or_else(|| Stop::failed("db must be specified"))
    }

    fn target(&self) -> Result<Target, Stop> {
        let family = self.args.option("column_family");
        let family = family.filter(|f| !f.is_empty()).unwrap_or("default");
        let mut how = How::default();
        how.ttl = self.args.is("ttl");
        Ok(Target {
            db: self.dir()?,
            cf: family.to_string(),
            how,
        })
    }

    /// Opens for reading; a family that is not there is refused in the reference's words.
    fn open_to_read(&self) -> Result<(Target, Cf), Stop> {
        self.compression()?;
        let target = self.target()?;
        self.family_exists(&target)?;
        let cf = target.open_read_only()?;
        Ok((target, cf))
    }

    /// Opens for writing, with the options of the command line.
    fn open_to_write(&self) -> Result<(Target, Cf), Stop> {
        let target = self.target()?;
        // Refusals come before anything is made.
        let changes = self.changes()?;
        let create = self.args.is("create_if_missing");
        if !create || target.db.join("CURRENT").exists() {
            self.family_exists(&target)?;
        }
        let cf = target.open_read_write(&WriteFlags {
            create,
            default_options: self.args.option("try_load_options") == Some("false"),
            ..WriteFlags::plain()
        })?;
        if !changes.is_empty() {
            cf.set_options(&changes)?;
        }
        Ok((target, cf))
    }

    fn family_exists(&self, target: &Target) -> Result<(), Stop> {
        let names = spanlith::Db::list_families(&target.db, &spanlith_env::Env::system())?;
        match names.contains(&target.cf) {
            true => Ok(()),
            false => Err(Stop::failed(format!(
                "Non-existing column family {}",
                target.cf
            ))),
        }
    }

    /// The codec that the command line names.
    fn compression(&self) -> Result<Option<CompressionType>, Stop> {
        self.codec_of("compression_type")
    }

    /// The codec that an option of the command line names.
    fn codec_of(&self, option: &str) -> Result<Option<CompressionType>, Stop> {
        let Some(text) = self.args.option(option) else {
            return Ok(None);
        };
        let found = CompressionType::offered().find(|(short, codec)| match codec {
            CompressionType::None => text == "no",
            _ => text == *short,
        });
        match found {
            Some((_, codec)) => Ok(Some(codec)),
            None => Err(Stop::failed(format!(
                "Unknown compression algorithm: {text}"
            ))),
        }
    }

    /// Options of the command line that can change while the database is open.
    fn changes(&self) -> Result<Vec<(&'static str, String)>, Stop> {
        let mut changes: Vec<(&'static str, String)> = Vec::new();
        for (flag, name) in [
            ("write_buffer_size", "write_buffer_size"),
            ("file_size", "target_file_size_base"),
        ] {
            if let Some(n) = self.args.number(flag)? {
                changes.push((name, n.to_string()));
            }
        }
        if let Some(n) = self.args.number("block_size")? {
            let table = format!("{{block_size={n}}}");
            changes.push(("block_based_table_factory", table));
        }
        if let Some(text) = self.args.option("auto_compaction") {
            changes.push(("disable_auto_compactions", (text != "true").to_string()));
        }
        if let Some(codec) = self.compression()? {
            changes.push(("compression", codec.to_string()));
        }
        for name in [
            "bloom_bits",
            "fix_prefix_len",
            "compression_max_dict_bytes",
            "db_write_buffer_size",
        ] {
            if self.args.option(name).is_some() {
                return Err(Stop::failed(format!(
                    "Not implemented: --{name} (the OPTIONS file decides)"
                )));
            }
        }
        self.blob_changes(&mut changes)?;
        Ok(changes)
    }

    /// Adds what the command line says of blob files.
    fn blob_changes(&self, changes: &mut Vec<(&'static str, String)>) -> Result<(), Stop> {
        for name in ["enable_blob_files", "enable_blob_garbage_collection"] {
            if self.args.is(name) {
                changes.push((name, "true".to_string()));
            }
        }
        for name in [
            "min_blob_size",
            "blob_file_size",
            "blob_compaction_readahead_size",
        ] {
            if let Some(n) = self.args.number(name)? {
                changes.push((name, n.to_string()));
            }
        }
        for name in [
            "blob_garbage_collection_age_cutoff",
            "blob_garbage_collection_force_threshold",
        ] {
            if let Some(share) = self.args.option(name) {
                changes.push((name, share.to_string()));
            }
        }
        if let Some(codec) = self.codec_of("blob_compression_type")? {
            changes.push(("blob_compression_type", codec.to_string()));
        }
        if let Some(fills) = self.args.number("prepopulate_blob_cache")? {
            let text = match fills {
                0 => "kDisable",
                1 => "kFlushOnly",
                _ => return Err(Stop::failed("prepopulate_blob_cache must be 0 or 1")),
            };
            changes.push(("prepopulate_blob_cache", text.to_string()));
        }
        Ok(())
    }

    /// Closes what was written to.
    fn close(&self, cf: Cf) -> Result<(), Stop> {
        let db = cf.db().clone();
        drop(cf);
        Ok(db.close()?)
    }
}
