//! Attaches the speed disk of a database, and takes it away again.
//!
//! The order keeps the logs found whatever happens: the disk gets its owner, then CURRENT its second line, then the first
//! log begins there. On the way back the logs are copied into files of other names (`.sdlog`), CURRENT says that they
//! leave, the files get the names of logs, CURRENT loses its second line, and the disk is emptied. Each step can
//! be repeated.

use super::current::{find_identity, read_marked_current};
use super::request::OpenRequest;
use crate::core::{Speed, SpeedSource, write_current};
use crate::options::DbOptions;
use crate::version::{CurrentMarks, FileKind, SpeedMark, filenames, parse_file_name};
use spanlith_base::{Error, Result, SubCode};
use spanlith_env::{BlockDevice, Env, FileSystem};
use spanlith_speed::{
    LogReading, SpeedDisk, SpeedFs, SpeedOptions, Superblock, Target, tables_dir,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Suffix of a log that was copied from the disk and has no name yet.
const COPY_SUFFIX: &str = ".sdlog";

/// Attaches the disk that the request asks for or CURRENT names, if any. Requires: the lock, unless for reading only.
///
/// # Errors
/// `IO error` if the disk is missing or somebody has it open, with what would be lost without it; `Corruption` if it is
/// not the database's, or older than the database; those of [`SpeedDisk::open`].
pub(super) fn attach(request: &OpenRequest) -> Result<()> {
    let Some(speed) = &request.speed else {
        return Ok(());
    };
    let (env, dir) = (&request.env, &request.dir);
    let current = read_marked_current(env, dir);
    if current.is_err() && request.options.best_efforts_recovery {
        let text =
            "best_efforts_recovery with logs on a speed disk and a CURRENT that cannot be read";
        return Err(Error::not_supported(text).with_path(dir));
    }
    let (number, marks) = current?;
    if let Some(mark) = &marks.logs
        && mark.is_leaving
    {
        if request.read_only {
            return Err(Error::not_supported(
                "a database whose logs are leaving a speed disk, for reading only; `spanlith db migrate --to-files` ends that",
            )
            .with_path(dir));
        }
        let leaving = Leaving {
            env,
            dir,
            wal_dir: &request.wal_dir(),
            number,
            marks: &marks,
        };
        leaving.finish(mark)?;
        if speed.source.is_none() {
            return Ok(());
        }
        let marks = CurrentMarks {
            logs: None,
            ..marks
        };
        return attach_new(request, speed, number, &marks);
    }
    attach_new(request, speed, number, &marks)
}

fn attach_new(
    request: &OpenRequest,
    speed: &Speed,
    number: u64,
    marks: &CurrentMarks,
) -> Result<()> {
    let (env, dir, mark) = (&request.env, &request.dir, marks.logs.as_ref());
    let disk = match (&speed.source, mark) {
        (None, None) => return Ok(()),
        // A database without a speed disk is read as it is.
        (Some(_), None) if request.read_only => return Ok(()),
        (source, mark) => {
            // Tables there are attached before logs are replayed, which is an effect.
            let has_tables = marks.tables.is_some() || request.resources.tables.is_some();
            let reading = match mark.is_some() && !has_tables {
                true => LogReading::BesideReplay,
                false => LogReading::AtOnce,
            };
            let how = (request.read_only, reading);
            open_disk(env, dir, source.as_ref(), marks, how)?
        }
    };
    let target = target_of(speed, marks);
    if !request.read_only && !disk.is_being_read() {
        record(request, speed, &disk, number, marks)?;
    }
    speed.fs.attach(disk, &target);
    if !request.read_only {
        let tables = request.resources.tables.as_ref();
        // Tables in a directory of the speed disk do so by themselves.
        let except = tables.map(|t| t.state.dir());
        speed.fs.give_way(&env.clock, dir, except);
    }
    Ok(())
}

/// The name of the disk that is asked for, or that CURRENT names.
fn target_of(speed: &Speed, marks: &CurrentMarks) -> String {
    match (&speed.source, &marks.logs) {
        (Some(source), _) => source.target().to_string(),
        (None, Some(mark)) => mark.target.clone(),
        (None, None) => String::new(),
    }
}

/// Says in CURRENT that the logs are on `disk`, which is open.
fn record(
    request: &OpenRequest,
    speed: &Speed,
    disk: &SpeedDisk,
    number: u64,
    marks: &CurrentMarks,
) -> Result<()> {
    let (env, dir) = (&request.env, &request.dir);
    let mark = SpeedMark {
        instance: *disk.instance(),
        epoch: disk.epoch(),
        is_leaving: false,
        target: target_of(speed, marks),
    };
    let marks = CurrentMarks {
        logs: Some(mark.clone()),
        ..marks.clone()
    };
    write_current(env, dir, &*env.fs.open_dir(dir)?, number, &marks)?;
    // Set once: a request opens once.
    let _ = speed.mark.set(mark);
    Ok(())
}

/// The verdict about logs that were read while they were replayed, if that is not given yet. Nothing that a replay does has an
/// effect before.
///
/// # Errors
/// Those of [`SpeedDisk::open`].
pub(super) fn conclude(dir: &Path, fs: &SpeedFs) -> Result<()> {
    match fs.disk().filter(|disk| disk.is_being_read()) {
        Some(disk) => disk.conclude().map_err(|e| {
            e.with("identity", dir.join(filenames::IDENTITY_FILE).display())
                .with("named in", dir.join(filenames::CURRENT_FILE).display())
        }),
        None => Ok(()),
    }
}

/// Ends what [`attach`] began: asks for the verdict, and says in CURRENT how often the disk was opened.
///
/// # Errors
/// As [`conclude`]; of CURRENT.
pub(super) fn settle(request: &OpenRequest) -> Result<()> {
    let Some((speed, disk)) = request.speed.as_ref().and_then(|s| Some((s, s.fs.disk()?))) else {
        return Ok(());
    };
    if request.read_only || speed.mark.get().is_some() {
        return Ok(());
    }
    conclude(&request.dir, &speed.fs)?;
    let (number, marks) = read_marked_current(&request.env, &request.dir)?;
    record(request, speed, disk, number, &marks)
}

/// The directory of tables that a speed disk has itself: the one of `source`, or the one that CURRENT names. `None`: it has
/// none, or cannot be read, which an open says.
pub(crate) fn tables_on_disk(
    fs: &dyn FileSystem,
    source: Option<&SpeedSource>,
    mark: Option<&SpeedMark>,
) -> Option<PathBuf> {
    let target = match (source, mark) {
        (Some(source), _) => source.target(),
        (None, Some(mark)) => &mark.target,
        (None, None) => return None,
    };
    let superblock = read(fs, source, target).ok()?;
    superblock.tables.map(|_| tables_dir(fs, target))
}

fn read(fs: &dyn FileSystem, source: Option<&SpeedSource>, target: &str) -> Result<Superblock> {
    let device = match source {
        Some(SpeedSource::Device(_, device)) => device.clone(),
        _ => Target::parse(target)?.open(fs, true)?,
    };
    spanlith_speed::read_superblock(&*device).map(|(superblock, _)| superblock)
}

/// Returns whether the tables of a database are on the speed disk of its logs itself.
pub(crate) fn are_tables_on_disk(fs: &dyn FileSystem, marks: &CurrentMarks) -> bool {
    let CurrentMarks { logs, tables } = marks;
    let logs = logs.as_ref().map(|logs| tables_dir(fs, &logs.target));
    logs.is_some_and(|dir| tables.as_ref().is_some_and(|t| Path::new(&t.dir) == dir))
}

/// The speed disk of a database that nobody has open, with its tables in a file system. It lets others have the disk when
/// it is dropped.
pub(super) struct DiskOfTables {
    pub env: Env,
    /// Its directory of tables.
    pub dir: PathBuf,
    disk: Arc<SpeedDisk>,
}

impl Drop for DiskOfTables {
    fn drop(&mut self) {
        self.disk.close();
    }
}

impl DiskOfTables {
    /// Opens the disk `source`, or the one that CURRENT names. Requires: the lock of the database.
    ///
    /// # Errors
    /// Of the disk; `InvalidArgument` if it has no part for tables.
    pub(super) fn open(
        env: &Env,
        dir: &Path,
        source: Option<&SpeedSource>,
        marks: &CurrentMarks,
    ) -> Result<Self> {
        let mark = marks.logs.as_ref();
        let how = (false, LogReading::AtOnce);
        let disk = open_disk(env, dir, source, marks, how)?;
        let target = source.map_or_else(
            || mark.map_or("", |mark| mark.target.as_str()),
            SpeedSource::target,
        );
        let fs = SpeedFs::new(env.fs.clone(), dir);
        fs.attach(disk.clone(), target);
        let Some(tables) = fs.tables().map(Path::to_path_buf) else {
            disk.close();
            return Err(Error::invalid_argument(format!(
                "speed disk {target} has no part for tables; `spanlith sd format --tables SIZE` makes one that has"
            )));
        };
        let env = Env {
            fs: Arc::new(fs),
            ..env.clone()
        };
        Ok(Self {
            env,
            dir: tables,
            disk,
        })
    }

    /// The mark of CURRENT for its logs. `target`: what it is called.
    pub(super) fn mark(&self, target: &str) -> SpeedMark {
        SpeedMark {
            instance: *self.disk.instance(),
            epoch: self.disk.epoch(),
            is_leaving: false,
            target: target.to_string(),
        }
    }
}

/// Opens the disk of a database, for reading only or not, and checks that it is that. An error says which file named it.
fn open_disk(
    env: &Env,
    dir: &Path,
    source: Option<&SpeedSource>,
    marks: &CurrentMarks,
    how: (bool, LogReading),
) -> Result<Arc<SpeedDisk>> {
    let opened = open_checked(env, dir, source, marks, how);
    opened.map_err(|e| match marks.logs {
        Some(_) => e.with("named in", dir.join(filenames::CURRENT_FILE).display()),
        None => e,
    })
}

fn open_checked(
    env: &Env,
    dir: &Path,
    source: Option<&SpeedSource>,
    marks: &CurrentMarks,
    (read_only, reading): (bool, LogReading),
) -> Result<Arc<SpeedDisk>> {
    let mark = marks.logs.as_ref();
    let owner = find_identity(env, dir)?;
    // For a reader it is enough that CURRENT and the disk agree on what was drawn when the disk was formatted.
    if owner.is_none() && !(read_only && mark.is_some()) {
        let text =
            "a speed disk for a database without an IDENTITY file (write_identity_file = false)";
        return Err(Error::not_supported(text).with_path(dir));
    }
    let device = open_device(env, source, marks, read_only)?;
    let options = SpeedOptions {
        owner,
        read_only,
        accept_damage: false,
        reading,
    };
    if let Some(mark) = mark {
        // Looked at before anything is changed.
        let (superblock, _) = spanlith_speed::read_superblock(&*device)?;
        if superblock.instance != mark.instance {
            return Err(Error::corruption(format!(
                "{} is another speed disk than the one with the logs of this database; that one was {}",
                device.path().display(),
                mark.target
            ))
            .with_path(device.path()));
        }
        if superblock.epoch < mark.epoch {
            return Err(Error::corruption(format!(
                "speed disk {} is older than the database: it was opened {} times, and {} times when CURRENT was written",
                device.path().display(),
                superblock.epoch,
                mark.epoch
            ))
            .with_path(device.path()));
        }
    } else {
        check_without_logs(&device, &options)?;
    }
    let identity = dir.join(filenames::IDENTITY_FILE);
    SpeedDisk::open(device, &options).map_err(|e| e.with("identity", identity.display()))
}

/// A disk that becomes the database's must hold no logs: those of another time would be taken for its own.
fn check_without_logs(device: &Arc<dyn BlockDevice>, options: &SpeedOptions) -> Result<()> {
    let looked = SpeedDisk::open(
        device.clone(),
        &SpeedOptions {
            read_only: true,
            accept_damage: true,
            reading: LogReading::AtOnce,
            ..options.clone()
        },
    )?;
    match looked.numbers().first() {
        None => Ok(()),
        Some(number) => Err(Error::corruption(format!(
            "speed disk {} holds log {number:06}, and CURRENT names no speed disk; if the directory is not an old copy, \
             `spanlith sd format --force` empties the disk",
            device.path().display()
        ))
        .with_path(device.path())),
    }
}

fn open_device(
    env: &Env,
    source: Option<&SpeedSource>,
    marks: &CurrentMarks,
    read_only: bool,
) -> Result<Arc<dyn BlockDevice>> {
    let mark = marks.logs.as_ref();
    let path = match (source, mark) {
        (Some(SpeedSource::Device(_, device)), _) => return Ok(device.clone()),
        (Some(SpeedSource::Path(path)), _) => path.as_str(),
        (None, Some(mark)) => mark.target.as_str(),
        (None, None) => "",
    };
    let opened = Target::parse(path).and_then(|target| target.open(&*env.fs, read_only));
    opened.map_err(|e| match (mark, e.subcode()) {
        (Some(mark), Some(SubCode::PathNotFound)) => {
            let (lost, flags) = match are_tables_on_disk(&*env.fs, marks) {
                false => ("; tables are whole", "--lose-logs"),
                true => (", and the tables that were on it", "--lose-logs --lose-tables"),
            };
            Error::io(format!(
                "speed disk {path} is missing, and with it the logs of this database, which held every write since the \
                 last flush of each column family{lost}. Bring it back, or name its new place with sd_path (it was {}); \
                 `spanlith db migrate --to-files {flags}` gives it up",
                mark.target
            ))
            .with_subcode(SubCode::PathNotFound)
        }
        _ => e,
    })
}

/// A database on its way back to files.
struct Leaving<'a> {
    env: &'a Env,
    dir: &'a Path,
    wal_dir: &'a Path,
    /// Number of the current MANIFEST.
    number: u64,
    /// The marks of CURRENT.
    marks: &'a CurrentMarks,
}

