//! X-WC-9: how much of a burst buffers take in, and how soon they are empty again, by policy, simulated.

use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::sim::{Params, run as simulate};
use spanlith_pace::ThrottlePolicy;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WC-9",
    title: "A burst of three times what the tree carries, by policy, simulated",
    document: "none: beyond the document's Figure 18",
    requirements: "R-XP-08, R-XP-22",
    setup: "the simulated tree of spanlith sim lsm, which carries C; writers offer 3 C for 30 s and 0.2 C from then on. What is taken in at full \
            speed is counted up to the first 100 ms with less than 0.9 of what is offered; level 0 is empty again with the first 100 ms behind \
            the burst that have no more files than make a compaction due.",
    criterion: "smooth takes at least the files of level 0 between its trigger and rocksdb's slowdown in at full speed, is never below half of C \
                during the burst, and level 0 is empty again no later than under rocksdb, plus a fifth",
    stores: Stores::Ours,
    run,
};

const BURST: f64 = 30.0;

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    bench.expect(1 + ThrottlePolicy::ALL.len() as u64);
    bench.step("what it carries");
    let seconds = bench.scaled(300, 120) as f64;
    let overload = Params {
        policy: ThrottlePolicy::Rocksdb,
        seconds,
        ..Params::default()
    };
    let carried = simulate(&overload).even.mean * 10.0;
    let places = [
        "at full speed",
        "least of the burst",
        "until level 0 is empty",
    ];
    let mut figure = Figure::new("The burst", "MB, MB/s, s", places);
    let mut until_of_rocksdb = f64::MAX;
    for policy in ThrottlePolicy::ALL {
        bench.step(policy.name());
        let p = Params {
            policy,
            offered: 0.2 * carried,
            burst: Some((seconds * 2.0, BURST, 15.0)),
            seconds,
            ..Params::default()
        };
        let o = simulate(&p);
        let burst = &o.series[..(BURST * 10.0) as usize];
        let full = 0.9 * 3.0 * carried / 10.0;
        let taken: f64 = burst.iter().take_while(|&&b| b >= full).sum();
        let least = burst.iter().copied().fold(f64::MAX, f64::min) * 10.0;
        let trigger = p.levels.level0_file_num_compaction_trigger as usize;
        let behind = o.sights[burst.len()..].iter();
        let until = behind.take_while(|s| s.files > trigger).count() as f64 / 10.0;
        figure = figure.all_measured(policy.name(), &[taken / 1e6, least / 1e6, until]);
        match policy {
            ThrottlePolicy::Rocksdb => until_of_rocksdb = until,
            ThrottlePolicy::Smooth => {
                let files = (p.slowdown_trigger - trigger as i32) as f64;
                let room = files * p.write_buffer_size as f64;
                found.check(
                    "smooth: taken in by the room",
                    Bound::AtLeast(1.0),
                    taken / room,
                );
                found.check(
                    "smooth: least by half of C",
                    Bound::AtLeast(1.0),
                    2.0 * least / carried,
                );
                let quotient = until / until_of_rocksdb.max(0.1);
                found.check(
                    "smooth: empty again by rocksdb",
                    Bound::AtMost(1.2),
                    quotient,
                );
            }
            _ => {}
        }
    }
    found.figures.push(figure);
    found.note(format!(
        "The tree carries {:.1} MB/s under the policy rocksdb.",
        carried / 1e6
    ));
    Ok(found)
}
