//! A database that has lost CURRENT and MANIFEST, put together again by the C function.

use crate::support::{World, c_path, call};
use spanlith_capi::*;

#[test]
fn a_database_without_manifest_is_repaired_and_opens() {
    let world = World::new();
    let db = world.open().unwrap();
    world.put(db, b"a", b"1").unwrap();
    world.flush(db).unwrap();
    world.put(db, b"b", b"2").unwrap();
    // SAFETY: Handles are used as a C program uses them.
    unsafe { rocksdb_close(db) };
    let dir = world.dir.path().join("db");
    for entry in std::fs::read_dir(&dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "CURRENT" || name.starts_with("MANIFEST") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    let refused = world.open().unwrap_err();
    assert!(refused.starts_with("Corruption: "), "{refused}");
    // SAFETY: As above.
    unsafe {
        rocksdb_options_set_create_if_missing(world.options, 0);
        rocksdb_options_set_error_if_exists(world.options, 0);
        call(|e| rocksdb_repair_db(world.options, world.path.as_ptr(), e)).unwrap();
    }
    let db = world.open().unwrap();
    assert_eq!(world.get(db, b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(world.get(db, b"b").unwrap().as_deref(), Some(&b"2"[..]));
    // SAFETY: As above.
    let refused = call(|e| unsafe { rocksdb_repair_db(world.options, world.path.as_ptr(), e) });
    let refused = refused.unwrap_err();
    assert!(
        refused.starts_with("IO error: lock hold by current process"),
        "{refused}"
    );
    // SAFETY: As above.
    unsafe { rocksdb_close(db) };
    let logs = std::fs::read_dir(dir.join("lost")).unwrap();
    assert!(logs.count() > 0);
}

#[test]
fn repairing_what_is_not_there_makes_an_empty_database() {
    let world = World::new();
    let path = c_path(&world.dir.path().join("new"));
    // SAFETY: Handles are used as a C program uses them.
    unsafe {
        call(|e| rocksdb_repair_db(world.options, path.as_ptr(), e)).unwrap();
        rocksdb_options_set_create_if_missing(world.options, 0);
        let db = call(|e| rocksdb_open(world.options, path.as_ptr(), e)).unwrap();
        assert_eq!(world.get(db, b"a").unwrap(), None);
        rocksdb_close(db);
    }
}
