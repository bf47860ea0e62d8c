//! Asynchronous requests (R-SPAN-10 to R-SPAN-13, R-SPAN-20): through the public interface.

use crate::world::World;
use spanlith::options::{BlockBasedTableOptions, DbOptions};
use spanlith::{
    AsyncCf, Cf, Db, ErrorKind, FamilyOptions, OpenBuilder, ReadOptions, StringAppend, TxnOptions,
    WriteBatch, WriteFuture, WriteOptions,
};
use spanlith_env::{Env, FaultRule, FileSystem, MemFs, OpClass, ThreadExecutor};
use spanlith_testkit::{Rng, TempDir, seed, test_name};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};

fn builder(dir: impl AsRef<Path>, env: &Env, own: &[&str]) -> OpenBuilder {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    let append = || Arc::new(StringAppend::new(b","));
    let mut builder = Db::builder(dir)
        .env(env.clone())
        .options(options)
        .family(FamilyOptions::new("default").merge_operator(append()))
        .family(FamilyOptions::new("two").merge_operator(append()))
        .no_info_log();
    for option in own {
        builder = builder.set(*option).unwrap();
    }
    builder
}

/// A database in memory whose requests are carried out when the test says so.
fn manual(own: &[&str]) -> (World, Db) {
    let w = World::new(1);
    let db = builder("/db", &w.env, own).open().unwrap();
    (w, db)
}

fn run(w: &World) {
    w.executor.jobs.run_until_idle();
}

fn synced() -> WriteOptions {
    WriteOptions::new().sync(true)
}

fn value(cf: &Cf, key: &str) -> Option<Vec<u8>> {
    cf.get(key).unwrap().map(|v| v.to_vec())
}

/// A figure of the property `spanlith.async-requests`.
fn figure(db: &Db, name: &str) -> u64 {
    let text = db.property("spanlith.async-requests").unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix(name));
    let line = line.unwrap_or_else(|| panic!("{name} in {text}"));
    line.trim_start_matches(": ").parse().unwrap()
}

#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls once.
fn poll<F: Future + Unpin>(future: &mut F, counter: &Arc<Counter>) -> Poll<F::Output> {
    let waker = Waker::from(counter.clone());
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

#[test]
fn what_is_outstanding_together_is_one_group_with_one_sync() {
    crate::suite_disk::needs_log_files("the test counts syncs of files");
    let (w, db) = manual(&["async_mode=shared"]);
    let cf = db.default_cf().to_async();
    let before = w.fs.calls(OpClass::Sync);
    let mut futures: Vec<_> = (0..400u32)
        .map(|n| cf.put_opt(n.to_be_bytes(), "v", &synced()))
        .collect();
    let counter = Arc::new(Counter::default());
    for future in &mut futures {
        assert!(poll(future, &counter).is_pending());
    }
    assert_eq!(figure(&db, "outstanding-writes"), 400);
    run(&w);
    assert_eq!(w.fs.calls(OpClass::Sync) - before, 1);
    assert_eq!((figure(&db, "groups"), figure(&db, "writes")), (1, 400));
    assert_eq!(counter.0.load(Ordering::Relaxed), 1, "one task, one wakeup");
    for future in &mut futures {
        assert!(matches!(poll(future, &counter), Poll::Ready(Ok(()))));
    }
    assert_eq!(cf.cf().iter().count(), 400);
    let written = db.property("rocksdb.dbstats").unwrap();
    assert!(written.contains("400 writes, 400 keys"), "{written}");
    assert_eq!(figure(&db, "outstanding-writes"), 0);
    assert_eq!(figure(&db, "outstanding-bytes"), 0);
}

#[test]
fn futures_are_send_and_static_and_belong_to_no_runtime() {
    fn check<T: Send + 'static>(_: &T) {}
    let (w, db) = manual(&[]);
    let cf = db.default_cf().to_async();
    let (put, get) = (cf.put("k", "v"), cf.get("k"));
    let (scan, flush) = (cf.scan(&ReadOptions::default(), 10), cf.flush());
    check(&put);
    check(&get);
    check(&scan);
    check(&flush);
    check(&cf);
    // Waiting on a thread does what there is to do.
    put.wait().unwrap();
    flush.wait().unwrap();
    assert_eq!(scan.wait().unwrap().entries.len(), 1);
    drop(w);
}

/// R-SPAN-13: what memory knows is answered where it is asked for.
#[test]
fn a_lucky_read_is_ready_at_once_and_another_one_is_queued() {
    let w = World::new(1);
    let table = || {
        let mut table = BlockBasedTableOptions::default();
        table.cache_index_and_filter_blocks = true;
        table
    };
    let open = || {
        let family = FamilyOptions::new("default").table_options(table());
        builder("/db", &w.env, &[]).family(family).open().unwrap()
    };
    let db = open();
    db.default_cf().put("k", "v").unwrap();
    let cf = db.default_cf().to_async();
    let found = cf.get("k").try_result().unwrap().unwrap();
    assert_eq!(found.as_deref(), Some(&b"v"[..]));
    db.flush(true).unwrap();
    drop((cf, db));
    let db = open();
    let cf = db.default_cf().to_async();
    let mut get = cf.get("k");
    assert!(get.try_result().is_none());
    assert_eq!(figure(&db, "lucky-reads"), 0);
    run(&w);
    let found = get.try_result().unwrap().unwrap();
    assert_eq!(found.as_deref(), Some(&b"v"[..]));
    // Now the block is in the cache.
    let again = cf.get("k").try_result().unwrap().unwrap();
    assert_eq!(again.as_deref(), Some(&b"v"[..]));
    let all = cf.multi_get(["k", "none"], &ReadOptions::default());
    let all = all.wait().unwrap();
    assert_eq!(all[0].as_ref().unwrap().as_deref(), Some(&b"v"[..]));
    assert!(all[1].as_ref().unwrap().is_none());
    // A read of memory only is answered as by the synchronous call.
    drop((cf, db));
    let db = open();
    let cf = db.default_cf().to_async();
    let mut memory = ReadOptions::default();
    memory.cache_only = true;
    let e = cf.get_opt("k", &memory).try_result().unwrap().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Incomplete);
    let all = cf.multi_get(["k"], &memory).try_result().unwrap().unwrap();
    assert_eq!(all[0].as_ref().unwrap_err().kind(), ErrorKind::Incomplete);
}

