//! Writes.

use crate::batch::rocksdb_writebatch_t;
use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{bytes, report};
use crate::write_options::rocksdb_writeoptions_t;
use libc::c_char;
use spanlith_base::Result;
use spanlith_base::stats::{Histogram, Statistics, Ticker};
use spanlith_wal::{BATCH_HEADER_SIZE, WriteBatch};

#[cold]
#[inline(never)]
fn count(statistics: &Statistics, keys: u64, bytes: u64) {
    statistics.add(Ticker::NumberKeysWritten, keys);
    statistics.add(Ticker::BytesWritten, bytes);
    statistics.record(Histogram::BytesPerWrite, bytes);
}

/// Bytes of a length prefix.
fn varint_len(n: usize) -> usize {
    (n.max(1).ilog2() / 7 + 1) as usize
}

/// Counts a single entry: the bytes are those of a batch with nothing else in it.
#[inline(always)]
fn count_one(db: &rocksdb_t, parts: &[&[u8]]) {
    if let Some(statistics) = &db.statistics {
        let parts: usize = parts.iter().map(|p| varint_len(p.len()) + p.len()).sum();
        count(statistics, 1, (BATCH_HEADER_SIZE + 1 + parts) as u64);
    }
}

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
                report(errptr, (), || {
                    let (key, value) = (bytes(key, keylen), bytes(val, vallen));
                    $family.put_opt(key, value, &(*options).options)?;
                    count_one(&*$db, &[key, value]);
                    Ok(())
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
                report(errptr, (), || {
                    let (key, operand) = (bytes(key, keylen), bytes(val, vallen));
                    $family.merge_opt(key, operand, &(*options).options)?;
                    count_one(&*$db, &[key, operand]);
                    Ok(())
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
                report(errptr, (), || {
                    let key = bytes(key, keylen);
                    $family.delete_opt(key, &(*options).options)?;
                    count_one(&*$db, &[key]);
                    Ok(())
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
                report(errptr, (), || {
                    let key = bytes(key, keylen);
                    $family.single_delete_opt(key, &(*options).options)?;
                    count_one(&*$db, &[key]);
                    Ok(())
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

/// Writes a batch; returns its first sequence number.
fn write(db: &rocksdb_t, options: &rocksdb_writeoptions_t, batch: &WriteBatch) -> Result<u64> {
    let sequence = db.cf.db().write_raw(batch, &options.options)?;
    if let Some(statistics) = &db.statistics {
        count(statistics, batch.count().into(), batch.data_size() as u64);
    }
    Ok(sequence)
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
            let sequence = write(&*db, &*options, batch.checked()?)?;
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
            let mut batch = WriteBatch::new();
            batch.delete_range_cf(
                (*column_family).cf.id(),
                bytes(start_key, start_key_len),
                bytes(end_key, end_key_len),
            )?;
            write(&*db, &*options, &batch).map(drop)
        });
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn length_prefixes_take_a_byte_per_seven_bits() {
        let lengths = [0, 1, 127, 128, 16_383, 16_384];
        assert_eq!(lengths.map(super::varint_len), [1, 1, 1, 2, 2, 3]);
    }
}
