//! X-XP-5: the log on the device of the tables, on a fast one, and none ([XP] Figures 17 and 20).

use super::on_device::{LogPlace, Virtual};
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Spread, Stores};
use crate::generate::{Keys, Rng, Values};
use spanlith::options::CfOptions;
use spanlith::{Cf, Db, OpenBuilder, ReadOptions, WriteOptions};
use spanlith_cache::Policy;
use spanlith_env::{Clock, SystemClock};
use spanlith_table::BlockCache;
use std::path::Path;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-XP-5",
    title: "Logging on the device of the tables, on a fast one, and not at all",
    document: "[XP] Figures 17 and 20",
    requirements: "R-XP-20, R-XP-25, R-XP-26",
    setup: "values of 1 KB, half puts and half gets of random keys by one thread, caches of 8 % of the data, memtables of a sixteenth. \
            Durable puts: tables on emulated S, N1 and O, the log in files there, on a speed disk on O, or none, by a virtual clock \
            that only devices move. Puts that are not synced: processor time with and without a log, on the real disk.",
    criterion: "time of a durable put of which 90 % are faster: none below speed disk below files on every device; processor time of \
                an unsynced put with a log at least 1.5 times that without",
    stores: Stores::OnDevices,
    run,
};

const VALUE_SIZE: usize = 1000;
const KEY_SIZE: usize = 16;
const DEVICES: [&str; 3] = ["S", "N1", "O"];

struct Load {
    keys: u64,
    operations: u64,
    seed: u64,
}

/// Nanoseconds of puts and gets, each sorted.
struct Times {
    puts: Vec<u64>,
    gets: Vec<u64>,
}

fn at_90(sorted: &[u64]) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * 9 / 10).copied().unwrap_or(0) as f64
}

impl Load {
    fn builder(&self, dir: &Path) -> OpenBuilder {
        let data = self.keys * VALUE_SIZE as u64;
        let mut cf = CfOptions::default();
        cf.write_buffer_size = (data / 16).max(64 << 10);
        let cache = usize::try_from(data * 8 / 100).unwrap_or(usize::MAX);
        Db::builder(dir)
            .create_if_missing(true)
            .no_info_log()
            .cf_options(cf)
            .block_cache(BlockCache::new(cache, Policy::Lru))
    }

    fn open(&self, world: &Virtual) -> Result<Db> {
        let builder = self.builder(Path::new(Virtual::DB)).env(world.env.clone());
        Ok(builder.set(world.own.as_str())?.open()?)
    }

    fn fill(&self, cf: &Cf) -> Result<()> {
        let (mut keys, mut values) = (Keys::new(KEY_SIZE), Values::new(VALUE_SIZE, self.seed));
        let options = WriteOptions::new().disable_wal(true);
        for n in 0..self.keys {
            cf.put_opt(keys.set(n), values.next(), &options)?;
        }
        Ok(())
    }

    /// Half puts, half gets; each timed by `now`.
    fn mixed(&self, cf: &Cf, write: &WriteOptions, now: &dyn Fn() -> u64) -> Result<Times> {
        let mut rng = Rng::new(self.seed ^ 5);
        let (mut keys, mut values) = (Keys::new(KEY_SIZE), Values::new(VALUE_SIZE, self.seed ^ 6));
        let read = ReadOptions::new();
        let mut times = Times {
            puts: Vec::new(),
            gets: Vec::new(),
        };
        for _ in 0..self.operations {
            let key = keys.set(rng.below(self.keys));
            let is_put = rng.below(2) == 0;
            let begun = now();
            match is_put {
                true => cf.put_opt(key, values.next(), write)?,
                false => drop(cf.get_opt(key, &read)?),
            }
            let took = now() - begun;
            match is_put {
                true => times.puts.push(took),
                false => times.gets.push(took),
            }
        }
        times.puts.sort_unstable();
        times.gets.sort_unstable();
        Ok(times)
    }

