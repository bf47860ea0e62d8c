//! Groups of synced writes that are on their way to a speed disk beside each other.

use spanlith::options::{CfOptions, DbOptions};
use spanlith::{Db, FamilyOptions, OpenBuilder, ReadOptions, WriteOptions};
use spanlith_base::{Error, Result};
use spanlith_env::{BlockDevice, Durability, Env, Geometry, MemFs, SeededRng};
use spanlith_speed::emulated::{EmulatedDevice, PowerLoss, Profile};
use spanlith_speed::{FormatOptions, format_disk};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const SIZE: u64 = 8 << 20;

/// Describes what happens to a durable write: called with its number before it is made.
type Hook = Box<dyn Fn(u64) -> Result<()> + Send + Sync>;

/// A device of which durable writes take their time, and meet.
struct Gate {
    inner: Arc<EmulatedDevice>,
    hook: Mutex<Arc<Hook>>,
    number: AtomicU64,
    inside: AtomicUsize,
    most: AtomicUsize,
}

impl Gate {
    fn new() -> Arc<Self> {
        let profile = Profile::by_name("O").unwrap();
        let inner = Arc::new(EmulatedDevice::new(profile, SIZE));
        let options = FormatOptions {
            group_bytes: 64 << 10,
            ..FormatOptions::default()
        };
        format_disk(&*inner, &options, *b"0123456789abcdef").unwrap();
        Self::over(inner)
    }

    fn over(inner: Arc<EmulatedDevice>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            hook: Mutex::new(Arc::new(Box::new(|_| Ok(())))),
            number: AtomicU64::new(0),
            inside: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        })
    }

    fn hook(&self, hook: impl Fn(u64) -> Result<()> + Send + Sync + 'static) {
        self.number.store(0, Ordering::SeqCst);
        *self.hook.lock().unwrap() = Arc::new(Box::new(hook));
    }
}

impl BlockDevice for Gate {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8], durability: Durability) -> Result<()> {
        if durability == Durability::Cached {
            return self.inner.write_at(offset, data, durability);
        }
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        let hook = self.hook.lock().unwrap().clone();
        let written = hook(self.number.fetch_add(1, Ordering::SeqCst))
            .and_then(|()| self.inner.write_at(offset, data, durability));
        self.inside.fetch_sub(1, Ordering::SeqCst);
        written
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

fn memory(mem: &Arc<MemFs>) -> Env {
    Env {
        fs: mem.clone(),
        ..Env::system()
    }
}

fn builder(env: Env, device: &Arc<Gate>) -> OpenBuilder {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    let cf = CfOptions::new().write_buffer_size(64u64 << 10);
    Db::builder("/db")
        .env(env)
        .options(options)
        .cf_options(cf.clone())
        .family(FamilyOptions::new("two").options(cf))
        .no_info_log()
        .speed_device("gate", device.clone())
        .set("sd_writes_in_flight=4")
        .unwrap()
}

fn synced() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.sync = true;
    options
}

fn key(thread: u64, n: u64) -> Vec<u8> {
    format!("{thread:02}-{n:06}").into_bytes()
}

/// The keys of a thread that are there, which have no holes.
fn prefix(db: &Db, thread: u64) -> u64 {
    let two = db.cf("two").unwrap();
    let mut n = 0;
    while db.default_cf().get(key(thread, n)).unwrap().is_some() {
        n += 1;
    }
    for behind in n..n + 50 {
        assert!(db.default_cf().get(key(thread, behind)).unwrap().is_none());
    }
    // A write of the other family follows every tenth.
    let tens = (0..n).filter(|n| n % 10 == 0);
    let missing = tens.filter(|&n| two.get(key(thread, n)).unwrap().is_none());
    assert!(missing.count() <= 1, "the last one may be cut off");
    n
}

/// Writes until `most` keys are there or a write fails; returns the keys that were acknowledged.
fn write(db: &Db, thread: u64, from: u64, most: u64) -> u64 {
    let two = db.cf("two").unwrap();
    for n in from..most {
        let value = vec![thread as u8; 40 + (n as usize * 37) % 700];
        if db
            .default_cf()
            .put_opt(key(thread, n), &value, &synced())
            .is_err()
        {
            return n;
        }
        if n % 10 == 0 && two.put_opt(key(thread, n), &value, &synced()).is_err() {
            return n;
        }
    }
    most
}

/// A device and a file system as a loss of power leaves them.
fn after_loss(gate: &Gate, mem: &MemFs) -> (Arc<Gate>, Arc<MemFs>) {
    let rng = SeededRng::new(5);
    let device = Arc::new(gate.inner.after(PowerLoss::Nothing, &rng));
    (Gate::over(device), Arc::new(mem.strict_clone()))
}

