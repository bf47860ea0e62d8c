//! `rocksdb_writebatch_t`.
//!
//! The functions that add updates return nothing: an update that breaks a limit is not added, as in
//! RocksDB.

use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{array, boxed, bytes, report};
use libc::{c_char, c_void};
use spanlith::Cf;
use spanlith_base::{Error, Result};
use spanlith_wal::{BATCH_HEADER_SIZE, WriteBatch};

/// Updates applied together or not at all; reusable.
#[derive(Default)]
pub struct rocksdb_writebatch_t {
    pub(crate) batch: WriteBatch,
    /// Bytes that are shorter than a header: kept to be shown, refused when written.
    short: Option<Box<[u8]>>,
    /// A setting that the engine does not have: refused when written.
    refused: Option<Error>,
}

impl From<WriteBatch> for rocksdb_writebatch_t {
    fn from(batch: WriteBatch) -> Self {
        Self {
            batch,
            ..Self::default()
        }
    }
}

impl rocksdb_writebatch_t {
    /// The batch, if it may be written.
    #[inline]
    pub(crate) fn checked(&self) -> Result<&WriteBatch> {
        if self.short.is_some() {
            return Err(Error::corruption("malformed WriteBatch (too small)"));
        }
        match &self.refused {
            Some(e) => Err(e.clone()),
            None => Ok(&self.batch),
        }
    }

    /// The batch, to be changed.
    #[inline]
    fn changed(&mut self) -> &mut WriteBatch {
        self.short = None;
        &mut self.batch
    }