impl Leaving<'_> {
    fn fs(&self) -> &dyn FileSystem {
        &*self.env.fs
    }

    fn write_current(&self, mark: Option<&SpeedMark>) -> Result<()> {
        let open = self.fs().open_dir(self.dir)?;
        let marks = CurrentMarks {
            logs: mark.cloned(),
            ..self.marks.clone()
        };
        write_current(self.env, self.dir, &*open, self.number, &marks)
    }

    /// Copies that are there.
    fn copies(&self) -> Result<Vec<PathBuf>> {
        let names = self.fs().list(self.wal_dir)?;
        let copies = names.iter().filter(|n| n.ends_with(COPY_SUFFIX));
        Ok(copies.map(|n| self.wal_dir.join(n)).collect())
    }

    /// Copies every log of the disk, and records that. `mark` is what CURRENT says.
    fn copy(&self, disk: Arc<SpeedDisk>, mark: &SpeedMark) -> Result<SpeedMark> {
        for left in self.copies()? {
            self.fs().delete(&left)?;
        }
        let numbers = disk.numbers();
        let logs = SpeedFs::new(self.env.fs.clone(), self.wal_dir);
        logs.attach(disk, &mark.target);
        for number in numbers {
            let from = self.wal_dir.join(filenames::log_file_name(number));
            logs.copy_log(&from, &from.with_extension(&COPY_SUFFIX[1..]))?;
        }
        self.fs().sync_dir(self.wal_dir)?;
        let leaving = SpeedMark {
            is_leaving: true,
            ..mark.clone()
        };
        self.write_current(Some(&leaving))?;
        Ok(leaving)
    }

    /// Gives the copies their names and empties the disk, if it can be reached.
    fn finish(&self, mark: &SpeedMark) -> Result<()> {
        for copy in self.copies()? {
            self.fs().rename(&copy, &copy.with_extension("log"))?;
        }
        self.fs().sync_dir(self.wal_dir)?;
        self.write_current(None)?;
        // Nothing depends on the disk any more: one that is away stays as it is.
        if let Ok(target) = Target::parse(&mark.target)
            && let Ok(device) = target.open(self.fs(), false)
        {
            let _ = release(device, mark);
        }
        Ok(())
    }
}

