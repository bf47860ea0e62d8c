//! `rocksdb_transactiondb_t`: a database whose transactions lock keys, and so do its plain writes.

use crate::batch::rocksdb_writebatch_t;
use crate::checkpoint::{rocksdb_checkpoint_object_create, rocksdb_checkpoint_t};
use crate::db::{Mode, family_options, open, open_families, rocksdb_t};
use crate::family::{rocksdb_column_family_handle_t, rocksdb_create_column_family};
use crate::ffi::{boxed, bytes, path, report, unbox};
use crate::get::{rocksdb_get, rocksdb_get_cf, rocksdb_get_pinned, rocksdb_get_pinned_cf};
use crate::iterator::{rocksdb_create_iterator, rocksdb_create_iterator_cf, rocksdb_iterator_t};
use crate::job_options::{rocksdb_flushoptions_t, rocksdb_flushwaloptions_t};
use crate::maintenance::{
    rocksdb_flush, rocksdb_flush_cf, rocksdb_flush_cfs, rocksdb_flush_wal,
    rocksdb_flush_wal_with_options,
};
use crate::multi_get::{rocksdb_multi_get, rocksdb_multi_get_cf};
use crate::options::rocksdb_options_t;
use crate::pinned::rocksdb_pinnableslice_t;
use crate::property::{rocksdb_property_int, rocksdb_property_value};
use crate::read_options::rocksdb_readoptions_t;
use crate::shared::Registry;
use crate::snapshot::{rocksdb_create_snapshot, rocksdb_release_snapshot, rocksdb_snapshot_t};
use crate::txn_options::rocksdb_transactiondb_options_t;
use crate::write_options::rocksdb_writeoptions_t;
use libc::c_char;
use spanlith_base::Result;
use std::ptr;
use std::sync::Arc;

/// A database with transactions that lock. Begins as a `rocksdb_t`: clients take one for the other, as they may with
/// RocksDB's.
#[repr(C)]
pub struct rocksdb_transactiondb_t {
    pub(crate) base: rocksdb_t,
    pub(crate) prepared: Arc<Registry>,
}

/// Opens a database so that transactions may be prepared in it.
fn open_with(
    options: &rocksdb_options_t,
    locks: &rocksdb_transactiondb_options_t,
    open: impl FnOnce(&rocksdb_options_t) -> Result<*mut rocksdb_t>,
) -> Result<*mut rocksdb_transactiondb_t> {
    locks.check()?;
    let mut options = options.copy();
    options.db.allow_2pc = true;
    let opened = open(&options)?;
    // SAFETY: Just made by `boxed`.
    let base = *unsafe { unbox(opened) }.expect("opened");
    base.cf.db().set_lock_options(locks.locks())?;
    Ok(boxed(rocksdb_transactiondb_t {
        base,
        prepared: Arc::default(),
    }))
}

/// Frees a handle of a database that stays open.
///
/// # Safety
/// `base` is NULL or from a `get_base_db`, and is not used again.
pub(crate) unsafe fn close_base(base: *mut rocksdb_t) {
    // SAFETY: The caller says so.
    drop(unsafe { unbox(base) });
}

