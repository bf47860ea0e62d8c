//! `rocksdb_column_family_handle_t`.

use crate::db::{Mode, family_options, rocksdb_t};
use crate::ffi::{array, boxed, family_name, malloc_array, malloc_copy, report};
use crate::options::rocksdb_options_t;
use libc::{c_char, c_void};
use spanlith::Cf;
use spanlith_base::Result;
use spanlith_base::byte_text::bytes_of_text;
use std::mem::ManuallyDrop;
use std::ptr;

/// A column family: a counted reference, good also after the database was closed, or that of the database
/// itself, which costs it nothing.
pub struct rocksdb_column_family_handle_t {
    pub(crate) cf: ManuallyDrop<Cf>,
    /// It is the database's.
    is_lent: bool,
}

impl rocksdb_column_family_handle_t {
    pub(crate) fn of(cf: Cf) -> Self {
        Self {
            cf: ManuallyDrop::new(cf),
            is_lent: false,
        }
    }

    /// The default family's, which clients need not destroy: a counted one would keep the closed database's
    /// files open and its memtables in memory.
    ///
    /// # Safety
    /// It is not used, but may be destroyed, after the database is closed.
    unsafe fn of_default(db: &rocksdb_t) -> Self {
        Self {
            // SAFETY: The copy is never dropped, and only used while the original lives.
            cf: unsafe { ptr::read((&raw const db.cf).cast()) },
            is_lent: true,
        }
    }
}

impl Drop for rocksdb_column_family_handle_t {
    fn drop(&mut self) {
        if !self.is_lent {
            // SAFETY: Not used any more.
            unsafe { ManuallyDrop::drop(&mut self.cf) };
        }
    }
}

/// Creates a family with the options of a handle.
fn create(
    db: &rocksdb_t,
    options: &rocksdb_options_t,
    name: &str,
) -> Result<*mut rocksdb_column_family_handle_t> {
    let cf = db
        .cf
        .db()
        .create_cf(family_options(name, options, Mode::ReadWrite)?)?;
    Ok(boxed(rocksdb_column_family_handle_t::of(cf)))
}

c_api! {
    /// Creates a column family; NULL if that fails.
    fn rocksdb_create_column_family(
        db: *mut rocksdb_t,
        column_family_options: *const rocksdb_options_t,
        column_family_name: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_column_family_handle_t {
        report(errptr, ptr::null_mut(), || {
            create(&*db, &*column_family_options, &family_name(column_family_name))
        })
    }

    /// Creates column families with the same options. The array is from `malloc`; if one fails, it
    /// holds those before, and `lencfs` says how many.
    fn rocksdb_create_column_families(
        db: *mut rocksdb_t,
        column_family_options: *const rocksdb_options_t,
        num_column_families: i32,
        column_family_names: *const *const c_char,
        lencfs: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut *mut rocksdb_column_family_handle_t {
        let count = usize::try_from(num_column_families).unwrap_or(0);
        let mut made = Vec::new();
        report(errptr, (), || {
            let names = array(column_family_names, count).iter();
            let of = |name: &str| family_options(name, &*column_family_options, Mode::ReadWrite);
            let families = names.map(|name| of(&family_name(*name)));
            let (cfs, result) = (*db).cf.db().create_cfs(families.collect::<Result<_>>()?);
            made = cfs.into_iter().map(|cf| boxed(rocksdb_column_family_handle_t::of(cf))).collect();
            result
        });
        *lencfs = made.len();
        malloc_array(&made)
    }

    /// Frees an array of handles, not the handles.
    fn rocksdb_create_column_families_destroy(list: *mut *mut rocksdb_column_family_handle_t) {
        libc::free(list.cast::<c_void>());
    }

    /// Drops a column family; the handle still reads.
    fn rocksdb_drop_column_family(
        db: *mut rocksdb_t,
        handle: *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*db).cf.db().drop_cf(&(*handle).cf));
    }

    /// A new handle of the default column family.
    fn rocksdb_get_default_column_family_handle(
        db: *mut rocksdb_t,
    ) -> *mut rocksdb_column_family_handle_t {
        boxed(rocksdb_column_family_handle_t::of_default(&*db))
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
        let name = bytes_of_text((*handle).cf.name());
        *name_len = name.len();
        malloc_copy(&name)
    }
}

destroyers! {
    rocksdb_column_family_handle_destroy(rocksdb_column_family_handle_t);
}
