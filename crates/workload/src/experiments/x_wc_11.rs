//! X-WC-11: gets while flushes and compactions run, with and without those giving way on the processor.

use super::steady::{Client, Crowd, beside, fill, opening, row};
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use spanlith::WriteOptions;
use spanlith::options::{OwnDbOptions, WriteThrottlePolicy};
use std::time::Duration;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WC-11",
    title: "Gets beside flushes and compactions, by priority of their threads",
    document: "none: SILK (ATC 2019), whose claim it tries",
    requirements: "R-XP-31, R-SPAN-18",
    setup: "200 000 keys with values of 1000 bytes, memtables of 2 MiB, level base 8 MiB; a client gets a uniformly chosen key every 200 us for 30 s, each timed from when it \
            was due: alone, and beside one thread that puts as fast as smooth lets it, with compaction_nice=0 and 19. Priorities last until the process \
            ends, so that 19 comes last. Times are those of a clock on the wall.",
    criterion: "with compaction_nice=19 p99 of gets is at most twice that of the quiet database, or 200 us",
    stores: Stores::Ours,
    run,
};

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    bench.expect(3);
    let keys = bench.scaled(200_000, 4000);
    let time = Duration::from_millis(bench.scaled(30_000, 300));
    let places = ["p50", "p99", "p99.9", "longest"];
    let mut figure = Figure::new("Gets from when they were due", "us", places);
    let mut puts = Figure::new("Puts beside", "1/s", ["puts"]);
    let (mut quiet, mut lowered) = (0.0, 0.0);
    for (name, nice, writers) in [("quiet", 0u64, 0), ("nice 0", 0, 1), ("nice 19", 19, 1)] {
        bench.step(name);
        let own = OwnDbOptions::new().compaction_nice(nice);
        let db = opening(&bench.place()?, WriteThrottlePolicy::Smooth, own).open()?;
        let cf = db.default_cf();
        fill(&db, &cf, keys, bench.seed(1))?;
        let client = Client {
            family: &cf,
            reads: true,
            options: WriteOptions::new(),
            every: Duration::from_micros(200),
        };
        let crowd = Crowd {
            family: &cf,
            threads: writers,
            most: None,
        };
        let seen = beside(&client, &[crowd], keys, bench.seed(2), time)?;
        let row = row(&seen.waits);
        figure = figure.all_measured(name, &row);
        puts = puts.all_measured(name, &[seen.puts]);
        match name {
            "quiet" => quiet = row[1],
            "nice 19" => lowered = row[1],
            _ => {}
        }
        drop(cf);
        db.close()?;
    }
    found.figures.extend([figure, puts]);
    let by = lowered / (2.0 * quiet).max(200.0);
    found.check(
        "p99 with nice 19 by what is allowed",
        Bound::AtMost(1.0),
        by,
    );
    found.note(
        "There is no scheduler of bandwidth by class here: on few cores background work takes processors before it takes bandwidth, and the \
         priority of its threads is what gives way.",
    );
    Ok(found)
}
