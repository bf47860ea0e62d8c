//! Describes who owns what, and in which order it may go.

use crate::support::*;
use spanlith_capi::*;
use std::ptr;

#[test]
fn destroying_null_does_nothing() {
    macro_rules! destroy {
        ($($f:ident),* $(,)?) => {
            // SAFETY: NULL is allowed.
            unsafe { $($f(ptr::null_mut());)* }
        };
    }
    destroy!(
        rocksdb_options_destroy,
        rocksdb_block_based_options_destroy,
        rocksdb_universal_compaction_options_destroy,
        rocksdb_fifo_compaction_options_destroy,
        rocksdb_cache_destroy,
        rocksdb_lru_cache_options_destroy,
        rocksdb_hyper_clock_cache_options_destroy,
        rocksdb_env_destroy,
        rocksdb_readoptions_destroy,
        rocksdb_writeoptions_destroy,
        rocksdb_flushoptions_destroy,
        rocksdb_flushwaloptions_destroy,
        rocksdb_compactoptions_destroy,
        rocksdb_wait_for_compact_options_destroy,
        rocksdb_writebatch_destroy,
        rocksdb_pinnableslice_destroy,
        rocksdb_pinnable_handle_destroy,
        rocksdb_iter_destroy,
        rocksdb_column_family_handle_destroy,
        rocksdb_comparator_destroy,
        rocksdb_mergeoperator_destroy,
        rocksdb_filterpolicy_destroy,
        rocksdb_statistics_histogram_data_destroy,
        rocksdb_close,
        rocksdb_free,
    );
}

#[test]
fn close_gives_the_lock_back_while_other_handles_live() {
    let w = World::new();
    let db = w.open().unwrap();
    w.put(db, b"k", b"v").unwrap();
    // SAFETY: All handles are live; the iterator and the value are used after the database was
    // closed, which our handles allow.
    unsafe {
        let it = rocksdb_create_iterator(db, w.read);
        let cf = call(|e| rocksdb_create_column_family(db, w.options, c"one".as_ptr(), e)).unwrap();
        let snapshot = rocksdb_create_snapshot(db);
        let pinned = call(|e| rocksdb_get_pinned(db, w.read, p(b"k"), 1, e)).unwrap();
        rocksdb_close(db);

        let names = [c"default".as_ptr(), c"one".as_ptr()];
        let options = [w.options.cast_const(); 2];
        let mut families = [ptr::null_mut(); 2];
        let (path, n, o) = (w.path.as_ptr(), names.as_ptr(), options.as_ptr());
        let f = families.as_mut_ptr();
        let again = call(|e| rocksdb_open_column_families(w.options, path, 2, n, o, f, e)).unwrap();
        for family in families {
            rocksdb_column_family_handle_destroy(family);
        }
        w.put(again, b"k", b"new").unwrap();
        rocksdb_iter_seek_to_first(it);
        assert_eq!(rocksdb_iter_valid(it), 1);
        let mut len = 0;
        let value = rocksdb_iter_value(it, &raw mut len);
        assert_eq!(std::slice::from_raw_parts(value.cast::<u8>(), len), b"v");
        let value = rocksdb_pinnableslice_value(pinned, &raw mut len);
        assert_eq!(std::slice::from_raw_parts(value.cast::<u8>(), len), b"v");
        assert_eq!(rocksdb_column_family_handle_get_id(cf), 1);

        rocksdb_release_snapshot(again, snapshot);
        rocksdb_column_family_handle_destroy(cf);
        rocksdb_iter_destroy(it);
        rocksdb_pinnableslice_destroy(pinned);
        rocksdb_close(again);
    }
}

#[test]
fn writes_after_a_close_inside_wait_for_compact_are_refused() {
    let w = World::new();
    let db = w.open().unwrap();
    w.put(db, b"k", b"v").unwrap();
    // SAFETY: All handles are live.
    unsafe {
        let options = rocksdb_wait_for_compact_options_create();
        rocksdb_wait_for_compact_options_set_close_db(options, 1);
        call(|e| rocksdb_wait_for_compact(db, options, e)).unwrap();
        rocksdb_wait_for_compact_options_destroy(options);
    }
    assert_eq!(w.put(db, b"k", b"v").unwrap_err(), "Shutdown in progress: ");
    assert_eq!(w.flush(db).unwrap_err(), "Shutdown in progress: ");
    // SAFETY: The handle is still to be destroyed.
    unsafe { rocksdb_close(db) };
}

