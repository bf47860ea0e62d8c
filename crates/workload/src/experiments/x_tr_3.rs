//! X-TR-3: scans over separated values that lie here and there in blob files.

use super::file_reads::{P4610, Reads, counted};
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::generate::{Keys, Rng, Shuffle, Values};
use crate::store::{Direction, Store, StoreOptions};
use spanlith::options::{CfOptions, CompressionType};
use spanlith::{Db, Env, ReadOptions};
use spanlith_env::{Clock, SystemClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-TR-3",
    title: "Scans over separated values, read one by one and ahead",
    document: "[TR] limits of a value log",
    requirements: "R-TR-14, R-TR-17",
    setup: "values of 1, 4 and 16 KB, all in blob files, 64 MB of each size, put once in random order with a memtable of a \
            sixtieth of them, so that neighbours lie in different files; then scans of 10, 100 and 1000 from random keys, by a \
            clock that gives each read the time of a device: where reads are quick, nothing is read ahead. \
            Reads of files are counted by an I/O trace. The time on an Intel P4610 is calculated: 77 us a read, 3.2 GB/s, \
            ten reads at a time. Then, on the device that the directory is on, or on an emulated one: the values of 16 KB again, with direct \
            reads and no cache for values, in each store, and the time of scans of 100 in turn with single gets of the same \
            values; indexes are in memory.",
    criterion: "scans of 100 values of 16 KB take at least 4 times as long on that device if values are read one by one; at most \
                3 values of a scan of 100 are read alone; at most 1.6 times as many values are read as are shown by scans of 100; on the \
                device RocksDB's scan takes at least 4 times as long as ours",
    stores: Stores::RocksDbLike,
    run,
};

const KEY: usize = 16;
const SIZES: [usize; 3] = [1000, 4000, 16_000];
const LENGTHS: [u64; 3] = [10, 100, 1000];
/// Memtables that a load fills.
const FLUSHES: u64 = 60;

/// A clock by which each read takes as long as on a device. Relaxed: nothing depends on the order.
#[derive(Default)]
struct DeviceClock(AtomicU64);

impl Clock for DeviceClock {
    fn now_micros(&self) -> u64 {
        SystemClock.now_micros()
    }

    fn monotonic_nanos(&self) -> u64 {
        let read = (P4610.latency * 1000.0) as u64;
        let waited = self.0.fetch_add(read, Ordering::Relaxed);
        SystemClock.monotonic_nanos().saturating_add(waited)
    }

    fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration);
    }
}

fn open(bench: &Bench<'_>, memtable: u64) -> Result<Db> {
    let mut options = CfOptions::default();
    options.enable_blob_files = true;
    options.compression = CompressionType::None;
    options.disable_auto_compactions = true;
    options.level0_slowdown_writes_trigger = 1000;
    options.level0_stop_writes_trigger = 1000;
    options.write_buffer_size = memtable;
    options.max_write_buffer_number = 8;
    let env = Env {
        clock: Arc::new(DeviceClock::default()),
        ..Env::system()
    };
    let db = Db::builder(bench.place()?.join("db"))
        .create_if_missing(true)
        .env(env)
        .cf_options(options)
        .open()?;
    Ok(db)
}

/// The cost of scans of one size.
struct Row {
    /// Reads of values by length of scans, for each scan.
    reads: [Reads; 3],
    /// Time on the device by length: one by one, and as read.
    micros: [(f64, f64); 3],
}

fn measure(bench: &Bench<'_>, size: usize) -> Result<Row> {
    let data = bench.scaled(64 << 20, 8 << 20);
    let count = (data / size as u64).max(FLUSHES * 8);
    let db = open(bench, data / FLUSHES)?;
    let cf = db.default_cf();
    let (mut keys, order) = (Keys::new(KEY), Shuffle::new(count, bench.seed(1)));
    let mut values = Values::incompressible(size, bench.seed(2));
    for n in 0..count {
        cf.put(keys.set(order.place(n)), values.next())?;
    }
    db.flush(true)?;
    // Opens all blob files and brings the references into the cache: values are what is counted.
    for entry in cf.iter() {
        entry?;
    }
    let scratch = bench.place()?.join("calls");
    let mut rng = Rng::new(bench.seed(3));
    let mut row = Row {
        reads: [Reads::default(); 3],
        micros: [(0.0, 0.0); 3],
    };
    for (at, length) in LENGTHS.iter().enumerate() {
        let scans = (2000 / length).max(2);
        let mut shown = 0;
        let reads = counted(&db, &scratch, || {
            for _ in 0..scans {
                let from = rng.below(count.saturating_sub(*length).max(1));
                let mut cursor = cf.cursor(ReadOptions::default());
                let mut more = cursor.seek(keys.set(from))?;
                for _ in 0..*length {
                    if !more {
                        break;
                    }
                    shown += cursor.value().len() / size;
                    more = cursor.next()?;
                }
            }
            Ok(())
        })?;
        let each = 1.0 / scans as f64;
        let (blobs, shown) = (reads.blobs, shown as f64);
        let alone = Reads {
            alone: shown,
            together: 0.0,
            bytes: shown * size as f64,
        };
        row.reads[at] = Reads {
            alone: blobs.alone * each,
            together: blobs.together * each,
            bytes: blobs.bytes / (shown * size as f64),
        };
        row.micros[at] = (alone.micros(P4610) * each, blobs.micros(P4610) * each);
    }
    Ok(row)
}

/// Entries of a scan on the device, and scans.
const SCAN: u64 = 100;
const SCANS: u64 = 24;
/// Bytes of its values.
const DEVICE_VALUE: usize = 16_000;

