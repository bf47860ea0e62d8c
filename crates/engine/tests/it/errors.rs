//! Errors in the background: what each stops, who is told, and how the database comes back without
//! being opened again (reliability, sections 2.6, 3.1, 3.2).

use crate::world::World;
use spanlith::listener::{BackgroundErrorReason, ErrorRecoveryInfo, FlushInfo, MemtableInfo};
use spanlith::options::InfoLogLevel;
use spanlith::options::{CfOptions, DbOptions};
use spanlith::{Cf, Db, ErrorKind, EventListener, FamilyOptions, Logger, Severity, WriteOptions};
use spanlith_base::stats::{Statistics, Ticker};
use spanlith_env::{Effect, Env, FaultFs, FaultRule, MemFs, OpClass};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const EIO: i32 = 5;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EDQUOT: i32 = 122;

impl World {
    fn has_timer(&self) -> bool {
        let timers = self.executor.timers.lock().unwrap();
        timers.iter().any(|t| t.0 == "resume")
    }

    fn open(&self) -> Db {
        open(&self.env, DbOptions::default(), None)
    }

    /// Returns what a power loss leaves, opened.
    fn after_power_loss(&self) -> Db {
        let (env, ..) = Env::test(Arc::new(self.mem.strict_clone()), 12);
        open(&env, DbOptions::default(), None)
    }
}

fn cf_options() -> CfOptions {
    let mut cf = CfOptions::default();
    cf.write_buffer_size = 16 << 10;
    cf.arena_block_size = 4096;
    cf.level0_file_num_compaction_trigger = 2;
    cf
}

fn open(env: &Env, options: DbOptions, listener: Option<Arc<dyn EventListener>>) -> Db {
    let mut builder = Db::builder("/db")
        .options(options)
        .create_if_missing(true)
        .cf_options(cf_options())
        .env(env.clone())
        .no_info_log();
    if let Some(listener) = listener {
        builder = builder.listener(listener);
    }
    if env
        .fs
        .list(std::path::Path::new("/db"))
        .is_ok_and(|l| l.iter().any(|n| n == "CURRENT"))
    {
        builder = builder.family(FamilyOptions::new("two"));
    }
    let db = builder.open().unwrap();
    if db.cf("two").is_none() {
        db.create_cf(FamilyOptions::new("two")).unwrap();
    }
    db
}

fn synced() -> WriteOptions {
    WriteOptions::new().sync(true)
}

fn key(i: u32) -> Vec<u8> {
    format!("key{i:05}").into_bytes()
}

/// Writes `keys` to both families, synced where `sync` says.
fn fill(db: &Db, keys: std::ops::Range<u32>, sync: bool) {
    let two = db.cf("two").unwrap();
    for i in keys {
        let o = WriteOptions::new().sync(sync);
        db.default_cf().put_opt(key(i), [b'v'; 100], &o).unwrap();
        two.put_opt(key(i), [b'w'; 10], &o).unwrap();
    }
}

fn assert_has(db: &Db, keys: std::ops::Range<u32>, what: &str) {
    let two = db.cf("two").unwrap();
    for i in keys {
        for (cf, value) in [
            (db.default_cf(), &[b'v'; 100][..]),
            (two.clone(), &[b'w'; 10]),
        ] {
            let got = cf.get(key(i)).unwrap();
            assert_eq!(
                got.as_deref(),
                Some(value),
                "{what}: key {i} of {}",
                cf.name()
            );
        }
    }
}

/// Class and text of what refuses a write now.
fn refusal(cf: &Cf) -> (Severity, String) {
    let e = cf.put("refused", "x").unwrap_err();
    (e.severity(), e.to_string())
}

