//! Column families, and what the library tells about their tables.

use crate::support::*;
use spanlith_capi::*;
use std::ffi::{CStr, CString};
use std::ptr;

type Handle = *mut rocksdb_column_family_handle_t;

impl World {
    fn create_cf(&self, db: *mut rocksdb_t, name: &str) -> Result<Handle, String> {
        let name = CString::new(name).unwrap();
        // SAFETY: Handles and name are live.
        call(|e| unsafe { rocksdb_create_column_family(db, self.options, name.as_ptr(), e) })
    }

    fn put_cf(
        &self,
        db: *mut rocksdb_t,
        cf: Handle,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), String> {
        // SAFETY: Handles are live; lengths are right.
        call(|e| unsafe {
            let (klen, vlen) = (key.len(), value.len());
            rocksdb_put_cf(db, self.write, cf, p(key), klen, p(value), vlen, e);
        })
    }

    fn get_cf(&self, db: *mut rocksdb_t, cf: Handle, key: &[u8]) -> Option<Vec<u8>> {
        let mut len = 0;
        // SAFETY: Handles are live; the value comes from `malloc`.
        unsafe {
            let value =
                call(|e| rocksdb_get_cf(db, self.read, cf, p(key), key.len(), &raw mut len, e))
                    .unwrap();
            if value.is_null() {
                return None;
            }
            let out = std::slice::from_raw_parts(value.cast::<u8>(), len).to_vec();
            libc_free(value);
            Some(out)
        }
    }

    fn listed(&self) -> Vec<String> {
        let mut n = 9;
        // SAFETY: The list is the library's, freed once.
        unsafe {
            let list = call(|e| {
                rocksdb_list_column_families(self.options, self.path.as_ptr(), &raw mut n, e)
            })
            .unwrap();
            let names =
                (0..n).map(|at| CStr::from_ptr(*list.add(at)).to_str().unwrap().to_string());
            let names = names.collect();
            rocksdb_list_column_families_destroy(list, n);
            names
        }
    }
}

