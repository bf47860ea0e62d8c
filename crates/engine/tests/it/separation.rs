//! Values that the engine puts into blob files itself (R-TR-01, 02, 04): contents, accounting, options at
//! run time, garbage collection, power losses and failing calls.

use spanlith::options::{CfOptions, CompressionType, PrepopulateBlobCache};
use spanlith::{
    BlobGcChoice, BlobGcPolicy, BottommostCompaction, CompactRangeOptions, Db, FamilyOptions,
    Result, VerifyLevel, WriteOptions,
};
use spanlith_env::{Env, FaultFs, FaultRule, FileSystem, FsOp, MemFs, OpClass};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Separates values of 100 bytes and more into files of about 2 KB.
fn options() -> CfOptions {
    let mut cf = CfOptions::default();
    cf.enable_blob_files = true;
    cf.min_blob_size = 100;
    cf.blob_file_size = 2_000;
    cf.write_buffer_size = 16 << 10;
    cf.arena_block_size = 4096;
    cf.disable_auto_compactions = true;
    cf
}

fn open(fs: &Arc<MemFs>, options: &CfOptions) -> Db {
    let (env, ..) = Env::test(fs.clone(), 1);
    try_open(&env, options).unwrap()
}

fn try_open(env: &Env, options: &CfOptions) -> Result<Db> {
    let builder = Db::builder("/db").create_if_missing(true);
    let family = FamilyOptions::new("default").options(options.clone());
    let family = family.merge_operator(Arc::new(spanlith::StringAppend::new(b",")));
    builder.family(family).env(env.clone()).no_info_log().open()
}

fn number(db: &Db, name: &str) -> u64 {
    db.int_property(&format!("rocksdb.{name}")).unwrap()
}

fn blob_files(fs: &MemFs) -> Vec<u64> {
    let names = fs.list(Path::new("/db")).unwrap();
    let mut found: Vec<u64> = names
        .iter()
        .filter_map(|n| n.strip_suffix(".blob")?.parse().ok())
        .collect();
    found.sort_unstable();
    found
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn contents(db: &Db) -> Map {
    let rows = db.default_cf().iter();
    rows.map(|e| e.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap())
        .collect()
}

/// The sum over blob files is what tables refer to, plus what the MANIFEST counts as garbage.
fn check(db: &Db, expected: &Map) {
    assert_eq!(&contents(db), expected);
    for (key, value) in expected {
        assert_eq!(
            db.default_cf().get(key).unwrap().as_deref(),
            Some(&value[..])
        );
    }
    let report = db.verify(VerifyLevel::Full).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

fn compact(db: &Db, blob_gc: BlobGcChoice) {
    db.flush(true).unwrap();
    let how = CompactRangeOptions {
        bottommost: BottommostCompaction::Force,
        blob_gc,
        ..CompactRangeOptions::default()
    };
    db.default_cf().compact_range_opt(None, None, &how).unwrap();
}

const FORCED: BlobGcChoice = BlobGcChoice {
    policy: BlobGcPolicy::Force,
    age_cutoff: Some(1.0),
};

/// Puts `key` with a value of `len` bytes.
fn put(db: &Db, map: &mut Map, key: u32, len: usize, salt: u8) {
    let key = format!("key{key:05}").into_bytes();
    let value: Vec<u8> = (0..len)
        .map(|i| (i as u8).wrapping_mul(31) ^ salt)
        .collect();
    db.default_cf().put(&key, &value).unwrap();
    map.insert(key, value);
}

#[test]
fn large_values_go_to_blob_files_and_come_back() {
    for codec in [
        CompressionType::None,
        CompressionType::Lz4,
        CompressionType::Zstd,
        CompressionType::Snappy,
    ] {
        let fs = Arc::new(MemFs::new());
        let mut options = options();
        options.blob_compression_type = codec;
        let db = open(&fs, &options);
        let mut map = Map::new();
        for i in 0..60 {
            // Sizes around the threshold; empty values stay in the table.
            let len = [0, 1, 99, 100, 101, 700][i as usize % 6];
            put(&db, &mut map, i, len, i as u8);
        }
        db.flush(true).unwrap();
        let files = number(&db, "num-blob-files");
        assert!(files >= 2, "{files} files: cut by size");
        let stored: u64 = (number(&db, "live-blob-file-size")) - 62 * files;
        if codec == CompressionType::None {
            // 30 values of 100, 101 and 700 bytes, with headers and keys of 8 bytes.
            assert_eq!(stored, 10 * (100 + 101 + 700) + 30 * 40);
        }
        check(&db, &map);
        db.close().unwrap();
        let db = open(&fs, &options);
        check(&db, &map);
        // The rest of the write-ahead log becomes a table with blobs when the database is opened.
        put(&db, &mut map, 1000, 500, 9);
        drop(db);
        let db = open(&fs, &options);
        assert_eq!(number(&db, "num-blob-files"), files + 1);
        check(&db, &map);
    }
}

#[test]
fn garbage_is_exact_and_dead_files_are_deleted() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs, &options());
    let mut map = Map::new();
    for i in 0..20 {
        put(&db, &mut map, i, 200, 0);
    }
    compact(&db, BlobGcChoice::default());
    let before = blob_files(&fs);
    for i in 0..20 {
        if i % 2 == 0 {
            put(&db, &mut map, i, 200, 1);
        }
    }
    compact(&db, BlobGcChoice::default());
    // Ten records of 240 bytes.
    assert_eq!(number(&db, "live-blob-file-garbage-size"), 2400);
    check(&db, &map);
    assert!(before.iter().all(|n| blob_files(&fs).contains(n)));
    // Forced, all references move: the old files go, and nothing is garbage.
    compact(&db, FORCED);
    check(&db, &map);
    assert_eq!(number(&db, "live-blob-file-garbage-size"), 0);
    assert_eq!(
        number(&db, "live-blob-file-size") % 240,
        62 * number(&db, "num-blob-files") % 240
    );
    assert!(before.iter().all(|n| !blob_files(&fs).contains(n)));
    for key in map.keys() {
        db.default_cf().delete(key).unwrap();
    }
    compact(&db, BlobGcChoice::default());
    assert_eq!(number(&db, "num-blob-files"), 0);
    assert_eq!(blob_files(&fs), [0; 0]);
}

