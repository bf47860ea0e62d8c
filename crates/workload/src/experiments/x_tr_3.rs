//! X-TR-3: scans over separated values that lie here and there in blob files.

use super::file_reads::{P4610, Reads, counted};
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::generate::{Keys, Rng, Shuffle, Values};
use spanlith::options::{CfOptions, CompressionType};
use spanlith::{Db, ReadOptions};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-TR-3",
    title: "Scans over separated values, read one by one and ahead",
    document: "[TR] limits of a value log",
    requirements: "R-TR-14, R-TR-17",
    setup: "values of 1, 4 and 16 KB, all in blob files, 64 MB of each size, put once in random order with a memtable of a \
            sixtieth of them, so that neighbours lie in different files; then scans of 10, 100 and 1000 from random keys. \
            Reads of files are counted by an I/O trace. The time on an Intel P4610 is calculated: 77 us a read, 3.2 GB/s, \
            ten reads at a time.",
    criterion: "scans of 100 values of 16 KB take at least 4 times as long on that device if values are read one by one; at most \
                3 values of a scan of 100 are read alone; at most 1.6 times as many values are read as are shown by scans of 100",
    stores: Stores::Ours,
    run,
};

const KEY: usize = 16;
const SIZES: [usize; 3] = [1000, 4000, 16_000];
const LENGTHS: [u64; 3] = [10, 100, 1000];
/// Memtables that a load fills.
const FLUSHES: u64 = 60;

fn open(bench: &Bench<'_>, memtable: u64) -> Result<Db> {
    let mut options = CfOptions::default();
    options.enable_blob_files = true;
    options.compression = CompressionType::None;
    options.disable_auto_compactions = true;
    options.level0_slowdown_writes_trigger = 1000;
    options.level0_stop_writes_trigger = 1000;
    options.write_buffer_size = memtable;
    options.max_write_buffer_number = 8;
    let db = Db::builder(bench.place()?.join("db"))
        .create_if_missing(true)
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

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    bench.expect(SIZES.len() as u64);
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
    found.note(
        "A library that reads values one by one, as RocksDB's iterators do, makes as many reads as the first time has, each \
         of which waits for the one before.",
    );
    Ok(found)
}
