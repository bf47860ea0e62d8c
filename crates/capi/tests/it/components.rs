//! Components that C programs attach: compaction filters, limiters, budgets, prefix extractors; and
//! the files of options.

use crate::support::*;
use spanlith_capi::*;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

/// Drops values that begin with `x`, and puts `new` in the place of `old`.
unsafe extern "C" fn filter(
    _: *mut c_void,
    _level: i32,
    _key: *const c_char,
    _key_len: usize,
    value: *const c_char,
    len: usize,
    new_value: *mut *mut c_char,
    new_len: *mut usize,
    changed: *mut u8,
) -> u8 {
    // SAFETY: The library passes valid pointers and lengths.
    unsafe {
        let value = std::slice::from_raw_parts(value.cast::<u8>(), len);
        if value == b"old" {
            *new_value = c"new".as_ptr().cast_mut();
            (*new_len, *changed) = (3, 1);
        }
        value.starts_with(b"x").into()
    }
}

unsafe extern "C" fn name(_: *mut c_void) -> *const c_char {
    c"test.Filter".as_ptr()
}

unsafe extern "C" fn create(
    _: *mut c_void,
    context: *mut rocksdb_compactionfiltercontext_t,
) -> *mut rocksdb_compactionfilter_t {
    // SAFETY: The context is lent; the callbacks fit.
    unsafe {
        assert_eq!(
            rocksdb_compactionfiltercontext_is_manual_compaction(context),
            1
        );
        rocksdb_compactionfilter_create(ptr::null_mut(), None, filter, name)
    }
}

fn filtered(w: &World) {
    let db = w.open().unwrap();
    for (k, v) in [(b"a", &b"old"[..]), (b"b", b"x1"), (b"c", b"stays")] {
        w.put(db, k, v).unwrap();
    }
    w.flush(db).unwrap();
    // SAFETY: The database is open.
    unsafe { rocksdb_compact_range(db, ptr::null(), 0, ptr::null(), 0) };
    assert_eq!(w.get(db, b"a").unwrap().unwrap(), b"new");
    assert_eq!(w.get(db, b"b").unwrap(), None);
    assert_eq!(w.get(db, b"c").unwrap().unwrap(), b"stays");
    // SAFETY: As above.
    unsafe { rocksdb_close(db) };
}

#[test]
fn compaction_filters_in_c_drop_and_change_values() {
    let w = World::new();
    // SAFETY: The filter outlives the database.
    unsafe {
        let f = rocksdb_compactionfilter_create(ptr::null_mut(), None, filter, name);
        rocksdb_options_set_compaction_filter(w.options, f);
        filtered(&w);
        rocksdb_options_set_compaction_filter(w.options, ptr::null_mut());
        rocksdb_compactionfilter_destroy(f);
    }
}

#[test]
fn factories_in_c_make_a_filter_for_each_compaction() {
    let w = World::new();
    // SAFETY: The options take the factory.
    unsafe {
        let f = rocksdb_compactionfilterfactory_create(ptr::null_mut(), None, create, name);
        rocksdb_options_set_compaction_filter_factory(w.options, f);
    }
    filtered(&w);
}

