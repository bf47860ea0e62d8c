//! X-WC-7: the log off, with the tables, on a fast device and compressed ([XP] Figures 17 and 20).

use super::on_device::{LogPlace, Virtual};
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::generate::{Keys, Rng, Values};
use spanlith::options::{CfOptions, CompressionType, DbOptions};
use spanlith::{Db, WriteOptions};
use std::path::Path;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WC-7",
    title: "The log off, on a fast device, with the tables, and compressed",
    document: "[XP] Figures 17 and 20",
    requirements: "R-XP-20, R-XP-25, R-XP-26, R-XP-29",
    setup: "20 000 durable puts of random keys with values of 4000 bytes that compress to half, by one thread; memtables of a sixteenth of the data; \
            tables on emulated S and N1; the log in files beside them, compressed there (ZSTD), in files on O, or none. Time of a virtual \
            clock that only devices move: compression takes none.",
    criterion: "time of a put of which 90 % are faster, on both devices: none below the fast device below files with the tables; compressed at most \
                as long as not compressed",
    stores: Stores::OnDevices,
    run,
};

const VALUE_SIZE: usize = 4000;
const KEY_SIZE: usize = 16;
const DEVICES: [&str; 2] = ["S", "N1"];

/// Where the log is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Off,
    Fast,
    Beside,
    Compressed,
}

const WAYS: [Way; 4] = [Way::Off, Way::Fast, Way::Beside, Way::Compressed];

/// Microseconds of a put of which 90 % are faster.
fn measure(way: Way, device: &str, puts: u64, seed: u64) -> Result<f64> {
    let log = match way {
        Way::Fast => LogPlace::Files("O"),
        _ => LogPlace::WithTables,
    };
    let world = Virtual::new(device, log, 0, seed)?;
    let data = puts * VALUE_SIZE as u64;
    let cf = CfOptions::new().write_buffer_size((data / 16).max(64 << 10));
    let options = match way {
        Way::Fast => DbOptions::new().wal_dir(Virtual::LOGS),
        Way::Compressed => DbOptions::new().wal_compression(CompressionType::Zstd),
        _ => DbOptions::new(),
    };
    let builder = Db::builder(Path::new(Virtual::DB)).options(options.create_if_missing(true));
    let builder = builder.no_info_log().cf_options(cf).env(world.env.clone());
    let db = builder.open()?;
    let cf = db.default_cf();
    let options = match way {
        Way::Off => WriteOptions::new().disable_wal(true),
        _ => WriteOptions::new().sync(true),
    };
    let mut rng = Rng::new(seed ^ 5);
    let (mut keys, mut values) = (Keys::new(KEY_SIZE), Values::new(VALUE_SIZE, seed ^ 6));
    let mut times = Vec::new();
    for _ in 0..puts {
        let began = world.now();
        cf.put_opt(keys.set(rng.below(puts)), values.next(), &options)?;
        times.push(world.now() - began);
    }
    drop(cf);
    db.close()?;
    times.sort_unstable();
    let at = times.get(times.len().saturating_sub(1) * 9 / 10);
    Ok(at.copied().unwrap_or(0) as f64 / 1e3)
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let puts = bench.scaled(20_000, 500);
    bench.expect((DEVICES.len() * WAYS.len()) as u64);
    let places = ["off", "files on O", "files beside the tables", "compressed"];
    let title = "Durable put, 90 % are faster (time of devices)";
    let mut figure = Figure::new(title, "us", places);
    for device in DEVICES {
        let mut row = [0.0; WAYS.len()];
        for (way, place) in WAYS.into_iter().zip(&mut row) {
            bench.step(device);
            *place = measure(way, device, puts, bench.seed(1))?;
        }
        let [off, fast, beside, compressed] = row;
        figure = figure.all_measured(&format!("tables on {device}"), &row);
        let what = format!("{device}: none over a fast device");
        found.check(what, Bound::AtMost(0.999), off / fast);
        let what = format!("{device}: a fast device over files beside the tables");
        found.check(what, Bound::AtMost(0.999), fast / beside);
        let what = format!("{device}: compressed over not compressed");
        found.check(what, Bound::AtMost(1.0), compressed / beside);
    }
    found.figures.push(figure);
    found.note("X-XP-5 has the same with gets beside the puts and with the log on a speed disk, without compression.");
    Ok(found)
}
