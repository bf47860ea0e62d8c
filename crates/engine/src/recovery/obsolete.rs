//! Removes what a crash or an earlier run left behind, and nothing else.
//!
//! A blob file that no version names is explained if an edit of this MANIFEST named it, if it is
//! unfinished, if its family is gone, or if all tables that no version names are explained: only such a
//! table could refer to it.
//!
//! A table that the version set does not name is *explained*, and deleted, if
//!
//! - an edit of this MANIFEST removed it, or
//! - it is unfinished (it has no footer), or
//! - it is a finished output whose edit was never written: every sequence number in it lies at or
//!   below what the MANIFEST says has reached tables, or inside the range that was replayed from the
//!   logs. Then all it holds is in the tables that the MANIFEST does name, or was replayed.
//!
//! The last two hold only if the MANIFEST has marks, by which its end would have been missed: a
//! shortened MANIFEST must not destroy tables (reliability, section 2.5). Everything else is put into
//! `lost/` for a while, or deleted if the options say so. After best-efforts recovery, what no edit
//! removed is put aside and stays.
//!
//! A finished table with sequence numbers beyond everything recovered can be what a power loss left of
//! a flush: then the log it was made from is still there, as far as it reached the disk, and the table is
//! put away before recovery records anything. If every log is younger than the MANIFEST's last record, a
//! later record has retired the others, and is missing: that is reported before anything is changed.

use super::lost::{LostFiles, put_aside};
use super::manifest::Recovered;
use super::replay::Replayed;
use crate::blob::{BlobFileReader, BlobHeader, ExpectedFamily, HEADER_LEN};
use crate::core::{Engine, Voucher};
use crate::options::OrphanFiles;
use crate::options::sidecar::SIDECAR_TEMP;
use crate::version::filenames::TRASH_SUFFIX;
use crate::version::{FileKind, parse_file_name};
use spanlith_base::{Comparator, Error, ErrorKind, Result, keys};
use spanlith_table::{ReadParams, ReaderOptions, TableReader};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Last eight bytes of a finished block-based table.
const TABLE_MAGIC: u64 = 0x88e2_41b7_85f4_cff7;

/// Facts of one family.
struct FamilyFacts {
    /// Tables that edits of the MANIFEST removed, and blob files that edits named.
    deleted: BTreeSet<u64>,
    /// Highest sequence number in its tables: what is older has been flushed.
    flushed: u64,
}

/// Facts from recovery that explain files.
pub(super) struct Explanation {
    /// By id.
    families: BTreeMap<u32, FamilyFacts>,
    /// Highest sequence number in tables, by the MANIFEST.
    manifest_sequence: u64,
    /// Highest id a family ever had.
    max_family: u32,
    /// First and last sequence number replayed from logs.
    replayed: Option<(u64, u64)>,
    /// The MANIFEST says what of it was durable: its end is the end.
    is_marked: bool,
    /// The next file number, by the MANIFEST.
    next_file: u64,
    /// A table that no version names was not explained: it may refer to any blob file.
    has_unexplained_table: bool,
}

impl Explanation {
    /// Returns what the MANIFEST says.
    pub(super) fn new(recovered: &Recovered) -> Self {
        let families = recovered.families.iter().map(|f| {
            let facts = FamilyFacts {
                deleted: f.deleted.clone(),
                flushed: f.version.max_seqno(),
            };
            (f.id, facts)
        });
        Self {
            families: families.collect(),
            manifest_sequence: recovered.last_sequence,
            max_family: recovered.max_family,
            replayed: None,
            is_marked: recovered.is_marked,
            next_file: recovered.next_file,
            has_unexplained_table: false,
        }
    }

    /// Adds what was replayed.
    pub(super) fn add_replayed(&mut self, replayed: &Replayed) {
        let first = replayed.first_sequence;
        self.replayed = first.map(|first| (first, replayed.last_sequence));
    }

