//! Event listeners, and the end of background work.

use crate::support::*;
use spanlith_capi::*;
use std::ffi::c_void;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Default)]
struct Heard {
    events: Mutex<Vec<String>>,
    destroyed: AtomicUsize,
}

/// # Safety
/// `state` is a `Heard`.
unsafe fn heard<'a>(state: *mut c_void) -> &'a Heard {
    // SAFETY: The caller says so.
    unsafe { &*state.cast::<Heard>() }
}

unsafe extern "C" fn destroyed(state: *mut c_void) {
    // SAFETY: The state of the test.
    unsafe { heard(state) }
        .destroyed
        .fetch_add(1, Ordering::Relaxed);
}

/// # Safety
/// As a getter of a lent string says.
unsafe fn lent(get: impl FnOnce(*mut usize) -> *const std::ffi::c_char) -> String {
    let mut len = 0;
    let at = get(&raw mut len).cast::<u8>();
    // SAFETY: The getter says so.
    let bytes = unsafe { std::slice::from_raw_parts(at, len) };
    String::from_utf8(bytes.to_vec()).unwrap()
}

unsafe extern "C" fn flushed(
    state: *mut c_void,
    db: *mut rocksdb_t,
    info: *const rocksdb_flushjobinfo_t,
) {
    // SAFETY: The arguments are valid during the call.
    unsafe {
        let family = lent(|n| rocksdb_flushjobinfo_cf_name(info, n));
        let path = lent(|n| rocksdb_flushjobinfo_file_path(info, n));
        let entries =
            rocksdb_table_properties_num_entries(rocksdb_flushjobinfo_table_properties(info));
        let reason = rocksdb_flushjobinfo_flush_reason(info);
        let sequence = rocksdb_get_latest_sequence_number(db);
        let is_table = path.ends_with(".sst");
        heard(state).events.lock().unwrap().push(format!(
            "flush {family} {is_table} entries {entries} reason {reason} at {sequence}"
        ));
    }
}

unsafe extern "C" fn compacted(
    state: *mut c_void,
    _db: *mut rocksdb_t,
    info: *const rocksdb_compactionjobinfo_t,
) {
    // SAFETY: The arguments are valid during the call.
    unsafe {
        call(|e| rocksdb_compactionjobinfo_status(info, e)).unwrap();
        let inputs = rocksdb_compactionjobinfo_input_files_count(info);
        let outputs = rocksdb_compactionjobinfo_output_files_count(info);
        let [read, written] = [
            rocksdb_compactionjobinfo_input_records(info),
            rocksdb_compactionjobinfo_output_records(info),
        ];
        let none = rocksdb_compactionjobinfo_output_file_at(info, outputs, ptr::null_mut());
        assert!(none.is_null());
        assert_eq!(
            rocksdb_compactionjobinfo_input_file_infos_count(info),
            inputs
        );
        assert_eq!(
            rocksdb_compactionjobinfo_output_file_infos_count(info),
            outputs
        );
        for at in 0..outputs {
            let path = lent(|n| rocksdb_compactionjobinfo_output_file_at(info, at, n));
            let file = rocksdb_compactionjobinfo_output_file_info_at(info, at);
            let number = rocksdb_compaction_file_info_file_number(file);
            assert!(path.ends_with(&format!("/{number:06}.sst")));
            let level = rocksdb_compaction_file_info_level(file);
            assert_eq!(level, rocksdb_compactionjobinfo_output_level(info));
            assert_eq!(
                rocksdb_compaction_file_info_oldest_blob_file_number(file),
                0
            );
        }
        assert!(rocksdb_compactionjobinfo_input_file_info_at(info, inputs).is_null());
        assert_eq!(rocksdb_compactionjobinfo_num_l0_files(info), 0);
        heard(state).events.lock().unwrap().push(format!(
            "compaction of {inputs} into {outputs}: {read} to {written}"
        ));
    }
}

