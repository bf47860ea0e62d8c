//! Enters a directory: makes it and the database if it may, takes the lock, opens the info log.

use super::create::create_database;
use super::current::read_current;
use super::open::identify;
use super::open_tables::hold_table_dirs;
use super::request::OpenRequest;
use super::speed::{attach, detach_unmade};
use super::tables;
use crate::core::{Directories, FamilyRequest, RESERVED, create_dir};
use crate::info_log::InfoLog;
use crate::version::{FileKind, filenames, parse_file_name};
use spanlith_base::{Error, Result};
use spanlith_env::FileLock;
use spanlith_wal::{LogReader, ReadEvent};
use std::path::Path;
use std::sync::Arc;

/// Directories that are ours to open.
pub(super) struct Entered {
    /// Held until the database is closed; `None` for reading only.
    pub(super) lock: Option<Box<dyn FileLock>>,
    /// The directories, held open; none for reading only.
    pub(super) dirs: Directories,
    /// Takes the lines of `LOG`.
    pub(super) log: Arc<InfoLog>,
    /// The database was made just now.
    pub(super) created: bool,
    /// A process has had the directory open before: a copy of a database begins without the file that is locked.
    pub(super) was_open: bool,
}

/// The locks of a database and of its directory of tables; only held.
struct BothLocks(
    #[expect(dead_code, reason = "held until the database is closed")] Box<dyn FileLock>,
    #[expect(dead_code, reason = "held until the database is closed")] Box<dyn FileLock>,
);

impl FileLock for BothLocks {}

/// Makes directories and the database, if there is none and it may be made. For reading only, nothing
/// is made or locked.
///
/// # Errors
/// `InvalidArgument` where the options ask for the contrary of what is there; those of the lock.
pub(super) fn enter(request: &OpenRequest) -> Result<Entered> {
    let dirs = Directories::new(request.env.fs.clone());
    let lock_file = request.dir.join(filenames::LOCK_FILE);
    if request.read_only {
        attach(request)?;
        tables::attach(request)?;
        return Ok(Entered {
            lock: None,
            dirs,
            log: reader_log(request)?,
            created: false,
            was_open: request.env.fs.entry(&lock_file)?.is_some(),
        });
    }
    make_directories(request)?;
    // Before the lock file is made: a refusal leaves nothing behind.
    let exists = request.database_exists()?;
    check_presence(request, exists)?;
    if !exists {
        check_remains(request)?;
    }
    let (env, dir) = (&request.env, &request.dir);
    let was_open = env.fs.entry(&lock_file)?.is_some();
    let lock = env.fs.lock(&lock_file)?;
    let exists = request.database_exists()?;
    check_presence(request, exists)?;
    if !exists {
        create(request)?;
    } else if request.options.error_if_exists {
        return Err(Error::invalid_argument(format!(
            "{}: exists (error_if_exists is true)",
            dir.display()
        ))
        .with_path(dir));
    }
    identify(request)?;
    attach(request)?;
    let of_tables = tables::attach(request)?;
    let log = match &request.logger {
        Some(logger) => InfoLog::to_logger(env, logger.clone(), request.options.info_log_level),
        None if request.no_info_log => InfoLog::none(),
        None => {
            let log = InfoLog::open(env, dir, &request.options);
            match (log, request.options.db_log_dir.as_str()) {
                // A directory that was asked for must be there.
                (Err(e), asked) if !asked.is_empty() => return Err(e),
                (log, _) => log.unwrap_or_else(|_| InfoLog::none()),
            }
        }
    };
    dirs.hold(dir)?;
    dirs.hold(&request.wal_dir())?;
    hold_table_dirs(request, &dirs)?;
    Ok(Entered {
        lock: Some(match of_tables {
            Some(of_tables) => Box::new(BothLocks(lock, of_tables)),
            None => lock,
        }),
        dirs,
        log,
        created: !exists,
        was_open,
    })
}

/// The info log of an open for reading: only one that follows a writer has any, in a directory of its own.
fn reader_log(request: &OpenRequest) -> Result<Arc<InfoLog>> {
    if let Some(before) = &request.before {
        return Ok(before.reporter.log().clone());
    }
    match (&request.secondary, &request.logger) {
        (None, _) => Ok(InfoLog::none()),
        (Some(_), Some(logger)) => {
            let level = request.options.info_log_level;
            Ok(InfoLog::to_logger(&request.env, logger.clone(), level))
        }
        (Some(dir), None) => {
            create_dir(&*request.env.fs, dir)?;
            if request.no_info_log {
                return Ok(InfoLog::none());
            }
            InfoLog::open(&request.env, dir, &request.options)
        }
    }
}

