//! Verbs of the Rust interface that are made of others.

use super::{Cf, Db, FamilyOptions};
use crate::core::RESERVE_FILE;
use crate::options::sidecar::{SIDECAR_FILE, SIDECAR_TEMP};
use crate::recovery::destroy_lost;
use crate::version::{FileKind, filenames, parse_file_name};
use spanlith_base::{ErrorKind, Result, SubCode};
use spanlith_env::{Env, FileSystem};
use std::path::Path;

impl Db {
    /// The column family of that name; creates it if it is missing, only then with these options.
    ///
    /// # Errors
    /// As [`Self::create_cf`].
    pub fn cf_or_create(&self, family: FamilyOptions) -> Result<Cf> {
        if let Some(cf) = self.cf(family.name()) {
            return Ok(cf);
        }
        let name = family.name().to_string();
        match self.create_cf(family) {
            // Somebody else was faster.
            Err(e) if e.kind() == ErrorKind::InvalidArgument => self.cf(&name).ok_or(e),
            made => made,
        }
    }

    /// Deletes a database that nobody has open: its files, and its directory if nothing else is in
    /// it. Fine if there is none. What lies in other directories (logs, further paths) stays.
    ///
    /// # Errors
    /// `Io`, with the subcode of a held lock if it is open.
    pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
        Self::destroy_in(path, &Env::system())
    }

    /// As [`Self::destroy`], in the given world.
    ///
    /// # Errors
    /// As there.
    pub fn destroy_in(path: impl AsRef<Path>, env: &Env) -> Result<()> {
        destroy(&*env.fs, path.as_ref())
    }
}

impl Cf {
    /// Compacts everything.
    ///
    /// # Errors
    /// As [`Self::compact_range`].
    pub fn compact_all(&self) -> Result<()> {
        self.compact_range(None, None)
    }
}

/// Files of ours that RocksDB does not know.
const OWN_FILES: [&str; 3] = [SIDECAR_FILE, SIDECAR_TEMP, RESERVE_FILE];

/// What deleting came to; nothing to delete is fine.
fn gone(deleted: Result<()>) -> Result<()> {
    match deleted {
        Err(e) if e.subcode() == Some(SubCode::PathNotFound) => Ok(()),
        other => other,
    }
}

fn destroy(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    if fs.entry(dir)?.is_none() {
        return Ok(());
    }
    let lock_path = dir.join(filenames::LOCK_FILE);
    let lock = fs.lock(&lock_path)?;
    let mut first = Ok(());
    for name in fs.list(dir)? {
        let known = parse_file_name(&name).is_some_and(|kind| kind != FileKind::Lock);
        let known = known || OWN_FILES.contains(&name.as_str());
        if known || filenames::is_trash(&name) {
            first = first.and(gone(fs.delete(&dir.join(&name))));
        }
    }
    first = first.and(destroy_lost(fs, dir));
    drop(lock);
    first = first.and(gone(fs.delete(&lock_path)));
    // Fails if foreign files are left; they are not ours to delete.
    let _ = fs.delete_dir(dir);
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenBuilder;
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
    fn a_family_is_made_once() {
        let temp = TempDir::new("once");
        let open = |b: OpenBuilder| b.open();
        let db = open(Db::builder(temp.path()).create_if_missing(true)).unwrap();
        let made = db.cf_or_create(FamilyOptions::new("a")).unwrap();
        made.put("k", "v").unwrap();
        let again = db.cf_or_create(FamilyOptions::new("a")).unwrap();
        assert!(made == again);
        made.compact_all().unwrap();
        assert_eq!(again.get("k").unwrap().as_deref(), Some(&b"v"[..]));
        let err = Db::builder(temp.join("none")).open().unwrap_err();
        assert_eq!(err.kind(), ErrorKind::InvalidArgument);
    }
}
