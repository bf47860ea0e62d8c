//! Walks over logs, and batches with an index.

use crate::support::*;
use spanlith_capi::*;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

#[test]
fn batches_are_read_back_from_the_logs_byte_for_byte() {
    let world = World::new();
    let db = world.open().unwrap();
    world.put(db, b"a", b"1").unwrap();
    // SAFETY: Handles are valid; lengths are right.
    unsafe {
        let batch = rocksdb_writebatch_create();
        rocksdb_writebatch_put(batch, p(b"b"), 1, p(b"2"), 1);
        rocksdb_writebatch_delete(batch, p(b"a"), 1);
        rocksdb_writebatch_put_log_data(batch, p(b"note"), 4);
        call(|e| rocksdb_write(db, world.write, batch, e)).unwrap();
        assert_eq!(rocksdb_get_latest_sequence_number(db), 3);

        let iter = call(|e| rocksdb_get_updates_since(db, 2, ptr::null(), e)).unwrap();
        assert_eq!(rocksdb_wal_iter_valid(iter), 1);
        let mut sequence = 0;
        let read = rocksdb_wal_iter_get_batch(iter, &raw mut sequence);
        assert_eq!(sequence, 2);
        let [mut size, mut want_size] = [0, 0];
        let bytes = rocksdb_writebatch_data(read, &raw mut size).cast::<u8>();
        let want = rocksdb_writebatch_data(batch, &raw mut want_size).cast::<u8>();
        assert_eq!(
            std::slice::from_raw_parts(bytes, size),
            std::slice::from_raw_parts(want, want_size)
        );
        rocksdb_writebatch_destroy(read);
        rocksdb_wal_iter_next(iter);
        assert_eq!(rocksdb_wal_iter_valid(iter), 0);
        call(|e| rocksdb_wal_iter_status(iter, e)).unwrap();
        // It goes on where it ended.
        world.put(db, b"c", b"3").unwrap();
        rocksdb_wal_iter_next(iter);
        assert_eq!(rocksdb_wal_iter_valid(iter), 1);

        world.flush(db).unwrap();
        world.put(db, b"d", b"4").unwrap();
        // Not into a log that was made later.
        for _ in 0..2 {
            rocksdb_wal_iter_next(iter);
            assert_eq!(rocksdb_wal_iter_valid(iter), 0);
            let tail = call(|e| rocksdb_wal_iter_status(iter, e)).unwrap_err();
            assert!(tail.ends_with("Create a new iterator to fetch the new tail."));
        }
        rocksdb_wal_iter_destroy(iter);

        // A part that is gone is skipped at the beginning.
        let iter = call(|e| rocksdb_get_updates_since(db, 0, ptr::null(), e)).unwrap();
        assert_eq!(rocksdb_wal_iter_valid(iter), 1);
        rocksdb_wal_iter_destroy(iter);

        let late = call(|e| rocksdb_get_updates_since(db, 9, ptr::null(), e));
        let text = "NotFound: Requested sequence not yet written in the db";
        assert_eq!(late.unwrap_err(), text);
        rocksdb_writebatch_destroy(batch);

        let files = call(|e| rocksdb_get_sorted_wal_files(db, e)).unwrap();
        let count = rocksdb_wal_files_count(files);
        let file = rocksdb_wal_files_get_wal_file(files, count - 1);
        assert_eq!(rocksdb_wal_file_start_sequence(file), 5);
        assert_eq!(rocksdb_wal_file_type(file), 1);
        let current = call(|e| rocksdb_get_current_wal_file(db, e)).unwrap();
        let number = rocksdb_wal_file_log_number(current);
        assert_eq!(rocksdb_wal_file_log_number(file), number);
        let name = CStr::from_ptr(rocksdb_wal_file_path_name(current));
        assert_eq!(name.to_str().unwrap(), format!("/{number:06}.log"));
        assert!(rocksdb_wal_files_get_wal_file(files, count).is_null());
        rocksdb_wal_file_destroy(current);
        rocksdb_wal_files_destroy(files);
        rocksdb_close(db);
    }
}