#[test]
fn a_failed_write_to_log_or_manifest_is_overcome_without_opening_again() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    let cases = [
        (OpClass::Append, ".log", EIO),
        (OpClass::Append, ".log", ENOSPC),
        (OpClass::Append, ".log", EDQUOT),
        (OpClass::Sync, ".log", EIO),
        (OpClass::Append, "MANIFEST", EIO),
        (OpClass::Sync, "MANIFEST", EIO),
        (OpClass::Create, ".log", EIO),
    ];
    for (class, name, errno) in cases {
        for keep in [0, 20] {
            let what = format!("{class:?} {name} {errno} keep {keep}");
            let w = World::new(11);
            let db = w.open();
            fill(&db, 0..20, true);
            fill(&db, 20..30, false);
            w.fs.add(
                FaultRule::fail(class, 1, errno)
                    .short(keep)
                    .named(name)
                    .forever(),
            );
            // The log at once, the others when memtables are sealed and flushed.
            let first = db.default_cf().put_opt("open", "?", &synced());
            let first = first.and_then(|()| db.flush(true)).unwrap_err();
            assert!(
                first.to_string().starts_with("IO error: "),
                "{what}: {first}"
            );
            let (severity, text) = refusal(&db.default_cf());
            assert_eq!(severity, Severity::Hard, "{what}: {text}");
            assert!(
                text.starts_with("IO error: ") && text.contains("retries=0"),
                "{what}: {text}"
            );
            assert_has(&db, 0..30, &what);
            // The cause is still there.
            let again = db.resume().unwrap_err();
            assert_eq!(again.kind(), ErrorKind::Io, "{what}: {again}");
            let text = refusal(&db.default_cf()).1;
            assert!(
                text.contains("retries=1") && text.contains("latest=["),
                "{what}: {text}"
            );
            w.fs.clear();
            db.resume().unwrap_or_else(|e| panic!("{what}: {e}"));
            let sequence = db.latest_sequence_number();
            fill(&db, 30..60, false);
            assert!(db.latest_sequence_number() > sequence);
            db.default_cf().put_opt("last", "1", &synced()).unwrap();
            assert_has(&db, 0..60, &what);
            let after = w.after_power_loss();
            assert_has(&after, 0..60, &what);
            assert!(after.default_cf().get("last").unwrap().is_some(), "{what}");
            assert!(
                after.default_cf().get("refused").unwrap().is_none(),
                "{what}"
            );
            db.flush(true).unwrap();
            db.wait_idle(None).unwrap();
            assert_eq!(db.property("spanlith.background-errors").unwrap(), "");
            db.close().unwrap();
            let db = w.open();
            assert_has(&db, 0..60, &what);
        }
    }
}

/// Asks for a flush as soon as the log says that one failed: before the job that failed has ended.
#[derive(Default)]
struct AsksAgain(Mutex<Option<Db>>);

impl Logger for AsksAgain {
    fn log(&self, _: InfoLogLevel, line: &str) {
        if line.starts_with("a flush failed") {
            let db = self.0.lock().unwrap().take();
            db.into_iter().for_each(|db| db.flush(false).unwrap());
        }
    }
}

#[test]
fn a_flush_that_is_asked_for_while_a_failed_one_is_about_to_end_is_made() {
    crate::suite_disk::needs_table_files(
        "calls for files of tables fail here, not those for a device",
    );
    for atomic in [false, true] {
        let w = World::new(11);
        let mut options = DbOptions::default();
        options.atomic_flush = atomic;
        let asks = Arc::new(AsksAgain::default());
        let db = Db::builder("/db")
            .options(options)
            .create_if_missing(true)
            .cf_options(cf_options())
            .env(w.env.clone())
            .logger(asks.clone())
            .open()
            .unwrap();
        db.default_cf().put("a", "1").unwrap();
        *asks.0.lock().unwrap() = Some(db.clone());
        w.fs.add(FaultRule::fail(OpClass::Append, 1, EIO).named(".sst"));
        db.flush(false).unwrap();
        w.executor.jobs.run_until_idle();
        assert!(asks.0.lock().unwrap().is_none(), "no flush failed");
        assert_eq!(db.default_cf().live_files().len(), 1, "atomic {atomic}");
    }
}

