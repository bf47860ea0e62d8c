//! The small files: CURRENT and IDENTITY.

use crate::version::{CurrentMarks, filenames};
use spanlith_base::{Error, ErrorKind, Result, SubCode};
use spanlith_env::Env;
use std::path::Path;

/// Longest sensible small file.
const LIMIT: u64 = 64 << 10;

/// Number of the MANIFEST that CURRENT names. An error's text names the file, as RocksDB's does, without the path.
pub(crate) fn read_current(env: &Env, dir: &Path) -> Result<u64> {
    read_marked_current(env, dir).map(|(number, _)| number)
}

/// The same, and what stands on a speed disk.
pub(crate) fn read_marked_current(env: &Env, dir: &Path) -> Result<(u64, CurrentMarks)> {
    let path = dir.join(filenames::CURRENT_FILE);
    let content = env.fs.read_all(&path, LIMIT)?;
    filenames::parse_marked_current(&content)
}

/// As [`read_identity`], for those who can do without: a file that does not hold an id counts as none.
pub(super) fn find_identity(env: &Env, dir: &Path) -> Result<Option<String>> {
    match read_identity(env, dir) {
        Err(e) if e.kind() == ErrorKind::Corruption => Ok(None),
        found => found,
    }
}

/// The database id, if there is an IDENTITY file.
///
/// # Errors
/// Of the file system; `Corruption` if the file is too large or no text.
pub(super) fn read_identity(env: &Env, dir: &Path) -> Result<Option<String>> {
    let path = dir.join(filenames::IDENTITY_FILE);
    let content = match env.fs.read_all(&path, LIMIT) {
        Ok(c) => c,
        Err(e) if e.subcode() == Some(SubCode::PathNotFound) => return Ok(None),
        Err(e) => return Err(e),
    };
    let text = String::from_utf8(content)
        .map_err(|_| Error::new(ErrorKind::Corruption, "IDENTITY is not text").with_path(&path))?;
    let id = text.trim_end_matches('\n');
    Ok((!id.is_empty()).then(|| id.to_string()))
}
