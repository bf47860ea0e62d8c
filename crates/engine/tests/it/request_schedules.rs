//! Asynchronous requests under all schedules of their workers: tasks that are dropped at each of their awaits, and requests that
//! none of the workers may leave lying (R-SPAN-10, R-SPAN-11).

use crate::world::World;
use spanlith::options::DbOptions;
use spanlith::{
    AsyncCf, Db, ReadFuture, ReadOptions, Result, StringAppend, WriteBatch, WriteFuture,
    WriteOptions,
};
use spanlith_env::JobClass;
use spanlith_testkit::{Rng, seed, test_name};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

/// The modes that 1, 2 and 4 cores choose, with as many threads.
const CORES: [(&str, u64); 3] = [("inline", 1), ("shared", 2), ("dedicated", 4)];

fn open(w: &World, mode: &str, threads: u64) -> Db {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    let builder = Db::builder("/db")
        .env(w.env.clone())
        .options(options)
        .merge_operator(Arc::new(StringAppend::new(b",")))
        .no_info_log()
        .set(format!("async_mode={mode};async_threads={threads}"));
    builder.unwrap().open().unwrap()
}

/// A figure of the property `spanlith.async-requests`.
fn figure(db: &Db, name: &str) -> u64 {
    let text = db.property("spanlith.async-requests").unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix(name));
    let line = line.unwrap_or_else(|| panic!("{name} in {text}"));
    line.trim_start_matches(": ").parse().unwrap()
}

/// A task of requests of every kind, each of which it awaits; `steps` counts those that are over.
async fn task(cf: AsyncCf, steps: Arc<AtomicUsize>) -> Result<()> {
    let over = || steps.fetch_add(1, Ordering::Relaxed);
    let synced = WriteOptions::new().sync(true);
    cf.put_opt("0", "v", &synced).await?;
    over();
    assert!(cf.get("0").await?.is_some());
    over();
    cf.merge("1", "a").await?;
    over();
    cf.flush().await?;
    over();
    let mut batch = WriteBatch::new();
    batch.put("2", "v").put("3", "v");
    cf.write_opt(&batch, &synced).await?;
    over();
    let read = cf.multi_get(["1", "2"], &ReadOptions::default()).await?;
    assert_eq!(read.len(), 2);
    over();
    let page = cf.scan(&ReadOptions::default(), 10).await?;
    assert_eq!(page.entries.len(), 4);
    over();
    cf.delete("0").await?;
    over();
    cf.put("4", "v").await?;
    over();
    Ok(())
}

/// Requests of [`task`].
const STEPS: usize = 9;

/// The keys that are there after so many of the task's writes.
fn keys_after(writes: usize) -> Vec<&'static str> {
    match writes {
        0 => vec![],
        1 => vec!["0"],
        2 => vec!["0", "1"],
        3 => vec!["0", "1", "2", "3"],
        4 => vec!["1", "2", "3"],
        _ => vec!["1", "2", "3", "4"],
    }
}

/// Polls and single jobs in turn, so many of both, and then the task is dropped: what it had written is there in its order, what it
/// had issued is over, and others go on.
#[test]
fn a_task_may_be_dropped_at_each_await() {
    for (mode, threads) in CORES {
        let mut dropped_after = [0; STEPS + 1];
        for turns in 0.. {
            let w = World::new(turns);
            let db = open(&w, mode, threads);
            let cf = db.default_cf().to_async();
            let steps = Arc::new(AtomicUsize::new(0));
            let mut future = Box::pin(task(cf.clone(), steps.clone()));
            let mut context = Context::from_waker(Waker::noop());
            let mut is_over = false;
            for turn in 0..turns {
                if turn % 2 == 1 {
                    w.executor.jobs.run_one();
                } else if let std::task::Poll::Ready(result) = future.as_mut().poll(&mut context) {
                    result.unwrap();
                    is_over = true;
                    break;
                }
            }
            drop(future);
            let over = steps.load(Ordering::Relaxed);
            dropped_after[over] += 1;
            w.executor.jobs.run_until_idle();
            let found: Vec<String> = (db.default_cf().iter())
                .map(|e| String::from_utf8_lossy(&e.unwrap().0).into_owned())
                .collect();
            // Of the requests that are over these are writes; one more may have been accepted.
            let writes = [0, 1, 1, 2, 2, 3, 3, 3, 4, 5][over];
            let is_expected = found == keys_after(writes) || found == keys_after(writes + 1);
            assert!(is_expected, "{mode}, {turns} turns, {over} over: {found:?}");
            for name in ["outstanding-writes", "outstanding-bytes", "queued-now"] {
                assert_eq!(figure(&db, name), 0, "{mode}, {turns} turns: {name}");
            }
            let mut later = cf.put("later", "v");
            assert!(later.try_result().is_none_or(|r| r.is_ok()));
            w.executor.jobs.run_until_idle();
            assert!(db.default_cf().get("later").unwrap().is_some());
            drop(cf);
            db.close().unwrap();
            if is_over {
                break;
            }
            assert!(turns < 200, "{mode}: the task does not end");
        }
        // It was dropped in each of its awaits, and at its end. The second is over at once: a memtable has what it reads.
        dropped_after[1] += 1;
        assert!(
            dropped_after.iter().all(|n| *n > 0),
            "{mode}: {dropped_after:?}"
        );
    }
}

