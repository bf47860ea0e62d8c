//! The directory on a speed disk that holds tables of a database: taking it, finding it again, and leaving it.
//!
//! Its tables have the path id [`SPEED_PATH`] in the MANIFEST, and CURRENT names it, so that RocksDB, which would look for
//! them elsewhere, takes CURRENT for damaged and touches nothing. The directory belongs to one database
//! ([`super::tables_owner`]).
//!
//! The order keeps every table found whatever happens: the directory gets its owner, then CURRENT its line, then the
//! first table goes there. A table that moves is copied, made durable, named by the MANIFEST at its new place, and only
//! then deleted at the old one. On the way back CURRENT says that the tables leave as soon as the MANIFEST names none
//! there; then the directory is emptied, and CURRENT loses its line. Each step can be repeated.

use super::current::{find_identity, read_marked_current};
use super::lost::destroy_lost;
use super::relocate::{LiveTable, Tables};
use super::request::OpenRequest;
use super::speed::{DiskOfTables, are_tables_on_disk};
use super::tables_owner::{OWNER_FILE, Owner, new_token};
use crate::core::{SpeedSource, create_dir, family_paths, write_current};
use crate::options::SdPlacement;
use crate::version::{
    CurrentMarks, FileKind, FilePaths, SPEED_PATH, TablesMark, filenames, parse_file_name,
};
use spanlith_base::{Error, FileNumber, Result, SubCode};
use spanlith_env::{EntryKind, Env, FileLock, FileSystem, IoActivity};
use spanlith_speed::{Facts, Placement, Pointer, Policy, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Why a directory is not that of tables on a speed disk.
const ONE_OF_OURS: &str =
    "sd_tables_path is one of the database's directories (db_paths, cf_paths, wal_dir)";

/// Bytes copied at once.
const COPY_BYTES: usize = 256 << 10;

/// A database, its MANIFEST, and what CURRENT says of speed disks. Requires: the lock of the database.
pub(super) struct Place<'a> {
    pub env: &'a Env,
    pub dir: &'a Path,
    number: FileNumber,
    marks: CurrentMarks,
}

impl<'a> Place<'a> {
    /// The marks of CURRENT now.
    ///
    /// # Errors
    /// Of reading it.
    pub(super) fn read(env: &'a Env, dir: &'a Path) -> Result<Self> {
        let (number, marks) = read_marked_current(env, dir)?;
        Ok(Self {
            env,
            dir,
            number,
            marks,
        })
    }

    fn fs(&self) -> &dyn FileSystem {
        &*self.env.fs
    }

    /// The mark of CURRENT about tables.
    pub(super) fn mark(&self) -> Option<&TablesMark> {
        self.marks.tables.as_ref()
    }

    fn with_mark(&self, mark: Option<TablesMark>) -> CurrentMarks {
        CurrentMarks {
            tables: mark,
            ..self.marks.clone()
        }
    }

    fn write_mark(&mut self, mark: Option<TablesMark>) -> Result<()> {
        self.write_marks(self.with_mark(mark))
    }

    fn write_marks(&mut self, marks: CurrentMarks) -> Result<()> {
        let open = self.fs().open_dir(self.dir)?;
        write_current(self.env, self.dir, &*open, self.number, &marks)?;
        self.marks = marks;
        Ok(())
    }

    /// The tables of the MANIFEST.
    ///
    /// # Errors
    /// Of reading it.
    pub(super) fn tables(&self) -> Result<Tables> {
        Tables::read(self.env, self.dir, self.number)
    }

    /// Gives tables other path ids, and CURRENT another mark.
    fn relocate(
        &mut self,
        tables: Tables,
        places: &BTreeMap<u64, u32>,
        lost: &BTreeSet<u64>,
        mark: Option<TablesMark>,
    ) -> Result<()> {
        let marks = self.with_mark(mark);
        tables.relocate(self.env, self.dir, places, lost, &marks)?;
        *self = Self::read(self.env, self.dir)?;
        Ok(())
    }

