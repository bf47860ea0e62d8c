//! Transactions against a model, before power losses, and among threads (R-BASE-23, R-SPAN-20).

use crate::world::World;
use spanlith::{
    BottommostCompaction, Cf, CompactRangeOptions, Db, ErrorKind, FamilyOptions, LockMode,
    LockOptions, ReadOptions, StringAppend, SubCode, Transaction, TxnOptions, TxnState,
    WriteOptions,
};
use spanlith_env::Env;
use spanlith_testkit::{Rng, seed, test_name};
use spanlith_wal::BatchOp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

mod crashes;
mod threads;

const NAMES: [&str; 2] = ["default", "other"];

fn open_in(env: &Env) -> Db {
    open_at("/db", env)
}

fn open_at(dir: &str, env: &Env) -> Db {
    let options = spanlith::options::DbOptions::new()
        .allow_2pc(true)
        .create_if_missing(true)
        .create_missing_column_families(true);
    let mut builder = Db::builder(dir)
        .options(options)
        .env(env.clone())
        .no_info_log();
    for name in NAMES {
        let family = FamilyOptions::new(name).merge_operator(Arc::new(StringAppend::new(b",")));
        builder = builder.family(family);
    }
    builder.open().unwrap()
}

fn families(db: &Db) -> [Cf; 2] {
    NAMES.map(|name| db.cf(name).unwrap())
}

fn synced() -> WriteOptions {
    WriteOptions::new().sync(true)
}

fn text(e: &spanlith::Error) -> String {
    e.to_string()
}

// ---- A model

type Key = (usize, u8);
type Contents = BTreeMap<Key, Vec<u8>>;

#[derive(Clone, Debug)]
enum Update {
    Put(Vec<u8>),
    Delete,
    Merge(Vec<u8>),
}

impl Update {
    fn apply(&self, to: &mut Contents, key: Key) {
        match self {
            Self::Put(v) => drop(to.insert(key, v.clone())),
            Self::Delete => drop(to.remove(&key)),
            Self::Merge(v) => {
                let new = match to.get(&key) {
                    Some(old) => [old, &b","[..], v].concat(),
                    None => v.clone(),
                };
                to.insert(key, new);
            }
        }
    }
}

#[derive(Default)]
struct Point {
    updates: usize,
    snapshot: Option<u64>,
    keys: Vec<Key>,
}

/// A transaction and what it should be.
struct Both {
    real: Transaction,
    optimistic: bool,
    updates: Vec<(Key, Update)>,
    snapshot: Option<u64>,
    tracked: BTreeMap<Key, (u64, bool)>,
    points: Vec<Point>,
    named: Option<String>,
    /// Updates it was prepared with; what comes later is there only if it is committed.
    sealed: usize,
}

/// What everybody should see.
#[derive(Default)]
struct Model {
    contents: Contents,
    /// When each key was written last.
    written: BTreeMap<Key, u64>,
    /// Holders of locks by their numbers, and whether one holds it alone.
    locks: BTreeMap<Key, (BTreeSet<u64>, bool)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Blocked,
    Conflict,
}

impl Model {
    fn commit(&mut self, updates: &[(Key, Update)], now: u64) {
        for (key, update) in updates {
            update.apply(&mut self.contents, *key);
            self.written.insert(*key, now);
        }
    }

    fn unlock(&mut self, id: u64, key: Key) {
        if let Some(lock) = self.locks.get_mut(&key) {
            lock.0.remove(&id);
            if lock.0.is_empty() {
                self.locks.remove(&key);
            }
        }
    }

    fn is_written_since(&self, key: Key, seen: u64) -> bool {
        self.written.get(&key).is_some_and(|&at| at > seen)
    }

