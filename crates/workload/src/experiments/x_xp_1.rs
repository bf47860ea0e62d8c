//! X-XP-1: what a faster device brings by itself, and below an engine ([XP] Figure 1), on emulated devices.

use super::on_device::{LogPlace, Real, rate_of};
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Spread, Stores};
use crate::generate::{Keys, Rng, Values};
use spanlith::options::CfOptions;
use spanlith::{Cf, Db};
use spanlith_cache::Policy;
use spanlith_env::emulated::RawLoad;
use spanlith_table::BlockCache;
use std::sync::atomic::Ordering;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-XP-1",
    title: "A device fifteen times as fast, alone and below the engine",
    document: "[XP] Figure 1",
    requirements: "R-XP-01, R-XP-02, R-XP-03",
    setup: "alone: 4 KiB at random places by 8 threads, half reads, in virtual time. Engine: 32 MB of values of 1 KB, half puts and half gets \
            of random keys by 8 threads for 2 s on each of emulated S and O in turn, three times; caches of 8 % of the data.",
    criterion: "alone O over S 15.7 within 3 %; engine O over S at most a third of that",
    stores: Stores::OnDevices,
    run,
};

const VALUE_SIZE: usize = 1000;
const THREADS: u64 = 8;
const ROUNDS: u64 = 3;
const PRINTED_RAW: [f64; 2] = [26.0, 408.0];
const PRINTED_ENGINE: [f64; 2] = [13.0, 23.0];

/// Operations per second of half puts and half gets for `millis`.
fn mixed(cf: &Cf, keys: u64, millis: u64, seed: u64) -> Result<f64> {
    rate_of(THREADS, millis, |thread, ready, stop, done| {
        let mut rng = Rng::new(seed.wrapping_add(thread << 32));
        let (mut names, mut values) = (Keys::new(16), Values::new(VALUE_SIZE, seed));
        ready.wait();
        while !stop.load(Ordering::Relaxed) {
            let key = names.set(rng.below(keys));
            match rng.below(2) {
                0 => cf.put(key, values.next())?,
                _ => drop(cf.get(key)?),
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    })
}

fn engine(bench: &Bench<'_>, device: &str, millis: u64, round: u64) -> Result<f64> {
    let keys = bench.scaled(32_000, 2_000);
    let data = keys * VALUE_SIZE as u64;
    let dir = bench.place()?;
    let spec = format!("{device}:cache={}", data * 8 / 100);
    let real = Real::new(&dir, &spec, LogPlace::WithTables, 0)?;
    let mut cf_options = CfOptions::default();
    cf_options.write_buffer_size = (data / 16).max(64 << 10);
    let cache = usize::try_from(data * 8 / 100).unwrap_or(usize::MAX);
    let db = Db::builder(&real.db)
        .env(real.env.clone())
        .create_if_missing(true)
        .cf_options(cf_options)
        .block_cache(BlockCache::new(cache, Policy::Lru))
        .open()?;
    let cf = db.default_cf();
    let (mut names, mut values) = (Keys::new(16), Values::new(VALUE_SIZE, bench.seed(1)));
    for n in 0..keys {
        cf.put(names.set(n), values.next())?;
    }
    db.flush(true)?;
    let rate = mixed(&cf, keys, millis, bench.seed(2 + round))?;
    drop(cf);
    db.close()?;
    std::fs::remove_dir_all(dir)?;
    Ok(rate)
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let millis = bench.scaled(2_000, 300);
    bench.expect(2 * ROUNDS + 1);
    bench.step("devices alone");
    let raw = |name: &str| -> Result<f64> {
        let spec = super::on_device::spec(name)?;
        Ok(RawLoad::mixed()
            .run(&spec, 40_000, bench.seed(0))
            .per_second)
    };
    let raw = [raw("S")?, raw("O")?];
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for (n, device) in ["S", "O"].iter().enumerate() {
            bench.step(&format!("engine on {device}"));
            rates[n].push(engine(bench, device, millis, round)?);
        }
    }
    let median = |of: Vec<f64>| Spread::of(&of).map_or(f64::NAN, |s| s.median);
    let engine = rates.map(median);
    let places = ["SATA flash (S)", "3D XPoint (O)"];
    let thousands = |of: [f64; 2]| of.map(|v| v / 1e3);
    found.figures.push(
        Figure::new("Device alone: requests by second", "thousand", places)
            .printed("[XP]", &PRINTED_RAW.map(Some))
            .all_measured("emulated", &thousands(raw)),
    );
    found.figures.push(
        Figure::new("Engine: operations by second", "thousand", places)
            .printed("[XP]", &PRINTED_ENGINE.map(Some))
            .all_measured("spanlith", &thousands(engine)),
    );
    let (alone, below) = (raw[1] / raw[0], engine[1] / engine[0]);
    found.figures.push(
        Figure::new("O over S", "times", ["alone", "engine"])
            .printed("[XP]", &[Some(15.7), Some(1.77)])
            .all_measured("spanlith", &[alone, below]),
    );
    found.check(
        "alone: O over S",
        Bound::Within(15.7 * 0.97, 15.7 * 1.03),
        alone,
    );
    found.check("engine over alone", Bound::AtMost(1.0 / 3.0), below / alone);
    found.note(
        "The engine takes real time: on few cores the processor is what both devices wait for, which makes its ratio smaller than the \
         devices would.",
    );
    Ok(found)
}