/// The entries from the first on, as `key=value`.
fn walk(iter: *mut rocksdb_iterator_t) -> String {
    let mut out = Vec::new();
    // SAFETY: The iterator is valid.
    unsafe {
        rocksdb_iter_seek_to_first(iter);
        while rocksdb_iter_valid(iter) != 0 {
            let (key, value) = (rocksdb_iter_key_slice(iter), rocksdb_iter_value_slice(iter));
            let text = [key, value].map(|s| {
                let bytes = std::slice::from_raw_parts(s.data.cast::<u8>(), s.size);
                String::from_utf8(bytes.to_vec()).unwrap()
            });
            out.push(text.join("="));
            rocksdb_iter_next(iter);
        }
        call(|e| rocksdb_iter_get_error(iter, e)).unwrap();
    }
    out.join(" ")
}

#[test]
fn a_batch_with_an_index_is_read_over_the_database_and_may_go_before_its_iterators() {
    let world = World::new();
    let db = world.open().unwrap();
    for key in [b"a", b"b", b"c"] {
        world.put(db, key, b"0").unwrap();
    }
    // SAFETY: Handles are valid; lengths are right.
    unsafe {
        let batch = rocksdb_writebatch_wi_create(0, 1);
        rocksdb_writebatch_wi_put(batch, p(b"b"), 1, p(b"1"), 1);
        rocksdb_writebatch_wi_set_save_point(batch);
        rocksdb_writebatch_wi_put(batch, p(b"d"), 1, p(b"2"), 1);
        rocksdb_writebatch_wi_delete(batch, p(b"a"), 1);
        assert_eq!(rocksdb_writebatch_wi_count(batch), 3);
        let base = rocksdb_create_iterator(db, world.read);
        let iter = rocksdb_writebatch_wi_create_iterator_with_base(batch, base);
        assert_eq!(walk(iter), "b=1 c=0 d=2");
        call(|e| rocksdb_writebatch_wi_rollback_to_save_point(batch, e)).unwrap();
        assert_eq!(walk(iter), "a=0 b=1 c=0");
        let e = call(|e| rocksdb_writebatch_wi_rollback_to_save_point(batch, e)).unwrap_err();
        assert_eq!(e, "NotFound: ");

        let mut len = 0;
        let get = |e| {
            let len = &raw mut len;
            rocksdb_writebatch_wi_get_from_batch_and_db(batch, db, world.read, p(b"b"), 1, len, e)
        };
        let value = call(get).unwrap();
        assert_eq!((*value.cast::<u8>(), len), (b'1', 1));
        libc_free(value);
        call(|e| rocksdb_write_writebatch_wi(db, world.write, batch, e)).unwrap();
        assert_eq!(world.get(db, b"b").unwrap().unwrap(), b"1");

        rocksdb_writebatch_wi_delete_range(batch, p(b"a"), 1, p(b"z"), 1);
        let e = call(|e| rocksdb_write_writebatch_wi(db, world.write, batch, e)).unwrap_err();
        assert_eq!(
            e,
            "Not implemented: DeleteRange unsupported in WriteBatchWithIndex"
        );
        // The refusal goes with what it is about, by a rollback or a clear.
        rocksdb_writebatch_wi_clear(batch);
        rocksdb_writebatch_wi_put(batch, p(b"b"), 1, p(b"1"), 1);
        rocksdb_writebatch_wi_set_save_point(batch);
        rocksdb_writebatch_wi_delete_range(batch, p(b"a"), 1, p(b"z"), 1);
        call(|e| rocksdb_writebatch_wi_rollback_to_save_point(batch, e)).unwrap();
        call(|e| rocksdb_write_writebatch_wi(db, world.write, batch, e)).unwrap();
        rocksdb_writebatch_wi_delete_range(batch, p(b"a"), 1, p(b"z"), 1);
        rocksdb_writebatch_wi_set_save_point(batch);
        call(|e| rocksdb_writebatch_wi_rollback_to_save_point(batch, e)).unwrap();
        call(|e| rocksdb_write_writebatch_wi(db, world.write, batch, e)).unwrap_err();
        rocksdb_writebatch_wi_destroy(batch);
        assert_eq!(walk(iter), "a=0 b=1 c=0");
        rocksdb_iter_destroy(iter);
        rocksdb_close(db);
    }
}

/// Describes what the filter of logs below was told.
#[derive(Default)]
struct Told {
    families: Vec<String>,
    batches: usize,
    ended: usize,
}

