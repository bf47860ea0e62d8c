//! Describes what becomes of settings.

use crate::support::*;
use spanlith_capi::*;
use std::ffi::{CStr, c_void};

#[test]
fn an_option_without_a_feature_is_kept_and_refused_at_open() {
    let w = World::new();
    // SAFETY: The handle lives as long as `w`.
    unsafe {
        rocksdb_options_set_enable_blob_direct_write(w.options, 1);
        assert_eq!(rocksdb_options_get_enable_blob_direct_write(w.options), 1);
        assert_eq!(
            w.open().unwrap_err(),
            "Not implemented: enable_blob_direct_write"
        );
        rocksdb_options_set_enable_blob_direct_write(w.options, 0);
        rocksdb_close(w.open().unwrap());
    }
}

#[test]
fn a_value_that_no_option_can_have_is_refused_at_open() {
    let w = World::new();
    // SAFETY: The handle lives as long as `w`.
    unsafe {
        rocksdb_options_set_compression(w.options, 99);
        let text = "Invalid argument: Using a CompressionType other than built-in ...";
        assert_eq!(w.open().unwrap_err(), text);
        let copy = rocksdb_options_create_copy(w.options);
        rocksdb_options_set_compression(copy, 4);
        assert_eq!(w.open().unwrap_err(), text);
        let opened = call(|e| rocksdb_open(copy, w.path.as_ptr(), e)).unwrap();
        rocksdb_close(opened);
        rocksdb_options_destroy(copy);
    }
}

#[test]
fn table_options_are_copied_and_their_cache_is_shared() {
    let w = World::new();
    // SAFETY: Handles are live until they are destroyed; the cache handle is used after its users
    // took their shares.
    unsafe {
        let table = rocksdb_block_based_options_create();
        let cache = rocksdb_cache_create_lru(3 << 20);
        rocksdb_block_based_options_set_block_cache(table, cache);
        rocksdb_block_based_options_set_block_cache(table, std::ptr::null_mut());
        rocksdb_block_based_options_set_filter_policy(
            table,
            rocksdb_filterpolicy_create_bloom(9.9),
        );
        rocksdb_options_set_block_based_table_factory(w.options, table);
        rocksdb_block_based_options_set_block_size(table, 1);
        rocksdb_block_based_options_destroy(table);
        let db = w.open().unwrap();
        for i in 0..1000u32 {
            w.put(db, &i.to_be_bytes(), &[7; 100]).unwrap();
        }
        w.flush(db).unwrap();
        assert_eq!(w.get(db, &5u32.to_be_bytes()).unwrap().unwrap(), [7; 100]);
        assert!(rocksdb_cache_get_usage(cache) > 4096);
        let mut capacity = 0;
        let name = c"rocksdb.block-cache-capacity".as_ptr();
        assert_eq!(rocksdb_property_int(db, name, &raw mut capacity), 0);
        assert_eq!(capacity, 3 << 20);
        rocksdb_cache_destroy(cache);
        assert_eq!(w.get(db, &6u32.to_be_bytes()).unwrap().unwrap(), [7; 100]);
        rocksdb_close(db);
    }
}

#[test]
fn strings_are_lent_for_the_life_of_the_options() {
    let w = World::new();
    // SAFETY: The handle lives as long as `w`.
    unsafe {
        let mut len = 9;
        let first = rocksdb_options_get_db_host_id(w.options, &raw mut len);
        assert_eq!(len, "__hostname__".len());
        rocksdb_options_set_db_host_id(w.options, c"here".as_ptr());
        let second = rocksdb_options_get_db_host_id(w.options, &raw mut len);
        assert_eq!((CStr::from_ptr(second), len), (c"here", 4));
        assert_eq!(CStr::from_ptr(first), c"__hostname__");
    }
}

