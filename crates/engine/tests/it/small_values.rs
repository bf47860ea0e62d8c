//! Small separated values that stay in memory in adaptive mode (R-TR-03): who gets them without the file, and when the file
//! is asked.

use spanlith::options::CfOptions;
use spanlith::{
    BlobGcChoice, BlobGcPolicy, BottommostCompaction, CompactRangeOptions, Db, FamilyOptions,
    ReadOptions, ReadTier, VerifyLevel,
};
use spanlith_cache::Policy;
use spanlith_env::{Env, FaultFs, FaultRule, FileSystem, MemFs, OpClass};
use spanlith_table::BlockCache;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const LEN: usize = 500;
const KEYS: u32 = 200;

fn open(fs: &Arc<MemFs>, mode: &str, cache_bytes: usize) -> (Db, Arc<FaultFs>) {
    let faults = Arc::new(FaultFs::new(fs.clone()));
    let (mut env, ..) = Env::test(fs.clone(), 1);
    env.fs = faults.clone();
    let mut options = CfOptions::default();
    options.enable_blob_files = true;
    options.min_blob_size = 100;
    options.disable_auto_compactions = true;
    let family = FamilyOptions::new("default").options(options);
    let family = family.set(&format!("kvsep_mode={mode}")).unwrap();
    let family = family.block_cache(BlockCache::with_shards(cache_bytes, Policy::Lru, 0, false));
    let db = Db::builder("/db").create_if_missing(true).env(env);
    (db.family(family).no_info_log().open().unwrap(), faults)
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

fn value(n: u32, salt: u8) -> Vec<u8> {
    (0..LEN).map(|i| (i as u32 * 7 + n) as u8 ^ salt).collect()
}

fn load(db: &Db, salt: u8) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let pairs = (0..KEYS).map(|n| (key(n), value(n, salt)));
    let map: BTreeMap<_, _> = pairs.collect();
    for (key, value) in &map {
        db.default_cf().put(key, value).unwrap();
    }
    db.flush(true).unwrap();
    map
}

/// Reads of blob files fail from now on.
fn refuse_blob_files(faults: &FaultFs) {
    faults.add(
        FaultRule::fail(OpClass::Read, 1, 5)
            .named(".blob")
            .forever(),
    );
}

/// All values by gets, a multi-get and scans in both directions.
fn check(db: &Db, expected: &BTreeMap<Vec<u8>, Vec<u8>>, read: &ReadOptions) {
    let cf = db.default_cf();
    let keys: Vec<&[u8]> = expected.keys().map(Vec::as_slice).collect();
    let many = cf.multi_get_opt(&keys, read);
    for ((key, value), found) in expected.iter().zip(many) {
        assert_eq!(found.unwrap().as_deref(), Some(&value[..]));
        let found = cf.get_opt(key, read).unwrap();
        assert_eq!(found.as_deref(), Some(&value[..]));
    }
    let mut cursor = cf.cursor(read.clone());
    let mut rows = expected.iter();
    let mut valid = cursor.seek_to_first().unwrap();
    while valid {
        assert_eq!(
            (cursor.key(), cursor.value()),
            rows.next().map(|(k, v)| (&k[..], &v[..])).unwrap()
        );
        valid = cursor.next().unwrap();
    }
    assert!(rows.next().is_none());
    let mut valid = cursor.seek_to_last().unwrap();
    let mut rows = expected.iter().rev();
    while valid {
        assert_eq!(
            (cursor.key(), cursor.value()),
            rows.next().map(|(k, v)| (&k[..], &v[..])).unwrap()
        );
        valid = cursor.prev().unwrap();
    }
    assert!(rows.next().is_none());
}

