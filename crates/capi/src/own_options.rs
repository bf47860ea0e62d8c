//! Options that RocksDB does not have, for C programs: `include/spanlith.h`.

use crate::ffi::{malloc_copy, report, text};
use crate::options::rocksdb_options_t;
use libc::c_char;
use spanlith::options::{apply_own, get_own, own_text};
use std::ptr;

c_api! {
    /// Sets own options of database and family by name, as `evidence=false;reserve_file_bytes=1048576`. An
    /// unknown name or a wrong value is an error, and nothing is changed then.
    fn spanlith_options_set(
        options: *mut rocksdb_options_t,
        values: *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let o = &mut *options;
            apply_own(&text(values), &mut o.db.own, &mut o.cf.own)
        });
    }

    /// The value of the own option called `name`, or, if that is null, all of them with their values, in the
    /// form that the setter takes; from `malloc`. Null and an error for an unknown name.
    fn spanlith_options_get(
        options: *const rocksdb_options_t,
        name: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        report(errptr, ptr::null_mut(), || {
            let o = &*options;
            let value = match name.is_null() {
                true => own_text(&o.db.own, &o.cf.own),
                false => get_own(&text(name), &o.db.own, &o.cf.own)?,
            };
            Ok(malloc_copy(value.as_bytes()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{rocksdb_options_create, rocksdb_options_destroy};
    use std::ffi::{CStr, CString};

    #[test]
    fn own_options_are_set_by_name_and_all_or_nothing() {
        // SAFETY: The text comes from `malloc`.
        let taken = |text: *mut c_char| unsafe {
            let copy = CStr::from_ptr(text).to_str().unwrap().to_string();
            libc::free(text.cast());
            copy
        };
        // SAFETY: Handles and texts are used as the API demands.
        unsafe {
            let o = rocksdb_options_create();
            let mut err = ptr::null_mut();
            let own = |o| {
                let mut err = ptr::null_mut();
                taken(spanlith_options_get(o, ptr::null(), &raw mut err))
            };
            let before = own(o);
            assert!(before.contains("evidence=true;"), "{before}");
            let good = CString::new("evidence=false;witness_spacing=100").unwrap();
            spanlith_options_set(o, good.as_ptr(), &raw mut err);
            assert!(err.is_null());
            let after = own(o);
            assert!(after.contains("evidence=false;") && after.contains("witness_spacing=100;"));
            let name = CString::new("witness_spacing").unwrap();
            let value = spanlith_options_get(o, name.as_ptr(), &raw mut err);
            assert_eq!(taken(value), "100");
            let bad = CString::new("evidence=true;evidense=1").unwrap();
            spanlith_options_set(o, bad.as_ptr(), &raw mut err);
            assert_eq!(
                taken(err),
                "Invalid argument: Could not find option: evidense; the nearest name is evidence"
            );
            assert_eq!(own(o), after);
            err = ptr::null_mut();
            let name = CString::new("none").unwrap();
            assert!(spanlith_options_get(o, name.as_ptr(), &raw mut err).is_null());
            assert!(taken(err).starts_with("Invalid argument: Could not find option: none"));
            rocksdb_options_destroy(o);
        }
    }
}
