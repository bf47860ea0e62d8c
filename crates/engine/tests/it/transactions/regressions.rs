//! Faults that a review found in transactions, each with its narrowest test.

use super::{families, fresh, open_in, open_with, synced, text};
use crate::world::World;
use spanlith::options::DbOptions;
use spanlith::{TxnOptions, TxnState, WriteOptions};
use spanlith_env::{Env, FaultRule, OpClass};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn memory() -> Env {
    let mut env = Env::system();
    env.fs = Arc::new(spanlith_env::MemFs::new());
    env
}

#[test]
fn a_name_is_given_up_once() {
    let (_, db, [cf, _]) = fresh(1);
    let mut t1 = db.transaction(TxnOptions::pessimistic());
    t1.set_name(b"x").unwrap();
    t1.put(&cf, "a", "1").unwrap();
    t1.commit().unwrap();
    let mut t2 = db.transaction(TxnOptions::pessimistic());
    t2.set_name(b"x").unwrap();
    t2.merge(&cf, "m", "1").unwrap();
    t2.prepare().unwrap();
    drop(t1);
    let found = db.prepared_transactions().unwrap();
    let n = found.len();
    for mut f in found {
        f.commit().unwrap();
    }
    let again = t2.commit();
    assert_eq!(
        n,
        0,
        "held by t2; {again:?}; m = {:?}",
        cf.get("m").unwrap()
    );
}

#[test]
fn a_waiter_times_out_behind_one_that_is_past_its_time_and_prepared() {
    let db = open_in(&memory());
    let [cf, _] = families(&db);
    let mut t = db.transaction(TxnOptions::pessimistic().expiration(100));
    t.set_name(b"x").unwrap();
    t.put(&cf, "a", "1").unwrap();
    t.prepare().unwrap();
    let (tx, rx) = std::sync::mpsc::channel();
    let (db2, cf2) = (db.clone(), cf.clone());
    let h = std::thread::spawn(move || {
        let mut u = db2.transaction(TxnOptions::pessimistic().lock_timeout(400));
        let began = Instant::now();
        let r = u.put(&cf2, "a", "2");
        tx.send((began.elapsed(), r.map_err(|e| text(&e)))).unwrap();
    });
    let got = rx.recv_timeout(Duration::from_secs(4));
    t.rollback().unwrap();
    h.join().unwrap();
    assert!(
        got.is_ok(),
        "waits still after 4 s with a timeout of 400 ms"
    );
}

#[test]
fn updates_of_a_family_that_is_gone_are_not_the_default_families() {
    let (w, db, [cf, other]) = fresh(1);
    let mut t = db.transaction_opt(TxnOptions::pessimistic(), synced());
    t.set_name(b"n").unwrap();
    t.put(&other, "k", "v").unwrap();
    t.put(&cf, "l", "v").unwrap();
    t.prepare().unwrap();
    db.drop_cf(&other).unwrap();
    drop((t, cf, other, db));
    let db = open_in(&w.env);
    let cf = db.default_cf();
    let mut t = db.prepared_transactions().unwrap().pop().unwrap();
    let seen = t.get(&cf, "k").unwrap();
    assert_eq!(seen.as_deref(), None);
    t.rollback().unwrap();
}