/// Holds B2.
#[test]
fn the_numbers_of_a_group_that_failed_are_not_given_away_again() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    let w = World::new(11);
    let db = w.open();
    let cf = db.default_cf();
    cf.put_opt("a", "1", &synced()).unwrap();
    let before = db.latest_sequence_number();
    w.fs.add(FaultRule::fail(OpClass::Sync, 1, EIO).named(".log"));
    let mut batch = spanlith::WriteBatch::new();
    for i in 0..5 {
        batch.put(key(i), "open");
    }
    assert!(db.write_opt(&batch, &synced()).is_err());
    assert_eq!(db.latest_sequence_number(), before);
    db.resume().unwrap();
    cf.put("b", "2").unwrap();
    assert_eq!(db.latest_sequence_number(), before + 5 + 1);
    assert!(cf.get(key(0)).unwrap().is_none(), "it did not happen here");
    // An unsynced write after the resume survives the process.
    let copy = w.mem.crash_clone(&mut |n| n.saturating_sub(1));
    let (env, ..) = Env::test(Arc::new(copy), 1);
    let after = open(&env, DbOptions::default(), None);
    assert!(after.default_cf().get("a").unwrap().is_some());
    assert!(after.default_cf().get("b").unwrap().is_some());
    assert!(
        after.default_cf().get(key(0)).unwrap().is_none(),
        "its log was given up"
    );
}

#[test]
fn a_second_fault_at_any_step_of_a_resume_leaves_everything_for_the_next() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    for class in [
        OpClass::Append,
        OpClass::Sync,
        OpClass::Create,
        OpClass::Rename,
        OpClass::SyncDir,
        OpClass::Open,
        OpClass::Read,
    ] {
        for nth in 1..12 {
            let what = format!("{class:?} {nth}");
            let w = World::new(11);
            let db = w.open();
            fill(&db, 0..20, false);
            w.fs.add(FaultRule::fail(OpClass::Append, 1, EIO).named(".log"));
            assert!(db.default_cf().put("open", "?").is_err());
            let rule = w.fs.add(FaultRule::fail(class, nth, EIO));
            let first = db.resume();
            if w.fs.fired(rule) == 0 {
                first.unwrap();
                break;
            }
            w.fs.clear();
            // Some calls, such as reading ahead, may fail without harm.
            if first.is_err() {
                // Any state that a power loss leaves now can be opened.
                drop(w.after_power_loss());
                db.resume().unwrap_or_else(|e| panic!("{what}: {e}"));
            }
            fill(&db, 20..30, false);
            db.sync().unwrap();
            assert_has(&db, 0..30, &what);
            assert_has(&w.after_power_loss(), 0..30, &what);
            db.close().unwrap();
        }
    }
}

/// Hears of errors and their ends.
#[derive(Default)]
struct Ears {
    heard: Mutex<Vec<String>>,
    vetoes: bool,
}

impl EventListener for Ears {
    fn on_background_error(
        &self,
        reason: BackgroundErrorReason,
        error: &mut Option<spanlith::Error>,
    ) {
        let severity = error.as_ref().map(spanlith::Error::severity);
        let mut heard = self.heard.lock().unwrap();
        heard.push(format!("{reason:?} {:?}", severity.unwrap()));
    }

    fn on_error_recovery_begin(&self, reason: BackgroundErrorReason, _: &spanlith::Error) -> bool {
        self.heard.lock().unwrap().push(format!("begin {reason:?}"));
        !self.vetoes
    }

    fn on_error_recovery_end(&self, info: &ErrorRecoveryInfo) {
        let end = format!("end {}", info.new_error.is_none());
        self.heard.lock().unwrap().push(end);
    }
}

impl Ears {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }
}

#[test]
fn a_full_disk_is_overcome_by_itself_once_there_is_space() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    let w = World::new(11);
    let ears = Arc::new(Ears::default());
    let db = open(&w.env, DbOptions::default(), Some(ears.clone()));
    fill(&db, 0..20, true);
    w.fs.set_budget(Some(500));
    let mut acked = 20;
    let e = loop {
        match db.default_cf().put(key(acked), [b'v'; 100]) {
            Ok(()) => acked += 1,
            Err(e) => break e,
        }
    };
    assert!(
        e.to_string()
            .starts_with("IO error: No space left on device: "),
        "{e}"
    );
    assert_eq!(ears.take(), ["WriteCallback Hard", "begin WriteCallback"]);
    // No try without space, however much time passes.
    let created = w.fs.calls(OpClass::Create);
    for _ in 0..50 {
        w.pass(Duration::from_secs(40));
    }
    assert_eq!(w.fs.calls(OpClass::Create), created);
    let (severity, text) = refusal(&db.default_cf());
    assert_eq!(severity, Severity::Hard);
    assert!(text.contains("resume=when-there-is-space"), "{text}");
    w.fs.set_budget(None);
    w.pass(Duration::from_millis(100));
    assert_eq!(ears.take(), ["end true"]);
    w.pass(Duration::from_millis(100));
    assert!(!w.has_timer(), "it ends with what it was for");
    db.default_cf().put_opt("on", "it goes", &synced()).unwrap();
    let after = w.after_power_loss();
    for i in 0..acked {
        assert!(after.default_cf().get(key(i)).unwrap().is_some(), "{i}");
    }
}

