//! `spanlith db`: one database, one verb.

mod backup;
mod checkpoint;
pub mod components;
mod dump;
mod edits;
mod explain;
mod families;
mod info;
mod ingest;
mod load;
pub mod log_order;
mod maintain;
mod memory;
pub mod mend;
mod migrate;
pub mod open;
mod point;
pub mod remake;
pub mod repair;
mod salvage;
mod scan;
mod settings;
mod slow_writes;
mod space;
pub mod verify;

pub use info::place;
pub use load::entry;

use clap::{Args, Subcommand};
use open::Target;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  spanlith db put --create --db /data/db language Rust
  spanlith db get --db /data/db language
  spanlith db scan --db /data/db --from a --to m --limit 20
  spanlith db scan --db /data/db --hex > contents.tsv
  spanlith db load --create --db /data/copy --hex < contents.tsv
  spanlith db info --db /data/db --json
  spanlith db verify --db /data/db
  spanlith db dump --db /data/db > all.tsv && spanlith db load --create --dump --db /data/new all.tsv
  spanlith db explain --db /data/db KEY
  spanlith db set-options --db /data/db write_buffer_size=64M
  spanlith db checkpoint --db /data/db /data/as-of-today
  spanlith db backup create --db /data/db /backups && spanlith db restore --from /backups --db /data/new
  spanlith db ingest --db /data/db bulk.sst
  spanlith db repair --dry-run --db /data/db

All verbs but put, delete, load, ingest, flush, compact, compact-files, checkpoint, backup, restore, repair and set-options open
for reading only: they take no lock and change nothing on disk. Keys and values: plain text with \\t \\n \\\\ \\xNN, or 0x… in hexadecimal, or --hex for both
directions. Comparator and merge operator are found in the directory.";

/// Verbs of `db`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Verb {
    /// Sets a key.
    Put(point::Put),
    /// Prints the value of a key; exit code 1 if there is none.
    Get(point::Get),
    /// Removes a key.
    Delete(point::Delete),
    /// Prints KEY<TAB>VALUE for each entry, in key order.
    Scan(scan::Scan),
    /// Counts the entries.
    Count(scan::Count),
    /// Reads KEY<TAB>VALUE lines from a file or standard input into the database.
    Load(load::Load),
    /// Prints all column families as text that `load --dump` reads back.
    Dump(dump::Dump),
    /// Lists the column families and their options that differ from the defaults.
    Families(families::Families),
    /// Shows identity, writer, files per level, logs and options.
    Info(info::Info),
    /// Lists the files of the directory, what each is and who needs it; exit code 1 if one is missing.
    Files(space::Files),
    /// Shows where the bytes are: by family, level and kind of file.
    Space(space::Space),
    /// Shows the memory the database takes once it is open, by owner.
    Memory(memory::Memory),
    /// Shows what a get of a key looks at, place by place.
    Explain(explain::Explain),
    /// Prints properties by RocksDB's names.
    Properties(settings::Properties),
    /// Prints the options of the OPTIONS file.
    Options(settings::Options),
    /// Changes options and records them in a new OPTIONS file.
    SetOptions(settings::SetOptions),
    /// Writes the memtables of a column family out as a table.
    Flush(maintain::Flush),
    /// Compacts a range of keys down to the deepest level.
    Compact(maintain::Compact),
    /// Compacts named tables into a level.
    CompactFiles(maintain::CompactFiles),
    /// Makes a directory that opens as the database is now, of links where that is possible.
    Checkpoint(checkpoint::Checkpoint),
    /// Makes, lists, verifies and deletes backups.
    #[command(subcommand)]
    Backup(backup::Backup),
    Restore(backup::Restore),
    /// Takes tables in that were written outside.
    Ingest(ingest::Ingest),
    Migrate(migrate::Migrate),
    Repair(repair::Repair),
    /// Checks every checksum and lists all damage; exit code 1 if there is any.
    Verify(verify::Verify),
}

/// Describes what the verbs about entries have in common.
#[derive(Debug, Args)]
pub struct Common {
    #[command(flatten)]
    pub target: Target,
    /// Keys and values are bare hexadecimal, in and out
    #[arg(long)]
    pub hex: bool,
    /// Prints JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// Runs a verb.
///
/// # Errors
/// What failed, with the way out.
pub fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Put(v) => v.run(),
        Verb::Get(v) => v.run(),
        Verb::Delete(v) => v.run(),
        Verb::Scan(v) => v.run(),
        Verb::Count(v) => v.run(),
        Verb::Load(v) => v.run(),
        Verb::Dump(v) => v.run(),
        Verb::Families(v) => v.run(),
        Verb::Files(v) => v.run(),
        Verb::Space(v) => v.run(),
        Verb::Memory(v) => v.run(),
        Verb::Explain(v) => v.run(),
        Verb::Properties(v) => v.run(),
        Verb::Options(v) => v.run(),
        Verb::SetOptions(v) => v.run(),
        Verb::Flush(v) => v.run(),
        Verb::Compact(v) => v.run(),
        Verb::CompactFiles(v) => v.run(),
        Verb::Checkpoint(v) => v.run(),
        Verb::Backup(v) => backup::run(v),
        Verb::Restore(v) => v.run(),
        Verb::Ingest(v) => v.run(),
        Verb::Info(v) => v.run(),
        Verb::Migrate(v) => v.run(),
        Verb::Repair(v) => v.run(),
        Verb::Verify(v) => v.run(),
    }
}
