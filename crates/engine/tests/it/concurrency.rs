//! Several threads on one database: groups of writers, readers without locks, iterators and snapshots
//! while memtables are sealed, flushed and compacted.

use spanlith::options::CfOptions;
use spanlith::{Db, ErrorKind, FlushOptions, ReadOptions, WriteBatch, WriteOptions};
use spanlith_env::{Env, Executor, Job, JobClass, ManualExecutor, MemFs};
use spanlith_testkit::TempDir;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn open(dir: &Path) -> Db {
    let mut cf = CfOptions::default();
    cf.write_buffer_size = 128 << 10;
    cf.target_file_size_base = 64 << 10;
    cf.max_bytes_for_level_base = 256 << 10;
    cf.level0_file_num_compaction_trigger = 2;
    Db::builder(dir)
        .create_if_missing(true)
        .cf_options(cf)
        .open()
        .unwrap()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

/// Holds W4.
#[test]
fn readers_never_see_a_value_go_back_or_half_a_batch() {
    const WRITERS: u64 = 3;
    const ROUNDS: u64 = 4_000;
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let stop = AtomicBool::new(false);
    let reads = AtomicU64::new(0);
    std::thread::scope(|s| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|w| {
                let db = &db;
                s.spawn(move || {
                    let mut batch = WriteBatch::new();
                    for round in 1..=ROUNDS {
                        // Two keys far apart, always equal; some values large, so that groups are
                        // large enough to be applied in parallel.
                        let mut value = round.to_le_bytes().to_vec();
                        let pad = if round % 50 == 0 { 20_000 } else { 60 };
                        value.resize(8 + pad, b'.');
                        batch.clear();
                        batch
                            .put(format!("a{w}"), &value)
                            .put(format!("z{w}"), &value);
                        let sync = WriteOptions::new().sync(round % 500 == 0);
                        db.write_opt(&batch, &sync).unwrap();
                    }
                })
            })
            .collect();
        for r in 0..2u64 {
            let (db, stop, reads) = (&db, &stop, &reads);
            s.spawn(move || {
                let cf = db.default_cf();
                let mut last = [0u64; WRITERS as usize];
                while !stop.load(Ordering::Relaxed) {
                    for w in 0..WRITERS {
                        let got = cf.get(format!("a{w}")).unwrap().map_or(0, |v| number(&v));
                        assert!(got >= last[w as usize], "a value went back");
                        last[w as usize] = got;
                    }
                    // One point in time: the two halves of a batch are equal in it.
                    let snapshot = db.snapshot();
                    let options = ReadOptions::new().snapshot(&snapshot);
                    let mut halves = [[0u64; 2]; WRITERS as usize];
                    if r == 0 {
                        for entry in cf.iter_opt(options) {
                            let (k, v) = entry.unwrap();
                            let w = usize::from(k[1] - b'0');
                            halves[w][usize::from(k[0] == b'z')] = number(&v);
                        }
                    } else {
                        for (w, halves) in halves.iter_mut().enumerate() {
                            for (half, side) in ["a", "z"].iter().enumerate() {
                                let got = cf.get_opt(format!("{side}{w}"), &options).unwrap();
                                halves[half] = got.map_or(0, |v| number(&v));
                            }
                        }
                    }
                    for [a, z] in halves {
                        assert_eq!(a, z, "half a batch");
                    }
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                db.flush(true).unwrap();
                db.default_cf().compact_range(None, None).unwrap();
                std::thread::yield_now();
            }
        });
        for w in writers {
            w.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(reads.load(Ordering::Relaxed) > 20);
    let sequence = db.latest_sequence_number();
    assert_eq!(sequence, WRITERS * ROUNDS * 2, "each entry took one number");
    db.close().unwrap();
    let db = open(dir.path());
    for w in 0..WRITERS {
        let v = db.default_cf().get(format!("z{w}")).unwrap().unwrap();
        assert_eq!(number(&v), ROUNDS);
    }
}

#[test]
fn closing_while_others_write_refuses_them_and_loses_nothing_acknowledged() {
    for round in 0..10 {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path());
        let acked: Vec<u64> = std::thread::scope(|s| {
            let threads: Vec<_> = (0..3)
                .map(|t| {
                    let cf = db.default_cf();
                    s.spawn(move || {
                        let mut n = 0u64;
                        while cf.put(format!("{t}-{n:06}"), [b'x'; 200]).is_ok() {
                            n += 1;
                        }
                        n
                    })
                })
                .collect();
            std::thread::yield_now();
            while db.latest_sequence_number() < 200 * (round + 1) {
                std::thread::yield_now();
            }
            db.clone().close().unwrap();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        drop(db);
        let db = open(dir.path());
        for (t, n) in acked.into_iter().enumerate() {
            for i in 0..n {
                let got = db.default_cf().get(format!("{t}-{i:06}")).unwrap();
                assert!(got.is_some(), "write {i} of thread {t} lost");
            }
        }
    }
}

/// Checks what may be called while a writer is stopped, and lifts the stop.
#[test]
fn a_stopped_writer_holds_nobody_up_who_changes_options_or_does_not_want_to_wait() {
    let temp = TempDir::new("stopped");
    let options = CfOptions::default()
        .level0_file_num_compaction_trigger(2)
        .level0_slowdown_writes_trigger(2)
        .level0_stop_writes_trigger(2);
    let db = Db::builder(temp.path())
        .create_if_missing(true)
        .cf_options(options)
        .no_info_log()
        .open()
        .unwrap();
    let cf = db.default_cf();
    db.abort_compactions();
    for n in 0..2 {
        cf.put(format!("k{n}"), "v").unwrap();
        let at_once = FlushOptions {
            wait: true,
            allow_write_stall: true,
            ..FlushOptions::default()
        };
        cf.flush_opt(at_once).unwrap();
    }
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| cf.put("stopped", "v").unwrap());
        // The answers are the same before and after the writer has come to the gate.
        for _ in 0..20 {
            let mut hasty = WriteOptions::new();
            hasty.no_slowdown = true;
            let refused = cf.put_opt("hasty", "v", &hasty).unwrap_err();
            assert_eq!(refused.to_string(), "Result incomplete: Write stall");
            db.flush_wal(true).unwrap();
            std::thread::yield_now();
        }
        let refused = cf.flush(false).unwrap_err().to_string();
        let text = "Operation failed. Try again.: Writes have been stopped, thus unable to perform manual \
                    flush. Please try again later after writes are resumed";
        assert_eq!(refused, text);
        db.set_options(&[("delayed_write_rate", "16777216")])
            .unwrap();
        assert!(!writer.is_finished());
        let lift = [
            ("level0_slowdown_writes_trigger", "100"),
            ("level0_stop_writes_trigger", "100"),
        ];
        cf.set_options(&lift).unwrap();
        writer.join().unwrap();
    });
    db.close().unwrap();
}

/// Callbacks on the thread of a writer that change options, flush another database, or sync the log.
#[test]
fn listeners_on_the_thread_of_a_writer_may_call_what_needs_no_place_in_the_queue() {
    use spanlith::listener::{MemtableInfo, WriteStallInfo};
    use std::sync::{Mutex, OnceLock};
    #[derive(Default)]
    struct Calls {
        own: OnceLock<spanlith::WeakDb>,
        other: Mutex<Option<Db>>,
        stalls: Mutex<usize>,
    }
    impl spanlith::EventListener for Calls {
        fn on_memtable_sealed(&self, _: &MemtableInfo) {
            let other = self.other.lock().unwrap().clone().unwrap();
            other.default_cf().put("k", "v").unwrap();
            other.flush(true).unwrap();
            other.default_cf().compact_range(None, None).unwrap();
            let own = self.own.get().unwrap().upgrade().unwrap();
            own.set_options(&[("bytes_per_sync", "0")]).unwrap();
            own.flush_wal(true).unwrap();
        }
        fn on_stall_conditions_changed(&self, _: &WriteStallInfo) {
            *self.stalls.lock().unwrap() += 1;
            if let Some(own) = self.own.get().and_then(spanlith::WeakDb::upgrade) {
                let change = [("level0_slowdown_writes_trigger", "20")];
                own.default_cf().set_options(&change).unwrap();
                own.flush_wal(false).unwrap();
            }
        }
    }
    let temp = TempDir::new("callbacks");
    let calls = std::sync::Arc::new(Calls::default());
    let open = |name: &str, listener: bool| {
        let options = CfOptions::default()
            .write_buffer_size(64u64 << 10)
            .max_write_buffer_number(2)
            .level0_slowdown_writes_trigger(2)
            .level0_stop_writes_trigger(36);
        let builder = Db::builder(temp.join(name))
            .create_if_missing(true)
            .cf_options(options)
            .no_info_log();
        match listener {
            true => builder.listener(calls.clone()),
            false => builder,
        }
        .open()
        .unwrap()
    };
    *calls.other.lock().unwrap() = Some(open("other", false));
    let db = open("own", true);
    assert!(calls.own.set(db.downgrade()).is_ok());
    for n in 0..400 {
        db.default_cf()
            .put(format!("k{n}"), vec![b'v'; 2000])
            .unwrap();
    }
    db.flush(true).unwrap();
    assert!(*calls.stalls.lock().unwrap() > 0);
    db.close().unwrap();
    calls.other.lock().unwrap().take().unwrap().close().unwrap();
}

/// The writer holds what a last flush of unlogged writes would need.
#[test]
fn close_and_the_end_of_background_work_do_not_wait_for_a_writer_that_is_stopped() {
    for closes in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path());
        db.pause_background_work().unwrap();
        let cf = db.default_cf();
        std::thread::scope(|s| {
            let writer = s.spawn(|| {
                let unlogged = WriteOptions::new().disable_wal(true);
                loop {
                    if let Err(e) = cf.put_opt("k", [b'v'; 1000], &unlogged) {
                        return e;
                    }
                }
            });
            while cf.property("rocksdb.is-write-stopped").as_deref() != Some("1") {
                std::thread::yield_now();
            }
            match closes {
                true => db.close().unwrap(),
                false => db.cancel_background_work(true).unwrap(),
            }
            let e = writer.join().unwrap();
            assert_eq!(e.kind(), ErrorKind::ShutdownInProgress, "{e}");
        });
    }
}