#[test]
fn families_are_created_listed_dropped_and_opened_again() {
    let w = World::new();
    let db = w.open().unwrap();
    let a = w.create_cf(db, "a").unwrap();
    let b = w.create_cf(db, "b").unwrap();
    assert_eq!(
        w.create_cf(db, "a").unwrap_err(),
        "Invalid argument: Column family already exists"
    );
    assert_eq!(
        w.create_cf(db, "").unwrap_err(),
        "Invalid argument: Column family name cannot be the empty string"
    );
    w.put(db, b"k", b"default").unwrap();
    w.put_cf(db, a, b"k", b"in a").unwrap();
    w.put_cf(db, b, b"k", b"in b").unwrap();
    assert_eq!(w.listed(), ["default", "a", "b"]);
    // SAFETY: Handles are live until they are destroyed.
    unsafe {
        let default = rocksdb_get_default_column_family_handle(db);
        let drop_cf = |cf| call(|e| rocksdb_drop_column_family(db, cf, e));
        assert_eq!(
            drop_cf(default).unwrap_err(),
            "Invalid argument: Can't drop default column family"
        );
        drop_cf(b).unwrap();
        assert_eq!(
            drop_cf(b).unwrap_err(),
            "Invalid argument: Column family already dropped!\n"
        );
        assert_eq!(w.get_cf(db, b, b"k").unwrap(), b"in b");
        assert_eq!(
            w.put_cf(db, b, b"k", b"x").unwrap_err(),
            "Invalid argument: Invalid column family specified in write batch"
        );
        for cf in [a, b, default] {
            rocksdb_column_family_handle_destroy(cf);
        }
        rocksdb_close(db);
        assert_eq!(w.listed(), ["default", "a"]);
        assert_eq!(
            w.open().unwrap_err(),
            "Invalid argument: Column families not opened: a"
        );
        let names = [c"default".as_ptr(), c"a".as_ptr()];
        let options = [w.options.cast_const(); 2];
        let mut handles = [ptr::null_mut(); 2];
        let db = call(|e| {
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
        assert_eq!(w.get_cf(db, handles[0], b"k").unwrap(), b"default");
        assert_eq!(w.get_cf(db, handles[1], b"k").unwrap(), b"in a");
        for cf in handles {
            rocksdb_column_family_handle_destroy(cf);
        }
        rocksdb_close(db);
    }
}

#[test]
fn several_families_are_created_up_to_the_first_failure() {
    let w = World::new();
    let db = w.open().unwrap();
    let names = [c"p".as_ptr(), c"p".as_ptr(), c"q".as_ptr()];
    let (mut made, mut err) = (9, Errptr::new());
    // SAFETY: Handles are live until they are destroyed.
    unsafe {
        let list = rocksdb_create_column_families(
            db,
            w.options,
            3,
            names.as_ptr(),
            &raw mut made,
            err.slot(),
        );
        assert_eq!(made, 1);
        assert_eq!(
            err.take().unwrap(),
            "Invalid argument: Column family already exists"
        );
        rocksdb_column_family_handle_destroy(*list);
        rocksdb_create_column_families_destroy(list);
        rocksdb_close(db);
    }
    assert_eq!(w.listed(), ["default", "p"]);
}

#[test]
fn live_files_metadata_and_sizes_show_the_tables_of_a_family() {
    let w = World::new();
    let db = w.open().unwrap();
    let a = w.create_cf(db, "a").unwrap();
    for n in 0..100u32 {
        let key = format!("k{n:03}");
        w.put_cf(db, a, key.as_bytes(), &[b'v'; 2000]).unwrap();
    }
    // SAFETY: Handles are live until they are destroyed.
    unsafe {
        let flush = rocksdb_flushoptions_create();
        call(|e| rocksdb_flush_cf(db, flush, a, e)).unwrap();
        rocksdb_flushoptions_destroy(flush);

        let files = rocksdb_livefiles(db);
        assert_eq!(rocksdb_livefiles_count(files), 1);
        let text = |s| CStr::from_ptr(s).to_str().unwrap();
        assert_eq!(text(rocksdb_livefiles_column_family_name(files, 0)), "a");
        assert!(text(rocksdb_livefiles_name(files, 0)).starts_with("/0000"));
        assert_eq!(text(rocksdb_livefiles_directory(files, 0)), w.text());
        let mut len = 0;
        let key = rocksdb_livefiles_largestkey(files, 0, &raw mut len);
        assert_eq!(std::slice::from_raw_parts(key.cast::<u8>(), len), b"k099");
        assert_eq!(rocksdb_livefiles_entries(files, 0), 100);
        let size = rocksdb_livefiles_size(files, 0) as u64;
        rocksdb_livefiles_destroy(files);

        let meta = rocksdb_get_column_family_metadata_cf(db, a);
        assert_eq!(rocksdb_column_family_metadata_get_size(meta), size);
        assert_eq!(rocksdb_column_family_metadata_get_level_count(meta), 7);
        let level = rocksdb_column_family_metadata_get_level_metadata(meta, 0);
        let file = rocksdb_level_metadata_get_sst_file_metadata(level, 0);
        let none = rocksdb_level_metadata_get_sst_file_metadata(level, 1);
        assert!(none.is_null());
        rocksdb_column_family_metadata_destroy(meta);
        rocksdb_level_metadata_destroy(level);
        let name = take_text(rocksdb_sst_file_metadata_get_relative_filename(file)).unwrap();
        assert!(name.starts_with("0000"), "{name}");
        rocksdb_sst_file_metadata_destroy(file);

        let size_of = |from: &[u8], to: &[u8]| {
            let (from, to) = ((p(from), from.len()), (p(to), to.len()));
            let mut size = 77;
            call(|e| {
                rocksdb_approximate_sizes_cf(
                    db,
                    a,
                    1,
                    &raw const from.0,
                    &raw const from.1,
                    &raw const to.0,
                    &raw const to.1,
                    &raw mut size,
                    e,
                );
            })
            .unwrap();
            size
        };
        assert_eq!(size_of(b"", b"z"), size);
        assert_eq!(size_of(b"z", b""), 0);
        let half = size_of(b"k000", b"k050");
        assert!(half > size / 5 && half < 4 * size / 5, "{half} of {size}");
        let none = (p(b"a"), 1);
        let mut out = 0;
        let refused = call(|e| {
            let (k, n) = (&raw const none.0, &raw const none.1);
            rocksdb_approximate_sizes_cf_with_flags(db, a, 1, k, n, k, n, 0, &raw mut out, e);
        });
        assert_eq!(refused.unwrap_err(), "Invalid argument: Invalid options");
        // Blob files alone may be asked for; there are none.
        call(|e| {
            let (k, n) = (&raw const none.0, &raw const none.1);
            rocksdb_approximate_sizes_cf_with_flags(db, a, 1, k, n, k, n, 4, &raw mut out, e);
        })
        .unwrap();
        assert_eq!(out, 0);
        call(|e| rocksdb_verify_checksum(db, e)).unwrap();
        rocksdb_column_family_handle_destroy(a);
        rocksdb_close(db);
    }
}

/// As in RocksDB: tables of level 0 in the range widen it, and levels without tables are left out.
#[test]
fn metadata_of_a_range_takes_in_what_overlaps_its_tables_of_level_0() {
    let w = World::new();
    // SAFETY: Handles are live until they are destroyed.
    unsafe {
        rocksdb_options_set_disable_auto_compactions(w.options, 1);
        let db = w.open().unwrap();
        for keys in [[b"a", b"c"], [b"b", b"e"], [b"d", b"g"], [b"x", b"z"]] {
            for key in keys {
                w.put(db, key, b"v").unwrap();
            }
            w.flush(db).unwrap();
        }
        let options = rocksdb_column_family_metadata_options_create();
        rocksdb_column_family_metadata_options_set_start_key(options, p(b"f"), 1);
        rocksdb_column_family_metadata_options_set_end_key(options, p(b"g"), 1);
        // NULL options are the defaults.
        for (options, want) in [(options.cast_const(), 3), (ptr::null(), 4)] {
            let meta = rocksdb_get_column_family_metadata_with_options(db, options);
            assert_eq!(rocksdb_column_family_metadata_get_file_count(meta), want);
            assert_eq!(rocksdb_column_family_metadata_get_level_count(meta), 1);
            rocksdb_column_family_metadata_destroy(meta);
        }
        // Open on one side, and stays so.
        rocksdb_column_family_metadata_options_set_end_key(options, ptr::null(), 0);
        let meta = rocksdb_get_column_family_metadata_with_options(db, options);
        assert_eq!(rocksdb_column_family_metadata_get_file_count(meta), 4);
        rocksdb_column_family_metadata_destroy(meta);
        rocksdb_column_family_metadata_options_destroy(options);
        rocksdb_close(db);
    }
}

/// As in RocksDB: both handles work, and the options listed first count.
#[test]
fn a_family_may_be_listed_twice() {
    let w = World::new();
    // SAFETY: Handles and options are live until they are destroyed.
    unsafe {
        let first = rocksdb_options_create();
        let second = rocksdb_options_create();
        rocksdb_options_set_write_buffer_size(first, 5 << 20);
        rocksdb_options_set_write_buffer_size(second, 7 << 20);
        let names = [c"default".as_ptr(); 2];
        let options = [first.cast_const(), second.cast_const()];
        let mut handles = [ptr::null_mut(); 2];
        let db = call(|e| {
            let (names, options) = (names.as_ptr(), options.as_ptr());
            let handles = handles.as_mut_ptr();
            rocksdb_open_column_families(w.options, w.path.as_ptr(), 2, names, options, handles, e)
        });
        let db = db.unwrap();
        w.put_cf(db, handles[1], b"k", b"v").unwrap();
        assert_eq!(w.get_cf(db, handles[0], b"k").unwrap(), b"v");
        let dir = std::path::Path::new(w.path.to_str().unwrap());
        let files = std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().path());
        let text = files.filter(|f| f.to_string_lossy().contains("OPTIONS-"));
        let text = std::fs::read_to_string(text.max().unwrap()).unwrap();
        let size = format!("  write_buffer_size={}\n", 5 << 20);
        assert!(text.contains(&size), "{text}");
        for cf in handles {
            rocksdb_column_family_handle_destroy(cf);
        }
        rocksdb_close(db);
        rocksdb_options_destroy(first);
        rocksdb_options_destroy(second);
    }
}

/// RocksDB takes any bytes for a name.
#[test]
fn names_that_are_no_text_are_kept_byte_for_byte() {
    let w = World::new();
    let names = [c"default", c"\xff\xfe", c"\xfd\xfe"];
    let pointers = names.map(CStr::as_ptr);
    // SAFETY: Handles are live until they are destroyed; names are NUL-terminated.
    unsafe {
        let db = w.open().unwrap();
        for name in &names[1..] {
            let (options, name) = (w.options, name.as_ptr());
            let cf = call(|e| rocksdb_create_column_family(db, options, name, e)).unwrap();
            let mut len = 0;
            let got = rocksdb_column_family_handle_get_name(cf, &raw mut len);
            let bytes = std::slice::from_raw_parts(got.cast::<u8>(), len);
            assert_eq!(bytes, CStr::from_ptr(name).to_bytes());
            libc_free(got);
            call(|e| rocksdb_put_cf(db, w.write, cf, p(bytes_of(name)), 2, c"v".as_ptr(), 1, e))
                .unwrap();
            rocksdb_column_family_handle_destroy(cf);
        }
        rocksdb_close(db);
        let mut count = 0;
        let list =
            call(|e| rocksdb_list_column_families(w.options, w.path.as_ptr(), &raw mut count, e));
        let list = list.unwrap();
        for (i, name) in names.iter().enumerate() {
            assert_eq!(CStr::from_ptr(*list.add(i)), *name);
        }
        rocksdb_list_column_families_destroy(list, count);
        let options = [w.options.cast_const(); 3];
        let mut handles = [std::ptr::null_mut(); 3];
        let db = call(|e| {
            let (names, options) = (pointers.as_ptr(), options.as_ptr());
            let handles = handles.as_mut_ptr();
            rocksdb_open_column_families(w.options, w.path.as_ptr(), 3, names, options, handles, e)
        });
        let db = db.unwrap();
        for (name, cf) in names.iter().zip(handles) {
            let mut len = 0;
            let key = name.to_bytes();
            let got = call(|e| rocksdb_get_cf(db, w.read, cf, p(key), key.len(), &raw mut len, e));
            let got = got.unwrap();
            assert_eq!(got.is_null(), *name == c"default");
            libc_free(got);
            rocksdb_column_family_handle_destroy(cf);
        }
        rocksdb_close(db);
    }
}

/// # Safety
/// `text` is NUL-terminated and outlives the result.
unsafe fn bytes_of<'a>(text: *const std::ffi::c_char) -> &'a [u8] {
    // SAFETY: The caller says so.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}
