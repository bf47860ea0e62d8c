//! Blob files that the engine wrote itself, damaged in every way, and full disks (R-TR-01, 02): an error has
//! RocksDB's kind and text before the first colon after it, names the file, and concerns nothing else.

use spanlith::options::{CfOptions, DbOptions, OwnDbOptions};
use spanlith::{
    BlobGcChoice, BlobGcPolicy, BottommostCompaction, CompactRangeOptions, Db, FamilyOptions,
    Result, VerifyLevel,
};
use spanlith_env::{Env, FaultFs, FaultRule, FileSystem, MemFs, OpClass};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Values of 200 bytes, ten in a blob file.
const LEN: usize = 200;
const KEYS: u32 = 10;
/// Header, key and value.
const RECORD: u64 = 32 + 8 + LEN as u64;

fn options() -> CfOptions {
    let mut cf = CfOptions::default();
    cf.enable_blob_files = true;
    cf.min_blob_size = 100;
    cf.disable_auto_compactions = true;
    cf
}

/// With families `default` and `other`.
fn try_open(env: &Env) -> Result<Db> {
    let family = |name: &str| FamilyOptions::new(name).options(options());
    let mut db = DbOptions::default();
    db.create_if_missing = true;
    db.create_missing_column_families = true;
    Db::builder("/db")
        .options(db)
        .family(family("default"))
        .family(family("other"))
        .env(env.clone())
        .no_info_log()
        .open()
}

