//! X-WL-2: a model of a trace, requests made of it, and how far their distributions are from the trace's ([WL] §7.4, Figure 15).

use super::{Bench, Bound, Error, Experiment, Figure, Findings, Result, Stores};
use crate::analyze::Operation;
use crate::fit::Family;
use crate::generate::mixgraph::{Kind, Model as Mixgraph, Queries, Semantics, Variant};
use crate::generate::{Keys, Values};
use crate::model::{FamilyObservation, Model, Observation};
use crate::traces::{Ask, TraceWriter, observe, of_model};
use std::path::Path;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WL-2",
    title: "Requests made of a model against the trace that the model is of",
    document: "[WL] §7.4, Figure 15",
    requirements: "R-WL-22, R-WL-23, R-WL-24, R-WL-25, R-WL-32",
    setup: "1 000 000 queries of UDB's Assoc family over 3 000 000 keys of 28 (90 %) and 32 bytes; gets, puts and seeks \
            0.806/0.159/0.035; the rate is a sine around 4500 a second with 3.7 periods, of 60 seconds each. Traced, observed, modelled, made again, \
            observed again.",
    criterion: "Kolmogorov-Smirnov distance of value sizes, accesses of a key and scan lengths at most 0.05; amplitude, period and \
                mean of the rate within 5 %; parameters of the law of value sizes within 5 % of those drawn from",
    stores: Stores::Ours,
    run,
};

/// Amplitude of the rate, its period in seconds, and its mean. A trace of any length has as many periods.
fn wanted_rate(queries: u64) -> [f64; 3] {
    [1500.0, 60.0 * queries as f64 / 1e6, 4500.0]
}

/// Writes the trace and looks at it. Keys of one size come between those of the other in order.
pub(super) fn assoc(path: &Path, queries: u64, keys: u64, seed: u64) -> Result<Observation> {
    let mut draw = Queries::new(
        Semantics::Paper,
        Mixgraph::assoc(keys),
        Variant::PrefixDist,
        seed,
        0,
    );
    let (mut short, mut long) = (Keys::new(28), Keys::new(32));
    let mut values = Values::with_ratio(1024, 0.5, seed);
    let mut trace = TraceWriter::create(path)?;
    let mut seconds = 0.0_f64;
    let [amplitude, period, mean] = wanted_rate(queries);
    for _ in 0..queries {
        let rate = mean + amplitude * (std::f64::consts::TAU * seconds / period).sin();
        seconds += 1.0 / rate;
        let q = draw.draw();
        let key = match q.key % 10 {
            0 => long.set(q.key),
            _ => short.set(q.key),
        };
        let ask = match q.kind {
            Kind::Get => Ask::Get(key),
            Kind::Put => Ask::Put(
                key,
                values.sized(usize::try_from(q.value_size).unwrap_or(0)),
            ),
            Kind::Seek => Ask::Seek(key, q.scan_length),
        };
        trace.ask((seconds * 1e6) as u64, 0, ask)?;
    }
    trace.finish()?;
    Ok(observe(path)?)
}

/// The only family of a trace.
fn only(seen: &Observation) -> Result<&FamilyObservation> {
    let family = seen.families.get(&0);
    family.ok_or_else(|| Error::new("the trace has no request of the default family"))
}

/// Distances of two traces: value sizes, accesses of a key by gets, puts and seeks, scan lengths.
pub(super) fn distances(a: &Observation, b: &Observation) -> Result<[f64; 5]> {
    let (a, b) = (only(a)?, only(b)?);
    let of = |operation| {
        a.access_counts(operation)
            .distance(&b.access_counts(operation))
    };
    Ok([
        a.value_sizes.distance(&b.value_sizes),
        of(Operation::Get),
        of(Operation::Put),
        of(Operation::Seek),
        a.scan_lengths.distance(&b.scan_lengths),
    ])
}

pub(super) const DISTANCES: [&str; 5] = [
    "value size",
    "gets of a key",
    "puts of a key",
    "seeks of a key",
    "scan length",
];

/// Amplitude, period and mean of the sine through a model's rate.
pub(super) fn rate(model: &Model) -> [f64; 3] {
    let sine = model.rate_curve.as_ref().map(|c| &c.fit);
    match sine
        .filter(|f| f.family == Family::Sine)
        .map(|f| f.parameters.as_slice())
    {
        Some(&[a, b, _, d]) => [a.abs(), std::f64::consts::TAU / b.abs(), d],
        _ => [f64::NAN; 3],
    }
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    bench.expect(3);
    let dir = bench.place()?;
    let (queries, keys) = (
        bench.scaled(1_000_000, 20_000),
        bench.scaled(3_000_000, 60_000),
    );
    bench.step("the trace");
    let first = assoc(&dir.join("trace"), queries, keys, bench.seed(1))?;
    bench.step("its model, and a trace of that");
    let model = Model::of(&first);
    of_model(&model, bench.seed(2), &dir.join("made"))?;
    let second = observe(&dir.join("made"))?;
    bench.step("the model of that");
    let again = Model::of(&second);
    let apart = distances(&first, &second)?;
    for (name, distance) in DISTANCES.iter().zip(apart) {
        found.check(format!("distance of {name}"), Bound::AtMost(0.05), distance);
    }
    found.figures.push(
        Figure::new(
            "Distance of the made requests from the trace",
            "KS",
            DISTANCES,
        )
        .all_measured("spanlith", &apart),
    );
    let (wanted, seen) = (wanted_rate(queries), rate(&again));
    for ((name, wanted), seen) in ["amplitude", "period", "mean"].iter().zip(wanted).zip(seen) {
        found.check(
            format!("{name} of the rate, made over drawn"),
            Bound::Within(0.95, 1.05),
            seen / wanted,
        );
    }
    // The law's own parameters: sizes are drawn rounded up, so half a byte is taken off before the curve is laid through.
    let (xs, ys) = only(&second)?.value_sizes.distribution();
    let law = Mixgraph::assoc(keys).value;
    let fit = Family::Pareto.fit(&xs, &ys);
    let (k, sigma) = fit.map_or((f64::NAN, f64::NAN), |f| (f.parameters[0], f.parameters[1]));
    found.check(
        "sigma of value sizes, made over drawn",
        Bound::Within(0.95, 1.05),
        sigma / law.2,
    );
    found.figures.push(
        Figure::new("Law of value sizes", "", ["k", "sigma"])
            .printed("drawn from", &[Some(law.1), Some(law.2)])
            .all_measured("made", &[k, sigma]),
    );
    std::fs::remove_dir_all(&dir)?;
    Ok(found)
}
