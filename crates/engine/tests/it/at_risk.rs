//! Describes what puts data at risk without an error: creating over remains, logs in another directory, families and snapshots
//! of another database, tables that RocksDB reads wrongly, copies without committed transactions.

use spanlith::options::{
    BlockBasedTableOptions, CfOptions, CompactionStyle, CompressionType, DbOptions, IndexType,
};
use spanlith::{
    CompactRangeOptions, Db, DbPath, ErrorKind, FamilyOptions, FamilyRef, OpenBuilder, ReadOptions,
    TxnOptions, VerifyLevel, WriteBatch, WriteOptions,
};
use spanlith_base::checksum;
use spanlith_testkit::TempDir;
use std::path::{Path, PathBuf};

fn builder(dir: impl AsRef<Path>, change: impl FnOnce(&mut DbOptions)) -> OpenBuilder {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    change(&mut options);
    Db::builder(dir).options(options).no_info_log()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn file(dir: &Path, end: &str) -> PathBuf {
    let found = names(dir).into_iter().find(|n| n.ends_with(end));
    dir.join(found.unwrap_or_else(|| panic!("a file *{end} in {:?}", names(dir))))
}

/// As if the process had been killed: the directory as it is, while the database is open.
fn image(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in names(from) {
        if from.join(&name).is_file() {
            std::fs::copy(from.join(&name), to.join(&name)).unwrap();
        }
    }
}

#[test]
fn a_database_is_not_made_over_what_is_left_of_one() {
    crate::suite_disk::needs_log_files("the test looks for files of logs by name");
    let temp = TempDir::new("remains");
    let dir = temp.join("db");
    let db = builder(&dir, |_| ()).open().unwrap();
    db.default_cf().put("k", "v").unwrap();
    db.default_cf().flush(true).unwrap();
    db.close().unwrap();
    let current = std::fs::read(dir.join("CURRENT")).unwrap();
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    let refused = |left: &[&str]| {
        let copy = temp.join("copy");
        image(&dir, &copy);
        for name in names(&copy) {
            if !left.iter().any(|l| name.contains(l)) {
                std::fs::remove_file(copy.join(name)).unwrap();
            }
        }
        let before = names(&copy);
        assert!(!before.is_empty(), "{left:?}");
        let e = builder(&copy, |_| ()).open().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
        assert!(e.to_string().contains("While creating a new Db"), "{e}");
        // Not even the file of the lock.
        assert_eq!(names(&copy), before);
        std::fs::remove_dir_all(&copy).unwrap();
    };
    refused(&["MANIFEST", ".sst", ".log", "OPTIONS"]);
    refused(&["MANIFEST"]);
    refused(&[".sst"]);
    refused(&[".log"]);
    std::fs::write(dir.join("CURRENT"), current).unwrap();
    let db = builder(&dir, |_| ()).open().unwrap();
    assert_eq!(
        db.default_cf().get("k").unwrap().as_deref(),
        Some(&b"v"[..])
    );
    db.close().unwrap();
}

#[test]
fn a_refused_create_leaves_no_database() {
    let temp = TempDir::new("refused create");
    let dir = temp.join("db");
    // Refused after the making: the family is not there and may not be made.
    let opened = builder(&dir, |_| ()).family(FamilyOptions::new("x")).open();
    assert!(opened.is_err());
    let left = names(&dir);
    for name in ["CURRENT", "MANIFEST-000001", "IDENTITY"] {
        assert!(!left.iter().any(|n| n == name), "{left:?}");
    }
    let e = builder(&dir, |o| o.create_if_missing = false)
        .open()
        .unwrap_err();
    assert!(e.to_string().contains("does not exist"), "{e}");
    builder(&dir, |_| ()).open().unwrap().close().unwrap();
}

#[test]
fn logs_in_another_directory_are_not_passed_over() {
    crate::suite_disk::needs_log_files(
        "the test copies the files of a database that is open, and a disk has one database",
    );
    let temp = TempDir::new("elsewhere");
    let at = |name: &str| temp.join(name);
    let open = |dir: &str, logs: &str| {
        let logs = at(logs).display().to_string();
        builder(at(dir), |o| o.wal_dir = logs).open()
    };
    let db = open("live", "a").unwrap();
    let synced = WriteOptions::new().sync(true);
    for n in 0..50 {
        db.default_cf()
            .put_opt(format!("k{n}"), "v", &synced)
            .unwrap();
    }
    // Killed.
    image(&at("live"), &at("db"));
    let before = names(&at("db"));
    for other in ["b", "db"] {
        let e = open("db", other).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
        let text = e.to_string();
        for dir in [at("a"), at(other)] {
            assert!(text.contains(&dir.display().to_string()), "{text}");
        }
        assert_eq!(names(&at("db")), before);
        let logs = at(other).display().to_string();
        assert!(
            builder(at("db"), |o| o.wal_dir = logs)
                .open_read_only()
                .is_err()
        );
    }
    // A copy that nobody has had open names the logs of its original.
    image(&at("live"), &at("copied"));
    std::fs::remove_file(at("copied/LOCK")).unwrap();
    open("copied", "copied").unwrap().close().unwrap();
    db.close().unwrap();
    // Going back works.
    let db = open("db", "a").unwrap();
    assert_eq!(db.default_cf().iter().count(), 50);
    db.default_cf().flush(true).unwrap();
    db.close().unwrap();
    // Families that are flushed may get their logs elsewhere.
    let db = open("db", "b").unwrap();
    assert_eq!(db.default_cf().iter().count(), 50);
    db.default_cf().put("more", "v").unwrap();
    db.close().unwrap();
    assert!(open("db", "a").is_err());
    let db = open("db", "b").unwrap();
    assert_eq!(db.default_cf().iter().count(), 51);
    db.close().unwrap();
}

#[test]
fn a_batch_belongs_to_the_database_of_its_families() {
    let temp = TempDir::new("other family");
    let [a, b] = ["a", "b"].map(|n| builder(temp.join(n), |_| ()).open().unwrap());
    let of_a = a.create_cf(FamilyOptions::new("users")).unwrap();
    let of_b = b.create_cf(FamilyOptions::new("secrets")).unwrap();
    assert_eq!(of_a.id(), of_b.id());
    let refused = |r: spanlith::Result<()>| {
        let text = "Invalid argument: a column family of another database";
        assert_eq!(r.unwrap_err().to_string(), text);
    };
    let mut batch = WriteBatch::new();
    batch.put_cf(&of_b, "k", "v");
    refused(a.write(&batch));
    b.write(&batch).unwrap();
    // Nor is a batch of both.
    batch.delete_cf(&of_a, "k");
    refused(a.write(&batch));
    refused(b.write(&batch));
    batch.clear();
    batch.put_cf(&of_a, "k", "1");
    let mut other = WriteBatch::new();
    other.put_cf(&of_b, "k", "2");
    batch.append(&other);
    refused(a.write(&batch));
    // By number it goes where it is written.
    batch.clear();
    batch.put_cf(FamilyRef::by_id(of_b.id()), "k", "v");
    a.write(&batch).unwrap();
    assert!(of_a.get("k").unwrap().is_some());

    let snapshot = b.snapshot();
    let options = ReadOptions::new().snapshot(&snapshot);
    let text = "Invalid argument: a snapshot of another database";
    assert_eq!(of_a.get_opt("k", &options).unwrap_err().to_string(), text);
    let got = of_a.multi_get_opt(&[&b"k"[..]], &options);
    assert_eq!(got[0].as_ref().unwrap_err().to_string(), text);
    let mut cursor = of_a.cursor(ReadOptions::new().snapshot(&snapshot));
    assert!(cursor.seek_to_first().is_err());
    assert!(of_b.get_opt("k", &options).unwrap().is_some());
}

/// Of a database with two-phase commit a copy that is opened plainly has all that was committed, whatever limit it
/// was made with (R-BASE-23).
#[test]
fn copies_have_transactions_that_were_committed_behind_a_flush() {
    for flushed in [true, false] {
        let temp = TempDir::new("committed");
        let db = builder(temp.join("db"), |o| o.allow_2pc = true)
            .open()
            .unwrap();
        let cf = db.default_cf();
        cf.put("a", "1").unwrap();
        let mut t = db.transaction(TxnOptions::pessimistic());
        t.set_name(b"t").unwrap();
        t.put(&cf, "b", "2").unwrap();
        t.prepare().unwrap();
        if flushed {
            cf.flush(true).unwrap();
        }
        t.commit().unwrap();
        cf.put("c", "3").unwrap();
        for (n, limit) in [1 << 30, u64::MAX].into_iter().enumerate() {
            let to = temp.join(format!("copy{n}"));
            db.checkpoint_opt(&to, limit).unwrap();
            let keys = |db: &Db| {
                let entries = db.default_cf().iter().map(|e| e.unwrap().0.to_vec());
                entries.collect::<Vec<_>>().concat()
            };
            let plain = |o: &mut DbOptions| o.allow_2pc = false;
            let copy = builder(&to, plain).open_read_only().unwrap();
            assert_eq!(keys(&copy), b"abc", "flushed {flushed}, {limit}");
            copy.close().unwrap();
            let copy = builder(&to, plain).open().unwrap();
            assert_eq!(keys(&copy), b"abc", "flushed {flushed}, {limit}");
            copy.close().unwrap();
            cf.put("c", "4").unwrap();
        }
        db.close().unwrap();
    }
}

/// Places of the meta blocks of a table, by name.
fn meta_block(path: &Path, name: &str) -> spanlith_table::format::BlockHandle {
    let env = spanlith_env::Env::system();
    let file = env.fs.open_random(path).unwrap();
    let size = file.size();
    let reader = spanlith_table::TableReader::open(file, size, Default::default()).unwrap();
    let blocks = reader.dump().unwrap().metaindex;
    blocks.into_iter().find(|b| b.0 == name).unwrap().1
}

/// Makes of a table what builds wrote that recorded the data blocks of prefixes while blocks were held back.
fn mislead(path: &Path) {
    let handle = meta_block(path, "rocksdb.hashindex.metadata");
    let mut bytes = std::fs::read(path).unwrap();
    let (start, end) = (
        handle.offset as usize,
        (handle.offset + handle.size) as usize,
    );
    for entry in bytes[start..end].chunks_mut(3) {
        (entry[1], entry[2]) = (0, 1);
    }
    let sum = checksum::mask(checksum::crc32c(&bytes[start..=end]));
    bytes[end + 1..end + 5].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(path, bytes).unwrap();
}

/// RocksDB misses keys in such tables. They are named, and rewritten when the database is opened (R-SER-TBL-01).
#[test]
fn tables_with_a_misleading_hash_index_are_named_and_rewritten() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    use CompactionStyle::{Fifo, Level, Universal};
    for (style, is_compacted) in [
        (Level, true),
        (Level, false),
        (Universal, true),
        (Universal, false),
        (Fifo, false),
    ] {
        misleading_in(style, is_compacted);
    }
}

