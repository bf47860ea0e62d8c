//! `rocksdb_writebatch_wi_t`: a write batch that can be read before it is written.
//!
//! Iterators over the batch and a database share the batch: it may be destroyed before them, and
//! changed while they stand. All of them are used by one thread at a time.

use crate::batch_iterate::{BatchDeleteFn, BatchPutFn, iterate};
use crate::batch_updates::{TimestampSizeFn, Updates, add, family, timestamp_sizes};
use crate::comparator::rocksdb_comparator_t;
use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{boxed, bytes, lend, malloc_array, malloc_copy, report, unbox};
use crate::get::copied;
use crate::iterator::rocksdb_iterator_t;
use crate::options::rocksdb_options_t;
use crate::pinned::rocksdb_pinnableslice_t;
use crate::read_options::rocksdb_readoptions_t;
use crate::shared::SharedBatch;
use crate::write_options::rocksdb_writeoptions_t;
use libc::{c_char, c_void};
use spanlith::{Cf, IndexedBatch};
use spanlith_base::{Comparator, Error, Result};
use std::ptr;

/// Updates applied together or not at all, which can be looked up before; reusable. A block from `malloc` that holds a
/// pointer only: that of a transaction is freed with `rocksdb_free`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct rocksdb_writebatch_wi_t(*mut WithIndex);

/// Describes what a handle points to.
pub(crate) struct WithIndex {
    batch: SharedBatch,
    /// It belongs to a transaction, which outlives the handle.
    is_lent: bool,
    /// Says whether it was asked for a range deletion.
    range: bool,
    /// The same at each save point.
    marks: Vec<bool>,
}

impl WithIndex {
    /// The batch of a transaction.
    pub(crate) fn lent(batch: SharedBatch) -> Self {
        Self {
            batch,
            is_lent: true,
            range: false,
            marks: Vec::new(),
        }
    }

    /// Returns what keeps the batch from being written.
    fn check(&self) -> Result<()> {
        if self.range {
            let text = "DeleteRange unsupported in WriteBatchWithIndex";
            return Err(Error::not_supported(text));
        }
        Ok(())
    }

    /// The updates, if they may be written.
    ///
    /// # Safety
    /// As [`SharedBatch::get`].
    pub(crate) unsafe fn checked(&self) -> Result<&IndexedBatch> {
        self.check()?;
        // SAFETY: The caller says so.
        Ok(unsafe { self.batch.get() })
    }
}

impl rocksdb_writebatch_wi_t {
    fn new(order: Comparator, reserved_bytes: usize, size_max: usize) -> Self {
        let batch = IndexedBatch::with_limits(order, reserved_bytes.min(1 << 30), size_max);
        let own = WithIndex {
            is_lent: false,
            ..WithIndex::lent(SharedBatch::new(batch))
        };
        Self(boxed(own))
    }

    /// A handle of what belongs to a transaction.
    pub(crate) fn of(lent: *mut WithIndex) -> *mut Self {
        malloc_array(&[Self(lent)])
    }

    pub(crate) fn with(&self) -> &WithIndex {
        // SAFETY: It lives as long as the handle; the C program promises that its transaction does.
        unsafe { &*self.0 }
    }

    fn with_mut(&mut self) -> &mut WithIndex {
        // SAFETY: As above, and whoever changes it has it alone.
        unsafe { &mut *self.0 }
    }

    fn batch(&self) -> &IndexedBatch {
        // SAFETY: Who reads the handle's batch changes nothing meanwhile: the C program promises it.
        unsafe { self.with().batch.get() }
    }

    fn changed(&mut self) -> &mut IndexedBatch {
        // SAFETY: Who changes the handle's batch has it alone: the C program promises it.
        unsafe { self.with_mut().batch.get_mut() }
    }
}

impl Updates for rocksdb_writebatch_wi_t {
    fn put(&mut self, cf: Option<&Cf>, key: &[u8], value: &[u8]) -> Result<()> {
        self.changed().put(cf, key, value)
    }

    fn merge(&mut self, cf: Option<&Cf>, key: &[u8], operand: &[u8]) -> Result<()> {
        self.changed().merge(cf, key, operand)
    }

    fn delete(&mut self, cf: Option<&Cf>, key: &[u8]) -> Result<()> {
        self.changed().delete(cf, key)
    }

    fn single_delete(&mut self, cf: Option<&Cf>, key: &[u8]) -> Result<()> {
        self.changed().single_delete(cf, key)
    }

    /// RocksDB's batch does not take it and says so to nobody. Here the write says it.
    fn delete_range(&mut self, _: Option<&Cf>, _: &[u8], _: &[u8]) -> Result<()> {
        self.with_mut().range = true;
        Ok(())
    }
}

/// Returns what a batch and a database together say about a key.
///
/// # Safety
/// The handles are valid.
unsafe fn get_over(
    wbwi: *mut rocksdb_writebatch_wi_t,
    cf: &Cf,
    options: *const rocksdb_readoptions_t,
    key: &[u8],
) -> Result<Option<spanlith::Pinned>> {
    // SAFETY: The caller says so.
    unsafe {
        (*wbwi)
            .batch()
            .get_over(cf, key, &(*options).for_anything())
    }
}

