//! Opening, reading and writing, with RocksDB's texts.

use crate::support::*;
use spanlith_capi::*;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

#[test]
fn opening_fails_with_rocksdbs_texts() {
    let w = World::new();
    let dir = w.text();
    // SAFETY: All handles are live.
    unsafe {
        rocksdb_options_set_create_if_missing(w.options, 0);
        let missing =
            format!("Invalid argument: {dir}/CURRENT: does not exist (create_if_missing is false)");
        assert_eq!(w.open().unwrap_err(), missing);
        let no_file = format!(
            "IO error: No such file or directory: While opening a file for sequentially reading: \
             {dir}/CURRENT: No such file or directory"
        );
        let read_only =
            call(|e| rocksdb_open_for_read_only(w.options, w.path.as_ptr(), 0, e)).unwrap_err();
        assert_eq!(read_only, no_file);
        let mut count = 9;
        let mut err = Errptr::new();
        let list =
            rocksdb_list_column_families(w.options, w.path.as_ptr(), &raw mut count, err.slot());
        assert_eq!(
            (list.is_null(), count, err.take()),
            (false, 0, Some(no_file))
        );
        rocksdb_list_column_families_destroy(list, count);

        rocksdb_options_set_create_if_missing(w.options, 1);
        let nested = c_path(&w.dir.path().join("none/db"));
        let text = call(|e| rocksdb_open(w.options, nested.as_ptr(), e)).unwrap_err();
        let want = format!(
            "IO error: No such file or directory: While mkdir if missing: {}: No such file or \
             directory",
            nested.to_str().unwrap()
        );
        assert_eq!(text, want);
        let file = w.dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let file = c_path(&file);
        let text = call(|e| rocksdb_open(w.options, file.as_ptr(), e)).unwrap_err();
        let want = format!(
            "IO error: `{}' exists but is not a directory",
            file.to_str().unwrap()
        );
        assert_eq!(text, want);

        let db = w.open().unwrap();
        let held = w.open().unwrap_err();
        assert!(held.starts_with("IO error: lock hold by current process, acquire time "));
        assert!(
            held.ends_with(&format!(": {dir}/LOCK: No locks available")),
            "{held}"
        );
        let held = call(|e| rocksdb_destroy_db(w.options, w.path.as_ptr(), e)).unwrap_err();
        assert!(
            held.starts_with("IO error: lock hold by current process"),
            "{held}"
        );
        rocksdb_close(db);
        rocksdb_options_set_error_if_exists(w.options, 1);
        let exists = format!("Invalid argument: {dir}: exists (error_if_exists is true)");
        assert_eq!(w.open().unwrap_err(), exists);
    }
}

#[test]
fn families_are_opened_by_name() {
    let w = World::new();
    // SAFETY: All handles are live; the arrays have the lengths given.
    unsafe {
        rocksdb_close(w.open().unwrap());
        let mut count = 0;
        let list =
            call(|e| rocksdb_list_column_families(w.options, w.path.as_ptr(), &raw mut count, e))
                .unwrap();
        assert_eq!(count, 1);
        assert_eq!(CStr::from_ptr(*list), c"default");
        rocksdb_list_column_families_destroy(list, count);

        let options = [w.options.cast_const(); 2];
        let mut handles = [ptr::null_mut(); 2];
        let mut open = |names: &[*const c_char]| {
            call(|e| {
                rocksdb_open_column_families(
                    w.options,
                    w.path.as_ptr(),
                    names.len() as i32,
                    names.as_ptr(),
                    options.as_ptr(),
                    handles.as_mut_ptr(),
                    e,
                )
            })
        };
        let (default, nope) = (c"default".as_ptr(), c"nope".as_ptr());
        let text = open(&[nope]).unwrap_err();
        assert_eq!(
            text,
            "Invalid argument: Default column family not specified"
        );
        rocksdb_options_set_unordered_write(w.options, 1);
        rocksdb_options_set_allow_concurrent_memtable_write(w.options, 0);
        let text = open(&[nope]).unwrap_err();
        let options = "unordered_write is incompatible with !allow_concurrent_memtable_write";
        assert_eq!(text, format!("Invalid argument: {options}"));
        // Options of families come before those of the database, options of tables before both.
        rocksdb_options_set_inplace_update_support(w.options, 1);
        rocksdb_options_set_compression(w.options, 6);
        let text = open(&[nope]).unwrap_err();
        let options = "Compression type Xpress is not linked with the binary.";
        assert_eq!(text, format!("Invalid argument: {options}"));
        let table = rocksdb_block_based_options_create();
        rocksdb_block_based_options_set_no_block_cache(table, 1);
        rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
        rocksdb_options_set_block_based_table_factory(w.options, table);
        let text = open(&[nope]).unwrap_err();
        let options = "Enable cache_index_and_filter_blocks, , but block cache is disabled";
        assert_eq!(text, format!("Invalid argument: {options}"));
        rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 0);
        rocksdb_options_set_block_based_table_factory(w.options, table);
        rocksdb_block_based_options_destroy(table);
        rocksdb_options_set_compression(w.options, 0);
        rocksdb_options_set_inplace_update_support(w.options, 0);
        rocksdb_options_set_unordered_write(w.options, 0);
        rocksdb_options_set_allow_concurrent_memtable_write(w.options, 1);
        let text = open(&[default, nope]).unwrap_err();
        assert_eq!(text, "Invalid argument: Column family not found: nope");
        let db = open(&[default, default]).unwrap();
        assert_ne!(handles[0], handles[1]);
        for handle in handles {
            let key = handle as usize;
            let key = key.to_ne_bytes();
            call(|e| rocksdb_put_cf(db, w.write, handle, p(&key), 8, p(b"v"), 1, e)).unwrap();
            assert_eq!(w.get(db, &key).unwrap().unwrap(), b"v");
            rocksdb_column_family_handle_destroy(handle);
        }
        rocksdb_close(db);
    }
}

