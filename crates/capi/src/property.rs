//! Properties.

use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{malloc_copy, text};
use libc::c_char;
use spanlith::Cf;
use std::ptr;

fn value(cf: &Cf, name: &str) -> *mut c_char {
    let value = cf.property(name);
    value.map_or(ptr::null_mut(), |v| malloc_copy(v.as_bytes()))
}

/// # Safety
/// `out` may be written.
unsafe fn int(cf: &Cf, name: &str, out: *mut u64) -> i32 {
    match cf.int_property(name) {
        Some(value) => {
            // SAFETY: The caller says so.
            unsafe { *out = value };
            0
        }
        None => -1,
    }
}

c_api! {
    /// A property as text, from `malloc`; NULL if there is no such property.
    fn rocksdb_property_value(db: *mut rocksdb_t, propname: *const c_char) -> *mut c_char {
        value(&(*db).cf, &text(propname))
    }

    /// A property of a family as text, from `malloc`; NULL if there is no such property.
    fn rocksdb_property_value_cf(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        propname: *const c_char,
    ) -> *mut c_char {
        value(&(*column_family).cf, &text(propname))
    }

    /// A property as a number: 0, or -1 if there is no such property.
    fn rocksdb_property_int(
        db: *mut rocksdb_t,
        propname: *const c_char,
        out_val: *mut u64,
    ) -> i32 {
        int(&(*db).cf, &text(propname), out_val)
    }

    /// A property of a family as a number: 0, or -1 if there is no such property.
    fn rocksdb_property_int_cf(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        propname: *const c_char,
        out_val: *mut u64,
    ) -> i32 {
        int(&(*column_family).cf, &text(propname), out_val)
    }
}
