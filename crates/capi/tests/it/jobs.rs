//! Describes what jobs did, as the C functions tell it: numbers of RocksDB 11.8.1 for the same operations.

use crate::support::*;
use spanlith_capi::*;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Mutex;

unsafe extern "C" {
    fn pthread_self() -> u64;
}

/// A lent string.
unsafe fn lent(get: impl FnOnce(*mut usize) -> *const c_char) -> Option<Vec<u8>> {
    let mut len = 77;
    let at = get(&raw mut len).cast::<u8>();
    if at.is_null() {
        assert_eq!(len, 0, "the length of nothing");
        return None;
    }
    // SAFETY: The getter says so.
    Some(unsafe { std::slice::from_raw_parts(at, len) }.to_vec())
}

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Heard {
    /// # Safety
    /// `state` is a `Heard`.
    unsafe fn note(state: *mut c_void, text: String) {
        // SAFETY: The caller says so.
        unsafe { &*state.cast::<Self>() }
            .0
            .lock()
            .unwrap()
            .push(text);
    }
}

unsafe extern "C" fn ended(_state: *mut c_void) {}

/// All numbers that are not 0, but for sizes and times, which only have to be there.
unsafe fn numbers(s: *const rocksdb_compaction_job_stats_t) -> String {
    macro_rules! all {
        ($($name:ident: $getter:ident,)*) => {
            // SAFETY: The caller says so.
            [$((stringify!($name), unsafe { $getter(s) } as u64)),*]
        };
    }
    let named = all! {
        input: rocksdb_compaction_job_stats_num_input_records,
        blobs: rocksdb_compaction_job_stats_num_blobs_read,
        files: rocksdb_compaction_job_stats_num_input_files,
        moved: rocksdb_compaction_job_stats_num_input_files_trivially_moved,
        at_output: rocksdb_compaction_job_stats_num_input_files_at_output_level,
        filtered: rocksdb_compaction_job_stats_num_filtered_input_files,
        filtered_at_output: rocksdb_compaction_job_stats_num_filtered_input_files_at_output_level,
        output: rocksdb_compaction_job_stats_num_output_records,
        output_files: rocksdb_compaction_job_stats_num_output_files,
        blob_files: rocksdb_compaction_job_stats_num_output_files_blob,
        full: rocksdb_compaction_job_stats_is_full_compaction,
        manual: rocksdb_compaction_job_stats_is_manual_compaction,
        remote: rocksdb_compaction_job_stats_is_remote_compaction,
        blob_bytes: rocksdb_compaction_job_stats_total_blob_bytes_read,
        output_blob_bytes: rocksdb_compaction_job_stats_total_output_bytes_blob,
        skipped: rocksdb_compaction_job_stats_total_skipped_input_bytes,
        replaced: rocksdb_compaction_job_stats_num_records_replaced,
        key_bytes: rocksdb_compaction_job_stats_total_input_raw_key_bytes,
        value_bytes: rocksdb_compaction_job_stats_total_input_raw_value_bytes,
        deletions: rocksdb_compaction_job_stats_num_input_deletion_records,
        expired: rocksdb_compaction_job_stats_num_expired_deletion_records,
        corrupt: rocksdb_compaction_job_stats_num_corrupt_keys,
        prepare: rocksdb_compaction_job_stats_file_prepare_write_nanos,
        fallthru: rocksdb_compaction_job_stats_num_single_del_fallthru,
        mismatch: rocksdb_compaction_job_stats_num_single_del_mismatch,
    };
    // SAFETY: The caller says so.
    unsafe {
        assert_eq!(
            rocksdb_compaction_job_stats_has_accurate_num_input_records(s),
            1
        );
        let times = [
            rocksdb_compaction_job_stats_elapsed_micros(s),
            rocksdb_compaction_job_stats_file_write_nanos(s),
            rocksdb_compaction_job_stats_file_fsync_nanos(s),
        ];
        let sizes = [
            rocksdb_compaction_job_stats_total_input_bytes(s),
            rocksdb_compaction_job_stats_total_output_bytes(s),
        ];
        // Neither has an amount that can be told in advance.
        let _ = rocksdb_compaction_job_stats_cpu_micros(s);
        let _ = rocksdb_compaction_job_stats_file_range_sync_nanos(s);
        let smallest = lent(|n| rocksdb_compaction_job_stats_smallest_output_key_prefix(s, n));
        let largest = lent(|n| rocksdb_compaction_job_stats_largest_output_key_prefix(s, n));
        let set = named.iter().filter(|(_, n)| *n != 0);
        let set: Vec<String> = set.map(|(name, n)| format!("{name} {n}")).collect();
        format!(
            "{} times {:?} sizes {:?} from {} to {}",
            set.join(", "),
            times.map(|t| t > 0),
            sizes.map(|t| t > 0),
            String::from_utf8(smallest.unwrap()).unwrap(),
            String::from_utf8(largest.unwrap()).unwrap(),
        )
    }
}