/// R-TR-04: on and off over an existing database, by options that are changed at run time.
#[test]
fn separation_is_switched_on_and_off_over_an_existing_database() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs, &options());
    let set = |name: &str, value: &str| db.default_cf().set_options(&[(name, value)]).unwrap();
    let mut map = Map::new();
    set("enable_blob_files", "false");
    for i in 0..10 {
        put(&db, &mut map, i, 300, 0);
    }
    compact(&db, BlobGcChoice::default());
    assert_eq!(number(&db, "num-blob-files"), 0);
    set("enable_blob_files", "true");
    compact(&db, BlobGcChoice::default());
    assert!(number(&db, "num-blob-files") > 0, "a compaction separates");
    check(&db, &map);
    // References stay when separation is off, until they are relocated: then values come back.
    set("enable_blob_files", "false");
    compact(&db, BlobGcChoice::default());
    assert!(number(&db, "num-blob-files") > 0);
    set("enable_blob_garbage_collection", "true");
    set("blob_garbage_collection_age_cutoff", "1.0");
    compact(
        &db,
        BlobGcChoice {
            policy: BlobGcPolicy::Disable,
            age_cutoff: None,
        },
    );
    assert!(number(&db, "num-blob-files") > 0);
    compact(&db, BlobGcChoice::default());
    assert_eq!(
        (number(&db, "num-blob-files"), blob_files(&fs)),
        (0, vec![])
    );
    check(&db, &map);
    // A starting level: flushes leave values in tables, the compaction to the last level does not.
    set("enable_blob_files", "true");
    set("blob_file_starting_level", "3");
    put(&db, &mut map, 50, 300, 1);
    db.flush(true).unwrap();
    assert_eq!(number(&db, "num-blob-files"), 0);
    compact(&db, BlobGcChoice::default());
    assert!(number(&db, "num-blob-files") > 0);
    // A larger threshold takes values back when they are relocated.
    set("min_blob_size", "1000");
    compact(&db, FORCED);
    assert_eq!(number(&db, "num-blob-files"), 0);
    // Files are cut by the new size.
    set("min_blob_size", "1");
    set("blob_file_size", "1");
    compact(&db, BlobGcChoice::default());
    assert_eq!(number(&db, "num-blob-files"), map.len() as u64);
    check(&db, &map);
}

