//! Backups: options, callbacks, what is listed, restored and refused.

use crate::support::*;
use spanlith_capi::*;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

unsafe extern "C" fn count(state: *mut c_void) {
    // SAFETY: The test gives a number.
    unsafe { *state.cast::<u64>() += 1 };
}

unsafe extern "C" fn leave_out(state: *mut c_void, path: *const c_char, len: usize) -> u8 {
    // SAFETY: The path has `len` bytes; the test gives a list.
    let (path, seen) = unsafe {
        let path = std::slice::from_raw_parts(path.cast::<u8>(), len);
        (path, &mut *state.cast::<Vec<String>>())
    };
    seen.push(String::from_utf8(path.to_vec()).unwrap());
    1
}

#[test]
fn a_backup_is_made_listed_verified_and_restored() {
    let world = World::new();
    let db = world.open().unwrap();
    world.put(db, b"a", b"1").unwrap();
    let to = c_path(&world.dir.path().join("backups"));
    let back = c_path(&world.dir.path().join("restored"));
    // SAFETY: Handles are valid, and destroyed once; lengths are right.
    unsafe {
        let engine = call(|e| rocksdb_backup_engine_open(world.options, to.as_ptr(), e)).unwrap();
        let how = rocksdb_restore_options_create();
        let restore = |id| {
            let (b, h) = (back.as_ptr(), how);
            call(|e| rocksdb_backup_engine_restore_db_from_backup(engine, b, b, h, id, e))
        };
        assert_eq!(restore(1).unwrap_err(), "NotFound: Backup not found");
        let verify = |id| call(|e| rocksdb_backup_engine_verify_backup(engine, id, e));
        assert_eq!(verify(1).unwrap_err(), "NotFound: ");
        call(|e| rocksdb_backup_engine_create_new_backup(engine, db, e)).unwrap();
        world.put(db, b"a", b"2").unwrap();
        let mut id = 0;
        let out = &raw mut id;
        call(|e| {
            let (options, text) = (ptr::null(), c"note".as_ptr());
            rocksdb_backup_engine_create_new_backup_with_metadata(
                engine, db, options, text, 4, out, e,
            );
        })
        .unwrap();
        assert_eq!(id, 2);
        world.put(db, b"a", b"3").unwrap();
        call(|e| rocksdb_backup_engine_create_new_backup_flush(engine, db, 1, e)).unwrap();
        rocksdb_close(db);

        let info = rocksdb_backup_engine_get_backup_info(engine);
        assert_eq!(rocksdb_backup_engine_info_count(info), 3);
        let ids: Vec<u32> = (0..3)
            .map(|i| rocksdb_backup_engine_info_backup_id(info, i))
            .collect();
        assert_eq!(ids, [1, 2, 3]);
        assert!(rocksdb_backup_engine_info_timestamp(info, 0) > 1_700_000_000);
        assert!(rocksdb_backup_engine_info_size(info, 0) > 1000);
        assert_eq!(rocksdb_backup_engine_info_number_files(info, 0), 4);
        assert_eq!(rocksdb_backup_engine_info_number_files(info, 2), 5);
        let mut len = 9;
        let text = rocksdb_backup_engine_info_app_metadata(info, 1, &raw mut len);
        assert_eq!(std::slice::from_raw_parts(text.cast::<u8>(), len), b"note");
        assert_eq!(rocksdb_backup_engine_info_backup_id(info, 3), 0);
        rocksdb_backup_engine_info_destroy(info);

        for (id, value) in [(1, b"1"), (2, b"2"), (3, b"3")] {
            verify(id).unwrap();
            restore(id).unwrap();
            let db = call(|e| rocksdb_open(world.options, back.as_ptr(), e)).unwrap();
            assert_eq!(world.get(db, b"a").unwrap().as_deref(), Some(&value[..]));
            let held = restore(id).unwrap_err();
            assert!(held.contains("lock hold by current process"), "{held}");
            rocksdb_close(db);
        }
        call(|e| rocksdb_backup_engine_purge_old_backups(engine, 1, e)).unwrap();
        assert_eq!(verify(2).unwrap_err(), "NotFound: ");
        verify(3).unwrap();
        let (b, h) = (back.as_ptr(), how);
        call(|e| rocksdb_backup_engine_restore_db_from_latest_backup(engine, b, b, h, e)).unwrap();
        rocksdb_restore_options_destroy(how);
        rocksdb_backup_engine_close(engine);
        rocksdb_backup_engine_close(ptr::null_mut());
    }
}