#[test]
fn a_listener_or_an_option_keeps_the_database_from_resuming_by_itself() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    for by_option in [false, true] {
        let w = World::new(11);
        let ears = Arc::new(Ears {
            vetoes: !by_option,
            ..Ears::default()
        });
        let mut options = DbOptions::default();
        if by_option {
            options.max_bgerror_resume_count = 0;
        }
        let db = open(&w.env, options, Some(ears.clone()));
        w.fs.add(FaultRule::fail(OpClass::Append, 1, EIO).named(".log"));
        assert!(db.default_cf().put("a", "1").is_err());
        assert!(!w.has_timer());
        w.pass(Duration::from_secs(100));
        let text = refusal(&db.default_cf()).1;
        assert!(text.contains("resume=on-request"), "{text}");
        let heard = ears.take();
        assert_eq!(heard.len(), if by_option { 1 } else { 2 }, "{heard:?}");
        db.resume().unwrap();
        assert_eq!(ears.take(), ["end true"]);
        db.default_cf().put("a", "1").unwrap();
    }
}

#[test]
fn tries_end_after_the_number_that_the_option_allows() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    let w = World::new(11);
    let ears = Arc::new(Ears::default());
    let mut options = DbOptions::default();
    options.max_bgerror_resume_count = 3;
    options.bgerror_resume_retry_interval = 5_000_000;
    let db = open(&w.env, options, Some(ears.clone()));
    w.fs.add(FaultRule::fail(OpClass::Append, 1, EIO).forever());
    assert!(db.default_cf().put("a", "1").is_err());
    w.pass(Duration::from_millis(4900));
    assert!(refusal(&db.default_cf()).1.contains("retries=0"));
    for _ in 0..10 {
        w.pass(Duration::from_secs(5));
    }
    let text = refusal(&db.default_cf()).1;
    assert!(text.contains("retries=3 resume=on-request"), "{text}");
    assert!(!w.has_timer());
    assert_eq!(ears.take().last().unwrap(), "end false");
    w.fs.clear();
    db.resume().unwrap();
    db.default_cf().put("a", "1").unwrap();
}

#[test]
fn errors_and_tries_are_counted_in_the_statistics() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    let w = World::new(11);
    let s = Arc::new(Statistics::new());
    let db = Db::builder("/db")
        .create_if_missing(true)
        .statistics(s.clone())
        .env(w.env.clone())
        .no_info_log()
        .open()
        .unwrap();
    w.fs.add(
        FaultRule::fail(OpClass::Append, 1, EIO)
            .named(".log")
            .times(2),
    );
    assert!(db.default_cf().put("a", "1").is_err());
    let counts = || {
        [
            Ticker::ErrorHandlerBgErrorCount,
            Ticker::ErrorHandlerBgIoErrorCount,
            Ticker::ErrorHandlerBgRetryableIoErrorCount,
            Ticker::ErrorHandlerAutoresumeCount,
            Ticker::ErrorHandlerAutoresumeRetryTotalCount,
            Ticker::ErrorHandlerAutoresumeSuccessCount,
        ]
        .map(|t| s.ticker(t))
    };
    assert_eq!(counts(), [1, 1, 1, 1, 0, 0]);
    w.pass(Duration::from_millis(100));
    assert_eq!(counts(), [1, 1, 1, 1, 1, 0]);
    w.pass(Duration::from_millis(200));
    assert_eq!(counts(), [1, 1, 1, 1, 2, 1]);
    db.default_cf().put("a", "1").unwrap();
}

