//! X-WC-3: bursts of writes, by policy of the write controller, simulated ([XP] Figure 18).

use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::sim::{Params, run as simulate};
use spanlith_pace::ThrottlePolicy;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WC-3",
    title: "Near-stops in bursts of writes, by policy, simulated",
    document: "[XP] Figure 18",
    requirements: "R-XP-21, R-XP-22",
    setup: "the simulated tree of spanlith sim lsm --burst: 1 GB of values of 1 KB, memtables of 2 MiB, level base 8 MiB; writers offer \
            9 MB/s, and nine times as much in 5 s of every 12; compactions do 300 MB/s; 10 MB/s are acceptable as a delayed rate. \
            120 s of a virtual clock, of which the first third is left out. Windows are of 100 ms.",
    criterion: "windows below half of the median: none under two_stage and smooth, some under rocksdb_517; no policy carries less than \
                0.97 of rocksdb_517",
    stores: Stores::Ours,
    run,
};

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    bench.expect(ThrottlePolicy::ALL.len() as u64);
    let places = ["mean", "least window"];
    let mut rates = Figure::new("Bytes by second", "MB/s", places);
    let places = ["windows below half", "most files in level 0"];
    let mut shapes = Figure::new("Near-stops", "", places);
    let mut mean_of_old = 0.0;
    for policy in ThrottlePolicy::ALL {
        bench.step(policy.name());
        let mut params = Params::bursts(policy);
        params.seconds = bench.scaled(120, 36) as f64;
        let o = simulate(&params);
        let below = o.even.below_half as f64;
        rates = rates.all_measured(policy.name(), &[o.even.mean * 1e-5, o.even.min * 1e-5]);
        shapes = shapes.all_measured(policy.name(), &[below, o.level0_max as f64]);
        let what = format!("{policy}: windows below half");
        match policy {
            ThrottlePolicy::Rocksdb517 => {
                mean_of_old = o.even.mean;
                found.check(what, Bound::AtLeast(1.0), below);
            }
            ThrottlePolicy::TwoStage | ThrottlePolicy::Smooth => {
                found.check(what, Bound::AtMost(0.0), below);
                let quotient = o.even.mean / mean_of_old;
                found.check(format!("{policy}: mean"), Bound::AtLeast(0.97), quotient);
            }
            ThrottlePolicy::Rocksdb => {}
        }
    }
    found.figures.push(rates);
    found.figures.push(shapes);
    found.note("The document: about 9 000 operations a second for 135 to 142 s, none below 10 000 in two stages.");
    Ok(found)
}
