//! X-WL-3: what the analysis says of the three reference workloads, against what the document says of the databases they stand
//! for ([WL] §4, Table 2, Figures 2 to 8).

use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::analyze::Operation;
use crate::generate::reference::{Action, Event, REFERENCES, Reference};
use crate::model::{FamilyObservation, Observation};
use crate::traces::{observe, of_day};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WL-3",
    title: "Analysis of synthetic days of UDB, ZippyDB and UP2X",
    document: "[WL] §4, Table 2, Figures 2 to 8",
    requirements: "R-WL-05, R-WL-06, R-WL-07, R-WL-11, R-WL-15, R-WL-16, R-WL-17, R-WL-18, R-WL-19",
    setup: "A day of each database with 1 000 000 events, written as a trace with the file beside it, and read back.",
    criterion: "types, mean sizes of keys and values, and keys with one access as drawn, to the last event; shares of types within 0.2 points \
                of the document's, mean sizes of keys within 2 % of Table 2",
    stores: Stores::Ours,
    run,
};

/// Describes what is compared of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Marginals {
    /// Shares of gets, puts, merges, deletions of both kinds, scans.
    types: [f64; 5],
    key_size: f64,
    value_size: f64,
    scan_length: f64,
}

/// Shares that the document prints: gets, puts, merges, deletions, scans; and the mean size of a key in Table 2.
const PRINTED: [(&str, [Option<f64>; 5], f64); 3] = [
    ("udb", [None; 5], 27.1),
    (
        "zippydb",
        [Some(0.78), Some(0.13), Some(0.0), Some(0.06), Some(0.03)],
        47.9,
    ),
    (
        "up2x",
        [Some(0.0746), Some(0.0), Some(0.9253), Some(0.0), Some(0.0)],
        10.45,
    ),
];

fn place(action: Action) -> usize {
    match action {
        Action::Get => 0,
        Action::Put => 1,
        Action::Merge => 2,
        Action::Delete | Action::SingleDelete => 3,
        Action::Scan => 4,
    }
}

/// Returns what the generator drew.
fn drawn(database: &Reference, day: &[Event]) -> Marginals {
    let (mut counts, mut out) = ([0.0; 5], Marginals::default());
    let mut key = Vec::new();
    for event in day {
        counts[place(event.action)] += 1.0;
        database.key(event.family, event.key, &mut key);
        out.key_size += key.len() as f64;
        match event.action {
            Action::Put | Action::Merge => out.value_size += event.value_size as f64,
            Action::Scan => out.scan_length += event.scan_length as f64,
            _ => {}
        }
    }
    out.types = counts.map(|n| n / day.len() as f64);
    out.key_size /= day.len() as f64;
    out.value_size /= f64::max(counts[1] + counts[2], 1.0);
    out.scan_length /= f64::max(counts[4], 1.0);
    out
}

/// Returns what the analysis saw.
fn observed(seen: &Observation) -> Marginals {
    let of = |operations: &[Operation]| -> f64 {
        operations.iter().map(|o| seen.accesses(*o) as f64).sum()
    };
    let counts = [
        of(&[Operation::Get]),
        of(&[Operation::Put]),
        of(&[Operation::Merge]),
        of(&[Operation::Delete, Operation::SingleDelete]),
        of(&[Operation::Seek]),
    ];
    let mean = |sizes: fn(&FamilyObservation) -> &crate::model::Sizes| {
        let all = || seen.families.values().map(sizes);
        let sum: f64 = all().map(|s| s.mean() * s.total() as f64).sum();
        sum / f64::max(all().map(|s| s.total() as f64).sum(), 1.0)
    };
    Marginals {
        types: counts.map(|n| n / counts.iter().sum::<f64>()),
        key_size: mean(|f| &f.key_sizes),
        value_size: mean(|f| &f.value_sizes),
        scan_length: mean(|f| &f.scan_lengths),
    }
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let dir = bench.place()?;
    bench.expect(REFERENCES.len() as u64);
    for database in REFERENCES {
        bench.step(database.name);
        let day = database.day(bench.scaled(1_000_000, 20_000), bench.seed(1));
        let wanted = drawn(&database, &day);
        let trace = dir.join("trace");
        of_day(&database, &day, bench.seed(2), &trace)?;
        let seen = observed(&observe(&trace)?);
        let name = database.name;
        for (n, what) in ["gets", "puts", "merges", "deletions", "scans"]
            .iter()
            .enumerate()
        {
            found.check(
                format!("{name}: share of {what}, observed less drawn"),
                Bound::Within(-1e-9, 1e-9),
                seen.types[n] - wanted.types[n],
            );
        }
        // Sizes above 4096 are counted in classes of a sixty-fourth.
        for (what, seen, wanted) in [
            ("size of a key", seen.key_size, wanted.key_size),
            ("size of a value", seen.value_size, wanted.value_size),
            ("length of a scan", seen.scan_length, wanted.scan_length),
        ] {
            found.check(
                format!("{name}: mean {what}, observed over drawn"),
                Bound::Within(0.99, 1.01),
                if wanted == seen { 1.0 } else { seen / wanted },
            );
        }
        let Some(&(_, types, key_size)) = PRINTED.iter().find(|p| p.0 == name) else {
            continue;
        };
        for (n, printed) in types.iter().enumerate() {
            if let Some(printed) = printed {
                found.check(
                    format!("{name}: share {n} of the types less the document's"),
                    Bound::Within(-0.002, 0.002),
                    seen.types[n] - printed,
                );
            }
        }
        found.check(
            format!("{name}: mean size of a key over Table 2's"),
            Bound::Within(0.98, 1.02),
            seen.key_size / key_size,
        );
        found.figures.push(
            Figure::new(
                format!("{name}: shares of types"),
                "of all",
                ["get", "put", "merge", "delete", "scan"],
            )
            .printed("[WL]", &types)
            .all_measured("analysis", &seen.types),
        );
        found.figures.push(
            Figure::new(format!("{name}: mean sizes"), "bytes", ["key", "value"])
                .printed("[WL] Table 2", &[Some(key_size), None])
                .all_measured("analysis", &[seen.key_size, seen.value_size]),
        );
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(found)
}
