//! Databases whose values have times.

use crate::db::{Mode, family_options, open, open_families_with, rocksdb_t};
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{array, boxed, family_name, path, report};
use crate::options::rocksdb_options_t;
use libc::c_char;
use std::ptr;
use std::time::Duration;

/// A time to live in seconds; with zero and less nothing becomes too old.
fn ttl(seconds: i32) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

c_api! {
    /// Opens a database whose values have the time they were written at; compactions drop those that are older
    /// than `ttl_seconds`.
    fn rocksdb_open_with_ttl(
        options: *const rocksdb_options_t,
        name: *const c_char,
        ttl_seconds: i32,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_t {
        report(errptr, ptr::null_mut(), || {
            let family = family_options("default", &*options, Mode::ReadWrite)?.with_ttl(ttl(ttl_seconds));
            open(path(name), &*options, vec![family], Mode::ReadWrite)
        })
    }

    /// As with the default family alone, with families; `ttls` has a time to live for each.
    fn rocksdb_open_column_families_with_ttl(
        options: *const rocksdb_options_t,
        name: *const c_char,
        num_column_families: i32,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        ttls: *const i32,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_t {
        let families = (num_column_families, column_family_names, column_family_options);
        report(errptr, ptr::null_mut(), || {
            let ttls = array(ttls, usize::try_from(num_column_families).unwrap_or(0));
            let limits = |at: usize, family: spanlith::FamilyOptions| family.with_ttl(ttl(ttls[at]));
            let (dir, mode) = (path(name), Mode::ReadWrite);
            open_families_with(dir, &*options, families, column_family_handles, mode, &limits)
        })
    }

    /// Creates a family with a time to live in such a database; NULL if that fails.
    fn rocksdb_create_column_family_with_ttl(
        db: *mut rocksdb_t,
        column_family_options: *const rocksdb_options_t,
        column_family_name: *const c_char,
        ttl_seconds: i32,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_column_family_handle_t {
        report(errptr, ptr::null_mut(), || {
            let (name, mode) = (family_name(column_family_name), Mode::ReadWrite);
            let family = family_options(&name, &*column_family_options, mode)?;
            let cf = (*db).cf.db().create_cf(family.with_ttl(ttl(ttl_seconds)))?;
            Ok(boxed(rocksdb_column_family_handle_t::of(cf)))
        })
    }
}
