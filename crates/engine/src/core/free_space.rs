//! A disk that is nearly full: compactions that write are held back so that flushes and the MANIFEST
//! still have room, and a file that reserves some is given up when even that is gone.
//!
//! The bound is `min_free_bytes`, or room for one memtable of each family, at most 64 MiB. Below it in
//! the directory of its outputs, a compaction is not begun; what moves tables without rewriting them
//! goes on. That it is held back is an error of compactions like a full disk, so callers see why, it is
//! tried again by itself, and writers that wait for it are told instead of waiting for ever. Manual
//! compactions are not held back.

use super::{Engine, Family};
use crate::picker::CompactionPlan;
use spanlith_base::{Error, Result, SubCode};
use spanlith_env::IoActivity;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

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

impl Engine {
    /// Free bytes below which compactions are held back.
    pub(crate) fn min_free_bytes(&self) -> u64 {
        let set = self.options().own.min_free_bytes;
        if set != 0 {
            return set;
        }
        let mut bytes = 0u64;
        for family in self.families.load().iter() {
            bytes = bytes.saturating_add(family.settings().options.write_buffer_size);
            if bytes >= AUTO_MAX {
                return AUTO_MAX;
            }
        }
        bytes
    }

    /// Asks the file system for the free space of all directories of tables that users name. That on a speed disk is
    /// filled on purpose, and what finds no room there goes elsewhere. Requires: no lock.
    pub(crate) fn short_dirs(&self) -> ShortDirs {
        let bound = self.min_free_bytes();
        let families = self.families.load_full();
        let dirs = families.iter().flat_map(|f| f.cache.paths.users());
        let dirs: BTreeSet<&Path> = dirs.collect();
        let fs = &self.c.env.fs;
        // Not knowing is no reason to wait.
        let mut dirs: Vec<_> = dirs
            .into_iter()
            .filter_map(|dir| Some((dir.to_path_buf(), fs.free_space(dir).ok()?)))
            .collect();
        let least = dirs.iter().map(|d| d.1).min();
        self.throttle.room().note(least.unwrap_or(u64::MAX), bound);
        dirs.retain(|d| d.1 < bound);
        ShortDirs { dirs, bound }
    }

    /// Asks for the free space that writers are paced by, if they are. Requires: no lock.
    pub(crate) fn look_at_space(&self) {
        if self.throttle.is_smooth() {
            self.short_dirs();
        }
    }

    /// Makes the file that reserves room, if the options want one, it is not there, and there is more
    /// than enough; removes one that they do not want. What fails is tried again after the next flush.
    pub(crate) fn keep_reserve(&self) {
        let wanted = self.c.options.own.reserve_file_bytes;
        if self.c.read_only || self.has_reserve.load(Ordering::Relaxed) {
            return;
        }
        let (fs, path) = (&self.c.env.fs, self.path(RESERVE_FILE));
        let there = fs.size(&path).ok();
        if there.is_some_and(|size| size != wanted) {
            // Found again at the next open.
            let _ = fs.delete(&path);
        }
        if wanted == 0 {
            return;
        }
        if there == Some(wanted) {
            self.has_reserve.store(true, Ordering::Relaxed);
            return;
        }
        let free = fs.free_space(&self.c.dir).unwrap_or(0);
        if free < wanted.saturating_add(self.min_free_bytes()) {
            return;
        }
        match self.write_reserve(&path, wanted) {
            Ok(()) => self.has_reserve.store(true, Ordering::Relaxed),
            Err(e) => {
                let log = &self.c.log;
                log.warn(format_args!("no room can be reserved: {e}"));
                let _ = fs.delete(&path);
            }
        }
    }

    /// Bytes that no file system stores in less space than they are long.
    fn write_reserve(&self, path: &Path, bytes: u64) -> Result<()> {
        let mut file = self.c.env.fs.create(path, IoActivity::Other)?;
        let mut piece = vec![0u8; PIECE];
        let mut word = self.c.env.rng.next_u64() | 1;
        let mut left = bytes;
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
    pub(crate) fn release_reserve(&self) -> bool {
        if !self.has_reserve.swap(false, Ordering::Relaxed) {
            return false;
        }
        let released = self.c.env.fs.delete(&self.path(RESERVE_FILE));
        let log = &self.c.log;
        match &released {
            Ok(()) => log.warn(format_args!("the disk is full: reserved room is given up")),
            Err(e) => log.warn(format_args!("reserved room cannot be given up: {e}")),
        }
        released.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use crate::core::space_room::space_facts;
    use crate::db::Db;
    use spanlith_env::{Env, FaultFs, MemFs};
    use spanlith_pace::SpaceFacts;
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn a_full_speed_disk_presses_no_writer() {
        let faults = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
        let env = Env::test(faults.clone(), 7).0;
        let set = "sd_tables_path=/fast;write_throttle_policy=smooth;min_free_bytes=1000";
        let builder = Db::builder("/db").env(env).no_info_log();
        let builder = builder.create_if_missing(true).set(set).unwrap();
        let db = builder.open().unwrap();
        let used = || {
            db.engine().look_at_space();
            space_facts(db.engine(), SpaceFacts::default(), true).used
        };
        faults.set_free_space(Path::new("/db"), 1 << 40);
        faults.set_free_space(Path::new("/fast"), 1000);
        assert_eq!(used(), 0);
        faults.set_free_space(Path::new("/db"), 1000);
        assert_eq!(used(), 7000);
        db.close().unwrap();
    }
}
