//! Functions that add updates to batches, alike for batches with and without an index.
//!
//! They return nothing: an update that breaks a limit is not added, as in RocksDB.

use crate::batch::rocksdb_writebatch_t;
use crate::batch_with_index::rocksdb_writebatch_wi_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{array, bytes};
use libc::{c_char, c_void};
use spanlith::Cf;
use spanlith_base::Result;

/// Describes what takes updates; without a family they are those of the default family.
pub(crate) trait Updates {
    /// Sets a key.
    fn put(&mut self, cf: Option<&Cf>, key: &[u8], value: &[u8]) -> Result<()>;
    /// Adds a merge operand.
    fn merge(&mut self, cf: Option<&Cf>, key: &[u8], operand: &[u8]) -> Result<()>;
    /// Removes a key.
    fn delete(&mut self, cf: Option<&Cf>, key: &[u8]) -> Result<()>;
    /// Removes a key that was put at most once since its last removal.
    fn single_delete(&mut self, cf: Option<&Cf>, key: &[u8]) -> Result<()>;
    /// Removes a range of keys.
    fn delete_range(&mut self, cf: Option<&Cf>, start: &[u8], end: &[u8]) -> Result<()>;
}

/// The bytes of several parts as one.
///
/// # Safety
/// The arrays have `count` elements, and each part its length.
pub(crate) unsafe fn joined(
    count: i32,
    parts: *const *const c_char,
    sizes: *const usize,
) -> Vec<u8> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: The caller says so.
    unsafe {
        let (parts, sizes) = (array(parts, count), array(sizes, count));
        parts
            .iter()
            .zip(sizes)
            .flat_map(|(&p, &n)| bytes(p, n))
            .copied()
            .collect()
    }
}

/// Drops the outcome of adding an update: the function has no way to report it, and the batch is
/// unchanged if it failed.
#[inline]
pub(crate) fn add(_: Result<()>) {}

/// State, family: bytes of its timestamps, `SIZE_MAX` for an unknown family.
pub type TimestampSizeFn = unsafe extern "C" fn(*mut c_void, u32) -> usize;

/// How long the timestamps of families are, as a C function tells.
///
/// # Safety
/// `get` may be called with `state`.
pub(crate) unsafe fn timestamp_sizes(
    state: *mut c_void,
    get: TimestampSizeFn,
) -> impl Fn(u32) -> Option<usize> {
    // SAFETY: The caller says so.
    move |cf| match unsafe { get(state, cf) } {
        usize::MAX => None,
        size => Some(size),
    }
}

/// The family of a handle.
///
/// # Safety
/// `handle` is NULL or valid.
pub(crate) unsafe fn family<'a>(handle: *mut rocksdb_column_family_handle_t) -> Option<&'a Cf> {
    // SAFETY: The caller says so.
    unsafe { handle.as_ref() }.map(|h| &*h.cf)
}