    /// Adds whether a table was put away that nothing explains.
    pub(super) fn add_unexplained_table(&mut self, found: bool) {
        self.has_unexplained_table |= found;
    }

    fn was_deleted(&self, number: u64) -> bool {
        let mut all = self.families.values();
        all.any(|f| f.deleted.contains(&number))
    }

    /// Returns whether all that a table of `family` holds, by its sequence numbers, is elsewhere.
    fn covers(&self, family: u32, smallest: u64, largest: u64) -> bool {
        // With one family, what the MANIFEST says has reached tables has reached its tables. With
        // several, only its own tables tell. A family that is gone needs nothing.
        let reached = match self.families.get(&family) {
            Some(_) if self.families.len() == 1 => self.manifest_sequence,
            Some(f) => f.flushed,
            None => return family <= self.max_family,
        };
        if largest <= reached {
            return true;
        }
        let Some((first, last)) = self.replayed else {
            return false;
        };
        largest <= last && (smallest >= first || first <= reached.saturating_add(1))
    }
}

/// Deletes obsolete files of the database directory after a successful recovery.
pub(super) fn remove_obsolete(engine: &Engine, mut explanation: Explanation) -> Result<()> {
    // The deletion is a job of its own, as in RocksDB, so that the first flush has number 2 at least.
    engine.new_job();
    let (versions, log_number) = {
        let state = engine.state.lock();
        let versions = state.families.values().map(|f| f.version.clone());
        (versions.collect::<Vec<_>>(), state.logs.kept())
    };
    // MANIFESTs get their numbers under the lock: those from `next` on are being written now.
    let (manifest, next) = {
        let manifest = engine.catalog.lock();
        (manifest.number(), engine.catalog.next_file())
    };
    let live = |n: u64| versions.iter().any(|v| v.locate(n).is_some());
    let moved = moved_tables(engine);
    let live_blob = |n: u64| versions.iter().any(|v| v.blob_files.contains_key(&n));
    let best_efforts = engine.c.options.best_efforts_recovery;
    let fs = &engine.c.env.fs;
    let names = fs.list(&engine.c.dir)?;
    let logs = match engine.logs.dir() == engine.c.dir {
        true => names.clone(),
        false => fs.list(engine.logs.dir())?,
    };
    let mut files: Vec<(PathBuf, String)> = Vec::new();
    for dir in other_dirs(engine) {
        for name in fs.list(&dir)? {
            files.push((dir.join(&name), name));
        }
    }
    let dirs: Vec<PathBuf> = other_dirs(engine).into_iter().collect();
    let own = names.into_iter();
    files.extend(own.map(|name| (engine.path(&name), name)));
    // Blob files last: what becomes of them depends on the tables.
    files.sort_by_key(|(_, name)| matches!(parse_file_name(name), Some(FileKind::Blob(_))));
    for (path, name) in &files {
        let is_own = path.parent() == Some(&engine.c.dir);
        let delete = match parse_file_name(name) {
            None if is_trash(engine, name) => true,
            // A crash kept it from becoming the sidecar file.
            None if is_own => name == SIDECAR_TEMP,
            Some(kind) if !is_own && !matches!(kind, FileKind::Table(_) | FileKind::Blob(_)) => {
                false
            }
            // Below.
            Some(FileKind::Log(_)) => false,
            // A higher number is that of one which a crash kept from becoming current, found when the
            // one before it is continued.
            Some(FileKind::Manifest(n)) => n != manifest && n < next,
            // The MANIFEST has the id.
            Some(FileKind::Identity) => !engine.c.options.write_identity_file,
            Some(FileKind::Temp(_) | FileKind::OptionsTemp(_)) => true,
            Some(FileKind::Table(n) | FileKind::Blob(n))
                if best_efforts && !live(n) && !live_blob(n) && !explanation.was_deleted(n) =>
            {
                put_aside(&*engine.c.env.fs, path)?;
                let log = engine.reporter.log();
                log.warn(format_args!(
                    "{name} is not part of what was recovered: put aside"
                ));
                false
            }
            Some(FileKind::Table(_)) if moved.contains(path) => true,
            Some(FileKind::Table(n)) if !live(n) => {
                let explained = explain(engine, n, path, &explanation);
                explanation.has_unexplained_table |= !matches!(explained, Ok(true));
                decide(engine, path, explained)?
            }
            Some(FileKind::Blob(n)) if !live_blob(n) => {
                decide(engine, path, explain_blob(engine, n, path, &explanation))?
            }
            _ => false,
        };
        if delete {
            // Only tables and blob files go at the rate of a manager, as in RocksDB.
            let is_slow = matches!(
                parse_file_name(name),
                Some(FileKind::Table(_) | FileKind::Blob(_))
            );
            let gone = match is_slow {
                true => engine.c.purge.delete(path),
                false => fs.delete(path),
            };
            match gone {
                Ok(()) => engine
                    .reporter
                    .log()
                    .info(format_args!("deleted obsolete {name}")),
                // Found again at the next open.
                Err(e) => engine
                    .reporter
                    .log()
                    .warn(format_args!("cannot delete {name}: {e}")),
            }
        }
    }
    // Of a new MANIFEST its first record says how long it is; of one that is continued, only the log can.
    let is_continued = engine.catalog.lock().has_grown();
    if is_continued {
        Voucher::new(engine, &engine.leader).vouch_for_manifest();
    }
    let mut is_away = false;
    for name in &logs {
        let Some(FileKind::Log(n)) = parse_file_name(name) else {
            if engine.logs.dir() != engine.c.dir && is_trash(engine, name) {
                // As above.
                let _ = fs.delete(&engine.logs.dir().join(name));
            }
            continue;
        };
        if n < log_number {
            is_away = true;
            let gone = if best_efforts {
                put_aside(&*engine.c.env.fs, &engine.logs.path(n)).map(drop)
            } else {
                engine.logs.put_away(n, &engine.reporter).map(drop)
            };
            match gone {
                Ok(()) => engine
                    .reporter
                    .log()
                    .info(format_args!("put away obsolete {name}")),
                // As above.
                Err(e) => engine
                    .reporter
                    .log()
                    .warn(format_args!("cannot put away {name}: {e}")),
            }
        }
    }
    // A new MANIFEST says by itself how long it is.
    if is_away && is_continued {
        engine.logs.sync_away(&engine.reporter);
    }
    engine
        .logs
        .purge_archive(&*engine.c.env.clock, &engine.reporter);
    let mut lost = dirs;
    lost.push(engine.c.dir.clone());
    if engine.logs.dir() != engine.c.dir {
        lost.push(engine.logs.dir().to_path_buf());
    }
    LostFiles::of(engine).expire(&lost);
    Ok(())
}

