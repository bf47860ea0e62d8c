//! Verifies and restores backups.

use super::files::Mover;
use super::meta::{MetaFile, database_name};
use super::{Backup, BackupEngine, RestoreMode, RestoreOptions, State, size_error};
use crate::options::sidecar::{SIDECAR_FILE, SIDECAR_TEMP};
use crate::recovery::{release_destroyed, release_tables};
use crate::utilities::dirs::{delete_if_there, make_durable_dir};
use crate::version::{CurrentMarks, FileKind, filenames, parse_file_name};
use spanlith_base::{Error, Result, SubCode};
use spanlith_env::FileSystem;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Longest sensible CURRENT.
const CURRENT_MAX: u64 = 64 << 10;

/// Nobody stops restoring.
static GOES_ON: AtomicBool = AtomicBool::new(false);

/// A file that lies under a temporary name until all do.
struct Staged {
    temp: PathBuf,
    to: PathBuf,
}

impl BackupEngine {
    /// Looks at the files of a backup: their sizes, and with `checksums` all their bytes.
    ///
    /// # Errors
    /// `NotFound` without such a backup; what is wrong with a damaged one; `Corruption` of a file, which is named;
    /// `Io`.
    pub fn verify(&self, id: u32, checksums: bool) -> Result<()> {
        let state = self.lock();
        let backup =
            backup_of(&state, id).map_err(|e| e.unwrap_or_else(|| Error::not_found("")))?;
        self.check_sizes(&state, backup)?;
        if !checksums {
            return Ok(());
        }
        let limiter = self.options.backup_limiter.as_deref();
        let mover = Mover::new(&self.options, limiter, &GOES_ON);
        for file in backup.meta.files.iter().filter(|f| !f.is_excluded) {
            let path = self.path(&file.path);
            let crc = mover.checksum(self.fs(), &path, self.fs().size(&path)?)?;
            check_crc(file, crc)?;
        }
        Ok(())
    }

    fn check_sizes(&self, state: &State, backup: &Backup) -> Result<()> {
        for file in backup.meta.files.iter().filter(|f| !f.is_excluded) {
            let is = match self.fs().size(&self.path(&file.path)) {
                Err(e) if e.subcode() == Some(SubCode::PathNotFound) => {
                    return Err(Error::not_found(format!("File missing: {}", file.path)));
                }
                other => other?,
            };
            let known = state.known.get(&file.path);
            if let Some(known) = known.filter(|k| k.size != is) {
                return Err(size_error(&file.path, known.size, is));
            }
        }
        Ok(())
    }