#[test]
fn commit_of_what_is_left_of_dropped_families() {
    let (_, db, [cf, other]) = fresh(1);
    let mut t = db.transaction(TxnOptions::pessimistic());
    t.set_name(b"n").unwrap();
    t.put(&other, "k", "v").unwrap();
    t.put(&cf, "l", "v").unwrap();
    t.prepare().unwrap();
    db.drop_cf(&other).unwrap();
    t.write_options_mut().ignore_missing_column_families = true;
    let r = t.commit().map_err(|e| text(&e));
    assert_eq!(r, Ok(()));
    assert_eq!(cf.get("l").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn save_points_bring_back_the_wish_for_a_snapshot() {
    let (_, db, [cf, _]) = fresh(1);
    let mut t = db.transaction(TxnOptions::pessimistic());
    t.set_snapshot_on_next_operation();
    t.set_savepoint();
    t.put(&cf, "a", "1").unwrap();
    t.rollback_to_savepoint().unwrap();
    t.put(&cf, "b", "1").unwrap();
    assert!(t.snapshot().is_some());
    cf.put("c", "1").unwrap();
    let r = t.put(&cf, "c", "2").map_err(|e| text(&e));
    assert!(r.is_err());
}

#[test]
fn a_commit_whose_section_is_in_an_older_log_is_followed() {
    let (_, db, [cf, other]) = fresh(1);
    let mut t = db.transaction(TxnOptions::pessimistic());
    t.set_name(b"n").unwrap();
    for key in ["b", "c", "d"] {
        t.put(&other, key, "2").unwrap();
    }
    t.prepare().unwrap();
    cf.put("e", "3").unwrap();
    cf.flush(true).unwrap();
    let next = db.latest_sequence_number() + 1;
    t.commit().unwrap();
    cf.put("f", "4").unwrap();
    for since in [next, next + 1] {
        let seen: Vec<_> = db
            .changes(since)
            .unwrap()
            .map(|c| c.map(|c| (c.sequence, c.batch.len())).map_err(|e| text(&e)))
            .take(5)
            .collect();
        assert_eq!(
            seen,
            [Ok((next, 0)), Ok((next + 3, 1))],
            "since {since} of {next}"
        );
    }
}

#[test]
fn prepared_transactions_beside_commits() {
    let db = open_in(&memory());
    let [cf, _] = families(&db);
    for round in 0..300 {
        let mut all = Vec::new();
        for n in 0..20 {
            let mut t = db.transaction(TxnOptions::pessimistic());
            t.set_name(format!("n{n:03}").as_bytes()).unwrap();
            t.merge(&cf, format!("{round}-{n}"), "x").unwrap();
            t.prepare().unwrap();
            all.push(t);
        }
        let stolen = std::thread::scope(|s| {
            let h = s.spawn(|| {
                let mut stolen = 0;
                loop {
                    let found = db.prepared_transactions().unwrap();
                    stolen += found.len();
                    for mut t in found {
                        t.commit().unwrap();
                    }
                    if db.prepared_transactions().unwrap().is_empty()
                        && cf.get(format!("{round}-0")).unwrap().is_some()
                    {
                        return stolen;
                    }
                }
            });
            while let Some(mut t) = all.pop() {
                t.commit().unwrap();
            }
            h.join().unwrap()
        });
        for n in 0..20 {
            let v = cf.get(format!("{round}-{n}")).unwrap();
            assert_eq!(
                v.as_deref(),
                Some(&b"x"[..]),
                "round {round} {n} stolen {stolen}"
            );
        }
    }
}

/// A commit that is in the log although its sync failed; then a resume that gets as far as the new log; then a crash.
#[test]
fn a_commit_that_failed_and_a_resume_that_is_cut_short() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    let w = World::new(1);
    let db = open_in(&w.env);
    let cf = db.default_cf();
    let mut t = db.transaction_opt(TxnOptions::pessimistic(), synced());
    t.set_name(b"t").unwrap();
    t.merge(&cf, "k", "v").unwrap();
    t.prepare().unwrap();
    let rule = w.fs.add(FaultRule::fail(OpClass::Sync, 1, 5).named(".log"));
    t.commit().unwrap_err();
    assert_eq!(t.state(), TxnState::Prepared);
    w.fs.remove(rule);
    // The flush of all families fails.
    let rule =
        w.fs.add(FaultRule::fail(OpClass::Append, 1, 50).named(".sst"));
    let rule2 =
        w.fs.add(FaultRule::fail(OpClass::Append, 1, 50).named("MANIFEST"));
    db.resume().unwrap_err();
    w.fs.remove(rule);
    w.fs.remove(rule2);
    // The process is killed: all that was written is there.
    let image = w.mem.crash_clone(&mut |n| n - 1);
    let mut env = Env::system();
    env.fs = Arc::new(image);
    let again = open_in(&env);
    let cf = again.default_cf();
    let value = cf.get("k").unwrap().map(|v| v.to_vec());
    let found = again.prepared_transactions().unwrap();
    assert!(
        value.is_none() || found.is_empty(),
        "committed and prepared"
    );
}

#[test]
fn optimistic_with_ignore_missing() {
    let (_, db, [cf, other]) = fresh(1);
    let mut t = db.transaction(TxnOptions::optimistic());
    t.put(&other, "k", "v").unwrap();
    t.put(&cf, "l", "v").unwrap();
    db.drop_cf(&other).unwrap();
    t.write_options_mut().ignore_missing_column_families = true;
    assert_eq!(t.commit().map_err(|e| text(&e)), Ok(()));
}

/// Recovered, not flushed, committed before: the section's log must stay as long as the memtable.
#[test]
fn logs_of_sections_stay_after_a_recovery_without_flush() {
    let w = World::new(1);
    let options = || {
        DbOptions::new()
            .avoid_flush_during_recovery(true)
            .avoid_flush_during_shutdown(true)
    };
    let db = open_with("/db", &w.env, options());
    let [cf, other] = families(&db);
    let mut t = db.transaction_opt(TxnOptions::pessimistic(), synced());
    t.set_name(b"t").unwrap();
    t.put(&other, "k", "v").unwrap();
    t.prepare().unwrap();
    for c in [&cf, &other] {
        c.put("x", "1").unwrap();
        c.flush(true).unwrap();
    }
    t.commit().unwrap();
    drop((t, cf, other, db));
    let db = open_with("/db", &w.env, options());
    let [cf, other] = families(&db);
    assert_eq!(other.get("k").unwrap().as_deref(), Some(&b"v"[..]));
    for n in 0..3 {
        cf.put_opt(format!("{n}"), "1", &synced()).unwrap();
        cf.flush(true).unwrap();
    }
    drop((cf, other, db));
    let db = open_with("/db", &w.env, options());
    let [cf, other] = families(&db);
    assert_eq!(other.get("k").unwrap().as_deref(), Some(&b"v"[..]));
    assert!(db.prepared_transactions().unwrap().is_empty());
    other.put("y", "1").unwrap();
    other.flush(true).unwrap();
    cf.put("y", "1").unwrap();
    cf.flush(true).unwrap();
    drop((cf, other, db));
    let db = open_with("/db", &w.env, options());
    let [_, other] = families(&db);
    assert_eq!(other.get("k").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn rollback_to_savepoint_after_prepare_keeps_locks() {
    let (_, db, [cf, _]) = fresh(1);
    let mut t = db.transaction(TxnOptions::pessimistic());
    t.set_name(b"n").unwrap();
    t.set_savepoint();
    t.put(&cf, "k", "v").unwrap();
    t.prepare().unwrap();
    let r = t.rollback_to_savepoint();
    let other = cf.put_locked(b"k", b"other", &WriteOptions::new());
    t.commit().unwrap();
    assert!(
        r.is_err() || other.is_err(),
        "prepared, and its key was written: {:?}",
        cf.get("k").unwrap()
    );
}

fn fail_a_put(w: &World, cf: &spanlith::Cf) {
    let rule = w.fs.add(FaultRule::fail(OpClass::Sync, 1, 5).named(".log"));
    cf.put_opt("fails", "1", &synced()).unwrap_err();
    w.fs.remove(rule);
}

fn reopen(image: spanlith_env::MemFs) -> Result<spanlith::Db, String> {
    let mut env = Env::system();
    env.fs = Arc::new(image);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| open_in(&env)))
        .map_err(|_| "cannot be opened".to_string())
}

/// Names in another order than sequence numbers; the resume is complete.
#[test]
fn sections_that_a_resume_wrote_again_in_the_order_of_names() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    let w = World::new(1);
    let db = open_in(&w.env);
    let cf = db.default_cf();
    let prepare = |name: &str| {
        let mut t = db.transaction_opt(TxnOptions::pessimistic(), synced());
        t.set_name(name.as_bytes()).unwrap();
        t.put(&cf, name, "v").unwrap();
        t.prepare().unwrap();
        t
    };
    let _b = prepare("b");
    cf.put("x", "1").unwrap();
    cf.put("y", "1").unwrap();
    let _a = prepare("a");
    fail_a_put(&w, &cf);
    db.resume().unwrap();
    cf.put_opt("z", "1", &synced()).unwrap();
    let db = reopen(w.mem.crash_clone(&mut |_| 0)).unwrap();
    assert_eq!(db.prepared_transactions().unwrap().len(), 2);
}

