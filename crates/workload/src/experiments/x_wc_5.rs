//! X-WC-5: level 0 shaped by the measured load (`dynamic_level0`), by rule and share of reads ([XP] Figure 19).

use super::x_wc_4::key;
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::generate::{Rng, Values};
use spanlith::Db;
use spanlith::options::{CfOptions, DynamicLevel0, OwnCfOptions};
use spanlith_env::{Clock, Env, SystemClock, VirtualClock};
use std::sync::Arc;
use std::time::Duration;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WC-5",
    title: "Level 0 shaped by the load, by rule and share of reads",
    document: "[XP] Figure 19",
    requirements: "R-XP-23, R-XP-24, R-XP-27",
    setup: "200 000 keys of 16 bytes with values of 100 bytes, memtables of 256 KiB, level base 1 MiB, no filter, everything cached; then 300 000 \
            gets and puts of uniformly chosen keys by one thread, of which the last two thirds are measured by its processor time. Each operation \
            takes 300 us of a virtual clock, so that the rules look every 16 667 operations.",
    criterion: "paper: at least 5 % more operations by second than off at 90 % reads, and at no share more than 2 % fewer",
    stores: Stores::Ours,
    run,
};

const VALUE_SIZE: usize = 100;
const MEMTABLE: u64 = 256 << 10;
const READS: [u64; 3] = [5, 50, 90];
const SECONDS: u64 = 90;
const RULES: [DynamicLevel0; 4] = [
    DynamicLevel0::Off,
    DynamicLevel0::Paper,
    DynamicLevel0::Continuous,
    DynamicLevel0::Merged,
];

/// Operations by second of processor time.
fn measure(bench: &Bench<'_>, rule: DynamicLevel0, reads: u64) -> Result<f64> {
    let keys = bench.scaled(200_000, 2000);
    let operations = bench.scaled(300_000, 3000);
    let clock = Arc::new(VirtualClock::new());
    let env = Env {
        clock: clock.clone(),
        ..Env::system()
    };
    let cf = CfOptions::new()
        .write_buffer_size(MEMTABLE)
        .max_write_buffer_number(4)
        .max_bytes_for_level_base(4 * MEMTABLE)
        .target_file_size_base(MEMTABLE)
        .own(OwnCfOptions::new().dynamic_level0(rule));
    let db = Db::builder(bench.place()?).create_if_missing(true);
    let db = db.env(env).no_info_log().cf_options(cf).open()?;
    let mut rng = Rng::new(bench.seed(1));
    let mut values = Values::incompressible(VALUE_SIZE, bench.seed(2));
    for n in 0..keys {
        db.default_cf().put(key(n), values.next())?;
    }
    db.flush(true)?;
    db.wait_idle(None)?;
    let step = Duration::from_secs(SECONDS) / operations.min(u64::from(u32::MAX)) as u32;
    let processor = SystemClock;
    let mut began = 0;
    for i in 0..operations {
        if i == operations / 3 {
            began = processor.thread_cpu_nanos();
        }
        let key = key(rng.below(keys));
        match rng.below(100) < reads {
            true => drop(db.default_cf().get(key)?),
            false => db.default_cf().put(key, values.next())?,
        }
        clock.sleep(step);
    }
    let spent = processor.thread_cpu_nanos().saturating_sub(began).max(1);
    db.close()?;
    let measured = operations - operations / 3;
    Ok(measured as f64 * 1e9 / spent as f64)
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    bench.expect((RULES.len() * READS.len()) as u64);
    let mut rates = [[0.0; READS.len()]; RULES.len()];
    for (at, reads) in READS.into_iter().enumerate() {
        // The rules one after the other at each share, so that they meet the same machine.
        for (rule, row) in RULES.into_iter().zip(&mut rates) {
            bench.step(&format!("{rule}, {reads} % reads"));
            row[at] = measure(bench, rule, reads)?;
        }
    }
    let places = READS.map(|r| format!("{r} % reads"));
    let mut figure = Figure::new("Operations by second of processor time", "1/s", places);
    for (rule, row) in RULES.into_iter().zip(&rates) {
        figure = figure.all_measured(rule.name(), row);
    }
    found.figures.push(figure);
    let gain = |at: usize| rates[1][at] / rates[0][at];
    found.check("paper by off at 90 % reads", Bound::AtLeast(1.05), gain(2));
    let least = gain(0).min(gain(1)).min(gain(2));
    found.check("paper by off, least", Bound::AtLeast(0.98), least);
    found.note("The document gains 13 % at 90 % reads on 3D XPoint, where each file of level 0 costs a read of the device.");
    Ok(found)
}