#[test]
fn a_flush_that_fails_is_tried_again_while_writes_go_on() {
    crate::suite_disk::needs_table_files(
        "calls for files of tables fail here, not those for a device",
    );
    let w = World::new(11);
    let ears = Arc::new(Ears::default());
    let db = open(&w.env, DbOptions::default(), Some(ears.clone()));
    fill(&db, 0..20, false);
    w.fs.add(
        FaultRule::fail(OpClass::Append, 1, EIO)
            .named(".sst")
            .times(2),
    );
    let e = db.default_cf().flush(true).unwrap_err();
    assert!(e.to_string().starts_with("IO error: "), "{e}");
    assert_eq!(db.int_property("rocksdb.background-errors"), Some(1));
    assert_eq!(ears.take(), ["Flush Soft", "begin Flush"]);
    fill(&db, 20..30, false);
    let text = db.property("spanlith.background-errors").unwrap();
    assert!(
        text.starts_with("soft: a flush failed: IO error: "),
        "{text}"
    );
    w.pass(Duration::from_millis(50));
    assert_eq!(db.int_property("rocksdb.background-errors"), Some(1));
    w.pass(Duration::from_millis(50));
    assert_eq!(db.int_property("rocksdb.background-errors"), Some(2));
    fill(&db, 30..40, false);
    w.pass(Duration::from_millis(200));
    assert_eq!(ears.take(), ["Flush Soft", "end true"]);
    assert_eq!(db.int_property("rocksdb.num-immutable-mem-table"), Some(0));
    assert_eq!(db.property("spanlith.background-errors").unwrap(), "");
    assert_has(&db, 0..40, "after all");
    db.close().unwrap();
}

#[test]
fn a_writer_that_waits_for_a_flush_that_keeps_failing_gets_its_error() {
    crate::suite_disk::needs_table_files(
        "calls for files of tables fail here, not those for a device",
    );
    let w = World::new(11);
    let db = w.open();
    let cf = db.default_cf();
    w.fs.add(
        FaultRule::fail(OpClass::Append, 1, EIO)
            .named(".sst")
            .forever(),
    );
    let mut acked = 0;
    let e = loop {
        match cf.put(key(acked), [b'v'; 100]) {
            Ok(()) => acked += 1,
            Err(e) => break e,
        }
        assert!(acked < 10_000, "memtables are bounded");
    };
    assert_eq!((e.kind(), e.severity()), (ErrorKind::Io, Severity::Hard));
    w.fs.clear();
    w.pass(Duration::from_secs(1));
    cf.put_opt("on", "it goes", &synced()).unwrap();
    let after = w.after_power_loss();
    for i in 0..acked {
        assert!(after.default_cf().get(key(i)).unwrap().is_some(), "{i}");
    }
}

#[test]
fn a_compaction_that_fails_is_tried_again_into_other_files() {
    crate::suite_disk::needs_table_files(
        "calls for files of tables fail here, not those for a device",
    );
    for errno in [EIO, ENOSPC, EMFILE] {
        let w = World::new(11);
        let ears = Arc::new(Ears::default());
        let db = open(&w.env, DbOptions::default(), Some(ears.clone()));
        fill(&db, 0..20, false);
        db.flush(true).unwrap();
        fill(&db, 10..30, false);
        // The flush creates one table for each family; what comes then is the compaction's.
        w.fs.add(
            FaultRule::fail(OpClass::Create, 3, errno)
                .named(".sst")
                .times(1),
        );
        db.flush(true).unwrap();
        w.executor.jobs.run_until_idle();
        let first = ears.take();
        assert_eq!(
            first[..2],
            ["Compaction Soft", "begin Compaction"],
            "{errno}"
        );
        fill(&db, 30..40, false);
        w.pass(Duration::from_millis(100));
        assert_eq!(ears.take(), ["end true"], "{errno}");
        db.wait_idle(None).unwrap();
        assert_eq!(db.int_property("rocksdb.num-files-at-level0"), None);
        assert_eq!(db.property("rocksdb.num-files-at-level0").unwrap(), "0");
        assert_has(&db, 0..40, "after all");
    }
}