/// Declares functions of a database that are those of the `rocksdb_t` in it.
macro_rules! forwarded {
    ($handle:ident { $(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $to:ident;
    )* }) => {
        c_api! {$(
            $(#[$meta])*
            fn $name(db: *mut $handle, $($arg: $ty),*) $(-> $ret)? {
                $to(&raw mut (*db).base, $($arg),*)
            }
        )*}
    };
}
pub(crate) use forwarded;

forwarded! { rocksdb_transactiondb_t {
    /// Creates a column family; NULL if that fails.
    fn rocksdb_transactiondb_create_column_family(
        column_family_options: *const rocksdb_options_t,
        column_family_name: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_column_family_handle_t = rocksdb_create_column_family;

    /// The state of now.
    fn rocksdb_transactiondb_create_snapshot() -> *const rocksdb_snapshot_t
        = rocksdb_create_snapshot;

    /// Gives a snapshot up; NULL is ignored.
    fn rocksdb_transactiondb_release_snapshot(snapshot: *const rocksdb_snapshot_t)
        = rocksdb_release_snapshot;

    /// A property as text, from `malloc`; NULL if there is no such property.
    fn rocksdb_transactiondb_property_value(propname: *const c_char) -> *mut c_char
        = rocksdb_property_value;

    /// A property as a number: 0, or -1 if there is no such property.
    fn rocksdb_transactiondb_property_int(propname: *const c_char, out_val: *mut u64) -> i32
        = rocksdb_property_int;

    /// The value, from `malloc`; NULL if there is none.
    fn rocksdb_transactiondb_get(
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        klen: usize,
        vlen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char = rocksdb_get;

    /// The value where it is; NULL if there is none.
    fn rocksdb_transactiondb_get_pinned(
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        klen: usize,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_pinnableslice_t = rocksdb_get_pinned;

    /// The value in a family, from `malloc`; NULL if there is none.
    fn rocksdb_transactiondb_get_cf(
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char = rocksdb_get_cf;

    /// The value in a family where it is; NULL if there is none.
    fn rocksdb_transactiondb_get_pinned_cf(
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_pinnableslice_t = rocksdb_get_pinned_cf;

    /// Values of keys of the default family, from `malloc`.
    fn rocksdb_transactiondb_multi_get(
        options: *const rocksdb_readoptions_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    ) = rocksdb_multi_get;

    /// Values of keys, each of its own family, from `malloc`.
    fn rocksdb_transactiondb_multi_get_cf(
        options: *const rocksdb_readoptions_t,
        column_families: *const *const rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    ) = rocksdb_multi_get_cf;

    /// Hands the log to the operating system, and with `sync` to the disk.
    fn rocksdb_transactiondb_flush_wal(sync: u8, errptr: *mut *mut c_char) = rocksdb_flush_wal;

    /// Hands the log to the operating system, or to the disk. NULL options are the defaults.
    fn rocksdb_transactiondb_flush_wal_with_options(
        options: *const rocksdb_flushwaloptions_t,
        errptr: *mut *mut c_char,
    ) = rocksdb_flush_wal_with_options;

    /// Writes the memtables of the default family out.
    fn rocksdb_transactiondb_flush(
        options: *const rocksdb_flushoptions_t,
        errptr: *mut *mut c_char,
    ) = rocksdb_flush;

    /// Writes the memtables of a family out.
    fn rocksdb_transactiondb_flush_cf(
        options: *const rocksdb_flushoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut c_char,
    ) = rocksdb_flush_cf;

    /// Writes the memtables of several families out.
    fn rocksdb_transactiondb_flush_cfs(
        options: *const rocksdb_flushoptions_t,
        column_families: *mut *mut rocksdb_column_family_handle_t,
        num_column_families: i32,
        errptr: *mut *mut c_char,
    ) = rocksdb_flush_cfs;

    /// An iterator over the default family. Bounds are copied.
    fn rocksdb_transactiondb_create_iterator(
        options: *const rocksdb_readoptions_t,
    ) -> *mut rocksdb_iterator_t = rocksdb_create_iterator;

    /// An iterator over a family. Bounds are copied.
    fn rocksdb_transactiondb_create_iterator_cf(
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_iterator_t = rocksdb_create_iterator_cf;

    /// Something that makes checkpoints of the database as long as it is open.
    fn rocksdb_transactiondb_checkpoint_object_create(
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_checkpoint_t = rocksdb_checkpoint_object_create;
}}

macro_rules! writers {
    ($(
        $put:ident, $merge:ident, $delete:ident,
        ($($cf:ident: $cf_type:ty)?), |$db:ident| $family:expr;
    )*) => {
        c_api! {$(
            /// Sets a key, which is locked meanwhile.
            fn $put(
                $db: *mut rocksdb_transactiondb_t,
                options: *const rocksdb_writeoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                keylen: usize,
                val: *const c_char,
                vallen: usize,
                errptr: *mut *mut c_char,
            ) {
                let _ = $db;
                report(errptr, (), || {
                    let (key, value) = (bytes(key, keylen), bytes(val, vallen));
                    $family.put_locked(key, value, &(*options).options)
                });
            }

            /// Adds a merge operand; the key is locked meanwhile.
            fn $merge(
                $db: *mut rocksdb_transactiondb_t,
                options: *const rocksdb_writeoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                keylen: usize,
                val: *const c_char,
                vallen: usize,
                errptr: *mut *mut c_char,
            ) {
                let _ = $db;
                report(errptr, (), || {
                    let (key, operand) = (bytes(key, keylen), bytes(val, vallen));
                    $family.merge_locked(key, operand, &(*options).options)
                });
            }

            /// Removes a key, which is locked meanwhile.
            fn $delete(
                $db: *mut rocksdb_transactiondb_t,
                options: *const rocksdb_writeoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                keylen: usize,
                errptr: *mut *mut c_char,
            ) {
                let _ = $db;
                report(errptr, (), || {
                    $family.delete_locked(bytes(key, keylen), &(*options).options)
                });
            }
        )*}
    };
}

writers! {
    rocksdb_transactiondb_put, rocksdb_transactiondb_merge, rocksdb_transactiondb_delete, (),
        |db| (*db).base.cf;
    rocksdb_transactiondb_put_cf, rocksdb_transactiondb_merge_cf, rocksdb_transactiondb_delete_cf,
        (column_family: *mut rocksdb_column_family_handle_t), |db| (*column_family).cf;
}

c_api! {
    /// Opens a database with its default column family, for transactions that lock.
    fn rocksdb_transactiondb_open(
        options: *const rocksdb_options_t,
        txn_db_options: *const rocksdb_transactiondb_options_t,
        name: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_transactiondb_t {
        report(errptr, ptr::null_mut(), || {
            open_with(&*options, &*txn_db_options, |options| {
                let default = family_options("default", options, Mode::ReadWrite)?;
                open(path(name), options, vec![default], Mode::ReadWrite)
            })
        })
    }

    /// Opens a database with column families, for transactions that lock; a handle for each goes to
    /// `column_family_handles`.
    fn rocksdb_transactiondb_open_column_families(
        options: *const rocksdb_options_t,
        txn_db_options: *const rocksdb_transactiondb_options_t,
        name: *const c_char,
        num_column_families: i32,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_transactiondb_t {
        let families = (num_column_families, column_family_names, column_family_options);
        report(errptr, ptr::null_mut(), || {
            open_with(&*options, &*txn_db_options, |options| {
                let mode = Mode::ReadWrite;
                open_families(path(name), options, families, column_family_handles, mode)
            })
        })
    }

    /// Closes the database, as `rocksdb_close`; NULL is ignored. Prepared transactions stay prepared.
    fn rocksdb_transactiondb_close(txn_db: *mut rocksdb_transactiondb_t) {
        if let Some(db) = unbox(txn_db) {
            db.base.close();
        }
    }

    /// The database without locks: what it writes conflicts with nothing.
    fn rocksdb_transactiondb_get_base_db(txn_db: *mut rocksdb_transactiondb_t) -> *mut rocksdb_t {
        boxed((*txn_db).base.again())
    }

    /// Frees a handle of the database without locks, which stays open; NULL is ignored.
    fn rocksdb_transactiondb_close_base_db(base_db: *mut rocksdb_t) {
        close_base(base_db);
    }

    /// Applies a batch: all of it or nothing. Its keys are locked meanwhile. The batch learns its sequence number.
    fn rocksdb_transactiondb_write(
        db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_writeoptions_t,
        batch: *mut rocksdb_writebatch_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let (cf, batch) = (&(*db).base.cf, &mut *batch);
            batch.check_default(cf)?;
            let sequence = cf.db().write_locked_raw(batch.checked()?, &(*options).options)?;
            batch.batch.set_sequence(sequence);
            Ok(())
        });
    }
}