#[test]
fn columns_of_entities_merges_and_snapshots_go_through_blob_files() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs, &options());
    let cf = db.default_cf();
    let (long, other) = ([b'l'; 300], [b'o'; 150]);
    let columns: [(&[u8], &[u8]); 3] = [(b"", &long), (b"a", b"short"), (b"b", &other)];
    cf.put_entity("entity", &columns).unwrap();
    cf.put("base", long).unwrap();
    db.flush(true).unwrap();
    let old = db.snapshot();
    cf.merge("base", "tail").unwrap();
    cf.merge("entity", "more").unwrap();
    let entity = |db: &Db| {
        let found = db.default_cf().get_entity("entity").unwrap().unwrap();
        let columns = found.columns().unwrap();
        columns
            .iter()
            .map(|c| (c.name.to_vec(), c.value.to_vec()))
            .collect::<Vec<_>>()
    };
    let merged = [&long[..], b",more"].concat();
    let expected = vec![
        (b"".to_vec(), merged),
        (b"a".to_vec(), b"short".to_vec()),
        (b"b".to_vec(), other.to_vec()),
    ];
    let base = [&long[..], b",tail"].concat();
    assert_eq!(entity(&db), expected);
    for round in 0..3 {
        compact(&db, [BlobGcChoice::default(), FORCED, FORCED][round]);
        assert_eq!(entity(&db), expected, "round {round}");
        assert_eq!(cf.get("base").unwrap().as_deref(), Some(&base[..]));
        let read = spanlith::ReadOptions::new().snapshot(&old);
        assert_eq!(
            cf.get_opt("base", &read).unwrap().as_deref(),
            Some(&long[..])
        );
        assert!(db.verify(VerifyLevel::Full).unwrap().is_clean());
    }
    drop(old);
    compact(&db, FORCED);
    assert_eq!(entity(&db), expected);
    // Five columns and values of the oldest state are gone: base, and two columns, are left.
    assert_eq!(number(&db, "live-blob-file-garbage-size"), 0);
    cf.set_options(&[("enable_blob_files", "false")]).unwrap();
    compact(&db, FORCED);
    assert_eq!((entity(&db), number(&db, "num-blob-files")), (expected, 0));
}

#[test]
fn much_garbage_in_old_files_forces_compactions() {
    let fs = Arc::new(MemFs::new());
    let mut o = options();
    o.disable_auto_compactions = false;
    o.enable_blob_garbage_collection = true;
    o.blob_garbage_collection_age_cutoff = 1.0;
    o.blob_garbage_collection_force_threshold = 0.3;
    o.level0_file_num_compaction_trigger = 3;
    let db = open(&fs, &o);
    let mut map = Map::new();
    // Automatic compactions meet overwritten values without garbage collection by themselves: the first
    // round leaves garbage, the forced compaction takes it away.
    for round in 0..12u8 {
        for i in 0..20 {
            put(&db, &mut map, i * 7 % 20, 150 + usize::from(round), round);
        }
        db.flush(true).unwrap();
        db.wait_idle(None).unwrap();
        let total = number(&db, "live-blob-file-size");
        let garbage = number(&db, "live-blob-file-garbage-size");
        assert!(
            garbage * 10 <= total * 3 + 10,
            "{round}: {garbage} of {total}"
        );
    }
    check(&db, &map);
}

