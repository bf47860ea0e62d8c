//! Reads and writes with user-defined timestamps, and the history they keep.

use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{array, bytes, malloc_copy, optional_bytes, report};
use crate::get::copied;
use crate::multi_get::{Answers, Copies, panicked};
use crate::read_options::rocksdb_readoptions_t;
use crate::write_options::rocksdb_writeoptions_t;
use libc::c_char;
use spanlith::{Cf, ReadOptions};
use spanlith_base::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

macro_rules! timed {
    ($(
        $put:ident, $delete:ident, $single_delete:ident, $get:ident,
        ($($cf:ident: $cf_type:ty)?), |$db:ident| $family:expr;
    )*) => {
        c_api! {$(
            /// Sets a key as of a timestamp.
            fn $put(
                $db: *mut rocksdb_t,
                options: *const rocksdb_writeoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                keylen: usize,
                ts: *const c_char,
                tslen: usize,
                val: *const c_char,
                vallen: usize,
                errptr: *mut *mut c_char,
            ) {
                let _ = $db;
                report(errptr, (), || {
                    let (key, value) = (bytes(key, keylen), bytes(val, vallen));
                    $family.put_at(key, bytes(ts, tslen), value, &(*options).options)
                });
            }

            /// Removes a key as of a timestamp.
            fn $delete(
                $db: *mut rocksdb_t,
                options: *const rocksdb_writeoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                keylen: usize,
                ts: *const c_char,
                tslen: usize,
                errptr: *mut *mut c_char,
            ) {
                let _ = $db;
                report(errptr, (), || {
                    let (key, ts) = (bytes(key, keylen), bytes(ts, tslen));
                    $family.delete_at(key, ts, &(*options).options)
                });
            }

            /// Removes a key as of a timestamp that was put at most once since its last removal.
            fn $single_delete(
                $db: *mut rocksdb_t,
                options: *const rocksdb_writeoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                keylen: usize,
                ts: *const c_char,
                tslen: usize,
                errptr: *mut *mut c_char,
            ) {
                let _ = $db;
                report(errptr, (), || {
                    let (key, ts) = (bytes(key, keylen), bytes(ts, tslen));
                    $family.single_delete_at(key, ts, &(*options).options)
                });
            }

            /// The value as of the timestamp of the options, from `malloc`; NULL if there is none.
            /// The timestamp it was written with, from `malloc`, is given only with a value.
            fn $get(
                $db: *mut rocksdb_t,
                options: *const rocksdb_readoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                keylen: usize,
                vallen: *mut usize,
                ts: *mut *mut c_char,
                tslen: *mut usize,
                errptr: *mut *mut c_char,
            ) -> *mut c_char {
                let _ = $db;
                (*vallen, *tslen) = (0, 0);
                report(errptr, ptr::null_mut(), || {
                    let options = &(*options).options;
                    let found = $family.get_with_timestamp(bytes(key, keylen), options)?;
                    let Some((value, timestamp)) = found else {
                        return Ok(ptr::null_mut());
                    };
                    (*ts, *tslen) = (malloc_copy(&timestamp), timestamp.len());
                    Ok(copied(Some(value), vallen))
                })
            }
        )*}
    };
}

timed! {
    rocksdb_put_with_ts, rocksdb_delete_with_ts, rocksdb_singledelete_with_ts,
        rocksdb_get_with_ts, (), |db| (*db).cf;
    rocksdb_put_cf_with_ts, rocksdb_delete_cf_with_ts, rocksdb_singledelete_cf_with_ts,
        rocksdb_get_cf_with_ts,
        (column_family: *mut rocksdb_column_family_handle_t), |db| (*column_family).cf;
}

/// Where the answers of a multi-get go: an element for each key.
struct TimedCopies {
    copies: Copies,
    timestamps: *mut *mut c_char,
    sizes: *mut usize,
}

