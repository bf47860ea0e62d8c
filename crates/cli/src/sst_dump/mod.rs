//! `sst_dump`: RocksDB's tool for table files, with its flags, its output and its exit codes.
//!
//! The binary called `sst_dump` is this, and so is `spanlith sst_dump`. [`text`] prints entries and
//! properties, [`raw`] the dump of everything, [`recompress`] the sizes under other codecs.

mod raw;
mod recompress;
mod text;

pub use text::{decoded_line, entry_line, internal_key, public_id, scan_with_properties};

use crate::bytes;
use crate::dump::open_table;
use crate::fail;
use crate::ldb::args::upper;
use crate::os_text::{self, complain};
use spanlith::{Comparator, Error};
use spanlith_base::MAX_SEQUENCE;
use spanlith_base::byte_text::bytes_of_text;
use spanlith_base::keys::{split_internal, tag_sequence, tag_type};
use spanlith_env::Env;
use spanlith_table::TableReader;
use std::cmp::Ordering;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Bytes gathered before they are written out.
const OUTPUT_BUFFER: usize = 256 << 10;

const HELP: &str = "\
sst_dump - looks into table files of RocksDB directories (Spanlith)

Usage: sst_dump --file=FILE_OR_DIR [--command=COMMAND] [OPTIONS]      or: sst_dump FILE [OPTIONS]

  --command=check        walks over all entries, prints nothing unless something is wrong (default)
  --command=scan         prints all entries
  --command=raw          writes everything to NAME_dump.txt beside the file
  --command=verify       verifies the checksum of every block
  --command=recompress   prints the size under other codecs
  --command=identify     says whether files are tables
  --command=none         does nothing of that (for --show_properties)

  --output_hex           keys and values in hexadecimal
  --from=KEY --to=KEY    only entries from KEY up to before KEY
  --prefix=KEY           only entries that begin with KEY
  --input_key_hex        these keys are hexadecimal
  --read_num=N           at most N entries
  --verify_checksum      verifies every block as well
  --show_properties      prints the properties behind the rest
  --show_summary         prints sums over all files at the end
  --decode_blob_index    prints what references to blobs refer to
  --compression_types=A,B   codecs of recompress: kNoCompression kSnappyCompression kLZ4Compression kZSTD …
  --set_block_size=N     block size of recompress
  --compression_level_from=N --compression_level_to=N   levels of recompress, with one codec
  --parse_internal_key=0xKEY   shows an internal key

Example: sst_dump --file=/data/db/000012.sst --command=scan --from=a --read_num=10 --show_properties";

/// Describes what is done with each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Check,
    Scan,
    Raw,
    Verify,
    Recompress,
    Identify,
    None,
}

/// The command line.
#[derive(Default)]
struct Args {
    file: Option<String>,
    command: Option<Command>,
    output_hex: bool,
    input_key_hex: bool,
    verify_checksum: bool,
    show_properties: bool,
    show_summary: bool,
    decode_blob_index: bool,
    read_num: Option<u64>,
    from: Option<String>,
    to: Option<String>,
    prefix: Option<String>,
    block_size: Option<u64>,
    codecs: Vec<String>,
    level_from: Option<i32>,
    level_to: Option<i32>,
    internal_key: Option<String>,
}

/// Keys that bound what is shown.
#[derive(Default)]
struct Bounds {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    prefix: Option<Vec<u8>>,
}

type Outcome<T> = Result<T, String>;

fn say(e: impl std::fmt::Display) -> String {
    e.to_string()
}

