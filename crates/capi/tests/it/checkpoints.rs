//! Checkpoints, and the files of which a copy consists.

use crate::support::*;
use spanlith_capi::*;
use std::ffi::CStr;

#[test]
fn a_checkpoint_opens_and_its_maker_outlives_the_database() {
    let world = World::new();
    let db = world.open().unwrap();
    world.put(db, b"a", b"1").unwrap();
    let to = c_path(&world.dir.path().join("to"));
    // SAFETY: Handles are valid; lengths are right.
    unsafe {
        let maker = call(|e| rocksdb_checkpoint_object_create(db, e)).unwrap();
        call(|e| rocksdb_checkpoint_create(maker, to.as_ptr(), 0, e)).unwrap();
        let again = call(|e| rocksdb_checkpoint_create(maker, to.as_ptr(), 0, e));
        assert_eq!(again.unwrap_err(), "Invalid argument: Directory exists");
        let nowhere = call(|e| rocksdb_checkpoint_create(maker, c"".as_ptr(), 0, e));
        let text = "Invalid argument: invalid checkpoint directory name";
        assert_eq!(nowhere.unwrap_err(), text);
        world.put(db, b"a", b"2").unwrap();
        rocksdb_close(db);
        let late = call(|e| rocksdb_checkpoint_create(maker, c"x".as_ptr(), 0, e));
        assert!(late.unwrap_err().starts_with("Shutdown in progress"));
        rocksdb_checkpoint_object_destroy(maker);

        let copy = call(|e| rocksdb_open(world.options, to.as_ptr(), e)).unwrap();
        assert_eq!(world.get(copy, b"a").unwrap().as_deref(), Some(&b"1"[..]));
        rocksdb_close(copy);
    }
}

#[test]
fn the_files_of_a_copy_are_listed_as_rocksdb_lists_them() {
    let world = World::new();
    let db = world.open().unwrap();
    world.put(db, b"a", b"1").unwrap();
    // SAFETY: Handles are valid.
    unsafe {
        let options = rocksdb_livefiles_storage_info_options_create();
        let (flush, sums) = (
            rocksdb_livefiles_storage_info_options_get_wal_size_for_flush(options),
            rocksdb_livefiles_storage_info_options_get_include_checksum_info(options),
        );
        assert_eq!((flush, sums), (0, 0));
        let info = call(|e| rocksdb_get_livefiles_storage_info(db, options, e)).unwrap();
        let count = rocksdb_livefiles_storage_info_count(info);
        let text = |at| CStr::from_ptr(at).to_str().unwrap().to_string();
        let mut listed = Vec::new();
        for at in 0..count {
            let mut size = 0;
            let contents =
                rocksdb_livefiles_storage_info_replacement_contents(info, at, &raw mut size);
            let name = text(rocksdb_livefiles_storage_info_relative_filename(info, at));
            assert_eq!(contents.is_null(), name != "CURRENT");
            let dir = text(rocksdb_livefiles_storage_info_directory(info, at));
            assert_eq!(dir, world.path.to_str().unwrap());
            let len = std::fs::metadata(format!("{dir}/{name}")).unwrap().len();
            // All was flushed: the log holds a note of ours at most.
            let len = if name.ends_with(".log") { 0 } else { len };
            assert_eq!(rocksdb_livefiles_storage_info_size(info, at), len, "{name}");
            assert_eq!(rocksdb_livefiles_storage_info_temperature(info, at), 0);
            let kind = rocksdb_livefiles_storage_info_file_type(info, at);
            let trim = rocksdb_livefiles_storage_info_trim_to_size(info, at);
            listed.push((kind, trim));
        }
        assert_eq!(listed, [(2, 0), (3, 1), (4, 1), (9, 0), (0, 1)]);
        assert!(rocksdb_livefiles_storage_info_relative_filename(info, count).is_null());
        rocksdb_livefiles_storage_info_destroy(info);
        rocksdb_livefiles_storage_info_options_destroy(options);
        rocksdb_close(db);
    }
}

#[test]
fn families_are_flushed_together_on_request() {
    let world = World::new();
    let db = world.open().unwrap();
    world.put(db, b"a", b"1").unwrap();
    // SAFETY: Handles are valid; lengths are right.
    unsafe {
        let name = c"other".as_ptr();
        let other = call(|e| rocksdb_create_column_family(db, world.options, name, e)).unwrap();
        let default = rocksdb_get_default_column_family_handle(db);
        call(|e| rocksdb_put_cf(db, world.write, other, p(b"a"), 1, p(b"1"), 1, e)).unwrap();
        let flush = rocksdb_flushoptions_create();
        rocksdb_flushoptions_set_force_atomic_flush(flush, 1);
        let mut both = [default, other];
        call(|e| rocksdb_flush_cfs(db, flush, both.as_mut_ptr(), 2, e)).unwrap();
        for family in both {
            let mut bytes = 0;
            let name = c"rocksdb.live-sst-files-size".as_ptr();
            let found = rocksdb_property_int_cf(db, family, name, &raw mut bytes);
            assert!(found == 0 && bytes > 0);
        }
        let options = rocksdb_livefiles_storage_info_options_create();
        rocksdb_livefiles_storage_info_options_set_atomic_flush(options, 1);
        let info = call(|e| rocksdb_get_livefiles_storage_info(db, options, e)).unwrap();
        rocksdb_livefiles_storage_info_destroy(info);
        rocksdb_livefiles_storage_info_options_destroy(options);
        rocksdb_flushoptions_destroy(flush);
        rocksdb_column_family_handle_destroy(default);
        rocksdb_column_family_handle_destroy(other);
        rocksdb_close(db);
    }
}
