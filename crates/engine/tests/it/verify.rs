//! `Db::verify`: a healthy database is clean at every level while it is used, and each level finds what
//! it is there for and says where.

use spanlith::inspect::{FamilyToVerify, TableToVerify, Verifier};
use spanlith::options::{BlockBasedTableOptions, CfOptions, ChecksumType, CompressionType};
use spanlith::version::{FileMeta, NewFile};
use spanlith::{
    Db, Finding, Grade, OpenBuilder, VerifyLevel, VerifyOptions, VerifyReport, WriteOptions,
};
use spanlith_base::checksum::{crc32c, mask};
use spanlith_env::{Clock, Env, ManualExecutor, MemFs, SeededRng, VirtualClock};
use spanlith_table::{ReaderOptions, TableReader};
use spanlith_testkit::{Rng, TempDir, copy_dir, fixtures_dir, seed, test_name};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const LEVELS: [VerifyLevel; 3] = [
    VerifyLevel::Quick,
    VerifyLevel::Checksums,
    VerifyLevel::Full,
];

/// Small tables in several levels.
fn small() -> CfOptions {
    let mut cf = CfOptions::default();
    cf.write_buffer_size = 16 << 10;
    cf.arena_block_size = 4096;
    cf.target_file_size_base = 8 << 10;
    cf.max_bytes_for_level_base = 32 << 10;
    cf.level0_file_num_compaction_trigger = 2;
    cf
}

fn builder(dir: &Path) -> OpenBuilder {
    Db::builder(dir).create_if_missing(true).cf_options(small())
}

/// Tables of level 0 only, one for each round, of the same keys.
fn rounds(dir: &Path, rounds: u32) -> Db {
    let mut cf = small();
    cf.disable_auto_compactions = true;
    cf.write_buffer_size = 1 << 20;
    cf.compression = CompressionType::None;
    let db = Db::builder(dir).create_if_missing(true).cf_options(cf);
    let db = db.open().unwrap();
    for round in 0..rounds {
        for i in 0..200u32 {
            let value = format!("{round}-{i}-{}", "v".repeat(60));
            db.default_cf().put(format!("key{i:04}"), value).unwrap();
        }
        db.flush(true).unwrap();
    }
    // The job goes on after the flush: it tells the log of the MANIFEST.
    db.wait_idle(None).unwrap();
    db
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
}

fn table_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.sst"))
}

/// All problems of a report, which must be of one file.
fn of_one_file(report: &VerifyReport, name: &str) -> Vec<Finding> {
    let all: Vec<Finding> = report.problems().cloned().collect();
    assert!(
        !all.is_empty() && all.iter().all(|f| f.file == name),
        "{all:?}"
    );
    assert!(!report.is_clean());
    all
}

#[test]
fn a_healthy_database_is_clean_at_every_level() {
    let temp = TempDir::new("verify healthy");
    let mut rng = Rng::new(seed(test_name!()));
    let db = builder(temp.path()).open().unwrap();
    let other = db.create_cf(spanlith::FamilyOptions::new("other")).unwrap();
    let cf = db.default_cf();
    for i in 0..2000u32 {
        let key = format!("{:04}", rng.index(700));
        match rng.index(20) {
            0 => cf.delete_range(&key, format!("{key}5")).unwrap(),
            1..4 => cf.delete(&key).unwrap(),
            4 => other.put(&key, "other").unwrap(),
            _ => cf
                .put(&key, format!("{i}{}", "v".repeat(rng.index(90))))
                .unwrap(),
        }
        if i % 300 == 0 {
            cf.put_opt("synced", "v", &WriteOptions::new().sync(true))
                .unwrap();
        }
    }
    db.flush(true).unwrap();
    db.wait_idle(None).unwrap();
    cf.put("in the log", "v").unwrap();
    let reports = LEVELS.map(|level| db.verify(level).unwrap());
    for (level, report) in LEVELS.iter().zip(&reports) {
        assert!(
            report.is_clean() && report.findings.is_empty(),
            "{report:?}"
        );
        assert!(report.level == *level && report.logs >= 1);
        assert_eq!(report.tables, db.live_files().len() as u64);
    }
    let [quick, checksums, full] = &reports;
    assert_eq!((quick.blocks, quick.entries, quick.log_records), (0, 0, 0));
    assert!(checksums.blocks > checksums.tables * 4 && checksums.log_records > 0);
    assert!(checksums.manifest_records > 0 && checksums.entries == 0);
    let recorded: u64 = db.live_files().iter().map(|f| f.entries).sum();
    assert!(full.entries > 500 && full.entries <= recorded);
    let only = VerifyOptions {
        families: vec!["other".to_string()],
        ..VerifyOptions::new(VerifyLevel::Full)
    };
    let report = db
        .verify_with(&only, &mut |_| ControlFlow::Continue(()))
        .unwrap();
    assert_eq!((report.tables, report.is_clean()), (1, true));
    let none = VerifyOptions {
        families: vec!["none".to_string()],
        ..only
    };
    let e = db.verify_with(&none, &mut |_| ControlFlow::Continue(()));
    assert_eq!(
        e.unwrap_err().to_string(),
        "Invalid argument: Column family not found: none"
    );
    db.close().unwrap();
    let shown = Db::builder(temp.path()).cf_options(small());
    let shown = shown.family(spanlith::FamilyOptions::new("other"));
    let shown = shown.open_read_only().unwrap();
    for level in LEVELS {
        let report = shown.verify(level).unwrap();
        assert!(report.is_clean() && report.tables > 1, "{report:?}");
    }
}

