//! Tables written outside of a database, and taken in.

use crate::support::*;
use spanlith_capi::*;
use std::ffi::{CString, c_char};

/// Writes a table with these keys, each its own value.
fn write(world: &World, name: &str, keys: &[&[u8]]) -> CString {
    let path = c_path(&world.dir.path().join(name));
    // SAFETY: Handles are valid; lengths are right.
    unsafe {
        let env = rocksdb_envoptions_create();
        let writer = rocksdb_sstfilewriter_create(env, world.options);
        rocksdb_envoptions_destroy(env);
        call(|e| rocksdb_sstfilewriter_open(writer, path.as_ptr(), e)).unwrap();
        for k in keys {
            let (key, len) = (p(k), k.len());
            call(|e| rocksdb_sstfilewriter_put(writer, key, len, key, len, e)).unwrap();
        }
        let (key, len) = (p(b"a"), 1);
        let late = call(|e| rocksdb_sstfilewriter_add(writer, key, len, key, len, e));
        let text = "Invalid argument: Keys must be added in strict ascending order.";
        assert_eq!(late.unwrap_err(), text);
        call(|e| rocksdb_sstfilewriter_finish(writer, e)).unwrap();
        let mut size = 0;
        rocksdb_sstfilewriter_file_size(writer, &raw mut size);
        let len = std::fs::metadata(world.dir.path().join(name))
            .unwrap()
            .len();
        assert_eq!(size, len);
        rocksdb_sstfilewriter_destroy(writer);
        rocksdb_sstfilewriter_destroy(std::ptr::null_mut());
    }
    path
}

#[test]
fn tables_written_outside_are_taken_in_by_names() {
    let world = World::new();
    let db = world.open().unwrap();
    let one = write(&world, "one.sst", &[b"a", b"c"]);
    let two = write(&world, "two.sst", &[b"b"]);
    world.put(db, b"c", b"old").unwrap();
    // SAFETY: Handles are valid; the list has two names.
    unsafe {
        let options = rocksdb_ingestexternalfileoptions_create();
        rocksdb_ingestexternalfileoptions_set_move_files(options, 1);
        let list: [*const c_char; 2] = [one.as_ptr(), two.as_ptr()];
        let take = |n| call(|e| rocksdb_ingest_external_file(db, list.as_ptr(), n, options, e));
        rocksdb_ingestexternalfileoptions_set_allow_blocking_flush(options, 0);
        let text = "Invalid argument: External file requires flush";
        assert_eq!(take(2).unwrap_err(), text);
        assert!(world.dir.path().join("one.sst").exists());
        rocksdb_ingestexternalfileoptions_set_allow_blocking_flush(options, 1);
        let none = "Invalid argument: external_files[0] is empty";
        assert_eq!(take(0).unwrap_err(), none);
        take(2).unwrap();
        assert!(!world.dir.path().join("one.sst").exists());
        for key in [b"a", b"b", b"c"] {
            assert_eq!(world.get(db, key).unwrap().as_deref(), Some(&key[..]));
        }
        let missing = take(1).unwrap_err();
        let text = "IO error: No such file or directory: while stat a file for size: ";
        assert!(missing.starts_with(text), "{missing}");

        let name = c"two";
        let cf =
            call(|e| rocksdb_create_column_family(db, world.options, name.as_ptr(), e)).unwrap();
        let three = write(&world, "three.sst", &[b"x"]);
        let list = [three.as_ptr()];
        call(|e| rocksdb_ingest_external_file_cf(db, cf, list.as_ptr(), 1, options, e)).unwrap();
        let mut len = 0;
        let value =
            call(|e| rocksdb_get_cf(db, world.read, cf, p(b"x"), 1, &raw mut len, e)).unwrap();
        assert_eq!((value.is_null(), len), (false, 1));
        rocksdb_free(value.cast());
        rocksdb_ingestexternalfileoptions_set_write_global_seqno(options, 1);
        rocksdb_ingestexternalfileoptions_set_allow_db_generated_files(options, 1);
        let both = call(|e| rocksdb_ingest_external_file_cf(db, cf, list.as_ptr(), 1, options, e));
        assert!(
            both.unwrap_err()
                .contains("write_global_seqno is deprecated")
        );
        rocksdb_ingestexternalfileoptions_destroy(options);
        rocksdb_column_family_handle_destroy(cf);
        rocksdb_close(db);
    }
}

/// A fault of the options is reported by `open`: `create` has nowhere to.
#[test]
fn a_writer_with_wrong_options_says_so_when_a_file_is_opened() {
    let world = World::new();
    let path = c_path(&world.dir.path().join("x.sst"));
    // SAFETY: Handles are valid.
    unsafe {
        let options = rocksdb_options_create();
        rocksdb_options_set_compression(options, 0xff);
        let env = rocksdb_envoptions_create();
        let writer = rocksdb_sstfilewriter_create(env, options);
        let opened = call(|e| rocksdb_sstfilewriter_open(writer, path.as_ptr(), e));
        assert!(opened.unwrap_err().contains("compression"));
        let put = call(|e| rocksdb_sstfilewriter_put(writer, p(b"a"), 1, p(b"a"), 1, e));
        assert_eq!(put.unwrap_err(), "Invalid argument: File is not opened");
        rocksdb_sstfilewriter_destroy(writer);
        rocksdb_envoptions_destroy(env);
        rocksdb_options_destroy(options);
    }
}
