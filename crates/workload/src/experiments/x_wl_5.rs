//! X-WL-5: a model of a trace that a model made, twice: what a model loses in a round trip ([WL] §7.2, design of the tools).

use super::x_wl_2::{DISTANCES, assoc, distances, rate};
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::model::Model;
use crate::traces::{observe, of_model};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WL-5",
    title: "Round trips: model, trace, model, trace",
    document: "[WL] §7.2",
    requirements: "R-WL-24, R-WL-25, R-WL-26",
    setup: "The trace of X-WL-2 with 500 000 queries over 1 500 000 keys. Of its model a trace is made, of that one's model another.",
    criterion: "distances of the first made trace from the second at most 0.02; period and mean of the rate the same within 2 %, \
                its amplitude within 5 %; numbers of keys within 1 %",
    stores: Stores::Ours,
    run,
};

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    bench.expect(3);
    let dir = bench.place()?;
    let (queries, keys) = (
        bench.scaled(500_000, 20_000),
        bench.scaled(1_500_000, 60_000),
    );
    bench.step("the trace");
    let trace = assoc(&dir.join("trace"), queries, keys, bench.seed(1))?;
    let mut model = Model::of(&trace);
    let (mut seen, mut models) = (Vec::new(), Vec::new());
    for round in 1..=2 {
        bench.step(&format!("round {round}"));
        let made = dir.join(format!("{round}"));
        of_model(&model, bench.seed(1 + round), &made)?;
        seen.push(observe(&made)?);
        model = Model::of(&seen[seen.len() - 1]);
        models.push(model.clone());
    }
    let apart = distances(&seen[0], &seen[1])?;
    for (name, distance) in DISTANCES.iter().zip(apart) {
        found.check(
            format!("distance of {name}, round 2 from 1"),
            Bound::AtMost(0.02),
            distance,
        );
    }
    found.figures.push(
        Figure::new("Distances of traces", "KS", DISTANCES)
            .all_measured("round 1 from the trace", &distances(&trace, &seen[0])?)
            .all_measured("round 2 from round 1", &apart),
    );
    let (first, second) = (rate(&models[0]), rate(&models[1]));
    for (n, (name, within)) in [("amplitude", 0.05), ("period", 0.02), ("mean", 0.02)]
        .into_iter()
        .enumerate()
    {
        found.check(
            format!("{name} of the rate, round 2 over 1"),
            Bound::Within(1.0 - within, 1.0 + within),
            second[n] / first[n],
        );
    }
    let keys = |m: &Model| m.families.values().map(|f| f.keys as f64).sum::<f64>();
    found.check(
        "keys, round 2 over 1",
        Bound::Within(0.99, 1.01),
        keys(&models[1]) / keys(&models[0]),
    );
    std::fs::remove_dir_all(&dir)?;
    Ok(found)
}
