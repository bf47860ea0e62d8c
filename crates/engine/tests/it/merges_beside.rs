//! `level0_merges_beside`: under `smooth`, what comes to level 0 while a compaction takes files out of it is merged meanwhile, in
//! a slot of its own.

use spanlith::listener::{CompactionInfo, EventListener};
use spanlith::options::CfOptions;
use spanlith::{CompactionFilter, Db, FilterDecision, FilterValue, WeakDb};
use spanlith_env::{Env, JobClass, ManualExecutor, MemFs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Holds the first compaction out of level 0 until files have come and jobs of compactions have run.
#[derive(Default)]
struct Hold {
    db: OnceLock<WeakDb>,
    executor: OnceLock<Arc<ManualExecutor>>,
    /// Changes of options that are made meanwhile, before the files come.
    changes: Mutex<Vec<(&'static str, &'static str)>>,
    was_held: AtomicBool,
    seen: Mutex<Seen>,
}

/// Describes what happened while it was held.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    /// Files of level 0 before and after jobs of compactions ran, and how many jobs there were.
    files: (String, String),
    jobs: usize,
    /// By compaction that began: its level of output, and how many run then.
    begun: Vec<(usize, String)>,
}

/// Files that come meanwhile, after the two that are being compacted.
const FILES: u32 = 5;

impl Hold {
    fn property(&self, name: &str) -> String {
        let db = self.db.get().and_then(WeakDb::upgrade).unwrap();
        db.default_cf().property(name).unwrap()
    }

    fn hold(&self) {
        let db = self.db.get().and_then(WeakDb::upgrade).unwrap();
        let executor = self.executor.get().unwrap();
        let changes = self.changes.lock().unwrap().clone();
        for change in changes {
            match change.0 {
                "disable_auto_compactions" => db.default_cf().set_options(&[change]).unwrap(),
                _ => db.set_options(&[change]).unwrap(),
            }
        }
        for round in 1..=FILES {
            put_all(&db, round);
            db.flush(false).unwrap();
            while executor.run_one_of(JobClass::High) {}
        }
        let files = || self.property("rocksdb.num-files-at-level0");
        let (before, jobs) = (files(), executor.pending_of(JobClass::Low));
        while executor.run_one_of(JobClass::Low) {}
        let mut seen = self.seen.lock().unwrap();
        (seen.files, seen.jobs) = ((before, files()), jobs);
    }
}

impl CompactionFilter for Hold {
    fn name(&self) -> &str {
        "test.Hold"
    }

    fn filter(&self, _: usize, _: &[u8], _: FilterValue<'_>) -> FilterDecision {
        if self.db.get().is_some() && !self.was_held.swap(true, Ordering::Relaxed) {
            self.hold();
        }
        FilterDecision::Keep
    }
}

impl EventListener for Hold {
    fn on_compaction_begin(&self, info: &CompactionInfo) {
        let running = self.property("rocksdb.num-running-compactions");
        let mut seen = self.seen.lock().unwrap();
        seen.begun.push((info.output_level, running));
    }

    fn on_compaction_completed(&self, info: &CompactionInfo) {
        info.result.clone().unwrap();
    }
}

fn put_all(db: &Db, round: u32) {
    let cf = db.default_cf();
    for key in 0..50u32 {
        cf.put(key.to_be_bytes(), format!("{round} {key}")).unwrap();
    }
}

/// Returns what happens beside a compaction out of level 0 in a database with these own options, after changes of options.
fn run(own: &str, changes: &[(&'static str, &'static str)]) -> Seen {
    let fs = Arc::new(MemFs::new());
    let (env, executor, _) = Env::test(fs.clone(), 7);
    let cf = CfOptions::new()
        .level0_file_num_compaction_trigger(2)
        .disable_auto_compactions(false);
    let hold = Arc::new(Hold::default());
    *hold.changes.lock().unwrap() = changes.to_vec();
    let db = Db::builder("/db").create_if_missing(true).env(env);
    let db = db
        .no_info_log()
        .cf_options(cf)
        .compaction_filter(hold.clone());
    let db = db.listener(hold.clone()).set(own).unwrap().open().unwrap();
    assert!(hold.db.set(db.downgrade()).is_ok() && hold.executor.set(executor.clone()).is_ok());
    put_all(&db, 0);
    db.flush(true).unwrap();
    put_all(&db, 0);
    db.flush(true).unwrap();
    executor.run_until_idle();
    assert!(
        hold.was_held.load(Ordering::Relaxed),
        "nothing was compacted"
    );
    for _ in 0..2 {
        for key in 0..50u32 {
            let found = db.default_cf().get(key.to_be_bytes()).unwrap();
            assert_eq!(found.as_deref(), Some(format!("{FILES} {key}").as_bytes()));
        }
        db.verify_checksums().unwrap();
        executor.run_until_idle();
    }
    let seen = hold.seen.lock().unwrap().clone();
    db.close().unwrap();
    let (env, _, _) = Env::test(fs, 8);
    let db = Db::builder("/db").env(env).no_info_log().open().unwrap();
    let found = db.default_cf().get(7u32.to_be_bytes()).unwrap();
    assert_eq!(found.as_deref(), Some(format!("{FILES} 7").as_bytes()));
    seen
}

#[test]
fn files_that_come_beside_a_compaction_out_of_level_0_are_merged() {
    let seen = run("write_throttle_policy=smooth", &[]);
    assert_eq!(seen.files, ("7".to_string(), "3".to_string()), "{seen:?}");
    assert_eq!(seen.jobs, 1, "{seen:?}");
    assert_eq!(seen.begun[1], (0, "2".to_string()), "{seen:?}");
    assert!(seen.begun[0].0 > 0 && seen.begun[0].1 == "1", "{seen:?}");
}

#[test]
fn nothing_is_merged_beside_unless_policy_and_options_say_so() {
    let off = ("level0_merges_beside", "false");
    let by_hand = ("disable_auto_compactions", "true");
    let other = ("write_throttle_policy", "rocksdb");
    for (own, changes) in [
        ("write_throttle_policy=rocksdb", &[][..]),
        ("write_throttle_policy=two_stage", &[]),
        (
            "write_throttle_policy=smooth;level0_merges_beside=false",
            &[],
        ),
        ("write_throttle_policy=smooth", &[off]),
        ("write_throttle_policy=smooth", &[by_hand]),
        ("write_throttle_policy=smooth", &[other]),
    ] {
        let seen = run(own, changes);
        let files = (seen.files.0.as_str(), seen.files.1.as_str(), seen.jobs);
        assert_eq!(files, ("7", "7", 0), "{own} {changes:?}: {seen:?}");
    }
}

/// The slot counts for nothing else: a compaction at a time stays one beside it.
#[test]
fn the_policy_that_comes_later_has_the_slot_at_once() {
    let seen = run(
        "write_throttle_policy=rocksdb",
        &[("write_throttle_policy", "smooth")],
    );
    assert_eq!((seen.files.1.as_str(), seen.jobs), ("3", 1), "{seen:?}");
}