#[test]
fn a_database_that_is_written_meanwhile_is_clean() {
    let temp = TempDir::new("verify busy");
    let db = builder(temp.path()).open().unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let cf = db.default_cf();
            let mut i = 0u64;
            while !ends.load(Ordering::Relaxed) {
                let key = format!("{:05}", i * 7919 % 3000);
                cf.put(key, format!("{i}{}", "v".repeat(100))).unwrap();
                i += 1;
            }
        });
        for round in 0..12 {
            let report = db.verify(LEVELS[round % 3]).unwrap();
            if !report.is_clean() {
                ends.store(true, Ordering::Relaxed);
            }
            assert!(report.is_clean(), "{report:?}");
        }
        ends.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    });
}

#[test]
fn each_level_finds_what_it_is_there_for_and_says_where() {
    crate::suite_disk::needs_table_files("the test changes bytes in files of tables");
    let temp = TempDir::new("verify damage");
    let dir = temp.join("db");
    let db = rounds(&dir, 2);
    let file = db.live_files().remove(0);
    let path = table_path(&dir, file.number);
    let name = format!("{:06}.sst", file.number);
    let whole = std::fs::read(&path).unwrap();

    // In the second data block of several.
    flip(&path, 5000);
    assert!(db.verify(VerifyLevel::Quick).unwrap().is_clean());
    for level in [VerifyLevel::Checksums, VerifyLevel::Full] {
        let found = of_one_file(&db.verify(level).unwrap(), &name);
        let [f] = &found[..] else { panic!("{found:?}") };
        assert_eq!(f.grade, Grade::Damage);
        assert!(f.offset.is_some_and(|at| at > 3000 && at < 5000), "{f:?}");
        let (first, last) = f.keys.as_ref().unwrap();
        assert!(first < last && first[..] > b"key0000"[..], "{f:?}");
        assert!(last[..] < b"key0199"[..], "{f:?}");
        assert!(!f.what.contains("key0"), "no key is named: {f:?}");
    }

    std::fs::write(&path, &whole[..whole.len() - 7]).unwrap();
    for level in LEVELS {
        let found = of_one_file(&db.verify(level).unwrap(), &name);
        assert_eq!(found[0].offset, Some(whole.len() as u64 - 7));
        assert!(found[0].what.contains("the MANIFEST says"), "{found:?}");
    }

    let other = db.live_files().remove(1);
    std::fs::copy(table_path(&dir, other.number), &path).unwrap();
    let found = of_one_file(&db.verify(VerifyLevel::Quick).unwrap(), &name);
    assert!(
        found.iter().any(|f| f.what.contains("unique ID")),
        "{found:?}"
    );

    std::fs::remove_file(&path).unwrap();
    let found = of_one_file(&db.verify(VerifyLevel::Quick).unwrap(), &name);
    assert!(found[0].what.starts_with("missing"), "{found:?}");
    std::fs::write(&path, &whole).unwrap();
    assert!(db.verify(VerifyLevel::Full).unwrap().is_clean());
}

