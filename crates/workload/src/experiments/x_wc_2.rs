//! X-WC-2: the near-stop of RocksDB 5.17's throttle against the document's model ([XP] Equation 1), under a virtual clock.

use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use spanlith_pace::{Algorithm1, StallCause, StallCondition, StallInput, near_stop_rate};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WC-2",
    title: "Floor of the old throttle by the time of a write, against the model",
    document: "[XP] Equations 1 and 2",
    requirements: "R-XP-05, R-XP-06",
    setup: "one writer of batches of 1040 bytes, each of which takes 5, 15 or 50 us by itself, under the policy rocksdb_517 with \
            16 MiB/s, delayed throughout while the debt does not fall; 60 s of a virtual clock. Nothing is written.",
    criterion: "measured writes by second within twice of the model, both ways",
    stores: Stores::Ours,
    run,
};

const BATCH: u64 = 1040;
const WRITE_MICROS: [u64; 3] = [5, 15, 50];

/// Writes by second of one writer that is delayed all the time.
fn measure(write_nanos: u64, seconds: u64) -> f64 {
    let mut throttle = Algorithm1::new(16 << 20);
    let input = StallInput {
        l0_files: 20,
        level0_slowdown_writes_trigger: 20,
        level0_stop_writes_trigger: 36,
        pending_compaction_bytes: 1,
        ..StallInput::default()
    };
    throttle.update(
        &StallCondition::Delayed(StallCause::L0FileCountLimit),
        &input,
    );
    let (mut now, mut writes) = (1u64, 0u64);
    while now < seconds * 1_000_000_000 {
        now += throttle.delay_for(now, BATCH).as_nanos() as u64 + write_nanos;
        writes += 1;
    }
    writes as f64 / seconds as f64
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let seconds = bench.scaled(60, 5);
    bench.expect(WRITE_MICROS.len() as u64);
    let (mut measured, mut model) = (Vec::new(), Vec::new());
    for micros in WRITE_MICROS {
        bench.step(&format!("writes of {micros} us"));
        let nanos = micros * 1000;
        measured.push(measure(nanos, seconds));
        model.push(near_stop_rate(nanos, 1e9 / nanos as f64));
        let quotient = measured[measured.len() - 1] / model[model.len() - 1];
        let what = format!("{micros} us: measured by model");
        found.check(format!("{what}, low"), Bound::AtLeast(0.5), quotient);
        found.check(what, Bound::AtMost(2.0), quotient);
    }
    let places = WRITE_MICROS.map(|m| format!("{m} us"));
    let figure = Figure::new("Writes by second at the floor", "1/s", places);
    found.figures.push(
        figure
            .all_measured("model", &model)
            .all_measured("rocksdb_517", &measured),
    );
    found.note(format!(
        "With the document's rates of 190 000 and 130 000 a second and writes of 15 us the model gives {:.0} and {:.0}.",
        near_stop_rate(15_000, 190_000.0),
        near_stop_rate(15_000, 130_000.0)
    ));
    Ok(found)
}
