//! Several writers and readers at once, on real files with real threads.
//!
//! Each writer owns some keys and follows them in a map of its own; point reads and scans of its keys
//! must agree at any time, whatever the others and the background do. Besides, every batch of a writer
//! sets all *linked* keys of that writer to one number; readers look at the links of all writers under
//! snapshots and must never see a batch in part, nor a number smaller than one they saw before.

use crate::model::check::{flushed, options_at};
use crate::model::setup::{MergeKind, Setup, Tuning};
use crate::model::world::World;
use crate::watchdog::watched;
use spanlith::{Cf, Db, ReadOptions, WriteBatch, WriteOptions};
use spanlith_testkit::Rng;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Linked keys per writer.
const LINKS: u64 = 3;

/// Describes what to run.
#[derive(Clone, Debug)]
pub struct ThreadsPlan {
    /// Seed of the run. Threads interleave as they will: a failure may need several tries.
    pub seed: u64,
    /// Openings of a database, each with its own options.
    pub rounds: u64,
    /// Writers at once.
    pub writers: u64,
    /// Readers at once.
    pub readers: u64,
    /// Writes of each writer in a round.
    pub writes: u64,
}

impl ThreadsPlan {
    /// Four writers, two readers.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            rounds: 20,
            writers: 4,
            readers: 2,
            writes: 1500,
        }
    }
}

/// Describes what was done.
#[derive(Debug, Default)]
pub struct ThreadsReport {
    /// Rounds finished.
    pub rounds: u64,
    /// Writes acknowledged.
    pub writes: u64,
    /// Reads compared.
    pub checks: u64,
}

type Own = BTreeMap<Vec<u8>, Vec<u8>>;

fn link(writer: u64, n: u64) -> Vec<u8> {
    // Between the writers' keys, so that scans of one writer pass none.
    format!("z-link-{n}-{writer}").into_bytes()
}

fn number(bytes: Option<&[u8]>) -> u64 {
    bytes
        .and_then(|b| b.try_into().ok())
        .map_or(0, u64::from_be_bytes)
}

struct Counters {
    writes: AtomicU64,
    checks: AtomicU64,
    stop: AtomicBool,
}

fn check_own(cf: &Cf, own: &Own, writer: u64, rng: &mut Rng) -> Result<(), String> {
    let prefix = format!("w{writer}-");
    if rng.one_in(20) {
        let end = format!("w{writer}.");
        let rows = cf.iter_opt(ReadOptions::new().lower(&prefix).upper(&end));
        let mut want = own.iter();
        for row in rows {
            let (k, v) = row.map_err(|e| format!("scan: {e}"))?;
            if want.next() != Some((&k.to_vec(), &v.to_vec())) {
                return Err(format!(
                    "writer {writer}: scan differs at {}",
                    k.escape_ascii()
                ));
            }
        }
        if want.next().is_some() {
            return Err(format!("writer {writer}: scan ends early"));
        }
    }
    let key = format!("{prefix}{:04}", rng.below(300)).into_bytes();
    let got = cf.get(&key).map_err(|e| format!("get: {e}"))?;
    if got.as_deref() != own.get(&key).map(Vec::as_slice) {
        return Err(format!(
            "writer {writer}: get of {} differs",
            key.escape_ascii()
        ));
    }
    Ok(())
}

fn write(
    db: &Db,
    plan: &ThreadsPlan,
    writer: u64,
    first: u64,
    own: &mut Own,
    c: &Counters,
) -> Result<(), String> {
    let cf = db.default_cf();
    let mut rng = Rng::new(plan.seed ^ (writer << 48) ^ first);
    for n in first..first + plan.writes {
        if c.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let options = WriteOptions::new().sync(rng.one_in(60));
        let key = format!("w{writer}-{:04}", rng.below(300)).into_bytes();
        let len = rng.skewed(700) as usize;
        let value = rng.bytes(len);
        let done = match rng.below(4) {
            0 => {
                own.remove(&key);
                cf.delete_opt(&key, &options)
            }
            1 => {
                let mut batch = WriteBatch::new();
                for k in 0..LINKS {
                    batch.put(link(writer, k), n.to_be_bytes());
                }
                batch.put(&key, &value);
                own.insert(key, value);
                db.write_opt(&batch, &options)
            }
            _ => {
                let done = cf.put_opt(&key, &value, &options);
                own.insert(key, value);
                done
            }
        };
        done.map_err(|e| format!("writer {writer}: {e}"))?;
        c.writes.fetch_add(1, Ordering::Relaxed);
        if rng.one_in(3) {
            check_own(&cf, own, writer, &mut rng)?;
            c.checks.fetch_add(1, Ordering::Relaxed);
        }
        if rng.one_in(700) {
            let wait = rng.one_in(2);
            flushed(wait, db.flush(wait)).map_err(|e| format!("flush: {e}"))?;
        }
        if rng.one_in(1500) {
            cf.compact_range(None, None)
                .map_err(|e| format!("compact: {e}"))?;
        }
    }
    Ok(())
}

