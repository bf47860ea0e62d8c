//! `rocksdb_writebatch_t`.
//!
//! The functions that add updates stand in `batch_updates.rs`, but for those with timestamps.

use crate::batch_updates::{TimestampSizeFn, Updates, add, timestamp_sizes};
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{boxed, bytes, lend, report};
use libc::{c_char, c_void};
use spanlith::Cf;
use spanlith_base::timestamp::put_padded;
use spanlith_base::{Error, Result};
use spanlith_wal::{BATCH_HEADER_SIZE, WriteBatch};

/// Updates applied together or not at all; reusable.
#[derive(Default)]
pub struct rocksdb_writebatch_t {
    pub(crate) batch: WriteBatch,
    /// Bytes that are shorter than a header: kept to be shown, refused when written.
    short: Option<Box<[u8]>>,
    /// Bytes of the timestamps of keys that are added without a family.
    default_timestamp: usize,
    /// Says whether a key without the place of a timestamp was added without a family.
    plain: bool,
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
        Ok(&self.batch)
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

impl rocksdb_writebatch_t {
    /// Adds an update of the key; of one in a family with timestamps with the place of one, which
    /// `update_timestamps` sets.
    #[inline]
    fn update(
        &mut self,
        cf: Option<&Cf>,
        key: &[u8],
        update: impl FnOnce(&mut WriteBatch, u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let (id, size) = match cf {
            Some(cf) => (cf.id(), cf.comparator().timestamp_size()),
            None => (0, self.default_timestamp),
        };
        if size != 0 {
            return self.update_later(id, key, size, update);
        }
        self.plain |= cf.is_none();
        update(self.changed(), id, key)
    }

    #[cold]
    fn update_later(
        &mut self,
        id: u32,
        key: &[u8],
        size: usize,
        update: impl FnOnce(&mut WriteBatch, u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut padded = Vec::new();
        put_padded(&mut padded, key, size, 0);
        let batch = self.changed();
        update(batch, id, &padded)?;
        batch.mark_lacking_timestamps();
        Ok(())
    }

    /// Refuses keys without timestamps for a default family that has them.
    pub(crate) fn check_default(&self, default: &Cf) -> Result<()> {
        match self.plain {
            true => default.check_untimed(),
            false => Ok(()),
        }
    }
}

impl Updates for rocksdb_writebatch_t {
    #[inline]
    fn put(&mut self, cf: Option<&Cf>, key: &[u8], value: &[u8]) -> Result<()> {
        self.update(cf, key, |batch, id, key| batch.put_cf(id, key, value))
    }

    #[inline]
    fn merge(&mut self, cf: Option<&Cf>, key: &[u8], operand: &[u8]) -> Result<()> {
        self.update(cf, key, |batch, id, key| batch.merge_cf(id, key, operand))
    }

    #[inline]
    fn delete(&mut self, cf: Option<&Cf>, key: &[u8]) -> Result<()> {
        self.update(cf, key, WriteBatch::delete_cf)
    }

    fn single_delete(&mut self, cf: Option<&Cf>, key: &[u8]) -> Result<()> {
        self.update(cf, key, WriteBatch::single_delete_cf)
    }

    fn delete_range(&mut self, cf: Option<&Cf>, start: &[u8], end: &[u8]) -> Result<()> {
        let size = cf.map_or(self.default_timestamp, |cf| {
            cf.comparator().timestamp_size()
        });
        let mut padded = Vec::new();
        let end = match size {
            0 => end,
            _ => {
                put_padded(&mut padded, end, size, 0);
                &padded
            }
        };
        self.update(cf, start, |batch, id, start| {
            batch.delete_range_cf(id, start, end)
        })
    }
}

/// Returns whether a timestamp fits a family.
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
            ..Default::default()
        })
    }

    /// An empty batch with room, and a limit (0: none), with checksums for each update unless
    /// their size is 0: RocksDB has no other than eight bytes. Keys that are added without a family get the place of a
    /// timestamp of `default_cf_ts_sz` bytes.
    fn rocksdb_writebatch_create_with_params(
        reserved_bytes: usize,
        max_bytes: usize,
        protection_bytes_per_key: usize,
        default_cf_ts_sz: usize,
    ) -> *mut rocksdb_writebatch_t {
        let mut batch = WriteBatch::with_limits(reserved_bytes.min(1 << 30), max_bytes);
        if protection_bytes_per_key != 0 {
            // Only of a batch that holds something it could fail.
            let _ = batch.protect();
        }
        boxed(rocksdb_writebatch_t {
            batch,
            default_timestamp: default_cf_ts_sz,
            ..Default::default()
        })
    }

    /// Forgets all updates.
    fn rocksdb_writebatch_clear(batch: *mut rocksdb_writebatch_t) {
        (*batch).plain = false;
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
        lend((*batch).rep(), size)
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
            (*batch).changed().update_timestamps(bytes(ts, tslen), timestamp_sizes(state, get_ts_size))
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
