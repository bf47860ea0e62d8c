//! X-SD-10: recovery of logs on a speed disk and in files ([SPAN] Table 4).

use super::on_device::{LogPlace, Virtual};
use super::{Bench, Bound, Error, Experiment, Figure, Findings, Result, Stores};
use crate::generate::{Keys, Rng, Values};
use spanlith::options::{CfOptions, DbOptions};
use spanlith::{Db, OpenBuilder, WriteOptions};
use spanlith_env::{Clock, SystemClock};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-SD-10",
    title: "Recovery of one, two and four logs, on a speed disk and in files",
    document: "[SPAN] Table 4",
    requirements: "R-SPAN-29, R-SPAN-30, R-SPAN-57",
    setup: "units of 16 MB of puts of 1 KB in batches of 8 durable ones, then a kill; device O for tables and logs. Time of an open is \
            that of the device by a virtual clock and processor time of the thread, which does all the work; median of 3.",
    criterion: "speed disk over files at most 1.1 for each size; four units over one 3 to 5; nothing lost",
    stores: Stores::OnDevices,
    run,
};

const VALUE_SIZE: usize = 1000;
const BATCH: u64 = 8;
const UNITS: [u64; 3] = [1, 2, 4];
const PRINTED_DISK: [f64; 3] = [2.24, 4.82, 10.27];
const PRINTED_FILES: [f64; 3] = [2.23, 4.79, 10.25];
const ROUNDS: usize = 3;

fn builder(world: &Virtual) -> Result<OpenBuilder> {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.avoid_flush_during_recovery = true;
    let mut cf = CfOptions::default();
    // All of it stays in the log.
    cf.write_buffer_size = 1 << 30;
    let builder = Db::builder(Virtual::DB)
        .env(world.env.clone())
        .no_info_log();
    Ok(builder
        .options(options)
        .cf_options(cf)
        .set(world.own.as_str())?)
}

/// A database of `entries` puts that was killed.
fn killed(log: LogPlace, entries: u64, seed: u64) -> Result<Virtual> {
    let disk = (entries * 4096).next_power_of_two().max(16 << 20);
    let world = Virtual::new("O", log, disk, seed)?;
    let db = builder(&world)?.open()?;
    let cf = db.default_cf();
    let mut rng = Rng::new(seed);
    let (mut keys, mut values) = (Keys::new(16), Values::new(VALUE_SIZE, seed));
    let synced = WriteOptions::new().sync(true);
    for _ in 0..entries / BATCH {
        let mut batch = spanlith::WriteBatch::new();
        for _ in 0..BATCH {
            batch.put_cf(&cf, keys.set(rng.next_u64() >> 16), values.next());
        }
        db.write_opt(&batch, &synced)?;
    }
    let after = world.after_kill(seed);
    drop(cf);
    db.close()?;
    after
}

/// Seconds of an open: of the device, and of the processor.
fn recovered(world: &Virtual, seed: u64, entries: u64) -> Result<(f64, f64)> {
    let world = world.after_kill(seed)?;
    let builder = builder(&world)?;
    let (device, processor) = (world.now(), SystemClock.thread_cpu_nanos());
    let db = builder.open()?;
    let processor = SystemClock.thread_cpu_nanos() - processor;
    let device = world.now() - device;
    let sequence = db.latest_sequence_number();
    if sequence < entries / BATCH * BATCH {
        let text = format!("{sequence} of {entries} entries were recovered");
        return Err(Error::new(text));
    }
    db.close()?;
    Ok((device as f64 / 1e9, processor as f64 / 1e9))
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let unit = bench.scaled(16_000, 800);
    bench.expect(2 * UNITS.len() as u64);
    let places = UNITS.map(|n| format!("{n} units"));
    let mut all = Vec::new();
    for (label, log) in [
        ("files", LogPlace::WithTables),
        ("speed disk", LogPlace::SpeedDisk("O")),
    ] {
        let mut row = Vec::new();
        for units in UNITS {
            bench.step(&format!("{label}, {units} units"));
            let world = killed(log, unit * units, bench.seed(units))?;
            let mut times = Vec::new();
            for _ in 0..ROUNDS {
                times.push(recovered(&world, bench.seed(units), unit * units)?);
            }
            times.sort_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)));
            row.push(times[ROUNDS / 2]);
        }
        all.push((label, row));
    }
    let sum = |row: &[(f64, f64)]| row.iter().map(|(d, p)| d + p).collect::<Vec<f64>>();
    let mut times = Figure::new("Time of an open", "s", places.clone())
        .printed("[SPAN] speed disk", &PRINTED_DISK.map(Some))
        .printed("[SPAN] RocksDB", &PRINTED_FILES.map(Some));
    let mut devices = Figure::new("Of that the device", "s", places);
    for (label, row) in &all {
        times = times.all_measured(label, &sum(row));
        let device: Vec<f64> = row.iter().map(|t| t.0).collect();
        devices = devices.all_measured(label, &device);
    }
    found.figures.push(times);
    found.figures.push(devices);
    let (files, disk) = (sum(&all[0].1), sum(&all[1].1));
    for (n, units) in UNITS.iter().enumerate() {
        found.check(
            format!("{units} units: speed disk over files"),
            Bound::AtMost(1.1),
            disk[n] / files[n],
        );
    }
    found.check(
        "speed disk: four units over one",
        Bound::Within(3.0, 5.0),
        disk[2] / disk[0],
    );
    found.note("The document's units are of 1 GB, its times those of 40 cores.");
    Ok(found)
}