    /// Ends a migration whose tables have all left.
    ///
    /// # Errors
    /// Of writing CURRENT. What cannot be deleted in the directory stays there.
    pub(super) fn finish_leaving(&mut self) -> Result<()> {
        let Some(mark) = self.mark().filter(|m| m.is_leaving).cloned() else {
            return Ok(());
        };
        if let Ok(Some(owner)) = Owner::read(self.fs(), Path::new(&mark.dir))
            && owner.tokens.contains(&mark.token)
        {
            empty(self.fs(), Path::new(&mark.dir));
        }
        self.write_mark(None)
    }

    /// Makes `to` the directory of tables of this database, which has it already or takes it; the answer holds it
    /// until it is dropped. `homes` are the directories that the user names, `paths_of` those of the tables of a family,
    /// if it is one that was named.
    ///
    /// # Errors
    /// `IO error` if it is missing or somebody has it open, with what would be lost without it; `Corruption` if it is
    /// another database's, or another copy of this one has opened it since; `InvalidArgument` if a directory of tables
    /// was not named, or is this one.
    pub(super) fn attach(
        &mut self,
        to: &Path,
        homes: &[PathBuf],
        paths_of: &dyn Fn(&str) -> Option<FilePaths>,
    ) -> Result<Box<dyn FileLock>> {
        self.finish_leaving()?;
        let Some(id) = find_identity(self.env, self.dir)? else {
            let text = "tables on a speed disk for a database without an IDENTITY file (write_identity_file = false)";
            return Err(Error::not_supported(text).with_path(self.dir));
        };
        let (lock, tokens) = match self.mark().cloned() {
            Some(mark) => {
                let owner = self.find(to, &mark, &id)?;
                if !owner.tokens.contains(&mark.token) {
                    return Err(Error::corruption(format!(
                        "tables of this database in {} were changed by a copy of it that was opened since; this \
                         directory is the older one",
                        to.display()
                    ))
                    .with_path(to));
                }
                (self.lock(to)?, vec![mark.token])
            }
            None => {
                let tables = self.tables()?;
                let high = high_ids(self.fs(), &tables, paths_of)?;
                create_dir(self.fs(), to)?;
                let lock = self.lock(to)?;
                self.check_empty(to, &id)?;
                // Before the largest id means something else.
                if !high.is_empty() {
                    self.relocate(tables, &high, &BTreeSet::new(), None)?;
                }
                (lock, Vec::new())
            }
        };
        let token = new_token(self.env);
        let mut owner = Owner { id, tokens };
        owner.tokens.push(token);
        owner.write(self.fs(), to)?;
        if let Err(e) = check_aliases(self.fs(), to, &token, homes) {
            if owner.tokens.len() == 1 {
                // It was taken just now; what cannot be deleted says whose it is.
                for path in Owner::files(to) {
                    let _ = self.fs().delete(&path);
                }
            }
            return Err(e);
        }
        self.write_mark(Some(TablesMark {
            token,
            is_leaving: false,
            dir: to.display().to_string(),
        }))?;
        if owner.tokens.len() > 1 {
            owner.tokens = vec![token];
            owner.write(self.fs(), to)?;
        }
        Ok(lock)
    }

    fn lock(&self, to: &Path) -> Result<Box<dyn FileLock>> {
        self.fs().lock(&to.join(filenames::LOCK_FILE))
    }

    /// Finds the directory again that CURRENT names, wherever it is now.
    ///
    /// # Errors
    /// As [`Self::attach`].
    pub(super) fn find(&self, at: &Path, mark: &TablesMark, id: &str) -> Result<Owner> {
        let owner = Owner::read(self.fs(), at)?;
        let Some(owner) = owner else {
            return Err(self.unowned(at, mark));
        };
        if owner.id != id {
            return Err(Error::corruption(format!(
                "{} has tables of the database with identity {}, not of {id}",
                at.display(),
                owner.id
            ))
            .with_path(at));
        }
        Ok(owner)
    }

    /// Says that nothing tells whose the tables in the directory are, or that there are none.
    fn unowned(&self, at: &Path, mark: &TablesMark) -> Error {
        let Ok(tables) = self.tables() else {
            return self.missing(at, mark);
        };
        let away: Vec<_> = tables.live().filter(|t| t.path_id == SPEED_PATH).collect();
        let held = away.iter().filter(|t| is_whole(self.fs(), at, t)).count();
        if held == 0 {
            return self.missing(at, mark);
        }
        Error::corruption(format!(
            "directory {} on the speed disk has {held} of the {} tables that should be there, but not the file {OWNER_FILE} \
             that says whose they are. Bring that back; `spanlith db migrate --to-files --lose-tables` copies the tables \
             into files, and gives up those alone that are not there",
            at.display(),
            away.len()
        ))
        .with_path(at)
    }