macro_rules! lookups {
    ($(
        $get:ident, $over:ident, $pinned:ident,
        ($($cf:ident: $cf_type:ty)?), $given:expr, |$db:ident| $family:expr;
    )*) => {
        c_api! {$(
            /// The value of a key as far as the batch says, from `malloc`; NULL if it says nothing or
            /// that the key is absent.
            fn $get(
                wbwi: *mut rocksdb_writebatch_wi_t,
                _options: *const rocksdb_options_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                keylen: usize,
                vallen: *mut usize,
                errptr: *mut *mut c_char,
            ) -> *mut c_char {
                *vallen = 0;
                report(errptr, ptr::null_mut(), || {
                    let value = (*wbwi).batch().get($given, bytes(key, keylen))?;
                    Ok(value.map_or(ptr::null_mut(), |v| {
                        *vallen = v.len();
                        malloc_copy(&v)
                    }))
                })
            }

            /// The value of a key as if the batch were written, from `malloc`; NULL if there is none.
            fn $over(
                wbwi: *mut rocksdb_writebatch_wi_t,
                $db: *mut rocksdb_t,
                options: *const rocksdb_readoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                keylen: usize,
                vallen: *mut usize,
                errptr: *mut *mut c_char,
            ) -> *mut c_char {
                let _ = $db;
                *vallen = 0;
                report(errptr, ptr::null_mut(), || {
                    let value = get_over(wbwi, $family, options, bytes(key, keylen))?;
                    Ok(copied(value, vallen))
                })
            }

            /// The value of a key as if the batch were written; NULL if there is none.
            fn $pinned(
                wbwi: *mut rocksdb_writebatch_wi_t,
                $db: *mut rocksdb_t,
                options: *const rocksdb_readoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                keylen: usize,
                errptr: *mut *mut c_char,
            ) -> *mut rocksdb_pinnableslice_t {
                let _ = $db;
                report(errptr, ptr::null_mut(), || {
                    let value = get_over(wbwi, $family, options, bytes(key, keylen))?;
                    Ok(value.map_or(ptr::null_mut(), |v| boxed(rocksdb_pinnableslice_t(v))))
                })
            }
        )*}
    };
}

lookups! {
    rocksdb_writebatch_wi_get_from_batch, rocksdb_writebatch_wi_get_from_batch_and_db,
        rocksdb_writebatch_wi_get_pinned_from_batch_and_db, (), None, |db| &(*db).cf;
    rocksdb_writebatch_wi_get_from_batch_cf, rocksdb_writebatch_wi_get_from_batch_and_db_cf,
        rocksdb_writebatch_wi_get_pinned_from_batch_and_db_cf,
        (column_family: *mut rocksdb_column_family_handle_t), family(column_family),
        |db| &(*column_family).cf;
}

/// # Safety
/// The handles are valid or NULL; `base_iterator` is not used again.
unsafe fn with_base(
    wbwi: *mut rocksdb_writebatch_wi_t,
    base_iterator: *mut rocksdb_iterator_t,
    cf: Option<&Cf>,
    options: *const rocksdb_readoptions_t,
) -> *mut rocksdb_iterator_t {
    // SAFETY: The caller says so.
    unsafe {
        let batch = &(*wbwi).with().batch;
        let bounds = match options.as_ref() {
            Some(options) => {
                let options = options.for_scan();
                [options.lower, options.upper]
            }
            None => [None, None],
        };
        let order = match cf {
            Some(cf) => cf.comparator().clone(),
            None => batch.get().order(0),
        };
        (*base_iterator).overlay(batch.clone(), cf.cloned(), order, bounds);
        base_iterator
    }
}

