//! X-WC-10: an hour of more than a tree carries, by policy of the write controller, simulated.

use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::sim::{Outcome, Params, run as simulate};
use spanlith_pace::ThrottlePolicy;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WC-10",
    title: "An hour at 1.2 of what the tree carries, by policy, simulated",
    document: "none: an open loop beyond the document's",
    requirements: "R-XP-07, R-XP-08, R-XP-21",
    setup: "the simulated tree of spanlith sim lsm; what it carries is the mean of rocksdb under ten times as much; then writers offer 1.2 of \
            that for an hour of a virtual clock, of which the first third is left out. Windows are of 100 ms.",
    criterion: "smooth: no window below half of the median, no stop, variation of seconds at most 0.05, mean at least rocksdb's",
    stores: Stores::Ours,
    run,
};

fn simulated(policy: ThrottlePolicy, offered: f64, seconds: f64) -> Outcome {
    simulate(&Params {
        policy,
        offered,
        seconds,
        ..Params::default()
    })
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let seconds = bench.scaled(3600, 240) as f64;
    bench.expect(1 + ThrottlePolicy::ALL.len() as u64);
    bench.step("what it carries");
    let carried = simulated(ThrottlePolicy::Rocksdb, 120e6, seconds).even.mean * 10.0;
    let places = ["mean", "least window"];
    let mut rates = Figure::new("Bytes by second", "MB/s", places);
    let places = [
        "variation of seconds",
        "windows below half",
        "windows below a tenth",
        "seconds stopped",
        "most files in level 0",
    ];
    let mut shapes = Figure::new("Unevenness", "", places);
    let mut mean_of_rocksdb = 0.0;
    for policy in ThrottlePolicy::ALL {
        bench.step(policy.name());
        let o = simulated(policy, 1.2 * carried, seconds);
        let below = |n: usize| n as f64 / o.even.windows.max(1) as f64;
        let (half, tenth) = (below(o.even.below_half), below(o.even.below_tenth));
        let variation = o.even_seconds.variation;
        rates = rates.all_measured(policy.name(), &[o.even.mean * 1e-5, o.even.min * 1e-5]);
        let shape = [
            variation,
            half,
            tenth,
            o.stopped_seconds,
            o.level0_max as f64,
        ];
        shapes = shapes.all_measured(policy.name(), &shape);
        if policy == ThrottlePolicy::Rocksdb {
            mean_of_rocksdb = o.even.mean;
        }
        if policy == ThrottlePolicy::Smooth {
            let quotient = o.even.mean / mean_of_rocksdb;
            found.check(
                "smooth: mean by that of rocksdb",
                Bound::AtLeast(1.0),
                quotient,
            );
            found.check("smooth: windows below half", Bound::AtMost(0.0), half);
            found.check(
                "smooth: seconds stopped",
                Bound::AtMost(0.0),
                o.stopped_seconds,
            );
            found.check(
                "smooth: variation of seconds",
                Bound::AtMost(0.05),
                variation,
            );
        }
    }
    found.figures.push(rates);
    found.figures.push(shapes);
    found.note(format!(
        "The tree carries {:.1} MB/s under the policy rocksdb.",
        carried / 1e6
    ));
    Ok(found)
}
