//! Deleting a database that nobody has open.

use super::Db;
use crate::core::RESERVE_FILE;
use crate::options::DbOptions;
use crate::options::sanitize_wal_dir;
use crate::options::sidecar::{SIDECAR_FILE, SIDECAR_TEMP};
use crate::recovery::{destroy_lost, is_copy, release_destroyed, release_tables};
use crate::version::{DbPath, FileKind, filenames, parse_file_name};
use spanlith_base::{Result, SubCode};
use spanlith_env::{Env, FileSystem};
use std::path::{Path, PathBuf};

impl Db {
    /// Deletes a database that nobody has open: its files, and its directory if nothing else is in
    /// it. Fine if there is none. What lies in other directories stays: [`Self::destroy_with`].
    ///
    /// # Errors
    /// `Io`, with the subcode of a held lock if it is open.
    pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
        Self::destroy_with(path, &Env::system(), &DbOptions::default(), &[])
    }

    /// As [`Self::destroy`], in the given world, with the logs in the options' `wal_dir` and the tables in
    /// `db_paths`. Of those directories, too, only files of a database are deleted, and they go if nothing else is in
    /// them. Tables in directories of families stay, as with RocksDB's function without families.
    ///
    /// # Errors
    /// As there.
    pub fn destroy_with(
        path: impl AsRef<Path>,
        env: &Env,
        options: &DbOptions,
        db_paths: &[DbPath],
    ) -> Result<()> {
        let dir = path.as_ref();
        let mut options = options.clone();
        sanitize_wal_dir(&mut options, dir, db_paths.first().map(|p| p.dir.as_path()));
        let wal_dir = match options.wal_dir.as_str() {
            "" => dir.to_path_buf(),
            other => PathBuf::from(other),
        };
        let fs = &*env.fs;
        // Nothing outside goes either while somebody holds the lock.
        let lock_path = dir.join(filenames::LOCK_FILE);
        let is_there = fs.entry(dir)?.is_some();
        let lock = is_there.then(|| fs.lock(&lock_path)).transpose()?;
        let current = fs.read_all(&dir.join(filenames::CURRENT_FILE), 64 << 10);
        let current = current.and_then(|content| filenames::parse_marked_current(&content));
        let marks = current.map(|(_, marks)| marks).unwrap_or_default();
        let mut first = delete_in(fs, dir, &|name, kind| {
            OWN_FILES.contains(&name)
                || is_copy(name)
                || kind.is_some_and(|kind| kind != FileKind::Lock)
        });
        for path in db_paths.iter().filter(|p| p.dir != dir) {
            first = first.and(delete_in(fs, &path.dir, &|_, kind| {
                matches!(kind, Some(FileKind::Table(_) | FileKind::Blob(_)))
            }));
            let _ = fs.delete_dir(&path.dir);
        }
        let is_log = |_: &str, kind| matches!(kind, Some(FileKind::Log(_)));
        let archive = wal_dir.join(filenames::ARCHIVE_DIR);
        first = first.and(delete_in(fs, &archive, &is_log));
        let _ = fs.delete_dir(&archive);
        if wal_dir != dir {
            first = first.and(delete_in(fs, &wal_dir, &is_log));
            let _ = fs.delete_dir(&wal_dir);
        }
        if let Some(mark) = &marks.logs {
            // And tables that are on the disk itself.
            release_destroyed(fs, mark);
        }
        if let Some(mark) = &marks.tables {
            release_tables(fs, mark);
        }
        if lock.is_some() {
            drop(lock);
            first = first.and(gone(fs.delete(&lock_path)));
            // Fails if foreign files are left; they are not ours to delete.
            let _ = fs.delete_dir(dir);
        }
        first
    }
}

/// Files of ours that RocksDB does not know.
const OWN_FILES: [&str; 3] = [SIDECAR_FILE, SIDECAR_TEMP, RESERVE_FILE];

