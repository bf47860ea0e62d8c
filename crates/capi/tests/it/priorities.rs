//! Describes what calls say about themselves through the C functions, cache tables, and functions without a declaration.

use crate::support::*;
use spanlith_capi::*;
use std::ptr;

#[test]
fn activities_and_priorities_are_kept_as_rocksdb_keeps_them() {
    let world = World::new();
    let (read, write) = (world.read, world.write);
    // SAFETY: Handles are valid.
    unsafe {
        assert_eq!(rocksdb_readoptions_get_io_activity(read), 255);
        assert_eq!(rocksdb_writeoptions_get_io_activity(write), 255);
        assert_eq!(rocksdb_writeoptions_get_rate_limiter_priority(write), 4);
        for (set, get) in [(0, 0), (5, 5), (254, 254), (256, 0), (-1, 255)] {
            rocksdb_readoptions_set_io_activity(read, set);
            rocksdb_writeoptions_set_io_activity(write, set);
            assert_eq!(rocksdb_readoptions_get_io_activity(read), get);
            assert_eq!(rocksdb_writeoptions_get_io_activity(write), get);
        }
        for priority in [0, 3, 4, 5, -1, 260] {
            rocksdb_writeoptions_set_rate_limiter_priority(write, priority);
            let got = rocksdb_writeoptions_get_rate_limiter_priority(write);
            assert_eq!(got, priority);
        }
    }
}

#[test]
fn a_call_that_is_something_else_than_its_options_say_is_refused() {
    let world = World::new();
    let db = world.open().unwrap();
    world.put(db, b"a", b"1").unwrap();
    let text = |call: &str, name: &str| {
        format!(
            "Invalid argument: Can only call {call} with `ReadOptions::io_activity` is \
             `Env::IOActivity::kUnknown` or `Env::IOActivity::{name}`"
        )
    };
    // SAFETY: Handles are valid, and destroyed once.
    unsafe {
        let cf = rocksdb_get_default_column_family_handle(db);
        for activity in 0..=9 {
            rocksdb_readoptions_set_io_activity(world.read, activity);
            let expected = |own: i32, call: &str, name: &str| {
                (activity != own)
                    .then(|| text(call, name))
                    .map_or(Ok(()), Err)
            };
            let get = world.get(db, b"a").map(drop);
            assert_eq!(get, expected(3, "Get", "kGet"));
            let (key, len) = ([p(b"a")], [1usize]);
            let (mut value, mut size, mut err) = ([ptr::null_mut()], [0usize], [ptr::null_mut()]);
            rocksdb_multi_get(
                db,
                world.read,
                1,
                key.as_ptr(),
                len.as_ptr(),
                value.as_mut_ptr(),
                size.as_mut_ptr(),
                err.as_mut_ptr(),
            );
            libc_free(value[0]);
            let got = take_text(err[0]).map_or(Ok(()), Err);
            assert_eq!(got, expected(4, "MultiGet", "kMultiGet"));
            let iter = rocksdb_create_iterator(db, world.read);
            rocksdb_iter_seek_to_first(iter);
            assert_eq!(rocksdb_iter_valid(iter), u8::from(activity == 5));
            let got = call(|e| rocksdb_iter_get_error(iter, e));
            assert_eq!(got, expected(5, "NewIterator", "kDBIterator"));
            let refreshed = call(|e| rocksdb_iter_refresh(iter, e));
            let none = "Not implemented: Refresh() is not supported".to_string();
            assert_eq!(refreshed, (activity == 5).then_some(()).ok_or(none));
            rocksdb_iter_destroy(iter);
            let (mut families, mut iters) = ([cf], [ptr::null_mut()]);
            let (f, i) = (families.as_mut_ptr(), iters.as_mut_ptr());
            let got = call(|e| rocksdb_create_iterators(db, world.read, f, i, 1, e));
            assert_eq!(got, expected(5, "NewIterators", "kDBIterator"));
            if got.is_ok() {
                rocksdb_iter_destroy(iters[0]);
            }
            let got = call(|e| rocksdb_verify_checksum_with_options(db, world.read, e));
            assert_eq!(got, expected(6, "VerifyChecksum", "kVerifyDBChecksum"));
            let got = call(|e| rocksdb_verify_file_checksums_with_options(db, world.read, e));
            let ours = "Invalid argument: Cannot verify file checksum if \
                        options.file_checksum_gen_factory is null";
            let own = Err(ours.to_string());
            let other = expected(7, "VerifyFileChecksums", "kVerifyFileChecksums");
            assert_eq!(got, if activity == 7 { own } else { other });
            // A batch over the database asks for what it needs.
            let batch = rocksdb_writebatch_wi_create(0, 1);
            let mut len = 0;
            let len = &raw mut len;
            let value = call(|e| {
                let get = rocksdb_writebatch_wi_get_from_batch_and_db;
                get(batch, db, world.read, p(b"a"), 1, len, e)
            });
            libc_free(value.unwrap());
            rocksdb_writebatch_wi_destroy(batch);
            // Writes are for anything.
            rocksdb_writeoptions_set_io_activity(world.write, activity);
            world.put(db, b"b", b"2").unwrap();
        }
        for (priority, refused) in [(4, false), (3, false), (2, true), (5, true), (-1, true)] {
            rocksdb_writeoptions_set_rate_limiter_priority(world.write, priority);
            let put = world.put(db, b"c", b"3");
            assert_eq!(put.is_err(), refused, "{priority} {put:?}");
        }
        rocksdb_column_family_handle_destroy(cf);
        rocksdb_close(db);
    }
}

