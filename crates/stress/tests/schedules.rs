//! The whole engine under shuttle: threads, locks and background jobs take turns as a scheduler says,
//! on files in memory, and a search judges what the threads saw. Built only with `--cfg shuttle`; see
//! `scripts/shuttle.sh`. A deadlock, a lost wakeup included, is a failure: nothing times out here.
#![cfg(shuttle)]

use shuttle::rand::Rng as _;
use shuttle::thread;
use spanlith::{Cf, Db, FamilyOptions, UInt64Add};
use spanlith_base::sync::explore;
use spanlith_env::{Env, Executor, Job, JobClass, MemFs};
use spanlith_stress::histories::history::{Action, Event, History};
use spanlith_stress::histories::search::{Verdict, check};
use spanlith_stress::histories::{Mix, Round};
use spanlith_table::BlockCache;
use spanlith_testkit::Rng;
use std::sync::Arc;
use std::time::Duration;

/// Each job is a thread of its own, so that jobs of all classes overlap.
struct Jobs;

impl Executor for Jobs {
    fn spawn(&self, _class: JobClass, job: Job) {
        thread::spawn(job);
    }

    fn reserve(&self, _class: JobClass, _threads: usize) {}

    fn periodic(
        &self,
        _name: &str,
        _period: Duration,
        _tick: Box<dyn FnMut() -> bool + Send>,
    ) -> Box<dyn Send + Sync> {
        Box::new(())
    }
}

/// Options that a model chooses, by RocksDB's names.
type Options<'a> = &'a [(&'a str, &'a str)];

fn open(families: usize, options: Options<'_>) -> (Db, Vec<Cf>) {
    let (mut env, _, _) = Env::test(Arc::new(MemFs::new()), 1);
    env.executor = Arc::new(Jobs);
    let mut builder = Db::builder("/db")
        .env(env)
        .create_if_missing(true)
        .merge_operator(Arc::new(UInt64Add))
        .block_cache(BlockCache::new(1, spanlith_cache::Policy::Lru))
        .no_info_log();
    let mut db_options = spanlith::options::DbOptions::default();
    db_options.create_if_missing = true;
    db_options.create_missing_column_families = true;
    builder = builder.options(db_options);
    for family in 1..families {
        builder = builder
            .family(FamilyOptions::new(format!("f{family}")).merge_operator(Arc::new(UInt64Add)));
    }
    let db = builder.open().unwrap();
    let mut cfs = vec![db.default_cf()];
    for family in 1..families {
        cfs.push(db.cf(&format!("f{family}")).unwrap());
    }
    if !options.is_empty() {
        for cf in &cfs {
            cf.set_options(options).unwrap();
        }
    }
    (db, cfs)
}

/// Puts a first value under each key, and tables of them on the disk.
fn fill(clients: &Round, tables: u64) -> Vec<Event> {
    let mut events = Vec::new();
    for n in 0..tables {
        let client = clients.client(100 + n as usize, Rng::new(n), 0, Mix::WRITES);
        events.extend(client.run(3).unwrap());
        clients.db().flush(true).unwrap();
    }
    events
}

/// Describes what else happens while the clients run.
type Beside = fn(&Db, &[Cf]);

/// Lets clients loose, one per mix, with another thread beside them, and judges.
fn judge(
    families: usize,
    options: Options<'_>,
    tables: u64,
    mixes: &[(Mix, u64)],
    beside: &[Beside],
) {
    let (db, cfs) = open(families, options);
    // Chance is the scheduler's, so that a replayed schedule meets the same operations.
    let seed = shuttle::rand::thread_rng().r#gen::<u64>();
    let round = Arc::new(Round::new(&db, cfs.clone(), 0, 4));
    let mut events = fill(&round, tables);
    let mut rng = Rng::new(seed);
    let clients: Vec<_> = mixes
        .iter()
        .enumerate()
        .map(|(n, (mix, count))| {
            let (round, rng, mix, count) = (round.clone(), rng.fork(), *mix, *count);
            thread::spawn(move || round.client(n, rng, 0, mix).run(count))
        })
        .collect();
    let others: Vec<_> = beside
        .iter()
        .map(|work| {
            let (db, cfs, work) = (db.clone(), cfs.clone(), *work);
            thread::spawn(move || work(&db, &cfs))
        })
        .collect();
    for client in clients {
        events.extend(client.join().unwrap().unwrap());
    }
    for other in others {
        other.join().unwrap();
    }
    // The final contents are part of the history, before and after the background has come to rest.
    for _ in 0..2 {
        let last = round.client(99, rng.fork(), 0, Mix::SNAPSHOTS).run(2);
        events.extend(last.unwrap());
        db.wait_idle(None).unwrap();
    }
    drop((cfs, round));
    db.close().unwrap();
    let history = History { keys: 4, events };
    match check(&history, 1_000_000) {
        Verdict::Linearizable => {}
        verdict => panic!("{verdict:?}"),
    }
}

fn flush(db: &Db, _: &[Cf]) {
    db.flush(false).unwrap();
    db.flush(true).unwrap();
}