#[test]
fn text_starts_from_the_base_not_from_the_target() {
    // SAFETY: Handles are live until they are destroyed.
    unsafe {
        let (base, target) = (rocksdb_options_create(), rocksdb_options_create());
        rocksdb_options_set_max_open_files(base, 100);
        rocksdb_options_set_num_levels(target, 3);
        let apply =
            |text: &CStr| call(|e| rocksdb_get_options_from_string(base, text.as_ptr(), target, e));
        apply(c"write_buffer_size=4M;block_based_table_factory={block_size=8K}").unwrap();
        assert_eq!(rocksdb_options_get_write_buffer_size(target), 4 << 20);
        assert_eq!(rocksdb_options_get_max_open_files(target), 100);
        assert_eq!(rocksdb_options_get_num_levels(target), 7);

        let refused = [
            (
                c"foo=1",
                "Invalid argument: Extra option not recognized: foo",
            ),
            (
                c"a",
                "Invalid argument: Mismatched key value pair, '=' expected",
            ),
            (
                c"write_buffer_size=abc",
                "Invalid argument: Error parsing write_buffer_size:stoull",
            ),
            (c" {} ", "Invalid argument: Unexpected char in key"),
            (
                c"plain_table_factory={user_key_len=8}",
                "Invalid argument: Cannot modify BlockBasedTable as plain_table_factory",
            ),
            (
                c"table_factory=PlainTable;block_based_table_factory={block_size=5}",
                "Invalid argument: Cannot modify PlainTable as block_based_table_factory",
            ),
            (
                c"memtable=cuckoo",
                "Invalid argument: cuckoo hash memtable is not supported anymore.: cuckoo",
            ),
        ];
        for (text, want) in refused {
            assert_eq!(apply(text).unwrap_err(), want);
        }
        assert_eq!(rocksdb_options_get_write_buffer_size(target), 4 << 20);
        for text in [
            c"{ }",
            c"block_based_table_factory={}",
            c"table_factory=PlainTable;plain_table_factory={user_key_len=8}",
            c"memtable=cuckoo:12",
        ] {
            apply(text).unwrap();
        }
        rocksdb_options_destroy(base);
        rocksdb_options_destroy(target);
    }
}

#[test]
fn text_makes_the_objects_it_names() {
    let w = World::new();
    // SAFETY: All handles are live.
    unsafe {
        let text = c"comparator=rocksdb.ReverseBytewiseComparator;merge_operator={id=\
                     StringAppendOperator;delimiter=|};block_based_table_factory={block_cache=\
                     {capacity=5M;num_shard_bits=2}}";
        call(|e| rocksdb_get_options_from_string(w.options, text.as_ptr(), w.options, e)).unwrap();
        let db = w.open().unwrap();
        for (key, operand) in [(b"a", b"1"), (b"a", b"2"), (b"b", b"3")] {
            call(|e| rocksdb_merge(db, w.write, p(key), 1, p(operand), 1, e)).unwrap();
        }
        assert_eq!(w.get(db, b"a").unwrap().unwrap(), b"1|2");
        let it = rocksdb_create_iterator(db, w.read);
        rocksdb_iter_seek_to_first(it);
        let key = rocksdb_iter_key_slice(it);
        assert_eq!(
            std::slice::from_raw_parts(key.data.cast::<u8>(), key.size),
            b"b"
        );
        rocksdb_iter_destroy(it);
        let mut capacity = 0;
        let name = c"rocksdb.block-cache-capacity".as_ptr();
        assert_eq!(rocksdb_property_int(db, name, &raw mut capacity), 0);
        assert_eq!(capacity, 5 << 20);
        rocksdb_close(db);

        let unknown = c"comparator=no.such".as_ptr();
        call(|e| rocksdb_get_options_from_string(w.options, unknown, w.options, e)).unwrap();
        // As in RocksDB: a name that nobody knows is that of an object the program brings itself.
        rocksdb_close(w.open().unwrap());
        let absent = c"compaction_filter=RemoveEmptyValueCompactionFilter;table_factory=mine";
        call(|e| rocksdb_get_options_from_string(w.options, absent.as_ptr(), w.options, e))
            .unwrap();
        assert!(w.open().unwrap_err().contains("table_factory"));
    }
}

