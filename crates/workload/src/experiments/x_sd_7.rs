//! X-SD-7: LinkBench on three pairs of devices ([SPAN] Figure 14), on 40 virtual cores.

use super::on_device::spec;
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::sim::sd::{Mix, Outcome, Params, Way, run as simulate};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-SD-7",
    title: "LinkBench on pairs of devices: calls one by one, and asynchronous on a speed disk",
    document: "[SPAN] Figure 14",
    requirements: "R-SPAN-53",
    setup: "the simulated machine of spanlith sim sd with the calls that LinkBench makes of a store: 56 % scans, 11 % writes, 13 % reads, 20 % \
            reads that are followed by a write. 40 virtual cores of which 8 flush and compact, 60 % of reads from caches, 1 s. Pairs S-N2, S-O \
            and N1-O of tables and log, S as RAID5 of 4+1. Plain: 40 threads, and 400 as many as the speed disk has calls; the log in files with \
            the tables. Speed disk: 8 clients with 50 calls outstanding.",
    criterion: "speed disk over plain with 40 threads: calls by second at least 1 on S-N2 and S-O and 0.95 on N1-O, and at least 1.5 on one pair; mean \
                time of a call over plain with 400 threads at most 1 on each pair",
    stores: Stores::OnDevices,
    run,
};

const PAIRS: [(&str, &str, &str); 3] = [
    ("S-N2", "S-RAID5", "N2"),
    ("S-O", "S-RAID5", "O"),
    ("N1-O", "N1", "O"),
];

/// Outcomes of the pairs: plain with 40 threads, plain with 400, speed disk.
fn measure(bench: &Bench<'_>, seconds: f64) -> Result<[[Outcome; 3]; 3]> {
    let one = |way: Way, threads: usize| -> Result<[Outcome; 3]> {
        let mut all = [Outcome::default(); 3];
        for (place, (name, tables, log)) in all.iter_mut().zip(PAIRS) {
            bench.step(&format!("{}, {threads} calls, {name}", way.name()));
            let params = Params {
                threads,
                seconds,
                seed: bench.seed(1),
                ..Params::new(spec(tables)?, spec(log)?, way, Mix::Graph)
            };
            *place = simulate(&params)?;
        }
        Ok(all)
    };
    Ok([
        one(Way::WithTables, 40)?,
        one(Way::WithTables, 400)?,
        one(Way::Async, 400)?,
    ])
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let seconds = bench.scale().clamp(0.02, 100.0);
    bench.expect(9);
    let all = measure(bench, seconds)?;
    let pairs = PAIRS.map(|p| p.0);
    let names = ["plain, 40 threads", "plain, 400 threads", "speed disk"];
    let mut rates = Figure::new("Calls by second", "thousand", pairs);
    let mut means = Figure::new("Mean time of a call", "us", pairs);
    let mut tails = Figure::new("99 % of calls are faster", "us", pairs);
    for (name, row) in names.iter().zip(&all) {
        rates = rates.all_measured(name, &row.map(|o| o.per_second / 1e3));
        means = means.all_measured(name, &row.map(|o| o.latency.mean / 1e3));
        tails = tails.all_measured(name, &row.map(|o| o.latency.p99 / 1e3));
    }
    let [few, many, fast] = all;
    let faster: [f64; 3] = std::array::from_fn(|n| fast[n].per_second / few[n].per_second);
    let sooner: [f64; 3] = std::array::from_fn(|n| fast[n].latency.mean / many[n].latency.mean);
    found.figures.extend([
        rates,
        means,
        tails,
        Figure::new(
            "Calls by second, speed disk over 40 threads",
            "times",
            pairs,
        )
        .printed("[SPAN] most", &[Some(1.503); 3])
        .all_measured("simulated", &faster),
        Figure::new(
            "Time of a call, speed disk over 400 threads",
            "times",
            pairs,
        )
        .printed("[SPAN] least", &[Some(0.59); 3])
        .all_measured("simulated", &sooner),
    ]);
    for (n, pair) in pairs.iter().enumerate() {
        // There the device of the tables bounds both.
        let least = if *pair == "N1-O" { 0.95 } else { 1.0 };
        found.check(
            format!("{pair}: calls by second, speed disk over 40 threads"),
            Bound::AtLeast(least),
            faster[n],
        );
        found.check(
            format!("{pair}: mean time of a call, speed disk over 400 threads"),
            Bound::AtMost(1.0),
            sooner[n],
        );
    }
    found.check(
        "calls by second, speed disk over 40 threads, the best pair",
        Bound::AtLeast(1.5),
        faster.iter().copied().fold(0.0, f64::max),
    );
    found.note(
        "A scan is one of fifty entries. Flushes and compactions are not simulated, which flatters the mixes with writes, and no cache grows by \
         what a faster device would leave of memory.",
    );
    Ok(found)
}
