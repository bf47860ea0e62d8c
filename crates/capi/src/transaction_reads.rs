//! Reads of transactions: of single keys, of many, and iterators. They see the transaction's own updates.

use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{array, boxed, bytes, report};
use crate::get::copied;
use crate::iterator::rocksdb_iterator_t;
use crate::multi_get::{Answers, Copies, keys, panicked};
use crate::pinned::rocksdb_pinnableslice_t;
use crate::read_options::rocksdb_readoptions_t;
use crate::transaction::rocksdb_transaction_t;
use libc::c_char;
use spanlith::{Cf, LockMode, Pinned};
use spanlith_base::Result;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// How a read for update locks.
fn mode(exclusive: u8) -> LockMode {
    match exclusive {
        0 => LockMode::Shared,
        _ => LockMode::Exclusive,
    }
}

/// The value of a key; with a mode, one that is locked.
///
/// # Safety
/// The handles are valid, and the transaction is used by nobody else.
unsafe fn get(
    txn: *mut rocksdb_transaction_t,
    cf: &Cf,
    options: *const rocksdb_readoptions_t,
    key: &[u8],
    update: Option<LockMode>,
) -> Result<Option<Pinned>> {
    // SAFETY: The caller says so.
    unsafe {
        let Some(mode) = update else {
            (*options).check_activity("Get", (3, "kGet"))?;
            return (*txn).get().get_opt(cf, key, &(*options).for_anything());
        };
        (*options).check_no_activity("GetForUpdate")?;
        (*txn)
            .get_mut()
            .get_for_update_opt(cf, key, &(*options).for_anything(), mode)
    }
}

/// Values of keys. For update all are locked before one is read, and if a lock is not to be had, that is what all say.
///
/// # Safety
/// As [`get`]; the arrays have `count` elements.
unsafe fn multi_get(
    txn: *mut rocksdb_transaction_t,
    cfs: &[&Cf],
    options: *const rocksdb_readoptions_t,
    keys: &[&[u8]],
    update: bool,
    mut answers: Copies,
) {
    let read = || -> Result<Vec<Result<Option<Pinned>>>> {
        // SAFETY: The caller says so.
        let (options, txn) = unsafe { (&*options, &*txn) };
        let pairs = || cfs.iter().zip(keys);
        if update {
            options.check_no_activity("MultiGetForUpdate")?;
            for (cf, key) in pairs() {
                // SAFETY: As above.
                unsafe { txn.get_mut() }.lock(cf, key, LockMode::Exclusive)?;
            }
        } else {
            options.check_activity("MultiGet", (4, "kMultiGet"))?;
        }
        // SAFETY: As above.
        let now = unsafe { txn.get() };
        let how = options.for_anything();
        let each = pairs().map(|(cf, key)| now.get_opt(cf, key, &how));
        Ok(each.collect())
    };
    let all = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(panicked()));
    let all = all.unwrap_or_else(|e| keys.iter().map(|_| Err(e.clone())).collect());
    for (at, answer) in all.into_iter().enumerate() {
        // SAFETY: As above.
        unsafe { answers.give(at, answer) };
    }
}

macro_rules! readers {
    ($(
        $get:ident, $pinned:ident, $get_for_update:ident, $pinned_for_update:ident,
        ($($cf:ident: $cf_type:ty)?), |$txn:ident| $family:expr;
    )*) => {
        c_api! {$(
            /// The value, from `malloc`; NULL if there is none.
            fn $get(
                $txn: *mut rocksdb_transaction_t,
                options: *const rocksdb_readoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                klen: usize,
                vlen: *mut usize,
                errptr: *mut *mut c_char,
            ) -> *mut c_char {
                *vlen = 0;
                report(errptr, ptr::null_mut(), || {
                    Ok(copied(get($txn, $family, options, bytes(key, klen), None)?, vlen))
                })
            }

            /// The value where it is; NULL if there is none.
            fn $pinned(
                $txn: *mut rocksdb_transaction_t,
                options: *const rocksdb_readoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                klen: usize,
                errptr: *mut *mut c_char,
            ) -> *mut rocksdb_pinnableslice_t {
                report(errptr, ptr::null_mut(), || {
                    let value = get($txn, $family, options, bytes(key, klen), None)?;
                    Ok(value.map_or(ptr::null_mut(), |v| boxed(rocksdb_pinnableslice_t(v))))
                })
            }

            /// The value, from `malloc`, of a key that nobody else may write before the transaction ends, nor read for
            /// update if `exclusive`; NULL if there is none.
            fn $get_for_update(
                $txn: *mut rocksdb_transaction_t,
                options: *const rocksdb_readoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                klen: usize,
                vlen: *mut usize,
                exclusive: u8,
                errptr: *mut *mut c_char,
            ) -> *mut c_char {
                *vlen = 0;
                report(errptr, ptr::null_mut(), || {
                    let mode = Some(mode(exclusive));
                    Ok(copied(get($txn, $family, options, bytes(key, klen), mode)?, vlen))
                })
            }

            /// The value where it is, of a key that nobody else may write before the transaction ends, nor read for
            /// update if `exclusive`; NULL if there is none.
            fn $pinned_for_update(
                $txn: *mut rocksdb_transaction_t,
                options: *const rocksdb_readoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                klen: usize,
                exclusive: u8,
                errptr: *mut *mut c_char,
            ) -> *mut rocksdb_pinnableslice_t {
                report(errptr, ptr::null_mut(), || {
                    let mode = Some(mode(exclusive));
                    let value = get($txn, $family, options, bytes(key, klen), mode)?;
                    Ok(value.map_or(ptr::null_mut(), |v| boxed(rocksdb_pinnableslice_t(v))))
                })
            }
        )*}
    };
}