/// In a table that a flush wrote, or a compaction of everything.
fn misleading_in(style: CompactionStyle, is_compacted: bool) {
    let temp = TempDir::new("misleading");
    let open = |automatic: bool| {
        let mut cf = CfOptions::new()
            .compression(CompressionType::Lz4)
            .prefix_extractor("rocksdb.FixedPrefix.4")
            .disable_auto_compactions(!automatic);
        cf.compression_opts.max_dict_bytes = 4096;
        cf.compaction_style = style;
        let mut table = BlockBasedTableOptions::default();
        table.index_type = IndexType::HashSearch;
        // So that a test can change what they hold.
        table.enable_index_compression = false;
        (table.block_size, table.format_version) = (256, 5);
        table.checksum = spanlith::options::ChecksumType::Crc32c;
        let family = FamilyOptions::new("default")
            .options(cf)
            .table_options(table);
        builder(temp.join("db"), |_| ())
            .family(family)
            .open()
            .unwrap()
    };
    let verify = |db: &Db| db.verify(VerifyLevel::Checksums).unwrap();
    let db = open(false);
    for n in 0..200 {
        db.default_cf()
            .put(format!("{:04}-key", n % 40), format!("{n:0>40}"))
            .unwrap();
    }
    if is_compacted {
        let whole = CompactRangeOptions::default();
        db.default_cf()
            .compact_range_opt(None, None, &whole)
            .unwrap();
    } else {
        db.flush(true).unwrap();
    }
    assert!(verify(&db).is_clean(), "{:?}", verify(&db).findings);
    db.close().unwrap();
    let table = file(&temp.join("db"), ".sst");
    mislead(&table);
    let db = open(false);
    let report = verify(&db);
    let named = report
        .findings
        .iter()
        .any(|f| f.what.contains("hash index"));
    assert!(named, "{style:?}: {:?}", report.findings);
    assert_eq!(db.default_cf().iter().count(), 40);
    db.close().unwrap();
    let db = open(true);
    db.wait_idle(None).unwrap();
    let findings = verify(&db).findings;
    assert!(
        findings.is_empty(),
        "{style:?} {is_compacted}: {findings:?}"
    );
    assert_eq!(db.default_cf().iter().count(), 40);
    assert!(!table.exists(), "{style:?}");
    let shape = db.live_files();
    assert_eq!(
        shape.iter().any(|f| f.level == 0),
        !is_compacted,
        "it stays where it was"
    );
    db.close().unwrap();
}

