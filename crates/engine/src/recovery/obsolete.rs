//! Removes what a crash or an earlier run left behind, and nothing else.
//!
//! A table that the version set does not name is *explained*, and deleted, if
//!
//! - an edit of this MANIFEST removed it, or
//! - it is unfinished (it has no footer), or
//! - it is a finished output whose edit was never written: every sequence number in it lies at or
//!   below what the MANIFEST says has reached tables, or inside the range that was replayed from the
//!   logs. Then all it holds is in the tables that the MANIFEST does name, or was replayed.
//!
//! Everything else stays where it is and is named in the info log: a shortened MANIFEST must not
//! destroy tables (reliability, section 2.5).

use crate::core::Engine;
use crate::version::{FileKind, Version, filenames, parse_file_name};
use spanlith_base::{Error, ErrorKind, Result, keys};
use spanlith_table::{ReadParams, ReaderOptions, TableReader};
use std::collections::BTreeSet;

/// Last eight bytes of a finished block-based table.
const TABLE_MAGIC: u64 = 0x88e2_41b7_85f4_cff7;

/// Facts from recovery that explain files.
pub(super) struct Explanation {
    /// Tables that edits of the MANIFEST removed.
    pub deleted: BTreeSet<u64>,
    /// Highest sequence number in tables, by the MANIFEST.
    pub manifest_sequence: u64,
    /// First and last sequence number replayed from logs.
    pub replayed: Option<(u64, u64)>,
}

impl Explanation {
    fn covers(&self, smallest: u64, largest: u64) -> bool {
        if largest <= self.manifest_sequence {
            return true;
        }
        let Some((first, last)) = self.replayed else {
            return false;
        };
        largest <= last && (smallest >= first || first <= self.manifest_sequence + 1)
    }
}

/// Deletes obsolete files of the database directory after a successful recovery.
pub(super) fn remove_obsolete(engine: &Engine, explanation: &Explanation) -> Result<()> {
    let (version, log_number) = {
        let state = engine.state.lock();
        (state.version.clone(), state.log_number)
    };
    let manifest = engine.manifest.lock().number;
    let live = |v: &Version, n: u64| v.locate(n).is_some();
    let names = engine.c.env.fs.list(&engine.c.dir)?;
    let mut options: Vec<u64> = Vec::new();
    for name in &names {
        let delete = match parse_file_name(name) {
            Some(FileKind::Log(n)) => n < log_number,
            Some(FileKind::Manifest(n)) => n < manifest,
            Some(FileKind::Temp(_) | FileKind::OptionsTemp(_)) => true,
            Some(FileKind::Options(n)) => {
                options.push(n);
                false
            }
            Some(FileKind::Table(n)) if !live(&version, n) => match explain(engine, n, explanation)
            {
                Ok(true) => true,
                Ok(false) => {
                    engine.c.log.warn(format_args!(
                        "{name} is not named by the MANIFEST and nothing explains it: left alone"
                    ));
                    false
                }
                Err(e) => {
                    engine.c.log.warn(format_args!("{name} left alone: {e}"));
                    false
                }
            },
            _ => false,
        };
        if delete {
            match engine.c.env.fs.delete(&engine.path(name)) {
                Ok(()) => engine.c.log.info(format_args!("deleted obsolete {name}")),
                // Found again at the next open.
                Err(e) => engine.c.log.warn(format_args!("cannot delete {name}: {e}")),
            }
        }
    }
    options.sort_unstable();
    for n in options.iter().rev().skip(2) {
        // As above.
        let _ = engine
            .c
            .env
            .fs
            .delete(&engine.path(filenames::options_file_name(*n)));
    }
    Ok(())
}

/// Whether table `number`, which no version names, may go.
fn explain(engine: &Engine, number: u64, x: &Explanation) -> Result<bool> {
    if x.deleted.contains(&number) {
        return Ok(true);
    }
    let path = engine.path(filenames::table_file_name(number));
    let file = engine.c.env.fs.open_random(&path)?;
    let size = file.size();
    let magic_at = size.saturating_sub(8);
    let mut magic = [0u8; 8];
    let n = file.read_at(magic_at, &mut magic)?;
    if n < 8 || u64::from_le_bytes(magic) != TABLE_MAGIC {
        return Ok(true);
    }
    let reader = match TableReader::open(
        file,
        size,
        ReaderOptions {
            comparator: engine.c.family.comparator.clone(),
            verify_checksums: true,
            file_number: number,
            ..ReaderOptions::default()
        },
    ) {
        Ok(r) => r,
        Err(e) if e.kind() == ErrorKind::Corruption => {
            // A footer without the blocks it points to: written back out of order, never synced.
            return Err(Error::corruption(format!("damaged: {}", e.message())));
        }
        Err(e) => return Err(e),
    };
    let mut iter = reader.iter(ReadParams {
        fill_cache: false,
        ..ReadParams::default()
    });
    let (mut smallest, mut largest) = (u64::MAX, 0);
    iter.seek_to_first();
    while iter.valid() {
        let seqno = keys::tag_sequence(keys::tag(iter.key()));
        smallest = smallest.min(seqno);
        largest = largest.max(seqno);
        iter.next();
    }
    iter.status()?;
    Ok(x.covers(smallest, largest))
}