fn make_directories(request: &OpenRequest) -> Result<()> {
    let OpenRequest {
        dir, env, options, ..
    } = request;
    let existed = env.fs.entry(dir)?.is_some();
    if options.create_if_missing || existed {
        create_dir(&*env.fs, dir)?;
        let wal_dir = request.wal_dir();
        if wal_dir != *dir {
            create_dir(&*env.fs, &wal_dir)?;
        }
        if options.wal_ttl_seconds > 0 || options.wal_size_limit_mb > 0 {
            create_dir(&*env.fs, &wal_dir.join(filenames::ARCHIVE_DIR))?;
        }
    }
    Ok(())
}

/// A database that is not there may be made.
fn check_presence(request: &OpenRequest, exists: bool) -> Result<()> {
    if exists || request.options.create_if_missing {
        return Ok(());
    }
    let current = request.dir.join(filenames::CURRENT_FILE);
    let text = format!(
        "{}: does not exist (create_if_missing is false)",
        current.display()
    );
    Err(Error::invalid_argument(text).with_path(&current))
}

/// Refuses to make a database where there are files of one that has lost its CURRENT: a new one would hide what can
/// be recovered of it. What a crash leaves of making a database is no such file. To best efforts, a MANIFEST makes a
/// database, and files that none names are left over.
fn check_remains(request: &OpenRequest) -> Result<()> {
    let (fs, dir) = (&request.env.fs, &request.dir);
    if request.options.best_efforts_recovery || fs.entry(dir)?.is_none() {
        return Ok(());
    }
    let logs = request.list_numbers()?.1;
    if let Some(&first) = logs.first() {
        return Err(Error::corruption(
            "While creating a new Db, wal_dir contains existing log file",
        )
        .with_path(&request.wal_dir().join(filenames::log_file_name(first))));
    }
    for name in fs.list(dir)? {
        let path = dir.join(&name);
        let remains = match parse_file_name(&name) {
            Some(FileKind::Table(_) | FileKind::Blob(_)) => true,
            Some(FileKind::Manifest(1)) => holds_more_than_a_beginning(request, &path),
            Some(FileKind::Manifest(_)) => true,
            _ => false,
        };
        if remains {
            let text = format!(
                "While creating a new Db, the directory contains {name}, a file of a database that has lost its \
                 CURRENT"
            );
            return Err(Error::corruption(text).with_path(&path));
        }
    }
    Ok(())
}

/// Returns whether a MANIFEST has more than the one record of a database that was just made.
fn holds_more_than_a_beginning(request: &OpenRequest, path: &Path) -> bool {
    let Ok(file) = request.env.fs.open_sequential(path) else {
        return true;
    };
    let mut reader = LogReader::new(file, 0);
    let is_record = |event| matches!(event, Ok(ReadEvent::Record { .. }));
    is_record(reader.next_event()) && is_record(reader.next_event())
}

/// Takes back what [`enter`] made, after an open that was refused: a database that nobody wanted is not left behind.
/// Only as long as nothing else was made of it, and nobody else has it open.
pub(super) fn unmake(request: &OpenRequest) {
    let (fs, dir) = (&request.env.fs, &request.dir);
    let Ok(_lock) = fs.lock(&dir.join(filenames::LOCK_FILE)) else {
        return;
    };
    if read_current(&request.env, dir).is_ok_and(|number| number == 1) {
        // Otherwise the disk would belong to a database that nobody has.
        detach_unmade(request);
        // The files that stay are those that a crash leaves while a database is made.
        let _ = fs.delete(&dir.join(filenames::CURRENT_FILE));
        let _ = fs.delete(&dir.join(filenames::manifest_file_name(1)));
        let _ = fs.delete(&dir.join(filenames::IDENTITY_FILE));
    }
}

fn create(request: &OpenRequest) -> Result<()> {
    check_remains(request)?;
    let preserve = |f: &FamilyRequest| f.options.kept_time_seconds() > 0;
    let reserved = match request.families.iter().any(preserve) {
        true => RESERVED,
        false => 0,
    };
    let family = request.default_family();
    create_database(request, family, reserved)
}