/// A call about the whole database does not fail because of a family that nobody named (R-BASE-11).
#[test]
fn copies_beside_families_that_come_and_go_lack_them_and_succeed() {
    let temp = TempDir::new("come and go");
    let small = CfOptions::new().write_buffer_size(128u64 << 10);
    let db = builder(temp.join("db"), |_| ())
        .cf_options(small.clone())
        .open()
        .unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let is_done = || done.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done() {
                let family = FamilyOptions::new("passing").options(small.clone());
                let cf = db.create_cf(family).unwrap();
                for n in 0..20 {
                    cf.put(format!("{n}"), vec![b'x'; 1000]).unwrap();
                }
                db.drop_cf(&cf).unwrap();
            }
        });
        scope.spawn(|| {
            for n in 0u64.. {
                if is_done() {
                    return;
                }
                db.default_cf()
                    .put(format!("{}", n % 1000), vec![b'y'; 1000])
                    .unwrap();
            }
        });
        let outcomes: Vec<_> = (0..25)
            .map(|n| {
                let to = temp.join(format!("copy{n}"));
                let made = db.checkpoint_opt(&to, 0).and_then(|()| db.flush(true));
                let _ = std::fs::remove_dir_all(&to);
                made.map_err(|e| e.to_string())
            })
            .collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        let failed: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
        assert!(failed.is_empty(), "{failed:?}");
    });
    db.close().unwrap();
}