    /// Durable puts on `device` with the log at `place`; `None`: no log.
    fn durable(&self, device: &str, place: Option<LogPlace>) -> Result<Times> {
        let data = self.keys * VALUE_SIZE as u64;
        let spec = format!("{device}:cache={}", data * 8 / 100);
        let log = place.unwrap_or(LogPlace::WithTables);
        // A page for each durable put.
        let disk = (self.operations * 8192).next_power_of_two().max(16 << 20);
        let world = Virtual::new(&spec, log, disk, self.seed)?;
        let db = self.open(&world)?;
        let cf = db.default_cf();
        self.fill(&cf)?;
        db.flush(true)?;
        let write = match place {
            Some(_) => WriteOptions::new().sync(true),
            None => WriteOptions::new().disable_wal(true),
        };
        let times = self.mixed(&cf, &write, &|| world.now())?;
        drop(cf);
        db.close()?;
        Ok(times)
    }

    /// Processor time of a put that is not synced, in nanoseconds: with a log, and without.
    fn processor(&self, bench: &Bench<'_>) -> Result<(f64, f64)> {
        const ROUNDS: u64 = 5;
        let clock = SystemClock;
        let mut all = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            for is_logged in [true, false] {
                let dir = bench.place()?;
                let db = self.builder(&dir).open()?;
                let cf = db.default_cf();
                let write = WriteOptions::new().disable_wal(!is_logged);
                let times = self.mixed(&cf, &write, &|| clock.thread_cpu_nanos())?;
                let mean = times.puts.get(times.puts.len() / 2).copied().unwrap_or(0) as f64;
                match is_logged {
                    true => all.0.push(mean),
                    false => all.1.push(mean),
                }
                drop(cf);
                db.close()?;
                std::fs::remove_dir_all(dir)?;
            }
        }
        let median = |of: Vec<f64>| Spread::of(&of).map_or(f64::NAN, |s| s.median);
        Ok((median(all.0), median(all.1)))
    }
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let keys = bench.scaled(20_000, 1_000);
    let load = Load {
        keys,
        operations: keys,
        seed: bench.seed(1),
    };
    bench.expect(DEVICES.len() as u64 + 1);
    let micros = |times: &[u64]| at_90(times) / 1e3;
    let (mut puts, mut gets) = (Vec::new(), Vec::new());
    for device in DEVICES {
        bench.step(device);
        let files = load.durable(device, Some(LogPlace::WithTables))?;
        let disk = load.durable(device, Some(LogPlace::SpeedDisk("O")))?;
        let none = load.durable(device, None)?;
        let row = [&files, &disk, &none].map(|t| micros(&t.puts));
        found.check(
            format!("{device}: speed disk over files"),
            Bound::AtMost(0.999),
            row[1] / row[0],
        );
        found.check(
            format!("{device}: none over speed disk"),
            Bound::AtMost(0.999),
            row[2] / row[1],
        );
        puts.push((device, row));
        gets.push((device, [&files, &disk, &none].map(|t| micros(&t.gets))));
    }
    let places = ["files", "speed disk on O", "no log"];
    for (title, rows) in [
        ("Durable put, 90 % are faster (time of devices)", puts),
        ("Get beside them, 90 % are faster (time of devices)", gets),
    ] {
        let mut figure = Figure::new(title, "us", places);
        for (device, row) in rows {
            figure = figure.all_measured(&format!("tables on {device}"), &row);
        }
        found.figures.push(figure);
    }
    bench.step("processor time");
    let (logged, unlogged) = load.processor(bench)?;
    let figure = Figure::new("Put that is not synced", "us", ["with a log", "without"])
        .printed(
            "[XP] PCIe flash, 90 % are faster",
            &[Some(54.0), Some(22.0)],
        )
        .all_measured("processor time, median", &[logged / 1e3, unlogged / 1e3]);
    found.figures.push(figure);
    found.check(
        "put that is not synced: with a log over without",
        Bound::AtLeast(1.5),
        logged / unlogged.max(1.0),
    );
    found.note(
        "The document's figure 20: 16 us with the log on flash, 13 us with it in memory that survives, less without one; its puts are \
         not synced, so that the device is in the background. Here they are durable, and the device is what differs.",
    );
    Ok(found)
}