/// Runs `sst_dump` with arguments that do not include its own name.
pub fn run(args: Vec<String>) -> ExitCode {
    if args.iter().any(|a| a == "--help" || a == "-h") {
        return fail::show(HELP);
    }
    if args.iter().any(|a| a == "--version") {
        return fail::show(concat!(
            "sst_dump from Spanlith ",
            env!("CARGO_PKG_VERSION")
        ));
    }
    let args = match Args::parse(&args) {
        Ok(args) => args,
        Err(text) => {
            tell!("{text}\n\n{HELP}");
            return ExitCode::FAILURE;
        }
    };
    let mut out = BufWriter::with_capacity(OUTPUT_BUFFER, std::io::stdout().lock());
    let done = args.execute(&mut out);
    let flushed = out.flush();
    match (done, flushed) {
        (_, Err(e)) if e.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        (Ok(true), Ok(())) => ExitCode::SUCCESS,
        (Ok(_), _) => ExitCode::FAILURE,
        (Err(text), _) => {
            complain(&text);
            ExitCode::FAILURE
        }
    }
}

impl Args {
    fn parse(args: &[String]) -> Outcome<Self> {
        let mut out = Self::default();
        for arg in args {
            let Some(named) = arg.strip_prefix("--") else {
                out.file = Some(arg.clone());
                continue;
            };
            let (name, value) = match named.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (named, None),
            };
            let number = || {
                let n = value.and_then(|v| v.parse::<u64>().ok());
                n.ok_or_else(|| format!("--{name} takes a number"))
            };
            let level = || {
                let n = value.and_then(|v| v.parse::<i32>().ok());
                n.ok_or_else(|| format!("--{name} takes a number"))
            };
            let text = || value.map(str::to_string);
            match (name, value.is_some()) {
                ("file", true) => out.file = text(),
                ("command", true) => {
                    out.command = Some(match value.unwrap_or_default() {
                        "check" => Command::Check,
                        "scan" => Command::Scan,
                        "raw" => Command::Raw,
                        "verify" => Command::Verify,
                        "recompress" => Command::Recompress,
                        "identify" => Command::Identify,
                        "none" => Command::None,
                        other => return Err(format!("unknown command '{other}'")),
                    });
                }
                ("output_hex", false) => out.output_hex = true,
                ("input_key_hex", false) => out.input_key_hex = true,
                ("verify_checksum", false) => out.verify_checksum = true,
                ("show_properties", false) => out.show_properties = true,
                ("show_summary", false) => out.show_summary = true,
                ("decode_blob_index", false) => out.decode_blob_index = true,
                ("read_num", true) => out.read_num = Some(number()?),
                ("from", true) => out.from = text(),
                ("to", true) => out.to = text(),
                ("prefix", true) => out.prefix = text(),
                ("set_block_size", true) => out.block_size = Some(number()?),
                ("compression_types", true) => {
                    let list = value.unwrap_or_default().split(',');
                    out.codecs = list.map(str::to_string).collect();
                }
                ("compression_level_from", true) => out.level_from = Some(level()?),
                ("compression_level_to", true) => out.level_to = Some(level()?),
                ("parse_internal_key", true) => out.internal_key = text(),
                // How much is read at once shows nowhere.
                ("readahead_size", true) => drop(number()?),
                (
                    "env_uri"
                    | "fs_uri"
                    | "compression_max_dict_bytes"
                    | "compression_zstd_max_train_bytes"
                    | "compression_max_dict_buffer_bytes"
                    | "compression_use_zstd_finalize_dict",
                    _,
                ) => return Err(format!("Not implemented: --{name}")),
                _ => return Err(format!("Unrecognized argument '{arg}'")),
            }
        }
        if out.from.is_some() && out.prefix.is_some() {
            return Err("Cannot specify --prefix and --from".to_string());
        }
        Ok(out)
    }

    /// The return value says whether all is well.
    fn execute(&self, out: &mut dyn Write) -> Outcome<bool> {
        if let Some(text) = &self.internal_key {
            let digits = text.strip_prefix("0x").unwrap_or(text);
            let key = bytes::parse(digits, true).map_err(say)?;
            let Some((user, tag)) = split_internal(&key) else {
                return Err("Internal Key: Corrupted Key".to_string());
            };
            let shown = internal_key(user, tag_sequence(tag), tag_type(tag), true);
            out.write_all(b"key=").map_err(say)?;
            out.write_all(&shown).map_err(say)?;
            writeln!(out).map_err(say)?;
            return Ok(true);
        }
        let Some(file) = &self.file else {
            return Err(format!("file or directory must be specified.\n\n{HELP}"));
        };
        let command = self.command.unwrap_or(Command::Check);
        let bounds = self.bounds()?;
        let (files, is_dir) = files(&os_text::to_path(file))?;
        let (mut valid, mut well) = (Vec::new(), true);
        let mut sums = [0u64; 5];
        let mut left = self.read_num.unwrap_or(u64::MAX);
        for path in &files {
            let reader = match open_table(path) {
                Ok(reader) => reader,
                Err(e) => {
                    writeln!(out, "Process {}", path.display()).map_err(say)?;
                    out.flush().map_err(say)?;
                    tell!("{}: {e}", path.display());
                    if command == Command::Identify && is_dir {
                        continue;
                    }
                    tell!("{} is not a valid SST file", path.display());
                    well = false;
                    continue;
                }
            };
            valid.push(path.display().to_string());
            let format = reader.format_name();
            let head = format!("Process {}\nSst file format: {format}", path.display());
            writeln!(out, "{head}").map_err(say)?;
            let first = path == &files[0];
            match self.one(command, path, &reader, &bounds, first, &mut left, out) {
                Ok(()) => {}
                Err(text) => {
                    out.flush().map_err(say)?;
                    tell!("{}: {text}", path.display());
                    well = false;
                }
            }
            if self.show_properties {
                text::properties_section(&reader, out).map_err(say)?;
            }
            let p = reader.properties();
            for (sum, n) in sums.iter_mut().zip([
                1,
                p.num_data_blocks,
                p.data_size,
                p.index_size,
                p.filter_size,
            ]) {
                *sum += n;
            }
        }
        if self.show_summary {
            let [tables, blocks, data, index, filter] = sums;
            writeln!(
                out,
                "total number of files: {tables}\ntotal number of data blocks: {blocks}\n\
                 total data block size: {data}\ntotal index block size: {index}\n\
                 total filter block size: {filter}"
            )
            .map_err(say)?;
        }
        if command == Command::Identify {
            let rule = "------------------------------";
            match (is_dir, valid.is_empty()) {
                (false, false) => writeln!(out, "{} is a valid SST file", valid.join("")),
                (true, false) => writeln!(
                    out,
                    "{rule}\nList of valid SST files found in {file}:\n{}\nNumber of valid SST files: {}",
                    valid.join("\n"),
                    valid.len()
                ),
                (true, true) => writeln!(out, "{rule}"),
                (false, true) => Ok(()),
            }
            .map_err(say)?;
        }
        if valid.is_empty() && is_dir {
            return Err(format!("No valid SST files found in {file}"));
        }
        Ok(well)
    }

    fn bounds(&self) -> Outcome<Bounds> {
        let key = |text: &Option<String>| -> Outcome<Option<Vec<u8>>> {
            match (text, self.input_key_hex) {
                (None, _) => Ok(None),
                (Some(t), true) => {
                    let digits = t.strip_prefix("0x").unwrap_or(t);
                    Ok(Some(bytes::parse(digits, true).map_err(say)?))
                }
                (Some(t), false) => Ok(Some(bytes_of_text(t).into_owned())),
            }
        };
        Ok(Bounds {
            from: key(&self.from)?,
            to: key(&self.to)?,
            prefix: key(&self.prefix)?,
        })
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one call, whose parts have nothing in common"
    )]
    fn one(
        &self,
        command: Command,
        path: &Path,
        reader: &Arc<TableReader>,
        bounds: &Bounds,
        first: bool,
        left: &mut u64,
        out: &mut dyn Write,
    ) -> Outcome<()> {
        match command {
            Command::None | Command::Identify => Ok(()),
            Command::Verify => {
                reader.verify_checksums().map_err(say)?;
                writeln!(out, "The file is ok").map_err(say)
            }
            Command::Raw => raw::write(path, reader, out),
            Command::Recompress => recompress::run(
                reader,
                &self.codecs,
                self.block_size,
                (self.level_from, self.level_to),
                out,
            ),
            Command::Check | Command::Scan => {
                if first {
                    let text = |k: &Option<Vec<u8>>| k.as_deref().map(upper).unwrap_or_default();
                    let from = bounds.from.clone().or_else(|| bounds.prefix.clone());
                    writeln!(out, "from [{}] to [{}]", text(&from), text(&bounds.to))
                        .map_err(say)?;
                }
                if self.verify_checksum {
                    reader.verify_checksums().map_err(say)?;
                }
                let print = command == Command::Scan;
                self.walk(reader, bounds, print, left, out)
            }
        }
    }

    /// Walks over the entries, in order.
    fn walk(
        &self,
        reader: &Arc<TableReader>,
        bounds: &Bounds,
        print: bool,
        left: &mut u64,
        out: &mut dyn Write,
    ) -> Outcome<()> {
        let order: &Comparator = &reader.options().comparator;
        let mut entries = reader.iter(crate::tables::walk());
        match bounds.from.as_ref().or(bounds.prefix.as_ref()) {
            Some(from) => {
                entries.seek(&spanlith_base::keys::internal_key(
                    from,
                    MAX_SEQUENCE << 8 | 0xff,
                ));
            }
            None => entries.seek_to_first(),
        }
        while entries.valid() && *left > 0 {
            let Some((user, tag)) = split_internal(entries.key()) else {
                return Err("Internal Key: Corrupted Key".to_string());
            };
            let past = |t: &Vec<u8>| order.compare(user, t) != Ordering::Less;
            if bounds.to.as_ref().is_some_and(past) {
                break;
            }
            if bounds.prefix.as_ref().is_some_and(|p| !user.starts_with(p)) {
                break;
            }
            *left -= 1;
            if print {
                let (sequence, kind) = (tag_sequence(tag), tag_type(tag));
                let line = match self.decode_blob_index {
                    true => decoded_line,
                    false => entry_line,
                };
                let line = line(user, sequence, kind, entries.value(), self.output_hex);
                out.write_all(&line)
                    .and_then(|()| out.write_all(b"\n"))
                    .map_err(say)?;
            }
            entries.next();
        }
        entries.status().map_err(say)
    }
}