#[test]
fn tables_are_compacted_by_name() {
    let w = World::new();
    // SAFETY: Handles are live until they are destroyed.
    unsafe {
        rocksdb_options_set_disable_auto_compactions(w.options, 1);
        let db = w.open().unwrap();
        for v in [b"1", b"2"] {
            w.put(db, b"k", v).unwrap();
            w.flush(db).unwrap();
        }
        let files = rocksdb_livefiles(db);
        let names = [
            rocksdb_livefiles_name(files, 0),
            rocksdb_livefiles_name(files, 1),
        ];
        let options = rocksdb_compaction_options_create();
        let (mut made, mut count) = (ptr::null_mut(), 0);
        // Called off before it begins: nothing is looked at, not even the names.
        let canceled = rocksdb_compaction_options_canceled_create();
        rocksdb_compaction_options_set_canceled(options, canceled);
        let no_names = [c"000999.sst".as_ptr(); 2];
        for (flag, names, want) in [
            (1, names, "Result incomplete: Manual compaction paused"),
            (1, no_names, "Result incomplete: Manual compaction paused"),
            (
                0,
                no_names,
                "Invalid argument: Specified compaction input file /000999.sst does not exist in \
                 column family default.",
            ),
        ] {
            rocksdb_compaction_options_canceled_set(canceled, flag);
            let refused = call(|e| {
                let (made, count, info) = (&raw mut made, &raw mut count, ptr::null_mut());
                let names = names.as_ptr();
                rocksdb_compact_files(db, options, names, 2, 2, -1, made, count, info, e);
            });
            assert_eq!(refused.unwrap_err(), want);
        }
        let info = rocksdb_compactionjobinfo_create();
        assert_eq!(rocksdb_compactionjobinfo_input_files_count(info), 0);
        call(|e| {
            let (made, count) = (&raw mut made, &raw mut count);
            let names = names.as_ptr();
            rocksdb_compact_files(db, options, names, 2, 2, -1, made, count, info, e);
        })
        .unwrap();
        assert_eq!(count, 1);
        assert_eq!(rocksdb_compactionjobinfo_input_files_count(info), 2);
        assert_eq!(rocksdb_compactionjobinfo_output_files_count(info), 1);
        assert_eq!(rocksdb_compactionjobinfo_input_records(info), 2);
        assert_eq!(rocksdb_compactionjobinfo_output_level(info), 2);
        // kManualCompaction.
        assert_eq!(rocksdb_compactionjobinfo_compaction_reason(info), 9);
        call(|e| rocksdb_compactionjobinfo_status(info, e)).unwrap();
        rocksdb_compactionjobinfo_destroy(info);
        assert!(CStr::from_ptr(*made).to_str().unwrap().ends_with(".sst"));
        rocksdb_compact_files_output_file_names_destroy(made, count);
        rocksdb_livefiles_destroy(files);

        rocksdb_compaction_options_canceled_destroy(canceled);
        rocksdb_compaction_options_destroy(options);

        let files = rocksdb_livefiles(db);
        assert_eq!(rocksdb_livefiles_count(files), 1);
        assert_eq!(rocksdb_livefiles_level(files, 0), 2);
        rocksdb_livefiles_destroy(files);
        assert_eq!(w.get(db, b"k").unwrap().unwrap(), b"2");
        call(|e| rocksdb_delete_file_in_range(db, ptr::null(), 0, ptr::null(), 0, e)).unwrap();
        assert_eq!(w.get(db, b"k").unwrap(), None);
        rocksdb_close(db);
    }
}

#[test]
fn background_work_pauses_and_goes_on() {
    let w = World::new();
    let db = w.open().unwrap();
    // SAFETY: The database is open.
    unsafe {
        call(|e| rocksdb_pause_background_work(db, e)).unwrap();
        call(|e| rocksdb_continue_background_work(db, e)).unwrap();
        let twice = call(|e| rocksdb_continue_background_work(db, e));
        assert_eq!(
            twice.unwrap_err(),
            "Invalid argument: Background work already unpaused"
        );
        call(|e| rocksdb_disable_file_deletions(db, e)).unwrap();
        call(|e| rocksdb_enable_file_deletions(db, e)).unwrap();
        rocksdb_close(db);
    }
}

#[test]
fn limiters_budgets_and_managers_are_shared_with_the_database() {
    let w = World::new();
    // SAFETY: Handles are live until they are destroyed, which they may be before the open.
    unsafe {
        let limiter = rocksdb_ratelimiter_create(100 << 20, 100_000, 10);
        let cache = rocksdb_cache_create_lru(8 << 20);
        let budget = rocksdb_write_buffer_manager_create_with_cache(32 << 20, cache, false);
        let env = rocksdb_create_default_env();
        let files = rocksdb_sst_file_manager_create(env);
        for rate in [-1, 5, 0] {
            rocksdb_sst_file_manager_set_delete_rate_bytes_per_second(files, rate);
            let known = rocksdb_sst_file_manager_get_delete_rate_bytes_per_second(files);
            assert_eq!(known, rate);
        }
        rocksdb_options_set_ratelimiter(w.options, limiter);
        rocksdb_options_set_write_buffer_manager(w.options, budget);
        rocksdb_options_set_sst_file_manager(w.options, files);
        rocksdb_ratelimiter_destroy(limiter);
        let db = w.open().unwrap();
        w.put(db, b"k", b"v").unwrap();
        w.flush(db).unwrap();
        assert!(rocksdb_write_buffer_manager_enabled(budget));
        assert!(rocksdb_write_buffer_manager_cost_to_cache(budget));
        rocksdb_close(db);
        let db = w.open().unwrap();
        assert!(rocksdb_sst_file_manager_get_total_size(files) > 0);
        rocksdb_close(db);
        rocksdb_write_buffer_manager_destroy(budget);
        rocksdb_sst_file_manager_destroy(files);
        rocksdb_cache_destroy(cache);
        rocksdb_env_destroy(env);
    }
}

