//! Children of the process that opened a database.

use crate::support::*;
use spanlith_capi::*;

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(code: i32) -> !;
}

/// Runs `in_child` in a child and waits for its end; what it returns is its exit code.
fn child(in_child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: The child has one thread; it calls what it was given and ends without running destructors.
    unsafe {
        match fork() {
            0 => _exit(in_child()),
            pid => {
                let mut status = -1;
                assert_eq!(waitpid(pid, &raw mut status, 0), pid);
                status >> 8
            }
        }
    }
}

#[test]
fn what_children_close_or_write_harms_nothing_of_the_process_that_opened_it() {
    for held_back in [0, 1] {
        let world = World::new();
        // SAFETY: Handles are valid; lengths are right.
        unsafe {
            rocksdb_options_set_manual_wal_flush(world.options, held_back);
            let db = world.open().unwrap();
            let synced = rocksdb_writeoptions_create();
            rocksdb_writeoptions_set_sync(synced, 1);
            let put = |key: &str| {
                let (k, len) = (p(key.as_bytes()), key.len());
                call(|e| rocksdb_put(db, synced, k, len, p(b"v"), 1, e)).unwrap();
            };
            world.put(db, b"first", b"v").unwrap();
            for round in 0..5 {
                let closes = child(|| {
                    rocksdb_close(db);
                    0
                });
                assert_eq!(closes, 0, "round {round}");
                put(&format!("r{round}"));
            }
            let writes = child(|| {
                let refused = world.put(db, b"child", b"v").unwrap_err();
                let flushed = world.flush(db).unwrap_err();
                let text =
                    "Not implemented: Writing in a child of the process that opened the database";
                rocksdb_cancel_all_background_work(db, 1);
                rocksdb_close(db);
                i32::from(refused != text || flushed != text)
            });
            assert_eq!(writes, 0);
            for n in 0..50 {
                put(&format!("k{n}"));
            }
            let reads = child(|| {
                let found = world.get(db, b"k49").unwrap();
                i32::from(found.as_deref() != Some(&b"v"[..]))
            });
            assert_eq!(reads, 0);
            rocksdb_close(db);
            // A child that closed what it inherited opens it itself once the parent is done.
            let db = world.open().unwrap();
            assert_eq!(world.get(db, b"child").unwrap(), None);
            for n in 0..50 {
                let key = format!("k{n}");
                assert!(world.get(db, key.as_bytes()).unwrap().is_some(), "{key}");
            }
            for round in 0..5 {
                let key = format!("r{round}");
                assert!(world.get(db, key.as_bytes()).unwrap().is_some(), "{key}");
            }
            rocksdb_close(db);
            rocksdb_writeoptions_destroy(synced);
        }
    }
}