    /// What locking or noting a key comes to.
    fn track(&mut self, t: &mut Both, key: Key, alone: bool, now: u64) -> Outcome {
        let known = t.tracked.get(&key).copied();
        let mut seen = known.map_or(u64::MAX, |k| k.0);
        if t.optimistic {
            seen = seen.min(t.snapshot.unwrap_or(now));
        } else {
            let id = t.real.id();
            let is_upgrade = known.is_some_and(|k| !k.1) && alone;
            if known.is_none() || is_upgrade {
                let lock = self.locks.entry(key).or_default();
                let others = lock.0.iter().any(|&o| o != id);
                if others && (lock.1 || alone) {
                    return Outcome::Blocked;
                }
                lock.0.insert(id);
                lock.1 = alone;
            }
            match t.snapshot {
                Some(snapshot) if seen > snapshot => {
                    seen = snapshot;
                    if self.is_written_since(key, snapshot) {
                        if is_upgrade {
                            self.locks.get_mut(&key).unwrap().1 = false;
                        } else if known.is_none() {
                            self.unlock(id, key);
                        }
                        return Outcome::Conflict;
                    }
                }
                Some(_) => {}
                None => seen = seen.min(now),
            }
        }
        let alone = alone || known.is_some_and(|k| k.1) || t.optimistic;
        if t.tracked.insert(key, (seen, alone)).is_none()
            && let Some(point) = t.points.last_mut()
        {
            point.keys.push(key);
        }
        Outcome::Done
    }
}

fn outcome<T>(result: &spanlith::Result<T>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done,
        Err(e) if e.subcode() == Some(SubCode::LockTimeout) => {
            assert_eq!(text(e), "Operation timed out: Timeout waiting to lock key");
            Outcome::Blocked
        }
        Err(e) if e.kind() == ErrorKind::Busy => {
            assert_eq!(text(e), "Resource busy: ");
            Outcome::Conflict
        }
        Err(e) => panic!("{e}"),
    }
}

