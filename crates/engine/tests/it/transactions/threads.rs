//! Transactions of several threads, beside flushes and compactions: money is neither made nor lost.

use super::{families, open_in};
use spanlith::{Db, ErrorKind, LockMode, ReadOptions, SubCode, TxnOptions, WriteOptions};
use spanlith_env::Env;
use spanlith_testkit::{Rng, seed, test_name};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ACCOUNTS: u64 = 12;
const START: i64 = 100;

fn amount(value: Option<spanlith::Pinned>) -> i64 {
    let bytes = value.expect("every account is there");
    i64::from_le_bytes((*bytes).try_into().expect("eight bytes"))
}

fn account(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// A database on memory, with threads of its own.
fn memory() -> Env {
    let mut env = Env::system();
    env.fs = Arc::new(spanlith_env::MemFs::new());
    env
}

fn fill(db: &Db) {
    let cf = &families(db)[1];
    for n in 0..ACCOUNTS {
        cf.put(account(n), START.to_le_bytes()).unwrap();
    }
}

fn total(db: &Db) -> i64 {
    let cf = &families(db)[1];
    cf.iter()
        .map(|e| i64::from_le_bytes((*e.unwrap().1).try_into().unwrap()))
        .sum()
}

/// Moves money between two accounts; `false` if somebody was in the way.
fn transfer(db: &Db, options: TxnOptions, rng: &mut Rng) -> bool {
    let cf = &families(db)[1];
    let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
    let part = rng.below(20) as i64;
    let by_savepoint = rng.one_in(4);
    let mut t = db.transaction(options);
    let mut work = || {
        let paid = amount(t.get_for_update(cf, account(from))?) - part;
        t.put(cf, account(from), paid.to_le_bytes())?;
        if by_savepoint {
            t.set_savepoint();
            t.put(cf, account(to), 0i64.to_le_bytes())?;
            t.rollback_to_savepoint()?;
        }
        let got = amount(t.get_for_update(cf, account(to))?) + part;
        t.put(cf, account(to), got.to_le_bytes())?;
        t.commit()
    };
    match work() {
        Ok(()) => true,
        Err(e) if matches!(e.kind(), ErrorKind::Busy | ErrorKind::TimedOut) => false,
        Err(e) => panic!("{e}"),
    }
}

fn run(options: TxnOptions, name: &str) {
    let seed = seed(name);
    let db = open_in(&memory());
    fill(&db);
    let stop = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    std::thread::scope(|s| {
        for n in 0..4 {
            let (db, done) = (&db, &done);
            s.spawn(move || {
                let mut rng = Rng::new(seed + n);
                for _ in 0..400 {
                    done.fetch_add(
                        u64::from(transfer(db, options, &mut rng)),
                        Ordering::Relaxed,
                    );
                }
            });
        }
        let others = s.spawn(|| {
            let cf = &families(&db)[1];
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(total(&db), START * ACCOUNTS as i64);
                cf.flush(true).unwrap();
                cf.compact_range(None, None).unwrap();
            }
        });
        // Once the writers are through.
        while done.load(Ordering::Relaxed) < 200 && !others.is_finished() {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(total(&db), START * ACCOUNTS as i64);
    assert!(done.load(Ordering::Relaxed) >= 200);
    assert_eq!(db.property("rocksdb.num-snapshots").as_deref(), Some("0"));
}

#[test]
fn transfers_with_locks_keep_the_sum() {
    run(
        TxnOptions::pessimistic().deadlock_detect(true),
        test_name!(),
    );
}

#[test]
fn transfers_that_are_checked_keep_the_sum() {
    run(TxnOptions::optimistic(), test_name!());
}

/// Plain writes are seen by the check, too, wherever they stand in the queue: none is overwritten by who has not read it.
#[test]
fn checked_transactions_overwrite_no_plain_merge() {
    const EACH: usize = 600;
    let db = open_in(&memory());
    let cf = &families(&db)[1];
    cf.put("n", "").unwrap();
    let added = AtomicU64::new(0);
    std::thread::scope(|s| {
        for n in 0..3 {
            let (db, added) = (&db, &added);
            s.spawn(move || {
                // Some wait for the log, so that groups form.
                let write = WriteOptions::new().sync(n == 0);
                for _ in 0..EACH {
                    let mut t = db.transaction_opt(TxnOptions::optimistic(), write);
                    let old = t.get_for_update(cf, "n").unwrap().unwrap();
                    let new = [&*old, b"t"].concat();
                    t.put(cf, "n", new).unwrap();
                    match t.commit() {
                        Ok(()) => drop(added.fetch_add(1, Ordering::Relaxed)),
                        Err(e) => assert_eq!(e.kind(), ErrorKind::Busy),
                    }
                }
            });
        }
        s.spawn(|| {
            for _ in 0..EACH {
                cf.merge("n", "m").unwrap();
            }
        });
    });
    let found = cf.get("n").unwrap().unwrap();
    let count = |b: u8| found.iter().filter(|&&f| f == b).count();
    assert_eq!(count(b'm'), EACH);
    assert_eq!(count(b't') as u64, added.load(Ordering::Relaxed));
}

#[test]
fn a_circle_of_waits_is_a_deadlock() {
    let db = open_in(&memory());
    let cf = &families(&db)[0];
    let options = TxnOptions::pessimistic()
        .deadlock_detect(true)
        .lock_timeout(60_000);
    let deadlocks = AtomicU64::new(0);
    let both = std::sync::Barrier::new(2);
    std::thread::scope(|s| {
        for (first, second) in [("a", "b"), ("b", "a")] {
            let (deadlocks, both, db) = (&deadlocks, &both, &db);
            s.spawn(move || {
                let mut t = db.transaction(options);
                t.put(cf, first, "v").unwrap();
                both.wait();
                match t.put(cf, second, "v") {
                    Ok(()) => t.commit().unwrap(),
                    Err(e) => {
                        assert_eq!(e.to_string(), "Resource busy: Deadlock");
                        assert_eq!(e.subcode(), Some(SubCode::Deadlock));
                        deadlocks.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(deadlocks.load(Ordering::Relaxed), 1);
}

/// A transaction that waits gets the lock when it is let go of, and when its holder runs out of time.
#[test]
fn whoever_waits_gets_the_lock() {
    let db = open_in(&memory());
    let cf = &families(&db)[0];
    let mut t = db.transaction(TxnOptions::pessimistic());
    t.get_for_update_opt(cf, "k", &ReadOptions::default(), LockMode::Shared)
        .unwrap();
    std::thread::scope(|s| {
        let waiting = s.spawn(|| cf.put_locked(b"k", b"1", &WriteOptions::new()));
        let shares = db.transact(TxnOptions::pessimistic().lock_timeout(0), |t| {
            t.get_for_update_opt(cf, "k", &ReadOptions::default(), LockMode::Shared)
        });
        shares.unwrap();
        t.rollback().unwrap();
        waiting.join().unwrap().unwrap();
    });
    let mut late = db.transaction(TxnOptions::pessimistic().expiration(20));
    late.put(cf, "k", "late").unwrap();
    cf.put_locked(b"k", b"2", &WriteOptions::new()).unwrap();
    assert_eq!(
        late.commit().unwrap_err().rocksdb_text(),
        "Operation expired: "
    );
    late.rollback().unwrap();
    assert_eq!(cf.get("k").unwrap().as_deref(), Some(&b"2"[..]));
}