/// Checks what RocksDB 11.8.1 does; found by its `c_test.c`.
#[test]
fn objects_of_a_program_are_left_out_of_its_latest_options() {
    let w = World::new();
    // SAFETY: Handles are live until they are destroyed; names are NUL-terminated.
    unsafe {
        rocksdb_options_set_merge_operator(w.options, mine());
        rocksdb_close(w.open().unwrap());
        let env = rocksdb_create_default_env();
        let cache = rocksdb_cache_create_lru(1 << 20);
        let (mut o, mut n) = (std::ptr::null_mut(), 0);
        let (mut names, mut families) = (std::ptr::null_mut(), std::ptr::null_mut());
        call(|e| {
            let (o, n) = (&raw mut o, &raw mut n);
            let (names, families) = (&raw mut names, &raw mut families);
            rocksdb_load_latest_options(
                w.path.as_ptr(),
                env,
                false,
                cache,
                o,
                n,
                names,
                families,
                e,
            );
        })
        .unwrap();
        let opened = call(|e| rocksdb_open(*families, w.path.as_ptr(), e)).unwrap();
        rocksdb_close(opened);
        rocksdb_load_latest_options_destroy(o, names, families, n);
        rocksdb_cache_destroy(cache);
        rocksdb_env_destroy(env);
    }
}

/// A merge operator whose name RocksDB does not know.
fn mine() -> *mut rocksdb_mergeoperator_t {
    unsafe extern "C" fn nothing(_: *mut c_void) {}
    unsafe extern "C" fn name(_: *mut c_void) -> *const std::ffi::c_char {
        c"mine".as_ptr()
    }
    unsafe extern "C" fn full(
        _: *mut c_void,
        _: *const std::ffi::c_char,
        _: usize,
        _: *const std::ffi::c_char,
        _: usize,
        _: *const *const std::ffi::c_char,
        _: *const usize,
        _: i32,
        success: *mut u8,
        length: *mut usize,
    ) -> *mut std::ffi::c_char {
        // SAFETY: The library gives places to write to.
        unsafe { (*success, *length) = (0, 0) };
        std::ptr::null_mut()
    }
    unsafe extern "C" fn partial(
        _: *mut c_void,
        _: *const std::ffi::c_char,
        _: usize,
        _: *const *const std::ffi::c_char,
        _: *const usize,
        _: i32,
        success: *mut u8,
        length: *mut usize,
    ) -> *mut std::ffi::c_char {
        // SAFETY: The library gives places to write to.
        unsafe { (*success, *length) = (0, 0) };
        std::ptr::null_mut()
    }
    // SAFETY: The functions have the types of the header.
    unsafe {
        let state = std::ptr::null_mut();
        rocksdb_mergeoperator_create(state, Some(nothing), full, Some(partial), None, name)
    }
}

#[test]
fn a_getter_gives_back_a_number_that_no_option_can_have() {
    let w = World::new();
    // SAFETY: The handles live as long as they are used.
    unsafe {
        rocksdb_options_set_metadata_write_temperature(w.options, 2);
        assert_eq!(rocksdb_options_get_metadata_write_temperature(w.options), 2);
        rocksdb_options_set_metadata_write_temperature(w.options, 4);
        assert_eq!(rocksdb_options_get_metadata_write_temperature(w.options), 4);
        rocksdb_close(w.open().unwrap());
        let table = rocksdb_block_based_options_create();
        rocksdb_block_based_options_set_checksum(table, 9);
        assert_eq!(rocksdb_block_based_options_get_checksum(table), 9);
        rocksdb_block_based_options_destroy(table);
    }
}

/// Checks what RocksDB 11.8.1 does; found by the suite of grocksdb and by `c_test.c`.
#[test]
fn small_things_are_as_in_the_reference() {
    let w = World::new();
    let db = w.open().unwrap();
    // SAFETY: Handles are live until they are destroyed.
    unsafe {
        w.put(db, b"a", b"A").unwrap();
        // Counts as the next call of its opposite.
        rocksdb_enable_manual_compaction(db);
        rocksdb_disable_manual_compaction(db);
        rocksdb_compact_range(db, std::ptr::null(), 0, std::ptr::null(), 0);
        let level = c"rocksdb.num-files-at-level6".as_ptr();
        let files = take_text(rocksdb_property_value(db, level));
        assert_eq!(files.as_deref(), Some("1"));

        // Tables that are kept although nothing refers to them are counted.
        call(|e| rocksdb_disable_file_deletions(db, e)).unwrap();
        w.put(db, b"a", b"B").unwrap();
        rocksdb_compact_range(db, std::ptr::null(), 0, std::ptr::null(), 0);
        let size = take_text(rocksdb_property_value(
            db,
            c"rocksdb.obsolete-sst-files-size".as_ptr(),
        ));
        assert!(size.unwrap().parse::<u64>().unwrap() > 1000);

        // An absent key has an empty value, which is to be freed.
        let (mut value, mut len, mut found) = (std::ptr::null_mut(), 7, 0);
        let ro = rocksdb_readoptions_create();
        let none = std::ptr::null();
        let may = rocksdb_key_may_exist(
            db,
            ro,
            c"z".as_ptr(),
            1,
            &raw mut value,
            &raw mut len,
            none,
            0,
            &raw mut found,
        );
        assert_eq!((may, found, len, value.is_null()), (0, 1, 0, false));
        libc_free(value);
        rocksdb_readoptions_destroy(ro);

        // A perf context counts without being told to.
        let context = rocksdb_perfcontext_create();
        rocksdb_perfcontext_reset(context);
        w.get(db, b"a").unwrap();
        let report = take_text(rocksdb_perfcontext_report(context, 1)).unwrap();
        assert!(report.contains("count = 1"), "{report}");
        rocksdb_perfcontext_destroy(context);
        rocksdb_close(db);
    }
}