    /// Restores a backup, or the newest one, as the database in `db_dir`, with its logs in `wal_dir`.
    ///
    /// Everything is copied and compared with its checksum before a file of a database that is there is touched.
    /// Files there that are no database's stay; tables of it in further directories do, too.
    ///
    /// # Errors
    /// `NotFound` without such a backup; what is wrong with a damaged one; `Io` with the subcode of a held lock if the
    /// database is open; `InvalidArgument` if files were left out of the backup; `Corruption` of a file of the backup;
    /// `Io`. As long as copies are made, a failure leaves what was there; after that, there is no CURRENT, and
    /// restoring can be tried again.
    pub fn restore(
        &self,
        id: Option<u32>,
        db_dir: impl AsRef<Path>,
        wal_dir: impl AsRef<Path>,
        options: &RestoreOptions,
    ) -> Result<()> {
        let (db_dir, wal_dir) = (db_dir.as_ref(), wal_dir.as_ref());
        let state = self.lock();
        let none = || Error::not_found("Backup not found");
        let newest = || state.backups.keys().next_back().copied();
        let id = id.or_else(newest).ok_or_else(none)?;
        let backup = backup_of(&state, id).map_err(|e| e.unwrap_or_else(none))?;
        if let Some(file) = backup.meta.files.iter().find(|f| f.is_excluded) {
            let path = &file.path;
            let text = format!("Excluded file {path} not found in any of 0 backup directories!");
            return Err(Error::invalid_argument(text));
        }
        self.check_sizes(&state, backup)?;

        let fs = &*self.db_env.fs;
        make_durable_dir(fs, db_dir)?;
        make_durable_dir(fs, wal_dir)?;
        let _lock = fs.lock(&db_dir.join(filenames::LOCK_FILE))?;
        let marks = marks_of(fs, db_dir);
        if options.keep_log_files && marks.logs.is_some() {
            return Err(Error::not_supported(
                "keep_log_files with logs on a speed disk; `spanlith db migrate --to-files` brings them into files",
            )
            .with_path(db_dir));
        }
        let mut staged = Vec::new();
        let mut kept = HashSet::new();
        let copied = self.stage(
            id,
            backup,
            (db_dir, wal_dir),
            options,
            &mut staged,
            &mut kept,
        );
        if let Err(e) = copied {
            for file in &staged {
                let _ = delete_if_there(fs, &file.temp);
            }
            let _ = delete_if_there(fs, &current_temp(db_dir));
            return Err(e);
        }
        clear(fs, db_dir, wal_dir, options, &kept, &staged)?;
        // Their logs and tables are those of the database that is gone: the restored one finds them empty.
        if let Some(mark) = &marks.logs {
            release_destroyed(fs, mark);
        }
        if let Some(mark) = &marks.tables {
            release_tables(fs, mark);
        }
        for file in &staged {
            fs.rename(&file.temp, &file.to)?;
        }
        if wal_dir != db_dir {
            fs.sync_dir(wal_dir)?;
        }
        fs.sync_dir(db_dir)?;
        // Until now there was no database.
        let current = db_dir.join(filenames::CURRENT_FILE);
        fs.rename(&current_temp(db_dir), &current)?;
        fs.sync_dir(db_dir)
    }

    /// Copies everything but CURRENT's name. `kept` gets the names of files that are there and stay.
    fn stage(
        &self,
        id: u32,
        backup: &Backup,
        (db_dir, wal_dir): (&Path, &Path),
        options: &RestoreOptions,
        staged: &mut Vec<Staged>,
        kept: &mut HashSet<String>,
    ) -> Result<()> {
        let (fs, to_fs) = (self.fs(), &*self.db_env.fs);
        let limiter = self.options.restore_limiter.as_deref();
        let mut mover = Mover::new(&self.options, limiter, &GOES_ON);
        mover.sync = true;
        let mut has_current = false;
        for file in &backup.meta.files {
            let bad = || Error::corruption(format!("{:?} is no file of a backup", file.path));
            let name = database_name(&file.path).ok_or_else(bad)?;
            let kind = parse_file_name(&name).ok_or_else(bad)?;
            let dir = match kind {
                FileKind::Log(_) => wal_dir,
                _ => db_dir,
            };
            let to = dir.join(&name);
            let from = self.path(&file.path);
            if options.mode == RestoreMode::KeepSame
                && matches!(kind, FileKind::Table(_) | FileKind::Blob(_))
                && is_same(to_fs, &mover, &to, fs.size(&from)?, file.crc)?
            {
                kept.insert(name);
                continue;
            }
            let is_current = kind == FileKind::Current;
            has_current |= is_current;
            let temp = match kind.number() {
                _ if is_current => current_temp(db_dir),
                Some(number) => dir.join(format!("{number:06}.dbtmp")),
                None => return Err(bad()),
            };
            if is_current {
                // Renamed last, by itself.
                let (_, crc) = mover.copy((fs, &from), (to_fs, &temp), None)?;
                check_crc(file, crc)?;
                continue;
            }
            staged.push(Staged {
                temp: temp.clone(),
                to,
            });
            let (_, crc) = mover.copy((fs, &from), (to_fs, &temp), None)?;
            check_crc(file, crc)?;
        }
        if !has_current {
            return Err(Error::corruption(format!("backup {id} has no CURRENT")));
        }
        let sidecar = self.private_dir(id).join(SIDECAR_FILE);
        if fs.entry(&sidecar)?.is_some() {
            let temp = db_dir.join(SIDECAR_TEMP);
            staged.push(Staged {
                temp: temp.clone(),
                to: db_dir.join(SIDECAR_FILE),
            });
            mover.copy((fs, &sidecar), (to_fs, &temp), None)?;
        }
        Ok(())
    }
}

