//! `rocksdb_wal_file_t`, `rocksdb_wal_files_t`: the logs of a database.

use crate::db::rocksdb_t;
use crate::ffi::{boxed, report};
use crate::live_files::c_string;
use libc::c_char;
use spanlith::LogFile;
use std::ffi::CString;
use std::ptr;

/// A log at one moment.
pub struct rocksdb_wal_file_t {
    file: LogFile,
    path_name: CString,
}

/// Logs at one moment, oldest first; independent of the database.
pub struct rocksdb_wal_files_t(Vec<rocksdb_wal_file_t>);

impl From<LogFile> for rocksdb_wal_file_t {
    fn from(file: LogFile) -> Self {
        let path_name = c_string(file.path_name().as_bytes());
        Self { file, path_name }
    }
}

c_api! {
    /// All logs, archived ones included, oldest first.
    fn rocksdb_get_sorted_wal_files(
        db: *mut rocksdb_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_wal_files_t {
        report(errptr, ptr::null_mut(), || {
            let files = (*db).cf.db().log_files()?;
            Ok(boxed(rocksdb_wal_files_t(files.into_iter().map(Into::into).collect())))
        })
    }

    /// The log being written.
    fn rocksdb_get_current_wal_file(
        db: *mut rocksdb_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_wal_file_t {
        report(errptr, ptr::null_mut(), || {
            Ok(boxed((*db).cf.db().current_log_file()?.into()))
        })
    }

    /// Number of logs.
    fn rocksdb_wal_files_count(files: *const rocksdb_wal_files_t) -> usize {
        (*files).0.len()
    }

    /// A log, lent by the list; NULL if there are not so many.
    fn rocksdb_wal_files_get_wal_file(
        files: *const rocksdb_wal_files_t,
        index: usize,
    ) -> *const rocksdb_wal_file_t {
        (&*files).0.get(index).map_or(ptr::null(), ptr::from_ref)
    }

    /// Where it is below the directory of logs, with a leading `/`; lent by the log.
    fn rocksdb_wal_file_path_name(file: *const rocksdb_wal_file_t) -> *const c_char {
        (*file).path_name.as_ptr()
    }

    /// Its number.
    fn rocksdb_wal_file_log_number(file: *const rocksdb_wal_file_t) -> u64 {
        (*file).file.number
    }

    /// 0: in the archive, 1: may be needed for recovery.
    fn rocksdb_wal_file_type(file: *const rocksdb_wal_file_t) -> i32 {
        (!(*file).file.is_archived).into()
    }

    /// Sequence number of its first update; 0 if it has none.
    fn rocksdb_wal_file_start_sequence(file: *const rocksdb_wal_file_t) -> u64 {
        (*file).file.start_sequence
    }

    /// Its bytes.
    fn rocksdb_wal_file_size_file_bytes(file: *const rocksdb_wal_file_t) -> u64 {
        (*file).file.size
    }
}

destroyers! {
    rocksdb_wal_file_destroy(rocksdb_wal_file_t);
    rocksdb_wal_files_destroy(rocksdb_wal_files_t);
}