struct Run {
    env: Env,
    db: Option<Db>,
    cfs: Vec<Cf>,
    open: Vec<Both>,
    model: Model,
    /// Updates of transactions that are prepared and held by nobody, by name.
    prepared: BTreeMap<String, Vec<(Key, Update)>>,
    rng: Rng,
    names: u32,
    what: Vec<String>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let w = World::new(seed);
        let db = open_in(&w.env);
        Self {
            cfs: families(&db).into(),
            db: Some(db),
            env: w.env,
            open: Vec::new(),
            model: Model::default(),
            prepared: BTreeMap::new(),
            rng: Rng::new(seed),
            names: 0,
            what: Vec::new(),
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn now(&self) -> u64 {
        self.db().latest_sequence_number()
    }

    fn key(&mut self) -> Key {
        (self.rng.below(2) as usize, b'a' + self.rng.below(6) as u8)
    }

    fn value(&mut self) -> Vec<u8> {
        let digit = b'0' + self.rng.below(10) as u8;
        vec![digit; 1 + self.rng.below(3) as usize]
    }

    fn check_contents(&self) {
        for (at, cf) in self.cfs.iter().enumerate() {
            let real: Vec<_> = cf.iter().map(|e| e.unwrap()).collect();
            let mine = self.model.contents.iter().filter(|e| e.0.0 == at);
            let mine: Vec<_> = mine.map(|(k, v)| (vec![k.1], v.clone())).collect();
            let real: Vec<_> = real.iter().map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
            assert_eq!(real, mine, "family {at}");
        }
    }

    fn begin(&mut self) {
        let optimistic = self.rng.one_in(2);
        let options = match optimistic {
            true => TxnOptions::optimistic(),
            false => TxnOptions::pessimistic().lock_timeout(0),
        };
        let snapshot = self.rng.below(3) == 0;
        let real = self
            .db()
            .transaction_opt(options.set_snapshot(snapshot), synced());
        let snapshot = snapshot.then(|| self.now());
        let n = self.open.len();
        self.what.push(format!(
            "{n}: begin, optimistic {optimistic}, snapshot {snapshot:?}"
        ));
        self.open.push(Both {
            real,
            optimistic,
            updates: Vec::new(),
            snapshot,
            tracked: BTreeMap::new(),
            points: Vec::new(),
            named: None,
            sealed: 0,
        });
    }

    fn is_prepared(&self, at: usize) -> bool {
        self.open[at].real.state() == TxnState::Prepared
    }

    fn write(&mut self, at: usize) {
        let (key, value) = (self.key(), self.value());
        let update = match self.rng.below(4) {
            0 => Update::Delete,
            1 => Update::Merge(value),
            _ => Update::Put(value),
        };
        self.what.push(format!("{at}: {update:?} {key:?}"));
        let now = self.now();
        let cf = &self.cfs[key.0];
        let t = &mut self.open[at];
        let real = match &update {
            Update::Put(v) => t.real.put(cf, [key.1], v),
            Update::Delete => t.real.delete(cf, [key.1]),
            Update::Merge(v) => t.real.merge(cf, [key.1], v),
        };
        let mine = self.model.track(t, key, true, now);
        assert_eq!(outcome(&real), mine);
        if mine == Outcome::Done {
            t.updates.push((key, update));
        }
    }

    fn read(&mut self, at: usize) {
        let key = self.key();
        if self.rng.one_in(4) {
            return self.walk(at);
        }
        let for_update = self.rng.one_in(2);
        let alone = self.rng.one_in(2);
        self.what
            .push(format!("{at}: read {key:?} {for_update} {alone}"));
        let now = self.now();
        let cf = &self.cfs[key.0];
        let t = &mut self.open[at];
        let found = if for_update {
            let mode = match alone {
                true => LockMode::Exclusive,
                false => LockMode::Shared,
            };
            let found = t
                .real
                .get_for_update_opt(cf, [key.1], &ReadOptions::default(), mode);
            let mine = self.model.track(t, key, alone, now);
            assert_eq!(outcome(&found), mine);
            if mine != Outcome::Done {
                return;
            }
            found.unwrap()
        } else {
            t.real.get(cf, [key.1]).unwrap()
        };
        let mut seen = self.model.contents.clone();
        for (key, update) in &t.updates {
            update.apply(&mut seen, *key);
        }
        assert_eq!(found.as_deref(), seen.get(&key).map(|v| &v[..]));
    }

    /// Looks at all that a transaction sees, forwards and backwards.
    fn walk(&mut self, at: usize) {
        let family = self.rng.below(2) as usize;
        let t = &self.open[at];
        let mut seen = self.model.contents.clone();
        for (key, update) in &t.updates {
            update.apply(&mut seen, *key);
        }
        let mine = seen.into_iter().filter(|e| e.0.0 == family);
        let mine: Vec<_> = mine.map(|(k, v)| (vec![k.1], v)).collect();
        let cf = &self.cfs[family];
        let real: Vec<_> = t.real.iter(cf).map(Result::unwrap).collect();
        assert_eq!(real, mine);
        let mut cursor = t.real.cursor(cf, ReadOptions::default());
        let mut back = Vec::new();
        let mut stands = cursor.last().unwrap();
        while stands {
            let (key, value) = cursor.entry().unwrap();
            back.push((key.to_vec(), value.to_vec()));
            stands = cursor.prev().unwrap();
        }
        back.reverse();
        assert_eq!(back, mine);
    }

    fn save_point(&mut self, at: usize) {
        if self.is_prepared(at) {
            return;
        }
        let t = &mut self.open[at];
        let which = self.rng.below(4);
        self.what.push(format!("{at}: save point {which}"));
        match which {
            0 | 1 => {
                t.real.set_savepoint();
                t.points.push(Point {
                    updates: t.updates.len(),
                    snapshot: t.snapshot,
                    keys: Vec::new(),
                });
            }
            2 => match t.points.pop() {
                None => assert_eq!(
                    text(&t.real.rollback_to_savepoint().unwrap_err()),
                    "NotFound: "
                ),
                Some(point) => {
                    t.real.rollback_to_savepoint().unwrap();
                    t.updates.truncate(point.updates);
                    t.snapshot = point.snapshot;
                    for key in point.keys {
                        t.tracked.remove(&key);
                        if !t.optimistic {
                            self.model.unlock(t.real.id(), key);
                        }
                    }
                }
            },
            _ => match t.points.pop() {
                None => assert_eq!(text(&t.real.pop_savepoint().unwrap_err()), "NotFound: "),
                Some(point) => {
                    t.real.pop_savepoint().unwrap();
                    if let Some(below) = t.points.last_mut() {
                        below.keys.extend(point.keys);
                    }
                }
            },
        }
    }

    fn snapshot(&mut self, at: usize) {
        let now = self.now();
        let t = &mut self.open[at];
        if self.rng.one_in(2) {
            t.real.set_snapshot();
            t.snapshot = Some(now);
        } else {
            t.real.clear_snapshot();
            t.snapshot = None;
        }
        self.what.push(format!("{at}: snapshot {:?}", t.snapshot));
        assert_eq!(t.real.snapshot().map(|s| s.seqno()), t.snapshot);
    }

    /// Forgets a transaction as it ends.
    fn ended(&mut self, at: usize) -> Both {
        let t = self.open.swap_remove(at);
        for key in t.tracked.keys() {
            if !t.optimistic {
                self.model.unlock(t.real.id(), *key);
            }
        }
        t
    }

    fn commit(&mut self, at: usize) {
        self.what.push(format!("{at}: commit"));
        let t = &mut self.open[at];
        let has_conflict = t.optimistic
            && t.tracked
                .iter()
                .any(|(k, v)| self.model.is_written_since(*k, v.0));
        let real = t.real.commit();
        if has_conflict {
            assert_eq!(outcome(&real), Outcome::Conflict);
            t.real.rollback().unwrap();
            drop(self.ended(at));
            return;
        }
        real.unwrap();
        let t = self.ended(at);
        let now = self.now();
        self.model.commit(&t.updates, now);
        self.check_contents();
    }

    fn roll_back(&mut self, at: usize) {
        self.what.push(format!("{at}: rollback"));
        let t = &mut self.open[at];
        let is_prepared = t.real.state() == TxnState::Prepared;
        if self.rng.one_in(2) {
            t.real.rollback().unwrap();
            self.ended(at);
        } else {
            // Dropped: what is prepared stays.
            let t = self.ended(at);
            if is_prepared {
                self.prepared
                    .insert(t.named.clone().unwrap(), t.updates[..t.sealed].to_vec());
            }
        }
    }

    fn prepare(&mut self, at: usize) {
        if self.open[at].optimistic || self.is_prepared(at) {
            return;
        }
        let name = format!("t{}", self.names);
        self.names += 1;
        self.what.push(format!("{at}: prepare {name}"));
        let t = &mut self.open[at];
        if t.named.is_none() {
            t.real.set_name(name.as_bytes()).unwrap();
            t.named = Some(name);
        }
        t.real.prepare().unwrap();
        t.sealed = t.updates.len();
        assert_eq!(t.real.state(), TxnState::Prepared);
    }

    /// Decides about what nobody holds.
    fn decide(&mut self) {
        let found = self.db().prepared_transactions().unwrap();
        let names: Vec<_> = found
            .iter()
            .map(|t| String::from_utf8_lossy(t.name()).into_owned())
            .collect();
        let mine: Vec<_> = self.prepared.keys().cloned().collect();
        assert_eq!(names, mine);
        for mut t in found {
            let name = String::from_utf8_lossy(t.name()).into_owned();
            match self.rng.below(3) {
                0 => {
                    self.what.push(format!("commit of {name}"));
                    t.commit().unwrap();
                    let updates = self.prepared.remove(&name).unwrap();
                    let now = self.now();
                    self.model.commit(&updates, now);
                }
                1 => {
                    self.what.push(format!("rollback of {name}"));
                    t.rollback().unwrap();
                    self.prepared.remove(&name);
                }
                _ => {}
            }
        }
        self.check_contents();
    }

    fn plain_write(&mut self) {
        let (key, value) = (self.key(), self.value());
        let cf = &self.cfs[key.0];
        if self.rng.one_in(2) {
            self.what.push(format!("put {key:?}"));
            cf.put_opt([key.1], &value, &synced()).unwrap();
        } else {
            self.what.push(format!("locked put {key:?}"));
            let real = cf.put_locked(&[key.1], &value, &synced());
            let is_locked = self.model.locks.contains_key(&key);
            assert_eq!(outcome(&real) == Outcome::Blocked, is_locked);
            if is_locked {
                return;
            }
        }
        let now = self.now();
        self.model.commit(&[(key, Update::Put(value))], now);
    }

    fn reopen(&mut self) {
        self.what.push("reopen".into());
        for t in std::mem::take(&mut self.open) {
            if t.real.state() == TxnState::Prepared {
                self.prepared
                    .insert(t.named.clone().unwrap(), t.updates[..t.sealed].to_vec());
            }
        }
        self.model.locks.clear();
        self.cfs.clear();
        let db = self.db.take().unwrap();
        if self.rng.one_in(2) {
            db.close().unwrap();
        } else {
            drop(db);
        }
        let db = open_in(&self.env);
        set_timeouts(&db);
        self.cfs = families(&db).into();
        self.db = Some(db);
        self.check_contents();
    }

    fn step(&mut self) {
        let choice = self.rng.below(100);
        let at = match self.open.len() {
            0 => None,
            n => Some(self.rng.below(n as u64) as usize),
        };
        match (choice, at) {
            (0..=12, _) if self.open.len() < 4 => self.begin(),
            (13..=45, Some(at)) => self.write(at),
            (46..=62, Some(at)) => self.read(at),
            (63..=70, Some(at)) => self.save_point(at),
            (71..=73, Some(at)) => self.snapshot(at),
            (74..=79, Some(at)) => self.commit(at),
            (80..=81, Some(at)) => self.roll_back(at),
            (82..=85, Some(at)) => self.prepare(at),
            (86..=93, _) => self.plain_write(),
            (94..=95, _) => {
                self.what.push("flush".into());
                let cf = self.cfs[self.rng.below(2) as usize].clone();
                cf.flush(true).unwrap();
            }
            (96, _) => {
                self.what.push("compact".into());
                let cf = self.cfs[self.rng.below(2) as usize].clone();
                cf.compact_range(None, None).unwrap();
            }
            (97..=98, _) => self.decide(),
            (99, _) if self.rng.below(3) == 0 => self.reopen(),
            _ => {}
        }
    }
}

fn set_timeouts(db: &Db) {
    let mut options = LockOptions::default();
    options.default_lock_timeout = 0;
    db.set_lock_options(options).unwrap();
}

#[test]
fn transactions_do_what_a_model_says() {
    let from = seed(test_name!());
    for seed in from..from + 40 {
        let mut run = Run::new(seed);
        set_timeouts(run.db());
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..400).for_each(|_| run.step());
        }));
        if let Err(e) = done {
            let last = run.what.len().saturating_sub(60);
            eprintln!("seed {seed}:\n{}", run.what[last..].join("\n"));
            std::panic::resume_unwind(e);
        }
    }
}