#[test]
fn read_options_reach_the_reads_they_are_for() {
    let w = World::new();
    let db = w.open().unwrap();
    w.put(db, b"k", b"v").unwrap();
    // SAFETY: All handles are live.
    unsafe {
        // Memtables only, for iterators; a lookup asks tables, too.
        rocksdb_readoptions_set_read_tier(w.read, 3);
        assert_eq!(rocksdb_readoptions_get_read_tier(w.read), 3);
        assert_eq!(w.get(db, b"k").unwrap().unwrap(), b"v");
        w.flush(db).unwrap();
        assert_eq!(w.get(db, b"k").unwrap().unwrap(), b"v");
        let it = rocksdb_create_iterator(db, w.read);
        rocksdb_iter_seek_to_first(it);
        assert_eq!(rocksdb_iter_valid(it), 0);
        rocksdb_iter_destroy(it);
        // Entries that survive a crash of the process: for gets only.
        rocksdb_readoptions_set_read_tier(w.read, 2);
        assert_eq!(w.get(db, b"k").unwrap().unwrap(), b"v");
        let it = rocksdb_create_iterator(db, w.read);
        let refused =
            "Not implemented: ReadTier::kPersistedData is not yet supported in iterators.";
        assert_eq!(
            call(|e| rocksdb_iter_get_error(it, e)).unwrap_err(),
            refused
        );
        rocksdb_iter_destroy(it);
        rocksdb_readoptions_set_read_tier(w.read, 0);

        rocksdb_readoptions_set_tailing(w.read, 1);
        assert_eq!(rocksdb_readoptions_get_tailing(w.read), 1);
        let it = rocksdb_create_iterator(db, w.read);
        rocksdb_iter_seek_to_first(it);
        w.put(db, b"l", b"new").unwrap();
        rocksdb_iter_next(it);
        assert_eq!(rocksdb_iter_valid(it), 1);
        rocksdb_iter_prev(it);
        assert_eq!(
            call(|e| rocksdb_iter_get_error(it, e)).unwrap_err(),
            "Not implemented: ForwardIterator::Prev"
        );
        rocksdb_iter_destroy(it);
        rocksdb_readoptions_set_tailing(w.read, 0);

        // Keys and values stay where they are.
        rocksdb_readoptions_set_pin_data(w.read, 1);
        assert_eq!(rocksdb_readoptions_get_pin_data(w.read), 1);
        let it = rocksdb_create_iterator(db, w.read);
        let mut shown = Vec::new();
        rocksdb_iter_seek_to_first(it);
        while rocksdb_iter_valid(it) == 1 {
            let (mut key_len, mut value_len) = (0, 0);
            let key = rocksdb_iter_key(it, &raw mut key_len).cast::<u8>();
            let value = rocksdb_iter_value(it, &raw mut value_len).cast::<u8>();
            shown.push(((key, key_len), (value, value_len)));
            rocksdb_iter_next(it);
        }
        let bytes = |(at, len): (*const u8, usize)| std::slice::from_raw_parts(at, len).to_vec();
        let shown: Vec<_> = shown
            .into_iter()
            .map(|(k, v)| (bytes(k), bytes(v)))
            .collect();
        let want = [
            (b"k".to_vec(), b"v".to_vec()),
            (b"l".to_vec(), b"new".to_vec()),
        ];
        assert_eq!(shown, want);
        rocksdb_iter_destroy(it);
        rocksdb_readoptions_set_pin_data(w.read, 0);

        // A deadline is looked at where a file would be read, which memory is not.
        w.put(db, b"l", b"new").unwrap();
        rocksdb_readoptions_set_deadline(w.read, 1);
        rocksdb_readoptions_set_fill_cache(w.read, 0);
        assert_eq!(rocksdb_readoptions_get_deadline(w.read), 1);
        assert_eq!(w.get(db, b"l").unwrap().unwrap(), b"new");
        rocksdb_close(db);
        let db = w.open().unwrap();
        assert_eq!(
            w.get(db, b"l").unwrap_err(),
            "Operation timed out: Deadline exceeded"
        );
        rocksdb_close(db);
    }
}

