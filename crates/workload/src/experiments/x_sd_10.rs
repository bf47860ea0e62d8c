//! X-SD-10: recovery of logs on a speed disk and in files ([SPAN] Table 4).

use super::on_device::{LogPlace, Virtual, spec};
use super::{Bench, Bound, Error, Experiment, Figure, Findings, Result, Stores};
use crate::generate::{Keys, Rng, Values};
use spanlith::options::{CfOptions, DbOptions};
use spanlith::{Db, OpenBuilder, WriteOptions};
use spanlith_env::{Clock, SystemClock};
use spanlith_speed::{PAGE_HEADER, PageHeader, decode_page, seal_page};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-SD-10",
    title: "Recovery of one, two and four logs, on a speed disk and in files",
    document: "[SPAN] Table 4",
    requirements: "R-SPAN-29, R-SPAN-30, R-SPAN-57",
    setup: "units of 16 MB of puts of 1 KB in durable batches of 64, as groups of 400 outstanding calls are, and of 8; then a kill; device O \
            for tables and logs. Time of an open with files is that of the device by a virtual clock and processor time of the thread that opens, \
            one after the other. A speed disk is read beside the replay: the time is that of whichever of the two takes longer, with what comes \
            before it: of the device and of verifying all of its pages, or of the first piece and of the thread that opens. Median of 5. \
            A system reads files ahead: files that are read ahead perfectly take the longer of the device and the thread that opens.",
    criterion: "speed disk over files at most 1.1 for each size, and over files that are read ahead perfectly; four units over one 3 to 5; \
                nothing lost",
    stores: Stores::OnDevices,
    run,
};

const VALUE_SIZE: usize = 1000;
const BATCHES: [u64; 2] = [64, 8];
const UNITS: [u64; 3] = [1, 2, 4];
const PRINTED_DISK: [f64; 3] = [2.24, 4.82, 10.27];
const PRINTED_FILES: [f64; 3] = [2.23, 4.79, 10.25];
const ROUNDS: usize = 5;

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

/// A database of so many puts in batches of so many that was killed.
fn killed(log: LogPlace, (entries, batch_len): (u64, u64), seed: u64) -> Result<Virtual> {
    let disk = (entries * 4096).next_power_of_two().max(16 << 20);
    let world = Virtual::new("O", log, disk, seed)?;
    let db = builder(&world)?.open()?;
    let cf = db.default_cf();
    let mut rng = Rng::new(seed);
    let (mut keys, mut values) = (Keys::new(16), Values::new(VALUE_SIZE, seed));
    let synced = WriteOptions::new().sync(true);
    for _ in 0..entries / batch_len {
        let mut batch = spanlith::WriteBatch::new();
        for _ in 0..batch_len {
            batch.put_cf(&cf, keys.set(rng.next_u64() >> 16), values.next());
        }
        db.write_opt(&batch, &synced)?;
    }
    let after = world.after_kill(seed);
    drop(cf);
    db.close()?;
    after
}

/// Bytes that a speed disk is read by.
const PIECE_BYTES: f64 = (2 << 20) as f64;

/// Seconds of an open.
#[derive(Clone, Copy)]
struct Took {
    device: f64,
    /// Of the processor, by the thread that opens.
    processor: f64,
    /// All of it.
    all: f64,
}

impl Took {
    /// One after the other.
    fn in_turn(device: f64, processor: f64) -> Self {
        Self {
            device,
            processor,
            all: device + processor,
        }
    }

    /// As if all that the thread needs were read before it asks: no way to read files is faster.
    fn read_ahead(&self) -> f64 {
        self.device.max(self.processor)
    }

    /// Beside each other. `verifying`: seconds to copy and verify the pages of a byte.
    fn beside(device: f64, processor: f64, verifying: f64) -> Result<Self> {
        // No more than it can have given in that time.
        let bandwidth = spec("O")?.profile.read_bandwidth as f64;
        let bytes = device * bandwidth;
        let reading = device + bytes * verifying;
        let first = reading * (PIECE_BYTES / bytes.max(PIECE_BYTES));
        Ok(Self {
            device,
            processor,
            all: reading.max(first + processor),
        })
    }
}

