//! Logs of other forms and places: compressed, held back, in a directory of their own, with
//! predecessors; and prepared transactions that recovery keeps.

use spanlith::Db;
use spanlith::options::{CompressionType, DbOptions, WalRecoveryMode};
use spanlith_env::{Env, FaultFs, FaultRule, OpClass};
use spanlith_testkit::{TempDir, golden_cases};
use std::path::Path;
use std::sync::Arc;

fn logs(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "log"))
        .collect();
    found.sort();
    found
}

fn with(change: impl FnOnce(&mut DbOptions)) -> DbOptions {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    change(&mut options);
    options
}

fn open(dir: &Path, options: DbOptions) -> spanlith::Result<Db> {
    Db::builder(dir).options(options).no_info_log().open()
}

#[test]
fn a_compressed_log_is_smaller_and_comes_back() {
    let temp = TempDir::new("wal-forms");
    let options = with(|o| {
        o.wal_compression = CompressionType::Zstd;
    });
    let db = open(temp.path(), options.clone()).unwrap();
    for n in 0..50 {
        db.default_cf()
            .put(format!("k{n}"), vec![b'v'; 20_000])
            .unwrap();
    }
    drop(db);
    let size: u64 = logs(temp.path())
        .iter()
        .map(|p| p.metadata().unwrap().len())
        .sum();
    assert!(size < 100_000, "{size}");
    // Any later open reads it.
    let db = open(temp.path(), DbOptions::default()).unwrap();
    assert_eq!(db.default_cf().get("k49").unwrap().unwrap().len(), 20_000);
}

#[test]
fn records_that_are_held_back_reach_the_file_when_asked_for() {
    crate::suite_disk::needs_log_files("the test looks for files of logs by name");
    let temp = TempDir::new("wal-forms");
    let options = with(|o| {
        o.manual_wal_flush = true;
    });
    let db = open(temp.path(), options).unwrap();
    let size = || logs(temp.path())[0].metadata().unwrap().len();
    db.default_cf().put("a", "1").unwrap();
    assert_eq!(size(), 0);
    db.flush_wal(false).unwrap();
    let first = size();
    assert!(first > 0);
    db.default_cf().put("b", "2").unwrap();
    assert_eq!(size(), first);
    db.flush_wal(true).unwrap();
    assert!(size() > first);
    db.default_cf().put("c", "3").unwrap();
    db.close().unwrap();
    let db = open(temp.path(), DbOptions::default()).unwrap();
    assert_eq!(&*db.default_cf().get("c").unwrap().unwrap(), b"3");
}

#[test]
fn logs_may_have_a_directory_of_their_own() {
    crate::suite_disk::needs_log_files("the test looks for files of logs by name");
    let temp = TempDir::new("wal-forms");
    let (dir, wal) = (temp.path().join("db"), temp.path().join("wal"));
    let options = || {
        with(|o| {
            o.wal_dir = wal.to_str().unwrap().to_string();
        })
    };
    for round in 0..3 {
        let db = open(&dir, options()).unwrap();
        for before in 0..round {
            assert!(db.default_cf().get(format!("k{before}")).unwrap().is_some());
        }
        db.default_cf().put(format!("k{round}"), "v").unwrap();
        if round == 1 {
            db.flush(true).unwrap();
            db.default_cf().put("more", "v").unwrap();
        }
        drop(db);
        assert_eq!(logs(&dir).len(), 0);
        assert_eq!(logs(&wal).len(), 1);
    }
}

#[test]
fn a_log_that_is_missing_or_shorter_than_its_successor_says_is_noticed() {
    let options = |mode| {
        with(|o| {
            o.track_and_verify_wals = true;
            o.wal_recovery_mode = mode;
        })
    };
    let absolute = WalRecoveryMode::AbsoluteConsistency;
    let case = golden_cases()
        .into_iter()
        .find(|c| c.directory.ends_with("11.8") && c.name == "wal-verified")
        .unwrap();
    let build = || {
        let temp = TempDir::new("wal-forms");
        let dir = case.copy_to(temp.path());
        (temp, dir)
    };
    let try_open = |dir: &Path, mode| {
        Db::builder(dir)
            .options(options(mode))
            .all_families()
            .no_info_log()
            .open()
            .map(drop)
    };
    let (_temp, dir) = build();
    try_open(&dir, absolute).unwrap();
    try_open(&dir, absolute).unwrap();

    let (_temp, dir) = build();
    std::fs::remove_file(&logs(&dir)[1]).unwrap();
    let text = try_open(&dir, absolute).unwrap_err().to_string();
    let want = "Corruption: Mismatched predecessor log number of WAL file 000010.log Recorded 8. Observed 4";
    assert!(text.starts_with(want), "{text}");

    let (_temp, dir) = build();
    for log in logs(&dir) {
        std::fs::remove_file(log).unwrap();
    }
    let text = try_open(&dir, absolute).unwrap_err().to_string();
    assert_eq!(text, "Corruption: Opening an existing DB with no WAL files");
}

