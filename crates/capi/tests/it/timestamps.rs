//! Families with timestamps through the C functions.

use crate::support::{World, call, libc_free, p};
use spanlith_capi::*;
use std::ffi::c_char;
use std::ptr;

const COMPARATOR: &std::ffi::CStr = c"comparator=leveldb.BytewiseComparator.u64ts";

/// A copy of a result from `malloc`, freed as the C program frees it.
unsafe fn taken(data: *mut c_char, len: usize) -> Option<Vec<u8>> {
    if data.is_null() {
        return None;
    }
    // SAFETY: The caller passes what a function returned.
    unsafe {
        let copy = std::slice::from_raw_parts(data.cast::<u8>(), len).to_vec();
        libc_free(data);
        Some(copy)
    }
}

/// A new database whose keys have timestamps, and its options.
///
/// # Safety
/// The world is open; the caller closes and destroys both.
unsafe fn open_timed(world: &World) -> (*mut rocksdb_options_t, *mut rocksdb_t) {
    // SAFETY: Handles are used as a C program uses them.
    unsafe {
        let options = rocksdb_options_create();
        call(|e| rocksdb_get_options_from_string(world.options, COMPARATOR.as_ptr(), options, e))
            .unwrap();
        rocksdb_options_set_create_if_missing(options, 1);
        let db = call(|e| rocksdb_open(options, world.path.as_ptr(), e)).unwrap();
        (options, db)
    }
}

#[test]
fn values_are_written_and_read_as_of_timestamps_and_history_is_given_up() {
    let world = World::new();
    let at = |n: u64| n.to_le_bytes();
    // SAFETY: Handles are used as a C program uses them, and destroyed once.
    unsafe {
        let (options, db) = open_timed(&world);
        let cf = rocksdb_get_default_column_family_handle(db);
        let put = |key: &[u8], ts: u64, value: &[u8]| {
            let (ts, w) = (at(ts), world.write);
            let (k, t, v) = (p(key), p(&ts), p(value));
            call(|e| rocksdb_put_with_ts(db, w, k, key.len(), t, 8, v, value.len(), e)).unwrap();
        };
        put(b"a", 10, b"a1");
        put(b"a", 20, b"a2");
        put(b"b", 10, b"b1");
        let ts = at(30);
        call(|e| rocksdb_delete_cf_with_ts(db, world.write, cf, p(b"b"), 1, p(&ts), 8, e)).unwrap();
        let get = |key: &[u8], ts: u64| {
            let read = rocksdb_readoptions_create();
            let at_ts = at(ts);
            rocksdb_readoptions_set_timestamp(read, p(&at_ts), 8);
            let (mut len, mut ts, mut ts_len) = (0, ptr::null_mut(), 9);
            let (l, t, tl) = (&raw mut len, &raw mut ts, &raw mut ts_len);
            let value = call(|e| rocksdb_get_with_ts(db, read, p(key), key.len(), l, t, tl, e));
            rocksdb_readoptions_destroy(read);
            value.map(|v| taken(v, len).zip(taken(ts, ts_len)))
        };
        let found = |v: &[u8], n: u64| Ok(Some((v.to_vec(), at(n).to_vec())));
        assert_eq!(get(b"a", 9), Ok(None));
        assert_eq!(get(b"a", 15), found(b"a1", 10));
        assert_eq!(get(b"a", 25), found(b"a2", 20));
        assert_eq!(get(b"b", 29), found(b"b1", 10));
        assert_eq!(get(b"b", 30), Ok(None));

        // Both keys at once.
        let read = rocksdb_readoptions_create();
        let latest = at(u64::MAX);
        rocksdb_readoptions_set_timestamp(read, p(&latest), 8);
        let (keys, sizes) = ([p(b"a"), p(b"b")], [1usize, 1]);
        let (mut values, mut value_sizes) = ([ptr::null_mut(); 2], [0usize; 2]);
        let (mut stamps, mut stamp_sizes) = ([ptr::null_mut(); 2], [0usize; 2]);
        let mut errs = [ptr::null_mut(); 2];
        rocksdb_multi_get_with_ts(
            db,
            read,
            2,
            keys.as_ptr(),
            sizes.as_ptr(),
            values.as_mut_ptr(),
            value_sizes.as_mut_ptr(),
            stamps.as_mut_ptr(),
            stamp_sizes.as_mut_ptr(),
            errs.as_mut_ptr(),
        );
        assert!(errs.iter().all(|e| e.is_null()));
        assert_eq!(
            taken(values[0], value_sizes[0]).as_deref(),
            Some(&b"a2"[..])
        );
        assert_eq!(
            taken(stamps[0], stamp_sizes[0]).as_deref(),
            Some(&at(20)[..])
        );
        assert!(values[1].is_null() && stamps[1].is_null());

        // All versions: internal keys, newest first.
        let first = at(0);
        rocksdb_readoptions_set_iter_start_ts(read, p(&first), 8);
        let iter = rocksdb_create_iterator(db, read);
        rocksdb_iter_seek_to_first(iter);
        let mut seen = Vec::new();
        while rocksdb_iter_valid(iter) != 0 {
            let mut len = 0;
            let ts = rocksdb_iter_timestamp(iter, &mut len).cast::<u8>();
            let ts = std::slice::from_raw_parts(ts, len);
            seen.push(u64::from_le_bytes(ts.try_into().unwrap()));
            rocksdb_iter_next(iter);
        }
        assert_eq!(seen, [20, 10, 30, 10]);
        rocksdb_iter_destroy(iter);
        rocksdb_readoptions_destroy(read);

        let low = at(25);
        call(|e| rocksdb_increase_full_history_ts_low(db, cf, p(&low), 8, e)).unwrap();
        rocksdb_compact_range(db, ptr::null(), 0, ptr::null(), 0);
        let mut len = 0;
        let known = call(|e| rocksdb_get_full_history_ts_low(db, cf, &mut len, e)).unwrap();
        assert_eq!(taken(known, len).as_deref(), Some(&low[..]));
        assert_eq!(
            get(b"a", 24),
            Err(
                "Invalid argument: Read timestamp: 24 is smaller than full_history_ts_low: 25\n"
                    .to_string()
            )
        );
        assert_eq!(get(b"a", 25).unwrap().unwrap().0, b"a2");

        // At no timestamp, a short one, and one that was given up there is nothing, as in RocksDB.
        let may_exist = |ts: Option<&[u8]>| {
            let read = rocksdb_readoptions_create();
            if let Some(ts) = ts {
                rocksdb_readoptions_set_timestamp(read, p(ts), ts.len());
            }
            let (k, none, no) = (p(b"a"), ptr::null_mut(), ptr::null());
            let may = rocksdb_key_may_exist(db, read, k, 1, none, none.cast(), no, 0, none.cast());
            rocksdb_readoptions_destroy(read);
            may
        };
        assert_eq!(may_exist(None), 0);
        assert_eq!(may_exist(Some(b"1234")), 0);
        assert_eq!(may_exist(Some(&at(24))), 0);
        assert_eq!(may_exist(Some(&at(25))), 1);

        // The want of a timestamp is told before that of an operator.
        let merged = call(|e| rocksdb_merge(db, world.write, p(b"a"), 1, p(b"v"), 1, e));
        assert_eq!(
            merged.unwrap_err(),
            "Invalid argument: cannot call this method on column family default that enables \
             timestamp"
        );
        let lower = at(24);
        let e = call(|e| rocksdb_increase_full_history_ts_low(db, cf, p(&lower), 8, e));
        assert_eq!(
            e,
            Err("Invalid argument: Current full_history_ts_low: 25 is higher than provided ts: 24\n"
                .to_string())
        );
        rocksdb_column_family_handle_destroy(cf);
        rocksdb_close(db);
        rocksdb_options_destroy(options);
    }
}