    /// Says what is lost without the directory, and what is not.
    fn missing(&self, at: &Path, mark: &TablesMark) -> Error {
        let away = self.tables().map_or_else(
            |e| format!("tables (which ones cannot be told: {e})"),
            |tables| describe(tables.live()),
        );
        Error::io(format!(
            "directory {} on the speed disk is missing, and with it {away}. Bring it back, or name its new place with \
             sd_tables_path (it was {}); `spanlith db migrate --to-files --lose-tables` gives them up",
            at.display(),
            mark.dir
        ))
        .with_subcode(SubCode::PathNotFound)
        .with_path(at)
    }

    /// A directory that becomes the database's must hold no tables: they would be taken for its own.
    fn check_empty(&self, to: &Path, id: &str) -> Result<()> {
        let owner = Owner::read(self.fs(), to)?;
        let names = self.fs().list(to)?;
        let held = names.iter().find(|name| is_table(name));
        let text = match (owner, held) {
            (Some(owner), _) if owner.id != id => format!(
                "{} belongs to the database with identity {}, not to {id}",
                to.display(),
                owner.id
            ),
            (_, Some(name)) => format!(
                "{} holds {name}, and CURRENT names no directory of tables; if no database needs it, empty it",
                to.display()
            ),
            _ => return Ok(()),
        };
        Err(Error::corruption(text).with_path(to))
    }
}

/// Tables with the largest path id of a database without a speed disk, and the id that each gets. A copy of a database has
/// path ids of directories that it does not have: its tables are all in the last one.
///
/// # Errors
/// `InvalidArgument` if one is not there: the database has more directories than were named, and its MANIFEST must stay
/// as it is.
fn high_ids(
    fs: &dyn FileSystem,
    tables: &Tables,
    paths_of: &dyn Fn(&str) -> Option<FilePaths>,
) -> Result<BTreeMap<u64, u32>> {
    let mut places = BTreeMap::new();
    for t in tables.live().filter(|t| t.path_id == SPEED_PATH) {
        let family = tables.family(t.family);
        let Some(paths) = paths_of(family) else {
            return Err(Error::invalid_argument(format!(
                "Column families not opened: {family}"
            )));
        };
        let last = u32::try_from(paths.count().saturating_sub(1)).unwrap_or(0);
        if !is_whole(fs, paths.dir(last), t) {
            return Err(elsewhere(t, family, paths.dir(last)));
        }
        places.insert(t.number, last);
    }
    Ok(places)
}

/// Returns whether a directory has a table, as long as the MANIFEST says.
fn is_whole(fs: &dyn FileSystem, dir: &Path, t: &LiveTable) -> bool {
    let path = dir.join(filenames::table_file_name(t.number));
    fs.size(&path).is_ok_and(|size| size == t.size)
}

/// The directories that were named are not those of the database.
fn elsewhere(t: &LiveTable, family: &str, dir: &Path) -> Error {
    let path = dir.join(filenames::table_file_name(t.number));
    Error::invalid_argument(format!(
        "table {:06}.sst of column family {family} is not in {}, where it is by the directories that were named: name all \
         those of its tables (db_paths, cf_paths), in their order; beside four of them there is no place for \
         sd_tables_path",
        t.number,
        dir.display()
    ))
    .with_path(&path)
}

/// Refuses a directory of tables that is one of `homes` by another name: the file that says whose it is is there, too.
fn check_aliases(
    fs: &dyn FileSystem,
    to: &Path,
    token: &[u8; 16],
    homes: &[PathBuf],
) -> Result<()> {
    let is_there = |dir: &PathBuf| {
        let owner = Owner::read(fs, dir).ok().flatten();
        owner.is_some_and(|owner| owner.tokens.contains(token))
    };
    match homes.iter().any(is_there) {
        true => Err(Error::invalid_argument(ONE_OF_OURS).with_path(to)),
        false => Ok(()),
    }
}

fn is_table(name: &str) -> bool {
    matches!(parse_file_name(name), Some(FileKind::Table(_)))
}