#[test]
fn a_read_from_memory_only_says_so_when_a_file_is_needed() {
    let w = World::new();
    let db = w.open().unwrap();
    w.put(db, b"k", b"v").unwrap();
    w.flush(db).unwrap();
    // SAFETY: All handles are live.
    unsafe {
        rocksdb_readoptions_set_read_tier(w.read, 1);
        assert_eq!(
            w.get(db, b"k").unwrap_err(),
            "Result incomplete: no blocking io"
        );
        rocksdb_readoptions_set_read_tier(w.read, 0);
        assert_eq!(w.get(db, b"k").unwrap().unwrap(), b"v");
        rocksdb_close(db);
    }
}

#[test]
fn presets_set_rocksdbs_values() {
    // SAFETY: Handles are live until they are destroyed.
    unsafe {
        let o = rocksdb_options_create();
        rocksdb_options_increase_parallelism(o, 3);
        assert_eq!(rocksdb_options_get_max_background_jobs(o), 3);
        rocksdb_options_optimize_level_style_compaction(o, 512 << 20);
        assert_eq!(rocksdb_options_get_write_buffer_size(o), 128 << 20);
        assert_eq!(rocksdb_options_get_min_write_buffer_number_to_merge(o), 2);
        assert_eq!(rocksdb_options_get_max_write_buffer_number(o), 6);
        assert_eq!(rocksdb_options_get_level0_file_num_compaction_trigger(o), 2);
        assert_eq!(rocksdb_options_get_target_file_size_base(o), 64 << 20);
        assert_eq!(rocksdb_options_get_max_bytes_for_level_base(o), 512 << 20);
        rocksdb_options_prepare_for_bulk_load(o);
        assert_eq!(rocksdb_options_get_num_levels(o), 2);
        assert_eq!(rocksdb_options_get_disable_auto_compactions(o), 1);
        assert_eq!(rocksdb_options_get_max_compaction_bytes(o), 1 << 60);
        rocksdb_options_destroy(o);
    }
}

/// As in RocksDB: the one that is set by then, so that none stays none.
#[test]
fn levels_from_the_first_one_to_compress_have_the_codec_of_the_options() {
    const ZSTD: i32 = 7;
    for (codec, want) in [(0, "kNoCompression"), (ZSTD, "kZSTD")] {
        let w = World::new();
        // SAFETY: The handle lives as long as `w`.
        unsafe {
            rocksdb_options_set_num_levels(w.options, 3);
            rocksdb_options_set_compression(w.options, codec);
            rocksdb_options_set_min_level_to_compress(w.options, 2);
            rocksdb_close(w.open().unwrap());
        }
        let files = std::fs::read_dir(w.text()).unwrap().map(|f| f.unwrap());
        let mut options = files.filter(|f| f.file_name().to_string_lossy().starts_with("OPTIONS"));
        let text = std::fs::read_to_string(options.next().unwrap().path()).unwrap();
        let line = format!("compression_per_level=kNoCompression:kNoCompression:{want}\n");
        assert!(text.contains(&line), "{line}");
    }
}

unsafe extern "C" fn takes_small_tables(
    state: *mut c_void,
    table: *const rocksdb_table_properties_t,
) -> u8 {
    // SAFETY: The properties are lent during the call, and the state outlives the filter.
    unsafe {
        *state.cast::<u32>() += 1;
        (rocksdb_table_properties_num_entries(table) < 2).into()
    }
}