#[test]
fn pages_of_a_scan_join_without_gap() {
    let (w, db) = manual(&[]);
    for n in 0..25u32 {
        db.default_cf().put(format!("{n:02}"), "v").unwrap();
    }
    let cf = db.default_cf().to_async();
    let mut options = ReadOptions::default().lower("03");
    options.upper = Some(b"22".to_vec());
    options.snapshot = Some(db.snapshot());
    db.default_cf().put("03x", "later").unwrap();
    let (mut keys, mut pages) = (Vec::new(), 0);
    loop {
        let page = cf.scan(&options, 7).wait().unwrap();
        keys.extend(page.entries.into_iter().map(|e| e.0));
        pages += 1;
        match page.next {
            Some(next) => options.lower = Some(next),
            None => break,
        }
    }
    let expected: Vec<_> = (3..22).map(|n| format!("{n:02}").into_bytes()).collect();
    assert_eq!((keys, pages), (expected, 3));
    drop(w);
}

/// R-SPAN-11: nothing is outstanding after a refusal, and the caller tries again.
#[test]
fn too_many_requests_are_refused_or_wait() {
    let (w, db) = manual(&["async_queue_length=3", "async_mode=dedicated"]);
    let cf = db.default_cf().to_async().without_waiting();
    let mut taken: Vec<_> = (0..3u8).map(|n| cf.put([n], "v")).collect();
    let e = cf.put("x", "v").try_result().unwrap().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Busy);
    assert!(e.to_string().starts_with("Resource busy: "));
    assert_eq!(figure(&db, "refused-busy"), 1);
    // A patient one waits, and is accepted when there is room.
    let mut patient = db.default_cf().to_async().put("y", "v");
    assert!(!patient.is_accepted());
    let counter = Arc::new(Counter::default());
    assert!(poll(&mut patient, &counter).is_pending());
    run(&w);
    assert!(counter.0.load(Ordering::Relaxed) > 0);
    assert!(matches!(poll(&mut patient, &counter), Poll::Ready(Ok(()))));
    taken.retain_mut(|f| f.try_result().is_none());
    assert!(taken.is_empty());
    cf.put("x", "v").wait().unwrap();
    assert_eq!(db.default_cf().iter().count(), 5);
    let reads: Vec<_> = (0..3)
        .map(|_| cf.scan(&ReadOptions::default(), 1))
        .collect();
    let e = cf.flush().try_result().unwrap().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Busy);
    drop(reads);
    run(&w);
    assert_eq!(figure(&db, "queued-now"), 0, "dropped reads are left out");
}