/// Returns whether a file was on its way to be deleted at a rate when its process ended, and no manager of table files
/// goes on with that.
fn is_trash(engine: &Engine, name: &str) -> bool {
    let was = name.strip_suffix(TRASH_SUFFIX);
    let is_ours = |kind| {
        matches!(
            kind,
            FileKind::Table(_) | FileKind::Blob(_) | FileKind::Log(_)
        )
    };
    engine.c.resources.sst_files.is_none() && was.and_then(parse_file_name).is_some_and(is_ours)
}

/// Where tables on a speed disk were before they came there, and where they were there before they left: a migration
/// that was cut short leaves them at both places.
fn moved_tables(engine: &Engine) -> BTreeSet<PathBuf> {
    let mut moved = BTreeSet::new();
    for family in engine.families.load_full().iter() {
        let paths = &family.cache.paths;
        if paths.speed().is_none() {
            continue;
        }
        let superversion = family.superversion.load_full();
        for (_, file) in superversion.version.file_iter() {
            let here = paths.table(file.number, file.path_id);
            let name = here.file_name().unwrap_or_default();
            let others = paths.dirs().map(|dir| dir.join(name));
            moved.extend(others.filter(|path| *path != here));
        }
    }
    moved
}

/// Directories of tables other than the database directory.
fn other_dirs(engine: &Engine) -> BTreeSet<PathBuf> {
    let families = engine.families.load_full();
    let dirs = families.iter().flat_map(|f| f.cache.paths.dirs());
    let others = dirs.filter(|dir| *dir != engine.c.dir);
    others.map(Path::to_path_buf).collect()
}

