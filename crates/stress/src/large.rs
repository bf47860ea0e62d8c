//! Entries at the limit of 4 GiB and batches beyond it, through logs, memtables, tables and back, on a
//! real disk. Needs 13 GB of memory and of disk.

use spanlith::options::DbOptions;
use spanlith::{Db, WriteBatch};
use spanlith_base::keys::ENTRY_MAX;
use std::path::{Path, PathBuf};

/// Describes what to run.
#[derive(Clone, Debug)]
pub struct LargePlan {
    /// Where the database goes; must not exist.
    pub dir: PathBuf,
}

/// Runs the steps, and tells each to `step` before it begins. Returns how many reads were right.
///
/// # Errors
/// The first wrong answer or failed call.
pub fn run_large(plan: &LargePlan, mut step: impl FnMut(&str)) -> Result<u64, String> {
    let mut run = Run {
        db: Some(open(&plan.dir)?),
        dir: plan.dir.clone(),
        reads: 0,
    };
    let mut large = vec![0u8; ENTRY_MAX - 1];
    (large[0], large[ENTRY_MAX - 2]) = (1, 2);
    let whole = Some((ENTRY_MAX - 1, Some(1), Some(2)));

    step("an entry of 4 GiB less 64 KiB into log and memtable");
    run.put("a", b"small")?;
    run.put("k", &large)?;
    run.put("z", b"small")?;
    run.expect("k", whole)?;
    step("a recovery of the log");
    run.reopen()?;
    run.expect("k", whole)?;
    step("a flush");
    run.db()?.flush(true).map_err(text)?;
    run.expect("k", whole)?;
    step("a compaction");
    run.db()?.default_cf().delete("a").map_err(text)?;
    let all = run.db()?.default_cf().compact_range(None, None);
    all.map_err(text)?;
    run.expect("k", whole)?;
    run.expect("a", None)?;
    run.expect("z", Some((5, Some(b's'), Some(b'l'))))?;

    step("a batch of 6 GiB, and a recovery of its log");
    let part = &large[..ENTRY_MAX / 2];
    let mut batch = WriteBatch::new();
    for key in ["k", "l", "m"] {
        batch.put(key, part);
    }
    run.db()?.write(&batch).map_err(text)?;
    drop(batch);
    run.reopen()?;
    for key in ["k", "l", "m"] {
        run.expect(key, Some((ENTRY_MAX / 2, Some(1), Some(0))))?;
    }
    Ok(run.reads)
}

/// Length, first and last byte of a value.
type Seen = (usize, Option<u8>, Option<u8>);

struct Run {
    /// `None` while it is closed.
    db: Option<Db>,
    dir: PathBuf,
    reads: u64,
}

impl Run {
    fn db(&self) -> Result<&Db, String> {
        self.db
            .as_ref()
            .ok_or_else(|| "the database is closed".to_string())
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), String> {
        self.db()?.default_cf().put(key, value).map_err(text)
    }

    fn expect(&mut self, key: &str, expected: Option<Seen>) -> Result<(), String> {
        let value = self.db()?.default_cf().get(key).map_err(text)?;
        let seen = value.map(|v| (v.len(), v.first().copied(), v.last().copied()));
        if seen != expected {
            return Err(format!("{key}: {seen:?} instead of {expected:?}"));
        }
        self.reads += 1;
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), String> {
        if let Some(db) = self.db.take() {
            db.close().map_err(text)?;
        }
        self.db = Some(open(&self.dir)?);
        Ok(())
    }
}

fn open(dir: &Path) -> Result<Db, String> {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    // So that logs are replayed.
    options.avoid_flush_during_shutdown = true;
    Db::builder(dir).options(options).open().map_err(text)
}

fn text(e: spanlith::Error) -> String {
    e.to_string()
}