/// A store that is measured on the device, and what that came to.
struct OnDevice {
    label: String,
    is_ours: bool,
    store: Box<dyn Store>,
    /// Seconds of scans, and of gets.
    seconds: (f64, f64),
}

/// Loads the same values into all stores; nothing is compacted, so that neighbours lie in different files.
fn load_on_device(bench: &Bench<'_>, count: u64) -> Result<Vec<OnDevice>> {
    let memtable = count * DEVICE_VALUE as u64 / FLUSHES;
    let options = StoreOptions {
        options: format!(
            "enable_blob_files=true;compression=kNoCompression;disable_auto_compactions=true;write_buffer_size={memtable};\
             level0_slowdown_writes_trigger=1000;level0_stop_writes_trigger=1000;use_direct_reads=true"
        ),
        disable_wal: true,
        ..StoreOptions::default()
    };
    let mut all = Vec::new();
    for name in bench.stores() {
        let label = name.short();
        bench.step(&format!("{label}: load for direct reads"));
        let store = bench.open(name, &options)?;
        let (mut keys, order) = (Keys::new(KEY), Shuffle::new(count, bench.seed(1)));
        let mut values = Values::incompressible(DEVICE_VALUE, bench.seed(2));
        for n in 0..count {
            store.put(0, keys.set(order.place(n)), values.next())?;
        }
        // Compactions are due for ever: nobody waits for them.
        store.flush()?;
        // Opens all files, and brings the tables into the block cache.
        let first = keys.set(0).to_vec();
        store.scan(
            0,
            &first,
            Direction::Forward,
            count as usize,
            &mut |_, _| true,
        )?;
        all.push(OnDevice {
            label,
            is_ours: *name == crate::store::StoreName::Ours,
            store,
            seconds: (0.0, 0.0),
        });
    }
    Ok(all)
}

/// Times scans and gets of the stores in turn.
fn on_device(bench: &Bench<'_>, found: &mut Findings) -> Result<()> {
    let count = bench.scaled(64 << 20, 8 << 20) / DEVICE_VALUE as u64;
    let mut all = load_on_device(bench, count)?;
    bench.step("scans of 100 from the device");
    let (mut keys, mut rng) = (Keys::new(KEY), Rng::new(bench.seed(5)));
    let mut value = Vec::new();
    for _ in 0..SCANS {
        let from = rng.below(count.saturating_sub(SCAN).max(1));
        for one in &mut all {
            let start = keys.set(from).to_vec();
            let mut shown = 0;
            let began = Instant::now();
            one.store.scan(
                0,
                &start,
                Direction::Forward,
                SCAN as usize,
                &mut |_, value| {
                    shown += value.len();
                    true
                },
            )?;
            one.seconds.0 += began.elapsed().as_secs_f64();
            let began = Instant::now();
            for n in from..(from + SCAN).min(count) {
                one.store.get(0, keys.set(n), &mut value)?;
                shown = shown.saturating_sub(value.len());
            }
            one.seconds.1 += began.elapsed().as_secs_f64();
            if shown != 0 {
                return Err(super::Error::new(format!(
                    "{}: gets and scans differ",
                    one.label
                )));
            }
        }
    }
    let mut figure = Figure::new(
        "100 values of 16 KB from the device, direct reads",
        "ms",
        ["a scan", "single gets"],
    );
    let millis = |seconds: f64| seconds * 1000.0 / SCANS as f64;
    let ours = all.iter().find(|one| one.is_ours).map(|one| one.seconds);
    for one in &all {
        let times = [millis(one.seconds.0), millis(one.seconds.1)];
        figure = figure.all_measured(&one.label, &times);
        if let Some((scan, _)) = ours
            && !one.is_ours
        {
            let what = format!("{}, on the device: its scan over ours", one.label);
            found.check(what, Bound::AtLeast(4.0), one.seconds.0 / scan);
        }
    }
    found.figures.push(figure);
    for one in all {
        bench.discard(one.store)?;
    }
    Ok(())
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    bench.expect((SIZES.len() + bench.stores().len() + 1) as u64);
    let lengths = LENGTHS.map(|n| format!("scan of {n}"));
    let mut gain = Figure::new(
        "Time on the device, one by one over read ahead",
        "times",
        lengths.clone(),
    );
    let mut alone = Figure::new(
        "Values that are read alone, for each scan",
        "",
        lengths.clone(),
    );
    let mut bytes = Figure::new("Bytes read over bytes shown", "times", lengths);
    for size in SIZES {
        let label = format!("values of {} KB", size / 1000);
        bench.step(&label);
        let row = measure(bench, size)?;
        gain = gain.all_measured(&label, &row.micros.map(|(one, ahead)| one / ahead));
        alone = alone.all_measured(&label, &row.reads.map(|r| r.alone));
        bytes = bytes.all_measured(&label, &row.reads.map(|r| r.bytes));
        if size == 16_000 {
            let (one, ahead) = row.micros[1];
            found.check(
                "16 KB, scan of 100: one by one over read ahead",
                Bound::AtLeast(4.0),
                one / ahead,
            );
        }
        found.check(
            format!("{label}, scan of 100: values read alone"),
            Bound::AtMost(3.0),
            row.reads[1].alone,
        );
        found.check(
            format!("{label}, scan of 100: bytes read over bytes shown"),
            Bound::AtMost(1.6),
            row.reads[1].bytes,
        );
    }
    found.figures.extend([gain, alone, bytes]);
    on_device(bench, &mut found)?;
    found.note(
        "A library that reads values one by one, as RocksDB's iterators do, makes as many reads as the first time has, each \
         of which waits for the one before.",
    );
    Ok(found)
}