unsafe extern "C" fn sealed(state: *mut c_void, info: *const rocksdb_memtableinfo_t) {
    // SAFETY: The arguments are valid during the call.
    unsafe {
        let entries = rocksdb_memtableinfo_num_entries(info);
        let first = rocksdb_memtableinfo_first_seqno(info);
        let earliest = rocksdb_memtableinfo_earliest_seqno(info);
        let text = format!("sealed {entries} from {first} behind {earliest}");
        heard(state).events.lock().unwrap().push(text);
    }
}

#[test]
fn a_listener_is_told_of_flushes_and_compactions_and_ended_once() {
    let told = Heard::default();
    let world = World::new();
    let state = ptr::from_ref(&told).cast_mut().cast::<c_void>();
    // SAFETY: Handles are valid; the state outlives the database.
    unsafe {
        let listener = rocksdb_eventlistener_create(
            state,
            Some(destroyed),
            None,
            Some(flushed),
            None,
            Some(compacted),
            None,
            None,
            None,
            None,
            None,
            Some(sealed),
        );
        rocksdb_options_add_eventlistener(world.options, listener);
        let db = world.open().unwrap();
        for round in [b"1", b"2"] {
            world.put(db, b"a", round).unwrap();
            world.put(db, b"z", round).unwrap();
            if round == b"2" {
                let cf = rocksdb_get_default_column_family_handle(db);
                let (from, to) = (c"m".as_ptr(), c"n".as_ptr());
                call(|e| rocksdb_delete_range_cf(db, world.write, cf, from, 1, to, 1, e)).unwrap();
                rocksdb_column_family_handle_destroy(cf);
            }
            world.flush(db).unwrap();
        }
        rocksdb_compact_range(db, ptr::null(), 0, ptr::null(), 0);
        rocksdb_close(db);
        assert_eq!(
            *told.events.lock().unwrap(),
            [
                "sealed 2 from 1 behind 0",
                "flush default true entries 2 reason 10 at 2",
                "sealed 3 from 3 behind 2",
                "flush default true entries 3 reason 10 at 5",
                "compaction of 2 into 1: 4 to 2",
            ]
        );
        assert_eq!(told.destroyed.load(Ordering::Relaxed), 0);
        drop(world);
        assert_eq!(told.destroyed.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn after_background_work_was_called_off_reads_and_writes_go_on_and_flushes_fail() {
    let world = World::new();
    let db = world.open().unwrap();
    world.put(db, b"a", b"1").unwrap();
    // SAFETY: Handles are valid.
    unsafe {
        rocksdb_cancel_all_background_work(db, 1);
        world.put(db, b"b", b"2").unwrap();
        assert_eq!(world.get(db, b"a").unwrap().unwrap(), b"1");
        assert_eq!(world.flush(db).unwrap_err(), "Shutdown in progress: ");
        let options = rocksdb_wait_for_compact_options_create();
        let waited = call(|e| rocksdb_wait_for_compact(db, options, e));
        assert_eq!(waited.unwrap_err(), "Shutdown in progress: ");
        rocksdb_wait_for_compact_options_destroy(options);
        rocksdb_close(db);
    }
    let db = world.open().unwrap();
    assert_eq!(world.get(db, b"b").unwrap().unwrap(), b"2");
    // SAFETY: The handle is valid.
    unsafe { rocksdb_close(db) };
}

#[test]
fn a_wait_may_refuse_to_wait_for_the_end_of_a_pause_and_calling_off_ends_it() {
    let world = World::new();
    let db = world.open().unwrap();
    // SAFETY: Handles are valid.
    unsafe {
        let unlogged = rocksdb_writeoptions_create();
        rocksdb_writeoptions_disable_WAL(unlogged, 1);
        let key = c"k".as_ptr();
        call(|e| rocksdb_put(db, unlogged, key, 1, key, 1, e)).unwrap();
        rocksdb_writeoptions_destroy(unlogged);
        let options = rocksdb_wait_for_compact_options_create();
        rocksdb_wait_for_compact_options_set_abort_on_pause(options, 1);
        call(|e| rocksdb_wait_for_compact(db, options, e)).unwrap();
        call(|e| rocksdb_pause_background_work(db, e)).unwrap();
        let waited = call(|e| rocksdb_wait_for_compact(db, options, e));
        assert_eq!(waited.unwrap_err(), "Operation aborted: ");
        rocksdb_wait_for_compact_options_destroy(options);
        // Flushes what is in no log first, pause or not.
        rocksdb_cancel_all_background_work(db, 1);
        rocksdb_close(db);
    }
    let db = world.open().unwrap();
    assert_eq!(world.get(db, b"k").unwrap().unwrap(), b"k");
    // SAFETY: The handle is valid.
    unsafe { rocksdb_close(db) };
}

#[test]
fn components_that_do_not_exist_are_refused_by_name_when_a_database_is_opened() {
    let world = World::new();
    // SAFETY: Handles are valid.
    unsafe {
        let o = world.options;
        rocksdb_options_set_memtable_vector_rep(o);
        rocksdb_options_set_row_cache(o, ptr::null_mut());
        rocksdb_close(world.open().unwrap());
        let partitioner = rocksdb_sst_partitioner_fixed_prefix_factory_create(1);
        rocksdb_options_set_sst_partitioner_factory(o, partitioner);
        rocksdb_sst_partitioner_factory_destroy(partitioner);
        let db = world.open().unwrap();
        for keys in [[b"a1", b"b1"], [b"a2", b"b2"]] {
            for key in keys {
                world.put(db, key, b"v").unwrap();
            }
            world.flush(db).unwrap();
        }
        rocksdb_compact_range(db, ptr::null(), 0, ptr::null(), 0);
        let metadata = rocksdb_get_column_family_metadata(db);
        assert_eq!(rocksdb_column_family_metadata_get_file_count(metadata), 2);
        rocksdb_column_family_metadata_destroy(metadata);
        rocksdb_close(db);

        rocksdb_options_add_compact_on_deletion_collector_factory(o, 100, 50);
        rocksdb_options_add_compact_on_deletion_collector_factory_del_ratio(o, 0, 0, 0.9);
        rocksdb_options_add_compact_on_deletion_collector_factory_min_file_size(
            o,
            128,
            1,
            0.0,
            1 << 40,
        );
        let db = world.open().unwrap();
        for n in 0..60u8 {
            let key = [b'a', n];
            call(|e| rocksdb_delete(db, world.write, p(&key), key.len(), e)).unwrap();
        }
        world.flush(db).unwrap();
        let mut err = Errptr::new();
        let wait = rocksdb_wait_for_compact_options_create();
        rocksdb_wait_for_compact(db, wait, err.slot());
        rocksdb_wait_for_compact_options_destroy(wait);
        assert_eq!(err.take(), None);
        let level0 = c"rocksdb.num-files-at-level0";
        let value = take_text(rocksdb_property_value(db, level0.as_ptr()));
        assert_eq!(value.as_deref(), Some("0"));
        rocksdb_close(db);
    }
    let world = World::new();
    // SAFETY: Handles are valid.
    unsafe {
        let cuckoo = rocksdb_cuckoo_options_create();
        assert_eq!(rocksdb_cuckoo_options_get_max_search_depth(cuckoo), 100);
        rocksdb_options_set_cuckoo_table_factory(world.options, cuckoo);
        rocksdb_cuckoo_options_destroy(cuckoo);
    }
    let db = world.open().unwrap();
    world.put(db, b"k1", b"v").unwrap();
    // As in RocksDB, files have to be mapped.
    let refused = world.flush(db).unwrap_err();
    assert!(refused.contains("File is not mmaped"), "{refused}");
    assert_eq!(world.get(db, b"k1").unwrap().unwrap(), b"v");
    // SAFETY: The handle is valid.
    unsafe { rocksdb_close(db) };
}

#[test]
fn of_an_option_that_is_set_twice_the_last_value_counts() {
    let world = World::new();
    let db = world.open().unwrap();
    let name = c"write_buffer_size".as_ptr();
    let values = [c"many".as_ptr(), c"200000".as_ptr()];
    // SAFETY: The arrays have two strings each.
    unsafe {
        call(|e| rocksdb_set_options(db, 2, [name; 2].as_ptr(), values.as_ptr(), e)).unwrap();
        rocksdb_close(db);
    }
}
