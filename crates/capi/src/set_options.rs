//! Options of an open database, changed by name.

use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{array, report, text};
use libc::c_char;

/// Names and values; of a name that is given twice the last value counts, as in RocksDB's map.
///
/// # Safety
/// The arrays have `count` elements, all of them strings.
unsafe fn changes(
    count: i32,
    keys: *const *const c_char,
    values: *const *const c_char,
) -> Vec<(String, String)> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: The caller says so.
    unsafe {
        let pairs = array(keys, count).iter().zip(array(values, count));
        let mut changes: Vec<(String, String)> = Vec::with_capacity(count);
        for (name, value) in pairs {
            let (name, value) = (text(*name).into_owned(), text(*value).into_owned());
            match changes.iter_mut().find(|c| c.0 == name) {
                Some(known) => known.1 = value,
                None => changes.push((name, value)),
            }
        }
        changes
    }
}

c_api! {
    /// Changes options of the default family.
    fn rocksdb_set_options(
        db: *mut rocksdb_t,
        count: i32,
        keys: *const *const c_char,
        values: *const *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*db).cf.set_options(&changes(count, keys, values)));
    }

    /// Changes options of a family.
    fn rocksdb_set_options_cf(
        _db: *mut rocksdb_t,
        handle: *mut rocksdb_column_family_handle_t,
        count: i32,
        keys: *const *const c_char,
        values: *const *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*handle).cf.set_options(&changes(count, keys, values)));
    }

    /// Changes options of the database.
    fn rocksdb_set_db_options(
        db: *mut rocksdb_t,
        count: i32,
        keys: *const *const c_char,
        values: *const *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*db).cf.db().set_options(&changes(count, keys, values)));
    }
}
