//! `rocksdb_livefiles_storage_info_t`: of which files a copy of a database consists.

use crate::convert::Deferred;
use crate::db::rocksdb_t;
use crate::ffi::{boxed, lend_if, report};
use crate::live_files::c_string;
use libc::c_char;
use spanlith::{StorageFile, StorageOptions};
use std::ffi::CString;
use std::ptr;

/// Describes what is done before the files are listed, and what is listed of them.
#[derive(Default)]
pub struct rocksdb_livefiles_storage_info_options_t {
    include_checksum_info: bool,
    wal_size_for_flush: u64,
    atomic_flush: bool,
    deferred: Deferred,
}

/// A file, with its texts as C strings.
struct Listed {
    file: StorageFile,
    name: CString,
    directory: CString,
    checksum: CString,
    checksum_function: CString,
}

/// Files at one moment; independent of the database, whose deletions the caller disables as long as it
/// needs them.
pub struct rocksdb_livefiles_storage_info_t(Vec<Listed>);

impl From<StorageFile> for Listed {
    fn from(file: StorageFile) -> Self {
        Self {
            name: c_string(file.name.as_bytes()),
            directory: c_string(file.dir.as_os_str().as_encoded_bytes()),
            checksum: c_string(&file.checksum),
            checksum_function: c_string(&file.checksum_function),
            file,
        }
    }
}

c_api! {
    /// RocksDB's defaults: memtables are flushed.
    fn rocksdb_livefiles_storage_info_options_create(
    ) -> *mut rocksdb_livefiles_storage_info_options_t {
        boxed(rocksdb_livefiles_storage_info_options_t::default())
    }

    /// The files of which a copy of the database consists.
    fn rocksdb_get_livefiles_storage_info(
        db: *mut rocksdb_t,
        options: *const rocksdb_livefiles_storage_info_options_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_livefiles_storage_info_t {
        report(errptr, ptr::null_mut(), || {
            let o = &*options;
            let options = StorageOptions::default()
                .flush_from(o.wal_size_for_flush)
                .atomic_flush(o.atomic_flush)
                .with_checksums(o.include_checksum_info);
            let files = (*db).cf.db().storage_files(&options)?;
            Ok(boxed(rocksdb_livefiles_storage_info_t(files.into_iter().map(Into::into).collect())))
        })
    }

    /// Number of files.
    fn rocksdb_livefiles_storage_info_count(info: *const rocksdb_livefiles_storage_info_t) -> usize {
        (*info).0.len()
    }

    /// Returns what the file of the copy holds, whatever stands in this one; NULL if it is copied.
    fn rocksdb_livefiles_storage_info_replacement_contents(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
        size: *mut usize,
    ) -> *const c_char {
        let listed = (&*info).0.get(index);
        lend_if(listed.and_then(|l| l.file.contents.as_deref()), size)
    }
}

macro_rules! facts {
    ($($(#[$meta:meta])* $get:ident -> $ty:ty: |$l:ident| $value:expr, else $none:expr;)*) => {
        c_api! {$(
            $(#[$meta])*
            fn $get(info: *const rocksdb_livefiles_storage_info_t, index: usize) -> $ty {
                (&*info).0.get(index).map_or($none, |$l| $value)
            }
        )*}
    };
}

facts! {
    /// Its name in the copy, lent; NULL without such a file.
    rocksdb_livefiles_storage_info_relative_filename -> *const c_char:
        |l| l.name.as_ptr(), else ptr::null();
    /// The directory that it is in, lent; NULL without such a file.
    rocksdb_livefiles_storage_info_directory -> *const c_char:
        |l| l.directory.as_ptr(), else ptr::null();
    /// Its number; 0 of one that has none.
    rocksdb_livefiles_storage_info_file_number -> u64: |l| l.file.number, else 0;
    /// 0: a log, 2: a table, 3: the MANIFEST, 4: CURRENT, 9: options, 10: a blob file.
    rocksdb_livefiles_storage_info_file_type -> i32: |l| l.file.kind.number(), else 0;
    /// How many bytes of it belong to the copy.
    rocksdb_livefiles_storage_info_size -> u64: |l| l.file.size, else 0;
    /// Its temperature.
    rocksdb_livefiles_storage_info_temperature -> i32: |l| l.file.temperature as i32, else 0;
    /// Its checksum, lent; empty if none is known or was asked for.
    rocksdb_livefiles_storage_info_file_checksum -> *const c_char:
        |l| l.checksum.as_ptr(), else ptr::null();
    /// Name of the function that made the checksum, lent.
    rocksdb_livefiles_storage_info_file_checksum_func_name -> *const c_char:
        |l| l.checksum_function.as_ptr(), else ptr::null();
    /// 1 if only the first bytes, as many as its size says, belong to the copy.
    rocksdb_livefiles_storage_info_trim_to_size -> u8: |l| l.file.is_trimmed.into(), else 0;
}

accessors! { rocksdb_livefiles_storage_info_options_t {
    include_checksum_info: rocksdb_livefiles_storage_info_options_set_include_checksum_info(u8),
        rocksdb_livefiles_storage_info_options_get_include_checksum_info -> u8;
    wal_size_for_flush: rocksdb_livefiles_storage_info_options_set_wal_size_for_flush(u64),
        rocksdb_livefiles_storage_info_options_get_wal_size_for_flush -> u64;
    atomic_flush: rocksdb_livefiles_storage_info_options_set_atomic_flush(u8),
        rocksdb_livefiles_storage_info_options_get_atomic_flush -> u8;
}}

destroyers! {
    rocksdb_livefiles_storage_info_options_destroy(rocksdb_livefiles_storage_info_options_t);
    rocksdb_livefiles_storage_info_destroy(rocksdb_livefiles_storage_info_t);
}