/// Returns what deleting came to; nothing to delete is fine.
pub(crate) fn gone(deleted: Result<()>) -> Result<()> {
    match deleted {
        Err(e) if e.subcode() == Some(SubCode::PathNotFound) => Ok(()),
        other => other,
    }
}

/// Deletes the files of a directory that `is_ours` takes, and those among them that were on their way to be deleted.
fn delete_in(
    fs: &dyn FileSystem,
    dir: &Path,
    is_ours: &dyn Fn(&str, Option<FileKind>) -> bool,
) -> Result<()> {
    if fs.entry(dir)?.is_none() {
        return Ok(());
    }
    let mut first = Ok(());
    for name in fs.list(dir)? {
        let plain = name.strip_suffix(filenames::TRASH_SUFFIX).unwrap_or(&name);
        if is_ours(plain, parse_file_name(plain)) {
            first = first.and(gone(fs.delete(&dir.join(&name))));
        }
    }
    first.and(destroy_lost(fs, dir))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_testkit::TempDir;

    #[test]
    fn destroying_leaves_what_others_put_there_and_an_open_database() {
        let temp = TempDir::new("destroy");
        let dir = temp.join("db");
        let db = Db::open(&dir).unwrap();
        let held = Db::destroy(&dir).unwrap_err();
        assert_eq!(held.subcode(), Some(SubCode::LockHeld));
        db.default_cf().put("k", "v").unwrap();
        db.close().unwrap();
        std::fs::write(dir.join("notes.txt"), "mine").unwrap();
        Db::destroy(&dir).unwrap();
        let left: Vec<_> = std::fs::read_dir(&dir).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        std::fs::remove_file(dir.join("notes.txt")).unwrap();
        std::fs::create_dir_all(&dir).unwrap();
        Db::destroy(&dir).unwrap();
        assert!(!dir.exists());
        Db::destroy(&dir).unwrap();
    }

    #[test]
    fn destroying_deletes_logs_and_tables_in_other_directories() {
        let temp = TempDir::new("destroy-places");
        let at = |name: &str| temp.join(name);
        let options = DbOptions {
            create_if_missing: true,
            wal_dir: at("wal").display().to_string(),
            wal_ttl_seconds: 1000,
            ..DbOptions::default()
        };
        let paths = [
            DbPath::new(at("first"), 1 << 20),
            DbPath::new(at("second"), 0),
        ];
        let open = || {
            let builder = Db::builder(at("db")).options(options.clone());
            builder.db_paths(paths.to_vec()).open()
        };
        let fill = || {
            let db = open().unwrap();
            db.default_cf().put("k", "v").unwrap();
            db.flush(true).unwrap();
            db.default_cf().put("k", "w").unwrap();
            db.close().unwrap();
        };
        let held = open().unwrap();
        let e = Db::destroy_with(at("db"), &Env::system(), &options, &paths).unwrap_err();
        assert_eq!(e.subcode(), Some(SubCode::LockHeld));
        assert!(at("wal").exists());
        held.close().unwrap();
        fill();
        // A file that is not of that kind stays where it is.
        std::fs::write(at("first/000001.log"), "mine").unwrap();
        std::fs::write(at("wal/000001.sst"), "mine").unwrap();
        std::fs::write(at("second/000007.sst.trash"), "theirs").unwrap();
        let destroy = || Db::destroy_with(at("db"), &Env::system(), &options, &paths);
        destroy().unwrap();
        let left = |dir| {
            let entries = std::fs::read_dir(at(dir)).unwrap();
            let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
            names.collect::<Vec<_>>()
        };
        assert_eq!(
            (left("first"), left("wal")),
            (vec!["000001.log".into()], vec!["000001.sst".into()])
        );
        assert!(!at("db").exists() && !at("second").exists());
        std::fs::remove_file(at("first/000001.log")).unwrap();
        std::fs::remove_file(at("wal/000001.sst")).unwrap();
        destroy().unwrap();
        assert!(!at("first").exists() && !at("wal").exists());
        // And it can be made again.
        fill();
    }
}