/// An executor with threads, if the system gave it any.
#[derive(Default)]
struct Threadless(ManualExecutor);

impl Executor for Threadless {
    fn spawn(&self, class: JobClass, job: Job) {
        self.0.spawn(class, job);
    }

    fn reserve(&self, _: JobClass, _: usize) {}

    fn lacks_threads(&self) -> bool {
        self.0.pending() > 0
    }

    fn help(&self) -> bool {
        self.0.help()
    }

    fn periodic(
        &self,
        _: &str,
        _: Duration,
        _: Box<dyn FnMut() -> bool + Send>,
    ) -> Box<dyn Send + Sync> {
        Box::new(())
    }
}

#[test]
fn without_threads_who_waits_for_background_work_does_it() {
    let (mut env, ..) = Env::test(Arc::new(MemFs::new()), 1);
    env.executor = Arc::new(Threadless::default());
    let mut options = CfOptions::default();
    options.write_buffer_size = 64 << 10;
    let db = Db::builder("/db").create_if_missing(true).no_info_log();
    let db = db.cf_options(options).env(env).open().unwrap();
    let cf = db.default_cf();
    // A writer who is stopped, one who flushes, and one who waits for everything.
    for n in 0..1000u32 {
        cf.put(n.to_le_bytes(), [b'v'; 1000]).unwrap();
    }
    cf.flush(true).unwrap();
    db.wait_idle(None).unwrap();
    db.close().unwrap();
}
