//! X-WC-8: first what a tree carries in a closed loop, then an open loop of 0.95 of that, by policy, simulated.

use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::sim::{Params, run as simulate, waits};
use spanlith_pace::ThrottlePolicy;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WC-8",
    title: "Waits of an open loop at 0.95 of what the tree carries, by policy, simulated",
    document: "none: the two phases of Luo and Carey (VLDB 2019) beyond the document",
    requirements: "R-XP-07, R-XP-08, R-XP-21",
    setup: "the simulated tree of spanlith sim lsm; what it carries is the mean of a policy while writers offer 1.2 of its mean under ten times as \
            much; then 0.95 of that comes for ten minutes under that policy, and what cannot be written at once waits. A wait is from the moment at which a write \
            was to begin; waits are looked at ten times a second, without the first tenth of the time.",
    criterion: "smooth: p99.9 of the waits at most ten times p50 or 2 ms, and no second below half of what comes",
    stores: Stores::Ours,
    run,
};

fn params(policy: ThrottlePolicy, offered: f64, seconds: f64) -> Params {
    Params {
        policy,
        offered,
        seconds,
        ..Params::default()
    }
}

/// Bytes per second that the tree carries under a policy.
fn carried(policy: ThrottlePolicy, seconds: f64) -> f64 {
    let mean = |offered| {
        let o = simulate(&params(policy, offered, seconds));
        o.even.mean * 10.0
    };
    mean(1.2 * mean(120e6))
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = (sorted.len() as f64 * q) as usize;
    sorted
        .get(at.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0.0)
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let seconds = bench.scaled(600, 60) as f64;
    bench.expect(ThrottlePolicy::ALL.len() as u64);
    let places = ["p50", "p99", "p99.9", "longest"];
    let mut figure = Figure::new("Waits", "ms", places);
    let mut least = Figure::new("Least second by what comes", "", ["least"]);
    let mut coming = Figure::new(
        "Bytes that come by second",
        "MB/s",
        ["0.95 of what it carries"],
    );
    for policy in ThrottlePolicy::ALL {
        bench.step(policy.name());
        let offered = 0.95 * carried(policy, seconds);
        let mut p = params(policy, offered, seconds);
        p.is_open = true;
        let o = simulate(&p);
        let mut all = waits(&o.series, offered);
        all.drain(..all.len() / 10);
        all.sort_by(f64::total_cmp);
        let at = [0.5, 0.99, 0.999, 1.0].map(|q| quantile(&all, q) * 1e3);
        figure = figure.all_measured(policy.name(), &at);
        coming = coming.all_measured(policy.name(), &[offered / 1e6]);
        let second = o.even_seconds.min / offered;
        least = least.all_measured(policy.name(), &[second]);
        if policy == ThrottlePolicy::Smooth {
            let most = (10.0 * at[0]).max(2.0);
            found.check(
                "smooth: p99.9 by what it may be",
                Bound::AtMost(1.0),
                at[2] / most,
            );
            found.check("smooth: least second", Bound::AtLeast(0.5), second);
        }
    }
    found.figures.push(figure);
    found.figures.push(least);
    found.figures.push(coming);
    found.note(
        "The simulator leaves out the log and the processor, which are most of a wait in a calm.",
    );
    Ok(found)
}