/// Every point at which a future may be dropped: before and after its first poll, while its group is written, with its
/// result, and while it waits for room.
#[test]
fn a_dropped_future_loses_no_accepted_write() {
    let (w, db) = manual(&["async_queue_length=4", "async_mode=shared"]);
    let cf = db.default_cf().to_async();
    let counter = Arc::new(Counter::default());
    drop(cf.put("unpolled", "v"));
    let mut polled = cf.put("polled", "v");
    assert!(poll(&mut polled, &counter).is_pending());
    drop(polled);
    // Two waits later in the same group are dropped when its result is there.
    let (ready, mut kept) = (cf.put("ready", "v"), cf.put("kept", "v"));
    let (mut withdrawn, mut waits) = (cf.put("withdrawn", "v"), cf.put("waits", "v"));
    assert!(poll(&mut withdrawn, &counter).is_pending());
    assert!(poll(&mut waits, &counter).is_pending());
    drop(withdrawn);
    let unwanted = cf.scan(&ReadOptions::default(), 1);
    drop(unwanted);
    run(&w);
    drop(ready);
    assert!(kept.try_result().unwrap().is_ok());
    assert!(waits.try_result().unwrap().is_ok());
    run(&w);
    let keys: Vec<_> = db
        .default_cf()
        .iter()
        .map(|e| e.unwrap().0.to_vec())
        .collect();
    let expected = ["kept", "polled", "ready", "unpolled", "waits"];
    assert_eq!(keys, expected.map(|k| k.as_bytes().to_vec()));
    assert_eq!(figure(&db, "outstanding-writes"), 0);
    assert_eq!(figure(&db, "waiting-for-room"), 0);
}

/// Each write fails alone.
#[test]
fn a_bad_write_fails_without_its_group() {
    let (w, db) = manual(&["async_mode=shared"]);
    let (one, two) = (db.default_cf().to_async(), db.cf("two").unwrap().to_async());
    // A fault that can be seen at once never joins a group.
    let other = World::new(2);
    let foreign = builder("/db", &other.env, &[]).open().unwrap();
    let mut batch = WriteBatch::new();
    batch.put_cf(&foreign.default_cf(), "k", "v");
    let e = one.write(&batch).try_result().unwrap().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    let bad = WriteOptions::new().sync(true).disable_wal(true);
    let e = one.put_opt("k", "v", &bad).try_result().unwrap();
    assert_eq!(e.unwrap_err().kind(), ErrorKind::InvalidArgument);
    // The family goes while its write is outstanding.
    let mut good: Vec<_> = vec![one.put("a", "1")];
    let mut lost = two.put("b", "2");
    let mut batch = WriteBatch::new();
    batch.put("c", "3").put_cf(two.cf(), "d", "4");
    let mut half = one.write(&batch);
    good.push(one.merge("a", "5"));
    db.drop_cf(two.cf()).unwrap();
    run(&w);
    for future in &mut good {
        future.try_result().unwrap().unwrap();
    }
    for future in [&mut lost, &mut half] {
        let e = future.try_result().unwrap().unwrap_err();
        assert_eq!(
            e.to_string(),
            "Invalid argument: Invalid column family specified in write batch"
        );
    }
    assert_eq!(value(one.cf(), "a").as_deref(), Some(&b"1,5"[..]));
    assert_eq!(value(one.cf(), "c"), None, "a batch is all or nothing");
    assert_eq!(figure(&db, "groups-split"), 1);
    let gone = two.put("e", "v").try_result().unwrap();
    assert_eq!(gone.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// An I/O error is everybody's in the group, and of those after it.
#[test]
fn a_failed_log_fails_the_group_and_what_follows() {
    crate::suite_disk::needs_log_files("calls for files of logs fail here, not those for a device");
    let (w, db) = manual(&["async_mode=shared"]);
    let cf = db.default_cf().to_async();
    let first: Vec<_> = (0..3u8).map(|n| cf.put_opt([n], "v", &synced())).collect();
    w.fs.add(FaultRule::fail(OpClass::Sync, 1, 5).named(".log"));
    run(&w);
    for mut future in first {
        let e = future.try_result().unwrap().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Io, "{e}");
    }
    let mut later = cf.put("x", "v");
    run(&w);
    assert!(later.try_result().unwrap().is_err());
}

#[test]
fn a_write_that_may_not_wait_is_told_of_a_stall_and_others_stay() {
    let (w, db) = manual(&["async_mode=dedicated"]);
    let cf = db.default_cf().to_async();
    db.pause_background_work().unwrap();
    let options = [
        ("write_buffer_size", "65536"),
        ("max_write_buffer_number", "2"),
    ];
    db.default_cf().set_options(&options).unwrap();
    let mut impatient = WriteOptions::new();
    impatient.no_slowdown = true;
    let mut refused = false;
    for n in 0..400u32 {
        let mut put = cf.put_opt(n.to_be_bytes(), vec![0; 1000], &impatient);
        run(&w);
        if let Err(e) = put.try_result().unwrap() {
            assert_eq!(e.to_string(), "Result incomplete: Write stall");
            refused = true;
            break;
        }
    }
    assert!(refused);
    let mut patient = cf.put("patient", "v");
    db.continue_background_work().unwrap();
    run(&w);
    assert!(patient.try_result().unwrap().is_ok());
}

#[test]
fn close_carries_out_what_was_accepted_and_fails_what_was_not() {
    let (w, db) = manual(&["async_queue_length=2"]);
    let cf = db.default_cf().to_async();
    let (mut a, b) = (cf.put_opt("a", "1", &synced()), cf.put("b", "2"));
    let mut waits = cf.put("c", "3");
    let mut scan = cf.scan(&ReadOptions::default(), 10);
    drop(b);
    db.close().unwrap();
    assert!(a.try_result().unwrap().is_ok());
    let e = waits.try_result().unwrap().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ShutdownInProgress);
    assert_eq!(scan.try_result().unwrap().unwrap().entries.len(), 2);
    let e = cf.put("d", "4").try_result().unwrap().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ShutdownInProgress);
    let e = cf.get("a").try_result().unwrap().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ShutdownInProgress);
    drop(cf);
    let db = builder("/db", &w.env, &[]).open().unwrap();
    assert_eq!(value(&db.default_cf(), "b").as_deref(), Some(&b"2"[..]));
    assert_eq!(value(&db.default_cf(), "c"), None);
}