/// Measured on 11.8.1: a log counts only if it holds an update, wherever logs lie.
#[test]
fn logs_with_updates_are_refused_on_request_and_others_are_not() {
    for apart in [false, true] {
        let w = World::new();
        let wal_dir = c_path(&w.dir.path().join("logs"));
        // SAFETY: All handles are live; the arrays have the lengths given.
        unsafe {
            if apart {
                rocksdb_options_set_wal_dir(w.options, wal_dir.as_ptr());
            }
            let (names, options) = ([c"default".as_ptr()], [w.options.cast_const()]);
            let mut handles = [ptr::null_mut()];
            let mut open = || {
                let db = call(|e| {
                    rocksdb_open_for_read_only_column_families(
                        w.options,
                        w.path.as_ptr(),
                        1,
                        names.as_ptr(),
                        options.as_ptr(),
                        handles.as_mut_ptr(),
                        1,
                        e,
                    )
                })?;
                rocksdb_column_family_handle_destroy(handles[0]);
                rocksdb_close(db);
                Ok::<(), String>(())
            };
            let db = w.open().unwrap();
            w.put(db, b"k", b"1").unwrap();
            rocksdb_close(db);
            let text = "Corruption: The db was opened in readonly mode with \
                        error_if_wal_file_exists flag but a non-empty WAL file already exists";
            assert_eq!(open().unwrap_err(), text, "apart: {apart}");
            let db = w.open().unwrap();
            w.flush(db).unwrap();
            rocksdb_close(db);
            open().unwrap();
        }
    }
}

/// In RocksDB the default block cache belongs to the table factory: options and their copies share it.
#[test]
fn options_and_their_copies_share_one_default_cache() {
    let w = World::new();
    // SAFETY: All handles are live.
    unsafe {
        let open = |options, name| {
            let path = c_path(&w.dir.path().join(name));
            call(|e| rocksdb_open(options, path.as_ptr(), e)).unwrap()
        };
        let copy = rocksdb_options_create_copy(w.options);
        let other = rocksdb_options_create_copy(w.options);
        let table = rocksdb_block_based_options_create();
        rocksdb_options_set_block_based_table_factory(other, table);
        let (one, two, three) = (open(w.options, "1"), open(copy, "2"), open(other, "3"));
        w.put(one, b"k", &[7; 5000]).unwrap();
        w.flush(one).unwrap();
        w.get(one, b"k").unwrap();
        let usage = |db| {
            let mut n = 0;
            let name = c"rocksdb.block-cache-usage".as_ptr();
            assert_eq!(rocksdb_property_int(db, name, &raw mut n), 0);
            n
        };
        assert!(usage(one) > 5000);
        // The cache of the third has the entry of its statistics alone.
        assert_eq!([usage(two), usage(three)], [usage(one), 64]);
        for db in [one, two, three] {
            rocksdb_close(db);
        }
        rocksdb_block_based_options_destroy(table);
        rocksdb_options_destroy(copy);
        rocksdb_options_destroy(other);
    }
}