fn read(db: &Db, plan: &ThreadsPlan, seed: u64, c: &Counters) -> Result<(), String> {
    let cf = db.default_cf();
    let mut rng = Rng::new(seed);
    let mut seen = vec![0; plan.writers as usize];
    while !c.stop.load(Ordering::Relaxed) {
        let snapshot = rng.one_in(2).then(|| db.snapshot());
        let options = options_at(snapshot.as_ref());
        for (writer, seen) in seen.iter_mut().enumerate() {
            let keys: Vec<Vec<u8>> = (0..LINKS).map(|k| link(writer as u64, k)).collect();
            let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let found: Vec<u64> = if rng.one_in(3) && snapshot.is_some() {
                let one = |k: &Vec<u8>| cf.get_opt(k, &options).map(|v| number(v.as_deref()));
                let all: spanlith::Result<_> = keys.iter().map(one).collect();
                all.map_err(|e| format!("get: {e}"))?
            } else {
                let all = cf.multi_get_opt(&slices, &options).into_iter();
                let all: spanlith::Result<_> =
                    all.map(|v| v.map(|v| number(v.as_deref()))).collect();
                all.map_err(|e| format!("multi-get: {e}"))?
            };
            if found.iter().any(|n| *n != found[0]) {
                return Err(format!(
                    "writer {writer}: half a batch is visible: {found:?}"
                ));
            }
            if found[0] < *seen {
                return Err(format!("writer {writer}: {} after {seen}", found[0]));
            }
            *seen = found[0];
            c.checks.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Runs rounds on one database, closing it between them.
///
/// # Errors
/// What differed.
pub fn run_threads(
    plan: &ThreadsPlan,
    mut progress: impl FnMut(&ThreadsReport),
) -> Result<ThreadsReport, String> {
    let setup = Setup {
        reverse: false,
        merge: MergeKind::None,
        levels: 7,
        families: 1,
        logs_apart: false,
        real: true,
        world_seed: plan.seed,
        own: "",
    };
    let mut world = World::new(&setup, None);
    let mut rng = Rng::new(plan.seed);
    let mut owns: Vec<Own> = vec![Own::new(); plan.writers as usize];
    let mut report = ThreadsReport::default();
    for round in 0..plan.rounds {
        let mut tuning = Tuning::draw(&mut rng);
        // Stalls would only make writers wait for each other.
        (tuning.auto, tuning.stop) = (1, 36);
        let context = |e: String| format!("round {round} [{tuning}]: {e}");
        let what = context(format!("of seed {}", plan.seed));
        let _watched = watched(move || what.clone());
        let db = world
            .open(&tuning)
            .map_err(|e| context(format!("open: {e}")))?;
        for (writer, own) in owns.iter().enumerate() {
            for _ in 0..20 {
                check_own(&db.default_cf(), own, writer as u64, &mut rng).map_err(context)?;
            }
        }
        let counters = Counters {
            writes: AtomicU64::new(0),
            checks: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        };
        let c = &counters;
        let result: Result<(), String> = std::thread::scope(|scope| {
            let writers: Vec<_> = owns
                .iter_mut()
                .enumerate()
                .map(|(writer, own)| {
                    let db = db.clone();
                    let first = 1 + round * plan.writes;
                    scope.spawn(move || {
                        let done = write(&db, plan, writer as u64, first, own, c);
                        if done.is_err() {
                            c.stop.store(true, Ordering::Relaxed);
                        }
                        done
                    })
                })
                .collect();
            let readers: Vec<_> = (0..plan.readers)
                .map(|n| {
                    let (db, seed) = (db.clone(), plan.seed ^ (n << 56) ^ round);
                    scope.spawn(move || {
                        let done = read(&db, plan, seed, c);
                        if done.is_err() {
                            c.stop.store(true, Ordering::Relaxed);
                        }
                        done
                    })
                })
                .collect();
            let join = |h: std::thread::ScopedJoinHandle<'_, Result<(), String>>| {
                h.join()
                    .unwrap_or_else(|_| Err("a thread panicked".to_string()))
            };
            let written: Vec<_> = writers.into_iter().map(join).collect();
            c.stop.store(true, Ordering::Relaxed);
            let read: Vec<_> = readers.into_iter().map(join).collect();
            written.into_iter().chain(read).collect()
        });
        result.map_err(context)?;
        db.close().map_err(|e| context(format!("close: {e}")))?;
        report.rounds += 1;
        report.writes += c.writes.load(Ordering::Relaxed);
        report.checks += c.checks.load(Ordering::Relaxed);
        progress(&report);
    }
    Ok(report)
}