/// The number of entries of each table, and what the lookup by path says.
unsafe fn tables(info: *const rocksdb_compactionjobinfo_t) -> Vec<u64> {
    // SAFETY: The caller says so.
    unsafe {
        let count = rocksdb_compactionjobinfo_table_properties_count(info);
        let out = (0..count).map(|at| {
            let key = lent(|n| rocksdb_compactionjobinfo_table_properties_key_at(info, at, n));
            let key = key.unwrap();
            let value = rocksdb_compactionjobinfo_table_properties_value_at(info, at);
            let find = |key: &[u8]| {
                let find = rocksdb_compactionjobinfo_table_properties_for_file;
                find(info, p(key), key.len())
            };
            assert_eq!(find(&key), value);
            assert!(find(&key[1..]).is_null(), "whole paths only");
            rocksdb_table_properties_num_entries(value)
        });
        let out = out.collect();
        assert!(
            lent(|n| rocksdb_compactionjobinfo_table_properties_key_at(info, count, n)).is_none()
        );
        assert!(rocksdb_compactionjobinfo_table_properties_value_at(info, count).is_null());
        out
    }
}

unsafe extern "C" fn compacting(
    state: *mut c_void,
    _db: *mut rocksdb_t,
    info: *const rocksdb_compactionjobinfo_t,
) {
    // SAFETY: The arguments are valid during the call.
    unsafe {
        assert_eq!(rocksdb_compactionjobinfo_thread_id(info), pthread_self());
        let numbers = numbers(rocksdb_compactionjobinfo_stats(info));
        Heard::note(state, format!("begin {:?} {numbers}", tables(info)));
    }
}

unsafe extern "C" fn compacted(
    state: *mut c_void,
    _db: *mut rocksdb_t,
    info: *const rocksdb_compactionjobinfo_t,
) {
    // SAFETY: The arguments are valid during the call.
    unsafe {
        assert_eq!(rocksdb_compactionjobinfo_aborted(info), 0);
        let numbers = numbers(rocksdb_compactionjobinfo_stats(info));
        Heard::note(state, format!("end {:?} {numbers}", tables(info)));
    }
}

unsafe extern "C" fn compacted_part(
    state: *mut c_void,
    info: *const rocksdb_subcompactionjobinfo_t,
) {
    // SAFETY: The arguments are valid during the call.
    unsafe {
        assert_eq!(rocksdb_subcompactionjobinfo_thread_id(info), pthread_self());
        let numbers = numbers(rocksdb_subcompactionjobinfo_stats(info));
        Heard::note(state, format!("part {numbers}"));
    }
}

unsafe extern "C" fn flushed(
    state: *mut c_void,
    _db: *mut rocksdb_t,
    info: *const rocksdb_flushjobinfo_t,
) {
    // SAFETY: The arguments are valid during the call.
    unsafe {
        assert_eq!(rocksdb_flushjobinfo_thread_id(info), pthread_self());
        let p = rocksdb_flushjobinfo_table_properties(info);
        let trailers = 5 * rocksdb_table_properties_num_data_blocks(p);
        let raw = rocksdb_table_properties_uncompressed_data_size(p);
        assert_eq!(raw + trailers, rocksdb_table_properties_data_size(p));
        assert_eq!(rocksdb_table_properties_udi_is_primary_index(p), 0);
        assert_eq!(
            rocksdb_table_properties_external_sst_file_global_seqno_offset(p),
            0
        );
        let count = rocksdb_table_properties_readable_properties_count(p);
        for at in 0..=count {
            let name = lent(|n| rocksdb_table_properties_readable_properties_key_at(p, at, n));
            let text = lent(|n| rocksdb_table_properties_readable_properties_value_at(p, at, n));
            assert_eq!((name.is_some(), text.is_some()), (at < count, at < count));
            if let Some((name, text)) = name.zip(text) {
                let [name, text] = [name, text].map(|b| String::from_utf8(b).unwrap());
                Heard::note(state, format!("{name} {text}"));
            }
        }
    }
}

