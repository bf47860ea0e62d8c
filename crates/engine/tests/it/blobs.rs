//! Blob files that RocksDB wrote: what becomes of them when their values go.
//!
//! `fixtures/best-efforts/blobs` has three tables of level 0 with one blob file each (numbers 10, 13
//! and 16, of 120 bytes), whose one record is the value of `k0`, `k1` and `k2`. The numbers expected
//! of properties are those that RocksDB 11.8.1 shows after the same steps.

use spanlith::options::{CfOptions, DbOptions};
use spanlith::{Db, FamilyOptions};
use spanlith_testkit::{TempDir, copy_dir, fixtures_dir};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn fixture(temp: &TempDir) -> PathBuf {
    let dir = temp.path().join("db");
    copy_dir(fixtures_dir().join("best-efforts/blobs"), &dir);
    dir
}

fn open(dir: &Path) -> Db {
    let mut options = CfOptions::default();
    options.disable_auto_compactions = true;
    let db = Db::builder(dir).family(FamilyOptions::new("default").options(options));
    db.open().unwrap()
}

fn blob_files(dir: &Path) -> Vec<u64> {
    let names = std::fs::read_dir(dir).unwrap();
    let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut numbers: Vec<u64> = names
        .filter_map(|n| n.strip_suffix(".blob")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Waits until these blob files are left: files are deleted after the job that makes them obsolete.
fn wait_for(dir: &Path, numbers: &[u64]) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while blob_files(dir) != numbers {
        assert!(Instant::now() < deadline, "{:?}", blob_files(dir));
        std::thread::yield_now();
    }
}

fn compact(db: &Db) {
    db.flush(true).unwrap();
    db.default_cf().compact_range(None, None).unwrap();
}

/// `num-blob-files`, and the bytes of all live ones, and of their garbage.
fn numbers(db: &Db) -> [u64; 3] {
    let names = [
        "num-blob-files",
        "live-blob-file-size",
        "live-blob-file-garbage-size",
    ];
    names.map(|n| db.int_property(&format!("rocksdb.{n}")).unwrap())
}

fn get(db: &Db, key: &str) -> Option<String> {
    let value = db.default_cf().get(key).unwrap();
    value.map(|v| String::from_utf8_lossy(&v).into_owned())
}

/// The value of `k<n>`.
fn value(n: usize) -> Option<String> {
    Some(format!("value{n}").repeat(4))
}

#[test]
fn a_blob_file_whose_values_are_gone_is_deleted() {
    let temp = TempDir::new("blobs");
    let dir = fixture(&temp);
    let db = open(&dir);
    let cf = db.default_cf();
    assert_eq!(numbers(&db), [3, 360, 0]);
    assert_eq!(
        db.int_property("rocksdb.estimate-live-data-size"),
        Some(1480)
    );
    // Read, so that the files are open.
    assert_eq!(
        [0, 1, 2].map(|n| get(&db, &format!("k{n}"))),
        [0, 1, 2].map(value)
    );
    cf.put("k0", "new").unwrap();
    cf.delete("k2").unwrap();
    compact(&db);
    assert_eq!(numbers(&db), [1, 120, 0]);
    wait_for(&dir, &[13]);
    assert_eq!(get(&db, "k1"), value(1));
    db.close().unwrap();
    let db = open(&dir);
    assert_eq!((numbers(&db), get(&db, "k1")), ([1, 120, 0], value(1)));
    db.default_cf().put("k1", "new").unwrap();
    compact(&db);
    assert_eq!(numbers(&db), [0; 3]);
    wait_for(&dir, &[]);
    assert_eq!(
        db.property("rocksdb.blob-stats").unwrap(),
        "Number of blob files: 0\nTotal size of blob files: 0\n\
         Total size of garbage in blob files: 0\nBlob file space amplification: 0\n"
    );
}

#[test]
fn a_blob_file_stays_as_long_as_an_iterator_needs_it() {
    let temp = TempDir::new("blobs");
    let dir = fixture(&temp);
    let db = open(&dir);
    let mut before = db.default_cf().iter();
    assert!(before.next().is_some());
    for n in 0..3 {
        db.default_cf().put(format!("k{n}"), "new").unwrap();
    }
    compact(&db);
    assert_eq!(db.int_property("rocksdb.num-blob-files"), Some(0));
    assert_eq!(blob_files(&dir), [10, 13, 16]);
    assert_eq!(
        db.int_property("rocksdb.total-blob-file-size"),
        Some(360),
        "a version that is in use counts"
    );
    let second = before.next().unwrap().unwrap().1;
    assert_eq!(String::from_utf8_lossy(&second), value(1).unwrap());
    drop(before);
    // Files that the end of an iterator frees are deleted with the next job at the latest.
    db.default_cf().put("x", "y").unwrap();
    db.flush(true).unwrap();
    wait_for(&dir, &[]);
}

#[test]
fn garbage_is_recorded_and_survives_reopening() {
    let temp = TempDir::new("blobs");
    let dir = temp.path().join("db");
    copy_dir(fixtures_dir().join("golden/golden-11.8/blob/db"), &dir);
    let db = open(&dir);
    let before = numbers(&db);
    assert_eq!(before[2], 0);
    let rows: Vec<_> = db.default_cf().iter().map(|e| e.unwrap()).collect();
    // One value of several in the first file.
    let (key, _) = &rows[0];
    db.default_cf().put(key, "new").unwrap();
    compact(&db);
    let after = numbers(&db);
    assert_eq!(after[..2], before[..2]);
    assert!(after[2] > 32, "{after:?}");
    db.close().unwrap();
    let db = open(&dir);
    assert_eq!(numbers(&db), after);
    let again: Vec<_> = db.default_cf().iter().map(|e| e.unwrap()).collect();
    assert_eq!(again.len(), rows.len());
    assert!(again[1..] == rows[1..]);
}

#[test]
fn an_open_puts_aside_blob_files_that_nothing_explains() {
    let temp = TempDir::new("blobs");
    let dir = fixture(&temp);
    let file = |n: u64| dir.join(format!("{n:06}.blob"));
    // Finished, but no edit names it; unfinished.
    std::fs::copy(file(16), file(40)).unwrap();
    let whole = std::fs::read(file(16)).unwrap();
    std::fs::write(file(41), &whole[..100]).unwrap();
    let db = open(&dir);
    // A MANIFEST of RocksDB has no marks by which a missing end would be noticed.
    assert_eq!(blob_files(&dir), [10, 13, 16]);
    let lost = std::fs::read_dir(dir.join("lost")).unwrap();
    let lost = lost.map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut lost: Vec<String> = lost.map(|n| n[..14].to_string()).collect();
    lost.sort();
    assert_eq!(lost, ["000040.blob.at", "000041.blob.at"]);
    // Of a version that a crash kept from deleting it.
    for n in 0..3 {
        db.default_cf().put(format!("k{n}"), "new").unwrap();
    }
    compact(&db);
    db.close().unwrap();
    assert_eq!(blob_files(&dir), []);
    let temp = TempDir::new("blobs");
    let dir = fixture(&temp);
    let mut options = DbOptions::default();
    options.reuse_manifest_on_open = true;
    let db = Db::builder(&dir).options(options.clone()).open().unwrap();
    for n in 0..3 {
        db.default_cf().put(format!("k{n}"), "new").unwrap();
    }
    compact(&db);
    db.close().unwrap();
    let left = dir.join("000010.blob");
    std::fs::write(&left, whole).unwrap();
    let db = Db::builder(&dir).options(options).open().unwrap();
    assert_eq!(blob_files(&dir), [0; 0]);
    drop(db);
}

#[test]
fn the_blob_files_of_a_dropped_family_are_deleted() {
    let temp = TempDir::new("blobs");
    let dir = temp.path().join("db");
    copy_dir(fixtures_dir().join("best-efforts/blobs-family"), &dir);
    let names = ["default", "one"];
    let db = names
        .iter()
        .fold(Db::builder(&dir), |b, n| b.family(FamilyOptions::new(*n)));
    let db = db.open().unwrap();
    assert_eq!(blob_files(&dir).len(), 1);
    let one = db.cf("one").unwrap();
    assert_eq!(one.get("k0").unwrap().unwrap().as_ref(), [b'v'; 40]);
    db.drop_cf(&one).unwrap();
    drop(one);
    db.default_cf().put("x", "y").unwrap();
    db.flush(true).unwrap();
    wait_for(&dir, &[]);
}

#[test]
fn a_pinned_value_that_was_left_unread_is_there_once_it_was_fetched() {
    let temp = TempDir::new("blobs-pinned");
    let db = open(&fixture(&temp));
    let mut options = spanlith::ReadOptions::new();
    (options.pin_data, options.allow_unprepared_value) = (true, true);
    let mut cursor = db.default_cf().cursor(options);
    assert!(cursor.seek(b"k1").unwrap());
    assert!(cursor.prepare_value().unwrap());
    let expected = db.default_cf().get("k1").unwrap().unwrap();
    assert!(!expected.is_empty());
    assert_eq!(cursor.value(), &*expected);
}