fn compact(_: &Db, cfs: &[Cf]) {
    for cf in cfs {
        cf.compact_range(None, None).unwrap();
    }
}

#[test]
fn four_writers_and_switches_of_memtables() {
    explore("engine: 4 writers, switches, flush", || {
        judge(1, &[], 0, &[(Mix::WRITES, 2); 4], &[flush]);
    });
}

#[test]
fn publication_to_readers_of_several_keys() {
    explore("engine: publication, 2 writers, 2 readers", || {
        let mixes = [
            (Mix::WRITES, 3),
            (Mix::WRITES, 2),
            (Mix::READS, 3),
            (Mix::READS, 3),
        ];
        judge(2, &[], 0, &mixes, &[]);
    });
}

#[test]
fn superversions_installed_under_readers() {
    explore("engine: install, iterators, compaction, purge", || {
        let mixes = [(Mix::WRITES, 2), (Mix::READS, 3), (Mix::SNAPSHOTS, 4)];
        judge(
            1,
            &[("disable_auto_compactions", "true")],
            2,
            &mixes,
            &[flush, compact],
        );
    });
}

#[test]
fn snapshots_taken_and_released_under_compaction() {
    explore("engine: snapshot list, compaction", || {
        let mixes = [(Mix::WRITES, 3), (Mix::SNAPSHOTS, 6), (Mix::SNAPSHOTS, 4)];
        judge(1, &[], 1, &mixes, &[compact]);
    });
}

#[test]
fn tables_opened_and_evicted_under_readers() {
    explore("engine: table and block cache, purge", || {
        let mixes = [(Mix::READS, 4), (Mix::READS, 4), (Mix::SNAPSHOTS, 2)];
        judge(
            1,
            &[("disable_auto_compactions", "true")],
            3,
            &mixes,
            &[compact],
        );
    });
}

#[test]
fn writers_stopped_by_full_memtables_and_level_0_go_on() {
    explore("engine: throttle, 3 writers stopped by level 0", || {
        let options = [
            ("max_write_buffer_number", "2"),
            ("level0_file_num_compaction_trigger", "1"),
            ("level0_slowdown_writes_trigger", "2"),
            ("level0_stop_writes_trigger", "2"),
        ];
        judge(1, &options, 1, &[(Mix::WRITES, 2); 3], &[flush, flush]);
    });
}

#[test]
fn options_change_under_flushes_and_writes() {
    explore("engine: set_options, flush, writes", || {
        let change: Beside = |_, cfs| {
            for n in ["3", "5"] {
                cfs[0]
                    .set_options(&[("max_write_buffer_number", n)])
                    .unwrap();
            }
        };
        judge(
            1,
            &[],
            0,
            &[(Mix::WRITES, 2), (Mix::READS, 2)],
            &[flush, change],
        );
    });
}

#[test]
fn a_family_is_dropped_under_writes_to_it_and_to_another() {
    explore("engine: family dropped, writes", || {
        let (db, cfs) = open(2, &[]);
        let writers: Vec<_> = cfs
            .iter()
            .cloned()
            .map(|cf| {
                thread::spawn(move || {
                    for n in 0..3 {
                        let done = cf.put("k", n.to_string());
                        // The dropped family may refuse; the other may not.
                        assert!(done.is_ok() || cf.id() != 0, "{done:?}");
                    }
                })
            })
            .collect();
        let (dropping, dropped) = (db.clone(), cfs[1].clone());
        let drops = thread::spawn(move || dropping.drop_cf(&dropped).unwrap());
        for writer in writers {
            writer.join().unwrap();
        }
        drops.join().unwrap();
        assert_eq!(cfs[0].get("k").unwrap().as_deref(), Some(&b"2"[..]));
        drop(cfs);
        db.close().unwrap();
    });
}

#[test]
fn closing_under_everything_ends_and_loses_nothing_acknowledged() {
    explore(
        "engine: close under writers, readers, flush, compaction",
        || {
            let fs = MemFs::new();
            let (mut env, _, _) = Env::test(Arc::new(fs), 1);
            env.executor = Arc::new(Jobs);
            let open = |env: &Env| {
                let builder = Db::builder("/db").env(env.clone()).create_if_missing(true);
                builder.no_info_log().open().unwrap()
            };
            let db = open(&env);
            let writers: Vec<_> = (0..2)
                .map(|thread: usize| {
                    let cf = db.default_cf();
                    thread::spawn(move || {
                        let key = format!("k{thread}");
                        (0..3)
                            .take_while(|n| cf.put(&key, n.to_string()).is_ok())
                            .last()
                    })
                })
                .collect();
            let (reading, working) = (db.default_cf(), db.clone());
            let others = [
                thread::spawn(move || {
                    let _ = reading.get("k0");
                    let _ = reading.iter().count();
                }),
                thread::spawn(move || {
                    let _ = working.flush(true);
                    let _ = working.default_cf().compact_range(None, None);
                }),
            ];
            db.close().unwrap();
            let last: Vec<Option<i32>> = writers.into_iter().map(|w| w.join().unwrap()).collect();
            for other in others {
                other.join().unwrap();
            }
            let db = open(&env);
            for (thread, last) in last.iter().enumerate() {
                let found = db.default_cf().get(format!("k{thread}")).unwrap();
                let found = found.map(|v| String::from_utf8_lossy(&v).parse::<i32>().unwrap());
                // A write that was refused may still be there.
                assert!(found >= *last, "{found:?} after {last:?} was acknowledged");
            }
            db.close().unwrap();
        },
    );
}