c_api! {
    /// An empty batch, for default families in bytewise order. Whether index entries are overwritten
    /// changes no answer.
    fn rocksdb_writebatch_wi_create(
        reserved_bytes: usize,
        _overwrite_keys: u8,
    ) -> *mut rocksdb_writebatch_wi_t {
        malloc_array(&[rocksdb_writebatch_wi_t::new(Comparator::Bytewise, reserved_bytes, 0)])
    }

    /// An empty batch, with the order of the default family (NULL: bytewise), with room, and a limit
    /// (0: none), with checksums for each update unless their size is 0.
    fn rocksdb_writebatch_wi_create_with_params(
        backup_index_comparator: *mut rocksdb_comparator_t,
        reserved_bytes: usize,
        _overwrite_key: u8,
        max_bytes: usize,
        protection_bytes_per_key: usize,
    ) -> *mut rocksdb_writebatch_wi_t {
        let order = backup_index_comparator.as_ref().map_or_else(Default::default, |c| c.0.clone());
        let mut batch = rocksdb_writebatch_wi_t::new(order, reserved_bytes, max_bytes);
        if protection_bytes_per_key != 0 {
            // Only of a batch that holds something it could fail.
            let _ = batch.changed().protect();
        }
        malloc_array(&[batch])
    }

    /// Forgets all updates.
    fn rocksdb_writebatch_wi_clear(batch: *mut rocksdb_writebatch_wi_t) {
        let with = (*batch).with_mut();
        with.range = false;
        with.marks.clear();
        (*batch).changed().clear();
    }

    /// Number of updates.
    fn rocksdb_writebatch_wi_count(batch: *mut rocksdb_writebatch_wi_t) -> i32 {
        (*batch).batch().batch().count() as i32
    }

    /// RocksDB's representation, lent until the next change.
    fn rocksdb_writebatch_wi_data(
        batch: *mut rocksdb_writebatch_wi_t,
        size: *mut usize,
    ) -> *const c_char {
        lend((*batch).batch().batch().as_bytes(), size)
    }

    /// Adds a note that goes to the log only.
    fn rocksdb_writebatch_wi_put_log_data(
        batch: *mut rocksdb_writebatch_wi_t,
        blob: *const c_char,
        len: usize,
    ) {
        add((*batch).changed().put_log_data(bytes(blob, len)));
    }

    /// Calls back for puts and deletes of the default family.
    fn rocksdb_writebatch_wi_iterate(
        batch: *mut rocksdb_writebatch_wi_t,
        state: *mut c_void,
        put: BatchPutFn,
        deleted: BatchDeleteFn,
    ) {
        iterate((*batch).batch().batch().as_bytes(), state, put, deleted, None);
    }

    /// Remembers the current state.
    fn rocksdb_writebatch_wi_set_save_point(batch: *mut rocksdb_writebatch_wi_t) {
        let with = (*batch).with_mut();
        with.marks.push(with.range);
        (*batch).changed().set_save_point();
    }

    /// Goes back to the last state that was remembered, and forgets it.
    fn rocksdb_writebatch_wi_rollback_to_save_point(
        batch: *mut rocksdb_writebatch_wi_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            (*batch).changed().rollback_to_save_point()?;
            let with = (*batch).with_mut();
            with.range = with.marks.pop().unwrap_or(false);
            Ok(())
        });
    }

    /// Overwrites the timestamps of all entries whose family has timestamps; `get_ts_size` tells how
    /// long they are.
    fn rocksdb_writebatch_wi_update_timestamps(
        wbwi: *mut rocksdb_writebatch_wi_t,
        ts: *const c_char,
        tslen: usize,
        state: *mut c_void,
        get_ts_size: TimestampSizeFn,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            (*wbwi).changed().update_timestamps(bytes(ts, tslen), timestamp_sizes(state, get_ts_size))
        });
    }

    /// Applies a batch: all of it or nothing. The batch learns its sequence number.
    fn rocksdb_write_writebatch_wi(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        wbwi: *mut rocksdb_writebatch_wi_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            (*wbwi).with().check()?;
            let batch = (*wbwi).changed();
            let sequence = (*db).cf.db().write_raw(batch.batch(), &(*options).options)?;
            batch.set_sequence(sequence);
            Ok(())
        });
    }

    /// An iterator over a database as if the batch were written. Takes `base_iterator`, which is over
    /// the default family. Merges need a family: see the function with one.
    fn rocksdb_writebatch_wi_create_iterator_with_base(
        wbwi: *mut rocksdb_writebatch_wi_t,
        base_iterator: *mut rocksdb_iterator_t,
    ) -> *mut rocksdb_iterator_t {
        with_base(wbwi, base_iterator, None, ptr::null())
    }

    /// As without options, with bounds for the batch's side.
    fn rocksdb_writebatch_wi_create_iterator_with_base_readopts(
        wbwi: *mut rocksdb_writebatch_wi_t,
        base_iterator: *mut rocksdb_iterator_t,
        options: *const rocksdb_readoptions_t,
    ) -> *mut rocksdb_iterator_t {
        with_base(wbwi, base_iterator, None, options)
    }

    /// An iterator over a family as if the batch were written. Takes `base_iterator`, which is over that
    /// family.
    fn rocksdb_writebatch_wi_create_iterator_with_base_cf(
        wbwi: *mut rocksdb_writebatch_wi_t,
        base_iterator: *mut rocksdb_iterator_t,
        cf: *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_iterator_t {
        with_base(wbwi, base_iterator, family(cf), ptr::null())
    }

    /// As without options, with bounds for the batch's side.
    fn rocksdb_writebatch_wi_create_iterator_with_base_cf_readopts(
        wbwi: *mut rocksdb_writebatch_wi_t,
        base_iterator: *mut rocksdb_iterator_t,
        cf: *mut rocksdb_column_family_handle_t,
        options: *const rocksdb_readoptions_t,
    ) -> *mut rocksdb_iterator_t {
        with_base(wbwi, base_iterator, family(cf), options)
    }

    /// Destroys a batch with an index; NULL is ignored.
    fn rocksdb_writebatch_wi_destroy(batch: *mut rocksdb_writebatch_wi_t) {
        let Some(handle) = batch.as_ref() else {
            return;
        };
        if !handle.with().is_lent {
            drop(unbox(handle.0));
        }
        libc::free(batch.cast());
    }
}