#[test]
fn damage_of_the_log_and_of_the_manifest_of_an_open_database_is_found() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let temp = TempDir::new("verify logs");
    let db = rounds(temp.path(), 1);
    for i in 0..20 {
        db.default_cf().put(format!("logged{i}"), "v").unwrap();
    }
    assert!(db.verify(VerifyLevel::Checksums).unwrap().is_clean());
    let number = db.current_log_file().unwrap().number;
    let name = format!("{number:06}.log");
    let path = temp.join(&name);
    let whole = std::fs::read(&path).unwrap();
    // Nobody writes: what is there had been written, so even the end cannot be torn.
    std::fs::write(&path, &whole[..whole.len() - 3]).unwrap();
    let quick = of_one_file(&db.verify(VerifyLevel::Quick).unwrap(), &name);
    assert_eq!(quick[0].offset, Some(whole.len() as u64 - 3));
    of_one_file(&db.verify(VerifyLevel::Checksums).unwrap(), &name);
    std::fs::write(&path, &whole).unwrap();
    flip(&path, 60);
    of_one_file(&db.verify(VerifyLevel::Checksums).unwrap(), &name);
    std::fs::write(&path, &whole).unwrap();

    let names = std::fs::read_dir(temp.path()).unwrap();
    let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
    let name = names
        .into_iter()
        .find(|n| n.starts_with("MANIFEST-"))
        .unwrap();
    let path = temp.join(&name);
    let whole = std::fs::read(&path).unwrap();
    for at in [3, whole.len() - 2] {
        flip(&path, at);
        assert!(db.verify(VerifyLevel::Quick).unwrap().is_clean());
        of_one_file(&db.verify(VerifyLevel::Checksums).unwrap(), &name);
        std::fs::write(&path, &whole).unwrap();
    }
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    of_one_file(&db.verify(VerifyLevel::Quick).unwrap(), &name);
    std::fs::write(&path, &whole).unwrap();
    std::fs::write(temp.join("CURRENT"), "MANIFEST-000001\n").unwrap();
    of_one_file(&db.verify(VerifyLevel::Quick).unwrap(), "CURRENT");
}