/// No commit fails; the resume is cut short after the new log.
#[test]
fn a_section_and_a_resume_that_is_cut_short() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    let w = World::new(1);
    let db = open_in(&w.env);
    let cf = db.default_cf();
    let mut t = db.transaction_opt(TxnOptions::pessimistic(), synced());
    t.set_name(b"t").unwrap();
    t.put(&cf, "k", "v").unwrap();
    t.prepare().unwrap();
    cf.put_opt("x", "1", &synced()).unwrap();
    cf.put_opt("y", "1", &synced()).unwrap();
    fail_a_put(&w, &cf);
    let rule =
        w.fs.add(FaultRule::fail(OpClass::Append, 1, 50).named(".sst"));
    db.resume().unwrap_err();
    w.fs.remove(rule);
    let db = reopen(w.mem.crash_clone(&mut |_| 0)).unwrap();
    assert_eq!(
        db.default_cf().get("x").unwrap().as_deref(),
        Some(&b"1"[..])
    );
    assert_eq!(db.prepared_transactions().unwrap().len(), 1);
}

/// One section, a whole resume, then writes: the log begins with an old number.
#[test]
fn a_section_and_a_whole_resume() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    let w = World::new(1);
    let db = open_in(&w.env);
    let cf = db.default_cf();
    let mut t = db.transaction_opt(TxnOptions::pessimistic(), synced());
    t.set_name(b"t").unwrap();
    t.put(&cf, "k", "v").unwrap();
    t.prepare().unwrap();
    for n in 0..5 {
        cf.put(format!("{n}"), "1").unwrap();
    }
    fail_a_put(&w, &cf);
    db.resume().unwrap();
    let last = db.latest_sequence_number();
    cf.put_opt("z", "1", &synced()).unwrap();
    // A follower is not shown the section again.
    let seen: Vec<_> = db
        .changes(last)
        .unwrap()
        .filter_map(Result::ok)
        .map(|c| c.batch.len())
        .collect();
    assert_eq!(seen.iter().sum::<usize>(), 1, "{seen:?}");
    let db = reopen(w.mem.crash_clone(&mut |_| 0)).unwrap();
    assert!(db.latest_sequence_number() > last);
    assert_eq!(db.prepared_transactions().unwrap().len(), 1);
    assert_eq!(
        db.default_cf().get("z").unwrap().as_deref(),
        Some(&b"1"[..])
    );
}