#[test]
fn a_damaged_input_keeps_its_plan_back_and_nothing_else() {
    crate::suite_disk::needs_table_files(
        "calls for files of tables fail here, not those for a device",
    );
    let w = World::new(11);
    let ears = Arc::new(Ears::default());
    let db = open(&w.env, DbOptions::default(), Some(ears.clone()));
    fill(&db, 0..20, false);
    db.flush(true).unwrap();
    fill(&db, 10..30, false);
    // A flush reads its own table back, so the damage is planted after it.
    db.default_cf().flush(true).unwrap();
    let flip = Effect::FlipBit { bit: 77 };
    w.fs.add(
        FaultRule::with_effect(OpClass::Read, 1, flip)
            .named(".sst")
            .forever(),
    );
    w.executor.jobs.run_until_idle();
    w.fs.clear();
    assert_eq!(ears.take(), ["Compaction Soft"]);
    let text = db.property("spanlith.background-errors").unwrap();
    assert!(
        text.starts_with("soft: a compaction failed: Corruption: "),
        "{text}"
    );
    assert!(text.contains("resume on-request"), "{text}");
    // Everything else goes on.
    fill(&db, 30..40, true);
    db.flush(true).unwrap();
    assert_has(&db, 0..40, "meanwhile");
    assert!(db.wait_idle(None).is_err());
    db.resume().unwrap();
    db.wait_idle(None).unwrap();
    assert_eq!(db.property("spanlith.background-errors").unwrap(), "");
    assert_ne!(db.property("rocksdb.num-files-at-level6").unwrap(), "0");
    assert_has(&db, 0..40, "afterwards");
}

#[test]
fn a_log_that_finds_no_descriptor_fails_one_write_and_stops_nothing() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    let w = World::new(11);
    let db = w.open();
    let cf = db.default_cf();
    // Twice: also the try after tables were closed.
    w.fs.add(
        FaultRule::fail(OpClass::Create, 1, EMFILE)
            .named(".log")
            .times(2),
    );
    let failed = (0..3000).filter(|&i| cf.put(key(i), [b'v'; 100]).is_err());
    assert_eq!(failed.count(), 1);
    assert_eq!(db.property("spanlith.background-errors").unwrap(), "");
    db.flush(true).unwrap();
    let there = (0..3000).filter(|&i| cf.get(key(i)).unwrap().is_some());
    assert_eq!(there.count(), 2999);
}

/// Clears what it hears of.
struct Clears;

impl EventListener for Clears {
    fn on_background_error(&self, _: BackgroundErrorReason, error: &mut Option<spanlith::Error>) {
        *error = None;
    }
}

/// As in RocksDB; an error of a write to a log stays, since nobody knows what the log holds.
#[test]
fn a_listener_may_clear_that_a_log_was_not_begun_and_not_that_a_write_failed() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    let w = World::new(11);
    let mut options = DbOptions::default();
    options.max_bgerror_resume_count = 0;
    let db = open(&w.env, options, Some(Arc::new(Clears)));
    fill(&db, 0..10, true);
    w.fs.add(FaultRule::fail(OpClass::Create, 1, EIO).named(".log"));
    assert!(db.flush(true).is_err());
    fill(&db, 10..20, true);
    db.flush(true).unwrap();
    assert_has(&db, 0..20, "cleared");
    w.fs.add(FaultRule::fail(OpClass::Append, 1, EIO).named(".log"));
    assert!(db.default_cf().put_opt(key(20), "v", &synced()).is_err());
    assert!(db.default_cf().put_opt(key(21), "v", &synced()).is_err());
}

#[test]
fn a_file_system_without_writes_is_fatal_and_the_database_still_closes() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    let w = World::new(11);
    let db = w.open();
    fill(&db, 0..20, true);
    w.fs.add(FaultRule::fail(OpClass::Append, 1, EROFS).named(".log"));
    assert!(db.default_cf().put("a", "1").is_err());
    let (severity, text) = refusal(&db.default_cf());
    assert_eq!(severity, Severity::Fatal);
    assert!(text.contains("resume=reopen"), "{text}");
    assert!(db.resume().is_err() && !w.has_timer());
    assert_has(&db, 0..20, "readers");
    let e = db.close().unwrap_err();
    assert!(e.to_string().starts_with("IO error: "), "{e}");
    // The lock is free.
    let db = w.open();
    assert_has(&db, 0..20, "reopened");
    db.default_cf().put("a", "1").unwrap();
}