#[test]
fn a_cache_of_values_is_filled_by_reads_and_by_flushes() {
    let fs = Arc::new(MemFs::new());
    let cache = spanlith_table::BlockCache::new(1 << 20, spanlith_cache::Policy::Lru);
    for prepopulate in [
        PrepopulateBlobCache::Disable,
        PrepopulateBlobCache::FlushOnly,
    ] {
        let faults = Arc::new(FaultFs::new(fs.clone()));
        let (env, ..) = Env::test(faults.clone(), 1);
        let mut options = options();
        options.prepopulate_blob_cache = prepopulate;
        options.blob_compression_type = CompressionType::Lz4;
        let family = FamilyOptions::new("default")
            .options(options)
            .blob_cache(cache.clone());
        let db = Db::builder("/db")
            .create_if_missing(true)
            .env(env)
            .no_info_log();
        let db = db.family(family).open().unwrap();
        let cf = db.default_cf();
        let warm = prepopulate == PrepopulateBlobCache::FlushOnly;
        cf.put("k", [b'v'; 500]).unwrap();
        db.flush(true).unwrap();
        assert_eq!(number(&db, "blob-cache-capacity"), 1 << 20);
        assert_eq!(number(&db, "blob-cache-usage") > 0, warm);
        let value = || cf.get("k").unwrap().map(|v| v.to_vec());
        if !warm {
            assert_eq!(value(), Some(vec![b'v'; 500]));
        }
        // From now on no read of the file is needed.
        faults.add(
            FaultRule::fail(OpClass::Read, 1, 5)
                .named(".blob")
                .forever(),
        );
        assert_eq!(value(), Some(vec![b'v'; 500]));
        faults.clear();
        cache.clear_unpinned();
        db.close().unwrap();
    }
}

/// Writes, flushes and compacts with garbage collection; `written` is told of what is durable.
fn history(db: &Db, written: &mut dyn FnMut(&Map)) -> Result<()> {
    let mut map = Map::new();
    let cf = db.default_cf();
    for round in 0..4u8 {
        for i in 0..9u32 {
            let key = format!("key{:02}", i * (u32::from(round) + 1) % 11).into_bytes();
            let value = vec![round ^ i as u8; 90 + 20 * i as usize];
            cf.put_opt(&key, &value, &WriteOptions::new().sync(true))?;
            map.insert(key, value);
            written(&map);
        }
        db.flush(true)?;
        if round > 0 {
            let how = CompactRangeOptions {
                bottommost: BottommostCompaction::Force,
                blob_gc: if round == 2 {
                    FORCED
                } else {
                    BlobGcChoice::default()
                },
                ..CompactRangeOptions::default()
            };
            cf.compact_range_opt(None, None, &how)?;
        }
    }
    Ok(())
}

#[test]
fn after_a_power_loss_at_any_change_every_synced_value_is_there() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs, &options());
    let images: Arc<Mutex<Vec<(Map, MemFs)>>> = Arc::default();
    let durable: Arc<Mutex<Map>> = Arc::default();
    let (mem, kept, must) = (fs.clone(), images.clone(), durable.clone());
    fs.set_observer(Some(Arc::new(move |_: &FsOp| {
        for keep_all in [false, true] {
            let image = mem.crash_clone(&mut |n| if keep_all { n - 1 } else { 0 });
            let must = must.lock().unwrap().clone();
            kept.lock().unwrap().push((must, image));
        }
    })));
    history(&db, &mut |map| durable.lock().unwrap().clone_from(map)).unwrap();
    fs.set_observer(None);
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 200, "{}", images.len());
    for (at, (must, image)) in images.into_iter().enumerate() {
        let image = Arc::new(image);
        let db = open(&image, &options());
        let found = contents(&db);
        // The write that was under way may be there as well.
        let differing = found
            .iter()
            .filter(|(k, v)| must.get(*k) != Some(v))
            .count();
        assert!(
            differing <= 1,
            "state {at}: {differing} values nobody wrote before"
        );
        assert!(must.keys().all(|k| found.contains_key(k)), "state {at}");
        let report = db.verify(VerifyLevel::Full).unwrap();
        assert!(report.is_clean(), "state {at}: {:?}", report.findings);
        // No blob file is left that the database does not know, and none is kept in `lost`.
        assert_eq!(
            blob_files(&image).len() as u64,
            number(&db, "num-blob-files"),
            "state {at}"
        );
        assert_eq!(
            image.entry(Path::new("/db/lost")).unwrap(),
            None,
            "state {at}"
        );
    }
}