/// Empties a disk and makes it nobody's, if it is the one of `mark`.
fn release(device: Arc<dyn BlockDevice>, mark: &SpeedMark) -> Result<()> {
    let (superblock, _) = spanlith_speed::read_superblock(&*device)?;
    if superblock.instance != mark.instance {
        return Ok(());
    }
    let options = SpeedOptions {
        accept_damage: true,
        ..SpeedOptions::default()
    };
    SpeedDisk::open(device, &options)?.release()
}

/// Describes what a migration did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToFiles {
    /// Logs that are files now.
    pub logs: usize,
    /// There was no speed disk to leave.
    pub was_on_files: bool,
    /// The logs were given up.
    pub lost_logs: bool,
}

/// Brings the logs of a database that nobody has open from its speed disk into files, so that it is an ordinary
/// directory again. `lose_logs` gives them up instead, for a disk that is gone.
///
/// # Errors
/// `Io`, with the subcode of a held lock if somebody has it open; those of the disk. It can be repeated.
pub fn migrate_to_files(
    env: &Env,
    dir: &Path,
    options: &DbOptions,
    source: Option<&SpeedSource>,
    lose_logs: bool,
) -> Result<ToFiles> {
    let _lock = env.fs.lock(&dir.join(filenames::LOCK_FILE))?;
    let (number, marks) = read_marked_current(env, dir)?;
    let Some(mark) = marks.logs.clone() else {
        return Ok(ToFiles {
            was_on_files: true,
            ..ToFiles::default()
        });
    };
    if are_tables_on_disk(&*env.fs, &marks) {
        return Err(Error::not_supported(
            "bringing logs into files while tables are on their speed disk: the tables go first",
        )
        .with_path(dir));
    }
    let wal_dir = match options.wal_dir.as_str() {
        "" => dir.to_path_buf(),
        other => PathBuf::from(other),
    };
    let leaving = Leaving {
        env,
        dir,
        wal_dir: &wal_dir,
        number,
        marks: &marks,
    };
    if lose_logs && !mark.is_leaving {
        leaving.write_current(None)?;
        return Ok(ToFiles {
            lost_logs: true,
            ..ToFiles::default()
        });
    }
    let mark = match mark.is_leaving {
        true => mark,
        false => {
            let disk = open_disk(env, dir, source, &marks, (false, LogReading::AtOnce))?;
            leaving.copy(disk, &mark)?
        }
    };
    let logs = leaving.copies()?.len();
    leaving.finish(&mark)?;
    if let Some(SpeedSource::Device(_, device)) = source {
        // Nothing depends on it any more.
        let _ = release(device.clone(), &mark);
    }
    Ok(ToFiles {
        logs,
        ..ToFiles::default()
    })
}

/// Empties the speed disk of a database that was destroyed. `mark` is what its CURRENT said.
pub(crate) fn release_destroyed(fs: &dyn FileSystem, mark: &SpeedMark) {
    if let Ok(target) = Target::parse(&mark.target)
        && let Ok(device) = target.open(fs, false)
    {
        // The database is gone; a disk that is not emptied can be formatted.
        let _ = release(device, mark);
    }
}

/// Makes the speed disk of a database that is not made after all nobody's again.
pub(super) fn detach_unmade(request: &OpenRequest) {
    if let Some(disk) = request.speed.as_ref().and_then(|s| s.fs.disk()) {
        // A disk that is not emptied can be formatted.
        let _ = disk.release();
    }
}

/// Returns whether a name is that of a log that leaves a speed disk.
pub(crate) fn is_copy(name: &str) -> bool {
    name.strip_suffix(COPY_SUFFIX)
        .is_some_and(|n| matches!(parse_file_name(&format!("{n}.log")), Some(FileKind::Log(_))))
}
