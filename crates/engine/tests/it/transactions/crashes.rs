//! Two-phase commit before power losses at every change of the file system, and beside calls that fail.

use super::{families, open_in, open_with, synced, text};
use crate::world::World;
use spanlith::options::{CompressionType, DbOptions};
use spanlith::{Cf, Db, ErrorKind, TxnOptions, TxnState, WriteOptions};
use spanlith_env::{Env, FaultRule, FsOp, MemFs, OpClass};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Describes what a database holds: values by family and key, and the updates of undecided transactions by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    values: BTreeMap<(usize, String), String>,
    prepared: BTreeMap<String, u32>,
}

fn look(db: &Db) -> State {
    let mut state = State::default();
    for (at, cf) in families(db).iter().enumerate() {
        for entry in cf.iter() {
            let (key, value) = entry.unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            state.values.insert((at, text(&key)), text(&value));
        }
    }
    for t in db.prepared_transactions().unwrap() {
        let name = String::from_utf8(t.name().to_vec()).unwrap();
        state.prepared.insert(name, t.batch().batch().count());
    }
    state
}

fn env_over(fs: MemFs) -> Env {
    let mut env = Env::system();
    env.fs = Arc::new(fs);
    env
}

/// A workload of steps; each is told the state after it.
struct Steps<'a> {
    db: &'a Db,
    cfs: [Cf; 2],
    reached: Arc<Mutex<Vec<State>>>,
    now: State,
}

impl Steps<'_> {
    /// Notes what comes next before it is begun: a power loss may find the one or the other.
    fn next(&mut self, change: impl FnOnce(&mut State)) {
        change(&mut self.now);
        self.reached.lock().unwrap().push(self.now.clone());
    }

    fn prepare(&mut self, name: &str, updates: &[(usize, &str, &str)]) -> spanlith::Transaction {
        let mut t = self.db.transaction_opt(TxnOptions::pessimistic(), synced());
        t.set_name(name.as_bytes()).unwrap();
        for (at, key, value) in updates {
            t.put(&self.cfs[*at], key, value).unwrap();
        }
        let count = updates.len() as u32;
        self.next(|s| {
            s.prepared.insert(name.into(), count);
        });
        t.prepare().unwrap();
        t
    }

    fn commit(&mut self, mut t: spanlith::Transaction, updates: &[(usize, &str, &str)]) {
        let name = String::from_utf8(t.name().to_vec()).unwrap();
        self.next(|s| {
            s.prepared.remove(&name);
            for (at, key, value) in updates {
                s.values.insert((*at, (*key).into()), (*value).into());
            }
        });
        t.commit().unwrap();
    }

    fn put(&mut self, at: usize, key: &str, value: &str) {
        self.next(|s| drop(s.values.insert((at, key.into()), value.into())));
        self.cfs[at].put_opt(key, value, &synced()).unwrap();
    }

    fn flush(&self, at: usize) {
        self.cfs[at].flush(true).unwrap();
    }
}

const A: [(usize, &str, &str); 2] = [(0, "a", "1"), (1, "a", "1")];
const B: [(usize, &str, &str); 1] = [(1, "b", "2")];
const C: [(usize, &str, &str); 2] = [(0, "c", "3"), (0, "a", "3")];

/// Prepared in one log and committed in another, with flushes of either family between, before and after.
fn workload(steps: &mut Steps<'_>) {
    steps.put(0, "k", "0");
    let a = steps.prepare("ta", &A);
    steps.flush(0);
    let b = steps.prepare("tb", &B);
    steps.put(1, "k", "0");
    steps.flush(1);
    steps.commit(a, &A);
    // The log of `ta` is needed until both families are in tables.
    steps.flush(0);
    steps.put(0, "k", "1");
    steps.flush(0);
    let c = steps.prepare("tc", &C);
    steps.flush(1);
    steps.put(1, "l", "1");
    steps.flush(1);
    // Nobody holds it: it stays.
    drop(b);
    steps.commit(c, &C);
    steps.flush(0);
    steps.put(0, "m", "1");
    steps.flush(0);
    let mut found = steps.db.prepared_transactions().unwrap();
    assert_eq!(found.len(), 1);
    let mut b = found.pop().unwrap();
    b.write_options_mut().sync = true;
    steps.commit(b, &B);
    let mut d = steps.prepare("td", &A);
    steps.flush(1);
    steps.next(|s| {
        s.prepared.remove("td");
    });
    d.rollback().unwrap();
    steps.put(1, "z", "1");
    steps.flush(1);
    steps.flush(0);
}

