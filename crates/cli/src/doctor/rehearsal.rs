//! Describes what opening a directory for writing would do, found out by doing it on an [`Overlay`].
//!
//! The engine itself decides, with the options of the directory, so that the rehearsal and the opening
//! that may follow agree. Nothing below changes; recovered logs and the tables made of them take memory.

use crate::db::open::{Target, WriteFlags};
use crate::inventory::Inventory;
use crate::overlay::{Change, Overlay};
use spanlith::blob::{BlobFileReader, BlobIndex, ExpectedFamily};
use spanlith::options::InfoLogLevel;
use spanlith::version::{FileKind, filenames, parse_file_name};
use spanlith::{Db, ErrorKind, Logger, Pinned};
use spanlith_base::ValueType;
use spanlith_base::keys::{split_internal, tag_sequence, tag_type};
use spanlith_env::{Env, ManualExecutor};
use spanlith_table::TableReader;
use spanlith_wal::{BatchIter, each_record};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A family and a key of it.
pub type Probe = (String, Vec<u8>);

/// Describes what opening comes to.
#[derive(Debug, Default)]
pub struct Rehearsal {
    /// Why it fails; `None` if it succeeds.
    pub error: Option<String>,
    /// The damaged file that the error names, and where in it.
    pub damaged: Option<(PathBuf, Option<u64>)>,
    /// Says whether that is because of what this program does not know or have, not because of damage.
    pub is_about_program: bool,
    /// Warnings of the recovery: what it drops, puts aside or cannot explain.
    pub warnings: Vec<String>,
    /// Those of the warnings that are about tables whose updates are all recovered from elsewhere.
    pub spared: Vec<String>,
    /// Files that would be deleted or put elsewhere though the database might need them: tables, blob
    /// files and logs.
    pub gone: Vec<String>,
    /// Options that were followed: name of the OPTIONS file, or why the defaults were taken.
    pub options: String,
    /// The keys that were asked for and for which the opened database answers.
    pub readable: Vec<Probe>,
}

impl Rehearsal {
    /// Returns whether the database opens with everything.
    pub fn is_quiet(&self) -> bool {
        self.error.is_none() && self.drops().next().is_none()
    }

    /// Warnings about something that would be missing afterwards.
    pub fn drops(&self) -> impl Iterator<Item = &str> {
        let about = |w: &&String| {
            [
                "dropped",
                "put aside",
                "left alone",
                "lost",
                "cannot be opened",
                "earlier state",
            ]
            .iter()
            .any(|word| w.contains(word))
        };
        let drops = self.warnings.iter().filter(about);
        let drops = drops.filter(|w| !self.spared.contains(*w));
        drops.map(String::as_str)
    }
}

/// Keeps warnings.
#[derive(Default)]
struct Ear(Mutex<Vec<String>>);

impl Logger for Ear {
    fn log(&self, level: InfoLogLevel, line: &str) {
        let complaints = [InfoLogLevel::Warn, InfoLogLevel::Error, InfoLogLevel::Fatal];
        if complaints.contains(&level) {
            let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            lines.push(line.to_string());
        }
    }
}

/// Returns whether a directory opens that gives up what lies after damage of its logs, as the command does that is
/// told to.
pub fn opens_without_damage(target: &Target) -> bool {
    let flags = WriteFlags {
        give_up_damage: true,
        ..WriteFlags::plain()
    };
    let prepared = target.prepare_read_write(&flags);
    prepared.is_ok_and(|builder| builder.env(in_memory().0).open().is_ok())
}

/// The file system whose changes stay in memory, in an environment without background work, which would only
/// make the same data lie elsewhere.
fn in_memory() -> (Env, Arc<Overlay>) {
    let system = Env::system();
    let overlay = Arc::new(Overlay::new(system.fs.clone()));
    let env = Env {
        fs: overlay.clone(),
        executor: Arc::new(ManualExecutor::new()),
        ..system
    };
    (env, overlay)
}