#[test]
fn batches_keep_the_place_of_timestamps_that_are_set_later() {
    let world = World::new();
    let ts = 7u64.to_le_bytes();
    unsafe extern "C" fn size_of(_: *mut std::ffi::c_void, _: u32) -> usize {
        8
    }
    // SAFETY: Handles are used as a C program uses them, and destroyed once.
    unsafe {
        let (options, db) = open_timed(&world);
        let cf = rocksdb_get_default_column_family_handle(db);
        let write = |batch| call(|e| rocksdb_write(db, world.write, batch, e));
        let update = |batch| {
            let (t, size) = (p(&ts), size_of as _);
            call(|e| rocksdb_writebatch_update_timestamps(batch, t, 8, ptr::null_mut(), size, e))
        };
        let rep = |batch| {
            let mut len = 0;
            let data = rocksdb_writebatch_data(batch, &mut len).cast::<u8>();
            std::slice::from_raw_parts(data, len).to_vec()
        };
        let not_set = Err("Invalid argument: write batch must have timestamp(s) set".to_string());

        // By the family, also for a key that is shorter than a timestamp.
        let batch = rocksdb_writebatch_create();
        rocksdb_writebatch_put_cf(batch, cf, p(b"a"), 1, p(b"v"), 1);
        assert_eq!(&rep(batch)[12..], b"\x01\x09a\0\0\0\0\0\0\0\0\x01v");
        assert_eq!(write(batch), not_set);
        update(batch).unwrap();
        assert_eq!(&rep(batch)[12..], b"\x01\x09a\x07\0\0\0\0\0\0\0\x01v");
        write(batch).unwrap();
        rocksdb_writebatch_clear(batch);
        rocksdb_writebatch_delete_cf(batch, cf, p(b"gone for good"), 13);
        assert_eq!(write(batch), not_set);
        rocksdb_writebatch_destroy(batch);

        // By what the batch was told of the default family.
        let batch = rocksdb_writebatch_create_with_params(0, 0, 0, 8);
        rocksdb_writebatch_put(batch, p(b"b"), 1, p(b"v"), 1);
        rocksdb_writebatch_delete_range(batch, p(b"c"), 1, p(b"d"), 1);
        assert_eq!(write(batch), not_set);
        update(batch).unwrap();
        assert_eq!(
            &rep(batch)[12..],
            b"\x01\x09b\x07\0\0\0\0\0\0\0\x01v\x0f\x09c\x07\0\0\0\0\0\0\0\x09d\x07\0\0\0\0\0\0\0"
        );
        write(batch).unwrap();
        rocksdb_writebatch_destroy(batch);

        // A batch that knows of no timestamps, though the key might end with one.
        let batch = rocksdb_writebatch_create();
        rocksdb_writebatch_put(batch, p(b"a key of some length"), 20, p(b"v"), 1);
        let refused = write(batch).unwrap_err();
        assert!(refused.contains("that enables timestamp"), "{refused}");
        rocksdb_writebatch_clear(batch);
        write(batch).unwrap();
        rocksdb_writebatch_destroy(batch);

        let (w, from, to) = (world.write, b"a key of some length", b"b");
        let range = call(|e| rocksdb_delete_range_cf(db, w, cf, p(from), 20, p(to), 1, e));
        assert!(range.unwrap_err().contains("that enables timestamp"));

        let read = rocksdb_readoptions_create();
        rocksdb_readoptions_set_timestamp(read, p(&ts), 8);
        let iter = rocksdb_create_iterator(db, read);
        rocksdb_iter_seek_to_first(iter);
        let mut keys = Vec::new();
        while rocksdb_iter_valid(iter) != 0 {
            let mut len = 0;
            let key = rocksdb_iter_key(iter, &mut len).cast::<u8>();
            keys.push(std::slice::from_raw_parts(key, len).to_vec());
            rocksdb_iter_next(iter);
        }
        assert_eq!(keys, [b"a", b"b"]);
        rocksdb_iter_destroy(iter);
        rocksdb_readoptions_destroy(read);
        rocksdb_column_family_handle_destroy(cf);
        rocksdb_close(db);
        rocksdb_options_destroy(options);
    }
}

