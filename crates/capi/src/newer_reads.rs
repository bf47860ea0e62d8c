//! Reads that RocksDB has since 11.9: values with what is known beside them, and batches that one object owns.

use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{array, boxed, bytes, malloc_copy, report, rocksdb_slice_t};
use crate::get::copied;
use crate::multi_get::{Answers, keys, read};
use crate::read_options::rocksdb_readoptions_t;
use libc::{c_char, c_int};
use spanlith::{Cf, Pinned, ReadOptions};
use spanlith_base::Result;
use std::ffi::CString;
use std::ptr;

/// States of a result of `rocksdb_pinnable_multi_get_result`.
const NOT_FOUND: c_int = 0;
const FOUND: c_int = 1;
const FAILED: c_int = 2;
const OUT_OF_BOUNDS: c_int = 3;

/// The answer for one key.
enum Held {
    Absent,
    Value(Pinned),
    Failed(CString),
}

/// Values and errors of a batch of keys, in the order of the keys. Values stay where they are.
pub struct rocksdb_pinnable_multi_get_t(Vec<Held>);

impl Answers for rocksdb_pinnable_multi_get_t {
    unsafe fn give(&mut self, at: usize, answer: Result<Option<Pinned>>) {
        if let Some(held) = self.0.get_mut(at) {
            *held = match answer {
                Ok(None) => Held::Absent,
                Ok(Some(value)) => Held::Value(value),
                Err(e) => Held::Failed(crate::live_files::c_string(e.to_string().as_bytes())),
            };
        }
    }
}

/// Where what is known beside a value goes; NULL where nobody asks.
struct Beside {
    timestamp: *mut *mut c_char,
    timestamp_len: *mut usize,
    newer: *mut u8,
}

impl Beside {
    fn wants_timestamp(&self) -> bool {
        !self.timestamp.is_null() && !self.timestamp_len.is_null()
    }

    /// That of the element `at` of the arrays.
    ///
    /// # Safety
    /// They have it.
    unsafe fn at(&self, at: usize) -> Self {
        let (timestamp, timestamp_len) = match self.wants_timestamp() {
            // SAFETY: The caller says that the arrays have the element.
            true => unsafe { (self.timestamp.add(at), self.timestamp_len.add(at)) },
            false => (ptr::null_mut(), ptr::null_mut()),
        };
        let newer = match self.newer.is_null() {
            true => ptr::null_mut(),
            // SAFETY: As above.
            false => unsafe { self.newer.add(at) },
        };
        Self {
            timestamp,
            timestamp_len,
            newer,
        }
    }
}

/// A value with what is asked for beside it. Whether the key was written after the snapshot is told without a value,
/// too.
///
/// # Safety
/// `beside` may be written.
unsafe fn read_beside(
    cf: &Cf,
    options: &ReadOptions,
    key: &[u8],
    beside: &Beside,
) -> Result<Option<Pinned>> {
    // SAFETY: The caller says so.
    if let Some(newer) = unsafe { beside.newer.as_mut() } {
        *newer = 0;
        *newer = cf.is_written_behind_snapshot(key, options)?.into();
    }
    if !beside.wants_timestamp() {
        return cf.get_opt(key, options);
    }
    // SAFETY: The caller says so.
    unsafe { (*beside.timestamp, *beside.timestamp_len) = (ptr::null_mut(), 0) };
    if cf.comparator().timestamp_size() == 0 {
        let value = cf.get_opt(key, options)?;
        if value.is_some() {
            // An empty timestamp, as RocksDB gives one.
            // SAFETY: As above.
            unsafe { *beside.timestamp = malloc_copy(&[]) };
        }
        return Ok(value);
    }
    let found = cf.get_with_timestamp(key, options)?;
    Ok(found.map(|(value, timestamp)| {
        // SAFETY: As above.
        unsafe {
            *beside.timestamp = malloc_copy(&timestamp);
            *beside.timestamp_len = timestamp.len();
        }
        value
    }))
}

macro_rules! readers {
    ($($get:ident, ($($cf:ident: $cf_type:ty)?), |$db:ident| $family:expr;)*) => {
        c_api! {$(
            /// The value, from `malloc`, NULL if there is none; with it, where that is asked for, the timestamp it
            /// was written with, from `malloc`, and whether the key was written after the snapshot of the options.
            fn $get(
                $db: *mut rocksdb_t,
                options: *const rocksdb_readoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                keylen: usize,
                vallen: *mut usize,
                timestamp: *mut *mut c_char,
                timestamp_len: *mut usize,
                newer_version_present: *mut u8,
                errptr: *mut *mut c_char,
            ) -> *mut c_char {
                let _ = $db;
                *vallen = 0;
                let beside = Beside { timestamp, timestamp_len, newer: newer_version_present };
                report(errptr, ptr::null_mut(), || {
                    let key = bytes(key, keylen);
                    let value = read_beside(&$family, &(*options).options, key, &beside)?;
                    Ok(copied(value, vallen))
                })
            }
        )*}
    };
}

readers! {
    rocksdb_get_with_metadata, (), |db| (*db).cf;
    rocksdb_get_cf_with_metadata, (column_family: *mut rocksdb_column_family_handle_t),
        |db| (*column_family).cf;
}