#[test]
fn options_of_backups_are_kept_and_obeyed() {
    let world = World::new();
    let db = world.open().unwrap();
    for i in 0..200u32 {
        world.put(db, &i.to_be_bytes(), &[7; 100]).unwrap();
    }
    world.flush(db).unwrap();
    let to = c_path(&world.dir.path().join("backups"));
    // SAFETY: Handles are valid, and destroyed once; callbacks get what they expect.
    unsafe {
        let o = rocksdb_backup_engine_options_create(c"elsewhere".as_ptr());
        rocksdb_backup_engine_options_set_backup_dir(o, to.as_ptr());
        let mut len = 0;
        let dir = rocksdb_backup_engine_options_get_backup_dir(o, &raw mut len);
        assert_eq!(CStr::from_ptr(dir), to.as_c_str());
        assert_eq!(len, to.as_bytes().len());
        let limiter = rocksdb_ratelimiter_create(1 << 30, 100_000, 10);
        rocksdb_backup_engine_options_set_backup_rate_limiter(o, limiter);
        rocksdb_backup_engine_options_set_restore_rate_limiter(o, limiter);
        rocksdb_ratelimiter_destroy(limiter);
        rocksdb_backup_engine_options_set_callback_trigger_interval_size(o, 100);
        rocksdb_backup_engine_options_set_share_files_with_checksum_naming(o, 1);
        let how = rocksdb_create_backup_options_create();
        let mut calls = 0u64;
        let state = (&raw mut calls).cast();
        rocksdb_create_backup_options_set_progress_callback(how, state, Some(count));
        let mut seen: Vec<String> = Vec::new();
        let state = (&raw mut seen).cast();
        rocksdb_create_backup_options_set_exclude_files_callback(how, state, Some(leave_out));
        let create = |o| {
            let engine = call(|e| rocksdb_backup_engine_open_opts(o, ptr::null_mut(), e))?;
            let mut id = 0;
            let made = call(|e| {
                let id = &raw mut id;
                rocksdb_backup_engine_create_new_backup_with_options(engine, db, how, id, e);
            });
            let info = rocksdb_backup_engine_get_backup_info(engine);
            let files = match rocksdb_backup_engine_info_count(info) {
                0 => 0,
                n => rocksdb_backup_engine_info_number_files(info, n - 1),
            };
            rocksdb_backup_engine_info_destroy(info);
            rocksdb_backup_engine_close(engine);
            made.map(|()| (id, files))
        };
        let refused = "Invalid argument: exclude_files_callback requires schema_version >= 2";
        assert_eq!(create(o), Err(refused.to_string()));
        rocksdb_backup_engine_options_set_schema_version(o, 3);
        let refused = "Not implemented: Only BackupEngineOptions::schema_version <= 2 is supported";
        assert_eq!(create(o), Err(refused.to_string()));
        rocksdb_backup_engine_options_set_schema_version(o, 2);
        assert_eq!(create(o), Ok((1, 4)), "the table is left out");
        assert_eq!(seen.len(), 1);
        assert!(seen[0].starts_with("shared_checksum/0"), "{seen:?}");
        rocksdb_create_backup_options_set_exclude_files_callback(how, ptr::null_mut(), None);
        calls = 0;
        assert_eq!(create(o), Ok((2, 5)));
        assert!(calls > 80, "{calls}");
        rocksdb_backup_engine_options_set_destroy_old_data(o, 1);
        rocksdb_backup_engine_options_set_share_table_files(o, 0);
        assert_eq!(create(o), Ok((1, 5)), "nothing was left");
        rocksdb_create_backup_options_destroy(how);
        rocksdb_backup_engine_options_destroy(o);
        rocksdb_close(db);
    }
}
