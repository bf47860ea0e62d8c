//! X-TR-2: space and written bytes while separated values are overwritten, by how garbage is collected ([TR] test 6 and
//! its default of a fifth of the ring).

use super::separation::{Cost, bytes_of_files};
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::generate::{Keys, Rng, Shuffle, Values, Zipfian};
use crate::store::{Store, StoreName, StoreOptions};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-TR-2",
    title: "Space and written bytes while separated values are overwritten",
    document: "[TR] test 6",
    requirements: "R-TR-02, R-TR-06, R-TR-13, R-TR-16",
    setup: "32768 values of 4 KiB, then five times as many overwrites, uniform and by a zipfian law, as fast as the store takes them; \
            memtables of 2 MiB, blob files of 4 MiB, no log, no compression. Every 100 ms the bytes of tables and blob \
            files are divided by those of live keys and values. RocksDB collects by its defaults, and by three other settings, of \
            which the one with the smallest largest share is its best.",
    criterion: "collected by a target of space: never more than 1.35 of the live bytes, and no more than RocksDB's best setting",
    stores: Stores::RocksDbLike,
    run,
};

const VALUE: usize = 4096;
const KEY: usize = 16;
const OVERWRITES: u64 = 5;
const THETA: f64 = 0.99;
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// Parts of the overwrites that the figure over time has.
const PARTS: usize = 25;

/// Describes what the samples of a run came to.
#[derive(Clone, Debug)]
struct Space {
    largest: f64,
    mean: f64,
    written: f64,
    /// Microseconds of processor time for each overwrite.
    micros: f64,
    /// Overwrites by second.
    rate: f64,
    /// The largest share in each part of the overwrites; that of the part before where no sample fell.
    parts: [f64; PARTS],
}

/// A way to collect: its name, RocksDB's options, and own ones.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    options: &'static str,
    own: &'static str,
}

const WAYS: [Way; 5] = [
    Way {
        name: "defaults",
        options: "",
        own: "",
    },
    Way {
        name: "all ages",
        options: "blob_garbage_collection_age_cutoff=1.0;",
        own: "",
    },
    Way {
        name: "forced at 0.5",
        options: "blob_garbage_collection_age_cutoff=1.0;blob_garbage_collection_force_threshold=0.5;",
        own: "",
    },
    Way {
        name: "forced at 0.2",
        options: "blob_garbage_collection_age_cutoff=1.0;blob_garbage_collection_force_threshold=0.2;",
        own: "",
    },
    Way {
        name: "target of space",
        options: "",
        own: "kvsep_gc=budget",
    },
];

impl Way {
    /// Returns whether a store is measured with it: this engine by RocksDB's defaults and its own way, which are what is compared.
    fn fits(self, name: &StoreName) -> bool {
        match name {
            StoreName::Ours => self.options.is_empty(),
            _ => self.own.is_empty(),
        }
    }

    fn options(self) -> StoreOptions {
        StoreOptions {
            options: format!(
                "enable_blob_files=true;enable_blob_garbage_collection=true;blob_file_size=4194304;{}\
                 compression=kNoCompression;write_buffer_size=2097152;max_bytes_for_level_base=8388608",
                self.options
            ),
            own: self.own.to_string(),
            disable_wal: true,
            ..StoreOptions::default()
        }
    }
}

/// Shares with the number of overwrites made by then, until all are.
fn sample(store: &dyn Store, live: f64, made: &AtomicU64, all: u64) -> Vec<(u64, f64)> {
    let mut shares = Vec::new();
    loop {
        // Relaxed: a figure of its own.
        let n = made.load(Ordering::Relaxed);
        shares.push((n, bytes_of_files(store) / live));
        if n >= all {
            return shares;
        }
        std::thread::sleep(SAMPLE_EVERY);
    }
}

/// Sets the count to its end when it goes, so that nobody samples for ever after an error.
struct Ends<'a>(&'a AtomicU64, u64);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(self.1, Ordering::Relaxed);
    }
}

fn overwrite(
    store: &dyn Store,
    bench: &Bench<'_>,
    count: u64,
    is_zipf: bool,
    made: &AtomicU64,
) -> Result<()> {
    let _ends = Ends(made, OVERWRITES * count);
    let (mut keys, mut rng) = (Keys::new(KEY), Rng::new(bench.seed(2)));
    let mut values = Values::incompressible(VALUE, bench.seed(3));
    let order = Shuffle::new(count, bench.seed(4));
    let zipf = Zipfian::new(count, THETA);
    for at in 0..OVERWRITES * count {
        let n = match is_zipf {
            true => zipf.rank(rng.unit()),
            false => rng.below(count),
        };
        store.put(0, keys.set(order.place(n)), values.next())?;
        made.store(at, Ordering::Relaxed);
    }
    Ok(())
}