/// Returns whether a file is deleted; what nothing explains is put aside unless the options say otherwise.
fn decide(engine: &Engine, path: &Path, explained: Result<bool>) -> Result<bool> {
    let log = engine.reporter.log();
    let name = path.file_name().unwrap_or_default().display();
    let why = match explained {
        Ok(true) => return Ok(true),
        Ok(false) => "nothing explains it".to_string(),
        Err(e) if e.kind() == ErrorKind::Corruption => e.to_string(),
        Err(e) => {
            log.warn(format_args!("{name} left alone: {e}"));
            return Ok(false);
        }
    };
    if engine.c.options.own.orphan_files == OrphanFiles::Delete {
        return Ok(true);
    }
    LostFiles::of(engine).take(path)?;
    log.warn(format_args!(
        "{name} is not named by the MANIFEST: put into lost/: {why}"
    ));
    Ok(false)
}

/// Tables that no version names, no edit removed, and that are newer than everything recovered, with
/// their largest sequence numbers.
fn newer_tables(engine: &Engine, x: &Explanation) -> Result<Vec<(PathBuf, u64, u64)>> {
    let versions: Vec<_> = {
        let state = engine.state.lock();
        state.families.values().map(|f| f.version.clone()).collect()
    };
    let recovered = x.replayed.map_or(0, |r| r.1).max(x.manifest_sequence);
    let mut newer = Vec::new();
    let mut dirs = other_dirs(engine);
    dirs.insert(engine.c.dir.clone());
    let mut files = Vec::new();
    for dir in dirs {
        let names = engine.c.env.fs.list(&dir)?.into_iter();
        files.extend(names.map(|name| (dir.join(&name), name)));
    }
    for (path, name) in files {
        let Some(FileKind::Table(n)) = parse_file_name(&name) else {
            continue;
        };
        if versions.iter().any(|v| v.locate(n).is_some()) || x.was_deleted(n) {
            continue;
        }
        // A file that cannot be read is no proof; it is judged with all that is left over.
        if let Ok(Contents::Entries { largest, .. }) = contents(engine, n, &path)
            && largest > recovered
        {
            newer.push((path, largest, recovered));
        }
    }
    Ok(newer)
}

/// Puts away tables that are newer than everything recovered: what a power loss left of a flush whose
/// log lost its end. That is durable before recovery records anything, and so before the log may go.
///
/// Therefore such a table without an older log proves that the MANIFEST has lost its last records,
/// which is reported, before anything is changed, if `judges`. `logs` are those that recovery needs,
/// all that there are. Tells whether there was such a table.
///
/// # Errors
/// `Corruption` that names such a table; those of listing and moving.
pub(super) fn settle_newer_tables(
    engine: &Engine,
    logs: &[u64],
    x: &Explanation,
    judges: bool,
) -> Result<bool> {
    let newer = newer_tables(engine, x)?;
    let found = !newer.is_empty();
    let separate = engine.logs.dir() != engine.c.dir;
    let is_proof = x.is_marked && !separate && logs.iter().all(|&n| n >= x.next_file);
    for (path, largest, recovered) in newer {
        if judges && is_proof {
            let name = path.file_name().unwrap_or_default().display();
            return Err(Error::corruption(format!(
                "{name} holds sequence number {largest}, beyond {recovered}, the last one recovered, \
                 and the log that it was made from is gone: the MANIFEST has lost its last records"
            ))
            .with_path(&path));
        }
        if !engine.c.read_only && decide(engine, &path, Ok(false))? {
            engine.c.env.fs.delete(&path)?;
            engine.c.dirs.sync(path.parent().unwrap_or(&engine.c.dir))?;
        }
    }
    Ok(found)
}

