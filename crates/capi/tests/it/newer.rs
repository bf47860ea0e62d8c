//! Functions that RocksDB has since 11.9.

use crate::support::{World, call, libc_free, p};
use spanlith_capi::*;
use std::ptr;

fn slice(key: &[u8]) -> rocksdb_slice_t {
    rocksdb_slice_t {
        data: p(key),
        size: key.len(),
    }
}

#[test]
fn a_batch_of_pinned_values_keeps_the_order_of_its_keys() {
    let world = World::new();
    let db = world.open().unwrap();
    world.put(db, b"a", b"1").unwrap();
    world.put(db, b"c", b"").unwrap();
    // SAFETY: Handles are valid, and destroyed once; lengths are right.
    unsafe {
        let cf = rocksdb_get_default_column_family_handle(db);
        let read = rocksdb_readoptions_create();
        let keys = [slice(b"c"), slice(b"b"), slice(b"a"), slice(b"c")];
        let all = rocksdb_batched_multi_get_pinned_cf(db, read, cf, 4, keys.as_ptr(), 0);
        assert_eq!(rocksdb_pinnable_multi_get_count(all), 4);
        let at = |index| {
            let (mut v, mut n, mut e, mut m) = (ptr::null(), 9, ptr::null(), 9);
            let state = rocksdb_pinnable_multi_get_result(
                all, index, &raw mut v, &raw mut n, &raw mut e, &raw mut m,
            );
            assert!(e.is_null() && m == 0);
            let value =
                (!v.is_null()).then(|| std::slice::from_raw_parts(v.cast::<u8>(), n).to_vec());
            (state, value)
        };
        assert_eq!(at(0), (1, Some(Vec::new())));
        assert_eq!(at(1), (0, None));
        assert_eq!(at(2), (1, Some(b"1".to_vec())));
        assert_eq!(at(3), (1, Some(Vec::new())));
        assert_eq!(at(4), (3, None));
        rocksdb_pinnable_multi_get_destroy(all);
        let none = rocksdb_batched_multi_get_pinned_cf(db, read, cf, 0, ptr::null(), 1);
        assert_eq!(rocksdb_pinnable_multi_get_count(none), 0);
        rocksdb_pinnable_multi_get_destroy(none);
        rocksdb_readoptions_destroy(read);
        rocksdb_close(db);
    }
}

#[test]
fn a_read_with_metadata_tells_whether_a_key_was_written_behind_the_snapshot() {
    let world = World::new();
    let db = world.open().unwrap();
    for key in [b"a", b"b", b"c", b"d"] {
        world.put(db, key, b"1").unwrap();
    }
    // SAFETY: Handles are valid, and destroyed once; lengths are right.
    unsafe {
        let read = rocksdb_readoptions_create();
        let newer = |key: &[u8]| {
            let (mut len, mut newer) = (0, 7);
            let (l, n) = (&raw mut len, &raw mut newer);
            let (t, tl) = (ptr::null_mut(), ptr::null_mut());
            let value =
                call(|e| rocksdb_get_with_metadata(db, read, p(key), key.len(), l, t, tl, n, e));
            let value = value.unwrap();
            let has_value = !value.is_null();
            libc_free(value);
            (has_value, newer)
        };
        assert_eq!(newer(b"a"), (true, 0), "nothing is told without a snapshot");
        let snapshot = rocksdb_create_snapshot(db);
        rocksdb_readoptions_set_snapshot(read, snapshot);
        assert_eq!(newer(b"a"), (true, 0));
        world.put(db, b"a", b"2").unwrap();
        call(|e| rocksdb_delete(db, world.write, p(b"b"), 1, e)).unwrap();
        world.put(db, b"e", b"1").unwrap();
        let cf = rocksdb_get_default_column_family_handle(db);
        call(|e| rocksdb_delete_range_cf(db, world.write, cf, p(b"c"), 1, p(b"d"), 1, e)).unwrap();
        for _ in 0..2 {
            assert_eq!(newer(b"a"), (true, 1));
            assert_eq!(newer(b"b"), (true, 1));
            assert_eq!(newer(b"c"), (true, 1));
            assert_eq!(newer(b"d"), (true, 0));
            assert_eq!(newer(b"e"), (false, 1), "made behind the snapshot");
            assert_eq!(newer(b"f"), (false, 0));
            let flush = rocksdb_flushoptions_create();
            call(|e| rocksdb_flush(db, flush, e)).unwrap();
            rocksdb_flushoptions_destroy(flush);
        }
        let keys = [p(b"a"), p(b"d"), p(b"x")];
        let (sizes, mut values) = ([1usize; 3], [ptr::null_mut(); 3]);
        let (mut lens, mut told, mut errs) = ([9usize; 3], [7u8; 3], [ptr::null_mut(); 3]);
        rocksdb_multi_get_with_metadata(
            db,
            read,
            3,
            keys.as_ptr(),
            sizes.as_ptr(),
            values.as_mut_ptr(),
            lens.as_mut_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
            told.as_mut_ptr(),
            errs.as_mut_ptr(),
        );
        assert_eq!((lens, told), ([1, 1, 0], [1, 0, 0]));
        assert!(values[2].is_null() && errs.iter().all(|e| e.is_null()));
        values.into_iter().for_each(|v| libc_free(v));
        rocksdb_release_snapshot(db, snapshot);
        rocksdb_readoptions_destroy(read);
        rocksdb_close(db);
    }
}

#[test]
fn a_write_buffer_manager_has_a_policy() {
    // SAFETY: Handles are valid, and destroyed once.
    unsafe {
        let plain = rocksdb_write_buffer_manager_create(1 << 20, false);
        assert_eq!(rocksdb_write_buffer_manager_flush_policy(plain), 0);
        rocksdb_write_buffer_manager_set_flush_policy(plain, 1);
        rocksdb_write_buffer_manager_set_flush_policy(plain, 7);
        assert_eq!(rocksdb_write_buffer_manager_flush_policy(plain), 1);
        rocksdb_write_buffer_manager_destroy(plain);
        let largest = rocksdb_write_buffer_manager_create_with_policy(1 << 20, false, 1);
        assert_eq!(rocksdb_write_buffer_manager_flush_policy(largest), 1);
        rocksdb_write_buffer_manager_destroy(largest);
        assert!(rocksdb_write_buffer_manager_create_with_policy(1 << 20, false, 9).is_null());
        // The largest of all databases there is not.
        assert!(rocksdb_write_buffer_manager_create_with_policy(1 << 20, false, 2).is_null());
    }
}