#[test]
fn one_failing_call_on_a_blob_file_loses_nothing_and_leaves_no_file() {
    let mut failed = 0;
    for class in [
        OpClass::Create,
        OpClass::Append,
        OpClass::Sync,
        OpClass::Close,
        OpClass::Read,
    ] {
        for nth in 1..=12 {
            let fs = Arc::new(MemFs::new());
            let faults = Arc::new(FaultFs::new(fs.clone()));
            let (env, ..) = Env::test(faults.clone(), 1);
            let db = try_open(&env, &options()).unwrap();
            faults.add(FaultRule::fail(class, nth, 28).named(".blob"));
            let mut map = Map::new();
            let ended = history(&db, &mut |now| map.clone_from(now));
            if let Err(e) = &ended {
                failed += 1;
                assert!(e.to_string().starts_with("IO error: No space left"), "{e}");
                assert!(e.to_string().contains(".blob"), "names the file: {e}");
            }
            faults.clear();
            drop(db);
            let db = try_open(&env, &options()).unwrap();
            check(&db, &map);
            assert_eq!(blob_files(&fs).len() as u64, number(&db, "num-blob-files"));
        }
    }
    assert!(failed > 20, "{failed}");
}

#[test]
fn options_that_contradict_are_refused_by_name() {
    let (env, ..) = Env::test(Arc::new(MemFs::new()), 1);
    let mut o = options();
    o.enable_blob_garbage_collection = true;
    o.blob_garbage_collection_age_cutoff = 1.5;
    let e = try_open(&env, &o).err().unwrap().to_string();
    assert!(e.contains("age cutoff for blob garbage collection"), "{e}");
    let mut o = options();
    o.enable_blob_direct_write = true;
    let e = try_open(&env, &o).err().unwrap().to_string();
    assert!(e.contains("enable_blob_direct_write"), "{e}");
}

/// Reads of blob files that `work` makes.
fn reads(faults: &FaultFs, work: impl FnOnce()) -> u64 {
    let before = faults.calls(OpClass::Read);
    work();
    faults.calls(OpClass::Read) - before
}

#[test]
fn scans_and_multi_gets_read_neighbouring_values_together() {
    let fs = Arc::new(MemFs::new());
    let faults = Arc::new(FaultFs::new(fs.clone()));
    let (env, ..) = Env::test(faults.clone(), 1);
    let mut options = options();
    options.blob_file_size = 64 << 20;
    options.write_buffer_size = 16 << 20;
    let db = try_open(&env, &options).unwrap();
    let mut map = Map::new();
    for i in 0..300 {
        put(&db, &mut map, i, 4000 + i as usize % 7, i as u8);
    }
    db.flush(true).unwrap();
    assert_eq!(contents(&db), map);
    // 1.2 MB: a few single reads, then 64, 128, 256, 512 KiB.
    let forward = reads(&faults, || assert_eq!(contents(&db), map));
    assert!(forward <= 12, "{forward} reads");
    let mut back = db.default_cf().cursor(spanlith::ReadOptions::new());
    let backward = reads(&faults, || {
        let mut found = Map::new();
        let mut more = back.seek_to_last().unwrap();
        while more {
            found.insert(back.key().to_vec(), back.value().to_vec());
            more = back.prev().unwrap();
        }
        assert_eq!(found, map);
    });
    assert!(backward <= 12, "{backward} reads");
    // Keys alone touch no blob file.
    let mut lazy = spanlith::ReadOptions::new();
    lazy.allow_unprepared_value = true;
    let keys = reads(&faults, || {
        let mut cursor = db.default_cf().cursor(lazy);
        let mut count = 0;
        let mut more = cursor.seek_to_first().unwrap();
        while more {
            count += 1;
            more = cursor.next().unwrap();
        }
        assert_eq!(count, 300);
    });
    assert_eq!(keys, 0);
    let keys: Vec<&Vec<u8>> = map.keys().rev().step_by(3).collect();
    let together = reads(&faults, || {
        let values = db.default_cf().multi_get(keys.iter());
        for (key, value) in keys.iter().zip(values) {
            assert_eq!(value.unwrap().as_deref(), map.get(*key).map(|v| &v[..]));
        }
    });
    // A hundred values in four batches, each 32 values with gaps of 8 KB between them.
    assert!(together <= 8, "{together} reads");
}