/// Reads each key from its own family, all at one point in time. A panic is every key's error.
///
/// # Safety
/// The arrays of `out` have an element for each key.
unsafe fn get_each(cfs: &[&Cf], keys: &[&[u8]], options: &ReadOptions, out: &mut TimedCopies) {
    let Some(first) = cfs.first() else { return };
    let pairs: Vec<(&Cf, &[u8])> = cfs.iter().copied().zip(keys.iter().copied()).collect();
    let read = || first.db().multi_get_with_timestamps(&pairs, options);
    let answers = catch_unwind(AssertUnwindSafe(read));
    let answers = answers.unwrap_or_else(|_| keys.iter().map(|_| Err(panicked())).collect());
    for (at, answer) in answers.into_iter().enumerate() {
        let (value, timestamp) = answer.map(Option::unzip).map_or_else(
            |e| (Err(e), None),
            |(value, timestamp)| (Ok(value), timestamp),
        );
        let copy = timestamp.as_deref().map_or(ptr::null_mut(), malloc_copy);
        // SAFETY: The caller says so.
        unsafe {
            out.copies.give(at, value);
            *out.timestamps.add(at) = copy;
            *out.sizes.add(at) = timestamp.map_or(0, |t| t.len());
        }
    }
}

c_api! {
    /// Values of several keys with the timestamps they were written with. Errors go by key.
    fn rocksdb_multi_get_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        timestamp_list: *mut *mut c_char,
        timestamp_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    ) {
        let keys = crate::multi_get::keys(num_keys, keys_list, keys_list_sizes);
        let cfs: Vec<&Cf> = keys.iter().map(|_| &(*db).cf).collect();
        let copies = Copies { values: values_list, sizes: values_list_sizes, errs };
        let (timestamps, sizes) = (timestamp_list, timestamp_list_sizes);
        let mut out = TimedCopies { copies, timestamps, sizes };
        get_each(&cfs, &keys, &(*options).options, &mut out);
    }

    /// As `rocksdb_multi_get_with_ts`, each key from its own family.
    fn rocksdb_multi_get_cf_with_ts(
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_families: *const *const rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        timestamps_list: *mut *mut c_char,
        timestamps_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    ) {
        let keys = crate::multi_get::keys(num_keys, keys_list, keys_list_sizes);
        let handles = array(column_families, num_keys);
        let cfs: Vec<&Cf> = handles.iter().map(|&cf| &*(*cf).cf).collect();
        let copies = Copies { values: values_list, sizes: values_list_sizes, errs };
        let (timestamps, sizes) = (timestamps_list, timestamps_list_sizes);
        let mut out = TimedCopies { copies, timestamps, sizes };
        get_each(&cfs, &keys, &(*options).options, &mut out);
    }

    /// Gives up history before a timestamp.
    fn rocksdb_increase_full_history_ts_low(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        ts_low: *const c_char,
        ts_lowlen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            (*column_family).cf.increase_full_history_ts_low(bytes(ts_low, ts_lowlen))
        });
    }

    /// The timestamp before which history was given up, from `malloc`; empty if none was.
    fn rocksdb_get_full_history_ts_low(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        ts_lowlen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        *ts_lowlen = 0;
        report(errptr, ptr::null_mut(), || {
            let cf = &(*column_family).cf;
            if cf.comparator().timestamp_size() == 0 {
                let text = "Timestamp is not enabled in this column family";
                return Err(Error::invalid_argument(text));
            }
            let low = cf.full_history_ts_low();
            *ts_lowlen = low.len();
            Ok(malloc_copy(&low))
        })
    }

    /// Reads see nothing later than this timestamp, which is copied; NULL means none.
    fn rocksdb_readoptions_set_timestamp(
        options: *mut rocksdb_readoptions_t,
        ts: *const c_char,
        tslen: usize,
    ) {
        (*options).options.timestamp = optional_bytes(ts, tslen).map(<[u8]>::to_vec);
    }

    /// Iterators show all versions from this timestamp on, deletions too; it is copied, and NULL
    /// shows the newest only.
    fn rocksdb_readoptions_set_iter_start_ts(
        options: *mut rocksdb_readoptions_t,
        ts: *const c_char,
        tslen: usize,
    ) {
        (*options).options.start_timestamp = optional_bytes(ts, tslen).map(<[u8]>::to_vec);
    }
}
