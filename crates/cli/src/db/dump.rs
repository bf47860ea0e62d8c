//! `db dump`: all column families as text that `db load --dump` reads back.
//!
//! Lines are those of `db scan`. In front of each family stands a line `@family<TAB>NAME`, with its
//! comparator after another tab if that is not the bytewise one; keys that begin with `@` have it
//! escaped, so that no key looks like such a line.

use super::open::{How, Target};
use super::salvage::Salvage;
use crate::bytes::{self, push};
use crate::fail::{At, Failure};
use crate::inventory::Inventory;
use crate::term;
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use spanlith::{Cf, Comparator, ReadOptions};
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
    /// Prints JSON, one entry a line, which load does not read
    #[arg(long)]
    json: bool,
    /// Works around damage: leaves out what cannot be read, and names it
    #[arg(long)]
    salvage: bool,
    /// File to write, which must not exist; standard output if left out
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Dump {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut target = Target {
            db: self.db,
            cf: "default".to_string(),
            how: self.how,
        };
        let mut salvage = match self.salvage {
            true => {
                let places = target.how.files.tables.parse()?;
                Some(Salvage::prepare(&target, &places)?)
            }
            false => None,
        };
        let families: Vec<String> = match (&self.cf, &salvage) {
            (Some(name), _) => vec![name.clone()],
            (None, Some(salvage)) => salvage.families.clone(),
            (None, None) => {
                let inventory = Inventory::read(&target.db).at(&target.db)?;
                let families = inventory.families.values();
                families.map(|f| f.name.clone()).collect()
            }
        };
        let out: Box<dyn Write> = match &self.file {
            Some(path) => Box::new(File::create_new(path).map_err(|e| {
                Failure::new(
                    format!(
                        "cannot make {}: {}",
                        path.display(),
                        crate::fail::of_system(&e)
                    ),
                    "name a file that is not there yet",
                )
            })?),
            None => Box::new(std::io::stdout().lock()),
        };
        let mut lines = Lines {
            out: BufWriter::with_capacity(OUTPUT_BUFFER, out),
            hex: self.hex,
            json: self.json.then(String::new),
            progress: match self.file {
                Some(_) => term::spinner("entries", "dumping"),
                None => term::hidden(),
            },
            entries: 0,
            line: Vec::new(),
        };
        for name in families {
            target.cf = name;
            if let Some(salvage) = &mut salvage {
                salvage.family(&target, &mut lines)?;
                continue;
            }
            let cf = target.open_read_only()?;
            lines.family(&cf)?;
            let mut options = ReadOptions::new().fill_cache(false);
            options.readahead = 1 << 20;
            let mut cursor = cf.cursor(options);
            let mut on = cursor.seek_to_first();
            while on.at(&target.db)? {
                lines.entry(cursor.key(), target.value(cursor.value()))?;
                on = cursor.next();
            }
        }
        lines.out.flush()?;
        lines.progress.finish_and_clear();
        let lost = salvage.map_or(0, |s| s.lost);
        if self.file.is_some() || lost > 0 {
            tell!("{} entries dumped", term::count(lines.entries));
        }
        if lost > 0 {
            tell!(
                "{} left out; where newer entries were lost, older ones may have come to light",
                term::counted(lost, "place")
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The text while it is written.
pub struct Lines {
    out: BufWriter<Box<dyn Write>>,
    hex: bool,
    /// Name of the family that entries are of, if they are printed as JSON.
    json: Option<String>,
    progress: ProgressBar,
    entries: u64,
    line: Vec<u8>,
}

impl Lines {
    /// Begins a family.
    ///
    /// # Errors
    /// Of a family whose keys have timestamps, and of writing.
    pub fn family(&mut self, cf: &Cf) -> anyhow::Result<()> {
        self.line.clear();
        self.line.extend_from_slice(FAMILY_MARK.as_bytes());
        push(&mut self.line, cf.name().as_bytes(), false);
        if cf.comparator().name() != Comparator::Bytewise.name() {
            self.line.push(b'\t');
            push(&mut self.line, cf.comparator().name().as_bytes(), false);
        }
        self.line.push(b'\n');
        match &mut self.json {
            Some(family) => *family = cf.name().to_string(),
            None => self.out.write_all(&self.line)?,
        }
        if cf.comparator().timestamp_size() > 0 {
            return Err(Failure::new(
                format!(
                    "Not implemented: dump of family {}, whose keys have timestamps",
                    cf.name()
                ),
                "spanlith db scan --timestamps shows its latest entries; --cf dumps the others",
            )
            .into());
        }
        Ok(())
    }

    /// Writes an entry.
    ///
    /// # Errors
    /// Of writing.
    pub fn entry(&mut self, key: &[u8], value: &[u8]) -> std::io::Result<()> {
        self.entries += 1;
        if self.entries.is_multiple_of(TICK) {
            self.progress.set_position(self.entries);
        }
        if let Some(family) = &self.json {
            let object = json!({
                "family": family, "key": bytes::json(key, self.hex), "value": bytes::json(value, self.hex),
            });
            return writeln!(self.out, "{object}");
        }
        self.line.clear();
        push_key(&mut self.line, key, self.hex);
        self.line.push(b'\t');
        push(&mut self.line, value, self.hex);
        self.line.push(b'\n');
        self.out.write_all(&self.line)
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