#[test]
fn values_that_were_just_written_are_read_without_their_file() {
    let (db, faults) = open(&Arc::new(MemFs::new()), "adaptive", 8 << 20);
    let map = load(&db, 0);
    refuse_blob_files(&faults);
    check(&db, &map, &ReadOptions::new());
    check(&db, &map, &ReadOptions::new().read_tier(ReadTier::Cached));
    check(&db, &map, &ReadOptions::new().fill_cache(false));
    // A scrub reads what is on the disk.
    let report = db.verify(VerifyLevel::Full).unwrap();
    assert!(!report.is_clean());
}

#[test]
fn the_file_is_read_in_the_other_mode_without_room_and_after_an_open() {
    let fs = Arc::new(MemFs::new());
    let refused = |db: &Db, faults: &FaultFs, map: &BTreeMap<Vec<u8>, Vec<u8>>| {
        check(db, map, &ReadOptions::new());
        refuse_blob_files(faults);
        let e = db.default_cf().get(key(1)).unwrap_err();
        assert!(e.to_string().contains(".blob"), "{e}");
        faults.clear();
    };
    let (db, faults) = open(&fs, "static", 8 << 20);
    let map = load(&db, 0);
    refused(&db, &faults, &map);
    db.close().unwrap();
    let (db, faults) = open(&fs, "adaptive", 0);
    refused(&db, &faults, &map);
    let map = load(&db, 1);
    refused(&db, &faults, &map);
    db.close().unwrap();
    let (db, faults) = open(&fs, "adaptive", 8 << 20);
    refused(&db, &faults, &map);
}

/// Collection writes values anew and deletes their file: iterators go on, and what is in memory is what is newest.
#[test]
fn collected_values_are_those_of_the_new_file() {
    let fs = Arc::new(MemFs::new());
    let (db, faults) = open(&fs, "adaptive", 8 << 20);
    let before = load(&db, 0);
    let snapshot = db.snapshot();
    let mut cursor = db.default_cf().cursor(ReadOptions::new());
    assert!(cursor.seek_to_first().unwrap());
    let after = load(&db, 3);
    let how = CompactRangeOptions {
        bottommost: BottommostCompaction::Force,
        blob_gc: BlobGcChoice {
            policy: BlobGcPolicy::Force,
            age_cutoff: Some(1.0),
        },
        ..CompactRangeOptions::default()
    };
    db.default_cf().compact_range_opt(None, None, &how).unwrap();
    refuse_blob_files(&faults);
    check(&db, &after, &ReadOptions::new());
    check(&db, &before, &ReadOptions::new().snapshot(&snapshot));
    for (key, value) in &before {
        assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
        cursor.next().unwrap();
    }
    drop((cursor, snapshot));
    faults.clear();
    db.default_cf().compact_range_opt(None, None, &how).unwrap();
    check(&db, &after, &ReadOptions::new());
    let report = db.verify(VerifyLevel::Full).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    let names = fs.list(Path::new("/db")).unwrap();
    assert_eq!(names.iter().filter(|n| n.ends_with(".blob")).count(), 1);
}

#[test]
fn compressed_values_and_values_of_every_small_size_are_answered_alike() {
    for codec in ["kNoCompression", "kLZ4Compression"] {
        let (db, faults) = open(&Arc::new(MemFs::new()), "adaptive", 8 << 20);
        let cf = db.default_cf();
        cf.set_options(&[("blob_compression_type", codec)]).unwrap();
        let value = |n: usize| vec![n as u8; 256 + n * 7];
        for n in 0..250 {
            cf.put(key(n as u32), value(n)).unwrap();
        }
        db.flush(true).unwrap();
        refuse_blob_files(&faults);
        for n in 0..250 {
            let part = cf.get_range(key(n as u32), 100..200, &ReadOptions::new());
            let part = part.unwrap().unwrap();
            assert_eq!(&part.bytes[..], &value(n)[100..200]);
            assert_eq!(part.value_len, value(n).len() as u64);
            assert_eq!(
                cf.get(key(n as u32)).unwrap().as_deref(),
                Some(&value(n)[..])
            );
        }
    }
}
