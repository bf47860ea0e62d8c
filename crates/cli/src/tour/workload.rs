//! Step 4: what is asked is recorded, modelled without its keys, and made again.

use super::builder;
use super::model::key;
use super::show::Show;
use crate::fail::At;
use crate::term::{bytes, count};
use serde_json::json;
use spanlith::trace::{TraceOptions, extension_path};
use spanlith::{Cf, ReadOptions, Result};
use spanlith_workload::analyze::Operation;
use spanlith_workload::generate::{Rng, Zipfian};
use spanlith_workload::model::{FamilyObservation, Model};
use spanlith_workload::traces::{observe, of_model};
use std::path::Path;

/// Skew of what is asked for, so that there is something to recognise.
const SKEW: f64 = 0.8;

/// Asks for skewed keys, one in ten with a scan after it. Nothing is written.
fn ask(cf: &Cf, entries: u64, requests: u64) -> Result<()> {
    let (keys, mut rng) = (Zipfian::new(entries, SKEW), Rng::new(5));
    for _ in 0..requests {
        let key = key(keys.rank(rng.unit()));
        if rng.below(10) > 0 {
            cf.get(&key)?;
            continue;
        }
        let mut cursor = cf.cursor(ReadOptions::new());
        let mut valid = cursor.seek(&key)?;
        for _ in 0..rng.below(20) {
            if !valid {
                break;
            }
            valid = cursor.next()?;
        }
    }
    Ok(())
}

/// Records, models and makes again.
pub fn run(dir: &Path, data: &Path, entries: u64, show: &mut Show) -> anyhow::Result<()> {
    let requests = (entries / 10).max(1000);
    let (trace, made) = (dir.join("requests.trace"), dir.join("requests-made.trace"));
    let db = builder(data).open().at(data)?;
    let options = TraceOptions {
        with_extension: true,
        ..TraceOptions::default()
    };
    db.start_trace(&trace, &options).at(dir)?;
    let asked = ask(&db.default_cf(), entries, requests);
    let summary = db.end_trace().at(dir)?;
    asked.at(data)?;
    db.close().at(data)?;
    show.verdict(
        summary.records == requests && summary.dropped == 0,
        &format!(
            "{} requests recorded, {}",
            count(summary.records),
            bytes(summary.bytes)
        ),
    );
    let seen = observe(&trace).at(dir)?;
    let model = Model::of(&seen);
    let text = format!("{:#}\\n", model.to_json());
    std::fs::write(dir.join("model.json"), &text)?;
    show.verdict(
        !text.contains("user0"),
        &format!(
            "model.json: {} without a key or a value",
            bytes(text.len() as u64)
        ),
    );
    of_model(&model, 1, &made).at(dir)?;
    let again = observe(&made).at(dir)?;
    let none = FamilyObservation::default();
    let of = |all: &spanlith_workload::model::Observation| {
        all.families
            .get(&0)
            .unwrap_or(&none)
            .access_counts(Operation::Get)
    };
    let apart = of(&seen).distance(&of(&again));
    show.verdict(
        apart <= 0.05,
        &format!(
            "{} requests made of the model; gets of a key are distributed {:.1} % apart (Kolmogorov-Smirnov)",
            count(again.requests),
            apart * 100.0
        ),
    );
    show.record(
        "workload",
        json!({
            "recorded": summary.records, "trace_bytes": summary.bytes, "model_bytes": text.len(),
            "made": again.requests, "distance": apart,
        }),
    );
    for file in [&trace, &made] {
        std::fs::remove_file(file)?;
        std::fs::remove_file(extension_path(file))?;
    }
    Ok(())
}