unsafe extern "C" fn sealed(state: *mut c_void, info: *const rocksdb_memtableinfo_t) {
    // SAFETY: The arguments are valid during the call.
    unsafe {
        let newest = lent(|n| rocksdb_memtableinfo_newest_udt(info, n)).unwrap();
        if !newest.is_empty() {
            Heard::note(state, format!("newest {newest:?}"));
        }
    }
}

unsafe fn listen(options: *mut rocksdb_options_t, heard: &Heard) {
    let state = ptr::from_ref(heard).cast_mut().cast::<c_void>();
    // SAFETY: The state outlives the database.
    unsafe {
        let listener = rocksdb_eventlistener_create(
            state,
            Some(ended),
            None,
            Some(flushed),
            Some(compacting),
            Some(compacted),
            None,
            Some(compacted_part),
            None,
            None,
            None,
            Some(sealed),
        );
        rocksdb_options_add_eventlistener(options, listener);
    }
}

#[test]
fn a_compaction_tells_what_it_did_and_the_properties_of_its_tables() {
    let heard = Heard::default();
    let world = World::new();
    // SAFETY: Handles are valid; the state outlives the database.
    unsafe {
        let o = world.options;
        listen(o, &heard);
        rocksdb_options_set_compression(o, 0);
        rocksdb_options_set_level_compaction_dynamic_level_bytes(o, 0);
        rocksdb_options_set_report_bg_io_stats(o, 1);
        let db = world.open().unwrap();
        for key in [&b"key00001"[..], b"key00002", b"key00003"] {
            world.put(db, key, b"value").unwrap();
        }
        world.flush(db).unwrap();
        world.put(db, b"key00002", b"new").unwrap();
        call(|e| rocksdb_delete(db, world.write, p(b"key00003"), 8, e)).unwrap();
        call(|e| rocksdb_singledelete(db, world.write, p(b"none"), 4, e)).unwrap();
        world.put(db, b"key00004-and-more", b"").unwrap();
        world.flush(db).unwrap();
        rocksdb_compact_range(db, ptr::null(), 0, ptr::null(), 0);
        rocksdb_close(db);
        let none = "times [false, false, false]";
        assert_eq!(
            *heard.0.lock().unwrap(),
            [
                format!("begin [4, 3] files 2, full 1, manual 1 {none} sizes [true, false] from  to "),
                "part input 7, replaced 2, key_bytes 117, value_bytes 18, deletions 2, expired 2, \
                 fallthru 1 times [false, true, true] sizes [false, false] from  to "
                    .to_string(),
                "end [3, 4, 3] input 7, files 2, output 3, output_files 1, full 1, manual 1, replaced 2, \
                 key_bytes 117, value_bytes 18, deletions 2, expired 2, fallthru 1 \
                 times [true, true, true] sizes [true, true] from key00001 to key00004"
                    .to_string(),
            ]
        );
    }
}

#[test]
fn an_empty_place_for_what_a_compaction_does_says_nothing() {
    // SAFETY: The handle is valid, and destroyed once.
    unsafe {
        let info = rocksdb_compactionjobinfo_create();
        let stats = numbers(rocksdb_compactionjobinfo_stats(info));
        let none = " times [false, false, false] sizes [false, false] from  to ";
        assert_eq!((stats.as_str(), tables(info).len()), (none, 0));
        assert_eq!(rocksdb_compactionjobinfo_aborted(info), 0);
        rocksdb_compactionjobinfo_destroy(info);
    }
}

