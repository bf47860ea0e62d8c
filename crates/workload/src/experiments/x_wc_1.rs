//! X-WC-1: throughput of every 100 ms under overload, by policy of the write controller ([XP] Figures 3 to 5).

use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::generate::{Rng, Values};
use crate::store::{Store, StoreName, StoreOptions};
use spanlith_pace::{Evenness, ThrottlePolicy, evenness};
use std::time::{Duration, Instant};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WC-1",
    title: "Evenness of writes under overload, by policy of the write controller",
    document: "[XP] Figures 3 to 5",
    requirements: "R-XP-07, R-XP-08, R-XP-21",
    setup: "1 000 000 keys of 16 bytes with incompressible values of 1000 bytes, then two threads for 60 s that put uniformly \
            chosen keys as fast as they can (90 %) or get them (10 %); memtables of 2 MiB, level base 8 MiB, no compression, \
            two background jobs. Windows are of 100 ms; the first sixth of the time is left out. The emulated devices of \
            the document are not used: this is the disk of the machine.",
    criterion: "smooth: no window below half of the median, variation of seconds at most 0.10, mean at least 0.95 of the \
                policy rocksdb's",
    stores: Stores::RocksDbLike,
    run,
};

const VALUE_SIZE: usize = 1000;
const THREADS: u64 = 2;
const WINDOW: Duration = Duration::from_millis(100);
const WRITES_PERCENT: u64 = 90;

fn options(own: &str) -> StoreOptions {
    StoreOptions {
        options: "write_buffer_size=2097152;max_bytes_for_level_base=8388608;target_file_size_base=2097152;\
                  compression=kNoCompression;max_background_jobs=2"
            .to_string(),
        own: own.to_string(),
        ..StoreOptions::default()
    }
}

fn key(n: u64) -> String {
    format!("{n:016}")
}

/// Puts and gets of one thread: how many puts fell into each window.
fn work(
    store: &dyn Store,
    keys: u64,
    seed: u64,
    began: Instant,
    time: Duration,
) -> Result<Vec<u64>> {
    let mut rng = Rng::new(seed);
    let mut values = Values::incompressible(VALUE_SIZE, seed);
    let mut found = Vec::new();
    let mut puts = vec![0; time.as_millis().div_ceil(WINDOW.as_millis()) as usize];
    loop {
        let key = key(rng.below(keys));
        if rng.below(100) < WRITES_PERCENT {
            store.put(0, key.as_bytes(), values.next())?;
            let at = (began.elapsed().as_nanos() / WINDOW.as_nanos()) as usize;
            match puts.get_mut(at) {
                Some(count) => *count += 1,
                None => return Ok(puts),
            }
        } else {
            store.get(0, key.as_bytes(), &mut found)?;
        }
    }
}

/// Puts of each window.
fn series(store: &dyn Store, bench: &Bench<'_>, keys: u64, time: Duration) -> Result<Vec<f64>> {
    let began = Instant::now();
    let seeds: Vec<u64> = (0..THREADS).map(|t| bench.seed(10 + t)).collect();
    let all: Vec<Result<Vec<u64>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = seeds
            .iter()
            .map(|&seed| scope.spawn(move || work(store, keys, seed, began, time)))
            .collect();
        let joined = threads.into_iter().map(|t| t.join());
        joined
            .map(|r| r.unwrap_or_else(|_| Err(super::Error::new("a thread panicked"))))
            .collect()
    });
    let mut sums = Vec::new();
    for puts in all {
        let puts = puts?;
        sums.resize(puts.len(), 0.0);
        for (sum, n) in sums.iter_mut().zip(puts) {
            *sum += n as f64;
        }
    }
    Ok(sums)
}

/// Evenness of windows and of seconds.
fn measure(bench: &Bench<'_>, name: &StoreName, own: &str) -> Result<(String, Evenness, Evenness)> {
    let keys = bench.scaled(1_000_000, 20_000);
    let time = Duration::from_secs(bench.scaled(60, 4));
    let store = bench.open(name, &options(own))?;
    let label = store.label().to_string();
    let mut values = Values::incompressible(VALUE_SIZE, bench.seed(1));
    for n in 0..keys {
        store.put(0, key(n).as_bytes(), values.next())?;
    }
    store.flush()?;
    store.wait_idle()?;
    let all = series(store.as_ref(), bench, keys, time)?;
    bench.discard(store)?;
    let settled = &all[all.len() / 6..];
    let seconds: Vec<f64> = settled.chunks_exact(10).map(|c| c.iter().sum()).collect();
    Ok((label, evenness(settled), evenness(&seconds)))
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let places = ["mean", "median", "least window", "least second"];
    let mut rates = Figure::new("Puts by second at 90 % writes", "1/s", places);
    let places = [
        "variation of seconds",
        "windows below half",
        "windows below a tenth",
    ];
    let mut shapes = Figure::new("Unevenness of the windows", "", places);
    let ours = |name: &StoreName| *name == StoreName::Ours;
    let runs = bench.stores().iter().map(|n| if ours(n) { 4 } else { 1 });
    bench.expect(runs.sum());
    for name in bench.stores() {
        let policies: Vec<Option<ThrottlePolicy>> = match ours(name) {
            true => ThrottlePolicy::ALL.map(Some).to_vec(),
            false => vec![None],
        };
        let mut mean_of_rocksdb = None;
        for policy in policies {
            let own = policy.map_or(String::new(), |p| format!("write_throttle_policy={p}"));
            bench.step(&format!("{name} {own}"));
            let (label, windows, seconds) = measure(bench, name, &own)?;
            let label = policy.map_or(label, |p| p.to_string());
            rates = rates.all_measured(
                &label,
                &[
                    windows.mean * 10.0,
                    windows.median * 10.0,
                    windows.min * 10.0,
                    seconds.min,
                ],
            );
            let below = |n: usize| n as f64 / windows.windows.max(1) as f64;
            shapes = shapes.all_measured(
                &label,
                &[
                    seconds.variation,
                    below(windows.below_half),
                    below(windows.below_tenth),
                ],
            );
            match policy {
                Some(ThrottlePolicy::Rocksdb) => mean_of_rocksdb = Some(windows.mean),
                Some(ThrottlePolicy::Smooth) => {
                    let half = below(windows.below_half);
                    found.check("smooth: windows below half", Bound::AtMost(0.0), half);
                    let variation = seconds.variation;
                    found.check(
                        "smooth: variation of seconds",
                        Bound::AtMost(0.1),
                        variation,
                    );
                    if let Some(mean) = mean_of_rocksdb {
                        let what = "smooth: mean by that of rocksdb";
                        found.check(what, Bound::AtLeast(0.95), windows.mean / mean);
                    }
                }
                _ => {}
            }
        }
    }
    found.figures.push(rates);
    found.figures.push(shapes);
    found.note("The document's series falls from 169 000 to 3 000 operations a second at 90 % writes on 3D XPoint.");
    Ok(found)
}