macro_rules! updates {
    ($($handle:ty:
        $put:ident, $putv:ident, $merge:ident, $mergev:ident, $delete:ident, $deletev:ident,
        $single_delete:ident, $delete_range:ident, $delete_rangev:ident,
        ($($cf:ident: $cf_type:ty)?), $family:expr;
    )*) => {
        c_api! {$(
            /// Sets a key.
            fn $put(
                batch: *mut $handle,
                $($cf: $cf_type,)?
                key: *const c_char,
                klen: usize,
                val: *const c_char,
                vlen: usize,
            ) {
                add((*batch).put($family, bytes(key, klen), bytes(val, vlen)));
            }

            /// Sets one key, given in parts, to one value, given in parts.
            fn $putv(
                batch: *mut $handle,
                $($cf: $cf_type,)?
                num_keys: i32,
                keys_list: *const *const c_char,
                keys_list_sizes: *const usize,
                num_values: i32,
                values_list: *const *const c_char,
                values_list_sizes: *const usize,
            ) {
                let key = joined(num_keys, keys_list, keys_list_sizes);
                let value = joined(num_values, values_list, values_list_sizes);
                add((*batch).put($family, &key, &value));
            }

            /// Adds a merge operand.
            fn $merge(
                batch: *mut $handle,
                $($cf: $cf_type,)?
                key: *const c_char,
                klen: usize,
                val: *const c_char,
                vlen: usize,
            ) {
                add((*batch).merge($family, bytes(key, klen), bytes(val, vlen)));
            }

            /// Adds one operand, given in parts, to one key, given in parts.
            fn $mergev(
                batch: *mut $handle,
                $($cf: $cf_type,)?
                num_keys: i32,
                keys_list: *const *const c_char,
                keys_list_sizes: *const usize,
                num_values: i32,
                values_list: *const *const c_char,
                values_list_sizes: *const usize,
            ) {
                let key = joined(num_keys, keys_list, keys_list_sizes);
                let operand = joined(num_values, values_list, values_list_sizes);
                add((*batch).merge($family, &key, &operand));
            }

            /// Removes a key.
            fn $delete(
                batch: *mut $handle,
                $($cf: $cf_type,)?
                key: *const c_char,
                klen: usize,
            ) {
                add((*batch).delete($family, bytes(key, klen)));
            }

            /// Removes one key, given in parts.
            fn $deletev(
                batch: *mut $handle,
                $($cf: $cf_type,)?
                num_keys: i32,
                keys_list: *const *const c_char,
                keys_list_sizes: *const usize,
            ) {
                let key = joined(num_keys, keys_list, keys_list_sizes);
                add((*batch).delete($family, &key));
            }

            /// Removes a key that was put at most once since its last removal.
            fn $single_delete(
                batch: *mut $handle,
                $($cf: $cf_type,)?
                key: *const c_char,
                klen: usize,
            ) {
                add((*batch).single_delete($family, bytes(key, klen)));
            }

            /// Removes a range of keys; a batch with an index refuses it when it is written.
            fn $delete_range(
                batch: *mut $handle,
                $($cf: $cf_type,)?
                start_key: *const c_char,
                start_key_len: usize,
                end_key: *const c_char,
                end_key_len: usize,
            ) {
                let (start, end) = (bytes(start_key, start_key_len), bytes(end_key, end_key_len));
                add((*batch).delete_range($family, start, end));
            }

            /// Removes one range, its ends given in parts; a batch with an index refuses it when it is
            /// written.
            fn $delete_rangev(
                batch: *mut $handle,
                $($cf: $cf_type,)?
                num_keys: i32,
                start_keys_list: *const *const c_char,
                start_keys_list_sizes: *const usize,
                end_keys_list: *const *const c_char,
                end_keys_list_sizes: *const usize,
            ) {
                let start = joined(num_keys, start_keys_list, start_keys_list_sizes);
                let end = joined(num_keys, end_keys_list, end_keys_list_sizes);
                add((*batch).delete_range($family, &start, &end));
            }
        )*}
    };
}

updates! {
    rocksdb_writebatch_t:
        rocksdb_writebatch_put, rocksdb_writebatch_putv, rocksdb_writebatch_merge,
        rocksdb_writebatch_mergev, rocksdb_writebatch_delete, rocksdb_writebatch_deletev,
        rocksdb_writebatch_singledelete, rocksdb_writebatch_delete_range,
        rocksdb_writebatch_delete_rangev, (), None;
    rocksdb_writebatch_t:
        rocksdb_writebatch_put_cf, rocksdb_writebatch_putv_cf, rocksdb_writebatch_merge_cf,
        rocksdb_writebatch_mergev_cf, rocksdb_writebatch_delete_cf,
        rocksdb_writebatch_deletev_cf, rocksdb_writebatch_singledelete_cf,
        rocksdb_writebatch_delete_range_cf, rocksdb_writebatch_delete_rangev_cf,
        (column_family: *mut rocksdb_column_family_handle_t), family(column_family);
    rocksdb_writebatch_wi_t:
        rocksdb_writebatch_wi_put, rocksdb_writebatch_wi_putv, rocksdb_writebatch_wi_merge,
        rocksdb_writebatch_wi_mergev, rocksdb_writebatch_wi_delete, rocksdb_writebatch_wi_deletev,
        rocksdb_writebatch_wi_singledelete, rocksdb_writebatch_wi_delete_range,
        rocksdb_writebatch_wi_delete_rangev, (), None;
    rocksdb_writebatch_wi_t:
        rocksdb_writebatch_wi_put_cf, rocksdb_writebatch_wi_putv_cf, rocksdb_writebatch_wi_merge_cf,
        rocksdb_writebatch_wi_mergev_cf, rocksdb_writebatch_wi_delete_cf,
        rocksdb_writebatch_wi_deletev_cf, rocksdb_writebatch_wi_singledelete_cf,
        rocksdb_writebatch_wi_delete_range_cf, rocksdb_writebatch_wi_delete_rangev_cf,
        (column_family: *mut rocksdb_column_family_handle_t), family(column_family);
}
