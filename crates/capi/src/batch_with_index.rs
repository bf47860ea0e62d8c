//! `rocksdb_writebatch_wi_t`: a write batch that can be read before it is written.
//!
//! Iterators over the batch and a database share the batch: it may be destroyed before them, and
//! changed while they stand. All of them are used by one thread at a time.

use crate::batch::{TimestampSizeFn, add, joined};
use crate::batch_iterate::{BatchDeleteFn, BatchPutFn, iterate};
use crate::comparator::rocksdb_comparator_t;
use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{boxed, bytes, malloc_copy, report};
use crate::get::copied;
use crate::iterator::rocksdb_iterator_t;
use crate::options::rocksdb_options_t;
use crate::pinned::rocksdb_pinnableslice_t;
use crate::read_options::rocksdb_readoptions_t;
use crate::write_options::rocksdb_writeoptions_t;
use libc::{c_char, c_void};
use spanlith::{Cf, IndexedBatch};
use spanlith_base::{Comparator, Error, Result};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::Arc;

/// A batch that iterators share.
#[derive(Clone)]
pub(crate) struct SharedBatch(Arc<Cell>);

struct Cell(UnsafeCell<IndexedBatch>);

// SAFETY: A batch and the iterators over it may move between threads and are used by one at a time: the
// C program promises it, and `SharedBatch::get` asks for it.
unsafe impl Send for Cell {}
// SAFETY: As above.
unsafe impl Sync for Cell {}

impl SharedBatch {
    /// # Safety
    /// No other thread uses the batch or an iterator over it, and no reference to it is alive.
    pub(crate) unsafe fn get(&self) -> &IndexedBatch {
        // SAFETY: The caller says so.
        unsafe { &*self.0.0.get() }
    }

    /// # Safety
    /// As [`Self::get`].
    #[allow(
        clippy::mut_from_ref,
        reason = "the caller says that nobody else has it"
    )]
    unsafe fn get_mut(&self) -> &mut IndexedBatch {
        // SAFETY: The caller says so.
        unsafe { &mut *self.0.0.get() }
    }
}

/// Updates applied together or not at all, which can be looked up before; reusable.
pub struct rocksdb_writebatch_wi_t {
    batch: SharedBatch,
    /// A setting that the batch cannot have: refused when written.
    refused: Option<Error>,
    /// Whether it was asked for a range deletion.
    range: bool,
    /// The same at each save point.
    marks: Vec<bool>,
}

impl rocksdb_writebatch_wi_t {
    fn new(order: Comparator, reserved_bytes: usize, size_max: usize) -> Self {
        let batch = IndexedBatch::with_limits(order, reserved_bytes.min(1 << 30), size_max);
        Self {
            batch: SharedBatch(Arc::new(Cell(UnsafeCell::new(batch)))),
            refused: None,
            range: false,
            marks: Vec::new(),
        }
    }

    /// A range deletion: RocksDB's batch does not take it and says so to nobody. Here the write says
    /// it.
    fn refuse_range(&mut self) {
        self.range = true;
    }

    /// What keeps the batch from being written.
    fn check(&self) -> Result<()> {
        if let Some(e) = &self.refused {
            return Err(e.clone());
        }
        if self.range {
            let text = "DeleteRange unsupported in WriteBatchWithIndex";
            return Err(Error::not_supported(text));
        }
        Ok(())
    }
}

/// The family of a handle.
///
/// # Safety
/// `handle` is NULL or valid.
unsafe fn family<'a>(handle: *mut rocksdb_column_family_handle_t) -> Option<&'a Cf> {
    // SAFETY: The caller says so.
    unsafe { handle.as_ref() }.map(|h| &h.cf)
}

/// What a batch and a database together say about a key.
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
    unsafe { (*wbwi).batch.get().get_over(cf, key, &(*options).options) }
}

macro_rules! updates {
    ($(
        $put:ident, $putv:ident, $merge:ident, $mergev:ident, $delete:ident, $deletev:ident,
        $single_delete:ident, $delete_range:ident, $delete_rangev:ident,
        ($($cf:ident: $cf_type:ty)?), $family:expr;
    )*) => {
        c_api! {$(
            /// Sets a key.
            fn $put(
                batch: *mut rocksdb_writebatch_wi_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                klen: usize,
                val: *const c_char,
                vlen: usize,
            ) {
                add((*batch).batch.get_mut().put($family, bytes(key, klen), bytes(val, vlen)));
            }

            /// Sets one key, given in parts, to one value, given in parts.
            fn $putv(
                batch: *mut rocksdb_writebatch_wi_t,
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
                add((*batch).batch.get_mut().put($family, &key, &value));
            }

            /// Adds a merge operand.
            fn $merge(
                batch: *mut rocksdb_writebatch_wi_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                klen: usize,
                val: *const c_char,
                vlen: usize,
            ) {
                add((*batch).batch.get_mut().merge($family, bytes(key, klen), bytes(val, vlen)));
            }

            /// Adds one operand, given in parts, to one key, given in parts.
            fn $mergev(
                batch: *mut rocksdb_writebatch_wi_t,
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
                add((*batch).batch.get_mut().merge($family, &key, &operand));
            }

            /// Removes a key.
            fn $delete(
                batch: *mut rocksdb_writebatch_wi_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                klen: usize,
            ) {
                add((*batch).batch.get_mut().delete($family, bytes(key, klen)));
            }

            /// Removes one key, given in parts.
            fn $deletev(
                batch: *mut rocksdb_writebatch_wi_t,
                $($cf: $cf_type,)?
                num_keys: i32,
                keys_list: *const *const c_char,
                keys_list_sizes: *const usize,
            ) {
                let key = joined(num_keys, keys_list, keys_list_sizes);
                add((*batch).batch.get_mut().delete($family, &key));
            }

            /// Removes a key that was put at most once since its last removal.
            fn $single_delete(
                batch: *mut rocksdb_writebatch_wi_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                klen: usize,
            ) {
                add((*batch).batch.get_mut().single_delete($family, bytes(key, klen)));
            }

            /// Not for batches with an index: makes the write fail.
            fn $delete_range(
                batch: *mut rocksdb_writebatch_wi_t,
                $($cf: $cf_type,)?
                _start_key: *const c_char,
                _start_key_len: usize,
                _end_key: *const c_char,
                _end_key_len: usize,
            ) {
                $(let _ = $cf;)?
                (*batch).refuse_range();
            }

            /// Not for batches with an index: makes the write fail.
            fn $delete_rangev(
                batch: *mut rocksdb_writebatch_wi_t,
                $($cf: $cf_type,)?
                _num_keys: i32,
                _start_keys_list: *const *const c_char,
                _start_keys_list_sizes: *const usize,
                _end_keys_list: *const *const c_char,
                _end_keys_list_sizes: *const usize,
            ) {
                $(let _ = $cf;)?
                (*batch).refuse_range();
            }
        )*}
    };
}