#[test]
fn it_can_be_called_off_at_any_step_and_says_so() {
    let temp = TempDir::new("verify off");
    let db = rounds(temp.path(), 2);
    let mut steps = 0;
    let options = VerifyOptions::new(VerifyLevel::Full);
    let whole = db.verify_with(&options, &mut |p| {
        steps += 1;
        assert!(p.done_bytes <= p.total_bytes && p.findings == 0);
        ControlFlow::Continue(())
    });
    assert!(whole.unwrap().is_clean());
    for end in (0..steps).step_by(7) {
        let mut step = 0;
        let report = db.verify_with(&options, &mut |_| {
            step += 1;
            match step > end {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        let report = report.unwrap();
        assert!(report.was_called_off && !report.is_clean(), "{end}");
        assert_eq!(step, end + 1, "nothing goes on behind the call");
    }
}

#[test]
fn reads_keep_the_pace() {
    let clock = Arc::new(VirtualClock::new());
    let env = Env {
        fs: Arc::new(MemFs::new()),
        clock: clock.clone(),
        executor: Arc::new(ManualExecutor::new()),
        rng: Arc::new(SeededRng::new(1)),
    };
    let db = Db::builder("/db").create_if_missing(true).env(env);
    let db = db.no_info_log().open().unwrap();
    for i in 0..2000 {
        db.default_cf()
            .put(format!("{i:05}"), [i as u8; 100])
            .unwrap();
    }
    db.flush(true).unwrap();
    let size = db.live_files()[0].size;
    let seconds = |bytes_per_second| {
        let options = VerifyOptions {
            bytes_per_second,
            ..VerifyOptions::default()
        };
        let before = clock.monotonic_nanos();
        let report = db.verify_with(&options, &mut |_| ControlFlow::Continue(()));
        assert!(report.unwrap().is_clean());
        (clock.monotonic_nanos() - before) / 1_000_000_000
    };
    assert_eq!(seconds(0), 0);
    // One period's worth is there at the start.
    assert!(seconds(size / 10) >= 9);
}

/// The default family of an open database, as a verifier takes it.
fn family(db: &Db) -> FamilyToVerify {
    let tables = db.default_cf().tables().into_iter();
    let tables = tables.map(|(level, file)| TableToVerify {
        level,
        name: format!("{:06}.sst", file.number),
        path: table_path(db.path(), file.number),
        file,
    });
    FamilyToVerify {
        readers: ReaderOptions::default(),
        is_ordered: true,
        comparator: "leveldb.BytewiseComparator".to_string(),
        tables: tables.collect(),
        id: None,
        blob_dir: db.path().to_path_buf(),
        blobs: BTreeMap::new(),
    }
}

fn verified(family: &FamilyToVerify) -> Vec<Finding> {
    let options = VerifyOptions::new(VerifyLevel::Full);
    let mut on = |_: &spanlith::VerifyProgress<'_>| ControlFlow::Continue(());
    let mut verifier = Verifier::new(&Env::system(), &options, &mut on);
    verifier.family(family).unwrap();
    verifier.finish().findings
}

#[test]
fn an_older_entry_above_a_newer_one_is_found() {
    crate::suite_disk::needs_table_files("the test changes bytes in files of tables");
    let temp = TempDir::new("verify order");
    let db = rounds(temp.path(), 3);
    let mut family = family(&db);
    assert_eq!(verified(&family), []);
    family.tables.swap(0, 1);
    let found = verified(&family);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].what.starts_with("V2: "), "{found:?}");
    assert_eq!(found[0].file, family.tables[0].name);
    // As tables of one deeper level they overlap.
    for table in &mut family.tables {
        table.level = 1;
    }
    let found = verified(&family);
    assert!(
        found.iter().any(|f| f.what.starts_with("V1: ")),
        "{found:?}"
    );
}

#[test]
fn what_the_manifest_says_of_a_table_is_compared_with_its_entries() {
    crate::suite_disk::needs_table_files("the test changes bytes in files of tables");
    let temp = TempDir::new("verify bounds");
    let db = rounds(temp.path(), 1);
    type Change = fn(&mut NewFile);
    let changes: [(Change, &str); 4] = [
        (|f| f.smallest[4] = b'1', "outside the bounds"),
        (|f| f.largest[4] = b'0', "outside the bounds"),
        (|f| f.smallest_seqno += 1, "a sequence number lies outside"),
        (|f| f.largest_seqno -= 1, "a sequence number lies outside"),
    ];
    for (change, what) in changes {
        let mut family = family(&db);
        let mut file = family.tables[0].file.to_new_file(0);
        change(&mut file);
        family.tables[0].file = Arc::new(FileMeta::from_new_file(&file, None));
        let found = verified(&family);
        assert_eq!(found.len(), 1, "{what}: {found:?}");
        assert!(found[0].what.contains(what), "{what}: {found:?}");
    }
}

#[test]
fn blob_files_are_there_whole_and_hold_what_entries_refer_to() {
    let temp = TempDir::new("verify blobs");
    let dir = temp.join("db");
    copy_dir(fixtures_dir().join("best-efforts/blobs"), &dir);
    let mut cf = CfOptions::default();
    cf.disable_auto_compactions = true;
    let db = Db::builder(&dir).cf_options(cf).open().unwrap();
    for level in LEVELS {
        let report = db.verify(level).unwrap();
        assert!(report.is_clean() && report.blob_files == 3, "{report:?}");
        let blobs = if level == VerifyLevel::Quick { 0 } else { 3 };
        assert_eq!(report.blobs, blobs);
    }
    let blob = dir.join("000013.blob");
    let whole = std::fs::read(&blob).unwrap();
    flip(&blob, 70);
    assert!(db.verify(VerifyLevel::Quick).unwrap().is_clean());
    of_one_file(&db.verify(VerifyLevel::Checksums).unwrap(), "000013.blob");
    let full = db.verify(VerifyLevel::Full).unwrap();
    let lost: Vec<_> = full
        .problems()
        .filter(|f| f.file.ends_with(".sst"))
        .collect();
    assert_eq!(lost.len(), 1, "{full:?}");
    assert_eq!(lost[0].keys, Some((b"k1".to_vec(), b"k1".to_vec())));
    std::fs::write(&blob, &whole[..100]).unwrap();
    of_one_file(&db.verify(VerifyLevel::Quick).unwrap(), "000013.blob");
    std::fs::remove_file(&blob).unwrap();
    let found = of_one_file(&db.verify(VerifyLevel::Quick).unwrap(), "000013.blob");
    assert!(found[0].what.starts_with("missing"), "{found:?}");
}

/// Lets a table say that it has one entry more than it has: one was lost.
fn plant_loss(path: &Path) {
    let file = Env::system().fs.open_random(path).unwrap();
    let size = file.size();
    let reader = TableReader::open(file, size, ReaderOptions::default()).unwrap();
    let dump = reader.dump().unwrap();
    let block = dump.metaindex.iter().find(|b| b.0 == "rocksdb.properties");
    let handle = block.unwrap().1;
    let begin = usize::try_from(handle.offset).unwrap();
    let end = begin + usize::try_from(handle.size).unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    let name = b"entries";
    let at = (begin + 3..end - name.len())
        .find(|&at| bytes[at..].starts_with(name) && bytes[at - 2..at] == [7, 1])
        .unwrap();
    let value = &mut bytes[at + name.len()];
    assert_eq!(u64::from(*value), reader.properties().num_entries);
    *value += 1;
    let sum = mask(crc32c(&bytes[begin..=end]));
    bytes[end + 1..end + 5].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(path, bytes).unwrap();
}

/// Holds C4.
#[test]
fn an_entry_that_was_lost_is_missed_by_verification_and_by_the_next_compaction() {
    crate::suite_disk::needs_table_files("the test changes bytes in files of tables");
    let temp = TempDir::new("verify loss");
    let open = || {
        let table = BlockBasedTableOptions::new()
            .checksum(ChecksumType::Crc32c)
            .format_version(5u32);
        let mut cf = small();
        cf.disable_auto_compactions = true;
        let db = Db::builder(temp.path()).create_if_missing(true);
        db.cf_options(cf).table_options(table).open().unwrap()
    };
    let db = open();
    for round in 0..2 {
        for i in 0..50 {
            db.default_cf()
                .put(format!("{i:02}"), format!("{round}"))
                .unwrap();
        }
        db.flush(true).unwrap();
    }
    let number = db.live_files()[0].number;
    db.close().unwrap();
    plant_loss(&table_path(temp.path(), number));
    let db = open();
    assert!(db.verify(VerifyLevel::Checksums).unwrap().is_clean());
    let name = format!("{number:06}.sst");
    let found = of_one_file(&db.verify(VerifyLevel::Full).unwrap(), &name);
    assert!(found[0].what.contains("properties contradict"), "{found:?}");
    let e = db.default_cf().compact_range(None, None).unwrap_err();
    let text = "Corruption: Compaction number of input keys does not match";
    assert!(e.to_string().starts_with(text), "{e}");
    assert_eq!(db.live_files().len(), 2, "the inputs stay");
    assert_eq!(
        db.default_cf().get("07").unwrap().as_deref(),
        Some(&b"1"[..])
    );
}

#[test]
fn checksums_are_verified_of_what_lies_at_the_path_of_an_open_table_now() {
    crate::suite_disk::needs_table_files("the test changes bytes in files of tables");
    let temp = TempDir::new("verify");
    let db = rounds(temp.path(), 1);
    db.default_cf().get("key0001").unwrap().unwrap();
    let path = table_path(temp.path(), db.default_cf().live_files()[0].number);
    let whole = std::fs::read(&path).unwrap();
    let text = || db.verify_checksums().unwrap_err().to_string();
    db.verify_checksums().unwrap();
    // The footer, and what comes before it.
    for back in 1..=120 {
        flip(&path, whole.len() - back);
        assert!(
            db.verify_checksums().is_err(),
            "{back} bytes before the end"
        );
        flip(&path, whole.len() - back);
    }
    db.verify_checksums().unwrap();
    for size in [whole.len() - 10, whole.len() - 53] {
        std::fs::write(&path, &whole[..size]).unwrap();
        assert!(text().starts_with("Corruption: Bad table magic number"));
    }
    // Another one that is whole in itself.
    let longer = [&[0; 7], &*whole].concat();
    std::fs::write(&path, &longer).unwrap();
    assert!(text().starts_with("Corruption: "), "{}", text());
    std::fs::remove_file(&path).unwrap();
    assert!(text().starts_with("IO error: No such file or directory"));
    std::fs::write(&path, &whole).unwrap();
    db.verify_checksums().unwrap();
}