/// The last handle goes while writes are outstanding whose futures do not hold one.
#[test]
fn futures_outlive_the_handles() {
    let (_w, db) = manual(&[]);
    let cf = db.default_cf().to_async();
    let (mut a, mut get) = (cf.put("a", "1"), cf.scan(&ReadOptions::default(), 1));
    drop((cf, db));
    assert!(a.try_result().unwrap().is_ok());
    assert_eq!(get.try_result().unwrap().unwrap().entries.len(), 1);
}

/// R-SPAN-20: locks are held until the outcome is known, and no longer.
#[test]
fn a_commit_keeps_its_locks_until_it_is_done() {
    let (w, db) = manual(&["async_mode=shared"]);
    let cf = db.default_cf();
    for is_optimistic in [false, true] {
        let options = match is_optimistic {
            true => TxnOptions::optimistic(),
            false => TxnOptions::pessimistic(),
        };
        let mut txn = db.transaction_opt(options, synced());
        txn.put(&cf, "k", "v").unwrap();
        let mut commit = txn.commit_async();
        assert!(commit.is_accepted());
        assert!(commit.try_result().is_none());
        let mut other = db.transaction(TxnOptions::pessimistic().lock_timeout(0));
        assert_eq!(other.put(&cf, "k", "w").is_ok(), is_optimistic);
        drop(other);
        run(&w);
        commit.try_result().unwrap().unwrap();
        let mut other = db.transaction(TxnOptions::pessimistic().lock_timeout(0));
        other.put(&cf, "k", "w").unwrap();
    }
    // A conflict is an error of the future.
    let mut txn = db.transaction(TxnOptions::optimistic());
    txn.put(&cf, "k", "1").unwrap();
    cf.put("k", "2").unwrap();
    let e = txn.commit_async().wait().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Busy);
    let empty = db.transaction(TxnOptions::pessimistic());
    empty.commit_async().wait().unwrap();
}