#[test]
fn values_that_no_option_has_matter_only_to_writers() {
    let w = World::new();
    let db = w.open().unwrap();
    w.put(db, b"logged", b"1").unwrap();
    // SAFETY: Options and databases are live.
    unsafe {
        rocksdb_close(db);
        let sets: [fn(*mut rocksdb_options_t); 4] = [
            |o| rocksdb_options_set_wal_recovery_mode(o, 7),
            |o| rocksdb_options_set_compression(o, 99),
            |o| rocksdb_options_set_compaction_style(o, 9),
            |o| rocksdb_options_set_info_log_level(o, 99),
        ];
        for set in sets {
            let options = rocksdb_options_create_copy(w.options);
            set(options);
            let path = w.path.as_ptr();
            assert!(call(|e| rocksdb_open(options, path, e)).is_err());
            let db = call(|e| rocksdb_open_for_read_only(options, path, 0, e)).unwrap();
            assert_eq!(w.get(db, b"logged").unwrap().unwrap(), b"1");
            rocksdb_close(db);
            rocksdb_options_destroy(options);
        }
    }
}

#[test]
fn a_database_opened_for_reading_refuses_writes() {
    let w = World::new();
    let db = w.open().unwrap();
    w.put(db, b"flushed", b"1").unwrap();
    w.flush(db).unwrap();
    w.put(db, b"logged", b"2").unwrap();
    // SAFETY: All handles are live; the arrays have the lengths given.
    unsafe {
        rocksdb_close(db);
        let open = |refuse_logs| {
            call(|e| rocksdb_open_for_read_only(w.options, w.path.as_ptr(), refuse_logs, e))
        };
        // As in RocksDB, only the variant with families looks at the flag.
        let db = open(1).unwrap();
        assert_eq!(w.get(db, b"flushed").unwrap().unwrap(), b"1");
        assert_eq!(w.get(db, b"logged").unwrap().unwrap(), b"2");
        let text = "Not implemented: Not supported operation in read only mode.";
        assert_eq!(w.put(db, b"k", b"v").unwrap_err(), text);
        assert_eq!(w.flush(db).unwrap_err(), text);
        assert_eq!(call(|e| rocksdb_flush_wal(db, 0, e)).unwrap_err(), text);
        rocksdb_close(db);
        let (names, options) = ([c"default".as_ptr()], [w.options.cast_const()]);
        let mut handles = [ptr::null_mut()];
        let refused = call(|e| {
            rocksdb_open_for_read_only_column_families(
                w.options,
                w.path.as_ptr(),
                1,
                names.as_ptr(),
                options.as_ptr(),
                handles.as_mut_ptr(),
                1,
                e,
            )
        });
        assert_eq!(
            refused.unwrap_err(),
            "Corruption: The db was opened in readonly mode with error_if_wal_file_exists flag \
             but a non-empty WAL file already exists"
        );
    }
}

#[test]
fn no_bytes_are_an_ordinary_key_and_value() {
    let w = World::new();
    let db = w.open().unwrap();
    // SAFETY: NULL with length 0 is allowed.
    unsafe {
        call(|e| rocksdb_put(db, w.write, ptr::null(), 0, p(b"v"), 1, e)).unwrap();
        call(|e| rocksdb_put(db, w.write, p(b"k"), 1, ptr::null(), 0, e)).unwrap();
        assert_eq!(w.get(db, b"").unwrap().unwrap(), b"v");
        assert_eq!(w.get(db, b"k").unwrap().unwrap(), b"");
        rocksdb_compact_range(db, ptr::null(), 0, ptr::null(), 0);
        let it = rocksdb_create_iterator(db, w.read);
        rocksdb_iter_seek(it, ptr::null(), 0);
        let key = rocksdb_iter_key_slice(it);
        assert_eq!((rocksdb_iter_valid(it), key.size), (1, 0));
        rocksdb_iter_destroy(it);
        call(|e| rocksdb_delete(db, w.write, ptr::null(), 0, e)).unwrap();
        assert_eq!(w.get(db, b"").unwrap(), None);
        rocksdb_close(db);
    }
}