/// Opens a directory without changing it.
pub fn rehearse(target: &Target, inventory: Option<&Inventory>, probes: &[Probe]) -> Rehearsal {
    let mut out = Rehearsal::default();
    let file = inventory.and_then(|i| i.options.as_ref());
    let mut flags = WriteFlags::plain();
    out.options = match file {
        Some(f) if f.parsed.is_ok() => f.name.clone(),
        Some(f) => format!("defaults, because {} is not understood", f.name),
        None => "defaults, because there is no OPTIONS file".to_string(),
    };
    flags.default_options = file.is_none_or(|f| f.parsed.is_err());
    let prepared = target.prepare_read_write(&flags);
    let mut builder = match prepared {
        Ok(builder) => builder,
        Err(e) => {
            let text = format!("{e:#}");
            // Else something is not where the options say.
            out.is_about_program =
                text.contains("unknown comparator") || text.starts_with("Not implemented");
            out.error = Some(text);
            return out;
        }
    };
    if let Err(e) = builder.check()
        && e.kind() == ErrorKind::NotSupported
    {
        flags.default_options = true;
        out.options = format!("defaults, because this build refuses the directory's: {e}");
        builder = match target.prepare_read_write(&flags) {
            Ok(builder) => builder,
            Err(e) => {
                out.error = Some(format!("{e:#}"));
                out.is_about_program = true;
                return out;
            }
        };
    }
    let (env, overlay) = in_memory();
    let ear = Arc::new(Ear::default());
    let mut opened = None;
    match builder.env(env).logger(ear.clone()).open() {
        Ok(db) => {
            let changes = overlay.changes();
            out.gone = gone(&changes, &target.db);
            opened = Some(db);
        }
        Err(e) => {
            out.is_about_program = e.kind() == ErrorKind::NotSupported
                || e.message().contains("merge_operator")
                || e.message().contains("merge operator");
            if e.kind() == ErrorKind::Corruption {
                out.damaged = e.path().map(|path| (path.to_path_buf(), e.offset()));
            }
            out.error = Some(e.to_string());
        }
    }
    let lines = ear.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    out.warnings = lines;
    // Closing it changes nothing that opening has not.
    if let Some(db) = opened {
        let answers = |(family, key): &&Probe| {
            let cf = db
                .cf(family)
                .filter(|cf| cf.comparator().timestamp_size() == 0);
            cf.is_some_and(|cf| cf.get(key).is_ok())
        };
        out.readable = probes.iter().filter(answers).cloned().collect();
        let spared = out
            .drops()
            .filter(|w| is_spared(w, &target.db, &db, inventory));
        let spared: Vec<String> = spared.map(str::to_string).collect();
        // Where something else is dropped, its updates may be those of the table.
        if spared.len() == out.drops().count() {
            out.spared = spared;
        }
    }
    out
}

/// Returns whether a warning is about a table that is put aside and holds nothing that is missing: one that was not finished,
/// one of which the opened database has every key as it has it, as after a compaction that was killed, or one whose
/// updates are all in the logs, as after a flush. What was written without the log is in no log.
fn is_spared(warning: &str, dir: &Path, opened: &Db, i: Option<&Inventory>) -> bool {
    let Some((name, _)) = warning.split_once(" is not named by the MANIFEST: put into lost/")
    else {
        return false;
    };
    // A MANIFEST names a table once it is finished; what cannot be opened was not, or its record is lost, which the
    // MANIFEST shows.
    let Ok(reader) = crate::dump::open_table(&dir.join(name)) else {
        return true;
    };
    if has_all_of(opened, dir, &reader) {
        return true;
    }
    let recovered = opened.latest_sequence_number();
    let mut entries = reader.iter(crate::tables::walk());
    entries.seek_to_first();
    // Entries without numbers tell nothing.
    let (mut least, mut most) = (u64::MAX, 0);
    while entries.valid() {
        let Some((_, tag)) = split_internal(entries.key()) else {
            return false;
        };
        (least, most) = (least.min(tag_sequence(tag)), most.max(tag_sequence(tag)));
        entries.next();
    }
    let Ok(ranges) = reader.range_tombstones() else {
        return false;
    };
    for (_, _, sequence) in ranges {
        (least, most) = (least.min(sequence), most.max(sequence));
    }
    let is_below = entries.status().is_ok() && least > 0 && most > 0 && most <= recovered;
    is_below && i.is_some_and(|i| are_logged(i, least, most))
}