/// A filter that panics once it is told to.
struct Bomb(Arc<AtomicBool>);

impl spanlith::CompactionFilter for Bomb {
    fn name(&self) -> &str {
        "bomb"
    }

    fn filter(&self, _: usize, _: &[u8], _: spanlith::FilterValue<'_>) -> spanlith::FilterDecision {
        assert!(!self.0.load(Ordering::Relaxed), "planted");
        spanlith::FilterDecision::Keep
    }
}

#[test]
fn a_job_that_panics_refuses_writes_serves_readers_and_lets_the_database_close() {
    let w = World::new(11);
    let armed = Arc::new(AtomicBool::new(false));
    let open = || {
        Db::builder("/db")
            .create_if_missing(true)
            .cf_options(cf_options())
            .compaction_filter(Arc::new(Bomb(armed.clone())))
            .env(w.env.clone())
            .no_info_log()
            .open()
            .unwrap()
    };
    let db = open();
    let cf = db.default_cf();
    for i in 0..30 {
        cf.put(key(i % 10), [b'v'; 100]).unwrap();
        if i % 10 == 9 {
            db.flush(true).unwrap();
        }
    }
    armed.store(true, Ordering::Relaxed);
    w.executor.jobs.run_until_idle();
    let (severity, text) = refusal(&cf);
    assert_eq!(severity, Severity::Fatal, "{text}");
    let want = "Operation aborted: panic in a compaction job: planted";
    assert!(text.starts_with(want), "{text}");
    assert_eq!(db.int_property("rocksdb.background-errors"), Some(1));
    for i in 0..10 {
        assert!(cf.get(key(i)).unwrap().is_some());
    }
    assert!(db.flush(true).is_err() && db.resume().is_err());
    assert!(db.wait_idle(None).is_err());
    assert!(db.clone().close().is_err());
    drop((cf, db));
    armed.store(false, Ordering::Relaxed);
    let db = open();
    for i in 0..10 {
        assert!(db.default_cf().get(key(i)).unwrap().is_some());
    }
}

/// The order of bytes, which panics at the second question once it is told to.
struct Fuse(std::sync::atomic::AtomicI32);

impl spanlith::UserComparator for Fuse {
    fn name(&self) -> &str {
        "fuse"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        let left = self.0.fetch_sub(1, Ordering::Relaxed);
        assert!(left != 1, "planted");
        a.cmp(b)
    }
}

/// Holds W5.
#[test]
fn a_panic_within_a_write_refuses_writes_and_leaves_nobody_waiting() {
    let w = World::new(11);
    let fuse = Arc::new(Fuse(0.into()));
    let family = FamilyOptions::new("fused").comparator(spanlith::Comparator::User(fuse.clone()));
    let db = w.open();
    fill(&db, 0..5, true);
    let fused = db.create_cf(family).unwrap();
    // The first question is asked when the batch is checked, the second when it is inserted.
    fuse.0.store(2, Ordering::Relaxed);
    let put = || fused.delete_range("a", "b");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(put));
    assert!(panicked.is_err());
    let (severity, text) = refusal(&db.default_cf());
    assert_eq!(severity, Severity::Fatal, "{text}");
    assert!(
        text.starts_with("Operation aborted: panic while writes"),
        "{text}"
    );
    assert_has(&db, 0..5, "readers");
    assert!(db.resume().is_err());
    drop(fused);
    assert!(db.close().is_err());
}

