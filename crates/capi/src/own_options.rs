//! Options that RocksDB does not have, for C programs: `include/spanlith.h`.

use crate::ffi::{malloc_copy, report, text};
use crate::options::rocksdb_options_t;
use libc::c_char;

c_api! {
    /// Sets own options of a database by name, as `evidence=false;reserve_file_bytes=1048576`. An
    /// unknown name or a wrong value is an error, and nothing is changed then.
    fn spanlith_options_set_evidence(
        options: *mut rocksdb_options_t,
        values: *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*options).evidence.apply_text(&text(values)));
    }

    /// All own options of a database with their values, in the form that the setter takes; from
    /// `malloc`.
    fn spanlith_options_get_evidence(options: *const rocksdb_options_t) -> *mut c_char {
        malloc_copy((*options).evidence.to_text().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{rocksdb_options_create, rocksdb_options_destroy};
    use std::ffi::{CStr, CString};
    use std::ptr;

    #[test]
    fn own_options_are_set_by_name_and_all_or_nothing() {
        let own = |o| {
            // SAFETY: `o` is a handle; the text comes from `malloc`.
            unsafe {
                let all = spanlith_options_get_evidence(o);
                let text = CStr::from_ptr(all).to_str().unwrap().to_string();
                libc::free(all.cast());
                text
            }
        };
        // SAFETY: Handles and texts are used as the API demands.
        unsafe {
            let o = rocksdb_options_create();
            let before = own(o);
            assert!(before.contains("evidence=true;"), "{before}");
            let mut err = ptr::null_mut();
            let good = CString::new("evidence=false;witness_spacing=100").unwrap();
            spanlith_options_set_evidence(o, good.as_ptr(), &raw mut err);
            assert!(err.is_null());
            let after = own(o);
            assert!(after.contains("evidence=false;") && after.contains("witness_spacing=100;"));
            let bad = CString::new("evidence=true;none=1").unwrap();
            spanlith_options_set_evidence(o, bad.as_ptr(), &raw mut err);
            let said = CStr::from_ptr(err).to_str().unwrap().to_string();
            libc::free(err.cast());
            assert_eq!(said, "Invalid argument: Could not find option: none");
            assert_eq!(own(o), after);
            rocksdb_options_destroy(o);
        }
    }
}
