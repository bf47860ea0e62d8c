//! A disk that is nearly full: compactions that write are held back so that flushes and the MANIFEST
//! still have room, and a file that reserves some is given up when even that is gone.
//!
//! The bound is `min_free_bytes`, or room for one memtable of each family, at most 64 MiB. Below it in
//! the directory of its outputs, a compaction is not begun; what moves tables without rewriting them
//! goes on. That it is held back is an error of compactions like a full disk, so callers see why, it is
//! tried again by itself, and writers that wait for it are told instead of waiting for ever. Manual
//! compactions are not held back.

use super::{Family, FamilySet, Throttle};
use crate::info_log::InfoLog;
use crate::options::DbOptions;
use crate::picker::CompactionPlan;
use spanlith_base::{Error, Result, SubCode};
use spanlith_env::{Env, FileSystem, IoActivity};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Largest bound that the build chooses.
const AUTO_MAX: u64 = 64 << 20;

/// Name of the file that reserves room. RocksDB leaves files alone whose names it does not know.
pub(crate) const RESERVE_FILE: &str = "SPANLITH.reserve";

/// Bytes written at a time.
const PIECE: usize = 1 << 20;

/// Directories with less free space than the bound, and how much they have.
#[derive(Debug, Default)]
pub(crate) struct ShortDirs {
    dirs: Vec<(PathBuf, u64)>,
    bound: u64,
}

impl ShortDirs {
    /// Asks the file system for the free space of all directories of tables that users name, and tells the throttle the
    /// least. That on a speed disk is filled on purpose, and what finds no room there goes elsewhere. Requires: no lock.
    pub(crate) fn look(
        fs: &dyn FileSystem,
        families: &FamilySet,
        options: &DbOptions,
        throttle: &Throttle,
    ) -> Self {
        let bound = min_free_bytes(options, families);
        let dirs = families.iter().flat_map(|f| f.cache.paths.users());
        let dirs: BTreeSet<&Path> = dirs.collect();
        // Not knowing is no reason to wait.
        let mut dirs: Vec<_> = dirs
            .into_iter()
            .filter_map(|dir| Some((dir.to_path_buf(), fs.free_space(dir).ok()?)))
            .collect();
        let least = dirs.iter().map(|d| d.1).min();
        throttle.room().note(least.unwrap_or(u64::MAX), bound);
        dirs.retain(|d| d.1 < bound);
        Self { dirs, bound }
    }

    /// Why a plan must not be begun, if it must not.
    pub(crate) fn refusal(&self, family: &Family, plan: &CompactionPlan) -> Option<Error> {
        if self.dirs.is_empty() || plan.is_trivial_move || plan.only_deletes {
            return None;
        }
        let dir = family.cache.paths.dir(plan.output_path);
        let (dir, free) = self.dirs.iter().find(|d| d.0 == dir)?;
        let text = "No space left on device: a compaction is held back so that flushes have room";
        let e = Error::io(text)
            .with_subcode(SubCode::NoSpace)
            .with_path(dir);
        Some(e.with("free", free).with("kept_free", self.bound))
    }
}

/// Free bytes below which compactions are held back.
pub(crate) fn min_free_bytes(options: &DbOptions, families: &FamilySet) -> u64 {
    let set = options.own.min_free_bytes;
    if set != 0 {
        return set;
    }
    let mut bytes = 0u64;
    for family in families.iter() {
        bytes = bytes.saturating_add(family.settings().options.write_buffer_size);
        if bytes >= AUTO_MAX {
            return AUTO_MAX;
        }
    }
    bytes
}

/// The file that reserves room on the disk (`reserve_file_bytes`).
pub(crate) struct Reserve {
    env: Env,
    /// The directory of the database.
    dir: PathBuf,
    /// Its bytes; 0 for no file.
    bytes: u64,
    /// It is there. Relaxed: who sees an old value looks at the file.
    is_there: AtomicBool,
}

impl Reserve {
    /// A file of `bytes` in the directory of the database, which is not made yet.
    pub(crate) fn new(env: Env, dir: &Path, bytes: u64) -> Self {
        Self {
            env,
            dir: dir.to_path_buf(),
            bytes,
            is_there: AtomicBool::new(false),
        }
    }

    /// Returns whether there is to be one.
    pub(crate) fn is_wanted(&self) -> bool {
        self.bytes > 0
    }

    fn path(&self) -> PathBuf {
        self.dir.join(RESERVE_FILE)
    }