#[test]
fn bounds_are_copied_when_an_iterator_is_made() {
    let w = World::new();
    let db = w.open().unwrap();
    for k in [b"a", b"b", b"c", b"d"] {
        w.put(db, k, b"v").unwrap();
    }
    // SAFETY: All handles are live; the bounds may go once the iterator is there.
    unsafe {
        let options = rocksdb_readoptions_create();
        let (mut lower, mut upper) = (b"b".to_vec(), b"d".to_vec());
        rocksdb_readoptions_set_iterate_lower_bound(options, p(&lower), 1);
        rocksdb_readoptions_set_iterate_upper_bound(options, p(&upper), 1);
        let it = rocksdb_create_iterator(db, options);
        (lower[0], upper[0]) = (b'x', b'x');
        rocksdb_readoptions_destroy(options);
        drop((lower, upper));
        let mut seen = Vec::new();
        rocksdb_iter_seek_to_first(it);
        while rocksdb_iter_valid(it) == 1 {
            let key = rocksdb_iter_key_slice(it);
            seen.extend_from_slice(std::slice::from_raw_parts(key.data.cast::<u8>(), key.size));
            rocksdb_iter_next(it);
        }
        assert_eq!(seen, b"bc");
        call(|e| rocksdb_iter_get_error(it, e)).unwrap();
        rocksdb_iter_destroy(it);
        rocksdb_close(db);
    }
}

#[test]
fn multi_get_overwrites_what_the_arrays_held() {
    let w = World::new();
    let db = w.open().unwrap();
    w.put(db, b"a", b"1").unwrap();
    w.put(db, b"empty", b"").unwrap();
    let keys = [p(b"a"), p(b"none"), p(b"empty")];
    let sizes = [1, 4, 5];
    let garbage = ptr::dangling_mut();
    let (mut values, mut lens, mut errs) = ([garbage; 3], [9usize; 3], [garbage; 3]);
    // SAFETY: The arrays have three elements; garbage is overwritten, not freed.
    unsafe {
        rocksdb_multi_get(
            db,
            w.read,
            3,
            keys.as_ptr(),
            sizes.as_ptr(),
            values.as_mut_ptr(),
            lens.as_mut_ptr(),
            errs.as_mut_ptr(),
        );
        assert!(errs.iter().all(|e| e.is_null()));
        assert_eq!(lens, [1, 0, 0]);
        assert!(values[1].is_null());
        assert!(!values[0].is_null());
        assert!(!values[2].is_null(), "an empty value is not absence");
        libc_free(values[0]);
        libc_free(values[2]);
        rocksdb_close(db);
    }
}

#[test]
fn a_snapshot_shows_the_past_until_it_is_unset() {
    let w = World::new();
    let db = w.open().unwrap();
    w.put(db, b"k", b"old").unwrap();
    // SAFETY: All handles are live.
    unsafe {
        let snapshot = rocksdb_create_snapshot(db);
        w.put(db, b"k", b"new").unwrap();
        w.flush(db).unwrap();
        rocksdb_readoptions_set_snapshot(w.read, snapshot);
        assert_eq!(w.get(db, b"k").unwrap().unwrap(), b"old");
        rocksdb_readoptions_set_snapshot(w.read, ptr::null());
        assert_eq!(w.get(db, b"k").unwrap().unwrap(), b"new");
        rocksdb_release_snapshot(db, snapshot);
        let mut live = 9;
        let name = c"rocksdb.num-snapshots".as_ptr();
        assert_eq!(rocksdb_property_int(db, name, &raw mut live), 0);
        assert_eq!(live, 0);
        rocksdb_close(db);
    }
}

/// As measured on 11.8.1: a refresh that is refused leaves the iterator where it is.
#[test]
fn an_iterator_whose_refresh_is_refused_keeps_its_place() {
    let w = World::new();
    let db = w.open().unwrap();
    for key in [b"a", b"b", b"c"] {
        w.put(db, key, b"v").unwrap();
    }
    // SAFETY: All handles are live; each iterator goes before what it walks over.
    unsafe {
        let tailing = rocksdb_readoptions_create();
        rocksdb_readoptions_set_tailing(tailing, 1);
        let batch = rocksdb_writebatch_wi_create(0, 1);
        let base = rocksdb_create_iterator(db, w.read);
        let over = rocksdb_writebatch_wi_create_iterator_with_base(batch, base);
        for it in [rocksdb_create_iterator(db, tailing), over] {
            rocksdb_iter_seek(it, p(b"b"), 1);
            let refused = call(|e| rocksdb_iter_refresh(it, e));
            let text = "Not implemented: Refresh() is not supported";
            assert_eq!(refused, Err(text.to_string()));
            assert_eq!(rocksdb_iter_valid(it), 1);
            let key = || {
                let mut len = 0;
                let at = rocksdb_iter_key(it, &raw mut len);
                std::slice::from_raw_parts(at.cast::<u8>(), len).to_vec()
            };
            assert_eq!(key(), b"b");
            rocksdb_iter_next(it);
            assert_eq!(key(), b"c");
            rocksdb_iter_destroy(it);
        }
        rocksdb_writebatch_wi_destroy(batch);
        rocksdb_readoptions_destroy(tailing);
        rocksdb_close(db);
    }
}

