//! Databases that are not open: their families, their identity, their end.

use crate::db::rocksdb_t;
use crate::ffi::{array, malloc_copy, path, report};
use crate::options::rocksdb_options_t;
use libc::{c_char, c_void};
use spanlith::version::{FileKind, VersionEdit, filenames, parse_file_name};
use spanlith_base::{Error, Result, SubCode};
use spanlith_env::{Env, FileSystem};
use spanlith_wal::{LogReader, ReadEvent};
use std::collections::BTreeMap;
use std::path::Path;
use std::ptr;

/// Most bytes of CURRENT and IDENTITY.
const SMALL_FILE: u64 = 64 << 10;

/// Names of the families that the MANIFEST lists, by id.
fn families(env: &Env, dir: &Path) -> Result<Vec<String>> {
    let current = env
        .fs
        .read_all(&dir.join(filenames::CURRENT_FILE), SMALL_FILE)?;
    let manifest = dir.join(filenames::manifest_file_name(filenames::parse_current(
        &current,
    )?));
    let mut reader = LogReader::new(env.fs.open_sequential(&manifest)?, 0);
    let mut names = BTreeMap::from([(0, "default".to_string())]);
    loop {
        match reader.next_event()? {
            ReadEvent::Record { .. } => {
                let edit =
                    VersionEdit::decode(reader.record()).map_err(|e| e.with_path(&manifest))?;
                if let Some(name) = edit.column_family_add {
                    let name = String::from_utf8_lossy(&name).into_owned();
                    names.insert(edit.column_family, name);
                } else if edit.column_family_drop {
                    names.remove(&edit.column_family);
                }
            }
            // A torn end is what a crash leaves.
            ReadEvent::Corruption { tail: true, .. } | ReadEvent::OldRecord { .. } => {}
            // Records about logs say nothing about families.
            ReadEvent::TimestampSizes(_) | ReadEvent::Predecessor { .. } => {}
            event @ ReadEvent::Corruption { .. } => {
                let e = event
                    .into_error()
                    .unwrap_or_else(|| Error::corruption("MANIFEST"));
                return Err(e.with_path(&manifest));
            }
            ReadEvent::Eof => return Ok(names.into_values().collect()),
        }
    }
}

/// Whether it failed because nothing is there.
fn is_missing<T>(result: &Result<T>) -> bool {
    matches!(result, Err(e) if e.subcode() == Some(SubCode::PathNotFound))
}

/// Deletes the files of a database, and the directory if it is empty then. Foreign files stay.
fn destroy(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    if fs.entry(dir)?.is_none() {
        return Ok(());
    }
    let lock_path = dir.join(filenames::LOCK_FILE);
    let lock = fs.lock(&lock_path)?;
    let mut first = Ok(());
    for name in fs.list(dir)? {
        let known = parse_file_name(&name).is_some_and(|kind| kind != FileKind::Lock);
        if known || filenames::is_trash(&name) {
            let deleted = fs.delete(&dir.join(&name));
            if !is_missing(&deleted) {
                first = first.and(deleted);
            }
        }
    }
    drop(lock);
    let unlocked = fs.delete(&lock_path);
    if !is_missing(&unlocked) {
        first = first.and(unlocked);
    }
    // Fails if foreign files are left; they are not ours to delete.
    let _ = fs.delete_dir(dir);
    first
}

c_api! {
    /// Names of the families, also of an open database. Never NULL.
    fn rocksdb_list_column_families(
        options: *const rocksdb_options_t,
        name: *const c_char,
        lencf: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut *mut c_char {
        let names = report(errptr, Vec::new(), || families(&(*options).env(), &path(name)));
        let list = libc::malloc(size_of::<*mut c_char>() * names.len().max(1))
            .cast::<*mut c_char>();
        if list.is_null() {
            std::process::abort();
        }
        for (at, name) in names.iter().enumerate() {
            list.add(at).write(malloc_copy(name.as_bytes()));
        }
        *lencf = names.len();
        list
    }

    /// Frees a list of names.
    fn rocksdb_list_column_families_destroy(list: *mut *mut c_char, len: usize) {
        if list.is_null() {
            return;
        }
        for name in array(list.cast_const(), len) {
            libc::free(name.cast::<c_void>());
        }
        libc::free(list.cast());
    }

    /// Deletes a database that is not open; fine if there is none.
    fn rocksdb_destroy_db(
        options: *const rocksdb_options_t,
        name: *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || destroy(&*(*options).env().fs, &path(name)));
    }

    /// Id of the database, from `malloc`; NULL if it cannot be read.
    fn rocksdb_get_db_identity(db: *mut rocksdb_t, id_len: *mut usize) -> *mut c_char {
        let db = &*db;
        let file = db.cf.db().path().join(filenames::IDENTITY_FILE);
        match db.env.fs.read_all(&file, SMALL_FILE) {
            Ok(content) => {
                let id = content.strip_suffix(b"\n").unwrap_or(&content);
                *id_len = id.len();
                malloc_copy(id)
            }
            Err(_) => {
                *id_len = 0;
                ptr::null_mut()
            }
        }
    }
}
