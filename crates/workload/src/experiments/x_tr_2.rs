//! X-TR-2: space and written bytes while separated values are overwritten, by how garbage is collected ([TR] test 6 and
//! its default of a fifth of the ring).

use super::separation::{Cost, bytes_of_files};
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::generate::{Keys, Rng, Shuffle, Values, Zipfian};
use crate::store::{Store, StoreName, StoreOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-TR-2",
    title: "Space and written bytes while separated values are overwritten",
    document: "[TR] test 6",
    requirements: "R-TR-02, R-TR-06, R-TR-13, R-TR-16",
    setup: "8192 values of 4 KiB, then five times as many overwrites, uniform and by a zipfian law, of at most 8 MB a second; \
            memtables of 2 MiB, blob files of 4 MiB, no log, no compression. Every 100 ms the bytes of tables and blob \
            files are divided by those of live keys and values.",
    criterion: "collected by a target of space: never more than 1.35 of the live bytes",
    stores: Stores::RocksDbLike,
    run,
};

const VALUE: usize = 4096;
const KEY: usize = 16;
const OVERWRITES: u64 = 5;
const THETA: f64 = 0.99;
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// Bytes of the user in a second, at most.
const RATE: f64 = 8e6;

/// Describes what the samples of a run came to.
#[derive(Clone, Copy, Debug, Default)]
struct Space {
    largest: f64,
    mean: f64,
    written: f64,
}

/// A way to collect: its name, RocksDB's options, and own ones.
type Way = (&'static str, &'static str, &'static str);

const WAYS: [Way; 3] = [
    ("by age", "", ""),
    (
        "forced",
        "blob_garbage_collection_age_cutoff=1.0;blob_garbage_collection_force_threshold=0.3;",
        "",
    ),
    ("by a target of space", "", "kvsep_gc=budget"),
];

fn options(way: Way) -> StoreOptions {
    StoreOptions {
        options: format!(
            "enable_blob_files=true;enable_blob_garbage_collection=true;blob_file_size=4194304;{}\
             compression=kNoCompression;write_buffer_size=2097152;max_bytes_for_level_base=8388608",
            way.1
        ),
        own: way.2.to_string(),
        disable_wal: true,
        ..StoreOptions::default()
    }
}

/// Samples until `over`.
fn sample(store: &dyn Store, live: f64, over: &AtomicBool) -> Vec<f64> {
    let mut shares = Vec::new();
    while !over.load(Ordering::Relaxed) {
        shares.push(bytes_of_files(store) / live);
        std::thread::sleep(SAMPLE_EVERY);
    }
    shares
}

fn overwrite(store: &dyn Store, bench: &Bench<'_>, count: u64, is_zipf: bool) -> Result<u64> {
    let (mut keys, mut rng) = (Keys::new(KEY), Rng::new(bench.seed(2)));
    let mut values = Values::incompressible(VALUE, bench.seed(3));
    let order = Shuffle::new(count, bench.seed(4));
    let zipf = Zipfian::new(count, THETA);
    let began = Instant::now();
    let mut user = 0;
    for _ in 0..OVERWRITES * count {
        let n = match is_zipf {
            true => zipf.rank(rng.unit()),
            false => rng.below(count),
        };
        store.put(0, keys.set(order.place(n)), values.next())?;
        user += (KEY + VALUE) as u64;
        let ahead = user as f64 / RATE - began.elapsed().as_secs_f64();
        if ahead > 0.01 {
            std::thread::sleep(Duration::from_secs_f64(ahead));
        }
    }
    Ok(user)
}

fn measure(bench: &Bench<'_>, name: &StoreName, way: Way, is_zipf: bool) -> Result<Space> {
    let store = bench.open(name, &options(way))?;
    let count = bench.scaled(8192, 1024);
    let live = (count * (KEY + VALUE) as u64) as f64;
    let (mut keys, order) = (Keys::new(KEY), Shuffle::new(count, bench.seed(4)));
    let mut values = Values::incompressible(VALUE, bench.seed(1));
    for n in 0..count {
        store.put(0, keys.set(order.place(n)), values.next())?;
    }
    store.flush()?;
    store.wait_idle()?;
    let (before, over) = (Cost::now(), AtomicBool::new(false));
    let (shares, user) = std::thread::scope(|scope| {
        let samples = scope.spawn(|| sample(store.as_ref(), live, &over));
        let user = overwrite(store.as_ref(), bench, count, is_zipf);
        over.store(true, Ordering::Relaxed);
        (samples.join().unwrap_or_default(), user)
    });
    let user = user?;
    let written = Cost::now().written - before.written;
    bench.discard(store)?;
    Ok(Space {
        largest: shares.iter().copied().fold(0.0, f64::max),
        mean: shares.iter().sum::<f64>() / shares.len().max(1) as f64,
        written: written / user as f64,
    })
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    bench.expect(6 * bench.stores().len() as u64);
    for (law, is_zipf) in [("uniform", false), ("zipfian", true)] {
        let mut figure = Figure::new(
            format!(
                "Overwrites, {law}: bytes of files over live bytes, and bytes written for each of the user"
            ),
            "times",
            ["largest", "mean", "written"],
        );
        for name in bench.stores() {
            for way in WAYS {
                if !way.2.is_empty() && *name != StoreName::Ours {
                    continue;
                }
                let label = format!("{name}, {}", way.0);
                bench.step(&format!("{label}, {law}"));
                let space = measure(bench, name, way, is_zipf)?;
                figure = figure.all_measured(&label, &[space.largest, space.mean, space.written]);
                if !way.2.is_empty() {
                    found.check(
                        format!("{label}, {law}: largest share"),
                        Bound::AtMost(1.35),
                        space.largest,
                    );
                }
            }
        }
        found.figures.push(figure);
    }
    Ok(found)
}