/// Seconds of processor time to copy a byte of pages out of memory and to verify it.
fn verifying() -> f64 {
    const PAGE: usize = 4096;
    const PAGES: usize = 16 << 10;
    let instance = [7; 16];
    let mut pages = vec![1; PAGES * PAGE];
    for (n, page) in pages.chunks_exact_mut(PAGE).enumerate() {
        let header = PageHeader {
            colour: 1,
            ordinal: n as u64,
            page: n as u32,
            index: 0,
            batch: 1,
            offset: (n * (PAGE - PAGE_HEADER)) as u64,
            witness: 0,
            len: (PAGE - PAGE_HEADER) as u16,
            before: (PAGE - PAGE_HEADER) as u16,
        };
        seal_page(page, &header, &instance);
    }
    let mut piece = vec![0; PIECE_BYTES as usize];
    let mut times = [0; ROUNDS];
    for time in &mut times {
        let begun = SystemClock.thread_cpu_nanos();
        let mut whole = 0;
        for part in pages.chunks_exact(piece.len()) {
            piece.copy_from_slice(part);
            let read = piece.chunks_exact(PAGE);
            whole += read
                .filter(|page| decode_page(page, &instance).is_some())
                .count();
        }
        assert_eq!(
            std::hint::black_box(whole),
            PAGES,
            "pages that were sealed are whole"
        );
        *time = SystemClock.thread_cpu_nanos() - begun;
    }
    times.sort_unstable();
    times[ROUNDS / 2] as f64 / 1e9 / pages.len() as f64
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
    if sequence < entries {
        let text = format!("{sequence} of {entries} entries were recovered");
        return Err(Error::new(text));
    }
    db.close()?;
    Ok((device as f64 / 1e9, processor as f64 / 1e9))
}

/// Opens by size.
type Row = Vec<Took>;

/// The opens of databases whose logs have batches of so many, in files and on a speed disk.
fn measure(bench: &Bench<'_>, batch_len: u64) -> Result<[Row; 2]> {
    // Whole batches at every scale.
    let unit = bench.scaled(16_000, 800).next_multiple_of(64);
    let verifying = verifying();
    let mut rows = [Row::new(), Row::new()];
    let places = [
        ("files", LogPlace::WithTables),
        ("speed disk", LogPlace::SpeedDisk("O")),
    ];
    for (row, (label, log)) in rows.iter_mut().zip(places) {
        for units in UNITS {
            bench.step(&format!("{label}, batches of {batch_len}, {units} units"));
            let seed = bench.seed(units);
            let world = killed(log, (unit * units, batch_len), seed)?;
            let mut times = Vec::new();
            for _ in 0..ROUNDS {
                let (device, processor) = recovered(&world, seed, unit * units)?;
                times.push(match log {
                    LogPlace::SpeedDisk(_) => Took::beside(device, processor, verifying)?,
                    _ => Took::in_turn(device, processor),
                });
            }
            times.sort_by(|a, b| a.all.total_cmp(&b.all));
            row.push(times[ROUNDS / 2]);
        }
    }
    Ok(rows)
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    bench.expect((BATCHES.len() * 2 * UNITS.len()) as u64);
    let places = UNITS.map(|n| format!("{n} units"));
    for batch_len in BATCHES {
        let [files, disk] = measure(bench, batch_len)?;
        let of = |row: &Row, time: fn(&Took) -> f64| row.iter().map(time).collect::<Vec<f64>>();
        let sum = |row: &Row| of(row, |t| t.all);
        let device = |row: &Row| of(row, |t| t.device);
        let processor = |row: &Row| of(row, |t| t.processor);
        let title = format!("batches of {batch_len}: time of an open");
        let times = Figure::new(title, "s", places.clone())
            .printed("[SPAN] speed disk", &PRINTED_DISK.map(Some))
            .printed("[SPAN] RocksDB", &PRINTED_FILES.map(Some));
        let title = format!("batches of {batch_len}: of that the device");
        let devices = Figure::new(title, "s", places.clone());
        let title = format!("batches of {batch_len}: of that the thread that opens");
        let processors = Figure::new(title, "s", places.clone());
        found.figures.extend([
            times
                .all_measured("files", &sum(&files))
                .all_measured("files read ahead", &of(&files, Took::read_ahead))
                .all_measured("speed disk", &sum(&disk)),
            devices
                .all_measured("files", &device(&files))
                .all_measured("speed disk", &device(&disk)),
            processors
                .all_measured("files", &processor(&files))
                .all_measured("speed disk", &processor(&disk)),
        ]);
        let ahead = of(&files, Took::read_ahead);
        let (files, disk) = (sum(&files), sum(&disk));
        for (over, files) in [("files", &files), ("files read ahead", &ahead)] {
            for (n, units) in UNITS.iter().enumerate() {
                let what = format!("batches of {batch_len}, {units} units: speed disk over {over}");
                found.check(what, Bound::AtMost(1.1), disk[n] / files[n]);
            }
        }
        found.check(
            format!("batches of {batch_len}, speed disk: four units over one"),
            Bound::Within(3.0, 5.0),
            disk[2] / disk[0],
        );
    }
    found.note("The document's units are of 1 GB, its times those of 40 cores.");
    Ok(found)
}