fn open(fs: &Arc<MemFs>) -> Db {
    let (env, ..) = Env::test(fs.clone(), 1);
    try_open(&env).unwrap()
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

fn value(n: u32) -> Vec<u8> {
    vec![n as u8; LEN]
}

fn blob_files(fs: &dyn FileSystem) -> Vec<PathBuf> {
    let mut names = fs.list(Path::new("/db")).unwrap();
    names.retain(|n| n.ends_with(".blob"));
    names.sort();
    names.iter().map(|n| Path::new("/db").join(n)).collect()
}

/// A closed database: keys 0 to 9 in the first blob file, 10 to 19 in the second, and the same keys of the other
/// family in the third.
fn damaged() -> (Arc<MemFs>, Vec<PathBuf>) {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    for n in 0..2 * KEYS {
        db.default_cf().put(key(n), value(n)).unwrap();
        if (n + 1) % KEYS == 0 {
            db.flush(true).unwrap();
        }
    }
    let other = db.cf("other").unwrap();
    for n in 0..KEYS {
        other.put(key(n), value(n)).unwrap();
    }
    other.flush(true).unwrap();
    db.close().unwrap();
    let files = blob_files(&*fs);
    assert_eq!(files.len(), 3);
    (fs, files)
}

/// Describes what is done to the first blob file, which keys fail by it, and how.
struct Case {
    name: &'static str,
    damage: fn(&mut Vec<u8>, &[Vec<u8>]) -> bool,
    fails: std::ops::Range<u32>,
    text: &'static str,
}

const ALL: std::ops::Range<u32> = 0..KEYS;
const FOOTER: &str = "Corruption: Error while decoding blob log footer: ";
const HEADER: &str = "Corruption: Error while decoding blob log header: ";

const CASES: &[Case] = &[
    Case {
        name: "missing",
        damage: |_, _| false,
        fails: ALL,
        text: "IO error: No such file or directory",
    },
    Case {
        name: "empty",
        damage: |b, _| {
            b.clear();
            true
        },
        fails: ALL,
        text: "Corruption: Malformed blob file",
    },
    Case {
        name: "shorter than header and footer",
        damage: |b, _| {
            b.truncate(61);
            true
        },
        fails: ALL,
        text: "Corruption: Malformed blob file",
    },
    Case {
        name: "its last byte is gone",
        damage: |b, _| b.pop().is_some(),
        fails: ALL,
        text: FOOTER,
    },
    Case {
        name: "a byte more",
        damage: |b, _| {
            b.push(0);
            true
        },
        fails: ALL,
        text: FOOTER,
    },
    Case {
        name: "its magic number",
        damage: |b, _| flip(b, 0),
        fails: ALL,
        text: HEADER,
    },
    Case {
        name: "its version",
        damage: |b, _| flip(b, 4),
        fails: ALL,
        text: HEADER,
    },
    Case {
        name: "its family",
        damage: |b, _| flip(b, 8),
        fails: ALL,
        text: "Corruption: Column family ID mismatch",
    },
    Case {
        name: "its flags",
        damage: |b, _| flip(b, 12),
        fails: ALL,
        text: "Corruption: Unexpected TTL blob file",
    },
    Case {
        name: "its codec",
        damage: |b, _| flip(b, 13),
        fails: ALL,
        text: "Corruption: Compression type mismatch when reading blob",
    },
    Case {
        name: "the count of its footer",
        damage: |b, _| {
            let at = b.len() - 26;
            flip(b, at)
        },
        fails: ALL,
        text: FOOTER,
    },
    Case {
        name: "the header of a record",
        damage: |b, _| flip(b, 30 + 3 * RECORD as usize),
        fails: 3..4,
        text: "Corruption: Error while decoding blob record: ",
    },
    Case {
        name: "the key of a record",
        damage: |b, _| flip(b, 30 + 4 * RECORD as usize + 32 + 7),
        fails: 4..5,
        text: "Corruption: Key mismatch when reading blob",
    },
    Case {
        name: "a value",
        damage: |b, _| flip(b, 30 + 5 * RECORD as usize + 32 + 8 + 100),
        fails: 5..6,
        text: "Corruption: Blob CRC mismatch",
    },
    Case {
        name: "the second file in its place",
        damage: |b, all| {
            b.clone_from(&all[1]);
            true
        },
        fails: ALL,
        text: "Corruption: Key mismatch when reading blob",
    },
    Case {
        name: "a file of the other family in its place",
        damage: |b, all| {
            b.clone_from(&all[2]);
            true
        },
        fails: ALL,
        text: "Corruption: Column family ID mismatch",
    },
    Case {
        name: "a table in its place",
        damage: |b, all| {
            b.clone_from(&all[3]);
            true
        },
        fails: ALL,
        text: HEADER,
    },
    Case {
        name: "records behind the sixth are gone",
        damage: |b, _| {
            let footer = b.split_off(b.len() - 32);
            b.truncate(30 + 6 * RECORD as usize);
            b.extend(footer);
            true
        },
        fails: 6..KEYS,
        text: "Corruption: Invalid blob offset",
    },
];

fn flip(bytes: &mut [u8], at: usize) -> bool {
    bytes[at] ^= 1;
    true
}

/// Reads through `get`, `multi_get` and an iterator agree.
fn check_reads(case: &Case, db: &Db, file: &str) {
    let cf = db.default_cf();
    let keys: Vec<Vec<u8>> = (0..2 * KEYS).map(key).collect();
    let together = cf.multi_get(keys.iter());
    for (n, several) in (0..).zip(together) {
        for result in [cf.get(key(n)), several] {
            if !case.fails.contains(&n) {
                assert_eq!(
                    result.unwrap().as_deref(),
                    Some(&value(n)[..]),
                    "{}",
                    case.name
                );
                continue;
            }
            let e = result.unwrap_err().to_string();
            assert!(e.starts_with(case.text), "{}: {e}", case.name);
            assert!(e.contains(file), "{}: names the file: {e}", case.name);
            if case.fails.len() == 1 {
                let at = 30 + u64::from(n) * RECORD + 40;
                assert!(
                    e.contains(&at.to_string()),
                    "{}: says where: {e}",
                    case.name
                );
            }
        }
    }
    let shown = cf.iter().take_while(Result::is_ok).count();
    assert_eq!(shown as u32, case.fails.start, "{}", case.name);
    let error = cf.iter().find_map(Result::err).unwrap().to_string();
    assert!(error.starts_with(case.text), "{}: {error}", case.name);
}

/// Everything else is as it was, and may be written.
fn check_rest(case: &Case, db: &Db) {
    let other = db.cf("other").unwrap();
    for n in 0..KEYS {
        assert_eq!(other.get(key(n)).unwrap().as_deref(), Some(&value(n)[..]));
    }
    let cf = db.default_cf();
    cf.put("zzz", value(7)).unwrap();
    db.flush(true).unwrap();
    assert_eq!(cf.get("zzz").unwrap().as_deref(), Some(&value(7)[..]));
    // A compaction that carries the references over needs no value; one that moves the values fails.
    let how = |policy| CompactRangeOptions {
        bottommost: BottommostCompaction::Force,
        blob_gc: BlobGcChoice {
            policy,
            age_cutoff: Some(1.0),
        },
        ..CompactRangeOptions::default()
    };
    let carried = cf.compact_range_opt(None, None, &how(BlobGcPolicy::Disable));
    carried.unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let moved = cf.compact_range_opt(None, None, &how(BlobGcPolicy::Force));
    let e = moved.unwrap_err().to_string();
    assert!(e.starts_with(case.text), "{}: {e}", case.name);
    assert!(e.contains(".blob"), "{}: {e}", case.name);
    // Readers and the other family go on.
    assert_eq!(cf.get("zzz").unwrap().as_deref(), Some(&value(7)[..]));
    assert_eq!(other.get(key(0)).unwrap().as_deref(), Some(&value(0)[..]));
}

#[test]
fn a_damaged_blob_file_fails_its_own_keys_by_name_and_nothing_else() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    for case in CASES {
        let (fs, files) = damaged();
        let mut all: Vec<Vec<u8>> = files.iter().map(|f| fs.read_file(f).unwrap()).collect();
        let tables = fs.list(Path::new("/db")).unwrap();
        let table = tables.iter().find(|n| n.ends_with(".sst")).unwrap();
        all.push(fs.read_file(&Path::new("/db").join(table)).unwrap());
        let mut bytes = all[0].clone();
        match (case.damage)(&mut bytes, &all) {
            true => fs.write_file(&files[0], &bytes).unwrap(),
            false => fs.delete(&files[0]).unwrap(),
        }
        let name = files[0].file_name().unwrap().to_str().unwrap();
        let db = open(&fs);
        check_reads(case, &db, name);
        let report = db.verify(VerifyLevel::Full).unwrap();
        let found = format!("{:?}", report.findings);
        assert!(found.contains(name), "{}: {found}", case.name);
        check_rest(case, &db);
        drop(db);
        let db = open(&fs);
        check_reads_of_rest(&db);
    }
}