unsafe extern "C" fn count_end(state: *mut c_void) {
    // SAFETY: The state outlives the filter.
    unsafe { *state.cast::<u32>() += 100 };
}

#[test]
fn iterators_leave_out_tables_that_a_function_does_not_take() {
    let world = World::new();
    // SAFETY: Handles are valid, and the state outlives the filter.
    unsafe {
        rocksdb_options_set_disable_auto_compactions(world.options, 1);
        let db = world.open().unwrap();
        world.put(db, b"a", b"1").unwrap();
        world.flush(db).unwrap();
        world.put(db, b"b", b"1").unwrap();
        world.put(db, b"c", b"1").unwrap();
        world.flush(db).unwrap();
        let mut calls = 0u32;
        let state = (&raw mut calls).cast();
        let read = world.read;
        assert_eq!(rocksdb_readoptions_has_table_filter(read), 0);
        rocksdb_readoptions_set_table_filter(
            read,
            state,
            Some(count_end),
            Some(takes_small_tables),
        );
        assert_eq!(rocksdb_readoptions_has_table_filter(read), 1);
        let iter = rocksdb_create_iterator(db, read);
        rocksdb_iter_seek_to_first(iter);
        assert_eq!(rocksdb_iter_valid(iter), 1);
        rocksdb_iter_next(iter);
        assert_eq!(rocksdb_iter_valid(iter), 0);
        rocksdb_iter_destroy(iter);
        // Gets ask nobody.
        assert!(world.get(db, b"b").unwrap().is_some());
        assert_eq!(calls, 2);
        rocksdb_readoptions_clear_table_filter(read);
        assert_eq!(rocksdb_readoptions_has_table_filter(read), 0);
        assert_eq!(calls, 102);
        rocksdb_close(db);
    }
}

#[test]
fn labels_of_reads_and_sets_of_hints_are_kept() {
    let world = World::new();
    // SAFETY: Handles are valid; lengths are right.
    unsafe {
        let read = world.read;
        let mut len = 7;
        assert!(rocksdb_readoptions_get_request_id(read, &raw mut len).is_null());
        rocksdb_readoptions_set_request_id(read, p(b"r\0q"), 3);
        let id = rocksdb_readoptions_get_request_id(read, &raw mut len);
        assert_eq!(std::slice::from_raw_parts(id.cast::<u8>(), len), b"r\0q");
        rocksdb_readoptions_clear_request_id(read);
        assert!(rocksdb_readoptions_get_request_id(read, &raw mut len).is_null());
        let threshold = || {
            (
                rocksdb_readoptions_has_merge_operand_count_threshold(read),
                rocksdb_readoptions_get_merge_operand_count_threshold(read),
            )
        };
        assert_eq!(threshold(), (0, 0));
        rocksdb_readoptions_set_merge_operand_count_threshold(read, 9);
        assert_eq!(threshold(), (1, 9));
        rocksdb_readoptions_clear_merge_operand_count_threshold(read);
        assert_eq!(threshold(), (0, 0));

        let o = world.options;
        assert_eq!(rocksdb_options_checksum_handoff_file_types_count(o), 0);
        rocksdb_options_checksum_handoff_file_types_add(o, 2);
        rocksdb_options_checksum_handoff_file_types_add(o, 2);
        assert_eq!(
            rocksdb_options_checksum_handoff_file_types_contains(o, 2),
            1
        );
        assert_eq!(rocksdb_options_checksum_handoff_file_types_count(o), 1);
        rocksdb_options_checksum_handoff_file_types_remove(o, 2);
        assert_eq!(
            rocksdb_options_checksum_handoff_file_types_contains(o, 2),
            0
        );
        let level = 0;
        let contains = rocksdb_options_calculate_sst_write_lifetime_hint_set_contains;
        assert_eq!(contains(o, level), 1);
        assert_eq!(
            rocksdb_options_calculate_sst_write_lifetime_hint_set_count(o),
            1
        );
        rocksdb_options_calculate_sst_write_lifetime_hint_set_clear(o);
        assert_eq!(contains(o, level), 0);
        rocksdb_options_calculate_sst_write_lifetime_hint_set_add(o, 1);
        let copy = rocksdb_options_create_copy(o);
        assert_eq!(contains(copy, 1), 1);
        rocksdb_options_destroy(copy);
        rocksdb_close(world.open().unwrap());
    }
}
