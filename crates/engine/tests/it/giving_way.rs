//! `preemptible_compaction`: a compaction that holds the only thread lets flushes and compactions of level 0 go first.

use spanlith::listener::{CompactionInfo, EventListener, FlushInfo};
use spanlith::options::{CfOptions, CompressionType, OwnDbOptions};
use spanlith::{CompactionFilter, Db, FilterDecision, FilterValue, WeakDb};
use spanlith_env::{Env, ManualExecutor, MemFs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Describes what happened: a compaction by its number and the level that it begins at, or a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Begins(u64, usize),
    Ends(u64),
    Flushed,
}

/// Writes to its database while a compaction below level 0 runs, and notes what happens meanwhile.
#[derive(Default)]
struct Load {
    db: OnceLock<WeakDb>,
    /// Entries that are still to be written.
    left: AtomicUsize,
    seen: Mutex<Vec<Seen>>,
}

/// Entries written in one call of the filter, and different keys of them.
const AT_ONCE: usize = 40;
const KEYS: usize = 500;

impl CompactionFilter for Load {
    fn name(&self) -> &str {
        "test.Load"
    }

    fn filter(&self, level: usize, _: &[u8], _: FilterValue<'_>) -> FilterDecision {
        let left = self.left.load(Ordering::Relaxed);
        if level == 0 || left == 0 {
            return FilterDecision::Keep;
        }
        self.left.store(left - 1, Ordering::Relaxed);
        let db = self.db.get().and_then(WeakDb::upgrade).unwrap();
        for i in 0..AT_ONCE {
            let key = format!("z{:05}", (left * AT_ONCE + i) % KEYS);
            db.default_cf().put(key, [b'z'; 200]).unwrap();
        }
        FilterDecision::Keep
    }
}

impl EventListener for Load {
    fn on_compaction_begin(&self, info: &CompactionInfo) {
        let seen = Seen::Begins(info.job, info.base_input_level);
        self.seen.lock().unwrap().push(seen);
    }

    fn on_compaction_completed(&self, info: &CompactionInfo) {
        info.result.clone().unwrap();
        self.seen.lock().unwrap().push(Seen::Ends(info.job));
    }

    fn on_flush_completed(&self, _: &FlushInfo) {
        self.seen.lock().unwrap().push(Seen::Flushed);
    }
}

fn open(fs: &Arc<MemFs>, gives_way: bool, load: &Arc<Load>) -> (Db, Arc<ManualExecutor>) {
    let (env, executor, _) = Env::test(fs.clone(), 7);
    let cf = CfOptions::new()
        .write_buffer_size(64u64 << 10)
        .max_write_buffer_number(2)
        .target_file_size_base(32u64 << 10)
        .max_bytes_for_level_base(64u64 << 10)
        .level0_file_num_compaction_trigger(2)
        .level0_slowdown_writes_trigger(4)
        .level0_stop_writes_trigger(12)
        .compression(CompressionType::None);
    let db = Db::builder("/db")
        .create_if_missing(true)
        .env(env)
        .no_info_log()
        .cf_options(cf)
        .own(OwnDbOptions::new().preemptible_compaction(gives_way))
        .compaction_filter(load.clone())
        .listener(load.clone())
        .open()
        .unwrap();
    (db, executor)
}

/// Fills some levels, and lets the load go on in the next compactions below level 0; returns what happened within those.
fn run(gives_way: bool) -> Vec<Vec<Seen>> {
    let fs = Arc::new(MemFs::new());
    let load = Arc::new(Load::default());
    let (db, executor) = open(&fs, gives_way, &load);
    assert!(load.db.set(db.downgrade()).is_ok());
    let cf = db.default_cf();
    let value = |round: u32, i: u32| format!("{round}-{i}-{}", "v".repeat(180));
    for round in 0..6u32 {
        if round == 4 {
            load.seen.lock().unwrap().clear();
            load.left.store(120, Ordering::Relaxed);
        }
        for i in 0..2000u32 {
            let key = format!("a{:05}", i * 7919 % 2000);
            cf.put(key, value(round, i * 7919 % 2000)).unwrap();
        }
        db.flush(true).unwrap();
        executor.run_until_idle();
    }
    assert_eq!(
        load.left.load(Ordering::Relaxed),
        0,
        "no deep compaction ran"
    );
    for i in 0..2000u32 {
        let found = cf.get(format!("a{i:05}")).unwrap();
        assert_eq!(found.as_deref(), Some(value(5, i).as_bytes()));
    }
    for i in 0..KEYS {
        assert!(cf.get(format!("z{i:05}")).unwrap().is_some(), "z{i:05}");
    }
    db.verify_checksums().unwrap();
    let seen = load.seen.lock().unwrap().clone();
    drop(cf);
    db.close().unwrap();
    let (db, _) = open(&fs, gives_way, &Arc::default());
    let found = db.default_cf().get("a00000").unwrap();
    assert_eq!(found.as_deref(), Some(value(5, 0).as_bytes()));
    let deep = seen.iter().enumerate().filter_map(|(at, s)| match s {
        Seen::Begins(job, 1..) => Some((at, *job)),
        _ => None,
    });
    let within = deep.map(|(at, job)| {
        let inner = seen[at + 1..].iter().copied();
        inner.take_while(|&s| s != Seen::Ends(job)).collect()
    });
    within.collect()
}

/// R-SPAN-46, and the invariant of the pressures: while level 0 or the memtables press, a job that helps runs, although the only
/// thread is taken.
#[test]
fn a_deep_compaction_lets_flushes_and_level_0_go_first() {
    let within = run(true);
    let flushed = within.iter().flatten().filter(|&s| *s == Seen::Flushed);
    assert!(flushed.count() >= 4, "{within:?}");
    let upper = |s: &&Seen| matches!(s, Seen::Begins(_, 0));
    let begun: Vec<&Seen> = within.iter().flatten().filter(upper).collect();
    assert!(!begun.is_empty(), "{within:?}");
    for inner in &within {
        for s in inner {
            // Each ends within; only level 0 goes first, and one at a time.
            let Seen::Begins(job, level) = s else {
                continue;
            };
            assert_eq!(*level, 0, "{inner:?}");
            assert!(inner.contains(&Seen::Ends(*job)), "{inner:?}");
        }
    }
}

#[test]
fn nothing_goes_first_unless_the_option_says_so() {
    let within = run(false);
    assert!(!within.is_empty());
    assert!(within.iter().all(Vec::is_empty), "{within:?}");
}
