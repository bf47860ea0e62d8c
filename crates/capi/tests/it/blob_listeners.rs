//! Describes what event listeners are told of blob files (R-TR-06).

use crate::support::*;
use spanlith_capi::*;
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Mutex;

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Heard {
    /// # Safety
    /// `state` is a `Heard`.
    unsafe fn say(state: *mut c_void, text: String) {
        // SAFETY: The caller says so.
        unsafe { &*state.cast::<Self>() }
            .0
            .lock()
            .unwrap()
            .push(text);
    }
}

unsafe extern "C" fn nothing(_state: *mut c_void) {}

/// # Safety
/// As a getter of a lent string says.
unsafe fn file_name(get: impl FnOnce(*mut usize) -> *const c_char) -> String {
    let mut len = 0;
    let at = get(&raw mut len).cast::<u8>();
    // SAFETY: The getter says so.
    let bytes = unsafe { std::slice::from_raw_parts(at, len) };
    let path = String::from_utf8(bytes.to_vec()).unwrap();
    path.rsplit('/').next().unwrap().to_string()
}

/// # Safety
/// `info` is what a listener was given.
unsafe fn written(info: *const rocksdb_blob_file_addition_info_t) -> String {
    // SAFETY: The caller says so.
    unsafe {
        let number = rocksdb_blob_file_addition_info_blob_file_number(info);
        let name = file_name(|n| rocksdb_blob_file_addition_info_blob_file_path(info, n));
        assert_eq!(name, format!("{number:06}.blob"));
        format!(
            " +{} records of {} bytes",
            rocksdb_blob_file_addition_info_total_blob_count(info),
            rocksdb_blob_file_addition_info_total_blob_bytes(info)
        )
    }
}

unsafe extern "C" fn flushed(
    state: *mut c_void,
    _db: *mut rocksdb_t,
    info: *const rocksdb_flushjobinfo_t,
) {
    // SAFETY: The arguments are valid during the call.
    unsafe {
        let count = rocksdb_flushjobinfo_blob_file_addition_infos_count(info);
        let at = |n| rocksdb_flushjobinfo_blob_file_addition_info_at(info, n);
        assert!(at(count).is_null());
        let oldest = rocksdb_flushjobinfo_oldest_blob_file_number(info);
        let first = rocksdb_blob_file_addition_info_blob_file_number(at(0));
        let mut text = format!(
            "flush, codec {}, oldest is first: {}",
            rocksdb_flushjobinfo_blob_compression_type(info),
            oldest == first
        );
        (0..count).for_each(|n| text += &written(at(n)));
        Heard::say(state, text);
    }
}

unsafe extern "C" fn flush_begins(
    _state: *mut c_void,
    _db: *mut rocksdb_t,
    info: *const rocksdb_flushjobinfo_t,
) {
    // SAFETY: The arguments are valid during the call.
    unsafe {
        assert_eq!(rocksdb_flushjobinfo_oldest_blob_file_number(info), 0);
        assert_eq!(rocksdb_flushjobinfo_blob_file_addition_infos_count(info), 0);
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
        let mut text = format!(
            "compaction, codec {}",
            rocksdb_compactionjobinfo_blob_compression_type(info)
        );
        let count = rocksdb_compactionjobinfo_blob_file_addition_infos_count(info);
        let at = |n| rocksdb_compactionjobinfo_blob_file_addition_info_at(info, n);
        assert!(at(count).is_null());
        (0..count).for_each(|n| text += &written(at(n)));
        let count = rocksdb_compactionjobinfo_blob_file_garbage_infos_count(info);
        let at = |n| rocksdb_compactionjobinfo_blob_file_garbage_info_at(info, n);
        assert!(at(count).is_null());
        for n in 0..count {
            let lost = at(n);
            let number = rocksdb_blob_file_garbage_info_blob_file_number(lost);
            let name = file_name(|n| rocksdb_blob_file_garbage_info_blob_file_path(lost, n));
            assert_eq!(name, format!("{number:06}.blob"));
            text += &format!(
                " -{} records of {} bytes",
                rocksdb_blob_file_garbage_info_garbage_blob_count(lost),
                rocksdb_blob_file_garbage_info_garbage_blob_bytes(lost)
            );
        }
        Heard::say(state, text);
    }
}

unsafe extern "C" fn part_done(state: *mut c_void, info: *const rocksdb_subcompactionjobinfo_t) {
    // SAFETY: The arguments are valid during the call.
    unsafe {
        let codec = rocksdb_subcompactionjobinfo_blob_compression_type(info);
        Heard::say(state, format!("part, codec {codec}"));
    }
}

#[test]
fn listeners_are_told_of_blob_files_and_of_garbage_in_them() {
    let heard = Heard::default();
    let world = World::new();
    let state = ptr::from_ref(&heard).cast_mut().cast::<c_void>();
    // SAFETY: Handles are valid; the state outlives the database.
    unsafe {
        rocksdb_options_set_enable_blob_files(world.options, 1);
        rocksdb_options_set_min_blob_size(world.options, 100);
        rocksdb_options_set_disable_auto_compactions(world.options, 1);
        let listener = rocksdb_eventlistener_create(
            state,
            Some(nothing),
            Some(flush_begins),
            Some(flushed),
            None,
            Some(compacted),
            None,
            Some(part_done),
            None,
            None,
            None,
            None,
        );
        rocksdb_options_add_eventlistener(world.options, listener);
        let db = world.open().unwrap();
        let large = [7; 200];
        for keys in [[b"a", b"b", b"c"], [b"a", b"b", b"d"]] {
            for key in keys {
                world.put(db, key, &large).unwrap();
            }
            world.flush(db).unwrap();
        }
        let options = rocksdb_compactoptions_create();
        rocksdb_compactoptions_set_bottommost_level_compaction(options, 2);
        rocksdb_compact_range_opt(db, options, ptr::null(), 0, ptr::null(), 0);
        // All values move to a new file.
        rocksdb_compactoptions_set_blob_garbage_collection_policy(options, 0);
        rocksdb_compactoptions_set_blob_garbage_collection_age_cutoff(options, 1.0);
        rocksdb_compact_range_opt(db, options, ptr::null(), 0, ptr::null(), 0);
        rocksdb_compactoptions_destroy(options);
        rocksdb_close(db);
    }
    let flush = "flush, codec 0, oldest is first: true +3 records of 699 bytes";
    assert_eq!(
        *heard.0.lock().unwrap(),
        [
            flush,
            flush,
            "part, codec 0",
            "compaction, codec 0 -2 records of 466 bytes",
            // The last level once more, since that is forced.
            "part, codec 0",
            "compaction, codec 0",
            "part, codec 0",
            "compaction, codec 0 +4 records of 932 bytes -1 records of 233 bytes -3 records of 699 bytes",
        ]
    );
}