    /// RocksDB's representation.
    pub(crate) fn rep(&self) -> &[u8] {
        self.short
            .as_deref()
            .unwrap_or_else(|| self.batch.as_bytes())
    }
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

/// Whether a timestamp fits a family.
fn check_timestamp(cf: &Cf, ts: &[u8]) -> Result<()> {
    match cf.comparator().timestamp_size() {
        size if size == ts.len() => Ok(()),
        _ => Err(Error::invalid_argument("timestamp size mismatch")),
    }
}

c_api! {
    /// An empty batch.
    fn rocksdb_writebatch_create() -> *mut rocksdb_writebatch_t {
        boxed(rocksdb_writebatch_t::default())
    }

    /// A batch of RocksDB's representation; damage shows when it is written.
    fn rocksdb_writebatch_create_from(
        rep: *const c_char,
        size: usize,
    ) -> *mut rocksdb_writebatch_t {
        let rep = bytes(rep, size);
        boxed(rocksdb_writebatch_t {
            batch: WriteBatch::from_rep(rep),
            short: (size < BATCH_HEADER_SIZE).then(|| rep.into()),
            refused: None,
        })
    }

    /// An empty batch with room, and a limit (0: none). Batches with checksums or timestamps are
    /// refused when they are written.
    fn rocksdb_writebatch_create_with_params(
        reserved_bytes: usize,
        max_bytes: usize,
        protection_bytes_per_key: usize,
        default_cf_ts_sz: usize,
    ) -> *mut rocksdb_writebatch_t {
        let refused = if protection_bytes_per_key != 0 {
            Some(Error::not_supported("protection_bytes_per_key"))
        } else if default_cf_ts_sz != 0 {
            Some(Error::not_supported("default_cf_ts_sz"))
        } else {
            None
        };
        let batch = WriteBatch::with_limits(reserved_bytes.min(1 << 30), max_bytes);
        boxed(rocksdb_writebatch_t { batch, short: None, refused })
    }

    /// Forgets all updates.
    fn rocksdb_writebatch_clear(batch: *mut rocksdb_writebatch_t) {
        (*batch).changed().clear();
    }

    /// Number of updates.
    fn rocksdb_writebatch_count(batch: *mut rocksdb_writebatch_t) -> i32 {
        (*batch).batch.count() as i32
    }

    /// RocksDB's representation, lent until the next change.
    fn rocksdb_writebatch_data(
        batch: *mut rocksdb_writebatch_t,
        size: *mut usize,
    ) -> *const c_char {
        let rep = (*batch).rep();
        *size = rep.len();
        rep.as_ptr().cast()
    }

    /// Sets a key.
    fn rocksdb_writebatch_put(
        batch: *mut rocksdb_writebatch_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
    ) {
        add((*batch).changed().put(bytes(key, klen), bytes(val, vlen)));
    }

    /// Removes a key.
    fn rocksdb_writebatch_delete(
        batch: *mut rocksdb_writebatch_t,
        key: *const c_char,
        klen: usize,
    ) {
        add((*batch).changed().delete(bytes(key, klen)));
    }

    /// Removes a key that was put at most once since its last removal.
    fn rocksdb_writebatch_singledelete(
        batch: *mut rocksdb_writebatch_t,
        key: *const c_char,
        klen: usize,
    ) {
        add((*batch).changed().single_delete(bytes(key, klen)));
    }

    /// Adds a merge operand.
    fn rocksdb_writebatch_merge(
        batch: *mut rocksdb_writebatch_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
    ) {
        add((*batch).changed().merge(bytes(key, klen), bytes(val, vlen)));
    }

    /// Removes a range of keys.
    fn rocksdb_writebatch_delete_range(
        batch: *mut rocksdb_writebatch_t,
        start_key: *const c_char,
        start_key_len: usize,
        end_key: *const c_char,
        end_key_len: usize,
    ) {
        let (start, end) = (bytes(start_key, start_key_len), bytes(end_key, end_key_len));
        add((*batch).changed().delete_range(start, end));
    }

    /// Sets a key.
    fn rocksdb_writebatch_put_cf(
        batch: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
    ) {
        let cf = (*column_family).cf.id();
        add((*batch).changed().put_cf(cf, bytes(key, klen), bytes(val, vlen)));
    }

    /// Removes a key.
    fn rocksdb_writebatch_delete_cf(
        batch: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
    ) {
        add((*batch).changed().delete_cf((*column_family).cf.id(), bytes(key, klen)));
    }

    /// Removes a key that was put at most once since its last removal.
    fn rocksdb_writebatch_singledelete_cf(
        batch: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
    ) {
        add((*batch).changed().single_delete_cf((*column_family).cf.id(), bytes(key, klen)));
    }

    /// Adds a merge operand.
    fn rocksdb_writebatch_merge_cf(
        batch: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
    ) {
        let cf = (*column_family).cf.id();
        add((*batch).changed().merge_cf(cf, bytes(key, klen), bytes(val, vlen)));
    }

    /// Removes a range of keys.
    fn rocksdb_writebatch_delete_range_cf(
        batch: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        start_key: *const c_char,
        start_key_len: usize,
        end_key: *const c_char,
        end_key_len: usize,
    ) {
        let (start, end) = (bytes(start_key, start_key_len), bytes(end_key, end_key_len));
        add((*batch).changed().delete_range_cf((*column_family).cf.id(), start, end));
    }

    /// Sets one key, given in parts, to one value, given in parts.
    fn rocksdb_writebatch_putv(
        batch: *mut rocksdb_writebatch_t,
        num_keys: i32,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        num_values: i32,
        values_list: *const *const c_char,
        values_list_sizes: *const usize,
    ) {
        let key = joined(num_keys, keys_list, keys_list_sizes);
        let value = joined(num_values, values_list, values_list_sizes);
        add((*batch).changed().put(&key, &value));
    }

    /// Sets one key, given in parts, to one value, given in parts.
    fn rocksdb_writebatch_putv_cf(
        batch: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: i32,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        num_values: i32,
        values_list: *const *const c_char,
        values_list_sizes: *const usize,
    ) {
        let key = joined(num_keys, keys_list, keys_list_sizes);
        let value = joined(num_values, values_list, values_list_sizes);
        add((*batch).changed().put_cf((*column_family).cf.id(), &key, &value));
    }

    /// Adds one operand, given in parts, to one key, given in parts.
    fn rocksdb_writebatch_mergev(
        batch: *mut rocksdb_writebatch_t,
        num_keys: i32,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        num_values: i32,
        values_list: *const *const c_char,
        values_list_sizes: *const usize,
    ) {
        let key = joined(num_keys, keys_list, keys_list_sizes);
        let operand = joined(num_values, values_list, values_list_sizes);
        add((*batch).changed().merge(&key, &operand));
    }

    /// Adds one operand, given in parts, to one key, given in parts.
    fn rocksdb_writebatch_mergev_cf(
        batch: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: i32,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        num_values: i32,
        values_list: *const *const c_char,
        values_list_sizes: *const usize,
    ) {
        let key = joined(num_keys, keys_list, keys_list_sizes);
        let operand = joined(num_values, values_list, values_list_sizes);
        add((*batch).changed().merge_cf((*column_family).cf.id(), &key, &operand));
    }

    /// Removes one key, given in parts.
    fn rocksdb_writebatch_deletev(
        batch: *mut rocksdb_writebatch_t,
        num_keys: i32,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
    ) {
        add((*batch).changed().delete(&joined(num_keys, keys_list, keys_list_sizes)));
    }

    /// Removes one key, given in parts.
    fn rocksdb_writebatch_deletev_cf(
        batch: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: i32,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
    ) {
        let key = joined(num_keys, keys_list, keys_list_sizes);
        add((*batch).changed().delete_cf((*column_family).cf.id(), &key));
    }

    /// Removes one range, its ends given in parts.
    fn rocksdb_writebatch_delete_rangev(
        batch: *mut rocksdb_writebatch_t,
        num_keys: i32,
        start_keys_list: *const *const c_char,
        start_keys_list_sizes: *const usize,
        end_keys_list: *const *const c_char,
        end_keys_list_sizes: *const usize,
    ) {
        let start = joined(num_keys, start_keys_list, start_keys_list_sizes);
        let end = joined(num_keys, end_keys_list, end_keys_list_sizes);
        add((*batch).changed().delete_range(&start, &end));
    }

    /// Removes one range, its ends given in parts.
    fn rocksdb_writebatch_delete_rangev_cf(
        batch: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: i32,
        start_keys_list: *const *const c_char,
        start_keys_list_sizes: *const usize,
        end_keys_list: *const *const c_char,
        end_keys_list_sizes: *const usize,
    ) {
        let start = joined(num_keys, start_keys_list, start_keys_list_sizes);
        let end = joined(num_keys, end_keys_list, end_keys_list_sizes);
        add((*batch).changed().delete_range_cf((*column_family).cf.id(), &start, &end));
    }

    /// Adds a note that goes to the log only.
    fn rocksdb_writebatch_put_log_data(
        batch: *mut rocksdb_writebatch_t,
        blob: *const c_char,
        len: usize,
    ) {
        add((*batch).changed().put_log_data(bytes(blob, len)));
    }

    /// Sets a key at a timestamp.
    fn rocksdb_writebatch_put_cf_with_ts(
        batch: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        ts: *const c_char,
        tslen: usize,
        val: *const c_char,
        vlen: usize,
    ) {
        let (cf, ts) = (&(*column_family).cf, bytes(ts, tslen));
        let (key, value) = (bytes(key, klen), bytes(val, vlen));
        add(check_timestamp(cf, ts).and_then(|()| {
            (*batch).changed().put_cf_at(cf.id(), key, ts, value)
        }));
    }

    /// Removes a key as of a timestamp.
    fn rocksdb_writebatch_delete_cf_with_ts(
        batch: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        ts: *const c_char,
        tslen: usize,
    ) {
        let (cf, ts) = (&(*column_family).cf, bytes(ts, tslen));
        add(check_timestamp(cf, ts).and_then(|()| {
            (*batch).changed().delete_cf_at(cf.id(), bytes(key, klen), ts)
        }));
    }

    /// Removes a key that was put at most once since its last removal, as of a timestamp.
    fn rocksdb_writebatch_singledelete_cf_with_ts(
        batch: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        ts: *const c_char,
        tslen: usize,
    ) {
        let (cf, ts) = (&(*column_family).cf, bytes(ts, tslen));
        add(check_timestamp(cf, ts).and_then(|()| {
            (*batch).changed().single_delete_cf_at(cf.id(), bytes(key, klen), ts)
        }));
    }

    /// Overwrites the timestamps of all entries whose family has timestamps; `get_ts_size` tells how
    /// long they are.
    fn rocksdb_writebatch_update_timestamps(
        batch: *mut rocksdb_writebatch_t,
        ts: *const c_char,
        tslen: usize,
        state: *mut c_void,
        get_ts_size: TimestampSizeFn,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let size_of = |cf| match get_ts_size(state, cf) {
                usize::MAX => None,
                size => Some(size),
            };
            (*batch).changed().update_timestamps(bytes(ts, tslen), size_of)
        });
    }

    /// Compares entries with their checksums; batches here have none.
    fn rocksdb_writebatch_verify_checksum(
        batch: *mut rocksdb_writebatch_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*batch).checked().map(drop));
    }

    /// Remembers the current state.
    fn rocksdb_writebatch_set_save_point(batch: *mut rocksdb_writebatch_t) {
        (*batch).changed().set_save_point();
    }

    /// Goes back to the last state that was remembered, and forgets it.
    fn rocksdb_writebatch_rollback_to_save_point(
        batch: *mut rocksdb_writebatch_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*batch).changed().rollback_to_save_point());
    }

    /// Forgets the last state that was remembered.
    fn rocksdb_writebatch_pop_save_point(
        batch: *mut rocksdb_writebatch_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*batch).changed().pop_save_point());
    }
}

destroyers! {
    rocksdb_writebatch_destroy(rocksdb_writebatch_t);
}
