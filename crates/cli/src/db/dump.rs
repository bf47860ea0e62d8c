//! `db dump`: all column families as text that `db load --dump` reads back.
//!
//! Lines are those of `db scan`. In front of each family stands a line `@family<TAB>NAME`, with its
//! comparator behind another tab if that is not the bytewise one; keys that begin with `@` have it
//! escaped, so that no key looks like such a line.

use super::open::{How, Target};
use crate::bytes::push;
use crate::fail::{At, Failure};
use crate::inventory::Inventory;
use crate::term;
use clap::Args;
use spanlith::{Comparator, ReadOptions};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Bytes gathered before they are written out.
const OUTPUT_BUFFER: usize = 256 << 10;
/// Entries between two updates of the progress line.
const TICK: u64 = 1 << 14;
/// Begins the line in front of a family's entries.
pub const FAMILY_MARK: &str = "@family\t";

/// Prints a whole database.
#[derive(Debug, Args)]
pub struct Dump {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Only this column family; all of them if left out
    #[arg(long, value_name = "NAME")]
    cf: Option<String>,
    #[command(flatten)]
    how: How,
    /// Keys and values are bare hexadecimal
    #[arg(long)]
    hex: bool,
    /// File to write, which must not exist; standard output if left out
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Dump {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let inventory = Inventory::read(&self.db).at(&self.db)?;
        let families: Vec<String> = match &self.cf {
            Some(name) => vec![name.clone()],
            None => inventory
                .families
                .values()
                .map(|f| f.name.clone())
                .collect(),
        };
        let out: Box<dyn Write> = match &self.file {
            Some(path) => Box::new(File::create_new(path).map_err(|e| {
                Failure::new(
                    format!("cannot make {}: {e}", path.display()),
                    "name a file that is not there yet",
                )
            })?),
            None => Box::new(std::io::stdout().lock()),
        };
        let mut out = BufWriter::with_capacity(OUTPUT_BUFFER, out);
        let progress = match self.file {
            Some(_) => term::spinner("entries", "dumping"),
            None => term::hidden(),
        };
        let mut entries = 0u64;
        let mut target = Target {
            db: self.db,
            cf: String::new(),
            how: self.how,
        };
        let mut line = Vec::new();
        for name in families {
            target.cf.clone_from(&name);
            let cf = target.open_read_only()?;
            line.clear();
            line.extend_from_slice(FAMILY_MARK.as_bytes());
            push(&mut line, name.as_bytes(), false);
            if cf.comparator().name() != Comparator::Bytewise.name() {
                line.push(b'\t');
                push(&mut line, cf.comparator().name().as_bytes(), false);
            }
            line.push(b'\n');
            out.write_all(&line)?;
            if cf.comparator().timestamp_size() > 0 {
                return Err(Failure::new(
                    format!("Not implemented: dump of family {name}, whose keys have timestamps"),
                    "spanlith db scan --timestamps shows its latest entries; --cf dumps the others",
                )
                .into());
            }
            let mut options = ReadOptions::new().fill_cache(false);
            options.readahead = 1 << 20;
            let mut cursor = cf.cursor(options);
            let mut on = cursor.seek_to_first();
            while on.at(&target.db)? {
                entries += 1;
                if entries.is_multiple_of(TICK) {
                    progress.set_position(entries);
                }
                line.clear();
                push_key(&mut line, cursor.key(), self.hex);
                line.push(b'\t');
                push(&mut line, target.value(cursor.value()), self.hex);
                line.push(b'\n');
                out.write_all(&line)?;
                on = cursor.next();
            }
        }
        out.flush()?;
        progress.finish_and_clear();
        if self.file.is_some() {
            eprintln!("{} entries dumped", term::count(entries));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A key that does not look like the line of a family.
fn push_key(line: &mut Vec<u8>, key: &[u8], hex: bool) {
    match key.strip_prefix(b"@") {
        Some(rest) if !hex => {
            line.extend_from_slice(b"\\x40");
            push(line, rest, hex);
        }
        _ => push(line, key, hex),
    }
}