/// Acknowledged writes that asked for a sync survive any power loss; what survives of the others is a prefix.
#[test]
fn acknowledged_writes_survive_power_losses() {
    let mut rng = Rng::new(seed(test_name!()));
    for is_fast in [false, true] {
        for round in 0..12u32 {
            let w = World::new(u64::from(round));
            let mut own = vec!["async_mode=shared"];
            if is_fast {
                speed_disk(&w.mem);
                own.push("sd_path=/fast/disk");
            }
            let db = builder("/db", &w.env, &own).open().unwrap();
            let cf = db.default_cf().to_async();
            let mut outstanding: Vec<(u32, bool, WriteFuture)> = Vec::new();
            let mut durable = None;
            let mut issued = 0u32;
            for _ in 0..rng.between(5, 60) {
                for _ in 0..rng.between(1, 8) {
                    let sync = rng.one_in(4);
                    let future = cf.put_opt(
                        issued.to_be_bytes(),
                        vec![b'v'; rng.index(300)],
                        &WriteOptions::new().sync(sync),
                    );
                    outstanding.push((issued, sync, future));
                    issued += 1;
                }
                if rng.one_in(2) {
                    w.executor.jobs.run_one();
                }
                if rng.one_in(10) {
                    cf.cf().flush(true).unwrap();
                }
                outstanding.retain_mut(|(n, sync, future)| match future.try_result() {
                    None => true,
                    Some(result) => {
                        result.unwrap();
                        // Before it in the order is before it in the log.
                        durable = durable.max(sync.then_some(*n));
                        false
                    }
                });
            }
            let crashed = Arc::new(w.mem.crash_clone(&mut |n| rng.below(n)));
            let (env, _, _) = Env::test(crashed, 1);
            let after = builder("/db", &env, &[]).open().unwrap();
            let keys: Vec<_> = after
                .default_cf()
                .iter()
                .map(|e| u32::from_be_bytes(e.unwrap().0[..].try_into().unwrap()))
                .collect();
            let count = keys.len() as u32;
            assert!(keys.iter().copied().eq(0..count), "{keys:?}");
            assert!(Some(count) > durable, "{durable:?} of {count}, {is_fast}");
            drop((outstanding, cf));
        }
    }
}

fn speed_disk(mem: &Arc<MemFs>) {
    use spanlith_speed::{FormatOptions, Target, format_disk};
    mem.make_device(Path::new("/fast/disk"), 2 << 20).unwrap();
    let target = Target::parse("/fast/disk").unwrap();
    let device = target.open(&**mem as &dyn FileSystem, false).unwrap();
    let options = FormatOptions {
        group_bytes: 64 << 10,
        ..FormatOptions::default()
    };
    format_disk(&*device, &options, *b"0123456789abcdef").unwrap();
}

/// Modes and numbers of threads, on real threads: each client reads what it wrote, later writes win, and synchronous
/// calls come in between.
#[test]
fn clients_on_threads_read_their_own_writes() {
    for (mode, threads) in [
        ("inline", 1),
        ("inline", 2),
        ("shared", 1),
        ("shared", 2),
        ("shared", 4),
        ("dedicated", 2),
        ("dedicated", 4),
    ] {
        let temp = TempDir::new("requests");
        let own = [
            format!("async_mode={mode}"),
            format!("async_threads={threads}"),
        ];
        let own = own.each_ref().map(String::as_str);
        let db = builder(temp.join("db"), &Env::system(), &own)
            .open()
            .unwrap();
        std::thread::scope(|scope| {
            for client in 0..4u8 {
                let cf = db.default_cf().to_async();
                scope.spawn(move || client_program(&cf, client));
            }
        });
        assert_eq!(figure(&db, "outstanding-writes"), 0);
        assert_eq!(db.default_cf().iter().count(), 4 * 10, "{mode} {threads}");
        db.close().unwrap();
    }
}

fn client_program(cf: &AsyncCf, client: u8) {
    let key = |n: u32| [client, (n % 10) as u8];
    let mut outstanding = std::collections::VecDeque::new();
    for n in 0..200u32 {
        if n % 17 == 0 {
            // Issued before, accepted before.
            cf.cf().put(key(n), n.to_be_bytes()).unwrap();
        }
        let sync = WriteOptions::new().sync(n % 50 == 0);
        outstanding.push_back((n, cf.put_opt(key(n), n.to_be_bytes(), &sync)));
        if outstanding.len() > 8 {
            let (n, future) = outstanding.pop_front().unwrap();
            future.wait().unwrap();
            let found = cf.get(key(n)).wait().unwrap().unwrap();
            let found = u32::from_be_bytes(found[..].try_into().unwrap());
            assert!(found >= n && found % 10 == n % 10, "{found} {n}");
        }
        if n % 60 == 0 {
            cf.flush().wait().unwrap();
        }
    }
    for (_, future) in outstanding {
        future.wait().unwrap();
    }
    for n in 190..200u32 {
        let found = cf.get(key(n)).wait().unwrap().unwrap();
        assert_eq!(found[..], n.to_be_bytes(), "the last write wins");
    }
}

