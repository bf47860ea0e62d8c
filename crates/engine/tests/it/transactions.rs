//! Transactions against a model, before power losses, and among threads (R-BASE-23, R-SPAN-20).

use crate::world::World;
use spanlith::options::DbOptions;
use spanlith::{
    BottommostCompaction, Cf, CompactRangeOptions, Db, ErrorKind, FamilyOptions, LockOptions,
    StringAppend, SubCode, TxnOptions, TxnState, WriteOptions,
};
use spanlith_env::Env;
use spanlith_wal::BatchOp;
use std::sync::Arc;

mod crashes;
mod model;
mod regressions;
mod threads;

const NAMES: [&str; 2] = ["default", "other"];

fn open_in(env: &Env) -> Db {
    open_at("/db", env)
}

fn open_at(dir: &str, env: &Env) -> Db {
    open_with(dir, env, DbOptions::new())
}

fn open_with(dir: &str, env: &Env, options: DbOptions) -> Db {
    let options = options
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
    e.rocksdb_text()
}

fn fresh(seed: u64) -> (World, Db, [Cf; 2]) {
    let w = World::new(seed);
    let db = open_in(&w.env);
    let cfs = families(&db);
    (w, db, cfs)
}

/// A put and a single delete after what was seen cancel each other in a flush, and a deletion of nothing goes at the
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
        let all = CompactRangeOptions {
            bottommost: BottommostCompaction::Force,
            ..CompactRangeOptions::default()
        };
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
    let options = DbOptions::new().create_missing_column_families(true);
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

/// The log's entries of a transaction that was dropped with its family are nobody's.
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

/// They are in the log after the commit, so that neither order nor a crash loses one.
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
        for change in changes.by_ref() {
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
