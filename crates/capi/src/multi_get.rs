//! Reads of many keys at one point in time.

use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{array, boxed, bytes, malloc_error, rocksdb_slice_t};
use crate::get::copied;
use crate::pinned::rocksdb_pinnableslice_t;
use crate::read_options::rocksdb_readoptions_t;
use libc::c_char;
use spanlith::{Cf, Pinned};
use spanlith_base::stats::{Histogram, Statistics, Ticker};
use spanlith_base::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

type Answer = Result<Option<Pinned>>;

#[cold]
#[inline(never)]
fn count(statistics: &Statistics, answers: &[Answer]) {
    let found = answers.iter().filter_map(|a| a.as_ref().ok()?.as_ref());
    let (n, bytes) = found.fold((0, 0), |(n, bytes), v| (n + 1, bytes + v.len() as u64));
    statistics.add(Ticker::NumberMultigetGet, 1);
    statistics.add(Ticker::NumberMultigetKeysRead, answers.len() as u64);
    statistics.add(Ticker::NumberMultigetKeysFound, n);
    statistics.add(Ticker::NumberMultigetBytesRead, bytes);
    statistics.record(Histogram::BytesPerMultiget, bytes);
}

/// Answers in the order of the keys. A panic is every key's error.
fn answers(
    db: &rocksdb_t,
    options: &rocksdb_readoptions_t,
    keys: &[&[u8]],
    read: impl FnOnce(&spanlith::ReadOptions) -> Vec<Answer>,
) -> Vec<Answer> {
    let all = |e: Error| keys.iter().map(|_| Err(e.clone())).collect();
    let options = match options.for_get() {
        Ok(options) => options,
        Err(e) => return all(e),
    };
    let answers = catch_unwind(AssertUnwindSafe(|| read(options)))
        .unwrap_or_else(|_| all(Error::aborted("panic in multi-get")));
    if let Some(statistics) = &db.statistics {
        count(statistics, &answers);
    }
    answers
}

/// # Safety
/// The arrays have `count` elements, and each key its length.
pub(crate) unsafe fn keys<'a>(
    count: usize,
    list: *const *const c_char,
    sizes: *const usize,
) -> Vec<&'a [u8]> {
    // SAFETY: The caller says so.
    unsafe {
        let (list, sizes) = (array(list, count), array(sizes, count));
        list.iter()
            .zip(sizes)
            .map(|(&data, &len)| bytes(data, len))
            .collect()
    }
}

/// Copies answers from `malloc` into the caller's arrays.
///
/// # Safety
/// The arrays have an element for each answer.
unsafe fn give_copies(
    answers: Vec<Answer>,
    values: *mut *mut c_char,
    sizes: *mut usize,
    errs: *mut *mut c_char,
) {
    for (at, answer) in answers.into_iter().enumerate() {
        // SAFETY: The caller says so.
        unsafe {
            let (value, err) = match answer {
                Ok(value) => (value, ptr::null_mut()),
                Err(e) => (None, malloc_error(&e)),
            };
            *values.add(at) = copied(value, sizes.add(at));
            *errs.add(at) = err;
        }
    }
}

/// Gives answers as pinned values.
///
/// # Safety
/// The arrays have an element for each answer.
unsafe fn give_pinned(
    answers: Vec<Answer>,
    values: *mut *mut rocksdb_pinnableslice_t,
    errs: *mut *mut c_char,
) {
    for (at, answer) in answers.into_iter().enumerate() {
        let (value, err) = match answer {
            Ok(Some(value)) => (boxed(rocksdb_pinnableslice_t(value)), ptr::null_mut()),
            Ok(None) => (ptr::null_mut(), ptr::null_mut()),
            Err(e) => (ptr::null_mut(), malloc_error(&e)),
        };
        // SAFETY: The caller says so.
        unsafe {
            *values.add(at) = value;
            *errs.add(at) = err;
        }
    }
}

/// Reads each key from its own family, all at one point in time.
fn get_each(cfs: &[&Cf], keys: &[&[u8]], options: &spanlith::ReadOptions) -> Vec<Answer> {
    let Some(first) = cfs.first() else {
        return Vec::new();
    };
    if cfs.iter().all(|cf| cf.id() == first.id()) {
        return first.multi_get_opt(keys, options);
    }
    let mut options = options.clone();
    options
        .snapshot
        .get_or_insert_with(|| first.db().snapshot());
    cfs.iter()
        .zip(keys)
        .map(|(cf, key)| cf.get_opt(key, &options))
        .collect()
}

c_api! {
    /// Values of keys of the default family, from `malloc`.
    fn rocksdb_multi_get(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    ) {
        let (db, keys) = (&*db, keys(num_keys, keys_list, keys_list_sizes));
        let all = answers(db, &*options, &keys, |o| db.cf.multi_get_opt(&keys, o));
        give_copies(all, values_list, values_list_sizes, errs);
    }

    /// Values of keys, each of its own family, from `malloc`.
    fn rocksdb_multi_get_cf(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_families: *const *const rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    ) {
        let (db, keys) = (&*db, keys(num_keys, keys_list, keys_list_sizes));
        let cfs: Vec<&Cf> =
            array(column_families, num_keys).iter().map(|handle| &(**handle).cf).collect();
        let all = answers(db, &*options, &keys, |o| get_each(&cfs, &keys, o));
        give_copies(all, values_list, values_list_sizes, errs);
    }

    /// Values of keys of one family, where they are.
    fn rocksdb_batched_multi_get_cf(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values: *mut *mut rocksdb_pinnableslice_t,
        errs: *mut *mut c_char,
        _sorted_input: u8,
    ) {
        let keys = keys(num_keys, keys_list, keys_list_sizes);
        let cf = &(*column_family).cf;
        let all = answers(&*db, &*options, &keys, |o| cf.multi_get_opt(&keys, o));
        give_pinned(all, values, errs);
    }

    /// Values of keys of one family, where they are.
    fn rocksdb_batched_multi_get_cf_slice(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const rocksdb_slice_t,
        values: *mut *mut rocksdb_pinnableslice_t,
        errs: *mut *mut c_char,
        _sorted_input: u8,
    ) {
        let keys: Vec<&[u8]> =
            array(keys_list, num_keys).iter().map(|k| bytes(k.data, k.size)).collect();
        let cf = &(*column_family).cf;
        let all = answers(&*db, &*options, &keys, |o| cf.multi_get_opt(&keys, o));
        give_pinned(all, values, errs);
    }
}