#[test]
fn writers_on_threads_get_everything_in_whatever_fails_meanwhile() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
    let mut env = Env::system();
    env.fs = fs.clone();
    let db = open(&env, DbOptions::default(), None);
    let end = std::time::Instant::now() + Duration::from_secs(300);
    let rules = [
        (OpClass::Append, ".log"),
        (OpClass::Append, ".sst"),
        (OpClass::Sync, "MANIFEST"),
        (OpClass::Create, ".log"),
        (OpClass::Sync, ".sst"),
        (OpClass::Append, "MANIFEST"),
        (OpClass::Rename, "0"),
    ];
    std::thread::scope(|scope| {
        for t in 0..3u32 {
            let (db, fs) = (&db, &fs);
            scope.spawn(move || {
                for i in 0..200u32 {
                    if t == 0 && i % 20 == 10 {
                        let (class, name) = rules[(i / 20) as usize % rules.len()];
                        fs.add(FaultRule::fail(class, 2, EIO).named(name));
                    }
                    while let Err(e) = db.default_cf().put(key(t * 1000 + i), [b'v'; 300]) {
                        assert!(std::time::Instant::now() < end, "refused for ever: {e}");
                        // One of the threads asks; another waits until it has been tried by itself.
                        if t == 1 {
                            let _ = db.resume();
                        } else {
                            std::thread::park_timeout(Duration::from_millis(5));
                        }
                    }
                }
            });
        }
    });
    assert!(fs.fired_total() > 2);
    fs.clear();
    while let Err(e) = db.flush(true).and_then(|()| db.wait_idle(None)) {
        assert!(std::time::Instant::now() < end, "fails for ever: {e}");
        let _ = db.resume();
    }
    db.close().unwrap();
    let db = open(&env, DbOptions::default(), None);
    for t in 0..3u32 {
        for i in 0..200u32 {
            let there = db.default_cf().get(key(t * 1000 + i)).unwrap();
            assert!(there.is_some(), "{t} {i}");
        }
    }
}

#[test]
fn nothing_is_wrong_so_there_is_nothing_to_resume() {
    let w = World::new(11);
    let db = w.open();
    fill(&db, 0..5, false);
    db.resume().unwrap();
    assert_eq!(db.int_property("rocksdb.background-errors"), Some(0));
    db.clone().close().unwrap();
    assert_eq!(
        db.resume().unwrap_err().kind(),
        ErrorKind::ShutdownInProgress
    );
}

/// Describes what is heard of memtables and flushes. It takes its time to hear of the former.
#[derive(Default)]
struct FlushEars(Mutex<Vec<String>>);

impl EventListener for FlushEars {
    fn on_memtable_sealed(&self, _info: &MemtableInfo) {
        for _ in 0..1000 {
            std::thread::yield_now();
        }
        self.0.lock().unwrap().push("sealed".to_string());
    }
    fn on_flush_begin(&self, info: &FlushInfo) {
        let text = format!("begin {}", info.reason.name());
        self.0.lock().unwrap().push(text);
    }
    fn on_flush_completed(&self, info: &FlushInfo) {
        let text = format!("end with {}", info.properties.num_entries);
        self.0.lock().unwrap().push(text);
    }
}

#[test]
fn listeners_hear_of_a_memtable_before_its_flush_and_of_the_table_though_it_has_gone() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let dir = tempfile::tempdir().unwrap();
    let ears = Arc::new(FlushEars::default());
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .cf_options(cf_options())
        .listener(ears.clone())
        .no_info_log()
        .open()
        .unwrap();
    let cf = db.default_cf();
    for round in 0..100 {
        cf.put("a", "1").unwrap();
        cf.flush(true).unwrap();
        let heard = std::mem::take(&mut *ears.0.lock().unwrap());
        let expected = ["sealed", "begin Manual Flush", "end with 1"];
        assert_eq!(heard, expected, "round {round}");
    }
}

#[test]
fn listeners_hear_that_a_flush_is_tried_again_and_why() {
    crate::suite_disk::needs_table_files(
        "calls for files of tables fail here, not those for a device",
    );
    for (errno, again) in [
        (EIO, "begin Error Recovery Retry Flush"),
        (ENOSPC, "begin Error Recovery"),
    ] {
        let w = World::new(11);
        let ears = Arc::new(FlushEars::default());
        let db = open(&w.env, DbOptions::default(), Some(ears.clone()));
        w.fs.add(FaultRule::fail(OpClass::Append, 1, errno).named(".sst"));
        db.default_cf().put("a", "1").unwrap();
        assert!(db.default_cf().flush(true).is_err());
        for _ in 0..20 {
            w.pass(Duration::from_secs(5));
        }
        let heard = std::mem::take(&mut *ears.0.lock().unwrap());
        let expected = ["sealed", "begin Manual Flush", again, "end with 1"];
        assert_eq!(heard, expected, "errno {errno}");
    }
}