/// A save point below a shared lock that was made exclusive.
#[test]
fn upgrade_behind_a_save_point_is_given_back() {
    let (_, db, [cf, _]) = fresh(1);
    let mut t = db.transaction(TxnOptions::pessimistic());
    t.lock(&cf, "k", spanlith::LockMode::Shared).unwrap();
    t.set_savepoint();
    t.put(&cf, "k", "v").unwrap();
    t.rollback_to_savepoint().unwrap();
    let mut u = db.transaction(TxnOptions::pessimistic().lock_timeout(0));
    assert!(u.put(&cf, "k", "v").is_err(), "still locked");
    drop(t);
    u.put(&cf, "k", "v").unwrap();
}

/// Untracked updates through the batch, committed in one group with a transaction that read the key.
#[test]
fn untracked_updates_beside_checked_commits() {
    let db = open_in(&memory());
    let [cf, _] = families(&db);
    for round in 0..800u64 {
        let pairs = 3;
        let mut all = Vec::new();
        for n in 0..pairs {
            let key = format!("k{round}-{n}");
            cf.put(&key, "0").unwrap();
            let mut a = db.transaction_opt(TxnOptions::optimistic(), synced());
            a.put(&cf, format!("a{round}-{n}"), "1").unwrap();
            a.batch_mut()
                .put(Some(&cf), key.as_bytes(), b"untracked")
                .unwrap();
            let mut b = db.transaction_opt(TxnOptions::optimistic(), synced());
            b.get_for_update(&cf, &key).unwrap();
            b.put(&cf, &key, "checked").unwrap();
            all.push((key, a, b));
        }
        let bar = std::sync::Barrier::new(2 * pairs);
        let done: Vec<_> = std::thread::scope(|s| {
            let mut handles = Vec::new();
            for (key, mut a, mut b) in all {
                let bar = &bar;
                let x = s.spawn(move || {
                    bar.wait();
                    a.commit()
                });
                let y = s.spawn(move || {
                    bar.wait();
                    b.commit()
                });
                handles.push((key, x, y));
            }
            handles
                .into_iter()
                .map(|(k, x, y)| (k, x.join().unwrap(), y.join().unwrap()))
                .collect()
        });
        for (key, ra, rb) in done {
            ra.unwrap();
            // If b came second it did not see what it overwrote.
            if rb.is_ok() {
                let now = cf.get(&key).unwrap();
                assert_eq!(now.as_deref(), Some(&b"untracked"[..]), "round {round}");
            }
        }
    }
}