#[test]
fn the_slots_of_a_cache_grow_with_its_entries() {
    let world = World::new();
    // SAFETY: Handles are valid, and destroyed once.
    unsafe {
        let cache = rocksdb_cache_create_lru(8 << 20);
        let slots = || rocksdb_cache_get_table_address_count(cache);
        let table = rocksdb_block_based_options_create();
        rocksdb_block_based_options_set_block_cache(table, cache);
        rocksdb_options_set_block_based_table_factory(world.options, table);
        rocksdb_options_set_compression(world.options, 0);
        let db = world.open().unwrap();
        for n in 0..400u32 {
            world.put(db, &n.to_be_bytes(), &[7; 3000]).unwrap();
        }
        world.flush(db).unwrap();
        let empty = slots();
        for n in 0..400u32 {
            world.get(db, &n.to_be_bytes()).unwrap();
        }
        let entries = rocksdb_cache_get_occupancy_count(cache);
        assert!(entries >= 200, "{entries}");
        assert!(
            slots() >= entries && slots() > empty,
            "{} {entries}",
            slots()
        );
        let full = slots();
        rocksdb_cache_set_capacity(cache, 0);
        assert_eq!(slots(), full, "slots stay when entries go");
        rocksdb_close(db);
        rocksdb_block_based_options_destroy(table);
        rocksdb_cache_destroy(cache);
    }
}

#[test]
fn filters_of_the_functions_without_a_declaration_are_those_of_the_others() {
    let world = World::new();
    let name = |policy: *mut rocksdb_filterpolicy_t| {
        // SAFETY: The policy is passed on, other handles are valid.
        unsafe {
            let table = rocksdb_block_based_options_create();
            rocksdb_block_based_options_set_filter_policy(table, policy);
            rocksdb_options_set_block_based_table_factory(world.options, table);
            rocksdb_block_based_options_destroy(table);
            let db = world.open().unwrap();
            rocksdb_close(db);
            let files = std::fs::read_dir(world.dir.path().join("db")).unwrap();
            let names = files.map(|f| f.unwrap().path());
            let newest = names
                .filter(|p| p.to_string_lossy().contains("OPTIONS-"))
                .max();
            let text = std::fs::read_to_string(newest.unwrap()).unwrap();
            let line = text.lines().find(|l| l.contains("filter_policy=")).unwrap();
            line.trim().to_string()
        }
    };
    // SAFETY: Constructors take no pointers.
    unsafe {
        let bloom = name(rocksdb_filterpolicy_create_bloom_full(9.5));
        assert!(bloom.contains("bloomfilter:9.5"), "{bloom}");
        for format in [0, 1] {
            let other = name(rocksdb_filterpolicy_create_bloom_format(9.5, format));
            assert_eq!(other, bloom);
        }
        let ribbon = name(rocksdb_filterpolicy_create_ribbon_format(9.5, 3));
        assert!(ribbon.contains("ribbonfilter:9.5:3"), "{ribbon}");
        assert_eq!(
            ribbon,
            name(rocksdb_filterpolicy_create_ribbon_hybrid(9.5, 3))
        );
    }
}