/// A database whose asynchronous requests are carried out in a mode, with room for few.
fn open_async(mode: &str) -> Db {
    let (mut env, _, _) = Env::test(Arc::new(MemFs::new()), 1);
    env.executor = Arc::new(Jobs);
    let builder = Db::builder("/db").env(env).create_if_missing(true);
    let builder = builder.set(format!("async_mode={mode}")).unwrap();
    let builder = builder.set("async_queue_length=2").unwrap();
    builder.no_info_log().open().unwrap()
}

/// Every future ends, in whichever way it is waited for, and the last write of a client wins.
fn async_clients(mode: &'static str) -> impl Fn() + Send + Sync + 'static {
    move || {
        let db = open_async(mode);
        let clients: Vec<_> = (0..3usize)
            .map(|client| {
                let cf = db.default_cf().to_async();
                thread::spawn(move || {
                    let key = format!("k{client}");
                    let sync = spanlith::WriteOptions::new().sync(client == 0);
                    let first = cf.put_opt(&key, "1", &sync);
                    let second = cf.put_opt(&key, "2", &sync);
                    let page = cf.scan(&spanlith::ReadOptions::default(), 1);
                    match client {
                        0 => {
                            first.wait().unwrap();
                            second.wait().unwrap();
                        }
                        1 => {
                            // The first write may wait for room until then.
                            shuttle::future::block_on(second).unwrap();
                            drop(first);
                        }
                        _ => {
                            shuttle::future::block_on(async {
                                first.await.unwrap();
                                second.await.unwrap();
                            });
                        }
                    }
                    let found = cf.get(&key).wait().unwrap();
                    assert_eq!(found.as_deref(), Some(&b"2"[..]));
                    page.wait().unwrap();
                })
            })
            .collect();
        for client in clients {
            client.join().unwrap();
        }
        db.close().unwrap();
    }
}

#[test]
fn asynchronous_requests_wake_those_that_wait() {
    explore("requests: 3 clients, inline", async_clients("inline"));
    explore("requests: 3 clients, shared", async_clients("shared"));
    explore("requests: 3 clients, dedicated", async_clients("dedicated"));
}

#[test]
fn closing_ends_all_asynchronous_requests() {
    for mode in ["inline", "shared"] {
        explore("requests: close under clients", move || {
            let db = open_async(mode);
            let clients: Vec<_> = (0..2usize)
                .map(|client| {
                    let cf = db.default_cf().to_async();
                    thread::spawn(move || {
                        let futures = [0, 1].map(|n| cf.put(format!("{client}{n}"), "v"));
                        let flush = cf.flush();
                        let mut written = 0;
                        for future in futures {
                            match shuttle::future::block_on(future) {
                                Ok(()) => written += 1,
                                Err(e) => {
                                    assert_eq!(e.kind(), spanlith::ErrorKind::ShutdownInProgress);
                                }
                            }
                        }
                        // It may be in time, or not.
                        let _ = flush.wait();
                        written
                    })
                })
                .collect();
            db.clone().close().unwrap();
            let written: usize = clients.into_iter().map(|c| c.join().unwrap()).sum();
            assert_eq!(db.default_cf().iter().count(), written);
        });
    }
}

/// The judge must be able to fail here, too: a reader that mixes two moments is caught.
#[test]
fn two_gets_passed_off_as_one_observation_are_caught() {
    let caught = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = caught.clone();
    explore("engine: a planted torn read", move || {
        let (db, cfs) = open(1, &[]);
        let writing = cfs[0].clone();
        let writer = thread::spawn(move || {
            let mut batch = spanlith::WriteBatch::new();
            batch.put("a", "1").put("b", "1");
            writing.db().write(&batch).unwrap();
        });
        let get = |key: &str| cfs[0].get(key).unwrap().map(|_| 1_u64);
        let seen = vec![(0, get("a")), (1, get("b"))];
        writer.join().unwrap();
        let event = |invoked, returned, action| Event {
            thread: 0,
            verb: "test",
            invoked,
            returned,
            action,
        };
        use spanlith_stress::histories::history::Effect::Put;
        let events = vec![
            event(1, 4, Action::Write(vec![(0, Put(1)), (1, Put(1))])),
            event(2, 3, Action::Observe(seen)),
        ];
        if check(&History { keys: 2, events }, 1000) != Verdict::Linearizable {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        drop(cfs);
        db.close().unwrap();
    });
    assert_ne!(caught.load(std::sync::atomic::Ordering::Relaxed), 0);
}