/// The file, or the tables of a directory, and which it is.
fn files(path: &Path) -> Outcome<(Vec<PathBuf>, bool)> {
    let fs = Env::system().fs;
    match fs.entry(path).map_err(say)? {
        None => Err(format!("{}: {}", path.display(), missing())),
        Some(spanlith_env::EntryKind::Dir) => {
            let mut names = fs.list(path).map_err(say)?;
            names.retain(|n| n.ends_with(".sst"));
            names.sort();
            Ok((names.iter().map(|n| path.join(n)).collect(), true))
        }
        Some(_) => Ok((vec![path.to_path_buf()], false)),
    }
}

fn missing() -> Error {
    Error::not_found("No such file or directory")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Outcome<Args> {
        Args::parse(&line.split(' ').map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn flags_are_those_of_the_reference() {
        let a = parse("x.sst --command=scan --read_num=3 --output_hex")
            .ok()
            .unwrap();
        assert_eq!(
            (a.file.as_deref(), a.command, a.read_num),
            (Some("x.sst"), Some(Command::Scan), Some(3))
        );
        assert_eq!(
            parse("--bogus").err().unwrap(),
            "Unrecognized argument '--bogus'"
        );
        assert!(parse("--command=dance").is_err() && parse("--read_num=x").is_err());
        assert!(parse("--from=a --prefix=b").is_err());
    }
}
