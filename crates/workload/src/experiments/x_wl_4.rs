//! X-WL-4: what tracing costs, and that nothing is lost ([WL] §3).
//!
//! Two threads ask a database that fits into memory; slices with and without a trace alternate. Judged is the processor
//! time of the threads that ask, by the kernel's count in nanoseconds. A thread of the trace writes the file; the time of
//! the whole process, which the kernel counts in hundredths of a second, stands beside it.

use super::{Bench, Bound, Experiment, Figure, Findings, Result, Spread, Stores};
use crate::drivers::Usage;
use crate::generate::{Keys, Rng, Values};
use crate::store::{Store, StoreName, StoreOptions};
use crate::traces::reader;
use spanlith::trace::{TraceHeader, TraceRecord};
use std::path::Path;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WL-4",
    title: "Processor time of a traced request over that of one that is not traced",
    document: "[WL] §3",
    requirements: "R-WL-01, R-WL-02",
    setup: "200 000 keys of 24 bytes with values of 100 bytes, all in the cache or in memtables; two threads; 90 % and 50 % gets, \
            the others puts; 12 slices of 100 000 requests with and 12 without a trace, alternating.",
    criterion: "median of the ratios of neighbouring slices at most 1.05 at both shares of gets; every request is in the trace. RocksDB's \
                is measured, not judged",
    stores: Stores::RocksDbLike,
    run,
};

const THREADS: u64 = 2;
const PAIRS: usize = 12;
/// Shares of gets in percent.
const GETS: [u64; 2] = [90, 50];

/// Nanoseconds that this thread has run, as the kernel counts them.
fn ran() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Asks on all threads; nanoseconds of processor time for a request.
fn slice(store: &dyn Store, keys: u64, requests: u64, gets: u64, seed: u64) -> Result<f64> {
    let work = |thread: u64| -> crate::store::Result<u64> {
        let mut rng = Rng::new(seed ^ (thread << 40));
        let mut values = Values::with_ratio(100, 0.5, seed ^ thread);
        let (mut names, mut value) = (Keys::new(24), Vec::new());
        let before = ran();
        for _ in 0..requests / THREADS {
            let key = names.set(rng.below(keys));
            if rng.below(100) < gets {
                store.get(0, key, &mut value)?;
            } else {
                store.put(0, key, values.next())?;
            }
        }
        Ok(ran() - before)
    };
    let ran: Vec<_> = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(move || work(n))).collect();
        let joined = threads.into_iter().map(|t| t.join());
        joined
            .map(|r| r.unwrap_or_else(|e| std::panic::resume_unwind(e)))
            .collect()
    });
    let nanos = ran.into_iter().sum::<crate::store::Result<u64>>()?;
    Ok(nanos as f64 / requests as f64)
}

/// Requests in a trace.
fn recorded(path: &Path) -> Result<u64> {
    let mut reader = reader(path)?;
    let Some(first) = reader.next_record()? else {
        return Ok(0);
    };
    let header = TraceHeader::from_record(&first)?;
    let mut count = 0;
    while let Some(record) = reader.next_record()? {
        count += u64::from(matches!(header.decode(&record)?, TraceRecord::Query(_)));
    }
    Ok(count)
}

struct Measured {
    ratio: f64,
    plain: f64,
    traced: f64,
    /// Requests that were asked while tracing, less those in the traces.
    lost: f64,
    /// Time of the whole process with traces over that without.
    process: f64,
}

fn measure(
    bench: &Bench<'_>,
    store: &dyn Store,
    keys: u64,
    gets: u64,
    trace: &Path,
) -> Result<Measured> {
    let requests = bench.scaled(100_000, 2_000) / THREADS * THREADS;
    let (mut ratios, mut plain, mut traced, mut lost) = (Vec::new(), Vec::new(), Vec::new(), 0.0);
    let (mut process_on, mut process_off) = (0.0, 0.0);
    // The first slice warms the cache.
    slice(store, keys, requests, gets, bench.seed(9))?;
    for pair in 0..PAIRS {
        let seed = bench.seed(10 + pair as u64);
        let mut with = |traced: &mut f64, lost: &mut f64| -> Result<()> {
            let before = Usage::now();
            store.start_trace(trace)?;
            *traced = slice(store, keys, requests, gets, seed)?;
            store.end_trace()?;
            process_on += Usage::now().since(before).cpu_seconds;
            *lost += requests as f64 - recorded(trace)? as f64;
            Ok(())
        };
        let mut on = 0.0;
        // Which one comes first alternates as well.
        if pair % 2 == 0 {
            with(&mut on, &mut lost)?;
        }
        let before = Usage::now();
        let off = slice(store, keys, requests, gets, seed)?;
        process_off += Usage::now().since(before).cpu_seconds;
        if pair % 2 == 1 {
            with(&mut on, &mut lost)?;
        }
        ratios.push(on / off);
        plain.push(off);
        traced.push(on);
    }
    let median = |all: &[f64]| Spread::of(all).map_or(f64::NAN, |s| s.median);
    Ok(Measured {
        ratio: median(&ratios),
        plain: median(&plain),
        traced: median(&traced),
        lost,
        process: process_on / process_off,
    })
}

fn options(keys: u64) -> StoreOptions {
    StoreOptions {
        options: "write_buffer_size=268435456;compression=kNoCompression;filter_policy=bloomfilter:10:false".to_string(),
        cache_bytes: Some((keys * 400).max(64 << 20)),
        disable_wal: true,
        ..StoreOptions::default()
    }
}

fn load(store: &dyn Store, bench: &Bench<'_>, keys: u64) -> Result<()> {
    let (mut names, mut values) = (Keys::new(24), Values::with_ratio(100, 0.5, bench.seed(1)));
    for n in 0..keys {
        store.put(0, names.set(n), values.next())?;
    }
    store.flush()?;
    Ok(store.wait_idle()?)
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let keys = bench.scaled(200_000, 5_000);
    bench.expect(2 * bench.stores().len() as u64);
    let places = GETS.map(|g| format!("{g} % gets"));
    let mut ratios = Figure::new("Traced over not traced", "times", places.clone());
    let mut processes = Figure::new(
        "Traced over not traced, whole process",
        "times",
        places.clone(),
    );
    let mut nanos = Figure::new("Processor time of a request", "ns", places.clone());
    for name in bench.stores() {
        let store = bench.open(name, &options(keys))?;
        let label = store.label().to_string();
        load(store.as_ref(), bench, keys)?;
        let trace = bench.place()?.join("trace");
        let (mut all, mut plain, mut traced) = (Vec::new(), Vec::new(), Vec::new());
        let mut process = Vec::new();
        for (gets, place) in GETS.into_iter().zip(&places) {
            bench.step(&format!("{label}, {place}"));
            let m = measure(bench, store.as_ref(), keys, gets, &trace)?;
            if *name == StoreName::Ours {
                found.check(
                    format!("{label}: traced over not traced, {place}"),
                    Bound::AtMost(1.05),
                    m.ratio,
                );
            }
            found.check(
                format!("{label}: requests that the trace lacks, {place}"),
                Bound::Within(0.0, 0.0),
                m.lost,
            );
            process.push(m.process);
            all.push(m.ratio);
            plain.push(m.plain);
            traced.push(m.traced);
        }
        ratios = ratios.all_measured(&label, &all);
        processes = processes.all_measured(&label, &process);
        nanos = nanos
            .all_measured(&format!("{label}, not traced"), &plain)
            .all_measured(&format!("{label}, traced"), &traced);
        bench.discard(store)?;
    }
    found.figures.extend([ratios, processes, nanos]);
    Ok(found)
}
