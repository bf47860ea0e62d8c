//! `rocksdb_column_family_handle_t`.

use crate::db::rocksdb_t;
use crate::ffi::{boxed, malloc_copy};
use libc::c_char;
use spanlith::Cf;

/// A column family; a counted reference, good also after the database was closed.
pub struct rocksdb_column_family_handle_t {
    pub(crate) cf: Cf,
}

impl rocksdb_column_family_handle_t {
    pub(crate) fn of(cf: &Cf) -> Self {
        Self { cf: cf.clone() }
    }
}

c_api! {
    /// A new handle of the default column family.
    fn rocksdb_get_default_column_family_handle(
        db: *mut rocksdb_t,
    ) -> *mut rocksdb_column_family_handle_t {
        boxed(rocksdb_column_family_handle_t::of(&(*db).cf))
    }

    /// Id of the family.
    fn rocksdb_column_family_handle_get_id(handle: *mut rocksdb_column_family_handle_t) -> u32 {
        (*handle).cf.id()
    }

    /// Name of the family, from `malloc`; not NUL-terminated by contract.
    fn rocksdb_column_family_handle_get_name(
        handle: *mut rocksdb_column_family_handle_t,
        name_len: *mut usize,
    ) -> *mut c_char {
        let name = (*handle).cf.name();
        *name_len = name.len();
        malloc_copy(name.as_bytes())
    }
}

destroyers! {
    rocksdb_column_family_handle_destroy(rocksdb_column_family_handle_t);
}