#[test]
fn a_database_is_opened_without_what_was_written_behind_a_timestamp() {
    let world = World::new();
    let at = |n: u64| n.to_le_bytes();
    // SAFETY: Handles are used as a C program uses them, and destroyed once.
    unsafe {
        let (options, db) = open_timed(&world);
        for n in [10, 20] {
            let (ts, w, v) = (at(n), world.write, n.to_string());
            call(|e| rocksdb_put_with_ts(db, w, p(b"a"), 1, p(&ts), 8, p(v.as_bytes()), 2, e))
                .unwrap();
        }
        rocksdb_close(db);
        let names = [c"default".as_ptr()];
        let each = [options.cast_const()];
        let open = |ts: &mut [u8], handle: *mut *mut rocksdb_column_family_handle_t| {
            let (path, data, len) = (
                world.path.as_ptr(),
                ts.as_mut_ptr().cast::<c_char>(),
                ts.len(),
            );
            let (names, each) = (names.as_ptr(), each.as_ptr());
            call(|e| {
                rocksdb_open_and_trim_history(options, path, 1, names, each, handle, data, len, e)
            })
        };
        let mut handle = ptr::null_mut();
        let refused = open(&mut [1, 2, 3], &raw mut handle).unwrap_err();
        assert!(
            refused.starts_with("Invalid argument: trim_ts has 3 bytes"),
            "{refused}"
        );
        let db = open(&mut at(15), &raw mut handle).unwrap();
        let read = rocksdb_readoptions_create();
        let ts = at(30);
        rocksdb_readoptions_set_timestamp(read, p(&ts), 8);
        let mut len = 0;
        let value =
            call(|e| rocksdb_get_cf(db, read, handle, p(b"a"), 1, &raw mut len, e)).unwrap();
        assert_eq!(taken(value, len).as_deref(), Some(&b"10"[..]));
        rocksdb_readoptions_destroy(read);
        rocksdb_column_family_handle_destroy(handle);
        rocksdb_close(db);
        rocksdb_options_destroy(options);
    }
}
