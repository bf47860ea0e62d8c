//! X-SD-9: bursts of writes that pairs of devices carry for long ([SPAN] Figures 17 and 18), in virtual time.

use super::on_device::spec;
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::sim::sd::{Phase, TableOutcome, TableParams, Window, run_levels};
use spanlith_speed::Policy;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-SD-9",
    title: "Bursts of writes that a pair of devices carries for long",
    document: "[SPAN] Figures 17 and 18",
    requirements: "R-SPAN-56",
    setup: "a simulated database of 512 GB with the real picker and placement (auto) on H-O and N1-O, H as RAID5 of 4+1: bursts of writes of 1 KB \
            every 20 s, 400 calls outstanding, 150 bursts after 600 s of them. The largest burst, in steps of 50 000 calls, that is over before the next one comes in \
            the last third of the time, in which compactions have no more to rewrite than in the one before, but for one burst and what level 0 takes.",
    criterion: "highest tenth of a second in these bursts, N1-O over H-O: 0.85 to 1.15; largest bursts, N1-O over H-O: 3 to 5",
    stores: Stores::OnDevices,
    run,
};

const PAIRS: [(&str, &str); 2] = [("H-O", "H-RAID5"), ("N1-O", "N1")];
const PERIOD: f64 = 20.0;
/// Calls of a step of the search, and how many steps it goes.
const STEP: f64 = 50_000.0;
const STEPS: u64 = 160;
/// Bytes that level 0 takes before it is compacted.
const LEVEL_0: f64 = 4.0 * (1u64 << 30) as f64;
/// Bytes of a call.
const ENTRY_BYTES: f64 = 1040.0;

fn bursts(bench: &Bench<'_>, device: &str, calls: f64, periods: u64) -> Result<TableOutcome> {
    let phase = Phase {
        seconds: PERIOD * periods as f64,
        read_percent: 0,
        burst: Some((PERIOD, calls)),
    };
    Ok(run_levels(&TableParams {
        warm_seconds: bench.scaled(600, 60) as f64,
        phases: vec![phase],
        ..TableParams::new(spec(device)?, spec("O")?, Policy::Auto)
    }))
}

/// Windows of a third: 1 is the middle one, 2 the last.
fn third(out: &TableOutcome, number: usize) -> &[Window] {
    let all = out.windows.len();
    let (from, to) = (all * number / 3, all * (number + 1) / 3);
    out.windows.get(from..to).unwrap_or_default()
}

/// Returns whether each burst of the last third is over before the next one, and compactions keep up.
fn is_carried(out: &TableOutcome, bytes: f64) -> bool {
    let by_period = (PERIOD * 10.0) as usize;
    // The last third ends with a period.
    let mut ends = third(out, 2).iter().rev().step_by(by_period);
    let debt = |number| {
        let part = third(out, number);
        part.iter().map(|w| w.debt).sum::<f64>() / part.len().max(1) as f64
    };
    // Level 0 takes some memtables before anything is due.
    let grows = debt(2) - debt(1) > bytes + LEVEL_0;
    ends.all(|w| w.left < 1.0) && !grows
}

/// The largest burst that is carried, and the calls by second of its highest tenth of a second.
fn largest(bench: &Bench<'_>, pair: &str, device: &str, periods: u64) -> Result<(f64, f64)> {
    let (mut low, mut high) = (0, STEPS);
    let mut peak = 0.0;
    while low < high {
        let middle = (low + high).div_ceil(2);
        bench.step(&format!("{pair}, bursts of {} thousand", middle * 50));
        let out = bursts(bench, device, middle as f64 * STEP, periods)?;
        if is_carried(&out, middle as f64 * STEP * ENTRY_BYTES) {
            low = middle;
            peak = third(&out, 2)
                .iter()
                .map(|w| w.calls * 10.0)
                .fold(0.0, f64::max);
        } else {
            high = middle - 1;
        }
    }
    Ok((low as f64 * STEP, peak))
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let periods = bench.scaled(150, 6);
    bench.expect(2 * u64::from(STEPS.ilog2() + 1));
    let mut rows = Vec::new();
    for (pair, device) in PAIRS {
        rows.push(largest(bench, pair, device, periods)?);
    }
    let pairs = PAIRS.map(|p| p.0);
    found.figures.extend([
        Figure::new("Largest bursts every 20 s", "thousand calls", pairs)
            .printed("[SPAN]", &[Some(1_000.0), Some(4_000.0)])
            .all_measured("simulated", &[rows[0].0 / 1e3, rows[1].0 / 1e3]),
        Figure::new(
            "Calls by second at the height of a burst",
            "thousand",
            pairs,
        )
        .all_measured("simulated", &[rows[0].1 / 1e3, rows[1].1 / 1e3]),
    ]);
    found.check(
        "height of bursts, N1-O over H-O",
        Bound::Within(0.85, 1.15),
        rows[1].1 / rows[0].1,
    );
    found.check(
        "largest bursts, N1-O over H-O, printed 4",
        Bound::Within(3.0, 5.0),
        rows[1].0 / rows[0].0,
    );
    found.note(
        "Calls and bytes flow in steps of 10 ms; single requests are not told apart. The document chose its bursts of 1 and 4 million calls as \
         what each pair carries.",
    );
    Ok(found)
}