updates! {
    rocksdb_writebatch_wi_put, rocksdb_writebatch_wi_putv, rocksdb_writebatch_wi_merge,
        rocksdb_writebatch_wi_mergev, rocksdb_writebatch_wi_delete, rocksdb_writebatch_wi_deletev,
        rocksdb_writebatch_wi_singledelete, rocksdb_writebatch_wi_delete_range,
        rocksdb_writebatch_wi_delete_rangev, (), None;
    rocksdb_writebatch_wi_put_cf, rocksdb_writebatch_wi_putv_cf, rocksdb_writebatch_wi_merge_cf,
        rocksdb_writebatch_wi_mergev_cf, rocksdb_writebatch_wi_delete_cf,
        rocksdb_writebatch_wi_deletev_cf, rocksdb_writebatch_wi_singledelete_cf,
        rocksdb_writebatch_wi_delete_range_cf, rocksdb_writebatch_wi_delete_rangev_cf,
        (column_family: *mut rocksdb_column_family_handle_t), family(column_family);
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
                    let value = (*wbwi).batch.get().get($given, bytes(key, keylen))?;
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
        let batch = &(*wbwi).batch;
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
        boxed(rocksdb_writebatch_wi_t::new(Comparator::Bytewise, reserved_bytes, 0))
    }

    /// An empty batch, with the order of the default family (NULL: bytewise), with room, and a limit
    /// (0: none). Batches with checksums are refused when they are written.
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
            batch.refused = Some(Error::not_supported("protection_bytes_per_key"));
        }
        boxed(batch)
    }

    /// Forgets all updates.
    fn rocksdb_writebatch_wi_clear(batch: *mut rocksdb_writebatch_wi_t) {
        (*batch).range = false;
        (*batch).marks.clear();
        (*batch).batch.get_mut().clear();
    }

    /// Number of updates.
    fn rocksdb_writebatch_wi_count(batch: *mut rocksdb_writebatch_wi_t) -> i32 {
        (*batch).batch.get().batch().count() as i32
    }

    /// RocksDB's representation, lent until the next change.
    fn rocksdb_writebatch_wi_data(
        batch: *mut rocksdb_writebatch_wi_t,
        size: *mut usize,
    ) -> *const c_char {
        let rep = (*batch).batch.get().batch().as_bytes();
        *size = rep.len();
        rep.as_ptr().cast()
    }

    /// Adds a note that goes to the log only.
    fn rocksdb_writebatch_wi_put_log_data(
        batch: *mut rocksdb_writebatch_wi_t,
        blob: *const c_char,
        len: usize,
    ) {
        add((*batch).batch.get_mut().put_log_data(bytes(blob, len)));
    }

    /// Calls back for puts and deletes of the default family.
    fn rocksdb_writebatch_wi_iterate(
        batch: *mut rocksdb_writebatch_wi_t,
        state: *mut c_void,
        put: BatchPutFn,
        deleted: BatchDeleteFn,
    ) {
        iterate((*batch).batch.get().batch().as_bytes(), state, put, deleted, None);
    }

    /// Remembers the current state.
    fn rocksdb_writebatch_wi_set_save_point(batch: *mut rocksdb_writebatch_wi_t) {
        let range = (*batch).range;
        (*batch).marks.push(range);
        (*batch).batch.get_mut().set_save_point();
    }

    /// Goes back to the last state that was remembered, and forgets it.
    fn rocksdb_writebatch_wi_rollback_to_save_point(
        batch: *mut rocksdb_writebatch_wi_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            (*batch).batch.get_mut().rollback_to_save_point()?;
            (*batch).range = (*batch).marks.pop().unwrap_or(false);
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
            let size_of = |cf| match get_ts_size(state, cf) {
                usize::MAX => None,
                size => Some(size),
            };
            (*wbwi).batch.get_mut().update_timestamps(bytes(ts, tslen), size_of)
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
            (*wbwi).check()?;
            let batch = (*wbwi).batch.get_mut();
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
}

destroyers! {
    rocksdb_writebatch_wi_destroy(rocksdb_writebatch_wi_t);
}