#[test]
fn writes_fail_with_rocksdbs_texts() {
    let w = World::new();
    let db = w.open().unwrap();
    // SAFETY: All handles are live.
    unsafe {
        let merge = call(|e| rocksdb_merge(db, w.write, p(b"k"), 1, p(b"v"), 1, e));
        let text = "Not implemented: Provide a merge_operator when opening DB";
        assert_eq!(merge.unwrap_err(), text);
        let batch = rocksdb_writebatch_create();
        let write = |b| call(|e| rocksdb_write(db, w.write, b, e));
        rocksdb_writebatch_merge(batch, p(b"k"), 1, p(b"v"), 1);
        let text =
            "Invalid argument: Merge requires `ColumnFamilyOptions::merge_operator != nullptr`";
        assert_eq!(write(batch).unwrap_err(), text);
        rocksdb_writebatch_clear(batch);
        rocksdb_writebatch_delete_range(batch, p(b"b"), 1, p(b"a"), 1);
        let text = "Invalid argument: end key comes before start key";
        assert_eq!(write(batch).unwrap_err(), text);
        rocksdb_writebatch_destroy(batch);
        let short = rocksdb_writebatch_create_from(p(b"short"), 5);
        assert_eq!(rocksdb_writebatch_count(short), 0);
        let text = "Corruption: malformed WriteBatch (too small)";
        assert_eq!(write(short).unwrap_err(), text);
        rocksdb_writebatch_clear(short);
        write(short).unwrap();
        rocksdb_writebatch_destroy(short);

        rocksdb_writeoptions_set_sync(w.write, 1);
        rocksdb_writeoptions_disable_WAL(w.write, 1);
        let text = "Invalid argument: Sync writes has to enable WAL.";
        assert_eq!(w.put(db, b"k", b"v").unwrap_err(), text);
        rocksdb_writeoptions_disable_WAL(w.write, 0);
        w.put(db, b"k", b"v").unwrap();
        rocksdb_close(db);
    }
}

unsafe extern "C" fn seen_put(
    state: *mut c_void,
    key: *const c_char,
    klen: usize,
    value: *const c_char,
    vlen: usize,
) {
    // SAFETY: The state is the test's vector; key and value have their lengths.
    unsafe {
        let seen = &mut *state.cast::<Vec<u8>>();
        seen.extend_from_slice(std::slice::from_raw_parts(key.cast(), klen));
        seen.push(b'=');
        seen.extend_from_slice(std::slice::from_raw_parts(value.cast(), vlen));
        seen.push(b' ');
    }
}

unsafe extern "C" fn seen_delete(state: *mut c_void, key: *const c_char, klen: usize) {
    // SAFETY: As above.
    unsafe {
        let seen = &mut *state.cast::<Vec<u8>>();
        seen.push(b'-');
        seen.extend_from_slice(std::slice::from_raw_parts(key.cast(), klen));
        seen.push(b' ');
    }
}

#[test]
fn a_walk_over_a_batch_ends_at_what_its_callbacks_do_not_know() {
    // SAFETY: All handles are live.
    unsafe {
        let b = rocksdb_writebatch_create();
        let (parts, sizes) = ([p(b"ab"), p(b"cd")], [2, 2]);
        rocksdb_writebatch_putv(
            b,
            2,
            parts.as_ptr(),
            sizes.as_ptr(),
            1,
            parts.as_ptr(),
            sizes.as_ptr(),
        );
        rocksdb_writebatch_singledelete(b, p(b"s"), 1);
        rocksdb_writebatch_merge(b, p(b"m"), 1, p(b"v"), 1);
        rocksdb_writebatch_put_log_data(b, p(b"note"), 4);
        rocksdb_writebatch_deletev(b, 1, parts.as_ptr(), sizes.as_ptr());
        rocksdb_writebatch_delete_range(b, p(b"a"), 1, p(b"z"), 1);
        rocksdb_writebatch_put(b, p(b"unseen"), 6, p(b"v"), 1);
        assert_eq!(rocksdb_writebatch_count(b), 6);
        let mut seen: Vec<u8> = Vec::new();
        let state = (&raw mut seen).cast();
        rocksdb_writebatch_iterate_ld(b, state, seen_put, seen_delete, Some(seen_delete));
        assert_eq!(seen.escape_ascii().to_string(), "abcd=ab -note -ab ");
        rocksdb_writebatch_destroy(b);
    }
}