/// Where the answers of a multi-get go: an element for each key.
struct Many {
    values: *mut *mut c_char,
    sizes: *mut usize,
    errs: *mut *mut c_char,
    beside: Beside,
}

/// Reads each key from its own family. All see one point in time, a snapshot, unless the options have one.
///
/// # Safety
/// The arrays of `out` have an element for each key.
unsafe fn read_many<'c>(
    family: impl Fn(usize) -> &'c Cf,
    options: &ReadOptions,
    keys: &[&[u8]],
    out: &Many,
) {
    let Some(_) = keys.first() else { return };
    let mut fixed = options.clone();
    let has_snapshot = options.snapshot.is_some();
    if !has_snapshot {
        fixed.snapshot = Some(family(0).db().snapshot());
    }
    for (at, key) in keys.iter().enumerate() {
        // SAFETY: The caller says so.
        let mut beside = unsafe { out.beside.at(at) };
        // SAFETY: NULL, or the caller's place for this element.
        let newer = unsafe { beside.newer.as_mut() };
        if !has_snapshot && let Some(newer) = newer {
            // Only of a snapshot of the caller's it is told what came after it.
            *newer = 0;
            beside.newer = ptr::null_mut();
        }
        // SAFETY: As above.
        unsafe {
            let mut failed = ptr::null_mut();
            let value = report(&raw mut failed, None, || {
                read_beside(family(at), &fixed, key, &beside)
            });
            *out.values.add(at) = copied(value, out.sizes.add(at));
            *out.errs.add(at) = failed;
        }
    }
}

c_api! {
    /// Values of several keys as `rocksdb_get_with_metadata` gives them. Errors go by key.
    fn rocksdb_multi_get_with_metadata(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        timestamp_list: *mut *mut c_char,
        timestamp_list_sizes: *mut usize,
        newer_version_present: *mut u8,
        errs: *mut *mut c_char,
    ) {
        let keys = keys(num_keys, keys_list, keys_list_sizes);
        let out = Many {
            values: values_list,
            sizes: values_list_sizes,
            errs,
            beside: Beside {
                timestamp: timestamp_list,
                timestamp_len: timestamp_list_sizes,
                newer: newer_version_present,
            },
        };
        let cf = &(*db).cf;
        read_many(|_| cf, &(*options).options, &keys, &out);
    }

    /// Values of several keys, each of its own family, as `rocksdb_get_with_metadata` gives them.
    fn rocksdb_multi_get_cf_with_metadata(
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_families: *const *const rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        timestamp_list: *mut *mut c_char,
        timestamp_list_sizes: *mut usize,
        newer_version_present: *mut u8,
        errs: *mut *mut c_char,
    ) {
        let keys = keys(num_keys, keys_list, keys_list_sizes);
        let families = array(column_families, num_keys);
        let out = Many {
            values: values_list,
            sizes: values_list_sizes,
            errs,
            beside: Beside {
                timestamp: timestamp_list,
                timestamp_len: timestamp_list_sizes,
                newer: newer_version_present,
            },
        };
        read_many(|at| &(*families[at]).cf, &(*options).options, &keys, &out);
    }

    /// Values of keys of one family; one object owns all of them and their errors. Results come in the order of the
    /// keys, which may come in any.
    fn rocksdb_batched_multi_get_pinned_cf(
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: usize,
        keys: *const rocksdb_slice_t,
        _sorted_input: u8,
    ) -> *mut rocksdb_pinnable_multi_get_t {
        let keys: Vec<&[u8]> =
            array(keys, num_keys).iter().map(|k| bytes(k.data, k.size)).collect();
        let absent = keys.iter().map(|_| Held::Absent).collect();
        let mut all = rocksdb_pinnable_multi_get_t(absent);
        read(&(*column_family).cf, &*options, &keys, &mut all);
        boxed(all)
    }

    /// Results that it holds.
    fn rocksdb_pinnable_multi_get_count(
        multi_get: *const rocksdb_pinnable_multi_get_t,
    ) -> usize {
        (&*multi_get).0.len()
    }

    /// The state of a result: 0 if the key has no value, 1 with a value, 2 with an error, 3 after the last. Bytes and
    /// text stay valid until the object is destroyed; what does not apply is NULL and 0.
    fn rocksdb_pinnable_multi_get_result(
        multi_get: *const rocksdb_pinnable_multi_get_t,
        index: usize,
        value: *mut *const c_char,
        value_size: *mut usize,
        error: *mut *const c_char,
        error_size: *mut usize,
    ) -> c_int {
        (*value, *value_size) = (ptr::null(), 0);
        (*error, *error_size) = (ptr::null(), 0);
        match (&*multi_get).0.get(index) {
            None => OUT_OF_BOUNDS,
            Some(Held::Absent) => NOT_FOUND,
            Some(Held::Value(found)) => {
                (*value, *value_size) = (found.as_ptr().cast(), found.len());
                FOUND
            }
            Some(Held::Failed(text)) => {
                (*error, *error_size) = (text.as_ptr(), text.as_bytes().len());
                FAILED
            }
        }
    }
}

destroyers! {
    rocksdb_pinnable_multi_get_destroy(rocksdb_pinnable_multi_get_t);
}