/// As measured on 11.8.1: what no iterator can have is refused before one is made, but for a database that is
/// open for reading only, where nothing is missing in the files.
#[test]
fn several_iterators_are_refused_before_one_is_made() {
    let w = World::new();
    let db = w.open().unwrap();
    w.put(db, b"k", b"v").unwrap();
    // SAFETY: All handles are live; iterators that were not written are not looked at.
    unsafe {
        let options = rocksdb_readoptions_create();
        rocksdb_readoptions_set_read_tier(options, 2);
        let several = |db: *mut rocksdb_t| {
            let family = rocksdb_get_default_column_family_handle(db);
            let mut families = [family, family];
            let mut iterators = [ptr::null_mut(); 2];
            let (f, i) = (families.as_mut_ptr(), iterators.as_mut_ptr());
            let result = call(|e| rocksdb_create_iterators(db, options, f, i, 2, e));
            rocksdb_column_family_handle_destroy(family);
            (result, iterators)
        };
        let (refused, iterators) = several(db);
        let text = "Not implemented: ReadTier::kPersistedData is not yet supported in iterators.";
        assert_eq!(refused, Err(text.to_string()));
        assert_eq!(iterators, [ptr::null_mut(); 2]);
        rocksdb_close(db);

        let path = w.path.as_ptr();
        let db = call(|e| rocksdb_open_for_read_only(w.options, path, 0, e)).unwrap();
        let (made, iterators) = several(db);
        assert_eq!(made, Ok(()));
        for it in iterators {
            rocksdb_iter_seek_to_first(it);
            assert_eq!(rocksdb_iter_valid(it), 1);
            rocksdb_iter_destroy(it);
        }
        rocksdb_readoptions_destroy(options);
        rocksdb_close(db);
    }
}

/// The handle of the default family need not be destroyed: it keeps nothing of a database that was closed. It may
/// be, also after the close.
#[cfg(target_os = "linux")]
#[test]
fn the_default_handle_keeps_no_files_of_a_closed_database() {
    let w = World::new();
    let open_files = || -> Vec<std::path::PathBuf> {
        let dir = std::path::Path::new(w.path.to_str().unwrap());
        let all = std::fs::read_dir("/proc/self/fd").unwrap();
        let all = all.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        all.filter(|path| path.starts_with(dir)).collect()
    };
    let db = w.open().unwrap();
    w.put(db, b"k", b"v").unwrap();
    w.flush(db).unwrap();
    // SAFETY: All handles are live; the family's is only destroyed after the close.
    unsafe {
        let family = rocksdb_get_default_column_family_handle(db);
        let value = call(|e| {
            let mut len = 0;
            let value = rocksdb_get_cf(db, w.read, family, p(b"k"), 1, &raw mut len, e);
            (!value.is_null())
                .then(|| rocksdb_free(value.cast()))
                .is_some()
                && len == 1
        });
        assert_eq!(value, Ok(true));
        assert!(!open_files().is_empty());
        rocksdb_close(db);
        assert_eq!(open_files(), Vec::<std::path::PathBuf>::new());
        rocksdb_column_family_handle_destroy(family);
    }
}

/// As a RocksDB without jemalloc: an error, and a handle that changes nothing.
#[test]
fn an_allocator_that_is_not_to_be_had_says_so() {
    // SAFETY: Handles are valid; the error is a text of the library.
    unsafe {
        let mut err = Errptr::new();
        let allocator = rocksdb_jemalloc_nodump_allocator_create(err.slot());
        assert!(!allocator.is_null());
        let text = err.take().unwrap();
        assert!(
            text.starts_with("Not implemented: JemallocNodumpAllocator"),
            "{text}"
        );
        let lru = rocksdb_lru_cache_options_create();
        rocksdb_lru_cache_options_set_capacity(lru, 1 << 20);
        rocksdb_lru_cache_options_set_memory_allocator(lru, allocator);
        let cache = rocksdb_cache_create_lru_opts(lru);
        assert_eq!(rocksdb_cache_get_capacity(cache), 1 << 20);
        rocksdb_cache_destroy(cache);
        rocksdb_lru_cache_options_destroy(lru);
        rocksdb_memory_allocator_destroy(allocator);
    }
}
