//! X-SD-13: losses of power at every request of random histories of logs on a speed disk ([SPAN] §5.5 asks for random points).

use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use spanlith_speed::crash::crash_programme;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-SD-13",
    title: "Crash points of logs on a speed disk: nothing lost, no hole, every one opened",
    document: "[SPAN] section 5.5",
    requirements: "R-SPAN-28, R-SPAN-29, R-SPAN-57",
    setup: "the programme of spanlith sd crash: random histories of several live logs on a small emulated device; the power is lost at every request, \
            with nothing, everything, whole writes, sectors or a torn prefix of the cache left; recoveries are cut short, too. 100 000 states.",
    criterion: "no promise broken; at least as many states as asked for",
    stores: Stores::OnDevices,
    run,
};

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let states = bench.scaled(100_000, 1_000);
    bench.expect(1);
    bench.step("losing power");
    let report = crash_programme(bench.seed(0), states);
    let values = [
        report.histories as f64,
        report.states as f64,
        report.broken.len() as f64,
    ];
    found.figures.push(
        Figure::new(
            "Crash points",
            "",
            ["histories", "states", "promises broken"],
        )
        .printed("[SPAN]", &[None, None, Some(0.0)])
        .all_measured("spanlith", &values),
    );
    found.check("promises broken", Bound::AtMost(0.0), values[2]);
    found.check(
        "states over those asked for",
        Bound::AtLeast(1.0),
        values[1] / states as f64,
    );
    for broken in report.broken {
        found.note(broken);
    }
    Ok(found)
}
