//! Integer properties summed up over all families.

use super::Properties;
use super::integers::{At, names, value};
use std::collections::BTreeSet;

/// Numbers of the whole database: counted once, whatever the number of families.
const OF_THE_DATABASE: &[&str] = &[
    "num-running-compactions",
    "background-errors",
    "is-file-deletions-enabled",
    "num-snapshots",
    "oldest-snapshot-time",
    "oldest-snapshot-sequence",
    "min-log-number-to-keep",
    "min-obsolete-sst-number-to-keep",
    "actual-delayed-write-rate",
    "is-write-stopped",
    "compaction-abort-count",
];

impl Properties<'_> {
    /// The sum over all families of an integer property by its full name.
    pub(in crate::db) fn aggregated_integer(&self, name: &str) -> Option<u64> {
        let name = name.strip_prefix("rocksdb.")?;
        names().find(|n| *n == name)?;
        let state = self.state.lock();
        let mut caches = BTreeSet::new();
        let mut sum = 0u64;
        for f in state.families.values() {
            if super::integers::OF_CACHES.contains(&name) {
                let cache = f.family.cache.readers.cache.as_ref();
                if !cache.is_some_and(|c| caches.insert(c.identity())) {
                    continue;
                }
            }
            let at = At {
                e: self,
                s: &state,
                f,
            };
            sum = sum.saturating_add(value(name, &at)?);
            if OF_THE_DATABASE.contains(&name) {
                break;
            }
        }
        Some(sum)
    }
}
