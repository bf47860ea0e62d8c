//! Random transactions, several at a time, beside plain writes, flushes, compactions and opens, against a model.

use super::{families, open_in, synced, text};
use crate::world::World;
use spanlith::{
    Cf, Db, ErrorKind, LockMode, LockOptions, ReadOptions, SubCode, Transaction, TxnOptions,
    TxnState,
};
use spanlith_env::Env;
use spanlith_testkit::{Rng, seed, test_name};
use std::collections::{BTreeMap, BTreeSet};

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

/// Describes what everybody should see.
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

    /// Returns what locking or noting a key comes to.
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