#[test]
fn writers_are_beside_each_other_while_memtables_are_sealed_and_nothing_is_lost() {
    const THREADS: u64 = 6;
    const KEYS: u64 = 120;
    let seed = spanlith_testkit::seed(spanlith_testkit::test_name!());
    let (gate, mem) = (Gate::new(), Arc::new(MemFs::new()));
    let db = builder(memory(&mem), &gate).open().unwrap();
    gate.hook(move |n| {
        let rng = SeededRng::new(seed ^ n);
        std::thread::sleep(Duration::from_micros(rng.below(400)));
        Ok(())
    });
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let db = &db;
                scope.spawn(move || assert_eq!(write(db, thread, 0, KEYS), KEYS))
            })
            .collect();
        // A snapshot has no holes either: what a thread wrote before is there.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let snapshot = db.snapshot();
                let options = ReadOptions::new().snapshot(&snapshot);
                for thread in 0..THREADS {
                    let is_there = |n| {
                        db.default_cf()
                            .get_opt(key(thread, n), &options)
                            .unwrap()
                            .is_some()
                    };
                    let end = (0..KEYS).find(|&n| !is_there(n)).unwrap_or(KEYS);
                    assert!(!(end..KEYS).any(is_there), "thread {thread} from {end} on");
                }
            }
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                db.flush(true).unwrap();
                db.sync().unwrap();
                // Unsynced ones go by themselves in between.
                db.default_cf().put("unsynced", "1").unwrap();
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(
        gate.most.load(Ordering::SeqCst) > 1,
        "nothing was in flight beside another"
    );
    let (gate, left) = after_loss(&gate, &mem);
    let again = builder(memory(&left), &gate).open().unwrap();
    for thread in 0..THREADS {
        assert_eq!(prefix(&again, thread), KEYS);
    }
    again.close().unwrap();
    db.close().unwrap();
}

/// The second of two writes is on the disk first: its writer waits for the first all the same.
#[test]
fn a_write_that_overtakes_another_is_not_acknowledged_before_it() {
    let (gate, mem) = (Gate::new(), Arc::new(MemFs::new()));
    let db = builder(memory(&mem), &gate).open().unwrap();
    // The first write of a memtable goes by itself.
    write(&db, 9, 0, 1);
    let door = Arc::new((Mutex::new((false, 0u64)), Condvar::new()));
    let at = door.clone();
    gate.hook(move |n| {
        let mut state = at.0.lock().unwrap();
        state.1 = n + 1;
        at.1.notify_all();
        while n == 0 && !state.0 {
            state = at.1.wait(state).unwrap();
        }
        Ok(())
    });
    let arrived = |most: u64| {
        let mut state = door.0.lock().unwrap();
        while state.1 < most {
            state = door.1.wait(state).unwrap();
        }
    };
    let acknowledged = [AtomicBool::new(false), AtomicBool::new(false)];
    std::thread::scope(|scope| {
        for (thread, done) in acknowledged.iter().enumerate() {
            let db = &db;
            scope.spawn(move || {
                let put = db
                    .default_cf()
                    .put_opt(key(thread as u64, 0), b"v", &synced());
                put.unwrap();
                done.store(true, Ordering::SeqCst);
            });
            arrived(thread as u64 + 1);
        }
        std::thread::sleep(Duration::from_millis(30));
        assert!(
            !acknowledged[1].load(Ordering::SeqCst),
            "before the one before it"
        );
        assert!(
            db.default_cf().get(key(1, 0)).unwrap().is_none(),
            "nor is it seen"
        );
        // The power would leave neither.
        let (gate, left) = after_loss(&gate, &mem);
        let again = builder(memory(&left), &gate).open().unwrap();
        assert_eq!(
            (prefix(&again, 0), prefix(&again, 1), prefix(&again, 9)),
            (0, 0, 1)
        );
        again.close().unwrap();
        door.0.lock().unwrap().0 = true;
        door.1.notify_all();
    });
    assert!(db.default_cf().get(key(1, 0)).unwrap().is_some());
    db.close().unwrap();
}

#[test]
fn a_failed_write_takes_those_behind_it_along_and_none_before_it() {
    const THREADS: u64 = 5;
    for round in 0..8u64 {
        let seed = spanlith_testkit::seed(spanlith_testkit::test_name!()) ^ round;
        let (gate, mem) = (Gate::new(), Arc::new(MemFs::new()));
        let db = builder(memory(&mem), &gate).open().unwrap();
        let bad = 20 + SeededRng::new(seed).below(60);
        gate.hook(move |n| {
            std::thread::sleep(Duration::from_micros(SeededRng::new(seed ^ n).below(300)));
            match n == bad {
                true => Err(Error::io("a planted failure")),
                false => Ok(()),
            }
        });
        let acknowledged: Vec<u64> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let db = &db;
                    scope.spawn(move || write(db, thread, 0, 1_000))
                })
                .collect();
            writers.into_iter().map(|w| w.join().unwrap()).collect()
        });
        assert!(acknowledged.iter().all(|&n| n < 1_000), "W5: refused");
        let (other, left) = after_loss(&gate, &mem);
        let again = builder(memory(&left), &other).open().unwrap();
        for (thread, &n) in acknowledged.iter().enumerate() {
            let there = prefix(&again, thread as u64);
            assert!(
                (n..=n + 1).contains(&there),
                "round {round}: {there} of {n}"
            );
        }
        again.close().unwrap();
        // Resumed, it goes on where it stopped.
        gate.hook(|_| Ok(()));
        while db.resume().is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        for (thread, &n) in acknowledged.iter().enumerate() {
            assert_eq!(write(&db, thread as u64, n, n + 20), n + 20);
            assert_eq!(prefix(&db, thread as u64), n + 20);
        }
        db.close().unwrap();
        let (other, left) = after_loss(&gate, &mem);
        let again = builder(memory(&left), &other).open().unwrap();
        for (thread, &n) in acknowledged.iter().enumerate() {
            assert_eq!(prefix(&again, thread as u64), n + 20);
        }
        again.close().unwrap();
    }
}