    /// Makes the file, if the options want one, it is not there, and there is room for it beside `kept_free` bytes; removes
    /// one that they do not want. What fails is tried again after the next flush.
    pub(crate) fn keep(&self, kept_free: u64, log: &InfoLog) {
        if self.is_there.load(Ordering::Relaxed) {
            return;
        }
        let (fs, path) = (&self.env.fs, self.path());
        let there = fs.size(&path).ok();
        if there.is_some_and(|size| size != self.bytes) {
            // Found again at the next open.
            let _ = fs.delete(&path);
        }
        if !self.is_wanted() {
            return;
        }
        if there == Some(self.bytes) {
            self.is_there.store(true, Ordering::Relaxed);
            return;
        }
        let free = fs.free_space(&self.dir).unwrap_or(0);
        if free < self.bytes.saturating_add(kept_free) {
            return;
        }
        match self.write(&path) {
            Ok(()) => self.is_there.store(true, Ordering::Relaxed),
            Err(e) => {
                log.warn(format_args!("no room can be reserved: {e}"));
                let _ = fs.delete(&path);
            }
        }
    }

    /// Bytes that no file system stores in less space than they are long.
    fn write(&self, path: &Path) -> Result<()> {
        let mut file = self.env.fs.create(path, IoActivity::Other)?;
        let mut piece = vec![0u8; PIECE];
        let mut word = self.env.rng.next_u64() | 1;
        let mut left = self.bytes;
        while left > 0 {
            for chunk in piece.chunks_exact_mut(8) {
                // xorshift64
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                chunk.copy_from_slice(&word.to_le_bytes());
            }
            let n = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            file.append(&piece[..n])?;
            left -= n as u64;
        }
        file.sync()?;
        file.close()
    }

    /// The disk is full: gives up the reserved room. Returns whether there was any.
    pub(crate) fn release(&self, log: &InfoLog) -> bool {
        if !self.is_there.swap(false, Ordering::Relaxed) {
            return false;
        }
        let released = self.env.fs.delete(&self.path());
        match &released {
            Ok(()) => log.warn(format_args!("the disk is full: reserved room is given up")),
            Err(e) => log.warn(format_args!("reserved room cannot be given up: {e}")),
        }
        released.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::space_room::space_facts;
    use crate::db::Db;
    use spanlith_env::{FaultFs, MemFs};
    use spanlith_pace::SpaceFacts;
    use std::sync::Arc;

    #[test]
    fn room_is_reserved_only_beside_what_is_to_stay_free_and_given_up_once() {
        let faults = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
        let env = Env::test(faults.clone(), 7).0;
        let (dir, log) = (Path::new("/db"), InfoLog::none());
        env.fs.create_dir_if_missing(dir).unwrap();
        let file = dir.join(RESERVE_FILE);
        let reserve = Reserve::new(env.clone(), dir, 5000);
        faults.set_free_space(dir, 5999);
        reserve.keep(1000, &log);
        assert!(!reserve.release(&log), "there was no room for it");
        faults.set_free_space(dir, 6000);
        reserve.keep(1000, &log);
        assert_eq!(env.fs.size(&file).unwrap(), 5000);
        assert!(reserve.release(&log) && !reserve.release(&log));
        assert!(env.fs.entry(&file).unwrap().is_none());
        reserve.keep(1000, &log);
        // The next open wants none.
        Reserve::new(env.clone(), dir, 0).keep(1000, &log);
        assert!(env.fs.entry(&file).unwrap().is_none());
    }

    #[test]
    fn a_full_speed_disk_presses_no_writer() {
        let faults = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
        let env = Env::test(faults.clone(), 7).0;
        let set = "sd_tables_path=/fast;write_throttle_policy=smooth;min_free_bytes=1000";
        let builder = Db::builder("/db").env(env).no_info_log();
        let builder = builder.create_if_missing(true).set(set).unwrap();
        let db = builder.open().unwrap();
        let used = || {
            let e = db.engine();
            let families = e.families.load_full();
            ShortDirs::look(&*e.c.env.fs, &families, &e.options(), &e.throttle);
            space_facts(e.throttle.room(), None, SpaceFacts::default(), true).used
        };
        faults.set_free_space(Path::new("/db"), 1 << 40);
        faults.set_free_space(Path::new("/fast"), 1000);
        assert_eq!(used(), 0);
        faults.set_free_space(Path::new("/db"), 1000);
        assert_eq!(used(), 7000);
        db.close().unwrap();
    }
}