#[test]
fn prepared_transactions_are_refused_by_name_or_kept_with_their_logs() {
    for directory in ["golden-7.8", "golden-11.8"] {
        let name = ["wal-2pc", "txn-prepared"][usize::from(directory == "golden-11.8")];
        let case = golden_cases()
            .into_iter()
            .find(|c| c.directory.ends_with(directory) && c.name == name)
            .unwrap();
        let temp = TempDir::new("wal-forms");
        let dir = case.copy_to(temp.path());
        let text = open(&dir, DbOptions::default()).err().unwrap().to_string();
        let want =
            "Not implemented: WAL contains prepared transactions. Open with TransactionDB::Open().";
        assert!(text.starts_with(want), "{text}");

        let options = || {
            with(|o| {
                o.allow_2pc = true;
            })
        };
        let want = case.expected_families().remove(0).entries;
        let before = logs(&dir);
        for round in 0..3 {
            let db = open(&dir, options()).unwrap();
            let rows: Vec<_> = db
                .default_cf()
                .iter()
                .map(|e| e.map(|(k, v)| (k.into_vec(), v.into_vec())).unwrap())
                .filter(|row| !row.0.starts_with(b"zz"))
                .collect();
            assert_eq!(rows, want, "{name} {round}");
            db.default_cf().put(format!("zz{round}"), "v").unwrap();
            db.flush(true).unwrap();
            drop(db);
            // The log with what is undecided stays.
            assert!(logs(&dir).contains(&before[0]), "{name} {round}");
        }
    }
}

#[test]
fn a_prepared_transaction_outlives_a_log_that_is_given_up() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    let case = golden_cases()
        .into_iter()
        .find(|c| c.directory.ends_with("golden-7.8") && c.name == "wal-2pc")
        .unwrap();
    let temp = TempDir::new("wal-forms");
    let dir = case.copy_to(temp.path());
    let before = logs(&dir);
    let mut env = Env::system();
    let fs = Arc::new(FaultFs::new(env.fs.clone()));
    env.fs = fs.clone();
    let options = || with(|o| o.allow_2pc = true);
    for round in 0..2 {
        let db = Db::builder(&dir)
            .options(options())
            .env(env.clone())
            .no_info_log()
            .open()
            .unwrap();
        db.default_cf().put(format!("zz{round}"), "v").unwrap();
        fs.add(FaultRule::fail(OpClass::Append, 1, 5).named(".log"));
        assert!(db.default_cf().put("open", "?").is_err());
        db.resume().unwrap();
        db.default_cf().put(format!("zy{round}"), "v").unwrap();
        drop(db);
        // Its section is in a newer log now.
        assert!(!logs(&dir).contains(&before[0]));
        let refused = open(&dir, DbOptions::default()).err().unwrap().to_string();
        assert!(
            refused.contains("WAL contains prepared transactions"),
            "{refused}"
        );
    }
    let db = open(&dir, options()).unwrap();
    for key in ["zz0", "zy0", "zz1", "zy1"] {
        assert!(db.default_cf().get(key).unwrap().is_some(), "{key}");
    }
    let got = db.default_cf().iter().map(|e| e.unwrap());
    let got = got.map(|(k, v)| (k.into_vec(), v.into_vec()));
    let got: Vec<_> = got.filter(|row| !row.0.starts_with(b"z")).collect();
    assert_eq!(got, case.expected_families().remove(0).entries);
}

