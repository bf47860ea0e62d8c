//! X-SD-12: how long durable writes wait for those before theirs until they are visible, in order and without, in virtual time.

use super::on_device::spec;
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::sim::sd::{Mix, Outcome, Params, Way, run as simulate};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-SD-12",
    title: "Time that durable writes wait to become visible, in order and relaxed",
    document: "none: the price of snapshots that never change",
    requirements: "R-SPAN-21, R-SPAN-28",
    setup: "the simulated machine of spanlith sim sd: 40 threads that call one by one on 32 virtual cores, entries of 1 KB, log on a speed disk \
            on N2 and O, 1 to 8 groups in flight (sd_writes_in_flight), 1 s. Ordered: a group goes into the memtable once all before it are \
            durable, and is visible after them. Relaxed: as soon as it is durable itself.",
    criterion: "on each device with 2 groups in flight, ordered over relaxed: writes by second at least 0.95, p99 of a write at most 1.1 times; with \
                one in flight no write waits; 2 in flight at least 1.0 of the writes by second of 1",
    stores: Stores::OnDevices,
    run,
};

const DEVICES: [&str; 2] = ["N2", "O"];
const IN_FLIGHT: [usize; 4] = [1, 2, 4, 8];

/// A row for each number of groups in flight: ordered, relaxed.
fn measure(bench: &Bench<'_>, log: &str, seconds: f64) -> Result<Vec<[Outcome; 2]>> {
    let one = |in_flight, is_relaxed| -> Result<Outcome> {
        let params = Params {
            in_flight,
            is_relaxed,
            seconds,
            seed: bench.seed(1),
            ..Params::new(spec("S-RAID5")?, spec(log)?, Way::Disk, Mix::Writes)
        };
        Ok(simulate(&params)?)
    };
    let rows = IN_FLIGHT.iter();
    rows.map(|&n| Ok([one(n, false)?, one(n, true)?])).collect()
}

fn figures(found: &mut Findings, log: &str, rows: &[[Outcome; 2]]) {
    let places = || IN_FLIGHT.map(|n| format!("{n} in flight"));
    let mut add = |title: &str, unit: &str, get: &dyn Fn(&Outcome) -> f64| {
        let of = |way: usize| rows.iter().map(|r| get(&r[way])).collect::<Vec<f64>>();
        let figure = Figure::new(format!("{log}: {title}"), unit, places());
        found.figures.push(
            figure
                .all_measured("ordered", &of(0))
                .all_measured("relaxed", &of(1)),
        );
    };
    add("writes by second", "thousand", &|o| o.per_second / 1e3);
    add("writes of a group", "", &|o| o.group);
    add("p50 of a write", "us", &|o| o.latency.p50 / 1e3);
    add("p99 of a write", "us", &|o| o.latency.p99 / 1e3);
    add("p50 of waiting to be visible", "us", &|o| {
        o.publish.p50 / 1e3
    });
    add("p99 of waiting to be visible", "us", &|o| {
        o.publish.p99 / 1e3
    });
    add("p99.9 of waiting to be visible", "us", &|o| {
        o.publish.p999 / 1e3
    });
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let seconds = bench.scale().clamp(0.02, 100.0);
    bench.expect(DEVICES.len() as u64);
    for log in DEVICES {
        bench.step(log);
        let rows = measure(bench, log, seconds)?;
        figures(&mut found, log, &rows);
        let [ordered, relaxed] = rows[1];
        found.check(
            format!("{log}, 2 in flight: writes by second, ordered over relaxed"),
            Bound::AtLeast(0.95),
            ordered.per_second / relaxed.per_second,
        );
        found.check(
            format!("{log}, 2 in flight: p99 of a write, ordered over relaxed"),
            Bound::AtMost(1.1),
            ordered.latency.p99 / relaxed.latency.p99,
        );
        found.check(
            format!("{log}, 1 in flight: p99.9 of waiting to be visible, us"),
            Bound::AtMost(0.0),
            rows[0][0].publish.p999 / 1e3,
        );
        found.check(
            format!("{log}: writes by second, 2 in flight over 1"),
            Bound::AtLeast(1.0),
            ordered.per_second / rows[0][0].per_second,
        );
    }
    found.note(
        "The engine has the ordered way alone. The device is without jitter, so that a group waits only for larger ones before it and for the \
         leaders that insert.",
    );
    Ok(found)
}