/// Returns whether blob file `number`, which no version names, may go.
fn explain_blob(engine: &Engine, number: u64, path: &Path, x: &Explanation) -> Result<bool> {
    if x.was_deleted(number) {
        return Ok(true);
    }
    let file = engine.c.env.fs.open_random(path)?;
    let mut header = [0; HEADER_LEN];
    let read = file.read_at(0, &mut header)?;
    match BlobFileReader::open(file, ExpectedFamily::Any) {
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::Corruption => return Ok(x.is_marked),
        Err(e) => return Err(e),
    }
    let header = BlobHeader::decode(&header[..read])?;
    let family = header.column_family;
    if x.is_marked && !x.has_unexplained_table {
        return Ok(true);
    }
    Ok(!x.families.contains_key(&family) && family <= x.max_family)
}

/// Returns whether table `number`, which no version names, may go.
fn explain(engine: &Engine, number: u64, path: &Path, x: &Explanation) -> Result<bool> {
    if x.was_deleted(number) {
        return Ok(true);
    }
    Ok(match contents(engine, number, path)? {
        _ if !x.is_marked => false,
        Contents::Unfinished => true,
        Contents::Entries {
            family,
            smallest,
            largest,
        } => x.covers(family, smallest, largest),
    })
}

/// Describes what a table holds.
enum Contents {
    /// It has no footer.
    Unfinished,
    /// Entries of a family with these sequence numbers.
    Entries {
        family: u32,
        smallest: u64,
        largest: u64,
    },
}

/// Opens a table that no version names with the order of keys that it was written in, which is that of
/// one of the families.
fn open_in_its_order(engine: &Engine, number: u64, path: &Path) -> Result<Arc<TableReader>> {
    let families = engine.families.load_full();
    let mut orders = vec![Comparator::default()];
    for f in families.iter() {
        if orders.iter().all(|o| o.name() != f.comparator.name()) {
            orders.push(f.comparator.clone());
        }
    }
    let mut opened = Err(Error::invalid_argument("no order of keys"));
    for comparator in orders {
        let file = engine.c.env.fs.open_random(path)?;
        let size = file.size();
        let options = ReaderOptions {
            comparator,
            verify_checksums: true,
            file_number: number,
            ..ReaderOptions::default()
        };
        opened = TableReader::open(file, size, options);
        // Written in another order.
        if !matches!(&opened, Err(e) if e.kind() == ErrorKind::InvalidArgument) {
            break;
        }
    }
    opened
}

/// Reads a table that no version names.
///
/// # Errors
/// `Corruption` of a table that is damaged, `Io`.
fn contents(engine: &Engine, number: u64, path: &Path) -> Result<Contents> {
    let file = engine.c.env.fs.open_random(path)?;
    let size = file.size();
    let magic_at = size.saturating_sub(8);
    let mut magic = [0u8; 8];
    let n = file.read_at(magic_at, &mut magic)?;
    if n < 8 || u64::from_le_bytes(magic) != TABLE_MAGIC {
        return Ok(Contents::Unfinished);
    }
    drop(file);
    let reader = match open_in_its_order(engine, number, path) {
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
    for (_, _, seqno) in reader.range_tombstones()? {
        smallest = smallest.min(seqno);
        largest = largest.max(seqno);
    }
    // A larger id is nobody's.
    let family = u32::try_from(reader.properties().column_family_id).unwrap_or(u32::MAX);
    Ok(Contents::Entries {
        family,
        smallest,
        largest,
    })
}
