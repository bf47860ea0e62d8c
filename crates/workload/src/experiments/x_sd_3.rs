//! X-SD-3: flushes and compactions at once, in phases of bursts, writes and reads ([SPAN] Figure 10), in virtual time.

use super::on_device::spec;
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::sim::sd::{Jobs, Phase, TableOutcome, TableParams, run_levels};
use spanlith_speed::Policy;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-SD-3",
    title: "Background work that is little, much, and as needed, in three phases of load",
    document: "[SPAN] Figure 10",
    requirements: "R-SPAN-31, R-SPAN-46",
    setup: "the simulated database of X-SD-2 on S-O with placement auto: four episodes of 25 s that begin with 1.5 million calls each, half reads; then \
            35 s of writes alone; then 25 s with 95 % reads. BG-L: one flush and one compaction at once; BG-H: two and six; auto: one compaction, and \
            six while they fall behind. Tenths of seconds. The upper levels are full when it begins.",
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

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let phases = phases(bench.scale().clamp(0.1, 20.0));
    bench.expect(WAYS.len() as u64);
    let mut rows = Vec::new();
    for (name, jobs) in WAYS {
        bench.step(name);
        rows.push(run_levels(&TableParams {
            jobs,
            warm_seconds: bench.scaled(600, 60) as f64,
            phases: phases.to_vec(),
            ..TableParams::new(spec("S-RAID5")?, spec("O")?, Policy::Auto)
        }));
    }
    let ends = phases.iter().scan(0, |at, p| {
        *at += (p.seconds * 10.0).round() as usize;
        Some(*at)
    });
    let ends: Vec<usize> = ends.collect();
    let bounds = [(0, ends[0]), (ends[0], ends[1]), (ends[1], ends[2])];
    let places = ["bursts", "writes", "95 % reads"];
    let by_phase = |get: &dyn Fn(&TableOutcome, (usize, usize)) -> f64| -> Vec<[f64; 3]> {
        let row = |o: &TableOutcome| bounds.map(|b| get(o, b));
        rows.iter().map(row).collect()
    };
    let window = |o: &TableOutcome, (from, to): (usize, usize), get: &dyn Fn(f64, f64) -> f64| {
        let part = o.windows.get(from..to).unwrap_or_default();
        let busy = part.iter().filter(|w| w.busy > 0.095);
        busy.map(|w| w.calls * 10.0).reduce(get).unwrap_or(0.0)
    };
    let rates = by_phase(&|o, (from, to)| o.mean(from, to).0 / 1e3);
    let times = by_phase(&|o, (from, to)| o.mean(from, to).1 / 1e3);
    let least = by_phase(&|o, b| window(o, b, &f64::min) / 1e3);
    let jobs = by_phase(&|o, (from, to)| {
        let part = o.windows.get(from..to).unwrap_or_default();
        part.iter().map(|w| w.jobs as f64).sum::<f64>() / part.len().max(1) as f64
    });
    for (title, unit, all) in [
        ("Calls by second while there are any", "thousand", &rates),
        ("Mean time of a call", "us", &times),
        (
            "Least tenth of a second that is full of calls",
            "thousand/s",
            &least,
        ),
        ("Flushes and compactions at once, in the mean", "", &jobs),
    ] {
        let mut figure = Figure::new(title, unit, places);
        for ((name, _), row) in WAYS.iter().zip(all) {
            figure = figure.all_measured(name, row);
        }
        found.figures.push(figure);
    }
    let bounds = [
        (
            "bursts: mean time of a call, auto over BG-L",
            Bound::AtMost(1.1),
            times[2][0] / times[0][0],
        ),
        (
            "writes: least tenth of a second with auto, calls by second",
            Bound::AtLeast(1.0),
            least[2][1] * 1e3,
        ),
        (
            "95 % reads: calls by second, auto over BG-H",
            Bound::AtLeast(1.0),
            rates[2][2] / rates[1][2],
        ),
    ];
    for (what, bound, value) in bounds {
        found.check(what, bound, value);
    }
    found.note(
        "Printed: bursts under BG-H take twice as long and carry 39 % less, and BG-L stalls in the second phase. Calls and bytes flow in steps of \
         10 ms; single requests are not told apart.",
    );
    Ok(found)
}
