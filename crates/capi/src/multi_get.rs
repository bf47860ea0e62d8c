//! Reads of many keys at one point in time.

use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{array, boxed, bytes, malloc_error, rocksdb_slice_t};
use crate::get::copied;
use crate::pinned::rocksdb_pinnableslice_t;
use crate::read_options::rocksdb_readoptions_t;
use libc::c_char;
use spanlith::{Cf, Pinned};
use spanlith_base::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

type Answer = Result<Option<Pinned>>;

/// Where answers go.
pub(crate) trait Answers {
    /// Takes the answer of a key.
    ///
    /// # Safety
    /// The arrays that it fills have a place for that key.
    unsafe fn give(&mut self, at: usize, answer: Answer);
}

/// Values copied with `malloc`.
pub(crate) struct Copies {
    pub(crate) values: *mut *mut c_char,
    pub(crate) sizes: *mut usize,
    pub(crate) errs: *mut *mut c_char,
}

impl Answers for Copies {
    unsafe fn give(&mut self, at: usize, answer: Answer) {
        let (value, err) = match answer {
            Ok(value) => (value, ptr::null_mut()),
            Err(e) => (None, malloc_error(&e)),
        };
        // SAFETY: The caller says so.
        unsafe {
            *self.values.add(at) = copied(value, self.sizes.add(at));
            *self.errs.add(at) = err;
        }
    }
}

/// Values where they are.
struct Pins {
    values: *mut *mut rocksdb_pinnableslice_t,
    errs: *mut *mut c_char,
}

impl Answers for Pins {
    #[inline]
    unsafe fn give(&mut self, at: usize, answer: Answer) {
        let (value, err) = match answer {
            Ok(Some(value)) => (boxed(rocksdb_pinnableslice_t(value)), ptr::null_mut()),
            Ok(None) => (ptr::null_mut(), ptr::null_mut()),
            Err(e) => (ptr::null_mut(), malloc_error(&e)),
        };
        // SAFETY: The caller says so.
        unsafe {
            *self.values.add(at) = value;
            *self.errs.add(at) = err;
        }
    }
}

/// Reads keys of one family. A panic is every key's error; values that were given before are lost.
///
/// # Safety
/// What `answers` fills has a place for each key.
pub(crate) unsafe fn read(
    cf: &Cf,
    options: &rocksdb_readoptions_t,
    keys: &[&[u8]],
    answers: &mut impl Answers,
) {
    let read = || {
        // SAFETY: The caller says so.
        cf.multi_get_with(keys, &options.options, &mut |at, answer| unsafe {
            answers.give(at, answer);
        });
    };
    if catch_unwind(AssertUnwindSafe(read)).is_err() {
        // SAFETY: As above; places that were not written yet may hold anything, so all are written.
        (0..keys.len()).for_each(|at| unsafe { answers.give(at, Err(panicked())) });
    }
}

#[cold]
pub(crate) fn panicked() -> Error {
    Error::aborted("panic in multi-get")
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

/// Reads each key from its own family, all at one point in time.
fn read_each(cfs: &[&Cf], keys: &[&[u8]], options: &spanlith::ReadOptions) -> Vec<Answer> {
    let Some(first) = cfs.first() else {
        return Vec::new();
    };
    let pairs: Vec<(&Cf, &[u8])> = cfs.iter().copied().zip(keys.iter().copied()).collect();
    catch_unwind(AssertUnwindSafe(|| {
        first.db().multi_get_opt(&pairs, options)
    }))
    .unwrap_or_else(|_| keys.iter().map(|_| Err(panicked())).collect())
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
        let keys = keys(num_keys, keys_list, keys_list_sizes);
        let mut copies = Copies { values: values_list, sizes: values_list_sizes, errs };
        read(&(*db).cf, &*options, &keys, &mut copies);
    }

    /// Values of keys, each of its own family, from `malloc`.
    fn rocksdb_multi_get_cf(
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_families: *const *const rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    ) {
        let keys = keys(num_keys, keys_list, keys_list_sizes);
        let cfs: Vec<&Cf> =
            array(column_families, num_keys).iter().map(|handle| &*(**handle).cf).collect();
        let mut copies = Copies { values: values_list, sizes: values_list_sizes, errs };
        let all = read_each(&cfs, &keys, &(*options).options);
        all.into_iter().enumerate().for_each(|(at, answer)| copies.give(at, answer));
    }

    /// Values of keys of one family, where they are.
    fn rocksdb_batched_multi_get_cf(
        _db: *mut rocksdb_t,
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
        read(cf, &*options, &keys, &mut Pins { values, errs });
    }

    /// Values of keys of one family, where they are.
    fn rocksdb_batched_multi_get_cf_slice(
        _db: *mut rocksdb_t,
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
        read(cf, &*options, &keys, &mut Pins { values, errs });
    }
}
