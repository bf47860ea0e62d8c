//! A merge operator of one's own: operands are folded when they are read or compacted.

use spanlith::{Db, MergeOperator, Result};
use std::sync::Arc;

/// Keeps the largest number.
struct Largest;

impl MergeOperator for Largest {
    fn name(&self) -> &str {
        "example.Largest"
    }

    fn full_merge(&self, _: &[u8], old: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<u64>().ok();
        let mut largest = 0;
        for bytes in old.iter().chain(operands) {
            largest = largest.max(number(bytes)?);
        }
        Some(largest.to_string().into_bytes())
    }
}

pub(crate) fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("spanlith-merge-{}", std::process::id()));
    let db = Db::builder(&dir)
        .create_if_missing(true)
        .merge_operator(Arc::new(Largest))
        .open()?;
    let scores = db.default_cf();
    for score in ["7", "31", "12"] {
        // No read, no lock: an operand is appended.
        scores.merge("ann", score)?;
    }
    assert_eq!(scores.get("ann")?.as_deref(), Some(&b"31"[..]));
    db.close()?;
    Db::destroy(&dir)
}