/// A database that nobody asks asynchronously has no thread for it, and one whose requests are answered at once neither.
#[test]
fn threads_start_with_the_first_request_that_needs_one() {
    use spanlith_env::{Executor, JobClass};
    let temp = TempDir::new("lazy");
    let mut env = Env::system();
    let executor = Arc::new(ThreadExecutor::new());
    env.executor = executor.clone() as Arc<dyn Executor>;
    let db = builder(temp.join("db"), &env, &["async_mode=inline"])
        .open()
        .unwrap();
    assert_eq!(db.property("spanlith.async-requests").as_deref(), Some(""));
    let cf = db.default_cf().to_async();
    for n in 0..50u32 {
        // The caller that waits carries it out.
        cf.put_opt(n.to_be_bytes(), "v", &synced()).wait().unwrap();
        assert!(cf.get(n.to_be_bytes()).wait().unwrap().is_some());
    }
    cf.scan(&ReadOptions::default(), 5).wait().unwrap();
    assert_eq!(executor.threads(JobClass::Request), 0);
    assert_eq!(figure(&db, "thread-wakeups"), 0);
    // A dropped write is nobody's to wait for.
    drop(cf.put("dropped", "v"));
    let mut polled = cf.put("polled", "v");
    while polled.try_result().is_none() {
        std::thread::yield_now();
    }
    assert_eq!(executor.threads(JobClass::Request), 1);
    drop(cf);
    db.close().unwrap();
}

/// Close comes while clients issue and wait: every future ends, and what was acknowledged is there.
#[test]
fn close_races_with_clients() {
    let temp = TempDir::new("races");
    for mode in ["inline", "shared"] {
        let dir = temp.join(mode);
        let own = [format!("async_mode={mode}")];
        let own = [own[0].as_str()];
        let db = builder(&dir, &Env::system(), &own).open().unwrap();
        let start = Barrier::new(4);
        let acknowledged = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..3u8)
                .map(|client| {
                    let (cf, start) = (db.default_cf().to_async(), &start);
                    scope.spawn(move || {
                        start.wait();
                        let mut done = 0u32;
                        loop {
                            let pair = [done, done + 1].map(|n| {
                                let key = [&[client][..], &n.to_be_bytes()].concat();
                                cf.put(key, "v")
                            });
                            for future in pair {
                                match future.wait() {
                                    Ok(()) => done += 1,
                                    Err(e) => {
                                        assert_eq!(e.kind(), ErrorKind::ShutdownInProgress);
                                        return done;
                                    }
                                }
                            }
                        }
                    })
                })
                .collect();
            start.wait();
            for _ in 0..20 {
                std::thread::yield_now();
            }
            db.clone().close().unwrap();
            let done = clients.into_iter().map(|c| c.join().unwrap());
            done.collect::<Vec<_>>()
        });
        drop(db);
        let db = builder(&dir, &Env::system(), &[]).open().unwrap();
        for (client, done) in (0u8..).zip(acknowledged) {
            for n in 0..done {
                let key = [&[client][..], &n.to_be_bytes()].concat();
                assert!(db.default_cf().contains_key(key).unwrap(), "{mode} {n}");
            }
        }
    }
}

/// A panic of user code is an error of the request, not a future that never ends.
#[test]
fn a_panic_of_user_code_ends_the_request() {
    use spanlith::MergeOperator;
    struct Panics;
    impl MergeOperator for Panics {
        fn name(&self) -> &str {
            "Panics"
        }
        fn full_merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Option<Vec<u8>> {
            std::panic::resume_unwind(Box::new("the operator fails"))
        }
    }
    let w = World::new(1);
    let family = FamilyOptions::new("default").merge_operator(Arc::new(Panics));
    let db = Db::builder("/db")
        .create_if_missing(true)
        .env(w.env.clone())
        .family(family)
        .no_info_log()
        .open()
        .unwrap();
    db.default_cf().merge("k", "1").unwrap();
    let cf = db.default_cf().to_async();
    let mut scan = cf.scan(&ReadOptions::default(), 10);
    assert!(scan.try_result().is_none());
    run(&w);
    let e = scan.try_result().unwrap().unwrap_err();
    assert_eq!(
        e.to_string(),
        "Operation aborted: panic while an asynchronous request was carried out"
    );
    assert_eq!(figure(&db, "queued-now"), 0);
}
