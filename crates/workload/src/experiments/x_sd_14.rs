//! X-SD-14: the simulated machine beside the engine on the same emulated devices in real time, on the cores that there are.

use super::on_device::{LogPlace, spec};
use super::x_sd_4::{OUTSTANDING, THREADS, Variant, rate, variant};
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::sim::sd::{Costs, Mix, Params, Way, run as simulate};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-SD-14",
    title: "The simulated machine beside the engine on emulated devices",
    document: "[SPAN] section 5",
    requirements: "R-SPAN-55",
    setup: "the loads of X-SD-4, all puts and half puts: 8 threads with one call each, or 8 with 50 outstanding, by the engine on emulated devices \
            in real time, and by the machine of spanlith sim sd with as many cores and service times that are measured at once before. Blocks are in \
            caches. Other programs that run take cores from the engine and not from the simulation.",
    criterion: "calls by second, simulated over measured, within 15 % in each row",
    stores: Stores::OnDevices,
    run,
};

const ROWS: [(Variant, Way); 4] = [
    (variant("S", "S", LogPlace::WithTables, 1), Way::WithTables),
    (variant("SO", "S", LogPlace::Files("O"), 1), Way::File),
    (
        variant("SO disk", "S", LogPlace::SpeedDisk("O"), 1),
        Way::Disk,
    ),
    (
        variant("SO async", "S", LogPlace::SpeedDisk("O"), OUTSTANDING),
        Way::Async,
    ),
];
const MIXES: [(Mix, u64); 2] = [(Mix::Writes, 100), (Mix::A, 50)];
const ROUNDS: usize = 3;

/// Calls by second of the simulated machine.
fn simulated(bench: &Bench<'_>, v: Variant, way: Way, mix: Mix, cores: usize) -> Result<f64> {
    let threads = THREADS as usize;
    let log = match v.log {
        LogPlace::WithTables => v.tables,
        LogPlace::Files(device) | LogPlace::SpeedDisk(device) => device,
    };
    let params = Params {
        cores,
        threads,
        readers: cores,
        clients: (threads, OUTSTANDING),
        // The default of so few cores.
        in_flight: if cores > 2 { 2 } else { 1 },
        cached_percent: 100,
        costs: Costs::measure()?,
        seconds: bench.scaled(1_500, 250) as f64 / 1e3,
        seed: bench.seed(1),
        ..Params::new(spec(v.tables)?, spec(log)?, way, mix)
    };
    Ok(simulate(&params)?.per_second)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let millis = bench.scaled(1_500, 250);
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    bench.expect((ROWS.len() * MIXES.len()) as u64);
    for (mix, percent) in MIXES {
        let (mut model, mut engine) = (Vec::new(), Vec::new());
        for (v, way) in ROWS {
            bench.step(&format!("{}, {percent} % puts", v.name));
            let (mut machine, mut real) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                machine.push(simulated(bench, v, way, mix, cores)?);
                real.push(rate(bench, v, percent, millis)?);
            }
            let (machine, real) = (median(machine), median(real));
            found.check(
                format!("{}, {percent} % puts: simulated over measured", v.name),
                Bound::Within(0.85, 1.15),
                machine / real,
            );
            model.push(machine / 1e3);
            engine.push(real / 1e3);
        }
        let title = format!("Calls by second, {percent} % puts, {cores} cores");
        found.figures.push(
            Figure::new(title, "thousand", ROWS.map(|r| r.0.name))
                .all_measured("the engine", &engine)
                .all_measured("simulated", &model),
        );
    }
    Ok(found)
}