/// A request of a client, and when it was issued.
enum Outstanding {
    Write(WriteFuture),
    Read(Box<dyn FnMut() -> bool>),
}

impl Outstanding {
    fn read<T: Send + 'static>(mut future: ReadFuture<T>) -> Self {
        Self::Read(Box::new(move || match future.try_result() {
            Some(result) => result.map(drop).is_ok(),
            None => false,
        }))
    }

    fn is_over(&mut self) -> bool {
        match self {
            Self::Write(future) => match future.try_result() {
                Some(result) => result.map(|()| true).unwrap(),
                None => false,
            },
            Self::Read(is_over) => is_over(),
        }
    }
}

/// R-SPAN-13: clients that issue at random and look at random, jobs that run in random order, and a clock that moves: whatever is asked
/// for is there within ten seconds, as long as some job runs every half second.
#[test]
fn no_request_grows_older_than_ten_seconds() {
    let mut rng = Rng::new(seed(test_name!()));
    for (mode, threads) in CORES {
        let w = World::new(rng.next_u64());
        let db = open(&w, mode, threads);
        let cf = db.default_cf().to_async();
        let now = || w.env.clock.monotonic_nanos();
        let mut all: Vec<(u64, Outstanding)> = Vec::new();
        let mut oldest = 0;
        for round in 0..4000u64 {
            let key = rng.below(200).to_be_bytes();
            let synced = WriteOptions::new().sync(rng.one_in(2));
            let new = match rng.below(20) {
                0..9 => Some(Outstanding::Write(cf.put_opt(key, [7; 200], &synced))),
                9..13 => Some(Outstanding::read(cf.get(key))),
                13 => Some(Outstanding::read(cf.scan(&ReadOptions::default(), 20))),
                14 => Some(Outstanding::Write(cf.delete(key))),
                15 if round % 50 == 0 => Some(Outstanding::read(cf.flush())),
                _ => None,
            };
            all.extend(new.map(|n| (now(), n)));
            w.clock.advance(Duration::from_millis(rng.below(100)));
            // Some class of jobs has a turn, and every fifth time all have.
            let class = [JobClass::Request, JobClass::High, JobClass::Low];
            w.executor.jobs.run_one_of(class[rng.index(3)]);
            if round % 5 == 0 {
                w.executor.jobs.run_one();
            }
            // Some client asks for some of its results, which has a worker look after them.
            let from = rng.index(all.len() + 1);
            let mut n = 0;
            all.retain_mut(|(issued, request)| {
                n += 1;
                if n <= from && !request.is_over() {
                    return true;
                }
                n > from || {
                    oldest = oldest.max(now() - *issued);
                    false
                }
            });
            for (issued, _) in &all {
                assert!(now() - issued < 10_000_000_000, "{mode}, round {round}");
            }
        }
        eprintln!("{mode}: the oldest request took {} ms", oldest / 1_000_000);
        w.executor.jobs.run_until_idle();
        assert!(all.iter_mut().all(|(_, r)| r.is_over()), "{mode}");
    }
}