/// The largest share of each part.
fn by_part(shares: &[(u64, f64)], all: u64) -> [f64; PARTS] {
    let mut parts = [0.0_f64; PARTS];
    for &(at, share) in shares {
        let part = at as usize * PARTS / all.max(1) as usize;
        let part = &mut parts[part.min(PARTS - 1)];
        *part = part.max(share);
    }
    for at in 1..PARTS {
        if parts[at] == 0.0 {
            parts[at] = parts[at - 1];
        }
    }
    parts
}

fn measure(bench: &Bench<'_>, name: &StoreName, way: Way, is_zipf: bool) -> Result<Space> {
    let store = bench.open(name, &way.options())?;
    let count = bench.scaled(32_768, 4096);
    let entry = (KEY + VALUE) as u64;
    let live = (count * entry) as f64;
    let (mut keys, order) = (Keys::new(KEY), Shuffle::new(count, bench.seed(4)));
    let mut values = Values::incompressible(VALUE, bench.seed(1));
    for n in 0..count {
        store.put(0, keys.set(order.place(n)), values.next())?;
    }
    store.flush()?;
    store.wait_idle()?;
    let (before, made, all) = (Cost::now(), AtomicU64::new(0), OVERWRITES * count);
    let began = Instant::now();
    let shares = std::thread::scope(|scope| {
        let samples = scope.spawn(|| sample(store.as_ref(), live, &made, all));
        let done = overwrite(store.as_ref(), bench, count, is_zipf, &made);
        let shares = samples.join().unwrap_or_default();
        done.map(|()| shares)
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let cost = Cost::since(before);
    bench.discard(store)?;
    Ok(Space {
        largest: shares.iter().map(|s| s.1).fold(0.0, f64::max),
        mean: shares.iter().map(|s| s.1).sum::<f64>() / shares.len().max(1) as f64,
        written: cost.written / (all * entry) as f64,
        micros: cost.cpu * 1e6 / all as f64,
        rate: all as f64 / seconds,
        parts: by_part(&shares, all),
    })
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let steps = bench.stores().iter();
    let steps = steps.map(|name| WAYS.iter().filter(|w| w.fits(name)).count() as u64);
    bench.expect(2 * steps.sum::<u64>());
    for (law, is_zipf) in [("uniform", false), ("zipfian", true)] {
        let parts =
            (1..=PARTS).map(|n| format!("{:.1}", OVERWRITES as f64 * n as f64 / PARTS as f64));
        let mut over = Figure::new(
            format!("Bytes of files over live bytes while all is overwritten five times, {law}"),
            "times",
            parts,
        );
        let mut all = Figure::new(
            format!(
                "Overwrites, {law}: bytes of files over live bytes, and bytes written for each of the user"
            ),
            "times",
            ["largest", "mean", "written"],
        );
        let mut costs = Figure::new(
            format!("Overwrites, {law}: processor time of one, and thousands by second"),
            "us, thousand",
            ["processor time", "by second"],
        );
        let (mut ours, mut best) = (Vec::new(), f64::INFINITY);
        for name in bench.stores() {
            for way in WAYS.iter().filter(|w| w.fits(name)) {
                let label = format!("{}, {}", name.short(), way.name);
                bench.step(&format!("{label}, {law}"));
                let space = measure(bench, name, *way, is_zipf)?;
                over = over.all_measured(&label, &space.parts);
                all = all.all_measured(&label, &[space.largest, space.mean, space.written]);
                costs = costs.all_measured(&label, &[space.micros, space.rate / 1000.0]);
                match (name, way.own.is_empty()) {
                    (StoreName::Ours, false) => ours.push((label, space.largest)),
                    (StoreName::Ours, true) => {}
                    _ => best = best.min(space.largest),
                }
            }
        }
        for (label, largest) in ours {
            found.check(
                format!("{label}, {law}: largest share"),
                Bound::AtMost(1.35),
                largest,
            );
            if best.is_finite() {
                found.check(
                    format!("{label}, {law}: largest share over that of RocksDB's best setting"),
                    Bound::AtMost(1.0),
                    largest / best,
                );
            }
        }
        found.figures.extend([over, all, costs]);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_their_largest_share_and_empty_ones_that_before() {
        let parts = by_part(
            &[
                (0, 1.0),
                (1, 1.5),
                (2, 1.2),
                (50, 1.3),
                (99, 1.1),
                (100, 1.4),
            ],
            100,
        );
        assert_eq!(parts[0], 1.5);
        assert_eq!(parts[1], 1.5);
        assert_eq!(parts[12], 1.3);
        assert_eq!(parts[PARTS - 1], 1.4);
    }
}