fn check_reads_of_rest(db: &Db) {
    for n in KEYS..2 * KEYS {
        let found = db.default_cf().get(key(n)).unwrap();
        assert_eq!(found.as_deref(), Some(&value(n)[..]));
    }
}

/// Overwrites everything some times, flushes and collects by a target of space.
fn overwrite(db: &Db, map: &mut BTreeMap<Vec<u8>, Vec<u8>>) -> Result<()> {
    for round in 0..8u32 {
        for n in 0..12u32 {
            let (key, value) = (
                key(n * (round % 3 + 1) % 12),
                vec![round as u8 ^ n as u8; 400],
            );
            db.default_cf().put(&key, &value)?;
            map.insert(key, value);
        }
        db.flush(true)?;
        db.wait_idle(None)?;
    }
    Ok(())
}

fn open_budget(env: &Env) -> Db {
    let mut cf = options();
    cf.disable_auto_compactions = false;
    cf.blob_file_size = 1500;
    cf.level0_file_num_compaction_trigger = 2;
    let family = FamilyOptions::new("default").options(cf);
    let family = family.set("kvsep_gc=budget").unwrap();
    let builder = Db::builder("/db").create_if_missing(true).family(family);
    // Room for a memtable would hold back every compaction.
    let builder = builder.own(OwnDbOptions::new().min_free_bytes(1u64));
    builder.env(env.clone()).no_info_log().open().unwrap()
}

/// The disk is full from any of many moments on, in flushes and in collection.
#[test]
fn a_full_disk_at_any_step_of_flush_and_collection_loses_nothing_and_leaves_no_file() {
    let all = {
        let faults = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
        let (env, ..) = Env::test(faults.clone(), 1);
        let db = open_budget(&env);
        overwrite(&db, &mut BTreeMap::new()).unwrap();
        faults.appended()
    };
    let mut failed = 0;
    for step in 1..=60 {
        let fs = Arc::new(MemFs::new());
        let faults = Arc::new(FaultFs::new(fs.clone()));
        let (env, ..) = Env::test(faults.clone(), 1);
        let db = open_budget(&env);
        faults.set_budget(Some(all * step / 61));
        let mut map = BTreeMap::new();
        let ended = overwrite(&db, &mut map);
        if let Err(e) = &ended {
            failed += 1;
            assert!(e.to_string().starts_with("IO error: No space left"), "{e}");
        }
        let check = |db: &Db| {
            for (key, value) in &map {
                let found = db.default_cf().get(key).unwrap();
                assert_eq!(found.as_deref(), Some(&value[..]), "step {step}");
            }
        };
        check(&db);
        faults.clear();
        drop(db);
        let db = open_budget(&env);
        check(&db);
        overwrite(&db, &mut map.clone()).unwrap();
        assert!(db.verify(VerifyLevel::Full).unwrap().is_clean());
        let known = db.int_property("rocksdb.num-blob-files").unwrap();
        assert_eq!(blob_files(&*fs).len() as u64, known, "step {step}");
    }
    assert!(failed > 40, "{failed}");
}

#[test]
fn a_flush_whose_directory_cannot_be_synced_leaves_no_blob_file() {
    let fs = Arc::new(MemFs::new());
    let faults = Arc::new(FaultFs::new(fs.clone()));
    let (env, ..) = Env::test(faults.clone(), 1);
    let db = try_open(&env).unwrap();
    db.default_cf().put(key(1), value(1)).unwrap();
    faults.add(FaultRule::fail(OpClass::SyncDir, 1, 5).forever());
    db.flush(true).unwrap_err();
    assert_eq!(blob_files(&*fs), Vec::<PathBuf>::new());
    faults.clear();
    assert_eq!(
        db.default_cf().get(key(1)).unwrap().as_deref(),
        Some(&value(1)[..])
    );
}

#[test]
fn empty_values_stay_in_tables_whatever_the_smallest_size() {
    let fs = Arc::new(MemFs::new());
    let (env, ..) = Env::test(fs.clone(), 1);
    let mut cf = options();
    cf.min_blob_size = 0;
    let family = FamilyOptions::new("default").options(cf);
    let builder = Db::builder("/db").create_if_missing(true).family(family);
    let db = builder.env(env).no_info_log().open().unwrap();
    db.default_cf().put("empty", "").unwrap();
    db.flush(true).unwrap();
    assert_eq!(db.int_property("rocksdb.num-blob-files"), Some(0));
    db.default_cf().put("one", "1").unwrap();
    db.flush(true).unwrap();
    assert_eq!(db.int_property("rocksdb.num-blob-files"), Some(1));
    for (key, value) in [("empty", ""), ("one", "1")] {
        let found = db.default_cf().get(key).unwrap();
        assert_eq!(found.as_deref(), Some(value.as_bytes()));
    }
}