#[test]
fn a_batch_over_its_limit_drops_the_update() {
    // SAFETY: All handles are live.
    unsafe {
        let b = rocksdb_writebatch_create_with_params(0, 30, 0, 0);
        for _ in 0..5 {
            rocksdb_writebatch_put(b, p(b"kkkkk"), 5, p(b"vvvv"), 4);
        }
        assert_eq!(rocksdb_writebatch_count(b), 1);
        let pop = |b| call(|e| rocksdb_writebatch_pop_save_point(b, e));
        assert_eq!(pop(b).unwrap_err(), "NotFound: ");
        rocksdb_writebatch_set_save_point(b);
        pop(b).unwrap();
        rocksdb_writebatch_destroy(b);
    }
}

#[test]
fn a_batch_learns_its_sequence_number_and_may_be_written_again() {
    let w = World::new();
    let db = w.open().unwrap();
    w.put(db, b"k", b"v").unwrap();
    // SAFETY: All handles are live.
    unsafe {
        let b = rocksdb_writebatch_create();
        rocksdb_writebatch_put(b, p(b"k"), 1, p(b"v"), 1);
        call(|e| rocksdb_write(db, w.write, b, e)).unwrap();
        let mut len = 0;
        let rep = rocksdb_writebatch_data(b, &raw mut len).cast::<u8>();
        let want = [2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, b'k', 1, b'v'];
        assert_eq!(std::slice::from_raw_parts(rep, len), want);
        call(|e| rocksdb_write(db, w.write, b, e)).unwrap();
        assert_eq!(rocksdb_get_latest_sequence_number(db), 3);
        rocksdb_writebatch_destroy(b);
        rocksdb_close(db);
    }
}

