//! Describes what recovery puts aside instead of destroying it: the directory `lost/`.
//!
//! - Files that best-efforts recovery leaves out. RocksDB deletes tables and blob files that the
//!   recovered state does not name. What is missing may be a directory that was not mounted, so here
//!   they are moved, as RocksDB's repair does with what it cannot use. Logs are not replayed; RocksDB
//!   leaves them where they are, replays them at the next plain open, and refuses to open if something
//!   was written meanwhile. Here they are moved as well. All that stays until somebody takes it away.
//! - Tables and blob files that nothing explains (D10), and copies of the parts of logs that were not
//!   replayed. Their names end in the second in which they came, so that they can be told from what
//!   others put there: they go after `lost_files_max_age`, the oldest first if there are more bytes
//!   than `lost_files_max_bytes`.

use super::evidence::Dropped;
use super::replay::Replayed;
use crate::core::{Components, DroppedRecords, Engine, LogSet, Reporter, StateMutex};
use crate::listener::DroppedTail;
use crate::version::filenames;
use spanlith_base::{Error, Result};
use spanlith_env::{FileSystem, IoActivity, RandomAccessFile};
use std::path::{Path, PathBuf};

/// Directory for files that are put aside, within that of the files.
pub(crate) const LOST_DIR: &str = "lost";

/// Least bytes that the directory may hold, if the options leave it to the build.
const BYTES_MIN: u64 = 64 << 20;

/// Bytes copied at a time.
const PIECE: usize = 1 << 20;

/// The second in which a file came, by its name; `None` if it is not one of those that go by themselves.
fn second_of(name: &str) -> Option<u64> {
    let (_, digits) = name.rsplit_once(".at-")?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}

/// Removes what an engine put into the directory for lost files of `dir`, and the directory if nothing
/// else is in it.
///
/// # Errors
/// Of the file system.
pub(crate) fn destroy_lost(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    let lost = dir.join(LOST_DIR);
    if fs.entry(&lost)?.is_none() {
        return Ok(());
    }
    for name in fs.list(&lost)? {
        if second_of(&name).is_some() {
            fs.delete(&lost.join(&name))?;
        }
    }
    // Fails if foreign files are left; they are not ours to delete.
    let _ = fs.delete_dir(&lost);
    Ok(())
}

/// Moves a file to the directory for lost ones beside it, where it stays, and returns its path there.
///
/// # Errors
/// Of the file system.
pub(crate) fn put_aside(fs: &dyn FileSystem, path: &Path) -> Result<PathBuf> {
    let target = free_name(fs, path)?;
    fs.rename(path, &target)?;
    Ok(target)
}

/// A path in the directory for lost files beside `path` that no file has. Numbers are given out anew where the
/// MANIFEST that knew them is lost: what an earlier recovery saved keeps its name.
///
/// # Errors
/// Of the file system.
pub(crate) fn free_name(fs: &dyn FileSystem, path: &Path) -> Result<PathBuf> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::invalid_argument("not a file in a directory").with_path(path));
    };
    let lost = dir.join(LOST_DIR);
    fs.create_dir_if_missing(&lost)?;
    let mut target = lost.join(name);
    let mut turn = 0u32;
    while fs.entry(&target)?.is_some() {
        turn += 1;
        let mut other = name.to_os_string();
        other.push(format!(".{turn}"));
        target = lost.join(other);
    }
    Ok(target)
}

/// The directories for lost files of one database.
pub(super) struct LostFiles<'a> {
    components: &'a Components,
    logs: &'a LogSet,
    reporter: &'a Reporter,
    state: &'a StateMutex,
}

impl<'a> LostFiles<'a> {
    /// Those of a database whose families are known.
    pub(super) fn of(engine: &'a Engine) -> Self {
        Self {
            components: &engine.c,
            logs: &engine.logs,
            reporter: &engine.reporter,
            state: &engine.state,
        }
    }

    /// Bytes that the directories may hold.
    fn bytes_max(&self) -> u64 {
        match self.components.options.own.lost_files_max_bytes {
            0 => {
                let state = self.state.lock();
                let versions = state.families.values().map(|f| &f.version);
                let tables = versions.flat_map(|v| v.file_iter().map(|f| f.1.size));
                (tables.sum::<u64>() / 10).max(BYTES_MIN)
            }
            bytes => bytes,
        }
    }

