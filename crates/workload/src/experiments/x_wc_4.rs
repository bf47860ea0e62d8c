//! X-WC-4: what the number of files of level 0 costs reads, and the size of memtables inserts ([XP] Figures 8 to 12).

use super::{Bench, Bound, Experiment, Figure, Findings, Result, Spread, Stores};
use crate::generate::{Rng, Values};
use spanlith::options::CfOptions;
use spanlith::{Db, WriteOptions};
use spanlith_env::{Clock, SystemClock};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WC-4",
    title: "Files of level 0 and size of memtables, at one volume",
    document: "[XP] Figures 8 to 12",
    requirements: "R-XP-10, R-XP-11, R-XP-12, R-XP-13, R-XP-14",
    setup: "240 000 puts of uniformly chosen keys of 16 bytes with values of 100 bytes, flushed as 2, 4, 6, 12 or 24 files of level 0, which stay; \
            then 60 000 gets of uniformly chosen keys. No filter, no log, everything cached, processor time of the one thread: \
            medians of five rounds over all numbers of files, each in slices of which the median counts. The document's devices are not used: \
            what remains is what a file costs without a read of the disk.",
    criterion: "a get takes at least a fifth more time with 24 files than with 6; a put takes no less into the memtable of 6 files than of 24, \
                less a twentieth for noise",
    stores: Stores::Ours,
    run,
};

const VALUE_SIZE: usize = 100;
const FILES: [u64; 5] = [2, 4, 6, 12, 24];
const ROUNDS: usize = 5;
/// Operations that are timed together: short enough that most slices meet no other program on their core.
const SLICE: u64 = 100;

pub(super) fn key(n: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

/// Median of the slices of `operations` in nanoseconds of processor time of one operation.
fn sliced(operations: u64, mut operation: impl FnMut() -> Result<()>) -> Result<f64> {
    let clock = SystemClock;
    let mut slices = Vec::new();
    for _ in 0..operations.div_ceil(SLICE) {
        let began = clock.thread_cpu_nanos();
        for _ in 0..SLICE {
            operation()?;
        }
        slices.push((clock.thread_cpu_nanos() - began) as f64 / SLICE as f64);
    }
    Ok(median(&slices))
}

fn median(values: &[f64]) -> f64 {
    Spread::of(values).map_or(f64::NAN, |s| s.median)
}

/// Nanoseconds of processor time of a put and of a get.
fn measure(bench: &Bench<'_>, files: u64) -> Result<[f64; 2]> {
    let entries = bench.scaled(240_000, 2400);
    let gets = bench.scaled(60_000, 600);
    let cf = CfOptions::new()
        .write_buffer_size(1u64 << 30)
        .disable_auto_compactions(true);
    let db = Db::builder(bench.place()?).create_if_missing(true);
    let db = db.no_info_log().cf_options(cf).open()?;
    let family = db.default_cf();
    let mut rng = Rng::new(bench.seed(1));
    let mut values = Values::incompressible(VALUE_SIZE, bench.seed(2));
    let options = WriteOptions::new().disable_wal(true);
    let mut puts = Vec::new();
    for _ in 0..files {
        let put = || Ok(family.put_opt(key(rng.below(entries)), values.next(), &options)?);
        puts.push(sliced(entries / files, put)?);
        db.flush(true)?;
    }
    let mut found = 0u64;
    let get = sliced(gets, || {
        found += u64::from(family.get(key(rng.below(entries)))?.is_some());
        Ok(())
    })?;
    drop(family);
    db.close()?;
    match found {
        0 => Err(super::Error::new("no key was found")),
        _ => Ok([median(&puts), get]),
    }
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    bench.expect((ROUNDS * FILES.len()) as u64);
    let mut all = [const { (Vec::new(), Vec::new()) }; FILES.len()];
    for _ in 0..ROUNDS {
        for (files, (puts, gets)) in FILES.into_iter().zip(&mut all) {
            bench.step(&format!("{files} files"));
            let [put, get] = measure(bench, files)?;
            puts.push(put);
            gets.push(get);
        }
    }
    let puts = all.each_ref().map(|a| median(&a.0));
    let gets = all.each_ref().map(|a| median(&a.1));
    let places = FILES.map(|n| n.to_string());
    let figure = Figure::new("Processor time by number of files", "ns", places);
    let figure = figure.all_measured("put", &puts).all_measured("get", &gets);
    found.figures.push(figure);
    found.check("get: 24 files by 6", Bound::AtLeast(1.2), gets[4] / gets[2]);
    found.check(
        "put: memtable of 6 files by that of 24",
        Bound::AtLeast(0.95),
        puts[2] / puts[4],
    );
    found.note(
        "The document reads from 3D XPoint, where p90 of reads is 101 us with 2 files and 134 us with 8 (Figure 10), and p90 of writes on SATA 25 us \
         with memtables of 64 MB and 31 us with 256 MB (Figure 12). Here nothing is read from a device.",
    );
    Ok(found)
}
