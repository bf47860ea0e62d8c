//! X-SD-4: what each step from a log in files on flash to asynchronous calls on a speed disk brings ([SPAN] Figure 11), on
//! emulated devices in real time.

use super::on_device::{LogPlace, Real, rate_of};
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::generate::{Keys, Rng, Values};
use spanlith::options::{CfOptions, DbOptions};
use spanlith::{Cf, Db, ReadFuture, ReadOptions, WriteFuture, WriteOptions};
use std::collections::VecDeque;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-SD-4",
    title: "From a log on flash to asynchronous calls on a speed disk, step by step",
    document: "[SPAN] Figure 11, sections 1 and 2.3",
    requirements: "R-SPAN-03, R-SPAN-04, R-SPAN-20, R-SPAN-47",
    setup: "16 MB of values of 1 KB; durable puts and gets of random keys for 1.5 s: 8 threads with one call each, or 8 threads with 50 \
            outstanding. S, O: all on that device. SO: tables on S, the log in files on O. SO disk: the log on a speed disk on O. \
            SO async: that with outstanding calls. All puts, half puts, 5 % puts.",
    criterion: "all puts: O at least 1.5 times S; SO at least 0.9 of O; SO disk at least 1.1 times SO; SO async at least 1.5 times SO disk; 5 % \
                puts: SO async at least 0.8 of O",
    stores: Stores::OnDevices,
    run,
};

const VALUE_SIZE: usize = 1000;
pub(super) const THREADS: u64 = 8;
/// Calls that a thread has outstanding.
pub(super) const OUTSTANDING: usize = 50;
/// Puts of a hundred calls.
const MIXES: [u64; 3] = [100, 50, 5];

/// A step of the figure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variant {
    pub(super) name: &'static str,
    pub(super) tables: &'static str,
    pub(super) log: LogPlace,
    outstanding: usize,
}

const VARIANTS: [Variant; 5] = [
    variant("S", "S", LogPlace::WithTables, 1),
    variant("O", "O", LogPlace::WithTables, 1),
    variant("SO", "S", LogPlace::Files("O"), 1),
    variant("SO disk", "S", LogPlace::SpeedDisk("O"), 1),
    variant("SO async", "S", LogPlace::SpeedDisk("O"), OUTSTANDING),
];

pub(super) const fn variant(
    name: &'static str,
    tables: &'static str,
    log: LogPlace,
    outstanding: usize,
) -> Variant {
    Variant {
        name,
        tables,
        log,
        outstanding,
    }
}

/// A call that is under way.
enum Call {
    Put(WriteFuture),
    Get(ReadFuture<Option<spanlith::Pinned>>),
}

impl Call {
    fn wait(self) -> Result<()> {
        match self {
            Self::Put(call) => call.wait()?,
            Self::Get(call) => drop(call.wait()?),
        }
        Ok(())
    }
}

/// Describes one client.
struct Client<'a> {
    cf: &'a Cf,
    keys: u64,
    put_percent: u64,
    outstanding: usize,
    seed: u64,
}