#[test]
fn what_was_prepared_or_committed_outlives_every_power_loss() {
    for options in [
        DbOptions::new(),
        DbOptions::new().recycle_log_file_num(2u64),
        DbOptions::new().atomic_flush(true),
        DbOptions::new().wal_compression(CompressionType::Zstd),
    ] {
        lose_power(&options);
    }
}

fn lose_power(options: &DbOptions) {
    let w = World::new(1);
    let db = open_with("/db", &w.env, options.clone());
    let reached = Arc::new(Mutex::new(vec![State::default()]));
    let images = Arc::new(Mutex::new(Vec::new()));
    {
        let (images, reached, of) = (images.clone(), reached.clone(), w.mem.clone());
        let observer = move |_: &FsOp| {
            let now = reached.lock().unwrap().len();
            // The least that is durable, and all that was written.
            for keeps_all in [false, true] {
                let image = of.crash_clone(&mut |n| if keeps_all { n - 1 } else { 0 });
                images.lock().unwrap().push((now, image));
            }
        };
        w.mem.set_observer(Some(Arc::new(observer)));
    }
    let mut steps = Steps {
        db: &db,
        cfs: families(&db),
        reached: reached.clone(),
        now: State::default(),
    };
    workload(&mut steps);
    w.mem.set_observer(None);
    let reached = reached.lock().unwrap().clone();
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 200, "{}", images.len());
    for (at, (now, image)) in images.into_iter().enumerate() {
        let db = open_with("/db", &env_over(image), options.clone());
        let found = look(&db);
        // All that had returned, and perhaps what was under way.
        let allowed = &reached[now.saturating_sub(2)..now];
        assert!(
            allowed.contains(&found),
            "image {at} of step {now}: {found:?}, not {allowed:?}"
        );
        // Opened once more it is the same: recovery leaves what is undecided where it finds it.
        drop(db);
    }
    let last = reached.last().unwrap();
    assert_eq!(look(&db), *last);
}

/// The log fails under the commit of one of three transactions, or under a plain write, and the database resumes. Before
/// every change that makes, and after all: what was acknowledged is there, and each transaction once, prepared
/// or committed.
#[test]
fn a_resume_beside_prepared_transactions_outlives_every_power_loss() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    for fails_commit in [true, false] {
        let w = World::new(1);
        let db = open_in(&w.env);
        let cf = db.default_cf();
        let prepare = |name: &str| {
            let mut t = db.transaction_opt(TxnOptions::pessimistic(), synced());
            t.set_name(name.as_bytes()).unwrap();
            t.merge(&cf, format!("of {name}"), "v").unwrap();
            t.prepare().unwrap();
            cf.put_opt(format!("behind {name}"), "1", &synced())
                .unwrap();
            t
        };
        // Not in the order of their names.
        let mut all = ["b", "c", "a"].map(prepare);
        let rule = w.fs.add(FaultRule::fail(OpClass::Sync, 1, 5).named(".log"));
        let failed = match fails_commit {
            true => all[1].commit(),
            false => cf.put_opt("fails", "1", &synced()),
        };
        failed.unwrap_err();
        w.fs.remove(rule);
        let images = Arc::new(Mutex::new(Vec::new()));
        let (seen, of) = (images.clone(), w.mem.clone());
        let observer = move |_: &FsOp| {
            let mut seen = seen.lock().unwrap();
            seen.push(of.crash_clone(&mut |_| 0));
            seen.push(of.crash_clone(&mut |n| n - 1));
        };
        w.mem.set_observer(Some(Arc::new(observer)));
        db.resume().unwrap();
        w.mem.set_observer(None);
        let mut images = std::mem::take(&mut *images.lock().unwrap());
        images.push(w.mem.crash_clone(&mut |_| 0));
        assert!(images.len() > 20, "{}", images.len());
        let mut committed = 0;
        for (at, image) in images.into_iter().enumerate() {
            let db = open_in(&env_over(image));
            let found = look(&db);
            for name in ["a", "b", "c"] {
                let is = |key: String| found.values.contains_key(&(0, key));
                assert!(is(format!("behind {name}")), "image {at}: {found:?}");
                let is_committed = is(format!("of {name}"));
                let is_prepared = found.prepared.contains_key(name);
                assert!(is_committed != is_prepared, "image {at}, {name}: {found:?}");
                committed += usize::from(is_committed);
                assert!(!is_committed || (fails_commit && name == "c"));
            }
        }
        assert_eq!(committed > 0, fails_commit, "its record was in the log");
        // All are decided about as if nothing had been.
        all.iter_mut().for_each(|t| t.commit().unwrap());
        let last = look(&open_in(&env_over(w.mem.crash_clone(&mut |_| 0))));
        assert!(last.prepared.is_empty(), "{last:?}");
        assert!(
            ["a", "b", "c"]
                .iter()
                .all(|n| last.values[&(0, format!("of {n}"))] == "v")
        );
    }
}