/// Returns whether the database answers for each key of a table with the newest entry that the table has of it. Of operands,
/// entities and timestamps that is not tried.
fn has_all_of(opened: &Db, dir: &Path, reader: &Arc<TableReader>) -> bool {
    let mut blobs = Blobs::of(dir);
    let Some(cf) = opened.cf(&reader.properties().column_family_name) else {
        return false;
    };
    if reader.has_range_tombstones() || cf.comparator().timestamp_size() > 0 {
        return false;
    }
    let mut entries = reader.iter(crate::tables::walk());
    entries.seek_to_first();
    let mut last: Option<Vec<u8>> = None;
    while entries.valid() {
        let Some((user, tag)) = split_internal(entries.key()) else {
            return false;
        };
        if last.as_deref() != Some(user) {
            let kind = tag_type(tag);
            let is_same = match cf.get(user) {
                Ok(Some(value)) if kind == ValueType::BlobIndex as u8 => blobs
                    .value(user, entries.value())
                    .is_some_and(|v| *v == *value),
                Ok(Some(value)) => kind == ValueType::Value as u8 && *value == *entries.value(),
                Ok(None) => [ValueType::Deletion, ValueType::SingleDeletion]
                    .map(|k| k as u8)
                    .contains(&kind),
                Err(_) => false,
            };
            if !is_same {
                return false;
            }
            last = Some(user.to_vec());
        }
        entries.next();
    }
    entries.status().is_ok()
}

/// The blob files of a directory, opened as values of them are asked for.
struct Blobs<'a> {
    dir: &'a Path,
    files: BTreeMap<u64, Option<BlobFileReader>>,
}

impl<'a> Blobs<'a> {
    fn of(dir: &'a Path) -> Self {
        Self {
            dir,
            files: BTreeMap::new(),
        }
    }

    /// The value that an entry of a table refers to, if it can be read.
    fn value(&mut self, user: &[u8], index: &[u8]) -> Option<Pinned> {
        let Ok(BlobIndex::Blob(pointer)) = BlobIndex::decode(index) else {
            return None;
        };
        let dir = self.dir;
        let file = self.files.entry(pointer.file).or_insert_with(|| {
            let path = dir.join(filenames::blob_file_name(pointer.file));
            let file = crate::reading::env().fs.open_random(&path).ok()?;
            BlobFileReader::open(file, ExpectedFamily::Any).ok()
        });
        file.as_ref()?.get(user, &pointer, true).ok()
    }
}

/// Returns whether the logs have all updates from one number to another.
fn are_logged(i: &Inventory, least: u64, most: u64) -> bool {
    let mut spans = Vec::new();
    for &log in i.logs.keys() {
        let path = i.wal_dir.join(filenames::log_file_name(log));
        let mut take = |_: u64, record: &[u8]| {
            if let Ok(batch) = BatchIter::new(record) {
                let updates = u64::from(batch.header_count());
                spans.push((batch.sequence(), batch.sequence().saturating_add(updates)));
            }
        };
        if each_record(&*crate::reading::env().fs, &path, log, &mut take).is_err() {
            return false;
        }
    }
    spans.sort_unstable();
    let mut next = least;
    for (first, end) in spans {
        if first <= next {
            next = next.max(end);
        }
    }
    next > most
}

/// Names of tables, blob files and logs that were there before and are not where they were.
fn gone(changes: &[Change], dir: &Path) -> Vec<String> {
    let mut made = BTreeSet::new();
    let mut out = Vec::new();
    for change in changes {
        let (path, to) = match change {
            Change::Made(path) => {
                made.insert(path.clone());
                continue;
            }
            Change::Moved(path, to) => (path, Some(to)),
            Change::Deleted(path) => (path, None),
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let kind = parse_file_name(&name);
        let matters = matches!(
            kind,
            Some(FileKind::Table(_) | FileKind::Blob(_) | FileKind::Log(_))
        );
        if !matters || made.contains(path) {
            continue;
        }
        out.push(match to {
            Some(to) => {
                let to = to.strip_prefix(dir).unwrap_or(to);
                format!("{name} moves to {}", to.display())
            }
            None if matches!(kind, Some(FileKind::Log(_))) => {
                format!("{name} is deleted, after what was replayed of it is in tables")
            }
            None => format!("{name} is deleted"),
        });
    }
    out
}