/// Says of tables with the path id of a speed disk how many there are.
fn describe<'t>(live: impl Iterator<Item = &'t LiveTable>) -> String {
    let (mut away, mut bytes, mut others) = (0u64, 0u64, 0u64);
    let mut levels = BTreeSet::new();
    for t in live {
        match t.path_id == SPEED_PATH {
            true => {
                away += 1;
                bytes = bytes.saturating_add(t.size);
                levels.insert(t.level);
            }
            false => others += 1,
        }
    }
    let levels: Vec<String> = levels.iter().map(u32::to_string).collect();
    let plural = |n: u64| if n == 1 { "" } else { "s" };
    format!(
        "{away} table{} ({bytes} bytes, of level{} {}); {others} other table{} and the logs are whole",
        plural(away),
        plural(levels.len() as u64),
        levels.join(", "),
        plural(others),
    )
}

/// Deletes what a database has in a directory of tables; what fails stays.
fn empty(fs: &dyn FileSystem, dir: &Path) {
    for name in fs.list(dir).unwrap_or_default() {
        let plain = name.strip_suffix(filenames::TRASH_SUFFIX).unwrap_or(&name);
        if is_table(plain) {
            let _ = fs.delete(&dir.join(&name));
        }
    }
    // A file that cannot be deleted stays, like the rest.
    let _ = destroy_lost(fs, dir);
    // The owner last: without it nobody would look here again.
    let _ = fs.delete(&dir.join(filenames::LOCK_FILE));
    for path in Owner::files(dir) {
        let _ = fs.delete(&path);
    }
    let _ = fs.sync_dir(dir);
    let _ = fs.delete_dir(dir);
}

/// Attaches the directory that the request asks for or CURRENT names, if any. Requires: the lock of the database,
/// unless for reading only. The answer holds the directory.
///
/// # Errors
/// As [`Place::attach`].
pub(super) fn attach(request: &OpenRequest) -> Result<Option<Box<dyn FileLock>>> {
    let (env, dir) = (&request.env, &*request.dir);
    let tables = request.resources.tables.as_ref();
    if request.options.best_efforts_recovery {
        // CURRENT says nothing then.
        return match tables {
            None => Ok(None),
            Some(t) => Err(Error::not_supported(
                "best_efforts_recovery with tables on a speed disk",
            )
            .with_path(t.state.dir())),
        };
    }
    let (mut place, tables) = match tables {
        Some(tables) => (Place::read(env, dir)?, &tables.state),
        // Left from a migration that was cut short.
        None => {
            if !request.read_only
                && let Ok(mut place) = Place::read(env, dir)
            {
                place.finish_leaving()?;
            }
            return Ok(None);
        }
    };
    if let Some(disk) = request.speed.as_ref().and_then(|s| s.fs.disk()) {
        tables.share(disk);
    }
    if request.read_only {
        if let (Some(mark), Some(id)) = (place.mark(), find_identity(env, dir)?) {
            place.find(tables.dir(), mark, &id)?;
        }
        return Ok(None);
    }
    let paths_of = |name: &str| {
        let asked = request.families.iter().find(|f| f.name == name)?;
        Some(family_paths(dir, asked))
    };
    let mut homes = vec![dir.to_path_buf(), request.wal_dir()];
    let paths = request.families.iter().flat_map(|f| &f.paths);
    homes.extend(paths.map(|path| path.dir.clone()));
    let lock = place.attach(tables.dir(), &homes, &paths_of)?;
    if let (Some(mark), Some(asked)) = (place.mark(), &request.resources.tables) {
        // Set once: a request opens once.
        let _ = asked.mark.set(mark.clone());
    }
    Ok(Some(lock))
}

/// Describes what a migration of tables did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovedTables {
    /// Tables that lie elsewhere now.
    pub tables: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Tables that were given up, with their directory.
    pub lost: usize,
    /// There was no directory to leave.
    pub was_on_files: bool,
}

/// Which directories the tables of a family have, by its name, beside that on a speed disk.
pub type PathsOf<'a> = &'a dyn Fn(&str) -> FilePaths;

