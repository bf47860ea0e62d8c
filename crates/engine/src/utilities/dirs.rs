//! Directories that copies of databases are put into.

use crate::db::gone;
use spanlith_base::Result;
use spanlith_env::FileSystem;
use std::path::Path;

/// The directory that holds the name.
pub(super) fn parent(dir: &Path) -> &Path {
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes a directory, with a durable name; fine if it is there.
pub(super) fn make_durable_dir(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    let is_new = fs.entry(dir)?.is_none();
    fs.create_dir_if_missing(dir)?;
    match is_new {
        true => fs.sync_dir(parent(dir)),
        false => Ok(()),
    }
}

/// Deletes a file; fine if it is not there.
pub(super) fn delete_if_there(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    gone(fs.delete(path))
}

/// Deletes a directory of files, if it is there.
pub(super) fn delete_dir_of_files(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    if fs.entry(dir)?.is_none() {
        return Ok(());
    }
    for name in fs.list(dir)? {
        delete_if_there(fs, &dir.join(name))?;
    }
    fs.delete_dir(dir)
}