impl Client<'_> {
    fn run(&self, ready: &Barrier, stop: &AtomicBool, done: &AtomicU64) -> Result<()> {
        let mut rng = Rng::new(self.seed);
        let (mut names, mut values) = (Keys::new(16), Values::new(VALUE_SIZE, self.seed));
        let (write, read) = (WriteOptions::new().sync(true), ReadOptions::new());
        let later = self.cf.to_async();
        let mut calls = VecDeque::new();
        ready.wait();
        while !stop.load(Ordering::Relaxed) {
            let key = names.set(rng.below(self.keys));
            let is_put = rng.below(100) < self.put_percent;
            match (self.outstanding, is_put) {
                (1, true) => self.cf.put_opt(key, values.next(), &write)?,
                (1, false) => drop(self.cf.get_opt(key, &read)?),
                (_, true) => calls.push_back(Call::Put(later.put_opt(key, values.next(), &write))),
                (_, false) => calls.push_back(Call::Get(later.get_opt(key, &read))),
            }
            if self.outstanding > 1 {
                if calls.len() < self.outstanding {
                    continue;
                }
                if let Some(call) = calls.pop_front() {
                    call.wait()?;
                }
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        calls.into_iter().try_for_each(Call::wait)
    }
}

/// Operations per second of one variant and mix.
pub(super) fn rate(bench: &Bench<'_>, v: Variant, put_percent: u64, millis: u64) -> Result<f64> {
    let keys = bench.scaled(16_000, 2_000);
    let data = keys * VALUE_SIZE as u64;
    let dir = bench.place()?;
    let spec = format!("{}:cache={data}", v.tables);
    let real = Real::new(&dir, &spec, v.log, 64 << 20)?;
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    if let LogPlace::Files(_) = v.log {
        options.wal_dir = real.logs.to_string_lossy().into_owned();
    }
    let mut cf_options = CfOptions::default();
    cf_options.write_buffer_size = 8 << 20;
    cf_options.max_write_buffer_number = 4;
    let builder = Db::builder(&real.db).env(real.env.clone()).options(options);
    let db = builder
        .cf_options(cf_options)
        .set(real.own.as_str())?
        .open()?;
    let cf = db.default_cf();
    let (mut names, mut values) = (Keys::new(16), Values::new(VALUE_SIZE, bench.seed(1)));
    for n in 0..keys {
        cf.put(names.set(n), values.next())?;
    }
    db.flush(true)?;
    let seeds: Vec<u64> = (0..THREADS).map(|t| bench.seed(10 + t)).collect();
    let rate = rate_of(THREADS, millis, |thread, ready, stop, done| {
        let client = Client {
            cf: &cf,
            keys,
            put_percent,
            outstanding: v.outstanding,
            seed: seeds[thread as usize],
        };
        client.run(ready, stop, done)
    })?;
    drop(cf);
    db.close()?;
    std::fs::remove_dir_all(dir)?;
    Ok(rate)
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let millis = bench.scaled(1_500, 250);
    bench.expect((VARIANTS.len() * MIXES.len()) as u64);
    let mut all = Vec::new();
    for percent in MIXES {
        let mut row = Vec::new();
        for v in VARIANTS {
            bench.step(&format!("{}, {percent} % puts", v.name));
            row.push(rate(bench, v, percent, millis)?);
        }
        found.figures.push(
            Figure::new(
                format!("Operations by second, {percent} % puts"),
                "thousand",
                VARIANTS.map(|v| v.name),
            )
            .all_measured("spanlith", &row.iter().map(|r| r / 1e3).collect::<Vec<_>>()),
        );
        all.push(row);
    }
    let puts = &all[0];
    let steps = [
        puts[1] / puts[0],
        puts[2] / puts[1],
        puts[3] / puts[2],
        puts[4] / puts[3],
    ];
    found.figures.push(
        Figure::new(
            "All puts: each step over the one before",
            "times",
            [
                "O over S",
                "SO over O",
                "SO disk over SO",
                "SO async over SO disk",
            ],
        )
        .printed("[SPAN]", &[None, None, Some(2.0), Some(4.5)])
        .all_measured("spanlith", &steps),
    );
    let bounds = [
        ("all puts: O over S", 1.5, steps[0]),
        ("all puts: SO over O", 0.9, steps[1]),
        ("all puts: SO disk over SO", 1.1, steps[2]),
        ("all puts: SO async over SO disk", 1.5, steps[3]),
        ("5 % puts: SO async over O", 0.8, all[2][4] / all[2][1]),
    ];
    for (what, least, value) in bounds {
        found.check(what, Bound::AtLeast(least), value);
    }
    found.note(
        "Placement of levels on the speed disk is not in these steps. Real time: other programs on the machine change the figures, and on \
         few cores the last step is what the processor carries.",
    );
    Ok(found)
}
