//! X-WC-16: what is no reason to stand still: a range that goes, a base level that moves, slow flushes, a device that stops; simulated.

use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::sim::{Mishap, Params, run as simulate};
use spanlith_pace::{ThrottlePolicy, evenness};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WC-16",
    title: "Half of the data deleted, slow flushes, and a device that stops, simulated",
    document: "none: reports of TiKV's users of writes that are slowed down after a range was deleted (its issues 19583, 19738)",
    requirements: "R-XP-08, R-XP-31",
    setup: "the simulated tree of spanlith sim lsm under 1.2 times what it carries, 300 s of a virtual clock under rocksdb and smooth; at half of that \
            nothing happens; the tables of half of the keys go, by which the base level moves; flushes do a tenth of their speed for 20 s, as one of \
            800 tables would; or the device stops for 5 s.",
    criterion: "smooth: in the time from then on no window of 100 ms below half of the median after the range, the move and the slow flush, and seconds vary by at most \
                0.10; after the stop of the device writers have half of the median again within 1 s of its end, and 0.8 of it within 3 s",
    stores: Stores::Ours,
    run,
};

/// Seconds for which the device stops.
const STOP: f64 = 5.0;
/// The case in which it does.
const STOPS: &str = "the device stops";

/// The cases, by what goes wrong in the middle of `seconds`.
fn cases(seconds: f64) -> [(&'static str, Option<Mishap>); 4] {
    let at = seconds / 2.0;
    let slow = |seconds, flushes, device| {
        Some(Mishap::Slow {
            at,
            seconds,
            flushes,
            device,
        })
    };
    [
        ("nothing", None),
        ("half of the data goes", Some(Mishap::RangeGone { at })),
        ("slow flushes", slow(20.0, 0.1, 1.0)),
        (STOPS, slow(STOP, 0.0, 0.0)),
    ]
}

/// Judges the windows after a mishap under smooth.
fn judge(found: &mut Findings, what: &str, after: &[f64], variation: f64) {
    let windows = evenness(after);
    if what != STOPS {
        let name = format!("smooth, {what}: windows below half");
        found.check(&name, Bound::AtMost(0.0), windows.below_half as f64);
        let name = format!("smooth, {what}: variation of seconds");
        found.check(&name, Bound::AtMost(0.1), variation);
        return;
    }
    let rest = after.get((STOP * 10.0) as usize..).unwrap_or_default();
    for (share, seconds) in [(0.5, 1.0), (0.8, 3.0)] {
        let back = rest.iter().position(|&b| b >= share * windows.median);
        let back = back.map_or(f64::MAX, |n| n as f64 / 10.0);
        let what = format!("smooth: seconds until {share} of the median after the stop");
        found.check(&what, Bound::AtMost(seconds), back);
    }
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let seconds = bench.scaled(300, 90) as f64;
    let cases = cases(seconds);
    bench.expect(2 * cases.len() as u64);
    let places = cases.map(|c| c.0);
    let mut mean = Figure::new("Mean from then on", "MB/s", places);
    let mut least = Figure::new("Least window from then on", "MB/s", places);
    let mut below = Figure::new("Windows below half of the median", "", places);
    let mut variation = Figure::new("Variation of seconds", "", places);
    for policy in [ThrottlePolicy::Rocksdb, ThrottlePolicy::Smooth] {
        let mut rows = [[0.0; 4]; 4];
        for (n, (what, mishap)) in cases.into_iter().enumerate() {
            bench.step(what);
            let o = simulate(&Params {
                policy,
                offered: 13e6,
                seconds,
                mishap,
                ..Params::default()
            });
            let after = &o.series[o.series.len() / 2..];
            let windows = evenness(after);
            let by_second: Vec<f64> = after.chunks_exact(10).map(|c| c.iter().sum()).collect();
            let uneven = evenness(&by_second).variation;
            let in_mb = 10.0 / 1e6;
            rows[0][n] = windows.mean * in_mb;
            rows[1][n] = windows.min * in_mb;
            rows[2][n] = windows.below_half as f64;
            rows[3][n] = uneven;
            if policy == ThrottlePolicy::Smooth {
                judge(&mut found, what, after, uneven);
            }
        }
        let name = policy.name();
        mean = mean.all_measured(name, &rows[0]);
        least = least.all_measured(name, &rows[1]);
        below = below.all_measured(name, &rows[2]);
        variation = variation.all_measured(name, &rows[3]);
    }
    found.figures.extend([mean, least, below, variation]);
    Ok(found)
}