#[test]
fn a_tracked_log_that_is_missing_or_too_short_is_noticed() {
    crate::suite_disk::needs_log_files("the test changes bytes in files of logs");
    let tracked = |dir: &Path| {
        let options = with(|o| o.track_and_verify_wals_in_manifest = true);
        Db::builder(dir)
            .options(options)
            .all_families()
            .no_info_log()
            .open()
    };
    let case = golden_cases()
        .into_iter()
        .find(|c| c.directory.ends_with("11.8") && c.name == "wal-tracked")
        .unwrap();
    // Logs of RocksDB, and the same written by us.
    for ours in [false, true] {
        let build = || {
            let temp = TempDir::new("wal-forms");
            if !ours {
                let dir = case.copy_to(temp.path());
                return (temp, dir);
            }
            let dir = temp.path().to_path_buf();
            let db = tracked(&dir).unwrap();
            let other = db.create_cf(spanlith::FamilyOptions::new("other")).unwrap();
            for n in 0..3 {
                // A flush of one family keeps the logs of the other, and syncs them.
                db.default_cf().put(format!("k{n}"), "v").unwrap();
                other.put(format!("k{n}"), "v").unwrap();
                other.flush(true).unwrap();
            }
            db.default_cf().put("last", "v").unwrap();
            drop((other, db));
            (temp, dir)
        };
        let (_temp, dir) = build();
        assert!(logs(&dir).len() > 2);
        drop(tracked(&dir).unwrap());
        drop(tracked(&dir).unwrap());

        let (_temp, dir) = build();
        let gone = &logs(&dir)[1];
        std::fs::remove_file(gone).unwrap();
        let number: u64 = gone.file_stem().unwrap().to_string_lossy().parse().unwrap();
        let text = tracked(&dir).err().unwrap().to_string();
        let want = format!("Corruption: Missing WAL with log number: {number}.");
        assert!(text.starts_with(&want), "{text}");

        let (_temp, dir) = build();
        let cut = &logs(&dir)[1];
        let file = std::fs::File::options().write(true).open(cut).unwrap();
        let len = file.metadata().unwrap().len();
        file.set_len(len - 1).unwrap();
        let text = tracked(&dir).err().unwrap().to_string();
        let want = format!(
            "Corruption: Size mismatch: WAL (log number: {number}) in MANIFEST is {len} bytes , but \
             actually is {} bytes on disk.",
            len - 1
        );
        assert!(text.starts_with(&want), "{text}");
        // Nobody asks: it opens, and nothing is tracked any more.
        let skip = with(|o| o.wal_recovery_mode = WalRecoveryMode::SkipAnyCorruptedRecords);
        let plain = Db::builder(&dir).options(skip).all_families();
        let plain = plain.no_info_log().open();
        drop(plain.unwrap());
        drop(tracked(&dir).unwrap());
    }
}

#[test]
fn a_tracked_log_that_was_flushed_past_is_not_asked_for() {
    let tracked = |dir: &Path| {
        Db::builder(dir)
            .options(with(|o| o.track_and_verify_wals_in_manifest = true))
            .all_families()
            .no_info_log()
            .open()
            .unwrap()
    };
    // One family: its flush makes the log obsolete before anybody syncs it.
    let temp = TempDir::new("wal-forms");
    let db = tracked(temp.path());
    for n in 0..4 {
        db.default_cf().put(format!("k{n}"), "v").unwrap();
        db.flush(true).unwrap();
    }
    db.default_cf().put("last", "v").unwrap();
    db.sync().unwrap();
    drop(db);
    assert!(logs(temp.path()).len() < 3);
    assert_eq!(
        tracked(temp.path())
            .default_cf()
            .get("last")
            .unwrap()
            .as_deref(),
        Some(&b"v"[..])
    );

    // Two families: the one that kept the logs is dropped.
    let temp = TempDir::new("wal-forms");
    let db = tracked(temp.path());
    let other = db.create_cf(spanlith::FamilyOptions::new("other")).unwrap();
    other.put("k", "v").unwrap();
    for n in 0..3 {
        db.default_cf().put(format!("k{n}"), "v").unwrap();
        db.flush(true).unwrap();
    }
    db.drop_cf(&other).unwrap();
    db.default_cf().put("last", "v").unwrap();
    db.flush(true).unwrap();
    drop((other, db));
    assert_eq!(
        tracked(temp.path())
            .default_cf()
            .get("last")
            .unwrap()
            .as_deref(),
        Some(&b"v"[..])
    );
}

#[test]
fn creating_and_dropping_families_leaves_two_options_files() {
    let temp = TempDir::new("wal-forms");
    let db = Db::builder(temp.path())
        .create_if_missing(true)
        .no_info_log()
        .open()
        .unwrap();
    for n in 0..4 {
        let family = spanlith::FamilyOptions::new(format!("family{n}"));
        let cf = db.create_cf(family).unwrap();
        db.drop_cf(&cf).unwrap();
    }
    let names = std::fs::read_dir(temp.path()).unwrap();
    let names = names.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    let options: Vec<String> = names.filter(|n| n.starts_with("OPTIONS-")).collect();
    assert_eq!(options.len(), 2, "{options:?}");
}