unsafe extern "C" fn families_told(
    state: *mut c_void,
    _ids: *const u32,
    _logs: *const u64,
    count: usize,
    names: *const *const c_char,
    lengths: *const usize,
    _name_ids: *const u32,
    name_count: usize,
) {
    assert_eq!(count, name_count);
    // SAFETY: The arrays have as many elements as the count says.
    unsafe {
        for at in 0..name_count {
            let name = std::slice::from_raw_parts((*names.add(at)).cast::<u8>(), *lengths.add(at));
            let told = &mut *state.cast::<Told>();
            told.families
                .push(String::from_utf8_lossy(name).into_owned());
        }
    }
}

/// Leaves out the second batch and replaces the third.
unsafe extern "C" fn batch_found(
    state: *mut c_void,
    _log: u64,
    _path: *const c_char,
    _path_len: usize,
    batch: *const rocksdb_writebatch_t,
    new: *mut rocksdb_writebatch_t,
    changed: *mut u8,
) -> i32 {
    // SAFETY: What is lent is valid during the call.
    unsafe {
        let told = &mut *state.cast::<Told>();
        told.batches += 1;
        assert_eq!(rocksdb_writebatch_count(batch.cast_mut()), 1);
        if told.batches == 3 {
            rocksdb_writebatch_put(new, p(b"x"), 1, p(b"9"), 1);
            *changed = 1;
        }
        i32::from(told.batches == 2)
    }
}

unsafe extern "C" fn name_of_filter(_state: *mut c_void) -> *const c_char {
    c"Scripted".as_ptr()
}

unsafe extern "C" fn filter_ended(state: *mut c_void) {
    // SAFETY: The state outlives the filter.
    unsafe { (*state.cast::<Told>()).ended += 1 };
}

#[test]
fn a_filter_of_logs_decides_over_each_batch() {
    let world = World::new();
    let db = world.open().unwrap();
    for key in [b"a", b"b", b"c", b"d"] {
        world.put(db, key, b"1").unwrap();
    }
    // SAFETY: Handles are valid, and the state outlives the filter.
    unsafe {
        rocksdb_close(db);
        let mut told = Told::default();
        let state = (&raw mut told).cast();
        let filter = rocksdb_walfilter_create(
            state,
            Some(filter_ended),
            Some(families_told),
            batch_found,
            name_of_filter,
        );
        rocksdb_options_set_wal_filter(world.options, filter);
        let db = world.open().unwrap();
        let found = [b"a", b"b", b"c", b"d", b"x"].map(|key| world.get(db, key).unwrap().is_some());
        assert_eq!(found, [true, false, false, true, true]);
        rocksdb_options_clear_wal_filter(world.options);
        rocksdb_walfilter_destroy(filter);
        rocksdb_close(db);
        assert_eq!(told.families, ["default"]);
        assert_eq!((told.batches, told.ended), (4, 1));
    }
}

/// Measured on 11.8.1: a write without a log in between ends the walk, and the error stays.
#[test]
fn a_gap_in_the_logs_ends_a_walk_for_good() {
    let world = World::new();
    let db = world.open().unwrap();
    world.put(db, b"a", b"1").unwrap();
    // SAFETY: Handles are valid; lengths are right.
    unsafe {
        let unlogged = rocksdb_writeoptions_create();
        rocksdb_writeoptions_disable_WAL(unlogged, 1);
        call(|e| rocksdb_put(db, unlogged, p(b"b"), 1, p(b"2"), 1, e)).unwrap();
        world.put(db, b"c", b"3").unwrap();
        let iter = call(|e| rocksdb_get_updates_since(db, 1, ptr::null(), e)).unwrap();
        assert_eq!(rocksdb_wal_iter_valid(iter), 1);
        for _ in 0..3 {
            rocksdb_wal_iter_next(iter);
            assert_eq!(rocksdb_wal_iter_valid(iter), 0);
            let gap = call(|e| rocksdb_wal_iter_status(iter, e)).unwrap_err();
            assert_eq!(gap, "NotFound: Gap in sequence numbers");
        }
        rocksdb_wal_iter_destroy(iter);
        rocksdb_writeoptions_destroy(unlogged);
        rocksdb_close(db);
    }
}