#[test]
fn a_value_fits_the_callers_buffer_or_only_its_length_is_told() {
    let w = World::new();
    let db = w.open().unwrap();
    w.put(db, b"k", b"value").unwrap();
    let get = |key: &[u8], buffer: &mut [u8]| {
        let (mut len, mut found) = (9, 9);
        // SAFETY: The buffer has its length.
        let copied = call(|e| unsafe {
            rocksdb_get_into_buffer(
                db,
                w.read,
                p(key),
                key.len(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut len,
                &raw mut found,
                e,
            )
        });
        (copied.unwrap(), len, found)
    };
    let mut buffer = [0; 5];
    assert_eq!(get(b"none", &mut buffer), (0, 0, 0));
    assert_eq!(get(b"k", &mut buffer[..4]), (0, 5, 1));
    assert_eq!(buffer, [0; 5]);
    assert_eq!(get(b"k", &mut buffer), (1, 5, 1));
    assert_eq!(&buffer, b"value");
    // SAFETY: The handle is not used again.
    unsafe { rocksdb_close(db) };
}

#[test]
fn statistics_count_calls_since_they_were_enabled() {
    let w = World::new();
    // SAFETY: All handles are live.
    unsafe {
        assert!(rocksdb_options_statistics_get_string(w.options).is_null());
        rocksdb_options_set_statistics_level(w.options, 5);
        assert_eq!(rocksdb_options_get_statistics_level(w.options), 0);
        rocksdb_options_enable_statistics(w.options);
        assert_eq!(rocksdb_options_get_statistics_level(w.options), 3);
        let db = w.open().unwrap();
        w.put(db, b"key", b"value").unwrap();
        w.put(db, b"key2", b"value").unwrap();
        w.get(db, b"key").unwrap().unwrap();
        assert_eq!(w.get(db, b"none").unwrap(), None);
        let it = rocksdb_create_iterator(db, w.read);
        rocksdb_iter_seek_to_first(it);
        rocksdb_iter_next(it);
        rocksdb_iter_next(it);
        rocksdb_iter_destroy(it);
        let ticker = |n| rocksdb_options_statistics_get_ticker_count(w.options, n);
        assert_eq!((ticker(58), ticker(59)), (2, 2), "keys written, read");
        // A header of 12, a tag, and two prefixed strings each.
        assert_eq!(
            (ticker(61), ticker(62)),
            (23 + 24, 5),
            "bytes written, read"
        );
        assert_eq!((ticker(63), ticker(66)), (1, 1), "seeks, found");
        assert_eq!((ticker(64), ticker(67)), (2, 1), "nexts, found");
        assert_eq!(ticker(69), 8 + 9, "bytes read by iterators");
        assert_eq!(
            (ticker(72), ticker(73)),
            (1, 1),
            "iterators created, deleted"
        );
        assert_eq!(ticker(1000), 0);
        let data = rocksdb_statistics_histogram_data_create();
        rocksdb_options_statistics_get_histogram_data(w.options, 31, data);
        // A get that finds nothing has read 0 bytes.
        assert_eq!(rocksdb_statistics_histogram_data_get_count(data), 2);
        assert_eq!(rocksdb_statistics_histogram_data_get_sum(data), 5);
        rocksdb_statistics_histogram_data_destroy(data);
        let text = take_text(rocksdb_options_statistics_get_string(w.options)).unwrap();
        assert!(text.contains("\nrocksdb.number.keys.written COUNT : 2\n"));
        let property = c"rocksdb.options-statistics".as_ptr();
        assert_eq!(
            take_text(rocksdb_property_value(db, property)).unwrap(),
            text
        );
        rocksdb_options_enable_statistics(w.options);
        assert_eq!(ticker(58), 0);
        rocksdb_close(db);
    }
}

#[test]
fn destroying_a_database_keeps_foreign_files() {
    let w = World::new();
    let db = w.open().unwrap();
    w.put(db, b"k", b"v").unwrap();
    w.flush(db).unwrap();
    let foreign = w.dir.path().join("db/foreign.txt");
    std::fs::write(&foreign, "x").unwrap();
    // SAFETY: All handles are live.
    unsafe {
        rocksdb_close(db);
        let destroy = || call(|e| rocksdb_destroy_db(w.options, w.path.as_ptr(), e));
        destroy().unwrap();
        let left: Vec<_> = std::fs::read_dir(w.dir.path().join("db"))
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(left, ["foreign.txt"]);
        std::fs::remove_file(foreign).unwrap();
        destroy().unwrap();
        assert!(!w.dir.path().join("db").exists());
        destroy().unwrap();
    }
}

#[test]
fn a_database_in_memory_needs_no_directory() {
    let w = World::new();
    // SAFETY: All handles are live.
    unsafe {
        let env = rocksdb_create_mem_env();
        rocksdb_options_set_env(w.options, env);
        let path = c"/no/such/place";
        for round in 0..2u8 {
            let db = call(|e| rocksdb_open(w.options, path.as_ptr(), e)).unwrap();
            let had = w.get(db, b"k").unwrap();
            assert_eq!(had.is_some(), round == 1);
            w.put(db, b"k", b"v").unwrap();
            rocksdb_close(db);
        }
        assert!(!std::path::Path::new("/no/such/place").exists());
        rocksdb_env_destroy(env);
    }
}

#[test]
fn the_identity_is_36_bytes() {
    let w = World::new();
    let db = w.open().unwrap();
    let mut len = 0;
    // SAFETY: All handles are live; the identity comes from `malloc`.
    unsafe {
        let id = rocksdb_get_db_identity(db, &raw mut len);
        assert_eq!(len, 36);
        libc_free(id);
        rocksdb_close(db);
    }
}

#[test]
fn a_protected_batch_that_was_overwritten_is_refused() {
    let world = World::new();
    let db = world.open().unwrap();
    let written = |protection, stray: bool| {
        // SAFETY: Handles are valid, the offset lies in the first key.
        unsafe {
            let b = rocksdb_writebatch_create_with_params(0, 0, protection, 0);
            rocksdb_writebatch_put(b, p(b"key"), 3, p(b"value"), 5);
            if stray {
                let mut len = 0;
                let bytes = rocksdb_writebatch_data(b, &raw mut len);
                *bytes.cast_mut().add(14) ^= 1;
            }
            let done = call(|e| rocksdb_write(db, world.write, b, e));
            rocksdb_writebatch_destroy(b);
            done
        }
    };
    let mismatch = Err("Corruption: ProtectionInfo mismatch".to_string());
    assert_eq!(written(8, false), Ok(()));
    assert_eq!(written(8, true), mismatch);
    assert_eq!(written(0, true), Ok(()), "nobody looks");
    let refused = "Not implemented: WriteBatch protection info must be zero or eight bytes/key";
    assert_eq!(written(4, false), Ok(()), "as 8");
    assert_eq!(written(4, true), mismatch);
    // SAFETY: Handles are valid.
    unsafe {
        rocksdb_writeoptions_set_protection_bytes_per_key(world.write, 8);
        assert_eq!(world.put(db, b"key", b"v"), Ok(()));
        assert_eq!(written(0, false), Ok(()));
        rocksdb_writeoptions_set_protection_bytes_per_key(world.write, 2);
        assert_eq!(world.put(db, b"key", b"v"), Err(refused.to_string()));
        rocksdb_close(db);
    }
}
