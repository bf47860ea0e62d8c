//! Reads of single keys.

use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{boxed, bytes, malloc_copy, report};
use crate::pinned::{rocksdb_pinnable_handle_t, rocksdb_pinnableslice_t};
use crate::read_options::rocksdb_readoptions_t;
use libc::c_char;
use spanlith::{Cf, Pinned};
use spanlith_base::Result;
use std::ptr;

/// The value of a key.
#[inline(always)]
fn get(cf: &Cf, options: &rocksdb_readoptions_t, key: &[u8]) -> Result<Option<Pinned>> {
    cf.get_opt(key, &options.options)
}

/// A `malloc`ed copy of a value and its length; NULL and 0 if there is none.
///
/// # Safety
/// `len` may be written.
pub(crate) unsafe fn copied(value: Option<Pinned>, len: *mut usize) -> *mut c_char {
    // SAFETY: The caller says so.
    unsafe { *len = value.as_ref().map_or(0, |v| v.len()) };
    value.map_or(ptr::null_mut(), |v| malloc_copy(&v))
}

macro_rules! readers {
    ($(
        $get:ident, $pinned:ident, $handle:ident, $into:ident, $may_exist:ident,
        ($($cf:ident: $cf_type:ty)?), |$db:ident| $family:expr;
    )*) => {
        c_api! {$(
            /// The value, from `malloc`; NULL if there is none.
            fn $get(
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
                    let value = get($family, &*options, bytes(key, keylen))?;
                    Ok(copied(value, vallen))
                })
            }

            /// The value where it is; NULL if there is none.
            fn $pinned(
                $db: *mut rocksdb_t,
                options: *const rocksdb_readoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                keylen: usize,
                errptr: *mut *mut c_char,
            ) -> *mut rocksdb_pinnableslice_t {
                let _ = $db;
                report(errptr, ptr::null_mut(), || {
                    let value = get($family, &*options, bytes(key, keylen))?;
                    Ok(value.map_or(ptr::null_mut(), |v| boxed(rocksdb_pinnableslice_t(v))))
                })
            }

            /// The value where it is; NULL if there is none.
            fn $handle(
                $db: *mut rocksdb_t,
                options: *const rocksdb_readoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                keylen: usize,
                errptr: *mut *mut c_char,
            ) -> *mut rocksdb_pinnable_handle_t {
                let _ = $db;
                report(errptr, ptr::null_mut(), || {
                    let value = get($family, &*options, bytes(key, keylen))?;
                    Ok(value.map_or(ptr::null_mut(), |v| boxed(rocksdb_pinnable_handle_t(v))))
                })
            }

            /// Copies the value into the caller's buffer. Returns 1 if it was found and fits;
            /// `vallen` is its length in any case.
            fn $into(
                $db: *mut rocksdb_t,
                options: *const rocksdb_readoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                keylen: usize,
                buffer: *mut c_char,
                buffer_size: usize,
                vallen: *mut usize,
                found: *mut u8,
                errptr: *mut *mut c_char,
            ) -> u8 {
                let _ = $db;
                (*vallen, *found) = (0, 0);
                report(errptr, 0, || {
                    let Some(value) = get($family, &*options, bytes(key, keylen))? else {
                        return Ok(0);
                    };
                    (*vallen, *found) = (value.len(), 1);
                    if value.len() > buffer_size {
                        return Ok(0);
                    }
                    ptr::copy_nonoverlapping(value.as_ptr(), buffer.cast(), value.len());
                    Ok(1)
                })
            }

            /// 0 if the key does not exist, 1 if it may; reads no file. The value is given, from
            /// `malloc`, where `value_found` says so: as in RocksDB also, an empty one, of a key that does
            /// not exist.
            fn $may_exist(
                $db: *mut rocksdb_t,
                options: *const rocksdb_readoptions_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                key_len: usize,
                value: *mut *mut c_char,
                val_len: *mut usize,
                _timestamp: *const c_char,
                _timestamp_len: usize,
                value_found: *mut u8,
            ) -> u8 {
                let _ = $db;
                let known = ($family).key_may_exist(bytes(key, key_len), &(*options).options);
                let may = known.is_some();
                if let Some(value_found) = value_found.as_mut() {
                    let known = known.unwrap_or_else(|| Some(Default::default()));
                    *value_found = known.is_some().into();
                    if known.is_some() {
                        *value = copied(known, val_len);
                    }
                }
                may.into()
            }
        )*}
    };
}

readers! {
    rocksdb_get, rocksdb_get_pinned, rocksdb_get_pinned_v2, rocksdb_get_into_buffer,
        rocksdb_key_may_exist, (), |db| &(*db).cf;
    rocksdb_get_cf, rocksdb_get_pinned_cf, rocksdb_get_pinned_cf_v2, rocksdb_get_into_buffer_cf,
        rocksdb_key_may_exist_cf,
        (column_family: *mut rocksdb_column_family_handle_t), |db| &(*column_family).cf;
}