#[test]
fn files_are_compared_with_their_checksums() {
    let w = World::new();
    // SAFETY: Handles are live until they are destroyed.
    unsafe {
        let db = w.open().unwrap();
        let refused = call(|e| rocksdb_verify_file_checksums(db, e)).unwrap_err();
        assert_eq!(
            refused,
            "Invalid argument: Cannot verify file checksum if options.file_checksum_gen_factory is \
             null"
        );
        rocksdb_close(db);
        let factory = rocksdb_file_checksum_gen_crc32c_factory_create();
        rocksdb_options_set_file_checksum_gen_factory(w.options, factory);
        rocksdb_file_checksum_gen_factory_destroy(factory);
        let db = w.open().unwrap();
        w.put(db, b"k", b"v").unwrap();
        w.flush(db).unwrap();
        call(|e| rocksdb_verify_file_checksums(db, e)).unwrap();
        call(|e| rocksdb_verify_file_checksums_with_options(db, w.read, e)).unwrap();
        rocksdb_close(db);
    }
}

#[test]
fn the_newest_options_file_is_loaded_with_its_families() {
    let w = World::new();
    // SAFETY: Handles are live until they are destroyed.
    unsafe {
        rocksdb_options_set_write_buffer_size(w.options, 1 << 20);
        let env = rocksdb_create_default_env();
        let cache = rocksdb_cache_create_lru(1 << 20);
        let (mut o, mut n) = (ptr::null_mut(), 7);
        let (mut names, mut families) = (ptr::null_mut(), ptr::null_mut());
        let mut load = || {
            call(|e| {
                let (o, n) = (&raw mut o, &raw mut n);
                let (names, families) = (&raw mut names, &raw mut families);
                let path = w.path.as_ptr();
                rocksdb_load_latest_options(path, env, false, cache, o, n, names, families, e);
            })
        };
        assert!(load().is_err());
        let db = w.open().unwrap();
        let made = call(|e| rocksdb_create_column_family(db, w.options, c"a".as_ptr(), e));
        rocksdb_column_family_handle_destroy(made.unwrap());
        rocksdb_close(db);
        load().unwrap();
        assert_eq!(n, 2);
        assert_eq!(CStr::from_ptr(*names.add(1)), c"a");
        assert_eq!(
            rocksdb_options_get_write_buffer_size(*families.add(1)),
            1 << 20
        );
        rocksdb_load_latest_options_destroy(o, names, families, n);
        rocksdb_env_destroy(env);
        rocksdb_cache_destroy(cache);
    }
}

unsafe extern "C" fn count_lines(state: *mut c_void, level: u32, line: *mut c_char, len: usize) {
    assert!(level <= 4, "{level}");
    // SAFETY: The library lends a line with its NUL; the state is the test's counter.
    unsafe {
        assert_eq!(CStr::from_ptr(line).to_bytes().len(), len);
        (*state.cast::<std::sync::atomic::AtomicUsize>())
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn a_logger_gets_the_lines_and_options_change_at_run_time() {
    let w = World::new();
    let lines = std::sync::atomic::AtomicUsize::new(0);
    // SAFETY: Handles are live until they are destroyed; the counter outlives the database.
    unsafe {
        let state = (&raw const lines).cast_mut().cast();
        let logger = rocksdb_logger_create_callback_logger(1, count_lines, state);
        rocksdb_options_set_info_log(w.options, logger);
        rocksdb_logger_destroy(logger);
        rocksdb_options_enable_statistics(w.options);
        let db = w.open().unwrap();
        assert!(lines.load(std::sync::atomic::Ordering::Relaxed) > 0);
        assert!(!w.dir.path().join("db/LOG").exists());
        let set = |name: &CStr, value: &CStr| {
            let (name, value) = (name.as_ptr(), value.as_ptr());
            call(|e| rocksdb_set_options(db, 1, &raw const name, &raw const value, e))
        };
        set(c"write_buffer_size", c"70000").unwrap();
        assert_eq!(
            set(c"no_such_option", c"1").unwrap_err(),
            "Invalid argument: Extra option not recognized: no_such_option"
        );
        assert_eq!(
            set(c"num_levels", c"3").unwrap_err(),
            "Invalid argument: Option not changeable: num_levels"
        );
        w.put(db, b"k", b"v").unwrap();
        let text = take_text(rocksdb_options_statistics_get_string(w.options)).unwrap();
        assert!(
            text.contains("rocksdb.number.keys.written COUNT : 1\n"),
            "{text}"
        );
        rocksdb_close(db);
        // The options still hold the logger, and the logger the counter.
        rocksdb_options_set_create_if_missing(w.options, 1);
    }
}
