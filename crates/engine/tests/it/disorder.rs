//! Tables whose keys are out of order, as damage leaves them that no checksum shows.

use spanlith::options::{BlockBasedTableOptions, CfOptions, ChecksumType, CompressionType};
use spanlith::{Db, ErrorKind, ReadOptions};
use spanlith_testkit::TempDir;
use std::fs;

fn open(dir: &TempDir) -> Db {
    let mut options = CfOptions::default();
    options.disable_auto_compactions = true;
    options.max_sequential_skip_in_iterations = 0;
    options.compression = CompressionType::None;
    let mut table = BlockBasedTableOptions::default();
    table.checksum = ChecksumType::None;
    table.block_size = 1;
    Db::builder(dir.path())
        .create_if_missing(true)
        .cf_options(options)
        .table_options(table)
        .open()
        .unwrap()
}

/// An iterator seeks past the versions of a key, and comes to one of them again: it says so, in both
/// directions, instead of seeking for ever.
#[test]
fn an_iterator_that_comes_back_to_a_key_it_has_passed_fails() {
    crate::suite_disk::needs_table_files("the test changes bytes in files of tables");
    let dir = TempDir::new("disorder");
    let db = open(&dir);
    let cf = db.default_cf();
    cf.put("key-m", "v").unwrap();
    let mut kept = Vec::new();
    for n in 0..5 {
        cf.put("key-a", format!("{n}")).unwrap();
        kept.push(db.snapshot());
    }
    cf.flush(true).unwrap();
    let table = cf.live_files()[0].path.clone();
    drop((kept, cf, db));
    let mut bytes = fs::read(&table).unwrap();
    let at = bytes.windows(5).position(|w| w == b"key-m").unwrap();
    bytes[at + 4] = b'a';
    fs::write(&table, bytes).unwrap();
    for limit in [0, 1000] {
        let db = open(&dir);
        let mut options = ReadOptions::default();
        options.max_skipped = limit;
        let mut cursor = db.default_cf().cursor(options);
        let mut moved = cursor.seek_to_first();
        for _ in 0..10 {
            if !matches!(moved, Ok(true)) {
                break;
            }
            moved = cursor.next();
        }
        if limit == 0 {
            let e = moved.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
            assert_eq!(e.message(), "keys are not in their order");
            assert_eq!(e.path(), Some(&*table));
        } else {
            assert!(!matches!(moved, Ok(true)), "{moved:?}");
        }
        let mut moved = cursor.seek_to_last();
        for _ in 0..10 {
            if !matches!(moved, Ok(true)) {
                break;
            }
            moved = cursor.prev();
        }
        assert!(!matches!(moved, Ok(true)), "{moved:?}");
    }
}
