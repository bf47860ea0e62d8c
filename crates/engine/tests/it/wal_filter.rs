//! Filters of logs. What is left of the logs is what RocksDB 11.8.1 leaves for the same answers.

use spanlith::options::{DbOptions, WalRecoveryMode};
use spanlith::{Cf, Db, ErrorKind, FamilyOptions, WalFilter, WalVerdict, WriteBatch, WriteOptions};
use spanlith_testkit::TempDir;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type Answer = fn() -> WalVerdict;

/// Answers the n-th batch with what the test says; keeps what it was told.
struct Scripted {
    at: usize,
    answer: Answer,
    told: Mutex<Vec<String>>,
}

impl WalFilter for Scripted {
    fn name(&self) -> &'static str {
        "Scripted"
    }

    fn families(&self, log_numbers: &BTreeMap<u32, u64>, ids: &BTreeMap<String, u32>) {
        assert_eq!(log_numbers.len(), ids.len());
        let names: Vec<&str> = ids.keys().map(String::as_str).collect();
        self.told.lock().unwrap().push(names.join(" "));
    }

    fn record(&self, log_number: u64, log_path: &str, batch: &WriteBatch) -> WalVerdict {
        assert!(log_path.ends_with(&format!("/{log_number:06}.log")));
        let mut told = self.told.lock().unwrap();
        told.push(batch.len().to_string());
        match told.len() - 2 == self.at {
            true => (self.answer)(),
            false => WalVerdict::Keep,
        }
    }
}

fn keys(cf: &Cf) -> String {
    let keys = cf.iter().map(|entry| entry.unwrap().0);
    let keys: Vec<String> = keys
        .map(|key| String::from_utf8_lossy(&key).into_owned())
        .collect();
    keys.join(" ")
}

/// Three batches in a log, of two updates each.
fn logged(dir: &TempDir) {
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .open()
        .unwrap();
    db.create_cf(FamilyOptions::new("other")).unwrap();
    for pair in [["a", "b"], ["c", "d"], ["e", "f"]] {
        let mut batch = WriteBatch::new();
        batch.put(pair[0], "1").put(pair[1], "1");
        db.write(&batch).unwrap();
    }
}

/// Opens with a filter that answers the batch `at`; what it was told.
fn filtered(
    dir: &TempDir,
    mode: WalRecoveryMode,
    at: usize,
    answer: Answer,
) -> (spanlith::Result<Db>, Vec<String>) {
    let filter = Arc::new(Scripted {
        at,
        answer,
        told: Mutex::default(),
    });
    let opened = Db::builder(dir.path())
        .options(DbOptions::default().wal_recovery_mode(mode))
        .family(FamilyOptions::new("other"))
        .wal_filter(filter.clone())
        .open();
    let told = std::mem::take(&mut *filter.told.lock().unwrap());
    (opened, told)
}

#[test]
fn a_filter_of_logs_leaves_out_replaces_and_ends() {
    let replaced = || {
        let mut batch = WriteBatch::new();
        batch.put("x", "2");
        WalVerdict::Replace(batch)
    };
    let cases: [(Answer, &str, &str); 5] = [
        (|| WalVerdict::Keep, "a b c d e f", "222"),
        (|| WalVerdict::Ignore, "a b e f", "222"),
        (replaced, "a b e f x", "222"),
        (|| WalVerdict::Stop, "a b", "22"),
        // In the usual mode the log ends before what is damaged.
        (|| WalVerdict::Corrupted, "a b", "22"),
    ];
    for (answer, expected, asked) in cases {
        let dir = TempDir::new("wal-filter");
        logged(&dir);
        let mode = WalRecoveryMode::PointInTimeRecovery;
        let (db, told) = filtered(&dir, mode, 1, answer);
        let db = db.unwrap();
        assert_eq!(keys(&db.default_cf()), expected);
        assert_eq!(told[0], "default other");
        assert_eq!(told[1..].concat(), asked);
        // Numbers of what was left out are given to nobody, and what was replayed stays.
        let sequence = db.latest_sequence_number();
        db.default_cf().put("new", "1").unwrap();
        assert_eq!(db.latest_sequence_number(), sequence + 1);
        drop(db);
        let mode = WalRecoveryMode::AbsoluteConsistency;
        let (db, _) = filtered(&dir, mode, usize::MAX, || WalVerdict::Keep);
        let mut expected: Vec<&str> = expected.split(' ').chain(["new"]).collect();
        expected.sort_unstable();
        assert_eq!(keys(&db.unwrap().default_cf()), expected.join(" "));
    }
}

#[test]
fn the_word_of_a_filter_ends_the_replay_though_later_logs_were_synced() {
    let dir = TempDir::new("wal-filter-logs");
    logged(&dir);
    // Keeps the log of before, and writes one that follows it.
    let mut options = DbOptions::default();
    options.avoid_flush_during_recovery = true;
    options.avoid_flush_during_shutdown = true;
    let db = Db::builder(dir.path())
        .options(options)
        .family(FamilyOptions::new("other"));
    let db = db.open().unwrap();
    let sync = WriteOptions::default().sync(true);
    db.default_cf().put_opt("g", "1", &sync).unwrap();
    drop(db);
    let mode = WalRecoveryMode::PointInTimeRecovery;
    let (db, _) = filtered(&dir, mode, 1, || WalVerdict::Corrupted);
    assert_eq!(keys(&db.unwrap().default_cf()), "a b");
    let (db, _) = filtered(&dir, mode, usize::MAX, || WalVerdict::Keep);
    assert_eq!(keys(&db.unwrap().default_cf()), "a b");
}

#[test]
fn answers_that_make_no_sense_fail_the_open_in_rocksdbs_words() {
    let longer = || {
        let mut batch = WriteBatch::new();
        batch.put("x", "2").put("y", "2").put("z", "2");
        WalVerdict::Replace(batch)
    };
    let cases: [(Answer, ErrorKind, &str); 3] = [
        (
            longer,
            ErrorKind::NotSupported,
            "More than original # of records returned by Wal Filter : Scripted",
        ),
        (
            || WalVerdict::Unknown,
            ErrorKind::NotSupported,
            "Unknown WalProcessingOption returned by Wal Filter : Scripted",
        ),
        (
            || WalVerdict::Corrupted,
            ErrorKind::Corruption,
            "Corruption reported by Wal Filter : Scripted",
        ),
    ];
    for (answer, kind, text) in cases {
        let dir = TempDir::new("wal-filter-refused");
        logged(&dir);
        let mode = WalRecoveryMode::AbsoluteConsistency;
        let (opened, _) = filtered(&dir, mode, 1, answer);
        let Err(error) = opened else {
            panic!("the open fails");
        };
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(text), "{error}");
        // Nothing was lost by it.
        let (db, _) = filtered(&dir, mode, usize::MAX, || WalVerdict::Keep);
        assert_eq!(keys(&db.unwrap().default_cf()), "a b c d e f");
    }
}
