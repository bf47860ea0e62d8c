//! X-WC-14: a family beside one that is overloaded.

use super::steady::{Client, Crowd, Seen, beside, fill, opening, row, small_family};
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use spanlith::options::{OwnDbOptions, WriteThrottlePolicy};
use spanlith::{FamilyOptions, WriteOptions};
use std::time::Duration;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WC-14",
    title: "A column family beside one that is overloaded",
    document: "none: beyond the document; TiKV and CockroachDB slow all down",
    requirements: "R-XP-31, R-SPAN-31",
    setup: "two column families of 200 000 keys with values of 1000 bytes, memtables of 2 MiB, level base 8 MiB. A client puts 100 bytes into one every millisecond for \
            30 s, each timed from when it was due, while two threads put into the other: as fast as they are let, and half of what came of that. Policies \
            rocksdb and smooth. Times are those of a clock on the wall.",
    criterion: "smooth: p99 beside the overload is at most 1.2 times that beside half of it; it is no larger than under rocksdb",
    stores: Stores::Ours,
    run,
};

/// A run under a policy; `most` puts by second of each of the two threads.
fn measure(bench: &Bench<'_>, policy: WriteThrottlePolicy, most: Option<f64>) -> Result<Seen> {
    let keys = bench.scaled(200_000, 4000);
    let time = Duration::from_millis(bench.scaled(30_000, 300));
    let db = opening(&bench.place()?, policy, OwnDbOptions::new()).open()?;
    let hot = db.default_cf();
    let calm = db.create_cf(FamilyOptions::new("calm").options(small_family()))?;
    fill(&db, &hot, keys, bench.seed(1))?;
    fill(&db, &calm, keys, bench.seed(2))?;
    let client = Client {
        family: &calm,
        reads: false,
        options: WriteOptions::new(),
        every: Duration::from_millis(1),
    };
    let crowd = Crowd {
        family: &hot,
        threads: 2,
        most,
    };
    let seen = beside(&client, &[crowd], keys, bench.seed(3), time)?;
    drop((hot, calm));
    db.close()?;
    Ok(seen)
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    bench.expect(4);
    let places = ["p50", "p99", "p99.9", "longest"];
    let mut figure = Figure::new("Puts into the calm family", "us", places);
    let mut puts = Figure::new("Puts into the hot family", "1/s", ["puts"]);
    let mut over = [0.0; 2];
    let policies = [
        ("rocksdb", WriteThrottlePolicy::Rocksdb),
        ("smooth", WriteThrottlePolicy::Smooth),
    ];
    for (n, (name, policy)) in policies.into_iter().enumerate() {
        bench.step(&format!("{name}, overload"));
        let loaded = measure(bench, policy, None)?;
        bench.step(&format!("{name}, half of it"));
        let half = measure(bench, policy, Some(loaded.puts / 4.0))?;
        let rows = [row(&loaded.waits), row(&half.waits)];
        for (load, (row, seen)) in ["overload", "half"]
            .iter()
            .zip(rows.iter().zip([&loaded, &half]))
        {
            let label = format!("{name}, {load}");
            figure = figure.all_measured(&label, row);
            puts = puts.all_measured(&label, &[seen.puts]);
        }
        over[n] = rows[0][1];
        if policy == WriteThrottlePolicy::Smooth {
            let by = rows[0][1] / rows[1][1].max(0.001);
            found.check("smooth: p99 by that at half", Bound::AtMost(1.2), by);
        }
    }
    found.figures.extend([figure, puts]);
    let by = over[1] / over[0].max(0.001);
    found.check("p99 of smooth by rocksdb", Bound::AtMost(1.0), by);
    Ok(found)
}
