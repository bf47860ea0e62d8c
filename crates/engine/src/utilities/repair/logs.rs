//! Collects what logs hold of each family.

use spanlith_base::Result;
use spanlith_env::FileSystem;
use spanlith_wal::{BatchIter, each_record};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The newest sequence number that each log has of each family, by log and family.
#[derive(Clone, Debug, Default)]
pub(super) struct Updates {
    newest: BTreeMap<(u64, u32), u64>,
    damaged: BTreeSet<u64>,
}

impl Updates {
    /// Reads all logs. What cannot be read is left out: their replay reports it.
    ///
    /// # Errors
    /// Of the file system.
    pub(super) fn read(fs: &dyn FileSystem, logs: &BTreeMap<u64, PathBuf>) -> Result<Self> {
        let mut newest: BTreeMap<(u64, u32), u64> = BTreeMap::new();
        let mut damaged = BTreeSet::new();
        for (&log, path) in logs {
            let mut take = |_: u64, record: &[u8]| {
                let Ok(batch) = BatchIter::new(record) else {
                    return;
                };
                let mut sequence = batch.sequence();
                for op in batch.into_iter().map_while(Result::ok) {
                    if let Some(cf) = op.cf() {
                        let newest = newest.entry((log, cf)).or_default();
                        *newest = sequence.max(*newest);
                    }
                    sequence = sequence.saturating_add(u64::from(op.is_counted()));
                }
            };
            let met = each_record(fs, path, log, &mut take)?;
            if met.is_damaged && !met.is_recycled {
                damaged.insert(log);
            }
        }
        Ok(Self { newest, damaged })
    }

    /// Ids of the families that they name.
    pub(super) fn families(&self) -> BTreeSet<u32> {
        self.newest.keys().map(|(_, family)| *family).collect()
    }

    /// Newest number of a family in the logs from a number on.
    pub(super) fn newest(&self, family: u32, from_log: u64) -> Option<u64> {
        let of_family = self.newest.iter().filter(|((_, id), _)| *id == family);
        let needed = of_family.filter(|((log, _), _)| *log >= from_log);
        needed.map(|(_, newest)| *newest).max()
    }

    /// The first log with an update of a family that is newer than a number.
    pub(super) fn first_beyond(&self, family: u32, sequence: u64) -> Option<u64> {
        let of_family = self.newest.iter().filter(|((_, id), _)| *id == family);
        let mut beyond = of_family.filter(|(_, newest)| **newest > sequence);
        beyond.next().map(|((log, _), _)| *log)
    }

    /// Logs of which something cannot be read: damage, or what a crash cut off.
    pub(super) fn damaged(&self) -> &BTreeSet<u64> {
        &self.damaged
    }
}