#[test]
fn logs_go_when_what_was_prepared_in_them_is_in_tables() {
    let w = World::new(1);
    let db = open_in(&w.env);
    let [first, other] = families(&db);
    let mut t = db.transaction_opt(TxnOptions::pessimistic(), WriteOptions::new());
    t.set_name(b"t").unwrap();
    t.put(&other, "k", "v").unwrap();
    t.prepare().unwrap();
    let logs = || {
        let logs = db.log_files().unwrap();
        logs.into_iter()
            .filter(|l| !l.is_archived)
            .map(|l| l.number)
            .collect::<Vec<_>>()
    };
    let oldest = logs()[0];
    for round in 0..3 {
        for cf in [&first, &other] {
            cf.put(format!("{round}"), "v").unwrap();
            cf.flush(true).unwrap();
        }
        assert_eq!(logs()[0], oldest, "round {round}");
    }
    t.commit().unwrap();
    first.put("x", "v").unwrap();
    first.flush(true).unwrap();
    assert_eq!(logs()[0], oldest, "its entries are in no table yet");
    other.flush(true).unwrap();
    assert!(logs().iter().all(|&n| n > oldest), "{:?}", logs());
}

/// The log in which a committed transaction was prepared is let go of like any other log when logs are too large; while it is
/// undecided, nobody is flushed in vain.
#[test]
fn logs_that_are_too_large_are_let_go_of_once_it_is_decided() {
    let w = World::new(1);
    let options = DbOptions::new().max_total_wal_size(20_000u64);
    let db = open_with("/db", &w.env, options);
    let [first, other] = families(&db);
    let mut t = db.transaction_opt(TxnOptions::pessimistic(), WriteOptions::new());
    t.set_name(b"t").unwrap();
    t.put(&other, "k", "v").unwrap();
    t.prepare().unwrap();
    let oldest = || {
        let logs = db.log_files().unwrap();
        logs.iter()
            .filter(|l| !l.is_archived)
            .map(|l| l.number)
            .min()
    };
    let prepared_in = oldest().unwrap();
    // Another log, that holds the commit.
    for cf in [&first, &other] {
        cf.put("x", "v").unwrap();
        cf.flush(true).unwrap();
    }
    t.commit().unwrap();
    assert_eq!(oldest(), Some(prepared_in));
    for n in 0..200 {
        first.put(format!("{n}"), [b'v'; 200]).unwrap();
        w.executor.jobs.run_until_idle();
    }
    assert!(oldest() > Some(prepared_in), "{:?}", oldest());
    assert_eq!(other.get("k").unwrap().as_deref(), Some(&b"v"[..]));
}

/// A prepare or a commit that fails has no effect that the caller is not told of.
#[test]
fn steps_whose_calls_fail_are_undecided_or_nothing() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    for which in 0..2 {
        for sync in [false, true] {
            let w = World::new(1);
            let db = open_in(&w.env);
            let cf = db.default_cf();
            let mut t =
                db.transaction_opt(TxnOptions::pessimistic(), WriteOptions::new().sync(sync));
            t.set_name(b"t").unwrap();
            t.put(&cf, "k", "v").unwrap();
            let fails = || {
                let class = if sync { OpClass::Sync } else { OpClass::Append };
                let rule = FaultRule::fail(class, 1, 5).named(".log");
                w.fs.add(rule)
            };
            if which == 0 {
                let rule = fails();
                let e = t.prepare().unwrap_err();
                assert_eq!(e.kind(), ErrorKind::Io, "{e}");
                assert_eq!(t.state(), TxnState::Started);
                w.fs.remove(rule);
                db.resume().unwrap();
                assert!(db.prepared_transactions().unwrap().is_empty());
                t.prepare().unwrap();
            } else {
                t.prepare().unwrap();
                let rule = fails();
                let e = t.commit().unwrap_err();
                assert_eq!(e.kind(), ErrorKind::Io, "{e}");
                assert_eq!(t.state(), TxnState::Prepared);
                w.fs.remove(rule);
                db.resume().unwrap();
                assert_eq!(cf.get("k").unwrap(), None);
            }
            // The section was written again into the log that took the place of the one that failed.
            let image = w.mem.crash_clone(&mut |n| n - 1);
            let again = open_in(&env_over(image));
            let found = again.prepared_transactions().unwrap();
            assert_eq!(found.len(), 1, "{which} {sync}");
            t.commit().unwrap();
            assert_eq!(cf.get("k").unwrap().as_deref(), Some(&b"v"[..]));
            assert_eq!(
                text(&t.commit().unwrap_err()),
                "Invalid argument: Transaction has already been committed."
            );
        }
    }
}
