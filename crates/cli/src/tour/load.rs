//! Step 2: many entries, in batches, with a progress bar.

use super::model::{Model, key, put_value};
use super::show::Show;
use super::{builder, shape};
use crate::fail::At;
use crate::term;
use serde_json::json;
use spanlith::WriteBatch;
use std::path::Path;
use std::time::Instant;

const BATCH: u64 = 1000;

/// Loads; what is now there.
pub fn run(data: &Path, entries: u64, show: &mut Show) -> anyhow::Result<Model> {
    let start = Instant::now();
    let db = builder(data).must_be_new().open().at(data)?;
    let progress = term::bar(entries, "entries", "loading");
    let (mut batch, mut value, mut bytes) = (WriteBatch::new(), Vec::new(), 0u64);
    let mut next = 0;
    while next < entries {
        let end = (next + BATCH).min(entries);
        batch.clear();
        for n in next..end {
            let key = key(n);
            put_value(&mut value, n, 0);
            bytes += (key.len() + value.len()) as u64;
            batch.put(key, &value);
        }
        db.write(&batch).at(data)?;
        next = end;
        progress.set_position(next);
    }
    progress.finish_and_clear();
    let seconds = start.elapsed().as_secs_f64();
    let rate = entries as f64 / seconds.max(1e-9);
    show.say(&format!(
        "{} entries, {} of keys and values in {seconds:.1} s: {} entries/s",
        term::count(entries),
        term::bytes(bytes),
        term::count(rate as u64)
    ));
    show.dim(&format!("files per level: {}", shape(&db)));
    let size = db.int_property("rocksdb.total-sst-files-size").unwrap_or(0);
    db.close().at(data)?;
    show.record(
        "load",
        json!({
            "entries": entries, "bytes": bytes, "seconds": seconds, "entries_per_sec": rate,
            "table_bytes": size,
        }),
    );
    Ok(Model::new(entries))
}
