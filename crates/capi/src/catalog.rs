//! Databases that are not open: their families, their identity, their end.

use crate::db::rocksdb_t;
use crate::ffi::{array, malloc_array, malloc_copy, path, report};
use crate::options::rocksdb_options_t;
use libc::{c_char, c_void};
use spanlith::Db;
use spanlith::version::filenames;
use spanlith_base::byte_text::bytes_of_text;
use std::ptr;

/// Most bytes of CURRENT and IDENTITY.
const SMALL_FILE: u64 = 64 << 10;

c_api! {
    /// Names of the families, also of an open database. Never NULL.
    fn rocksdb_list_column_families(
        options: *const rocksdb_options_t,
        name: *const c_char,
        lencf: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut *mut c_char {
        let names = report(errptr, Vec::new(), || Db::list_families(path(name), &(*options).env()));
        let copies: Vec<*mut c_char> = names.iter().map(|n| malloc_copy(&bytes_of_text(n))).collect();
        *lencf = copies.len();
        malloc_array(&copies)
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
        let options = &*options;
        report(errptr, (), || {
            Db::destroy_with(path(name), &options.env(), &options.db, &options.parts.db_paths)
        });
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
