//! The outcome tables of `fixtures/wal/recovery`: what RocksDB recovers from damaged logs.

use crate::fixtures_dir;
use std::collections::{BTreeMap, BTreeSet};

/// One row: a damaged directory, opened in one recovery mode.
#[derive(Clone, Debug)]
pub struct RecoveryOutcome {
    /// Name of the damage; its files stand in `variants/<name>`.
    pub variant: String,
    /// Folder of the undamaged directory.
    pub base: String,
    /// RocksDB's number of the mode: 0 tolerates a torn tail, 1 is absolute, 2 is point in time, 3
    /// skips any damage.
    pub mode: i32,
    /// `OK`, `HANG…`, or the error.
    pub status: String,
    /// Keys by family, as [`named_keys`] reads them.
    pub recovered: String,
    /// The last sequence number after recovery.
    pub last_sequence: String,
}

/// The rows of 7.8.3, overruled by those of 11.8.1.
///
/// # Panics
/// If a table cannot be read or does not have the form.
pub fn recovery_outcomes() -> Vec<RecoveryOutcome> {
    let mut rows = BTreeMap::new();
    for table in ["outcomes.tsv", "outcomes-11.8.tsv"] {
        let path = fixtures_dir().join("wal/recovery").join(table);
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        for line in text.lines().skip(1) {
            let fields: Vec<String> = line.split('\t').map(str::to_string).collect();
            let Ok([variant, base, mode, status, recovered, last_sequence]) =
                <[String; 6]>::try_from(fields)
            else {
                panic!("{}: six fields, not {line}", path.display());
            };
            let mode = match mode.as_str() {
                "TolerateCorruptedTail" => 0,
                "Absolute" => 1,
                "PointInTime" => 2,
                "SkipAny" => 3,
                other => panic!("{}: no mode {other}", path.display()),
            };
            let key = (variant.clone(), mode);
            let row = RecoveryOutcome {
                variant,
                base,
                mode,
                status,
                recovered,
                last_sequence,
            };
            rows.insert(key, row);
        }
    }
    rows.into_values().collect()
}

/// Keys named by `k0-6 k10-19 (17)`: ranges of two-digit numbers; words in brackets do not count.
pub fn named_keys(text: &str) -> BTreeSet<String> {
    let words = text.split_whitespace().filter(|w| !w.starts_with('('));
    words
        .flat_map(|word| {
            let numbers = word.strip_prefix('k').and_then(|w| {
                let (from, to) = w.split_once('-').unwrap_or((w, w));
                Some((from.parse::<u32>().ok()?, to.parse::<u32>().ok()?))
            });
            match numbers {
                Some((from, to)) => (from..=to).map(|n| format!("k{n:02}")).collect(),
                None => vec![word.to_string()],
            }
        })
        .collect()
}