#[test]
fn the_newest_timestamp_of_a_sealed_memtable_is_told() {
    const FAMILY: &std::ffi::CStr =
        c"comparator=leveldb.BytewiseComparator.u64ts;persist_user_defined_timestamps=false;\
          compression=kNoCompression";
    let heard = Heard::default();
    let world = World::new();
    // SAFETY: Handles are valid; the state outlives the database.
    unsafe {
        let o = rocksdb_options_create();
        call(|e| rocksdb_get_options_from_string(world.options, FAMILY.as_ptr(), o, e)).unwrap();
        rocksdb_options_set_create_if_missing(o, 1);
        rocksdb_options_set_allow_concurrent_memtable_write(o, 0);
        listen(o, &heard);
        let db = call(|e| rocksdb_open(o, world.path.as_ptr(), e)).unwrap();
        for n in [5u64, 258, 7] {
            let at = n.to_le_bytes();
            let (key, value) = (p(b"k"), p(b"v"));
            call(|e| rocksdb_put_with_ts(db, world.write, key, 1, p(&at), 8, value, 1, e)).unwrap();
        }
        world.flush(db).unwrap();
        rocksdb_close(db);
        rocksdb_options_destroy(o);
        assert_eq!(
            *heard.0.lock().unwrap(),
            ["newest [2, 1, 0, 0, 0, 0, 0, 0]"]
        );
    }
}

#[test]
fn a_flush_tells_the_bounds_of_timestamps_for_people_to_read() {
    const FAMILY: &std::ffi::CStr =
        c"comparator=leveldb.BytewiseComparator.u64ts;compression=kNoCompression";
    let heard = Heard::default();
    let world = World::new();
    // SAFETY: Handles are valid; the state outlives the database.
    unsafe {
        let o = rocksdb_options_create();
        call(|e| rocksdb_get_options_from_string(world.options, FAMILY.as_ptr(), o, e)).unwrap();
        rocksdb_options_set_create_if_missing(o, 1);
        listen(o, &heard);
        let db = call(|e| rocksdb_open(o, world.path.as_ptr(), e)).unwrap();
        for n in [300u64, 171] {
            let at = n.to_le_bytes();
            let (key, value) = (p(b"k"), p(b"v"));
            call(|e| rocksdb_put_with_ts(db, world.write, key, 1, p(&at), 8, value, 1, e)).unwrap();
        }
        world.flush(db).unwrap();
        rocksdb_close(db);
        rocksdb_options_destroy(o);
        assert_eq!(
            *heard.0.lock().unwrap(),
            [
                "rocksdb.timestamp_max 2C01000000000000",
                "rocksdb.timestamp_min AB00000000000000",
            ]
        );
    }
}

#[test]
fn all_compactions_are_aborted_and_resumed_as_often() {
    let world = World::new();
    // SAFETY: Handles are valid, and destroyed once.
    unsafe {
        let db = world.open().unwrap();
        world.put(db, b"a", b"1").unwrap();
        world.flush(db).unwrap();
        let options = rocksdb_compaction_options_create();
        let info = rocksdb_compactionjobinfo_create();
        let compact = || {
            let files = rocksdb_livefiles(db);
            let name = rocksdb_livefiles_name(files, 0 as c_int);
            let (mut names, mut count) = (ptr::null_mut(), 0);
            let (names, count) = (&raw mut names, &raw mut count);
            let list = [name];
            let (list, level) = (list.as_ptr(), 3);
            let done = call(|e| {
                rocksdb_compact_files(db, options, list, 1, level, -1, names, count, info, e);
            });
            rocksdb_livefiles_destroy(files);
            done.map(|()| {
                libc_free(**names);
                libc_free((*names).cast());
            })
        };
        let aborted = Err("Result incomplete: All compactions aborted".to_string());
        rocksdb_abort_all_compactions(db);
        rocksdb_abort_all_compactions(db);
        assert_eq!(compact(), aborted);
        assert_eq!(
            rocksdb_compactionjobinfo_num_input_files(info),
            0,
            "it did not begin"
        );
        rocksdb_resume_all_compactions(db);
        assert_eq!(compact(), aborted);
        world.put(db, b"a", b"2").unwrap();
        world.flush(db).unwrap();
        rocksdb_resume_all_compactions(db);
        assert_eq!(compact(), Ok(()));
        rocksdb_compactionjobinfo_destroy(info);
        rocksdb_compaction_options_destroy(options);
        rocksdb_close(db);
    }
}