/// Copies `table`, durably but for its name.
fn copy(fs: &dyn FileSystem, from: &Path, to: &Path, table: &LiveTable) -> Result<()> {
    if fs.absolute(from) == fs.absolute(to) {
        // The copy would be cut to nothing before anything is read.
        return Err(Error::invalid_argument(ONE_OF_OURS).with_path(to));
    }
    let file = fs.open_random(from)?;
    let mut out = fs.create(to, IoActivity::Other)?;
    let mut buf = vec![0; COPY_BYTES];
    let mut at = 0;
    loop {
        let n = file.read_at(at, &mut buf)?;
        if n == 0 {
            break;
        }
        out.append(buf.get(..n).unwrap_or_default())?;
        at += n as u64;
    }
    if at != table.size {
        return Err(Error::corruption(format!(
            "Sst file size mismatch between expected {} and file system {at} sstable: {}",
            table.size,
            from.display()
        ))
        .with_path(from));
    }
    out.sync()?;
    out.close()
}

/// Deletes what is left of tables at their old places.
fn delete_old(fs: &dyn FileSystem, old: &[PathBuf]) -> Result<()> {
    for path in old {
        match fs.delete(path) {
            Err(e) if e.subcode() != Some(SubCode::PathNotFound) => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// Brings tables of a database that nobody has open to the directory `to` of a speed disk, or to the speed disk `to` itself
/// if it was formatted with a part for tables: those of the levels that `placement` names, from the top, as long as they
/// fit into `size` bytes, or into what is free there if that is 0. The directory is the database's then, and so is such a
/// disk, which takes its new logs, too; where new tables go is said by the options of each open.
///
/// # Errors
/// `Io`, with the subcode of a held lock if somebody has it open; those of the directory or the disk;
/// `InvalidArgument` for a disk without a part for tables. It can be repeated.
pub fn migrate_to_speed_disk(
    env: &Env,
    dir: &Path,
    paths_of: PathsOf<'_>,
    to: &Path,
    placement: SdPlacement,
    size: u64,
) -> Result<MovedTables> {
    let _lock = env.fs.lock(&dir.join(filenames::LOCK_FILE))?;
    let target = to.display().to_string();
    if !is_disk(&*env.fs, to, &target) {
        let to = env.fs.absolute(to);
        return bring(Place::read(env, dir)?, paths_of, &to, placement, size);
    }
    let mut place = Place::read(env, dir)?;
    if place
        .marks
        .logs
        .as_ref()
        .is_some_and(|mark| mark.is_leaving)
    {
        let text = "taking a speed disk for tables while logs are leaving one; `spanlith db migrate --to-files` ends that";
        return Err(Error::not_supported(text).with_path(dir));
    }
    // A database whose logs are on it, by another name perhaps, or that takes it for them, too.
    let source = SpeedSource::Path(target.clone());
    let disk = DiskOfTables::open(env, dir, Some(&source), &place.marks)?;
    let marks = CurrentMarks {
        logs: Some(disk.mark(&target)),
        ..place.marks.clone()
    };
    place.write_marks(marks)?;
    bring(
        Place::read(&disk.env, dir)?,
        paths_of,
        &disk.dir,
        placement,
        size,
    )
}

/// Returns whether `to` is a speed disk and not a directory.
fn is_disk(fs: &dyn FileSystem, to: &Path, target: &str) -> bool {
    let kind = fs.entry(to).ok().flatten();
    // Parts of a device have names that no file has.
    let is_part = Target::parse(target).is_ok_and(|t| t.len > 0 && t.path != to);
    matches!(kind, Some(EntryKind::File | EntryKind::Other)) || kind.is_none() && is_part
}

/// Brings tables to the directory `to`. Requires: the lock of the database.
fn bring(
    mut place: Place<'_>,
    paths_of: PathsOf<'_>,
    to: &Path,
    placement: SdPlacement,
    size: u64,
) -> Result<MovedTables> {
    let (env, dir) = (place.env, place.dir);
    let fs = &*env.fs;
    let tables = place.tables()?;
    let homes = homes_of(dir, &tables, paths_of);
    let counts = tables.families().map(|name| paths_of(name).count());
    check_apart(fs, to, &homes, counts.max().unwrap_or(1))?;
    let _held = place.attach(to, &homes, &|name: &str| Some(paths_of(name)))?;
    let tables = place.tables()?;
    let mut all: Vec<(u32, LiveTable)> =
        tables.live().map(|t| (tables.rank(t), t.clone())).collect();
    all.sort_by_key(|(rank, t)| (*rank, t.number));
    let (pointer, mut left) = room(&all, placement.0, size, fs.free_space(to)?);
    let (mut places, mut old, mut done) = (BTreeMap::new(), Vec::new(), MovedTables::default());
    for (rank, t) in &all {
        let paths = paths_of(tables.family(t.family));
        let home = |path_id| paths.table(t.number, path_id);
        if t.path_id == SPEED_PATH {
            // Left from a migration that was cut short.
            old.extend((0..paths.count()).map(|id| home(u32::try_from(id).unwrap_or(0))));
            continue;
        }
        if t.size > left || !pointer.takes(*rank, t.number, t.level == 0) {
            continue;
        }
        left -= t.size;
        let from = home(t.path_id);
        copy(fs, &from, &to.join(filenames::table_file_name(t.number)), t)?;
        places.insert(t.number, SPEED_PATH);
        old.push(from);
        done.tables += 1;
        done.bytes += t.size;
    }
    if !places.is_empty() {
        fs.sync_dir(to)?;
        let mark = place.mark().cloned();
        place.relocate(tables, &places, &BTreeSet::new(), mark)?;
    }
    delete_old(fs, &old)?;
    Ok(done)
}

/// Which of the tables go to the speed disk, and how many bytes there is room for.
fn room(all: &[(u32, LiveTable)], policy: Policy, size: u64, free: u64) -> (Pointer, u64) {
    let there = all.iter().filter(|(_, t)| t.path_id == SPEED_PATH);
    let used = there.map(|(_, t)| t.size).sum::<u64>();
    let capacity = match size {
        0 => used.saturating_add(free),
        size => size.min(used.saturating_add(free)),
    };
    let count = all.iter().map(|(rank, _)| *rank as usize + 1).max();
    let mut levels = vec![0u64; count.unwrap_or(0)];
    for (rank, t) in all {
        if let Some(level) = levels.get_mut(*rank as usize) {
            *level = level.saturating_add(t.size);
        }
    }
    let mut rule = Placement::default();
    rule.look(
        policy,
        &Facts {
            capacity,
            used,
            levels,
            ..Facts::default()
        },
    );
    (rule.pointer(), capacity.saturating_sub(used))
}

/// All directories that users name: that of the database, and those of its tables.
fn homes_of(dir: &Path, tables: &Tables, paths_of: PathsOf<'_>) -> Vec<PathBuf> {
    let mut homes = vec![dir.to_path_buf()];
    for name in tables.families() {
        homes.extend(paths_of(name).users().map(Path::to_path_buf));
    }
    homes
}

/// Refuses a directory of tables that is one of `homes`, the first of which is the database's, and more directories than
/// path ids.
pub(crate) fn check_apart(
    fs: &dyn FileSystem,
    tables: &Path,
    homes: &[PathBuf],
    paths_count: usize,
) -> Result<()> {
    let mut homes = homes.iter().map(|dir| fs.absolute(dir));
    let text = if homes.next().as_deref() == Some(tables) {
        "sd_tables_path is the directory of the database"
    } else if homes.any(|dir| dir == tables) {
        ONE_OF_OURS
    } else if paths_count > SPEED_PATH as usize {
        "sd_tables_path with four directories of tables: its place is that of the fourth"
    } else if tables.display().to_string().contains('\n') {
        "sd_tables_path with a line feed"
    } else {
        return Ok(());
    };
    Err(Error::invalid_argument(text).with_path(tables))
}

/// Says where the tables of a database on a speed disk are now, if they are not where they were.
#[derive(Clone, Debug, Default)]
pub struct TablesAt {
    /// The directory, for tables that are in one.
    pub dir: Option<PathBuf>,
    /// The disk of the logs, for tables that are on it itself.
    pub disk: Option<SpeedSource>,
}

/// Brings the tables of a database that nobody has open back from its speed disk into its first directory, so that none
/// depends on the disk. With `lose` those that are gone are
/// given up, with the directory or alone: of their keys older values, and keys that were deleted, may come back. Tables on
/// the speed disk of the logs itself go before the logs do ([`super::migrate_to_files`]).
///
/// # Errors
/// `Io`, with the subcode of a held lock if somebody has it open; those of the directory or the disk. It can be repeated.
pub fn migrate_tables_to_files(
    env: &Env,
    dir: &Path,
    paths_of: PathsOf<'_>,
    at: &TablesAt,
    lose: bool,
) -> Result<MovedTables> {
    let _lock = env.fs.lock(&dir.join(filenames::LOCK_FILE))?;
    let place = Place::read(env, dir)?;
    if !are_tables_on_disk(&*env.fs, &place.marks) {
        return take_out(place, paths_of, at.dir.as_deref(), lose);
    }
    match DiskOfTables::open(env, dir, at.disk.as_ref(), &place.marks) {
        Ok(disk) => take_out(
            Place::read(&disk.env, dir)?,
            paths_of,
            Some(&disk.dir),
            lose,
        ),
        Err(e) if lose && e.subcode() == Some(SubCode::PathNotFound) => {
            take_out(place, paths_of, None, lose)
        }
        Err(e) => Err(e),
    }
}

/// Brings tables out of their directory. Requires: the lock of the database.
fn take_out(
    mut place: Place<'_>,
    paths_of: PathsOf<'_>,
    at: Option<&Path>,
    lose: bool,
) -> Result<MovedTables> {
    let (env, dir) = (place.env, place.dir);
    let mut done = MovedTables::default();
    let Some(mark) = place.mark().cloned() else {
        done.was_on_files = true;
        return Ok(done);
    };
    if mark.is_leaving {
        place.finish_leaving()?;
        return Ok(done);
    }
    let from = at.map_or_else(|| PathBuf::from(&mark.dir), |at| env.fs.absolute(at));
    let (fs, tables) = (&*env.fs, place.tables()?);
    let homes = homes_of(dir, &tables, paths_of);
    check_apart(fs, &from, &homes, 1)?;
    let is_owned = fs.entry(&from)?.is_some() && fs.entry(&from.join(OWNER_FILE))?.is_some();
    let held = match is_owned || !lose {
        true => {
            let id = find_identity(env, dir)?.unwrap_or_default();
            place.find(&from, &mark, &id)?;
            check_aliases(fs, &from, &mark.token, &homes)?;
            Some(place.lock(&from)?)
        }
        false => None,
    };
    // Otherwise the tables would come to a directory in which the next open does not look.
    for t in tables.live().filter(|t| t.path_id != SPEED_PATH && !lose) {
        let family = tables.family(t.family);
        let paths = paths_of(family);
        if fs.entry(&paths.table(t.number, t.path_id))?.is_none() {
            return Err(elsewhere(t, family, paths.dir(t.path_id)));
        }
    }
    let (mut places, mut lost, mut dirs) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    for t in tables.live().filter(|t| t.path_id == SPEED_PATH) {
        let path = from.join(filenames::table_file_name(t.number));
        let is_gone = match is_owned {
            true => fs.entry(&path)?.is_none(),
            // Nothing but its number and size says that it is the one: an open compares their identities.
            false => !is_whole(fs, &from, t),
        };
        if lose && is_gone {
            lost.insert(t.number);
            continue;
        }
        let paths = paths_of(tables.family(t.family));
        copy(fs, &path, &paths.table(t.number, 0), t)?;
        dirs.insert(paths.dir(0).to_path_buf());
        places.insert(t.number, 0);
        done.bytes += t.size;
    }
    (done.tables, done.lost) = (places.len(), lost.len());
    dirs.iter().try_for_each(|dir| fs.sync_dir(dir))?;
    let leaving = TablesMark {
        is_leaving: true,
        dir: from.display().to_string(),
        ..mark
    };
    place.relocate(tables, &places, &lost, is_owned.then_some(leaving))?;
    drop(held);
    place.finish_leaving()?;
    Ok(done)
}

/// Empties the directory of tables of a database that was destroyed. `mark` is what its CURRENT said.
pub(crate) fn release_tables(fs: &dyn FileSystem, mark: &TablesMark) {
    let dir = Path::new(&mark.dir);
    if let Ok(Some(owner)) = Owner::read(fs, dir)
        && owner.tokens.contains(&mark.token)
    {
        // The database is gone; what is left can be deleted by hand.
        empty(fs, dir);
    }
}
