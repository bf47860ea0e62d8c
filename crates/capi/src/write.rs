//! Writes.

use crate::batch::rocksdb_writebatch_t;
use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{bytes, report};
use crate::write_options::rocksdb_writeoptions_t;
use libc::c_char;
use spanlith_wal::WriteBatch;

macro_rules! writers {
    ($(
        $put:ident, $merge:ident, $delete:ident, $single_delete:ident,
        ($($cf:ident: $cf_type:ty)?), |$db:ident| $family:expr;
    )*) => {
        c_api! {$(
            /// Sets a key.
            fn $put(
                $db: *mut rocksdb_t,
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
                    $family.put_opt(key, value, &(*options).options)
                });
            }

            /// Adds a merge operand.
            fn $merge(
                $db: *mut rocksdb_t,
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
                    $family.merge_opt(key, operand, &(*options).options)
                });
            }

            /// Removes a key.
            fn $delete(
                $db: *mut rocksdb_t,
                options: *const rocksdb_writeoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                keylen: usize,
                errptr: *mut *mut c_char,
            ) {
                let _ = $db;
                report(errptr, (), || {
                    let key = bytes(key, keylen);
                    $family.delete_opt(key, &(*options).options)
                });
            }

            /// Removes a key that was put at most once since its last removal.
            fn $single_delete(
                $db: *mut rocksdb_t,
                options: *const rocksdb_writeoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                keylen: usize,
                errptr: *mut *mut c_char,
            ) {
                let _ = $db;
                report(errptr, (), || {
                    let key = bytes(key, keylen);
                    $family.single_delete_opt(key, &(*options).options)
                });
            }
        )*}
    };
}

writers! {
    rocksdb_put, rocksdb_merge, rocksdb_delete, rocksdb_singledelete, (), |db| (*db).cf;
    rocksdb_put_cf, rocksdb_merge_cf, rocksdb_delete_cf, rocksdb_singledelete_cf,
        (column_family: *mut rocksdb_column_family_handle_t), |db| (*column_family).cf;
}

c_api! {
    /// Applies a batch: all of it or nothing. The batch learns its sequence number.
    fn rocksdb_write(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        batch: *mut rocksdb_writebatch_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let batch = &mut *batch;
            batch.check_default(&(*db).cf)?;
            let sequence = (*db).cf.db().write_raw(batch.checked()?, &(*options).options)?;
            batch.batch.set_sequence(sequence);
            Ok(())
        });
    }

    /// Removes the keys from `start_key` up to, not including, `end_key`.
    fn rocksdb_delete_range_cf(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        start_key: *const c_char,
        start_key_len: usize,
        end_key: *const c_char,
        end_key_len: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            (*column_family).cf.check_untimed()?;
            let mut batch = WriteBatch::new();
            batch.delete_range_cf(
                (*column_family).cf.id(),
                bytes(start_key, start_key_len),
                bytes(end_key, end_key_len),
            )?;
            (*db).cf.db().write_raw(&batch, &(*options).options).map(drop)
        });
    }
}