/// Tables are looked for where the open says. Moved directories are refused by name, and going back works.
#[test]
fn tables_in_directories_that_moved_are_named_and_going_back_works() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let temp = TempDir::new("moved paths");
    let dir = |name: &str| DbPath::new(temp.join(name), 1 << 30);
    let open = |of_db: Vec<DbPath>, of_family: Vec<DbPath>| {
        let family = FamilyOptions::new("a b").paths(of_family);
        let builder = builder(temp.join("db"), |o| o.create_missing_column_families = true);
        builder.db_paths(of_db).family(family).open()
    };
    let old = || (vec![dir("one"), dir("two")], vec![dir("three")]);
    let check = |db: &Db| {
        let values = ["default", "a b"].map(|n| db.cf(n).unwrap().get("k").unwrap());
        assert!(values.iter().all(|v| v.as_deref() == Some(&b"v"[..])));
    };
    let (of_db, of_family) = old();
    let db = open(of_db, of_family).unwrap();
    for name in ["default", "a b"] {
        db.cf(name).unwrap().put("k", "v").unwrap();
    }
    db.flush(true).unwrap();
    db.close().unwrap();
    let files = |name: &str| std::fs::read_dir(temp.join(name)).unwrap().count();
    let before = ["db", "one", "two", "three"].map(files);
    let moved = [
        (vec![dir("other")], old().1, "one"),
        (vec![dir("two"), dir("one")], old().1, "one"),
        (vec![], old().1, "one"),
        (old().0, vec![dir("other")], "three"),
        (old().0, vec![], "three"),
    ];
    for (of_db, of_family, holder) in moved {
        let e = open(of_db, of_family).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
        let text = e.to_string();
        for part in [".sst", "SPANLITH says", "open with these directories"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(
            text.contains(&*temp.join(holder).to_string_lossy()),
            "{text}"
        );
        assert_eq!(
            ["db", "one", "two", "three"].map(files),
            before,
            "nothing is changed"
        );
    }
    // Without the record, as in a directory of RocksDB, the order is what can be told.
    std::fs::remove_file(temp.join("db/SPANLITH")).unwrap();
    let e = open(vec![dir("two"), dir("one")], old().1).unwrap_err();
    assert!(
        e.to_string()
            .contains("each where its place in the list says"),
        "{e}"
    );
    let e = open(vec![dir("other")], old().1).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
    let (of_db, of_family) = old();
    let db = open(of_db, of_family).unwrap();
    check(&db);
    db.close().unwrap();
}
