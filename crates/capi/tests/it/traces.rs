//! Traces of looked-up blocks and of calls of the file system, as a C program writes them (R-WL-01).

use crate::support::*;
use spanlith::trace::{TraceHeader, TraceReader, TraceRecord};
use spanlith_capi::*;
use spanlith_env::{FileSystem, PosixFs};
use std::path::Path;
use std::ptr;

/// Blocks and calls that a trace has.
fn records(path: &Path) -> (usize, usize) {
    let file = PosixFs::new().open_sequential(path).unwrap();
    let mut reader = TraceReader::new(file);
    let header = TraceHeader::from_record(&reader.next_record().unwrap().unwrap()).unwrap();
    let (mut blocks, mut calls) = (0, 0);
    while let Some(record) = reader.next_record().unwrap() {
        match header.decode(&record).unwrap() {
            TraceRecord::Block(_) => blocks += 1,
            TraceRecord::Call(_) => calls += 1,
            other => panic!("{other:?}"),
        }
    }
    (blocks, calls)
}

/// Results are those of RocksDB 11.8.1, which also finds nothing wrong with ending a trace that there is not.
#[test]
fn lookups_and_calls_are_traced() {
    let world = World::new();
    let db = world.open().unwrap();
    let files = ["blocks", "more", "calls", "other"].map(|name| world.dir.path().join(name));
    let [blocks, more, calls, other] = [0, 1, 2, 3].map(|i: usize| c_path(&files[i]));
    // SAFETY: Handles are valid, and destroyed once; texts end with a zero.
    unsafe {
        let env = rocksdb_create_default_env();
        let env_options = rocksdb_envoptions_create();
        let options = rocksdb_trace_options_create();
        let which = rocksdb_block_cache_trace_options_create();
        let how = rocksdb_block_cache_trace_writer_options_create();
        assert_eq!(
            rocksdb_block_cache_trace_options_get_sampling_frequency(which),
            1
        );
        assert_eq!(
            rocksdb_block_cache_trace_writer_options_get_max_trace_file_size(how),
            64 << 30
        );
        rocksdb_block_cache_trace_options_set_sampling_frequency(which, 0);
        rocksdb_block_cache_trace_writer_options_set_max_trace_file_size(how, 100);
        assert_eq!(
            rocksdb_block_cache_trace_options_get_sampling_frequency(which),
            0
        );
        assert_eq!(
            rocksdb_block_cache_trace_writer_options_get_max_trace_file_size(how),
            100
        );
        call(|e| rocksdb_end_block_cache_trace(db, e)).unwrap();
        call(|e| rocksdb_end_io_trace(db, e)).unwrap();
        let start_blocks = |path: &std::ffi::CStr| {
            call(|e| {
                rocksdb_start_block_cache_trace(db, env, env_options, options, path.as_ptr(), e);
            })
        };
        let start_calls = |path: &std::ffi::CStr| {
            call(|e| rocksdb_start_io_trace(db, env, env_options, options, path.as_ptr(), e))
        };
        start_blocks(&blocks).unwrap();
        start_calls(&calls).unwrap();
        for refused in [start_blocks(&other), start_calls(&other)] {
            let text = refused.unwrap_err();
            assert!(text.starts_with("Resource busy: "), "{text}");
        }
        world.put(db, b"a", b"1").unwrap();
        world.flush(db).unwrap();
        for _ in 0..3 {
            assert_eq!(world.get(db, b"a").unwrap().unwrap(), b"1");
        }
        call(|e| rocksdb_end_block_cache_trace(db, e)).unwrap();
        call(|e| rocksdb_end_io_trace(db, e)).unwrap();
        // The second does not come any more.
        call(|e| {
            let path = more.as_ptr();
            rocksdb_start_block_cache_trace_with_options(
                db,
                ptr::null_mut(),
                env_options,
                which,
                how,
                path,
                e,
            );
        })
        .unwrap();
        for _ in 0..3 {
            world.get(db, b"a").unwrap().unwrap();
        }
        rocksdb_close(db);
        rocksdb_block_cache_trace_writer_options_destroy(how);
        rocksdb_block_cache_trace_options_destroy(which);
        rocksdb_trace_options_destroy(options);
        rocksdb_envoptions_destroy(env_options);
        rocksdb_env_destroy(env);
    }
    assert_eq!(records(&files[0]), (3, 0));
    assert_eq!(records(&files[1]), (1, 0));
    let (of_blocks, of_calls) = records(&files[2]);
    assert!(of_blocks == 0 && of_calls > 4, "{of_calls}");
}