    /// Moves a file that nothing explains to the directory for lost ones beside it, for as long as the
    /// options say.
    ///
    /// # Errors
    /// Of the file system.
    pub(super) fn take(&self, path: &Path) -> Result<()> {
        let fs = &self.components.env.fs;
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Error::invalid_argument("not a file in a directory").with_path(path));
        };
        let target = self.free_name(dir, &name.to_string_lossy())?;
        fs.rename(path, &target)?;
        fs.sync_dir(&dir.join(LOST_DIR))?;
        self.components.dirs.sync(dir)
    }

    /// Path for something new in the directory for lost files of `dir`, which is made.
    fn free_name(&self, dir: &Path, name: &str) -> Result<PathBuf> {
        let fs = &self.components.env.fs;
        let lost = dir.join(LOST_DIR);
        fs.create_dir_if_missing(&lost)?;
        let mut second = self.components.env.clock.now_seconds();
        loop {
            let target = lost.join(format!("{name}.at-{second}"));
            if fs.entry(&target)?.is_none() {
                return Ok(target);
            }
            second += 1;
        }
    }

    /// Tells what replay left out, and keeps copies of the tails among it.
    ///
    /// # Errors
    /// Of the file system: nothing is dropped for good before its copy is durable.
    pub(super) fn report_dropped(&self, replayed: &Replayed) -> Result<()> {
        let mut left = self.bytes_max();
        for d in &replayed.dropped {
            let kept = match d.is_tail && !self.components.read_only {
                true => self.keep_tail(d, &mut left)?,
                false => None,
            };
            self.logs.note_dropped(DroppedRecords {
                bytes: d.bytes,
                records: d.records,
            });
            self.reporter.log().warn(format_args!(
                "log {:06} dropped at offset {}, {} bytes with {} records or more: {}; recovery mode \
                 is {}",
                d.log, d.offset, d.bytes, d.records, d.why, self.components.options.wal_recovery_mode
            ));
            self.reporter
                .listeners()
                .on_recovery_dropped_tail(|| DroppedTail {
                    path: self.logs.path(d.log),
                    offset: d.offset,
                    bytes: d.bytes,
                    records: d.records,
                    reason: d.why.clone(),
                    copy: kept,
                });
        }
        Ok(())
    }

    /// Copies the tail of a log, unless it is empty, holds only zeros, is too large or was copied before.
    fn keep_tail(&self, d: &Dropped, left: &mut u64) -> Result<Option<PathBuf>> {
        let fs = &self.components.env.fs;
        if d.bytes == 0 || d.bytes > *left {
            return Ok(None);
        }
        let path = self.logs.path(d.log);
        let file = fs.open_random(&path)?;
        if is_zero(&*file, d.offset)? {
            return Ok(None);
        }
        let dir = self.logs.dir();
        let lost = dir.join(LOST_DIR);
        let name = format!("{}.{}", filenames::log_file_name(d.log), d.offset);
        if fs.entry(&lost)?.is_some() {
            for known in fs.list(&lost)? {
                // A crash during the last recovery, or logs that stay.
                let again = known.strip_prefix(&name);
                if again.is_some_and(|rest| rest.starts_with(".at-"))
                    && fs.size(&lost.join(&known))? == d.bytes
                {
                    return Ok(Some(lost.join(known)));
                }
            }
        }
        *left -= d.bytes;
        let target = self.free_name(dir, &name)?;
        let mut copy = fs.create(&target, IoActivity::Other)?;
        let mut piece = vec![0; PIECE];
        let mut at = d.offset;
        loop {
            let n = file.read_at(at, &mut piece)?;
            if n == 0 {
                break;
            }
            copy.append(&piece[..n])?;
            at += n as u64;
        }
        copy.sync()?;
        copy.close()?;
        fs.sync_dir(&lost)?;
        self.components.dirs.sync(dir)?;
        Ok(Some(target))
    }

    /// Deletes what has been in the directories for lost files of `dirs` for too long, and, the oldest
    /// first, what is too much. What cannot be deleted is tried again at the next open.
    pub(super) fn expire(&self, dirs: &[PathBuf]) {
        let fs = &self.components.env.fs;
        let now = self.components.env.clock.now_seconds();
        let mut found = Vec::new();
        for dir in dirs {
            let lost = dir.join(LOST_DIR);
            if !matches!(fs.entry(&lost), Ok(Some(_))) {
                continue;
            }
            for name in fs.list(&lost).unwrap_or_default() {
                if let Some(second) = second_of(&name) {
                    let path = lost.join(&name);
                    let size = fs.size(&path).unwrap_or(0);
                    found.push((second, path, size));
                }
            }
        }
        found.sort();
        let mut bytes: u64 = found.iter().map(|f| f.2).sum();
        let limit = self.bytes_max();
        for (second, path, size) in found {
            let is_old =
                second.saturating_add(self.components.options.own.lost_files_max_age) < now;
            if !is_old && bytes <= limit {
                continue;
            }
            bytes -= size;
            match fs.delete(&path) {
                Ok(()) => self
                    .reporter
                    .log()
                    .info(format_args!("deleted lost {}", path.display())),
                Err(e) => self.reporter.log().warn(format_args!("{e}")),
            }
        }
    }
}

/// Returns whether a file holds only zeros from `offset` on.
fn is_zero(file: &dyn RandomAccessFile, mut offset: u64) -> Result<bool> {
    let mut piece = [0u8; 4096];
    loop {
        let n = file.read_at(offset, &mut piece)?;
        if n == 0 {
            return Ok(true);
        }
        if piece[..n].iter().any(|&b| b != 0) {
            return Ok(false);
        }
        offset += n as u64;
    }
}