// ---- Single rules

fn fresh(seed: u64) -> (World, Db, [Cf; 2]) {
    let w = World::new(seed);
    let db = open_in(&w.env);
    let cfs = families(&db);
    (w, db, cfs)
}

/// A put and a single delete behind what was seen cancel each other in a flush, and a deletion of nothing goes at the
/// bottom: both were writes.
#[test]
fn writes_that_leave_nothing_are_conflicts() {
    for optimistic in [false, true] {
        let (_, db, [cf, _]) = fresh(1);
        cf.put("a", "1").unwrap();
        cf.put("z", "1").unwrap();
        cf.flush(true).unwrap();
        let options = match optimistic {
            true => TxnOptions::optimistic(),
            false => TxnOptions::pessimistic().set_snapshot(true),
        };
        let begin = || {
            let mut t = db.transaction(options);
            if optimistic {
                for key in ["once", "gone", "range"] {
                    t.get_for_update(&cf, key).unwrap();
                }
            }
            t
        };
        let (mut by_single, mut by_delete, mut by_range) = (begin(), begin(), begin());
        cf.put("once", "1").unwrap();
        cf.single_delete_opt("once", &WriteOptions::new()).unwrap();
        cf.delete("gone").unwrap();
        cf.delete_range("r", "s").unwrap();
        cf.flush(true).unwrap();
        cf.compact_range(None, None).unwrap();
        for (t, key) in [
            (&mut by_single, "once"),
            (&mut by_delete, "gone"),
            (&mut by_range, "range"),
        ] {
            let done = t.put(&cf, key, "2").and_then(|()| t.commit());
            assert_eq!(
                text(&done.unwrap_err()),
                "Resource busy: ",
                "{key} {optimistic}"
            );
        }
        drop((by_single, by_delete, by_range));
        // Nobody looks for them any more.
        let mut all = CompactRangeOptions::default();
        all.bottommost = BottommostCompaction::Force;
        cf.compact_range_opt(None, None, &all).unwrap();
        let left = cf.live_files();
        let deletions: u64 = left.iter().map(|f| f.deletions).sum();
        assert_eq!(deletions, 0, "{left:?}");
    }
}