/// Where CURRENT waits: under the name that RocksDB gives it while it is written.
fn current_temp(db_dir: &Path) -> PathBuf {
    db_dir.join("CURRENT.tmp")
}

/// The backup, or what is wrong with it; `None` if there is no such number.
fn backup_of(state: &State, id: u32) -> Result<&Backup, Option<Error>> {
    match state.backups.get(&id) {
        Some(backup) => Ok(backup),
        None => Err(state.damaged.get(&id).cloned()),
    }
}

fn check_crc(file: &MetaFile, found: u32) -> Result<()> {
    match file.crc {
        Some(crc) if crc != found => Err(Error::corruption(format!(
            "File corrupted: Checksum mismatch for {}",
            file.path
        ))
        .with("expected", crc)
        .with("found", found)),
        _ => Ok(()),
    }
}

/// Returns whether a file is there and has all the bytes of the backup's.
fn is_same(
    fs: &dyn FileSystem,
    mover: &Mover<'_>,
    path: &Path,
    size: u64,
    crc: Option<u32>,
) -> Result<bool> {
    let Some(crc) = crc else {
        return Ok(false);
    };
    if fs.entry(path)?.is_none() || fs.size(path)? != size {
        return Ok(false);
    }
    Ok(mover.checksum(fs, path, size)? == crc)
}

/// Which parts of the database that is there are on speed disks, as far as its CURRENT can be read.
fn marks_of(fs: &dyn FileSystem, db_dir: &Path) -> CurrentMarks {
    let current = fs.read_all(&db_dir.join(filenames::CURRENT_FILE), CURRENT_MAX);
    let current = current.and_then(|content| filenames::parse_marked_current(&content));
    current.map(|(_, marks)| marks).unwrap_or_default()
}

/// Deletes the database that is there, CURRENT first, but for what was staged and what stays.
fn clear(
    fs: &dyn FileSystem,
    db_dir: &Path,
    wal_dir: &Path,
    options: &RestoreOptions,
    kept: &HashSet<String>,
    staged: &[Staged],
) -> Result<()> {
    delete_if_there(fs, &db_dir.join(filenames::CURRENT_FILE))?;
    fs.sync_dir(db_dir)?;
    let staged: HashSet<&Path> = staged.iter().map(|s| &*s.temp).collect();
    for name in fs.list(db_dir)? {
        let path = db_dir.join(&name);
        let is_ours = match parse_file_name(&name) {
            Some(FileKind::Lock) => false,
            Some(FileKind::Log(_)) => !options.keep_log_files,
            Some(_) => true,
            None => name == SIDECAR_FILE || name == SIDECAR_TEMP,
        };
        if is_ours && !staged.contains(&*path) && !kept.contains(&name) {
            delete_if_there(fs, &path)?;
        }
    }
    let archive = wal_dir.join(filenames::ARCHIVE_DIR);
    for dir in [wal_dir, &archive] {
        if fs.entry(dir)?.is_none() {
            continue;
        }
        for name in fs.list(dir)? {
            if !matches!(parse_file_name(&name), Some(FileKind::Log(_))) {
                continue;
            }
            match options.keep_log_files {
                true if dir == archive => fs.rename(&archive.join(&name), &wal_dir.join(&name))?,
                true => {}
                false => delete_if_there(fs, &dir.join(&name))?,
            }
        }
    }
    Ok(())
}
