//! The file system of verbs that read a directory without opening it: the system's, and in it the logs, and perhaps tables,
//! that the directory looked at last has on a speed disk.
//!
//! The disk is opened for reading only; nobody is kept out of it. Its logs appear in the database's directory, whatever
//! `wal_dir` says.

use spanlith::version::{CurrentMarks, filenames};
use spanlith::{Error, Finding, Result, SubCode};
use spanlith_env::Env;
use spanlith_speed::{SpeedDisk, SpeedFs, SpeedOptions, Target, read_superblock, tables_dir};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Longest CURRENT that is read.
const CURRENT_MAX: u64 = 1 << 20;
/// A disk that is written meanwhile may seem damaged: it is looked at again so often.
const LOOKS: usize = 4;

static ENV: Mutex<Option<Env>> = Mutex::new(None);

/// The environment to read files of the directory looked at last.
pub fn env() -> Env {
    let known = ENV.lock().unwrap_or_else(PoisonError::into_inner);
    known.clone().unwrap_or_else(Env::system)
}

/// Returns whether the directory looked at last has its logs on a speed disk.
pub fn has_disk() -> bool {
    ENV.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// Returns whether CURRENT says that tables are on the speed disk of the logs itself.
pub fn has_tables(env: &Env, marks: &CurrentMarks) -> bool {
    let own = marks.logs.as_ref().map(|m| tables_dir(&*env.fs, &m.target));
    own.is_some_and(|own| {
        marks
            .tables
            .as_ref()
            .is_some_and(|t| Path::new(&t.dir) == own)
    })
}

/// Finds the speed disk of the directory `dir`, if it has one, for [`env`]; what is wrong with the disk.
///
/// # Errors
/// Of the disk; `Corruption` if it is another one than the one with the logs; `NotSupported` if the logs are leaving it.
pub fn take_disk(dir: &Path) -> Result<Option<Finding>> {
    let system = Env::system();
    let mut known = ENV.lock().unwrap_or_else(PoisonError::into_inner);
    *known = None;
    let current = dir.join(filenames::CURRENT_FILE);
    let content = system.fs.read_all(&current, CURRENT_MAX);
    // Any other fault of CURRENT is found where it is read.
    let marked = content.and_then(|c| filenames::parse_marked_current(&c));
    let Ok((_, marks)) = marked else {
        return Ok(None);
    };
    let Some(mark) = &marks.logs else {
        return Ok(None);
    };
    if mark.is_leaving {
        return Err(Error::not_supported(
            "a database whose logs are leaving a speed disk, for reading only; `spanlith db migrate --to-files` ends that",
        )
        .with_path(dir));
    }
    let opened = Target::parse(&mark.target)?.open(&*system.fs, true);
    let device = opened.map_err(|e| match e.subcode() {
        Some(SubCode::PathNotFound) => {
            let tables = match has_tables(&system, &marks) {
                true => ", and the tables that were on it (--lose-tables)",
                false => "; tables are whole",
            };
            Error::io(format!(
                "speed disk {} is missing, and with it the logs of this database, which held every write since the last \
                 flush of each column family{tables}",
                mark.target
            ))
            .with_subcode(SubCode::PathNotFound)
        }
        _ => e,
    })?;
    let (superblock, _) = read_superblock(&*device)?;
    if superblock.instance != mark.instance {
        return Err(Error::corruption(format!(
            "{} is another speed disk than the one with the logs of this database",
            mark.target
        ))
        .with_path(dir));
    }
    if superblock.epoch < mark.epoch {
        return Err(Error::corruption(format!(
            "speed disk {} is older than the database: it was opened {} times, and {} times when CURRENT was written",
            mark.target, superblock.epoch, mark.epoch
        ))
        .with_path(dir));
    }
    let options = SpeedOptions {
        read_only: true,
        accept_damage: true,
        ..SpeedOptions::default()
    };
    let mut disk = SpeedDisk::open(device.clone(), &options)?;
    for _ in 1..LOOKS {
        if disk.found().damage.is_none() {
            break;
        }
        disk = SpeedDisk::open(device.clone(), &options)?;
    }
    let damage = disk.found().damage.as_ref();
    let finding = damage.map(|what| Finding::damage(&mark.target, None, what.to_string()));
    let fs = SpeedFs::new(system.fs.clone(), dir);
    fs.attach(disk, &mark.target);
    *known = Some(Env {
        fs: Arc::new(fs),
        ..system
    });
    Ok(finding)
}