#[test]
fn damage_of_one_value_fails_its_key_alone() {
    let fs = Arc::new(MemFs::new());
    let mut options = options();
    options.blob_file_size = 64 << 20;
    let db = open(&fs, &options);
    let mut map = Map::new();
    for i in 0..40 {
        put(&db, &mut map, i, 500, 0);
    }
    db.flush(true).unwrap();
    db.close().unwrap();
    let file = fs.list(Path::new("/db")).unwrap();
    let file = Path::new("/db").join(file.iter().find(|n| n.ends_with(".blob")).unwrap());
    // In the value of the key of number 20.
    fs.flip_bit(&file, 30 + 20 * 540 + 100, 4).unwrap();
    let db = open(&fs, &options);
    let keys: Vec<&Vec<u8>> = map.keys().collect();
    let values = db.default_cf().multi_get(keys.iter());
    for (n, (key, value)) in keys.iter().zip(values).enumerate() {
        if n == 20 {
            let e = value.unwrap_err().to_string();
            assert!(e.starts_with("Corruption: Blob CRC mismatch"), "{e}");
            assert!(e.contains(".blob"), "{e}");
        } else {
            assert_eq!(value.unwrap().as_deref(), map.get(*key).map(|v| &v[..]));
        }
    }
    let shown = db.default_cf().iter().take_while(Result::is_ok).count();
    assert_eq!(shown, 20);
}

/// R-TR-13, 16: five overwrites of the data in budget mode stay within the bound at every flush, and the
/// property of tables says exactly what they refer to.
#[test]
fn a_target_of_space_is_kept_while_data_is_overwritten() {
    let mut peaks = Vec::new();
    for gc in ["budget", "compat"] {
        let fs = Arc::new(MemFs::new());
        let mut o = options();
        o.disable_auto_compactions = false;
        o.blob_file_size = 8_000;
        o.write_buffer_size = 64 << 20;
        let (env, ..) = Env::test(fs.clone(), 1);
        let family = FamilyOptions::new("default")
            .options(o)
            .set(&format!("kvsep_gc={gc}"));
        let db = Db::builder("/db")
            .create_if_missing(true)
            .env(env)
            .no_info_log();
        let db = db.family(family.unwrap()).open().unwrap();
        let mut map = Map::new();
        let mut peak = 0.0_f64;
        let mut seed = 7u32;
        for round in 0..60u8 {
            for i in 0..20 {
                seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12_345);
                let key = if round < 10 {
                    u32::from(round) * 20 + i
                } else {
                    (seed >> 8) % 200
                };
                put(&db, &mut map, key, 400, round);
            }
            db.flush(true).unwrap();
            db.wait_idle(None).unwrap();
            if round >= 10 {
                let size = number(&db, "live-blob-file-size") + number(&db, "live-sst-files-size");
                let live: usize = map.iter().map(|(k, v)| k.len() + v.len()).sum();
                peak = peak.max(size as f64 / live as f64);
            }
        }
        check(&db, &map);
        if gc == "budget" {
            let e = db
                .default_cf()
                .set_options(&[("kvsep_space_max", "0.05")])
                .unwrap_err();
            assert!(e.to_string().contains("kvsep_space_max"), "{e}");
        }
        peaks.push(peak);
    }
    // Headers and keys of records, and tables, are a tenth of such small values.
    assert!(peaks[0] < 1.6, "{peaks:?}");
    assert!(peaks[1] > peaks[0] + 0.3, "{peaks:?}");
}

/// The flush was what writers waited for. It counted as coming when its table was installed, and nobody looked again once it had
/// ended: they waited for ever.
#[test]
fn writers_do_not_wait_for_space_that_no_job_gives_back() {
    let mut o = options();
    o.disable_auto_compactions = false;
    o.blob_file_size = 1 << 20;
    o.write_buffer_size = 1 << 20;
    let (env, ..) = Env::test(Arc::new(MemFs::new()), 1);
    let family = FamilyOptions::new("default").options(o);
    let family = family.set("kvsep_gc=budget").unwrap();
    let db = Db::builder("/db").create_if_missing(true).env(env);
    let db = db.family(family).no_info_log().open().unwrap();
    let mut map = Map::new();
    let kept = BlobGcChoice {
        policy: BlobGcPolicy::Disable,
        ..FORCED
    };
    // A twelfth is garbage, half as much is hidden by level 0, and the memtable may hide a tenth.
    for (round, keys) in [(0, 0..100), (1, 0..5), (2, 5..10), (3, 10..15)] {
        for key in keys {
            put(&db, &mut map, key, 400, round);
        }
        match round {
            3 => db.flush(true).unwrap(),
            _ => compact(&db, kept),
        }
    }
    db.wait_idle(None).unwrap();
    let at_level0 = db.property("rocksdb.num-files-at-level0");
    assert_eq!(at_level0.as_deref(), Some("1"), "no compaction is due");
    assert_eq!(number(&db, "is-write-stopped"), 0);
    put(&db, &mut map, 3, 400, 4);
    check(&db, &map);
}

