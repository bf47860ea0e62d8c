//! Databases whose values have times.

use crate::support::*;
use spanlith_capi::*;
use std::ffi::c_char;
use std::ptr;

type Handle = *mut rocksdb_column_family_handle_t;

/// # Safety
/// Handles are live.
unsafe fn put(w: &World, db: *mut rocksdb_t, cf: Handle, value: &[u8]) {
    // SAFETY: The caller says so; lengths are right.
    unsafe {
        call(|e| rocksdb_put_cf(db, w.write, cf, p(b"k"), 1, p(value), value.len(), e)).unwrap();
    }
}

/// # Safety
/// Handles are live.
unsafe fn get(w: &World, db: *mut rocksdb_t, cf: Handle) -> Result<Option<Vec<u8>>, String> {
    let mut len = 0;
    // SAFETY: The caller says so; the value comes from `malloc`.
    unsafe {
        let value = call(|e| rocksdb_get_cf(db, w.read, cf, p(b"k"), 1, &raw mut len, e))?;
        if value.is_null() {
            return Ok(None);
        }
        let out = std::slice::from_raw_parts(value.cast::<u8>(), len).to_vec();
        libc_free(value);
        Ok(Some(out))
    }
}

#[test]
fn values_are_shown_without_their_times_and_are_four_bytes_longer_in_a_plain_open() {
    let w = World::new();
    // SAFETY: All handles are live; the arrays have the lengths given.
    unsafe {
        let db = call(|e| rocksdb_open_with_ttl(w.options, w.path.as_ptr(), 100, e)).unwrap();
        let default = rocksdb_get_default_column_family_handle(db);
        put(&w, db, default, b"value");
        assert_eq!(get(&w, db, default).unwrap().unwrap(), b"value");
        let made = |name: &std::ffi::CStr, ttl| {
            call(|e| rocksdb_create_column_family_with_ttl(db, w.options, name.as_ptr(), ttl, e))
        };
        let short = made(c"short", 50).unwrap();
        put(&w, db, short, b"other");
        let again = made(c"short", 50).unwrap_err();
        assert_eq!(again, "Invalid argument: Column family already exists");
        // Neither RocksDB's iterators nor its batched gets leave the time out everywhere.
        let families = [default, short];
        let mut iterators = [ptr::null_mut(); 2];
        call(|e| {
            let families = families.as_ptr().cast_mut();
            rocksdb_create_iterators(db, w.read, families, iterators.as_mut_ptr(), 2, e);
        })
        .unwrap();
        for (iterator, expected) in iterators.into_iter().zip([&b"value"[..], b"other"]) {
            rocksdb_iter_seek_to_first(iterator);
            let mut len = 0;
            let value = rocksdb_iter_value(iterator, &raw mut len);
            let value = std::slice::from_raw_parts(value.cast::<u8>(), len);
            assert_eq!(value, expected);
            rocksdb_iter_destroy(iterator);
        }
        let (key, len) = (p(b"k"), 1);
        let (mut found, mut error) = (ptr::null_mut(), ptr::null_mut::<c_char>());
        rocksdb_batched_multi_get_cf(
            db,
            w.read,
            short,
            1,
            &raw const key,
            &raw const len,
            &raw mut found,
            &raw mut error,
            0,
        );
        assert!(error.is_null());
        let mut len = 0;
        let value = rocksdb_pinnableslice_value(found, &raw mut len);
        let value = std::slice::from_raw_parts(value.cast::<u8>(), len);
        assert_eq!(value, b"other");
        rocksdb_pinnableslice_destroy(found);
        rocksdb_column_family_handle_destroy(default);
        rocksdb_column_family_handle_destroy(short);
        rocksdb_close(db);

        let names = [c"default".as_ptr(), c"short".as_ptr()];
        let options = [w.options.cast_const(); 2];
        let mut handles = [ptr::null_mut(); 2];
        let plain = call(|e| {
            rocksdb_open_column_families(
                w.options,
                w.path.as_ptr(),
                2,
                names.as_ptr(),
                options.as_ptr(),
                handles.as_mut_ptr(),
                e,
            )
        })
        .unwrap();
        let stored = get(&w, plain, handles[1]).unwrap().unwrap();
        assert_eq!((stored.len(), &stored[..5]), (9, &b"other"[..]));
        put(&w, plain, handles[0], b"123");
        for handle in handles {
            rocksdb_column_family_handle_destroy(handle);
        }
        rocksdb_close(plain);

        let ttls = [0, -1];
        let db = call(|e| {
            rocksdb_open_column_families_with_ttl(
                w.options,
                w.path.as_ptr(),
                2,
                names.as_ptr(),
                options.as_ptr(),
                handles.as_mut_ptr(),
                ttls.as_ptr(),
                e,
            )
        })
        .unwrap();
        assert_eq!(
            get(&w, db, handles[0]).unwrap_err(),
            "Corruption: Error: value's length less than timestamp's\n"
        );
        assert_eq!(get(&w, db, handles[1]).unwrap().unwrap(), b"other");
        for handle in handles {
            rocksdb_column_family_handle_destroy(handle);
        }
        rocksdb_close(db);
    }
}
