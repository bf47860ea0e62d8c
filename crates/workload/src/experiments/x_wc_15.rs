//! X-WC-15: a batch of 15 MB that comes while writes are delayed, by policy of the write controller, simulated.

use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::sim::{Params, run as simulate};
use spanlith_pace::ThrottlePolicy;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WC-15",
    title: "A batch of 15 MB while writes are delayed, by policy, simulated",
    document: "none: a report of RocksDB's users of a batch that waited for minutes (its issue 1966)",
    requirements: "R-XP-07, R-XP-08",
    setup: "the simulated tree of spanlith sim lsm under eleven times what it carries, for ten minutes of a virtual clock; every 10 s one batch of \
            15 MB comes between the writes of 1 KB. A batch that comes while writes are not delayed does not count.",
    criterion: "smooth: no batch waits longer than its bytes take at the rate at which it came, plus a tenth; some came while writes were delayed",
    stores: Stores::Ours,
    run,
};

const BATCH: u64 = 15_000_000;
const EVERY: f64 = 10.0;

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    bench.expect(ThrottlePolicy::ALL.len() as u64);
    let places = [
        "median",
        "longest",
        "longest by its bytes and rate",
        "batches",
    ];
    let mut figure = Figure::new("Waits of batches", "s, s, times, number", places);
    for policy in ThrottlePolicy::ALL {
        bench.step(policy.name());
        let o = simulate(&Params {
            policy,
            batch: Some((EVERY, BATCH)),
            seconds: bench.scaled(600, 120) as f64,
            ..Params::default()
        });
        let mut waits: Vec<f64> = o.batches.iter().map(|b| b.0).collect();
        waits.sort_by(f64::total_cmp);
        let median = waits.get(waits.len() / 2).copied().unwrap_or(0.0);
        let longest = waits.last().copied().unwrap_or(0.0);
        let quotients = o.batches.iter().map(|&(waited, due)| waited / due);
        let quotient = quotients.fold(0.0, f64::max);
        let row = [median, longest, quotient, waits.len() as f64];
        figure = figure.all_measured(policy.name(), &row);
        if policy == ThrottlePolicy::Smooth {
            let what = "smooth: longest wait by its bytes and rate";
            found.check(what, Bound::AtMost(1.1), quotient);
            let what = "smooth: batches that came while writes were delayed";
            found.check(what, Bound::AtLeast(1.0), waits.len() as f64);
        }
    }
    found.figures.push(figure);
    found.note(
        "Under the three policies whose leaders sleep, everybody waits behind the batch; under smooth it takes its places in slices of 256 KiB, \
         between which others pass. The rate under smooth is that of its pace when the batch came.",
    );
    Ok(found)
}
