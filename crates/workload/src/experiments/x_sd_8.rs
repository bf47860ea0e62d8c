//! X-SD-8: a store without a log that changes slots in place, beside a log on a speed disk ([SPAN] Figures 15 and 16), in
//! virtual time.

use super::on_device::spec;
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::sim::sd::{Mix, Outcome, Params, SlabParams, Way, run as simulate, run_slab};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-SD-8",
    title: "A store of slots without a log, by size of its batches, beside a speed disk",
    document: "[SPAN] Figures 15 and 16",
    requirements: "R-SPAN-54",
    setup: "pairs N2-O, S-O and O-O of tables and log, S as RAID5 of 4+1. Speed disk: spanlith sim sd with 8 clients of 50 calls outstanding on 32 \
            virtual cores. Slots: 16 threads that own keys, index in memory, pages of 4 KiB changed in place on the device of the tables, nothing \
            flushed, batches of 1, 3 and 64 calls; 400 calls outstanding, and the number from 1 to 400 that carries most in at most the mean time \
            of the speed disk's calls. 60 % of pages from caches for both; all writes, A, B, E; 1 s each.",
    criterion: "speed disk over the best batches of slots in the same time, calls by second: all writes and E at least 1.33 on each pair; A at least 0.9 \
                on S-O and 1.0 on N2-O; B at least 0.7 on each; all writes on S-O with batches of 1 and 400 outstanding: slots at most 0.25 of it",
    stores: Stores::OnDevices,
    run,
};

const PAIRS: [(&str, &str); 3] = [("N2-O", "N2"), ("S-O", "S-RAID5"), ("O-O", "O")];
const MIXES: [Mix; 4] = [Mix::Writes, Mix::A, Mix::B, Mix::E];
const BATCHES: [usize; 3] = [1, 3, 64];
const OUTSTANDING: [usize; 8] = [1, 4, 16, 48, 100, 200, 300, 400];
/// Speed disk over KVell at 512 GB: N2-O, S-O; none of O-O.
const PRINTED: [(Mix, [Option<f64>; 3]); 4] = [
    (Mix::Writes, [None, Some(1.33), None]),
    (Mix::A, [Some(1.78), Some(1.0), None]),
    (Mix::B, [None, Some(0.702), None]),
    (Mix::E, [None, Some(1.58), None]),
];

/// One pair and mix.
struct Cell {
    fast: Outcome,
    /// By size of batches: with 400 calls outstanding, and the best in the time of the speed disk; none if there is none.
    slots: [(Outcome, Option<f64>); 3],
}

impl Cell {
    fn measure(bench: &Bench<'_>, device: &str, mix: Mix, seconds: f64) -> Result<Self> {
        let fast = simulate(&Params {
            seconds,
            seed: bench.seed(1),
            ..Params::new(spec(device)?, spec("O")?, Way::Async, mix)
        })?;
        let device = spec(device)?;
        let slots = BATCHES.map(|batch| {
            let all = OUTSTANDING.map(|outstanding| {
                run_slab(&SlabParams {
                    seconds,
                    seed: bench.seed(1),
                    ..SlabParams::new(device, mix, batch, outstanding)
                })
            });
            let in_time = all
                .iter()
                .filter(|o| o.per_second > 0.0 && o.latency.mean <= fast.latency.mean);
            let rates = in_time.map(|o| o.per_second);
            (all[OUTSTANDING.len() - 1], rates.reduce(f64::max))
        });
        Ok(Self { fast, slots })
    }

    /// The speed disk over the best of slots in its time; slots that are never as quick count as what they carry at all.
    fn ratio(&self) -> f64 {
        let in_time = self.slots.iter().filter_map(|s| s.1);
        let all = self.slots.iter().map(|s| s.0.per_second);
        let best = in_time.reduce(f64::max);
        self.fast.per_second / best.unwrap_or_else(|| all.fold(0.0, f64::max))
    }
}

fn figures(found: &mut Findings, mix: Mix, cells: &[Cell]) {
    let pairs = PAIRS.map(|p| p.0);
    let name = mix.name();
    let of = |get: &dyn Fn(&Cell) -> f64| cells.iter().map(get).collect::<Vec<f64>>();
    let figure = |title: &str, unit| Figure::new(format!("{name}: {title}"), unit, pairs);
    let mut rates = figure("calls by second, 400 outstanding", "thousand")
        .all_measured("speed disk", &of(&|c| c.fast.per_second / 1e3));
    let mut times = figure("mean time of a call, 400 outstanding", "us")
        .all_measured("speed disk", &of(&|c| c.fast.latency.mean / 1e3));
    let mut matched = figure("calls by second in the time of the speed disk", "thousand")
        .all_measured("speed disk", &of(&|c| c.fast.per_second / 1e3));
    for (n, batch) in BATCHES.iter().enumerate() {
        let label = format!("slots, batches of {batch}");
        rates = rates.all_measured(&label, &of(&|c| c.slots[n].0.per_second / 1e3));
        times = times.all_measured(&label, &of(&|c| c.slots[n].0.latency.mean / 1e3));
        let row: Vec<Option<f64>> = cells
            .iter()
            .map(|c| c.slots[n].1.map(|r| r / 1e3))
            .collect();
        matched = matched.measured(&label, &row);
    }
    let printed = PRINTED.iter().find(|p| p.0 == mix);
    let printed = printed.map_or([None; 3], |p| p.1);
    let ratios = figure("speed disk over the best slots in its time", "times")
        .printed("[SPAN]", &printed)
        .all_measured("simulated", &of(&Cell::ratio));
    found.figures.extend([rates, times, matched, ratios]);
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    // Shorter ones end before a batch of scans does.
    let seconds = bench.scale().clamp(0.05, 100.0);
    bench.expect((MIXES.len() * PAIRS.len()) as u64);
    for mix in MIXES {
        let mut cells = Vec::new();
        for (pair, device) in PAIRS {
            bench.step(&format!("{}, {pair}", mix.name()));
            cells.push(Cell::measure(bench, device, mix, seconds)?);
        }
        figures(&mut found, mix, &cells);
        for ((pair, _), cell) in PAIRS.iter().zip(&cells) {
            let least = match (mix, *pair) {
                (Mix::Writes | Mix::E, _) => 1.33,
                (Mix::A, "S-O") => 0.9,
                (Mix::A, "N2-O") => 1.0,
                (Mix::B, _) => 0.7,
                _ => continue,
            };
            found.check(
                format!("{}, {pair}: speed disk over the best slots", mix.name()),
                Bound::AtLeast(least),
                cell.ratio(),
            );
            if (mix, *pair) == (Mix::Writes, "S-O") {
                let slots = cell.slots[0].0.per_second;
                found.check(
                    "writes, S-O: slots in batches of 1 over speed disk, printed 0.152",
                    Bound::AtMost(0.25),
                    slots / cell.fast.per_second,
                );
            }
        }
    }
    found.note(
        "Slots promise less: a loss of power takes what a volatile cache of the device held, and tears pages. The speed disk's side leaves out \
         flushes and compactions, which the slots' does not have. A scan of slots needs a page for each of fifty entries.",
    );
    Ok(found)
}