/// A prepare that failed decided the owner: nobody can rob it and it cannot be committed once its time is over.
#[test]
fn a_failed_prepare_gives_expiry_back() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    let w = World::new(1);
    let db = open_in(&w.env);
    let cf = db.default_cf();
    let mut t = db.transaction_opt(TxnOptions::pessimistic().expiration(1000), synced());
    t.set_name(b"t").unwrap();
    t.put(&cf, "k", "v").unwrap();
    let rule = w.fs.add(FaultRule::fail(OpClass::Sync, 1, 5).named(".log"));
    t.prepare().unwrap_err();
    w.fs.remove(rule);
    db.resume().unwrap();
    w.pass(Duration::from_secs(2));
    assert_eq!(
        t.prepare().unwrap_err().kind(),
        spanlith::ErrorKind::Expired
    );
    assert_eq!(t.commit().unwrap_err().kind(), spanlith::ErrorKind::Expired);
    // Its time is over and it can do nothing any more: its lock is free.
    let mut u = db.transaction(TxnOptions::pessimistic().lock_timeout(0));
    assert_eq!(u.put(&cf, "k", "u").map_err(|e| text(&e)), Ok(()));
}

/// A limit is met after the lock is taken: the key stays locked, and an optimistic one conflicts about what it did not write.
#[test]
fn a_put_that_fails_changes_nothing() {
    let (_, db, [cf, _]) = fresh(1);
    let mut options = TxnOptions::pessimistic();
    options.max_write_batch_size = 40;
    let mut t = db.transaction(options);
    t.put(&cf, "k", [b'x'; 100]).unwrap_err();
    // As in RocksDB; it goes with the transaction.
    assert_eq!((t.tracked_keys(), t.batch().batch().count()), (1, 0));
    t.rollback().unwrap();
    cf.put_locked(b"k", b"v", &WriteOptions::new()).unwrap();
}

/// Updates added to the batch itself in a family with timestamps have none: a plain commit refuses that.
#[test]
fn updates_that_lack_timestamps() {
    let w = World::new(1);
    let db = open_in(&w.env);
    let ts = db
        .create_cf(spanlith::FamilyOptions::new("ts").comparator(
            spanlith_base::Comparator::from_name("leveldb.BytewiseComparator.u64ts").unwrap(),
        ))
        .unwrap();
    let cf = db.default_cf();
    let outcome = |options: TxnOptions, prepares: bool| {
        let mut t = db.transaction(options);
        t.put(&cf, "k", "v").unwrap();
        t.batch_mut().put(Some(&ts), b"k", b"v").unwrap();
        if prepares {
            t.set_name(b"n").unwrap();
            t.prepare()?;
        }
        t.commit()
    };
    let plain = outcome(TxnOptions::pessimistic(), false).map_err(|e| text(&e));
    let optimistic = outcome(TxnOptions::optimistic(), false).map_err(|e| text(&e));
    let prepared = outcome(TxnOptions::pessimistic(), true).map_err(|e| text(&e));
    assert!(plain.is_err(), "plain");
    assert!(
        optimistic.is_err() && prepared.is_err(),
        "{optimistic:?} {prepared:?}"
    );
}
