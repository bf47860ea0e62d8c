//! X-WC-12: how many compactions at once, fixed or by how far the tree is behind, simulated.

use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::sim::{Params, run as simulate};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WC-12",
    title: "Compactions at once, fixed or by how far the tree is behind, simulated",
    document: "none: ADOC (FAST 2023), whose claim it tries",
    requirements: "R-XP-31, R-SPAN-46",
    setup: "the simulated tree of spanlith sim lsm under smooth and eleven times what it carries, on devices of 200, 400 and 800 MB/s, ten minutes of a \
            virtual clock each; one, two and six compactions at once, and the rule of the engine, which is RocksDB's: one, and up to six while the tree is \
            behind.",
    criterion: "on each device the rule carries at least 0.95 of the best fixed number",
    stores: Stores::Ours,
    run,
};

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let devices = [200e6, 400e6, 800e6];
    let ways = [
        ("1", 1, true),
        ("2", 2, true),
        ("6", 6, true),
        ("1 to 6", 6, false),
    ];
    bench.expect((devices.len() * ways.len()) as u64);
    let names = devices.map(|d| format!("{} MB/s", d / 1e6));
    let mut mean = Figure::new("Carried by device", "MB/s", names.clone());
    let mut variation = Figure::new("Variation of seconds", "", names);
    let mut best = [0.0f64; 3];
    for (name, slots, is_fixed) in ways {
        let mut carried = [0.0; 3];
        let mut uneven = [0.0; 3];
        for (n, device_speed) in devices.into_iter().enumerate() {
            bench.step(name);
            let o = simulate(&Params {
                slots,
                slots_are_fixed: is_fixed,
                device_speed,
                seconds: bench.scaled(600, 60) as f64,
                ..Params::default()
            });
            carried[n] = o.even.mean * 10.0 / 1e6;
            uneven[n] = o.even_seconds.variation;
            if is_fixed {
                best[n] = best[n].max(carried[n]);
            } else {
                let what = format!("{} MB/s: by the best fixed number", device_speed / 1e6);
                found.check(&what, Bound::AtLeast(0.95), carried[n] / best[n].max(0.001));
            }
        }
        mean = mean.all_measured(name, &carried);
        variation = variation.all_measured(name, &uneven);
    }
    found.figures.extend([mean, variation]);
    found.note("The simulator leaves out the processor: on few cores more compactions at once take it from writers and readers.");
    Ok(found)
}
