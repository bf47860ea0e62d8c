//! X-WC-13: writes of the class `high` beside others that are slowed down.

use super::steady::{Client, Crowd, beside, fill, opening, row};
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use spanlith::options::{OwnDbOptions, WriteThrottlePolicy};
use spanlith::{WriteClass, WriteOptions};
use std::time::Duration;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WC-13",
    title: "Writes of the classes beside an overload",
    document: "none: beyond the document",
    requirements: "R-XP-31, R-SPAN-31",
    setup: "200 000 keys with values of 1000 bytes, memtables of 2 MiB, level base 8 MiB, policy smooth; a client puts 100 bytes every millisecond for 30 s, each timed from when it \
            was due, in one of the three classes: alone, and beside two threads that put values of 1000 bytes as fast as they are let. Times are those of \
            a clock on the wall.",
    criterion: "beside the overload p99 of the class high is at most three times that of the client alone, or 1 ms; that of the class high is no larger \
                than that of the class normal",
    stores: Stores::Ours,
    run,
};

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let rows = [
        ("alone", WriteClass::Normal, 0),
        ("high", WriteClass::High, 2),
        ("normal", WriteClass::Normal, 2),
        ("low", WriteClass::Low, 2),
    ];
    bench.expect(rows.len() as u64);
    let keys = bench.scaled(200_000, 4000);
    let time = Duration::from_millis(bench.scaled(30_000, 300));
    let places = ["p50", "p99", "p99.9", "longest"];
    let mut figure = Figure::new("Puts from when they were due", "us", places);
    let mut puts = Figure::new("Puts beside", "1/s", ["puts"]);
    let mut p99 = [0.0; 4];
    for (n, (name, class, threads)) in rows.into_iter().enumerate() {
        bench.step(name);
        let own = OwnDbOptions::new();
        let db = opening(&bench.place()?, WriteThrottlePolicy::Smooth, own).open()?;
        let cf = db.default_cf();
        fill(&db, &cf, keys, bench.seed(1))?;
        let mut options = WriteOptions::new();
        options.class = class;
        let client = Client {
            family: &cf,
            reads: false,
            options,
            every: Duration::from_millis(1),
        };
        let crowd = Crowd {
            family: &cf,
            threads,
            most: None,
        };
        let seen = beside(&client, &[crowd], keys, bench.seed(2), time)?;
        let row = row(&seen.waits);
        p99[n] = row[1];
        figure = figure.all_measured(name, &row);
        puts = puts.all_measured(name, &[seen.puts]);
        drop(cf);
        db.close()?;
    }
    found.figures.extend([figure, puts]);
    let by = p99[1] / (3.0 * p99[0]).max(1000.0);
    found.check("p99 of high by what is allowed", Bound::AtMost(1.0), by);
    let by = p99[1] / p99[2].max(0.001);
    found.check("p99 of high by normal", Bound::AtMost(1.0), by);
    found.note("A write that has to wait longer than others of its class for its share is late for all that come after it, since the client is one.");
    Ok(found)
}