#[test]
fn names_and_states_are_those_of_rocksdb() {
    let (w, db, [cf, _]) = fresh(1);
    let mut t = db.transaction(TxnOptions::pessimistic());
    let bad = |r: spanlith::Result<()>| text(&r.unwrap_err());
    assert_eq!(
        bad(t.prepare()),
        "Invalid argument: Cannot prepare a transaction that has not been named."
    );
    let want = "Invalid argument: Transaction name length must be between 1 and 512 chars.";
    assert_eq!(bad(t.set_name(b"")), want);
    assert_eq!(bad(t.set_name(&[b'x'; 513])), want);
    t.set_name(b"n1").unwrap();
    assert_eq!(
        bad(t.set_name(b"n2")),
        "Invalid argument: Transaction has already been named."
    );
    let mut u = db.transaction(TxnOptions::pessimistic());
    assert_eq!(
        bad(u.set_name(b"n1")),
        "Invalid argument: Duplicate txn name n1"
    );
    let mut o = db.transaction(TxnOptions::optimistic());
    assert_eq!(
        bad(o.set_name(b"o")),
        "Invalid argument: Optimistic transactions cannot be named."
    );
    assert_eq!(
        bad(o.prepare()),
        "Invalid argument: Two phase commit not supported for optimistic transactions."
    );
    t.put(&cf, "k", "v").unwrap();
    t.prepare().unwrap();
    assert_eq!(
        bad(t.prepare()),
        "Invalid argument: Transaction has already been prepared."
    );
    // Its locks are kept until it is decided.
    let late = cf.put_locked(b"k", b"w", &WriteOptions::new());
    assert_eq!(
        bad(late),
        "Operation timed out: Timeout waiting to lock key"
    );
    t.commit().unwrap();
    assert_eq!(
        bad(t.commit()),
        "Invalid argument: Transaction has already been committed."
    );
    assert_eq!(
        bad(t.rollback()),
        "Invalid argument: This transaction has already been committed."
    );
    cf.put_locked(b"k", b"w", &WriteOptions::new()).unwrap();
    u.set_name(b"n1").unwrap();
    let mut unprepared = db.transaction(TxnOptions::pessimistic().skip_prepare(false));
    assert_eq!(
        bad(unprepared.commit()),
        "Invalid argument: Txn not prepared"
    );
    // Nothing of it is in a log that is needed.
    db.flush(true).unwrap();
    drop((t, u, o, unprepared, cf, db));
    let options = spanlith::options::DbOptions::new().create_missing_column_families(true);
    let plain = Db::builder("/db")
        .options(options)
        .env(w.env.clone())
        .no_info_log();
    let plain = plain.family(FamilyOptions::new("other")).open().unwrap();
    let mut t = plain.transaction(TxnOptions::pessimistic());
    t.set_name(b"n").unwrap();
    assert_eq!(
        bad(t.prepare()),
        "Invalid argument: Two-phase commit needs a database that was opened with allow_2pc"
    );
}