/// R-TR-11: in adaptive mode the threshold follows what is measured.
#[test]
fn an_adaptive_threshold_goes_down_in_a_load_and_is_logged() {
    let fs = Arc::new(MemFs::new());
    let (env, _, clock) = Env::test(fs.clone(), 1);
    let family = FamilyOptions::new("default").options(options());
    let family = family.set("kvsep_mode=adaptive").unwrap();
    let db = Db::builder("/db").create_if_missing(true).env(env);
    let db = db.family(family).open().unwrap();
    let threshold = || db.int_property("spanlith.separation-threshold").unwrap();
    let mut map = Map::new();
    assert_eq!(threshold(), 256);
    for round in 0..4u8 {
        for i in 0..20 {
            put(&db, &mut map, u32::from(round) * 20 + i, 150, round);
        }
        clock.advance(std::time::Duration::from_secs(61));
        db.flush(true).unwrap();
    }
    // One class of sizes in a minute, down to the class of what is written.
    assert_eq!(threshold(), 128);
    assert!(number(&db, "num-blob-files") > 0);
    check(&db, &map);
    db.default_cf()
        .set_options(&[("kvsep_mode", "static")])
        .unwrap();
    assert_eq!(threshold(), 100);
    let log = fs.open_random(Path::new("/db/LOG")).unwrap();
    let mut text = vec![0; log.size() as usize];
    log.read_at(0, &mut text).unwrap();
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("values are separated from 128 bytes on, from 256 before"));
}

/// Policies by range of keys: a log out of the tree from 10 bytes on, an index never, the others as usual.
#[test]
fn keys_have_policies_of_their_own_by_range() {
    let fs = Arc::new(MemFs::new());
    let (env, ..) = Env::test(fs.clone(), 1);
    let family = FamilyOptions::new("default").options(options());
    let db = Db::builder("/db").create_if_missing(true).env(env);
    let db = db.family(family).no_info_log().open().unwrap();
    let cf = db.default_cf();
    let mut map = Map::new();
    let mut write = |salt: u8| {
        for (key, len) in [("index1", 5000), ("log1", 10), ("log2", 9), ("other", 100)] {
            let value = vec![salt; len];
            cf.put(key, &value).unwrap();
            map.insert(key.as_bytes().to_vec(), value);
        }
        db.flush(true).unwrap();
        check(&db, &map);
    };
    write(1);
    // Of 100 bytes and more: 32 bytes of a header, the key, the value.
    let blobs = || number(&db, "live-blob-file-size") - 62 * number(&db, "num-blob-files");
    assert_eq!(blobs(), (32 + 6 + 5000) + (32 + 5 + 100));
    let before = blobs();
    // "index" to "indey", "log" to "loh".
    let ranges = "696e646578..696e646579:inline,6c6f67..6c6f68:10";
    cf.set_options(&[("kvsep_ranges", ranges)]).unwrap();
    write(2);
    assert_eq!(blobs() - before, (32 + 4 + 10) + (32 + 5 + 100));
    let e = cf
        .set_options(&[("kvsep_ranges", "log..loh:10")])
        .unwrap_err();
    assert!(e.to_string().contains("kvsep_ranges"), "{e}");
    // A value that moves follows the rules of now: only the second round lives, and "index1" stays in the table.
    compact(&db, FORCED);
    assert_eq!(blobs(), (32 + 4 + 10) + (32 + 5 + 100));
}
