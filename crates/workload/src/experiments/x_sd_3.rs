//! X-SD-3: flushes and compactions at once, in phases of bursts, writes and reads ([SPAN] Figure 10), in virtual time.

use super::on_device::spec;
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::sim::sd::{Jobs, Phase, TableOutcome, TableParams, Window, run_levels};
use spanlith_speed::Policy;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-SD-3",
    title: "Background work that is little, much, and as needed, in three phases of load",
    document: "[SPAN] Figure 10",
    requirements: "R-SPAN-31, R-SPAN-46",
    setup: "the simulated database of X-SD-2 on S-O with placement auto: four episodes of 25 s that begin with 1.5 million calls each, half reads; then \
            35 s of writes alone; then 25 s with 95 % reads. BG-L: one flush and one compaction at once; BG-H: two and six; auto: one compaction, and \
            six while they fall behind. Tenths of seconds. The upper levels are filled by 600 s of writes before, and a rest.",
    criterion: "auto: mean time of a call in bursts at most 1.1 of BG-L's; a tenth of a second without calls nowhere in phase 2; calls by second in \
                phase 3 at least BG-H's",
    stores: Stores::OnDevices,
    run,
};

const WAYS: [(&str, Jobs); 3] = [
    ("BG-L", Jobs::Few),
    ("BG-H", Jobs::Many),
    ("auto", Jobs::Auto),
];
const EPISODES: f64 = 4.0;
const EPISODE: f64 = 25.0;
const CALLS: f64 = 1.5e6;

/// The phases at a scale.
fn phases(scale: f64) -> [Phase; 3] {
    let phase = |seconds: f64, read_percent, burst| Phase {
        seconds: (seconds * scale * 10.0).round() / 10.0,
        read_percent,
        burst,
    };
    let burst = ((EPISODE * scale * 10.0).round() / 10.0, CALLS * scale);
    [
        phase(EPISODES * EPISODE, 50, Some(burst)),
        phase(35.0, 0, None),
        phase(25.0, 95, None),
    ]
}

/// Thousand calls by second of the least tenth of a second that is full of calls.
fn least(windows: &[Window]) -> f64 {
    let full = windows.iter().filter(|w| w.busy > 0.095);
    full.map(|w| w.calls / 100.0)
        .reduce(f64::min)
        .unwrap_or(0.0)
}

/// The figures of a phase: thousand calls by second, microseconds of one, least tenth of a second, jobs at once.
fn of_phase(out: &TableOutcome, (from, to): (usize, usize)) -> [f64; 4] {
    let windows = out.windows.get(from..to).unwrap_or_default();
    let (rate, nanos) = out.mean(from, to);
    let jobs: f64 = windows.iter().map(|w| w.jobs as f64).sum();
    [
        rate / 1e3,
        nanos / 1e3,
        least(windows),
        jobs / windows.len().max(1) as f64,
    ]
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let phases = phases(bench.scale().clamp(0.1, 20.0));
    let mut at = 0;
    let bounds = phases.map(|p| {
        let from = at;
        at += (p.seconds * 10.0).round() as usize;
        (from, at)
    });
    bench.expect(WAYS.len() as u64);
    let mut rows = Vec::new();
    for (name, jobs) in WAYS {
        bench.step(name);
        let out = run_levels(&TableParams {
            jobs,
            warm_seconds: bench.scaled(600, 60) as f64,
            grows: true,
            phases: phases.to_vec(),
            ..TableParams::new(spec("S-RAID5")?, spec("O")?, Policy::Auto)
        });
        rows.push(bounds.map(|b| of_phase(&out, b)));
    }
    for (n, (title, unit)) in [
        ("Calls by second while there are any", "thousand"),
        ("Mean time of a call", "us"),
        (
            "Least tenth of a second that is full of calls",
            "thousand/s",
        ),
        ("Flushes and compactions at once, in the mean", ""),
    ]
    .into_iter()
    .enumerate()
    {
        let mut figure = Figure::new(title, unit, ["bursts", "writes", "95 % reads"]);
        for ((name, _), row) in WAYS.iter().zip(&rows) {
            figure = figure.all_measured(name, &row.map(|phase| phase[n]));
        }
        found.figures.push(figure);
    }
    let [few, many, auto] = [&rows[0], &rows[1], &rows[2]];
    found.check(
        "bursts: mean time of a call, auto over BG-L",
        Bound::AtMost(1.1),
        auto[0][1] / few[0][1],
    );
    found.check(
        "writes: least tenth of a second with auto, calls by second",
        Bound::AtLeast(1.0),
        auto[1][2] * 1e3,
    );
    found.check(
        "95 % reads: calls by second, auto over BG-H",
        Bound::AtLeast(1.0),
        auto[2][0] / many[2][0],
    );
    found.note(
        "Printed: bursts under BG-H take twice as long and carry 39 % less, and BG-L stalls in the second phase. Calls and bytes flow in steps of \
         10 ms; single requests are not told apart.",
    );
    Ok(found)
}