#[test]
fn commit_time_updates_come_first_and_only_with_a_prepared_transaction() {
    let (w, db, [cf, _]) = fresh(1);
    let mut t = db.transaction_opt(TxnOptions::pessimistic(), synced());
    t.put(&cf, "k", "own").unwrap();
    t.commit_time_batch().put(b"k", b"late").unwrap();
    t.commit_time_batch().put(b"l", b"late").unwrap();
    assert_eq!(
        text(&t.commit().unwrap_err()),
        "Invalid argument: Commit-time batch contains values that will not be committed."
    );
    t.set_name(b"n").unwrap();
    t.prepare().unwrap();
    t.commit().unwrap();
    let check = |cf: &Cf| {
        assert_eq!(cf.get("k").unwrap().as_deref(), Some(&b"own"[..]));
        assert_eq!(cf.get("l").unwrap().as_deref(), Some(&b"late"[..]));
    };
    check(&cf);
    let mut env = Env::system();
    env.fs = Arc::new(w.mem.crash_clone(&mut |_| 0));
    check(&open_in(&env).default_cf());
}

#[test]
fn limits_refuse_and_change_nothing() {
    let (_, db, [cf, other]) = fresh(1);
    let mut options = LockOptions::default();
    options.max_num_locks = 2;
    options.default_lock_timeout = 0;
    db.set_lock_options(options).unwrap();
    assert!(db.set_lock_options(options).is_err());
    let mut t = db.transaction(TxnOptions::pessimistic());
    t.put(&cf, "a", "1").unwrap();
    t.put(&cf, "b", "1").unwrap();
    t.put(&other, "c", "1").unwrap();
    let full = t.put(&cf, "c", "1").unwrap_err();
    assert_eq!(
        text(&full),
        "Operation aborted: Failed to acquire lock due to max_num_locks limit"
    );
    assert_eq!(t.batch().batch().count(), 3);
    t.rollback().unwrap();
    t.put(&cf, "c", "1").unwrap();
    t.commit().unwrap();
    let mut small = TxnOptions::pessimistic();
    small.max_write_batch_size = 40;
    let mut t = db.transaction(small);
    t.put(&cf, "k", "1").unwrap();
    let full = t
        .put(&cf, "l", "0123456789012345678901234567890")
        .unwrap_err();
    assert_eq!(full.subcode(), Some(SubCode::MemoryLimit), "{full}");
    t.commit().unwrap();
    assert_eq!(cf.get("l").unwrap(), None);
    // Another database's family.
    let (_, _db, [foreign, _]) = fresh(2);
    let mut t = db.transaction(TxnOptions::pessimistic());
    assert_eq!(
        t.put(&foreign, "k", "v").unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

/// What is in the log of a transaction that was dropped with its family is nobody's.
#[test]
fn a_prepared_transaction_outlives_its_family() {
    let (w, db, [cf, other]) = fresh(1);
    let mut t = db.transaction_opt(TxnOptions::pessimistic(), synced());
    t.set_name(b"n").unwrap();
    t.put(&other, "k", "v").unwrap();
    t.put(&cf, "k", "v").unwrap();
    t.prepare().unwrap();
    db.drop_cf(&other).unwrap();
    assert_eq!(
        text(&t.commit().unwrap_err()),
        "Invalid argument: Invalid column family specified in write batch"
    );
    assert_eq!(t.state(), TxnState::Prepared);
    drop((t, cf, other, db));
    let db = open_in(&w.env);
    let mut found = db.prepared_transactions().unwrap();
    assert_eq!(found.len(), 1);
    assert!(
        db.prepared_transactions().unwrap().is_empty(),
        "somebody holds it"
    );
    found[0].rollback().unwrap();
    drop(found);
    assert!(db.prepared_transactions().unwrap().is_empty());
}

/// They are in the log behind the commit, so that neither order nor a crash loses one.
#[test]
fn updates_of_a_prepared_transaction_are_written_with_its_commit() {
    let (w, db, [cf, _]) = fresh(1);
    let mut t = db.transaction(TxnOptions::pessimistic());
    t.set_name(b"late").unwrap();
    t.put(&cf, "a", "prepared").unwrap();
    t.put(&cf, "b", "prepared").unwrap();
    t.prepare().unwrap();
    t.put(&cf, "b", "late").unwrap();
    t.delete(&cf, "a").unwrap();
    assert_eq!(t.get(&cf, "b").unwrap().as_deref(), Some(&b"late"[..]));
    let blocked = cf.put_locked(b"b", b"", &WriteOptions::new());
    assert!(blocked.is_err());
    drop(t);
    // Nobody committed them.
    let mut t = db.prepared_transactions().unwrap().pop().unwrap();
    assert_eq!(t.get(&cf, "b").unwrap().as_deref(), Some(&b"prepared"[..]));
    t.put(&cf, "c", "late").unwrap();
    t.delete(&cf, "a").unwrap();
    t.commit().unwrap();
    let check = |cf: &Cf| {
        let all: Vec<_> = cf.iter().map(|e| e.unwrap()).collect();
        let all: Vec<_> = all.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        assert_eq!(all, [(&b"b"[..], &b"prepared"[..]), (b"c", b"late")]);
    };
    check(&cf);
    let last = db.latest_sequence_number();
    drop((t, cf, db));
    // From the log: nothing was flushed.
    let db = open_in(&w.env);
    check(&db.default_cf());
    assert!(db.latest_sequence_number() >= last);
}

/// A section is counted where it is prepared and takes its numbers where it is committed: whoever follows the logs misses
/// nothing and is told of no gap, wherever he begins.
#[test]
fn changes_are_followed_across_prepared_sections() {
    let (_, db, [cf, other]) = fresh(1);
    let mut all = db.changes(0).unwrap();
    cf.put("a", "1").unwrap();
    let mut t = db.transaction(TxnOptions::pessimistic());
    t.set_name(b"n").unwrap();
    for key in ["b", "c", "d"] {
        t.put(&other, key, "2").unwrap();
    }
    t.prepare().unwrap();
    cf.put("e", "3").unwrap();
    let from_here = db.latest_sequence_number();
    t.commit().unwrap();
    cf.put("f", "4").unwrap();
    let last = db.latest_sequence_number();
    assert_eq!(last, 6);
    let walk = |changes: &mut spanlith::Changes| {
        let mut seen = Vec::new();
        while let Some(change) = changes.next() {
            let change = change.unwrap();
            let mut ops = change.batch.operations().unwrap();
            let is_commit = ops.any(|op| matches!(op, Ok(BatchOp::Commit { .. })));
            drop(ops);
            seen.push((change.sequence, change.batch.len(), is_commit));
        }
        seen
    };
    let want = [
        (1, 1, false),
        (2, 3, false),
        (2, 1, false),
        (3, 0, true),
        (6, 1, false),
    ];
    assert_eq!(walk(&mut all), want);
    // The section lies before what is asked for.
    for since in [from_here, from_here + 1] {
        let seen = walk(&mut db.changes(since).unwrap());
        let behind = want
            .iter()
            .filter(|c| c.0 >= since)
            .copied()
            .collect::<Vec<_>>();
        assert_eq!(seen.last(), behind.last(), "{since}: {seen:?}");
    }
    cf.put("g", "5").unwrap();
    assert_eq!(walk(&mut all), [(7, 1, false)]);
}

/// A checkpoint has what is undecided, too, whether it flushes or not.
#[test]
fn checkpoints_hold_prepared_transactions() {
    for log_size in [0, u64::MAX] {
        let (w, db, [cf, other]) = fresh(1);
        let mut t = db.transaction_opt(TxnOptions::pessimistic(), synced());
        t.set_name(b"n").unwrap();
        t.put(&other, "k", "v").unwrap();
        t.prepare().unwrap();
        cf.put("a", "1").unwrap();
        cf.flush(true).unwrap();
        cf.put("b", "1").unwrap();
        db.checkpoint_opt("/copy", log_size).unwrap();
        t.rollback().unwrap();
        let mut env = Env::system();
        env.fs = Arc::new(w.mem.crash_clone(&mut |_| 0));
        let copy = open_at("/copy", &env);
        let mut found = copy.prepared_transactions().unwrap();
        assert_eq!(found.len(), 1, "{log_size}");
        found[0].commit().unwrap();
        let [_, other] = families(&copy);
        assert_eq!(other.get("k").unwrap().as_deref(), Some(&b"v"[..]));
    }
}
