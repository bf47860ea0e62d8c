//! X-WC-17: an overload beside programs that take all processors.

use super::steady::{VALUE_SIZE, fill, key, opening};
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::generate::{Rng, Values};
use spanlith::options::{OwnDbOptions, WriteThrottlePolicy};
use spanlith_pace::{Evenness, evenness};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WC-17",
    title: "An overload beside two threads that take the processors",
    document: "none: beyond the document",
    requirements: "R-XP-08, R-XP-31",
    setup: "200 000 keys with values of 1000 bytes, memtables of 2 MiB, level base 8 MiB; two threads put as fast as the policy lets them for 30 s, \
            alone and beside two threads that count in a loop, under rocksdb and smooth. Windows are of 100 ms of a clock on the wall; the first sixth is left \
            out.",
    criterion: "smooth: beside the two no window below a tenth of the median, and at most one in a hundred below half",
    stores: Stores::Ours,
    run,
};

const WINDOW: Duration = Duration::from_millis(100);

fn measure(bench: &Bench<'_>, policy: WriteThrottlePolicy, hogs: u64) -> Result<Evenness> {
    let keys = bench.scaled(200_000, 4000);
    let time = Duration::from_millis(bench.scaled(30_000, 1200));
    let db = opening(&bench.place()?, policy, OwnDbOptions::new()).open()?;
    let cf = db.default_cf();
    fill(&db, &cf, keys, bench.seed(1))?;
    let (stop, puts) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut windows = Vec::new();
    std::thread::scope(|scope| {
        let (cf, stop, puts) = (&cf, &stop, &puts);
        let write = |seed: u64| {
            move || -> Result<()> {
                let mut rng = Rng::new(seed);
                let mut values = Values::incompressible(VALUE_SIZE, seed);
                while !stop.load(Ordering::Relaxed) {
                    cf.put(key(rng.below(keys)), values.next())?;
                    puts.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }
        };
        for n in 0..hogs {
            scope.spawn(move || {
                let mut count = n;
                while !stop.load(Ordering::Relaxed) {
                    count = std::hint::black_box(count.wrapping_mul(3));
                }
            });
        }
        let writers = [2, 3].map(|n| scope.spawn(write(bench.seed(n))));
        let began = Instant::now();
        let (mut before, mut at) = (0, Duration::ZERO);
        while at < time {
            std::thread::sleep(WINDOW.saturating_sub(began.elapsed().saturating_sub(at)));
            let now = (puts.load(Ordering::Relaxed), began.elapsed());
            // By the time that it took: this thread waits for a processor, too.
            let seconds = (now.1 - at).as_secs_f64().max(1e-6);
            if at >= time / 6 {
                windows.push((now.0 - before) as f64 / seconds);
            }
            (before, at) = now;
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().try_for_each(|w| match w.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    drop(cf);
    db.close()?;
    Ok(evenness(&windows))
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    bench.expect(4);
    let places = ["mean", "median", "least window"];
    let mut rates = Figure::new("Puts by second", "1/s", places);
    let places = ["windows", "below half", "below a tenth"];
    let mut below = Figure::new("Windows of 100 ms", "", places);
    for (name, policy) in [
        ("rocksdb", WriteThrottlePolicy::Rocksdb),
        ("smooth", WriteThrottlePolicy::Smooth),
    ] {
        for hogs in [0, 2] {
            let label = format!("{name}, {hogs} beside");
            bench.step(&label);
            let e = measure(bench, policy, hogs)?;
            rates = rates.all_measured(&label, &[e.mean, e.median, e.min]);
            let counts = [e.windows as f64, e.below_half as f64, e.below_tenth as f64];
            below = below.all_measured(&label, &counts);
            if policy == WriteThrottlePolicy::Smooth && hogs > 0 {
                let share = e.below_half as f64 / e.windows.max(1) as f64;
                found.check("smooth: share below half", Bound::AtMost(0.01), share);
                let tenth = e.below_tenth as f64;
                found.check("smooth: below a tenth", Bound::AtMost(0.0), tenth);
            }
        }
    }
    found.figures.extend([rates, below]);
    Ok(found)
}