readers! {
    rocksdb_transaction_get, rocksdb_transaction_get_pinned,
        rocksdb_transaction_get_for_update, rocksdb_transaction_get_pinned_for_update,
        (), |txn| &(*txn).cf;
    rocksdb_transaction_get_cf, rocksdb_transaction_get_pinned_cf,
        rocksdb_transaction_get_for_update_cf, rocksdb_transaction_get_pinned_for_update_cf,
        (column_family: *mut rocksdb_column_family_handle_t), |txn| &(*column_family).cf;
}

macro_rules! multi_readers {
    ($(
        $(#[$meta:meta])*
        $name:ident, ($($cf:ident: $cf_type:ty)?), $update:expr, |$txn:ident, $count:ident| $families:expr;
    )*) => {
        c_api! {$(
            $(#[$meta])*
            fn $name(
                $txn: *mut rocksdb_transaction_t,
                options: *const rocksdb_readoptions_t,
                $($cf: $cf_type,)?
                $count: usize,
                keys_list: *const *const c_char,
                keys_list_sizes: *const usize,
                values_list: *mut *mut c_char,
                values_list_sizes: *mut usize,
                errs: *mut *mut c_char,
            ) {
                let keys = keys($count, keys_list, keys_list_sizes);
                let cfs: Vec<&Cf> = $families;
                let copies = Copies { values: values_list, sizes: values_list_sizes, errs };
                multi_get($txn, &cfs, options, &keys, $update, copies);
            }
        )*}
    };
}

multi_readers! {
    /// Values of keys of the default family, from `malloc`.
    rocksdb_transaction_multi_get, (), false, |txn, num_keys| vec![&(*txn).cf; num_keys];
    /// Values of keys of the default family, from `malloc`, that nobody else may write or read for update before the
    /// transaction ends.
    rocksdb_transaction_multi_get_for_update, (), true, |txn, num_keys| vec![&(*txn).cf; num_keys];
    /// Values of keys, each of its own family, from `malloc`.
    rocksdb_transaction_multi_get_cf,
        (column_families: *const *const rocksdb_column_family_handle_t), false,
        |txn, num_keys| array(column_families, num_keys).iter().map(|f| &*(**f).cf).collect();
    /// Values of keys, each of its own family, from `malloc`, that nobody else may write or read for update before the
    /// transaction ends.
    rocksdb_transaction_multi_get_for_update_cf,
        (column_families: *const *const rocksdb_column_family_handle_t), true,
        |txn, num_keys| array(column_families, num_keys).iter().map(|f| &*(**f).cf).collect();
}

/// An iterator over a family as if the transaction were committed.
///
/// # Safety
/// The handles are valid, and the bounds of the options.
unsafe fn iterator(
    txn: *mut rocksdb_transaction_t,
    options: *const rocksdb_readoptions_t,
    cf: &Cf,
) -> *mut rocksdb_iterator_t {
    // SAFETY: The caller says so.
    unsafe {
        let mut iterator = rocksdb_iterator_t::new(cf, &*options);
        let scan = (*options).for_scan();
        let order = cf.comparator().clone();
        let batch = (*txn).shared().batch();
        iterator.overlay(batch, Some(cf.clone()), order, [scan.lower, scan.upper]);
        boxed(iterator)
    }
}

c_api! {
    /// An iterator over the default family. Bounds are copied.
    fn rocksdb_transaction_create_iterator(
        txn: *mut rocksdb_transaction_t,
        options: *const rocksdb_readoptions_t,
    ) -> *mut rocksdb_iterator_t {
        iterator(txn, options, &(*txn).cf)
    }

    /// An iterator over a family. Bounds are copied.
    fn rocksdb_transaction_create_iterator_cf(
        txn: *mut rocksdb_transaction_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_iterator_t {
        iterator(txn, options, &(*column_family).cf)
    }
}
